//! What came out of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::Differs;
use super::plan::Op;
use super::protocol::Step;
use super::tuning::Chosen;
use crate::engine::snapshot::Snapshot;

/// How a rank's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// With this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// By us, because it or another rank did not get on.
    Killed,
}

/// One rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankOutcome {
    /// Its rank.
    pub rank: u32,
    /// CUDA device.
    pub device: u32,
    /// Its process.
    pub pid: u32,
    /// Steps that ended well, and how long each took.
    pub done: Vec<(Step, Duration)>,
    /// The step it was in when the run ended, if it had not finished, and for how long.
    pub in_step: Option<(Step, Duration)>,
    /// The step that failed, and why.
    pub failed: Option<(Step, String, Option<String>)>,
    /// The state of its process before it was killed, as `/proc` has it (`T` is stopped).
    pub state: Option<char>,
    /// How its process ended.
    pub ended: Option<Ended>,
    /// `nccl`, `gpu`, `memory-free`, …
    pub facts: BTreeMap<String, String>,
    /// Bytes on its standard output that were none of the protocol.
    pub noise: u64,
    /// True if it said that it was done.
    pub finished: bool,
}

/// An operation at a size: the slowest rank's time counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Operation.
    pub op: Op,
    /// Bytes.
    pub bytes: u64,
    /// Seconds of one call.
    pub seconds: f64,
    /// Algorithm and protocol, where NCCL tells.
    pub chosen: Option<Chosen>,
}

impl Timed {
    /// Takes another rank's word on the same call.
    pub(super) fn merge(&mut self, other: Self) {
        self.seconds = self.seconds.max(other.seconds);
        // Rank 0 alone prints it.
        self.chosen = self.chosen.take().or(other.chosen);
    }

    /// Bytes a second that a caller sees.
    #[must_use]
    pub fn algbw(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let bytes = self.bytes as f64;
        bytes / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Bytes a second that each rank's links carry.
    #[must_use]
    pub fn busbw(&self, ranks: u32) -> f64 {
        self.algbw() * self.op.bus_factor(ranks)
    }
}

/// A connection between two ranks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hop {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// The kind of the path: `NET/Socket`.
    pub way: String,
}

/// Why a run did not pass, the first reason first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Ranks reported an error in a step.
    Failed {
        /// The step.
        step: Step,
        /// The ranks.
        ranks: Vec<u32>,
        /// Its words, of the first of them.
        what: String,
        /// More of them.
        detail: Option<String>,
    },
    /// Ranks did not return from a step within its deadline.
    Stuck {
        /// The step.
        step: Step,
        /// The ranks.
        ranks: Vec<u32>,
        /// How long they had been in it.
        waited: Duration,
        /// Those of them whose process is stopped.
        stopped: Vec<u32>,
    },
    /// Processes ended without a word.
    Ended {
        /// The step they were in.
        step: Option<Step>,
        /// The ranks.
        ranks: Vec<u32>,
        /// How the first of them ended.
        how: Ended,
    },
    /// Processes of a launcher said nothing more to rank 0.
    Gone {
        /// The ranks.
        ranks: Vec<u32>,
    },
    /// Ranks could not meet: words for people.
    Apart(String),
    /// Interrupted by the user.
    Interrupted,
}

impl RankOutcome {
    /// Whether its process ended by itself.
    fn ended_itself(&self) -> bool {
        matches!(self.ended, Some(Ended::Status(_) | Ended::Signal(_)))
    }
}

/// Why a run did not pass. A process that ended without a word comes first: what others report is its
/// effect. An error that a rank reports says more than one that waits, and whoever failed in the earliest
/// step is the cause.
#[must_use]
pub fn fault(ranks: &[&RankOutcome]) -> Option<Fault> {
    let ids = |of: &[&RankOutcome]| of.iter().map(|rank| rank.rank).collect::<Vec<u32>>();
    let silent: Vec<&RankOutcome> = ranks
        .iter()
        .copied()
        .filter(|r| r.ended_itself() && r.failed.is_none() && !r.finished)
        .collect();
    if let Some(how) = silent.first().and_then(|rank| rank.ended) {
        let step = silent[0].in_step.map(|(step, _)| step);
        return Some(Fault::Ended {
            step,
            ranks: ids(&silent),
            how,
        });
    }
    let first = ranks
        .iter()
        .filter_map(|rank| rank.failed.as_ref())
        .min_by_key(|(step, ..)| *step);
    if let Some((step, what, detail)) = first {
        let same: Vec<&RankOutcome> = ranks
            .iter()
            .copied()
            .filter(|r| r.failed.as_ref().is_some_and(|f| f.0 == *step))
            .collect();
        return Some(Fault::Failed {
            step: *step,
            ranks: ids(&same),
            what: what.clone(),
            detail: detail.clone(),
        });
    }
    let stuck: Vec<&RankOutcome> = ranks
        .iter()
        .copied()
        .filter(|r| !r.finished && !r.ended_itself())
        .collect();
    let step = |rank: &RankOutcome| rank.in_step.map_or(Step::Load, |(step, _)| step);
    let earliest = stuck.iter().map(|rank| step(rank)).min()?;
    // Whoever is in the earliest step is the one that the others wait for; in the same step all are named.
    let mut there: Vec<&RankOutcome> = stuck.into_iter().filter(|r| step(r) == earliest).collect();
    // Rank 0 makes the unique id, and the others do nothing but wait for it.
    if earliest == Step::UniqueId && there.iter().any(|rank| rank.rank == 0) {
        there.retain(|rank| rank.rank == 0);
    }
    let stopped: Vec<&RankOutcome> = there
        .iter()
        .copied()
        .filter(|rank| matches!(rank.state, Some('T' | 't')))
        .collect();
    let waited = there.iter().filter_map(|r| r.in_step).map(|(_, t)| t).max();
    Some(Fault::Stuck {
        step: earliest,
        ranks: ids(&there),
        waited: waited.unwrap_or_default(),
        stopped: ids(&stopped),
    })
}

/// A run.
#[derive(Debug)]
pub struct Outcome {
    /// Ranks in all.
    pub world: u32,
    /// The ranks that this machine ran.
    pub ranks: Vec<RankOutcome>,
    /// Checks that were right on every rank.
    pub right: BTreeSet<String>,
    /// Checks that were not: (name, rank, where).
    pub wrong: Vec<(String, u32, Differs)>,
    /// What was timed.
    pub timed: Vec<Timed>,
    /// Why it did not pass.
    pub fault: Option<Fault>,
    /// How long all took.
    pub took: Duration,
    /// How NCCL connected the ranks, by its own log: `NET/Socket`, `P2P/CUMEM`, `SHM`.
    pub paths: Vec<String>,
    /// Which rank by which of these paths.
    pub hops: Vec<Hop>,
    /// The engine's diagnosis of the logs.
    pub diagnosis: Option<Box<Snapshot>>,
    /// Where the logs are, if they were kept.
    pub logs: Option<PathBuf>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything worked.
    Passed,
    /// Something did not.
    Failed,
    /// Nothing failed, and nothing was proven: one rank talks to nobody.
    ProvedNothing,
}

impl Outcome {
    /// The answer.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.fault.is_some() || !self.wrong.is_empty() {
            Verdict::Failed
        } else if self.world < 2 {
            Verdict::ProvedNothing
        } else {
            Verdict::Passed
        }
    }

    /// The fastest busbw of an operation, bytes a second.
    #[must_use]
    pub fn best(&self, op: Op) -> Option<(u64, f64)> {
        let of_op = self.timed.iter().filter(|timed| timed.op == op);
        of_op
            .map(|timed| (timed.bytes, timed.busbw(self.world)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The values of a fact, each with its ranks.
    #[must_use]
    pub fn facts(&self, name: &str) -> BTreeMap<&str, Vec<u32>> {
        let mut values: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for rank in &self.ranks {
            if let Some(value) = rank.facts.get(name) {
                values.entry(value).or_default().push(rank.rank);
            }
        }
        values
    }

    /// The longest time that a step took on any rank.
    #[must_use]
    pub fn longest(&self, step: Step) -> Option<Duration> {
        let times = self.ranks.iter().flat_map(|rank| &rank.done);
        times.filter(|(s, _)| *s == step).map(|(_, t)| *t).max()
    }
}
