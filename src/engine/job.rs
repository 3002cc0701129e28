//! The job model: what every writer's lines add up to. Nothing here judges.

mod comm;
mod connects;
mod gpus;
mod kept;
mod processes;
mod rankmap;
mod ras;
mod record;
mod stack;
mod traceback;
mod view;

use rustc_hash::FxHashMap;

use comm::NO_ORDINAL;
pub use comm::{Call, Comm, CommKey, Member, MemberIx};
pub use gpus::{Gpus, HostGpus, LinkPast, Past, XidSeen};
pub use kept::Kept;
pub use processes::{ProcessSeen, Processes};
pub use rankmap::{CommRec, RankRec, Ranks, world_size};
pub use ras::{Answer, Answers, Heard};
pub use record::{
    AddressSeen, ConnectFailure, Death, ExceptionSeen, ExitReport, Link, PeerClosed, Record,
    StoreJoined, WatchdogSeen,
};
pub use stack::Stack;

use super::demux::Writer;
use super::event::{CommInit, Event};
use super::ids::{CommIx, SourceId, WriterIx};
use super::input::Time;
use super::limits;
use super::line::{Head, Line};
use super::vocab::{LineClass, Phase};
use super::witness::recorder::Recorder;

/// Everything the lines said so far.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// By [`WriterIx`].
    pub records: Vec<Record>,
    /// By [`CommIx`].
    pub comms: Vec<Comm>,
    /// By [`MemberIx`].
    pub members: Vec<Member>,
    /// Distinct calls, by the id that a communicator's reference sequence holds.
    pub calls: Vec<Call>,
    /// What Flight Recorder dumps say.
    pub recorder: Recorder,
    /// What the operating system says of processes.
    pub processes: Processes,
    /// What NCCL RAS answered.
    pub ras: Answers,
    /// What the GPUs said of themselves.
    pub gpus: Gpus,
    call_ids: FxHashMap<Call, u32>,
    comm_ids: FxHashMap<CommKey, CommIx>,
    names: stack::Names,
    touched_writers: Vec<WriterIx>,
    touched_members: Vec<MemberIx>,
    feed: u32,
}

impl Job {
    /// Starts taking lines of a new chunk: see [`Job::end_chunk`].
    pub fn begin_chunk(&mut self) {
        self.feed = self.feed.wrapping_add(1).max(1);
        self.touched_writers.clear();
        self.touched_members.clear();
    }

    /// Copies the text of lines that are kept only if they turn out to be a writer's or member's
    /// last ones, out of the chunk they came in. `offset` is where the chunk starts in its source.
    pub fn end_chunk(&mut self, offset: u64, chunk: &[u8]) {
        for writer in &self.touched_writers {
            let record = &mut self.records[writer.ix()];
            for kept in record.last_lines_mut() {
                kept.fill(offset, chunk);
            }
        }
        for member in &self.touched_members {
            for kept in self.members[member.ix()].recent.lines_mut() {
                kept.fill(offset, chunk);
            }
        }
    }

    /// Makes sure that every writer has a record.
    pub fn know(&mut self, writers: &[Writer]) {
        while self.records.len() < writers.len() {
            let source = writers[self.records.len()].source;
            self.records.push(Record::new(source));
        }
    }

    /// The source was cut or replaced: what was counted by place no longer holds.
    pub fn gap(&mut self, source: SourceId) {
        for record in self.records.iter().filter(|r| r.source == source) {
            for member in &record.members {
                self.members[member.ix()].gap = true;
            }
        }
    }

    /// Part of a line is gone. If it was a call, its writer has made one more than was counted; where the
    /// header is gone too, that is known only of a source with one process.
    fn torn(&mut self, line: &Line<'_>) {
        let source = self.records[line.writer.ix()].source;
        if matches!(line.head, Head::Nccl(_)) {
            let record = &mut self.records[line.writer.ix()];
            record.torn = true;
            for member in &record.members {
                self.members[member.ix()].gap = true;
            }
            return;
        }
        let processes = |r: &&Record| r.source == source && r.pid.is_some();
        if self.records.iter().filter(processes).count() == 1 {
            self.gap(source);
            let of_it = self.records.iter_mut().filter(|r| r.source == source);
            of_it.for_each(|record| record.torn = true);
        }
    }

    /// The GPU of a rank, and its host: by the bus id that it printed, else by its process.
    #[must_use]
    pub fn gpu_of(&self, rec: &RankRec) -> Option<(&HostGpus, &super::gpu::Gpu)> {
        let gpus = self.gpus.hosts.get(rec.host.as_deref()?)?;
        let records = rec.writers.iter().map(|w| &self.records[w.ix()]);
        let member = records
            .filter_map(|r| r.active)
            .map(|m| &self.members[m.ix()]);
        let mut member = member.filter(|m| m.known_start);
        let gpu = match member.next() {
            Some(member) => {
                let by_bus = member.bus_id.and_then(|id| gpus.by_bus_id(id));
                by_bus.or_else(|| gpus.unnamed(member.nvml_dev?))
            }
            None => gpus.by_pid(rec.pid?),
        };
        let gpu = gpu?;
        Some((gpus, gpu))
    }

    /// Takes one line and what it says. `borrowed` is true if the line lies in the current chunk,
    /// so that its text can be copied later.
    pub fn take(
        &mut self,
        line: &Line<'_>,
        event: Option<&Event<'_>>,
        seen: Option<Time>,
        borrowed: bool,
    ) {
        if line.torn {
            self.torn(line);
        }
        let ix = line.writer.ix();
        let record = &mut self.records[ix];
        record.lines += 1;
        record.of_a_job |= !matches!(line.class, LineClass::App | LineClass::Traceback);
        record.last_seen = seen.or(record.last_seen);
        record.stack.see(line, &self.names);
        record.set_last(line, stack::is_own_work(line, event), borrowed);
        record.tail = [record.tail[1], record.tail[2], line.place.number];
        if record.touched != self.feed {
            record.touched = self.feed;
            self.touched_writers.push(line.writer);
        }
        if let Head::Nccl(head) = line.head {
            if record.pid != Some(head.pid) {
                record.head(&head);
            }
            record.advance(Phase::Bootstrap);
        }
        if let Head::C10d(head) = line.head
            && head.rank.is_some()
        {
            record.advance(Phase::Rendezvous);
        }
        let Some(event) = event else {
            record.plain(line);
            return;
        };
        match event {
            Event::Coll(coll) => self.coll(line, coll, borrowed),
            Event::TornCall => self.torn(line),
            Event::CommInit(init) => self.comm_init(line, init),
            Event::CommNodes {
                comm,
                nodes,
                local_ranks,
            } => {
                if let Some(member) = self.member_at(line.writer, *comm) {
                    self.members[member.ix()].nodes = Some((*nodes, *local_ranks));
                }
            }
            Event::CommEnd {
                comm,
                abort,
                complete,
            } => {
                if let Some(member) = self.member_at(line.writer, *comm) {
                    let member = &mut self.members[member.ix()];
                    member.aborted |= *abort;
                    member.ended |= *complete && !*abort;
                }
                if !*abort {
                    self.records[ix].got_on(line);
                }
            }
            Event::Channel {
                from,
                to,
                transport,
            } => {
                let record = &mut self.records[ix];
                record.advance(Phase::Connect);
                if let Some(member) = record.active {
                    self.members[member.ix()].link(*from, *to, *transport, line);
                }
            }
            Event::Connected => {
                if let Some(member) = self.records[ix].active {
                    self.members[member.ix()].connected = true;
                }
            }
            Event::AllDirectP2p(all) => {
                if let Some(member) = self.records[ix].active {
                    let member = &mut self.members[member.ix()];
                    if member.all_direct.is_none() {
                        member.all_direct = Some((*all, Kept::now(line)));
                    }
                }
            }
            Event::BootstrapDone => {
                if let Some(member) = self.records[ix].active {
                    self.members[member.ix()].bootstrapped = true;
                }
            }
            other => self.records[ix].take(line, other),
        }
    }

    fn member_at(&self, writer: WriterIx, pointer: u64) -> Option<MemberIx> {
        self.records[writer.ix()].at_pointer(pointer)
    }

    /// START or COMPLETE: finds or makes the communicator and this writer's place in it.
    fn comm_init(&mut self, line: &Line<'_>, init: &CommInit) {
        let writer = line.writer;
        if init.nranks > limits::RANKS {
            return;
        }
        let record = &self.records[writer.ix()];
        let open = record.at_pointer(init.comm).filter(|member| {
            let member = &self.members[member.ix()];
            !member.complete && !member.is_over() && member.rank == init.rank && member.known_start
        });
        let ix = match open {
            Some(open) if init.complete => open,
            _ => {
                if record.members.len() >= limits::COMMS_PER_WRITER {
                    return;
                }
                let key = self.comm_key(writer, init);
                let comm = self.comm(key, init.nranks);
                self.join(writer, comm, init)
            }
        };
        let member = &mut self.members[ix.ix()];
        if init.complete {
            member.complete = true;
            member.complete_line.get_or_insert_with(|| Kept::now(line));
        } else {
            member.start_line.get_or_insert_with(|| Kept::now(line));
        }
        let phase = if init.complete {
            Phase::Ready
        } else {
            Phase::Bootstrap
        };
        let record = &mut self.records[writer.ix()];
        record.active = Some(ix);
        record.goes_on(line);
        record.advance(phase);
    }

    /// What identifies the communicator across ranks: its commId, or for split children of
    /// 2.23–2.30 their parent, which child of it, and the colour; before 2.16 only which
    /// communicator of that size it is.
    fn comm_key(&self, writer: WriterIx, init: &CommInit) -> CommKey {
        let record = &self.records[writer.ix()];
        let nth = |matches: &dyn Fn(&CommKey) -> bool| {
            let count = record
                .members
                .iter()
                .filter(|m| matches(&self.comms[self.members[m.ix()].comm.ix()].key))
                .count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        if let Some(id) = init.comm_id {
            let nth = nth(&|key| matches!(key, CommKey::Id { id: other, .. } if *other == id));
            return CommKey::Id { id, nth };
        }
        if let Some((parent, child, color)) = init.parent
            && let Some(parent) = record.at_pointer(parent)
        {
            let parent = self.members[parent.ix()].comm;
            let child = child.unwrap_or_else(|| {
                nth(&|key| matches!(key, CommKey::Split { parent: p, color: c, .. } if *p == parent && *c == color))
            });
            return CommKey::Split {
                parent,
                child,
                color,
            };
        }
        if init.parent.is_some() {
            return CommKey::Alone {
                writer,
                pointer: init.comm,
                nth: nth(&|_| true),
            };
        }
        let nranks = init.nranks;
        let nth = nth(&|key| matches!(key, CommKey::Sized { nranks: n, .. } if *n == nranks));
        CommKey::Sized { nranks, nth }
    }

    fn comm(&mut self, key: CommKey, nranks: u32) -> CommIx {
        if let Some(ix) = self.comm_ids.get(&key) {
            // Ranks that disagree on the size do not decide it by who comes first.
            let known = &mut self.comms[ix.ix()];
            known.sizes.insert(nranks);
            known.nranks = known.nranks.max(nranks);
            return *ix;
        }
        let ix = CommIx::from_ix(self.comms.len());
        self.comms.push(Comm::new(key, nranks));
        self.comm_ids.insert(key, ix);
        ix
    }

    fn join(&mut self, writer: WriterIx, comm: CommIx, init: &CommInit) -> MemberIx {
        let ix = MemberIx::from_ix(self.members.len());
        self.members.push(Member::new(comm, writer, init));
        self.comms[comm.ix()].members.push(ix);
        self.records[writer.ix()].bind(init.comm, ix);
        ix
    }

    /// A call: counts it on its communicator and compares it with what the others called there.
    fn coll(&mut self, line: &Line<'_>, coll: &super::event::Coll, borrowed: bool) {
        let writer = line.writer;
        let ix = match self.member_at(writer, coll.comm) {
            Some(ix) => ix,
            None => {
                let record = &self.records[writer.ix()];
                if record.members.len() >= limits::COMMS_PER_WRITER {
                    return;
                }
                let nth = u32::try_from(record.members.len()).unwrap_or(u32::MAX);
                let key = CommKey::Alone {
                    writer,
                    pointer: coll.comm,
                    nth,
                };
                let comm = self.comm(key, coll.nranks.unwrap_or(0));
                let ix = MemberIx::from_ix(self.members.len());
                self.members.push(Member::unknown_start(comm, writer));
                self.comms[comm.ix()].members.push(ix);
                self.records[writer.ix()].bind(coll.comm, ix);
                ix
            }
        };
        let record = &mut self.records[writer.ix()];
        record.active = Some(ix);
        record.goes_on(line);
        record.phase = Phase::Collective;
        let member = &mut self.members[ix.ix()];
        if member.touched != self.feed {
            member.touched = self.feed;
            self.touched_members.push(ix);
        }
        member.counted(coll.op_count);
        let kept = Kept::deferred(line, borrowed);
        if coll.func.is_p2p() {
            member.recent.push(NO_ORDINAL, kept);
            member.peer_call(coll.func, coll.root);
            member.last_call = Some(Call::of(coll));
            return;
        }
        let call = Call::of(coll);
        let ordinal = member.reached as usize;
        member.recent.push(member.reached, kept);
        member.reached += 1;
        member.last_call = Some(call);
        let comm = &mut self.comms[member.comm.ix()];
        if ordinal < comm.reference.len() {
            let reference = comm.reference[ordinal];
            if self.calls[reference as usize] != call {
                let id = call_id(&mut self.calls, &mut self.call_ids, call);
                member.deviate(ordinal as u64, id, line);
            }
        } else {
            // Only the first rank to come here pays for a hash.
            let id = match comm.reference.last() {
                Some(last) if self.calls[*last as usize] == call => *last,
                _ => call_id(&mut self.calls, &mut self.call_ids, call),
            };
            comm.reference.push(id);
        }
    }

    /// False for lines that no rule has to look at: the model took all that they say.
    #[must_use]
    pub fn wants_rules(class: LineClass, event: Option<&Event<'_>>) -> bool {
        match event {
            Some(
                Event::Coll(_)
                | Event::Channel { .. }
                | Event::Topology
                | Event::Connected
                | Event::CommInit(_)
                | Event::CommNodes { .. },
            ) => false,
            Some(Event::Known) => class != LineClass::NcclInfo,
            _ => true,
        }
    }
}

fn call_id(calls: &mut Vec<Call>, ids: &mut FxHashMap<Call, u32>, call: Call) -> u32 {
    *ids.entry(call).or_insert_with(|| {
        calls.push(call);
        u32::try_from(calls.len() - 1).expect("fewer than 2^32 distinct calls")
    })
}
