//! Which writer is which rank, and which attempt is the current one.
//!
//! A rank is the process's rank in the world. Votes, strongest first: the launcher's or PyTorch's own
//! word (`[rankN]:`), the rank in a communicator whose nranks is the world size, the process's own
//! word (`world_size=8 rank=3`), a pid that another writer's word names, torchrun's local rank where
//! there is one node, and last the number in the file's name, if no stronger vote contradicts it.

use std::collections::{BTreeMap, BTreeSet};

use super::comm::{CommKey, MemberIx};
use super::{Job, Record};
use crate::engine::demux::{Hint, Writer};
use crate::engine::ids::{CommIx, SourceId, WriterIx};
use crate::engine::limits;
use crate::engine::line::Place;
use crate::engine::witness::recorder::Recorded;

/// One rank of the world.
#[derive(Clone, Debug, Default)]
pub struct RankRec {
    /// World rank.
    pub rank: u32,
    /// Its writers in the current attempt.
    pub writers: Vec<WriterIx>,
    /// Host, if known.
    pub host: Option<String>,
    /// Process id, if known.
    pub pid: Option<u32>,
    /// Lines of it in the current attempt.
    pub lines: u64,
    /// A source was given for it, even if empty.
    pub has_source: bool,
    /// It left a Flight Recorder dump.
    pub has_dump: bool,
    /// Distinct processes that claim the rank in the current attempt.
    pub processes: BTreeSet<(String, u32)>,
}

impl RankRec {
    /// Anything at all was seen of it.
    #[must_use]
    pub fn was_seen(&self) -> bool {
        self.lines > 0 || self.has_dump
    }
}

/// One communicator, its members by rank in it.
#[derive(Clone, Debug)]
pub struct CommRec {
    /// The communicator.
    pub ix: CommIx,
    /// Its ranks.
    pub nranks: u32,
    /// Members by rank in the communicator; duplicates resolved; members of unknown rank left out.
    pub members: BTreeMap<u32, MemberIx>,
    /// True if it spans the world.
    pub is_world: bool,
    /// Places in it that two different processes took.
    pub taken_twice: Vec<(u32, MemberIx, MemberIx)>,
}

/// The ranks of the job.
#[derive(Clone, Debug, Default)]
pub struct Ranks {
    /// Number of ranks, if known.
    pub world: Option<u32>,
    /// By rank, without holes up to the world size or the highest rank seen.
    pub ranks: Vec<RankRec>,
    /// World rank of each writer.
    pub of_writer: Vec<Option<u32>>,
    /// Writers that belong to an earlier attempt.
    pub stale: Vec<bool>,
    /// Every writer, by source and then by first appearance in it: the same however the sources' bytes
    /// were interleaved.
    pub in_order: Vec<WriterIx>,
    /// Writers whose rank is not known and that wrote something.
    pub others: Vec<WriterIx>,
    /// The communicators of the current attempt.
    pub comms: Vec<CommRec>,
}

impl Ranks {
    /// Resolves them from everything seen so far.
    #[must_use]
    pub fn resolve(job: &Job, writers: &[Writer], recorded: &Recorded<'_>) -> Self {
        // Logs that show no communicator of all ranks take a smaller one for the world.
        let world = world_size(job, writers).max(recorded.world);
        let mut of_writer = strong_votes(job, writers, world);
        by_pid(job, writers, &mut of_writer);
        by_local_rank(job, writers, world, &mut of_writer);
        by_node(writers, world, &mut of_writer);
        by_file_number(job, writers, world, &mut of_writer);
        by_name(writers, &mut of_writer);
        by_source(job, writers, &mut of_writer);
        for rank in &mut of_writer {
            *rank = rank.filter(believable);
        }
        let stale = stale_writers(job, writers, world, &of_writer);
        let mut found = Self {
            world,
            of_writer,
            stale,
            in_order: in_order(writers),
            ..Self::default()
        };
        found.collect(job, writers, recorded);
        found.collect_comms(job);
        found
    }

    /// The world rank of a writer.
    #[must_use]
    pub fn rank_of(&self, writer: WriterIx) -> Option<u32> {
        self.of_writer.get(writer.ix()).copied().flatten()
    }

    /// The world rank of a member of a communicator, seen or not.
    #[must_use]
    pub fn world_rank(&self, job: &Job, comm: &CommRec, rank: u32) -> Option<u32> {
        if comm.is_world {
            return Some(rank);
        }
        self.rank_of(job.members[comm.members.get(&rank)?.ix()].writer)
    }

    fn collect(&mut self, job: &Job, writers: &[Writer], recorded: &Recorded<'_>) {
        let reported = job
            .records
            .iter()
            .flat_map(|r| &r.reports)
            .filter_map(|r| r.rank)
            .filter(believable)
            .max();
        let highest = self
            .of_writer
            .iter()
            .flatten()
            .copied()
            .max()
            .max(reported)
            .max(recorded.by_rank.keys().next_back().copied())
            .map_or(0, |rank| rank + 1);
        let count = self.world.unwrap_or(0).max(highest).min(limits::RANKS);
        self.ranks = (0..count)
            .map(|rank| RankRec {
                rank,
                ..RankRec::default()
            })
            .collect();
        for at in self.in_order.clone() {
            let (ix, writer) = (at.ix(), &writers[at.ix()]);
            let record = &job.records[ix];
            let Some(rank) = self.of_writer[ix].filter(|rank| *rank < count) else {
                if record.lines > 0 {
                    self.others.push(at);
                }
                continue;
            };
            let rec = &mut self.ranks[rank as usize];
            rec.has_source = true;
            if self.stale[ix] {
                continue;
            }
            rec.writers.push(at);
            rec.lines += record.lines;
            let hinted = hint(writer, |h| {
                if let Hint::Host(host) = h {
                    Some(host.clone())
                } else {
                    None
                }
            });
            let host = record.host.clone().or(hinted);
            rec.host = rec.host.take().or(host);
            let hinted = hint(writer, |h| {
                if let Hint::Pid(pid) = h {
                    Some(*pid)
                } else {
                    None
                }
            });
            rec.pid = record.pid.or(rec.pid).or(hinted);
            if let (Some(host), Some(pid)) = (&record.host, record.pid) {
                rec.processes.insert((host.clone(), pid));
            }
        }
        for rec in &mut self.ranks {
            rec.has_dump = recorded.by_rank.contains_key(&rec.rank);
        }
    }

    fn collect_comms(&mut self, job: &Job) {
        for (ix, comm) in job.comms.iter().enumerate() {
            let mut members: BTreeMap<u32, MemberIx> = BTreeMap::new();
            let mut taken_twice = Vec::new();
            let mut ordered = comm.members.clone();
            ordered.sort_by_key(|m| (first_place(job, *m), *m));
            for member in &ordered {
                let seen = &job.members[member.ix()];
                if seen.rank == u32::MAX || self.stale[seen.writer.ix()] {
                    continue;
                }
                // The same process seen in two sources counts once: the longer record stands for it.
                let known = members.entry(seen.rank).or_insert(*member);
                let (first, second) = (job.members[known.ix()].writer, seen.writer);
                if different_process(&job.records[first.ix()], &job.records[second.ix()]) {
                    taken_twice.push((seen.rank, *known, *member));
                }
                if job.members[known.ix()].reached < seen.reached {
                    *known = *member;
                }
            }
            if members.is_empty() {
                continue;
            }
            let is_world = Some(comm.nranks) == self.world;
            self.comms.push(CommRec {
                ix: CommIx::from_ix(ix),
                nranks: comm.nranks,
                members,
                is_world,
                taken_twice,
            });
        }
        // The order of arrival is an accident; the order in the sources is not.
        let first = |c: &CommRec| {
            c.members
                .values()
                .filter_map(|m| first_place(job, *m))
                .min()
        };
        self.comms.sort_by_key(|c| (first(c), c.ix));
    }
}

fn in_order(writers: &[Writer]) -> Vec<WriterIx> {
    let mut order: Vec<WriterIx> = (0..writers.len()).map(WriterIx::from_ix).collect();
    order.sort_by_key(|w| (writers[w.ix()].source, *w));
    order
}

/// Where a member of a communicator first shows.
fn first_place(job: &Job, member: MemberIx) -> Option<Place> {
    let member = &job.members[member.ix()];
    let line = member
        .start_line
        .as_ref()
        .or(member.complete_line.as_ref())?;
    Some(line.place)
}

fn hint<T>(writer: &Writer, of: impl Fn(&Hint) -> Option<T>) -> Option<T> {
    writer.hints.iter().find_map(of)
}

fn world_hint(writer: &Writer) -> Option<u32> {
    hint(writer, |h| match h {
        Hint::WorldRank(rank) => Some(*rank),
        _ => None,
    })
    .filter(believable)
}

/// A number that can be a rank.
fn believable(rank: &u32) -> bool {
    *rank < limits::RANKS
}

/// The world size: what processes and stores say, else the largest communicator, unless ranks
/// beyond it were seen.
#[must_use]
pub fn world_size(job: &Job, writers: &[Writer]) -> Option<u32> {
    let said = job
        .records
        .iter()
        .flat_map(|r| {
            [
                r.rank_of.as_ref().map(|(_, of, _)| *of),
                r.world_size,
                r.store.as_ref().map(|s| s.of),
            ]
        })
        .flatten()
        .filter(|size| *size <= limits::RANKS)
        .max();
    let largest = job
        .comms
        .iter()
        .filter(|c| !matches!(c.key, CommKey::Alone { .. }))
        .map(|c| c.nranks)
        .max();
    let least = writers
        .iter()
        .filter_map(world_hint)
        .map(|rank| rank + 1)
        .max()
        .max(numbered_files(writers));
    let known = said
        .max(largest)
        .filter(|size| (1..=limits::RANKS).contains(size))?;
    (known >= least.unwrap_or(0)).then_some(known)
}

/// Number of files, if they are numbered from 0 without a gap: there are at least as many ranks.
fn numbered_files(writers: &[Writer]) -> Option<u32> {
    let numbers: BTreeSet<u32> = writers
        .iter()
        .filter(|w| w.is_default)
        .filter_map(file_number)
        .collect();
    let last = *numbers.last()?;
    (numbers.len() > 1 && last as usize + 1 == numbers.len()).then_some(last + 1)
}

fn file_number(writer: &Writer) -> Option<u32> {
    hint(writer, |h| match h {
        Hint::FileNumber(n) => Some(*n),
        _ => None,
    })
    .filter(believable)
}

fn strong_votes(job: &Job, writers: &[Writer], world: Option<u32>) -> Vec<Option<u32>> {
    let in_world = |rank: &u32| world.is_none_or(|size| *rank < size);
    writers
        .iter()
        .zip(&job.records)
        .map(|(writer, record)| {
            let said = record
                .rank_of
                .as_ref()
                .filter(|(_, of, _)| world.is_none_or(|size| size == *of));
            world_hint(writer)
                .filter(in_world)
                .or_else(|| {
                    let members = record.members.iter().map(|m| &job.members[m.ix()]);
                    let mut world_members = members
                        .filter(|m| m.known_start && Some(job.comms[m.comm.ix()].nranks) == world);
                    world_members.next().map(|m| m.rank)
                })
                .or(said.map(|(rank, _, _)| *rank))
        })
        .collect()
}

/// Writers of one source with the same pid are one process; a launcher's report joins pid and rank.
fn by_pid(job: &Job, writers: &[Writer], of_writer: &mut [Option<u32>]) {
    let pid_of = |ix: usize| {
        job.records[ix].pid.or_else(|| {
            hint(&writers[ix], |h| {
                if let Hint::Pid(pid) = h {
                    Some(*pid)
                } else {
                    None
                }
            })
        })
    };
    let mut known: BTreeMap<(SourceId, u32), Option<u32>> = BTreeMap::new();
    let mut learn = |source: SourceId, pid: u32, rank: u32| {
        let entry = known.entry((source, pid)).or_insert(Some(rank));
        if *entry != Some(rank) {
            *entry = None;
        }
    };
    for (ix, rank) in of_writer.iter().enumerate() {
        if let (Some(pid), Some(rank)) = (pid_of(ix), *rank) {
            learn(writers[ix].source, pid, rank);
        }
    }
    for record in &job.records {
        for report in &record.reports {
            if let (Some(pid), Some(rank)) = (report.pid, report.rank) {
                learn(record.source, pid, rank);
            }
        }
    }
    for ix in 0..of_writer.len() {
        if of_writer[ix].is_none()
            && let Some(pid) = pid_of(ix)
            && let Some(rank) = known.get(&(writers[ix].source, pid)).copied().flatten()
        {
            of_writer[ix] = Some(rank);
        }
    }
}

/// torchrun's local ranks are world ranks where all of them together are the world.
fn by_local_rank(job: &Job, writers: &[Writer], world: Option<u32>, of_writer: &mut [Option<u32>]) {
    let local_of = |w: &Writer| {
        hint(w, |h| match h {
            Hint::LocalRank(rank) | Hint::EngineRank(rank) => Some(*rank),
            _ => None,
        })
    };
    let locals: BTreeSet<u32> = writers
        .iter()
        .filter_map(local_of)
        .filter(believable)
        .collect();
    let reported = job.records.iter().flat_map(|r| &r.reports);
    let one_node = reported
        .filter_map(|r| Some((r.rank?, r.local?)))
        .all(|(rank, local)| rank == local);
    let size = world.unwrap_or(u32::MAX);
    let all = locals.last().is_some_and(|last| {
        *last + 1 == size || (world.is_none() && locals.len() as u32 == last + 1)
    });
    let nodes: BTreeSet<u32> = writers
        .iter()
        .filter_map(|w| {
            hint(w, |h| {
                if let Hint::Node(node) = h {
                    Some(*node)
                } else {
                    None
                }
            })
        })
        .collect();
    if !one_node || !all || nodes.len() > 1 {
        return;
    }
    for (ix, writer) in writers.iter().enumerate() {
        if of_writer[ix].is_none() {
            of_writer[ix] = local_of(writer);
        }
    }
}

/// As many nodes (pods, hosts by number) as ranks: each has one.
fn by_node(writers: &[Writer], world: Option<u32>, of_writer: &mut [Option<u32>]) {
    let node = |w: &Writer| {
        hint(w, |h| match h {
            Hint::Node(node) => Some(*node),
            _ => None,
        })
    };
    let nodes: BTreeSet<u32> = writers.iter().filter_map(node).collect();
    let agrees = writers
        .iter()
        .zip(&*of_writer)
        .all(|(w, rank)| node(w).zip(*rank).is_none_or(|(node, rank)| node == rank));
    let one_each = Some(nodes.len() as u64) == world.map(u64::from)
        && nodes.last().copied() == world.map(|size| size - 1);
    if !one_each || !agrees {
        return;
    }
    for (ix, writer) in writers.iter().enumerate() {
        if of_writer[ix].is_none() {
            of_writer[ix] = node(writer);
        }
    }
}

/// The number in a file's name, if every file with a number and a stronger vote agrees.
fn by_file_number(
    job: &Job,
    writers: &[Writer],
    world: Option<u32>,
    of_writer: &mut [Option<u32>],
) {
    let mut numbers: BTreeMap<SourceId, u32> = BTreeMap::new();
    for writer in writers.iter().filter(|w| w.is_default) {
        if let Some(number) = file_number(writer) {
            numbers.insert(writer.source, number);
        }
    }
    let distinct: BTreeSet<u32> = numbers.values().copied().collect();
    let in_world = distinct
        .last()
        .is_none_or(|last| world.is_none_or(|size| *last < size));
    if numbers.is_empty() || distinct.len() != numbers.len() || !in_world {
        return;
    }
    let contradicted = writers.iter().enumerate().any(|(ix, w)| {
        matches!((numbers.get(&w.source), of_writer[ix]), (Some(number), Some(rank)) if *number != rank)
    });
    if contradicted {
        return;
    }
    let _ = job;
    for (ix, writer) in writers.iter().enumerate() {
        if of_writer[ix].is_none() {
            of_writer[ix] = numbers.get(&writer.source).copied();
        }
    }
}

/// Writers of one source that the launcher calls the same (a pod, a worker) are one rank, if only one
/// rank is among them.
fn by_name(writers: &[Writer], of_writer: &mut [Option<u32>]) {
    let name = |w: &Writer| {
        hint(w, |h| match h {
            Hint::Name(name) => Some((w.source, name.clone())),
            _ => None,
        })
    };
    let mut known: BTreeMap<(SourceId, String), BTreeSet<u32>> = BTreeMap::new();
    for (writer, rank) in writers.iter().zip(&*of_writer) {
        if let (Some(name), Some(rank)) = (name(writer), rank) {
            known.entry(name).or_default().insert(*rank);
        }
    }
    for (ix, writer) in writers.iter().enumerate() {
        let ranks = name(writer).and_then(|name| known.get(&name));
        if let (None, Some(ranks)) = (of_writer[ix], ranks)
            && ranks.len() == 1
        {
            of_writer[ix] = ranks.first().copied();
        }
    }
}

/// A source that only one rank writes is that rank's, whoever of its writers said so.
fn by_source(job: &Job, writers: &[Writer], of_writer: &mut [Option<u32>]) {
    let mut ranks: BTreeMap<SourceId, BTreeSet<u32>> = BTreeMap::new();
    let mut unknown: BTreeMap<SourceId, BTreeSet<u32>> = BTreeMap::new();
    for (ix, writer) in writers.iter().enumerate() {
        match (of_writer[ix], job.records[ix].pid) {
            (Some(rank), _) => {
                ranks.entry(writer.source).or_default().insert(rank);
            }
            (None, Some(pid)) => {
                unknown.entry(writer.source).or_default().insert(pid);
            }
            (None, None) => {}
        }
    }
    for (ix, writer) in writers.iter().enumerate() {
        let Some(ranks) = ranks.get(&writer.source).filter(|r| r.len() == 1) else {
            continue;
        };
        let foreign = hint(writer, |h| matches!(h, Hint::Name(_)).then_some(())).is_some();
        let others = unknown.get(&writer.source).map_or(0, BTreeSet::len);
        if of_writer[ix].is_none() && !foreign && others == 0 {
            of_writer[ix] = ranks.first().copied();
        }
    }
}

/// Writers of an earlier attempt: their rank has a process that joined a later world communicator,
/// or torchrun says so by the attempt's number.
fn stale_writers(
    job: &Job,
    writers: &[Writer],
    world: Option<u32>,
    of_writer: &[Option<u32>],
) -> Vec<bool> {
    let attempt = |w: &Writer| {
        hint(w, |h| {
            if let Hint::Attempt(n) = h {
                Some(*n)
            } else {
                None
            }
        })
    };
    let latest = writers.iter().filter_map(attempt).max();
    let mut stale: Vec<bool> = writers
        .iter()
        .map(|w| attempt(w).is_some_and(|n| Some(n) != latest))
        .collect();
    // Reruns appended to one file: the same source and rank, another pid, a later first line.
    let mut last: BTreeMap<(SourceId, u32), usize> = BTreeMap::new();
    for (ix, record) in job.records.iter().enumerate() {
        let Some(rank) = of_writer[ix] else { continue };
        if record.pid.is_none() || !joined_world(job, record, world) {
            continue;
        }
        if let Some(earlier) = last.insert((record.source, rank), ix)
            && different_process(record, &job.records[earlier])
        {
            stale[earlier] = true;
        }
    }
    stale
}

fn joined_world(job: &Job, record: &Record, world: Option<u32>) -> bool {
    record
        .members
        .iter()
        .any(|m| Some(job.comms[job.members[m.ix()].comm.ix()].nranks) == world)
}

fn different_process(a: &Record, b: &Record) -> bool {
    (a.pid, &a.host) != (b.pid, &b.host)
}
