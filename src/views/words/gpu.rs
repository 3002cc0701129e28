//! What a GPU and a process do, in words.

use std::collections::BTreeMap;

use super::{count, ranges, thousands};
use crate::engine::gpu::{FabricState, Gpu, GpuProcess, Link, Means, Throttle, Trouble};
use crate::engine::input::ProcessState;
use crate::engine::job::ProcessSeen;

/// The state of a process, as JSON and people name it.
#[must_use]
pub fn process_state(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Running => "running",
        ProcessState::Stopped => "stopped",
        ProcessState::Traced => "traced",
        ProcessState::Uninterruptible => "uninterruptible",
        ProcessState::Zombie => "zombie",
        ProcessState::Gone => "gone",
    }
}

/// `process running, 102 % of a core, 84 threads, 6 of NCCL`.
#[must_use]
pub fn process_line(seen: &ProcessSeen) -> String {
    let mut parts = vec![format!("process {}", process_state(seen.state))];
    let load = seen.load;
    parts.extend(load.cpu_percent.map(|share| format!("{share}% of a core")));
    if let Some(threads) = load.threads {
        let nccl = load
            .nccl_threads
            .map_or_else(String::new, |n| format!(", {n} of NCCL"));
        parts.push(format!("{}{nccl}", count(threads as usize, "thread")));
    }
    parts.join(", ")
}

/// What a GPU does, in a table's cell: `100% 118W`. Never a 0 for what is not known.
#[must_use]
pub fn gpu_cell(gpu: &Gpu) -> String {
    match &gpu.trouble {
        Some(Trouble::Lost) => return "lost".to_owned(),
        Some(Trouble::ResetRequired) => return "needs reset".to_owned(),
        Some(Trouble::Silent) => return "no answer".to_owned(),
        Some(Trouble::Other(_)) => return "unreadable".to_owned(),
        None => {}
    }
    let busy = gpu
        .busy
        .map_or_else(|| "?%".to_owned(), |b| format!("{b}%"));
    match gpu.power_mw {
        Some(power) => format!("{busy} {}W", watts(power)),
        None => busy,
    }
}

fn watts(milliwatts: u32) -> u32 {
    milliwatts.saturating_add(500) / 1000
}

/// What the GPU's load means for a rank that stands still.
#[must_use]
pub fn meaning(means: Means) -> &'static str {
    match means {
        Means::Spins => "busy at low power: a kernel spins, most likely waiting in a collective",
        Means::Computes => "busy at high power: it computes",
        Means::Idle => "no kernel runs: nothing was launched, or the program waits on the CPU",
        Means::Moves => "kernels come and go",
    }
}

/// Everything about a GPU, a line each.
#[must_use]
pub fn gpu_lines(gpu: &Gpu) -> Vec<String> {
    let name = gpu.name.as_deref().unwrap_or("GPU");
    let bus = gpu.bus_id.as_deref().unwrap_or("bus id unknown");
    let mut lines = vec![format!("GPU {} {name} {bus}", gpu.index)];
    if gpu.trouble.is_some() {
        lines.push(format!("gives no values: {}", gpu_cell(gpu)));
        return lines;
    }
    lines.push(load(gpu));
    lines.extend(gpu.means().map(|means| format!("means {}", meaning(means))));
    lines.push(memory(gpu));
    lines.push(bus_line(gpu));
    lines.extend(gpu.links.as_deref().map(links));
    lines.extend(others(gpu));
    lines
}

fn or_unknown<T: ToString>(value: Option<T>, unit: &str) -> String {
    value.map_or_else(
        || "unknown".to_owned(),
        |v| format!("{}{unit}", v.to_string()),
    )
}

fn load(gpu: &Gpu) -> String {
    let limit = gpu
        .power_limit_mw
        .map_or_else(String::new, |limit| format!(" of {} W", watts(limit)));
    let power = or_unknown(gpu.power_mw.map(watts), " W");
    let mut line = format!(
        "busy {}, power {power}{limit}, temperature {}, SM clock {}",
        or_unknown(gpu.busy, "%"),
        or_unknown(gpu.temperature_c, " C"),
        or_unknown(gpu.sm_mhz, " MHz"),
    );
    let slowed: Vec<&str> = gpu
        .throttle
        .iter()
        .flatten()
        .filter_map(|reason| throttle(*reason))
        .collect();
    if !slowed.is_empty() {
        line.push_str(&format!(", slowed by {}", slowed.join(", ")));
    }
    line
}

/// Reasons that matter; being idle is none.
fn throttle(reason: Throttle) -> Option<&'static str> {
    Some(match reason {
        Throttle::Idle | Throttle::Unknown => return None,
        Throttle::Setting => "a clock setting",
        Throttle::PowerCap => "the power limit",
        Throttle::Hardware => "the hardware",
        Throttle::SyncBoost => "other GPUs",
        Throttle::Heat => "heat",
        Throttle::HardwareHeat => "heat (hardware)",
        Throttle::PowerBrake => "the power supply",
        Throttle::Display => "the display",
    })
}

fn memory(gpu: &Gpu) -> String {
    let mib = |bytes: Option<u64>| or_unknown(bytes.map(|b| thousands(b >> 20)), "");
    let mut line = format!(
        "memory {} of {} MiB",
        mib(gpu.memory_used),
        mib(gpu.memory_total)
    );
    if gpu.memory_is_full() == Some(true) {
        line.push_str(", full");
    }
    let process = |p: &GpuProcess| match p.memory {
        Some(bytes) => format!("{} ({} MiB)", p.pid, thousands(bytes >> 20)),
        None => p.pid.to_string(),
    };
    match gpu.processes.as_deref() {
        None => line.push_str("; processes unknown"),
        Some([]) => line.push_str("; no process seen"),
        Some(some) => {
            let first: Vec<String> = some.iter().take(4).map(process).collect();
            let more = some.len().saturating_sub(4);
            let noun = if some.len() == 1 {
                "process"
            } else {
                "processes"
            };
            line.push_str(&format!("; {noun} {}", first.join(", ")));
            if more > 0 {
                line.push_str(&format!(" and {more} more"));
            }
        }
    }
    line
}

fn bus_line(gpu: &Gpu) -> String {
    let bus = &gpu.pcie;
    let speed = |kbps: Option<u32>| or_unknown(kbps.map(|k| k / 1000), " MB/s");
    format!(
        "PCIe generation {} of {}, x{} of x{}; sends {}, receives {}",
        or_unknown(bus.generation, ""),
        or_unknown(bus.generation_max, ""),
        bus.width.map_or_else(|| "?".to_owned(), |w| w.to_string()),
        bus.width_max
            .map_or_else(|| "?".to_owned(), |w| w.to_string()),
        speed(bus.sent_kbps),
        speed(bus.received_kbps),
    )
}

fn links(links: &[Link]) -> String {
    if links.is_empty() {
        return "no NVLink".to_owned();
    }
    let up: Vec<u32> = links
        .iter()
        .filter(|l| l.up == Some(true))
        .map(|l| l.link)
        .collect();
    let down = links.iter().filter(|l| l.up == Some(false));
    let mut line = format!("NVLink {} of {} up", up.len(), links.len());
    let mut speeds: BTreeMap<u32, usize> = BTreeMap::new();
    for mbps in links.iter().filter_map(|l| l.mbps) {
        *speeds.entry(mbps).or_default() += 1;
    }
    for (mbps, n) in speeds {
        line.push_str(&format!(
            ", {n} at {}.{} GB/s",
            mbps / 1000,
            mbps % 1000 / 100
        ));
    }
    let down = ranges(down.map(|l| l.link));
    if !down.is_empty() {
        line.push_str(&format!(", down {down}"));
    }
    match links
        .iter()
        .filter_map(Link::errors)
        .reduce(u64::saturating_add)
    {
        Some(errors) => line.push_str(&format!(", errors {}", thousands(errors))),
        None => line.push_str(", errors unknown"),
    }
    line
}

/// What is worth a line only where it is not as usual.
fn others(gpu: &Gpu) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(fabric) = &gpu.fabric {
        let words = match fabric.state {
            FabricState::NotSupported | FabricState::Unknown => None,
            FabricState::NotStarted => Some("not started"),
            FabricState::InProgress => Some("in progress"),
            FabricState::Completed if fabric.status == Some(0) => Some("completed"),
            FabricState::Completed => Some("failed"),
        };
        lines.extend(words.map(|state| format!("fabric {state}")));
    }
    if gpu.mig == Some(true) {
        lines.push("MIG is on".to_owned());
    }
    if let Some(errors) = gpu.ecc_uncorrected.filter(|n| *n > 0) {
        let noun = if errors == 1 { "error" } else { "errors" };
        lines.push(format!(
            "{} memory {noun} that could not be corrected",
            thousands(errors)
        ));
    }
    if let Some(rows) = gpu.remapped.filter(|r| r.pending || r.failed) {
        lines.push(if rows.failed {
            "a memory row could not be replaced".to_owned()
        } else {
            "a memory row waits for a reset to be replaced".to_owned()
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells() {
        let mut gpu = Gpu {
            busy: Some(100),
            power_mw: Some(118_400),
            power_limit_mw: Some(700_000),
            ..Gpu::default()
        };
        assert_eq!(gpu_cell(&gpu), "100% 118W");
        assert_eq!(gpu.means(), Some(Means::Spins));
        gpu.power_mw = None;
        assert_eq!(gpu_cell(&gpu), "100%");
        assert_eq!(gpu.means(), None);
        gpu.busy = None;
        assert_eq!(gpu_cell(&gpu), "?%");
        gpu.trouble = Some(Trouble::Lost);
        assert_eq!(gpu_cell(&gpu), "lost");
    }

    #[test]
    fn what_is_not_known_is_called_so() {
        let lines = gpu_lines(&Gpu::default())[1..].join("\n");
        assert!(lines.contains("busy unknown, power unknown"), "{lines}");
        assert!(lines.contains("memory unknown of unknown MiB"), "{lines}");
        assert!(!lines.contains(" 0"), "{lines}");
    }
}
