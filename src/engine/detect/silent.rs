//! A rank that fell silent while the others of the same stream went on.

use std::collections::BTreeMap;

use super::{Draft, Scene};
use crate::engine::finding::Finding;
use crate::engine::ids::SourceId;
use crate::engine::vocab::{Effect, Role, Severity};

/// Lines that every other rank must have written after the silent one's last line.
const LINES_AFTER: usize = 2;

/// Adds a finding only where the user says that the job stands still and nothing else explains it:
/// silence alone is no proof, and rank 0 often prints more than the others.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    if scene.claimed
        && !found
            .iter()
            .any(|f| f.role == Role::Cause && f.severity == Severity::Error)
    {
        found.extend(silent(scene));
    }
}

fn silent(scene: &Scene<'_>) -> Option<Finding> {
    // The last line of each rank, by source: only one stream has an order.
    let mut last: BTreeMap<SourceId, BTreeMap<u32, u64>> = BTreeMap::new();
    for rec in &scene.ranks.ranks {
        for record in scene.records(rec) {
            let Some(line) = &record.last else { continue };
            let number = last
                .entry(record.source)
                .or_default()
                .entry(rec.rank)
                .or_default();
            *number = (*number).max(line.place.number);
        }
    }
    let (_, ranks) = last.into_iter().find(|(_, ranks)| ranks.len() >= 2)?;
    let first = ranks.values().min()?;
    let behind: Vec<u32> = ranks
        .iter()
        .filter(|(_, n)| *n == first)
        .map(|(rank, _)| *rank)
        .collect();
    let went_on = ranks.iter().filter(|(rank, _)| !behind.contains(rank));
    let all_went_on = went_on
        .clone()
        .all(|(_, n)| n.saturating_sub(*first) >= LINES_AFTER as u64);
    if behind.len() * 2 > ranks.len() || !all_went_on {
        return None;
    }
    let mut draft = Draft::new(scene, "RANK006")?;
    let finding = draft.finding();
    finding.role = Role::Cause;
    finding.severity = Severity::Error;
    finding.effect = Effect::Standstill;
    draft
        .ranks(ranks.keys().copied())
        .accuse(behind.iter().copied())
        .fact("silence", "");
    for rank in ranks.keys() {
        let rec = &scene.ranks.ranks[*rank as usize];
        if let Some(line) = scene
            .records(rec)
            .filter_map(|r| r.last.as_ref())
            .max_by_key(|l| l.place)
        {
            draft.evidence(line, Some(*rank));
        }
    }
    draft.named(behind);
    Some(draft.build())
}
