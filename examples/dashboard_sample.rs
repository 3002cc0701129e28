//! The dashboard over a job made by hand, to look at while it is worked on.
//!
//! ```text
//! cargo run --example dashboard_sample -- wrong_interface             in this terminal
//! cargo run --example dashboard_sample -- wrong_interface 120x40 3j   as SVG on standard output, after keys
//! ```

use std::error::Error;
use std::io::Write as _;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unhang::app::handle::{Handle, Mode, Status};
use unhang::engine::snapshot::Snapshot;
use unhang::views::escape::Glyphs;
use unhang::views::tui::{
    self, keymap, svg,
    theme::{Colors, Theme},
    ui::Ui,
    update, view,
};

#[path = "../tests/support/samples.rs"]
mod samples;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "wrong_interface".to_owned());
    let sample = samples::all().into_iter().find(|(n, _)| *n == name);
    let snapshot = sample.ok_or("no such sample")?.1;
    let plain = std::env::var_os("NO_COLOR").is_some();
    let theme = Theme {
        colors: if plain { Colors::Mono } else { Colors::Dark },
        glyphs: Glyphs::Unicode,
    };
    let Some(size) = args.next() else {
        let handle = Handle::still(snapshot, Status::new(Mode::Live));
        let save = |_: &Snapshot| Err("this is a sample".to_owned());
        let options = tui::Options {
            theme,
            keys: keymap::Keys::default(),
            save: &save,
            narrow: &|snapshot| snapshot,
        };
        return Ok(tui::run(&handle, &options)?);
    };
    let (width, height) = size.split_once('x').ok_or("a size is WIDTHxHEIGHT")?;
    let area = Rect::new(0, 0, width.parse()?, height.parse()?);
    let mut ui = Ui::new(theme);
    ui.size = (area.width, area.height);
    let status = Status::new(Mode::Live);
    for c in args.next().unwrap_or_default().chars() {
        let key = KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
        if let Some(action) = keymap::lookup(&ui.keys, ui.here(false), key) {
            update::update(&mut ui, &snapshot, &status, action);
        }
    }
    let mut buf = Buffer::empty(area);
    view::render(&ui, &snapshot, &status, area, &mut buf);
    Ok(std::io::stdout().write_all(svg::svg(&buf).as_bytes())?)
}
