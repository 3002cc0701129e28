//! What the views see: plain data, cloned at most ten times a second, no borrow, no lock.

use super::finding::Finding;
use super::gpu::{Gpu, GpuSample};
use super::ids::SourceId;
use super::input::{EndReason, SourceKind, Time};
use super::job::ProcessSeen;
use super::vocab::{Class, Confidence, Phase, State};
use super::witness::Said;

/// Everything there is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The answer.
    pub verdict: Verdict,
    /// What it rests on: causes, then symptoms, then notes; the verdict's own cause first.
    pub findings: Vec<Finding>,
    /// The job as it was understood.
    pub job: JobView,
    /// What was read.
    pub inputs: InputsView,
    /// The time of the last input, if inputs have times.
    pub now: Option<Time>,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What the job does.
    pub state: State,
    /// Why.
    pub class: Class,
    /// One line.
    pub summary: String,
    /// How sure.
    pub confidence: Confidence,
    /// The guilty ranks only.
    pub ranks: Vec<u32>,
    /// The guilty hosts only.
    pub hosts: Vec<String>,
    /// Rule ids of independent further causes.
    pub other_causes: Vec<String>,
    /// What was not seen, each with the one variable or log that would show it.
    pub missing_evidence: Vec<String>,
    /// Index into [`Snapshot::findings`] of the finding it rests on.
    pub finding: Option<usize>,
}

/// The job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobView {
    /// Number of ranks, if known.
    pub world_size: Option<u32>,
    /// Hosts, sorted by name.
    pub hosts: Vec<HostView>,
    /// Ranks, sorted by rank; writers whose rank is unknown come last; absent ranks are listed too.
    pub ranks: Vec<RankView>,
    /// Communicators in the order they were first seen.
    pub comms: Vec<CommView>,
    /// Connects that failed, by address.
    pub connects: Vec<ConnectView>,
    /// Further addresses to which connects failed, which are not kept.
    pub more_connects: usize,
    /// Where RAS listens by the logs' words: (host, address as printed), sorted, each once.
    pub ras: Vec<(String, String)>,
    /// Versions by what they are of (`nccl`, `cuda-driver`, `torch`).
    pub versions: Vec<ValuesView>,
    /// `NCCL_*` and other variables that ranks said they use.
    pub env: Vec<ValuesView>,
    /// What the GPUs of hosts say of themselves, by host.
    pub gpus: Vec<GpusView>,
}

impl JobView {
    /// A rank of the world. They are sorted, and those whose rank is unknown come last.
    #[must_use]
    pub fn rank(&self, rank: u32) -> Option<&RankView> {
        let found = self
            .ranks
            .binary_search_by_key(&rank, |r| r.rank.unwrap_or(u32::MAX));
        self.ranks.get(found.ok()?)
    }

    /// The GPU of a rank, as it was seen last.
    #[must_use]
    pub fn gpu_of(&self, rank: &RankView) -> Option<&Gpu> {
        let (host, gpu) = rank.gpu_at?;
        self.gpus.get(host)?.sample.gpus.get(gpu)
    }
}

/// Connects to one address that failed for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectView {
    /// Who connects: `nccl`, or `c10d` for PyTorch's store.
    pub subsystem: &'static str,
    /// The ranks that tried.
    pub ranks: Vec<u32>,
    /// Hosts of others that tried, whose ranks are not known.
    pub hosts: Vec<String>,
    /// Where to, without port; `None` where NCCL does not print it (up to 2.26).
    pub address: Option<String>,
    /// The port, if it was always the same.
    pub port: Option<u16>,
    /// The operating system's words; empty if they were not printed.
    pub reason: String,
    /// How often it failed for the one for whom it failed most.
    pub most: u64,
    /// How often it failed for all.
    pub count: u64,
    /// Somebody gave up.
    pub gave_up: bool,
}

/// The GPUs of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpusView {
    /// The host as printed.
    pub host: String,
    /// The last sample.
    pub sample: GpuSample,
    /// When it was taken.
    pub seen: Option<Time>,
    /// Xid errors so far: index of the GPU, number, how often.
    pub xids: Vec<(u32, u64, u64)>,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostView {
    /// Name as printed, short form.
    pub name: String,
    /// Its ranks.
    pub ranks: Vec<u32>,
    /// What every subsystem chose: (subsystem, interface or "", address).
    pub addresses: Vec<AddressView>,
    /// True if its choice is unlike the other hosts'.
    pub odd: bool,
}

/// An address that a subsystem chose on a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressView {
    /// `bootstrap`, `net`, `oob`, `c10d`, `gloo`, `ray` (its node's address, in the prefixes of its lines).
    pub subsystem: String,
    /// Interface name, if printed.
    pub interface: Option<String>,
    /// Address, without port.
    pub address: String,
    /// Ranks of the host that chose it.
    pub ranks: Vec<u32>,
}

/// One rank, or one writer whose rank is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankView {
    /// World rank.
    pub rank: Option<u32>,
    /// What the launcher calls it, if anything.
    pub name: Option<String>,
    /// Host as printed.
    pub host: Option<String>,
    /// Process id.
    pub pid: Option<u32>,
    /// GPU: NVML index if known, else CUDA device.
    pub gpu: Option<u32>,
    /// Bus id as printed (hex).
    pub bus_id: Option<String>,
    /// Where the state of its GPU stands: index into [`JobView::gpus`], and of the GPU in there.
    pub gpu_at: Option<(usize, usize)>,
    /// What the operating system says of its process, if somebody looked.
    pub process: Option<ProcessSeen>,
    /// How far it has got.
    pub phase: Phase,
    /// For [`Phase::Collective`]: the ordinal of its last collective on its last communicator, from 1.
    pub collective: Option<u64>,
    /// Function of that collective.
    pub function: Option<String>,
    /// Communicators it belongs to: indices into [`JobView::comms`].
    pub comms: Vec<usize>,
    /// Its last line as text without prefixes, if kept. A view must escape it.
    pub last_line: Option<String>,
    /// Lines it wrote.
    pub lines: u64,
    /// When its last line was seen, if inputs have times.
    pub last_seen: Option<Time>,
    /// True if the verdict names it.
    pub guilty: bool,
    /// True if nothing of it was seen at all.
    pub absent: bool,
    /// The worst finding that is about it: index into [`Snapshot::findings`].
    pub finding: Option<usize>,
}

/// One communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommView {
    /// commId as printed, or a name made from its parent.
    pub id: String,
    /// How findings call it, and the process groups that dumps show of it.
    pub called: Vec<String>,
    /// Number of its ranks.
    pub nranks: u32,
    /// Its members that were seen, by rank in the communicator.
    pub members: Vec<MemberView>,
}

/// One rank of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Rank in the communicator.
    pub comm_rank: u32,
    /// World rank, if known.
    pub rank: Option<u32>,
    /// Init START was seen.
    pub started: bool,
    /// Init COMPLETE was seen.
    pub complete: bool,
    /// Destroyed or aborted.
    pub ended: bool,
    /// Collectives called so far; `None` where they are not logged (COLL is off by default).
    pub reached: Option<u64>,
    /// Its last collective in words (`AllReduce 1048576 float32 sum`).
    pub last_call: Option<String>,
    /// What witnesses beside the logs say of it.
    pub said: Vec<Said>,
}

/// One variable or version, and who says what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesView {
    /// Name.
    pub name: String,
    /// Value → ranks, sorted by value.
    pub values: Vec<(String, Vec<u32>)>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputsView {
    /// The sources, by id.
    pub sources: Vec<SourceView>,
    /// Bytes read.
    pub bytes: u64,
    /// Lines read.
    pub lines: u64,
    /// Lines no parser or rule said anything about.
    pub unparsed_lines: u64,
    /// Bytes and records dropped because of a bound.
    pub dropped: u64,
}

impl InputsView {
    /// A source by its id; ids have gaps.
    #[must_use]
    pub fn source(&self, id: SourceId) -> Option<&SourceView> {
        let at = self.sources.binary_search_by_key(&id, |source| source.id);
        self.sources.get(at.ok()?)
    }
}

/// One source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceView {
    /// Its id, as lines and evidence name it.
    pub id: SourceId,
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: SourceKind,
    /// Bytes read.
    pub bytes: u64,
    /// Lines read.
    pub lines: u64,
    /// How it ended, if it did.
    pub ended: Option<EndReason>,
    /// Why it could not be read.
    pub problem: Option<String>,
}
