//! A dashboard without a terminal over the end of a recorded failure of `unhang demo`.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unhang::app::demo::Case;
use unhang::app::handle::{Mode, Status};
use unhang::app::replay;
use unhang::engine::catalog::Catalog;
use unhang::engine::snapshot::Snapshot;
use unhang::engine::{Engine, Options};
use unhang::views::escape::Glyphs;
use unhang::views::tui::theme::{Colors, Theme};
use unhang::views::tui::ui::Ui;
use unhang::views::tui::update::{Effect, update};
use unhang::views::tui::{keymap, view};

/// An engine as a dashboard has it.
pub(crate) fn engine() -> Engine {
    Engine::new(Catalog::builtin(), Options { keep_recent: true })
}

/// The dashboard.
pub(crate) struct Bench {
    pub(crate) ui: Ui,
    pub(crate) snapshot: Snapshot,
    pub(crate) status: Status,
}

impl Bench {
    /// Over the end of this case.
    pub(crate) fn new(case: &str) -> Self {
        let script = Case::find(Some(case)).unwrap().script();
        let mut engine = engine();
        Self {
            ui: Ui::new(Theme {
                colors: Colors::Dark,
                glyphs: Glyphs::Unicode,
            }),
            snapshot: replay::to_the_end(script.unwrap().as_mut(), &mut engine).unwrap(),
            status: Status::new(Mode::Live),
        }
    }

    /// Keys by their characters; `⏎` is Enter, `⎋` Escape, `↑` and `↓` are themselves. What the last one asks for.
    pub(crate) fn press(&mut self, keys: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for c in keys.chars() {
            let code = match c {
                '⏎' => KeyCode::Enter,
                '⎋' => KeyCode::Esc,
                '↑' => KeyCode::Up,
                '↓' => KeyCode::Down,
                c => KeyCode::Char(c),
            };
            let here = self.ui.here(self.status.mode == Mode::Replay);
            let action = keymap::lookup(here, KeyEvent::new(code, KeyModifiers::NONE));
            effects = update(&mut self.ui, &self.snapshot, &self.status, action.unwrap());
        }
        effects
    }

    /// A frame of this size.
    pub(crate) fn draw(&mut self, (width, height): (u16, u16)) -> Buffer {
        self.ui.size = (width, height);
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        view::render(&self.ui, &self.snapshot, &self.status, area, &mut buf);
        buf
    }
}
