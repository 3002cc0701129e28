//! What the GPUs of each host said, and what successive samples add to it.

use std::collections::BTreeMap;

use crate::engine::gpu::{GPUS, Gpu, GpuSample, Trouble};
use crate::engine::input::Time;

/// Hosts that are remembered.
const HOSTS: usize = 4_096;
/// Xid events remembered of one host.
const XIDS: usize = 256;

/// The GPUs of all hosts.
#[derive(Clone, Debug, Default)]
pub struct Gpus {
    /// By host, as printed.
    pub hosts: BTreeMap<String, HostGpus>,
}

/// The GPUs of one host.
#[derive(Clone, Debug, Default)]
pub struct HostGpus {
    /// The last sample.
    pub last: GpuSample,
    /// When it was taken.
    pub seen: Option<Time>,
    /// Samples taken.
    pub samples: u64,
    /// What earlier samples said, by index of the GPU.
    pub past: BTreeMap<u32, Past>,
    /// Xid events: GPU, number, when first seen, how often.
    pub xids: Vec<XidSeen>,
}

/// An Xid of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XidSeen {
    /// Index of the GPU.
    pub gpu: u32,
    /// The number.
    pub xid: u64,
    /// How often.
    pub count: u64,
    /// When it was seen first.
    pub first: Option<Time>,
}

/// What earlier samples said of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The last sample in which it gave values: its name and what ran on it.
    pub well: Option<Gpu>,
    /// Since when it gives none.
    pub gone_since: Option<Time>,
    /// By link: what it counted in the first sample, and how many samples in a row it has grown in.
    pub links: BTreeMap<u32, LinkPast>,
    /// Samples in a row in which it was busy and its PCIe link was below what it can do.
    pub slow_bus: u32,
}

/// What earlier samples said of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkPast {
    /// Errors in the first sample that told them.
    pub first: Option<u64>,
    /// Errors in the last sample that told them.
    pub last: Option<u64>,
    /// Samples that told them.
    pub looks: u32,
    /// Samples in which there were more than before.
    pub growths: u32,
    /// It was up in some sample.
    pub was_up: bool,
}

impl LinkPast {
    /// Errors that were added while it was watched; `None` before there are two samples to compare.
    #[must_use]
    pub fn new_errors(&self) -> Option<u64> {
        let grown = self.last?.saturating_sub(self.first?);
        (self.looks > 1).then_some(grown)
    }
}

impl Gpus {
    /// Takes a sample; it replaces the one before of the same host.
    pub fn take(&mut self, host: String, seen: Option<Time>, mut sample: GpuSample) {
        if self.hosts.len() >= HOSTS && !self.hosts.contains_key(&host) {
            return;
        }
        sample.gpus.truncate(GPUS);
        sample.pairs.truncate(GPUS * GPUS);
        sample.gpus.sort_by_key(|gpu| gpu.index);
        let known = self.hosts.entry(host).or_default();
        for gpu in &sample.gpus {
            if known.past.len() < GPUS || known.past.contains_key(&gpu.index) {
                known.past.entry(gpu.index).or_default().take(gpu, seen);
            }
        }
        for xid in &sample.xids {
            let mut same = known.xids.iter_mut();
            if let Some(same) = same.find(|x| x.gpu == xid.gpu && x.xid == xid.xid) {
                same.count += 1;
            } else if known.xids.len() < XIDS {
                known.xids.push(XidSeen {
                    gpu: xid.gpu,
                    xid: xid.xid,
                    count: 1,
                    first: seen,
                });
            }
        }
        known.samples += 1;
        known.seen = seen;
        known.last = sample;
    }
}

impl HostGpus {
    /// The GPU with this number of NCCL's (`busId`).
    #[must_use]
    pub fn by_bus_id(&self, bus_id: u64) -> Option<&Gpu> {
        let mut gpus = self.last.gpus.iter();
        gpus.find(|gpu| gpu.nccl_bus_id() == Some(bus_id))
    }

    /// The GPU with this index, if it never told its bus id.
    #[must_use]
    pub fn unnamed(&self, index: i32) -> Option<&Gpu> {
        let mut gpus = self.last.gpus.iter();
        gpus.find(|gpu| i32::try_from(gpu.index) == Ok(index) && gpu.bus_id.is_none())
    }

    /// The only GPU that a process computes on.
    #[must_use]
    pub fn by_pid(&self, pid: u32) -> Option<&Gpu> {
        let runs = |gpu: &&Gpu| gpu.processes.iter().flatten().any(|p| p.pid == pid);
        let mut gpus = self.last.gpus.iter().filter(runs);
        let first = gpus.next()?;
        gpus.next().is_none().then_some(first)
    }
}

impl Past {
    fn take(&mut self, gpu: &Gpu, seen: Option<Time>) {
        if matches!(
            gpu.trouble,
            Some(Trouble::Lost | Trouble::ResetRequired | Trouble::Silent | Trouble::Other(_))
        ) {
            self.gone_since = self.gone_since.or(seen);
            return;
        }
        self.gone_since = None;
        for link in gpu.links.iter().flatten() {
            let known = self.links.entry(link.link).or_default();
            known.was_up |= link.up == Some(true);
            if let Some(errors) = link.errors() {
                // Counters that were reset begin anew.
                known.first = Some(known.first.map_or(errors, |first| first.min(errors)));
                known.growths += u32::from(known.last.is_some_and(|last| errors > last));
                known.last = Some(errors);
                known.looks = known.looks.saturating_add(1);
            }
        }
        self.slow_bus = if gpu.busy_bus_is_slow() == Some(true) {
            self.slow_bus.saturating_add(1)
        } else {
            0
        };
        self.well = Some(gpu.clone());
    }
}
