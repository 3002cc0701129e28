//! A job of many rank files that is being written, and figures of how long things took.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::synth_job::job::{Fault, Job, RankLog, Spec, Wrote};
use crate::synth_job::nccl::Nccl;

/// The files of a job that is being written.
pub(crate) struct Files {
    files: Vec<File>,
}

impl Files {
    pub(crate) fn create(folder: &Path, ranks: u32) -> Self {
        fs::create_dir_all(folder).unwrap();
        let file = |rank| open(folder, rank);
        Self {
            files: (0..ranks).map(file).collect(),
        }
    }

    pub(crate) fn append(&mut self, rank: u32, bytes: &[u8]) {
        self.files[rank as usize].write_all(bytes).unwrap();
    }
}

/// A rank's log, to append to.
pub(crate) fn open(folder: &Path, rank: u32) -> File {
    let path = folder.join(format!("rank{rank}.log"));
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap()
}

/// A job of the synthetic writer.
pub(crate) fn job(ranks: u32, bytes_per_rank: u64, fault: Fault, seed: u64) -> Job {
    Job::new(Spec {
        ranks,
        bytes_per_rank,
        seed,
        fault,
        ranks_per_host: 8,
        nccl: Nccl::V2_28_9,
    })
}

/// Writes all ranks round by round, a round every `pace`. Returns when the last one began, in which
/// the fault shows.
pub(crate) fn write(job: &Job, files: &mut Files, pace: Duration) -> Instant {
    let ranks = job.spec.ranks;
    let mut logs: Vec<RankLog<'_>> = (0..ranks).map(|rank| RankLog::new(job, rank)).collect();
    let mut text = Vec::new();
    loop {
        thread::sleep(pace);
        let began = Instant::now();
        let mut wrote = Wrote::Nothing;
        for (log, rank) in logs.iter_mut().zip(0..) {
            text.clear();
            wrote = log.fill(&mut text);
            files.append(rank, &text);
        }
        if wrote == Wrote::Last {
            return began;
        }
    }
}

/// A healthy job that goes on and on.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Flood {
    /// Takes over the files and writes all ranks' calls at this rate, but for one rank's, who has stopped.
    pub(crate) fn start(mut files: Files, seed: u64, rate: u64, except: Option<u32>) -> Self {
        let ranks = files.files.len() as u32;
        let job = job(ranks, 1 << 20, Fault::None, seed);
        let mut steps = Vec::new();
        for rank in 0..ranks {
            let mut log = RankLog::new(&job, rank);
            let mut text = Vec::new();
            assert_eq!(log.fill(&mut text), Wrote::Init);
            files.append(rank, &text);
            text.clear();
            for _ in 0..32 {
                log.fill(&mut text);
            }
            steps.push(text);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (started, mut written) = (Instant::now(), 0_u64);
            while !stopped.load(Ordering::Relaxed) {
                for (rank, step) in (0..).zip(&steps).filter(|(rank, _)| Some(*rank) != except) {
                    files.append(rank, step);
                    written += step.len() as u64;
                }
                let due = Duration::from_secs_f64(written as f64 / rate as f64);
                thread::sleep(due.saturating_sub(started.elapsed()));
            }
            written
        });
        Self { stop, thread }
    }

    /// Ends it and says how many bytes it wrote.
    pub(crate) fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// CPU time of a process so far, all its threads.
pub(crate) fn cpu_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// How long things took.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
        self.0.sort_unstable();
    }

    /// The time that this part of all did not exceed.
    pub(crate) fn at(&self, part: f64) -> Duration {
        let n = self.0.len();
        let at = (n as f64 * part).ceil() as usize;
        self.0[at.clamp(1, n) - 1]
    }

    /// Prints a row for docs/performance.md.
    pub(crate) fn tell(&self, what: &str) {
        let ms = |part| self.at(part).as_millis();
        eprintln!(
            "| {what} | {} | {} ms | {} ms | {} ms |",
            self.0.len(),
            ms(0.5),
            ms(0.99),
            ms(1.0)
        );
    }
}
