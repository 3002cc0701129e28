//! The parent: starts a child for each rank, hands the unique id on, waits for every step with a deadline,
//! and ends all of them whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::child::{Fault as Planted, Task};
use super::outcome::{Ended, Fault, Hop, Outcome, RankOutcome, Timed, fault};
use super::plan::{NOT_INHERITED, Plan, Seat};
use super::protocol::{Event, LINE_BYTES, Step};
use super::remains::{Left, diagnose};
use crate::engine::Engine;
use crate::error::InputError;
use crate::probe::gpu::Sampler;

/// The hidden subcommand that a child is started with.
pub const CHILD: &str = "selftest-rank";
/// After a rank has failed, the others may still say why they fail too.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks at deadlines.
const LOOK: Duration = Duration::from_millis(50);
/// GPUs that do not answer are waited for no longer than this, after everything else.
const GPU_PATIENCE: Duration = Duration::from_secs(2);

/// What somebody who watches is told.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// Every rank has ended this step; the slowest took this long.
    Step(Step, Duration),
}

/// How a run is done.
pub struct Runner<'a> {
    /// The binary whose hidden subcommand is a rank.
    pub program: &'a Path,
    /// Where logs go; removed at the end if the run passes.
    pub scratch: &'a Path,
    /// An engine that knows the rules.
    pub engine: Engine,
    /// True to end at once.
    pub interrupted: &'a AtomicBool,
    /// Faults to plant, by rank: for tests of the test.
    pub planted: BTreeMap<u32, (Step, Planted)>,
    /// Told as it goes.
    pub progress: &'a mut dyn FnMut(Progress),
    /// The ranks of other processes, if there are any.
    pub others: Option<Others>,
}

/// The unique id on its way between processes.
#[derive(Debug)]
pub struct Others {
    /// To them, from rank 0's process.
    pub out: Sender<String>,
    /// From them, in all others.
    pub into: Receiver<String>,
}

enum Heard {
    Event(Event),
    Noise(Vec<u8>),
    Closed,
}

struct Rank {
    outcome: RankOutcome,
    child: Child,
    stdin: Option<ChildStdin>,
    /// Its step began.
    since: Instant,
    /// It last got on: the deadline counts from here.
    moved: Instant,
    noise: Option<File>,
    closed: bool,
    status: Option<ExitStatus>,
}

impl Runner<'_> {
    /// Runs the plan to its end.
    ///
    /// # Errors
    /// If nothing could be started. What goes wrong after that is in the outcome.
    pub fn run(self, plan: &Plan) -> Result<Outcome, InputError> {
        self.run_and_leave(plan).map(|(outcome, _)| outcome)
    }

    /// Runs the plan to its end, and gives what it left as well, for a diagnosis beside other hosts'.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn run_and_leave(mut self, plan: &Plan) -> Result<(Outcome, Left), InputError> {
        let started = Instant::now();
        fs::create_dir_all(self.scratch)
            .map_err(|error| InputError::io("create", self.scratch, &error))?;
        let gpus = ask_gpus();
        let (sender, heard) = channel();
        let mut ranks = Vec::new();
        for seat in &plan.seats {
            match self.start(plan, seat, &sender) {
                Ok(rank) => ranks.push(rank),
                Err(error) => {
                    end_all(&mut ranks);
                    return Err(InputError::io("start", self.program, &error));
                }
            }
        }
        drop(sender);
        let mut outcome = Outcome {
            world: plan.world,
            ranks: Vec::new(),
            right: Default::default(),
            wrong: Vec::new(),
            timed: Vec::new(),
            fault: None,
            took: Duration::ZERO,
            paths: Vec::new(),
            hops: Vec::new(),
            diagnosis: None,
            logs: Some(self.scratch.to_owned()),
        };
        self.follow(plan, &mut ranks, &heard, &mut outcome);
        for rank in &mut ranks {
            rank.outcome.state = state_of(rank.child.id());
        }
        let all: Vec<&RankOutcome> = ranks.iter().map(|rank| &rank.outcome).collect();
        outcome.fault = outcome.fault.or_else(|| fault(&all));
        end_all(&mut ranks);
        outcome.took = started.elapsed();
        outcome.ranks = ranks.into_iter().map(|rank| rank.outcome).collect();
        outcome.hops = hops(self.scratch, plan);
        let paths: BTreeSet<&String> = outcome.hops.iter().map(|hop| &hop.way).collect();
        outcome.paths = paths.into_iter().cloned().collect();
        let sampler = gpus.recv_timeout(GPU_PATIENCE).ok();
        let gpus = sampler.map(|sampler| {
            sampler.wait_for_all(GPU_PATIENCE);
            sampler.sample()
        });
        let left = Left::of(self.scratch, plan, &outcome, gpus);
        outcome.diagnosis = Some(Box::new(diagnose(self.engine, &[&left], &outcome)));
        Ok((outcome, left))
    }

    fn start(&self, plan: &Plan, seat: &Seat, sender: &Sender<(usize, Heard)>) -> io::Result<Rank> {
        let sharers = plan.seats.iter().filter(|s| s.device == seat.device);
        let library = plan.libraries.get(&seat.rank).or(plan.library.as_ref());
        let task = Task {
            rank: seat.rank,
            world: plan.world,
            device: seat.device,
            ops: plan.ops.clone(),
            timed: plan.timed.clone(),
            sizes: plan.sizes,
            correctness: plan.correctness,
            sharers: u32::try_from(sharers.count()).unwrap_or(u32::MAX),
            parent: nix::unistd::getpid().as_raw(),
            library: library.cloned(),
            fault: self.planted.get(&seat.rank).copied(),
            long: self
                .planted
                .values()
                .any(|(_, fault)| *fault == Planted::StopMidway),
        };
        let task = serde_json::to_string(&task).map_err(io::Error::other)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log_of(self.scratch, seat.rank))?;
        let mut command = Command::new(self.program);
        command.arg(CHILD).arg(task);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        command
            .env("NCCL_DEBUG", "INFO")
            .env(
                "NCCL_DEBUG_SUBSYS",
                "INIT,BOOTSTRAP,ENV,NET,GRAPH,P2P,SHM,TUNING",
            )
            .env("NCCL_DEBUG_FILE", nccl_log_of(self.scratch, seat.rank));
        if let Some(library) = library {
            command.env("LD_LIBRARY_PATH", beside(self.scratch, seat.rank, library)?);
        }
        if let Some(id) = &seat.host_id {
            command.env("NCCL_HOSTID", id);
        }
        let own = plan.env_of.get(&seat.rank).into_iter().flatten();
        for (name, value) in plan.env.iter().chain(own) {
            // NCCL takes an empty value for none in most places, and for a value in some.
            if value.is_empty() {
                command.env_remove(name);
            } else {
                command.env(name, value);
            }
        }
        // A group of its own: a Ctrl-C is for the parent, which then ends all.
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .spawn()?;
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            let (sender, at) = (sender.clone(), seat.rank - plan.seats[0].rank);
            thread::spawn(move || listen(stdout, at as usize, &sender));
        }
        Ok(Rank {
            outcome: RankOutcome {
                rank: seat.rank,
                device: seat.device,
                pid: child.id(),
                done: Vec::new(),
                in_step: None,
                failed: None,
                state: None,
                ended: None,
                facts: BTreeMap::new(),
                noise: 0,
                finished: false,
            },
            child,
            stdin,
            since: Instant::now(),
            moved: Instant::now(),
            noise: Some(log),
            closed: false,
            status: None,
        })
    }

    /// Listens until every rank is done, one has failed and the others had time to, or a deadline passes.
    fn follow(
        &mut self,
        plan: &Plan,
        ranks: &mut [Rank],
        heard: &Receiver<(usize, Heard)>,
        outcome: &mut Outcome,
    ) {
        let mut checks: BTreeMap<String, u32> = BTreeMap::new();
        let mut failing_since: Option<Instant> = None;
        let mut told = Step::ALL.iter().copied().peekable();
        loop {
            match heard.recv_timeout(LOOK) {
                Ok((at, Heard::Event(event))) => {
                    if let (Event::Id(id), Some(others)) = (&event, &self.others) {
                        // They are gone only if all is over.
                        let _gone = others.out.send(id.clone());
                    }
                    take(ranks, at, event, outcome, &mut checks);
                }
                Ok((at, Heard::Noise(bytes))) => ranks[at].keep(&bytes),
                Ok((at, Heard::Closed)) => ranks[at].closed = true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK),
            }
            if let Some(id) = self.others.as_ref().and_then(|o| o.into.try_recv().ok()) {
                take(ranks, 0, Event::Id(id), outcome, &mut checks);
            }
            while let Some(step) = told.peek().copied() {
                let took = |rank: &Rank| {
                    let mut done = rank.outcome.done.iter();
                    done.find(|(s, _)| *s == step).map(|(_, t)| *t)
                };
                let times: Option<Vec<Duration>> = ranks.iter().map(took).collect();
                let skipped = ranks.iter().all(|r| r.outcome.finished);
                match times.and_then(|times| times.into_iter().max()) {
                    Some(longest) => (self.progress)(Progress::Step(step, longest)),
                    None if skipped => {}
                    None => break,
                }
                told.next();
            }
            for rank in ranks.iter_mut() {
                if rank.status.is_none() {
                    rank.status = rank.child.try_wait().ok().flatten();
                }
                rank.outcome.ended = rank.status.map(|status| match status.signal() {
                    Some(signal) => Ended::Signal(signal),
                    None => Ended::Status(status.code().unwrap_or(-1)),
                });
            }
            let done = |rank: &Rank| rank.outcome.finished && rank.status.is_some();
            if ranks.iter().all(done) {
                break;
            }
            // What a rank wrote before it ended is heard first.
            let failed = |rank: &Rank| {
                rank.outcome.failed.is_some()
                    || rank.status.is_some() && rank.closed && !rank.outcome.finished
            };
            if ranks.iter().any(failed) {
                let since = *failing_since.get_or_insert_with(Instant::now);
                if since.elapsed() > GRACE || ranks.iter().all(|r| failed(r) || done(r)) {
                    break;
                }
            }
            let late = |rank: &Rank| {
                let step = rank.outcome.in_step.map_or(Step::Load, |(step, _)| step);
                rank.status.is_none() && rank.moved.elapsed() > plan.deadline(step)
            };
            if ranks.iter().any(late) {
                break;
            }
            if self.interrupted.load(Ordering::Relaxed) {
                outcome.fault = Some(Fault::Interrupted);
                break;
            }
        }
        for rank in ranks.iter_mut() {
            let waited = rank.since.elapsed();
            if let Some((_, time)) = &mut rank.outcome.in_step {
                *time = waited;
            }
        }
        let world = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        outcome.right = checks
            .into_iter()
            .filter(|(_, ranks)| *ranks == world)
            .map(|(name, _)| name)
            .collect();
    }
}

impl Rank {
    /// Keeps what a library printed in the rank's log.
    fn keep(&mut self, bytes: &[u8]) {
        self.outcome.noise += bytes.len() as u64;
        self.log(bytes);
    }

    /// Adds a line of the test's own to the rank's log: a rank that hangs or dies before NCCL prints anything
    /// is in the logs too, and the driver's errors meet the rules.
    fn note(&mut self, what: &str) {
        let line = format!("unhang: rank {} {what}\n", self.outcome.rank);
        self.log(line.as_bytes());
    }

    fn log(&mut self, bytes: &[u8]) {
        if let Some(log) = &mut self.noise
            && log.write_all(bytes).is_err()
        {
            self.noise = None;
        }
    }

    fn say(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            // A child that is gone is noticed by its exit.
            let _gone = stdin
                .write_all(line.as_bytes())
                .and_then(|()| stdin.flush());
        }
    }
}

fn take(
    ranks: &mut [Rank],
    at: usize,
    event: Event,
    outcome: &mut Outcome,
    checks: &mut BTreeMap<String, u32>,
) {
    let rank = &mut ranks[at];
    if event.is_progress() {
        rank.moved = Instant::now();
    }
    match event {
        Event::Called => {}
        Event::Begin(step) => {
            rank.since = Instant::now();
            rank.outcome.in_step = Some((step, Duration::ZERO));
            rank.note(&format!("begins step {}", step.name()));
        }
        Event::End(step) => {
            rank.outcome.done.push((step, rank.since.elapsed()));
            rank.outcome.in_step = None;
            rank.since = Instant::now();
        }
        Event::Id(id) => {
            let line = format!("{id}\n");
            for rank in ranks {
                rank.say(&line);
            }
        }
        Event::Fact { name, value } => {
            rank.outcome.facts.insert(name, value);
        }
        Event::Check { what, wrong: None } => *checks.entry(what).or_default() += 1,
        Event::Check {
            what,
            wrong: Some(wrong),
        } => outcome.wrong.push((what, rank.outcome.rank, wrong)),
        Event::Timed {
            op,
            bytes,
            seconds,
            chosen,
        } => {
            let timed = Timed {
                op,
                bytes,
                seconds,
                chosen,
            };
            let known = outcome
                .timed
                .iter_mut()
                .find(|t| t.op == op && t.bytes == bytes);
            match known {
                Some(known) => known.merge(timed),
                None => outcome.timed.push(timed),
            }
        }
        Event::Fail { step, what, detail } => {
            rank.outcome.in_step = None;
            // What NCCL reports stands in its own log.
            if !what.starts_with("nccl") {
                let more = detail.as_deref().map(|detail| format!(" ({detail})"));
                let more = more.unwrap_or_default();
                rank.note(&format!("failed in step {}: {what}{more}", step.name()));
            }
            rank.outcome.failed = Some((step, what, detail));
        }
        Event::Done => {
            rank.outcome.finished = true;
            rank.outcome.in_step = None;
        }
    }
}

/// Reads a child's standard output to its end.
fn listen(stdout: ChildStdout, at: usize, sender: &Sender<(usize, Heard)>) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let limit = LINE_BYTES as u64;
        match reader.by_ref().take(limit).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let heard = match Event::from_line(&line) {
            Some(event) => Heard::Event(event),
            None => Heard::Noise(line),
        };
        if sender.send((at, heard)).is_err() {
            return;
        }
    }
    let _nobody = sender.send((at, Heard::Closed));
}

/// Kills what still runs, and waits for all of it.
fn end_all(ranks: &mut [Rank]) {
    for rank in ranks.iter_mut().filter(|rank| rank.status.is_none()) {
        // It may end by itself between the look and the kill.
        let _gone = rank.child.kill();
    }
    for rank in ranks {
        rank.stdin = None;
        if rank.status.is_none() {
            rank.status = rank.child.wait().ok();
            rank.outcome.ended.get_or_insert(Ended::Killed);
        }
    }
}

/// The state of a process: `R`, `S`, `D`, `T`, `Z`.
fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too.
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.trim_start().chars().next()
}

/// What a rank and its libraries print.
pub(super) fn log_of(scratch: &Path, rank: u32) -> PathBuf {
    scratch.join(format!("rank{rank}.log"))
}

/// What NCCL logs.
pub(super) fn nccl_log_of(scratch: &Path, rank: u32) -> PathBuf {
    scratch.join(format!("nccl.rank{rank}.log"))
}

/// A folder in which the library has the name that cudarc looks for, in front of whatever the loader
/// searches otherwise (cudarc 0.19 never tries `libnccl.so.2`).
fn beside(scratch: &Path, rank: u32, library: &Path) -> io::Result<std::ffi::OsString> {
    let folder = scratch.join(format!("lib{rank}"));
    fs::create_dir_all(&folder)?;
    for name in ["libnccl.so", "libnccl.so.2"] {
        match symlink(library, folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let mut path = folder.into_os_string();
    if let Some(given) = std::env::var_os("LD_LIBRARY_PATH").filter(|given| !given.is_empty()) {
        path.push(":");
        path.push(given);
    }
    Ok(path)
}

/// How NCCL connected ranks, by its lines about channels:
/// `Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0`.
fn hops(scratch: &Path, plan: &Plan) -> Vec<Hop> {
    let mut hops = BTreeSet::new();
    for seat in &plan.seats {
        let log = fs::read(nccl_log_of(scratch, seat.rank)).unwrap_or_default();
        for line in log.split(|b| *b == b'\n') {
            if memchr::memmem::find(line, b" Channel ").is_some() {
                hops.extend(hop(&String::from_utf8_lossy(line)));
            }
        }
    }
    hops.into_iter().collect()
}

fn hop(line: &str) -> Option<Hop> {
    let (ranks, way) = line.split_once(" via ")?;
    let word = way.split(' ').next().unwrap_or_default();
    // The number of the device is not the kind of the path.
    let kind: Vec<&str> = word
        .split('/')
        .filter(|part| !part.bytes().all(|b| b.is_ascii_digit()))
        .collect();
    let (from, to) = ranks.split_once(" -> ")?;
    let number = |text: &str| text.split('[').next()?.trim().parse().ok();
    Some(Hop {
        from: number(from.rsplit(" : ").next()?)?,
        to: number(to)?,
        way: kind.join("/"),
    })
}

/// Loads NVML while the children start. A driver that never answers leaves a thread behind and holds nobody.
fn ask_gpus() -> Receiver<Sampler> {
    let (sender, sampler) = channel();
    thread::spawn(move || {
        if let Ok(started) = Sampler::start() {
            // Nobody waits any more: the run has ended.
            let _late = sender.send(started);
        }
    });
    sampler
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_read_in_every_form() {
        let hop_of = |text: &str| hop(&format!("node-0:7:9 [0] NCCL INFO {text}"));
        let expected = |from, to, way: &str| {
            let way = way.to_owned();
            Some(Hop { from, to, way })
        };
        for (text, from, to, way) in [
            (
                "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0",
                0,
                1,
                "NET/Socket",
            ),
            (
                "Channel 03/0 : 12[4] -> 9[1] via P2P/CUMEM/read",
                12,
                9,
                "P2P/CUMEM/read",
            ),
            (
                "Channel 00 : 0[1000] -> 1[2000] via SHM/direct/direct",
                0,
                1,
                "SHM/direct/direct",
            ),
            (
                "Channel 01/0 : 1[1] -> 0[0] [receive] via NET/IB/2/GDRDMA",
                1,
                0,
                "NET/IB/GDRDMA",
            ),
        ] {
            assert_eq!(hop_of(text), expected(from, to, way), "{text}");
        }
        assert_eq!(hop_of("Channel 00/02 : 0 1"), None);
    }
}
