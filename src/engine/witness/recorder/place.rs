//! Whose dump is it, and which dumps belong together.
//!
//! A dump does not say which rank wrote it. Strongest first: a `rank` in it (tools that collect dumps add one), the
//! rank by which its own sends and recvs call themselves, `rank` and a number in the file's name, the number at the
//! name's end. The groups that a dump lists are those of its process, so a rank that is in none of them is not it.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{self, GroupRec};
use super::{Recorder, Taken};
use crate::engine::ids::SourceId;
use crate::engine::limits;

/// Clocks of hosts differ by less than this, in nanoseconds.
const CLOCKS: u64 = 60_000_000_000;

/// What people and tools call dumps by their ends.
const ENDS: [&str; 8] = ["gz", "zst", "json", "pkl", "pickle", "bin", "dump", "txt"];

/// The dumps of a job by rank, and its process groups.
#[derive(Debug, Default)]
pub struct Recorded<'a> {
    /// Number of ranks, if a dump says it.
    pub world: Option<u32>,
    /// The newest dump of each rank.
    pub by_rank: BTreeMap<u32, (SourceId, &'a Taken)>,
    /// Dumps whose rank is not known.
    pub nobodys: Vec<SourceId>,
    /// Ranks whose dump is there and cannot be read, by its name.
    pub unread: BTreeSet<u32>,
    /// Dumps that say nothing and whose name has a rank that nothing else knows of.
    pub silent: Vec<SourceId>,
    /// Dumps that ended before the others began: of an earlier run.
    pub earlier: Vec<SourceId>,
    /// Process groups, sorted by what identifies them.
    pub groups: Vec<GroupRec<'a>>,
    /// Ranks by the logs and by the dumps, where these are of another job: nothing else of them is kept then.
    pub foreign: Option<(u32, u32)>,
}

impl<'a> Recorded<'a> {
    /// Brings the dumps together. `logs` is the number of ranks by the logs.
    #[must_use]
    pub fn of(recorder: &'a Recorder, logs: Option<u32>) -> Self {
        let mut found = Self::default();
        let all: Vec<(SourceId, &Taken)> = recorder.dumps.iter().map(|(id, t)| (*id, t)).collect();
        let earlier = earlier_runs(&all);
        let present = || all.iter().filter(|(id, _)| !earlier.contains(id));
        found.world = world(present().map(|(_, t)| *t));
        let known = found.world.max(logs).unwrap_or(0);
        let unread = recorder.unread.values().map(|(name, _)| name.as_str());
        let read = present().map(|(_, taken)| taken.name.as_str());
        let names = Names::of(read.chain(unread.clone()));
        found.unread = unread.filter_map(|name| names.rank(name)).collect();
        for (id, taken) in present() {
            match rank_of(recorder, taken, found.world, names) {
                // A name alone makes no rank.
                Some(rank) if taken.says_nothing() && rank >= known => found.silent.push(*id),
                Some(rank) => found.claim(rank, *id, taken),
                None => found.nobodys.push(*id),
            }
        }
        found.last_one(recorder);
        let highest = found.by_rank.keys().next_back().map(|rank| rank + 1);
        found.world = found.world.max(highest.filter(|_| found.world.is_some()));
        found.groups = groups::of(&found.by_rank, found.world);
        found.earlier = earlier.into_iter().collect();
        found
    }

    /// True if the dumps can be of a job that the logs take to have this many ranks: as many, or a group of theirs.
    #[must_use]
    pub fn fits(&self, logs: u32) -> bool {
        let of_group = |group: &GroupRec<'_>| group.all().len() == logs as usize;
        self.world
            .is_none_or(|dumps| dumps == logs || dumps > logs && self.groups.iter().any(of_group))
    }

    /// Leaves the dumps out: they are of another job than the logs.
    #[must_use]
    pub fn set_aside(self, logs: u32) -> Self {
        Self {
            foreign: self.world.map(|dumps| (logs, dumps)),
            ..Self::default()
        }
    }

    /// Of two dumps of one rank the newer one counts; of two at the same time the one with stacks.
    fn claim(&mut self, rank: u32, id: SourceId, taken: &'a Taken) {
        let weight = |taken: &Taken| {
            let mut calls = taken
                .calls
                .iter()
                .flat_map(|c| c.collectives.iter().chain(&c.p2p));
            (
                taken.span.1,
                calls.any(|e| e.stack.is_some()),
                taken.entries,
            )
        };
        match self.by_rank.get(&rank) {
            Some((_, known)) if weight(known) >= weight(taken) => {}
            _ => {
                self.by_rank.insert(rank, (id, taken));
            }
        }
    }

    /// One dump left over and one rank left over belong together.
    fn last_one(&mut self, recorder: &'a Recorder) {
        let Some(world) = self.world else { return };
        let mut free = (0..world).filter(|rank| !self.by_rank.contains_key(rank));
        if let ([id], Some(rank), None) = (self.nobodys.as_slice(), free.next(), free.next())
            && let Some(taken) = recorder.dumps.get(id)
        {
            self.by_rank.insert(rank, (*id, taken));
            self.nobodys.clear();
        }
    }

    /// True if a watchdog gave a call up, or a call is older than its timeout: the job stood still.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        let newest = self.by_rank.values().map(|(_, t)| t.span.1).max();
        let now = newest.unwrap_or(0);
        self.groups.iter().any(|group| {
            let parts = group.members.values();
            let mut waiting = parts.flat_map(|part| {
                let pairs = part.calls.p2p.iter().filter(|e| !group.is_done(e));
                group.pending(part).chain(pairs)
            });
            waiting.any(|e| {
                let limit = u64::from(e.timeout_ms) * 1_000_000;
                let age = now.saturating_sub(e.created_ns);
                let old = limit > 0 && e.created_ns > 0 && age > limit + CLOCKS;
                (e.retired && group.tells_completion()) || old
            })
        })
    }
}

/// Dumps whose last call was made before most of the others made their first.
fn earlier_runs(all: &[(SourceId, &Taken)]) -> BTreeSet<SourceId> {
    let mut starts: Vec<u64> = all
        .iter()
        .filter(|(_, t)| !t.wrapped() && t.span.0 > 0)
        .map(|(_, t)| t.span.0)
        .collect();
    starts.sort_unstable();
    let Some(start) = starts.get(starts.len() / 2).copied() else {
        return BTreeSet::new();
    };
    let before = |t: &Taken| t.span.1 > 0 && t.span.1 + CLOCKS < start;
    let earlier = all.iter().filter(|(_, t)| before(t));
    earlier.map(|(id, _)| *id).collect()
}

/// The default group spans the world; without it the largest rank that any group names.
fn world<'a>(all: impl Iterator<Item = &'a Taken> + Clone) -> Option<u32> {
    let groups = all.clone().flat_map(|t| &t.dump.groups);
    let default = groups.filter(|g| g.desc == "default_pg");
    let spans = default.filter_map(|g| g.ranks.as_ref()?.ranks.iter().max().copied());
    let mentioned = || {
        let ranks = all.flat_map(|t| {
            t.dump
                .mentioned
                .iter()
                .flat_map(|l| l.ranks.iter().copied())
        });
        ranks.max()
    };
    spans.max().or_else(mentioned).map(|rank| rank + 1)
}

fn rank_of(recorder: &Recorder, taken: &Taken, world: Option<u32>, names: Names) -> Option<u32> {
    let own = &taken.dump.mentioned;
    let exists = |rank: &u32| *rank < limits::RANKS && world.is_none_or(|world| *rank < world);
    let possible = |rank: &u32| exists(rank) && own.iter().all(|list| list.ranks.contains(rank));
    // A dump that says its rank, or is called `rank` and a number, may know groups of others too.
    let member = |rank: &u32| {
        exists(rank) && (own.is_empty() || own.iter().any(|list| list.ranks.contains(rank)))
    };
    let said = taken.dump.rank.or_else(|| by_peers(recorder, taken));
    said.or_else(|| named_rank(file_name(&taken.name)))
        .filter(member)
        .or_else(|| names.rank(&taken.name).filter(possible))
        .or_else(|| {
            // The only rank that all its groups have in common.
            let fewest = own.iter().min_by_key(|list| list.ranks.len())?;
            let mut common = fewest.ranks.iter().copied().filter(possible);
            common.next().filter(|_| common.next().is_none())
        })
}

/// A send names its sender, a recv its receiver, by rank in the group.
fn by_peers(recorder: &Recorder, taken: &Taken) -> Option<u32> {
    taken.groups().find_map(|(group, calls)| {
        let mut peers = calls.p2p.iter().map(|e| recorder.common.call(e.call).peers);
        let peers = peers.find_map(|peers| peers)?;
        group.ranks.as_ref()?.ranks.get(peers.me as usize).copied()
    })
}

/// Which of the numbers in the names of a job's dumps is the rank, where they do not say `rank`: the last one that
/// is another in each name, counted from the end. `0.node3`, `1.node3` → the second last.
#[derive(Clone, Copy, Debug, Default)]
struct Names {
    from_end: usize,
}

impl Names {
    fn of<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Self {
        let unsaid = names.filter(|name| named_rank(file_name(name)).is_none());
        let all: Vec<Vec<u32>> = unsaid.map(|name| numbers(stem(name))).collect();
        let fewest = all.iter().map(Vec::len).min().unwrap_or(0);
        let apart = |from_end: &usize| {
            let mut seen = BTreeSet::new();
            all.iter()
                .all(|numbers| seen.insert(numbers[numbers.len() - 1 - from_end]))
        };
        Self {
            from_end: (0..fewest).find(apart).unwrap_or(0),
        }
    }

    /// `fr_rank_3`, `node-7_trace_3.json.gz`, `rank12/dump.pkl` → 3, 3, 12
    fn rank(self, name: &str) -> Option<u32> {
        let stem = stem(name);
        let ends_in_number = stem.ends_with(|c: char| c.is_ascii_digit());
        named_rank(file_name(name))
            .or_else(|| {
                let numbers = numbers(stem);
                let at = numbers.len().checked_sub(1 + self.from_end)?;
                (ends_in_number || self.from_end > 0).then(|| numbers[at])
            })
            .or_else(|| name.rsplit('/').skip(1).find_map(named_rank))
    }
}

fn file_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The file's name without what tells of its form: `a/trace_3.json.gz` → `trace_3`
fn stem(name: &str) -> &str {
    let mut stem = file_name(name);
    while let Some((front, end)) = stem.rsplit_once('.') {
        if front.is_empty() || !ENDS.contains(&end) {
            break;
        }
        stem = front;
    }
    stem
}

/// Every number in it.
fn numbers(text: &str) -> Vec<u32> {
    let parts = text.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|digits| digits.parse().ok()).collect()
}

/// The number behind the last `rank`.
fn named_rank(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let (_, rest) = lower.rsplit_once("rank")?;
    let rest = rest.trim_start_matches(['_', '-', '.', '=']);
    let digits = rest.find(|c: char| !c.is_ascii_digit());
    rest[..digits.unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_ranks() {
        for (name, rank) in [
            ("fr_rank_3", Some(3)),
            ("nccl_trace_rank_12", Some(12)),
            ("node-7_trace_3", Some(3)),
            ("node-17.example.org_trace_4", Some(4)),
            ("trace_rank_3.json", Some(3)),
            ("a/trace_rank_3.json.gz", Some(3)),
            ("dumps-2026/fr_rank_0", Some(0)),
            ("rank12/dump.pkl", Some(12)),
            ("gpu-host-12.example.org_rank_4", Some(4)),
            ("rank_5.host12", Some(5)),
            ("trace_rank_4_20261130", Some(4)),
            ("node12-trace", None),
            ("dump", None),
            ("rank_99999999999999999999", None),
            ("", None),
            ("frank", None),
        ] {
            assert_eq!(Names::default().rank(name), rank, "{name}");
        }
    }

    #[test]
    fn the_number_that_differs_is_the_rank() {
        for (names, ranks) in [
            (["0.node3", "1.node3", "2.node3"], [0, 1, 2]),
            (
                ["gpu-0.cluster-7", "gpu-1.cluster-7", "gpu-2.cluster-7"],
                [0, 1, 2],
            ),
            (
                ["node-7_trace_3", "node-7_trace_4", "node-8_trace_5"],
                [3, 4, 5],
            ),
            // Two runs of one rank: the last number stays.
            (["run1_trace_3", "run2_trace_3", "run2_trace_4"], [3, 3, 4]),
            (["a_rank_1.host5", "a_rank_2.host5", "0.host5"], [1, 2, 5]),
        ] {
            let all = Names::of(names.into_iter());
            let found = names.map(|name| all.rank(name));
            assert_eq!(found, ranks.map(Some), "{names:?}");
        }
    }
}
