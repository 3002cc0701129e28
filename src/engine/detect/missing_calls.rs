//! Ranks that never made the call that the others of a communicator wait in.
//!
//! The wait is followed from communicator to communicator: a rank that is behind here because it
//! waits there is a symptom; the one that waits for nobody is the cause.

use std::collections::{BTreeMap, BTreeSet};

use super::circle::{self, Step};
use super::mismatch::{comm_name, comm_words, comparable, first_difference, line_of, op_count};
use super::{Draft, Scene, died, ranges, wait};
use crate::engine::finding::Finding;
use crate::engine::job::{CommRec, RankRec, Record};
use crate::engine::vocab::{Class, Confidence, Effect, Role};

/// Communicators that are reported at most.
const MOST_COMMS: usize = 8;

/// One communicator in which ranks are apart.
struct Lag<'a> {
    comm: &'a CommRec,
    /// Collectives that every rank made.
    common: u64,
    /// Ranks in the communicator that made no more.
    behind: Vec<u32>,
    /// Those that made more.
    ahead: Vec<u32>,
    /// World ranks of `behind` and `ahead`, as far as known.
    behind_world: BTreeSet<u32>,
    ahead_world: BTreeSet<u32>,
    /// Those of `ahead_world` that wait: whoever destroyed the communicator does not.
    waiting_world: BTreeSet<u32>,
}

/// Adds findings for ranks that are behind.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let lags: Vec<Lag<'_>> = scene
        .ranks
        .comms
        .iter()
        .filter_map(|c| lag(scene, c))
        .collect();
    let mut waits_in: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    // A rank may wait in many communicators.
    let mut alive: BTreeMap<u32, bool> = BTreeMap::new();
    for (at, lag) in lags.iter().enumerate() {
        // Who ended by itself waits for nobody, whatever it called last.
        let waits = lag.waiting_world.iter().filter(|rank| {
            *alive.entry(**rank).or_insert_with(|| {
                let rec = scene.ranks.ranks.get(**rank as usize);
                rec.is_none_or(|rec| !died::by_itself(scene, rec))
            })
        });
        for rank in waits {
            waits_in.entry(*rank).or_default().insert(at);
        }
    }
    let roots = |at: usize, lag: &Lag<'_>| -> BTreeSet<u32> {
        let waits_elsewhere = |rank: &u32| {
            waits_in
                .get(rank)
                .is_some_and(|comms| comms.iter().any(|c| *c != at))
        };
        lag.behind_world
            .iter()
            .copied()
            .filter(|rank| !waits_elsewhere(rank))
            .collect()
    };
    let any_root = lags
        .iter()
        .enumerate()
        .any(|(at, lag)| !roots(at, lag).is_empty());
    for (at, lag) in lags.iter().enumerate().take(MOST_COMMS) {
        let roots = roots(at, lag);
        let symptom = any_root && roots.is_empty();
        found.extend(finding(scene, lag, roots, symptom));
    }
    if !any_root && !lags.is_empty() && wait::stands_still(scene) {
        let steps = lags.iter().map(|lag| step(scene, lag)).collect();
        let circle = circle::close(scene, steps, found, &["RANK001"]);
        found.extend(circle.map(Draft::build));
    }
    let mismatch = found
        .iter()
        .any(|f| f.class == Class::MismatchedCollective && f.role == Role::Cause);
    if lags.is_empty() && !mismatch {
        found.extend(work_behind(scene));
        let named = found
            .iter()
            .any(|f| f.role == Role::Cause && !f.accused.is_empty() && f.effect != Effect::None);
        if !named {
            found.extend(without_timeout(scene));
        }
    }
}

fn lag<'a>(scene: &Scene<'_>, comm: &'a CommRec) -> Option<Lag<'a>> {
    let members: Vec<(u32, u64)> = comparable(scene, comm)
        .into_iter()
        .map(|(rank, m)| (rank, m.reached))
        .collect();
    let common = members.iter().map(|(_, reached)| *reached).min()?;
    let most = members.iter().map(|(_, reached)| *reached).max()?;
    if common == most || first_difference(scene, comm).is_some() {
        return None;
    }
    let (behind, ahead): (Vec<_>, Vec<_>) = members
        .into_iter()
        .partition(|(_, reached)| *reached == common);
    let ranks =
        |side: Vec<(u32, u64)>| side.into_iter().map(|(rank, _)| rank).collect::<Vec<u32>>();
    let (behind, ahead) = (ranks(behind), ranks(ahead));
    let world = |side: &[u32]| super::mismatch::world_ranks(scene, comm, side);
    let waits = |rank: &u32| {
        let member = scene.member(comm, *rank);
        member.is_none_or(|m| !m.ended || m.aborted)
    };
    let waiting: Vec<u32> = ahead.iter().copied().filter(waits).collect();
    if waiting.is_empty() {
        return None;
    }
    Some(Lag {
        comm,
        common,
        behind_world: world(&behind),
        ahead_world: world(&ahead),
        waiting_world: world(&waiting),
        behind,
        ahead,
    })
}

fn step(scene: &Scene<'_>, lag: &Lag<'_>) -> Step {
    let comm = lag.comm;
    let reference = &scene.job.comms[comm.ix.ix()].reference;
    let at = usize::try_from(lag.common).ok();
    let call = at.and_then(|at| reference.get(at));
    let name = call.map_or("a call", |call| scene.job.calls[*call as usize].func.name());
    Step {
        who: lag.waiting_world.clone(),
        call: format!(
            "{name} number {} on {}",
            lag.common + 1,
            comm_words(scene, comm)
        ),
        whom: lag.behind_world.clone(),
        comm: comm_name(scene, comm),
    }
}

fn finding(
    scene: &Scene<'_>,
    lag: &Lag<'_>,
    roots: BTreeSet<u32>,
    symptom: bool,
) -> Option<Finding> {
    let comm = lag.comm;
    let call = scene.job.comms[comm.ix.ix()]
        .reference
        .get(usize::try_from(lag.common).ok()?)?;
    let call = scene.job.calls[*call as usize];
    let mut draft = Draft::new(scene, "RANK001")?;
    // A single rank that is ahead of more than one other is the odd one: its call may be one too many.
    // Not where one of those waits elsewhere: then that is why it has not come.
    let many = lag.ahead.len() == 1 && lag.behind.len() > 1;
    let alone = many && roots == lag.behind_world;
    let (accused, named) = if alone {
        (lag.ahead_world.clone(), &lag.ahead_world)
    } else {
        (roots, &lag.behind_world)
    };
    let named = if named.is_empty() {
        lag.behind.iter().copied().collect()
    } else {
        named.clone()
    };
    // Nothing at all of a rank's calls was logged: COLL may be off there.
    let mute = lag.common == 0
        && lag
            .behind
            .iter()
            .all(|r| scene.member(comm, *r).is_some_and(|m| !m.called()));
    // Whoever stands in a call of ranks without a log may wait for one of them.
    let elsewhere = accused
        .iter()
        .filter_map(|rank| waits_unseen(scene, comm, *rank));
    let elsewhere: Vec<String> = elsewhere.take(1).collect();
    let lines = lag
        .ahead
        .iter()
        .filter_map(|rank| line_of(scene.member(comm, *rank)?, lag.common));
    let printed = op_count(lines, lag.common);
    draft
        .fact("ordinal", (lag.common + 1).to_string())
        .fact("function", call.func.name())
        .fact("call", call.words())
        .named(named.iter().copied())
        .fact("waiting", ranges(lag.ahead_world.iter().copied()))
        .fact("comm", comm_words(scene, comm))
        .fact("last", last_call(scene, lag))
        .fact("op_count", printed.unwrap_or_default())
        .ranks(lag.behind_world.iter().chain(&lag.ahead_world).copied())
        .accuse(accused)
        .sure(if mute || alone || !elsewhere.is_empty() {
            Confidence::Possible
        } else {
            Confidence::Likely
        });
    draft.finding().missing.extend(elsewhere);
    if mute {
        draft.missing(
            "whether these ranks log their calls at all: NCCL_DEBUG_SUBSYS=INIT,COLL on every rank",
        );
    }
    if symptom {
        draft.finding().role = Role::Symptom;
    }
    draft.finding().comm = Some(comm_name(scene, comm));
    last_lines(scene, &mut draft);
    for rank in lag.behind.iter().take(3).chain(lag.ahead.iter().take(2)) {
        let Some(member) = scene.member(comm, *rank) else {
            continue;
        };
        let world = scene.ranks.world_rank(scene.job, comm, *rank);
        let line = if lag.behind.contains(rank) {
            member.recent.newest()
        } else {
            line_of(member, lag.common)
        };
        if let Some(line) = line.or(member.complete_line.as_ref()) {
            draft.evidence(line, world);
        }
    }
    Some(draft.build())
}

/// What would show whether a rank stands in its last call, on another communicator, for a rank whose log was not
/// given; `None` where its last call needs no such rank.
fn waits_unseen(scene: &Scene<'_>, behind_in: &CommRec, rank: u32) -> Option<String> {
    let comms = scene.ranks.comms.iter();
    let calls = comms.filter_map(|comm| {
        let members = comm.members.values().map(|m| &scene.job.members[m.ix()]);
        let mut own = members.filter(|m| scene.ranks.rank_of(m.writer) == Some(rank));
        let place = own.find_map(|m| m.recent.newest())?.place;
        Some((place.source, place.number, comm))
    });
    let (.., last) = calls.max_by_key(|(source, number, _)| (*source, *number))?;
    let unseen = last.members.len() < last.nranks as usize;
    (unseen && last.ix != behind_in.ix).then(|| {
        let comm = comm_words(scene, last);
        format!(
            "whether rank {rank} waits elsewhere: its last call was on {comm}, and not all logs of its ranks were given"
        )
    })
}

/// The accused ranks' last lines: where they are instead.
fn last_lines(scene: &Scene<'_>, draft: &mut Draft<'_>) {
    let accused: Vec<u32> = draft.finding().accused.iter().copied().take(2).collect();
    for rank in accused {
        let Some(rec) = scene.ranks.ranks.get(rank as usize) else {
            continue;
        };
        if let Some(last) = super::stack::last_words(scene, rec) {
            draft.evidence(last, Some(rank));
        }
    }
}

fn last_call(scene: &Scene<'_>, lag: &Lag<'_>) -> String {
    let member = lag
        .behind
        .first()
        .and_then(|rank| scene.member(lag.comm, *rank));
    member
        .and_then(|m| m.last_call)
        .map(|call| call.words())
        .unwrap_or_default()
}

/// Without COLL lines: PyTorch's own count of enqueued work, by process group.
fn work_behind(scene: &Scene<'_>) -> Option<Finding> {
    let mut groups: BTreeMap<&str, BTreeMap<u32, (i64, &crate::engine::job::Kept)>> =
        BTreeMap::new();
    for (rank, record) in scene.all_records() {
        let Some(rank) = rank else { continue };
        for (group, (enqueued, _, line)) in &record.work {
            // Only a group's unique id is the same on all ranks; the default group spans the world.
            if group.contains("default_pg") {
                groups
                    .entry(group)
                    .or_default()
                    .insert(rank, (*enqueued, line));
            }
        }
    }
    for ranks in groups.values() {
        let most = ranks.values().map(|(n, _)| *n).max()?;
        let least = ranks.values().map(|(n, _)| *n).min()?;
        if most == least {
            continue;
        }
        let behind: BTreeSet<u32> = ranks
            .iter()
            .filter(|(_, (n, _))| *n == least)
            .map(|(r, _)| *r)
            .collect();
        let ahead: BTreeSet<u32> = ranks
            .keys()
            .copied()
            .filter(|r| !behind.contains(r))
            .collect();
        let mut draft = Draft::new(scene, "RANK001")?;
        draft
            .fact("ordinal", (least + 1).to_string())
            .named(behind.iter().copied())
            .fact("waiting", ranges(ahead.iter().copied()))
            .ranks(ranks.keys().copied())
            .accuse(behind)
            .sure(Confidence::Possible);
        for (rank, (_, line)) in ranks {
            draft.evidence(line, Some(*rank));
        }
        return Some(draft.build());
    }
    None
}

/// Most ranks gave up waiting and a few did not: those were not waiting with them.
fn without_timeout(scene: &Scene<'_>) -> Option<Finding> {
    let by_rule = waits_by_rule(scene);
    let timed_out = |rec: &RankRec| {
        let watchdog = scene.records(rec).any(|r| !r.watchdogs.is_empty());
        // Whoever lost a peer or names its own work that failed was in it too.
        let failed = |r: &Record| !r.closed.is_empty() || !r.work.is_empty();
        watchdog
            || scene.records(rec).any(failed)
            || by_rule.contains(&rec.rank)
            || wait_in_store(scene, rec.rank)
    };
    let (waited, others): (Vec<&RankRec>, Vec<&RankRec>) =
        scene.ranks.ranks.iter().partition(|r| timed_out(r));
    if waited.len() < 2 || others.is_empty() || others.len() >= waited.len() {
        return None;
    }
    // Whoever ended by its own error is the matter of another detector.
    if others.iter().any(|r| {
        scene
            .records(r)
            .any(|r| !r.exceptions.is_empty() || r.abort.is_some())
    }) {
        return None;
    }
    let mut draft = Draft::new(scene, "RANK007")?;
    draft
        .fact("waiting", ranges(waited.iter().map(|r| r.rank)))
        .ranks(waited.iter().chain(&others).map(|r| r.rank))
        .accuse(others.iter().map(|r| r.rank))
        .sure(Confidence::Possible);
    for rec in waited.iter().take(3) {
        for record in scene.records(rec) {
            if let Some(watchdog) = record.watchdogs.first() {
                draft.evidence(&watchdog.line, Some(rec.rank));
            }
        }
    }
    last_lines(scene, &mut draft);
    Some(draft.build())
}

/// Ranks whose lines say that they waited in vain.
fn waits_by_rule(scene: &Scene<'_>) -> BTreeSet<u32> {
    let waits = scene
        .hits
        .by_rule()
        .filter(|(rule, ..)| scene.catalog.rule(*rule).effect == Effect::Standstill);
    waits
        .filter_map(|(_, writer, _)| scene.ranks.rank_of(writer))
        .collect()
}

fn wait_in_store(scene: &Scene<'_>, rank: u32) -> bool {
    let rec = scene.ranks.ranks.get(rank as usize);
    rec.is_some_and(|rec| scene.records(rec).any(|r| r.store.is_some()))
        && wait::standstill(scene).is_some()
}
