//! Detectors: what comparing ranks shows. Each says what it saw and whom it points at; state, guilt
//! and the order of causes are decided in [`super::cause`] alone.

mod circle;
mod compare;
mod died;
mod draft;
mod facts;
mod gpu;
mod interface;
mod interface_hosts;
mod join;
mod kernel;
mod lines;
pub mod logs;
mod mismatch;
mod missing;
mod missing_calls;
mod p2p;
mod process;
mod pytorch;
mod ras;
mod rdma;
mod recorder;
mod reports;
mod said;
mod silent;
mod stack;
mod store;
mod undo;
mod undone;
mod variables;
pub mod wait;

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::Catalog;
use super::demux::Writer;
use super::finding::Finding;
use super::hits::Hits;
use super::input::{SourceInfo, Time};
use super::job::{CommRec, Job, Member, RankRec, Ranks, Record};
use super::vocab::{Effect, Role, Severity};
use super::witness::recorder::Recorded;

pub use draft::{Draft, ranges};
pub use reports::Reports;
pub use stack::Frameworks;

/// Everything a detector may look at.
pub struct Scene<'a> {
    /// The model.
    pub job: &'a Job,
    /// Ranks and communicators of the current attempt.
    pub ranks: &'a Ranks,
    /// What Flight Recorder dumps say.
    pub recorded: &'a Recorded<'a>,
    /// Writers and their hints.
    pub writers: &'a [Writer],
    /// Where the lines come from, by their id.
    pub sources: Vec<Option<&'a SourceInfo>>,
    /// Rules and thresholds.
    pub catalog: &'a Catalog,
    /// What line rules matched.
    pub hits: &'a Hits,
    /// The user says that the job stands still.
    pub claimed: bool,
    /// The time, while somebody watches.
    pub now: Option<Time>,
    /// Since when: what was seen later was written later.
    pub watched_since: Option<Time>,
    /// Some source has not ended.
    pub more_may_come: bool,
    /// What launchers reported; see [`Scene::indexed`].
    pub reports: Reports<'a>,
    /// What the job is made of; see [`Scene::indexed`].
    pub frameworks: Frameworks,
}

impl<'a> Scene<'a> {
    /// Looks up once what is asked for every rank.
    #[must_use]
    pub fn indexed(mut self) -> Self {
        self.reports = Reports::of(self.all_records().flat_map(|(_, r)| &r.reports));
        self.frameworks = Frameworks::of(&self);
        self
    }

    /// The records of a rank.
    pub fn records(&self, rank: &RankRec) -> impl Iterator<Item = &'a Record> + use<'a> {
        let job = self.job;
        let writers: Vec<_> = rank.writers.clone();
        writers.into_iter().map(move |w| &job.records[w.ix()])
    }

    /// Records of the current attempt with their world rank, if known, in an order that does not
    /// depend on arrival.
    pub fn all_records(&self) -> impl Iterator<Item = (Option<u32>, &'a Record)> + '_ {
        let (job, ranks) = (self.job, self.ranks);
        ranks
            .in_order
            .iter()
            .filter(|w| !ranks.stale[w.ix()])
            .map(|w| (ranks.of_writer[w.ix()], &job.records[w.ix()]))
    }

    /// The member that stands for this rank of the communicator.
    #[must_use]
    pub fn member(&self, comm: &CommRec, rank: u32) -> Option<&'a Member> {
        Some(&self.job.members[comm.members.get(&rank)?.ix()])
    }

    /// Hosts of the current attempt, as printed.
    #[must_use]
    pub fn hosts(&self) -> BTreeSet<&str> {
        let of_ranks = self.ranks.ranks.iter().filter_map(|r| r.host.as_deref());
        let of_others = self.ranks.others.iter();
        of_ranks
            .chain(of_others.filter_map(|w| self.job.records[w.ix()].host.as_deref()))
            .collect()
    }

    /// The host of a rank.
    #[must_use]
    pub fn host_of(&self, rank: u32) -> Option<&str> {
        self.ranks.ranks.get(rank as usize)?.host.as_deref()
    }

    /// The host that a writer's source belongs to, if all NCCL lines in it come from one.
    #[must_use]
    pub fn host_of_source(&self, writer: super::ids::WriterIx) -> Option<&'a str> {
        let source = self.job.records.get(writer.ix())?.source;
        let in_source = self.job.records.iter().filter(|r| r.source == source);
        let hosts: BTreeSet<&str> = in_source.filter_map(|r| r.host.as_deref()).collect();
        if hosts.len() == 1 {
            hosts.first().copied()
        } else {
            None
        }
    }

    /// Hosts all of whose ranks are in the set.
    #[must_use]
    pub fn whole_hosts(&self, ranks: &BTreeSet<u32>) -> BTreeSet<String> {
        let mut whole: BTreeMap<&str, bool> = BTreeMap::new();
        for rec in &self.ranks.ranks {
            if let Some(host) = rec.host.as_deref() {
                *whole.entry(host).or_insert(true) &= ranks.contains(&rec.rank);
            }
        }
        whole
            .into_iter()
            .filter(|(_, whole)| *whole)
            .map(|(host, _)| host.to_owned())
            .collect()
    }

    /// The value of a variable on a rank.
    #[must_use]
    pub fn env_of(&self, rank: u32, name: &str) -> Option<&'a str> {
        let rec = self.ranks.ranks.get(rank as usize)?;
        self.records(rec)
            .find_map(|r| r.env.get(name).map(|(value, _)| value.as_str()))
    }

    /// True if every communicator whose start was seen is complete on every rank that was seen.
    #[must_use]
    pub fn init_is_complete(&self) -> bool {
        let open = |comm: &CommRec| {
            comm.members
                .values()
                .any(|m| self.is_open(&self.job.members[m.ix()]))
        };
        !self.ranks.comms.is_empty() && !self.ranks.comms.iter().any(open)
    }

    /// In init: started, neither complete nor over.
    #[must_use]
    pub fn is_open(&self, member: &Member) -> bool {
        member.known_start && !member.complete && !member.is_over()
    }

    /// The line in each source at which a rank gave up waiting: (source, line number).
    #[must_use]
    pub fn gave_up(&self, rank: &RankRec) -> Vec<(super::ids::SourceId, u64)> {
        self.records(rank)
            .filter_map(|r| Some((r.source, r.gave_up_at()?)))
            .collect()
    }

    /// The process that a launcher's report gives for a rank.
    #[must_use]
    pub fn reported_pid(&self, rank: u32) -> Option<u32> {
        self.reports.of_rank(rank)?.pid
    }
}

/// Runs every rule and detector. The order of the result is fixed by the rules' ids.
#[must_use]
pub fn run(scene: &Scene<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    lines::detect(scene, &mut found);
    interface::detect(scene, &mut found);
    mismatch::detect(scene, &mut found);
    missing::detect(scene, &mut found);
    store::detect(scene, &mut found);
    died::detect(scene, &mut found);
    p2p::detect(scene, &mut found);
    pytorch::detect(scene, &mut found);
    ras::detect(scene, &mut found);
    process::detect(scene, &mut found);
    gpu::detect(scene, &mut found);
    compare::detect(scene, &mut found);
    silent::detect(scene, &mut found);
    logs::detect(scene, &mut found);
    let explained = found.iter().any(|f| {
        f.role == Role::Cause && f.severity == Severity::Error && f.effect != Effect::None
    });
    let dumps = recorder::detect(scene, explained);
    join::join(scene, &mut found, dumps);
    found.extend(ras::blind(scene, &found));
    variables::detect(scene, &mut found);
    compare::disambiguate(scene, &mut found);
    found.sort_by(|a, b| (&a.id, &a.comm, &a.accused).cmp(&(&b.id, &b.comm, &b.accused)));
    found
}
