//! What a line said and the rest of the logs takes back.

use std::collections::BTreeSet;

use super::{Draft, Scene};
use crate::engine::catalog::misspelt;
use crate::engine::hits::HitRecord;
use crate::engine::ids::WriterIx;

/// True if nothing is left of what the lines of this rule said.
pub(super) fn is_undone(scene: &Scene<'_>, id: &str, records: &[(WriterIx, &HitRecord)]) -> bool {
    match id {
        "ENV002" => misspelt_names(scene, records).is_empty(),
        _ => false,
    }
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
