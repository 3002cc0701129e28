//! What a GPU and a process do, in words.

use std::collections::BTreeMap;

use super::{count, ranges, thousands};
use crate::engine::gpu::{
    Fabric, FabricState, Gpu, GpuProcess, Link, Means, P2p, Pair, Path, Throttle, Trouble,
};
use crate::engine::input::ProcessState;
use crate::engine::job::ProcessSeen;

/// Above this share of a core, in percent, a program works or spins on the CPU.
const BUSY: u32 = 80;
/// Up to this share it does nothing but wait.
const STILL: u32 = 5;

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
fn meaning(means: Means) -> &'static str {
    match means {
        Means::Spins => "busy at low power: a kernel spins, most likely waiting in a collective",
        Means::Computes => "busy at high power: it computes",
        Means::Idle => "no kernel runs: nothing was launched, or the program waits on the CPU",
        Means::Moves => "kernels come and go",
    }
}

/// What a GPU shows that matters for a rank that stands still, a sentence each.
fn meanings(gpu: &Gpu) -> Vec<String> {
    let mut all: Vec<String> = gpu
        .means()
        .map(|m| meaning(m).to_owned())
        .into_iter()
        .collect();
    if gpu.memory_is_full() == Some(true) {
        all.push("memory full: a new communicator may find no room for its buffers".to_owned());
    }
    let slowed = slowed_by(gpu);
    if !slowed.is_empty() {
        all.push(format!(
            "clocks held down by {}: it may be late and not stuck",
            slowed.join(", ")
        ));
    }
    all
}

fn slowed_by(gpu: &Gpu) -> Vec<&'static str> {
    let reasons = gpu.slowed_by().unwrap_or_default();
    reasons.into_iter().filter_map(throttle).collect()
}

/// The same in a table's cell: `spins, memory full, slowed`; nothing where nothing is known.
#[must_use]
pub fn gpu_means(gpu: &Gpu) -> String {
    let mut words: Vec<&str> = gpu.means().map(Means::name).into_iter().collect();
    if gpu.memory_is_full() == Some(true) {
        words.push("memory full");
    }
    if !slowed_by(gpu).is_empty() {
        words.push("slowed");
    }
    words.join(", ")
}

/// What process and GPU of a rank show together, where that is more than each alone.
#[must_use]
pub fn together(seen: &ProcessSeen, gpu: &Gpu) -> Option<&'static str> {
    let runs = matches!(
        seen.state,
        ProcessState::Running | ProcessState::Uninterruptible
    );
    let idle = gpu.means()? == Means::Idle && runs;
    match seen.load.cpu_percent.filter(|_| idle)? {
        share if share >= BUSY => Some("the GPU waits while the program works on the CPU"),
        share if share <= STILL => {
            Some("neither GPU nor CPU works: it waits for a lock, a file, or another process")
        }
        _ => None,
    }
}

/// Programs on one GPU that are named.
const PROCESSES: usize = 8;

/// Everything about a GPU, a line each.
#[must_use]
pub fn gpu_lines(gpu: &Gpu) -> Vec<String> {
    let name = gpu.name.as_deref().unwrap_or("GPU");
    let bus = gpu.bus_id.as_deref().unwrap_or("bus id unknown");
    let uuid = gpu
        .uuid
        .as_ref()
        .map_or_else(String::new, |uuid| format!(" {uuid}"));
    let mut lines = vec![format!("GPU {} {name} {bus}{uuid}", gpu.index)];
    if gpu.trouble.is_some() {
        lines.push(format!("gives no values: {}", gpu_cell(gpu)));
        return lines;
    }
    lines.push(load(gpu));
    lines.extend(meanings(gpu).into_iter().map(|m| format!("means {m}")));
    lines.push(memory(gpu));
    lines.push(bus_line(gpu));
    match gpu.links.as_deref() {
        None => lines.push("NVLinks unknown".to_owned()),
        Some(known) => {
            lines.push(links(known));
            lines.extend(remotes(known));
        }
    }
    lines.push(health(gpu));
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
    let slows_down = gpu
        .slowdown_c
        .map_or_else(String::new, |at| format!(" (slows down at {at} C)"));
    let most = gpu
        .sm_max_mhz
        .map_or_else(String::new, |most| format!(" of {most} MHz"));
    let mut line = format!(
        "busy {}, power {power}{limit}, temperature {}{slows_down}, SM clock {}{most}, memory clock {}",
        or_unknown(gpu.busy, "%"),
        or_unknown(gpu.temperature_c, " C"),
        or_unknown(gpu.sm_mhz, " MHz"),
        or_unknown(gpu.memory_mhz, " MHz"),
    );
    let Some(reasons) = &gpu.throttle else {
        line.push_str(", what slows it unknown");
        return line;
    };
    let slowed: Vec<&str> = reasons
        .iter()
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
    match gpu.processes.as_deref() {
        None => line.push_str("; processes unknown"),
        Some([]) => line.push_str("; no process seen"),
        Some(some) => {
            // Whoever takes most of the memory matters most.
            let mut sorted: Vec<&GpuProcess> = some.iter().collect();
            sorted.sort_by_key(|p| (std::cmp::Reverse(p.memory), p.rank, p.pid));
            let first: Vec<String> = sorted.iter().take(PROCESSES).map(|p| process(p)).collect();
            line.push_str(&format!("; on it {}", first.join(", ")));
            let more = some.len().saturating_sub(PROCESSES);
            if more > 0 {
                line.push_str(&format!(" and {more} more"));
            }
        }
    }
    line
}

/// `rank 0 (20,480 MiB)`; `process 4711 python3 (512 MiB)` where it is no rank's.
fn process(process: &GpuProcess) -> String {
    let who = match (process.rank, process.name.as_deref()) {
        (Some(rank), _) => format!("rank {rank}"),
        (None, Some(name)) => format!("process {} {name}", process.pid),
        (None, None) => format!("process {}", process.pid),
    };
    match process.memory {
        Some(bytes) => format!("{who} ({} MiB)", thousands(bytes >> 20)),
        None => who,
    }
}

fn bus_line(gpu: &Gpu) -> String {
    let bus = &gpu.pcie;
    let speed = |kbps: Option<u32>| or_unknown(kbps.map(|k| k / 1000), " MB/s");
    format!(
        "PCIe generation {} of {}, x{} of x{}; sends {}, receives {}, replays {}",
        or_unknown(bus.generation, ""),
        or_unknown(bus.generation_max, ""),
        bus.width.map_or_else(|| "?".to_owned(), |w| w.to_string()),
        bus.width_max
            .map_or_else(|| "?".to_owned(), |w| w.to_string()),
        speed(bus.sent_kbps),
        speed(bus.received_kbps),
        or_unknown(bus.replays, ""),
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
    let grown = links
        .iter()
        .filter_map(|link| Some((link.link, link.new_errors?)));
    let grown: Vec<(u32, u64)> = grown.filter(|(_, new)| *new > 0).collect();
    if !grown.is_empty() {
        let new = grown
            .iter()
            .fold(0_u64, |sum, (_, n)| sum.saturating_add(*n));
        let on = ranges(grown.iter().map(|(link, _)| *link));
        line.push_str(&format!(", {} of them new (link {on})", thousands(new)));
    }
    line
}

/// `NVLinks lead to 00000000:07:00.0 (0-3), 00000000:08:00.0 (4-7)`
fn remotes(links: &[Link]) -> Option<String> {
    let mut ends: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for link in links {
        if let Some(remote) = link.remote.as_deref() {
            ends.entry(remote).or_default().push(link.link);
        }
    }
    let words = ends
        .iter()
        .map(|(remote, links)| format!("{remote} ({})", ranges(links.iter().copied())));
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("NVLinks lead to {}", words.join(", ")))
}

/// What a GPU tells of its memory cells, its partition and its fabric.
fn health(gpu: &Gpu) -> String {
    let switch = |on: Option<bool>| match on {
        None => "unknown",
        Some(true) => "on",
        Some(false) => "off",
    };
    let errors = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), thousands);
    let rows = gpu
        .remapped
        .map(|rows| rows.corrected.saturating_add(rows.uncorrected));
    format!(
        "MIG {}, ECC {}, memory errors corrected {}, not corrected {}, rows replaced {}, fabric {}",
        switch(gpu.mig),
        switch(gpu.ecc),
        errors(gpu.ecc_corrected),
        errors(gpu.ecc_uncorrected),
        or_unknown(rows, ""),
        gpu.fabric
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), fabric),
    )
}

fn fabric(fabric: &Fabric) -> String {
    let state = match fabric.state {
        FabricState::NotSupported => "none",
        FabricState::Unknown => "unknown",
        FabricState::NotStarted => "not started",
        FabricState::InProgress => "in progress",
        FabricState::Completed if fabric.status == Some(0) => "completed",
        FabricState::Completed => "failed",
    };
    let clique = fabric
        .clique
        .map_or_else(String::new, |clique| format!(", clique {clique}"));
    let healthy = match fabric.healthy {
        Some(true) => ", healthy",
        Some(false) => ", unhealthy",
        None => "",
    };
    format!("{state}{clique}{healthy}")
}

/// `direct access yes; NVLink yes; atomics unknown; the way between them: one PCIe switch (PIX)`
#[must_use]
pub fn pair(pair: &Pair) -> String {
    let word = |p2p: Option<P2p>| match p2p {
        None => "unknown",
        Some(P2p::Ok) => "yes",
        Some(P2p::Chipset) => "no, the chipset cannot",
        Some(P2p::Gpu) => "no, a GPU cannot",
        Some(P2p::Topology) => "no, what lies between cannot",
        Some(P2p::Regkey) => "no, the driver was told so",
        Some(P2p::Unsupported) => "no",
    };
    let access = if pair.read == pair.write {
        format!("direct access {}", word(pair.read))
    } else {
        format!("read {}, write {}", word(pair.read), word(pair.write))
    };
    let way = match pair.path {
        None => "unknown",
        Some(Path::Board) => "one board",
        Some(Path::Switch) => "one PCIe switch (PIX)",
        Some(Path::Switches) => "several PCIe switches (PXB)",
        Some(Path::HostBridge) => "a PCIe host bridge (PHB)",
        Some(Path::Node) => "host bridges of one NUMA node (NODE)",
        Some(Path::System) => "the link between CPU sockets (SYS)",
    };
    format!(
        "{access}; NVLink {}; atomics {}; PCIe way {way}",
        word(pair.nvlink),
        word(pair.atomics),
    )
}

/// What is worth a line only where it is not as usual.
fn others(gpu: &Gpu) -> Vec<String> {
    let mut lines = Vec::new();
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
        assert_eq!(gpu_means(&Gpu::default()), "");
        assert_eq!(
            pair(&Pair::default()),
            "direct access unknown; NVLink unknown; atomics unknown; PCIe way unknown"
        );
    }

    #[test]
    fn what_holds_a_rank_up_is_said() {
        let gpu = Gpu {
            busy: Some(100),
            power_mw: Some(118_400),
            power_limit_mw: Some(700_000),
            memory_used: Some(149_900_000_000),
            memory_total: Some(150_000_000_000),
            throttle: Some(vec![Throttle::PowerCap, Throttle::HardwareHeat]),
            ..Gpu::default()
        };
        assert_eq!(gpu_means(&gpu), "spins, memory full, slowed");
        let lines = gpu_lines(&gpu).join("\n");
        for words in [
            "slowed by the power limit, heat (hardware)",
            "means memory full",
            "means clocks held down by heat (hardware): it may be late",
        ] {
            assert!(lines.contains(words), "{words}: {lines}");
        }
        // The power limit is how it is meant to run.
        let capped = Gpu {
            throttle: Some(vec![Throttle::PowerCap]),
            ..gpu
        };
        assert_eq!(gpu_means(&capped), "spins, memory full");
    }

    #[test]
    fn an_idle_gpu_beside_its_process() {
        let with = |cpu_percent: Option<u32>, busy: u32| {
            let seen = ProcessSeen {
                state: ProcessState::Running,
                since: None,
                load: crate::engine::input::ProcessLoad {
                    cpu_percent,
                    ..Default::default()
                },
            };
            let gpu = Gpu {
                busy: Some(busy),
                ..Gpu::default()
            };
            together(&seen, &gpu).is_some()
        };
        assert!(with(Some(100), 0) && with(Some(0), 0));
        // Nothing is said of what is not known, or of what one of the two says alone.
        assert!(!with(None, 0) && !with(Some(40), 0) && !with(Some(100), 50));
    }

    #[test]
    fn processes_are_named_by_rank_or_by_pid_and_name() {
        let on = |pid, name: Option<&str>, rank| GpuProcess {
            pid,
            name: name.map(str::to_owned),
            memory: Some(u64::from(pid) << 20),
            rank,
        };
        let gpu = Gpu {
            processes: Some(vec![
                on(7, Some("python3"), Some(3)),
                on(9, Some("Xorg"), None),
                on(8, None, None),
            ]),
            ..Gpu::default()
        };
        assert!(
            memory(&gpu)
                .ends_with("; on it process 9 Xorg (9 MiB), process 8 (8 MiB), rank 3 (7 MiB)"),
            "{}",
            memory(&gpu)
        );
    }
}
