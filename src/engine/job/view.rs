//! The job as the views see it.

use std::collections::{BTreeMap, BTreeSet};

use super::comm::{CommKey, Member};
use super::rankmap::{CommRec, RankRec, Ranks};
use super::{HostGpus, Job, LinkPast, ProcessSeen, Record};
use crate::engine::demux::{Hint, Writer};
use crate::engine::snapshot::{
    AddressView, CommView, GpusView, HostView, JobView, MemberView, RankView, ValuesView,
};
use crate::engine::vocab::Phase;
use crate::engine::witness::recorder::{self, Recorded};

/// Ranks by what they chose: subsystem, interface, address.
type Choices = BTreeMap<(String, Option<String>, String), BTreeSet<u32>>;

impl Job {
    /// The plain data that views show.
    #[must_use]
    pub fn view(&self, ranks: &Ranks, writers: &[Writer], recorded: &Recorded<'_>) -> JobView {
        let comms_of = self.comms_by_writer(ranks);
        let mut rows: Vec<RankView> = ranks
            .ranks
            .iter()
            .map(|rec| self.rank_view(rec, &comms_of, writers))
            .collect();
        rows.extend(
            ranks
                .others
                .iter()
                .map(|writer| self.writer_view(writer.ix(), writers)),
        );
        let (connects, more_connects) = self.connect_views(ranks);
        let mut view = JobView {
            world_size: ranks.world,
            hosts: self.host_views(ranks, writers),
            ranks: rows,
            comms: ranks
                .comms
                .iter()
                .map(|c| self.comm_view(ranks, c))
                .collect(),
            connects,
            more_connects,
            ras: self.ras_listeners(ranks),
            versions: self.versions(ranks),
            env: self.env(ranks),
            gpus: self.gpu_views(ranks),
        };
        recorder::view::add(&self.recorder, recorded, &mut view);
        view
    }

    /// The communicators that each writer stands in, in their order.
    fn comms_by_writer(&self, ranks: &Ranks) -> Vec<Vec<usize>> {
        let mut comms_of = vec![Vec::new(); self.records.len()];
        for (at, comm) in ranks.comms.iter().enumerate() {
            for member in comm.members.values() {
                comms_of[self.members[member.ix()].writer.ix()].push(at);
            }
        }
        comms_of
    }

    fn rank_view(&self, rec: &RankRec, comms_of: &[Vec<usize>], writers: &[Writer]) -> RankView {
        let records: Vec<&Record> = rec.writers.iter().map(|w| &self.records[w.ix()]).collect();
        let last = records
            .iter()
            .filter_map(|r| r.last.as_ref())
            .max_by_key(|last| last.place);
        let active = records
            .iter()
            .find_map(|r| r.active)
            .map(|m| &self.members[m.ix()]);
        let name = rec
            .writers
            .iter()
            .find_map(|w| writers[w.ix()].name().map(str::to_owned));
        let comms: BTreeSet<usize> = rec
            .writers
            .iter()
            .flat_map(|w| comms_of[w.ix()].iter().copied())
            .collect();
        RankView {
            rank: Some(rec.rank),
            name,
            host: rec.host.clone(),
            pid: rec.pid,
            gpu: active.filter(|m| m.known_start).map(gpu),
            bus_id: active.and_then(|m| m.bus_id).map(|id| format!("{id:x}")),
            gpu_at: self.gpu_at(rec),
            process: self.process(rec.host.as_deref(), rec.pid),
            phase: self.phase(&records),
            collective: active.filter(|m| m.reached > 0).map(|m| m.reached),
            function: active
                .and_then(|m| m.last_call)
                .map(|c| c.func.name().to_owned()),
            comms: comms.into_iter().collect(),
            last_line: last.map(super::Kept::text),
            lines: rec.lines,
            last_seen: records.iter().filter_map(|r| r.last_seen).max(),
            guilty: false,
            absent: !rec.was_seen(),
            finding: None,
        }
    }

    fn writer_view(&self, ix: usize, writers: &[Writer]) -> RankView {
        let record = &self.records[ix];
        let hinted = writers[ix].hints.iter().find_map(|h| {
            if let Hint::Pid(pid) = h {
                Some(*pid)
            } else {
                None
            }
        });
        RankView {
            rank: None,
            name: writers[ix].name().map(str::to_owned),
            host: record.host.clone(),
            pid: record.pid.or(hinted),
            gpu: None,
            bus_id: None,
            gpu_at: None,
            process: self.process(record.host.as_deref(), record.pid),
            phase: self.phase(&[record]),
            collective: None,
            function: None,
            comms: Vec::new(),
            last_line: record.last.as_ref().map(super::Kept::text),
            lines: record.lines,
            last_seen: record.last_seen,
            guilty: false,
            absent: false,
            finding: None,
        }
    }

    /// The last samples, with what only the job and earlier samples know.
    fn gpu_views(&self, ranks: &Ranks) -> Vec<GpusView> {
        if self.gpus.hosts.is_empty() {
            return Vec::new();
        }
        let pids = ranks.ranks.iter().filter_map(|rec| {
            let whose = (rec.host.as_deref()?, rec.pid?);
            Some((whose, rec.rank))
        });
        let pids: BTreeMap<(&str, u32), u32> = pids.collect();
        let view = |(host, gpus): (&String, &HostGpus)| {
            let mut sample = gpus.last.clone();
            for gpu in &mut sample.gpus {
                for process in gpu.processes.iter_mut().flatten() {
                    process.rank = pids.get(&(host.as_str(), process.pid)).copied();
                }
                let past = gpus.past.get(&gpu.index);
                for link in gpu.links.iter_mut().flatten() {
                    let known = past.and_then(|past| past.links.get(&link.link));
                    link.new_errors = known.and_then(LinkPast::new_errors);
                }
            }
            GpusView {
                host: host.clone(),
                sample,
                seen: gpus.seen,
                xids: gpus.xids.iter().map(|x| (x.gpu, x.xid, x.count)).collect(),
            }
        };
        self.gpus.hosts.iter().map(view).collect()
    }

    /// Where the GPU of a rank stands in the view.
    fn gpu_at(&self, rec: &RankRec) -> Option<(usize, usize)> {
        let (gpus, gpu) = self.gpu_of(rec)?;
        let host = rec.host.as_deref()?;
        let at = self.gpus.hosts.keys().position(|known| known == host)?;
        let index = gpus.last.gpus.iter().position(|g| g.index == gpu.index)?;
        Some((at, index))
    }

    fn process(&self, host: Option<&str>, pid: Option<u32>) -> Option<ProcessSeen> {
        self.processes.get(host?, pid?).copied()
    }

    /// How far the records of one rank got, ends included.
    fn phase(&self, records: &[&Record]) -> Phase {
        let reached = records
            .iter()
            .map(|r| r.phase)
            .max()
            .unwrap_or(Phase::Silent);
        let ended = records
            .iter()
            .any(|r| !r.members.is_empty() && r.members.iter().all(|m| self.members[m.ix()].ended));
        let failed = records.iter().any(|r| {
            r.abort.is_some()
                || r.exceptions
                    .last()
                    .is_some_and(|e| e.line.place.number > r.progress)
        });
        let silent = records.iter().all(|r| r.lines == 0);
        match (silent, failed, ended) {
            (true, ..) => Phase::Silent,
            (_, true, _) => Phase::Failed,
            (_, _, true) => Phase::Finished,
            _ => reached,
        }
    }

    fn host_views(&self, ranks: &Ranks, writers: &[Writer]) -> Vec<HostView> {
        let mut hosts: BTreeMap<&str, Choices> = BTreeMap::new();
        let mut members: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for rec in &ranks.ranks {
            let Some(host) = rec.host.as_deref() else {
                continue;
            };
            members.entry(host).or_default().push(rec.rank);
            let addresses = hosts.entry(host).or_default();
            for writer in &rec.writers {
                for seen in &self.records[writer.ix()].addresses {
                    let interface = (!seen.interface.is_empty()).then(|| seen.interface.clone());
                    let key = (
                        seen.subsystem.name().to_owned(),
                        interface,
                        seen.address.clone(),
                    );
                    addresses.entry(key).or_default().insert(rec.rank);
                }
                for hint in &writers[writer.ix()].hints {
                    if let Hint::Address(address) = hint {
                        let key = ("ray".to_owned(), None, address.clone());
                        addresses.entry(key).or_default().insert(rec.rank);
                    }
                }
            }
        }
        hosts
            .into_iter()
            .map(|(name, addresses)| HostView {
                name: name.to_owned(),
                ranks: members.remove(name).unwrap_or_default(),
                addresses: addresses
                    .into_iter()
                    .map(|((subsystem, interface, address), ranks)| AddressView {
                        subsystem,
                        interface,
                        address,
                        ranks: ranks.into_iter().collect(),
                    })
                    .collect(),
                odd: false,
            })
            .collect()
    }

    fn comm_view(&self, ranks: &Ranks, rec: &CommRec) -> CommView {
        let comm = &self.comms[rec.ix.ix()];
        let id = match comm.key {
            CommKey::Id { id, .. } => format!("{id:#x}"),
            CommKey::Split {
                parent,
                child,
                color,
            } => format!("split-{}-{child}-{color}", parent.0),
            CommKey::Sized { nranks, nth } => format!("size-{nranks}-{nth}"),
            CommKey::Alone { pointer, .. } => format!("at-{pointer:#x}"),
        };
        let members = rec.members.iter().map(|(comm_rank, m)| {
            let member = &self.members[m.ix()];
            MemberView {
                comm_rank: *comm_rank,
                rank: ranks.rank_of(member.writer),
                started: member.known_start,
                complete: member.complete,
                ended: member.is_over(),
                reached: member.called().then_some(member.reached),
                last_call: member.last_call.map(|call| call.words()),
                said: Vec::new(),
            }
        });
        CommView {
            id,
            called: vec![comm.key.name()],
            nranks: rec.nranks,
            members: members.collect(),
        }
    }

    fn ras_listeners(&self, ranks: &Ranks) -> Vec<(String, String)> {
        let current = ranks.in_order.iter().filter(|w| !ranks.stale[w.ix()]);
        let listening = current.filter_map(|w| {
            let record = &self.records[w.ix()];
            Some((record.host.clone()?, record.ras_address.clone()?))
        });
        listening.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn versions(&self, ranks: &Ranks) -> Vec<ValuesView> {
        let nccl = |r: &Record| r.nccl.as_ref().map(|(version, _)| version.clone());
        let driver = |r: &Record| r.cuda_driver.clone();
        let mut all = vec![
            self.values(ranks, "cuda-driver", &driver),
            self.values(ranks, "nccl", &nccl),
        ];
        all.retain(|v| !v.values.is_empty());
        all
    }

    fn env(&self, ranks: &Ranks) -> Vec<ValuesView> {
        let names: BTreeSet<&String> = self.records.iter().flat_map(|r| r.env.keys()).collect();
        names
            .into_iter()
            .map(|name| {
                self.values(ranks, name, &|r| {
                    r.env.get(name).map(|(value, _)| value.clone())
                })
            })
            .filter(|v| !v.values.is_empty())
            .collect()
    }

    fn values(
        &self,
        ranks: &Ranks,
        name: &str,
        of: &dyn Fn(&Record) -> Option<String>,
    ) -> ValuesView {
        let mut values: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for rec in &ranks.ranks {
            for writer in &rec.writers {
                if let Some(value) = of(&self.records[writer.ix()]) {
                    values.entry(value).or_default().insert(rec.rank);
                }
            }
        }
        for writer in &ranks.others {
            if let Some(value) = of(&self.records[writer.ix()]) {
                values.entry(value).or_default();
            }
        }
        let values = values
            .into_iter()
            .map(|(value, ranks)| (value, ranks.into_iter().collect()));
        ValuesView {
            name: name.to_owned(),
            values: values.collect(),
        }
    }
}

/// The physical index where it is printed, else the CUDA device.
fn gpu(member: &Member) -> u32 {
    member
        .nvml_dev
        .and_then(|dev| u32::try_from(dev).ok())
        .unwrap_or(member.cuda_dev)
}
