//! A self-test on paper: what was tested, what came out, what it proves and what not.

use std::fmt::Write as _;

use serde::Serialize;

use super::escape::{Glyphs, harmless};
use super::words;
use crate::engine::finding::Finding;
use crate::engine::vocab::{Class, Role, Severity, State};
use crate::selftest::ab::{Answer, Side};
use crate::selftest::links::{self, Judged, Standing};
use crate::selftest::outcome::{Ended, Fault, Outcome, Verdict};
use crate::selftest::plan::Op;
use crate::selftest::protocol::Step;

/// Columns.
const WIDTH: usize = 80;

/// What the verdict of a comparison begins with.
const CHANGE: &str = "THE CHANGE: ";

/// What ranks on a shared GPU prove.
pub const SHARED_GPU: &str = "ranks share a GPU, each with a host identity of its own: this exercises bootstrap, \
                              interfaces and NET, not P2P, SHM or NVLink";

/// `12.3 GB/s`
#[must_use]
pub fn rate(bytes_a_second: f64) -> String {
    let giga = bytes_a_second / 1e9;
    match giga {
        g if g >= 100.0 => format!("{g:.0} GB/s"),
        g if g >= 1.0 => format!("{g:.1} GB/s"),
        g if g >= 0.001 => format!("{:.1} MB/s", g * 1e3),
        g => format!("{:.1} kB/s", g * 1e6),
    }
}

/// A step's line, as it ends.
#[must_use]
pub fn step(step: Step, took: std::time::Duration) -> String {
    format!("  {:<18} ok  {}\n", step.name(), words::duration(took))
}

/// Why a run did not pass.
#[must_use]
pub fn fault(fault: &Fault) -> String {
    match fault {
        Fault::Failed {
            step,
            ranks,
            what,
            detail,
        } => {
            let mut text = format!(
                "{} failed in step {}: {what}",
                words::ranks(ranks.iter().copied()),
                step.name()
            );
            if let Some(detail) = detail {
                let _infallible = write!(text, " ({detail})");
            }
            text
        }
        Fault::Stuck {
            step,
            ranks,
            waited,
            stopped,
        } => {
            let have = if ranks.len() == 1 { "has" } else { "have" };
            let mut text = format!(
                "{} {have} not returned from {} for {}",
                words::ranks(ranks.iter().copied()),
                step.call(),
                words::duration(*waited)
            );
            if !stopped.is_empty() {
                let is = if stopped.len() == 1 {
                    "process is"
                } else {
                    "processes are"
                };
                let _infallible = write!(
                    text,
                    "; the {is} stopped (state T): {}",
                    words::ranks(stopped.iter().copied())
                );
            }
            text
        }
        Fault::Ended { step, ranks, how } => {
            let how = match how {
                Ended::Status(status) => format!("with status {status}"),
                Ended::Signal(signal) => format!("by signal {signal}"),
                Ended::Killed => "by us".to_owned(),
            };
            let at = step
                .map(|step| format!(" in step {}", step.name()))
                .unwrap_or_default();
            let ended = if ranks.len() == 1 {
                "its process ended"
            } else {
                "their processes ended"
            };
            format!(
                "{}: {ended} {how}{at}, without a word",
                words::ranks(ranks.iter().copied())
            )
        }
        Fault::Gone { ranks } => format!(
            "{}: nothing more came to rank 0, its process or host is gone",
            words::ranks(ranks.iter().copied())
        ),
        Fault::Apart(why) => why.clone(),
        Fault::Interrupted => "interrupted".to_owned(),
    }
}

/// The finding of the engine that explains a failed run best.
#[must_use]
pub fn explanation(outcome: &Outcome) -> Option<&Finding> {
    let snapshot = outcome.diagnosis.as_deref()?;
    // That others wait for a rank that reported an error or ended explains nothing.
    let known = matches!(
        outcome.fault,
        Some(Fault::Failed { .. } | Fault::Ended { .. })
    );
    let explains = |f: &&Finding| !(known && f.class == Class::MissingRank);
    let lead = snapshot
        .verdict
        .finding
        .and_then(|at| snapshot.findings.get(at));
    lead.filter(explains).or_else(|| {
        let mut findings = snapshot.findings.iter();
        findings.find(|f| f.role != Role::Note && f.severity >= Severity::Warning && explains(f))
    })
}

/// What stands behind the steps: checks, bandwidth, paths, verdict.
#[must_use]
pub fn text(outcome: &Outcome, shared: bool, glyphs: Glyphs) -> String {
    let mut out = String::new();
    let mut line = |text: &str| wrap(&mut out, &harmless(text, glyphs));
    if !outcome.right.is_empty() || !outcome.wrong.is_empty() {
        let all = outcome.right.len() + outcome.wrong.len();
        line(&format!(
            "  checks             {} of {all} right",
            outcome.right.len()
        ));
    }
    for (what, rank, element, got, expected) in outcome.wrong.iter().take(8) {
        line(&format!(
            "  WRONG {what}: rank {rank}, element {element} is {got}, not {expected}"
        ));
    }
    for timed in &outcome.timed {
        line(&format!(
            "  {:<14} {:>9} {:>10}  algbw {:>10}  busbw {:>10}",
            timed.op.name(),
            words::bytes(timed.bytes),
            micros(timed.seconds),
            rate(timed.algbw()),
            rate(timed.busbw(outcome.world))
        ));
    }
    if !outcome.paths.is_empty() {
        line(&format!(
            "  NCCL's paths       {}",
            outcome.paths.join(", ")
        ));
    }
    let judged = links::judge(outcome);
    if let Some(judged) = &judged {
        line(&format!("  {}", judgement(judged)));
    }
    if shared {
        line(&format!("  note: {SHARED_GPU}"));
    }
    let took = words::duration(outcome.took);
    let ranks = words::count(outcome.world as usize, "rank");
    match outcome.verdict() {
        Verdict::Passed if worse(outcome, judged.as_ref()) => {
            line(&format!("PASSED {ranks} in {took}, on a worse path"));
            finding(&mut line, explanation(outcome));
        }
        Verdict::Passed => line(&format!("PASSED {ranks} in {took}")),
        Verdict::ProvedNothing => line(&format!(
            "PROVED NOTHING in {took}: world size 1, one rank talks to nobody. Test two GPUs, or --ranks-per-gpu 2"
        )),
        Verdict::Failed => {
            let why = outcome
                .fault
                .as_ref()
                .map_or_else(|| "wrong results".to_owned(), fault);
            line(&format!("FAILED {ranks} after {took}: {why}"));
            finding(&mut line, explanation(outcome));
            if let Some(logs) = &outcome.logs {
                line(&format!("  logs: {}", logs.display()));
            }
        }
    }
    out
}

fn finding(line: &mut dyn FnMut(&str), finding: Option<&Finding>) {
    let Some(finding) = finding else { return };
    line(&format!("  {} {}", finding.id, finding.title));
    for evidence in finding.evidence.iter().take(2) {
        line(&format!("    | {}", evidence.text.trim()));
    }
    if let Some(fix) = finding.fixes.first() {
        line(&format!("  fix: {}", fix.text));
        for export in words::exports(fix) {
            line(&format!("    {export}"));
        }
    }
}

/// Whether a run that passed took a worse path than these GPUs have.
#[must_use]
pub fn degraded(outcome: &Outcome) -> bool {
    worse(outcome, links::judge(outcome).as_ref())
}

fn worse(outcome: &Outcome, judged: Option<&Judged>) -> bool {
    let state = outcome.diagnosis.as_deref().map(|s| s.verdict.state);
    let path = judged.is_some_and(|judged| judged.standing == Standing::WorsePath);
    outcome.verdict() == Verdict::Passed && (state == Some(State::Degraded) || path)
}

/// `326 GB/s of 478 GB/s (18 NVLinks of 26.6 GB/s): as expected of 2 x NVIDIA H200 over NVLink`
#[must_use]
pub fn judgement(judged: &Judged) -> String {
    let (count, name) = &judged.gpus;
    let name = name.as_deref().unwrap_or("GPU");
    let mut text = rate(judged.busbw);
    let of = || {
        let line = judged.line.map(rate)?;
        let links = judged.links.as_deref()?;
        Some(format!("{line} ({links})"))
    };
    match judged.standing {
        Standing::AsExpected | Standing::Low => {
            let verdict = match judged.standing {
                Standing::AsExpected => "as expected of",
                _ => "LESS than expected of",
            };
            let _infallible = write!(
                text,
                " of {}: {verdict} {count} x {name} over {}",
                of().unwrap_or_default(),
                judged.way.words()
            );
        }
        Standing::WorsePath | Standing::Unknown => {
            let _infallible = write!(text, ": this is {}", judged.way.words());
            if let Some(because) = &judged.because {
                let _infallible = write!(text, ", because of {because}");
            }
            match of() {
                Some(of) if judged.standing == Standing::WorsePath => {
                    let _infallible = write!(text, "; directly these GPUs have {of}");
                }
                _ => text.push_str("; nothing to compare it with"),
            }
        }
    }
    if let Some(published) = judged.published {
        let busbw = match published.busbw {
            (low, high) if low == high => low.to_string(),
            (low, high) => format!("{low} to {high}"),
        };
        let _infallible = write!(text, "; published: {busbw} GB/s ({})", published.source);
    }
    text
}

fn micros(seconds: f64) -> String {
    if seconds < 0.01 {
        format!("{:.1} us", seconds * 1e6)
    } else {
        format!("{:.1} ms", seconds * 1e3)
    }
}

/// Adds a line, broken at spaces where it is too long; what follows is indented like it.
fn wrap(out: &mut String, text: &str) {
    let indent = text.len() - text.trim_start().len() + 2;
    let mut column = 0;
    for word in text.split_inclusive(' ') {
        if column + word.trim_end().len() > WIDTH && column > indent {
            let kept = out.trim_end_matches(' ').len();
            out.truncate(kept);
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
}

/// Something to know before the results.
#[must_use]
pub fn note(text: &str, glyphs: Glyphs) -> String {
    let mut out = String::new();
    wrap(&mut out, &harmless(&format!("  note: {text}"), glyphs));
    out
}

/// One run of several.
#[must_use]
pub fn row(name: &str, outcome: &Outcome, glyphs: Glyphs) -> String {
    let what = match (&outcome.fault, outcome.best(Op::AllReduce)) {
        (Some(reason), _) => format!("FAILED {}", fault(reason)),
        (None, Some((_, busbw))) => {
            format!(
                "passed  busbw {:>10}  via {}",
                rate(busbw),
                outcome.paths.join(", ")
            )
        }
        (None, None) => "passed".to_owned(),
    };
    let mut out = String::new();
    wrap(&mut out, &harmless(&format!("  {name:<18} {what}"), glyphs));
    out
}

/// Several runs for programs.
#[must_use]
pub fn series_json(outcomes: &[(String, bool, Outcome)]) -> String {
    let runs: Vec<serde_json::Value> = outcomes
        .iter()
        .map(|(name, shared, outcome)| {
            let run: serde_json::Value =
                serde_json::from_str(&json(outcome, *shared)).unwrap_or_default();
            serde_json::json!({ "name": name, "run": run })
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&serde_json::json!({ "schema": 1, "runs": runs }))
        .expect("runs are plain data");
    text.push('\n');
    text
}

/// The outcome of a comparison.
#[must_use]
pub fn ab(answer: Answer, a: &Side, b: &Side, glyphs: Glyphs) -> String {
    let mut out = String::new();
    for (name, side) in [("without", a), ("with", b)] {
        let mut text = format!(
            "  {name:<8} passed {} of {}",
            side.passed,
            side.passed + side.failed
        );
        if let Some(busbw) = side.median() {
            let _infallible = write!(text, ", busbw {} (median)", rate(busbw));
        }
        wrap(&mut out, &harmless(&text, glyphs));
    }
    wrap(&mut out, &format!("{CHANGE}{}", answer.words()));
    out
}

/// Why the comparison of one rank with itself says nothing.
pub const ALONE: &str =
    "PROVED NOTHING: world size 1, one rank talks to nobody. Test two GPUs, or --ranks-per-gpu 2\n";

/// The end of a comparison, read back from its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// What the runs prove.
    pub answer: Answer,
    /// The runs without the change: `passed 0 of 5`.
    pub without: String,
    /// Those with it: `passed 5 of 5, busbw 305 GB/s (median)`.
    pub with: String,
}

impl Compared {
    /// Reads what [`ab`] wrote; `None` before its end.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let side = |name: &str| {
            let mut lines = text.lines().filter_map(|line| {
                let words = line.trim_start().strip_prefix(name)?.trim_start();
                words.starts_with("passed ").then(|| words.to_owned())
            });
            lines.next_back()
        };
        let (_, verdict) = text.rsplit_once(CHANGE)?;
        let verdict: Vec<&str> = verdict.split_ascii_whitespace().collect();
        let verdict = verdict.join(" ");
        let answer = Answer::ALL.into_iter().find(|a| a.words() == verdict)?;
        Some(Self {
            answer,
            without: side("without ")?,
            with: side("with ")?,
        })
    }

    /// One line, to stand beside the fix.
    #[must_use]
    pub fn line(&self) -> String {
        let words = self.answer.words();
        let short = words.split(':').next().unwrap_or(words);
        format!(
            "{short} (without it {}; with it {})",
            self.without, self.with
        )
    }
}

/// Schema 1 of the self-test.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    tool: &'static str,
    verdict: &'static str,
    proves: &'a str,
    world_size: u32,
    seconds: f64,
    fault: Option<String>,
    finding: Option<JsonFinding<'a>>,
    steps: Vec<JsonStep>,
    checks: JsonChecks<'a>,
    bandwidth: Vec<JsonTimed>,
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
struct JsonTimed {
    op: Op,
    bytes: u64,
    seconds: f64,
    algbw: f64,
    busbw: f64,
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

/// For programs.
#[must_use]
pub fn json(outcome: &Outcome, shared: bool) -> String {
    let proves = match (outcome.world, shared) {
        (..2, _) => "nothing: world size 1",
        (_, true) => SHARED_GPU,
        (_, false) => "NCCL between these GPUs, with these settings",
    };
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

/// The comparison for programs.
#[must_use]
pub fn ab_json(answer: Answer, a: &Side, b: &Side) -> String {
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
        without: JsonSide<'a>,
        with: JsonSide<'a>,
    }
    let json = JsonAb {
        schema: 1,
        answer,
        words: answer.words(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_comparison_is_read_back() {
        let side = |passed, failed, busbw: &[f64]| Side {
            passed,
            failed,
            busbw: busbw.to_vec(),
        };
        let (a, b) = (side(0, 5, &[]), side(5, 0, &[305e9]));
        for answer in Answer::ALL {
            let text = format!(
                "  1/5 without  failed: with passed\n  1/5 with     passed, busbw 305 GB/s\n{}",
                ab(answer, &a, &b, Glyphs::Unicode)
            );
            let read = Compared::read(&text).expect("it is there");
            assert_eq!(read.answer, answer);
            assert_eq!(read.without, "passed 0 of 5");
            assert_eq!(read.with, "passed 5 of 5, busbw 305 GB/s (median)");
        }
        assert_eq!(Compared::read("  1/5 without  passed\n"), None);
    }
}
