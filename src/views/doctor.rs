//! A host on paper: what is wrong with it and the fix, then its facts.

mod facts;

use std::fmt::Write as _;

use serde::Serialize;

use super::escape::{Glyphs, harmless, width, wrap};
use super::words;
use crate::probe::diagnosis::expect::{Answer, Checked};
use crate::probe::diagnosis::{Level, Trouble};
use crate::probe::facts::Facts;

/// Columns.
const WIDTH: usize = 80;
/// Version of the JSON.
const SCHEMA: u32 = 1;

/// What can be said of NCCL with fewer than two GPUs: one rank talks to nobody.
fn dry_run_only(gpus: usize) -> Option<&'static str> {
    match gpus {
        0 => Some("no GPU here: dry run only: no statement about NCCL is possible here"),
        1 => Some("one GPU here: dry run only: no statement about NCCL is possible here"),
        _ => None,
    }
}

/// What is said of a host.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Its facts.
    pub facts: &'a Facts,
    /// What is wrong with them.
    pub troubles: &'a [Trouble],
    /// What was expected.
    pub expectations: &'a [Checked],
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Something is wrong.
    Wrong,
    /// Nothing that was looked at is wrong.
    NothingWrong,
    /// Nothing is wrong, and there is no GPU.
    NoGpu,
}

/// The answer in one word.
#[must_use]
pub fn state(facts: &Facts, wrong: bool) -> State {
    match (wrong, facts.usable_gpus()) {
        (true, _) => State::Wrong,
        (false, 0) => State::NoGpu,
        (false, _) => State::NothingWrong,
    }
}

impl Report<'_> {
    fn count(&self, level: Level) -> usize {
        self.troubles.iter().filter(|t| t.level == level).count()
    }

    fn state(&self) -> State {
        state(self.facts, self.count(Level::Wrong) > 0)
    }

    /// One line.
    #[must_use]
    pub fn summary(&self) -> String {
        let wrong = self.count(Level::Wrong);
        let mut text = match wrong {
            0 => "nothing wrong was found".to_owned(),
            1 => "1 thing is wrong".to_owned(),
            n => format!("{n} things are wrong"),
        };
        let unknown = self.count(Level::CannotTell);
        if unknown > 0 {
            let _infallible = write!(text, ", {} cannot be told", words::count(unknown, "thing"));
        }
        if let Some(said) = dry_run_only(self.facts.usable_gpus()) {
            let _infallible = write!(text, "; {said}");
        }
        text
    }

    /// For people.
    #[must_use]
    pub fn text(&self, glyphs: Glyphs) -> String {
        let host = self.facts.hostname.as_deref().unwrap_or("this host");
        let of = self
            .facts
            .pid
            .map_or(String::new(), |pid| format!(", as process {pid} sees it"));
        let mut out = String::new();
        paragraph(
            &mut out,
            "",
            "  ",
            &format!("unhang doctor: {host}{of}: {}", self.summary()),
            glyphs,
        );
        for checked in self.expectations {
            let answer = match checked.answer {
                Answer::Met => "met",
                Answer::NotMet => "NOT MET",
                Answer::CannotTell => "CANNOT TELL",
            };
            let line = format!(
                "expected {}: {answer} ({})",
                checked.expected, checked.found
            );
            paragraph(&mut out, "  ", "    ", &line, glyphs);
        }
        for trouble in self.troubles {
            let level = match trouble.level {
                Level::Wrong => "WRONG",
                Level::Note => "WORTH KNOWING",
                Level::CannotTell => "CANNOT TELL",
            };
            out.push('\n');
            paragraph(
                &mut out,
                "",
                "  ",
                &format!("{level}: {}", trouble.title),
                glyphs,
            );
            if !trouble.why.is_empty() {
                paragraph(&mut out, "  ", "  ", &trouble.why, glyphs);
            }
            for fix in &trouble.fixes {
                let line = format!("fix ({}): {}", fix.kind.name(), fix.text);
                paragraph(&mut out, "  ", "    ", &line, glyphs);
            }
        }
        out.push_str("\nFACTS\n");
        for (name, value) in facts::lines(self.facts) {
            paragraph(
                &mut out,
                &format!("  {name:<12}"),
                "              ",
                &value,
                glyphs,
            );
        }
        out
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Verdict {
            state: State,
            summary: String,
            /// Whether anything here says something about NCCL.
            about_nccl: bool,
        }
        #[derive(Serialize)]
        struct Json<'a> {
            schema: u32,
            tool: String,
            host: Option<&'a str>,
            verdict: Verdict,
            expectations: &'a [Checked],
            troubles: &'a [Trouble],
            facts: &'a Facts,
        }
        let json = Json {
            schema: SCHEMA,
            tool: format!("unhang {}", env!("CARGO_PKG_VERSION")),
            host: self.facts.hostname.as_deref(),
            verdict: Verdict {
                state: self.state(),
                summary: self.summary(),
                about_nccl: dry_run_only(self.facts.usable_gpus()).is_none(),
            },
            expectations: self.expectations,
            troubles: self.troubles,
            facts: self.facts,
        };
        let mut text = serde_json::to_string_pretty(&json).expect("plain data");
        text.push('\n');
        text
    }
}

/// Text in the page's width, the first line behind `first`, the others behind `rest`.
fn paragraph(out: &mut String, first: &str, rest: &str, text: &str, glyphs: Glyphs) {
    // A path is not broken: it is there to be copied.
    let longest = text.split_whitespace().map(width).max().unwrap_or(0);
    let room = WIDTH
        .saturating_sub(first.len().max(rest.len()))
        .max(longest);
    let lines = wrap(text, room, glyphs);
    for (at, line) in lines.iter().enumerate() {
        let lead = if at == 0 { first } else { rest };
        let _infallible = writeln!(out, "{}{line}", harmless(lead, glyphs));
    }
}
