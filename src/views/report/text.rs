//! The report for a terminal: the verdict, then at most a screen of what it rests on.

use crate::engine::finding::{Finding, Fix};
use crate::engine::snapshot::{InputsView, Snapshot};
use crate::engine::vocab::{Role, State};
use crate::views::escape::{self, Glyphs};
use crate::views::words;

use super::addresses::AddressTable;
use super::excerpt::shortened;
use super::page::{HANG, Page, Shape, Tone};
use super::{Outline, ReportOptions, place, who};

/// How much of each part is shown.
struct Limits {
    evidence: usize,
    fixes: usize,
    causes: usize,
    symptoms: usize,
    notes: usize,
    hosts: usize,
    missing: usize,
    /// Lines of a paragraph.
    lines: usize,
    /// Lines that one line of evidence may take.
    wraps: usize,
}

/// Lines of a screen.
const SCREEN: usize = 50;
/// What fits a screen: the first that does is taken, so that a short report loses nothing.
const SCREENFULS: [Limits; 3] = [
    Limits {
        evidence: 3,
        fixes: 2,
        causes: 2,
        symptoms: 3,
        notes: 2,
        hosts: 8,
        missing: 3,
        lines: 4,
        wraps: 2,
    },
    Limits {
        evidence: 3,
        fixes: 2,
        causes: 1,
        symptoms: 2,
        notes: 1,
        hosts: 5,
        missing: 2,
        lines: 3,
        wraps: 2,
    },
    Limits {
        evidence: 2,
        fixes: 1,
        causes: 1,
        symptoms: 1,
        notes: 1,
        hosts: 3,
        missing: 1,
        lines: 2,
        wraps: 1,
    },
];
const ALL: Limits = Limits {
    evidence: usize::MAX,
    fixes: usize::MAX,
    causes: usize::MAX,
    symptoms: usize::MAX,
    notes: usize::MAX,
    hosts: usize::MAX,
    missing: usize::MAX,
    lines: usize::MAX,
    wraps: usize::MAX,
};

/// The report as text; every line ends with a line feed.
#[must_use]
pub fn text(snapshot: &Snapshot, options: &ReportOptions) -> String {
    if options.verbose {
        return render(snapshot, options, &ALL);
    }
    let [roomy, middle, tight] = &SCREENFULS;
    for limits in [roomy, middle] {
        let page = render(snapshot, options, limits);
        if page.lines().count() <= SCREEN {
            return page;
        }
    }
    render(snapshot, options, tight)
}

fn render(snapshot: &Snapshot, options: &ReportOptions, limits: &Limits) -> String {
    let mut report = Text {
        snapshot,
        page: Page::new(options),
        limits,
        verbose: options.verbose,
    };
    report.verdict();
    let fine = matches!(snapshot.verdict.state, State::Healthy | State::Completed);
    if !fine || options.verbose {
        report.findings();
        report.hosts();
        report.missing();
        report.page.gap();
    }
    report.inputs();
    report.page.finish()
}

struct Text<'a> {
    snapshot: &'a Snapshot,
    page: Page,
    limits: &'a Limits,
    verbose: bool,
}

impl Text<'_> {
    fn verdict(&mut self) {
        let verdict = &self.snapshot.verdict;
        let state = format!(" {} ", words::headline(verdict.state));
        if verdict.state == State::Healthy || verdict.state == State::Completed {
            let room = self.page.width().saturating_sub(escape::width(&state) + 1);
            let glyphs = self.page.glyphs();
            let rest = self.page.width().saturating_sub(1);
            let lines = escape::wrap_after(&verdict.summary, room, rest, glyphs);
            let mut lines = lines.iter();
            let first = lines.next().map(String::as_str).unwrap_or_default();
            self.page.line(
                0,
                &[
                    (Tone::State(verdict.state), &state),
                    (Tone::Plain, " "),
                    (Tone::Plain, first),
                ],
            );
            for line in lines {
                self.page.line(1, &[(Tone::Plain, line)]);
            }
            return;
        }
        self.page.line(
            0,
            &[
                (Tone::State(verdict.state), &state),
                (Tone::Plain, "  "),
                (Tone::Strong, verdict.class.name()),
                (Tone::Plain, ", "),
                (Tone::Plain, verdict.confidence.name()),
            ],
        );
        if verdict.state == State::Waiting {
            self.page
                .paragraph(self.shape(1), Tone::Quiet, words::gloss_of(verdict));
        }
        self.page
            .paragraph(self.shape(1), Tone::Strong, &verdict.summary);
        let label = format!("{}: ", words::guilt(verdict.state));
        self.page.labelled(
            self.hanging(1, HANG),
            (Tone::Plain, &label),
            Tone::Bad,
            &words::guilty(self.snapshot),
        );
        let others = verdict.other_causes.join(", ");
        self.page.labelled(
            self.hanging(1, HANG),
            (Tone::Plain, "see also: "),
            Tone::Plain,
            &others,
        );
    }

    fn findings(&mut self) {
        let outline = Outline::of(self.snapshot);
        if let Some(lead) = outline.lead {
            let heading = if self.snapshot.verdict.state == State::Waiting {
                "CAUSE, IF IT IS STUCK"
            } else {
                "CAUSE"
            };
            self.cause(heading, lead);
        }
        let (shown, hidden) = split(&outline.causes, self.limits.causes);
        for cause in shown {
            self.cause("ALSO WRONG", cause);
        }
        self.more(hidden, "cause");
        self.list(
            "WHAT FOLLOWS FROM IT",
            "symptom",
            &outline.symptoms,
            self.limits.symptoms,
        );
        self.list("WORTH KNOWING", "note", &outline.notes, self.limits.notes);
    }

    /// A finding with all that belongs to it.
    fn cause(&mut self, heading: &str, finding: &Finding) {
        self.heading(heading, &format!("{} {}", finding.id, finding.name));
        if finding.title != self.snapshot.verdict.summary {
            self.page
                .paragraph(self.shape(2), Tone::Strong, &finding.title);
        }
        let why = if self.verbose {
            finding.explanation.trim()
        } else {
            words::two_sentences(&finding.explanation)
        };
        self.page.paragraph(self.shape(2), Tone::Plain, why);
        let sites = finding.sites.as_deref().unwrap_or_default();
        self.page.labelled(
            self.hanging(2, 4),
            (Tone::Strong, "in the program: "),
            Tone::Plain,
            sites,
        );
        self.evidence(finding);
        let (fixes, hidden) = split(&finding.fixes, self.limits.fixes);
        for fix in fixes {
            self.fix(fix);
        }
        self.more(hidden, "fix");
    }

    fn evidence(&mut self, finding: &Finding) {
        let (shown, hidden) = split(&finding.evidence, self.limits.evidence);
        let places: Vec<String> = shown.iter().map(|e| place(self.snapshot, e)).collect();
        // Names of sources can be long paths; a third of the page is theirs at most.
        let widest = places
            .iter()
            .map(|p| escape::width(&escape::harmless(p, self.page.glyphs())))
            .max();
        let column = widest.unwrap_or(0).min(self.page.width() / 3);
        for (evidence, place) in shown.iter().zip(&places) {
            let place = escape::pad(place, column, self.page.glyphs());
            let shape = Shape {
                indent: 4,
                hang: HANG,
                limit: self.limits.wraps,
            };
            let label = format!("{place}  ");
            let room = self.page.width().saturating_sub(4 + column + 2);
            let text = shortened(&evidence.text, room, self.limits.wraps, self.page.glyphs());
            self.page
                .labelled(shape, (Tone::Quiet, &label), Tone::Plain, &text);
        }
        let hidden = hidden as u64 + finding.more_evidence;
        if hidden > 0 {
            let hint = if self.verbose { "" } else { " (-v)" };
            let lines = if hidden == 1 { "line" } else { "lines" };
            let more = format!("{} more {lines} like these{hint}", words::thousands(hidden));
            self.page.line(4, &[(Tone::Quiet, &more)]);
        }
    }

    fn fix(&mut self, fix: &Fix) {
        let effect = words::effect(fix);
        let on = match words::ranks(fix.ranks.iter().copied()) {
            ranks if ranks.is_empty() => ranks,
            ranks => format!(" on {ranks}"),
        };
        let label = format!("fix{on} ({}, {effect}): ", fix.kind);
        self.page.labelled(
            self.hanging(2, 6),
            (Tone::Strong, &label),
            Tone::Plain,
            &fix.text,
        );
        for command in words::exports(fix) {
            self.page.command(6, &command);
        }
        for (label, text) in [("but: ", &fix.caution), ("undo: ", &fix.undo)] {
            if let Some(text) = text {
                self.page.labelled(
                    self.hanging(6, HANG),
                    (Tone::Quiet, label),
                    Tone::Plain,
                    text,
                );
            }
        }
    }

    /// Findings that need one line each.
    fn list(&mut self, heading: &str, noun: &str, findings: &[&Finding], limit: usize) {
        if findings.is_empty() {
            return;
        }
        self.heading(heading, "");
        let (shown, hidden) = split(findings, limit);
        // Ids of rules; one that is longer comes from somewhere else.
        let widest = if shown.iter().any(|f| f.id.len() > 7) {
            8
        } else {
            7
        };
        for finding in shown {
            let who = who(&self.snapshot.job, finding);
            let named = names_ranks(&finding.title);
            let title = if who.is_empty() || (named && !self.verbose) {
                finding.title.clone()
            } else {
                format!("{} [{who}]", finding.title)
            };
            let id = format!("{}  ", escape::pad(&finding.id, widest, self.page.glyphs()));
            if self.verbose {
                self.page.labelled(
                    self.hanging(2, HANG),
                    (Tone::Plain, &id),
                    Tone::Plain,
                    &title,
                );
                self.page
                    .paragraph(self.shape(10), Tone::Plain, finding.explanation.trim());
                self.evidence(finding);
                // What follows from the cause is cured with it.
                let own = finding.role != Role::Symptom;
                for fix in finding.fixes.iter().filter(|_| own) {
                    self.fix(fix);
                }
            } else {
                let shape = Shape {
                    indent: 2,
                    hang: HANG,
                    limit: self.limits.wraps,
                };
                let room = self.page.width().saturating_sub(2 + escape::width(&id));
                let title = fitted(&title, room, self.limits.wraps, self.page.glyphs());
                self.page
                    .labelled(shape, (Tone::Plain, &id), Tone::Plain, &title);
            }
        }
        self.more(hidden, noun);
    }

    fn hosts(&mut self) {
        let mut table = AddressTable::of(&self.snapshot.job);
        if !self.verbose {
            table = table.grouped();
        }
        let all = self.verbose && !table.subsystems.is_empty();
        if !table.explains(self.snapshot) && !all {
            return;
        }
        let (rows, hidden) = table.most_telling(self.limits.hosts);
        let glyphs = self.page.glyphs();
        let width = self.page.width().saturating_sub(4);
        let columns = table.columns(&rows, width, glyphs);
        let row = |first: &str, cells: &[String]| {
            let mut line = escape::pad(first, columns[0], glyphs);
            for (cell, width) in cells.iter().zip(&columns[1..]) {
                line.push_str("  ");
                line.push_str(&escape::pad(
                    if cell.is_empty() { "-" } else { cell },
                    *width,
                    glyphs,
                ));
            }
            line
        };
        self.heading("ADDRESSES", "which each host chose");
        self.page
            .line(4, &[(Tone::Quiet, &row("", &table.subsystems))]);
        for shown in rows {
            let (mark, tone) = if shown.odd {
                ("> ", Tone::Bad)
            } else {
                ("  ", Tone::Plain)
            };
            self.page
                .line(2, &[(tone, mark), (tone, &row(&shown.host, &shown.cells))]);
        }
        self.more(hidden, "host");
    }

    fn missing(&mut self) {
        let mut missing: Vec<&String> = self.snapshot.verdict.missing_evidence.iter().collect();
        for text in Outline::of(self.snapshot)
            .lead
            .into_iter()
            .flat_map(|lead| &lead.missing)
        {
            if !missing.contains(&text) {
                missing.push(text);
            }
        }
        if missing.is_empty() {
            return;
        }
        self.heading("CANNOT TELL", "and what would show it");
        let (shown, hidden) = split(&missing, self.limits.missing);
        for text in shown {
            self.page.labelled(
                self.hanging(2, HANG),
                (Tone::Plain, "- "),
                Tone::Plain,
                text,
            );
        }
        self.more(hidden, "gap");
    }

    fn inputs(&mut self) {
        self.page
            .line(0, &[(Tone::Quiet, &inputs_line(&self.snapshot.inputs))]);
        let problems: Vec<_> = self
            .snapshot
            .inputs
            .sources
            .iter()
            .filter(|s| s.problem.is_some())
            .collect();
        let (shown, hidden) = split(&problems, if self.verbose { usize::MAX } else { 3 });
        for source in shown {
            let problem = source.problem.as_deref().unwrap_or_default();
            self.page.line(
                2,
                &[
                    (Tone::Bad, "could not read "),
                    (Tone::Plain, &source.name),
                    (Tone::Plain, ": "),
                    (Tone::Plain, problem),
                ],
            );
        }
        self.more(hidden, "source");
        if self.verbose {
            for source in self
                .snapshot
                .inputs
                .sources
                .iter()
                .filter(|s| s.problem.is_none())
            {
                let size = format!(
                    ": {}, {}",
                    words::count(source.lines as usize, "line"),
                    words::bytes(source.bytes)
                );
                self.page
                    .line(2, &[(Tone::Plain, &source.name), (Tone::Quiet, &size)]);
            }
        }
    }

    fn shape(&self, indent: usize) -> Shape {
        self.hanging(indent, indent)
    }

    fn hanging(&self, indent: usize, hang: usize) -> Shape {
        Shape {
            indent,
            hang,
            limit: self.limits.lines,
        }
    }

    fn heading(&mut self, heading: &str, rest: &str) {
        self.page.gap();
        self.page.line(
            0,
            &[
                (Tone::Strong, heading),
                (Tone::Plain, "  "),
                (Tone::Quiet, rest),
            ],
        );
    }

    fn more(&mut self, hidden: usize, noun: &str) {
        if hidden > 0 {
            let more = words::count(hidden, noun).replacen(' ', " further ", 1);
            let hint = if self.verbose { "" } else { " (-v)" };
            self.page
                .line(2, &[(Tone::Quiet, &more), (Tone::Quiet, hint)]);
        }
    }
}

/// What was read, in one line.
pub(super) fn inputs_line(inputs: &InputsView) -> String {
    let mut line = format!(
        "read {}, {}, {}",
        words::count(inputs.sources.len(), "source"),
        words::count(usize::try_from(inputs.lines).unwrap_or(usize::MAX), "line"),
        words::bytes(inputs.bytes),
    );
    if inputs.dropped > 0 {
        line.push_str(&format!("; {} dropped", words::thousands(inputs.dropped)));
    }
    line
}

/// True if a title says which ranks it is about: `rank 3`, `ranks 0-5`.
fn names_ranks(title: &str) -> bool {
    let after = ["rank ", "ranks "].iter().flat_map(|noun| {
        title
            .match_indices(noun)
            .map(|(at, noun)| &title[at + noun.len()..])
    });
    after
        .into_iter()
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A title in so many lines, cut between words where it does not fit.
fn fitted(title: &str, room: usize, lines: usize, glyphs: Glyphs) -> String {
    let mut columns = room.saturating_mul(lines);
    let mut shown = title.to_owned();
    while columns > room / 2 && escape::wrap(&shown, room, glyphs).len() > lines {
        shown = words::shortened(title, columns);
        columns -= columns.min(4);
    }
    shown
}

fn split<T>(items: &[T], limit: usize) -> (&[T], usize) {
    let shown = &items[..items.len().min(limit)];
    (shown, items.len() - shown.len())
}
