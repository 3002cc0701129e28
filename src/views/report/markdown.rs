//! The report for an issue tracker or chat.

use std::fmt::Write as _;

use crate::engine::finding::{Finding, Fix};
use crate::engine::snapshot::Snapshot;
use crate::views::escape::{self, Glyphs};
use crate::views::words;

use super::addresses::AddressTable;
use super::text::inputs_line;
use super::{Outline, ReportOptions, place, who};

/// Evidence lines per finding: an issue wants the telling ones.
const EVIDENCE: usize = 8;
/// Columns of an evidence line.
const COLUMNS: usize = 300;
/// Findings, hosts and gaps listed.
const ROWS: usize = 32;

/// The report as Markdown. Nothing a log says becomes markup, a mention or HTML.
#[must_use]
pub fn markdown(snapshot: &Snapshot) -> String {
    markdown_with(snapshot, &ReportOptions::default())
}

/// The same with options: `ascii` holds, `verbose` lists everything, width and colour mean nothing.
#[must_use]
pub fn markdown_with(snapshot: &Snapshot, options: &ReportOptions) -> String {
    let all = |limit| if options.verbose { usize::MAX } else { limit };
    let mut page = Page {
        out: String::new(),
        snapshot,
        glyphs: options.glyphs(),
        rows: all(ROWS),
        evidence: all(EVIDENCE),
        columns: all(COLUMNS),
    };
    page.verdict();
    let outline = Outline::of(snapshot);
    for finding in outline.lead.iter().chain(&outline.causes) {
        page.full(finding);
    }
    page.list("What follows from it", &outline.symptoms);
    page.list("Worth knowing", &outline.notes);
    page.addresses();
    page.missing();
    let tool = concat!("unhang ", env!("CARGO_PKG_VERSION"));
    page.paragraph(&format!("{} ({tool})", inputs_line(&snapshot.inputs)));
    let mut out = page.out;
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

struct Page<'a> {
    out: String,
    snapshot: &'a Snapshot,
    glyphs: Glyphs,
    rows: usize,
    evidence: usize,
    columns: usize,
}

impl Page<'_> {
    fn verdict(&mut self) {
        let verdict = &self.snapshot.verdict;
        self.heading(
            2,
            &format!("{}: {}", words::headline(verdict.state), verdict.class),
        );
        let summary = self.plain(&verdict.summary);
        self.paragraph(&format!("**{summary}** ({})", verdict.confidence));
        for (label, text) in [
            (words::guilt(verdict.state), words::guilty(self.snapshot)),
            ("see also", verdict.other_causes.join(", ")),
        ] {
            if !text.is_empty() {
                let text = self.plain(&text);
                self.paragraph(&format!("{label}: {text}"));
            }
        }
    }

    fn full(&mut self, finding: &Finding) {
        let (id, name) = (self.plain(&finding.id), self.plain(&finding.name));
        self.heading(3, &format!("{id} {name} ({})", finding.role));
        if finding.title != self.snapshot.verdict.summary {
            self.paragraph(&self.plain(&finding.title));
        }
        self.paragraph(&self.plain(&finding.explanation));
        if let Some(sites) = &finding.sites {
            self.paragraph(&format!("In the program: {}.", self.plain(sites)));
        }
        let lines: Vec<String> = finding
            .evidence
            .iter()
            .take(self.evidence)
            .map(|e| format!("{}: {}", place(self.snapshot, e), e.text))
            .map(|text| escape::fit(&text, self.columns, self.glyphs))
            .collect();
        self.fenced("text", &lines);
        let hidden = (finding.evidence.len() - lines.len()) as u64 + finding.more_evidence;
        if hidden > 0 {
            self.paragraph(&format!(
                "{} more lines like these.",
                words::thousands(hidden)
            ));
        }
        for fix in &finding.fixes {
            self.fix(fix);
        }
    }

    fn fix(&mut self, fix: &Fix) {
        let effect = words::effect(fix);
        let ranks = words::ranks(fix.ranks.iter().copied());
        let on = if ranks.is_empty() {
            ranks
        } else {
            format!(" on {ranks}")
        };
        let text = self.plain(&fix.text);
        self.paragraph(&format!("**Fix** ({}, {effect}){on}: {text}", fix.kind));
        let commands = words::exports(fix);
        let commands: Vec<String> = commands
            .iter()
            .map(|c| escape::harmless(c, self.glyphs).into_owned())
            .collect();
        self.fenced("sh", &commands);
        for (label, text) in [("But", &fix.caution), ("Undo", &fix.undo)] {
            if let Some(text) = text {
                let text = self.plain(text);
                self.paragraph(&format!("{label}: {text}"));
            }
        }
    }

    fn list(&mut self, title: &str, findings: &[&Finding]) {
        if findings.is_empty() {
            return;
        }
        self.heading(3, title);
        for finding in findings.iter().take(self.rows) {
            let (id, title, who) = (
                self.plain(&finding.id),
                self.plain(&finding.title),
                self.plain(&who(&self.snapshot.job, finding)),
            );
            let who = if who.is_empty() {
                who
            } else {
                format!(" ({who})")
            };
            let _ = writeln!(self.out, "- {id} {title}{who}");
        }
        self.out.push('\n');
    }

    fn addresses(&mut self) {
        let table = AddressTable::of(&self.snapshot.job).grouped();
        if !table.explains(self.snapshot) {
            return;
        }
        self.heading(3, "Addresses");
        let mut names = vec!["", "host"];
        names.extend(table.subsystems.iter().map(String::as_str));
        self.row(&names);
        let _ = writeln!(self.out, "|{}", " --- |".repeat(names.len()));
        for host in table.most_telling(self.rows).0 {
            let mut cells = vec![if host.odd { "odd" } else { "" }, host.host.as_str()];
            cells.extend(host.cells.iter().map(String::as_str));
            self.row(&cells);
        }
        self.out.push('\n');
    }

    fn row(&mut self, cells: &[&str]) {
        let cells: Vec<String> = cells.iter().map(|cell| self.plain(cell)).collect();
        let _ = writeln!(self.out, "| {} |", cells.join(" | "));
    }

    fn missing(&mut self) {
        let missing = &self.snapshot.verdict.missing_evidence;
        if missing.is_empty() {
            return;
        }
        self.heading(3, "Cannot tell");
        for text in missing.iter().take(self.rows) {
            let text = self.plain(text);
            let _ = writeln!(self.out, "- {text}");
        }
        self.out.push('\n');
    }

    fn heading(&mut self, level: usize, text: &str) {
        let _ = writeln!(self.out, "{} {text}\n", "#".repeat(level));
    }

    fn paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            let _ = writeln!(self.out, "{text}\n");
        }
    }

    /// A code block whose fence no line can close.
    fn fenced(&mut self, language: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        let ticks = lines
            .iter()
            .flat_map(|l| l.split(|c| c != '`'))
            .map(str::len)
            .max();
        let fence = "`".repeat(3.max(ticks.unwrap_or(0) + 1));
        let _ = writeln!(
            self.out,
            "{fence}{language}\n{}\n{fence}\n",
            lines.join("\n")
        );
    }

    /// Harmless text in which no character is markup.
    fn plain(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let text = escape::harmless(text.trim(), self.glyphs);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                // Inside a word it is no markup, and names of variables are full of it.
                '_' if out.ends_with(char::is_alphanumeric)
                    && chars.peek().is_some_and(|c| c.is_alphanumeric()) =>
                {
                    out.push(c);
                }
                // These are markup at the start of a line.
                '-' | '+' | '=' if out.is_empty() => out.extend(['\\', c]),
                '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => out.extend(['\\', c]),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '&' => out.push_str("&amp;"),
                '@' => out.push_str("&#64;"),
                _ => out.push(c),
            }
        }
        out
    }
}
