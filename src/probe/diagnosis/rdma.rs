//! RDMA devices and what GPUDirect needs.

use super::{Trouble, is, listed};
use crate::engine::vocab::FixKind;
use crate::probe::facts::Facts;
use crate::probe::infiniband::{Device, Rdma};
use crate::probe::interfaces::Pattern;

/// Pinned memory that is too little for any communicator: NCCL registers a buffer of 4 MiB for each channel
/// and peer.
const MEMLOCK: u64 = 64 << 20;

pub(super) fn check(facts: &Facts, found: &mut Vec<Trouble>) {
    let rdma = &facts.rdma;
    hca(facts, found);
    if rdma.devices.is_empty() {
        return;
    }
    ports(rdma, found);
    let active = rdma.devices.iter().filter(|device| device.active()).count();
    let gpus = facts.usable_gpus();
    if active == 0 || gpus == 0 {
        return;
    }
    if rdma.active_ports() == 0 {
        let title = if facts.container.is_some() {
            "the host has active RDMA ports, and this container cannot open the devices"
        } else {
            "RDMA ports are active, and no device can be opened: /dev/infiniband has no uverbs"
        };
        found.push(
            Trouble::wrong("rdma-not-given", title)
                .why("NCCL finds no RDMA device and goes over sockets without saying so, ten times slower or more")
                .fix(FixKind::Launch, "docker run --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1; in Kubernetes the RDMA device plugin; on a host modprobe ib_uverbs"),
        );
        return;
    }
    if rdma.verbs_library.is_none() {
        found.push(
            Trouble::note(
                "no-libibverbs",
                "libibverbs.so.1 was not found in the usual folders",
            )
            .why("NCCL loads it to use RDMA; without it it goes over sockets")
            .fix(
                FixKind::Host,
                "install rdma-core (libibverbs1, ibverbs-providers)",
            ),
        );
    }
    memlock(facts, found);
    gpudirect(facts, found);
}

fn ports(rdma: &Rdma, found: &mut Vec<Trouble>) {
    for device in &rdma.devices {
        for port in &device.ports {
            let infiniband = port.link_layer.as_deref() == Some("InfiniBand");
            let linked = port.physical.as_deref() == Some("LinkUp");
            // A link without a subnet manager stays in INIT.
            if infiniband && linked && port.state.as_deref() == Some("INIT") {
                found.push(
                    Trouble::wrong("no-subnet-manager", format!("{} port {}: the link is up and the port not active (INIT)", device.name, port.number))
                        .why("no subnet manager has set it up; NCCL takes active ports alone")
                        .fix(FixKind::Host, "start a subnet manager (opensm, or the switch's), or ask whoever runs the fabric"),
                );
            }
        }
    }
    let down: Vec<&Device> = rdma
        .devices
        .iter()
        .filter(|device| !device.active() && !device.ports.is_empty())
        .collect();
    for device in &down {
        // An unused second port is common: only one against many of its kind is called wrong.
        let alike = |other: &&Device| other.board == device.board;
        let up = rdma
            .devices
            .iter()
            .filter(|d| d.active())
            .filter(alike)
            .count();
        let out = down.iter().filter(|d| d.board == device.board).count();
        let state = device.ports.first().and_then(|port| port.state.clone());
        if state.as_deref() == Some("INIT") || device.board.is_none() || up < 3 * out {
            continue;
        }
        let physical = device.ports.first().and_then(|port| port.physical.clone());
        let state = [state, physical]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ");
        found.push(
            Trouble::wrong("port-down", format!("{} is down ({state}); {up} of its kind {} active", device.name, is(up)))
                .why("NCCL leaves it out: this host has fewer rails than the others, and a GPU goes over a farther card")
                .fix(FixKind::Hardware, format!("`ibstat {}`; Polling: no cable, or the other end is off; Disabled: ibportstate or mlxlink switches it on", device.name)),
        );
    }
}

/// `NCCL_IB_HCA`: a list as in NCCL_SOCKET_IFNAME, of devices with an optional port.
fn hca(facts: &Facts, found: &mut Vec<Trouble>) {
    let Some(list) = facts
        .variable("NCCL_IB_HCA")
        .filter(|list| !list.is_empty())
    else {
        return;
    };
    let devices = &facts.rdma.devices;
    let pattern = Pattern::new(list);
    if devices.iter().any(|device| pattern.matches(&device.name)) {
        return;
    }
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let trouble = if names.is_empty() {
        Trouble::note(
            "hca-without-devices",
            format!("NCCL_IB_HCA={list} is set, and there is no RDMA device"),
        )
    } else {
        Trouble::wrong(
            "hca-matches-nothing",
            format!("NCCL_IB_HCA={list} matches none of {}", listed(&names)),
        )
    };
    found.push(
        trouble
            .why("NCCL then has no InfiniBand and goes over sockets, or ends if NCCL_NET=IB")
            .fix(FixKind::Env, "unset NCCL_IB_HCA, or name devices of this host; a name is a prefix (mlx5 is all of mlx5_0 …), behind = the whole name"),
    );
}

fn memlock(facts: &Facts, found: &mut Vec<Trouble>) {
    let Some((soft, _)) = facts.limits.memlock else {
        return;
    };
    if soft.below(MEMLOCK) && facts.limits.may_pin == Some(false) {
        found.push(
            Trouble::wrong("memlock", "RDMA needs pinned memory, and the limit (ulimit -l) is below 64 MiB")
                .why("ibv_reg_mr fails with \"Cannot allocate memory\"")
                .fix(FixKind::Host, "ulimit -l unlimited (limits.conf: * - memlock unlimited; systemd and slurmd: LimitMEMLOCK=infinity; docker: --ulimit memlock=-1)"),
        );
    }
}

/// A card reaches GPU memory through nvidia_peermem, or through DMA-BUF: that needs Linux 5.12, NVIDIA's
/// open kernel module and NCCL 2.13 or later (NVIDIA's GPUDirect RDMA guide).
fn gpudirect(facts: &Facts, found: &mut Vec<Trouble>) {
    let mellanox = facts.rdma.devices.iter().any(|d| d.name.starts_with("mlx"));
    if !mellanox || facts.rdma.peer_memory.is_some() || facts.gpus.open_module != Some(false) {
        return;
    }
    found.push(
        Trouble::note("no-gpudirect", "GPUDirect RDMA is off: nvidia_peermem is not loaded, and the proprietary kernel module has no DMA-BUF")
            .why("NCCL copies through the host's memory (no GDRDMA in its log): slower, nothing else")
            .fix(FixKind::Host, "modprobe nvidia_peermem (and list it in /etc/modules-load.d), or use NVIDIA's open kernel module"),
    );
}
