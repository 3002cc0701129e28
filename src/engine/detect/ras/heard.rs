//! What RAS told by itself: processes that were given up, and its words about those that others say ended.

use std::collections::BTreeSet;

use super::{Ids, LINES, Scene};
use crate::engine::detect::draft::cited;
use crate::engine::finding::Finding;
use crate::engine::job::Heard;
use crate::engine::ras::events::Change;
use crate::engine::vocab::{Class, Role};
use crate::engine::witness::Witness;

/// World ranks of processes that are not well by what was told, as far as they can be placed: by an answer that lists
/// them, or by a pid, if those of all ranks are known.
pub(super) fn placed<'s>(scene: &'s Scene<'_>, ids: &Ids) -> Vec<(u32, &'s Heard)> {
    let ranks = &scene.ranks.ranks;
    let all = !ranks.is_empty() && ranks.iter().all(|rec| rec.pid.is_some());
    let heard = scene.job.ras.heard.iter();
    let unwell = heard.filter(|(_, heard)| heard.change != Change::Well);
    let placed = unwell.filter_map(|(process, heard)| {
        let told = ids.told.values().find_map(|told| *told.get(process)?);
        let by_pid = || ids.pids.get(&process.1).copied().flatten().filter(|_| all);
        Some((told.or_else(by_pid)?, heard))
    });
    placed.collect()
}

/// Adds what was told of the ranks that a finding says ended.
pub(super) fn support(scene: &Scene<'_>, ids: &Ids, found: &mut [Finding]) {
    let placed = placed(scene, ids);
    let died = |f: &&mut Finding| f.role == Role::Cause && f.class == Class::RankDied;
    for finding in found.iter_mut().filter(died) {
        let known: BTreeSet<_> = finding
            .evidence
            .iter()
            .map(|e| (e.source, e.offset))
            .collect();
        let of = placed
            .iter()
            .filter(|(rank, _)| finding.accused.contains(rank));
        let lines = of.flat_map(|(rank, heard)| {
            let told = heard.told.iter().filter_map(|peer| peer.line.as_ref());
            told.map(|line| cited(line, Some(*rank)))
        });
        let fresh = lines.filter(|e| !known.contains(&(e.source, e.offset)));
        let fresh: Vec<_> = fresh.take(LINES).collect();
        if !fresh.is_empty() {
            finding.evidence.extend(fresh);
            finding.pointing = finding.accusers();
            finding.pointing.insert(Witness::Ras);
            finding.witnesses.insert(Witness::Ras);
        }
    }
}
