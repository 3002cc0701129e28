//! Interfaces: what NCCL and Gloo take, and what is meant.

use std::net::IpAddr;

use super::{Trouble, listed};
use crate::engine::vocab::FixKind;
use crate::probe::facts::{Facts, Network};
use crate::probe::interfaces::{Interface, Pattern, ready_line};

pub(super) fn check(facts: &Facts, found: &mut Vec<Trouble>) {
    let network = &facts.network;
    if network.other_namespace {
        found.push(
            Trouble::cannot_tell(
                "network-namespace",
                "the process lives in another network than this shell",
            )
            .why("its interfaces are not those shown here")
            .fix(
                FixKind::Launch,
                "run unhang inside its container: nsenter -t PID -n unhang doctor",
            ),
        );
        return;
    }
    match facts
        .variable("NCCL_SOCKET_IFNAME")
        .filter(|list| list.len() > 1)
    {
        Some(list) => set(network, list, found),
        None => chosen(network, found),
    }
    for name in ["GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"] {
        if let Some(list) = facts.variable(name) {
            exact(network, name, list, found);
        }
    }
    own_name(facts, found);
    master(facts, found);
}

fn fix(network: &Network, trouble: Trouble) -> Trouble {
    match &network.wanted {
        Some(wanted) => trouble.fix(FixKind::Env, ready_line(&wanted.name)),
        None => trouble.fix(FixKind::Env, "export NCCL_SOCKET_IFNAME=NAME with the interface that leads to the other hosts (`ip -br addr`)"),
    }
}

/// Find or fail: there is no second choice.
fn set(network: &Network, list: &str, found: &mut Vec<Trouble>) {
    if !network.nccl_takes.is_empty() || network.interfaces.is_empty() {
        return;
    }
    let pattern = Pattern::new(list);
    let without_link: Vec<&str> = network
        .interfaces
        .iter()
        .filter(|i| pattern.matches(&i.name) && i.running == Some(false) && !i.addresses.is_empty())
        .map(|i| i.name.as_str())
        .collect();
    let trouble = if without_link.is_empty() {
        Trouble::wrong("ifname-matches-nothing", format!("NCCL_SOCKET_IFNAME={list} matches no interface with an address here"))
            .why("NCCL ends with \"Bootstrap : no socket interface found\"; a name is a prefix, behind = the whole name, behind ^ left out")
    } else {
        Trouble::wrong(
            "ifname-without-link",
            format!(
                "NCCL_SOCKET_IFNAME={list} matches only what has no link: {}",
                listed(&without_link)
            ),
        )
        .why("NCCL 2.28.3 and later finds no interface, earlier ones take it and reach nobody")
        .fix(
            FixKind::Hardware,
            "`ip link` says whether it is switched off; look at the cable and the switch's port",
        )
    };
    found.push(fix(network, trouble));
}

fn interface<'a>(network: &'a Network, name: &str) -> Option<&'a Interface> {
    network.interfaces.iter().find(|i| i.name == name)
}

fn leads_nowhere(network: &Network, name: &str, address: IpAddr) -> bool {
    let routed = network.routed.iter().any(|routed| routed == name);
    let inside = !routed && interface(network, name).is_some_and(|i| !i.kind.leads_out());
    let link_local = match address {
        // Of a service processor or of a host without DHCP.
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(_) => false,
    };
    inside || link_local || address.is_loopback()
}

fn chosen(network: &Network, found: &mut Vec<Trouble>) {
    let Some((name, address)) = network.nccl_takes.first() else {
        return;
    };
    let Some(wanted) = &network.wanted else {
        return;
    };
    let kind = interface(network, name).map_or("interface", |i| i.kind.words());
    if *name != wanted.name && leads_nowhere(network, name, *address) {
        found.push(fix(
            network,
            Trouble::wrong(
                "interface-leads-nowhere",
                format!("NCCL takes {name} {address} ({kind}), which leads to no other host"),
            )
            .why(format!(
                "a job on several hosts waits in its bootstrap; meant is probably {}, {}",
                wanted.name, wanted.why
            )),
        ));
        return;
    }
    let others: Vec<&str> = network
        .nccl_takes
        .iter()
        .skip(1)
        .filter(|(name, address)| leads_nowhere(network, name, *address))
        .map(|(name, _)| name.as_str())
        .collect();
    if !others.is_empty() {
        found.push(fix(
            network,
            Trouble::note(
                "interfaces-lead-nowhere",
                format!(
                    "beside {name} NCCL's sockets take what leads to no other host: {}",
                    listed(&others)
                ),
            )
            .why("without RDMA a job on several hosts may hang or fail on them"),
        ));
        return;
    }
    let infiniband = name.starts_with("ib");
    let to_master = wanted.why.contains("MASTER_ADDR");
    if *name != wanted.name && (to_master || !infiniband) {
        found.push(fix(
            network,
            Trouble::note("interface-not-the-route's", format!("NCCL takes {name} {address}; {} is {}", wanted.why, wanted.name))
                .why("every host has to take one of the same network, or ranks wait for each other in the bootstrap"),
        ));
    }
}

/// Gloo and TensorPipe want whole names (ProcessGroupGloo.cpp: a list with commas).
fn exact(network: &Network, variable: &str, list: &str, found: &mut Vec<Trouble>) {
    if network.interfaces.is_empty() {
        return;
    }
    let missing: Vec<&str> = list
        .split(',')
        .filter(|name| !name.is_empty())
        .filter(|name| interface(network, name).is_none_or(|i| i.addresses.is_empty()))
        .collect();
    if !missing.is_empty() {
        found.push(fix(
            network,
            Trouble::wrong("gloo-ifname-missing", format!("{variable}={list}: no interface with an address is named {}", listed(&missing)))
                .why("it wants whole names; the process group ends with \"Unable to find address for\" or \"Unable to find interface\""),
        ));
    }
}

fn own_name(facts: &Facts, found: &mut Vec<Trouble>) {
    let network = &facts.network;
    let (Some(address), Some(name)) = (network.name_is_loopback, &facts.hostname) else {
        return;
    };
    let Some(wanted) = &network.wanted else {
        return;
    };
    if facts.variable("GLOO_SOCKET_IFNAME").is_some() {
        return;
    }
    found.push(
        Trouble::note("name-is-loopback", format!("/etc/hosts makes this host's name {name} the loopback {address}"))
            .why("Gloo looks its own name up; on several hosts it then tells the others to connect to themselves")
            .fix(FixKind::Env, format!("export GLOO_SOCKET_IFNAME={}", wanted.name)),
    );
}

fn master(facts: &Facts, found: &mut Vec<Trouble>) {
    match &facts.network.master {
        Some((name, None)) => found.push(
            Trouble::wrong("master-unknown", format!("MASTER_ADDR={name} has no address here"))
                .why("every rank looks it up first; none can reach the store")
                .fix(FixKind::Launch, "use a name that every host can look up, or the address itself (`getent hosts NAME`)"),
        ),
        Some((name, Some(ip))) if ip.is_loopback() && facts.several_hosts() == Some(true) => found.push(
            Trouble::wrong("master-is-loopback", format!("MASTER_ADDR={name} is the loopback {ip}, and the job has several hosts"))
                .why("every host then looks for the store on itself")
                .fix(FixKind::Launch, "set MASTER_ADDR to the address of rank 0's host that the others reach"),
        ),
        _ => {}
    }
}
