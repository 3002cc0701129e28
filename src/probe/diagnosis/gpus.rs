//! GPUs and their driver.

use super::{Trouble, is, listed};
use crate::engine::vocab::FixKind;
use crate::probe::facts::Facts;
use crate::probe::gpus::Gpu;
use crate::probe::libraries::version_of;

pub(super) fn check(facts: &Facts, found: &mut Vec<Trouble>) {
    driver(facts, found);
    library(facts, found);
    fabric(facts, found);
    translation(facts, found);
}

fn driver(facts: &Facts, found: &mut Vec<Trouble>) {
    let gpus = &facts.gpus;
    // Given to a virtual machine.
    let taken = |gpu: &&Gpu| {
        !gpu.bound_to
            .as_deref()
            .is_some_and(|d| d.starts_with("vfio"))
    };
    let here: Vec<&Gpu> = gpus.bus.iter().filter(taken).collect();
    if here.is_empty() {
        return;
    }
    let count = here.len();
    let noun = if count == 1 { "GPU" } else { "GPUs" };
    if facts.container.is_some() {
        if gpus.nodes.is_empty() {
            found.push(
                Trouble::note(
                    "gpus-not-given",
                    format!(
                        "the host has {count} NVIDIA {noun}, and this container was given none"
                    ),
                )
                .fix(
                    FixKind::Launch,
                    "docker run --gpus all; in Kubernetes a limit of nvidia.com/gpu",
                ),
            );
        }
        return;
    }
    if gpus.driver.is_none() {
        let by: Vec<&str> = here
            .iter()
            .filter_map(|gpu| gpu.bound_to.as_deref())
            .collect();
        let by = by
            .first()
            .map_or(String::new(), |driver| format!(" ({driver} has it)"));
        found.push(
            Trouble::wrong(
                "no-driver",
                format!("{count} NVIDIA {noun} on the PCI bus, and NVIDIA's driver is not loaded{by}"),
            )
            .why("CUDA and NCCL need the kernel module nvidia")
            .fix(FixKind::Host, "modprobe nvidia; after an update of the kernel build the module anew (dkms autoinstall) or reboot; `dmesg | grep -i nvrm` says why it does not load"),
        );
        return;
    }
    let lost: Vec<&str> = here
        .iter()
        .filter(|gpu| !gpu.driven())
        .map(|gpu| gpu.bus_id.as_str())
        .collect();
    if !lost.is_empty() && lost.len() < count {
        found.push(
            Trouble::wrong(
                "gpu-without-driver",
                format!("{} {} on the PCI bus and not driven by NVIDIA's driver", listed(&lost), is(lost.len())),
            )
            .why("CUDA numbers only the others, so that ranks miss a GPU or take another one's")
            .fix(FixKind::Host, "`dmesg | grep -iE 'nvrm|xid'` says why the driver let it go; a GPU that has fallen off the bus needs a reboot or service"),
        );
    }
}

/// After an update without a reboot CUDA fails with error 803 and NVML with "Driver/library version mismatch".
fn library(facts: &Facts, found: &mut Vec<Trouble>) {
    let (Some(kernel), Some(library)) = (&facts.gpus.driver, &facts.gpus.library) else {
        return;
    };
    let in_use = facts.container.is_none() || !facts.gpus.nodes.is_empty();
    if kernel != library && in_use {
        found.push(
            Trouble::wrong(
                "driver-library-differs",
                format!("libcuda is {library} and the loaded kernel driver {kernel}"),
            )
            .why("they have to be the same: CUDA ends with error 803, nvidia-smi with \"Driver/library version mismatch\"")
            .fix(FixKind::Host, "reboot, or unload and load the nvidia modules; in a container do not install the driver's libraries, the container toolkit brings them"),
        );
    }
}

/// NVSwitches do not route before the Fabric Manager has set them up.
fn fabric(facts: &Facts, found: &mut Vec<Trouble>) {
    let gpus = &facts.gpus;
    if gpus.switches == 0 || gpus.driver.is_none() || facts.container.is_some() {
        return;
    }
    let title = format!("{} NVSwitches, and the Fabric Manager", gpus.switches);
    match gpus.fabric_manager {
        Some(false) => {
            let major = gpus
                .driver
                .as_deref()
                .and_then(version_of)
                .map_or(0, |v| v.0);
            found.push(
                Trouble::wrong("no-fabric-manager", format!("{title} does not run"))
                    .why("CUDA ends with error 802, \"system not yet initialized\"")
                    .fix(
                        FixKind::Host,
                        format!("systemctl enable --now nvidia-fabricmanager; its version has to be the driver's (package nvidia-fabricmanager-{major})"),
                    ),
            );
        }
        None => found.push(Trouble::cannot_tell(
            "fabric-manager",
            format!("{title}: processes of the host are not seen"),
        )),
        Some(true) => {}
    }
}

/// "PCI Access Control Services" and "IO virtualization" in NVIDIA's NCCL troubleshooting guide: both send
/// traffic between PCI devices up to the root complex; P2P then is slow, hangs or gives wrong data. NVLink
/// does not go that way, and a virtual machine needs it.
fn translation(facts: &Facts, found: &mut Vec<Trouble>) {
    if facts.usable_gpus() < 2 && facts.rdma.active_ports() == 0 {
        return;
    }
    if let Some(acs) = facts
        .pci
        .acs
        .as_ref()
        .filter(|acs| !acs.redirecting.is_empty())
    {
        let names: Vec<&str> = acs.redirecting.iter().map(String::as_str).collect();
        found.push(
            Trouble::note("acs", format!("PCI access control (ACS) redirects at the bridges above GPUs: {}", listed(&names)))
                .why("P2P and GPUDirect RDMA over PCIe are slow or hang; NVLink does not go that way")
                .fix(FixKind::Host, "switch ACS off in the BIOS, or on each bridge: setpci -s BRIDGE ECAP_ACS+0x6.w=0000; in a virtual machine switch ATS on instead"),
        );
    }
    let translated = facts
        .gpus
        .bus
        .iter()
        .filter(|gpu| gpu.iommu.as_deref().is_some_and(|t| t.starts_with("DMA")));
    let names: Vec<&str> = translated.map(|gpu| gpu.bus_id.as_str()).collect();
    if !names.is_empty() {
        found.push(
            Trouble::note("iommu", format!("the IOMMU translates for GPUs: {}", listed(&names)))
                .why("P2P over PCIe may be slow, hang or give wrong data; NVLink does not go that way")
                .fix(FixKind::Host, "iommu=pt on the kernel's command line (AMD: amd_iommu=on iommu=pt; Intel: intel_iommu=off or iommu=pt)"),
        );
    }
}
