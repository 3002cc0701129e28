//! The thread that owns the engine: takes inputs, keeps time, publishes snapshots.
//!
//! **Architecture invariant:** whatever reaches the engine is recorded first and in the same order,
//! with the same time. So a journal that is played again gives the same answer.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::handle::{Command, Following, LogRequest, Shared};
use super::lines::{LineReader, Lines};
use super::past::Past;
use super::recorder::{self, Recorder};
use super::timeline::{Tally, lines};
use crate::engine::Engine;
use crate::engine::input::{Input, Time};
use crate::engine::snapshot::Snapshot;
use crate::engine::vocab::{Class, Confidence, State};
use crate::sources::record::{Record, What};

/// Time between two snapshots: 10 Hz.
const PUBLISH: Duration = Duration::from_millis(100);
/// Making snapshots takes this part of the time at most.
const PUBLISH_SHARE: u32 = 10;
/// Time between two ticks: 4 Hz.
const TICK: Duration = Duration::from_millis(250);
/// What is shown after this time may be of half-read logs: the disk is slow, and silence is worse.
const CATCH_UP: Duration = Duration::from_secs(10);
/// Messages that wait for the engine. A chunk is 256 KiB at most.
pub(crate) const INBOX: usize = 64;

/// What sources say to the engine's thread.
pub(crate) enum Msg {
    /// An input.
    Record(Record),
    /// A message for the user.
    Message(String),
    /// How changes are noticed.
    Following(Following),
    /// One of the sources that were counted at the start has no more input.
    Done,
    /// Everything that was in the files at the start has been read.
    CaughtUp,
    /// A command waits.
    Wake,
}

/// The engine and what surrounds it, live and in a replay.
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) shared: Arc<Shared>,
    pub(crate) lines: Arc<Lines>,
    reader: LineReader,
    published: Option<u64>,
    last: Instant,
    cost: Duration,
    failed: bool,
    /// Bytes the engine took.
    bytes: u64,
    /// Bytes are kept for reading back.
    keeps: bool,
    /// What came when; a replay looks through all of it beforehand instead.
    tally: Option<Tally>,
}

impl Core {
    pub(crate) fn new(
        engine: Engine,
        shared: Arc<Shared>,
        lines: Arc<Lines>,
    ) -> std::io::Result<Self> {
        let reader = LineReader::start(Arc::clone(&lines))?;
        Ok(Self {
            engine,
            shared,
            lines,
            reader,
            published: None,
            last: Instant::now(),
            cost: Duration::ZERO,
            failed: false,
            bytes: 0,
            keeps: true,
            tally: None,
        })
    }

    /// Leaves keeping bytes for reading back to another one with the same lines.
    pub(crate) fn that_only_reads(mut self) -> Self {
        self.keeps = false;
        self
    }

    /// Hands one record to the engine and keeps its bytes for reading back.
    pub(crate) fn handle(&mut self, record: Record) {
        let Record { seen, what } = record;
        if let What::Other(Input::Source(_)) = what {
            self.shared.edit_status(|status| {
                status.sources += 1;
                true
            });
        }
        self.bytes += what.len();
        self.guarded(|engine| engine.handle(seen, what.as_input()));
        if self.keeps {
            self.lines.keep(what);
        }
    }

    /// Runs the engine; if it panics it is never called again, and the last snapshot stays.
    fn guarded<T>(&mut self, call: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        if self.failed {
            return None;
        }
        match catch_unwind(AssertUnwindSafe(|| call(&mut self.engine))) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.failed = true;
                let text = panic_text(panic.as_ref());
                self.shared.edit_status(|status| {
                    status.failure = Some(text);
                    true
                });
                None
            }
        }
    }

    /// Publishes if something changed and enough time has passed; else says how long to wait.
    /// After a quiet time a change is published at once.
    pub(crate) fn publish_if_due(&mut self, half_read: bool) -> Option<Duration> {
        if self.published == Some(self.engine.generation()) {
            return None;
        }
        let pace = PUBLISH.max(self.cost * PUBLISH_SHARE);
        let waited = self.last.elapsed();
        if waited < pace {
            return Some(pace.saturating_sub(waited));
        }
        if half_read {
            self.publish_with(withhold);
        } else {
            self.publish();
        }
        None
    }

    /// Publishes the present state.
    pub(crate) fn publish(&mut self) {
        self.publish_with(|_| ());
    }

    fn publish_with(&mut self, edit: impl FnOnce(&mut Snapshot)) {
        let started = Instant::now();
        let made = self.guarded(|engine| (engine.generation(), engine.snapshot()));
        if let Some((generation, mut snapshot)) = made {
            edit(&mut snapshot);
            self.published = Some(generation);
            if let Some(tally) = &mut self.tally {
                tally.look(&snapshot);
                let timeline = Arc::new(tally.timeline.clone());
                // Views are told by the snapshot that follows.
                self.shared.edit_status(|status| {
                    status.timeline = Some(timeline);
                    false
                });
            }
            self.shared.publish(snapshot);
        }
        self.last = Instant::now();
        self.cost = self.last - started;
    }

    /// Answers [`Command::Log`]; gives any other command back.
    pub(crate) fn log_or(&mut self, command: Command) -> Option<Command> {
        let Command::Log {
            whose,
            request,
            reply,
        } = command
        else {
            return Some(command);
        };
        let since = match request {
            LogRequest::After(place, _) => Some(place),
            LogRequest::Newest(_) | LogRequest::Before(..) => None,
        };
        if let Some(places) = self.guarded(|engine| engine.recent_lines(&whose, since)) {
            self.reader.ask(places, request, reply);
        }
        None
    }

    pub(crate) fn replace_engine(&mut self, engine: Engine) {
        self.engine = engine;
        self.published = None;
        self.bytes = 0;
        self.shared.edit_status(|status| {
            status.sources = 0;
            false
        });
    }
}

/// Takes away what half-read logs must not say: what is missing in them may stand in the other half.
fn withhold(snapshot: &mut Snapshot) {
    let verdict = &mut snapshot.verdict;
    verdict.state = State::Inconclusive;
    verdict.class = Class::Inconclusive;
    verdict.confidence = Confidence::Possible;
    verdict.summary = "the logs are being read; nothing is said before all are".to_owned();
    verdict.ranks.clear();
    verdict.hosts.clear();
    verdict.other_causes.clear();
    verdict.missing_evidence.clear();
    verdict.finding = None;
    snapshot.findings.clear();
    for rank in &mut snapshot.job.ranks {
        rank.guilty = false;
        rank.finding = None;
    }
    for host in &mut snapshot.job.hosts {
        host.odd = false;
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The engine's thread while a job is watched.
pub(crate) struct Live {
    pub(crate) core: Core,
    pub(crate) inbox: Receiver<Msg>,
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    /// Sources that have not said [`Msg::Done`].
    pub(crate) open: usize,
    /// Until when nothing is published because the files' old content is still being read.
    catching_up: Option<Instant>,
    now: Time,
    /// When the first input was seen.
    began: Option<Time>,
    /// Bytes taken when the view was frozen.
    frozen: Option<u64>,
    /// What came so far, to look back.
    past: Option<Arc<Past>>,
}

impl Live {
    pub(crate) fn new(
        mut core: Core,
        inbox: Receiver<Msg>,
        clock: Clock,
        recorder: Option<Recorder>,
        open: usize,
    ) -> Self {
        core.tally = Some(Tally::live());
        Self {
            core,
            inbox,
            clock,
            recorder,
            open,
            catching_up: None,
            now: Time(0),
            began: None,
            frozen: None,
            past: None,
        }
    }

    /// Says nothing of what is wrong and does not tick before [`Msg::CaughtUp`]: of half a job's logs the other half is
    /// missing, and that would be shown as a fault.
    pub(crate) fn catch_up_first(mut self) -> Self {
        self.catching_up = Some(Instant::now() + CATCH_UP);
        self
    }

    /// Runs until somebody asks for the end; the last state is published, and the journal is closed.
    pub(crate) fn run(mut self) {
        let mut tick = Instant::now() + TICK;
        while !self.core.shared.is_shut_down() {
            let now = Instant::now();
            let mut wait = tick.saturating_duration_since(now);
            self.catching_up.take_if(|until| *until <= now);
            self.begin_past();
            if self.frozen.is_none() {
                let half_read = self.catching_up.is_some();
                let due = self.core.publish_if_due(half_read);
                wait = due.map_or(wait, |due| due.min(wait));
            }
            match self.inbox.recv_timeout(wait) {
                Ok(Msg::Record(record)) => self.take(record),
                Ok(Msg::Message(text)) => self.core.shared.message(text),
                Ok(Msg::Following(following)) => self.following(following),
                Ok(Msg::CaughtUp) => self.caught_up(),
                Ok(Msg::Done) => self.done(),
                Ok(Msg::Wake) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= tick {
                tick = Instant::now() + TICK;
                self.tick();
            }
            while let Some(command) = self.core.shared.take_command() {
                self.obey(command);
            }
        }
        self.core.publish();
        if let Some(Err(error)) = self.recorder.take().map(Recorder::finish) {
            self.core.shared.message(recorder::stopped(&error));
        }
    }

    /// Records an input and hands it to the engine. Time never goes back behind this door.
    fn take(&mut self, mut record: Record) {
        if let Some(seen) = record.seen {
            self.now = self.now.max(seen);
            record.seen = Some(self.now);
            self.count(&record.what);
        }
        if let Some(past) = &self.past {
            past.push(&self.core.engine, &record);
        }
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = recorder.append(record.seen, &record.what.as_input())
        {
            self.recorder = None;
            self.core.shared.message(recorder::stopped(&error));
            self.core
                .shared
                .edit_status(|status| status.recording.take().is_some());
        }
        self.core.handle(record);
        if let Some(frozen) = self.frozen {
            let behind = self.core.bytes - frozen;
            self.core.shared.edit_status(|status| {
                std::mem::replace(&mut status.behind, behind) / 4096 != behind / 4096
            });
        }
    }

    /// What was written before the watch began has no time here.
    fn count(&mut self, what: &What) {
        let at = self.now.since(*self.began.get_or_insert(self.now));
        let lines = if self.catching_up.is_some() {
            0
        } else {
            lines(what)
        };
        if let Some(tally) = &mut self.core.tally {
            tally.count(at, lines);
        }
    }

    fn tick(&mut self) {
        // Once every pipe is closed nothing can happen any more, so time stands still too.
        // And what is still being read was written before the watch began.
        if self.open > 0 && self.catching_up.is_none() {
            let seen = Some(self.clock.now());
            self.take(Record {
                seen,
                what: What::Other(Input::Tick),
            });
        }
    }

    /// Begins to keep what comes, as soon as what was there before has been read: of that nobody knows
    /// when it came.
    fn begin_past(&mut self) {
        if self.past.is_some() || self.catching_up.is_some() || !self.core.engine.keeps_recent() {
            return;
        }
        self.now = self.now.max(self.clock.now());
        let began = *self.began.get_or_insert(self.now);
        let (engine, lines) = (&self.core.engine, Arc::clone(&self.core.lines));
        let past = Arc::new(Past::begin(engine, lines, began, self.now));
        self.core.shared.remember(Arc::clone(&past));
        self.past = Some(past);
    }

    fn following(&mut self, following: Following) {
        self.core.shared.edit_status(|status| {
            let changed = status.following != following;
            status.following = following;
            changed
        });
    }

    fn caught_up(&mut self) {
        // What was withheld is published though nothing new came.
        self.core.published = None;
        self.catching_up = None;
        self.core
            .shared
            .edit_status(|status| status.loading.take().is_some());
    }

    fn done(&mut self) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.core.publish();
            self.core
                .shared
                .edit_status(|status| !std::mem::replace(&mut status.ended, true));
        }
    }

    fn obey(&mut self, command: Command) {
        match self.core.log_or(command) {
            Some(Command::Pause) => self.frozen = Some(self.core.bytes),
            Some(Command::Resume) => {
                self.frozen = None;
                self.core
                    .shared
                    .edit_status(|status| std::mem::take(&mut status.behind) != 0);
                self.core.publish();
            }
            Some(Command::Step) if self.frozen.is_some() => {
                self.frozen = Some(self.core.bytes);
                self.core
                    .shared
                    .edit_status(|status| std::mem::take(&mut status.behind) != 0);
                self.core.publish();
            }
            // A live job has no other speed than its own.
            Some(Command::Step | Command::Speed(_) | Command::Seek(_) | Command::Log { .. })
            | None => {}
        }
    }
}

/// The sources' end of the inbox: waits while the engine is busy, and counts that.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) inbox: SyncSender<Msg>,
    pub(crate) shared: Arc<Shared>,
}

impl Sender {
    /// False once the engine's thread has ended.
    pub(crate) fn send(&self, msg: Msg) -> bool {
        match self.inbox.try_send(msg) {
            Ok(()) => true,
            Err(TrySendError::Full(msg)) => {
                self.shared.edit_status(|status| {
                    status.stalls += 1;
                    false
                });
                self.inbox.send(msg).is_ok()
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::handle::{Mode, Status};
    use crate::engine::Options;
    use crate::engine::catalog::Catalog;
    use crate::engine::ids::SourceId;

    #[test]
    fn a_panic_of_the_engine_is_told_and_the_last_state_stays() {
        let engine = Engine::new(Catalog::builtin(), Options::default());
        let first = engine.snapshot();
        let shared = Shared::new(first, Status::new(Mode::Live), Box::new(|| ()));
        let shared = Arc::new(shared);
        let mut core = Core::new(engine, Arc::clone(&shared), Arc::default()).expect("a thread");
        let bytes = |offset| Record {
            seen: Some(Time(1)),
            what: What::Bytes {
                source: SourceId(0),
                offset,
                chunk: b"a line\n".to_vec(),
            },
        };
        core.handle(bytes(0));
        core.publish();
        let handle = crate::app::handle::Handle {
            shared: Arc::clone(&shared),
        };
        let last = handle.snapshot();
        assert_eq!(last.job.ranks.len(), 1);
        core.guarded(|_| panic!("index {} is out of bounds", 7));
        assert_eq!(
            handle.status().failure.as_deref(),
            Some("index 7 is out of bounds")
        );
        core.handle(bytes(7));
        core.publish();
        assert!(Arc::ptr_eq(&handle.snapshot(), &last));
    }
}
