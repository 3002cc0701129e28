//! How soon a finding is on screen while the job is still being written, with the real binary.
//!
//! ```text
//! UNHANG_REPEATS=20 cargo test --release --test live_latency -- --nocapture --test-threads=1
//! ```
//!
//! prints the rows of docs/performance.md. The limits that fail a test are generous: other work on
//! the machine must not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;

#[path = "support/live.rs"]
mod live;
#[path = "support/synth_job.rs"]
mod synth_job;
#[expect(dead_code, reason = "this test needs a part of it")]
#[path = "support/terminal.rs"]
mod terminal;

use live::{Files, Flood, Times};
use synth_job::job::Fault;
use terminal::Terminal;

const RANKS: u32 = 64;
/// No machine is that slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// What half of all findings must not exceed even beside other work; the aim is 0.5 s.
const SOON: Duration = Duration::from_secs(2);

/// Repeats of each measurement.
fn repeats() -> u64 {
    let asked = std::env::var("UNHANG_REPEATS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(2)
}

/// `unhang watch` without a terminal: its lines and when they came.
struct Lines {
    child: Child,
    lines: Receiver<(Instant, String)>,
    told: String,
}

impl Lines {
    fn watch(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_unhang"))
            .arg("watch")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                if sender.send((Instant::now(), line.unwrap())).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            told: String::new(),
        }
    }

    fn wait_for(&mut self, text: &str) -> Instant {
        loop {
            let Ok((at, line)) = self.lines.recv_timeout(PATIENCE) else {
                panic!("waited for {text:?}, but:\n{}", self.told);
            };
            self.told += &format!("{line}\n");
            if line.contains(text) {
                return at;
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn dashboard(folder: &Path) -> Terminal {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_unhang"));
    command.arg("watch");
    command.arg(folder);
    Terminal::start(command, 40, 120)
}

/// Writes a job at 20 rounds a second, with the fault in the last; returns when that began.
fn run(folder: &Path, fault: Fault, seed: u64) -> Instant {
    let job = live::job(RANKS, 24 << 10, fault, seed);
    live::write(&job, &mut Files::create(folder, RANKS), PACE)
}

const PACE: Duration = Duration::from_millis(50);

/// Measures one kind of fault on lines and on the dashboard. `write` writes the job and returns when
/// the deciding line was written, and what has to be read then: in a line, on the screen.
fn measure(what: &str, mut write: impl FnMut(&Path, u64) -> (Instant, String, String)) {
    let (mut lines, mut screen) = (Times::new(), Times::new());
    for seed in 0..repeats() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Lines::watch(folder.path());
        let terminal = dashboard(folder.path());
        let (written, line, title) = write(folder.path(), seed);
        lines.push(watch.wait_for(&line) - written);
        screen.push(terminal.wait_for(&title) - written);
    }
    lines.tell(&format!("{what}, lines"));
    screen.tell(&format!("{what}, dashboard"));
    assert!(lines.at(0.5) < SOON && screen.at(0.5) < SOON);
}

#[test]
fn a_mismatch_is_told_soon() {
    measure("mismatch", |folder, seed| {
        let rank = (seed * 7 % u64::from(RANKS)) as u32;
        let written = run(folder, Fault::Count(rank), seed);
        (written, "COLL001".to_owned(), format!("rank {rank} called"))
    });
}

/// A line in one rank's log while all others go on writing 4 MB/s.
fn in_the_flow(what: &str, text: &str, line: &str, title: &str) {
    let mut flood = None;
    measure(what, |folder, seed| {
        let _bytes = flood.take().map(Flood::stop);
        let files = Files::create(folder, RANKS);
        flood = Some(Flood::start(files, seed, 4 << 20, Some(9)));
        thread::sleep(Duration::from_secs(1));
        let mut log = live::open(folder, 9);
        let written = Instant::now();
        log.write_all(text.as_bytes()).unwrap();
        (written, line.to_owned(), title.to_owned())
    });
    let _bytes = flood.map(Flood::stop);
}

#[test]
fn a_warning_is_told_soon() {
    let text = "\n[2026-11-30 19:42:35] node-1:77:77 [1] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Tb3uCE to 33030532 bytes, error: No space left on device (28)\n";
    in_the_flow("WARN", text, "SHM001", "/dev/shm");
}

#[test]
fn a_death_is_told_soon() {
    let text = "Traceback (most recent call last):\n  File \"/srv/train.py\", line 88, in <module>\n    main()\nValueError: shard 17 is empty\n";
    in_the_flow("death", text, "DIED00", "ValueError");
}

#[test]
fn an_absence_is_told_when_patience_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = Lines::watch(folder.path());
    let terminal = dashboard(folder.path());
    let written = run(folder.path(), Fault::Skip(5), 1);
    let patience = Duration::from_secs(30);
    let (mut lines, mut screen) = (Times::new(), Times::new());
    lines.push((watch.wait_for("hung rank 5 never called") - written).saturating_sub(patience));
    screen.push((terminal.wait_for("H U N G") - written).saturating_sub(patience));
    lines.tell("absence, beyond its patience of 30 s, lines");
    screen.tell("absence, beyond its patience of 30 s, dashboard");
    assert!(lines.at(1.0) < SOON && screen.at(1.0) < SOON);
}

#[test]
fn keys_are_answered_while_everything_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::create(folder.path(), RANKS);
    let flood = Flood::start(files, 1, 400 << 20, None);
    let mut terminal = dashboard(folder.path());
    terminal.wait_for("64 of 64 ranks");
    let mut times = Times::new();
    for _ in 0..repeats().max(5) * 5 {
        let pressed = Instant::now();
        terminal.press("?");
        times.push(terminal.wait_for("Everywhere") - pressed);
        let pressed = Instant::now();
        terminal.press("?");
        times.push(terminal.wait_without("Everywhere") - pressed);
    }
    let written = flood.stop();
    times.tell("a key while everything is read");
    eprintln!("({} MiB were written meanwhile)", written >> 20);
    assert!(times.at(0.5) < SOON);
    terminal.press("q");
    let _status = terminal.end();
}

#[test]
fn an_idle_watch_costs_little() {
    let folder = tempfile::tempdir().unwrap();
    let job = live::job(8, 64 << 10, Fault::None, 3);
    let mut files = Files::create(folder.path(), 8);
    live::write(&job, &mut files, Duration::ZERO);
    let mut watch = Lines::watch(folder.path());
    let mut terminal = dashboard(folder.path());
    watch.wait_for("8 ranks");
    terminal.wait_for("8 ranks");
    let pids = [("lines", watch.child.id()), ("dashboard", terminal.pid())];
    let before = pids.map(|(_, pid)| live::cpu_time(pid));
    let watched = Duration::from_secs(if repeats() > 2 { 30 } else { 3 });
    thread::sleep(watched);
    for ((what, pid), before) in pids.into_iter().zip(before) {
        let used = (live::cpu_time(pid) - before).as_secs_f64() / watched.as_secs_f64();
        eprintln!(
            "| idle, 8 files, {what} | {:.2} % of a core |",
            used * 100.0
        );
        assert!(used < 0.1, "{what}: {used}");
    }
    terminal.press("q");
    let _status = terminal.end();
}
