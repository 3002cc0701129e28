//! Ranks that called different things at the same place of a communicator.
//!
//! Ordinals are compared, never opCount: its meaning changed four times and differs between healthy
//! ranks in 2.27–2.30. Send and Recv count per peer and are not compared by place.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::{Draft, Scene, ranges};
use crate::engine::event::Func;
use crate::engine::finding::{CallSide, Divergence, Finding};
use crate::engine::job::{Call, CommRec, Kept, Member};
use crate::engine::limits;
use crate::engine::vocab::Confidence;

/// Communicators of one job that are reported at most; the rest would repeat them.
const MOST_COMMS: usize = 8;
/// Calls looked at behind the first difference, to tell an order that differs from a single slip.
const WINDOW: u64 = 16;

/// Ranks of a communicator that made the same call.
struct Side {
    call: Call,
    /// Ranks in the communicator.
    ranks: Vec<u32>,
}

/// Adds findings for every communicator with a difference.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let mut count = 0;
    for comm in &scene.ranks.comms {
        if let Some(finding) = compare(scene, comm) {
            found.push(finding);
            count += 1;
        } else if let Some(finding) = both_send(scene, comm) {
            found.push(finding);
            count += 1;
        }
        if count == MOST_COMMS {
            break;
        }
    }
    found.extend(
        scene
            .ranks
            .comms
            .iter()
            .filter_map(|c| taken_twice(scene, c))
            .take(1),
    );
    fingerprints(scene, found);
}

/// Two processes came as the same rank of a group: the store's key that one of them used belongs to
/// another group on its peers, because the groups were made in another order.
fn taken_twice(scene: &Scene<'_>, comm: &CommRec) -> Option<Finding> {
    let (rank, first, second) = *comm.taken_twice.first()?;
    if comm.is_world {
        return None; // That is a launch line that gives one rank to two processes.
    }
    let mut draft = Draft::new(scene, "COLL008")?;
    let sides = [first, second].map(|m| &scene.job.members[m.ix()]);
    let ranks: BTreeSet<u32> = sides
        .iter()
        .filter_map(|m| scene.ranks.rank_of(m.writer))
        .collect();
    draft
        .fact("comm", comm_words(scene, comm))
        .fact("place", rank.to_string())
        .fact("nranks", comm.nranks.to_string())
        .ranks(ranks.iter().copied())
        .accuse(ranks.iter().copied());
    draft.finding().comm = Some(comm_name(scene, comm));
    for member in sides {
        if let Some(line) = member.start_line.as_ref().or(member.complete_line.as_ref()) {
            draft.evidence(line, scene.ranks.rank_of(member.writer));
        }
    }
    Some(draft.build())
}

/// A communicator in the middle of a sentence.
pub(super) fn comm_words(scene: &Scene<'_>, comm: &CommRec) -> String {
    format!("communicator {}", comm_name(scene, comm))
}

/// What a communicator is called.
pub(super) fn comm_name(scene: &Scene<'_>, comm: &CommRec) -> String {
    scene.job.comms[comm.ix.ix()].key.name()
}

/// World ranks of some ranks of a communicator, as far as they are known.
pub(super) fn world_ranks(scene: &Scene<'_>, comm: &CommRec, ranks: &[u32]) -> BTreeSet<u32> {
    ranks
        .iter()
        .filter_map(|rank| scene.ranks.world_rank(scene.job, comm, *rank))
        .collect()
}

/// The members whose calls can be compared by their places: of none of them a line is lost.
pub(super) fn comparable<'s>(scene: &Scene<'s>, comm: &CommRec) -> Vec<(u32, &'s Member)> {
    let members = comm
        .members
        .iter()
        .map(|(rank, m)| (*rank, &scene.job.members[m.ix()]))
        .filter(|(_, m)| m.ordinals_hold());
    let members: Vec<(u32, &Member)> = members.collect();
    let fewest = members.iter().map(|(_, m)| m.leaps).min();
    let whole = |m: &Member| Some(m.leaps) == fewest;
    members.into_iter().filter(|(_, m)| whole(m)).collect()
}

/// The first ordinal at which two members made different calls, with the sides.
pub(super) fn first_difference(scene: &Scene<'_>, comm: &CommRec) -> Option<u64> {
    let members = comparable(scene, comm);
    let mut ordinals: Vec<u64> = members
        .iter()
        .flat_map(|(_, m)| m.deviations.iter().map(|d| d.ordinal))
        .collect();
    ordinals.sort_unstable();
    ordinals.dedup();
    ordinals
        .into_iter()
        .find(|ordinal| sides(scene, comm, &members, *ordinal).len() > 1)
}

fn sides(scene: &Scene<'_>, comm: &CommRec, members: &[(u32, &Member)], ordinal: u64) -> Vec<Side> {
    let reference = &scene.job.comms[comm.ix.ix()].reference;
    let mut sides: Vec<Side> = Vec::new();
    // As many sides as ranks are possible: a call that was seen is found by itself.
    let mut known: FxHashMap<Call, usize> = FxHashMap::default();
    for (rank, member) in members {
        let Some(call) = member.call_at(reference, ordinal) else {
            continue;
        };
        let call = scene.job.calls[call as usize];
        let alike = known.get(&call).copied().or_else(|| {
            let printed_in_two_ways = matches!(call.func, Func::Broadcast | Func::AllGather);
            printed_in_two_ways
                .then(|| sides.iter().position(|side| side.call.same_as(&call)))
                .flatten()
        });
        let at = alike.unwrap_or_else(|| {
            sides.push(Side {
                call,
                ranks: Vec::new(),
            });
            sides.len() - 1
        });
        known.insert(call, at);
        sides[at].ranks.push(*rank);
    }
    // The largest side first; of equal ones the one with the lowest rank.
    sides.sort_by_key(|side| {
        (
            std::cmp::Reverse(side.ranks.len()),
            side.ranks.first().copied(),
        )
    });
    sides
}

fn compare(scene: &Scene<'_>, comm: &CommRec) -> Option<Finding> {
    let members = comparable(scene, comm);
    let ordinal = first_difference(scene, comm)?;
    let sides = sides(scene, comm, &members, ordinal);
    let (major, minor) = (&sides[0], &sides[1]);
    let others: usize = sides[1..].iter().map(|side| side.ranks.len()).sum();
    let majority = major.ranks.len() > others;
    let seen_to = went_on(scene, comm, &members, ordinal);
    let went_on = seen_to || (!proven_standstill(scene) && hangs_nobody(&major.call, &minor.call));
    let swapped = swapped(scene, comm, &members, ordinal, major, minor);
    let id = match (went_on, swapped, majority) {
        (true, ..) => "COLL004",
        (_, true, _) => "COLL003",
        (_, _, true) => "COLL001",
        (_, _, false) => "COLL002",
    };
    let mut draft = Draft::new(scene, id)?;
    let printed = op_count(
        members.iter().filter_map(|(_, m)| line_of(m, ordinal)),
        ordinal,
    );
    let odd: Vec<u32> = sides[1..]
        .iter()
        .flat_map(|side| side.ranks.iter().copied())
        .collect();
    let reached: Vec<u32> = sides
        .iter()
        .flat_map(|side| side.ranks.iter().copied())
        .collect();
    draft
        .fact("ordinal", (ordinal + 1).to_string())
        .fact("comm", comm_words(scene, comm))
        .fact("minority", named(scene, comm, &minor.ranks))
        .fact("minority_call", minor.call.words())
        .fact("majority", named(scene, comm, &major.ranks))
        .fact("majority_call", major.call.words())
        .fact("aspect", major.call.difference(&minor.call))
        .fact("went_on", if seen_to { "yes" } else { "" })
        .fact("op_count", printed.unwrap_or_default())
        .ranks(world_ranks(scene, comm, &reached))
        .sure(if went_on && !seen_to {
            Confidence::Likely
        } else {
            Confidence::Certain
        });
    if majority {
        draft.accuse(world_ranks(scene, comm, &odd));
    }
    draft.finding().comm = Some(comm_name(scene, comm));
    draft.finding().calls = Some(Divergence {
        ordinal: ordinal + 1,
        sides: sides
            .iter()
            .take(limits::SIDES)
            .map(|side| called(scene, comm, side))
            .collect(),
        more: sides.len().saturating_sub(limits::SIDES),
        majority,
    });
    show(scene, comm, &members, ordinal, &odd, &mut draft);
    show(scene, comm, &members, ordinal, &major.ranks, &mut draft);
    Some(draft.build())
}

/// `0-8, 10-15`, world ranks where they are known.
fn named(scene: &Scene<'_>, comm: &CommRec, ranks: &[u32]) -> String {
    let world = world_ranks(scene, comm, ranks);
    if world.len() == ranks.len() {
        ranges(world)
    } else {
        format!("{} of the communicator", ranges(ranks.iter().copied()))
    }
}

/// A side as it is shown.
fn called(scene: &Scene<'_>, comm: &CommRec, side: &Side) -> CallSide {
    let call = &side.call;
    let world = |rank: &u32| scene.ranks.world_rank(scene.job, comm, *rank);
    let mut ranks: Vec<u32> = side
        .ranks
        .iter()
        .map(|rank| world(rank).unwrap_or(*rank))
        .collect();
    ranks.sort_unstable();
    CallSide {
        ranks,
        function: call.func.name().to_owned(),
        count: Some(call.count.to_string()),
        datatype: Some(call.datatype_name()),
        reduction: call.func.reduces().then(|| call.op_name().to_owned()),
        root: call.func.has_root().then_some(call.root),
        frames: Vec::new(),
    }
}

/// The lines of the call at `ordinal`, of at most four ranks.
fn show(
    scene: &Scene<'_>,
    comm: &CommRec,
    members: &[(u32, &Member)],
    ordinal: u64,
    ranks: &[u32],
    draft: &mut Draft<'_>,
) {
    let chosen = members
        .iter()
        .filter(|(rank, _)| ranks.contains(rank))
        .take(4);
    for (rank, member) in chosen {
        let world = scene.ranks.world_rank(scene.job, comm, *rank);
        if let Some(line) = line_of(member, ordinal) {
            draft.evidence(line, world);
        }
    }
}

/// The line of the call at `ordinal`, if it was kept: one of the member's last ones, else one that
/// was unlike the reference.
pub(super) fn line_of(member: &Member, ordinal: u64) -> Option<&Kept> {
    member.recent.at(ordinal).or_else(|| {
        let mut deviations = member.deviations.iter();
        deviations.find(|d| d.ordinal == ordinal).map(|d| &d.line)
    })
}

/// True if every rank that made a call at `ordinal` made later ones, those are equal, or all of
/// them destroyed the communicator: the job went on with wrong data.
fn went_on(scene: &Scene<'_>, comm: &CommRec, members: &[(u32, &Member)], ordinal: u64) -> bool {
    let reached: Vec<&Member> = members
        .iter()
        .map(|(_, m)| *m)
        .filter(|m| m.reached > ordinal)
        .collect();
    if reached.len() < comm.members.len() || reached.iter().any(|m| m.aborted) {
        return false;
    }
    if reached.iter().all(|m| m.ended) {
        return true;
    }
    let last = reached.iter().map(|m| m.reached).min().unwrap_or(0);
    let later = (ordinal + 1)..last.min(ordinal + 1 + WINDOW);
    let mut equal = 0;
    for at in later {
        if sides(scene, comm, members, at).len() > 1 {
            return false;
        }
        equal += 1;
    }
    // Calls are asynchronous: one call behind a hang may be queued, several equal ones that every
    // rank made are progress.
    equal >= 2 && !proven_standstill(scene)
}

/// NCCL compares nothing: another reduction, root or datatype of the same size moves as many bytes and
/// completes with wrong numbers.
fn hangs_nobody(a: &Call, b: &Call) -> bool {
    a.func == b.func && a.bytes().is_some() && a.bytes() == b.bytes()
}

fn proven_standstill(scene: &Scene<'_>) -> bool {
    scene.claimed || super::wait::standstill(scene).is_some()
}

/// True if each side makes the other's call a little later: the order differs.
fn swapped(
    scene: &Scene<'_>,
    comm: &CommRec,
    members: &[(u32, &Member)],
    ordinal: u64,
    a: &Side,
    b: &Side,
) -> bool {
    let reference = &scene.job.comms[comm.ix.ix()].reference;
    let makes_later = |side: &Side, call: &Call| {
        let Some((_, member)) = members
            .iter()
            .find(|(rank, _)| side.ranks.first() == Some(rank))
        else {
            return false;
        };
        ((ordinal + 1)..(ordinal + 1 + WINDOW))
            .map_while(|at| member.call_at(reference, at))
            .any(|id| scene.job.calls[id as usize].same_as(call))
    };
    makes_later(a, &b.call) && makes_later(b, &a.call)
}

/// Two ranks that send to each other and receive nothing: each waits for the other's Recv.
fn both_send(scene: &Scene<'_>, comm: &CommRec) -> Option<Finding> {
    let members = comparable(scene, comm);
    let sends = |member: &Member, peer: u32| {
        member
            .peers
            .get(&peer)
            .is_some_and(|calls| calls.sends > 0 && calls.recvs == 0)
    };
    for (rank, member) in &members {
        let mut peers: Vec<u32> = member
            .peers
            .iter()
            .filter(|(_, c)| c.sends > 0)
            .map(|(p, _)| *p)
            .collect();
        peers.sort_unstable();
        for peer in peers {
            let known = members.binary_search_by_key(&peer, |(rank, _)| *rank);
            let Some((_, other)) = known.ok().filter(|_| peer > *rank).map(|at| members[at]) else {
                continue;
            };
            if !sends(member, peer) || !sends(other, *rank) {
                continue;
            }
            let mut draft = Draft::new(scene, "COLL007")?;
            draft
                .fact("comm", comm_words(scene, comm))
                .fact("majority", named(scene, comm, &[*rank]))
                .fact("minority", named(scene, comm, &[peer]))
                .fact("minority_call", "Send")
                .fact("majority_call", "Send")
                .fact("ordinal", "1")
                .fact("ended", ended_in_kernel(scene))
                .ranks(world_ranks(scene, comm, &[*rank, peer]));
            draft.finding().comm = Some(comm_name(scene, comm));
            for (rank, side) in [(*rank, *member), (peer, other)] {
                if let Some(line) = side.recent.newest() {
                    draft.evidence(line, scene.ranks.world_rank(scene.job, comm, rank));
                }
            }
            return Some(draft.build());
        }
    }
    None
}

/// The error that CUDA reported of a kernel, if it did: unpaired calls end so as well.
fn ended_in_kernel(scene: &Scene<'_>) -> String {
    let rule = scene.catalog.by_id("CUDA009");
    let of_rule = scene.hits.by_rule().filter(|(ix, ..)| Some(*ix) == rule);
    of_rule
        .flat_map(|(_, _, record)| &record.captures)
        .find_map(|captures| captures.get("error").cloned())
        .unwrap_or_default()
}

/// What the lines of a call print as its opCount, in words: people look it up, and it is another number. Nothing
/// where the ranks print different ones.
pub(super) fn op_count<'a>(lines: impl Iterator<Item = &'a Kept>, ordinal: u64) -> Option<String> {
    let printed: BTreeSet<String> = lines
        .filter_map(|line| {
            let text = line.text();
            Some(text.split("opCount ").nth(1)?.split(' ').next()?.to_owned())
        })
        .collect();
    let mut all = printed.into_iter();
    let (Some(printed), None) = (all.next(), all.next()) else {
        return None;
    };
    let count = u64::from_str_radix(&printed, 16).ok()?;
    Some(if count == ordinal {
        format!("opCount {printed}, which counts from 0")
    } else {
        format!("opCount {printed}, which is no count of the calls in this version")
    })
}

/// The DETAIL wrapper's reports name pairs that differ; the odd one is the rank in every pair.
fn fingerprints(scene: &Scene<'_>, found: &mut [Finding]) {
    let Some(finding) = found.iter_mut().find(|f| f.id == "COLL005") else {
        return;
    };
    finding.accused = odd_by_fingerprints(scene).into_iter().collect();
    let pairs = compared(scene);
    finding
        .ranks
        .extend(pairs.iter().flat_map(|(a, b)| [*a, *b]));
}

/// Pairs of ranks that PyTorch compared and that differ.
fn compared(scene: &Scene<'_>) -> BTreeSet<(u32, u32)> {
    scene
        .all_records()
        .filter_map(|(_, r)| r.fingerprints.as_ref())
        .map(|f| (f.a.0, f.b.0))
        .collect()
}

/// The rank in every pair, where more than two ranks were compared.
pub(super) fn odd_by_fingerprints(scene: &Scene<'_>) -> Option<u32> {
    let pairs = compared(scene);
    let mentioned: BTreeSet<u32> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let mut in_all = mentioned
        .iter()
        .copied()
        .filter(|rank| pairs.iter().all(|(a, b)| a == rank || b == rank));
    match (in_all.next(), in_all.next()) {
        (Some(odd), None) if mentioned.len() > 2 => Some(odd),
        _ => None,
    }
}
