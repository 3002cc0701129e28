//! What a line said and the rest of the logs takes back.

use std::collections::BTreeSet;

use super::{Draft, Scene};
use crate::engine::catalog::misspelt;
use crate::engine::event::Exit;
use crate::engine::hits::{Captured, HitRecord};
use crate::engine::ids::WriterIx;
use crate::engine::job::Kept;

/// Rules that say that start-up ends: a rank that goes on behind the line got what it needed elsewhere, from another
/// plugin or at another try.
const ENDS_START_UP: [&str; 5] = ["IB001", "NET001", "NET008", "PLUG001", "PLUG004"];

/// Of the lines of this rule those that still hold.
pub(super) fn left<'a>(
    scene: &Scene<'_>,
    id: &str,
    mut records: Vec<(WriterIx, &'a HitRecord)>,
) -> Vec<(WriterIx, &'a HitRecord)> {
    if id == "ENV002" && misspelt_names(scene, &records).is_empty() {
        records.clear();
    } else if id == "STOP002" {
        records.retain(|(_, record)| !failed_before(scene, record));
    } else if ENDS_START_UP.contains(&id) {
        records.retain(|(writer, record)| !went_on(scene, *writer, record));
    }
    records
}

/// True if all that is said is that a step was cancelled, and srun reported before that a task had failed: srun ended
/// the others then, and nobody from outside.
fn failed_before(scene: &Scene<'_>, record: &HitRecord) -> bool {
    let bare = |captures: &Captured| {
        let reason = captures.get("reason");
        reason.is_some_and(|reason| reason.starts_with("STEP "))
    };
    let Some(first) = record
        .lines
        .first()
        .filter(|_| record.captures.iter().all(bare))
    else {
        return false;
    };
    let reports = ["STOP003", "HOST002"].map(|id| scene.catalog.by_id(id));
    scene.hits.by_rule().any(|(rule, _, report)| {
        let before = |line: &Kept| {
            line.place.source == first.place.source && line.place.number < first.place.number
        };
        reports.contains(&Some(rule)) && report.lines.iter().any(before)
    })
}

/// True if the rank began a communicator or made a call behind the last of the lines, or its launcher says that it
/// ended well.
fn went_on(scene: &Scene<'_>, writer: WriterIx, record: &HitRecord) -> bool {
    let Some(rank) = scene.ranks.rank_of(writer) else {
        return false;
    };
    let report = scene.reports.of_rank(rank).and_then(|report| report.exit);
    // Only the first lines are kept: of more nobody knows where the last stands.
    let last = record
        .lines
        .last()
        .filter(|_| record.count == record.lines.len() as u64);
    let works = |line: &Kept| {
        let rec = scene.ranks.ranks.get(rank as usize);
        rec.is_some_and(|rec| {
            let mut records = scene.records(rec);
            records.any(|r| r.source == line.place.source && r.worked > line.place.number)
        })
    };
    report == Some(Exit::Code(0)) || last.is_some_and(works)
}

/// Which names are misspelt, and what was meant.
pub(super) fn misspelt(
    scene: &Scene<'_>,
    records: &[(WriterIx, &HitRecord)],
    draft: &mut Draft<'_>,
) {
    let names = misspelt_names(scene, records);
    let told: Vec<String> = names
        .iter()
        .map(|(name, right)| format!("{name} (meant: {right})"))
        .collect();
    let right: BTreeSet<&str> = names.iter().map(|(_, right)| *right).collect();
    let of_nccl = right.iter().all(|name| name.starts_with("NCCL_"));
    let right: Vec<&str> = right.into_iter().collect();
    draft
        .fact("names", told.join(", "))
        .fact("right", right.join(", "))
        .fact("nccl_name", if of_nccl { "yes" } else { "" });
}

/// A shell variable of the job's own that only resembles one is no mistake: the one that it was meant for is set.
fn misspelt_names(
    scene: &Scene<'_>,
    records: &[(WriterIx, &HitRecord)],
) -> BTreeSet<(String, &'static str)> {
    let captured = records.iter().flat_map(|(_, record)| &record.captures);
    let names = captured.filter_map(|captures| captures.get("variable"));
    names
        .flat_map(|names| names.split(", "))
        .filter_map(|name| Some((name.to_owned(), misspelt::meant(name)?)))
        .filter(|(_, right)| !is_set_everywhere(scene, right))
        .collect()
}

/// Every rank that prints its variables has this one.
fn is_set_everywhere(scene: &Scene<'_>, name: &str) -> bool {
    let mut printing = scene
        .all_records()
        .map(|(_, record)| &record.env)
        .filter(|env| !env.is_empty())
        .peekable();
    printing.peek().is_some() && printing.all(|env| env.contains_key(name))
}
