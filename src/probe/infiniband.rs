//! RDMA devices from sysfs: ports, their state and addresses, and what GPUDirect needs.

use serde::Serialize;

use super::host::Host;

/// Devices, and ports of one, that are looked at.
const MOST: usize = 128;
/// Entries of a port's table of addresses that are looked at.
const GIDS: usize = 256;

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// `mlx5_0`.
    pub name: String,
    /// What kind of board it is; equal for siblings.
    pub board: Option<String>,
    /// Firmware.
    pub firmware: Option<String>,
    /// Kernel driver: `mlx5_core`, `efa`.
    pub driver: Option<String>,
    /// PCI bus id.
    pub bus_id: Option<String>,
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// Whether a program here can open it: it has a device node.
    pub node: bool,
    /// Ports.
    pub ports: Vec<Port>,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Port {
    /// Number, from 1.
    pub number: u32,
    /// `ACTIVE`, `DOWN`, `INIT`, `ARMED`.
    pub state: Option<String>,
    /// `LinkUp`, `Polling`, `Disabled`, `Sleep`.
    pub physical: Option<String>,
    /// `400 Gb/sec (4X NDR)`.
    pub rate: Option<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// Addresses that are filled: index, address and, where told, `RoCE v2` or so.
    pub gids: Vec<Gid>,
}

/// One address of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gid {
    /// Its place in the table: what NCCL_IB_GID_INDEX names.
    pub index: usize,
    /// `fe80:0000:…`
    pub address: String,
    /// `IB/RoCE v1`, `RoCE v2`.
    pub kind: Option<String>,
    /// Network interface that it belongs to.
    pub interface: Option<String>,
}

impl Port {
    /// Whether NCCL would use it (it takes ports of the state ACTIVE alone, `ncclIbInit` in
    /// src/transport/net_ib).
    #[must_use]
    pub fn active(&self) -> bool {
        self.state.as_deref() == Some("ACTIVE")
    }
}

impl Device {
    /// Whether a port of it is active.
    #[must_use]
    pub fn active(&self) -> bool {
        self.ports.iter().any(Port::active)
    }
}

/// Everything of RDMA.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rdma {
    /// Devices, by name.
    pub devices: Vec<Device>,
    /// The module that lets a network card reach GPU memory: `nvidia_peermem`, `nv_peer_mem`.
    pub peer_memory: Option<String>,
    /// libibverbs, which NCCL loads at run time; unknown where folders are not those that are known here.
    pub verbs_library: Option<String>,
}

impl Rdma {
    /// Ports that are active on devices that can be opened.
    #[must_use]
    pub fn active_ports(&self) -> usize {
        let open = self.devices.iter().filter(|device| device.node);
        open.flat_map(|device| &device.ports)
            .filter(|port| port.active())
            .count()
    }
}

/// Reads it.
#[must_use]
pub fn rdma(host: &Host) -> Rdma {
    let nodes = nodes(host);
    let devices = host.list("/sys/class/infiniband").into_iter().take(MOST);
    let modules = ["nvidia_peermem", "nv_peer_mem"];
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/lib/x86_64-linux-gnu",
        "/usr/local/lib",
        "/usr/lib",
    ];
    let verbs = folders
        .iter()
        .map(|folder| format!("{folder}/libibverbs.so.1"));
    Rdma {
        devices: devices.map(|name| device(host, name, &nodes)).collect(),
        peer_memory: modules
            .iter()
            .find(|module| host.exists(&format!("/sys/module/{module}")))
            .map(|module| (*module).to_owned()),
        verbs_library: verbs
            .into_iter()
            .find(|path| host.path_inside(path).symlink_metadata().is_ok()),
    }
}

/// Devices that have a node in /dev/infiniband: `uverbs0` says in sysfs whose it is.
fn nodes(host: &Host) -> Vec<String> {
    let present = host.list("/dev/infiniband");
    let uverbs = present.iter().filter(|name| name.starts_with("uverbs"));
    uverbs
        .filter_map(|name| host.text(&format!("/sys/class/infiniband_verbs/{name}/ibdev")))
        .collect()
}

fn device(host: &Host, name: String, nodes: &[String]) -> Device {
    let at = |file: &str| format!("/sys/class/infiniband/{name}/{file}");
    let mut ports: Vec<Port> = host
        .list(&at("ports"))
        .into_iter()
        .filter_map(|number| number.parse().ok())
        .take(MOST)
        .map(|number| port(host, &name, number))
        .collect();
    ports.sort_by_key(|port| port.number);
    Device {
        board: host
            .text(&at("board_id"))
            .or_else(|| host.text(&at("hca_type"))),
        firmware: host.text(&at("fw_ver")),
        driver: host.link(&at("device/driver")),
        bus_id: host.link(&at("device")),
        numa_node: host.number(&at("device/numa_node")),
        node: nodes.contains(&name),
        ports,
        name,
    }
}

fn port(host: &Host, device: &str, number: u32) -> Port {
    let at = |file: &str| format!("/sys/class/infiniband/{device}/ports/{number}/{file}");
    // `4: ACTIVE`, `5: LinkUp`
    let word = |file: &str| {
        let text = host.text(&at(file))?;
        Some(text.split_once(": ")?.1.trim().to_owned())
    };
    let empty = |gid: &str| gid.bytes().all(|b| b == b'0' || b == b':');
    let mut indexes: Vec<usize> = host
        .list(&at("gids"))
        .iter()
        .filter_map(|index| index.parse().ok())
        .collect();
    indexes.sort_unstable();
    let gids = indexes.into_iter().take(GIDS).filter_map(|index| {
        let address = host.text(&at(&format!("gids/{index}")))?;
        // The lower half of an unused one is 0, whatever the subnet's prefix.
        let unused = empty(&address) || address.get(20..).is_some_and(empty);
        (!unused).then(|| Gid {
            index,
            kind: host.text(&at(&format!("gid_attrs/types/{index}"))),
            interface: host.text(&at(&format!("gid_attrs/ndevs/{index}"))),
            address,
        })
    });
    Port {
        number,
        state: word("state"),
        physical: word("phys_state"),
        rate: host.text(&at("rate")),
        link_layer: host.text(&at("link_layer")),
        gids: gids.collect(),
    }
}
