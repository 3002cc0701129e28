//! A self-test for programs: schema 1; fields are added, never changed.

use serde::Serialize;

use super::{SHARED_GPU, explanation, fault, judgement, worse};
use crate::selftest::ab::{Answer, Side};
use crate::selftest::conclude::{self, Conclusion};
use crate::selftest::links::{self, Judged};
use crate::selftest::outcome::{Fault, Outcome, Verdict};
use crate::selftest::pairs::Bad;
use crate::selftest::plan::Op;
use crate::selftest::protocol::Step;

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    tool: &'static str,
    verdict: &'static str,
    proves: &'a str,
    world_size: u32,
    seconds: f64,
    fault: Option<String>,
    at: Option<JsonAt<'a>>,
    finding: Option<JsonFinding<'a>>,
    conclusion: Option<JsonConclusion>,
    steps: Vec<JsonStep>,
    checks: JsonChecks<'a>,
    bandwidth: Vec<JsonTimed<'a>>,
    links: Option<JsonLinks>,
    paths: &'a [String],
    ranks: Vec<JsonRank<'a>>,
    logs: Option<String>,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    rule: &'a str,
    class: &'static str,
    title: &'a str,
    fixes: &'a [crate::engine::finding::Fix],
}

/// The step that did not end well, and the ranks that were in it.
#[derive(Serialize)]
struct JsonAt<'a> {
    step: Option<&'static str>,
    ranks: &'a [u32],
}

impl<'a> JsonAt<'a> {
    fn of(fault: &'a Fault) -> Option<Self> {
        let (step, ranks) = match fault {
            Fault::Failed { step, ranks, .. } | Fault::Stuck { step, ranks, .. } => {
                (Some(*step), ranks)
            }
            Fault::Ended { step, ranks, .. } => (*step, ranks),
            Fault::Gone { ranks } => (None, ranks),
            Fault::Apart(_) | Fault::Interrupted => return None,
        };
        Some(Self {
            step: step.map(Step::name),
            ranks,
        })
    }
}

#[derive(Serialize)]
struct JsonConclusion {
    name: &'static str,
    title: String,
    ranks: Vec<u32>,
    links: Vec<(u32, u32)>,
    fix: String,
}

impl JsonConclusion {
    fn of(conclusion: Conclusion) -> Self {
        Self {
            name: conclusion.name,
            title: conclusion.title,
            ranks: conclusion.ranks,
            links: conclusion.links,
            fix: conclusion.fix,
        }
    }
}

#[derive(Serialize)]
struct JsonStep {
    name: &'static str,
    seconds: f64,
}

#[derive(Serialize)]
struct JsonChecks<'a> {
    right: Vec<&'a str>,
    wrong: Vec<&'a str>,
}

#[derive(Serialize)]
struct JsonTimed<'a> {
    op: Op,
    bytes: u64,
    seconds: f64,
    algbw: f64,
    busbw: f64,
    algorithm: Option<&'a str>,
    protocol: Option<&'a str>,
}

/// Bandwidths in bytes a second.
#[derive(Serialize)]
struct JsonLinks {
    bytes: u64,
    busbw: f64,
    way: &'static str,
    line: Option<f64>,
    standing: &'static str,
    because: Option<String>,
    words: String,
}

impl JsonLinks {
    fn of(judged: Judged) -> Self {
        Self {
            words: judgement(&judged),
            bytes: judged.bytes,
            busbw: judged.busbw,
            way: judged.way.name(),
            line: judged.line,
            standing: judged.standing.name(),
            because: judged.because,
        }
    }
}

#[derive(Serialize)]
struct JsonRank<'a> {
    rank: u32,
    device: u32,
    pid: u32,
    facts: &'a std::collections::BTreeMap<String, String>,
    failed: Option<String>,
    in_step: Option<&'static str>,
}

fn proves(world: u32, shared: bool) -> &'static str {
    match (world, shared) {
        (..2, _) => "nothing: world size 1",
        (_, true) => SHARED_GPU,
        (_, false) => "NCCL between these GPUs, with these settings",
    }
}

/// For programs.
#[must_use]
pub fn json(outcome: &Outcome, shared: bool) -> String {
    let proves = proves(outcome.world, shared);
    let judged = links::judge(outcome);
    let degraded = worse(outcome, judged.as_ref());
    let told = outcome.verdict() == Verdict::Failed || degraded;
    let finding = explanation(outcome).filter(|_| told);
    let json = Json {
        schema: 1,
        tool: concat!("unhang ", env!("CARGO_PKG_VERSION")),
        verdict: match outcome.verdict() {
            Verdict::Passed if degraded => "degraded",
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::ProvedNothing => "proved-nothing",
        },
        proves,
        world_size: outcome.world,
        seconds: outcome.took.as_secs_f64(),
        fault: outcome.fault.as_ref().map(fault),
        at: outcome.fault.as_ref().and_then(JsonAt::of),
        conclusion: conclude::conclude(outcome).map(JsonConclusion::of),
        finding: finding.map(|f| JsonFinding {
            rule: &f.id,
            class: f.class.name(),
            title: &f.title,
            fixes: &f.fixes,
        }),
        steps: Step::ALL
            .iter()
            .filter_map(|step| {
                Some(JsonStep {
                    name: step.name(),
                    seconds: outcome.longest(*step)?.as_secs_f64(),
                })
            })
            .collect(),
        checks: JsonChecks {
            right: outcome.right.iter().map(String::as_str).collect(),
            wrong: outcome.wrong.iter().map(|w| w.0.as_str()).collect(),
        },
        bandwidth: outcome
            .timed
            .iter()
            .map(|timed| JsonTimed {
                op: timed.op,
                bytes: timed.bytes,
                seconds: timed.seconds,
                algbw: timed.algbw(),
                busbw: timed.busbw(outcome.world),
                algorithm: timed.chosen.as_ref().map(|c| c.algorithm.as_str()),
                protocol: timed.chosen.as_ref().and_then(|c| c.protocol.as_deref()),
            })
            .collect(),
        links: judged.map(JsonLinks::of),
        paths: &outcome.paths,
        ranks: outcome
            .ranks
            .iter()
            .map(|rank| JsonRank {
                rank: rank.rank,
                device: rank.device,
                pid: rank.pid,
                facts: &rank.facts,
                failed: rank
                    .failed
                    .as_ref()
                    .map(|(step, what, _)| format!("{}: {what}", step.name())),
                in_step: rank.in_step.map(|(step, _)| step.name()),
            })
            .collect(),
        logs: outcome.logs.as_ref().map(|logs| logs.display().to_string()),
    };
    let mut text = serde_json::to_string_pretty(&json).expect("an outcome is plain data");
    text.push('\n');
    text
}

/// Several runs for programs; `bad` is what the runs of all pairs say together.
#[must_use]
pub fn series_json(outcomes: &[(String, bool, Outcome)], bad: Option<&Bad>) -> String {
    let runs: Vec<serde_json::Value> = outcomes
        .iter()
        .map(|(name, shared, outcome)| {
            let run: serde_json::Value =
                serde_json::from_str(&json(outcome, *shared)).unwrap_or_default();
            serde_json::json!({ "name": name, "run": run })
        })
        .collect();
    let mut all = serde_json::json!({ "schema": 1, "runs": runs });
    if let Some(bad) = bad {
        all["bad"] = serde_json::json!(bad);
    }
    let mut text = serde_json::to_string_pretty(&all).expect("runs are plain data");
    text.push('\n');
    text
}

/// The comparison for programs.
#[must_use]
pub fn ab_json(answer: Answer, a: &Side, b: &Side, world: u32, shared: bool) -> String {
    #[derive(Serialize)]
    struct JsonSide<'a> {
        passed: u32,
        failed: u32,
        busbw: &'a [f64],
    }
    #[derive(Serialize)]
    struct JsonAb<'a> {
        schema: u32,
        answer: Answer,
        words: &'static str,
        proves: &'static str,
        without: JsonSide<'a>,
        with: JsonSide<'a>,
    }
    let json = JsonAb {
        schema: 1,
        answer,
        words: answer.words(),
        proves: proves(world, shared),
        without: JsonSide {
            passed: a.passed,
            failed: a.failed,
            busbw: &a.busbw,
        },
        with: JsonSide {
            passed: b.passed,
            failed: b.failed,
            busbw: &b.busbw,
        },
    };
    let mut text = serde_json::to_string_pretty(&json).expect("an outcome is plain data");
    text.push('\n');
    text
}
