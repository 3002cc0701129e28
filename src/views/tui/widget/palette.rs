//! The list of actions over the lower part of a screen, above what is typed.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Clear, Widget};

use crate::views::tui::palette;
use crate::views::tui::screen::window;
use crate::views::tui::theme::Tone;
use crate::views::tui::view::Scene;

use super::overlay::border;
use super::pen::Pen;

/// Columns and rows of the largest frame.
const LARGEST: (u16, u16) = (110, 18);
/// Columns for the keys.
const KEYS: usize = 14;

/// Draws it at the lower edge of the area.
pub(in crate::views::tui) fn render(scene: Scene<'_>, area: Rect, buf: &mut Buffer) {
    let ui = scene.ui;
    let entries = palette::entries(ui, scene.status.has_time());
    let row = ui.prompt.as_ref().map_or(0, |prompt| prompt.row);
    // The frame stays as high as it is while typing narrows the list.
    let height = area.height.min(LARGEST.1);
    let frame = Rect {
        y: area.bottom() - height,
        width: area.width.min(LARGEST.0),
        height,
        ..area
    };
    Clear.render(frame, buf);
    border("what to do", ui.theme, frame, buf);
    let inner = Rect {
        x: frame.x + 1,
        y: frame.y + 1,
        width: frame.width.saturating_sub(2),
        height: height.saturating_sub(3),
    };
    let mut pen = Pen::new(buf, inner, ui.theme);
    for at in window(row, entries.len(), pen.height()) {
        let entry = &entries[at];
        pen.put(Tone::Plain, " ");
        pen.cell(Tone::Command, &entry.keys, KEYS);
        pen.put(Tone::Plain, &entry.text);
        if at == row {
            pen.tint(Tone::Selected);
        }
        pen.down();
    }
    if entries.is_empty() {
        pen.put(Tone::Quiet, " no action is called so");
    }
    let foot = Rect {
        y: frame.bottom().saturating_sub(2),
        height: 1,
        ..inner
    };
    let mut pen = Pen::new(buf, foot, ui.theme);
    pen.put(Tone::Plain, " ");
    for (key, word) in [("Enter", "run"), ("Up Down", "choose"), ("Esc", "leave")] {
        pen.put(Tone::Strong, key);
        pen.put(Tone::Quiet, &format!(" {word}   "));
    }
    let count = format!("{} of {} ", (row + 1).min(entries.len()), entries.len());
    pen.put_right(Tone::Quiet, &count);
}
