//! Watches a job: starts the threads of its sources and the one of the engine.
//!
//! ```text
//!  tail thread ──┐
//!  stdin thread ─┼─► bounded inbox ─► engine thread ─► Handle
//!  pipe threads ─┘      (waits, counted)   └─► recorder thread
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::clock::Clock;
use super::engine_thread::{Core, INBOX, Live, Msg, Sender};
use super::handle::{Following, Handle, Loading, Mode, Shared, Status};
use super::host;
use super::lines::Lines;
use super::ras::{Asking, listen as ras_listen, poll as ras_poll};
use super::recorder::Recorder;
use crate::engine::Engine;
use crate::engine::input::{EndReason, Input, SourceInfo, SourceKind};
use crate::engine::ras;
use crate::engine::snapshot::Snapshot;
use crate::error::{InputError, in_words};
use crate::sources::discover::{Discoverer, Found, Log};
use crate::sources::read::Reader;
use crate::sources::record::{Record, What};
use crate::sources::stdin;
use crate::sources::tail::{Tailer, hint::Hints, source_info};

/// Between two looks while files change.
const BUSY: Duration = Duration::from_millis(50);
/// Between two looks while nothing changes.
const CALM: Duration = Duration::from_millis(250);
/// Events do not make us look more often than this.
const CALLED: Duration = Duration::from_millis(20);
/// Between two words about how far reading has got.
const PROGRESS: Duration = Duration::from_millis(100);
/// Between two searches for new files.
const SEARCH: Duration = Duration::from_millis(500);
/// Looking and searching take one part in so many of a core at most.
const SHARE: u32 = 50;

/// What to watch.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// `PATH|GLOB|DIR|-`; none means the present folder.
    pub paths: Vec<PathBuf>,
    /// The user says that the job stands still, for this long if given.
    pub claim: Option<Option<Duration>>,
    /// Journal to write.
    pub record: Option<PathBuf>,
    /// Whether and how RAS is asked.
    pub ras: Asking,
    /// Leave the GPUs of this host alone.
    pub no_gpu: bool,
    /// Files that were not written since then are of another job.
    pub since: Option<SystemTime>,
}

/// A running watch. Dropping it without [`Watch::finish`] leaves its threads to end by themselves.
pub struct Watch {
    handle: Handle,
    engine: JoinHandle<()>,
    /// What was passed over at the start, and why.
    pub passed_over: Vec<(PathBuf, String)>,
    /// What was asked for and could not be used.
    pub problems: Vec<InputError>,
}

impl Watch {
    /// What views see.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the watch, closes the journal and returns the last state.
    #[must_use]
    pub fn finish(self) -> Arc<Snapshot> {
        // The last state is the present one, wherever one looks.
        self.handle.now();
        self.handle.shutdown();
        // The thread catches the engine's panics; should it still panic, the last snapshot stands.
        let _panicked = self.engine.join();
        self.handle.snapshot()
    }
}

/// Starts watching. The first look at the files happens before this returns, so what is missing is
/// known at once.
///
/// # Errors
/// If nothing at all can be watched, the journal cannot be created, or a thread cannot be started.
pub fn start(plan: &Plan, engine: Engine) -> Result<Watch, InputError> {
    raise_open_files();
    let recorder = plan.record.as_deref().map(Recorder::create).transpose()?;
    let clock = Clock::start();
    let (inbox, outbox) = sync_channel(INBOX);
    let mut status = Status::new(Mode::Live);
    status.recording = plan.record.as_ref().map(|path| path.display().to_string());
    let wake = inbox.clone();
    let wake = Box::new(move || drop(wake.try_send(Msg::Wake)));
    let shared = Arc::new(Shared::new(engine.snapshot(), status, wake));
    let sender = Sender {
        inbox,
        shared: Arc::clone(&shared),
    };
    let lines = Arc::new(Lines::default());

    // Sources are announced here, before any thread runs; the inbox is not read yet, so they wait aside.
    let mut first = Vec::new();
    let discoverer = Discoverer::new(&plan.paths).since(plan.since);
    let mut tailer = Tailer::new(discoverer, 0);
    let found = tailer.search(&mut |input| first.push(What::from_input(&input)));
    let Found {
        logs: pipes,
        answers,
        dumps: _,
        journals,
        stdin,
        passed_over,
        mut problems,
    } = found;
    problems.extend(journals.iter().map(|path| journal_is_not_live(path)));
    let asked = !plan.ras.endpoints.is_empty();
    // Known before this returns, so that nobody sees an empty job for a healthy one.
    shared.edit_status(|status| {
        let progress = tailer.progress();
        let loading = progress.bytes < progress.of;
        status.loading = loading.then_some(Loading {
            progress,
            took: Duration::ZERO,
        });
        false
    });
    let anything =
        asked || stdin || !pipes.is_empty() || !tailer.is_empty() || waits_for_files(&plan.paths);
    if !anything {
        let nothing = || InputError::because("watch", Path::new("nothing"), "no input");
        return Err(if problems.is_empty() {
            nothing()
        } else {
            problems.remove(0)
        });
    }
    // Nobody but the user ends a watch that asks RAS.
    let pumps = pipes.len() + usize::from(stdin) + usize::from(asked);
    let follows = !tailer.is_empty() || waits_for_files(&plan.paths);
    let core = Core::new(engine, Arc::clone(&shared), Arc::clone(&lines))
        .map_err(|error| no_thread(&error))?;
    let live = Live::new(core, outbox, clock, recorder, pumps + usize::from(follows));
    let live = if follows { live.catch_up_first() } else { live };
    let engine = spawn("engine", move || live.run())?;

    first.extend(saved_answers(&mut tailer, &answers));
    for what in first {
        sender.send(Msg::Record(Record {
            seen: Some(clock.now()),
            what,
        }));
    }
    if let Some(stuck_for) = plan.claim {
        let what = What::Other(Input::Claim { stuck_for });
        sender.send(Msg::Record(Record {
            seen: Some(clock.now()),
            what,
        }));
    }
    if stdin {
        let id = tailer.new_source();
        let name = "stdin".to_owned();
        let info = SourceInfo {
            id,
            name,
            kind: SourceKind::Stdin,
            host: None,
            pid: None,
            rank: None,
        };
        start_pump(info, Pipe::Stdin, sender.clone(), clock)?;
    }
    for log in pipes {
        let info = source_info(tailer.new_source(), &log, SourceKind::Stdin);
        start_pump(info, Pipe::Named(log.path), sender.clone(), clock)?;
    }
    if !plan.ras.off {
        let ids: Vec<_> = (0..=plan.ras.endpoints.len())
            .map(|_| tailer.new_source())
            .collect();
        let news = Arc::new(AtomicBool::new(false));
        for endpoint in plan.ras.endpoints.iter().filter(|_| plan.ras.monitor) {
            let (id, endpoint) = (tailer.new_source(), endpoint.clone());
            let (asking, sender, news) = (plan.ras.clone(), sender.clone(), Arc::clone(&news));
            spawn("ras-monitor", move || {
                ras_listen(&asking, &endpoint, id, &news, &sender, clock);
            })?;
        }
        let (asking, sender) = (plan.ras.clone(), sender.clone());
        spawn("ras", move || {
            ras_poll(&asking, &ids, &news, &sender, clock);
        })?;
    }
    let what = if plan.no_gpu {
        host::What::Processes
    } else {
        host::What::Everything
    };
    let (looking, written) = (sender.clone(), Arc::clone(&lines));
    let kernel = tailer.new_source();
    spawn("host", move || {
        host::poll(what, kernel, &looking, &written, clock);
    })?;
    if follows {
        spawn("tail", move || follow(tailer, &lines, &sender, clock))?;
    }
    Ok(Watch {
        handle: Handle { shared },
        engine,
        passed_over,
        problems,
    })
}

/// Every followed file stays open, so that a rotation loses nothing; the usual limit of 1,024 is
/// only the soft one. If it cannot be raised, opening the files beyond it fails and is told.
fn raise_open_files() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _refused = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, InputError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| no_thread(&error))
}

fn no_thread(error: &io::Error) -> InputError {
    InputError::io("start a thread for", Path::new("watching"), error)
}

fn journal_is_not_live(path: &Path) -> InputError {
    InputError::because("watch", path, "it is a journal, which does not grow")
        .hint("play it with `unhang replay`")
}

/// True if files may still appear: a folder or a pattern was named, or nothing at all.
fn waits_for_files(paths: &[PathBuf]) -> bool {
    paths.is_empty()
        || paths
            .iter()
            .any(|path| path.is_dir() || path.to_string_lossy().contains(['*', '?', '[']))
}

/// Saved answers of RAS, read once: a program that asks again writes a new file.
fn saved_answers(tailer: &mut Tailer, answers: &[Log]) -> Vec<What> {
    let mut inputs = Vec::new();
    for answer in answers {
        let source = tailer.new_source();
        let info = source_info(source, answer, SourceKind::Ras);
        inputs.push(What::Other(Input::Source(info)));
        let (why, detail) = match Reader::whole(answer, ras::REPLY_BYTES, "answer of RAS") {
            Ok(reply) => {
                inputs.push(What::Ras { source, reply });
                (EndReason::Eof, None)
            }
            Err(error) => (EndReason::Unreadable, Some(error.why)),
        };
        inputs.push(What::Other(Input::Ended {
            source,
            why,
            detail,
        }));
    }
    inputs
}

enum Pipe {
    Stdin,
    Named(PathBuf),
}

/// Starts a thread that reads a pipe to its end.
fn start_pump(
    info: SourceInfo,
    pipe: Pipe,
    sender: Sender,
    clock: Clock,
) -> Result<(), InputError> {
    let send = move |what: What| {
        sender
            .send(Msg::Record(Record {
                seen: Some(clock.now()),
                what,
            }))
            .then(|| sender.clone())
    };
    spawn("pipe", move || {
        let id = info.id;
        if send(What::Other(Input::Source(info))).is_none() {
            return;
        }
        let sink = |offset, bytes: &[u8]| {
            send(What::Bytes {
                source: id,
                offset,
                chunk: bytes.to_vec(),
            })
            .is_some()
        };
        let result = match pipe {
            Pipe::Stdin => stdin::pump(io::stdin(), sink),
            // Opening waits for the writer.
            Pipe::Named(path) => std::fs::File::open(path).and_then(|file| stdin::pump(file, sink)),
        };
        let why = if result.is_ok() {
            EndReason::Closed
        } else {
            EndReason::Unreadable
        };
        let detail = result.err().as_ref().map(in_words);
        if let Some(sender) = send(What::Other(Input::Ended {
            source: id,
            why,
            detail,
        })) {
            sender.send(Msg::Done);
        }
    })?;
    Ok(())
}

/// The tail thread: looks, searches, sleeps.
fn follow(mut tailer: Tailer, lines: &Lines, sender: &Sender, clock: Clock) {
    let (called, calls) = sync_channel(1);
    let mut hints = Hints::new(move || {
        // One call that waits is enough.
        let _waiting = called.try_send(());
    });
    let mut told = None;
    let mut searched = Instant::now();
    let mut search_every = Duration::ZERO;
    let mut pause = BUSY;
    let mut caught_up = false;
    let begun = Instant::now();
    let mut told_progress = begun;
    loop {
        let mut open = true;
        let mut sink = |input: Input<'_>| {
            let record = Record {
                seen: Some(clock.now()),
                what: What::from_input(&input),
            };
            open &= sender.send(Msg::Record(record));
        };
        let started = Instant::now();
        if search_every.is_zero() || searched.elapsed() >= search_every {
            let found = tailer.search(&mut sink);
            search_every = SEARCH.max(started.elapsed() * SHARE);
            searched = Instant::now();
            for problem in found.problems {
                sender.send(Msg::Message(problem.to_string()));
            }
            for what in saved_answers(&mut tailer, &found.answers) {
                sender.send(Msg::Record(Record {
                    seen: Some(clock.now()),
                    what,
                }));
            }
            hints.watch(tailer.folders());
            tell(&hints, &mut told, sender);
            for (source, path) in tailer.take_new_files() {
                lines.in_file(source, path);
            }
        }
        let round = tailer.poll(&mut sink);
        for problem in tailer.take_problems() {
            sender.send(Msg::Message(problem.to_string()));
        }
        if !open || sender.shared.is_shut_down() {
            return;
        }
        if !caught_up && told_progress.elapsed() >= PROGRESS {
            told_progress = Instant::now();
            let progress = tailer.progress();
            let took = begun.elapsed();
            sender.shared.edit_status(|status| {
                status.loading = Some(Loading { progress, took });
                true
            });
        }
        if round.more {
            continue;
        }
        if !std::mem::replace(&mut caught_up, true) {
            sender.send(Msg::CaughtUp);
        }
        pause = if round.changing {
            BUSY
        } else {
            (pause * 2).min(CALM)
        };
        wait(pause.max(started.elapsed() * SHARE / 2), &calls);
    }
}

/// Sleeps, or until an event calls.
fn wait(pause: Duration, calls: &Receiver<()>) {
    let started = Instant::now();
    match calls.recv_timeout(pause) {
        Ok(()) => thread::sleep(CALLED.min(pause).saturating_sub(started.elapsed())),
        Err(RecvTimeoutError::Timeout) => {}
        // Without a watcher nobody calls.
        Err(RecvTimeoutError::Disconnected) => {
            thread::sleep(pause.saturating_sub(started.elapsed()));
        }
    }
}

fn tell(hints: &Hints, told: &mut Option<Following>, sender: &Sender) {
    let following = match hints.why_polling() {
        Some(why) => Following::Polling(why.to_owned()),
        None => Following::Events,
    };
    if told.as_ref() != Some(&following) {
        *told = Some(following.clone());
        sender.send(Msg::Following(following));
    }
}
