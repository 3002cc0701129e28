//! How the ranks of one group stand to each other.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::engine::dump::{Common, Entry, Progress};
use crate::engine::witness::recorder::{GroupRec, Part};

/// The first thing that sets the ranks of a group apart.
pub(super) enum Stand<'a> {
    /// Nothing, or nothing is known.
    Quiet,
    /// They called different things.
    Differs(Split<'a>),
    /// Some never made a call that others wait in.
    Behind(Lag<'a>),
    /// All made the same last call, and the GPUs of some have not begun it.
    Unbegun(Lag<'a>),
    /// All ranks with a dump made the same last call and none is through it, or not all of a job that stands still.
    AllIn(Inside<'a>),
}

/// Ranks that called different things as one call.
pub(super) struct Split<'a> {
    pub(super) group: &'a GroupRec<'a>,
    /// Number of the call.
    pub(super) seq: u32,
    /// Ranks by what they called; the most first, of equal ones the one with the lowest rank.
    pub(super) sides: Vec<Side<'a>>,
    /// Those that are not through it or a later call.
    pub(super) stuck: BTreeSet<u32>,
    /// Some later call that needs everybody is over, or somebody stands in another group and nobody in this call.
    pub(super) over: bool,
}

/// Ranks that called the same.
pub(super) struct Side<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) ranks: Vec<u32>,
}

/// Ranks that are apart.
pub(super) struct Lag<'a> {
    pub(super) group: &'a GroupRec<'a>,
    /// Number of the call that is missing, or not begun.
    pub(super) seq: u32,
    pub(super) behind: BTreeSet<u32>,
    pub(super) ahead: BTreeSet<u32>,
}

/// Ranks in a call.
pub(super) struct Inside<'a> {
    pub(super) group: &'a GroupRec<'a>,
    /// Number of the call.
    pub(super) seq: u32,
    pub(super) ranks: BTreeSet<u32>,
    /// Those that are through it.
    pub(super) through: BTreeSet<u32>,
    /// Those of whom nobody knows whether they are in it.
    pub(super) unknown: BTreeSet<u32>,
}

impl Split<'_> {
    /// Every rank of the group is through this call. Gloo lets go of failed calls too: there a later call of the same
    /// process has to show that it went on.
    pub(super) fn is_through(&self, groups: &[GroupRec<'_>]) -> bool {
        let group = self.group;
        let ranks = || self.sides.iter().flat_map(|side| &side.ranks);
        let went_on = |rank: &u32, entry: &Entry| {
            let same = groups.iter().filter(|of| of.backend == group.backend);
            let parts = same.filter_map(|of| of.members.get(rank));
            let mut calls =
                parts.flat_map(|part| part.calls.collectives.iter().chain(&part.calls.p2p));
            calls.any(|later| later.record_id > entry.record_id)
        };
        let done = |rank: &u32| {
            let mut entries = group.members[rank].at(self.seq).iter();
            entries.all(|e| group.is_done(e) && (group.tells_completion() || went_on(rank, e)))
        };
        let all = self.stuck.is_empty() && ranks().count() == group.members.len();
        all && group.absent.is_empty() && ranks().all(done)
    }
}

/// A mismatch that every rank is through and that was the last call of its group holds nobody where somebody stands
/// in another group.
pub(super) fn settle(stands: &mut [Stand<'_>], groups: &[GroupRec<'_>], elsewhere: bool) {
    let holds = |stand: &Stand<'_>| match stand {
        Stand::Quiet => false,
        Stand::Differs(split) => !split.over && !split.is_through(groups),
        Stand::Behind(_) | Stand::Unbegun(_) | Stand::AllIn(_) => true,
    };
    if !elsewhere && !stands.iter().any(holds) {
        return;
    }
    for stand in stands {
        if let Stand::Differs(split) = stand
            && split.is_through(groups)
        {
            split.over = true;
            split.stuck.clear();
        }
    }
}

impl<'a> Stand<'a> {
    /// `still`: the job is known to stand still, so that what differs is no moment of a moving one.
    /// Two, where they differed once and have got on together since: what holds them now is another matter.
    pub(super) fn of(common: &Common, group: &'a GroupRec<'a>, still: bool) -> Vec<Self> {
        let mut stands = Vec::new();
        let through = through(common, group);
        if let Some(seq) = first_difference(common, group) {
            let over = through > seq;
            let stuck = |part: &Part<'_>| !over && group.pending(part).any(|e| e.seq >= seq);
            stands.push(Self::Differs(Split {
                group,
                seq,
                sides: sides(common, group, seq),
                stuck: ranks_where(group, stuck),
                over,
            }));
            if !over {
                return stands;
            }
        }
        stands.push(lag(group, through).unwrap_or_else(|| all_in(group, still)));
        stands
    }
}

fn ranks_where(group: &GroupRec<'_>, test: impl Fn(&Part<'_>) -> bool) -> BTreeSet<u32> {
    let members = group.members.iter();
    members
        .filter(|(_, part)| test(part))
        .map(|(rank, _)| *rank)
        .collect()
}

/// True if these are the same call, or the same coalesced calls in the same order.
pub(super) fn same(common: &Common, a: &[Entry], b: &[Entry]) -> bool {
    if let ([a], [b]) = (a, b) {
        return common.alike(a.call, b.call);
    }
    let (a, b) = (parts(common, a), parts(common, b));
    // Of a group of calls the ring may have dropped the first ones.
    a.iter()
        .rev()
        .zip(b.iter().rev())
        .all(|(a, b)| common.alike(a.call, b.call))
        && (a.len() == b.len() || a.is_empty() || b.is_empty())
}

/// The calls themselves, without the entry that closes coalesced ones.
pub(super) fn parts<'e>(common: &Common, entries: &'e [Entry]) -> Vec<&'e Entry> {
    let closes = |e: &&Entry| common.call(e.call).name != "coalesced";
    let inner: Vec<&Entry> = entries.iter().filter(closes).collect();
    if inner.is_empty() {
        entries.iter().collect()
    } else {
        inner
    }
}

/// The lowest number under which two ranks called different things.
fn first_difference(common: &Common, group: &GroupRec<'_>) -> Option<u32> {
    let mut reference: FxHashMap<u32, &[Entry]> = FxHashMap::default();
    let mut first = u32::MAX;
    let (cut, whole): (Vec<&Part<'_>>, Vec<&Part<'_>>) =
        group.members.values().partition(|part| part.cut);
    for part in whole.into_iter().chain(cut) {
        let newest = part.last().filter(|_| part.cut);
        let oldest = part.calls.collectives.first().map(|e| e.seq);
        for entries in part.calls.collectives.chunk_by(|a, b| a.seq == b.seq) {
            let seq = entries[0].seq;
            // The oldest coalesced group of a ring that has wrapped may be torn.
            let torn = part.wrapped && Some(seq) == oldest;
            if seq >= first || torn {
                continue;
            }
            let known = *reference.entry(seq).or_insert(entries);
            // So may the newest one in front of a cut.
            if Some(seq) == newest && known.len() + entries.len() > 2 {
                continue;
            }
            if !same(common, known, entries) {
                first = seq;
            }
        }
    }
    (first != u32::MAX).then_some(first)
}

/// Ranks by what they called as this number.
pub(super) fn sides<'a>(common: &Common, group: &'a GroupRec<'a>, seq: u32) -> Vec<Side<'a>> {
    let mut sides: Vec<Side<'a>> = Vec::new();
    // As many sides as ranks are possible. While every call is a single known one, its kind names its side.
    let mut by_kind: FxHashMap<u32, usize> = FxHashMap::default();
    let mut single = true;
    for (rank, part) in &group.members {
        let entries = part.at(seq);
        if entries.is_empty() {
            continue;
        }
        let kind = match entries {
            [one] => common.kind(one.call),
            _ => None,
        };
        single &= kind.is_some();
        let alike = match kind.filter(|_| single) {
            Some(kind) => by_kind.get(&kind).copied(),
            None => sides
                .iter()
                .position(|side| same(common, side.entries, entries)),
        };
        let at = alike.unwrap_or_else(|| {
            sides.push(Side {
                entries,
                ranks: Vec::new(),
            });
            sides.len() - 1
        });
        by_kind.extend(kind.map(|kind| (kind, at)));
        sides[at].ranks.push(*rank);
    }
    sides.sort_by_key(|side| (std::cmp::Reverse(side.ranks.len()), side.ranks[0]));
    sides
}

/// The last call that needs everybody and that some rank is through: all had made it. 0 if there is none.
fn through(common: &Common, group: &GroupRec<'_>) -> u32 {
    let through = group.members.values().filter_map(|part| {
        let newest_first = part.calls.collectives.iter().rev();
        let mut done = newest_first.filter(|e| group.is_done(e) && group.tells_completion());
        done.find(|e| common.call(e.call).meets_everybody())
            .map(|e| e.seq)
    });
    through.max().unwrap_or(0)
}

/// `through`: dumps that end before that are older than the others, and say nothing of what their ranks did since.
fn lag<'a>(group: &'a GroupRec<'a>, through: u32) -> Option<Stand<'a>> {
    let mut reached: Vec<(u32, u32)> = group
        .members
        .iter()
        .filter_map(|(rank, part)| Some((*rank, part.reached?)))
        .filter(|(_, reached)| *reached >= through)
        .collect();
    let least = reached.iter().map(|(_, reached)| *reached).min()?;
    // What a cut dump holds was called; what it does not hold may have been.
    let cut = group.members.iter().filter(|(_, part)| part.cut);
    let further = cut.filter_map(|(rank, part)| Some((*rank, part.last().filter(|n| *n > least)?)));
    reached.extend(further);
    let most = reached.iter().map(|(_, reached)| *reached).max()?;
    if least == most {
        return None;
    }
    // Where all stand in the same earlier call, whoever has queued more behind it is no further.
    let oldest = |(rank, _): &(u32, u32)| group.oldest_pending(&group.members[rank]);
    let open: BTreeSet<Option<u32>> = reached.iter().map(oldest).collect();
    if matches!(open.first(), Some(Some(seq)) if open.len() == 1 && *seq <= least) {
        return None;
    }
    let of = |test: &dyn Fn(u32) -> bool| -> BTreeSet<u32> {
        let ranks = reached.iter().filter(|(_, reached)| test(*reached));
        ranks.map(|(rank, _)| *rank).collect()
    };
    Some(Stand::Behind(Lag {
        group,
        seq: least + 1,
        behind: of(&|reached| reached == least),
        ahead: of(&|reached| reached > least),
    }))
}

fn all_in<'a>(group: &'a GroupRec<'a>, still: bool) -> Stand<'a> {
    let pending: Vec<(u32, u32)> = group
        .members
        .iter()
        .filter_map(|(rank, part)| Some((*rank, group.oldest_pending(part)?)))
        .collect();
    let Some(seq) = pending.iter().map(|(_, seq)| *seq).min() else {
        return Stand::Quiet;
    };
    let ranks: BTreeSet<u32> = pending.iter().map(|(rank, _)| *rank).collect();
    let through = ranks_where(group, |part| part.reached.is_some());
    let through: BTreeSet<u32> = through.difference(&ranks).copied().collect();
    let unknown = group.unknown_at(seq);
    let whole = still && unknown.is_empty();
    // Where some are through it already, the others are only a moment behind, in a job that moves.
    if !through.is_empty() && !whole {
        return Stand::Quiet;
    }
    if whole
        && through.is_empty()
        && let Some(lag) = unbegun(group, seq)
    {
        return Stand::Unbegun(lag);
    }
    Stand::AllIn(Inside {
        group,
        seq,
        ranks,
        through,
        unknown,
    })
}

/// The GPUs of some stand in this call, and those of others have not begun it. Only where PyTorch times its calls
/// does it know that one has begun: `started` nowhere says nothing.
fn unbegun<'a>(group: &'a GroupRec<'a>, seq: u32) -> Option<Lag<'a>> {
    let all = |progress| {
        ranks_where(group, |part| {
            let entries = part.at(seq);
            !entries.is_empty() && entries.iter().all(|e| e.progress == progress)
        })
    };
    let (behind, ahead) = (all(Progress::Scheduled), all(Progress::Started));
    let apart = behind.len() + ahead.len() == group.members.len() && group.tells_completion();
    (apart && !behind.is_empty() && behind.len() <= ahead.len()).then_some(Lag {
        group,
        seq,
        behind,
        ahead,
    })
}
