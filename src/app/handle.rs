//! The data side of the dashboard: what a view may ask of a running watch or replay.
//!
//! ```text
//!  sources ──► engine thread ──► Snapshot (≤ 10 Hz) ──► Handle::snapshot   what to draw
//!                   ▲                                   Handle::status     the header line
//!                   └────────── commands ◄──────────────Handle::pause, step, seek, log …
//! ```
//!
//! Every call but [`Handle::wait_for_change`] returns at once: none waits for the engine, a file or a
//! lock that is held while work is done. A `Handle` is cheap to clone and may be used from any thread.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::past::{self, Past};
use super::timeline::Timeline;
use crate::engine::line::Place;
use crate::engine::recent::Whose;
use crate::engine::snapshot::Snapshot;
use crate::error::{InputError, in_words};
use crate::sources::progress::Progress;

/// Commands that wait for the engine thread; more are refused.
const COMMANDS: usize = 64;

/// Where the data comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A job that is being watched.
    Live,
    /// A saved failure that is played again.
    Replay,
}

/// How changes of files are noticed. Polling is always done; events only shorten the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Following {
    /// The file system tells when something changed.
    Events,
    /// Only by looking again and again; the text says why (`/data is on nfs, which sends no events`).
    Polling(String),
    /// Pipes and replays: nothing has to be looked for.
    Stream,
}

/// What the axis of a replay means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The times at which the inputs were seen.
    Recorded,
    /// No times in these logs: the order of bytes, all files in proportion.
    Bytes,
}

/// Where a replay stands. With [`Axis::Bytes`] the seconds are made up, from a fixed rate of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Playback {
    /// What the positions mean.
    pub axis: Axis,
    /// Where it stands, from its start.
    pub at: Duration,
    /// Its whole length.
    pub length: Duration,
    /// How fast it plays: 1.0 is as it was.
    pub speed: f64,
    /// True while a jump is being worked off; `at` is then on its way.
    pub seeking: bool,
}

/// How far reading has got, and how long that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loading {
    /// What was read.
    pub progress: Progress,
    /// Since the start.
    pub took: Duration,
}

/// What the header line says.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Live or replay.
    pub mode: Mode,
    /// Live: the view is frozen, ingest goes on. Replay: nothing moves.
    pub paused: bool,
    /// Live and paused: bytes taken in since the view was frozen. Else 0.
    pub behind: u64,
    /// How changes are noticed.
    pub following: Following,
    /// Sources that were opened so far.
    pub sources: usize,
    /// Records that were lost: unknown or damaged in a journal, or refused because of a bound.
    pub dropped: u64,
    /// How often a source had to wait because the engine was busy.
    pub stalls: u64,
    /// In a replay, and of a watch while one looks back.
    pub playback: Option<Playback>,
    /// Of a watch: from where on it can be looked back, once the oldest part is gone.
    pub kept_from: Option<Duration>,
    /// What comes when, as far as it is known; `None` if nobody looks.
    pub timeline: Option<Arc<Timeline>>,
    /// No more input will come: the pipes are closed, or the replay is at its end.
    pub ended: bool,
    /// What was there at the start is still being read; what is shown is of a part of it.
    pub loading: Option<Loading>,
    /// How often RAS was asked and answered.
    pub asked_ras: u64,
    /// How many processes let RAS tell of changes by itself now.
    pub hears_ras: u64,
    /// Live only: why this host's GPUs cannot be looked at, once that was tried.
    pub no_gpus: Option<String>,
    /// The journal being written, if any.
    pub recording: Option<String>,
    /// Messages for the user, oldest first (recording stopped, a file could not be read). Bounded.
    pub messages: Vec<String>,
    /// Replay only: what could not be read, known when it ends.
    pub problems: Vec<InputError>,
    /// The engine died of a bug: the text of its panic. The last snapshot stays. A panic hook that
    /// restores the terminal has run by then, so the view should leave and print this.
    pub failure: Option<String>,
    /// Somebody asked for the end (a signal, [`Handle::shutdown`]): the view must leave.
    pub shutdown: bool,
}

impl Status {
    /// How much of a replay has been played, in percent; `None` if all of it, and for a watch.
    #[must_use]
    pub fn part_played(&self) -> Option<u32> {
        let playback = self
            .playback
            .filter(|_| self.mode == Mode::Replay && !self.ended)?;
        let length = playback.length.as_nanos().max(1);
        u32::try_from(playback.at.as_nanos().saturating_mul(100) / length).ok()
    }

    /// True while a watch shows what was before.
    #[must_use]
    pub fn looks_back(&self) -> bool {
        self.mode == Mode::Live && self.playback.is_some()
    }

    /// True if one can move about in time.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.mode == Mode::Replay || self.timeline.is_some()
    }

    /// The status of a watch or replay that has just begun.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            paused: false,
            behind: 0,
            following: Following::Stream,
            sources: 0,
            dropped: 0,
            stalls: 0,
            playback: None,
            kept_from: None,
            timeline: None,
            ended: false,
            loading: None,
            asked_ras: 0,
            hears_ras: 0,
            no_gpus: None,
            recording: None,
            messages: Vec::new(),
            problems: Vec::new(),
            failure: None,
            shutdown: false,
        }
    }
}

/// Which lines to read back. The engine keeps the places of the last
/// [`crate::engine::limits::RECENT_LINES`] lines of every rank; of several ranks together,
/// [`Whose::limit`] lines are read back at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRequest {
    /// The newest lines, this many at most.
    Newest(usize),
    /// The lines just before this one, this many at most.
    Before(Place, usize),
    /// The lines just after this one, this many at most: what came since.
    After(Place, usize),
}

/// Lines that were read back, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    /// The lines.
    pub lines: Vec<LogLine>,
    /// Kept lines older than these.
    pub older: usize,
    /// Kept lines newer than these.
    pub newer: usize,
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Where it stands.
    pub place: Place,
    /// The world rank that wrote it, if known.
    pub rank: Option<u32>,
    /// Its bytes as they are in the source, prefixes and control characters included (a view must
    /// escape them); `None` if they cannot be read any more (rotated away, out of memory's ring).
    pub bytes: Option<Vec<u8>>,
}

/// What the engine thread is asked to do between two inputs.
pub(crate) enum Command {
    Pause,
    Resume,
    Step,
    Speed(f64),
    Seek(Duration),
    Log {
        whose: Whose,
        request: LogRequest,
        reply: SyncSender<LogPage>,
    },
}

/// What the view and the engine thread share.
pub(crate) struct Shared {
    snapshot: Mutex<Arc<Snapshot>>,
    status: Mutex<Status>,
    commands: Mutex<VecDeque<Command>>,
    changes: watch::Sender<u64>,
    /// The same counter for threads that wait.
    count: Mutex<u64>,
    counted: Condvar,
    wake: Box<dyn Fn() + Send + Sync>,
    /// What a watch can look back to.
    past: OnceLock<Arc<Past>>,
    /// What is shown instead while it does.
    back: Mutex<Option<Arc<Shared>>>,
    /// The watch beside which this looks back; it is told of every change.
    watch: Option<Arc<Shared>>,
}

/// Locks that are only ever held for a copy: a panic elsewhere cannot leave them half-written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(first: Snapshot, status: Status, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            snapshot: Mutex::new(Arc::new(first)),
            status: Mutex::new(status),
            commands: Mutex::default(),
            changes: watch::Sender::new(0),
            count: Mutex::new(0),
            counted: Condvar::new(),
            wake,
            past: OnceLock::new(),
            back: Mutex::default(),
            watch: None,
        }
    }

    /// Of what looks back beside a watch.
    pub(crate) fn beside(
        watch: &Arc<Self>,
        first: Snapshot,
        status: Status,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            watch: Some(Arc::clone(watch)),
            ..Self::new(first, status, wake)
        }
    }

    /// From now on one can look back to this.
    pub(crate) fn remember(&self, past: Arc<Past>) {
        let _once = self.past.set(past);
    }

    fn back(&self) -> Option<Arc<Self>> {
        lock(&self.back).clone()
    }

    /// Shows the present again, if this is what is shown instead.
    pub(crate) fn return_from(&self, from: &Arc<Self>) {
        let ours = lock(&self.back).take_if(|back| Arc::ptr_eq(back, from));
        if let Some(back) = ours {
            back.end();
            for text in back.status().messages {
                self.message(text);
            }
            self.changed();
        }
    }

    /// Asks whoever works for it to end.
    fn end(&self) {
        self.edit_status(|status| !std::mem::replace(&mut status.shutdown, true));
        (self.wake)();
    }

    pub(crate) fn publish(&self, snapshot: Snapshot) {
        *lock(&self.snapshot) = Arc::new(snapshot);
        self.changed();
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.snapshot))
    }

    pub(crate) fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        lock(&self.status).shutdown
            || self
                .watch
                .as_ref()
                .is_some_and(|watch| watch.is_shut_down())
    }

    /// Changes the status; views are told only if `edit` says that something changed.
    pub(crate) fn edit_status(&self, edit: impl FnOnce(&mut Status) -> bool) {
        if edit(&mut lock(&self.status)) {
            self.changed();
        }
    }

    /// Adds a message for the user; the oldest ones make room.
    pub(crate) fn message(&self, text: String) {
        self.edit_status(|status| {
            if status.messages.len() >= 32 {
                status.messages.remove(0);
            }
            status.messages.push(text);
            true
        });
    }

    pub(crate) fn take_command(&self) -> Option<Command> {
        lock(&self.commands).pop_front()
    }

    fn changed(&self) {
        self.changes.send_modify(|n| *n += 1);
        *lock(&self.count) += 1;
        self.counted.notify_all();
        if let Some(watch) = &self.watch {
            watch.changed();
        }
    }

    fn ask(&self, command: Command) -> bool {
        let mut commands = lock(&self.commands);
        let room = commands.len() < COMMANDS;
        if room {
            commands.push_back(command);
        }
        drop(commands);
        (self.wake)();
        room
    }
}

/// A running watch or replay, seen from a view.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// A handle that nothing moves behind: for tests of views. Commands are accepted and only
    /// `pause`, `resume` and `shutdown` show in the status.
    #[must_use]
    pub fn still(snapshot: Snapshot, status: Status) -> Self {
        let shared = Shared::new(snapshot, status, Box::new(|| ()));
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The newest snapshot, or the frozen one while a live view is paused. Two calls return the same
    /// `Arc` if nothing was published in between.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shown().snapshot()
    }

    /// What the header line says.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut status = self.shared.status();
        status.kept_from = self.shared.past.get().and_then(|past| past.kept_from());
        if let Some(back) = self.shared.back() {
            let theirs = back.status();
            let length = status.timeline.as_ref().map(|timeline| timeline.length);
            status.playback = theirs.playback.map(|playback| Playback {
                length: length.unwrap_or_default().max(playback.at),
                ..playback
            });
            status.paused = theirs.paused;
            status.behind = 0;
            status.failure = status.failure.or(theirs.failure);
            status.messages.extend(theirs.messages);
        }
        status
    }

    /// What is shown: the watch or replay itself, or what looks back beside it.
    fn shown(&self) -> Arc<Shared> {
        self.shared
            .back()
            .unwrap_or_else(|| Arc::clone(&self.shared))
    }

    /// A counter that grows with every new snapshot or status. From async code
    /// `changes().changed().await`; from a thread compare `*changes().borrow()`.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Waits until something was published since `seen`, for `timeout` at most, and returns the
    /// counter to pass the next time. Begin with 0. The only call that waits.
    #[must_use]
    pub fn wait_for_change(&self, seen: u64, timeout: Duration) -> u64 {
        let count = lock(&self.shared.count);
        let waited = self
            .shared
            .counted
            .wait_timeout_while(count, timeout, |count| *count == seen);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Live: freezes what [`Handle::snapshot`] returns, ingest goes on. Replay: stops the clock.
    pub fn pause(&self) {
        let shown = self.shown();
        shown.edit_status(|status| !std::mem::replace(&mut status.paused, true));
        shown.ask(Command::Pause);
    }

    /// Undoes [`Handle::pause`].
    pub fn resume(&self) {
        let shown = self.shown();
        shown.edit_status(|status| std::mem::replace(&mut status.paused, false));
        shown.ask(Command::Resume);
    }

    /// Replay: pauses and plays the next piece of input. Live: shows the present state and stays frozen.
    pub fn step(&self) {
        self.shown().ask(Command::Step);
    }

    /// Replay: sets the speed, kept within 0.1 and 1000.
    pub fn set_speed(&self, speed: f64) {
        self.shown().ask(Command::Speed(speed));
    }

    /// Jumps to this position, kept within the replay or what is kept of the watch. A watch goes on
    /// beside it, and is shown again from its end on.
    pub fn seek(&self, to: Duration) {
        let Some(past) = self.shared.past.get() else {
            self.shared.ask(Command::Seek(to));
            return;
        };
        if to >= past.length() {
            self.now();
            return;
        }
        let kept = past.kept_from().unwrap_or_default();
        if to < kept {
            self.tell("what came before this is not kept any more".to_owned());
        }
        let to = to.max(kept);
        if let Some(back) = self.shared.back() {
            back.ask(Command::Seek(to));
            return;
        }
        // The watch goes on behind it, so that its end is known.
        self.resume();
        // Held, so that its end cannot come before its beginning.
        let mut shown = lock(&self.shared.back);
        let back = past::look_back(&self.shared, past, to);
        let told = back.map(|back| *shown = Some(back));
        drop(shown);
        if let Err(error) = told {
            self.tell(format!("cannot look back: {}", in_words(&error)));
        }
        self.shared.changed();
    }

    /// Shows the present of a watch again.
    pub fn now(&self) {
        if let Some(back) = self.shared.back() {
            self.shared.return_from(&back);
        }
    }

    /// Reads lines of some ranks back, in the order in which they came. The page arrives on the channel, soon; if the sender is gone
    /// without a page, the request was refused (too many wait) or the engine has ended.
    #[must_use]
    pub fn log(&self, whose: Whose, request: LogRequest) -> Receiver<LogPage> {
        let (reply, page) = sync_channel(1);
        self.shown().ask(Command::Log {
            whose,
            request,
            reply,
        });
        page
    }

    /// Adds a message for the user.
    pub fn tell(&self, text: String) {
        self.shared.message(text);
    }

    /// Asks everything to end. Returns at once; whoever started the watch waits for its threads.
    pub fn shutdown(&self) {
        self.shared
            .edit_status(|status| !std::mem::replace(&mut status.shutdown, true));
        (self.shared.wake)();
        if let Some(back) = self.shared.back() {
            (back.wake)();
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
