//! Plays a saved failure again: the same engine, another clock.
//!
//! Going back plays from the start again up to the position: inputs are cheap to take again
//! (about a second per gigabyte), while a saved engine per second of a long watch would not be.

mod scout;
pub mod script;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::script::Script;
use super::engine_thread::{Core, INBOX, Msg};
use super::handle::{Command, Handle, Mode, Playback, Shared, Status};
use super::lines::Lines;
use super::timeline::Timeline;
use crate::engine::catalog::Catalog;
use crate::engine::input::Input;
use crate::engine::snapshot::Snapshot;
use crate::engine::{Engine, Options};
use crate::error::{InputError, in_words};
use crate::sources::record::{Record, What};

/// Between two looks at the clock.
const FRAME: Duration = Duration::from_millis(20);
/// Work between two looks at the commands.
const BATCH: Duration = Duration::from_millis(20);

/// How fast a replay can play.
pub const SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=1_000.0;

/// How to begin.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// How fast it plays.
    pub speed: f64,
    /// Where it begins.
    pub at: Duration,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            speed: 1.0,
            at: Duration::ZERO,
        }
    }
}

/// A running replay.
pub struct Replay {
    handle: Handle,
    player: JoinHandle<()>,
}

impl Replay {
    /// What views see.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the replay where it stands and returns the state there.
    #[must_use]
    pub fn finish(self) -> Arc<Snapshot> {
        self.handle.shutdown();
        // Panics of the engine are caught; should the thread still panic, the last snapshot stands.
        let _panicked = self.player.join();
        self.handle.snapshot()
    }
}

/// Starts playing. `new_engine` is called again whenever the replay goes back.
///
/// # Errors
/// If a thread cannot be started.
pub fn start(
    script: Box<dyn Script>,
    mut new_engine: impl FnMut() -> Engine + Send + 'static,
    start: Start,
) -> Result<Replay, InputError> {
    let no_thread =
        |error: io::Error| InputError::io("start a thread for", Path::new("playing"), &error);
    let engine = new_engine();
    let (inbox, outbox) = sync_channel(INBOX);
    let mut status = Status::new(Mode::Replay);
    let speed = clamp(start.speed);
    status.playback = Some(Playback {
        axis: script.axis(),
        at: Duration::ZERO,
        length: script.length(),
        speed,
        seeking: false,
    });
    let wake = Box::new(move || drop(inbox.try_send(Msg::Wake)));
    let scouted = script.again().ok().flatten();
    status.timeline = scouted
        .is_some()
        .then(|| Arc::new(Timeline::new(script.axis(), script.length())));
    let shared = Arc::new(Shared::new(engine.snapshot(), status, wake));
    if let Some(again) = scouted {
        let engine = new_engine().without_recent_lines();
        scout::start(again, engine, Arc::clone(&shared)).map_err(no_thread)?;
    }
    let core =
        Core::new(engine, Arc::clone(&shared), Arc::new(Lines::default())).map_err(no_thread)?;
    let player = Player {
        core,
        script,
        new_engine: Box::new(new_engine),
        next: None,
        at: Duration::ZERO,
        goal: (!start.at.is_zero()).then_some(start.at),
        clock: Instant::now(),
        speed,
        paused: false,
        ended: false,
        at_end: None,
    };
    let player = thread::Builder::new()
        .name("engine".to_owned())
        .spawn(move || player.run(&outbox))
        .map_err(no_thread)?;
    Ok(Replay {
        handle: Handle { shared },
        player,
    })
}

/// Plays what a watch has kept up to a position, beside the watch, and stops there. At its end the view
/// goes back to the present.
///
/// # Errors
/// If a thread cannot be started, or nothing is kept.
pub(super) fn look_back(
    present: &Arc<Shared>,
    mut script: Box<dyn Script>,
    lines: Arc<Lines>,
    to: Duration,
) -> io::Result<Arc<Shared>> {
    script.rewind_to(to)?;
    let engine = script
        .base()
        .ok_or_else(|| io::Error::other("nothing is kept"))?;
    let (inbox, outbox) = sync_channel(INBOX);
    let mut status = Status::new(Mode::Live);
    status.paused = true;
    status.playback = Some(Playback {
        axis: script.axis(),
        at: to,
        length: script.length(),
        speed: 1.0,
        seeking: true,
    });
    let wake = Box::new(move || drop(inbox.try_send(Msg::Wake)));
    // Until the position is reached the present is shown.
    let first = (*present.snapshot()).clone();
    let shared = Arc::new(Shared::beside(present, first, status, wake));
    let core = Core::new(engine, Arc::clone(&shared), lines)?.that_only_reads();
    let (watch, own) = (Arc::clone(present), Arc::clone(&shared));
    let player = Player {
        core,
        script,
        // Every way back brings the engine that it begins with.
        new_engine: Box::new(|| Engine::new(Catalog::default(), Options::default())),
        next: None,
        at: Duration::ZERO,
        goal: Some(to),
        clock: Instant::now(),
        speed: 1.0,
        paused: true,
        ended: false,
        at_end: Some(Box::new(move || watch.return_from(&own))),
    };
    thread::Builder::new()
        .name("past".to_owned())
        .spawn(move || player.run(&outbox))?;
    Ok(shared)
}

/// Plays a script to its end as fast as possible; returns the last state and what was lost.
///
/// # Errors
/// If the script cannot be read.
pub fn to_the_end(script: &mut dyn Script, engine: &mut Engine) -> io::Result<Snapshot> {
    to_the_end_told(script, engine, &mut |_| ())
}

/// The same; `tell` hears all the time where it stands.
///
/// # Errors
/// If the script cannot be read.
pub fn to_the_end_told(
    script: &mut dyn Script,
    engine: &mut Engine,
    tell: &mut dyn FnMut(Duration),
) -> io::Result<Snapshot> {
    while let Some((at, record)) = script.next()? {
        tell(at);
        engine.handle(record.seen, record.what.as_input());
    }
    Ok(engine.snapshot())
}

fn clamp(speed: f64) -> f64 {
    if speed.is_nan() {
        1.0
    } else {
        speed.clamp(*SPEEDS.start(), *SPEEDS.end())
    }
}

struct Player {
    core: Core,
    script: Box<dyn Script>,
    new_engine: Box<dyn FnMut() -> Engine + Send>,
    /// Read from the script and not due yet.
    next: Option<(Duration, Record)>,
    at: Duration,
    /// Where a jump is going.
    goal: Option<Duration>,
    /// When `at` was last moved by the clock.
    clock: Instant,
    speed: f64,
    paused: bool,
    ended: bool,
    /// What happens at the end.
    at_end: Option<Box<dyn Fn() + Send>>,
}

impl Player {
    fn run(mut self, inbox: &Receiver<Msg>) {
        while !self.core.shared.is_shut_down() {
            while let Some(command) = self.core.shared.take_command() {
                self.obey(command);
            }
            let behind = self.advance();
            self.tell();
            if behind {
                self.core.publish_if_due(false);
                continue;
            }
            let due = self.core.publish_if_due(false);
            let idle = self.paused || self.ended;
            let wait = if idle { Duration::from_secs(60) } else { FRAME };
            match inbox.recv_timeout(due.map_or(wait, |due| due.min(wait))) {
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.remember_problems();
        self.core.publish();
    }

    /// Going back reads from the start again; what was once found to be damaged stays known.
    fn remember_problems(&self) {
        let problems = self.script.problems();
        if !problems.is_empty() {
            self.core
                .shared
                .edit_status(|status| std::mem::replace(&mut status.problems, problems).is_empty());
        }
    }

    /// Plays what is due, for one batch at most; true if more is due already.
    fn advance(&mut self) -> bool {
        let now = Instant::now();
        let passed = now.duration_since(std::mem::replace(&mut self.clock, now));
        let goal = match self.goal {
            Some(goal) => goal,
            None if self.paused || self.ended => return false,
            None => self.at.saturating_add(passed.mul_f64(self.speed)),
        };
        while let Some((due, record)) = self.take_due(goal) {
            self.at = self.at.max(due);
            self.core.handle(record);
            if now.elapsed() >= BATCH {
                // Falling behind the clock is a jump that has not been finished.
                self.goal = Some(goal);
                return true;
            }
        }
        self.at = if self.ended {
            self.script.length()
        } else {
            goal.min(self.script.length())
        };
        if self.goal.take().is_some() {
            self.clock = Instant::now();
            self.core.publish();
        }
        false
    }

    /// The next record, if it is due at `goal`.
    fn take_due(&mut self, goal: Duration) -> Option<(Duration, Record)> {
        self.fill();
        self.next.take_if(|(due, _)| *due <= goal)
    }

    fn fill(&mut self) {
        if self.next.is_some() || self.ended {
            return;
        }
        match self.script.next() {
            Ok(Some(next)) => self.next = Some(next),
            Ok(None) => self.end(),
            Err(error) => {
                self.core
                    .shared
                    .message(format!("it ends here: {}", in_words(&error)));
                self.end();
            }
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.core.publish();
        if let Some(at_end) = &self.at_end {
            at_end();
        }
    }

    fn obey(&mut self, command: Command) {
        match self.core.log_or(command) {
            Some(Command::Pause) => self.pause(true),
            Some(Command::Resume) => self.pause(false),
            Some(Command::Step) => self.step(),
            Some(Command::Speed(speed)) => self.speed = clamp(speed),
            Some(Command::Seek(to)) => self.seek(to.min(self.script.length())),
            Some(Command::Log { .. }) | None => {}
        }
    }

    fn pause(&mut self, paused: bool) {
        self.paused = paused;
        self.clock = Instant::now();
    }

    /// The next record that says something.
    fn step(&mut self) {
        self.pause(true);
        self.core
            .shared
            .edit_status(|status| !std::mem::replace(&mut status.paused, true));
        while let Some((due, record)) = self.take_due(Duration::MAX) {
            self.at = self.at.max(due);
            let says_something =
                !matches!(record.what, What::Other(Input::Tick | Input::Source(_)));
            self.core.handle(record);
            if says_something {
                break;
            }
        }
        self.core.publish();
    }

    fn seek(&mut self, to: Duration) {
        if to < self.at {
            self.remember_problems();
            if let Err(error) = self.script.rewind_to(to) {
                self.core
                    .shared
                    .message(format!("cannot go back: {}", in_words(&error)));
                return;
            }
            self.next = None;
            self.ended = false;
            self.at = Duration::ZERO;
            let base = self.script.base();
            let engine = base.unwrap_or_else(|| (self.new_engine)());
            self.core.replace_engine(engine);
        }
        self.goal = Some(to);
    }

    fn tell(&mut self) {
        let playback = Playback {
            axis: self.script.axis(),
            at: self.at,
            length: self.script.length(),
            speed: self.speed,
            seeking: self.goal.is_some(),
        };
        let (ended, dropped) = (self.ended && self.next.is_none(), self.script.losses());
        self.core.shared.edit_status(|status| {
            let changed = status.playback != Some(playback)
                || status.ended != ended
                || status.dropped != dropped;
            status.playback = Some(playback);
            status.ended = ended;
            status.dropped = dropped;
            changed
        });
    }
}
