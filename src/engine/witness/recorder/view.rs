//! The dumps' side of what views show: process groups beside communicators, and where each rank stands.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{GroupRec, Part, Recorded, Recorder};
use crate::engine::dump::{Entry, StackIx};
use crate::engine::snapshot::{CommView, JobView, MemberView};
use crate::engine::vocab::Phase;
use crate::engine::witness::{Said, Witness};

/// Adds what the dumps say. A group is the communicator of the same ranks, if there is one; else a further one.
pub fn add(recorder: &Recorder, recorded: &Recorded<'_>, job: &mut JobView) {
    let mut taken = BTreeSet::new();
    let mut stacks = FxHashMap::default();
    for group in &recorded.groups {
        let all = group.all();
        let at = job.comms.iter().enumerate().position(|(at, comm)| {
            let mut known = comm.members.iter().filter_map(|m| m.rank);
            let same = comm.nranks as usize == all.len() && known.all(|rank| all.contains(&rank));
            same && !taken.contains(&at)
        });
        let at = at.unwrap_or_else(|| {
            job.comms.push(CommView {
                id: group.name.clone(),
                nranks: u32::try_from(all.len()).unwrap_or(u32::MAX),
                called: Vec::new(),
                members: Vec::new(),
            });
            job.comms.len() - 1
        });
        taken.insert(at);
        job.comms[at].called.push(group.name.clone());
        let ranks = group.ranks.iter().flat_map(|ranks| ranks.iter());
        let places: FxHashMap<u32, u32> = ranks.copied().zip(0..).collect();
        let members = job.comms[at].members.iter().enumerate().rev();
        let known: FxHashMap<u32, usize> =
            members.filter_map(|(at, m)| Some((m.rank?, at))).collect();
        for (rank, part) in &group.members {
            let (mut fresh, said) = member(recorder, group, *rank, part, &mut stacks);
            fresh.comm_rank = places.get(rank).copied().unwrap_or(*rank);
            let members = &mut job.comms[at].members;
            match known.get(rank) {
                Some(known) => members[*known].said.push(said),
                None => {
                    fresh.said.push(said);
                    members.push(fresh);
                }
            }
            let row = job.ranks.get_mut(*rank as usize);
            if let Some(row) = row.filter(|row| row.rank == Some(*rank)) {
                if !row.comms.contains(&at) {
                    row.comms.push(at);
                }
                let entry = standing(group, part);
                if let (0, Some(entry)) = (row.lines, entry) {
                    row.phase = Phase::Collective;
                    row.collective = Some(u64::from(entry.seq));
                    row.function = Some(recorder.common.call(entry.call).function().to_owned());
                }
            }
        }
    }
}

/// The oldest call that a rank is not through, else its last one.
fn standing<'a>(group: &GroupRec<'a>, part: &Part<'a>) -> Option<&'a Entry> {
    let waiting = group.pending(part).last();
    waiting.or_else(|| part.calls.collectives.last())
}

/// A member as its dump alone shows it, and what the dump says of it.
fn member(
    recorder: &Recorder,
    group: &GroupRec<'_>,
    rank: u32,
    part: &Part<'_>,
    stacks: &mut FxHashMap<StackIx, Arc<[String]>>,
) -> (MemberView, Said) {
    let common = &recorder.common;
    let entry = standing(group, part);
    let call = entry.map(|e| common.call(e.call).words());
    // Ranks of one job stand at few places.
    let stack = entry.and_then(|e| e.stack).map(|ix| {
        let known = stacks.entry(ix);
        Arc::clone(known.or_insert_with(|| common.frames(ix).into()))
    });
    let stack = stack.unwrap_or_default();
    let reached = part.reached.map(u64::from);
    let said = Said {
        witness: Witness::Dump,
        source: part.source,
        reached,
        call: call.clone(),
        progress: entry
            .filter(|_| group.tells_completion())
            .map(|e| e.progress.name().to_owned()),
        at: stack.first().cloned(),
        stack,
    };
    let done = part.calls.collectives.iter().any(|e| group.is_done(e));
    let fresh = MemberView {
        comm_rank: rank,
        rank: Some(rank),
        started: true,
        complete: done,
        ended: false,
        reached,
        last_call: call,
        said: Vec::new(),
    };
    (fresh, said)
}
