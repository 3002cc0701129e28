//! A dashboard without a terminal, steered by keys.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unhang::app::handle::{Axis, LogLine, LogPage, Mode, Playback, Status};
use unhang::app::{demo, prove, replay};
use unhang::engine::catalog::Catalog;
use unhang::engine::ids::SourceId;
use unhang::engine::line::Place;
use unhang::engine::recent::Whose;
use unhang::engine::snapshot::Snapshot;
use unhang::engine::{Engine, Options};
use unhang::views::escape::Glyphs;
use unhang::views::tui::keymap::{self, Action, Key};
use unhang::views::tui::theme::{Colors, Theme};
use unhang::views::tui::ui::Ui;
use unhang::views::tui::update::{Effect, arrived, update};
use unhang::views::tui::{task, view};

use crate::{samples, screens};

pub(crate) const COLOR: Theme = Theme {
    colors: Colors::Dark,
    glyphs: Glyphs::Unicode,
};
pub(crate) const PLAIN: Theme = Theme {
    colors: Colors::Mono,
    glyphs: Glyphs::Unicode,
};
pub(crate) const ASCII: Theme = Theme {
    colors: Colors::Mono,
    glyphs: Glyphs::Ascii,
};

/// A dashboard without a terminal.
pub(crate) struct Bench {
    pub ui: Ui,
    pub snapshot: Snapshot,
    pub status: Status,
    pub effects: Vec<Effect>,
}

impl Bench {
    pub(crate) fn new(sample: &str) -> Self {
        let snapshot = samples::all()
            .into_iter()
            .find(|(n, _)| *n == sample)
            .unwrap()
            .1;
        let mut bench = Self {
            ui: Ui::new(COLOR),
            snapshot,
            status: Status::new(Mode::Live),
            effects: Vec::new(),
        };
        bench.size(80, 24);
        bench
    }

    /// The end of a recorded failure of `unhang demo`.
    pub(crate) fn recorded(name: &str) -> Self {
        let case = demo::Case::find(Some(name)).unwrap();
        let mut engine = Engine::new(Catalog::builtin(), Options::default());
        let mut bench = Self::new("empty");
        bench.snapshot = replay::to_the_end(case.script().unwrap().as_mut(), &mut engine).unwrap();
        bench
    }

    pub(crate) fn replay(sample: &str) -> Self {
        let mut bench = Self::new(sample);
        bench.status = Status::new(Mode::Replay);
        bench.status.playback = Some(Playback {
            axis: Axis::Recorded,
            at: Duration::from_secs(100),
            length: Duration::from_secs(200),
            speed: 4.0,
            seeking: false,
        });
        bench
    }

    pub(crate) fn size(&mut self, width: u16, height: u16) {
        self.ui.size = (width, height);
    }

    pub(crate) fn key(&mut self, key: Key) -> &mut Self {
        let here = self.ui.here(self.status.mode == Mode::Replay);
        if let Some(action) = keymap::lookup(&self.ui.keys, here, event(key)) {
            self.act(action);
        }
        self
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.effects = update(&mut self.ui, &self.snapshot, &self.status, action);
        for effect in self.effects.clone() {
            match effect {
                Effect::Log(whose, request) => {
                    let page = self.log(&whose);
                    arrived(&mut self.ui, &whose, request, page);
                }
                Effect::Prove(row) => {
                    let (finding, here) = (&self.snapshot.findings[row], host_with_gpus());
                    let test = prove::test(&self.snapshot, finding, &here);
                    task::ask_to_prove(&mut self.ui, finding, &here, test);
                }
                _ => {}
            }
        }
    }

    /// Keys, and what the last one asks for.
    pub(crate) fn press(&mut self, keys: &str) -> Vec<Effect> {
        self.keys(keys);
        self.effects.clone()
    }

    /// Keys by their characters; `⏎` is Enter, `⎋` Escape, and arrows are themselves.
    pub(crate) fn keys(&mut self, keys: &str) -> &mut Self {
        for c in keys.chars() {
            self.key(Key::Plain(match c {
                '⏎' => KeyCode::Enter,
                '⎋' => KeyCode::Esc,
                '↑' => KeyCode::Up,
                '↓' => KeyCode::Down,
                c => KeyCode::Char(c),
            }));
        }
        self
    }

    /// What a rank said: its evidence at the lines where it stands, and something in between.
    fn log(&self, whose: &Whose) -> LogPage {
        let ranks: Vec<u32> = match whose {
            Whose::Ranks(ranks) => ranks.clone(),
            Whose::All => self
                .snapshot
                .job
                .ranks
                .iter()
                .filter_map(|r| r.rank)
                .collect(),
        };
        let mut lines: Vec<LogLine> = ranks.iter().flat_map(|r| self.log_of(*r)).collect();
        // They take turns.
        lines.sort_by_key(|line| (line.place.number, line.place.source));
        LogPage {
            lines,
            older: 7,
            newer: 0,
        }
    }

    fn log_of(&self, rank: u32) -> Vec<LogLine> {
        let source = SourceId(rank);
        let evidence: Vec<_> = self
            .snapshot
            .findings
            .iter()
            .flat_map(|f| &f.evidence)
            .collect();
        let last = self
            .snapshot
            .job
            .ranks
            .iter()
            .find(|r| r.rank == Some(rank));
        let last = last.and_then(|r| r.last_line.clone()).unwrap_or_default();
        let line = |number: u64| {
            let said = evidence
                .iter()
                .find(|e| e.source == source && e.line == number);
            let text = match said {
                Some(said) => said.text.clone(),
                None if number == 24 => last.clone(),
                None => format!("node:{rank}:{rank} [0] NCCL INFO line {number} of rank {rank}"),
            };
            let place = Place {
                source,
                number,
                offset: number * 100,
                len: 100,
            };
            LogLine {
                place,
                rank: Some(rank),
                bytes: Some(text.into_bytes()),
            }
        };
        (1..=24).map(line).collect()
    }

    pub(crate) fn draw(&self) -> Buffer {
        let area = Rect::new(0, 0, self.ui.size.0, self.ui.size.1);
        let mut buf = Buffer::empty(area);
        view::render(&self.ui, &self.snapshot, &self.status, area, &mut buf);
        buf
    }

    /// A frame of this size.
    pub(crate) fn drawn(&mut self, (width, height): (u16, u16)) -> Buffer {
        self.size(width, height);
        self.draw()
    }

    pub(crate) fn shown(&self) -> String {
        screens::plain(&self.draw())
    }
}

pub(crate) fn host_with_gpus() -> prove::Here {
    prove::Here {
        host: "node-0".to_owned(),
        gpus: 8,
        hidden: false,
    }
}

pub(crate) fn event(key: Key) -> KeyEvent {
    match key {
        Key::Plain(code) => KeyEvent::new(code, KeyModifiers::NONE),
        Key::Ctrl(c) => KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL),
    }
}
