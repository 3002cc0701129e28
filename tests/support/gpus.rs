//! A GPU that tells everything, and one that is lost, for the views.

use unhang::engine::gpu::{
    Fabric, FabricState, Gpu, GpuProcess, GpuSample, Link, P2p, Pair, Path, Pcie, Remapped,
    Throttle, Trouble, Xid,
};
use unhang::engine::input::{ProcessLoad, ProcessState};
use unhang::engine::job::ProcessSeen;
use unhang::engine::snapshot::{GpusView, Snapshot};

/// Rank 0 spins on the first GPU of node-0; rank 1's GPU is lost.
pub(crate) fn beside_ranks(mut snapshot: Snapshot) -> Snapshot {
    let job = &mut snapshot.job;
    job.gpus.push(GpusView {
        host: "node-0".to_owned(),
        sample: sample(),
        seen: None,
        xids: vec![(1, 79, 1)],
    });
    job.ranks[0].gpu_at = Some((0, 0));
    job.ranks[1].gpu_at = Some((0, 1));
    job.ranks[0].process = Some(ProcessSeen {
        state: ProcessState::Running,
        since: None,
        load: ProcessLoad {
            cpu_percent: Some(101),
            threads: Some(84),
            nccl_threads: Some(6),
        },
    });
    snapshot
}

fn sample() -> GpuSample {
    GpuSample {
        driver: Some("580.65.06".to_owned()),
        cuda: Some("13.0".to_owned()),
        gpus: vec![spinning(), lost()],
        pairs: vec![Pair {
            a: 0,
            b: 1,
            path: Some(Path::Node),
            read: Some(P2p::Ok),
            write: Some(P2p::Ok),
            nvlink: None,
            atomics: Some(P2p::Unsupported),
        }],
        xids: vec![Xid { gpu: 1, xid: 79 }],
    }
}

fn spinning() -> Gpu {
    Gpu {
        index: 0,
        bus_id: Some("00000000:18:00.0".to_owned()),
        name: Some("NVIDIA H200".to_owned()),
        busy: Some(100),
        power_mw: Some(118_000),
        power_limit_mw: Some(700_000),
        throttle: Some(vec![Throttle::Idle, Throttle::Heat]),
        uuid: Some("GPU-5e0c".to_owned()),
        temperature_c: Some(71),
        slowdown_c: Some(87),
        sm_mhz: Some(1_410),
        sm_max_mhz: Some(1_980),
        memory_mhz: Some(2_619),
        memory_total: Some(150_000_000_000),
        memory_used: Some(149_900_000_000),
        processes: Some(vec![
            GpuProcess {
                pid: 800,
                name: Some("python3".to_owned()),
                memory: Some(20 << 30),
                rank: Some(0),
            },
            GpuProcess {
                pid: 4711,
                name: Some("jupyter\u{1b}[2J".to_owned()),
                memory: Some(3 << 30),
                rank: None,
            },
        ]),
        pcie: Pcie {
            generation: Some(5),
            generation_max: Some(5),
            width: Some(16),
            width_max: Some(16),
            sent_kbps: Some(12_000),
            received_kbps: Some(9_000),
            replays: Some(2),
        },
        links: Some(vec![Link {
            link: 0,
            up: Some(true),
            version: Some(4),
            mbps: Some(26_562),
            remote: Some("00000000:07:00.0".to_owned()),
            replays: Some(40),
            crc_errors: Some(2),
            new_errors: Some(12),
            ..Link::default()
        }]),
        fabric: Some(Fabric {
            state: FabricState::Completed,
            status: Some(0),
            clique: Some(1),
            healthy: Some(true),
        }),
        mig: Some(false),
        ecc: Some(true),
        ecc_corrected: Some(3),
        remapped: Some(Remapped::default()),
        ..Gpu::default()
    }
}

fn lost() -> Gpu {
    Gpu {
        index: 1,
        trouble: Some(Trouble::Lost),
        ..Gpu::default()
    }
}
