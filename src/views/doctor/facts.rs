//! A host's facts, line by line; what is not known is not there.

use super::words;
use crate::probe::facts::Facts;
use crate::probe::infiniband::Device;
use crate::probe::interfaces::{Interface, ready_line};
use crate::probe::limits::{Limit, Pair};
use crate::probe::variables::What;

/// Lines of one kind that are shown.
const MOST: usize = 40;

/// Name and value.
pub(super) fn lines(facts: &Facts) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let mut system = vec![
        facts
            .kernel
            .as_ref()
            .map_or("Linux".to_owned(), |k| format!("Linux {k}")),
    ];
    system.extend(facts.container.map(|c| format!("in {c}")));
    system
        .extend((facts.pci.virtual_machine == Some(true)).then(|| "a virtual machine".to_owned()));
    out.push(("system", system.join(", ")));
    gpus(facts, &mut out);
    libraries(facts, &mut out);
    network(facts, &mut out);
    rdma(facts, &mut out);
    limits(facts, &mut out);
    pci(facts, &mut out);
    for set in facts.variables.iter().take(MOST) {
        let value = set.value.as_deref().unwrap_or("(set, not shown)");
        let mark = match &set.what {
            What::Workaround(_) => "  (workaround)",
            What::Removed(_) => "  (no longer read)",
            What::Misspelled(_) => "  (read by nobody)",
            What::Known | What::Unknown => "",
        };
        out.push(("variable", format!("{}={value}{mark}", set.name)));
    }
    out
}

fn gpus(facts: &Facts, out: &mut Vec<(&'static str, String)>) {
    let gpus = &facts.gpus;
    let usable = facts.usable_gpus();
    let mut names: Vec<&str> = gpus
        .bus
        .iter()
        .filter_map(|gpu| gpu.name.as_deref())
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut text = match (usable, gpus.bus.len()) {
        (0, 0) => "none".to_owned(),
        (usable, bus) if usable == bus || bus == 0 => usable.to_string(),
        (usable, bus) => format!("{usable} usable, {bus} on the PCI bus"),
    };
    if !names.is_empty() {
        text.push_str(&format!(": {}", names.join(", ")));
    }
    out.push(("GPUs", text));
    if let Some(driver) = &gpus.driver {
        let module = match gpus.open_module {
            Some(true) => ", open kernel module",
            Some(false) => ", proprietary kernel module",
            None => "",
        };
        out.push(("driver", format!("{driver}{module}")));
    }
    let mut boot = Vec::new();
    if gpus.switches > 0 {
        boot.push(words::count(gpus.switches, "NVSwitch"));
    }
    let runs = |what: &str, runs: Option<bool>| {
        runs.map(|r| format!("{what} {}", if r { "runs" } else { "does not run" }))
    };
    if gpus.switches > 0 {
        boot.extend(runs("Fabric Manager", gpus.fabric_manager));
    }
    if gpus.driver.is_some() {
        boot.extend(runs("persistence daemon", gpus.persistence_daemon));
    }
    if gpus.imex_channels > 0 {
        boot.push(words::count(gpus.imex_channels, "IMEX channel"));
    }
    if !boot.is_empty() {
        out.push(("at boot", boot.join(", ")));
    }
    for gpu in facts.nvml.iter().flat_map(|sample| &sample.gpus).take(MOST) {
        out.push(("NVML", words::gpu_lines(gpu).join("; ")));
    }
    for pair in facts
        .nvml
        .iter()
        .flat_map(|sample| &sample.pairs)
        .take(MOST)
    {
        let words = words::pair(pair);
        out.push(("NVML", format!("GPU {} to GPU {}: {words}", pair.a, pair.b)));
    }
}

fn libraries(facts: &Facts, out: &mut Vec<(&'static str, String)>) {
    if facts.libraries.nccl.is_empty() {
        out.push(("libnccl", "none found".to_owned()));
    }
    for nccl in facts.libraries.nccl.iter().take(MOST) {
        let version = nccl.version.as_deref().unwrap_or("of unknown version");
        out.push((
            "libnccl",
            format!("{version} {}: {}", nccl.origin, nccl.path.display()),
        ));
    }
    let packages: Vec<String> = facts
        .libraries
        .packages
        .iter()
        .take(MOST)
        .map(|package| format!("{} {}", package.name, package.version))
        .collect();
    if !packages.is_empty() {
        out.push(("packages", packages.join(", ")));
    }
}

fn network(facts: &Facts, out: &mut Vec<(&'static str, String)>) {
    let network = &facts.network;
    // Those without an address carry nothing by themselves.
    let shown = network
        .interfaces
        .iter()
        .filter(|i| !i.addresses.is_empty());
    for interface in shown.take(MOST) {
        out.push(("interface", interface_line(interface)));
    }
    let bare = network
        .interfaces
        .iter()
        .filter(|i| i.addresses.is_empty())
        .count();
    if bare > 0 {
        out.push(("interface", format!("{bare} more without an address")));
    }
    let takes: Vec<String> = network
        .nccl_takes
        .iter()
        .take(MOST)
        .map(|(name, ip)| format!("{name} {ip}"))
        .collect();
    let set = facts
        .variable("NCCL_SOCKET_IFNAME")
        .filter(|list| list.len() > 1);
    let why = set.map_or("by its own rules".to_owned(), |list| {
        format!("NCCL_SOCKET_IFNAME={list}")
    });
    out.push((
        "NCCL takes",
        if takes.is_empty() {
            format!("none ({why})")
        } else {
            format!("{} ({why})", takes.join(", "))
        },
    ));
    if let Some((name, address)) = &network.master {
        let address = address.map_or("no address".to_owned(), |ip| ip.to_string());
        out.push(("MASTER_ADDR", format!("{name} ({address})")));
    }
    if let Some(wanted) = &network.wanted {
        out.push((
            "to set it",
            format!("{}  ({})", ready_line(&wanted.name), wanted.why),
        ));
    }
}

fn interface_line(interface: &Interface) -> String {
    let mut parts = vec![interface.name.clone(), interface.kind.words().to_owned()];
    parts.push(match (interface.running, &interface.state) {
        (Some(false), _) => "no link".to_owned(),
        (_, Some(state)) if state != "unknown" => state.clone(),
        _ => "up".to_owned(),
    });
    parts.extend(interface.mtu.map(|mtu| format!("MTU {mtu}")));
    parts.extend(interface.speed.map(|speed| match speed {
        s if s >= 1000 && s.is_multiple_of(1000) => format!("{} Gb/s", s / 1000),
        s => format!("{s} Mb/s"),
    }));
    let addresses: Vec<String> = interface
        .addresses
        .iter()
        .take(4)
        .map(ToString::to_string)
        .collect();
    parts.push(addresses.join(" "));
    parts.join(", ")
}

fn rdma(facts: &Facts, out: &mut Vec<(&'static str, String)>) {
    let rdma = &facts.rdma;
    for device in rdma.devices.iter().take(MOST) {
        out.push(("RDMA", device_line(device)));
    }
    if rdma.devices.is_empty() {
        return;
    }
    let path = match (&rdma.peer_memory, facts.gpus.open_module) {
        (Some(module), _) => Some(module.clone()),
        (None, Some(true)) => Some("DMA-BUF of the open kernel module".to_owned()),
        (None, Some(false)) => Some("none: nvidia_peermem is not loaded".to_owned()),
        (None, None) => None,
    };
    out.extend(path.map(|path| ("GPUDirect", path)));
    let verbs = rdma.verbs_library.as_deref().unwrap_or("not found");
    out.push(("libibverbs", verbs.to_owned()));
}

fn device_line(device: &Device) -> String {
    let mut parts = vec![device.name.clone()];
    for port in &device.ports {
        let mut words = vec![format!("port {}", port.number)];
        words.extend(port.link_layer.clone());
        words.extend(port.state.clone());
        words.extend(port.physical.clone());
        words.extend(port.rate.clone());
        words.push(words::count(port.gids.len(), "GID"));
        parts.push(words.join(" "));
    }
    if !device.node {
        parts.push("cannot be opened here".to_owned());
    }
    parts.join(", ")
}

fn limit(limit: Limit, bytes: bool) -> String {
    match limit {
        Limit::Unlimited => "unlimited".to_owned(),
        Limit::At(n) if bytes => words::bytes(n),
        Limit::At(n) => words::thousands(n),
    }
}

fn pair(name: &str, pair: Option<Pair>, bytes: bool) -> Option<String> {
    let (soft, hard) = pair?;
    Some(if soft == hard {
        format!("{name} {}", limit(soft, bytes))
    } else {
        format!(
            "{name} {} (at most {})",
            limit(soft, bytes),
            limit(hard, bytes)
        )
    })
}

fn limits(facts: &Facts, out: &mut Vec<(&'static str, String)>) {
    let limits = &facts.limits;
    if let Some(space) = limits.shm {
        let mut text = format!(
            "{}, {} free",
            words::bytes(space.total),
            words::bytes(space.free)
        );
        if let Some((files, bytes)) = limits.shm_files.filter(|(files, _)| *files > 0) {
            text.push_str(&format!(
                ", {} of NCCL with {}",
                words::count(files, "file"),
                words::bytes(bytes)
            ));
        }
        out.push(("/dev/shm", text));
    }
    let parts: Vec<String> = [
        pair("memlock", limits.memlock, true),
        pair("nofile", limits.nofile, false),
        pair("nproc", limits.nproc, false),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !parts.is_empty() {
        out.push(("limits", parts.join(", ")));
    }
    let cgroup = &limits.cgroup;
    let mut parts = Vec::new();
    parts.extend(cgroup.version.map(|version| format!("version {version}")));
    parts.extend(
        cgroup
            .memory
            .map(|bytes| format!("memory {}", words::bytes(bytes))),
    );
    parts.extend(
        cgroup
            .tasks
            .map(|(most, now)| format!("{now} of {most} tasks")),
    );
    parts.extend(
        cgroup
            .cpu_milli
            .map(|milli| format!("{:.1} CPUs", milli as f64 / 1e3)),
    );
    parts.extend(
        cgroup
            .oom_kills
            .map(|kills| format!("{kills} killed for memory")),
    );
    if !parts.is_empty() {
        out.push(("cgroup", parts.join(", ")));
    }
}

fn pci(facts: &Facts, out: &mut Vec<(&'static str, String)>) {
    if facts.gpus.bus.is_empty() {
        return;
    }
    let iommu = match facts.pci.iommus {
        0 => "none in use".to_owned(),
        n => {
            let mut types: Vec<&str> = facts
                .gpus
                .bus
                .iter()
                .filter_map(|gpu| gpu.iommu.as_deref())
                .collect();
            types.sort_unstable();
            types.dedup();
            format!(
                "{n} in use; GPUs: {}",
                if types.is_empty() {
                    "type unknown".to_owned()
                } else {
                    types.join(", ")
                }
            )
        }
    };
    out.push(("IOMMU", iommu));
    out.push((
        "ACS",
        match &facts.pci.acs {
            None => {
                "unknown (it takes root to read, or there is no bridge above the GPUs)".to_owned()
            }
            Some(acs) => format!(
                "redirects at {} of {} bridges above GPUs",
                acs.redirecting.len(),
                acs.read
            ),
        },
    ));
}
