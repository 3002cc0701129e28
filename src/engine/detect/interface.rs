//! Interfaces: what every host chose, and whether the others can reach it.
//!
//! Different subnets alone are normal in routed fabrics. They are a note until a connect fails or
//! the job is known to stand still in start-up.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::host_names;
use super::interface_hosts::{
    Failure, HostChoice, choices, common_interface, failures, is_loopback, subnet,
};
use super::{Draft, Scene, wait};
use crate::engine::finding::Finding;
use crate::engine::job::Record;
use crate::engine::vocab::Confidence;

/// Attempts after which a connect that is still refused is no race at start-up.
const ATTEMPTS: u32 = 9;

/// Adds findings about interfaces.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let hosts = choices(scene);
    let failures = failures(scene);
    let trouble = Trouble::of(scene, &failures);
    if hosts.len() >= 2 {
        let main = loopback(scene, &hosts, &failures, trouble)
            .or_else(|| same_address(scene, &hosts, &failures, trouble))
            .or_else(|| virtual_interface(scene, &hosts, &failures, trouble))
            .or_else(|| differs(scene, &hosts, &failures, trouble))
            .or_else(|| unconnected(scene, &hosts, &failures, trouble));
        if main.is_some() {
            found.extend(main);
            return;
        }
    }
    found.extend(unreachable(scene, &hosts, &failures));
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// Nothing failed.
    None,
    /// Connects fail again and again, or start-up stands still.
    Proven,
}

impl Trouble {
    fn of(scene: &Scene<'_>, failures: &[Failure<'_>]) -> Self {
        let fails = failures
            .iter()
            .any(|f| f.connect.attempts >= ATTEMPTS || f.connect.gave_up);
        let stuck = (scene.claimed || wait::standstill(scene).is_some()) && in_start_up(scene);
        let tries = scene.claimed && !failures.is_empty() && !scene.init_is_complete();
        if fails || stuck || tries {
            Self::Proven
        } else {
            Self::None
        }
    }
}

/// Every rank that was seen came to the bootstrap and none came out of it.
fn in_start_up(scene: &Scene<'_>) -> bool {
    let world = scene.ranks.comms.iter().find(|c| c.is_world);
    match world {
        Some(comm) => {
            let all_in = comm.members.len() == comm.nranks as usize;
            all_in
                && comm
                    .members
                    .values()
                    .all(|m| !scene.job.members[m.ix()].complete)
        }
        None => {
            let nccl =
                |r: &&Record| r.pid.is_some() && (r.network.is_some() || !r.addresses.is_empty());
            let mut in_bootstrap = scene.all_records().map(|(_, r)| r).filter(nccl).peekable();
            in_bootstrap.peek().is_some()
                && scene.ranks.comms.is_empty()
                && in_bootstrap.all(|r| r.network.is_some())
        }
    }
}

fn begin<'a>(scene: &'a Scene<'a>, id: &str, trouble: Trouble) -> Option<Draft<'a>> {
    let mut draft = Draft::new(scene, id)?;
    if trouble == Trouble::None {
        draft.note();
    }
    Some(draft)
}

/// Points at the hosts unless they are all of them.
fn accuse(draft: &mut Draft<'_>, odd: &[&HostChoice<'_>], hosts: &[HostChoice<'_>]) {
    draft.ranks(odd.iter().flat_map(|h| h.ranks.iter().copied()));
    if odd.len() < hosts.len() {
        draft.accuse(odd.iter().flat_map(|h| h.ranks.iter().copied()));
        draft.accuse_hosts(odd.iter().map(|h| h.host.to_owned()));
        let names: BTreeSet<String> = odd.iter().map(|h| h.host.to_owned()).collect();
        draft.fact("where", format!("on {}", host_names(&names, hosts.len())));
    }
}

fn show(draft: &mut Draft<'_>, hosts: &[&HostChoice<'_>], failures: &[Failure<'_>]) {
    for host in hosts.iter().take(8) {
        draft.evidence(&host.chosen.line, host.rank);
    }
    for failure in failures.iter().take(3) {
        draft.evidence(&failure.connect.last, failure.rank);
    }
    draft.count(failures.iter().map(|f| f.connect.count).sum());
}

fn names(scene: &Scene<'_>, hosts: &[&HostChoice<'_>]) -> String {
    let names: BTreeSet<String> = hosts.iter().map(|h| h.host.to_owned()).collect();
    host_names(&names, scene.hosts().len())
}

/// A host of several announces its loopback address.
fn loopback<'a>(
    scene: &'a Scene<'a>,
    hosts: &[HostChoice<'_>],
    failures: &[Failure<'_>],
    trouble: Trouble,
) -> Option<Finding> {
    let odd: Vec<&HostChoice<'_>> = hosts.iter().filter(|h| h.is_loopback()).collect();
    if odd.is_empty() {
        return None;
    }
    let usual = hosts
        .iter()
        .find(|h| !h.is_loopback())
        .map(|h| h.chosen.interface.clone());
    let mut draft = begin(scene, "NET002", trouble)?;
    draft
        .fact("subsystem", "NCCL")
        .fact("interface", odd[0].chosen.interface.clone())
        .fact("address", odd[0].chosen.address.clone())
        .fact(
            "better",
            usual
                .or_else(|| common_interface(hosts))
                .unwrap_or_default(),
        );
    accuse(&mut draft, &odd, hosts);
    show(&mut draft, &odd, failures);
    Some(draft.build())
}

/// Several hosts announce one and the same address: everybody reaches only himself there.
fn same_address<'a>(
    scene: &'a Scene<'a>,
    hosts: &[HostChoice<'_>],
    failures: &[Failure<'_>],
    trouble: Trouble,
) -> Option<Finding> {
    let mut by_address: BTreeMap<&str, Vec<&HostChoice<'_>>> = BTreeMap::new();
    for host in hosts
        .iter()
        .filter(|h| !h.chosen.address.starts_with("fe80"))
    {
        by_address
            .entry(&host.chosen.address)
            .or_default()
            .push(host);
    }
    let (address, odd) = by_address
        .into_iter()
        .max_by_key(|(_, hosts)| hosts.len())
        .filter(|(_, h)| h.len() > 1)?;
    let mut draft = begin(scene, "NET004", trouble)?;
    let usual = hosts
        .iter()
        .find(|h| h.chosen.address != address)
        .map(|h| h.chosen.interface.clone());
    draft
        .fact("address", address)
        .fact("interface", odd[0].chosen.interface.clone())
        .fact(
            "better",
            common_interface(hosts).or(usual).unwrap_or_default(),
        );
    accuse(&mut draft, &odd, hosts);
    show(&mut draft, &odd, failures);
    Some(draft.build())
}

/// A bridge or tunnel that other hosts have no way to.
fn virtual_interface<'a>(
    scene: &'a Scene<'a>,
    hosts: &[HostChoice<'_>],
    failures: &[Failure<'_>],
    trouble: Trouble,
) -> Option<Finding> {
    let odd: Vec<&HostChoice<'_>> = hosts.iter().filter(|h| h.is_virtual()).collect();
    let nets: BTreeSet<String> = hosts.iter().map(|h| subnet(&h.chosen.address)).collect();
    if odd.is_empty() || nets.len() < 2 {
        return None;
    }
    let mut draft = begin(scene, "NET002", trouble)?;
    let usual = hosts
        .iter()
        .find(|h| !h.is_virtual())
        .map(|h| h.chosen.interface.clone());
    draft
        .fact("subsystem", "NCCL")
        .fact("interface", odd[0].chosen.interface.clone())
        .fact("address", odd[0].chosen.address.clone())
        .fact(
            "better",
            usual
                .or_else(|| common_interface(hosts))
                .unwrap_or_default(),
        );
    accuse(&mut draft, &odd, hosts);
    show(&mut draft, &odd, failures);
    Some(draft.build())
}

/// A minority of hosts is in another network than the majority.
fn differs<'a>(
    scene: &'a Scene<'a>,
    hosts: &[HostChoice<'_>],
    failures: &[Failure<'_>],
    trouble: Trouble,
) -> Option<Finding> {
    let mut by_net: BTreeMap<String, Vec<&HostChoice<'_>>> = BTreeMap::new();
    for host in hosts {
        by_net
            .entry(subnet(&host.chosen.address))
            .or_default()
            .push(host);
    }
    let (usual_net, usual) = by_net.iter().max_by_key(|(_, hosts)| hosts.len())?;
    if by_net.len() < 2 || usual.len() * 2 <= hosts.len() {
        return None;
    }
    let odd: Vec<&HostChoice<'_>> = hosts
        .iter()
        .filter(|h| subnet(&h.chosen.address) != *usual_net)
        .collect();
    let mut draft = begin(
        scene,
        if trouble == Trouble::None {
            "NET006"
        } else {
            "NET003"
        },
        trouble,
    )?;
    let interfaces: BTreeSet<&str> = odd.iter().map(|h| h.chosen.interface.as_str()).collect();
    let addresses: BTreeSet<&str> = odd.iter().map(|h| h.chosen.address.as_str()).collect();
    draft
        .fact("subsystem", "NCCL")
        .fact("odd_hosts", names(scene, &odd))
        .fact(
            "odd_interface",
            interfaces.into_iter().collect::<Vec<_>>().join(", "),
        )
        .fact(
            "odd_address",
            addresses.into_iter().collect::<Vec<_>>().join(", "),
        )
        .fact("usual_interface", usual[0].chosen.interface.clone());
    accuse(&mut draft, &odd, hosts);
    let mut shown = odd.clone();
    shown.push(usual[0]);
    let about: Vec<Failure<'_>> = failures
        .iter()
        .filter(|f| {
            f.connect
                .address
                .as_deref()
                .is_some_and(|a| odd.iter().any(|h| h.chosen.address == a))
        })
        .map(|f| Failure {
            rank: f.rank,
            host: f.host,
            connect: f.connect,
        })
        .collect();
    if !about.is_empty() {
        draft.sure(Confidence::Certain);
    }
    show(
        &mut draft,
        &shown,
        if about.is_empty() { failures } else { &about },
    );
    Some(draft.build())
}

/// No two networks agree: every host, or each of two, is in one of its own.
fn unconnected<'a>(
    scene: &'a Scene<'a>,
    hosts: &[HostChoice<'_>],
    failures: &[Failure<'_>],
    trouble: Trouble,
) -> Option<Finding> {
    let nets: BTreeSet<String> = hosts.iter().map(|h| subnet(&h.chosen.address)).collect();
    if nets.len() < 2 {
        return None;
    }
    let mut draft = begin(
        scene,
        if trouble == Trouble::None {
            "NET006"
        } else {
            "NET005"
        },
        trouble,
    )?;
    let interfaces: BTreeSet<&str> = hosts.iter().map(|h| h.chosen.interface.as_str()).collect();
    let towards = failures.iter().find_map(|f| f.connect.address.as_deref());
    draft
        .fact(
            "interface",
            interfaces.into_iter().collect::<Vec<_>>().join(", "),
        )
        .fact("how", how_chosen(scene, &hosts.iter().collect::<Vec<_>>()))
        .fact("address", towards.unwrap_or_default())
        .fact(
            "error",
            failures
                .first()
                .map(|f| f.connect.reason.clone())
                .unwrap_or_default(),
        )
        .fact("alternative", common_interface(hosts).unwrap_or_default())
        .ranks(hosts.iter().flat_map(|h| h.ranks.iter().copied()));
    if !failures.is_empty() {
        draft.sure(Confidence::Certain);
    }
    show(&mut draft, &hosts.iter().collect::<Vec<_>>(), failures);
    Some(draft.build())
}

/// One network for all, and connects on it fail: the host that is at one end of all of them is cut off.
fn unreachable<'a>(
    scene: &'a Scene<'a>,
    hosts: &[HostChoice<'_>],
    failures: &[Failure<'_>],
) -> Option<Finding> {
    let stuck = scene.claimed && in_start_up(scene);
    let lasting: Vec<&Failure<'_>> = failures
        .iter()
        .filter(|f| f.connect.attempts >= ATTEMPTS || f.connect.gave_up || stuck)
        .collect();
    let first = lasting.first()?;
    let owner = |address: &str| {
        hosts
            .iter()
            .find(|h| h.listed.values().any(|a| *a == address))
    };
    // Who chose what was printed before these logs begin; Docker's own network is known by its address.
    if hosts.len() < 2
        && let Some(failure) = lasting.iter().find(|f| to_docker(f))
    {
        let mut draft = Draft::new(scene, "NET002")?;
        draft
            .fact("subsystem", "NCCL")
            .fact("interface", "Docker's bridge")
            .fact(
                "address",
                failure.connect.address.clone().unwrap_or_default(),
            )
            .ranks(lasting.iter().filter_map(|f| f.rank));
        show(&mut draft, &[], failures);
        return Some(draft.build());
    }
    let looped = lasting
        .iter()
        .find(|f| f.connect.address.as_deref().is_some_and(is_loopback));
    let id = if looped.is_some() && hosts.len() < 2 {
        "NET007"
    } else if lasting.iter().any(|f| has_no_route(f)) {
        "NET012"
    } else {
        "NET010"
    };
    let mut draft = Draft::new(scene, id)?;
    let address = looped
        .unwrap_or(first)
        .connect
        .address
        .clone()
        .unwrap_or_default();
    let target = owner(&address);
    draft
        .fact("address", address)
        .fact(
            "owner",
            target.map(|h| h.host.to_owned()).unwrap_or_default(),
        )
        .fact("error", first.connect.reason.clone())
        .fact(
            "chosen",
            target.map_or("", |_| "the right interface was chosen"),
        )
        .fact(
            "attempts",
            lasting
                .iter()
                .map(|f| f.connect.attempts)
                .max()
                .unwrap_or(0)
                .to_string(),
        )
        .ranks(lasting.iter().filter_map(|f| f.rank));
    // Without a route the fault is at the host that tries.
    let no_route: BTreeSet<&str> = lasting
        .iter()
        .filter(|f| has_no_route(f))
        .filter_map(|f| f.host)
        .collect();
    let ends: Vec<BTreeSet<&str>> = lasting
        .iter()
        .map(|f| {
            let target = f.connect.address.as_deref().and_then(owner).map(|h| h.host);
            f.host.into_iter().chain(target).collect()
        })
        .collect();
    let in_all: BTreeSet<&str> = ends.iter().skip(1).fold(ends[0].clone(), |all, e| &all & e);
    let partners: BTreeSet<&str> = ends.iter().flatten().copied().collect();
    let guilty = if no_route.is_empty() {
        if partners.len() > 2 {
            in_all
        } else {
            BTreeSet::new()
        }
    } else {
        no_route
    };
    let cut_off: BTreeSet<String> = guilty.iter().map(|h| (*h).to_owned()).collect();
    draft.fact("cut_off", host_names(&cut_off, scene.hosts().len()));
    for host in guilty {
        draft.accuse_hosts([host.to_owned()]);
        let ranks = scene
            .ranks
            .ranks
            .iter()
            .filter(|r| r.host.as_deref() == Some(host))
            .map(|r| r.rank);
        draft.accuse(ranks.collect::<Vec<_>>());
    }
    // A refusal comes from a host that was reached: nobody listens there any more.
    if lasting.iter().all(|f| f.connect.reason.contains("refused")) {
        draft.sure(Confidence::Possible).symptom();
    }
    for failure in lasting.iter().take(6) {
        draft.evidence(&failure.connect.last, failure.rank);
    }
    draft.count(lasting.iter().map(|f| f.connect.count).sum());
    Some(draft.build())
}

/// The address is in the network that Docker gives its bridge on every host (172.17.0.0/16).
fn to_docker(failure: &Failure<'_>) -> bool {
    let address = failure.connect.address.as_deref();
    address.is_some_and(|address| address.starts_with("172.17."))
}

/// `Network is unreachable` comes from the host that tries: it has no route.
fn has_no_route(failure: &Failure<'_>) -> bool {
    failure.connect.reason.contains("Network is unreachable")
}

/// Who chose the interfaces: a variable, or NCCL by itself.
fn how_chosen(scene: &Scene<'_>, hosts: &[&HostChoice<'_>]) -> String {
    let interfaces: BTreeSet<&str> = hosts.iter().map(|h| h.chosen.interface.as_str()).collect();
    let interfaces = interfaces.into_iter().collect::<Vec<_>>().join(" and ");
    let set: BTreeSet<&str> = scene
        .all_records()
        .filter_map(|(_, r)| r.env.get("NCCL_SOCKET_IFNAME"))
        .map(|(value, _)| value.as_str())
        .collect();
    if set.is_empty() {
        format!("NCCL chose {interfaces} by itself")
    } else {
        let values = set.into_iter().collect::<Vec<_>>().join(" and ");
        format!("NCCL_SOCKET_IFNAME={values} leads to {interfaces}")
    }
}
