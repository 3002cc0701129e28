//! The report for an issue tracker or chat.

use std::fmt::Write as _;

use crate::engine::finding::{Finding, Fix};
use crate::engine::snapshot::Snapshot;
use crate::views::escape::{self, Glyphs};
use crate::views::words;

use super::addresses::AddressTable;
use super::text::inputs_line;
use super::{Outline, place, who};

/// Evidence lines per finding: an issue wants the telling ones.
const EVIDENCE: usize = 8;
/// Columns of an evidence line.
const COLUMNS: usize = 300;
/// Findings, hosts and gaps listed.
const ROWS: usize = 32;

/// The report as Markdown. Nothing a log says becomes markup, a mention or HTML.
#[must_use]
pub fn markdown(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let verdict = &snapshot.verdict;
    heading(
        &mut out,
        2,
        &format!("{}: {}", words::headline(verdict.state), verdict.class),
    );
    paragraph(
        &mut out,
        &format!("**{}** ({})", plain(&verdict.summary), verdict.confidence),
    );
    let ranks = words::ranks(verdict.ranks.iter().copied());
    let hosts = words::hosts(verdict.hosts.iter().map(String::as_str));
    for (label, text) in [
        (
            words::guilt(verdict.state),
            [ranks, hosts]
                .into_iter()
                .filter(|t| !t.is_empty())
                .collect::<Vec<_>>()
                .join(" on "),
        ),
        ("see also", verdict.other_causes.join(", ")),
    ] {
        if !text.is_empty() {
            paragraph(&mut out, &format!("{label}: {}", plain(&text)));
        }
    }
    let outline = Outline::of(snapshot);
    for finding in outline.lead.iter().chain(&outline.causes) {
        full(&mut out, snapshot, finding);
    }
    list(&mut out, "What follows from it", &outline.symptoms);
    list(&mut out, "Worth knowing", &outline.notes);
    addresses(&mut out, snapshot);
    if !verdict.missing_evidence.is_empty() {
        heading(&mut out, 3, "Cannot tell");
        for text in verdict.missing_evidence.iter().take(ROWS) {
            bullet(&mut out, &plain(text));
        }
        out.push('\n');
    }
    paragraph(
        &mut out,
        &format!(
            "{} (unhang {})",
            inputs_line(&snapshot.inputs),
            env!("CARGO_PKG_VERSION")
        ),
    );
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn full(out: &mut String, snapshot: &Snapshot, finding: &Finding) {
    heading(
        out,
        3,
        &format!(
            "{} {} ({})",
            plain(&finding.id),
            plain(&finding.name),
            finding.role
        ),
    );
    if finding.title != snapshot.verdict.summary {
        paragraph(out, &plain(&finding.title));
    }
    paragraph(out, &plain(&finding.explanation));
    let lines: Vec<String> = finding
        .evidence
        .iter()
        .take(EVIDENCE)
        .map(|e| format!("{}: {}", place(snapshot, e), e.text))
        .map(|text| escape::fit(&text, COLUMNS, Glyphs::Unicode))
        .collect();
    fenced(out, "text", &lines);
    let hidden = (finding.evidence.len() - lines.len()) as u64 + finding.more_evidence;
    if hidden > 0 {
        paragraph(
            out,
            &format!("{} more lines like these.", words::thousands(hidden)),
        );
    }
    for fix in &finding.fixes {
        self::fix(out, fix);
    }
}

fn fix(out: &mut String, fix: &Fix) {
    let effect = if fix.cures {
        "cures it"
    } else {
        "works around it"
    };
    let ranks = words::ranks(fix.ranks.iter().copied());
    let on = if ranks.is_empty() {
        ranks
    } else {
        format!(" on {ranks}")
    };
    paragraph(
        out,
        &format!("**Fix** ({}, {effect}){on}: {}", fix.kind, plain(&fix.text)),
    );
    fenced(out, "sh", &words::exports(fix));
    for (label, text) in [("But", &fix.caution), ("Undo", &fix.undo)] {
        if let Some(text) = text {
            paragraph(out, &format!("{label}: {}", plain(text)));
        }
    }
}

fn list(out: &mut String, title: &str, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    heading(out, 3, title);
    for finding in findings.iter().take(ROWS) {
        let who = who(finding);
        let who = if who.is_empty() {
            who
        } else {
            format!(" ({})", plain(&who))
        };
        bullet(
            out,
            &format!("{} {}{who}", plain(&finding.id), plain(&finding.title)),
        );
    }
    out.push('\n');
}

fn addresses(out: &mut String, snapshot: &Snapshot) {
    let table = AddressTable::of(&snapshot.job);
    if !table.differs() {
        return;
    }
    heading(out, 3, "Addresses");
    let row = |cells: &mut dyn Iterator<Item = &str>| {
        cells.fold("|".to_owned(), |line, cell| {
            format!("{line} {} |", plain(cell))
        })
    };
    let names = table.subsystems.iter().map(String::as_str);
    let _ = writeln!(out, "{}", row(&mut ["host"].into_iter().chain(names)));
    let _ = writeln!(out, "|{}", " --- |".repeat(table.subsystems.len() + 1));
    for host in table.most_telling(ROWS).0 {
        let mut line = row(&mut [host.host.as_str()]
            .into_iter()
            .chain(host.cells.iter().map(String::as_str)));
        if host.odd {
            line.push_str(" **odd** |");
        }
        let _ = writeln!(out, "{line}");
    }
    out.push('\n');
}

fn heading(out: &mut String, level: usize, text: &str) {
    let _ = writeln!(out, "{} {text}\n", "#".repeat(level));
}

fn paragraph(out: &mut String, text: &str) {
    if !text.is_empty() {
        let _ = writeln!(out, "{text}\n");
    }
}

fn bullet(out: &mut String, text: &str) {
    let _ = writeln!(out, "- {text}");
}

/// A code block whose fence no line can close.
fn fenced(out: &mut String, language: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let longest = lines
        .iter()
        .flat_map(|l| l.split(|c| c != '`'))
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    let _ = writeln!(out, "{fence}{language}\n{}\n{fence}\n", lines.join("\n"));
}

/// Harmless text in which no character is markup.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape::harmless(text.trim(), Glyphs::Unicode).chars() {
        match c {
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
