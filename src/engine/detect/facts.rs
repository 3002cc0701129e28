//! Facts of line rules that no single line holds: what the rest of the logs says about the same matter.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{host_names, rank_names};
use super::interface_hosts::is_loopback;
use super::mismatch::odd_by_fingerprints;
use super::{Draft, Scene, ranges};
use crate::engine::demux::{Hint, Writer};
use crate::engine::hits::HitRecord;
use crate::engine::ids::WriterIx;
use crate::engine::job::Kept;

/// What the lines captured, by name.
pub(super) type Captures = BTreeMap<&'static str, String>;

/// Adds what belongs to the rule of this id.
pub(super) fn add(
    scene: &Scene<'_>,
    id: &str,
    records: &[(WriterIx, &HitRecord)],
    captures: &Captures,
    draft: &mut Draft<'_>,
) {
    match id {
        "NET001" => interface_name(scene, records, draft),
        "GPU001" if !captures.contains_key("first") => same_gpu(scene, draft),
        "WAIT003" => unreachable_store(scene, records, captures, draft),
        "PLUG001" => plugin(scene, draft),
        "NET009" => unresolved(scene, draft),
        "IB010" => gid_index(scene, captures, draft),
        "SHM001" => shared_memory(scene, captures, draft),
        "VLLM005" => gpus_asked(captures, draft),
        "VER002" => known_versions(scene, draft),
        "WAIT001" => timeouts(scene, records, draft),
        "LAUNCH003" => sizes(scene, draft),
        "IB002" | "IB003" | "IB004" | "IB005" | "IB006" | "IB007" => {
            super::rdma::ends(scene, records, draft);
        }
        "GLOO002" => {
            draft.fact("at", places(scene, records));
        }
        "STOP002" => who_stopped(captures, draft),
        "ENV002" => super::undone::misspelt(scene, records, draft),
        "COLL005" => fingerprints(scene, records, draft),
        _ => {}
    }
}

/// The hosts that lines come from: by NCCL's name, by the launcher's, or by the number of the node; nothing where
/// one of them is not known.
fn places(scene: &Scene<'_>, records: &[(WriterIx, &HitRecord)]) -> String {
    let hinted = |writer: &Writer| {
        let host = writer.hints.iter().find_map(|hint| match hint {
            Hint::Host(host) => Some(host.clone()),
            _ => None,
        });
        host.or_else(|| {
            writer.hints.iter().find_map(|hint| match hint {
                Hint::Node(node) => Some(format!("node {node}")),
                _ => None,
            })
        })
    };
    let place = |ix: WriterIx| {
        let by_rank = || scene.host_of(scene.ranks.rank_of(ix)?).map(str::to_owned);
        let writer = scene.writers.get(ix.ix())?;
        let mut of_source = scene
            .writers
            .iter()
            .filter(|other| other.is_default && other.source == writer.source);
        let own = scene.job.records[ix.ix()].host.clone().or_else(by_rank);
        own.or_else(|| scene.host_of_source(ix).map(str::to_owned))
            .or_else(|| hinted(writer))
            .or_else(|| of_source.find_map(hinted))
    };
    let all: Option<BTreeSet<String>> = records.iter().map(|(ix, _)| place(*ix)).collect();
    all.map_or_else(String::new, |all| {
        let several = scene.hosts().len().max(all.len());
        host_names(&all, several)
    })
}

/// Who ended the job, and why.
fn who_stopped(captures: &Captures, draft: &mut Draft<'_>) {
    let reason = captures.get("reason").map_or("", String::as_str);
    let limit = "The limit that the job was started with was too short, or the job stood still.";
    let (who, detail) = match reason {
        "TIME LIMIT" | "TERM_RUNLIMIT" | "walltime" => ("its time limit was reached", limit),
        "Pod was active on the node longer than the specified deadline" => {
            ("its deadline (activeDeadlineSeconds) was reached", limit)
        }
        "PREEMPTION" | "TERM_PREEMPT" | "Preempted in order to admit critical pod" => (
            "it was preempted",
            "A job of higher priority took its place.",
        ),
        "NODE FAILURE" => (
            "a node failed",
            "Slurm lost a node of the job and ended the rest of it.",
        ),
        "JOB REQUEUE" => (
            "it was put back into the queue",
            "An administrator, or a failure of a node, made Slurm start it again.",
        ),
        "TERM_OWNER" => ("its owner cancelled it", "Somebody ran bkill."),
        "TERM_ADMIN" => (
            "an administrator cancelled it",
            "An administrator of LSF ran bkill.",
        ),
        "TERM_MEMLIMIT" => (
            "its memory limit was reached",
            "The job used more memory than it had asked for.",
        ),
        _ if reason.starts_with("JOB ") => (
            "it was cancelled (scancel)",
            "A user or an administrator ran scancel; Slurm gives a reason where it does so by itself.",
        ),
        _ if reason.starts_with("STEP ") => (
            "its step was cancelled (scancel, or Ctrl-C at srun)",
            "Slurm gives a reason where it does so by itself, and srun reports first when a task failed.",
        ),
        _ => (
            "the node ran short of a resource, and the pod was evicted",
            reason,
        ),
    };
    let yes = |holds: bool| if holds { "yes" } else { "" };
    draft
        .fact("who", who)
        .fact("detail", detail.trim_end_matches('.'))
        .fact("limit", yes(detail == limit))
        .fact("node", yes(reason == "NODE FAILURE"));
}

/// Which rank counts how many ranks in one communicator: that tells where to change it.
fn sizes(scene: &Scene<'_>, draft: &mut Draft<'_>) {
    let Some(comm) = scene.ranks.comms.iter().find(|comm| {
        let sizes = comm
            .members
            .values()
            .map(|m| scene.job.members[m.ix()].nranks);
        sizes
            .filter(|size| *size > 0)
            .collect::<BTreeSet<u32>>()
            .len()
            > 1
    }) else {
        return;
    };
    let mut by_size: BTreeMap<u32, (BTreeSet<u32>, BTreeSet<String>)> = BTreeMap::new();
    let mut lines: BTreeMap<u32, (&Kept, u32)> = BTreeMap::new();
    for (rank, member) in &comm.members {
        let member = &scene.job.members[member.ix()];
        let Some(line) = member.start_line.as_ref().filter(|_| member.nranks > 0) else {
            continue;
        };
        let (ranks, hosts) = by_size.entry(member.nranks).or_default();
        ranks.insert(*rank);
        hosts.extend(scene.job.records[member.writer.ix()].host.clone());
        lines.entry(member.nranks).or_insert((line, *rank));
    }
    let told = by_size.iter().map(|(size, (ranks, hosts))| {
        let on = match hosts.is_empty() {
            true => String::new(),
            false => format!(" on {}", host_names(hosts, scene.hosts().len())),
        };
        format!("{size} on {}{on}", rank_names(ranks))
    });
    draft.fact("who", told.collect::<Vec<_>>().join(", "));
    for (line, rank) in lines.into_values() {
        draft.evidence(line, Some(rank));
    }
}

/// What each rank gave up on: the ranks do not always wait in the same call.
fn timeouts(scene: &Scene<'_>, records: &[(WriterIx, &HitRecord)], draft: &mut Draft<'_>) {
    let mut of: BTreeMap<(u64, &str), (u64, BTreeSet<u32>)> = BTreeMap::new();
    for (writer, record) in records {
        let Some(captures) = record.captures.first() else {
            continue;
        };
        let get = |name: &str| captures.get(name).map(String::as_str);
        let number = |name: &str| get(name).and_then(|text| text.parse().ok());
        if let (Some(op), Some(seq), Some(ran)) = (get("op"), number("seq"), number("ran_ms")) {
            let (longest, ranks) = of.entry((seq, op)).or_default();
            *longest = ran.max(*longest);
            ranks.extend(scene.ranks.rank_of(*writer));
        }
    }
    let one = of.len() <= 1;
    let part = |((seq, op), (ran, ranks)): (&(u64, &str), &(u64, BTreeSet<u32>))| {
        let call = format!("{op} number {seq} after {ran} ms");
        match ranks.is_empty() || one {
            true => call,
            false => format!("{call} on {}", rank_names(ranks)),
        }
    };
    let parts: Vec<String> = of.iter().map(part).collect();
    draft
        .fact("what", parts.join(", "))
        .fact("one", if one { "yes" } else { "" });
}

/// The value of NCCL_SOCKET_IFNAME in the logs that the rule matched in, and whose it is alone.
fn interface_name(scene: &Scene<'_>, records: &[(WriterIx, &HitRecord)], draft: &mut Draft<'_>) {
    const NAME: &str = "NCCL_SOCKET_IFNAME";
    let sources = records
        .iter()
        .map(|(w, _)| scene.job.records[w.ix()].source);
    let sources: BTreeSet<_> = sources.collect();
    let mut here = scene
        .all_records()
        .filter(|(_, r)| sources.contains(&r.source));
    let Some((rank, (value, line))) = here.find_map(|(rank, r)| Some((rank, r.env.get(NAME)?)))
    else {
        return;
    };
    draft.fact("ifname", value.clone()).evidence(line, rank);
    let seen = || scene.ranks.ranks.iter().filter(|r| r.lines > 0);
    let having = seen().filter(|r| scene.env_of(r.rank, NAME) == Some(value));
    let having: Vec<u32> = having.map(|r| r.rank).collect();
    // Rank 0 makes the communicator's id and fails there first: that the others print no value says
    // nothing as long as they print none at all.
    let others_differ = seen()
        .filter(|r| !having.contains(&r.rank))
        .all(|r| scene.records(r).any(|rec| !rec.addresses.is_empty()));
    if !having.is_empty() && having.len() < seen().count() && others_differ {
        let noun = if having.len() == 1 { "rank" } else { "ranks" };
        draft.fact("odd", format!("{noun} {}", ranges(having)));
    }
}

/// NCCL 2.30 and later do not say which ranks share a GPU; their START lines do.
fn same_gpu(scene: &Scene<'_>, draft: &mut Draft<'_>) {
    for comm in &scene.ranks.comms {
        let mut on: BTreeMap<(Option<&str>, u64), BTreeSet<u32>> = BTreeMap::new();
        for (rank, member) in &comm.members {
            let member = &scene.job.members[member.ix()];
            let host = scene.job.records[member.writer.ix()].host.as_deref();
            if let Some(bus) = member.bus_id {
                let world = scene.ranks.rank_of(member.writer).unwrap_or(*rank);
                on.entry((host, bus)).or_default().insert(world);
            }
        }
        if let Some(((_, bus), ranks)) = on.into_iter().find(|(_, ranks)| ranks.len() > 1) {
            let mut first = ranks.iter();
            let two = [first.next(), first.next()].map(|r| r.map(u32::to_string));
            draft
                .fact("device", format!("{bus:x}"))
                .fact("first", two[0].clone().unwrap_or_default())
                .fact("second", two[1].clone().unwrap_or_default());
            return;
        }
    }
}

/// Why the store may not be reached: one of `unresolved`, `other_port`, `nobody`, `no_route` and `remote`.
fn unreachable_store(
    scene: &Scene<'_>,
    records: &[(WriterIx, &HitRecord)],
    captures: &Captures,
    draft: &mut Draft<'_>,
) {
    let Some(host) = captures.get("host") else {
        return;
    };
    let printers = draft.finding().ranks.clone();
    let lookup = scene
        .all_records()
        .filter_map(|(_, r)| r.unresolved.as_ref())
        .find(|(name, ..)| name == host);
    // Who says how many have come is the store's own process.
    let holder = scene
        .all_records()
        .find(|(rank, r)| r.store.is_some() && rank.is_none_or(|r| !printers.contains(&r)));
    if let Some((rank, _)) = holder {
        draft.fact(
            "holder",
            rank.map_or_else(|| "its host".to_owned(), |r| format!("rank {r}")),
        );
    }
    let mut all = records.iter().flat_map(|(_, r)| &r.captures);
    let error = all.find_map(|c| c.get("error"));
    if let Some(error) = error {
        draft.fact("error", error.clone());
    }
    let error = error.map(String::as_str).unwrap_or_default();
    let local = is_loopback(host) || host == "localhost";
    let (fact, value) = if let Some((_, reason, _)) = lookup {
        ("unresolved", reason.as_str())
    } else if local && holder.is_some() {
        ("other_port", "yes")
    } else if local {
        ("nobody", "yes")
    } else if error.contains("Network is unreachable") || error.contains("No route to host") {
        ("no_route", "yes")
    } else {
        ("remote", "yes")
    };
    draft.fact(fact, value);
    if let Some((.., line)) = lookup {
        let rank = draft.finding().ranks.first().copied();
        draft.evidence(line, rank);
    }
}

/// What was asked for where no plugin could be started.
fn plugin(scene: &Scene<'_>, draft: &mut Draft<'_>) {
    let set = |name: &str| {
        let mut records = scene.all_records();
        records.find_map(|(rank, r)| Some((rank, r.env.get(name)?)))
    };
    if let Some((rank, (value, line))) = set("NCCL_NET_PLUGIN") {
        let library = if value.contains(".so") {
            value.clone()
        } else {
            format!("libnccl-net-{value}.so")
        };
        let tried = scene
            .all_records()
            .filter_map(|(rank, r)| Some((rank, r.plugin_not_found.as_ref()?)))
            .find(|(_, line)| line.text().contains(value.as_str()));
        draft
            .fact("plugin", value.clone())
            .fact("library", library)
            .fact("known", "yes")
            .evidence(line, rank);
        match tried {
            Some((rank, line)) => draft.fact("tried", "yes").evidence(line, rank),
            None => draft.fact("sought", "yes"),
        };
    }
    if let Some((rank, (value, line))) = set("NCCL_NET") {
        draft
            .fact("net", value.clone())
            .fact("known", "yes")
            .evidence(line, rank);
    }
}

/// Lines that another rule matched, with the ranks that wrote them.
fn lines_of<'a>(scene: &'a Scene<'_>, id: &str) -> Vec<(Option<u32>, &'a Kept)> {
    let Some(wanted) = scene.catalog.by_id(id) else {
        return Vec::new();
    };
    let of_rule = scene
        .hits
        .by_rule()
        .filter(|(rule, writer, _)| *rule == wanted && !scene.ranks.stale[writer.ix()]);
    let mut lines: Vec<(Option<u32>, &Kept)> = of_rule
        .flat_map(|(_, writer, record)| {
            let rank = scene.ranks.rank_of(writer);
            record.lines.iter().map(move |line| (rank, line))
        })
        .collect();
    lines.sort_by_key(|(_, line)| line.place);
    lines
}

/// Where Gloo could not resolve the own host's name: the reason for its loopback address.
fn unresolved(scene: &Scene<'_>, draft: &mut Draft<'_>) {
    let lines = lines_of(scene, "GLOO002");
    if lines.is_empty() {
        return;
    }
    let ranks: BTreeSet<u32> = lines.iter().filter_map(|(rank, _)| *rank).collect();
    draft
        .fact("unresolved", "yes")
        .fact("nameless", ranges(ranks));
    for (rank, line) in lines.into_iter().take(4) {
        draft.evidence(line, rank);
    }
}

/// Whether the index of a GID may be at fault: the error says so, or somebody set it.
fn gid_index(scene: &Scene<'_>, captures: &Captures, draft: &mut Draft<'_>) {
    let mut records = scene.all_records();
    let set = records.find_map(|(rank, r)| Some((rank, r.env.get("NCCL_IB_GID_INDEX")?)));
    if let Some((rank, (value, line))) = set {
        draft.fact("set", value.clone()).evidence(line, rank);
    }
    if set.is_some() || captures.contains_key("bad_gid") {
        draft.fact("choose", "yes");
    }
}

/// The size that did not fit, and the variables that make NCCL use /dev/shm.
fn shared_memory(scene: &Scene<'_>, captures: &Captures, draft: &mut Draft<'_>) {
    let size = captures.get("size").and_then(|bytes| bytes.parse().ok());
    if let Some(bytes) = size {
        draft.fact("amount", amount(bytes));
    }
    let mut forced: BTreeSet<&str> = BTreeSet::new();
    let mut lines: Vec<(Option<u32>, &Kept)> = Vec::new();
    for (rank, name, line) in super::p2p::forces_shared_memory(scene) {
        if forced.insert(name) {
            lines.push((rank, line));
        }
    }
    if forced.contains("NCCL_P2P_LEVEL") {
        // Up to 2.22 either of the two is printed so.
        forced.insert("NCCL_P2P_DISABLE");
    }
    let forced: Vec<&str> = forced.into_iter().collect();
    draft
        .fact("forced", forced.join(" and "))
        .fact("unset", forced.join(" "));
    for (rank, line) in lines {
        draft.evidence(line, rank);
    }
}

/// `34210188` → `32.6 MiB`
fn amount(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    let tenths = |unit: u64| {
        let tenths = (u128::from(bytes) * 10 + u128::from(unit / 2)) / u128::from(unit);
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match bytes {
        MIB.. => format!("{} MiB", tenths(MIB)),
        KIB.. => format!("{} KiB", tenths(KIB)),
        _ => format!("{bytes} bytes"),
    }
}

/// GPUs in the bundles of a placement group: `{'GPU': 1.0}, {'GPU': 1.0}`.
fn gpus_asked(captures: &Captures, draft: &mut Draft<'_>) {
    let Some(specs) = captures.get("specs") else {
        return;
    };
    let counts = specs.split("'GPU': ").skip(1).filter_map(|rest| {
        let digits = rest.split(['.', ',', '}']).next()?;
        digits.trim().parse::<u64>().ok()
    });
    let asked: u64 = counts.fold(0, u64::saturating_add);
    if asked > 0 {
        draft.fact("asked", asked.to_string());
    }
}

/// The versions that are known where the bootstrap's messages do not fit.
fn known_versions(scene: &Scene<'_>, draft: &mut Draft<'_>) {
    draft.fact("one_host", super::stack::only_host(scene));
    let mut by_version: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for rec in &scene.ranks.ranks {
        if let Some((version, _)) = scene.records(rec).find_map(|r| r.nccl.as_ref()) {
            let version = version.split('+').next().unwrap_or(version);
            by_version.entry(version).or_default().push(rec.rank);
        }
    }
    let known: usize = by_version.values().map(Vec::len).sum();
    // One version on all ranks explains nothing, and none is nothing to tell.
    if by_version.is_empty() || (by_version.len() == 1 && known == scene.ranks.ranks.len()) {
        return;
    }
    let words = by_version.iter().map(|(version, ranks)| {
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("NCCL {version} on {noun} {}", ranges(ranks.iter().copied()))
    });
    let mut words: Vec<String> = words.collect();
    let silent = scene.ranks.ranks.iter().map(|rec| rec.rank);
    let silent: Vec<u32> = silent
        .filter(|rank| !by_version.values().any(|ranks| ranks.contains(rank)))
        .collect();
    if let [one] = silent.as_slice()
        && by_version.len() == 1
    {
        words.push(format!(
            "probably another version on rank {one}, which prints none"
        ));
    } else if !silent.is_empty() {
        words.push(format!(
            "ranks {} print none",
            ranges(silent.iter().copied())
        ));
    }
    draft.fact("known_versions", words.join(", "));
}

/// Of the pairs that PyTorch compared, one that names the odd rank second; and what differs, in words.
fn fingerprints(scene: &Scene<'_>, records: &[(WriterIx, &HitRecord)], draft: &mut Draft<'_>) {
    let all = records.iter().flat_map(|(_, r)| &r.captures);
    let odd = odd_by_fingerprints(scene).map(|rank| rank.to_string());
    let named = |c: &&Captures, name: &str| odd.is_some() && c.get(name) == odd.as_ref();
    let chosen = all
        .clone()
        .find(|c| named(c, "other"))
        .or_else(|| all.clone().find(|c| named(c, "rank")))
        .or_else(|| all.clone().next());
    let Some(chosen) = chosen else {
        return;
    };
    let swap = named(&chosen, "rank");
    let of = |name: &str| chosen.get(name).cloned().unwrap_or_default();
    let [(odd_rank, odd_call), (rank, call)] = if swap {
        [("rank", "call"), ("other", "other_call")].map(|(r, c)| (of(r), of(c)))
    } else {
        [("other", "other_call"), ("rank", "call")].map(|(r, c)| (of(r), of(c)))
    };
    let (mut ours, mut theirs) = differences(&of("aspect"));
    if swap {
        std::mem::swap(&mut ours, &mut theirs);
    }
    draft
        .fact("ours", ours)
        .fact("theirs", theirs)
        .fact("rank", rank)
        .fact("call", call)
        .fact("other", odd_rank)
        .fact("other_call", odd_call);
    if odd.is_some() {
        draft.fact("odd", "yes");
    }
}

/// `Tensor Tensor dtypes: Doublevs Float` → `dtype Double` and `dtype Float`: PyTorch prints the reporter's
/// value, `vs` and the other's, several aspects behind tabs.
fn differences(aspects: &str) -> (String, String) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for aspect in aspects.split('\t') {
        let Some((what, values)) = aspect.trim().split_once(':') else {
            continue;
        };
        let Some((mine, other)) = values.split_once("vs ") else {
            continue;
        };
        let what = what.trim().trim_start_matches("Tensor ").to_lowercase();
        let what = match what.as_str() {
            // The operations stand in front of it already.
            "op type" => continue,
            "dtypes" | "tensor dtypes" => "dtype",
            "shapes" | "tensor shapes" => "shape",
            "devices" | "device types" | "tensor device types" => "device",
            other => other,
        };
        ours.push(format!("{what} {}", mine.trim()));
        theirs.push(format!("{what} {}", other.trim()));
    }
    (ours.join(", "), theirs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_by_people() {
        assert_eq!(amount(34_210_188), "32.6 MiB");
        assert_eq!(amount(9_637_888), "9.2 MiB");
        assert_eq!(amount(2048), "2.0 KiB");
        assert_eq!(amount(12), "12 bytes");
    }

    #[test]
    fn what_differs_reads_well() {
        let text = "Op type: ALLREDUCEvs BROADCAST \t Tensor Tensor shapes: [4, 8]vs [4] \tTensor Tensor dtypes: Doublevs Float";
        let both = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            differences(text),
            both("shape [4, 8], dtype Double", "shape [4], dtype Float")
        );
        assert_eq!(
            differences("Sequence number: 5vs 6"),
            both("sequence number 5", "sequence number 6")
        );
        assert_eq!(differences("whatever else"), both("", ""));
    }
}
