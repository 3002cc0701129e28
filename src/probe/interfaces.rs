//! Network interfaces: what they are, which of them NCCL would take, and which the user probably wants.

use std::net::IpAddr;

use serde::Serialize;

use super::host::{Address, Host};

/// Interfaces that are looked at.
const MOST: usize = 512;
/// NCCL's `MAX_IFS`: the Socket transport uses so many at most.
const MOST_OF_NCCL: usize = 16;

/// What an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A network card, or what a virtual machine or a container has in its place.
    Network,
    /// IP over InfiniBand.
    Infiniband,
    /// Several cards as one.
    Bond,
    /// A VLAN, macvlan or ipvlan on a card.
    Vlan,
    /// A bridge of containers or virtual machines: leads nowhere else.
    Bridge,
    /// The host's end of a container.
    Veth,
    /// A tunnel or a VPN.
    Tunnel,
    /// The loopback.
    Loopback,
}

impl Kind {
    /// Whether it leads to other hosts by itself.
    #[must_use]
    pub fn leads_out(self) -> bool {
        matches!(
            self,
            Self::Network | Self::Infiniband | Self::Bond | Self::Vlan
        )
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Infiniband => "InfiniBand",
            Self::Bond => "bond",
            Self::Vlan => "VLAN",
            Self::Bridge => "bridge",
            Self::Veth => "container's end",
            Self::Tunnel => "tunnel",
            Self::Loopback => "loopback",
        }
    }
}

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// `up`, `down`, `unknown`, … as the kernel has it.
    pub state: Option<String>,
    /// Whether the kernel says that it has a link (IFF_RUNNING).
    pub running: Option<bool>,
    /// Largest packet, bytes.
    pub mtu: Option<u32>,
    /// Megabits a second; unknown where the driver does not tell.
    pub speed: Option<u32>,
    /// Addresses, in the order of `getifaddrs`.
    pub addresses: Vec<IpAddr>,
    /// The bond or bridge that it is part of.
    pub master: Option<String>,
}

/// Reads them, in the order of the kernel's index.
#[must_use]
pub fn interfaces(host: &Host) -> Vec<Interface> {
    let addresses = host.addresses();
    let mut found: Vec<(u32, Interface)> = host
        .list("/sys/class/net")
        .into_iter()
        .take(MOST)
        // Files such as bonding_masters lie beside the interfaces.
        .filter(|name| host.exists(&format!("/sys/class/net/{name}/ifindex")))
        .map(|name| interface(host, name, &addresses))
        .collect();
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, interface)| interface).collect()
}

fn interface(host: &Host, name: String, addresses: &[Address]) -> (u32, Interface) {
    let at = |file: &str| format!("/sys/class/net/{name}/{file}");
    let index = host.number(&at("ifindex")).unwrap_or(u32::MAX);
    // The loopback and some drivers have no carrier file that tells.
    let state = host.text(&at("operstate"));
    let carrier: Option<u8> = host.number(&at("carrier"));
    let running = match (carrier, state.as_deref()) {
        (Some(carrier), _) => Some(carrier == 1),
        // Reading `carrier` of an interface that is not up fails.
        (None, Some("down" | "notpresent" | "lowerlayerdown" | "dormant")) => Some(false),
        (None, Some("up")) => Some(true),
        _ => None,
    };
    let interface = Interface {
        kind: kind(host, &name),
        running,
        mtu: host.number(&at("mtu")),
        speed: host
            .number(&at("speed"))
            .filter(|speed| (1..u32::MAX / 2).contains(speed)),
        addresses: addresses
            .iter()
            .filter(|address| address.interface == name)
            .map(|address| address.address)
            .collect(),
        master: host.link(&at("master")),
        state,
        name,
    };
    (index, interface)
}

/// `type` is ARPHRD_*: 772 loopback, 32 InfiniBand, 768, 776, 778 and 65534 tunnels (linux/if_arp.h).
fn kind(host: &Host, name: &str) -> Kind {
    let at = |file: &str| format!("/sys/class/net/{name}/{file}");
    let uevent = host.text(&at("uevent")).unwrap_or_default();
    let devtype = uevent
        .lines()
        .find_map(|line| line.strip_prefix("DEVTYPE="))
        .unwrap_or_default();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match host.number::<u32>(&at("type")) {
        Some(772) => return Kind::Loopback,
        Some(32) => return Kind::Infiniband,
        Some(768 | 776 | 778 | 65534) => return Kind::Tunnel,
        _ => {}
    }
    if host.exists(&at("bonding")) || devtype == "bond" {
        Kind::Bond
    } else if host.exists(&at("bridge")) || devtype == "bridge" || starts(&["docker", "virbr"]) {
        Kind::Bridge
    } else if matches!(devtype, "vlan" | "macvlan" | "ipvlan") {
        Kind::Vlan
    } else if matches!(devtype, "vxlan" | "geneve" | "gretap" | "wireguard")
        || starts(&[
            "flannel",
            "cilium",
            "wg",
            "tailscale",
            "tun",
            "tap",
            "tunl",
            "vxlan",
        ])
    {
        Kind::Tunnel
    } else if starts(&["veth", "cali", "lxc", "cni"]) {
        Kind::Veth
    } else {
        Kind::Network
    }
}

/// What NCCL's choice depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings<'a> {
    /// `NCCL_SOCKET_IFNAME`.
    pub ifname: Option<&'a str>,
    /// `NCCL_SOCKET_FAMILY`.
    pub family: Option<&'a str>,
    /// Address in `NCCL_COMM_ID`.
    pub comm_id: Option<IpAddr>,
    /// Version of NCCL, if it is known.
    pub version: Option<(u32, u32, u32)>,
}

/// The interfaces that NCCL would take, each with the address that it would use, the first for its bootstrap.
///
/// As `ncclFindInterfaces` does (src/misc/socket.cc): with `NCCL_SOCKET_IFNAME` those that match, or none;
/// else those whose name starts with `ib`; else, with `NCCL_COMM_ID`, one in its subnet; else all but
/// `docker*` and `lo*`; else `docker*`; else `lo*`. Since 2.28.3 an interface has to be running, and `virbr*`
/// comes last. Addresses come in the order of `getifaddrs`, IPv4 before IPv6, an interface counts once, and
/// the IPv6 loopback never.
#[must_use]
pub fn nccl_choice(
    interfaces: &[Interface],
    addresses: &[Address],
    settings: Settings<'_>,
) -> Vec<(String, IpAddr)> {
    let newer = settings.version.is_none_or(|version| version >= (2, 28, 3));
    let find = |list: &str| {
        let pattern = Pattern::new(list);
        let mut found: Vec<(String, IpAddr)> = Vec::new();
        for address in addresses {
            let wrong_family = match settings.family {
                Some("AF_INET") => address.address.is_ipv6(),
                Some("AF_INET6") => address.address.is_ipv4(),
                _ => false,
            };
            let loopback6 = address.address.is_ipv6() && address.address.is_loopback();
            let stands = interfaces
                .iter()
                .any(|i| i.name == address.interface && i.running == Some(false));
            if wrong_family
                || loopback6
                || (newer && stands)
                || !pattern.matches(&address.interface)
                || found.iter().any(|(name, _)| *name == address.interface)
            {
                continue;
            }
            found.push((address.interface.clone(), address.address));
        }
        found.truncate(MOST_OF_NCCL);
        found
    };
    if let Some(list) = settings.ifname.filter(|list| list.len() > 1) {
        return find(list);
    }
    let in_subnet = || -> Vec<(String, IpAddr)> {
        let Some(remote) = settings.comm_id else {
            return Vec::new();
        };
        addresses
            .iter()
            .filter(|a| contains(a.address, a.prefix, remote))
            .map(|a| (a.interface.clone(), a.address))
            .take(1)
            .collect()
    };
    let others = if newer {
        "^docker,lo,virbr"
    } else {
        "^docker,lo"
    };
    let mut steps: Vec<Vec<(String, IpAddr)>> = vec![
        find("ib"),
        in_subnet(),
        find(others),
        find("docker"),
        find("lo"),
    ];
    if newer {
        steps.push(find("virbr"));
    }
    steps
        .into_iter()
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

/// The line that sets this interface for NCCL and for Gloo. To NCCL a name is a prefix (`eth1` is `eth10` too)
/// unless `=` stands in front; Gloo takes whole names. The quotes are zsh's, for which `=` means something.
#[must_use]
pub fn ready_line(name: &str) -> String {
    format!("export NCCL_SOCKET_IFNAME='={name}' GLOO_SOCKET_IFNAME={name}")
}

/// A list as in `NCCL_SOCKET_IFNAME`: prefixes, behind `^` those that are left out, behind `=` whole names.
#[derive(Clone, Debug)]
pub struct Pattern<'a> {
    not: bool,
    exact: bool,
    names: Vec<&'a str>,
}

impl<'a> Pattern<'a> {
    /// Understands a list (`parseStringList` in src/misc/utils.cc; a `:port` behind a name is left out).
    #[must_use]
    pub fn new(list: &'a str) -> Self {
        let (not, list) = match list.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, list),
        };
        let (exact, list) = match list.strip_prefix('=') {
            Some(rest) => (true, rest),
            None => (false, list),
        };
        let names = list.split(',').filter_map(|name| name.split(':').next());
        Self {
            not,
            exact,
            names: names.filter(|name| !name.is_empty()).collect(),
        }
    }

    /// Whether the name is one of those that are wanted.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let one = |wanted: &&str| {
            if self.exact {
                name == *wanted
            } else {
                name.starts_with(*wanted)
            }
        };
        (self.names.is_empty() || self.names.iter().any(one)) != self.not
    }
}

/// Whether an address lies in the network of another.
#[must_use]
pub fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let same = |a: u128, b: u128, bits: u32| {
        let cut = bits.saturating_sub(u32::from(prefix)).min(bits);
        cut >= bits || (a >> cut) == (b >> cut)
    };
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
