//! One finding in full: what, why, evidence, fixes.

use crate::engine::finding::{Finding, Fix};
use crate::engine::snapshot::Snapshot;
use crate::engine::vocab::Role;
use crate::views::escape::{self, Glyphs};
use crate::views::report::{place, who};
use crate::views::tui::theme::Tone;
use crate::views::words;

/// Lines of evidence shown with a finding; its log has the rest.
const EVIDENCE: usize = 16;

/// A row of text, in pieces.
pub(in crate::views::tui) type Row = Vec<(Tone, String)>;

/// The word for a role, in capitals for what is to be fixed.
pub(in crate::views::tui) fn role(role: Role) -> &'static str {
    match role {
        Role::Cause => "CAUSE",
        Role::Symptom => "symptom",
        Role::Note => "note",
    }
}

/// The finding as rows of `width` columns.
pub(in crate::views::tui) fn detail(
    snapshot: &Snapshot,
    finding: &Finding,
    proof: Option<&str>,
    (width, glyphs): (usize, Glyphs),
) -> Vec<Row> {
    let mut page = Page {
        rows: Vec::new(),
        width,
        glyphs,
    };
    page.paragraph(Tone::Strong, 0, &finding.title);
    let about = format!(
        "{} {}, {}, {}",
        finding.id, finding.name, finding.class, finding.confidence
    );
    page.paragraph(Tone::Quiet, 0, &about);
    let who = who(&snapshot.job, finding);
    let comm = finding
        .comm
        .as_ref()
        .map(|c| format!("communicator {c}"))
        .unwrap_or_default();
    let about = [who, comm]
        .into_iter()
        .filter(|t| !t.is_empty())
        .collect::<Vec<_>>()
        .join(", ");
    page.paragraph(Tone::Quiet, 0, &about);
    page.gap();
    page.paragraph(Tone::Plain, 0, &finding.explanation);
    page.gap();
    if let Some(sites) = &finding.sites {
        page.labelled((Tone::Strong, "in the program: "), sites, 2);
        page.gap();
    }
    for fix in &finding.fixes {
        page.fix(fix);
        page.gap();
    }
    if let Some(proof) = proof {
        page.labelled((Tone::Strong, "proof: "), &format!("the fix {proof}"), 2);
        page.gap();
    }
    page.evidence(snapshot, finding);
    page.gap();
    for missing in &finding.missing {
        page.labelled((Tone::Warn, "cannot tell: "), missing, 2);
    }
    if !finding.explains.is_empty() {
        page.paragraph(
            Tone::Quiet,
            0,
            &format!("explains {}", finding.explains.join(", ")),
        );
    }
    while page.rows.last().is_some_and(Vec::is_empty) {
        page.rows.pop();
    }
    page.rows
}

struct Page {
    rows: Vec<Row>,
    width: usize,
    glyphs: Glyphs,
}

impl Page {
    fn gap(&mut self) {
        if self.rows.last().is_some_and(|row| !row.is_empty()) {
            self.rows.push(Vec::new());
        }
    }

    fn paragraph(&mut self, tone: Tone, indent: usize, text: &str) {
        for line in escape::wrap(text, self.width.saturating_sub(indent), self.glyphs) {
            self.rows
                .push(vec![(Tone::Plain, " ".repeat(indent)), (tone, line)]);
        }
    }

    fn labelled(&mut self, label: (Tone, &str), text: &str, hang: usize) {
        let name = escape::harmless(label.1, self.glyphs).into_owned();
        let first = self.width.saturating_sub(escape::width(&name));
        let lines = escape::wrap_after(text, first, self.width.saturating_sub(hang), self.glyphs);
        for (at, line) in lines.into_iter().enumerate() {
            let start = if at == 0 {
                (label.0, name.clone())
            } else {
                (Tone::Plain, " ".repeat(hang))
            };
            self.rows.push(vec![start, (Tone::Plain, line)]);
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
        self.labelled(
            (Tone::Strong, &format!("fix{on} ({}, {effect}): ", fix.kind)),
            &fix.text,
            2,
        );
        for command in words::exports(fix) {
            self.rows.push(vec![
                (Tone::Plain, "  ".to_owned()),
                (Tone::Command, command),
            ]);
        }
        for (label, text) in [("  but: ", &fix.caution), ("  undo: ", &fix.undo)] {
            if let Some(text) = text {
                self.labelled((Tone::Quiet, label), text, label.len());
            }
        }
    }

    fn evidence(&mut self, snapshot: &Snapshot, finding: &Finding) {
        if finding.evidence.is_empty() {
            return;
        }
        self.rows.push(vec![(Tone::Strong, "evidence".to_owned())]);
        for evidence in finding.evidence.iter().take(EVIDENCE) {
            self.rows.push(vec![
                (Tone::Plain, "  ".to_owned()),
                (Tone::Quiet, place(snapshot, evidence)),
            ]);
            self.paragraph(Tone::Plain, 4, &evidence.text);
        }
        let hidden = finding.evidence.len().saturating_sub(EVIDENCE) as u64 + finding.more_evidence;
        if hidden > 0 {
            let more = format!("{} more lines like these", words::thousands(hidden));
            self.rows
                .push(vec![(Tone::Plain, "  ".to_owned()), (Tone::Quiet, more)]);
        }
    }
}
