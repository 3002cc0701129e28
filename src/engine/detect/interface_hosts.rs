//! What every host chose, and which connects failed.

use std::collections::{BTreeMap, BTreeSet};

use super::Scene;
use crate::engine::event::Subsystem;
use crate::engine::job::{AddressSeen, ConnectFailure};

/// The interface that a host's ranks bootstrap over.
pub(super) struct HostChoice<'a> {
    /// Host as printed.
    pub(super) host: &'a str,
    /// Its ranks.
    pub(super) ranks: BTreeSet<u32>,
    /// The choice.
    pub(super) chosen: &'a AddressSeen,
    /// The rank whose line says so.
    pub(super) rank: Option<u32>,
    /// Every interface that its ranks listed: name → address.
    pub(super) listed: BTreeMap<&'a str, &'a str>,
}

impl HostChoice<'_> {
    pub(super) fn is_loopback(&self) -> bool {
        is_loopback(&self.chosen.address)
    }

    /// A bridge or tunnel that exists on one host only.
    pub(super) fn is_virtual(&self) -> bool {
        const NAMES: [&str; 8] = [
            "docker", "veth", "virbr", "br-", "cni", "flannel", "podman", "lxc",
        ];
        NAMES
            .iter()
            .any(|name| self.chosen.interface.starts_with(name))
    }
}

pub(super) fn is_loopback(address: &str) -> bool {
    address.starts_with("127.") || address == "::1"
}

/// Choices by host, sorted by host. The bootstrap's own line counts first; where it was not logged,
/// the other subsystems of NCCL, which choose by the same rule.
pub(super) fn choices<'a>(scene: &'a Scene<'_>) -> Vec<HostChoice<'a>> {
    let order = [Subsystem::Bootstrap, Subsystem::Oob, Subsystem::Net];
    let mut by_host: BTreeMap<&str, HostChoice<'a>> = BTreeMap::new();
    // A rank may not be known yet: up to 2.22 it is printed only after the bootstrap.
    for (rank, record) in scene.all_records() {
        let Some(host) = record.host.as_deref() else {
            continue;
        };
        let chosen = order
            .iter()
            .find_map(|s| record.addresses.iter().find(|a| a.subsystem == *s));
        let Some(chosen) = chosen else {
            continue;
        };
        let entry = by_host.entry(host).or_insert_with(|| HostChoice {
            host,
            ranks: BTreeSet::new(),
            chosen,
            rank,
            listed: BTreeMap::new(),
        });
        entry.ranks.extend(rank);
        for address in &record.addresses {
            entry.listed.insert(&address.interface, &address.address);
            let further = address.further.iter();
            entry
                .listed
                .extend(further.map(|(interface, address)| (interface.as_str(), address.as_str())));
        }
    }
    by_host.into_values().collect()
}

/// The subnet that an address most likely belongs to: /24 for IPv4, /64 for IPv6. Prefix lengths are
/// never logged, so equal means "very likely one network", unequal means nothing by itself.
pub(super) fn subnet(address: &str) -> String {
    let address = address.split('%').next().unwrap_or(address);
    match address.rsplit_once('.') {
        Some((net, _)) if !address.contains(':') => net.to_owned(),
        _ => address.split(':').take(4).collect::<Vec<_>>().join(":"),
    }
}

/// An interface other than the chosen ones that every host listed with an address in one subnet.
pub(super) fn common_interface(hosts: &[HostChoice<'_>]) -> Option<String> {
    let first = hosts.first()?;
    let shared = first.listed.iter().find(|(name, address)| {
        let net = subnet(address);
        !is_loopback(address)
            && !address.starts_with("fe80")
            && hosts
                .iter()
                .all(|h| h.listed.get(*name).is_some_and(|a| subnet(a) == net))
            && hosts.iter().all(|h| h.chosen.interface != **name)
    });
    shared.map(|(name, _)| (*name).to_owned())
}

/// A connect that failed, and who tried.
pub(super) struct Failure<'a> {
    pub(super) rank: Option<u32>,
    pub(super) host: Option<&'a str>,
    pub(super) connect: &'a ConnectFailure,
}

/// Every connect that failed, by rank.
pub(super) fn failures<'a>(scene: &'a Scene<'_>) -> Vec<Failure<'a>> {
    let mut all = Vec::new();
    for (rank, record) in scene.all_records() {
        let host = rank
            .and_then(|r| scene.host_of(r))
            .or(record.host.as_deref());
        all.extend(record.connects.iter().map(|connect| Failure {
            rank,
            host,
            connect,
        }));
    }
    all
}
