//! The types of schema 1. Fields are added, never changed or removed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::finding::{Evidence, Finding, Fix};
use crate::engine::gpu::{Gpu, GpuSample, Means, Throttle};
use crate::engine::input::{EndReason, SourceKind};
use crate::engine::job::ProcessSeen;
use crate::engine::snapshot::{
    AddressView, CommView, GpusView, HostView, InputsView, JobView, MemberView, RankView, Snapshot,
    SourceView, ValuesView, Verdict,
};
use crate::engine::vocab::{Class, Confidence, FixKind, Phase, Role, Severity, State};
use crate::engine::witness::Said;
use crate::views::words;

#[derive(Serialize)]
pub(super) struct Report<'a> {
    schema: u32,
    tool: &'static str,
    verdict: JsonVerdict<'a>,
    findings: Vec<JsonFinding<'a>>,
    job: JsonJob<'a>,
    inputs: JsonInputs<'a>,
}

#[derive(Serialize)]
struct JsonVerdict<'a> {
    state: State,
    class: Class,
    summary: &'a str,
    confidence: Confidence,
    ranks: Vec<u32>,
    hosts: Vec<&'a str>,
    other_causes: Vec<&'a str>,
    missing_evidence: &'a [String],
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    rule: &'a str,
    name: &'a str,
    class: Class,
    role: Role,
    severity: Severity,
    confidence: Confidence,
    title: &'a str,
    explanation: &'a str,
    ranks: Vec<u32>,
    hosts: Vec<&'a str>,
    comm: Option<&'a str>,
    evidence: Vec<JsonEvidence<'a>>,
    more_evidence: u64,
    fixes: Vec<JsonFix<'a>>,
    missing_evidence: &'a [String],
    explains: Vec<&'a str>,
    witnesses: Vec<&'static str>,
    sites: Option<&'a str>,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct JsonEvidence<'a> {
    source: Option<&'a str>,
    line: Option<u64>,
    entry: Option<u64>,
    rank: Option<u32>,
    text: &'a str,
}

#[derive(Serialize)]
struct JsonFix<'a> {
    kind: FixKind,
    text: &'a str,
    env: &'a BTreeMap<String, String>,
    unset: &'a [String],
    ranks: Vec<u32>,
    cures: bool,
    caution: Option<&'a str>,
    undo: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonJob<'a> {
    world_size: Option<u32>,
    grouped: bool,
    hosts: Vec<JsonHost<'a>>,
    ranks: Vec<JsonRank<'a>>,
    comms: Vec<JsonComm<'a>>,
    versions: Vec<JsonValues<'a>>,
    env: Vec<JsonValues<'a>>,
    /// What the GPUs of hosts say of themselves; left out where none was asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<JsonGpus<'a>>,
}

#[derive(Serialize)]
struct JsonGpus<'a> {
    host: &'a str,
    #[serde(flatten)]
    sample: &'a GpuSample,
    xid_events: Vec<JsonXid>,
}

#[derive(Serialize)]
struct JsonGpuState {
    index: u32,
    busy: Option<u32>,
    power_mw: Option<u32>,
    power_limit_mw: Option<u32>,
    memory_used: Option<u64>,
    memory_total: Option<u64>,
    means: Option<Means>,
    memory_full: Option<bool>,
    slowed_by: Option<Vec<Throttle>>,
}

#[derive(Serialize)]
struct JsonProcess {
    state: &'static str,
    cpu_percent: Option<u32>,
    threads: Option<u32>,
    nccl_threads: Option<u32>,
}

#[derive(Serialize)]
struct JsonXid {
    gpu: u32,
    xid: u64,
    count: u64,
}

/// Ranks one by one, or as ranges where they are grouped.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(untagged)]
enum Ranks {
    Each(Vec<u32>),
    Ranges(String),
}

impl Ranks {
    fn of(ranks: impl IntoIterator<Item = u32>, grouped: bool) -> Self {
        if grouped {
            Self::Ranges(words::ranges(ranks))
        } else {
            Self::Each(sorted(ranks))
        }
    }
}

#[derive(Serialize)]
struct JsonHost<'a> {
    name: Option<&'a str>,
    ranks: Ranks,
    odd: bool,
    addresses: Vec<JsonAddress<'a>>,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct JsonAddress<'a> {
    subsystem: &'a str,
    interface: Option<&'a str>,
    address: Option<&'a str>,
    ranks: Ranks,
}

/// One rank, or a group of ranks that differ in nothing of what is left in it.
#[derive(Serialize)]
struct JsonRank<'a> {
    rank: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<String>,
    name: Option<&'a str>,
    host: Option<&'a str>,
    pid: Option<u32>,
    gpu: Option<u32>,
    bus_id: Option<&'a str>,
    /// What its GPU does; left out where it was not asked. All of it stands in `gpus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_state: Option<JsonGpuState>,
    /// What the operating system says of its process; left out where nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<JsonProcess>,
    phase: Option<Phase>,
    collective: Option<u64>,
    function: Option<&'a str>,
    comms: Vec<&'a str>,
    last_line: Option<&'a str>,
    lines: Option<u64>,
    absent: bool,
}

#[derive(Serialize)]
struct JsonComm<'a> {
    id: Option<&'a str>,
    nranks: u32,
    ranks: Ranks,
    reached: Vec<JsonReached<'a>>,
}

#[derive(Serialize)]
struct JsonReached<'a> {
    rank: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<String>,
    ordinal: Option<u64>,
    last_call: Option<&'a str>,
    complete: bool,
    ended: bool,
    /// Nothing where members are grouped: each says it of itself.
    said: Vec<JsonSaid<'a>>,
}

#[derive(Serialize)]
struct JsonSaid<'a> {
    witness: &'static str,
    source: Option<&'a str>,
    ordinal: Option<u64>,
    call: Option<&'a str>,
    progress: Option<&'a str>,
    at: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonValues<'a> {
    name: &'a str,
    values: Vec<JsonValue<'a>>,
}

#[derive(Serialize)]
struct JsonValue<'a> {
    value: &'a str,
    ranks: Ranks,
}

#[derive(Serialize)]
struct JsonInputs<'a> {
    sources: Vec<JsonSource<'a>>,
    bytes: u64,
    lines: u64,
    unparsed_lines: u64,
    dropped: u64,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct JsonSource<'a> {
    name: &'a str,
    kind: &'static str,
    bytes: u64,
    lines: u64,
    ended: Option<&'static str>,
    problem: Option<&'a str>,
}

impl<'a> Report<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, grouped: bool) -> Self {
        Self {
            schema: 1,
            tool: concat!("unhang ", env!("CARGO_PKG_VERSION")),
            verdict: verdict(&snapshot.verdict),
            findings: snapshot
                .findings
                .iter()
                .map(|f| finding(f, &snapshot.inputs))
                .collect(),
            job: job(&snapshot.job, &snapshot.inputs, grouped),
            inputs: inputs(&snapshot.inputs),
        }
    }
}

fn verdict(verdict: &Verdict) -> JsonVerdict<'_> {
    JsonVerdict {
        state: verdict.state,
        class: verdict.class,
        summary: &verdict.summary,
        confidence: verdict.confidence,
        ranks: sorted(verdict.ranks.iter().copied()),
        hosts: sorted(verdict.hosts.iter().map(String::as_str)),
        other_causes: sorted(verdict.other_causes.iter().map(String::as_str)),
        missing_evidence: &verdict.missing_evidence,
    }
}

fn finding<'a>(finding: &'a Finding, inputs: &'a InputsView) -> JsonFinding<'a> {
    JsonFinding {
        rule: &finding.id,
        name: &finding.name,
        class: finding.class,
        role: finding.role,
        severity: finding.severity,
        confidence: finding.confidence,
        title: &finding.title,
        explanation: &finding.explanation,
        ranks: finding.ranks.iter().copied().collect(),
        hosts: finding.hosts.iter().map(String::as_str).collect(),
        comm: finding.comm.as_deref().and_then(known),
        evidence: sorted(finding.evidence.iter().map(|e| evidence(e, inputs))),
        more_evidence: finding.more_evidence,
        fixes: finding.fixes.iter().map(fix).collect(),
        missing_evidence: &finding.missing,
        explains: sorted(finding.explains.iter().map(String::as_str)),
        witnesses: finding.witnesses.iter().map(|w| w.name()).collect(),
        sites: finding.sites.as_deref(),
    }
}

fn evidence<'a>(evidence: &'a Evidence, inputs: &'a InputsView) -> JsonEvidence<'a> {
    JsonEvidence {
        source: inputs.source(evidence.source).map(|s| s.name.as_str()),
        line: evidence.entry.is_none().then_some(evidence.line),
        entry: evidence.entry,
        rank: evidence.rank,
        text: &evidence.text,
    }
}

fn fix(fix: &Fix) -> JsonFix<'_> {
    JsonFix {
        kind: fix.kind,
        text: &fix.text,
        env: &fix.env,
        unset: &fix.unset,
        ranks: sorted(fix.ranks.iter().copied()),
        cures: fix.cures,
        caution: fix.caution.as_deref().and_then(known),
        undo: fix.undo.as_deref().and_then(known),
    }
}

fn job<'a>(job: &'a JobView, inputs: &'a InputsView, grouped: bool) -> JsonJob<'a> {
    let mut hosts: Vec<JsonHost<'_>> = job.hosts.iter().map(|h| host(h, grouped)).collect();
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    let mut comms: Vec<JsonComm<'_>> = job.comms.iter().map(|c| comm(c, inputs, grouped)).collect();
    comms.sort_by(|a, b| a.id.cmp(&b.id));
    let mut ranks: Vec<JsonRank<'_>> = job.ranks.iter().map(|r| rank(r, job)).collect();
    if grouped {
        ranks = group(ranks);
    }
    ranks.sort_by(|a, b| a.order().cmp(&b.order()));
    JsonJob {
        world_size: job.world_size,
        grouped,
        hosts,
        ranks,
        comms,
        versions: values(&job.versions, grouped),
        env: values(&job.env, grouped),
        gpus: job.gpus.iter().map(gpus).collect(),
    }
}

fn gpus(gpus: &GpusView) -> JsonGpus<'_> {
    let xids = gpus.xids.iter();
    JsonGpus {
        host: &gpus.host,
        sample: &gpus.sample,
        xid_events: xids
            .map(|&(gpu, xid, count)| JsonXid { gpu, xid, count })
            .collect(),
    }
}

fn host(host: &HostView, grouped: bool) -> JsonHost<'_> {
    JsonHost {
        name: known(&host.name),
        ranks: Ranks::of(host.ranks.iter().copied(), grouped),
        odd: host.odd,
        addresses: sorted(host.addresses.iter().map(|a| address(a, grouped))),
    }
}

fn address(address: &AddressView, grouped: bool) -> JsonAddress<'_> {
    JsonAddress {
        subsystem: &address.subsystem,
        interface: address.interface.as_deref().and_then(known),
        address: known(&address.address),
        ranks: Ranks::of(address.ranks.iter().copied(), grouped),
    }
}

fn process(seen: ProcessSeen) -> JsonProcess {
    JsonProcess {
        state: words::process_state(seen.state),
        cpu_percent: seen.load.cpu_percent,
        threads: seen.load.threads,
        nccl_threads: seen.load.nccl_threads,
    }
}

fn gpu_state(gpu: &Gpu) -> JsonGpuState {
    JsonGpuState {
        index: gpu.index,
        busy: gpu.busy,
        power_mw: gpu.power_mw,
        power_limit_mw: gpu.power_limit_mw,
        memory_used: gpu.memory_used,
        memory_total: gpu.memory_total,
        means: gpu.means(),
        memory_full: gpu.memory_is_full(),
        slowed_by: gpu.slowed_by(),
    }
}

fn rank<'a>(rank: &'a RankView, job: &'a JobView) -> JsonRank<'a> {
    JsonRank {
        rank: rank.rank,
        ranks: None,
        name: rank.name.as_deref().and_then(known),
        host: rank.host.as_deref().and_then(known),
        pid: rank.pid,
        gpu: rank.gpu,
        bus_id: rank.bus_id.as_deref().and_then(known),
        gpu_state: job.gpu_of(rank).map(gpu_state),
        process: rank.process.map(process),
        phase: (!rank.absent).then_some(rank.phase),
        collective: rank.collective,
        function: rank.function.as_deref().and_then(known),
        comms: sorted(
            rank.comms
                .iter()
                .filter_map(|at| known(&job.comms.get(*at)?.id)),
        ),
        last_line: rank.last_line.as_deref(),
        lines: (!rank.absent).then_some(rank.lines),
        absent: rank.absent,
    }
}

impl JsonRank<'_> {
    /// Known ranks first, by rank.
    fn order(&self) -> impl Ord + use<'_> {
        (
            self.rank.is_none(),
            self.rank,
            first(self.ranks.as_deref()),
            self.host,
            self.pid,
            self.name,
        )
    }

    fn alike(&self) -> impl Ord + use<'_> {
        (
            self.absent,
            self.phase,
            self.collective,
            self.function,
            &self.comms,
        )
    }
}

/// The first rank of a list of ranges.
fn first(ranges: Option<&str>) -> Option<u32> {
    ranges?.split(['-', ',']).next()?.parse().ok()
}

/// Ranks that stand at the same place become one entry; writers without a rank stay single.
fn group(ranks: Vec<JsonRank<'_>>) -> Vec<JsonRank<'_>> {
    let (mut known, single): (Vec<_>, Vec<_>) = ranks.into_iter().partition(|r| r.rank.is_some());
    known.sort_by(|a, b| a.alike().cmp(&b.alike()).then(a.rank.cmp(&b.rank)));
    let mut out: Vec<JsonRank<'_>> = Vec::new();
    for members in known.chunk_by(|a, b| a.alike() == b.alike()) {
        let some = &members[0];
        let host = some
            .host
            .filter(|h| members.iter().all(|m| m.host == Some(h)));
        out.push(JsonRank {
            rank: None,
            ranks: Some(words::ranges(members.iter().filter_map(|m| m.rank))),
            name: None,
            host,
            pid: None,
            gpu: None,
            bus_id: None,
            gpu_state: None,
            process: None,
            phase: some.phase,
            collective: some.collective,
            function: some.function,
            comms: some.comms.clone(),
            last_line: None,
            lines: None,
            absent: some.absent,
        });
    }
    out.extend(single);
    out
}

fn comm<'a>(comm: &'a CommView, inputs: &'a InputsView, grouped: bool) -> JsonComm<'a> {
    let place = |m: &MemberView| (m.reached, m.last_call.clone(), m.complete, m.ended);
    let mut members: Vec<&MemberView> = comm.members.iter().filter(|m| m.rank.is_some()).collect();
    members.sort_by_key(|m| m.rank);
    let ranks = Ranks::of(members.iter().filter_map(|m| m.rank), grouped);
    if grouped {
        members.sort_by(|a, b| place(a).cmp(&place(b)).then(a.rank.cmp(&b.rank)));
    }
    let alike = |a: &&MemberView, b: &&MemberView| grouped && place(a) == place(b);
    let mut reached: Vec<JsonReached<'_>> = members
        .chunk_by(alike)
        .map(|members| JsonReached {
            rank: members[0].rank.filter(|_| !grouped),
            ranks: grouped.then(|| words::ranges(members.iter().filter_map(|m| m.rank))),
            ordinal: members[0].reached,
            last_call: members[0].last_call.as_deref().and_then(known),
            complete: members[0].complete,
            ended: members[0].ended,
            said: members[0]
                .said
                .iter()
                .filter(|_| !grouped)
                .map(|s| said(s, inputs))
                .collect(),
        })
        .collect();
    reached.sort_by_key(|r| (r.rank, first(r.ranks.as_deref())));
    JsonComm {
        id: known(&comm.id),
        nranks: comm.nranks,
        ranks,
        reached,
    }
}

fn said<'a>(said: &'a Said, inputs: &'a InputsView) -> JsonSaid<'a> {
    let source = inputs.source(said.source);
    JsonSaid {
        witness: said.witness.name(),
        source: source.map(|s| s.name.as_str()),
        ordinal: said.reached,
        call: said.call.as_deref(),
        progress: said.progress.as_deref(),
        at: said.at.as_deref(),
    }
}

fn values(values: &[ValuesView], grouped: bool) -> Vec<JsonValues<'_>> {
    let mut out: Vec<JsonValues<'_>> = values
        .iter()
        .map(|v| JsonValues {
            name: &v.name,
            values: v
                .values
                .iter()
                .map(|(value, ranks)| JsonValue {
                    value,
                    ranks: Ranks::of(ranks.iter().copied(), grouped),
                })
                .collect(),
        })
        .collect();
    out.sort_by(|a, b| a.name.cmp(b.name));
    for v in &mut out {
        v.values.sort_by(|a, b| a.value.cmp(b.value));
    }
    out
}

fn inputs(inputs: &InputsView) -> JsonInputs<'_> {
    JsonInputs {
        sources: sorted(inputs.sources.iter().map(source)),
        bytes: inputs.bytes,
        lines: inputs.lines,
        unparsed_lines: inputs.unparsed_lines,
        dropped: inputs.dropped,
    }
}

fn source(source: &SourceView) -> JsonSource<'_> {
    JsonSource {
        name: &source.name,
        kind: match source.kind {
            SourceKind::File => "file",
            SourceKind::Tail => "tail",
            SourceKind::Stdin => "stdin",
            SourceKind::Child => "child",
            SourceKind::Ras => "ras",
            SourceKind::Dump => "dump",
        },
        bytes: source.bytes,
        lines: source.lines,
        ended: source.ended.map(|why| match why {
            EndReason::Eof => "eof",
            EndReason::Closed => "closed",
            EndReason::ProcessGone => "process-gone",
            EndReason::Unreadable => "unreadable",
        }),
        problem: source.problem.as_deref(),
    }
}

fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn sorted<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort();
    items
}
