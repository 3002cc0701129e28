//! Logs of a small job, and samples of healthy GPUs.

use std::time::Duration;

use unhang::engine::catalog::Catalog;
use unhang::engine::finding::Finding;
use unhang::engine::gpu::{Gpu, GpuSample, Link, P2p, Pair, Pcie};
use unhang::engine::ids::SourceId;
use unhang::engine::input::{Input, ProcessLoad, ProcessState, SourceInfo, SourceKind, Time};
use unhang::engine::snapshot::Snapshot;
use unhang::engine::{Engine, Options};

pub(crate) const BUS_IDS: [&str; 2] = ["18000", "28000"];

/// A line of NCCL's.
pub(crate) fn line(host: &str, pid: u32, rank: u32, text: &str) -> String {
    format!("{host}:{pid}:{pid} [{rank}] NCCL INFO {text}\n")
}

pub(crate) fn init(host: &str, pid: u32, rank: u32, end: &str) -> String {
    let bus = BUS_IDS[rank as usize];
    let text = format!(
        "ncclCommInitRankConfig comm 0x5{rank}0 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {bus} commId 0x33e7623ec8bd22b1 - Init {end}"
    );
    line(host, pid, rank, &text)
}

pub(crate) fn call(host: &str, pid: u32, rank: u32) -> String {
    let text = format!(
        "AllReduce: opCount 0 sendbuff 0x7f00 recvbuff 0x7f00 count 1024 datatype 7 op 0 root 0 comm 0x5{rank}0 [nranks=2] stream (nil)"
    );
    line(host, pid, rank, &text)
}

pub(crate) fn gpu(index: u32) -> Gpu {
    let bus = ["18", "28"][index as usize];
    Gpu {
        index,
        bus_id: Some(format!("00000000:{bus}:00.0")),
        name: Some("NVIDIA H200".to_owned()),
        busy: Some(100),
        power_mw: Some(450_000),
        power_limit_mw: Some(700_000),
        memory_total: Some(150_000_000_000),
        memory_used: Some(90_000_000_000),
        pcie: Pcie {
            generation: Some(5),
            generation_max: Some(5),
            width: Some(16),
            width_max: Some(16),
            sent_kbps: Some(900_000),
            received_kbps: Some(900_000),
            replays: Some(0),
        },
        links: Some((0..4).map(link).collect()),
        ..Gpu::default()
    }
}

fn link(link: u32) -> Link {
    Link {
        link,
        up: Some(true),
        version: Some(4),
        mbps: Some(26_562),
        remote: None,
        replays: Some(0),
        recoveries: Some(0),
        crc_errors: Some(0),
        new_errors: None,
    }
}

pub(crate) fn sample() -> GpuSample {
    let ok = Some(P2p::Ok);
    GpuSample {
        gpus: vec![gpu(0), gpu(1)],
        pairs: vec![Pair {
            a: 0,
            b: 1,
            read: ok,
            write: ok,
            nvlink: ok,
            atomics: ok,
            path: None,
        }],
        ..GpuSample::default()
    }
}

/// A job of two ranks on one host that somebody watches.
pub(crate) struct Job {
    engine: Engine,
    lengths: [u64; 2],
    now: u64,
}

impl Job {
    /// Both ranks are in their third collective.
    pub(crate) fn running() -> Self {
        let mut job = Self {
            engine: Engine::new(Catalog::builtin(), Options::default()),
            lengths: [0; 2],
            now: 0,
        };
        for rank in 0..2 {
            let info = SourceInfo {
                id: SourceId(rank),
                name: format!("rank{rank}.log"),
                kind: SourceKind::Tail,
                host: None,
                pid: None,
                rank: None,
            };
            job.input(Input::Source(info));
        }
        job.input(Input::Tick);
        job.after(1);
        for rank in 0..2 {
            job.log(rank, &init("node-0", 100 + rank, rank, "START"));
        }
        for rank in 0..2 {
            job.log(rank, &init("node-0", 100 + rank, rank, "COMPLETE"));
        }
        for _ in 0..3 {
            for rank in 0..2 {
                job.call(rank);
            }
        }
        job
    }

    pub(crate) fn call(&mut self, rank: u32) {
        self.log(rank, &call("node-0", 100 + rank, rank));
    }

    pub(crate) fn log(&mut self, rank: u32, text: &str) {
        let offset = self.lengths[rank as usize];
        self.lengths[rank as usize] += text.len() as u64;
        self.input(Input::Bytes {
            source: SourceId(rank),
            offset,
            chunk: text.as_bytes(),
        });
    }

    /// A message of the kernel's, as a watch passes it on.
    pub(crate) fn kernel(&mut self, text: &str) -> &mut Self {
        self.input(Input::Source(SourceInfo {
            id: SourceId(2),
            name: "kernel log of node-0".to_owned(),
            kind: SourceKind::Tail,
            host: None,
            pid: None,
            rank: None,
        }));
        self.input(Input::Bytes {
            source: SourceId(2),
            offset: 0,
            chunk: format!("{text}\n").as_bytes(),
        });
        self
    }

    pub(crate) fn input(&mut self, input: Input<'_>) {
        self.engine.handle(Some(Time(self.now)), input);
    }

    /// Time passes.
    pub(crate) fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds).as_nanos() as u64;
        self.input(Input::Tick);
        self
    }

    pub(crate) fn gpus(&mut self, sample: GpuSample) -> &mut Self {
        self.input(Input::Gpu {
            host: "node-0".to_owned(),
            sample: Box::new(sample),
        });
        self
    }

    pub(crate) fn process(&mut self, rank: u32, state: ProcessState) -> &mut Self {
        self.input(Input::Process {
            host: "node-0".to_owned(),
            pid: 100 + rank,
            state,
            load: ProcessLoad::default(),
        });
        self
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    pub(crate) fn finding(&self, id: &str) -> Option<Finding> {
        let findings = self.snapshot().findings;
        findings.into_iter().find(|f| f.id == id)
    }
}
