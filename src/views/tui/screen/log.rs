//! What ranks said, one, some or all of them merged, with search and filters; lines that a finding
//! rests on are marked.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use regex::Regex;
use rustc_hash::FxHashSet;
use unicode_width::UnicodeWidthChar;

use crate::engine::ids::SourceId;
use crate::engine::recent::Whose;
use crate::views::escape;
use crate::views::tui::level::Level;
use crate::views::tui::theme::Tone;
use crate::views::tui::ui::LogRow;
use crate::views::tui::view::Scene;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

use super::window;

pub(in crate::views::tui) struct LogView<'a>(pub(in crate::views::tui) Scene<'a>);

/// Columns left of the text.
struct Gutter {
    number: usize,
    /// Of the rank in front of a merged line; 0 if there is one rank only.
    rank: usize,
}

impl Gutter {
    fn width(&self) -> usize {
        2 + self.number + 1 + self.rank
    }
}

impl Widget for &LogView<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let ui = self.0.ui;
        let log = &ui.log;
        let mut pen = Pen::new(buf, area, ui.theme);
        let Some(whose) = ui.whose() else {
            pen.put(
                Tone::Plain,
                " no rank is selected: Enter in Ranks opens a log",
            );
            return;
        };
        self.title(&whose, &mut pen);
        let gutter = self.gutter(&whose);
        let room = pen.width().saturating_sub(gutter.width()).max(1);
        let shown = self.shown(room, pen.rows_left());
        let evidence = self.evidence();
        for at in shown.map(|at| log.passing[at]) {
            let line = &log.lines[at];
            let is_evidence = evidence.contains(&(line.place.source, line.place.number));
            self.line(line, is_evidence, at == log.row, &gutter, &mut pen);
        }
        if log.lines.is_empty() {
            pen.put(Tone::Quiet, " no lines yet");
        } else if log.passing.is_empty() {
            pen.put(
                Tone::Quiet,
                " no kept line passes the filters: Esc takes them away",
            );
        }
    }
}

impl LogView<'_> {
    fn title(&self, whose: &Whose, pen: &mut Pen<'_>) {
        let log = &self.0.ui.log;
        let snapshot = self.0.snapshot;
        match whose {
            Whose::All => pen.put(Tone::Strong, " all ranks, as they came"),
            Whose::Ranks(ranks) if ranks.len() == 1 => self.about(ranks[0], pen),
            Whose::Ranks(ranks) => {
                let names = words::ranks(ranks.iter().copied());
                pen.put_in(Tone::Strong, &format!(" {names}"), 40);
                pen.put(Tone::Strong, ", as they came");
            }
        }
        // What is left out has to be known; whose file it is can be left out.
        for (sign, pattern) in [("only", &log.only), ("without", &log.without)] {
            if let Some(pattern) = pattern {
                pen.put(Tone::Warn, &format!("  {sign} /{}/", pattern.as_str()));
            }
        }
        if let Some(pattern) = &log.pattern {
            pen.put(Tone::Quiet, &format!("  /{}", pattern.as_str()));
        }
        let last = log.lines.last().filter(|_| !is_merged(whose));
        if let Some(source) = last.and_then(|l| snapshot.inputs.source(l.place.source)) {
            pen.put(Tone::Quiet, &format!("  {}", source.name));
        }
        let lines = words::count(log.lines.len(), "line");
        if log.passing.len() == log.lines.len() {
            pen.put(Tone::Quiet, &format!("  {lines}"));
        } else {
            let passing = words::thousands(log.passing.len() as u64);
            pen.put(Tone::Quiet, &format!("  {passing} of {lines}"));
        }
        if log.older > 0 {
            pen.put(
                Tone::Quiet,
                &format!(", {} older", words::thousands(log.older as u64)),
            );
        }
        if log.follow {
            pen.put(Tone::Quiet, ", following");
        }
        if log.wrap {
            pen.put(Tone::Quiet, ", wrapped");
        } else if log.column > 0 {
            pen.put(Tone::Quiet, &format!(", from column {}", log.column));
        }
        pen.down();
    }

    fn about(&self, rank: u32, pen: &mut Pen<'_>) {
        let snapshot = self.0.snapshot;
        pen.put(Tone::Strong, &format!(" rank {rank}"));
        if let Some(view) = snapshot.job.rank(rank) {
            let host = view.host.as_deref().unwrap_or("host unknown");
            pen.put(Tone::Plain, &format!("  {host}  {}", words::progress(view)));
        }
    }

    fn gutter(&self, whose: &Whose) -> Gutter {
        let lines = &self.0.ui.log.lines;
        let digits = |n: u64| n.to_string().len();
        let number = lines.iter().map(|l| l.place.number).max().unwrap_or(0);
        let rank = lines.iter().filter_map(|l| l.rank).max().unwrap_or(0);
        Gutter {
            number: digits(number),
            rank: if is_merged(whose) {
                digits(u64::from(rank)) + 2
            } else {
                0
            },
        }
    }

    /// The lines to show, as a range of those that pass: around the cursor, as many as have room.
    fn shown(&self, room: usize, height: usize) -> Range<usize> {
        let log = &self.0.ui.log;
        let at = log.position();
        if !log.wrap {
            return window(at, log.passing.len(), height);
        }
        let rows = |at: usize| {
            let text = &log.lines[log.passing[at]].text;
            cut(&escape::harmless(text, self.0.ui.theme.glyphs), room).len()
        };
        let (mut top, mut end, mut used) = (at, at, 0);
        while top > 0 && used < height / 2 {
            top -= 1;
            used += rows(top);
        }
        while end < log.passing.len() && used < height {
            used += rows(end);
            end += 1;
        }
        while top > 0 && used + rows(top - 1) <= height {
            top -= 1;
            used += rows(top);
        }
        // What stands above must not push the cursor's own line out.
        while top < at && used > height {
            used -= rows(top);
            top += 1;
        }
        top..end
    }

    /// Places of lines that support any finding.
    fn evidence(&self) -> FxHashSet<(SourceId, u64)> {
        let lines = self.0.snapshot.findings.iter().flat_map(|f| &f.evidence);
        lines
            .filter(|e| e.entry.is_none())
            .map(|e| (e.source, e.line))
            .collect()
    }

    fn line(
        &self,
        line: &LogRow,
        is_evidence: bool,
        selected: bool,
        gutter: &Gutter,
        pen: &mut Pen<'_>,
    ) {
        let ui = self.0.ui;
        let glyphs = ui.theme.glyphs;
        let mark = if is_evidence { ">" } else { " " };
        pen.put(if is_evidence { Tone::Bad } else { Tone::Quiet }, mark);
        pen.put(line.level.tone(), line.level.letter());
        let wide = gutter.number;
        pen.put(Tone::Quiet, &format!("{:>wide$} ", line.place.number));
        if gutter.rank > 0 {
            let name = line.rank.map_or_else(|| "?".to_owned(), |n| n.to_string());
            let wide = gutter.rank - 2;
            pen.put(Tone::Command, &format!("{name:>wide$}: "));
        }
        let tone = match line.level {
            Level::Plain if is_evidence => Tone::Strong,
            level => level.tone(),
        };
        if ui.log.wrap {
            let text = escape::harmless(&line.text, glyphs);
            let hits = hits(ui.log.pattern.as_ref(), &text);
            for (row, part) in cut(&text, pen.room().max(1)).into_iter().enumerate() {
                if row > 0 {
                    pen.down();
                    pen.column(gutter.width());
                }
                put_part(&text, part, &hits, tone, pen);
                if selected {
                    pen.tint(Tone::Selected);
                }
            }
        } else {
            let text = escape::window(&line.text, ui.log.column, pen.room(), glyphs);
            let hits = hits(ui.log.pattern.as_ref(), &text);
            put_part(&text, 0..text.len(), &hits, tone, pen);
            if selected {
                pen.tint(Tone::Selected);
            }
        }
        pen.down();
    }
}

fn is_merged(whose: &Whose) -> bool {
    !matches!(whose, Whose::Ranks(ranks) if ranks.len() == 1)
}

fn hits(pattern: Option<&Regex>, text: &str) -> Vec<Range<usize>> {
    let found = pattern.into_iter().flat_map(|p| p.find_iter(text));
    found
        .map(|hit| hit.range())
        .filter(|hit| !hit.is_empty())
        .collect()
}

/// Writes a part of a text, hits in it marked.
fn put_part(text: &str, part: Range<usize>, hits: &[Range<usize>], tone: Tone, pen: &mut Pen<'_>) {
    let mut at = part.start;
    for hit in hits {
        let (start, end) = (hit.start.max(at), hit.end.min(part.end));
        if start < end {
            pen.put(tone, &text[at..start]);
            pen.put(Tone::Hit, &text[start..end]);
            at = end;
        }
    }
    pen.put(tone, &text[at..part.end]);
}

/// A harmless text cut into pieces of so many columns, wherever that is; one piece at least.
fn cut(text: &str, columns: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (at, c) in text.char_indices() {
        let wide = c.width().unwrap_or(0);
        if used + wide > columns && at > start {
            pieces.push(start..at);
            (start, used) = (at, 0);
        }
        used += wide;
    }
    pieces.push(start..text.len());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_at_columns() {
        let pieces = |text: &'static str, columns| {
            let parts = cut(text, columns).into_iter();
            parts.map(|part| &text[part]).collect::<Vec<_>>()
        };
        assert_eq!(pieces("", 4), [""]);
        assert_eq!(pieces("abcd", 4), ["abcd"]);
        assert_eq!(pieces("abcde", 4), ["abcd", "e"]);
        // A wide character goes to the next row as a whole.
        assert_eq!(pieces("abc漢", 4), ["abc", "漢"]);
        assert_eq!(pieces("漢", 1), ["漢"]);
    }
}
