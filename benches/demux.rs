//! Bytes per CPU second of frame + demux + classify, by kind of stream.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::hint::black_box;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use unhang::engine::demux::Demux;
use unhang::engine::ids::SourceId;

const TOTAL: usize = 256 << 20;
const CHUNK: usize = 64 << 10;

/// A name and what its nth line is.
type Stream = (&'static str, fn(u32) -> String);

fn coll(host: u32, pid: u32, n: u32) -> String {
    format!(
        "node-{host}:{pid}:{pid} [{}] NCCL INFO AllReduce: opCount {n:x} sendbuff 0x7f5c3a000000 recvbuff 0x7f5c3a000000 count 1048576 datatype 7 op 0 root 0 comm 0x55d0c8a1b2f0 [nranks=16] stream 0x55d0c7f3e3a0\n",
        pid % 8
    )
}

/// CPU time of this process so far: wall time says nothing on a shared machine.
fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel counts CPU time");
    let (user, system) = (usage.user_time(), usage.system_time());
    let micros = (user.tv_sec() + system.tv_sec()) * 1_000_000 + user.tv_usec() + system.tv_usec();
    Duration::from_micros(u64::try_from(micros).expect("time is positive"))
}

fn main() {
    let streams: [Stream; 8] = [
        ("COLL, one process", |n| coll(0, 1067, n)),
        ("COLL, 8 processes by turns", |n| {
            coll(n % 2, 1000 + n % 8, n)
        }),
        ("COLL, 256 processes by turns", |n| {
            coll(n % 32, 1000 + n % 256, n)
        }),
        ("COLL behind [1,N]<stdout>:", |n| {
            format!("[1,{}]<stdout>:{}", n % 8, coll(n % 2, 1000 + n % 8, n))
        }),
        ("COLL behind srun -l, bursts of 16", |n| {
            format!(
                "{:>2}: {}",
                n / 16 % 16,
                coll(n / 16 % 2, 1000 + n / 16 % 16, n)
            )
        }),
        ("app lines", |n| {
            format!("step {n} loss 3.1415 lr 0.0003 tokens/s 182733 grad norm 1.23 mem 61.2 GiB\n")
        }),
        ("c10d lines", |n| {
            format!(
                "[rank{}]:[E1130 19:43:01.954264601 ProcessGroupNCCL.cpp:2949] [PG ID 0 PG GUID 0(default_pg) Rank 1] work {n} failed\n",
                n % 8
            )
        }),
        ("vLLM lines", |n| {
            format!(
                "(Worker_TP{} pid=96{}) INFO 11-30 12:00:00 [gpu_worker.py:{}] Available KV cache memory: 61.2 GiB\n",
                n % 8,
                n % 8,
                n % 999
            )
        }),
    ];
    // `cargo bench --bench demux -- COLL` measures only those.
    let only = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with('-'))
        .unwrap_or_default();
    for (name, line) in streams.into_iter().filter(|(name, _)| name.contains(&only)) {
        let block: String = (0..16_384).map(line).collect();
        let mut demux = Demux::default();
        let mut lines = 0_u64;
        let mut offset = 0;
        let start = cpu();
        while offset < TOTAL as u64 {
            for chunk in block.as_bytes().chunks(CHUNK) {
                demux.feed(SourceId(0), offset, chunk, &mut |line, _| {
                    lines += 1;
                    black_box(line);
                });
                offset += chunk.len() as u64;
            }
        }
        let seconds = (cpu() - start).as_secs_f64();
        println!(
            "{name:36} {:6.2} GB/s {:6.0} ns/line",
            offset as f64 / seconds / 1e9,
            seconds * 1e9 / lines as f64
        );
    }
}
