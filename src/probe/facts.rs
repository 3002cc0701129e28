//! Everything about a host, gathered: each part on a thread of its own, with a deadline.

use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;

use super::gpu::Sampler;
use super::gpus::{self, Gpus};
use super::host::{Host, within};
use super::infiniband::{self, Rdma};
use super::interfaces::{self, Interface, Kind, Settings};
use super::libraries::{self, Libraries};
use super::limits::{self, Limits};
use super::pci::{self, Pci};
use super::routes;
use super::variables::{self, Set};
use crate::engine::gpu::GpuSample;

/// How long a part may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host. The names of fields are those of the JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Its name.
    pub hostname: Option<String>,
    /// Version of the kernel.
    pub kernel: Option<String>,
    /// The container that this runs in: Docker, Kubernetes, …
    pub container: Option<&'static str>,
    /// The process that was asked about.
    pub pid: Option<u32>,
    /// GPUs.
    pub gpus: Gpus,
    /// What the driver's library NVML says of them now.
    pub nvml: Option<GpuSample>,
    /// Libraries and packages.
    pub libraries: Libraries,
    /// The network.
    pub network: Network,
    /// RDMA.
    pub rdma: Rdma,
    /// Limits.
    pub limits: Limits,
    /// What stands between PCI devices.
    pub pci: Pci,
    /// Variables.
    pub variables: Vec<Set>,
    /// Whether the job has several hosts, as its launcher says.
    pub several_hosts: Option<bool>,
    /// Parts that did not answer in time.
    pub late: Vec<&'static str>,
}

/// The network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Network {
    /// Interfaces, in the kernel's order.
    pub interfaces: Vec<Interface>,
    /// What NCCL takes with the present settings, the first for its bootstrap.
    pub nccl_takes: Vec<(String, IpAddr)>,
    /// What it would take if NCCL_SOCKET_IFNAME were not set.
    pub nccl_would_take: Vec<(String, IpAddr)>,
    /// The interface that most probably is meant.
    pub wanted: Option<Wanted>,
    /// What `MASTER_ADDR` says, and the address that it is.
    pub master: Option<(String, Option<IpAddr>)>,
    /// An address of the loopback that the host's own name stands for in /etc/hosts.
    pub name_is_loopback: Option<IpAddr>,
    /// Interfaces that a default route or the way to `MASTER_ADDR` goes through: they lead out, whatever they are.
    #[serde(skip)]
    pub routed: Vec<String>,
    /// True if the process that was asked about lives in another network than this program.
    pub other_namespace: bool,
}

/// An interface, and why it is the one that is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: &'static str,
}

impl Facts {
    /// Gathers them.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let mut late = Vec::new();
        let gpus = part(host, "gpus", &mut late, gpus::gpus);
        let bus: Vec<String> = gpus.bus.iter().map(|gpu| gpu.bus_id.clone()).collect();
        let libraries = part(host, "libraries", &mut late, libraries::libraries);
        let version = libraries.nccl_version();
        Self {
            hostname: host.hostname(),
            kernel: host.text("/proc/sys/kernel/osrelease"),
            container: limits::container(host),
            pid: host.pid(),
            network: part(host, "network", &mut late, move |host| {
                network(host, version)
            }),
            rdma: part(host, "rdma", &mut late, infiniband::rdma),
            limits: part(host, "limits", &mut late, limits::limits),
            pci: part(host, "pci", &mut late, move |host| pci::pci(host, &bus)),
            variables: variables::set(host),
            several_hosts: several_hosts(host),
            nvml: None,
            gpus,
            libraries,
            late,
        }
    }

    /// Asks NVML as well; where there is none, nothing changes.
    #[must_use]
    pub fn and_nvml(mut self) -> Self {
        let asked = within(PATIENCE, || Sampler::once(PATIENCE / 2));
        if asked.is_none() {
            self.late.push("nvml");
        }
        self.nvml = asked.and_then(Result::ok);
        self
    }

    /// GPUs that a program here can use.
    #[must_use]
    pub fn usable_gpus(&self) -> usize {
        let by_files = self.gpus.usable(self.container.is_some());
        // Some kernels show GPUs to the driver's library alone.
        let by_nvml = self.nvml.iter().flat_map(|sample| &sample.gpus);
        by_files.max(by_nvml.filter(|gpu| gpu.trouble.is_none()).count())
    }

    /// Whether the job has several hosts, as its launcher says.
    #[must_use]
    pub fn several_hosts(&self) -> Option<bool> {
        self.several_hosts
    }

    /// The value of a variable that is shown.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|set| set.name == name)?;
        found.value.as_deref()
    }
}

fn part<T: Default + Send + 'static>(
    host: &Host,
    name: &'static str,
    late: &mut Vec<&'static str>,
    read: impl FnOnce(&Host) -> T + Send + 'static,
) -> T {
    let host = host.clone();
    within(PATIENCE, move || read(&host)).unwrap_or_else(|| {
        late.push(name);
        T::default()
    })
}

/// `WORLD_SIZE` beside `LOCAL_WORLD_SIZE` (torchrun), or the number of nodes of Slurm.
fn several_hosts(host: &Host) -> Option<bool> {
    let variables = host.variables();
    let number = |name: &str| variables.get(name)?.parse::<u32>().ok();
    match (number("WORLD_SIZE"), number("LOCAL_WORLD_SIZE")) {
        (Some(world), Some(local)) => Some(world > local),
        _ => number("SLURM_NNODES").map(|nodes| nodes > 1),
    }
}

fn network(host: &Host, version: Option<(u32, u32, u32)>) -> Network {
    let interfaces = interfaces::interfaces(host);
    let addresses = host.addresses();
    let variables = host.variables();
    let value = |name: &str| variables.get(name).map(String::as_str);
    let comm_id = value("NCCL_COMM_ID").and_then(|id| {
        let address = id.rsplit_once(':')?.0;
        host.resolve(address.trim_matches(['[', ']']))
    });
    let settings = Settings {
        ifname: value("NCCL_SOCKET_IFNAME"),
        family: value("NCCL_SOCKET_FAMILY"),
        comm_id,
        version,
    };
    let unset = Settings {
        ifname: None,
        ..settings
    };
    let master = value("MASTER_ADDR").map(|name| (name.to_owned(), host.resolve(name)));
    let routes = routes::routes(host);
    let other_namespace = host.pid().is_some()
        && host.link_target(&host.process("ns/net")) != host.link_target("/proc/self/ns/net");
    let to_master = to_master(
        &interfaces,
        &routes,
        master.as_ref().and_then(|(_, ip)| *ip),
    );
    let defaults = routes.iter().filter(|route| route.prefix == 0);
    let routed = defaults
        .map(|route| &route.interface)
        .chain(to_master.as_ref().map(|way| &way.name));
    Network {
        routed: routed.cloned().collect(),
        nccl_takes: interfaces::nccl_choice(&interfaces, &addresses, settings),
        nccl_would_take: interfaces::nccl_choice(&interfaces, &addresses, unset),
        wanted: wanted(&interfaces, &routes, to_master),
        name_is_loopback: name_is_loopback(host),
        interfaces,
        master,
        other_namespace,
    }
}

/// The interface that leads to the store; the one that has its address where this host has the store.
fn to_master(
    interfaces: &[Interface],
    routes: &[routes::Route],
    master: Option<IpAddr>,
) -> Option<Wanted> {
    let ip = master.filter(|ip| !ip.is_loopback())?;
    let way = |name: &str, why| {
        let name = name.to_owned();
        Wanted { name, why }
    };
    let mut owners = interfaces.iter().filter(|i| i.addresses.contains(&ip));
    match owners.next() {
        Some(own) => Some(way(&own.name, "it has the address MASTER_ADDR")),
        None => routes::towards(routes, ip)
            .map(|route| way(&route.interface, "the route to MASTER_ADDR")),
    }
}

/// The interface that leads to the store; else the default route's. A bridge is one where the host's own card is
/// a part of it, and only the route tells.
fn wanted(
    interfaces: &[Interface],
    routes: &[routes::Route],
    to_master: Option<Wanted>,
) -> Option<Wanted> {
    let leads_out = |name: &str| {
        interfaces
            .iter()
            .any(|i| i.name == name && i.kind.leads_out() && !i.addresses.is_empty())
    };
    let carries = |way: &Wanted| {
        interfaces.iter().any(|i| {
            let kind = i.kind.leads_out() || i.kind == Kind::Bridge;
            i.name == way.name && kind && !i.addresses.is_empty()
        })
    };
    let way = |name: &str, why| {
        let name = name.to_owned();
        Wanted { name, why }
    };
    let default = routes::default_route(routes).map(|r| way(&r.interface, "the default route"));
    let only = || {
        let mut out = interfaces
            .iter()
            .filter(|i| leads_out(&i.name) && i.running != Some(false));
        let one = out.next()?;
        out.next()
            .is_none()
            .then(|| way(&one.name, "the only one that leads to other hosts"))
    };
    to_master
        .filter(carries)
        .or_else(|| default.filter(carries))
        .or_else(only)
}

/// Gloo and others look up the host's own name; a line `127.0.1.1 node-5` sends them to the loopback.
fn name_is_loopback(host: &Host) -> Option<IpAddr> {
    let name = host.hostname()?;
    let hosts = host.text("/etc/hosts")?;
    let mut own = hosts.lines().filter_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| word == name).then_some(address)
    });
    // The first line that has the name is taken.
    own.next().filter(IpAddr::is_loopback)
}
