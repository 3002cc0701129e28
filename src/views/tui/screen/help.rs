//! Every key, from the key table.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::engine::vocab::Phase;
use crate::views::tui::keymap::{Binding, Context, names};
use crate::views::tui::theme::Tone;
use crate::views::tui::view::Scene;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

pub(in crate::views::tui) struct Help<'a>(pub(in crate::views::tui) Scene<'a>);

/// What stands on the bar of time.
const SIGNS: &[(&str, &str)] = &[
    ("!", "a cause came up here"),
    ("+", "another finding came up here"),
    ("bars", "how much was written; a dot is nothing"),
    ("line", "where one is; without one it is the end"),
    (
        "text",
        "by time: when it was seen; by order of arrival: the logs have no times",
    ),
];

/// A row of the page: a heading, or keys and what they do.
type Row = (Option<String>, String);

/// Rows of the page in one column.
pub(in crate::views::tui) fn rows(table: &[Binding]) -> usize {
    content(table).len()
}

fn content(table: &[Binding]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let order = [Context::Everywhere, Context::Replay, Context::Lists];
    let special = Context::ALL.into_iter().filter(|c| !order.contains(c));
    for context in order.into_iter().chain(special) {
        if !rows.is_empty() {
            rows.push((None, String::new()));
        }
        rows.push((None, context.title().to_owned()));
        for binding in table.iter().filter(|b| b.context == context) {
            rows.push((Some(names(binding)), binding.help.to_owned()));
        }
    }
    rows.push((None, String::new()));
    rows.push((None, "Letters of ranks".to_owned()));
    for phase in Phase::ALL {
        rows.push((
            Some(words::letter(*phase).to_string()),
            phase.name().to_owned(),
        ));
    }
    rows.push((
        Some(words::ABSENT.to_string()),
        "absent: nothing of it was seen".to_owned(),
    ));
    rows.push((Some("!".to_owned()), "at fault".to_owned()));
    rows.push((None, String::new()));
    rows.push((None, "Signs of the bar of time".to_owned()));
    for (sign, text) in SIGNS {
        rows.push((Some((*sign).to_owned()), (*text).to_owned()));
    }
    rows
}

impl Widget for &Help<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let ui = self.0.ui;
        let rows = content(&ui.keys);
        let keys = rows
            .iter()
            .filter_map(|r| r.0.as_ref())
            .map(String::len)
            .max()
            .unwrap_or(0)
            + 2;
        let across = usize::from(area.width / 76).clamp(1, 3);
        let width = area.width / u16::try_from(across).unwrap_or(1);
        let mut height = usize::from(area.height).max(1);
        let top = ui.help_top.min(rows.len().saturating_sub(height * across));
        if rows.len() - top > height * across {
            height = height.saturating_sub(1).max(1);
            let last = Rect {
                y: area.bottom().saturating_sub(1),
                height: 1,
                ..area
            };
            let more = rows.len().saturating_sub(top + height * across);
            Pen::new(buf, last, ui.theme).put(Tone::Quiet, &format!(" {more} more rows: PgDn"));
        }
        for (at, part) in rows[top..].chunks(height).take(across).enumerate() {
            let x = area.x + u16::try_from(at).unwrap_or(0) * width;
            let mut pen = Pen::new(buf, Rect { x, width, ..area }, ui.theme);
            for (key, text) in part {
                match key {
                    Some(key) => {
                        pen.cell(Tone::Plain, "", 2);
                        pen.cell(Tone::Command, key, keys);
                        pen.put(Tone::Plain, text);
                    }
                    None => pen.put(Tone::Strong, &format!(" {text}")),
                }
                pen.down();
            }
        }
    }
}
