//! What PyTorch's own words show where NCCL's calls are not logged: the operation that each rank's
//! watchdog gave up on, and the call that each traceback stands in.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Scene, ranges};
use crate::engine::finding::Finding;
use crate::engine::job::Kept;
use crate::engine::vocab::{Class, Confidence, Role};

/// Adds a finding where ranks stood in different calls and nothing surer says so.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    if found
        .iter()
        .any(|f| f.class == Class::MismatchedCollective && f.role == Role::Cause)
    {
        return;
    }
    found.extend(by_watchdog(scene).or_else(|| by_frame(scene)));
}

/// Ranks by what they called, with a line of each.
type Calls<'a> = BTreeMap<String, BTreeMap<u32, &'a Kept>>;

/// Operations that differ at one sequence number. Only single ones: which number a coalesced group
/// or a point-to-point call counts under differs between healthy ranks.
fn by_watchdog(scene: &Scene<'_>) -> Option<Finding> {
    let mut by_seq: BTreeMap<u64, Calls<'_>> = BTreeMap::new();
    for (rank, record) in scene.all_records() {
        let (Some(rank), Some(watchdog)) = (rank, record.watchdogs.first()) else {
            continue;
        };
        let single = !matches!(
            watchdog.op.as_str(),
            "SEND" | "RECV" | "RECVANYSOURCE" | "COALESCED" | "UNKNOWN"
        );
        // One group only: the default one is the only one that is the same on all ranks.
        if single && record.work.keys().all(|group| group.contains("default_pg")) {
            let calls = by_seq.entry(watchdog.seq).or_default();
            calls
                .entry(watchdog.op.clone())
                .or_default()
                .insert(rank, &watchdog.line);
        }
    }
    let (seq, calls) = by_seq.into_iter().find(|(_, calls)| calls.len() > 1)?;
    finding(scene, &calls, Some(seq))
}

/// Calls that the tracebacks of ranks that gave up waiting stand in.
fn by_frame(scene: &Scene<'_>) -> Option<Finding> {
    let mut calls: Calls<'_> = BTreeMap::new();
    for (rank, record) in scene.all_records() {
        let (Some(rank), Some((name, line))) = (rank, &record.calling) else {
            continue;
        };
        let collective = COLLECTIVES.contains(&name.as_str());
        if collective && !record.exceptions.is_empty() {
            calls.entry(name.clone()).or_default().insert(rank, line);
        }
    }
    // All of them must have waited: one that raised an error of its own says nothing.
    let waited: BTreeSet<u32> = scene
        .hits
        .by_rule()
        .filter(|(rule, ..)| {
            let rule = scene.catalog.rule(*rule);
            rule.class == Class::Inconclusive || rule.id.starts_with("WAIT")
        })
        .filter_map(|(_, writer, _)| scene.ranks.rank_of(writer))
        .collect();
    let ranks = calls.values().flat_map(BTreeMap::keys);
    let all_waited = ranks.into_iter().all(|rank| waited.contains(rank));
    if calls.len() < 2 || !all_waited {
        return None;
    }
    finding(scene, &calls, None)
}

/// `torch.distributed`'s collectives, as the frames name them.
const COLLECTIVES: [&str; 14] = [
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "all_gather_object",
    "broadcast_object_list",
];

fn finding(scene: &Scene<'_>, calls: &Calls<'_>, seq: Option<u64>) -> Option<Finding> {
    let mut sides: Vec<(&String, &BTreeMap<u32, &Kept>)> = calls.iter().collect();
    sides.sort_by_key(|(_, ranks)| (std::cmp::Reverse(ranks.len()), ranks.keys().next().copied()));
    let (major, minor) = (sides[0], sides[1]);
    let others: BTreeSet<u32> = sides[1..]
        .iter()
        .flat_map(|(_, ranks)| ranks.keys().copied())
        .collect();
    let majority = major.1.len() > others.len();
    let mut draft = Draft::new(scene, if majority { "COLL001" } else { "COLL002" })?;
    draft
        .fact(
            "ordinal",
            seq.map(|seq| seq.to_string()).unwrap_or_default(),
        )
        .fact("minority", ranges(minor.1.keys().copied()))
        .fact("minority_call", minor.0.clone())
        .fact("majority", ranges(major.1.keys().copied()))
        .fact("majority_call", major.0.clone())
        .fact("aspect", "function")
        .ranks(calls.values().flat_map(|ranks| ranks.keys().copied()))
        .sure(if seq.is_some() {
            Confidence::Certain
        } else {
            Confidence::Likely
        });
    if majority {
        draft.accuse(others);
    }
    for (_, ranks) in sides {
        for (rank, line) in ranks.iter().take(3) {
            draft.evidence(line, Some(*rank));
        }
    }
    Some(draft.build())
}
