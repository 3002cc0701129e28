//! Words for a verdict that rests on no finding.

use rustc_hash::FxHashSet;

use super::state;
use crate::engine::detect::Scene;
use crate::engine::detect::logs::logs_of;
use crate::engine::finding::Finding;
use crate::engine::job::{RankRec, Record};
use crate::engine::ras::{Counts, RasComm, Reply, Side};
use crate::engine::vocab::{Phase, Role, State};

/// One line.
pub(super) fn without_cause(
    scene: &Scene<'_>,
    state: State,
    findings: &[Finding],
    unseen: &[u32],
) -> String {
    let seen: Vec<&RankRec> = scene.ranks.ranks.iter().filter(|r| r.was_seen()).collect();
    let who = match seen.as_slice() {
        [] => "the ranks, which these logs do not name,".to_owned(),
        [one] => format!("rank {}", one.rank),
        many => format!("{} ranks", many.len()),
    };
    let symptom = findings.iter().find(|f| f.role == Role::Symptom);
    let given = if unseen.len() == 1 { "was" } else { "were" };
    let without = || format!("{} {given} not given", logs_of(unseen.iter().copied()));
    match state {
        State::Completed if !unseen.is_empty() => {
            format!("{who} ended well, nothing wrong was seen; {}", without())
        }
        State::Hung | State::Failed if !unseen.is_empty() => {
            let what = if state == State::Hung {
                "stands still"
            } else {
                "failed"
            };
            let known = symptom
                .map(|s| s.title.clone())
                .or_else(|| how_far(scene, &seen))
                .unwrap_or_else(|| "the cause is not in these logs".to_owned());
            format!("{what}: {known}; {}", without())
        }
        State::Inconclusive if !unseen.is_empty() => {
            let known = how_far(scene, &seen).unwrap_or_else(|| format!("{who} stopped printing"));
            format!("cannot tell: {known}; {}", without())
        }
        State::Completed => format!("{who} ended well, nothing wrong was seen{}", alone(scene)),
        State::Healthy if seen.is_empty() => {
            "nothing wrong was seen; these logs name no rank and do not show the end".to_owned()
        }
        State::Healthy => format!(
            "{who}: nothing wrong was seen, and the end is not in these logs{}{}",
            if_it_stands(scene),
            alone(scene)
        ),
        State::Hung => match symptom {
            Some(symptom) => format!(
                "stands still, the cause is not in these logs: {}",
                symptom.title
            ),
            None if !state::idle(scene) => {
                let (stand, their) = match seen.len() {
                    1 => ("stands", "its log does"),
                    _ => ("stand", "their logs do"),
                };
                format!("{who} {stand} still; {their} not show which collective each one called")
            }
            None => "every communicator is idle and equal on all ranks: it is stuck outside NCCL"
                .to_owned(),
        },
        State::Failed => match symptom {
            Some(symptom) => format!("failed, the cause is not in these logs: {}", symptom.title),
            None => "failed, the cause is not in these logs".to_owned(),
        },
        State::Waiting => {
            let note = findings.iter().find(|f| state::is_unaccounted(f));
            note.map_or_else(|| "some ranks wait".to_owned(), |f| f.title.clone())
        }
        _ => {
            let known = ras_alone(scene).filter(|_| seen.is_empty());
            known.unwrap_or_else(|| "these logs do not say what the job does".to_owned())
        }
    }
}

/// Processes that gave RAS no data, in words: `rank 2 (process 1002 on 10.0.0.2)`.
fn lost(reply: &Reply) -> Option<String> {
    /// Processes that are named.
    const NAMED: usize = 3;
    let missing = reply.comms.iter().flat_map(|comm| {
        let silent = comm.missing.iter();
        let silent = silent.filter(|process| !process.answers());
        silent.map(move |process| (comm, process))
    });
    let mut names: Vec<String> = Vec::new();
    let mut known = FxHashSet::default();
    for (comm, process) in missing {
        let whole = comm.nranks.is_some() && comm.nranks == reply.world();
        let mut name = match process.rank {
            Some(rank) if whole => format!("rank {rank}"),
            Some(rank) => format!("comm rank {rank} of {:#x}", comm.hash),
            None => "a rank".to_owned(),
        };
        if let (Some(pid), Some(node)) = (process.pid, &process.node) {
            name.push_str(&format!(" (process {pid} on {node})"));
        }
        if known.insert(name.clone()) && names.len() < NAMED {
            names.push(name);
        }
    }
    let more = known.len() - names.len();
    let more = (more > 0).then(|| format!("{more} more"));
    let all: Vec<String> = names.into_iter().chain(more).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// What answers of NCCL RAS alone tell, where that names nobody.
fn ras_alone(scene: &Scene<'_>) -> Option<String> {
    let newest = scene.job.ras.last.iter().max_by_key(|answer| answer.time)?;
    let reply = &newest.reply;
    let mut unequal = reply.comms.iter().flat_map(|comm| &comm.counts);
    let unlisted = |counts: &&Counts| {
        counts
            .sides
            .iter()
            .filter(|side| side.ranks.is_empty())
            .count()
            > 1
    };
    if let Some(counts) = unequal.find(unlisted) {
        let side = |side: &Side| format!("{} ranks launched it {} times", side.size, side.launched);
        let sides: Vec<String> = counts.sides.iter().map(side).collect();
        let function = match counts.function.as_str() {
            "" => "their collectives",
            function => function,
        };
        return Some(format!(
            "cannot tell: NCCL RAS counts unequal launches of {function} ({}) and does not list the ranks: ask it for \
             JSON (--ras, or `ncclras -f json`)",
            sides.join(", ")
        ));
    }
    if let Some(lost) = lost(reply) {
        return Some(format!(
            "cannot tell: NCCL RAS got no data from {lost}: ended, frozen or cut off{}",
            if_it_stands(scene)
        ));
    }
    let quiet = |comm: &RasComm| {
        comm.counts.is_empty() && comm.missing.is_empty() && comm.errors.is_empty()
    };
    if reply.total == 0 {
        let why = "cannot tell: NCCL RAS knows no communicator yet";
        return Some(why.to_owned());
    }
    reply.comms.iter().all(quiet).then(|| {
        format!(
            "cannot tell: all {} ranks launched equally often by NCCL RAS, which compares neither element counts, types \
             and roots nor Send and Recv",
            reply.largest
        )
    })
}

/// Who reads the saved logs of a job knows whether it stands still; who watches it lets the watch see that.
fn if_it_stands(scene: &Scene<'_>) -> &'static str {
    if scene.claimed || scene.watched_since.is_some() {
        ""
    } else {
        " (--stuck if it stands still)"
    }
}

/// A job of one rank proves nothing about communication, and several of them are one job that was meant.
fn alone(scene: &Scene<'_>) -> String {
    let comms = &scene.ranks.comms;
    if scene.ranks.world != Some(1) || comms.is_empty() || comms.iter().any(|c| c.nranks > 1) {
        return String::new();
    }
    let processes: usize = scene.ranks.ranks.iter().map(|r| r.processes.len()).sum();
    let each = if processes > 1 {
        format!("each of {processes} processes runs alone")
    } else {
        "it talked to nobody".to_owned()
    };
    format!(
        ". World size 1: {each}, so this proves nothing about communication. If the job was meant to be larger, the \
         launcher's RANK and WORLD_SIZE did not reach the program: start it with torchrun or the like"
    )
}

/// How far the ranks got whose logs were given: the one, or all of them alike.
fn how_far(scene: &Scene<'_>, seen: &[&RankRec]) -> Option<String> {
    let who = match seen {
        [one] => format!("rank {}", one.rank),
        many => format!("each of {} ranks", many.len()),
    };
    let comms = scene.ranks.comms.iter();
    let (comm, member) = comms
        .flat_map(|comm| comm.members.values().map(move |m| (comm, m)))
        .map(|(comm, m)| (comm, &scene.job.members[m.ix()]))
        .filter(|(comm, m)| comm.nranks > 1 && m.complete && !m.is_over())
        .max_by_key(|(comm, m)| (m.called(), comm.is_world, m.reached))?;
    Some(match member.last_call {
        Some(call) if member.called() => format!(
            "{who} called {}, number {} on a communicator of {} ranks, and no more",
            call.words(),
            member.reached,
            comm.nranks
        ),
        _ => format!(
            "{who} came through the start-up of a communicator of {} ranks",
            comm.nranks
        ),
    })
}

/// The logs end where GPUs of one host are about to be connected, and peer-to-peer access is switched off: a
/// segment below /dev/shm that does not fit ends old versions of NCCL there without a word.
fn stopped_at_shared_memory(scene: &Scene<'_>) -> bool {
    let set = |r: &Record, name: &str, value: &str| {
        let known = r.env.get(name);
        known.is_some_and(|(known, _)| known.eq_ignore_ascii_case(value))
    };
    scene.all_records().any(|(_, r)| {
        let off = set(r, "NCCL_P2P_DISABLE", "1") || set(r, "NCCL_P2P_LEVEL", "LOC");
        off && matches!(r.phase, Phase::Topology | Phase::Connect)
    })
}

/// What to switch on so that the next log says more.
pub(super) fn switch_on(scene: &Scene<'_>, state: State) -> Vec<String> {
    let mut what = Vec::new();
    if matches!(state, State::Healthy | State::Completed) {
        return what;
    }
    let nccl = scene
        .all_records()
        .any(|(_, r)| r.nccl.is_some() || !r.members.is_empty());
    let calls = scene.ranks.comms.iter().any(|c| {
        c.members
            .values()
            .any(|m| scene.job.members[m.ix()].called())
    });
    if state == State::Inconclusive && scene.frameworks.torch() && scene.ranks.ranks.is_empty() {
        what.push(
            "whether every node was started: PyTorch waits for a missing one in silence (--nnodes, MASTER_ADDR)"
                .to_owned(),
        );
    }
    if state == State::Inconclusive && stopped_at_shared_memory(scene) {
        what.push(
            "whether the processes still run: where they are gone without a word, /dev/shm was too small (SIGBUS, \
             exit status 135 or -7; `df -h /dev/shm`)"
                .to_owned(),
        );
    }
    if state::is_one_of_unknown(scene) {
        what.push("the logs of the other ranks, if there are any".to_owned());
    }
    if !nccl {
        what.push("what NCCL does: NCCL_DEBUG=INFO on every rank".to_owned());
    }
    if !calls {
        what.push("which collective each rank called: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,COLL".to_owned());
    }
    if state == State::Hung {
        what.push("where each rank's program is: `py-spy dump --pid PID` on a rank".to_owned());
    }
    what
}
