//! What the kernel's log tells: on which host, of which rank's process, of which rank's GPU.
//!
//! A dump of it holds what happened since the host came up, to any program. So a line is about this job only
//! where its process or GPU is, or where the job is in trouble.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::rank_names;
use super::{Draft, Scene, wait};
use crate::engine::finding::Finding;
use crate::engine::hits::HitRecord;
use crate::engine::ids::WriterIx;
use crate::engine::job::Kept;
use crate::engine::vocab::{Confidence, Role};
use crate::engine::xid;

/// Xids that follow from another, or that nothing stops for: the cause only where there is no other.
const WEAK: [u64; 3] = [63, 64, 92];
/// Xids with which the driver cleans up behind a program that has ended.
const AFTERWARDS: [u64; 2] = [43, 45];
/// Processes named in a title.
const NAMED: usize = 3;

/// Where a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place<'a> {
    /// On this host of the job.
    Host(&'a str),
    /// On a host that is none of the job's.
    Elsewhere,
    /// It does not say.
    Unknown,
}

/// One event of the kernel's.
struct Told<'a> {
    line: &'a Kept,
    place: Place<'a>,
    captures: &'a BTreeMap<&'static str, String>,
    /// Whose process or GPU it is.
    rank: Option<u32>,
}

impl Told<'_> {
    fn xid(&self) -> Option<u64> {
        self.captures.get("xid")?.parse().ok()
    }

    fn is_weak(&self) -> bool {
        self.xid().is_none_or(|xid| WEAK.contains(&xid))
    }

    /// Where it stands among those of one log.
    fn order(&self) -> (u32, u64) {
        (self.line.place.source.0, self.line.place.number)
    }
}

/// Adds what the rule's lines are about.
pub(super) fn add(
    scene: &Scene<'_>,
    id: &str,
    records: &[(WriterIx, &HitRecord)],
    draft: &mut Draft<'_>,
) {
    let mut told = told(scene, records);
    told.sort_by_key(Told::order);
    for place in told.iter().map(|t| t.place) {
        if let Place::Host(host) = place {
            draft.finding().hosts.insert(host.to_owned());
        }
    }
    match id {
        "HOST002" => killed(scene, &told, records, draft),
        "HW001" => fault(scene, &told, draft),
        "HW002" => of_program(scene, &told, draft),
        _ => {}
    }
}

/// The kernel's lines of a rule, each with whom it concerns.
fn told<'a>(scene: &'a Scene<'_>, records: &[(WriterIx, &'a HitRecord)]) -> Vec<Told<'a>> {
    let named = records
        .iter()
        .flat_map(|(writer, record)| record.named.iter().map(move |named| (*writer, named)));
    named
        .map(|(writer, (captures, line))| {
            let place = place_of(scene, writer, line);
            let pid = captures.get("pid").and_then(|pid| pid.parse().ok());
            let by_pid = pid.and_then(|pid| rank_of_process(scene, place, pid));
            let by_gpu = || rank_of_gpu(scene, place, captures.get("gpu")?);
            Told {
                line,
                place,
                captures,
                rank: by_pid.or_else(by_gpu),
            }
        })
        .collect()
}

/// Processes that the kernel killed for lack of memory.
fn killed(
    scene: &Scene<'_>,
    told: &[Told<'_>],
    records: &[(WriterIx, &HitRecord)],
    draft: &mut Draft<'_>,
) {
    let mut by_pid: BTreeMap<&str, &Told<'_>> = BTreeMap::new();
    for one in told {
        if let Some(pid) = one.captures.get("pid") {
            by_pid.entry(pid).or_insert(one);
        }
    }
    if by_pid.is_empty() {
        // Slurm names its tasks.
        let task = |one: &Told<'_>| {
            let (host, task) = (one.captures.get("host")?, one.captures.get("rank")?);
            Some(format!("task {task} on {host}"))
        };
        if let Some(task) = told.iter().find_map(task) {
            draft.fact("killed", task);
        }
        return;
    }
    // A rank that came to its end was not killed: the host gave its number to another process before.
    let well = |rank: u32| {
        let rec = scene.ranks.ranks.get(rank as usize);
        rec.is_some_and(|rec| wait::end_of(scene, rec) == wait::End::Well)
    };
    by_pid.retain(|_, one| one.rank.is_none_or(|rank| !well(rank)));
    if by_pid.is_empty() {
        draft.note();
        return;
    }
    let ours = by_pid.values().any(|one| one.rank.is_some());
    let mut shown: Vec<&&Told<'_>> = by_pid
        .values()
        .filter(|t| !ours || t.rank.is_some())
        .collect();
    shown.sort_by_key(|one| one.order());
    let ranks: BTreeSet<u32> = shown.iter().filter_map(|one| one.rank).collect();
    let mut words: Vec<String> = shown.iter().take(NAMED).map(|one| in_words(one)).collect();
    if shown.len() > NAMED {
        words.push(format!("{} more", shown.len() - NAMED));
    }
    draft.fact("killed", words.join(", "));
    for one in shown.iter().take(NAMED) {
        draft.evidence(one.line, one.rank);
    }
    draft.ranks(ranks.iter().copied()).accuse(ranks);
    if ours {
        return;
    }
    draft.sure(Confidence::Likely).fact("whose", "unknown");
    // Slurm and Kubernetes speak of this job's own.
    let of_this_job = |(_, record): &(WriterIx, &HitRecord)| {
        let mut captures = record.captures.iter();
        captures.any(|captures| !captures.contains_key("pid"))
    };
    if !records.iter().any(of_this_job) && !in_trouble(scene) {
        draft.note();
    }
}

/// `rank 3 (process 4711, python3) on node-1`
fn in_words(told: &Told<'_>) -> String {
    let get = |name: &str| told.captures.get(name).map(String::as_str);
    let pid = get("pid").unwrap_or_default();
    let name = get("process").map(|name| name.trim_matches(['(', ')']));
    let who = match (told.rank, name) {
        (Some(rank), Some(name)) => format!("rank {rank} (process {pid}, {name})"),
        (Some(rank), None) => format!("rank {rank} (process {pid})"),
        (None, Some(name)) => format!("process {pid} ({name})"),
        (None, None) => format!("process {pid}"),
    };
    match told.place {
        Place::Host(host) => format!("{who} on {host}"),
        _ => who,
    }
}

/// Xids that point at a GPU: of several in one log the first that is no consequence stands for all.
fn fault(scene: &Scene<'_>, told: &[Told<'_>], draft: &mut Draft<'_>) {
    let used: Vec<&Told<'_>> = told.iter().filter(|one| !is_unused(scene, one)).collect();
    // Stable: of equally strong ones the first stays the first.
    let mut by_weight = used.clone();
    by_weight.sort_by_key(|one| one.is_weak());
    let mut firsts: BTreeMap<u32, &Told<'_>> = BTreeMap::new();
    for one in by_weight {
        firsts.entry(one.line.place.source.0).or_insert(one);
    }
    let Some(first) = firsts.values().copied().min_by_key(|one| one.is_weak()) else {
        // All of them are of GPUs that no rank uses.
        if let Some(first) = told.first() {
            say(first, draft);
            draft.fact("unused", "yes").note();
        }
        return;
    };
    say(first, draft);
    draft.evidence(first.line, first.rank);
    let ranks: BTreeSet<u32> = firsts.values().filter_map(|one| one.rank).collect();
    let same = |one: &&&Told<'_>| {
        ["gpu", "xid"]
            .iter()
            .all(|name| one.captures.get(name) == first.captures.get(name))
    };
    let others: BTreeSet<String> = used
        .iter()
        .filter(|one| one.line.place.source == first.line.place.source && !same(one))
        .filter_map(|one| {
            let gpu = one.captures.get("gpu")?;
            Some(format!("Xid {} of GPU {gpu}", one.xid()?))
        })
        .collect();
    draft
        .fact("also", others.into_iter().collect::<Vec<_>>().join(", "))
        .ranks(ranks.iter().copied())
        .accuse(ranks);
    if ended_well(scene) {
        draft.note();
    }
}

/// Xids that a program causes: its own fault only where it is a rank's and the GPU is well.
fn of_program(scene: &Scene<'_>, told: &[Told<'_>], draft: &mut Draft<'_>) {
    let after = |one: &&Told<'_>| one.xid().is_some_and(|xid| AFTERWARDS.contains(&xid));
    let Some(first) = told
        .iter()
        .min_by_key(|one| (after(one), one.rank.is_none(), one.order()))
    else {
        return;
    };
    say(first, draft);
    draft.evidence(first.line, first.rank).ranks(first.rank);
    let faulty = scene.catalog.by_id("HW001");
    let broken = scene
        .hits
        .by_rule()
        .any(|(rule, writer, _)| Some(rule) == faulty && !scene.ranks.stale[writer.ix()]);
    if let Some(rank) = first.rank
        && !after(&first)
        && !broken
        && !ended_well(scene)
    {
        draft.accuse([rank]).sure(Confidence::Likely);
        draft.finding().role = Role::Cause;
    }
}

/// GPU, number, meaning, and whose GPU it is.
fn say(one: &Told<'_>, draft: &mut Draft<'_>) {
    let meaning = one.xid().and_then(xid::meaning);
    let host = match one.place {
        Place::Host(host) => Some(host),
        _ => None,
    };
    let rank = one.rank.map(|rank| rank_names(&BTreeSet::from([rank])));
    let whose: Vec<&str> = rank.as_deref().into_iter().chain(host).collect();
    for name in ["gpu", "xid"] {
        draft.fact(name, one.captures.get(name).cloned().unwrap_or_default());
    }
    draft
        .fact("means", meaning.map_or("", |known| known.text))
        .fact("action", meaning.map_or("", |known| known.action))
        .fact("whose", whose.join(", "));
}

/// A GPU that lost the driver's line twice is one event: HW004 tells of what HW001 has told.
pub(super) fn one_event(found: &mut [Finding]) {
    let Some(hosts) = found
        .iter()
        .find(|f| f.id == "HW001" && f.role == Role::Cause)
        .map(|f| f.hosts.clone())
    else {
        return;
    };
    let same = |f: &&mut Finding| {
        let unknown = f.hosts.is_empty() || hosts.is_empty();
        f.id == "HW004" && (unknown || !f.hosts.is_disjoint(&hosts))
    };
    for finding in found.iter_mut().filter(same) {
        finding.role = Role::Symptom;
    }
}

/// The GPU is one that no rank of its host uses, as far as all of them are known.
fn is_unused(scene: &Scene<'_>, told: &Told<'_>) -> bool {
    let Place::Host(host) = told.place else {
        return told.place == Place::Elsewhere;
    };
    if told.rank.is_some() {
        return false;
    }
    let here = scene
        .ranks
        .ranks
        .iter()
        .filter(|r| r.host.as_deref() == Some(host));
    let known: Vec<bool> = here.map(|rec| !buses(scene, rec.rank).is_empty()).collect();
    !known.is_empty() && known.iter().all(|known| *known)
}

/// The rank whose process this is.
fn rank_of_process(scene: &Scene<'_>, place: Place<'_>, pid: u32) -> Option<u32> {
    let host = host_of(scene, place)?;
    let has = |rec: &&crate::engine::job::RankRec| {
        let here = rec
            .host
            .as_deref()
            .is_none_or(|known| same_host(known, host));
        let own = rec.pid == Some(pid) || scene.reported_pid(rec.rank) == Some(pid);
        let claimed = rec
            .processes
            .iter()
            .any(|(on, process)| *process == pid && same_host(on, host));
        claimed || (here && own)
    };
    only(scene.ranks.ranks.iter().filter(has).map(|rec| rec.rank))
}

/// The rank that runs on the GPU with this bus id of the kernel's (`0000:18:00`).
fn rank_of_gpu(scene: &Scene<'_>, place: Place<'_>, gpu: &str) -> Option<u32> {
    let host = host_of(scene, place)?;
    let bus = bus(gpu)?;
    let here = scene.ranks.ranks.iter().filter(|rec| {
        rec.host
            .as_deref()
            .is_some_and(|known| same_host(known, host))
    });
    only(
        here.map(|rec| rec.rank)
            .filter(|rank| buses(scene, *rank).contains(&bus)),
    )
}

/// GPUs that a rank gave to its communicators, without their function number.
fn buses(scene: &Scene<'_>, rank: u32) -> BTreeSet<u64> {
    let Some(rec) = scene.ranks.ranks.get(rank as usize) else {
        return BTreeSet::new();
    };
    let members = scene.records(rec).flat_map(|record| &record.members);
    members
        .filter_map(|member| scene.job.members[member.ix()].bus_id.filter(|bus| *bus > 0))
        .map(|bus| bus >> 4)
        .collect()
}

/// `0000:18:00` and `0000:18:00.0` as NCCL packs them, without the function.
fn bus(gpu: &str) -> Option<u64> {
    let without = gpu.split('.').next()?;
    let digits: String = without.chars().filter(|c| *c != ':').collect();
    u64::from_str_radix(&digits, 16).ok()
}

/// The host of an event: where the job is on one host only, an event without a place is there.
fn host_of<'a>(scene: &'a Scene<'_>, place: Place<'a>) -> Option<&'a str> {
    match place {
        Place::Host(host) => Some(host),
        Place::Elsewhere => None,
        Place::Unknown => only(scene.hosts().into_iter()),
    }
}

/// On which host a line of the kernel's was written: its own word, what opened the log says, the log's name, or the
/// ranks that write into the same log.
fn place_of<'a>(scene: &'a Scene<'_>, writer: WriterIx, line: &Kept) -> Place<'a> {
    let hosts = scene.hosts();
    let text = line.text();
    let known = |name: &str| hosts.iter().copied().find(|host| same_host(host, name));
    if let Some(name) = syslog_host(&text) {
        return known(name).map_or(Place::Elsewhere, Place::Host);
    }
    let source = scene.sources.get(line.place.source.ix()).copied().flatten();
    if let Some(info) = source {
        if let Some(host) = info.host.as_deref().and_then(known) {
            return Place::Host(host);
        }
        let named = hosts.iter().copied().filter(|host| names(&info.name, host));
        if let Some(host) = only(named) {
            return Place::Host(host);
        }
    }
    scene
        .host_of_source(writer)
        .map_or(Place::Unknown, Place::Host)
}

/// `node-5` in `Nov 30 12:01:02 node-5 kernel: …` and `2025-11-30T12:01:02.5+00:00 node-5 kernel: …`
fn syslog_host(text: &str) -> Option<&str> {
    let (before, _) = text.split_once(" kernel: ")?;
    let (time, host) = before.rsplit_once(' ')?;
    let clock = time.bytes().filter(|b| *b == b':').count() >= 2;
    let name = host
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    (clock && name && host.bytes().any(|b| b.is_ascii_alphabetic())).then_some(host)
}

/// True if the path has the host's name as a word of its own.
fn names(path: &str, host: &str) -> bool {
    let host = host.split('.').next().unwrap_or(host);
    let part = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    path.match_indices(host).any(|(at, _)| {
        let bytes = path.as_bytes();
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !host.is_empty() && !part(before) && !part(bytes.get(at + host.len()))
    })
}

/// Short and fully qualified names are one host.
fn same_host(a: &str, b: &str) -> bool {
    let short = |name: &'_ str| name.find('.').unwrap_or(name.len());
    a.eq_ignore_ascii_case(b)
        || a[..short(a)].eq_ignore_ascii_case(&b[..short(b)])
            && (short(a) == a.len() || short(b) == b.len())
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// Something says that the job did not go well.
fn in_trouble(scene: &Scene<'_>) -> bool {
    let badly = |rec| wait::end_of(scene, rec) == wait::End::Badly;
    wait::stands_still(scene) || scene.ranks.ranks.iter().any(badly)
}

/// Every rank that was seen came to its end.
fn ended_well(scene: &Scene<'_>) -> bool {
    let mut seen = scene.ranks.ranks.iter().filter(|r| r.was_seen()).peekable();
    seen.peek().is_some() && seen.all(|rec| wait::end_of(scene, rec) == wait::End::Well)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::xid::Whose;

    #[test]
    fn hosts_in_lines_and_names() {
        let host = |text| syslog_host(text);
        assert_eq!(
            host("Nov 30 12:01:02 node-5 kernel: NVRM: Xid (PCI:0000:c1:00): 94"),
            Some("node-5")
        );
        assert_eq!(
            host("2025-11-30T12:01:02.123456+00:00 gpu07.example kernel: Out of memory"),
            Some("gpu07.example")
        );
        assert_eq!(host("[918273.645110] NVRM: Xid (PCI:0000:18:00): 79"), None);
        assert_eq!(host("the linux kernel: a book"), None);
        assert!(names("logs/node-1-dmesg.log", "node-1"));
        assert!(names("node-1/dmesg", "node-1.example"));
        assert!(!names("node-12.log", "node-1"));
        assert!(same_host("node-1", "node-1.example"));
        assert!(!same_host("node-1.a", "node-1.b"));
        assert!(!same_host("node-1", "node-11"));
    }

    #[test]
    fn bus_ids_of_the_kernel_are_those_of_nccl() {
        assert_eq!(bus("0000:18:00"), Some(0x18000 >> 4));
        assert_eq!(bus("0000:3b:00.0"), Some(0x3b000 >> 4));
        assert_eq!(bus("0001:18:00"), Some(0x1_1800));
        assert_eq!(bus("nonsense"), None);
    }

    #[test]
    fn weak_and_late_ones_are_in_the_table() {
        for number in WEAK {
            assert_eq!(xid::meaning(number).map(|m| m.whose), Some(Whose::Hardware));
        }
        for number in AFTERWARDS {
            assert_eq!(xid::meaning(number).map(|m| m.whose), Some(Whose::Program));
        }
    }
}
