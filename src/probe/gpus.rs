//! NVIDIA GPUs as files tell of them: the PCI bus, the driver's folder in /proc, device nodes.
//!
//! What only the driver's library knows (P2P, links, clocks) is not here.

use serde::Serialize;

use super::host::Host;

/// PCI devices that are looked at.
const MOST: usize = 4096;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gpus {
    /// Those on the PCI bus.
    pub bus: Vec<Gpu>,
    /// Device nodes, `/dev/nvidia0` and so on.
    pub nodes: Vec<u32>,
    /// Version of the kernel driver.
    pub driver: Option<String>,
    /// Whether it is the open kernel module.
    pub open_module: Option<bool>,
    /// Version of the driver's library, libcuda, where one is installed.
    pub library: Option<String>,
    /// NVSwitches on the PCI bus.
    pub switches: usize,
    /// Whether the Fabric Manager runs; unknown where processes of the host are not seen.
    pub fabric_manager: Option<bool>,
    /// Whether the persistence daemon runs.
    pub persistence_daemon: Option<bool>,
    /// IMEX channels that were made.
    pub imex_channels: usize,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// PCI bus id, as NCCL's busId, lower case.
    pub bus_id: String,
    /// The name that the driver gives it.
    pub name: Option<String>,
    /// Number of its device node.
    pub minor: Option<u32>,
    /// The kernel driver that has it.
    pub bound_to: Option<String>,
    /// NUMA node; unknown on machines that have one.
    pub numa_node: Option<u32>,
    /// How its IOMMU group is treated: `identity`, `DMA`, `DMA-FQ`; unknown without an IOMMU.
    pub iommu: Option<String>,
    /// PCIe lanes now and at most. The speed falls while it idles, so that it is not told.
    pub pcie_lanes: Option<(u32, u32)>,
}

impl Gpus {
    /// GPUs that a program here can use: those with a device node, else those that the driver has.
    /// Device nodes are made on first use, but never in a container.
    #[must_use]
    pub fn usable(&self, in_container: bool) -> usize {
        if in_container {
            return self.nodes.len();
        }
        let driven = self.bus.iter().filter(|gpu| gpu.driven()).count();
        if self.driver.is_none() {
            return 0;
        }
        driven.max(self.nodes.len())
    }
}

impl Gpu {
    /// Whether NVIDIA's driver has it.
    #[must_use]
    pub fn driven(&self) -> bool {
        self.bound_to.as_deref() == Some("nvidia")
    }
}

/// GPUs that a CUDA program would see, without asking CUDA.
#[must_use]
pub fn visible() -> u32 {
    if let Ok(visible) = std::env::var("CUDA_VISIBLE_DEVICES") {
        // CUDA stops at the first entry that it does not understand.
        let named = visible
            .split(',')
            .take_while(|part| !part.trim().is_empty() && !part.trim().starts_with('-'));
        return u32::try_from(named.count()).unwrap_or(0);
    }
    u32::try_from(nodes(&Host::this()).len()).unwrap_or(u32::MAX)
}

/// Numbers of device nodes, `/dev/nvidia0` and so on, sorted.
fn nodes(host: &Host) -> Vec<u32> {
    let names = host.list("/dev");
    let number = |name: &String| name.strip_prefix("nvidia")?.parse().ok();
    let mut nodes: Vec<u32> = names.iter().filter_map(number).collect();
    nodes.sort_unstable();
    nodes
}

/// Reads it.
#[must_use]
pub fn gpus(host: &Host) -> Gpus {
    let mut found = Gpus::default();
    for bus_id in host.list("/sys/bus/pci/devices").into_iter().take(MOST) {
        let at = |file: &str| format!("/sys/bus/pci/devices/{bus_id}/{file}");
        if host.text(&at("vendor")).as_deref() != Some("0x10de") {
            continue;
        }
        let class = host.text(&at("class")).unwrap_or_default();
        // Display controllers: VGA and 3D. NVSwitches are bridges of the class "other".
        if class.starts_with("0x0300") || class.starts_with("0x0302") {
            found.bus.push(gpu(host, &bus_id));
        } else if class.starts_with("0x0680") {
            found.switches += 1;
        }
    }
    found.nodes = nodes(host);
    let version = host.text("/proc/driver/nvidia/version");
    found.driver = version.as_deref().and_then(driver_version);
    found.open_module = version.map(|text| text.contains("Open Kernel Module"));
    found.library = library_version(host);
    found.fabric_manager = running(host, "nv-fabricmanage");
    found.persistence_daemon = running(host, "nvidia-persiste");
    found.imex_channels = host.list("/dev/nvidia-caps-imex-channels").len();
    found
}

fn gpu(host: &Host, bus_id: &str) -> Gpu {
    let at = |file: &str| format!("/sys/bus/pci/devices/{bus_id}/{file}");
    let information = host
        .text(&format!("/proc/driver/nvidia/gpus/{bus_id}/information"))
        .unwrap_or_default();
    let field = |name: &str| {
        information.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let lanes = |file: &str| {
        host.number::<u32>(&at(file))
            .filter(|n| (1..=32).contains(n))
    };
    let group = host.link(&at("iommu_group"));
    Gpu {
        bus_id: bus_id.to_lowercase(),
        name: field("Model"),
        minor: field("Device Minor").and_then(|minor| minor.parse().ok()),
        bound_to: host.link(&at("driver")),
        numa_node: host.number(&at("numa_node")),
        iommu: group.and_then(|g| host.text(&format!("/sys/kernel/iommu_groups/{g}/type"))),
        pcie_lanes: lanes("current_link_width").zip(lanes("max_link_width")),
    }
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue …`
fn driver_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

/// From the name of the file that `libcuda.so.1` is a link to. The folders of a container's toolkit and of
/// the distributions; one of a compatibility package is another matter.
fn library_version(host: &Host) -> Option<String> {
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/lib/x86_64-linux-gnu",
    ];
    folders.iter().find_map(|folder| {
        let target = host.link_target(&format!("{folder}/libcuda.so.1"))?;
        let name = target.rsplit('/').next()?;
        let version = name.strip_prefix("libcuda.so.")?;
        let plain = !target.contains("compat") && version.contains('.');
        plain.then(|| version.to_owned())
    })
}

/// Whether a process of this name runs: unknown where init itself is not that of a host.
fn running(host: &Host, name: &str) -> Option<bool> {
    // Names in /proc/PID/comm have 15 characters at most.
    let init = host.text("/proc/1/comm")?;
    if !matches!(init.as_str(), "systemd" | "init") {
        return None;
    }
    let pids = host.list("/proc");
    let numbers = pids
        .iter()
        .filter(|pid| pid.bytes().all(|b| b.is_ascii_digit()));
    let mut seen = 0;
    for pid in numbers {
        let Some(comm) = host.text(&format!("/proc/{pid}/comm")) else {
            continue;
        };
        seen += 1;
        if comm == name {
            return Some(true);
        }
    }
    // With hidepid only one's own are seen.
    (seen > 20).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_versions() {
        for (text, version) in [
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version: gcc 12.3.0",
                Some("535.183.01"),
            ),
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3-AE18-23-3)",
                Some("580.95.05"),
            ),
            ("GCC version: 12.3.0", None),
        ] {
            assert_eq!(driver_version(text).as_deref(), version);
        }
    }
}
