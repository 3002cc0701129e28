//! Who called what, where ranks of a communicator called different things: one row a call, what differs marked.

use crate::engine::finding::{CallSide, Divergence};
use crate::engine::snapshot::CommView;
use crate::views::tui::theme::Tone;
use crate::views::tui::widget::pen::Pen;
use crate::views::{escape, words};

/// Columns of the ranks at most.
const RANKS: usize = 24;
/// Columns of a part of a call at most.
const PART: usize = 24;

/// Draws it in `limit` rows at most, and a blank one below.
pub(super) fn draw(pen: &mut Pen<'_>, comm: &CommView, calls: &Divergence, limit: usize) {
    let bottom = pen.rows_left().saturating_sub(limit);
    pen.put(
        Tone::Strong,
        &format!(
            " Call {} is not the same everywhere",
            words::thousands(calls.ordinal)
        ),
    );
    pen.line(
        Tone::Quiet,
        if calls.majority {
            "  ! is unlike most"
        } else {
            "  ! differs; no majority tells who is right"
        },
    );
    // The odd ones come first, whatever else does not fit.
    let mut sides: Vec<&CallSide> = calls.sides.iter().collect();
    if calls.majority {
        sides.rotate_left(1);
    }
    let parts: Vec<[Option<String>; 5]> = sides.iter().map(|side| side.parts()).collect();
    let usual = calls.majority.then(|| calls.sides[0].parts());
    // What a call does not have, because it is another function, is no difference of its own.
    let differs = |row: usize, column: usize| {
        let own = parts[row][column].as_ref();
        let unlike = |other: &[Option<String>; 5]| {
            own.zip(other[column].as_ref()).is_some_and(|(a, b)| a != b)
        };
        match &usual {
            Some(usual) => unlike(usual),
            None => parts.iter().any(unlike),
        }
    };
    // A part that no side has is nothing to compare.
    let columns: Vec<usize> = (0..CallSide::PARTS.len())
        .filter(|column| parts.iter().any(|row| row[*column].is_some()))
        .collect();
    let names: Vec<String> = sides
        .iter()
        .map(|side| words::ranges(side.ranks.iter().copied()))
        .collect();
    let ranks = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let ranks = ranks.clamp(5, RANKS) + 2;
    let width = |column: usize| {
        let cells = parts.iter().filter_map(|row| row[column].as_deref());
        let widest = cells.map(|cell| escape::width(&pen.fit(cell, PART))).max();
        widest.unwrap_or(0).max(CallSide::PARTS[column].len()) + 3
    };
    let widths: Vec<usize> = columns.iter().map(|column| width(*column)).collect();
    pen.cell(Tone::Quiet, "", 3);
    pen.cell(Tone::Quiet, "ranks", ranks - 1);
    for (column, width) in columns.iter().zip(&widths) {
        pen.cell(
            Tone::Quiet,
            &format!(" {}", CallSide::PARTS[*column]),
            *width,
        );
    }
    pen.down();
    let mut left = sides.len();
    for (row, side) in sides.iter().enumerate() {
        // A row of the table, its place in the program, and what is left out.
        let need = 1 + usize::from(!side.frames.is_empty()) + usize::from(left > 1);
        if pen.rows_left() < bottom + need {
            break;
        }
        left -= 1;
        let odd = columns.iter().any(|column| differs(row, *column));
        let tone = if odd { Tone::Bad } else { Tone::Plain };
        pen.cell(tone, if odd { " !" } else { "" }, 3);
        pen.cell(tone, &names[row], ranks - 2);
        pen.cell(tone, "", 1);
        for (column, width) in columns.iter().zip(&widths) {
            let differs = differs(row, *column);
            let tone = if differs { Tone::Bad } else { Tone::Plain };
            let mark = if differs { "!" } else { " " };
            let cell = parts[row][*column].as_deref().unwrap_or("-");
            pen.cell(tone, &format!("{mark}{cell}"), *width - 1);
            pen.cell(tone, "", 1);
        }
        if side.ranks.len() > 1 {
            pen.put(Tone::Quiet, &words::count(side.ranks.len(), "rank"));
        }
        pen.down();
        if !side.frames.is_empty() {
            pen.cell(Tone::Quiet, "", 4);
            pen.line(Tone::Quiet, &format!("at {}", side.frames.join(", from ")));
        }
    }
    if left + calls.more > 0 {
        let more = words::count(left + calls.more, "other call");
        pen.line(Tone::Quiet, &format!("   and {more}"));
    }
    let late = comm
        .members
        .iter()
        .filter(|m| m.reached.is_some_and(|reached| reached < calls.ordinal));
    let late: Vec<u32> = late.map(|m| m.rank.unwrap_or(m.comm_rank)).collect();
    if !late.is_empty() && pen.rows_left() > bottom {
        let late = words::ranks(late);
        pen.line(Tone::Quiet, &format!("   not there yet: {late}"));
    }
    pen.down();
}
