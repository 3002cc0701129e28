//! Runs another program beside the dashboard: bounded in time and output, ended with its whole group.
//!
//! ```text
//!  Task::start ─► child in a process group of its own ─► two readers ─► Task::seen
//!                    ▲ keeper: deadline, stop ─► SIGTERM, a moment later SIGKILL, to the group
//! ```
//!
//! Nothing here waits but the threads; dropping a [`Task`] ends its group.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::error::in_words;

/// Bytes kept of each stream; more is counted and thrown away.
const KEPT: usize = 256 << 10;
/// Between two looks at the child.
const LOOK: Duration = Duration::from_millis(20);
/// What SIGTERM is given before SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// What the readers are given after the child has ended: somebody else may hold its pipes.
const DRAIN: Duration = Duration::from_millis(500);

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// How long it may take.
    pub patience: Duration,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Status(i32),
    /// By a signal of somebody else.
    Signal(i32),
    /// It took longer than it may.
    TimedOut,
    /// The user stopped it.
    Stopped,
    /// It could not be started, or waited for: why.
    Failed(String),
}

/// What is known of a task at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The first bytes of its standard output, as they are: a view must escape them.
    pub out: Vec<u8>,
    /// The first bytes of its standard error, likewise.
    pub err: Vec<u8>,
    /// Bytes of both that were thrown away.
    pub dropped: u64,
    /// How it ended, if it did.
    pub end: Option<End>,
    /// How long it ran, or has run.
    pub took: Duration,
    /// Grows with every change but that of `took`.
    pub generation: u64,
}

/// A program that runs.
#[derive(Debug)]
pub struct Task {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    started: Instant,
}

impl Task {
    /// Starts it. What goes wrong is told as its end.
    #[must_use]
    pub fn start(order: &Order) -> Self {
        let task = Self {
            seen: Arc::default(),
            stop: Arc::default(),
            started: Instant::now(),
        };
        let child = Command::new(&order.program)
            .args(&order.args)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match child {
            Ok(child) => task.keep(child, order.patience),
            Err(error) => task.end(End::Failed(in_words(&error))),
        }
        task
    }

    /// What is known of it now.
    #[must_use]
    pub fn seen(&self) -> Seen {
        let mut seen = lock(&self.seen).clone();
        if seen.end.is_none() {
            seen.took = self.started.elapsed();
        }
        seen
    }

    /// [`Seen::generation`] alone.
    #[must_use]
    pub fn generation(&self) -> u64 {
        lock(&self.seen).generation
    }

    /// Ends it; returns at once, the end follows.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn end(&self, end: End) {
        finish(&self.seen, self.started, end);
    }

    fn keep(&self, mut child: Child, patience: Duration) {
        let readers = [
            child
                .stdout
                .take()
                .map(|pipe| read(pipe, &self.seen, false)),
            child.stderr.take().map(|pipe| read(pipe, &self.seen, true)),
        ];
        let (seen, stop, started) = (Arc::clone(&self.seen), Arc::clone(&self.stop), self.started);
        thread::spawn(move || {
            let end = wait(&mut child, &stop, started + patience);
            let until = Instant::now() + DRAIN;
            let reading = || readers.iter().flatten().any(|reader| !reader.is_finished());
            while reading() && Instant::now() < until {
                thread::sleep(LOOK);
            }
            finish(&seen, started, end);
        });
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.stop();
        // Whoever leaves the dashboard may end this process next, and the keeper with it.
        let until = Instant::now() + GRACE + DRAIN;
        while lock(&self.seen).end.is_none() && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }
}

/// Waits for the end of the child and ends its group. The child is reaped last: until then its number, which
/// is the group's, is nobody else's.
fn wait(child: &mut Child, stop: &AtomicBool, deadline: Instant) -> End {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let mut asked: Option<(End, Instant)> = None;
    while runs(group) {
        match &asked {
            None => {
                let why = match stop.load(Ordering::Relaxed) {
                    true => Some(End::Stopped),
                    false => (Instant::now() >= deadline).then_some(End::TimedOut),
                };
                if let Some(why) = why {
                    let _gone = killpg(group, Signal::SIGTERM);
                    // One that is stopped hears nothing else.
                    let _gone = killpg(group, Signal::SIGCONT);
                    asked = Some((why, Instant::now() + GRACE));
                }
            }
            Some((_, until)) if Instant::now() >= *until => {
                let _gone = killpg(group, Signal::SIGKILL);
            }
            Some(_) => {}
        }
        thread::sleep(LOOK);
    }
    // What it left behind.
    let _gone = killpg(group, Signal::SIGKILL);
    match (asked, child.wait()) {
        (Some((why, _)), _) => why,
        (None, Ok(status)) => of_status(status),
        (None, Err(error)) => End::Failed(in_words(&error)),
    }
}

/// True until it has ended; it is not reaped.
fn runs(child: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    matches!(
        waitid(Id::Pid(child), flags),
        Ok(WaitStatus::StillAlive) | Err(Errno::EINTR)
    )
}

fn of_status(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Status(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Failed("its status is unknown".to_owned()),
    }
}

fn read(
    mut pipe: impl Read + Send + 'static,
    seen: &Arc<Mutex<Seen>>,
    error: bool,
) -> thread::JoinHandle<()> {
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        let mut buf = [0; 8 << 10];
        // What cannot be read has ended.
        while let Ok(n @ 1..) = pipe.read(&mut buf) {
            let mut seen = lock(&seen);
            let kept = if error { &mut seen.err } else { &mut seen.out };
            let room = n.min(KEPT.saturating_sub(kept.len()));
            kept.extend_from_slice(&buf[..room]);
            seen.dropped += (n - room) as u64;
            seen.generation += 1;
        }
    })
}

fn finish(seen: &Mutex<Seen>, started: Instant, end: End) {
    let mut seen = lock(seen);
    seen.took = started.elapsed();
    seen.end = Some(end);
    seen.generation += 1;
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Task {
        Task::start(&Order {
            program: PathBuf::from("/bin/sh"),
            args: vec!["-c".into(), script.into()],
            patience,
        })
    }

    fn ended(task: &Task) -> Seen {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let seen = task.seen();
            if seen.end.is_some() {
                return seen;
            }
            assert!(Instant::now() < until, "it does not end: {seen:?}");
            thread::yield_now();
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_and_status_are_kept() {
        let seen = ended(&shell("echo out; echo err >&2; exit 7", LONG));
        assert_eq!(seen.end, Some(End::Status(7)));
        assert_eq!(
            (&seen.out[..], &seen.err[..]),
            (&b"out\n"[..], &b"err\n"[..])
        );
        assert_eq!(ended(&shell("kill -9 $$", LONG)).end, Some(End::Signal(9)));
        let missing = Task::start(&Order {
            program: PathBuf::from("/nonexistent"),
            args: Vec::new(),
            patience: LONG,
        });
        assert!(matches!(ended(&missing).end, Some(End::Failed(why)) if why.contains("no such")));
    }

    #[test]
    fn megabytes_are_counted_and_thrown_away() {
        let seen = ended(&shell("head -c 5000000 /dev/zero", LONG));
        assert_eq!(seen.end, Some(End::Status(0)));
        assert_eq!(
            (seen.out.len(), seen.dropped),
            (KEPT, 5_000_000 - KEPT as u64)
        );
    }

    /// True while a process has this file open.
    fn held(path: &std::path::Path) -> bool {
        let folders = std::fs::read_dir("/proc").expect("/proc").flatten();
        folders
            .filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok())
            .flat_map(|fds| fds.flatten())
            .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path))
    }

    #[test]
    fn what_hangs_is_ended_with_all_its_children() {
        for (script, stop) in [
            ("exec 9>$0; echo go; sleep 600 & sleep 600", false),
            (
                "exec 9>$0; trap '' TERM; echo go; while :; do sleep 1; done",
                true,
            ),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("held");
            let task = Task::start(&Order {
                program: PathBuf::from("/bin/sh"),
                args: vec!["-c".into(), script.into(), file.clone().into()],
                patience: if stop { LONG } else { Duration::from_secs(1) },
            });
            let until = Instant::now() + LONG;
            while task.seen().out.is_empty() {
                assert!(Instant::now() < until);
                thread::yield_now();
            }
            if stop {
                drop(task);
            } else {
                assert_eq!(ended(&task).end, Some(End::TimedOut));
            }
            while held(&file) {
                assert!(Instant::now() < until, "{script}: a child is left");
                thread::yield_now();
            }
        }
    }
}
