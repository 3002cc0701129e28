//! GPUs of one host that do not reach each other directly.

use std::collections::BTreeSet;

use super::{Draft, Scene, ranges};
use crate::engine::event::Transport;
use crate::engine::finding::Finding;
use crate::engine::job::{CommRec, Kept, Link};
use crate::engine::vocab::Role;

/// A worse path between two GPUs of one host.
struct Path<'a> {
    from: u32,
    to: u32,
    link: &'a Link,
}

/// Rank, variable and value, and the line that says so.
type SwitchedOff<'a> = (Option<u32>, (&'a str, &'a str), &'a Kept);

/// Adds findings about P2P.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let paths: Vec<Path<'_>> = scene
        .ranks
        .comms
        .iter()
        .flat_map(|c| worse_paths(scene, c))
        .collect();
    let switched_off = switched_off(scene);
    if found.iter().any(|f| f.id == "SHM001") {
        // The variable is one of that finding's fixes: start-up ended, no path is slow yet.
    } else if let Some(finding) = by_environment(scene, &switched_off, &paths) {
        found.push(finding);
    } else {
        found.extend(path_finding(scene, &paths, Transport::Shm, "P2P002"));
        found.extend(path_finding(scene, &paths, Transport::Net, "P2P003"));
    }
    found.extend(not_all_direct(
        scene,
        !switched_off.is_empty() || !paths.is_empty(),
    ));
}

/// Connections between different GPUs of one host that are not P2P. Where NCCL counts more hosts
/// than there are names (containers, NCCL_HOSTID), a name does not tell hosts apart.
fn worse_paths<'a>(scene: &'a Scene<'_>, comm: &CommRec) -> Vec<Path<'a>> {
    let members: Vec<_> = comm
        .members
        .values()
        .map(|m| &scene.job.members[m.ix()])
        .collect();
    let hosts: BTreeSet<&str> = comm
        .members
        .keys()
        .filter_map(|r| scene.host_of(scene.ranks.world_rank(scene.job, comm, *r)?))
        .collect();
    let counted = members
        .iter()
        .find_map(|m| m.nodes)
        .map(|(nodes, _)| nodes as usize);
    if counted.is_some_and(|nodes| nodes != hosts.len()) {
        return Vec::new();
    }
    let place = |rank: u32| {
        let world = scene.ranks.world_rank(scene.job, comm, rank)?;
        Some((
            world,
            scene.host_of(world)?,
            scene.member(comm, rank)?.bus_id?,
        ))
    };
    let mut paths = Vec::new();
    for member in members {
        for link in &member.links {
            let (Some(from), Some(to)) = (place(link.from), place(link.to)) else {
                continue;
            };
            let worse = matches!(
                link.transport,
                Transport::Shm | Transport::Net | Transport::NetGdr
            );
            if worse && from.1 == to.1 && from.2 != to.2 {
                paths.push(Path {
                    from: from.0,
                    to: to.0,
                    link,
                });
            }
        }
    }
    paths
}

/// Ranks on which a variable switches P2P off: up to 2.22 NCCL prints NCCL_P2P_DISABLE=1 as
/// `NCCL_P2P_LEVEL set by environment to LOC`.
fn switched_off<'a>(scene: &'a Scene<'_>) -> Vec<SwitchedOff<'a>> {
    let off = |name: &str, value: &str| match name {
        "NCCL_P2P_DISABLE" => value != "0",
        "NCCL_P2P_LEVEL" => value == "LOC" || value == "0",
        _ => false,
    };
    let mut all = Vec::new();
    for (rank, record) in scene.all_records() {
        for (name, (value, line)) in &record.env {
            if off(name, value) {
                all.push((rank, (name.as_str(), value.as_str()), line));
            }
        }
    }
    all
}

/// Variables that make NCCL put buffers below /dev/shm: rank, name and line.
pub(super) fn forces_shared_memory<'a>(
    scene: &'a Scene<'_>,
) -> Vec<(Option<u32>, &'a str, &'a Kept)> {
    let off = switched_off(scene).into_iter();
    let mut all: Vec<_> = off
        .map(|(rank, (name, _), line)| (rank, name, line))
        .collect();
    // With cuMem, host buffers need no file below /dev/shm.
    const HOST: &str = "NCCL_CUMEM_HOST_ENABLE";
    for (rank, record) in scene.all_records() {
        if let Some((value, line)) = record.env.get(HOST)
            && value == "0"
        {
            all.push((rank, HOST, line));
        }
    }
    all
}

fn by_environment(
    scene: &Scene<'_>,
    off: &[SwitchedOff<'_>],
    paths: &[Path<'_>],
) -> Option<Finding> {
    let (_, (variable, value), _) = off.first()?;
    let several = scene.hosts().len()
        < scene
            .ranks
            .ranks
            .iter()
            .filter(|r| r.host.is_some())
            .count();
    if !several {
        return None; // One GPU a host: there is nothing to switch off.
    }
    let mut draft = Draft::new(scene, "P2P001")?;
    let works = scene.ranks.comms.iter().any(|c| {
        c.members
            .values()
            .any(|m| scene.job.members[m.ix()].complete)
    });
    if !works {
        draft.note(); // It did not come so far that a slower path would matter.
    }
    draft.fact("works", if works { "yes" } else { "" });
    let through = paths.first().map(|p| p.link.transport.name());
    draft
        .fact("value", switch(variable, value))
        .fact("path", through.unwrap_or_default())
        .ranks(off.iter().filter_map(|(rank, ..)| *rank))
        .accuse(off.iter().filter_map(|(rank, ..)| *rank));
    for (rank, _, line) in off.iter().take(8) {
        draft.evidence(line, *rank);
    }
    for path in paths.iter().take(2) {
        draft.evidence(&path.link.line, Some(path.from));
    }
    Some(draft.build())
}

fn path_finding(
    scene: &Scene<'_>,
    paths: &[Path<'_>],
    transport: Transport,
    id: &str,
) -> Option<Finding> {
    let same =
        |t: Transport| t == transport || (transport == Transport::Net && t == Transport::NetGdr);
    let of: Vec<&Path<'_>> = paths.iter().filter(|p| same(p.link.transport)).collect();
    if of.is_empty() {
        return None;
    }
    let ranks: BTreeSet<u32> = of.iter().flat_map(|p| [p.from, p.to]).collect();
    let mut draft = Draft::new(scene, id)?;
    draft
        .fact("path", transport.name())
        .fact("pairs", ranges(ranks.iter().copied()))
        .ranks(ranks.iter().copied())
        .accuse(ranks);
    for path in of.iter().take(4) {
        draft.evidence(&path.link.line, Some(path.from));
    }
    Some(draft.build())
}

/// `isAllDirectP2p 0`: some pair of local GPUs lacks P2P. A note beside the path or variable that
/// says the same more exactly.
fn not_all_direct(scene: &Scene<'_>, explained: bool) -> Option<Finding> {
    let mut draft = Draft::new(scene, "P2P004")?;
    let mut any = false;
    for comm in &scene.ranks.comms {
        for (rank, member) in &comm.members {
            let member = &scene.job.members[member.ix()];
            let Some((false, line)) = &member.all_direct else {
                continue;
            };
            let alone = member.nodes.is_some_and(|(_, local)| local < 2);
            if alone {
                continue;
            }
            any = true;
            let world = scene.ranks.world_rank(scene.job, comm, *rank);
            draft.ranks(world).accuse(world).count(1);
            draft.evidence(line, world);
        }
    }
    if explained {
        draft.finding().role = Role::Symptom;
    }
    any.then(|| draft.build())
}

/// The variable as it was set, as far as the log tells.
fn switch(variable: &str, value: &str) -> String {
    if variable == "NCCL_P2P_LEVEL" {
        format!("NCCL_P2P_DISABLE=1, which NCCL up to 2.22 prints as {variable}={value},")
    } else {
        format!("{variable}={value}")
    }
}
