//! One diagnosis on paper: plain text for a terminal, Markdown for an issue.

mod addresses;
mod excerpt;
mod markdown;
mod page;
mod text;

use std::collections::BTreeSet;

use crate::engine::finding::{Evidence, Finding};
use crate::engine::snapshot::{JobView, Snapshot};
use crate::engine::vocab::{Class, Role};

use super::escape::{self, Glyphs};
use super::words;

pub use addresses::{AddressRow, AddressTable};
pub use markdown::{markdown, markdown_with};
pub use text::text;

/// The verdict again in one line, for the end of a report that scrolled its head away: the state, its
/// class, the guilty and the first thing to change.
#[must_use]
pub fn reminder(snapshot: &Snapshot, options: &ReportOptions) -> String {
    let verdict = &snapshot.verdict;
    let mut text = words::headline(verdict.state).to_owned();
    if !matches!(verdict.class, Class::Healthy | Class::Inconclusive) {
        text.push_str(&format!(", {}", verdict.class));
    }
    let guilty = words::guilty(snapshot);
    if !guilty.is_empty() {
        text.push_str(&format!(", {guilty}"));
    }
    let fix = Outline::of(snapshot).lead.and_then(|f| f.fixes.first());
    match fix {
        Some(fix) => {
            let commands = words::exports(fix);
            let what = commands.first().unwrap_or(&fix.text);
            text.push_str(&format!("; fix: {what}"));
        }
        None => text.push_str(&format!("; {}", verdict.summary)),
    }
    let mut line = escape::fit(&text, options.width, options.glyphs());
    line.push('\n');
    line
}

/// How a text report looks.
#[derive(Clone, Copy, Debug)]
pub struct ReportOptions {
    /// Columns. Only commands to paste may be longer.
    pub width: usize,
    /// Use colours (ANSI sequences).
    pub color: bool,
    /// Use ASCII only.
    pub ascii: bool,
    /// Show everything instead of a screen.
    pub verbose: bool,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            width: 80,
            color: false,
            ascii: false,
            verbose: false,
        }
    }
}

impl ReportOptions {
    fn glyphs(&self) -> Glyphs {
        if self.ascii {
            Glyphs::Ascii
        } else {
            Glyphs::Unicode
        }
    }
}

/// The findings in the order in which a person reads them.
#[derive(Debug, Default)]
pub struct Outline<'a> {
    /// The one the verdict rests on.
    pub lead: Option<&'a Finding>,
    /// Independent further causes.
    pub causes: Vec<&'a Finding>,
    /// What the causes explain.
    pub symptoms: Vec<&'a Finding>,
    /// Worth knowing.
    pub notes: Vec<&'a Finding>,
}

impl<'a> Outline<'a> {
    /// Sorts the findings of a snapshot; their order within a role stays.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let mut outline = Self::default();
        let lead = snapshot
            .verdict
            .finding
            .filter(|at| *at < snapshot.findings.len());
        for (at, finding) in snapshot.findings.iter().enumerate() {
            match finding.role {
                _ if Some(at) == lead => outline.lead = Some(finding),
                Role::Cause => outline.causes.push(finding),
                Role::Symptom => outline.symptoms.push(finding),
                Role::Note => outline.notes.push(finding),
            }
        }
        outline
    }

    /// All of them, as they are listed.
    pub fn iter(&self) -> impl Iterator<Item = &'a Finding> {
        let rest = [&self.causes, &self.symptoms, &self.notes];
        self.lead
            .into_iter()
            .chain(rest.into_iter().flatten().copied())
    }
}

/// Where a line of evidence stands: `rank10.log:31`, or `fr_rank_3#7` for an entry of a dump.
#[must_use]
pub fn place(snapshot: &Snapshot, evidence: &Evidence) -> String {
    match snapshot.inputs.source(evidence.source) {
        Some(source) => match evidence.entry {
            Some(entry) => format!("{}#{entry}", source.name),
            None => format!("{}:{}", source.name, evidence.line),
        },
        None => format!("?:{}", evidence.line),
    }
}

/// Ranks and hosts of a finding in a few words: `ranks 10-11 on node-5`.
#[must_use]
pub fn who(job: &JobView, finding: &Finding) -> String {
    let ranks = words::ranks(finding.ranks.iter().copied());
    let theirs = finding
        .ranks
        .iter()
        .map(|rank| job.rank(*rank)?.host.as_ref());
    // Hosts that are only some of its ranks' would stand for all of them.
    let partly = theirs.clone().any(|host| host.is_none()) && {
        let known: BTreeSet<&String> = theirs.flatten().collect();
        finding.hosts.iter().all(|host| known.contains(host))
    };
    let hosts = match partly {
        true => String::new(),
        false => words::hosts(finding.hosts.iter().map(String::as_str)),
    };
    match (ranks.is_empty(), hosts.is_empty()) {
        (_, true) => ranks,
        (true, false) => hosts,
        (false, false) => format!("{ranks} on {hosts}"),
    }
}
