//! One reading of one GPU. What it does not give is `None`.

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, P2pCapabilitiesIndex, P2pStatus, PcieUtilCounter,
    TemperatureSensor, TemperatureThreshold, TopologyLevel,
};
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::field_id as id;

use super::raw;
use crate::engine::gpu::{
    Gpu, GpuProcess, Link, P2p, Pair, Path, Pcie, Remapped, Throttle, Trouble,
};

/// NVLinks of one GPU at most (NVML_NVLINK_MAX_LINKS).
const LINKS: u32 = 36;
/// Programs on one GPU that are looked at.
const PROCESSES: usize = 256;
/// Bytes of a program's name and arguments that are asked for.
const NAME: usize = 512;

/// What a failed call says of the GPU as a whole.
pub(super) fn trouble(error: &NvmlError) -> Trouble {
    match error {
        NvmlError::GpuLost => Trouble::Lost,
        NvmlError::ResetRequired => Trouble::ResetRequired,
        other => Trouble::Other(other.to_string()),
    }
}

/// Takes values, and remembers that the GPU is gone.
#[derive(Default)]
struct Taker {
    trouble: Option<Trouble>,
}

impl Taker {
    fn take<T>(&mut self, result: Result<T, NvmlError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired) {
                    self.trouble = Some(trouble(&error));
                }
                None
            }
        }
    }
}

/// Reads everything about a GPU.
pub(super) fn gpu(device: &Device<'_>, index: u32) -> Gpu {
    let mut t = Taker::default();
    let memory = t.take(device.memory_info());
    let ecc = |kind| device.total_ecc_errors(kind, EccCounter::Volatile);
    let gpu = Gpu {
        index,
        bus_id: t.take(device.pci_info()).map(|pci| pci.bus_id),
        uuid: t.take(device.uuid()),
        name: t.take(device.name()),
        trouble: None,
        busy: t.take(device.utilization_rates()).map(|u| u.gpu),
        power_mw: t.take(device.power_usage()),
        power_limit_mw: t.take(device.enforced_power_limit()),
        temperature_c: t.take(device.temperature(TemperatureSensor::Gpu)),
        slowdown_c: t.take(device.temperature_threshold(TemperatureThreshold::Slowdown)),
        sm_mhz: t.take(device.clock_info(Clock::SM)),
        sm_max_mhz: t.take(device.max_clock_info(Clock::SM)),
        memory_mhz: t.take(device.clock_info(Clock::Memory)),
        throttle: t.take(device.current_throttle_reasons()).map(throttle),
        memory_total: memory.as_ref().map(|m| m.total),
        memory_used: memory.as_ref().map(|m| m.used),
        processes: processes(device, &mut t),
        pcie: Pcie {
            generation: t.take(device.current_pcie_link_gen()),
            generation_max: t.take(device.max_pcie_link_gen()),
            width: t.take(device.current_pcie_link_width()),
            width_max: t.take(device.max_pcie_link_width()),
            sent_kbps: t.take(device.pcie_throughput(PcieUtilCounter::Send)),
            received_kbps: t.take(device.pcie_throughput(PcieUtilCounter::Receive)),
            replays: t.take(device.pcie_replay_counter()),
        },
        links: links(device, &mut t),
        fabric: raw::fabric(device),
        mig: t.take(device.mig_mode()).map(|mode| mode.current != 0),
        ecc: t
            .take(device.is_ecc_enabled())
            .map(|state| state.currently_enabled),
        ecc_corrected: t.take(ecc(MemoryError::Corrected)),
        ecc_uncorrected: t.take(ecc(MemoryError::Uncorrected)),
        remapped: remapped(device, &mut t),
    };
    Gpu {
        trouble: t.trouble,
        ..gpu
    }
}

fn throttle(reasons: ThrottleReasons) -> Vec<Throttle> {
    let names = [
        (ThrottleReasons::GPU_IDLE, Throttle::Idle),
        (
            ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
            Throttle::Setting,
        ),
        (ThrottleReasons::SW_POWER_CAP, Throttle::PowerCap),
        (ThrottleReasons::HW_SLOWDOWN, Throttle::Hardware),
        (ThrottleReasons::SYNC_BOOST, Throttle::SyncBoost),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, Throttle::Heat),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, Throttle::HardwareHeat),
        (
            ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN,
            Throttle::PowerBrake,
        ),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, Throttle::Display),
    ];
    let set = names.iter().filter(|(bit, _)| reasons.contains(*bit));
    set.map(|(_, name)| *name).collect()
}

fn processes(device: &Device<'_>, t: &mut Taker) -> Option<Vec<GpuProcess>> {
    let mut processes: Vec<GpuProcess> = t
        .take(device.running_compute_processes())?
        .into_iter()
        .map(|process| GpuProcess {
            pid: process.pid,
            name: None,
            memory: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            },
            rank: None,
        })
        .collect();
    // MIG lists a process once for each instance.
    processes.sort_by_key(|process| process.pid);
    processes.dedup_by_key(|process| process.pid);
    processes.truncate(PROCESSES);
    for process in &mut processes {
        // As nvidia-smi names it: a pid of the driver's need not be one of this namespace's /proc.
        let name = device.nvml().sys_process_name(process.pid, NAME);
        process.name = name.ok().as_deref().and_then(program);
    }
    Some(processes)
}

/// `python3` of `/usr/bin/python3 -m vllm.entrypoints`.
fn program(command: &str) -> Option<String> {
    let path = command.split_whitespace().next()?;
    let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some(name.to_owned())
}

/// The links that exist. Where the first cannot be asked for there is none, or the GPU does not tell.
fn links(device: &Device<'_>, t: &mut Taker) -> Option<Vec<Link>> {
    let mut links = Vec::new();
    for number in 0..LINKS {
        let link = device.link_wrapper_for(number);
        let up = match link.is_active() {
            Ok(up) => up,
            // Beyond the last link; or a GPU without any.
            Err(NvmlError::InvalidArg | NvmlError::NotSupported) => {
                if number == 0 {
                    return Some(links);
                }
                // A link in the middle may be fused off.
                continue;
            }
            Err(error) => {
                t.take::<()>(Err(error));
                return None;
            }
        };
        let recoveries = link.error_counter(ErrorCounter::DlRecovery);
        let crc = [ErrorCounter::DlCrcFlit, ErrorCounter::DlCrcData].map(|kind| {
            let count = link.error_counter(kind);
            t.take(count)
        });
        links.push(Link {
            link: number,
            up: Some(up),
            version: t.take(link.version()),
            mbps: up.then(|| raw::link_mbps(device, number)).flatten(),
            remote: t.take(link.remote_pci_info()).map(|pci| pci.bus_id),
            replays: t.take(link.error_counter(ErrorCounter::DlReplay)),
            recoveries: t.take(recoveries),
            crc_errors: crc.into_iter().flatten().reduce(u64::saturating_add),
            new_errors: None,
        });
    }
    Some(links)
}

fn remapped(device: &Device<'_>, t: &mut Taker) -> Option<Remapped> {
    let fields = [
        id::NVML_FI_DEV_REMAPPED_COR,
        id::NVML_FI_DEV_REMAPPED_UNC,
        id::NVML_FI_DEV_REMAPPED_PENDING,
        id::NVML_FI_DEV_REMAPPED_FAILURE,
    ]
    .map(FieldId);
    let values = t.take(device.field_values_for(&fields))?;
    let mut numbers = values.into_iter().map(|value| {
        let value = value.ok()?.value.ok()?;
        match value {
            SampleValue::U32(number) => Some(number),
            SampleValue::U64(number) => u32::try_from(number).ok(),
            SampleValue::I64(number) => u32::try_from(number).ok(),
            SampleValue::F64(_) => None,
        }
    });
    let mut next = || numbers.next().flatten();
    Some(Remapped {
        corrected: next()?,
        uncorrected: next()?,
        pending: next()? != 0,
        failed: next()? != 0,
    })
}

/// What lies between a GPU and those behind it.
pub(super) fn pairs(nvml: &Nvml, index: u32, count: u32) -> Vec<Pair> {
    let Ok(device) = nvml.device_by_index(index) else {
        return Vec::new();
    };
    let others = (index + 1..count).filter_map(|b| Some((b, nvml.device_by_index(b).ok()?)));
    others
        .map(|(b, other)| {
            let p2p = |kind| device.p2p_status(&other, kind).ok().and_then(p2p);
            Pair {
                a: index,
                b,
                read: p2p(P2pCapabilitiesIndex::Read),
                write: p2p(P2pCapabilitiesIndex::Write),
                nvlink: p2p(P2pCapabilitiesIndex::NvLink),
                atomics: p2p(P2pCapabilitiesIndex::Atomics),
                path: device.topology_common_ancestor(other).ok().map(path),
            }
        })
        .collect()
}

fn p2p(status: P2pStatus) -> Option<P2p> {
    match status {
        P2pStatus::Ok => Some(P2p::Ok),
        P2pStatus::ChipsetNotSupported => Some(P2p::Chipset),
        P2pStatus::GpuNotSupported => Some(P2p::Gpu),
        P2pStatus::IohTopologyNotSupported => Some(P2p::Topology),
        P2pStatus::DisabledByRegkey => Some(P2p::Regkey),
        P2pStatus::NotSupported => Some(P2p::Unsupported),
        P2pStatus::Unknown => None,
    }
}

fn path(level: TopologyLevel) -> Path {
    match level {
        TopologyLevel::Internal => Path::Board,
        TopologyLevel::Single => Path::Switch,
        TopologyLevel::Multiple => Path::Switches,
        TopologyLevel::HostBridge => Path::HostBridge,
        TopologyLevel::Node => Path::Node,
        TopologyLevel::System => Path::System,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs() {
        for (command, name) in [
            ("/usr/bin/python3 -m vllm.entrypoints", Some("python3")),
            ("VLLM::EngineCore", Some("VLLM::EngineCore")),
            ("/opt/x/", None),
            ("", None),
        ] {
            assert_eq!(program(command).as_deref(), name);
        }
    }
}
