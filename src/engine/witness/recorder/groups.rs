//! Process groups as the dumps of their ranks tell of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Calls, Taken};
use crate::engine::dump::{Entry, Group, Progress};
use crate::engine::ids::SourceId;

/// What one rank's dump says of a group.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The dump.
    pub source: SourceId,
    /// What was called.
    pub calls: &'a Calls,
    /// The last collective called, if that can be known.
    pub reached: Option<u32>,
    /// Calls in front of the first kept one were dropped.
    pub wrapped: bool,
    /// The dump is cut: calls behind the last kept one are missing.
    pub cut: bool,
    /// The last call by the group's own count.
    enqueued: Option<u32>,
}

impl<'a> Part<'a> {
    fn new(source: SourceId, taken: &'a Taken, group: &Group, calls: &'a Calls) -> Self {
        let last = calls.collectives.last().map(|e| e.seq);
        // A process that called nothing here: that is known only if nothing was dropped.
        let none = (!taken.wrapped() && taken.entries > 0).then_some(0);
        let cut = taken.dump.cut.is_some();
        Self {
            source,
            calls,
            reached: last.or(none).filter(|_| !cut),
            wrapped: taken.wrapped(),
            cut,
            enqueued: group.enqueued,
        }
    }

    /// The number of the last collective that its dump holds.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        self.calls.collectives.last().map(|e| e.seq)
    }

    /// The entries with this number: several where calls were coalesced.
    #[must_use]
    pub fn at(&self, seq: u32) -> &'a [Entry] {
        let all = &self.calls.collectives;
        let from = all.partition_point(|e| e.seq < seq);
        let to = from + all[from..].partition_point(|e| e.seq == seq);
        &all[from..to]
    }
}

/// A process group, matched across dumps by its name and its ranks.
#[derive(Clone, Debug)]
pub struct GroupRec<'a> {
    /// How it is called in texts: `default_pg`, `group 3 (dp)`.
    pub name: String,
    /// `nccl`, `gloo`.
    pub backend: String,
    /// World ranks, in the order of their rank in the group; `None` if no dump says them.
    pub ranks: Option<Arc<[u32]>>,
    /// By world rank.
    pub members: BTreeMap<u32, Part<'a>>,
    /// Members without a dump.
    pub absent: BTreeSet<u32>,
}

impl<'a> GroupRec<'a> {
    /// The world rank of a rank in the group.
    #[must_use]
    pub fn world_rank(&self, rank: u32) -> Option<u32> {
        self.ranks.as_ref()?.get(rank as usize).copied()
    }

    /// Members of whom nobody knows whether they made this call: without a dump, with one that is cut before it, or
    /// with one that holds no calls of this group any more.
    #[must_use]
    pub fn unknown_at(&self, seq: u32) -> BTreeSet<u32> {
        let ends_before = |part: &Part<'_>| part.reached.is_none() && part.last() < Some(seq);
        let ending = self.members.iter().filter(|(_, part)| ends_before(part));
        let ending = ending.map(|(rank, _)| *rank);
        self.absent.iter().copied().chain(ending).collect()
    }

    /// Every rank that is known to be in it.
    #[must_use]
    pub fn all(&self) -> BTreeSet<u32> {
        self.members.keys().chain(&self.absent).copied().collect()
    }

    /// The call is through. Gloo never says so of a call, only that it let go of it.
    #[must_use]
    pub fn is_done(&self, entry: &Entry) -> bool {
        if self.tells_completion() {
            entry.progress == Progress::Completed
        } else {
            entry.retired
        }
    }

    /// The completion of a call can be trusted: Gloo lets go of failed ones too.
    #[must_use]
    pub fn tells_completion(&self) -> bool {
        self.backend != "gloo"
    }

    /// The number of the oldest collective that a member is not through.
    #[must_use]
    pub fn oldest_pending(&self, part: &Part<'a>) -> Option<u32> {
        self.pending(part).last().map(|entry| entry.seq)
    }

    /// Collectives of a member that are not through, newest first.
    pub fn pending<'p>(&'p self, part: &Part<'a>) -> impl Iterator<Item = &'a Entry> + use<'p, 'a> {
        let newest_first = part.calls.collectives.iter().rev();
        newest_first.take_while(|e| !self.is_done(e))
    }
}

/// Name, description, backend and ranks tell groups apart.
type Key = (String, String, String, Option<u32>);
type Parts<'a> = BTreeMap<u32, Part<'a>>;

/// Where a dump holds no collective of its group any more, the group's own count tells how far its rank came. The
/// count is trusted if it is right wherever it can be compared, and no send or recv may be in it.
fn count(members: &mut Parts<'_>) {
    let pairs = members.values().any(|part| !part.calls.p2p.is_empty());
    let known = members.values().filter(|part| part.reached.is_some());
    let mut told = known.filter_map(|part| Some((part.reached?, part.enqueued?)));
    let right = |(reached, enqueued)| reached == enqueued;
    if pairs || !told.next().is_some_and(right) || !told.all(right) {
        return;
    }
    for part in members.values_mut().filter(|part| !part.cut) {
        part.reached = part.reached.or(part.enqueued);
    }
}

/// The groups of all dumps.
pub(super) fn of<'a>(
    by_rank: &BTreeMap<u32, (SourceId, &'a Taken)>,
    world: Option<u32>,
) -> Vec<GroupRec<'a>> {
    let mut groups: BTreeMap<Key, Parts<'a>> = BTreeMap::new();
    let mut lists: BTreeMap<u32, Arc<[u32]>> = BTreeMap::new();
    for (rank, (source, taken)) in by_rank {
        for (group, calls) in taken.groups() {
            let ranks = group.ranks.as_ref();
            let foreign = ranks.is_some_and(|list| !list.ranks.contains(rank));
            if foreign || (group.backend.is_empty() && ranks.is_none()) {
                continue;
            }
            let key = (
                group.name.clone(),
                group.desc.clone(),
                group.backend.clone(),
                ranks.map(|list| list.id),
            );
            if let Some(list) = ranks {
                lists
                    .entry(list.id)
                    .or_insert_with(|| Arc::clone(&list.ranks));
            }
            let part = Part::new(*source, taken, group, calls);
            groups.entry(key).or_default().insert(*rank, part);
        }
    }
    let group = |((name, desc, backend, ranks), mut members): (Key, Parts<'a>)| {
        count(&mut members);
        let world = world.filter(|_| desc == "default_pg");
        let ranks = ranks.and_then(|id| lists.get(&id).cloned());
        let ranks = ranks.or_else(|| world.map(|world| (0..world).collect()));
        let all = ranks.iter().flat_map(|ranks| ranks.iter().copied());
        let absent = all.filter(|rank| !members.contains_key(rank)).collect();
        GroupRec {
            name: called(&name, &desc),
            backend,
            ranks,
            members,
            absent,
        }
    };
    let mut groups: Vec<GroupRec<'a>> = join(groups).into_iter().map(group).collect();
    groups.sort_by(|a, b| (&a.name, &a.backend, &a.ranks).cmp(&(&b.name, &b.backend, &b.ranks)));
    groups
}

/// Joins what is one group although some dumps say less of it: those without ranks, and those in which nothing
/// was called on it, so that its backend is not known.
fn join(groups: BTreeMap<Key, Parts<'_>>) -> BTreeMap<Key, Parts<'_>> {
    let mut by_name: BTreeMap<(String, String), Vec<Key>> = BTreeMap::new();
    for key in groups.keys() {
        let named = (key.0.clone(), key.1.clone());
        by_name.entry(named).or_default().push(key.clone());
    }
    let says_all = |key: &Key| !key.2.is_empty() && key.3.is_some();
    let mut out: BTreeMap<Key, Parts<'_>> = BTreeMap::new();
    for (key, members) in groups {
        let alike = by_name.get(&(key.0.clone(), key.1.clone()));
        let fits = |other: &&Key| {
            let backend = key.2.is_empty() || other.2 == key.2;
            let ranks = key.3.is_none() || other.3 == key.3;
            *other != &key && says_all(other) && backend && ranks
        };
        let unsure = alike.into_iter().flatten().filter(|_| !says_all(&key));
        let mut fitting = unsure.filter(fits);
        let target = match (says_all(&key), fitting.next(), fitting.next()) {
            (false, Some(one), None) => one.clone(),
            _ => key,
        };
        let joined = out.entry(target).or_default();
        for (rank, part) in members {
            joined.entry(rank).or_insert(part);
        }
    }
    out
}

/// A name that people know it by.
fn called(name: &str, desc: &str) -> String {
    match (name, desc) {
        (_, "default_pg") => "default_pg".to_owned(),
        (name, "" | "undefined") => format!("group {name}"),
        (name, desc) => format!("group {name} ({desc})"),
    }
}
