//! Versions and variables that have to be the same on all ranks and are not.
//!
//! A difference alone hurts nobody for sure, so it is said only where start-up did not come to its
//! end, or a rank got a message that it did not understand.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Scene, ranges, wait};
use crate::engine::finding::Finding;
use crate::engine::job::{Kept, RankRec, Record};
use crate::engine::vocab::Phase;

/// Variables by which ranks plan what they send each other.
const PLANNING: &[&str] = &[
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_NRINGS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_NRINGS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NET",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_PROTO",
];

/// Rules that say that a rank got a message of another length than it expected.
const TRUNCATED: &[&str] = &["VER002", "NET011"];

/// Adds findings about what differs between the ranks.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let misunderstood = found.iter().any(|f| TRUNCATED.contains(&f.id.as_str()));
    let stuck = (scene.claimed || wait::standstill(scene).is_some()) && !scene.init_is_complete();
    if misunderstood || stuck {
        found.extend(versions(scene));
        found.extend(PLANNING.iter().filter_map(|name| variable(scene, name)));
    }
}

fn versions(scene: &Scene<'_>) -> Option<Finding> {
    let split = Split::of(scene, |_, records| records.iter().find_map(|r| r.nccl.as_ref()).map(Value::of))?;
    let mut draft = Draft::new(scene, "VER003")?;
    draft
        .fact("what", "NCCL")
        .fact("odd_version", split.odd_value)
        .fact("odd_ranks", ranges(split.odd.iter().copied()))
        .fact("usual_version", split.usual_value)
        .fact("usual_ranks", ranges(split.usual.iter().copied()));
    Some(split.finish(draft))
}

fn variable(scene: &Scene<'_>, name: &str) -> Option<Finding> {
    let set: Vec<&Record> = scene.all_records().map(|(_, r)| r).filter(|r| r.env.contains_key(name)).collect();
    // NCCL prints a variable when it first looks at it: a rank that got as far as one that has
    // printed it, and says nothing, has it not.
    let there = set.iter().map(|r| far(r)).min()?;
    let split = Split::of(scene, |_, records| match records.iter().find_map(|r| r.env.get(name)) {
        Some(seen) => Some(Value::of(seen)),
        None => records.iter().any(|r| far(r) >= there && !r.members.is_empty()).then(Value::default),
    })?;
    let mut draft = Draft::new(scene, "ENV001")?;
    draft
        .fact("variable", name)
        .fact("odd_value", split.odd_value)
        .fact("odd_ranks", ranges(split.odd.iter().copied()))
        .fact("usual_value", split.usual_value)
        .fact("usual_ranks", ranges(split.usual.iter().copied()));
    Some(split.finish(draft))
}

/// How far start-up got; an end by error or kill is no progress.
fn far(record: &Record) -> Phase {
    record.phase.min(Phase::Collective)
}

/// A value on one rank; empty where it is at its default.
#[derive(Clone, Copy, Default)]
struct Value<'a> {
    text: &'a str,
    line: Option<&'a Kept>,
}

impl<'a> Value<'a> {
    fn of(seen: &'a (String, Kept)) -> Self {
        Self { text: &seen.0, line: Some(&seen.1) }
    }
}

/// The ranks unlike the others, and the others.
struct Split<'a> {
    odd: BTreeSet<u32>,
    odd_value: &'a str,
    usual: BTreeSet<u32>,
    usual_value: &'a str,
    /// False where as many have the one value as the other and both are set.
    told: bool,
    lines: Vec<(u32, &'a Kept)>,
}

impl<'a> Split<'a> {
    /// Splits the ranks by their value; `None` if all agree. Ranks whose value is not known count for
    /// nothing.
    fn of(scene: &Scene<'a>, value: impl Fn(&RankRec, &[&'a Record]) -> Option<Value<'a>>) -> Option<Self> {
        let mut by_value: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        let mut lines = Vec::new();
        for rank in &scene.ranks.ranks {
            let records: Vec<&Record> = scene.records(rank).collect();
            if let Some(value) = value(rank, &records) {
                by_value.entry(value.text).or_default().insert(rank.rank);
                lines.extend(value.line.map(|line| (rank.rank, line)));
            }
        }
        if by_value.len() < 2 {
            return None;
        }
        let most = by_value.values().map(BTreeSet::len).max()?;
        let common: Vec<&str> = by_value.iter().filter(|(_, r)| r.len() == most).map(|(v, _)| *v).collect();
        // One against one: a rank that sets what others leave at the default is the odd one.
        let told = common.len() == 1 || (by_value.len() == 2 && common.contains(&""));
        let usual_value = if common.contains(&"") { "" } else { *common.last()? };
        let (odd_value, _) = by_value.iter().find(|(value, _)| **value != usual_value)?;
        let odd_value = *odd_value;
        let odd = by_value.iter().filter(|(v, _)| **v != usual_value).flat_map(|(_, r)| r.iter().copied()).collect();
        let usual = by_value[usual_value].clone();
        Some(Self { odd, odd_value, usual, usual_value, told, lines })
    }

    fn finish(self, mut draft: Draft<'_>) -> Finding {
        draft.ranks(self.odd.iter().chain(&self.usual).copied());
        if self.told {
            draft.accuse(self.odd.iter().copied());
        }
        for set in [&self.odd, &self.usual] {
            for (rank, line) in self.lines.iter().filter(|(rank, _)| set.contains(rank)).take(2) {
                draft.evidence(line, Some(*rank));
            }
        }
        draft.build()
    }
}
