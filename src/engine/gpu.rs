//! What the GPUs of a host say of themselves: one sample, plain data.
//!
//! `None` is "the GPU does not tell", never zero; an empty list is "there are none". Numbers are
//! whole, so that a sample can be compared and replayed to the same answer.

use serde::{Deserialize, Serialize};

/// GPUs of one sample that are looked at; no host has more.
pub const GPUS: usize = 64;

/// All GPUs of one host at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuSample {
    /// Version of the driver.
    pub driver: Option<String>,
    /// Newest CUDA version that the driver knows.
    pub cuda: Option<String>,
    /// The GPUs by their index.
    pub gpus: Vec<Gpu>,
    /// Pairs of GPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
    /// Xid errors since the sample before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<Xid>,
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// NVML's index on its host.
    pub index: u32,
    /// PCI bus id as NVML prints it (`00000000:18:00.0`).
    pub bus_id: Option<String>,
    /// UUID.
    pub uuid: Option<String>,
    /// Product name.
    pub name: Option<String>,
    /// Why it gives no values, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// Share of the last time in which a kernel ran, in percent.
    pub busy: Option<u32>,
    /// Power drawn, in milliwatts.
    pub power_mw: Option<u32>,
    /// Power limit that is enforced, in milliwatts.
    pub power_limit_mw: Option<u32>,
    /// Temperature, in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Temperature at which it slows down.
    pub slowdown_c: Option<u32>,
    /// Clock of the multiprocessors, in MHz.
    pub sm_mhz: Option<u32>,
    /// The same at most.
    pub sm_max_mhz: Option<u32>,
    /// Clock of the memory, in MHz.
    pub memory_mhz: Option<u32>,
    /// Why clocks are lower than they could be.
    pub throttle: Option<Vec<Throttle>>,
    /// Memory that programs can use, in bytes.
    pub memory_total: Option<u64>,
    /// Memory in use, in bytes.
    pub memory_used: Option<u64>,
    /// Programs that compute on it.
    pub processes: Option<Vec<GpuProcess>>,
    /// Its PCI Express link.
    pub pcie: Pcie,
    /// Its NVLinks.
    pub links: Option<Vec<Link>>,
    /// Its place in an NVSwitch fabric.
    pub fabric: Option<Fabric>,
    /// Whether it is cut into MIG instances.
    pub mig: Option<bool>,
    /// Whether ECC is on.
    pub ecc: Option<bool>,
    /// Memory errors that were corrected since the driver was loaded.
    pub ecc_corrected: Option<u64>,
    /// Memory errors that could not be corrected since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
    /// Memory rows that were replaced.
    pub remapped: Option<Remapped>,
}

impl Gpu {
    /// The number that NCCL prints as `busId`: the digits of the bus id in one.
    #[must_use]
    pub fn nccl_bus_id(&self) -> Option<u64> {
        let digits: String = self
            .bus_id
            .as_deref()?
            .chars()
            .filter(|c| *c != ':' && *c != '.')
            .collect();
        u64::from_str_radix(&digits, 16).ok()
    }
}

/// Busy at least this much, in percent, a GPU has a kernel running all the time.
const BUSY: u32 = 98;
/// Less than this share of the power limit, in percent, is what waiting kernels draw: they spin on
/// memory and compute nothing (H200: some 120 W of 700 W idle to 200 W; trainings draw most of it).
const LOW_POWER: u32 = 40;
/// Bytes per second over the bus, in KB/s, that an idle link would not carry.
const BUS_LOAD: u32 = 100_000;
/// A GPU with less than this share of its memory free, in permille, is full.
const FULL: u64 = 10;

/// What a sample of a GPU means for a rank that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// A kernel runs all the time and computes nothing: it waits in a collective.
    Spins,
    /// A kernel runs all the time and computes.
    Computes,
    /// No kernel runs: never launched, or the program waits on the CPU.
    Idle,
    /// Some kernels run.
    Moves,
}

impl Means {
    /// Its name, as JSON has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Spins => "spins",
            Self::Computes => "computes",
            Self::Idle => "idle",
            Self::Moves => "moves",
        }
    }
}

impl Gpu {
    /// What it does, as far as it tells.
    #[must_use]
    pub fn means(&self) -> Option<Means> {
        match self.busy? {
            0 => Some(Means::Idle),
            busy if busy < BUSY => Some(Means::Moves),
            _ => {
                let (power, limit) = (self.power_mw?, self.power_limit_mw?);
                let low = u64::from(power) * 100 < u64::from(limit) * u64::from(LOW_POWER);
                Some(if low { Means::Spins } else { Means::Computes })
            }
        }
    }

    /// True if hardly any memory is free.
    #[must_use]
    pub fn memory_is_full(&self) -> Option<bool> {
        let (used, total) = (self.memory_used?, self.memory_total?);
        (total > 0).then(|| total.saturating_sub(used).saturating_mul(1000) < total * FULL)
    }

    /// What holds its clocks down against its will: heat, or too little power. The power limit, and
    /// clocks that somebody set, are how it is meant to run.
    #[must_use]
    pub fn slowed_by(&self) -> Option<Vec<Throttle>> {
        let against = |reason: &Throttle| {
            matches!(
                reason,
                Throttle::Hardware | Throttle::Heat | Throttle::HardwareHeat | Throttle::PowerBrake
            )
        };
        let reasons = self.throttle.as_ref()?;
        Some(reasons.iter().copied().filter(against).collect())
    }

    /// While data goes over the PCIe link: true if it is below what GPU and slot can do. An idle GPU
    /// lowers it to save power, which says nothing.
    #[must_use]
    pub fn busy_bus_is_slow(&self) -> Option<bool> {
        let bus = &self.pcie;
        let carried = bus.sent_kbps?.saturating_add(bus.received_kbps?);
        if self.busy? == 0 || carried < BUS_LOAD {
            return None;
        }
        let generation = bus.generation? < bus.generation_max?;
        let width = bus.width? < bus.width_max?;
        Some(generation || width)
    }
}

/// Why a GPU gives no values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// It fell off the bus.
    Lost,
    /// It has to be reset.
    ResetRequired,
    /// The driver does not answer about it.
    Silent,
    /// Something else, in the driver's words.
    Other(String),
}

/// Why clocks are lower than they could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Throttle {
    /// Nothing runs.
    Idle,
    /// A limit that somebody set.
    Setting,
    /// The power limit.
    PowerCap,
    /// The hardware slows down, for heat or power.
    Hardware,
    /// Together with other GPUs.
    SyncBoost,
    /// Heat, by the driver.
    Heat,
    /// Heat, by the hardware.
    HardwareHeat,
    /// The power supply asks for it.
    PowerBrake,
    /// The display.
    Display,
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

/// A program that computes on a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuProcess {
    /// Process id on the host.
    pub pid: u32,
    /// The program's name, without folders and arguments.
    pub name: Option<String>,
    /// Memory it uses, in bytes.
    pub memory: Option<u64>,
    /// The rank of the job whose process it is: known to the job, never to the GPU.
    #[serde(skip_deserializing)]
    pub rank: Option<u32>,
}

/// The PCI Express link of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pcie {
    /// Generation now; an idle GPU lowers it.
    pub generation: Option<u32>,
    /// Generation that GPU and slot can do.
    pub generation_max: Option<u32>,
    /// Lanes now.
    pub width: Option<u32>,
    /// Lanes that GPU and slot can do.
    pub width_max: Option<u32>,
    /// Sent by the GPU, in KB/s.
    pub sent_kbps: Option<u32>,
    /// Received by the GPU, in KB/s.
    pub received_kbps: Option<u32>,
    /// Packets that had to be sent again.
    pub replays: Option<u32>,
}

/// One NVLink of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Its number on the GPU.
    pub link: u32,
    /// Whether it is up.
    pub up: Option<bool>,
    /// NVLink version.
    pub version: Option<u32>,
    /// Speed in one direction, in MB/s.
    pub mbps: Option<u32>,
    /// PCI bus id of the other end (a GPU or a switch).
    pub remote: Option<String>,
    /// Packets sent again.
    pub replays: Option<u64>,
    /// Times that it was brought up anew.
    pub recoveries: Option<u64>,
    /// Checksum errors.
    pub crc_errors: Option<u64>,
    /// Errors of all kinds that were added while the link was watched: known from the second sample on.
    #[serde(skip_deserializing)]
    pub new_errors: Option<u64>,
}

impl Link {
    /// All errors that it counts; `None` if it counts none.
    #[must_use]
    pub fn errors(&self) -> Option<u64> {
        let counted = [self.replays, self.recoveries, self.crc_errors];
        counted.into_iter().flatten().reduce(u64::saturating_add)
    }
}

/// A GPU's place in an NVSwitch fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fabric {
    /// How far it has got.
    pub state: FabricState,
    /// Why it failed, where it did: the driver's code, 0 for success.
    pub status: Option<u32>,
    /// The fabric's clique; GPUs of one clique reach each other.
    pub clique: Option<u32>,
    /// Whether it calls itself healthy.
    pub healthy: Option<bool>,
}

/// How far a GPU has got with its fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FabricState {
    /// It belongs to none.
    NotSupported,
    /// It has not begun to register.
    NotStarted,
    /// It registers.
    InProgress,
    /// It has finished; [`Fabric::status`] says how.
    Completed,
    /// Of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Memory rows that were replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remapped {
    /// For errors that were corrected.
    pub corrected: u32,
    /// For errors that were not.
    pub uncorrected: u32,
    /// Some wait for a reset.
    pub pending: bool,
    /// One could not be replaced.
    pub failed: bool,
}

/// Two GPUs of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pair {
    /// Index of the one.
    pub a: u32,
    /// Index of the other.
    pub b: u32,
    /// What lies between them.
    pub path: Option<Path>,
    /// Reading each other's memory.
    pub read: Option<P2p>,
    /// Writing it.
    pub write: Option<P2p>,
    /// Over NVLink.
    pub nvlink: Option<P2p>,
    /// Atomic operations on it.
    pub atomics: Option<P2p>,
}

/// What lies between two GPUs, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// One board.
    Board,
    /// One PCIe switch (PIX).
    Switch,
    /// Several PCIe switches (PXB).
    Switches,
    /// A PCIe host bridge (PHB).
    HostBridge,
    /// Host bridges of one NUMA node (NODE).
    Node,
    /// The link between CPU sockets (SYS).
    System,
}

/// Whether two GPUs reach each other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum P2p {
    /// Yes.
    Ok,
    /// The chipset cannot.
    Chipset,
    /// One of the GPUs cannot.
    Gpu,
    /// What lies between them cannot.
    Topology,
    /// The driver was told not to.
    Regkey,
    /// Not supported.
    Unsupported,
}

/// An Xid error, as it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Xid {
    /// Index of the GPU.
    pub gpu: u32,
    /// Its number.
    pub xid: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_as_nccl_prints_them() {
        let gpu = |id: &str| Gpu {
            bus_id: Some(id.to_owned()),
            ..Gpu::default()
        };
        assert_eq!(gpu("00000000:18:00.0").nccl_bus_id(), Some(0x18000));
        assert_eq!(gpu("0000:C1:00.0").nccl_bus_id(), Some(0xc1000));
        assert_eq!(gpu("00000001:00:00.0").nccl_bus_id(), Some(0x10_0000));
        assert_eq!(Gpu::default().nccl_bus_id(), None);
    }

    #[test]
    fn a_sample_of_a_later_version_is_still_read() {
        let text =
            r#"{"gpus":[{"index":1,"busy":0,"new":{"x":1},"throttle":["idle","of-tomorrow"]}]}"#;
        let sample: GpuSample = serde_json::from_str(text).expect("a sample");
        assert_eq!(sample.gpus[0].busy, Some(0));
        assert_eq!(sample.gpus[0].power_mw, None);
        let throttle = sample.gpus[0].throttle.as_deref();
        assert_eq!(throttle, Some(&[Throttle::Idle, Throttle::Unknown][..]));
    }
}
