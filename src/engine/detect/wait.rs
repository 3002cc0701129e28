//! What proves that a job stands still, and how its ranks ended.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Scene, process};
use crate::engine::event::Exit;
use crate::engine::finding::Finding;
use crate::engine::ids::{RuleIx, SourceId};
use crate::engine::input::Time;
use crate::engine::job::{CommRec, Kept, RankRec};
use crate::engine::vocab::Effect;

/// Attempts after which a connect that is still refused is no race at start-up any more: at the
/// k-th attempt NCCL 2.24 and later sleep k × 100 ms, so this is 4.5 s.
const ATTEMPTS: u32 = 9;

/// A proof that the job stood still: a watchdog or store timeout, connects that go on failing, or a
/// process seen stopped.
#[must_use]
pub fn standstill<'a>(scene: &Scene<'a>) -> Option<&'a Kept> {
    let from_rules = scene.hits.by_rule().find(|(rule, writer, _)| {
        scene.catalog.rule(*rule).effect == Effect::Standstill && !scene.ranks.stale[writer.ix()]
    });
    if let Some((_, _, record)) = from_rules {
        return record.lines.first();
    }
    scene
        .all_records()
        .find_map(|(_, record)| {
            let watchdog = record.watchdogs.first().map(|w| &w.line);
            let store = record.store.as_ref().map(|s| &s.line);
            let barrier = record.barrier_missing.as_ref().map(|(_, line)| line);
            let connects = record
                .connects
                .iter()
                .find(|c| c.attempts >= ATTEMPTS || c.gave_up);
            watchdog.or(store).or(barrier).or(connects.map(|c| &c.last))
        })
        .or_else(|| launches_stand(scene))
        .or_else(|| process::standstill(scene))
}

/// Two answers of RAS, further apart than its rule's patience, that show the same unequal launches.
fn launches_stand<'a>(scene: &Scene<'a>) -> Option<&'a Kept> {
    let patience = threshold(scene, scene.catalog.by_id("RAS001")?, "patience_s")?;
    let comms = scene.job.ras.last.iter().flat_map(|a| &a.reply.comms);
    let mut stand = comms.filter(|comm| scene.job.ras.still_for(comm.hash) > patience);
    let counts = stand.find_map(|comm| comm.counts.first())?;
    let mut sides = counts.sides.iter();
    sides.find_map(|side| {
        let of_ranks = side.ranks.iter().find_map(|p| p.line.as_ref());
        side.line.as_ref().or(of_ranks)
    })
}

/// True if the job is known to stand still: the user says so, a line proves it, or a dump shows a call that was
/// given up.
#[must_use]
pub fn stands_still(scene: &Scene<'_>) -> bool {
    scene.claimed || standstill(scene).is_some() || scene.recorded.timed_out()
}

/// True if silence proves that what `cause` tells of stands still: for longer than its rule's
/// patience, while somebody watched, nobody who waits got any further and nobody who is waited for
/// printed anything. Rules without `patience_s` are never proven so.
#[must_use]
pub fn fell_silent(scene: &Scene<'_>, cause: &Finding) -> bool {
    let quiet = last_move(scene, cause).and_then(|last| Some(scene.now?.since(last)));
    match (quiet, threshold(scene, cause.rule, "patience_s")) {
        (Some(quiet), Some(patience)) => quiet > patience,
        _ => false,
    }
}

/// True if somebody who watches sees the ranks of a finding move, so that whoever is behind may
/// just be about to come: in a job that runs, some rank is always a moment behind. What was in the
/// logs before the watch began did not move.
#[must_use]
pub fn is_merely_late(scene: &Scene<'_>, finding: &Finding) -> bool {
    let late = threshold(scene, finding.rule, "late_s");
    let (Some(now), Some(since), Some(late)) = (scene.now, scene.watched_since, late) else {
        return false;
    };
    scene.more_may_come
        && !scene.claimed
        && last_move(scene, finding).is_some_and(|last| last > since && now.since(last) <= late)
        && standstill(scene).is_none()
}

/// When anybody of a finding was last seen to move: whoever waits got on, or whoever is waited for
/// printed anything.
fn last_move(scene: &Scene<'_>, cause: &Finding) -> Option<Time> {
    let waited_for = |rank: u32| cause.accused.is_empty() || cause.accused.contains(&rank);
    // Lines of nobody known in the same source may be those of a rank that is waited for.
    let sources: BTreeSet<SourceId> = scene
        .all_records()
        .filter(|(rank, _)| rank.is_some_and(waited_for))
        .map(|(_, record)| record.source)
        .collect();
    let theirs = scene.all_records().filter(|(rank, record)| match rank {
        Some(rank) => waited_for(*rank),
        None => sources.contains(&record.source),
    });
    let theirs = theirs.filter_map(|(_, record)| record.last_seen);
    let waiting = scene
        .ranks
        .ranks
        .iter()
        .filter(|rec| cause.ranks.contains(&rec.rank) && !waited_for(rec.rank));
    let waiting = waiting.filter_map(|rec| got_on(scene, rec));
    theirs.chain(waiting).max()
}

/// True if nothing at all was printed for longer than a rule's patience, while somebody watched.
#[must_use]
pub fn nobody_prints(scene: &Scene<'_>, rule: &str) -> bool {
    let rule = scene.catalog.by_id(rule);
    let patience = rule.and_then(|rule| threshold(scene, rule, "patience_s"));
    let last = scene.all_records().filter_map(|(_, r)| r.last_seen).max();
    match (scene.now, last, patience) {
        (Some(now), Some(last), Some(patience)) => now.since(last) > patience,
        _ => false,
    }
}

fn threshold(scene: &Scene<'_>, rule: RuleIx, name: &str) -> Option<Duration> {
    let seconds = scene.catalog.rule(rule).threshold(name)?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// When a rank last got on. What its other threads print while it waits does not count, unless
/// nothing else was seen of it.
fn got_on(scene: &Scene<'_>, rank: &RankRec) -> Option<Time> {
    let progressed = scene.records(rank).filter_map(|r| r.progressed).max();
    progressed.or_else(|| scene.records(rank).filter_map(|r| r.last_seen).max())
}

/// How a rank's process ended, as far as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It destroyed the world's communicator, or a launcher reports status 0.
    Well,
    /// An exception, an abort, a bad status or a signal.
    Badly,
    /// Not seen.
    Unknown,
}

/// How a rank ended.
#[must_use]
pub fn end_of(scene: &Scene<'_>, rank: &RankRec) -> End {
    match scene.reports.of_rank(rank.rank).and_then(|r| r.exit) {
        Some(Exit::Code(0)) => return End::Well,
        Some(_) => return End::Badly,
        None => {}
    }
    let gave_up = scene.records(rank).any(|r| {
        let exception = r
            .exceptions
            .iter()
            .any(|e| e.line.place.number > progress_in(scene, rank, &e.line));
        exception || r.abort.is_some()
    });
    if gave_up {
        return End::Badly;
    }
    let destroyed = scene.records(rank).any(|record| {
        let members = record.members.iter().map(|m| &scene.job.members[m.ix()]);
        let mut over =
            members.filter(|m| Some(scene.job.comms[m.comm.ix()].nranks) == scene.ranks.world);
        over.any(|m| m.ended)
    });
    if destroyed { End::Well } else { End::Unknown }
}

/// Line number of the rank's last NCCL progress in the source that `line` stands in.
#[must_use]
pub fn progress_in(scene: &Scene<'_>, rank: &RankRec, line: &Kept) -> u64 {
    let same = scene
        .records(rank)
        .filter(|r| r.source == line.place.source);
    same.map(|r| r.progress).max().unwrap_or(0)
}

/// True if the end of the job was seen: a launcher's report, or the end of every rank that was seen.
#[must_use]
pub fn end_was_seen(scene: &Scene<'_>) -> bool {
    let reported = scene
        .all_records()
        .any(|(_, r)| r.reports.iter().any(|report| report.rank.is_some()));
    let stopped = scene.all_records().any(|(_, r)| r.stopped.is_some());
    let mut seen = scene.ranks.ranks.iter().filter(|r| r.was_seen()).peekable();
    let all_ended = seen.peek().is_some() && seen.all(|r| end_of(scene, r) != End::Unknown);
    reported || stopped || all_ended || unowned_end(scene)
}

/// A traceback at the end of a stream that does not say whose it is: NCCL did nothing after it.
fn unowned_end(scene: &Scene<'_>) -> bool {
    scene.all_records().any(|(rank, record)| {
        let (None, Some(last)) = (rank, record.exceptions.last()) else {
            return false;
        };
        let same = scene
            .all_records()
            .filter(|(_, r)| r.source == record.source);
        let progress = same.map(|(_, r)| r.progress).max().unwrap_or(0);
        progress > 0 && last.line.place.number > progress
    })
}

/// Members of a communicator that wait in its init, by rank in it.
#[must_use]
pub fn open_members(scene: &Scene<'_>, comm: &CommRec) -> Vec<u32> {
    let members = comm.members.iter();
    members
        .filter(|(_, m)| scene.is_open(&scene.job.members[m.ix()]))
        .map(|(rank, _)| *rank)
        .collect()
}
