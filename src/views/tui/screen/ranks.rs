//! How far every rank has got, as a table to sort and filter.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::engine::gpu::Means;
use crate::engine::snapshot::{RankView, Snapshot};
use crate::views::escape;
use crate::views::tui::theme::Tone;
use crate::views::tui::ui::Ui;
use crate::views::tui::update::rank_row;
use crate::views::tui::view::Scene;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

use super::window;

/// The columns one can sort by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// World rank.
    #[default]
    Rank,
    /// Host name.
    Host,
    /// How far it has got, the least first.
    Progress,
    /// When it last said something, the longest ago first.
    Age,
    /// Lines it wrote, the fewest first.
    Lines,
}

impl Sort {
    /// The next column.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Rank => Self::Host,
            Self::Host => Self::Progress,
            Self::Progress => Self::Age,
            Self::Age => Self::Lines,
            Self::Lines => Self::Rank,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Host => "host",
            Self::Progress => "progress",
            Self::Age => "silence",
            Self::Lines => "lines",
        }
    }
}

/// The ranks that the filter lets through, in order: indices into the snapshot's ranks.
#[must_use]
pub(in crate::views::tui) fn visible(ui: &Ui, snapshot: &Snapshot) -> Vec<usize> {
    let ranks = &snapshot.job.ranks;
    let filter = ui.ranks.filter.to_lowercase();
    let mut rows: Vec<usize> = (0..ranks.len())
        .filter(|at| filter.is_empty() || found(&ranks[*at], &filter))
        .collect();
    match ui.ranks.sort {
        Sort::Rank => {}
        Sort::Host => rows.sort_by_key(|at| ranks[*at].host.as_deref()),
        Sort::Progress => rows.sort_by_key(|at| {
            let rank = &ranks[*at];
            (!rank.absent, rank.phase, rank.collective)
        }),
        Sort::Age => rows.sort_by_key(|at| ranks[*at].last_seen),
        Sort::Lines => rows.sort_by_key(|at| ranks[*at].lines),
    }
    if ui.ranks.reverse {
        rows.reverse();
    }
    rows
}

fn found(rank: &RankView, filter: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(filter);
    has(&words::rank_name(rank))
        || has(&words::progress(rank))
        || rank.host.as_deref().is_some_and(has)
        || rank.pid.is_some_and(|pid| has(&pid.to_string()))
        || rank.last_line.as_deref().is_some_and(has)
}

pub(in crate::views::tui) struct RankTable<'a>(pub(in crate::views::tui) Scene<'a>);

/// Widths of the columns that differ from job to job.
struct Columns {
    rank: usize,
    host: usize,
    pid: usize,
    progress: usize,
    /// Of the GPU: its number alone, or what it does as well.
    gpu: usize,
}

/// Columns of a GPU's number, and of what it does.
const GPU: usize = 5;
const GPU_STATE: usize = 13;
/// Further columns for what that means: `spins`, `idle`; more of it stands in the details.
const GPU_MEANS: usize = 10;
/// Columns that are left to the last line before the table tells more of a GPU.
const LAST: usize = 20;
/// Columns behind `progress`.
const REST: usize = 17;
/// Rows that the table keeps for itself when details stand below it.
const TABLE: usize = 8;

impl Widget for &RankTable<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Scene { ui, snapshot, .. } = self.0;
        let rows = visible(ui, snapshot);
        let mut pen = Pen::new(buf, area, ui.theme);
        pen.put(Tone::Plain, " ");
        pen.put(Tone::Strong, &words::count(rows.len(), "rank"));
        if !ui.ranks.filter.is_empty() {
            pen.put(
                Tone::Plain,
                &format!(
                    " of {} with \"{}\"",
                    snapshot.job.ranks.len(),
                    ui.ranks.filter
                ),
            );
        }
        if !ui.ranks.marked.is_empty() {
            let marked = words::thousands(ui.ranks.marked.len() as u64);
            pen.put(Tone::Strong, &format!("  {marked} marked"));
        }
        let way = if ui.ranks.reverse { ", reversed" } else { "" };
        pen.line(Tone::Quiet, &format!("  by {}{way}", ui.ranks.sort.title()));
        let selected = rank_row(ui, snapshot, &rows);
        let details = rows
            .get(selected)
            .map(|at| self.details(&snapshot.job.ranks[*at], usize::from(area.width)))
            .filter(|lines| pen.rows_left() > lines.len() + TABLE)
            .unwrap_or_default();
        let height = pen.rows_left().saturating_sub(1 + details.len());
        let shown = &rows[window(selected, rows.len(), height)];
        let views: Vec<&RankView> = shown.iter().map(|at| &snapshot.job.ranks[*at]).collect();
        let columns = self.columns(&views, usize::from(area.width));
        self.heading(&columns, &mut pen);
        for (at, rank) in shown.iter().zip(views) {
            self.row(rank, &columns, &mut pen);
            if rows.get(selected) == Some(at) {
                pen.tint(Tone::Selected);
            }
            pen.down();
        }
        for line in &details {
            pen.line(Tone::Quiet, line);
        }
    }
}

impl RankTable<'_> {
    /// What is known of a rank's process and GPU, if somebody looked at them, in rows of so many columns.
    fn details(&self, rank: &RankView, columns: usize) -> Vec<String> {
        let gpu = self.0.snapshot.job.gpu_of(rank);
        let mut lines: Vec<String> = rank.process.iter().map(words::process_line).collect();
        let both = rank.process.as_ref().zip(gpu);
        let together = both.and_then(|(process, gpu)| words::together(process, gpu));
        lines.extend(together.map(|means| format!("means {means}")));
        lines.extend(gpu.iter().flat_map(|gpu| words::gpu_lines(gpu)));
        if !lines.is_empty() {
            lines.insert(0, format!("{}:", words::rank_noun(rank)));
        }
        let glyphs = self.0.ui.theme.glyphs;
        let mut rows = Vec::new();
        for line in &lines {
            let (first, rest) = (columns.saturating_sub(2), columns.saturating_sub(4));
            let wrapped = escape::wrap_after(line, first, rest, glyphs);
            let indents = std::iter::once(" ").chain(std::iter::repeat("   "));
            rows.extend(
                indents
                    .zip(wrapped)
                    .map(|(indent, row)| format!("{indent}{row}")),
            );
        }
        rows
    }

    fn columns(&self, shown: &[&RankView], room: usize) -> Columns {
        let glyphs = self.0.ui.theme.glyphs;
        let widest = |text: &dyn Fn(&RankView) -> String, least: usize, most: usize| {
            let widths = shown
                .iter()
                .map(|r| escape::width(&escape::fit(&text(r), most, glyphs)));
            widths.max().unwrap_or(0).max(least)
        };
        let mut columns = Columns {
            rank: widest(&words::rank_name, 4, 12),
            host: widest(&|r| r.host.clone().unwrap_or_default(), 4, 20),
            pid: widest(
                &|r| r.pid.map_or_else(String::new, |p| p.to_string()),
                3,
                10,
            ),
            progress: widest(&words::progress, 8, 20),
            gpu: GPU,
        };
        let sampled = shown.iter().any(|rank| rank.gpu_at.is_some());
        let taken = 2 + columns.rank + columns.host + columns.pid + columns.progress + 8;
        if sampled && taken + GPU + GPU_STATE + REST <= room {
            columns.gpu = GPU + GPU_STATE;
            if taken + columns.gpu + GPU_MEANS + REST + LAST <= room {
                columns.gpu += GPU_MEANS;
            }
        }
        columns
    }

    /// Columns of the silence; none where saved logs do not tell when anything was written.
    fn silence(&self) -> usize {
        if self.0.snapshot.now.is_some() { 9 } else { 0 }
    }

    fn heading(&self, columns: &Columns, pen: &mut Pen<'_>) {
        let cells = [
            ("rank", columns.rank + 2),
            ("host", columns.host + 2),
            ("pid", columns.pid + 2),
            ("gpu", columns.gpu),
            ("progress", columns.progress + 2),
            ("silence", self.silence()),
            ("lines", 8),
        ];
        pen.cell(Tone::Plain, "", 2);
        for (name, width) in cells.into_iter().filter(|(_, width)| *width > 0) {
            pen.cell(Tone::Quiet, name, width);
        }
        pen.line(Tone::Quiet, "last line");
    }

    fn row(&self, rank: &RankView, columns: &Columns, pen: &mut Pen<'_>) {
        let now = self.0.snapshot.now;
        let number = |n: Option<u32>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let silence: Option<Duration> = now.zip(rank.last_seen).map(|(now, seen)| now.since(seen));
        let tone = if rank.guilty { Tone::Bad } else { Tone::Plain };
        let marked = rank
            .rank
            .is_some_and(|n| self.0.ui.ranks.marked.contains(&n));
        pen.cell(tone, if rank.guilty { "!" } else { "" }, 1);
        pen.cell(Tone::Strong, if marked { "*" } else { "" }, 1);
        pen.cell(tone, &words::rank_name(rank), columns.rank);
        pen.cell(Tone::Plain, "", 2);
        pen.cell(tone, rank.host.as_deref().unwrap_or("-"), columns.host);
        pen.cell(Tone::Plain, "", 2);
        pen.cell(Tone::Plain, &number(rank.pid), columns.pid + 2);
        pen.cell(Tone::Plain, &number(rank.gpu), GPU);
        if columns.gpu > GPU {
            let gpu = self.0.snapshot.job.gpu_of(rank);
            let mut cell = gpu.map_or_else(|| "-".to_owned(), words::gpu_cell);
            if let Some(gpu) = gpu.filter(|_| columns.gpu > GPU + GPU_STATE) {
                let means = gpu.means().map_or("", Means::name);
                cell = format!("{cell} {means}");
            }
            pen.cell(Tone::Plain, cell.trim_end(), columns.gpu - GPU - 1);
            pen.cell(Tone::Plain, "", 1);
        }
        let phase = if rank.absent {
            Tone::Warn
        } else {
            Tone::Phase(rank.phase)
        };
        pen.cell(phase, &words::progress(rank), columns.progress);
        pen.cell(Tone::Plain, "", 2);
        if self.silence() > 0 {
            let silence = silence.map_or_else(|| "-".to_owned(), words::duration);
            pen.cell(Tone::Plain, &silence, self.silence());
        }
        pen.cell(Tone::Plain, &words::thousands(rank.lines), 8);
        pen.put(Tone::Quiet, rank.last_line.as_deref().unwrap_or("-"));
    }
}
