//! The job's state: what the logs show × how they end.

use crate::engine::detect::Scene;
use crate::engine::detect::wait::{self, End};
use crate::engine::finding::Finding;
use crate::engine::job::{Member, Record};
use crate::engine::vocab::{Class, Effect, Phase, Role, State};
use crate::engine::witness::recorder::GroupRec;

/// How the logs end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Nothing proves that the job stood still.
    Open,
    /// It stood still.
    Standstill,
    /// The end was seen.
    Seen,
}

fn ending(scene: &Scene<'_>) -> Ending {
    if wait::end_was_seen(scene) {
        return Ending::Seen;
    }
    if wait::stands_still(scene) {
        Ending::Standstill
    } else {
        Ending::Open
    }
}

/// The table. A cause decides by its class and effect; without one the ends do.
pub(super) fn of(
    scene: &Scene<'_>,
    cause: Option<&Finding>,
    findings: &[Finding],
    unseen: &[u32],
) -> State {
    let ending = ending(scene);
    let Some(cause) = cause else {
        return without_cause(scene, ending, findings, unseen);
    };
    let ending = match ending {
        Ending::Open if wait::fell_silent(scene, cause) => Ending::Standstill,
        seen => seen,
    };
    match cause.class {
        Class::MismatchedCollective => match (ending, went_on(cause)) {
            (Ending::Standstill, _) => State::Hung,
            (_, true) => State::WrongResults,
            (Ending::Seen, false) => State::Failed,
            (Ending::Open, false) => State::Waiting,
        },
        // A store or barrier that gave up ended start-up; whoever claims a standstill saw others wait.
        Class::MissingRank if cause.effect == Effect::Fatal && !scene.claimed => State::Failed,
        Class::MissingRank => waits(ending),
        Class::RankDied => {
            if ending == Ending::Seen {
                State::Failed
            } else {
                State::Hung
            }
        }
        _ => match cause.effect {
            Effect::Fatal | Effect::Died => {
                // An error ended some ranks; whoever claims a standstill saw the others wait.
                if scene.claimed && ending != Ending::Seen {
                    State::Hung
                } else {
                    State::Failed
                }
            }
            Effect::Standstill => {
                if ending == Ending::Seen {
                    State::Failed
                } else {
                    State::Hung
                }
            }
            Effect::Degraded | Effect::None => {
                if ending == Ending::Standstill {
                    State::Hung
                } else {
                    State::Degraded
                }
            }
        },
    }
}

fn waits(ending: Ending) -> State {
    match ending {
        Ending::Open => State::Waiting,
        Ending::Standstill => State::Hung,
        Ending::Seen => State::Failed,
    }
}

/// A mismatch after which the job went on.
fn went_on(cause: &Finding) -> bool {
    cause.name == "wrong-results"
}

fn without_cause(scene: &Scene<'_>, ending: Ending, findings: &[Finding], unseen: &[u32]) -> State {
    let seen: Vec<_> = scene.ranks.ranks.iter().filter(|r| r.was_seen()).collect();
    let badly = seen.iter().any(|r| wait::end_of(scene, r) == End::Badly);
    let symptom = findings
        .iter()
        .any(|f| matches!(f.effect, Effect::Fatal | Effect::Died | Effect::Standstill));
    // Ranks wait in a call, and one that has to make it too left no trace.
    let unaccounted = findings.iter().any(is_unaccounted);
    match ending {
        Ending::Open if unaccounted => State::Waiting,
        Ending::Seen if badly => State::Failed,
        Ending::Seen => State::Completed,
        Ending::Standstill if knows_something(scene) || symptom => State::Hung,
        Ending::Standstill => State::Inconclusive,
        Ending::Open if badly => State::Failed,
        // In the middle of start-up nothing says yet whether it will come up.
        Ending::Open if !knows_something(scene) && in_start_up(scene) => State::Inconclusive,
        // Ranks that stop in the middle, and the log of another was not given: it may be the one
        // they wait for.
        Ending::Open if !unseen.is_empty() && !goes_on(scene) => State::Inconclusive,
        Ending::Open if knows_something(scene) => State::Healthy,
        Ending::Open if knows_application(scene) && !is_one_of_unknown(scene) => State::Healthy,
        Ending::Open => State::Inconclusive,
    }
}

/// A note about ranks that may have ended while others wait for them.
pub(super) fn is_unaccounted(finding: &Finding) -> bool {
    finding.role == Role::Note && finding.effect == Effect::Died && !finding.accused.is_empty()
}

/// NCCL or PyTorch said enough to compare ranks.
fn knows_something(scene: &Scene<'_>) -> bool {
    let recorded = scene
        .recorded
        .by_rank
        .values()
        .any(|(_, taken)| taken.entries > 0);
    recorded
        || scene.ranks.comms.iter().any(|c| {
            c.members
                .values()
                .any(|m| scene.job.members[m.ix()].complete)
        })
}

/// Some rank's calls were logged.
pub(super) fn knows_calls(scene: &Scene<'_>) -> bool {
    scene.ranks.comms.iter().any(|c| {
        c.members
            .values()
            .any(|m| scene.job.members[m.ix()].called())
    })
}

/// Calls were logged, and of every rank all of them: none was torn or cut off.
pub(super) fn knows_every_call(scene: &Scene<'_>) -> bool {
    let whole = |m: &Member| !m.called() || m.ordinals_hold();
    // The settings stand at the beginning: without it, a difference in them may be what is wrong.
    let begins = |r: &Record| r.pid.is_none() || r.nccl.is_some() || !r.addresses.is_empty();
    knows_calls(scene)
        && scene.job.members.iter().all(whole)
        && scene.all_records().all(|(_, r)| begins(r))
}

/// By the logs or by the dumps every rank's calls are known.
pub(super) fn idle(scene: &Scene<'_>) -> bool {
    knows_every_call(scene) || idle_by_dumps(scene)
}

/// The dumps of all ranks are there and whole, and in every group all made the same calls and are through them.
pub(super) fn idle_by_dumps(scene: &Scene<'_>) -> bool {
    let recorded = scene.recorded;
    let dumps = recorded.by_rank.values().map(|(_, taken)| *taken);
    let all = recorded
        .world
        .is_some_and(|n| n as usize == recorded.by_rank.len());
    // What serves models has communicators of its own, which PyTorch does not record.
    let serves = scene.all_records().any(|(_, r)| r.serving);
    let idle = |group: &GroupRec<'_>| {
        let mut reached = group.members.values().map(|part| part.reached);
        let first = reached.next().flatten();
        let equal = first.is_some() && reached.all(|reached| reached == first);
        let mut calls = group.members.values().flat_map(|part| {
            let calls = part.calls;
            calls.collectives.iter().chain(&calls.p2p)
        });
        let whole = group.absent.is_empty() && group.tells_completion();
        equal && whole && calls.all(|entry| group.is_done(entry))
    };
    all && recorded.unread.is_empty()
        && !serves
        && dumps.clone().all(|taken| taken.cut().is_none())
        && dumps.clone().any(|taken| taken.entries > 0)
        && recorded.groups.iter().all(idle)
}

/// A rank waited in vain or lost something, and who is at fault is not known.
fn complains(findings: &[Finding]) -> bool {
    findings.iter().any(|f| f.role == Role::Symptom)
}

/// NCCL has begun to start up and no communicator stands yet.
fn in_start_up(scene: &Scene<'_>) -> bool {
    scene
        .all_records()
        .any(|(_, r)| r.pid.is_some() && r.phase >= Phase::Bootstrap)
}

/// Lines of a launcher or of PyTorch, and nothing wrong in them. The program's own lines alone do not
/// even say that this is the log of a job.
fn knows_application(scene: &Scene<'_>) -> bool {
    let of_a_job = |r: &Record| r.of_a_job || r.rank_of.is_some() || r.serving;
    scene.all_records().any(|(_, r)| of_a_job(r))
}

/// Somebody watches and sees ranks print: no communicator gets on without the others.
fn goes_on(scene: &Scene<'_>) -> bool {
    let last = scene.all_records().filter_map(|(_, r)| r.last_seen).max();
    scene.more_may_come
        && last > scene.watched_since
        && scene.watched_since.is_some()
        && !wait::nobody_prints(scene, "RANK006")
}

/// The log of one rank alone, and nothing in it says how many there are: the start of a job of more.
pub(super) fn is_one_of_unknown(scene: &Scene<'_>) -> bool {
    let seen: Vec<_> = scene.ranks.ranks.iter().filter(|r| r.lines > 0).collect();
    scene.ranks.world.is_none()
        && scene.ranks.others.is_empty()
        && seen.len() == 1
        && !scene.records(seen[0]).any(|r| r.serving)
}

/// The class of a verdict that rests on no finding.
pub(super) fn class_without_cause(
    scene: &Scene<'_>,
    state: State,
    findings: &[Finding],
    unseen: &[u32],
) -> Class {
    match state {
        State::Hung if !unseen.is_empty() => Class::Inconclusive,
        State::Healthy | State::Completed => Class::Healthy,
        // Every communicator is idle and equal, and nobody complains: whatever it is, it is outside NCCL.
        State::Hung if idle(scene) && !complains(findings) => Class::UserCode,
        _ => Class::Inconclusive,
    }
}
