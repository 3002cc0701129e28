//! The self-test of ranks that a launcher started, also on several hosts: each process runs one rank, as a
//! parent with one child, and all tell rank 0's process what came out.

use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::Differs;
use super::launcher::Place;
use super::outcome::{Fault, Hop, Outcome, RankOutcome, Timed, fault};
use super::plan::Plan;
use super::protocol::Step;
use super::remains::{Left, diagnose};
use super::run::{Others, Runner};
use super::team::{Team, seconds};
use crate::engine::Engine;
use crate::error::InputError;

/// What ending children and looking at logs may take beyond deadlines.
const SLACK: Duration = Duration::from_secs(10);

/// Bytes of all logs together that ranks which failed tell the others.
const LOGS: usize = 1 << 20;

/// One rank, as it introduces itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Hello {
    host: String,
    fault: Option<String>,
}

/// What one rank's process tells the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    rank: RankOutcome,
    interrupted: bool,
    right: BTreeSet<String>,
    wrong: Vec<(String, u32, Differs)>,
    timed: Vec<Timed>,
    hops: Vec<Hop>,
    /// Of a rank that failed.
    left: Option<Left>,
}

/// Runs this process's rank, and gives the outcome of all of them. `fault` is why this rank cannot take part;
/// the others are told. `engine` is for what all that failed left together.
///
/// # Errors
/// If the child could not be started.
pub fn run(
    place: &Place,
    plan: &Plan,
    host: &str,
    fault: Option<String>,
    mut runner: Runner<'_>,
    engine: Engine,
) -> Result<Outcome, InputError> {
    let apart = |why: String| Ok(nothing(plan, Fault::Apart(why)));
    let mut team = match Team::meet(place, plan.patience) {
        Ok(team) => team,
        Err(why) => return apart(format!("rank {} on {host}: {why}", place.rank)),
    };
    let hello = Hello {
        host: host.to_owned(),
        fault,
    };
    let members = match team.exchange(hello, plan.patience) {
        Ok(members) => members,
        Err(why) => return apart(format!("rank {}: {why}", place.rank)),
    };
    if let Some(why) = absent(&members, place, plan.patience) {
        return apart(why);
    }
    let (out, made) = channel();
    let (give, into) = channel();
    runner.others = Some(Others { out, into });
    let patience = plan.patience;
    let rank = place.rank;
    // While the child goes on: rank 0's process has the id when its child has made it.
    let courier = thread::spawn(move || {
        let until_made = patience * 3;
        let own = if rank == 0 {
            made.recv_timeout(until_made).ok()
        } else {
            None
        };
        let heard = team.exchange(own, until_made + SLACK);
        if rank != 0
            && let Ok(all) = heard
            && let Some(id) = all.into_iter().next().flatten().flatten()
        {
            // A run that is over needs no id.
            let _over = give.send(id);
        }
        team
    });
    let (own, left) = runner.run_and_leave(plan)?;
    let Ok(mut team) = courier.join() else {
        return apart("the thread that passes the unique id on ended".to_owned());
    };
    let Some(rank) = own.ranks.first().cloned() else {
        return Ok(own);
    };
    let told = Told {
        rank,
        interrupted: matches!(own.fault, Some(Fault::Interrupted)),
        right: own.right.clone(),
        wrong: own.wrong.clone(),
        timed: own.timed.clone(),
        hops: own.hops.clone(),
        left: (own.fault.is_some()).then(|| left.within(LOGS / plan.world.max(1) as usize)),
    };
    // Who waits for a rank that failed does so for two steps at most: the one it is in and the next.
    let longest = plan.deadline(Step::Bandwidth) * 2 + SLACK;
    Ok(match team.exchange(told, longest) {
        Ok(all) => {
            let mut merged = merge(own, &all);
            let lefts: Vec<&Left> = all
                .iter()
                .flatten()
                .filter_map(|t| t.left.as_ref())
                .collect();
            if merged.fault.is_some() && !lefts.is_empty() {
                merged.diagnosis = Some(Box::new(diagnose(engine, &lefts, &merged)));
            }
            merged
        }
        Err(why) => Outcome {
            fault: own.fault.clone().or(Some(Fault::Apart(why))),
            ..own
        },
    })
}

fn absent(members: &[Option<Hello>], place: &Place, patience: Duration) -> Option<String> {
    let faults = members
        .iter()
        .enumerate()
        .filter_map(|(rank, member)| match member {
            None => Some(format!(
                "rank {rank} never came to rank 0 at {} port {} in {}",
                place.master,
                place.port,
                seconds(patience)
            )),
            Some(Hello {
                host,
                fault: Some(fault),
            }) => Some(format!("rank {rank} on {host}: {fault}")),
            Some(_) => None,
        });
    let faults: Vec<String> = faults.take(8).collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

fn nothing(plan: &Plan, fault: Fault) -> Outcome {
    Outcome {
        world: plan.world,
        ranks: Vec::new(),
        right: BTreeSet::new(),
        wrong: Vec::new(),
        timed: Vec::new(),
        fault: Some(fault),
        took: Duration::ZERO,
        paths: Vec::new(),
        hops: Vec::new(),
        diagnosis: None,
        logs: None,
    }
}

/// Whether this is a rank's own fault, whoever else said nothing more.
fn is_own(fault: Option<&Fault>, merged: &Outcome) -> bool {
    match fault {
        Some(Fault::Failed { step, ranks, .. }) => {
            *step <= Step::Device
                || *step == Step::UniqueId && ranks.contains(&0)
                || !merged.wrong.is_empty()
        }
        Some(Fault::Stuck { step, .. }) => *step <= Step::Device,
        None => false,
        Some(_) => true,
    }
}

/// One outcome of all: right is what is right everywhere, and the slowest rank's time counts.
fn merge(own: Outcome, all: &[Option<Told>]) -> Outcome {
    let told: Vec<&Told> = all.iter().flatten().collect();
    let gone: Vec<u32> = (0_u32..)
        .zip(all)
        .filter(|(_, told)| told.is_none())
        .map(|(rank, _)| rank)
        .collect();
    let mut merged = Outcome {
        ranks: told.iter().map(|told| told.rank.clone()).collect(),
        wrong: told.iter().flat_map(|told| told.wrong.clone()).collect(),
        timed: Vec::new(),
        ..own
    };
    merged
        .right
        .retain(|name| told.iter().all(|told| told.right.contains(name)));
    for one in told.iter().flat_map(|told| &told.timed) {
        let same = |t: &&mut Timed| t.op == one.op && t.bytes == one.bytes;
        match merged.timed.iter_mut().find(same) {
            Some(known) => known.merge(one.clone()),
            None => merged.timed.push(one.clone()),
        }
    }
    let hops: BTreeSet<&Hop> = told.iter().flat_map(|told| &told.hops).collect();
    merged.hops = hops.into_iter().cloned().collect();
    let paths: BTreeSet<&String> = merged.hops.iter().map(|hop| &hop.way).collect();
    merged.paths = paths.into_iter().cloned().collect();
    let ranks: Vec<&RankOutcome> = told.iter().map(|told| &told.rank).collect();
    let interrupted = told.iter().any(|told| told.interrupted);
    merged.fault = match fault(&ranks) {
        _ if interrupted => Some(Fault::Interrupted),
        fault if gone.is_empty() || is_own(fault.as_ref(), &merged) => fault,
        // Whoever waits does so for the one that is gone, or reports that it is.
        _ => Some(Fault::Gone { ranks: gone }),
    };
    merged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::plan::Sizes;
    use super::*;

    fn failed(rank: u32, step: Step) -> Told {
        Told {
            rank: RankOutcome {
                rank,
                device: 0,
                pid: 7,
                done: Vec::new(),
                in_step: None,
                failed: Some((step, "remote process exited".to_owned(), None)),
                state: None,
                ended: None,
                facts: BTreeMap::new(),
                noise: 0,
                finished: false,
            },
            interrupted: false,
            right: BTreeSet::new(),
            wrong: Vec::new(),
            timed: Vec::new(),
            hops: Vec::new(),
            left: None,
        }
    }

    #[test]
    fn an_error_of_those_that_need_the_silent_one_is_its_effect() {
        let plan = Plan {
            seats: Vec::new(),
            world: 3,
            library: None,
            libraries: BTreeMap::new(),
            env: BTreeMap::new(),
            env_of: BTreeMap::new(),
            ops: Vec::new(),
            timed: Vec::new(),
            sizes: Sizes::None,
            patience: Duration::from_secs(1),
            correctness: true,
        };
        for (step, guilty) in [
            (Step::Device, 2),
            (Step::UniqueId, 1),
            (Step::Init, 1),
            (Step::First, 1),
        ] {
            let own = nothing(&plan, Fault::Interrupted);
            let merged = merge(own, &[None, None, Some(failed(2, step))]);
            let ranks = match merged.fault {
                Some(Fault::Gone { ranks } | Fault::Failed { ranks, .. }) => ranks,
                other => panic!("{other:?}"),
            };
            assert!(ranks.contains(&guilty), "{step:?}: {ranks:?}");
            assert_eq!(ranks.contains(&2), guilty == 2, "{step:?}: {ranks:?}");
        }
    }
}
