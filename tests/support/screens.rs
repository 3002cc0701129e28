//! Frames as text: what is written, and how it looks.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// The rows of a buffer, without blanks at their ends.
pub(crate) fn plain(buf: &Buffer) -> String {
    rows(buf, |cell, out| out.push_str(cell.symbol()), &[' '])
}

/// The look of every cell as a letter: the first of its colour, `d` if dim, a capital if bold; reversed
/// cells are `1` (red), `2` (green), `3` (yellow) or `#`; cells that look ordinary are dots.
pub(crate) fn styled(buf: &Buffer) -> String {
    rows(buf, |cell, out| out.push(look(cell)), &[' ', '.'])
}

fn look(cell: &Cell) -> char {
    let reversed = cell.modifier.contains(Modifier::REVERSED);
    let letter = match cell.fg {
        Color::Red => 'r',
        Color::Green => 'g',
        Color::Yellow => 'y',
        Color::Blue => 'b',
        Color::Magenta => 'm',
        Color::Cyan => 'c',
        // Those for a light background.
        Color::Indexed(88) => 'r',
        Color::Indexed(94) => 'y',
        Color::Indexed(23) => 'g',
        Color::Indexed(27) => 'c',
        Color::Indexed(19) => 'b',
        Color::Indexed(90) => 'm',
        Color::Indexed(241) => 'd',
        _ if cell.modifier.contains(Modifier::DIM) => 'd',
        _ if cell.modifier.contains(Modifier::BOLD) => 'w',
        _ if reversed => return '#',
        _ => return '.',
    };
    let bold = cell.modifier.contains(Modifier::BOLD);
    match (reversed, bold) {
        (true, _) => match letter {
            'r' => '1',
            'g' => '2',
            'y' => '3',
            _ => '#',
        },
        (false, true) => letter.to_ascii_uppercase(),
        (false, false) => letter,
    }
}

fn rows(buf: &Buffer, each: impl Fn(&Cell, &mut String), blank: &[char]) -> String {
    let mut out = String::new();
    for y in buf.area.top()..buf.area.bottom() {
        let mut row = String::new();
        for x in buf.area.left()..buf.area.right() {
            each(&buf[(x, y)], &mut row);
        }
        out.push_str(row.trim_end_matches(blank));
        out.push('\n');
    }
    out
}
