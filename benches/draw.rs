//! CPU time of a dashboard that draws ten frames a second over 16,384 ranks.
//!
//! ```text
//! cargo bench --bench draw             # 16,384 ranks
//! cargo bench --bench draw -- 1024     # 1,024 ranks
//! ```
//!
//! A synthetic job in which one rank calls another count. Before every frame the engine takes new lines of some
//! of its ranks and makes a snapshot; then every screen is drawn, with a key held down, to a terminal that forgets
//! it. CPU time is user + system time of this process; of a core is what ten frames take of one second.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::env;
use std::hint::black_box;
use std::io;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use unhang::app::handle::{Mode, Status};
use unhang::engine::catalog::Catalog;
use unhang::engine::ids::SourceId;
use unhang::engine::input::{Input, SourceInfo, SourceKind, Time};
use unhang::engine::snapshot::Snapshot;
use unhang::engine::{Engine, Options};
use unhang::views::escape::Glyphs;
use unhang::views::tui::keymap::Action;
use unhang::views::tui::screen::Screen;
use unhang::views::tui::theme::{Colors, Theme};
use unhang::views::tui::ui::Ui;
use unhang::views::tui::update::update;
use unhang::views::tui::view;

#[path = "../examples/synth_job/calls.rs"]
mod calls;
#[expect(dead_code, reason = "one kind of fault is enough here")]
#[path = "../examples/synth_job/job.rs"]
mod job;
#[path = "../examples/synth_job/nccl.rs"]
mod nccl;
#[expect(dead_code, reason = "the rest is for interleaving streams")]
#[path = "../examples/synth_job/prng.rs"]
mod prng;

/// Frames in a second, and in a measurement.
const FRAMES: u32 = 10;
const MEASURED: u32 = 3 * FRAMES;
/// Ranks that write something between two frames.
const WRITERS: usize = 256;

fn main() {
    let ranks = env::args()
        .filter_map(|text| text.parse::<u32>().ok())
        .next()
        .unwrap_or(16_384);
    let job = job::Job::new(job::Spec {
        ranks,
        bytes_per_rank: 16 << 10,
        seed: 1,
        fault: job::Fault::Count(ranks / 3),
        ranks_per_host: 8,
        nccl: nccl::Nccl::V2_28_9,
    });
    let mut watched = Watched::of(&job);
    // Their start and a step.
    for _ in 0..2 {
        watched.take_lines_of(watched.logs.len());
    }
    println!("{ranks} ranks, {} MiB", watched.bytes >> 20);
    println!(
        "{:<34} {:>10} {:>10} {:>10}",
        "", "mean ms", "most ms", "of a core"
    );
    measure(&format!("new lines of {WRITERS} ranks"), || {
        watched.take_lines_of(WRITERS);
    });
    measure_after(
        "snapshot of a job that runs",
        &mut watched,
        |watched| {
            watched.take_lines_of(1);
        },
        |watched| drop(black_box(watched.engine.snapshot())),
    );
    while watched.take_lines_of(watched.logs.len()) {}
    let claim = Input::Claim { stuck_for: None };
    watched.engine.handle(None, claim);
    measure_after(
        "snapshot of one that is stuck",
        &mut watched,
        Watched::tick,
        |watched| drop(black_box(watched.engine.snapshot())),
    );
    let snapshot = watched.engine.snapshot();
    for (width, height) in [(80, 24), (200, 50), (250, 60)] {
        for screen in Screen::ALL {
            let mut desk = Desk::with(screen, width, height);
            measure(&format!("{} {width}x{height}", screen.title()), || {
                desk.draw(&snapshot);
            });
        }
    }
}

/// Runs what is done for a frame and prints its CPU time.
fn measure(what: &str, mut frame: impl FnMut()) {
    measure_after(what, &mut (), |()| (), |()| frame());
}

/// The same, with something before every frame that does not count.
fn measure_after<T>(
    what: &str,
    on: &mut T,
    before: impl Fn(&mut T),
    mut frame: impl FnMut(&mut T),
) {
    let (mut all, mut most) = (0.0, 0.0_f64);
    for _ in 0..MEASURED {
        before(on);
        let began = cpu();
        frame(on);
        let took = cpu() - began;
        all += took;
        most = most.max(took);
    }
    let mean = all / f64::from(MEASURED);
    let share = mean * f64::from(FRAMES) / 10.0;
    println!("{what:<34} {mean:>10.2} {most:>10.2} {share:>8.1} %");
}

/// CPU milliseconds so far.
fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel tells");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e3
}

/// An engine and the logs that it watches.
struct Watched<'j> {
    engine: Engine,
    /// With the bytes that each has so far.
    logs: Vec<(job::RankLog<'j>, u64)>,
    next: usize,
    bytes: u64,
    now: Time,
}

impl<'j> Watched<'j> {
    fn of(job: &'j job::Job) -> Self {
        let mut watched = Self {
            engine: Engine::new(Catalog::builtin(), Options { keep_recent: true }),
            logs: (0..job.spec.ranks)
                .map(|rank| (job::RankLog::new(job, rank), 0))
                .collect(),
            next: 0,
            bytes: 0,
            now: Time(1_700_000_000_000_000_000),
        };
        for n in 0..watched.logs.len() {
            let info = SourceInfo {
                id: SourceId::from_ix(n),
                name: format!("rank{n}.log"),
                kind: SourceKind::File,
                host: None,
                pid: None,
                rank: None,
            };
            watched
                .engine
                .handle(Some(watched.now), Input::Source(info));
        }
        watched
    }

    /// The next so many ranks write something; false if none has anything left.
    fn take_lines_of(&mut self, ranks: usize) -> bool {
        let (mut text, mut any) = (Vec::new(), false);
        for _ in 0..ranks {
            let n = self.next % self.logs.len();
            self.next += 1;
            let (log, offset) = &mut self.logs[n];
            text.clear();
            any |= log.fill(&mut text) != job::Wrote::Nothing;
            let input = Input::Bytes {
                source: SourceId::from_ix(n),
                offset: *offset,
                chunk: &text,
            };
            self.engine.handle(Some(self.now), input);
            *offset += text.len() as u64;
            self.bytes += text.len() as u64;
        }
        self.tick();
        any
    }

    fn tick(&mut self) {
        self.now.0 += 1_000_000_000 / u64::from(FRAMES);
        self.engine.handle(Some(self.now), Input::Tick);
    }
}

/// A dashboard on a terminal that forgets what it is told.
struct Desk {
    ui: Ui,
    terminal: Terminal<CrosstermBackend<io::Sink>>,
}

impl Desk {
    fn with(screen: Screen, width: u16, height: u16) -> Self {
        let theme = Theme {
            colors: Colors::Dark,
            glyphs: Glyphs::Unicode,
        };
        let ui = Ui {
            screen,
            size: (width, height),
            ..Ui::new(theme)
        };
        let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
        let terminal = Terminal::with_options(
            CrosstermBackend::new(io::sink()),
            TerminalOptions { viewport },
        );
        Self {
            ui,
            terminal: terminal.expect("a fixed size asks nobody"),
        }
    }

    /// Draws while somebody holds a key down: the cursor is in another row every time.
    fn draw(&mut self, snapshot: &Snapshot) {
        let status = Status::new(Mode::Live);
        update(&mut self.ui, snapshot, &status, Action::Move(1));
        let drawn = self
            .terminal
            .draw(|frame| view::view(&self.ui, snapshot, &status, frame));
        black_box(drawn.expect("a sink takes everything"));
    }
}
