//! What is wrong: the verdict, every rank as a letter, the findings.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::engine::snapshot::{RankView, Snapshot};
use crate::engine::vocab::Class;
use crate::views::tui::task::proof;
use crate::views::tui::theme::Tone;
use crate::views::tui::view::Scene;
use crate::views::tui::widget::finding::detail;
use crate::views::tui::widget::grid::Grid;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

use super::findings::listed;

/// Rows from which on the banner is three rows high.
const TALL: u16 = 26;
/// Rows below the findings from which on the selected one is shown in full.
const LEAD: usize = 6;
/// Columns of a paragraph that is easy to read.
const READABLE: usize = 110;

pub(in crate::views::tui) struct Overview<'a>(pub(in crate::views::tui) Scene<'a>);

impl Widget for &Overview<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Scene { ui, snapshot, .. } = self.0;
        let used = banner(self.0, area, buf);
        let mut area = below(area, used);
        // The findings keep some rows, the ranks take what they need of the others.
        let wanted = snapshot.findings.len().clamp(1, 6);
        let width = usize::from(area.width).saturating_sub(2);
        let room = usize::from(area.height).saturating_sub(wanted + 4).max(1);
        let grid = Grid::new(snapshot, ui.theme, width, room);
        if !snapshot.job.ranks.is_empty() {
            legend(self.0, &grid, area, buf);
            area = below(area, 1);
            let rows = u16::try_from(grid.rows().min(room)).unwrap_or(u16::MAX);
            let inner = Rect {
                x: area.x + 1,
                width: area.width.saturating_sub(2),
                height: rows,
                ..area
            };
            (&grid).render(inner.intersection(area), buf);
            area = below(area, rows + 1);
        }
        let mut pen = Pen::new(buf, area, ui.theme);
        if snapshot.findings.is_empty() {
            for text in &snapshot.verdict.missing_evidence {
                pen.put(Tone::Plain, " ");
                pen.wrapped(Tone::Plain, text, 1, 2);
            }
            return;
        }
        pen.line(
            Tone::Strong,
            &format!(" {}", words::count(snapshot.findings.len(), "finding")),
        );
        let wanted = wanted.min(pen.rows_left());
        listed(self.0, &mut pen, wanted);
        self.selected(&mut pen);
    }
}

impl Overview<'_> {
    /// The selected finding in full, where there is room for some of it.
    fn selected(&self, pen: &mut Pen<'_>) {
        let Scene { ui, snapshot, .. } = self.0;
        let lead = snapshot.findings.get(ui.finding_row(snapshot));
        let Some(lead) = lead.filter(|_| pen.rows_left() > LEAD) else {
            return;
        };
        pen.down();
        let rows = detail(
            snapshot,
            lead,
            proof(ui, lead),
            (pen.width().saturating_sub(2).min(READABLE), ui.theme.glyphs),
        );
        // Its title is in the list; the rest begins with what it means.
        let meaning = rows.iter().position(Vec::is_empty).map_or(0, |gap| gap + 1);
        for row in rows.iter().skip(meaning).take(pen.rows_left()) {
            pen.put(Tone::Plain, " ");
            for (tone, text) in row {
                pen.put(*tone, text);
            }
            pen.down();
        }
    }
}

/// Draws the verdict; returns the rows it took.
fn banner(scene: Scene<'_>, area: Rect, buf: &mut Buffer) -> u16 {
    let snapshot = scene.snapshot;
    let verdict = &snapshot.verdict;
    let tone = Tone::State(verdict.state);
    let tall = area.height >= TALL;
    let mut pen = Pen::new(buf, area, scene.ui.theme);
    for row in 0..if tall { 3 } else { 1 } {
        pen.tint(tone);
        if row == usize::from(tall) {
            pen.put(
                tone,
                &format!("  {}", spaced(words::headline(verdict.state))),
            );
            if !matches!(verdict.class, Class::Healthy | Class::Inconclusive) {
                pen.put(
                    tone,
                    &format!("    {}, {}", verdict.class, verdict.confidence),
                );
            }
            let ranks = format!("{}  ", ranks_seen(snapshot));
            // What stands here is the answer to what was played, and not yet to all of it.
            let so_far = scene.status.part_played();
            let so_far = so_far.map_or_else(String::new, |n| format!("    so far ({n} %)"));
            if so_far.len() + ranks.len() <= pen.room() {
                pen.put(tone, &so_far);
            }
            pen.put_right(tone, &ranks);
        }
        pen.down();
    }
    if tall {
        pen.down();
    }
    let rows = if area.height >= 18 { 3 } else { 2 };
    pen.put(Tone::Plain, " ");
    pen.wrapped(Tone::Strong, &verdict.summary, 1, rows);
    let label = words::guilt(verdict.state);
    labelled(&mut pen, label, Tone::Bad, &words::guilty(snapshot));
    labelled(
        &mut pen,
        "see also",
        Tone::Plain,
        &verdict.other_causes.join(", "),
    );
    labelled(&mut pen, "fix", Tone::Command, &first_fix(snapshot));
    pen.down();
    area.height
        .saturating_sub(u16::try_from(pen.rows_left()).unwrap_or(0))
}

fn labelled(pen: &mut Pen<'_>, label: &str, tone: Tone, text: &str) {
    if !text.is_empty() {
        pen.put(Tone::Plain, " ");
        pen.cell(Tone::Quiet, label, 11);
        pen.line(tone, text);
    }
}

/// The command, or the advice, that the verdict ends in.
fn first_fix(snapshot: &Snapshot) -> String {
    let lead = snapshot
        .verdict
        .finding
        .and_then(|at| snapshot.findings.get(at));
    let fixes = lead.map_or(&[][..], |f| &f.fixes);
    // What cures comes before what only works around, whatever is easier to paste.
    let best = fixes.iter().find(|fix| fix.cures).or(fixes.first());
    let Some(fix) = best else {
        return String::new();
    };
    match words::exports(fix) {
        lines if lines.is_empty() => fix.text.clone(),
        lines => lines.join("; "),
    }
}

fn legend(scene: Scene<'_>, grid: &Grid<'_>, area: Rect, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area, scene.ui.theme);
    pen.put(Tone::Plain, " ");
    pen.put(Tone::Strong, "ranks  ");
    for (tone, text) in grid.legend(scene.snapshot.verdict.state) {
        if pen.room() > text.len() {
            pen.put(tone, &text);
            pen.put(Tone::Plain, "   ");
        }
    }
}

fn ranks_seen(snapshot: &Snapshot) -> String {
    // A launcher writes too, and is no rank.
    let counts =
        |r: &&RankView| !r.absent && (r.rank.is_some() || snapshot.job.world_size.is_none());
    let seen = snapshot.job.ranks.iter().filter(counts).count();
    match snapshot.job.world_size {
        Some(world) => format!(
            "{} of {}",
            words::thousands(seen as u64),
            words::count(world as usize, "rank")
        ),
        None => words::count(seen, "rank"),
    }
}

/// Letters apart, to be read from afar.
fn spaced(word: &str) -> String {
    word.chars().map(String::from).collect::<Vec<_>>().join(" ")
}

fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect {
        y: area.y + rows,
        height: area.height - rows,
        ..area
    }
}
