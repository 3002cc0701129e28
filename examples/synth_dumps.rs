//! Writes the Flight Recorder dumps of a synthetic training job of any size, as PyTorch 2.15 would.
//!
//! ```sh
//! cargo run --release --example synth_dumps -- --ranks 1024 --records 2000 --fault size:17 --out DIR
//! ```
//!
//! Every rank calls all-reduces of its gradients on the world and an all-gather on its group of eight in turns; the
//! ring of each keeps the last `--records` calls. `--fault` makes one rank call another size, or none, at the end.

use std::fs;
use std::path::PathBuf;

use clap::Parser;

#[path = "synth_dumps/dump.rs"]
mod dump;

use dump::{Dump, Entry, Group};

/// What to write.
#[derive(Parser)]
struct Args {
    /// Number of ranks
    #[arg(long, default_value_t = 8)]
    ranks: u32,
    /// Calls that each ring keeps
    #[arg(long, default_value_t = 2_000)]
    records: u32,
    /// `none`, `size:RANK`, `missing:RANK`
    #[arg(long, default_value = "none")]
    fault: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Folder, made if it is not there
    #[arg(long)]
    out: PathBuf,
}

/// Calls before the ring's oldest one.
const BEFORE: u32 = 10_000;
/// Ranks of a group.
const LOCAL: u32 = 8;
/// The hour of the job.
const START: i64 = 1_796_000_000_000_000_000;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    fs::create_dir_all(&args.out)?;
    let (fault, odd) = match args.fault.split_once(':') {
        Some((fault, rank)) => (fault, Some(rank.parse::<u32>()?)),
        None => ("none", None),
    };
    for rank in 0..args.ranks {
        let dump = dump_of(&args, rank, fault, odd == Some(rank));
        let name = format!("fr_rank_{rank}");
        if args.json {
            fs::write(args.out.join(name + ".json"), dump.json())?;
        } else {
            fs::write(args.out.join(name), dump.pickle())?;
        }
    }
    Ok(())
}

fn dump_of(args: &Args, rank: u32, fault: &str, is_odd: bool) -> Dump {
    let host = rank / LOCAL * LOCAL;
    let groups = vec![
        Group {
            pg_id: 0,
            name: "0".to_owned(),
            desc: "default_pg".to_owned(),
            ranks: (0..args.ranks).collect(),
        },
        Group {
            pg_id: i64::from(rank / LOCAL + 1),
            name: (rank / LOCAL + 1).to_string(),
            desc: "tp".to_owned(),
            ranks: (host..(host + LOCAL).min(args.ranks)).collect(),
        },
    ];
    let last = BEFORE + args.records - 1;
    let mut entries = Vec::new();
    for n in BEFORE..=last {
        // Seven gradient buckets of different sizes, then a gather in the group.
        let bucket = n % 8;
        let group = usize::from(bucket == 7);
        let seq = n / 8 * if group == 0 { 7 } else { 1 } + if group == 0 { bucket } else { 0 } + 1;
        let mut size = 1_048_576 >> bucket;
        if n == last && is_odd {
            match fault {
                "missing" => break,
                _ => size += 1,
            }
        }
        let gathered = if group == 0 {
            size
        } else {
            size * i64::from(LOCAL)
        };
        let waits = n == last;
        entries.push(Entry {
            group,
            seq,
            p2p_seq: 0,
            op_id: seq,
            name: if group == 0 {
                "nccl:all_reduce"
            } else {
                "nccl:_all_gather_base"
            }
            .to_owned(),
            inputs: vec![vec![size]],
            outputs: vec![vec![gathered]],
            datatype: "BFloat16",
            state: if waits { "scheduled" } else { "completed" },
            retired: !waits,
            created_ns: START + i64::from(n) * 1_000_000 + i64::from(rank),
            frames: FRAMES
                .iter()
                .map(|(name, file, line)| (*name, *file, line + i64::from(bucket)))
                .collect(),
        });
    }
    Dump {
        groups,
        entries,
        first: i64::from(BEFORE),
    }
}

/// A stack as PyTorch records it.
const FRAMES: [(&str, &str, i64); 6] = [
    (
        "all_reduce",
        "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py",
        3_068,
    ),
    (
        "wrapper",
        "/opt/venv/lib/python3.12/site-packages/torch/distributed/c10d_logger.py",
        83,
    ),
    (
        "reduce_bucket",
        "/opt/venv/lib/python3.12/site-packages/engine/grads.py",
        410,
    ),
    ("step", "/srv/job/engine.py", 120),
    ("main", "/srv/job/train.py", 208),
    ("<module>", "/srv/job/train.py", 330),
];
