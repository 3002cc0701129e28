//! The one way text gets into a buffer: escaped, clipped, never outside its area.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::views::escape;
use crate::views::tui::theme::{Theme, Tone};

/// Writes rows of text into an area, from the left.
pub(in crate::views::tui) struct Pen<'a> {
    buf: &'a mut Buffer,
    area: Rect,
    theme: Theme,
    at: Position,
}

impl<'a> Pen<'a> {
    /// A pen at the top left of what the buffer has of the area.
    pub(in crate::views::tui) fn new(buf: &'a mut Buffer, area: Rect, theme: Theme) -> Self {
        let area = area.intersection(buf.area);
        Self {
            buf,
            area,
            theme,
            at: area.as_position(),
        }
    }

    /// Rows of the area.
    pub(in crate::views::tui) fn height(&self) -> usize {
        usize::from(self.area.height)
    }

    /// Columns of the area.
    pub(in crate::views::tui) fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    /// Rows from the current one on.
    pub(in crate::views::tui) fn rows_left(&self) -> usize {
        usize::from(self.area.bottom().saturating_sub(self.at.y))
    }

    /// Columns right of the pen; none below the area.
    pub(in crate::views::tui) fn room(&self) -> usize {
        if self.at.y >= self.area.bottom() {
            return 0;
        }
        usize::from(self.area.right().saturating_sub(self.at.x))
    }

    /// Goes to the start of the next row.
    pub(in crate::views::tui) fn down(&mut self) {
        self.at = Position::new(self.area.x, self.at.y.saturating_add(1));
    }

    /// Goes to a column of the current row.
    pub(in crate::views::tui) fn column(&mut self, column: usize) {
        let column = u16::try_from(column).unwrap_or(u16::MAX);
        self.at.x = self.area.x.saturating_add(column).min(self.area.right());
    }

    /// Writes a text; what does not fit is cut, with an ellipsis.
    pub(in crate::views::tui) fn put(&mut self, tone: Tone, text: &str) {
        self.put_in(tone, text, usize::MAX);
    }

    /// Writes a text in `width` columns at most.
    pub(in crate::views::tui) fn put_in(&mut self, tone: Tone, text: &str, width: usize) {
        let room = self.room().min(width);
        if room == 0 {
            return;
        }
        let shown = escape::fit(text, room, self.theme.glyphs);
        let style = self.theme.style(tone);
        self.at.x = self
            .buf
            .set_stringn(self.at.x, self.at.y, shown, room, style)
            .0;
    }

    /// A text as it would be shown in `width` columns.
    pub(in crate::views::tui) fn fit(&self, text: &str, width: usize) -> String {
        escape::fit(text, width, self.theme.glyphs)
    }

    /// Writes a text and goes on `width` columns later.
    pub(in crate::views::tui) fn cell(&mut self, tone: Tone, text: &str, width: usize) {
        let start = usize::from(self.at.x - self.area.x);
        self.put_in(tone, text, width);
        self.column(start + width);
    }

    /// Writes a text that ends at the right edge, if there is room for all of it.
    pub(in crate::views::tui) fn put_right(&mut self, tone: Tone, text: &str) {
        let text = escape::harmless(text, self.theme.glyphs).into_owned();
        let width = escape::width(&text);
        if width <= self.room() {
            self.column(self.width() - width);
            self.put(tone, &text);
        }
    }

    /// Writes a row and goes to the next.
    pub(in crate::views::tui) fn line(&mut self, tone: Tone, text: &str) {
        self.put(tone, text);
        self.down();
    }

    /// Writes a text over `limit` rows at most, wrapped; the first row starts at the pen, the others
    /// at column `hang`.
    pub(in crate::views::tui) fn wrapped(
        &mut self,
        tone: Tone,
        text: &str,
        hang: usize,
        limit: usize,
    ) {
        let rest = self.width().saturating_sub(hang);
        let mut lines = escape::wrap_after(text, self.room(), rest, self.theme.glyphs);
        let limit = limit.min(self.rows_left());
        if lines.len() > limit {
            lines.truncate(limit);
            if let Some(last) = lines.last_mut() {
                escape::elide(last, rest.min(self.room().max(1)), self.theme.glyphs);
            }
        }
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                self.column(hang);
            }
            self.line(tone, line);
        }
    }

    /// Sets the style of the first `width` columns of the current row.
    pub(in crate::views::tui) fn tint_start(&mut self, tone: Tone, width: usize) {
        if self.at.y < self.area.bottom() {
            let width = u16::try_from(width)
                .unwrap_or(u16::MAX)
                .min(self.area.width);
            let start = Rect {
                y: self.at.y,
                height: 1,
                width,
                ..self.area
            };
            self.buf.set_style(start, self.theme.style(tone));
        }
    }

    /// Sets the style of the whole current row, behind what was and will be written.
    pub(in crate::views::tui) fn tint(&mut self, tone: Tone) {
        if self.at.y < self.area.bottom() {
            let row = Rect {
                y: self.at.y,
                height: 1,
                ..self.area
            };
            self.buf.set_style(row, self.theme.style(tone));
        }
    }
}
