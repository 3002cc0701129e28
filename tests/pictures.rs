//! The pictures of the documentation: every screen on a recorded failure, played by the real replay and steered
//! by keys.
//!
//! `docs/screens/` and `docs/screens.md` are made by `UPDATE_DOCS=1 cargo test --test pictures`; the test fails
//! when one of them is stale.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unhang::app::demo::Case;
use unhang::app::handle::{Handle, Status};
use unhang::app::prove;
use unhang::app::replay::script::{FilesScript, JournalScript, Script};
use unhang::app::replay::{self, Replay, Start};
use unhang::engine::catalog::Catalog;
use unhang::engine::{Engine, Options};
use unhang::sources::discover::Discoverer;
use unhang::sources::journal::read::Journal;
use unhang::views::escape::Glyphs;
use unhang::views::tui::theme::{Colors, Theme};
use unhang::views::tui::ui::Ui;
use unhang::views::tui::update::{Effect, arrived, update};
use unhang::views::tui::{keymap, svg, task, view};

/// Columns and rows of a picture.
const SIZE: (u16, u16) = (120, 34);

/// What is played.
enum Recorded {
    /// A failure of `unhang demo`.
    Demo(&'static str),
    /// A saved watch below `fixtures/journals/`.
    Watch(&'static str),
    /// Saved logs below `fixtures/cases/`.
    Logs(&'static str),
}

use Recorded::{Demo, Logs, Watch};

/// A picture: the name of its file, a heading, what it shows, and how one gets there from the end.
struct Picture {
    name: &'static str,
    title: &'static str,
    shows: &'static str,
    of: Recorded,
    keys: &'static str,
}

const PICTURES: &[Picture] = &[
    Picture {
        name: "overview",
        title: "Overview",
        shows: "The verdict, a letter and colour for every rank, and what was found. One of 16 ranks calls a \
                collective with another element count.",
        of: Demo("mismatch-count-16"),
        keys: "1",
    },
    Picture {
        name: "ranks",
        title: "Ranks",
        shows: "How far each rank has got. Rank 6 of 16 was killed; the others report it.",
        of: Demo("rank-killed-16"),
        keys: "2",
    },
    Picture {
        name: "findings",
        title: "Findings",
        shows: "Cause first: why, the evidence in its context, what to set. A forgotten variable sends all traffic \
                through host memory.",
        of: Demo("p2p-off"),
        keys: "3",
    },
    Picture {
        name: "hosts",
        title: "Network",
        shows: "Which interface and address every host has chosen. Eight hosts bootstrap on docker0, which has the \
                same address everywhere.",
        of: Demo("iface-docker-16"),
        keys: "4",
    },
    Picture {
        name: "collectives",
        title: "Collectives",
        shows: "Which call of which communicator each rank has reached, and who called what.",
        of: Demo("mismatch-count-16"),
        keys: "5",
    },
    Picture {
        name: "log",
        title: "Log",
        shows: "Enter on a finding opens the log at the line that proves it.",
        of: Demo("iface-docker-16"),
        keys: "3⏎",
    },
    Picture {
        name: "env",
        title: "Environment",
        shows: "Settings and versions: what differs between ranks stands first.",
        of: Logs("nchannels-mismatch"),
        keys: "7",
    },
    Picture {
        name: "gpus",
        title: "GPUs",
        shows: "What NVML tells of the GPUs of the host on which the watch runs. Two ranks on one H200, of which one \
                was stopped in the middle of a collective.",
        of: Watch("h200-stopped"),
        keys: "8",
    },
    Picture {
        name: "prove",
        title: "Proving a fix",
        shows: "`p` on a finding asks before it runs the self-test with the job's settings and with the proposed ones.",
        of: Demo("p2p-off"),
        keys: "3p",
    },
    Picture {
        name: "back",
        title: "Time",
        shows: "`!` goes to where the first sign of the failure came up and stops there.",
        of: Demo("rank-killed-16"),
        keys: "1!",
    },
    Picture {
        name: "help",
        title: "Keys",
        shows: "`?` shows every key that works here.",
        of: Demo("mismatch-count-16"),
        keys: "?",
    },
];

#[test]
fn pictures_are_fresh() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut stale = Vec::new();
    let mut keep = |path: PathBuf, fresh: &str| {
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, fresh).unwrap();
        }
        if fs::read_to_string(&path).ok().as_deref() != Some(fresh) {
            stale.push(path);
        }
    };
    let mut page = "# The screens\n\nEach on a recorded failure, drawn by the program itself: \
                    `UPDATE_DOCS=1 cargo test --test pictures` makes these\npictures anew, and \
                    `cargo test --test pictures` tells whether they are what it draws. [keys.md](keys.md) has all keys.\n"
        .to_owned();
    for picture in PICTURES {
        let name = format!("{}.svg", picture.name);
        keep(docs.join("screens").join(&name), &svg::svg(&picture.draw()));
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\n`{}`, keys `{}`\n\n![{}](screens/{name})\n",
            picture.title,
            picture.shows,
            picture.command(),
            picture.keys.replace('⏎', "Enter"),
            picture.title,
        );
    }
    keep(docs.join("screens.md"), &page);
    assert!(
        stale.is_empty(),
        "UPDATE_DOCS=1 cargo test --test pictures writes {stale:?}"
    );
}

#[test]
fn no_picture_is_left_over() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/screens");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(PICTURES.iter().any(|p| p.name == name), "{path:?}");
    }
}

impl Picture {
    fn command(&self) -> String {
        match self.of {
            Demo(name) => format!("unhang demo {name}"),
            Watch(name) => format!("unhang replay fixtures/journals/{name}.journal"),
            Logs(name) => format!("unhang replay fixtures/cases/{name}"),
        }
    }

    fn script(&self) -> Box<dyn Script> {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        match self.of {
            Demo(name) => Case::find(Some(name)).unwrap().script().unwrap(),
            Watch(name) => {
                let path = fixtures.join("journals").join(format!("{name}.journal"));
                let bytes = fs::read(path).unwrap();
                Box::new(JournalScript::new(
                    Journal::open(Cursor::new(bytes)).unwrap(),
                ))
            }
            Logs(name) => {
                let found = Discoverer::new(&[fixtures.join("cases").join(name)]).search();
                Box::new(FilesScript::new(found.logs, found.dumps, None))
            }
        }
    }

    fn draw(&self) -> Buffer {
        let engine = || Engine::new(Catalog::builtin(), Options { keep_recent: true });
        let replay = replay::start(self.script(), engine, Start::default()).unwrap();
        let mut user = User::of(&replay);
        user.at_the_end();
        user.press(self.keys);
        let buf = user.draw();
        let _snapshot = replay.finish();
        buf
    }
}

/// Somebody at the keys of a replay.
struct User {
    handle: Handle,
    ui: Ui,
}

impl User {
    fn of(replay: &Replay) -> Self {
        let theme = Theme {
            colors: Colors::Dark,
            glyphs: Glyphs::Unicode,
        };
        let ui = Ui {
            size: SIZE,
            ..Ui::new(theme)
        };
        Self {
            handle: replay.handle(),
            ui,
        }
    }

    fn wait(&self, what: &str, is: impl Fn(&Status) -> bool) {
        let mut seen = 0;
        for _ in 0..600 {
            if is(&self.handle.status()) {
                return;
            }
            seen = self
                .handle
                .wait_for_change(seen, Duration::from_millis(100));
        }
        panic!("waited for {what}: {:?}", self.handle.status());
    }

    fn at_the_end(&self) {
        self.handle.pause();
        self.wait("the bar of time", |status| {
            let timeline = status.timeline.as_ref();
            timeline.is_none_or(|timeline| timeline.known() >= 1.0)
        });
        let length = self.handle.status().playback.unwrap().length;
        self.jump(length);
        self.wait("the end", |status| status.ended);
    }

    fn jump(&self, to: Duration) {
        self.handle.seek(to);
        self.wait("a jump", |status| {
            let playback = status.playback.unwrap();
            !playback.seeking && playback.at == to
        });
    }

    fn press(&mut self, keys: &str) {
        for c in keys.chars() {
            let code = match c {
                '⏎' => KeyCode::Enter,
                c => KeyCode::Char(c),
            };
            let status = self.handle.status();
            let here = self.ui.here(status.has_time());
            let event = KeyEvent::new(code, KeyModifiers::NONE);
            let action = keymap::lookup(&self.ui.keys, here, event).unwrap();
            let snapshot = self.handle.snapshot();
            for effect in update(&mut self.ui, &snapshot, &status, action) {
                self.carry_out(effect);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Pause => self.handle.pause(),
            Effect::Seek(to) => self.jump(to),
            Effect::Log(whose, request) => {
                let page = self.handle.log(whose.clone(), request);
                let page = page.recv_timeout(Duration::from_secs(60)).unwrap();
                arrived(&mut self.ui, &whose, request, page);
            }
            Effect::Prove(row) => {
                let snapshot = self.handle.snapshot();
                let here = prove::Here {
                    host: snapshot.job.ranks[0].host.clone().unwrap_or_default(),
                    gpus: 2,
                    hidden: false,
                };
                let finding = &snapshot.findings[row];
                let test = prove::test(&snapshot, finding, &here);
                task::ask_to_prove(&mut self.ui, finding, &here, test);
            }
            other => panic!("no picture needs {other:?}"),
        }
    }

    fn draw(&self) -> Buffer {
        let area = Rect::new(0, 0, SIZE.0, SIZE.1);
        let mut buf = Buffer::empty(area);
        let (snapshot, status) = (self.handle.snapshot(), self.handle.status());
        view::render(&self.ui, &snapshot, &status, area, &mut buf);
        buf
    }
}
