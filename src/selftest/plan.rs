//! What is to be tested, decided before anything starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::protocol::Step;

/// An operation of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// `ncclAllReduce`
    AllReduce,
    /// `ncclAllGather`
    AllGather,
    /// `ncclReduceScatter`
    ReduceScatter,
    /// `ncclBroadcast` from rank 0
    Broadcast,
    /// `ncclSend` to the next rank and `ncclRecv` from the one before, in a group
    SendRecv,
    /// `ncclSend` and `ncclRecv` with every rank, in a group
    AllToAll,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Broadcast,
        Self::SendRecv,
        Self::AllToAll,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::Broadcast => "broadcast",
            Self::SendRecv => "send-recv",
            Self::AllToAll => "all-to-all",
        }
    }

    /// What busbw is of algbw (nccl-tests, doc/PERFORMANCE.md): the share of the data that each link
    /// must carry, so that figures of different rank counts compare.
    #[must_use]
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks.max(1));
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (n - 1.0) / n,
            Self::Broadcast | Self::SendRecv => 1.0,
        }
    }
}

/// How much is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// Nothing.
    None,
    /// One size that fills the links: for comparing settings.
    One,
    /// A few sizes, some seconds.
    Quick,
    /// 8 B to 4 GiB, or what memory allows.
    Full,
}

impl Sizes {
    /// Bytes, where `free` bytes of GPU memory are left to this rank.
    #[must_use]
    pub fn bytes(self, free: u64) -> Vec<u64> {
        let wanted: Vec<u64> = match self {
            Self::None => Vec::new(),
            Self::One => vec![64 << 20],
            Self::Quick => vec![8, 64 << 10, 4 << 20, 64 << 20, 256 << 20],
            Self::Full => (3..=32).map(|power| 1_u64 << power).collect(),
        };
        // Two buffers, and NCCL wants some itself.
        wanted
            .into_iter()
            .filter(|bytes| bytes * 3 <= free)
            .collect()
    }
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its rank.
    pub rank: u32,
    /// The CUDA device it uses.
    pub device: u32,
    /// Set if ranks share a GPU: its NCCL_HOSTID.
    pub host_id: Option<String>,
}

/// Everything a run needs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The ranks that this machine starts.
    pub seats: Vec<Seat>,
    /// Ranks in all.
    pub world: u32,
    /// The library; `None` for whatever the loader finds.
    pub library: Option<PathBuf>,
    /// Libraries of single ranks, for a mix of versions.
    pub libraries: BTreeMap<u32, PathBuf>,
    /// The job's settings, for all ranks.
    pub env: BTreeMap<String, String>,
    /// Settings of single ranks.
    pub env_of: BTreeMap<u32, BTreeMap<String, String>>,
    /// Operations that are compared with the CPU's answer.
    pub ops: Vec<Op>,
    /// Operations that are timed.
    pub timed: Vec<Op>,
    /// What is timed.
    pub sizes: Sizes,
    /// How long a step may take.
    pub patience: Duration,
    /// Whether correctness is tested beyond the first all-reduce.
    pub correctness: bool,
}

impl Plan {
    /// How long a step may take.
    #[must_use]
    pub fn deadline(&self, step: Step) -> Duration {
        match step {
            // Many sizes.
            Step::Bandwidth if self.sizes == Sizes::Full => self.patience * 5,
            Step::Bandwidth => self.patience * 2,
            _ => self.patience,
        }
    }
}

/// Seats `per_gpu` ranks on each of these devices; ranks that share a GPU get a host identity each, since
/// NCCL refuses two ranks of one host on one GPU.
#[must_use]
pub fn seats(devices: &[u32], per_gpu: u32) -> Vec<Seat> {
    let mut seats = Vec::new();
    for device in devices {
        for nth in 0..per_gpu {
            let rank = u32::try_from(seats.len()).unwrap_or(u32::MAX);
            seats.push(Seat {
                rank,
                device: *device,
                host_id: (per_gpu > 1).then(|| format!("unhang-selftest-{nth}")),
            });
        }
    }
    seats
}

/// What decides over a child's environment and must not come from ours.
pub const NOT_INHERITED: [&str; 6] = [
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_COMM_ID",
    "CUDA_LAUNCH_BLOCKING",
    "LD_PRELOAD",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        for (op, factor) in [
            (Op::AllReduce, 1.75),
            (Op::AllGather, 0.875),
            (Op::ReduceScatter, 0.875),
            (Op::AllToAll, 0.875),
            (Op::Broadcast, 1.0),
            (Op::SendRecv, 1.0),
        ] {
            assert!((op.bus_factor(8) - factor).abs() < 1e-12, "{}", op.name());
        }
    }

    #[test]
    fn ranks_that_share_a_gpu_are_hosts_of_their_own() {
        let shared = seats(&[0, 1], 2);
        let ids: Vec<_> = shared
            .iter()
            .map(|s| (s.rank, s.device, s.host_id.clone()))
            .collect();
        assert_eq!(ids.len(), 4);
        assert_eq!(ids[1].0, 1);
        assert_eq!(ids[2].1, 1);
        assert_ne!(ids[0].2, ids[1].2);
        // The first ranks of both GPUs are on one host, as they are.
        assert_eq!(ids[0].2, ids[2].2);
        assert!(seats(&[0, 1], 1).iter().all(|seat| seat.host_id.is_none()));
    }

    #[test]
    fn sizes_fit_the_memory() {
        assert_eq!(Sizes::Full.bytes(u64::MAX / 8).last(), Some(&(4 << 30)));
        assert_eq!(Sizes::Full.bytes(1 << 30).last(), Some(&(256 << 20)));
        assert!(Sizes::Quick.bytes(10).is_empty());
    }
}
