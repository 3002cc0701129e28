//! One row for the whole time: how much was written when, where findings came up, and where one is.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::app::handle::Axis;
use crate::app::timeline::{Mark, Timeline};
use crate::views::escape::{self, Glyphs};
use crate::views::tui::theme::{Theme, Tone};
use crate::views::words;

use super::pen::Pen;

/// From here on there is room to say where the first sign is.
const WIDE: u16 = 100;
/// A cause came up, as the sign of who is at fault; another finding did.
const CAUSE: &str = "!";
const SYMPTOM: &str = "+";

/// Draws it into one row; without a position one is at the end, which is now.
pub(in crate::views::tui) fn render(
    timeline: &Timeline,
    at: Option<Duration>,
    theme: Theme,
    area: Rect,
    buf: &mut Buffer,
) {
    let axis = match timeline.axis {
        Axis::Recorded => " by time ",
        Axis::Bytes => " by order of arrival ",
    };
    let said = match at {
        Some(_) => said(timeline),
        None => said_now(timeline),
    };
    let said = format!(" {said} ");
    let at = at.unwrap_or(timeline.length);
    let mut pen = Pen::new(buf, area, theme);
    pen.put(Tone::Quiet, axis);
    let right = if area.width >= WIDE {
        escape::width(&said)
    } else {
        1
    };
    let columns = pen.room().saturating_sub(right);
    for (tone, glyph) in cells(timeline, at, columns, theme.glyphs) {
        pen.put(tone, glyph);
    }
    if area.width >= WIDE {
        pen.put(Tone::Quiet, &said);
    }
}

/// Where the first sign is, in words.
fn said(timeline: &Timeline) -> String {
    if let Some(Mark { at, .. }) = timeline.first_sign() {
        let part = at.as_secs_f64() / timeline.length.as_secs_f64().max(f64::MIN_POSITIVE);
        return match timeline.axis {
            Axis::Recorded => format!("first sign at {}", words::duration(*at)),
            Axis::Bytes => format!("first sign at {:.0}%", (part * 100.0).clamp(0.0, 100.0)),
        };
    }
    if timeline.known() < 1.0 {
        return format!("{:.0}% looked through", timeline.known() * 100.0);
    }
    "no finding came up".to_owned()
}

/// The same of a watch: how long ago. That nothing came up so far, the verdict says with more care.
fn said_now(timeline: &Timeline) -> String {
    timeline.first_sign().map_or_else(String::new, |mark| {
        let ago = timeline.length.saturating_sub(mark.at);
        format!("first sign {} ago", words::duration(ago))
    })
}

/// The bar, column by column.
fn cells(
    timeline: &Timeline,
    at: Duration,
    columns: usize,
    glyphs: Glyphs,
) -> Vec<(Tone, &'static str)> {
    let counts = timeline.columns(columns);
    let most = counts.iter().flatten().copied().max().unwrap_or(0);
    let here = timeline.column(at, columns);
    let mut cells: Vec<_> = counts
        .into_iter()
        .enumerate()
        .map(|(column, lines)| {
            let tone = if column < here {
                Tone::Plain
            } else {
                Tone::Quiet
            };
            (tone, lines.map_or(" ", |lines| level(lines, most, glyphs)))
        })
        .collect();
    // Causes are set last, so that none is hidden by what it leads to.
    for symptoms in [true, false] {
        for mark in timeline.marks.iter().filter(|m| m.symptom == symptoms) {
            if let Some(cell) = cells.get_mut(timeline.column(mark.at, columns)) {
                *cell = if symptoms {
                    (Tone::Warn, SYMPTOM)
                } else {
                    (Tone::Bad, CAUSE)
                };
            }
        }
    }
    if let Some(cell) = cells.get_mut(here) {
        let marked = [CAUSE, SYMPTOM].contains(&cell.1);
        let glyph = if marked {
            cell.1
        } else {
            glyphs.pick("│", "|")
        };
        *cell = (Tone::Selected, glyph);
    }
    cells
}

/// How much is written: by the root, since a start writes a thousand times what steps do.
fn level(lines: u64, most: u64, glyphs: Glyphs) -> &'static str {
    const UNICODE: [&str; 9] = ["·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    const ASCII: [&str; 5] = [".", ":", "-", "=", "#"];
    let levels = glyphs.pick(UNICODE.as_slice(), ASCII.as_slice());
    let part = (lines as f64 / most.max(1) as f64).sqrt();
    let level = (part * (levels.len() - 1) as f64).ceil() as usize;
    levels[level.min(levels.len() - 1)]
}
