//! A frame as a picture: the same buffer always gives the same SVG, so that a page can show it and a
//! test can tell whether it is fresh.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Size of a cell in pixels.
const CELL: (f32, f32) = (8.4, 18.0);
/// Space around the text.
const MARGIN: f32 = 12.0;
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d5d9e0";

/// The buffer as an SVG document.
#[must_use]
pub fn svg(buf: &Buffer) -> String {
    let area = buf.area;
    let width = f32::from(area.width) * CELL.0 + 2.0 * MARGIN;
    let height = f32::from(area.height) * CELL.1 + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"'DejaVu Sans Mono','Menlo','Consolas',monospace\" font-size=\"14\">\n"
    );
    for y in area.top()..area.bottom() {
        let mut x = area.left();
        while x < area.right() {
            let start = x;
            let look = Look::of(&buf[(x, y)]);
            let mut text = String::new();
            while x < area.right() && Look::of(&buf[(x, y)]) == look {
                let symbol = buf[(x, y)].symbol();
                text.push_str(symbol);
                // What a wide character covers are cells of their own.
                x += u16::try_from(symbol.width()).unwrap_or(1).max(1);
            }
            run(
                &mut out,
                (start - area.left(), y - area.top()),
                x - start,
                &look,
                &text,
            );
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

#[derive(PartialEq, Eq)]
struct Look {
    fg: &'static str,
    bg: &'static str,
    bold: bool,
    dim: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let (mut fg, mut bg) = (hex(cell.fg, FOREGROUND), hex(cell.bg, BACKGROUND));
        if cell.modifier.contains(Modifier::REVERSED) {
            std::mem::swap(&mut fg, &mut bg);
        }
        Self {
            fg,
            bg,
            bold: cell.modifier.contains(Modifier::BOLD),
            dim: cell.modifier.contains(Modifier::DIM),
        }
    }
}

fn run(out: &mut String, (x, y): (u16, u16), cells: u16, look: &Look, text: &str) {
    let left = MARGIN + f32::from(x) * CELL.0;
    let top = MARGIN + f32::from(y) * CELL.1;
    let width = f32::from(cells) * CELL.0;
    if look.bg != BACKGROUND {
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
            CELL.1, look.bg
        );
    }
    if text.trim().is_empty() {
        return;
    }
    // Every character has its own place, so that the columns hold whatever font the viewer has.
    let mut places = String::new();
    let mut shown = String::new();
    let mut column = 0.0;
    for c in text.chars() {
        if c != ' ' {
            let _ = write!(places, "{:.1} ", left + column * CELL.0);
            shown.push(c);
        }
        column += c.width().unwrap_or(0) as f32;
    }
    let weight = match (look.bold, look.dim) {
        (true, _) => " font-weight=\"bold\"",
        (false, true) => " opacity=\"0.6\"",
        (false, false) => "",
    };
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{:.1}\" fill=\"{}\"{weight}>{}</text>",
        places.trim_end(),
        top + CELL.1 * 0.74,
        look.fg,
        escaped(&shown)
    );
}

fn hex(color: Color, default: &'static str) -> &'static str {
    match color {
        Color::Red => "#f0646a",
        Color::Green => "#6fc37d",
        Color::Yellow => "#e5b95c",
        Color::Blue => "#6ea8f7",
        Color::Magenta => "#c48be0",
        Color::Cyan => "#5cc4cf",
        Color::DarkGray => "#848b98",
        _ => default,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
