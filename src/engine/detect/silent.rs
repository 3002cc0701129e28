//! A rank that fell silent while the others of the same stream went on.

use std::collections::BTreeMap;

use super::said::said;
use super::stack::last_words;
use super::{Draft, Scene, wait};
use crate::engine::demux::Writer;
use crate::engine::finding::Finding;
use crate::engine::ids::SourceId;
use crate::engine::job::RankRec;
use crate::engine::vocab::{Class, Effect, Role, Severity};

/// Adds a finding only where the user says that the job stands still and nothing else explains it:
/// silence alone is no proof, and rank 0 often prints more than the others.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    // Who lost a peer prints about it: that others wrote more then does not show that they went on.
    let says_more = |f: &Finding| {
        f.role == Role::Cause && f.severity == Severity::Error
            || f.role == Role::Symptom && f.class == Class::RankDied
    };
    if scene.claimed && !found.iter().any(says_more) {
        found.extend(silent(scene));
    }
}

fn silent(scene: &Scene<'_>) -> Option<Finding> {
    // The last line of each rank, and its third last, by source: only one stream has an order.
    let mut last: BTreeMap<SourceId, BTreeMap<u32, (u64, u64)>> = BTreeMap::new();
    for rec in &scene.ranks.ranks {
        for record in scene.records(rec) {
            let [third_last, _, newest] = record.tail;
            let of_rank = last.entry(record.source).or_default();
            let known = of_rank.entry(rec.rank).or_default();
            *known = (known.0.max(newest), known.1.max(third_last));
        }
    }
    let (_, ranks) = last.into_iter().find(|(_, ranks)| ranks.len() >= 2)?;
    let first = ranks.values().map(|(newest, _)| *newest).min()?;
    let (behind, others): (Vec<_>, Vec<_>) =
        ranks.iter().partition(|(_, (newest, _))| *newest == first);
    // Each of the others wrote three more lines: its turn did not merely come later.
    let went_on = others.iter().all(|(_, (_, third))| *third > first);
    // And it wrote less than each of them in all: else it only wrote the same a little earlier.
    let lines = |rank: &u32| scene.ranks.ranks[*rank as usize].lines;
    let wrote = behind.iter().map(|(rank, _)| lines(rank)).max()?;
    let less = others.iter().all(|(rank, _)| lines(rank) >= wrote + 3);
    if behind.len() > others.len() || !went_on || !less || wait::end_was_seen(scene) {
        return None;
    }
    let behind: Vec<u32> = behind.into_iter().map(|(rank, _)| *rank).collect();
    let mut draft = Draft::new(scene, "RANK006")?;
    let finding = draft.finding();
    finding.role = Role::Cause;
    finding.severity = Severity::Error;
    finding.effect = Effect::Standstill;
    draft
        .ranks(ranks.keys().copied())
        .accuse(behind.iter().copied())
        .named(behind.iter().copied());
    if let [one] = behind.as_slice() {
        let rec = &scene.ranks.ranks[*one as usize];
        draft.fact("who", process_name(scene, rec));
        if let Some(line) = last_words(scene, rec) {
            draft.fact("last", last_said(&line.text()));
        }
    }
    for rank in ranks.keys() {
        let rec = &scene.ranks.ranks[*rank as usize];
        let last = scene.records(rec).filter_map(|r| r.last.as_ref());
        if let Some(line) = last.max_by_key(|l| l.place) {
            draft.evidence(line, Some(*rank));
        }
    }
    Some(draft.build())
}

/// `Worker_TP1, pid 3666`: how the rank is found among the processes of its host.
fn process_name(scene: &Scene<'_>, rec: &RankRec) -> String {
    let mut writers = rec.writers.iter().map(|w| &scene.writers[w.ix()]);
    let name = writers.find_map(Writer::name).map(str::to_owned);
    let pid = rec.pid.map(|pid| format!("pid {pid}"));
    name.into_iter().chain(pid).collect::<Vec<_>>().join(", ")
}

/// `"Loading model from scratch..." (20:44:33)`
fn last_said(line: &str) -> String {
    const MOST: usize = 60;
    let said = said(line);
    let mut words: String = said.words.chars().take(MOST).collect();
    if words.len() < said.words.len() {
        words.push('…');
    }
    let time = said.time.map(|time| format!(" ({time})"));
    if words.is_empty() {
        return words;
    }
    format!("\"{words}\"{}", time.unwrap_or_default())
}
