//! Bytes per CPU second by stage: finding line ends, demultiplexing and classifying, the whole engine.
//!
//! ```text
//! cargo bench --bench scan            # 256 MiB a stream
//! cargo bench --bench scan -- 64      # 64 MiB a stream
//! ```
//!
//! Two jobs: a synthetic one of 64 ranks that is nearly all collectives, and every recorded log
//! repeated. CPU time is user + system time of this process.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::hint::black_box;
use std::path::Path;
use std::{env, fs};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use unhang::engine::catalog::Catalog;
use unhang::engine::demux::Demux;
use unhang::engine::ids::SourceId;
use unhang::engine::input::{EndReason, Input, SourceInfo, SourceKind};
use unhang::engine::{Engine, Options};

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

/// Bytes that a reader hands over at once.
const CHUNK: usize = 256 << 10;

/// A job's sources.
type Sources = Vec<(String, Vec<u8>)>;

fn main() {
    // cargo passes `--bench`; a number is the size in MiB.
    let mib = env::args()
        .filter_map(|text| text.parse::<usize>().ok())
        .next()
        .unwrap_or(256);
    let jobs = [
        ("synthetic", synthetic(mib << 20)),
        ("recorded", recorded(mib << 20)),
    ];
    println!(
        "{:<12} {:<22} {:>8} {:>10} {:>8}",
        "job", "stage", "MiB", "CPU s", "GB/s"
    );
    for (name, sources) in &jobs {
        measure(name, "line ends", sources, count_lines);
        measure(name, "demux + classify", sources, demux);
        measure(name, "engine", sources, engine);
    }
}

fn synthetic(total: usize) -> Sources {
    let ranks = 64;
    let job = job::Job::new(job::Spec {
        ranks,
        bytes_per_rank: total as u64 / u64::from(ranks),
        seed: 1,
        fault: job::Fault::Count(17),
        ranks_per_host: 8,
        nccl: nccl::Nccl::V2_28_9,
    });
    let log = |rank| {
        let (mut log, mut text) = (job::RankLog::new(&job, rank), Vec::new());
        while log.fill(&mut text) != job::Wrote::Nothing {}
        (format!("rank{rank}.log"), text)
    };
    (0..ranks).map(log).collect()
}

/// Every recorded log, each repeated so often that all have `total` bytes together.
fn recorded(total: usize) -> Sources {
    let mut logs = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"),
        &mut logs,
    );
    logs.sort();
    let once: usize = logs.iter().map(|(_, bytes)| bytes.len()).sum();
    let times = (total / once).max(1);
    logs.into_iter()
        .map(|(name, bytes)| (name, bytes.repeat(times)))
        .collect()
}

fn collect(folder: &Path, logs: &mut Sources) {
    for entry in fs::read_dir(folder).expect("the fixtures") {
        let path = entry.expect("a listed entry").path();
        if path.is_dir() && !path.ends_with("lines") {
            collect(&path, logs);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            logs.push((
                path.display().to_string(),
                fs::read(&path).expect("a readable log"),
            ));
        }
    }
}

/// Runs a stage three times and prints its best figure.
fn measure(job: &str, stage: &str, sources: &Sources, run: impl Fn(&Sources) -> u64) {
    let bytes: usize = sources.iter().map(|(_, bytes)| bytes.len()).sum();
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let before = cpu_seconds();
        black_box(run(sources));
        best = best.min(cpu_seconds() - before);
    }
    let (mib, rate) = (bytes as f64 / f64::from(1 << 20), bytes as f64 / best / 1e9);
    println!("{job:<12} {stage:<22} {mib:>8.0} {best:>10.3} {rate:>8.2}");
}

fn cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel tells");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

fn count_lines(sources: &Sources) -> u64 {
    sources
        .iter()
        .map(|(_, bytes)| memchr::memchr_iter(b'\n', bytes).count() as u64)
        .sum()
}

fn demux(sources: &Sources) -> u64 {
    let (mut demux, mut lines) = (Demux::default(), 0);
    for (n, (name, bytes)) in sources.iter().enumerate() {
        let source = SourceId::from_ix(n);
        demux.open(&info(source, name));
        for (at, chunk) in bytes.chunks(CHUNK).enumerate() {
            demux.feed(source, (at * CHUNK) as u64, chunk, &mut |line, _| {
                lines += black_box(line.message).len() as u64;
            });
        }
        demux.end(source, &mut |line, _| lines += line.message.len() as u64);
    }
    lines
}

fn engine(sources: &Sources) -> u64 {
    let mut engine = Engine::new(Catalog::builtin(), Options::default());
    for (n, (name, _)) in sources.iter().enumerate() {
        engine.handle(None, Input::Source(info(SourceId::from_ix(n), name)));
    }
    for (n, (_, bytes)) in sources.iter().enumerate() {
        let source = SourceId::from_ix(n);
        for (at, chunk) in bytes.chunks(CHUNK).enumerate() {
            engine.handle(
                None,
                Input::Bytes {
                    source,
                    offset: (at * CHUNK) as u64,
                    chunk,
                },
            );
        }
        engine.handle(
            None,
            Input::Ended {
                source,
                why: EndReason::Eof,
                detail: None,
            },
        );
    }
    engine.handle(None, Input::Claim { stuck_for: None });
    engine.snapshot().inputs.lines
}

fn info(id: SourceId, name: &str) -> SourceInfo {
    SourceInfo {
        id,
        name: name.to_owned(),
        kind: SourceKind::File,
        host: None,
        pid: None,
        rank: None,
    }
}
