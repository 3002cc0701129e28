//! Variables and versions that differ between ranks.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Scene, ranges, wait};
use crate::engine::finding::Finding;
use crate::engine::job::{CommRec, Kept, RankRec};
use crate::engine::vocab::{Confidence, Effect, Phase, Role};

/// Variables that change how ranks talk to each other and so must agree on all ranks of a
/// communicator (NCCL checks none of them, `src/enqueue.cc`, `src/graph/*.cc`). Paths of files and
/// names of interfaces may differ between hosts and are left out.
const MUST_AGREE: [&str; 34] = [
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NRINGS",
    "NCCL_MAX_NRINGS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NTHREADS",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_NET",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NVLS_ENABLE",
    "NCCL_MNNVL_ENABLE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_CROSS_NIC",
    "NCCL_PXN_DISABLE",
    "NCCL_PAT_ENABLE",
    "NCCL_CHUNK_SIZE",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
];

/// Adds findings about what differs.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let trouble = scene.claimed
        || wait::standstill(scene).is_some()
        || found
            .iter()
            .any(|f| f.role == Role::Cause && f.effect == Effect::Fatal)
        || scene
            .ranks
            .ranks
            .iter()
            .any(|r| wait::end_of(scene, r) == wait::End::Badly);
    // A variable that nobody sets differs nowhere.
    let set: BTreeSet<&str> = scene
        .all_records()
        .flat_map(|(_, r)| r.env.keys().map(String::as_str))
        .collect();
    found.extend(
        MUST_AGREE
            .iter()
            .filter(|name| set.contains(*name))
            .filter_map(|name| variable(scene, name, trouble)),
    );
    found.extend(version(scene, trouble));
    if !found.iter().any(|f| f.id == "LAUNCH003") {
        found.extend(scene.ranks.comms.iter().find_map(|c| sizes(scene, c)));
    }
}

/// Members of one communicator that were started with different numbers of ranks.
fn sizes(scene: &Scene<'_>, comm: &CommRec) -> Option<Finding> {
    let sizes = &scene.job.comms[comm.ix.ix()].sizes;
    let (first, second) = (sizes.first()?, sizes.last()?);
    if first == second {
        return None;
    }
    let mut draft = Draft::new(scene, "LAUNCH003")?;
    draft
        .fact("first", first.to_string())
        .fact("second", second.to_string());
    for member in comm.members.values() {
        let member = &scene.job.members[member.ix()];
        let rank = scene.ranks.rank_of(member.writer);
        draft.ranks(rank);
        if let Some(line) = &member.start_line {
            draft.evidence(line, rank);
        }
    }
    Some(draft.build())
}

fn variable(scene: &Scene<'_>, name: &str, trouble: bool) -> Option<Finding> {
    let mut values: BTreeMap<Option<&str>, BTreeSet<u32>> = BTreeMap::new();
    let mut lines: Vec<(u32, &Kept)> = Vec::new();
    for rec in &scene.ranks.ranks {
        let set = scene.records(rec).find_map(|r| r.env.get(name));
        match set {
            Some((value, line)) => {
                values.entry(Some(value)).or_default().insert(rec.rank);
                lines.push((rec.rank, line));
            }
            // Values are printed when they are first read: only a rank that came as far shows by
            // its silence that it leaves the default.
            None if came_far(scene, rec, trouble) && scene.records(rec).all(|r| !r.torn) => {
                values.entry(None).or_default().insert(rec.rank);
            }
            None => {}
        }
    }
    if values.len() < 2 {
        return None;
    }
    let (usual_value, usual) = values.iter().max_by_key(|(value, ranks)| {
        (
            ranks.len(),
            value.is_none(),
            std::cmp::Reverse(ranks.first().copied()),
        )
    })?;
    let odd: BTreeSet<u32> = values
        .iter()
        .filter(|(v, _)| *v != usual_value)
        .flat_map(|(_, r)| r.iter().copied())
        .collect();
    let odd_value = values.keys().find(|v| *v != usual_value)?;
    let mut draft = Draft::new(scene, "ENV001")?;
    if !trouble {
        draft.note();
    }
    draft
        .fact("variable", name)
        .fact("odd_value", odd_value.unwrap_or_default())
        .fact("odd_ranks", ranges(odd.iter().copied()))
        .fact("usual_value", usual_value.unwrap_or_default())
        .fact("usual_ranks", ranges(usual.iter().copied()))
        .fact("known", all_known(scene, &values))
        .ranks(values.values().flatten().copied());
    if odd.len() < usual.len() || usual_value.is_none() {
        draft
            .accuse(odd.iter().copied())
            .accuse_hosts(odd_hosts(scene, &odd));
    }
    for (rank, line) in lines.iter().take(8) {
        draft.evidence(line, Some(*rank));
    }
    Some(draft.build())
}

/// `yes` if the value of every rank is known.
fn all_known<V>(scene: &Scene<'_>, values: &BTreeMap<V, BTreeSet<u32>>) -> &'static str {
    let known: usize = values.values().map(BTreeSet::len).sum();
    if known == scene.ranks.ranks.len() {
        "yes"
    } else {
        ""
    }
}

/// Whole hosts that differ, where there are others.
fn odd_hosts(scene: &Scene<'_>, odd: &BTreeSet<u32>) -> BTreeSet<String> {
    let whole = scene.whole_hosts(odd);
    if whole.len() < scene.hosts().len() {
        whole
    } else {
        BTreeSet::new()
    }
}

fn came_far(scene: &Scene<'_>, rec: &RankRec, trouble: bool) -> bool {
    scene.records(rec).any(|r| {
        let prints = r.nccl.is_some() || !r.env.is_empty() || r.network.is_some();
        let stands = r.members.iter().any(|m| scene.job.members[m.ix()].complete);
        // A log that just stops may have been cut in front of the line.
        prints && (stands || (trouble && r.phase >= Phase::Topology))
    })
}

fn version(scene: &Scene<'_>, trouble: bool) -> Option<Finding> {
    let mut values: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    let mut lines: Vec<(u32, &Kept)> = Vec::new();
    for rec in &scene.ranks.ranks {
        if let Some((version, line)) = scene.records(rec).find_map(|r| r.nccl.as_ref()) {
            values
                .entry(version.split('+').next().unwrap_or(version))
                .or_default()
                .insert(rec.rank);
            lines.push((rec.rank, line));
        }
    }
    if values.len() < 2 {
        return None;
    }
    let (usual_version, usual) = values
        .iter()
        .max_by_key(|(_, ranks)| (ranks.len(), std::cmp::Reverse(ranks.first().copied())))?;
    let odd: BTreeSet<u32> = values
        .iter()
        .filter(|(v, _)| *v != usual_version)
        .flat_map(|(_, r)| r.iter().copied())
        .collect();
    let odd_version = values.keys().find(|v| *v != usual_version)?;
    let mut draft = Draft::new(scene, "VER003")?;
    if !trouble {
        draft.note();
    }
    draft
        .fact("what", "NCCL")
        .fact("odd_ranks", ranges(odd.iter().copied()))
        .fact("odd_version", *odd_version)
        .fact("usual_ranks", ranges(usual.iter().copied()))
        .fact("usual_version", *usual_version)
        .fact("one_host", super::stack::only_host(scene))
        .fact("known", all_known(scene, &values))
        .ranks(values.values().flatten().copied());
    if odd.len() < usual.len() {
        draft
            .accuse(odd.iter().copied())
            .accuse_hosts(odd_hosts(scene, &odd));
    }
    for (rank, line) in lines.iter().take(8) {
        draft.evidence(line, Some(*rank));
    }
    Some(draft.build())
}

/// Of two rules that one line fits, the one that the other evidence supports.
pub(super) fn disambiguate(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let plugin = found.iter().position(|f| f.id == "PLUG001");
    let rdma = found.iter().position(|f| f.id == "IB001");
    if let (Some(plugin), Some(rdma)) = (plugin, rdma) {
        let named = scene
            .all_records()
            .any(|(_, r)| r.env.contains_key("NCCL_NET_PLUGIN"));
        // Without INFO lines nothing says which network was wanted: the one that fits any stays.
        let told = scene.all_records().any(|(_, r)| r.nccl.is_some());
        if !named && !told {
            found[plugin].confidence = Confidence::Possible;
        }
        found.remove(if named || !told { rdma } else { plugin });
    }
    // Told there, with its lines.
    let told = |f: &Finding| f.id == "NET009" && f.role == Role::Cause;
    if found.iter().any(told) {
        found.retain(|f| f.id != "GLOO002");
    }
    // Its own words: on one host that works.
    if super::stack::one_host(scene) {
        found.retain(|f| f.id != "GLOO002" || f.role != Role::Note);
    }
    super::kernel::one_event(found);
    // How many ranks there are is what they disagree on.
    if found.iter().any(|f| f.id == "LAUNCH003") {
        found.retain(|f| f.id != "RANK005");
    }
    let mesh = found.iter().position(|f| f.id == "GLOO001");
    let loopback = found.iter().position(|f| f.id == "NET009");
    if let (Some(mesh), Some(loopback)) = (mesh, loopback) {
        // On one host a loopback address is as good as any, and its owner has just ended.
        let less = if super::stack::several_hosts(scene) {
            mesh
        } else {
            loopback
        };
        found[less].role = Role::Symptom;
    }
}
