//! Writes the logs of a synthetic job of any size, from the formats that real NCCL versions print.
//!
//! ```text
//! cargo run --release --example synth_job -- --ranks 1024 --bytes-per-rank 1MiB --fault count:77 --out DIR
//! ```
//!
//! The same arguments give the same bytes. One file per rank (`rank<N>.log`), or with `--merged` one
//! interleaved stream (`job.log`). With `--rate` the logs grow while somebody watches; the time at
//! which the fault was written goes to stdout.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::Parser;

#[path = "synth_job/calls.rs"]
mod calls;
#[path = "synth_job/job.rs"]
mod job;
#[path = "synth_job/nccl.rs"]
mod nccl;
#[path = "synth_job/prng.rs"]
mod prng;

use job::{Fault, Job, RankLog, Spec, Wrote};
use nccl::Nccl;
use prng::Prng;

/// Writes the logs of a synthetic job.
#[derive(Parser)]
struct Arguments {
    /// Ranks in the world.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Bytes that each rank writes, roughly: a number, or with KiB, MiB, GiB.
    #[arg(long, default_value = "64KiB", value_parser = parse_bytes)]
    bytes_per_rank: u64,
    /// Decides ids, pointers and collectives.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// none, skip:RANK, count:RANK, iface:HOST or die:RANK.
    #[arg(long, default_value = "none", value_parser = parse_fault)]
    fault: Fault,
    /// Ranks on one host.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_host: u32,
    /// Whose lines are imitated.
    #[arg(long, value_enum, default_value = "2.28.9")]
    nccl: Nccl,
    /// Folder to write into; made if absent.
    #[arg(long)]
    out: PathBuf,
    /// Write at this many bytes per second over all ranks: a job to watch.
    #[arg(long, value_parser = parse_bytes)]
    rate: Option<u64>,
    /// One interleaved stream instead of one file per rank.
    #[arg(long)]
    merged: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let job = Job::new(Spec {
        ranks: arguments.ranks,
        bytes_per_rank: arguments.bytes_per_rank,
        seed: arguments.seed,
        fault: arguments.fault,
        ranks_per_host: arguments.ranks_per_host,
        nccl: arguments.nccl,
    });
    check_fault(&job.spec)?;
    let out = &arguments.out;
    std::fs::create_dir_all(out).with_context(|| format!("failed to make {}", out.display()))?;
    match (arguments.merged, arguments.rate) {
        (false, None) => write_rank_by_rank(&job, out),
        (false, Some(rate)) => write_in_rounds(&job, &mut PerRank::open(&job, out)?, rate),
        (true, rate) => write_in_rounds(
            &job,
            &mut Merged::open(&job, out)?,
            rate.unwrap_or(u64::MAX),
        ),
    }
}

fn check_fault(spec: &Spec) -> anyhow::Result<()> {
    let hosts = spec.ranks.div_ceil(spec.ranks_per_host);
    match spec.fault {
        Fault::Skip(rank) | Fault::Count(rank) | Fault::Die(rank) if rank >= spec.ranks => {
            bail!("there is no rank {rank} in a world of {}", spec.ranks)
        }
        Fault::Iface(host) if host >= hosts => bail!("there is no host {host} among {hosts}"),
        _ => Ok(()),
    }
}

/// Saved logs: each rank at once, which needs one open file and no memory.
fn write_rank_by_rank(job: &Job, out: &Path) -> anyhow::Result<()> {
    let mut text = Vec::with_capacity(1 << 20);
    for rank in 0..job.spec.ranks {
        let mut file = create(&out.join(format!("rank{rank}.log")))?;
        let mut log = RankLog::new(job, rank);
        while log.fill(&mut text) != Wrote::Nothing {
            if text.len() > (1 << 20) - (64 << 10) {
                file.write_all(&text).context("failed to write")?;
                text.clear();
            }
        }
        file.write_all(&text).context("failed to write")?;
        text.clear();
    }
    Ok(())
}

/// Where the lines of ranks go.
trait Sink {
    /// Takes what every rank wrote in one round.
    fn round(&mut self, pieces: &[Vec<u8>]) -> io::Result<()>;
}

/// One file per rank.
struct PerRank(Vec<File>);

impl PerRank {
    fn open(job: &Job, out: &Path) -> anyhow::Result<Self> {
        let files = (0..job.spec.ranks).map(|rank| create(&out.join(format!("rank{rank}.log"))));
        Ok(Self(files.collect::<anyhow::Result<_>>()?))
    }
}

impl Sink for PerRank {
    fn round(&mut self, pieces: &[Vec<u8>]) -> io::Result<()> {
        for (file, piece) in self.0.iter_mut().zip(pieces) {
            file.write_all(piece)?;
        }
        Ok(())
    }
}

/// One stream: the ranks' lines in random order, each rank's own order kept.
struct Merged {
    file: BufWriter<File>,
    random: Prng,
}

impl Merged {
    fn open(job: &Job, out: &Path) -> anyhow::Result<Self> {
        let file = BufWriter::with_capacity(1 << 20, create(&out.join("job.log"))?);
        Ok(Self {
            file,
            random: Prng::new(job.spec.seed ^ 0x0003_e29e_d000),
        })
    }
}

impl Sink for Merged {
    fn round(&mut self, pieces: &[Vec<u8>]) -> io::Result<()> {
        let mut rest: Vec<&[u8]> = pieces
            .iter()
            .map(Vec::as_slice)
            .filter(|piece| !piece.is_empty())
            .collect();
        while !rest.is_empty() {
            let chosen = self.random.below(rest.len());
            let (line, left) = rest[chosen].split_at(whole_message(rest[chosen]));
            self.file.write_all(line)?;
            rest[chosen] = left;
            if left.is_empty() {
                rest.swap_remove(chosen);
            }
        }
        self.file.flush()
    }
}

/// Length of the first message: a line, and where it is the empty one before a WARN the next as well,
/// since one write holds both.
fn whole_message(text: &[u8]) -> usize {
    let line = |from: usize| {
        text[from..]
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(text.len(), |at| from + at + 1)
    };
    let first = line(0);
    if first == 1 { line(1) } else { first }
}

/// All ranks step by step, as a running job writes, at `rate` bytes per second.
fn write_in_rounds(job: &Job, sink: &mut dyn Sink, rate: u64) -> anyhow::Result<()> {
    let mut logs: Vec<RankLog<'_>> = (0..job.spec.ranks)
        .map(|rank| RankLog::new(job, rank))
        .collect();
    let mut pieces = vec![Vec::new(); logs.len()];
    let (started, mut written) = (Instant::now(), 0_u64);
    loop {
        let mut last = Wrote::Nothing;
        for (log, piece) in logs.iter_mut().zip(&mut pieces) {
            piece.clear();
            last = log.fill(piece);
            written += piece.len() as u64;
        }
        if last == Wrote::Nothing {
            return Ok(());
        }
        let due = started + Duration::from_secs_f64(written as f64 / rate as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        sink.round(&pieces).context("failed to write")?;
        if last == Wrote::Last {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .context("the clock is before 1970")?;
            writeln!(io::stdout(), "last lines written at {} ns", now.as_nanos())?;
        }
    }
}

fn create(path: &Path) -> anyhow::Result<File> {
    File::create(path).with_context(|| format!("failed to create {}", path.display()))
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("", 1),
    ];
    let (unit, factor) = units
        .iter()
        .find(|(unit, _)| text.ends_with(unit))
        .ok_or("no unit")?;
    let number = text[..text.len() - unit.len()].trim();
    let number: u64 = number
        .parse()
        .map_err(|error| format!("{number:?}: {error}"))?;
    number
        .checked_mul(*factor)
        .ok_or_else(|| "too large".to_owned())
}

fn parse_fault(text: &str) -> Result<Fault, String> {
    let (kind, number) = text.split_once(':').unwrap_or((text, ""));
    let number = || {
        number
            .trim_start_matches("node-")
            .parse::<u32>()
            .map_err(|error| format!("{number:?}: {error}"))
    };
    match kind {
        "none" => Ok(Fault::None),
        "skip" => Ok(Fault::Skip(number()?)),
        "count" => Ok(Fault::Count(number()?)),
        "iface" => Ok(Fault::Iface(number()?)),
        "die" => Ok(Fault::Die(number()?)),
        _ => Err("expected none, skip:RANK, count:RANK, iface:HOST or die:RANK".to_owned()),
    }
}
