//! A self-test on paper: what was tested, what came out, what it proves and what not.

mod json;

use std::fmt::Write as _;

use super::escape::{Glyphs, harmless};
use super::words;
use crate::engine::finding::Finding;
use crate::engine::vocab::{Class, Role, Severity, State};
use crate::engine::witness::Witness;
use crate::selftest::ab::{Answer, Side};
use crate::selftest::conclude;
use crate::selftest::links::{self, Judged, Standing};
use crate::selftest::outcome::{Ended, Fault, Outcome, Verdict};
use crate::selftest::pairs::Bad;
use crate::selftest::plan::Op;
use crate::selftest::protocol::Step;
use crate::selftest::tuning::Chosen;

pub use json::{ab_json, json, series_json};

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
                match step {
                    Step::UniqueId if !ranks.contains(&0) => "waiting for rank 0's unique id",
                    _ => step.call(),
                },
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
            "{}: nothing more came to rank 0, it hangs, or its process or host is gone",
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
    // Nor does it where the step that hangs comes before all waiting; the state of the process may.
    let early = matches!(outcome.fault, Some(Fault::Stuck { step, .. }) if step < Step::Init);
    let explains = |f: &&Finding| {
        let seen = early && f.witnesses.contains(&Witness::Process);
        f.class != Class::MissingRank || seen || !(known || early)
    };
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
    for (what, rank, wrong) in outcome.wrong.iter().take(8) {
        line(&format!(
            "  WRONG {what}: rank {rank}, element {} is {}, not {}",
            wrong.element,
            number(wrong.got),
            wrong.expected
        ));
    }
    if !outcome.timed.is_empty() {
        line("  timed               bytes       time       algbw       busbw  algorithm");
    }
    for timed in &outcome.timed {
        let chosen = timed.chosen.as_ref().map(Chosen::words);
        line(&format!(
            "  {:<14} {:>10} {:>10} {:>11} {:>11}  {}",
            timed.op.name(),
            words::bytes(timed.bytes),
            micros(timed.seconds),
            rate(timed.algbw()),
            rate(timed.busbw(outcome.world)),
            chosen.as_deref().unwrap_or("unknown")
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
            let explained = explanation(outcome);
            finding(&mut line, explained);
            let conclusion = conclude::conclude(outcome);
            if let Some(concluded) = conclusion.filter(|c| c.certain || explained.is_none()) {
                line(&format!("  {}", concluded.title));
                line(&format!("  fix: {}", concluded.fix));
            }
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

/// A number that may be anything.
fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e9).contains(&value.abs()) {
        value.to_string()
    } else {
        format!("{value:.3e}")
    }
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
        (Some(reason), _) => {
            let finding = explanation(outcome).map(|f| format!("; {} {}", f.id, f.title));
            format!("FAILED {}{}", fault(reason), finding.unwrap_or_default())
        }
        (None, Some((_, busbw))) => {
            let via = outcome.paths.join(", ");
            let judged = links::judge(outcome);
            let judged = judged.map(|judged| match judged.standing {
                Standing::AsExpected => "  as expected".to_owned(),
                Standing::Low | Standing::WorsePath => format!("  {}", judgement(&judged)),
                Standing::Unknown => String::new(),
            });
            format!(
                "passed  busbw {:>10}  via {via}{}",
                rate(busbw),
                judged.unwrap_or_default()
            )
        }
        (None, None) => "passed".to_owned(),
    };
    let mut out = String::new();
    wrap(&mut out, &harmless(&format!("  {name:<18} {what}"), glyphs));
    out
}

/// What the runs of all pairs say together.
#[must_use]
pub fn pairs(bad: &Bad, glyphs: Glyphs) -> String {
    let mut out = String::new();
    wrap(
        &mut out,
        &harmless(&format!("PAIRS: {}", bad.words), glyphs),
    );
    out
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
