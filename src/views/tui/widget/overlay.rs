//! A frame over the screen: what a program beside the dashboard says, and what can be done with it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Clear, Widget};

use crate::views::tui::task::TaskView;
use crate::views::tui::theme::{Theme, Tone};

use super::pen::Pen;

/// Columns of the widest frame.
const WIDEST: u16 = 120;
/// Columns and rows of the frame itself and the blanks beside the text.
const FRAME: (u16, u16) = (4, 4);

/// Columns for text on a screen of this width.
pub(in crate::views::tui) fn columns(screen: u16) -> usize {
    usize::from(screen.min(WIDEST).saturating_sub(FRAME.0).max(1))
}

/// Draws it over the area, as high as what it says.
pub(in crate::views::tui) fn render(task: &TaskView, theme: Theme, area: Rect, buf: &mut Buffer) {
    let width = area.width.min(WIDEST);
    let rows = task.wrapped(columns(area.width), theme.glyphs);
    let wanted = u16::try_from(rows.len())
        .unwrap_or(u16::MAX)
        .saturating_add(FRAME.1);
    let height = wanted.min(area.height);
    let frame = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(frame, buf);
    border(&task.title(), theme, frame, buf);
    let inner = Rect {
        x: frame.x + FRAME.0 / 2,
        y: frame.y + 1,
        width: frame.width.saturating_sub(FRAME.0),
        height: frame.height.saturating_sub(FRAME.1),
    };
    let mut pen = Pen::new(buf, inner, theme);
    let top = task.first(rows.len(), pen.height());
    for (tone, text) in rows.iter().skip(top).take(pen.height()) {
        pen.line(*tone, text);
    }
    let foot = Rect {
        y: frame.bottom().saturating_sub(2),
        height: 1,
        ..inner
    };
    let mut pen = Pen::new(buf, foot, theme);
    for (key, word) in task.keys() {
        pen.put(Tone::Strong, key);
        pen.put(Tone::Quiet, &format!(" {word}   "));
    }
    let shown = top + usize::from(inner.height);
    if rows.len() > usize::from(inner.height) {
        let of = format!("{} of {} rows", shown.min(rows.len()), rows.len());
        pen.put_right(Tone::Quiet, &of);
    }
}

/// Draws a frame with a title in its upper edge.
pub(super) fn border(title: &str, theme: Theme, frame: Rect, buf: &mut Buffer) {
    let [corners, flat, upright] = theme.glyphs.pick(["┌┐└┘", "─", "│"], ["++++", "-", "|"]);
    let corner = |at: usize| corners.chars().nth(at).unwrap_or(' ');
    let across = flat.repeat(usize::from(frame.width.saturating_sub(2)));
    for y in frame.top()..frame.bottom() {
        let row = Rect {
            y,
            height: 1,
            ..frame
        };
        let mut pen = Pen::new(buf, row, theme);
        let (left, right) = match y {
            y if y == frame.top() => (corner(0), corner(1)),
            y if y + 1 == frame.bottom() => (corner(2), corner(3)),
            _ => {
                pen.put(Tone::Plain, upright);
                pen.column(usize::from(frame.width.saturating_sub(1)));
                pen.put(Tone::Plain, upright);
                continue;
            }
        };
        pen.put(Tone::Plain, &format!("{left}{across}{right}"));
    }
    let edge = Rect {
        x: frame.x + 2,
        height: 1,
        width: frame.width.saturating_sub(4),
        ..frame
    };
    Pen::new(buf, edge, theme).put(Tone::Strong, &format!(" {title} "));
}
