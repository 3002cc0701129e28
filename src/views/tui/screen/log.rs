//! What one rank said, with search; lines that a finding rests on are marked.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::engine::ids::SourceId;
use crate::views::escape;
use crate::views::tui::theme::Tone;
use crate::views::tui::ui::LogRow;
use crate::views::tui::view::Scene;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

use super::window;

pub(in crate::views::tui) struct LogView<'a>(pub(in crate::views::tui) Scene<'a>);

impl Widget for &LogView<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let ui = self.0.ui;
        let log = &ui.log;
        let mut pen = Pen::new(buf, area, ui.theme);
        let Some(rank) = log.rank else {
            pen.put(
                Tone::Plain,
                " no rank is selected: Enter in Ranks opens a log",
            );
            return;
        };
        self.title(rank, &mut pen);
        let shown = window(log.row, log.lines.len(), pen.rows_left());
        let last = log.lines[shown.clone()]
            .iter()
            .map(|l| l.place.number)
            .max()
            .unwrap_or(0);
        let gutter = last.to_string().len();
        let evidence = self.evidence();
        for at in shown {
            let line = &log.lines[at];
            let is_evidence = evidence.contains(&(line.place.source, line.place.number));
            let mark = if is_evidence { ">" } else { " " };
            pen.put(if is_evidence { Tone::Bad } else { Tone::Quiet }, mark);
            pen.put(Tone::Quiet, &format!("{:>gutter$} ", line.place.number));
            self.text(
                line,
                if is_evidence {
                    Tone::Strong
                } else {
                    Tone::Plain
                },
                &mut pen,
            );
            if at == log.row {
                pen.tint(Tone::Selected);
            }
            pen.down();
        }
        if log.lines.is_empty() {
            pen.put(Tone::Quiet, " no lines yet");
        }
    }
}

impl LogView<'_> {
    fn title(&self, rank: u32, pen: &mut Pen<'_>) {
        let log = &self.0.ui.log;
        let snapshot = self.0.snapshot;
        pen.put(Tone::Strong, &format!(" rank {rank}"));
        if let Some(view) = snapshot.job.ranks.iter().find(|r| r.rank == Some(rank)) {
            let host = view.host.as_deref().unwrap_or("host unknown");
            pen.put(Tone::Plain, &format!("  {host}  {}", words::progress(view)));
        }
        let source = log
            .lines
            .last()
            .and_then(|l| snapshot.inputs.source(l.place.source));
        if let Some(source) = source {
            pen.put(Tone::Quiet, &format!("  {}", source.name));
        }
        pen.put(
            Tone::Quiet,
            &format!("  {}", words::count(log.lines.len(), "line")),
        );
        if log.older > 0 {
            pen.put(
                Tone::Quiet,
                &format!(", {} older", words::thousands(log.older as u64)),
            );
        }
        if log.follow {
            pen.put(Tone::Quiet, ", following");
        }
        if log.column > 0 {
            pen.put(Tone::Quiet, &format!(", from column {}", log.column));
        }
        if let Some(pattern) = &log.pattern {
            pen.put(Tone::Quiet, &format!("  /{}", pattern.as_str()));
        }
        pen.down();
    }

    /// Places of lines that support any finding, sorted.
    fn evidence(&self) -> Vec<(SourceId, u64)> {
        let rank = self.0.ui.log.rank;
        let lines = self.0.snapshot.findings.iter().flat_map(|f| &f.evidence);
        lines
            .filter(|e| e.rank == rank)
            .map(|e| (e.source, e.line))
            .collect()
    }

    fn text(&self, line: &LogRow, tone: Tone, pen: &mut Pen<'_>) {
        let ui = self.0.ui;
        let glyphs = ui.theme.glyphs;
        let text = escape::window(&line.text, ui.log.column, pen.room(), glyphs);
        let mut at = 0;
        if let Some(pattern) = &ui.log.pattern {
            for hit in pattern.find_iter(&text).filter(|hit| !hit.is_empty()) {
                pen.put(tone, &text[at..hit.start()]);
                pen.put(Tone::Hit, hit.as_str());
                at = hit.end();
            }
        }
        pen.put(tone, &text[at..]);
    }
}
