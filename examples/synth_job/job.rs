//! What every rank of a synthetic job prints, line by line, from the real formats.
//!
//! Ranks call the same collectives in the same order, by the seed; a fault changes what one rank or
//! host does and what the others then print.

use std::io::Write as _;

use super::calls::{Call, Group, calls_of_step};
use super::nccl::Nccl;
use super::prng::Prng;

/// What a job looks like.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// Ranks in the world.
    pub(crate) ranks: u32,
    /// Bytes that each rank writes, roughly.
    pub(crate) bytes_per_rank: u64,
    /// Decides ids, pointers and collectives.
    pub(crate) seed: u64,
    /// The planted fault.
    pub(crate) fault: Fault,
    /// Ranks on one host.
    pub(crate) ranks_per_host: u32,
    /// Whose lines are imitated.
    pub(crate) nccl: Nccl,
}

/// The planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None: every rank finishes.
    None,
    /// The rank misses one collective; the others wait in it.
    Skip(u32),
    /// The rank calls one collective with another count; all wait in it.
    Count(u32),
    /// The host's ranks bootstrap on an interface the others cannot reach.
    Iface(u32),
    /// The rank's log ends; the others wait and see connections closed.
    Die(u32),
}

/// A job whose ranks can be written.
#[derive(Debug)]
pub(crate) struct Job {
    /// What it looks like.
    pub(crate) spec: Spec,
    world_id: u64,
    steps: u64,
}

impl Job {
    /// Plans a job: finds the number of steps that gives the asked size.
    pub(crate) fn new(spec: Spec) -> Self {
        let world_id = Prng::new(spec.seed ^ 0x0c0_1337).next() | 1 << 63;
        let mut job = Self {
            spec,
            world_id,
            steps: u64::MAX,
        };
        let mut probe = RankLog::new(&job, 0);
        let (mut text, mut bytes, mut steps) = (Vec::new(), 0, 0);
        while bytes < job.spec.bytes_per_rank || steps < 2 {
            text.clear();
            match probe.fill(&mut text) {
                Wrote::Init => {}
                Wrote::Step => steps += 1,
                // Stuck in its bootstrap: there are no steps.
                Wrote::Last | Wrote::Nothing => break,
            }
            bytes += text.len() as u64;
        }
        job.steps = steps;
        job
    }

    fn hosts(&self) -> u32 {
        self.spec.ranks.div_ceil(self.spec.ranks_per_host)
    }

    fn host_of(&self, rank: u32) -> u32 {
        rank / self.spec.ranks_per_host
    }

    fn ranks_on(&self, host: u32) -> u32 {
        let first = host * self.spec.ranks_per_host;
        self.spec.ranks_per_host.min(self.spec.ranks - first)
    }

    /// Whether ranks of one host have a communicator of their own.
    fn has_host_group(&self) -> bool {
        self.hosts() > 1 && self.spec.ranks_per_host > 1
    }

    /// Interface and address that a host's ranks choose.
    fn address(&self, host: u32) -> (&'static str, String) {
        if self.spec.fault == Fault::Iface(host) {
            return ("mgmt0", format!("192.168.{}.5", 10 + host % 240));
        }
        ("data0", format!("10.20.{}.{}", host / 250, 1 + host % 250))
    }
}

/// What a call of [`RankLog::fill`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// The lines up to the first collective.
    Init,
    /// One step's collectives.
    Step,
    /// The step in which the fault shows, or the end of a healthy rank.
    Last,
    /// Nothing: the log had ended.
    Nothing,
}

/// The log of one rank, written piece by piece.
#[derive(Debug)]
pub(crate) struct RankLog<'j> {
    job: &'j Job,
    rank: u32,
    /// `node-3:3348:3348 [0] NCCL INFO `.
    head: Vec<u8>,
    /// The same for the proxy's thread.
    proxy_head: Vec<u8>,
    /// World communicator and the host's own.
    comms: [u64; 2],
    op_counts: [u64; 2],
    buffers: u64,
    step: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Init,
    Steps,
    Ended,
}

/// Appends one line.
macro_rules! line {
    ($out:expr, $($arg:tt)+) => {
        writeln!($out, $($arg)+).expect("a Vec takes every byte")
    };
}

impl<'j> RankLog<'j> {
    /// The log of a rank.
    pub(crate) fn new(job: &'j Job, rank: u32) -> Self {
        let mut random = Prng::new(job.spec.seed ^ u64::from(rank) << 20);
        let (host, dev) = (job.host_of(rank), rank % job.spec.ranks_per_host);
        let pid = 800 + (random.next() % 60_000) as u32 * 8 + dev;
        let head = |tid: u32| format!("node-{host}:{pid}:{tid} [{dev}] NCCL INFO ").into_bytes();
        Self {
            job,
            rank,
            head: head(pid),
            proxy_head: head(pid + 97),
            comms: [
                0x1000_0000 + (random.next() & 0x2fff_fff0),
                0x5000_0000 + (random.next() & 0x2fff_fff0),
            ],
            op_counts: [0; 2],
            buffers: 0x7f00_0000_0000 + (random.next() & 0xff_ffe0_0000),
            step: 0,
            stage: Stage::Init,
        }
    }

    /// Appends the next lines to `out`.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>) -> Wrote {
        match self.stage {
            Stage::Init => {
                self.stage = Stage::Steps;
                self.init(out);
                if matches!(self.job.spec.fault, Fault::Iface(_)) {
                    self.stage = Stage::Ended;
                    self.retries(out);
                    return Wrote::Last;
                }
                Wrote::Init
            }
            Stage::Steps => {
                self.step += 1;
                let is_last = self.step >= self.job.steps;
                if is_last {
                    self.stage = Stage::Ended;
                }
                self.one_step(out, is_last);
                if is_last { Wrote::Last } else { Wrote::Step }
            }
            Stage::Ended => Wrote::Nothing,
        }
    }

    fn info(&self, out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
        out.extend_from_slice(&self.head);
        line!(out, "{text}");
    }

    fn init(&mut self, out: &mut Vec<u8>) {
        let (nccl, host) = (self.job.spec.nccl, self.job.host_of(self.rank));
        let (interface, address) = self.job.address(host);
        line!(out, "rank {} of {} starts", self.rank, self.job.spec.ranks);
        self.info(
            out,
            format_args!("NCCL_SOCKET_IFNAME set by environment to {interface}"),
        );
        self.info(
            out,
            format_args!("{} {interface}:{address}<0>", nccl.bootstrap()),
        );
        self.info(out, format_args!("cudaDriverVersion 13000"));
        if !nccl.is_old() {
            self.info(out, format_args!("NCCL version {}", nccl.line()));
        } else if self.rank == 0 {
            line!(out, "NCCL version {}", nccl.line());
        }
        self.info(
            out,
            format_args!("NET/Plugin: Could not find: libnccl-net.so"),
        );
        self.info(out, format_args!("NET/IB : No device found."));
        self.info(
            out,
            format_args!("NET/Socket : Using [0]{interface}:{address}<0>"),
        );
        self.info(out, format_args!("Using network Socket"));
        let stuck_in_bootstrap = matches!(self.job.spec.fault, Fault::Iface(_));
        self.init_comm(out, Group::World, stuck_in_bootstrap);
        if !stuck_in_bootstrap && self.job.has_host_group() {
            self.init_comm(out, Group::Host, false);
        }
    }

    /// Init of one communicator; a stuck one ends where that version prints its last line.
    fn init_comm(&self, out: &mut Vec<u8>, group: Group, is_stuck: bool) {
        let (nccl, member) = (self.job.spec.nccl, self.member(group));
        let dev = self.rank % self.job.spec.ranks_per_host;
        let who = format!(
            "{}comm {:#x} rank {} nranks {} cudaDev {dev}{} busId {:x} commId {:#x}",
            nccl.init_call(),
            self.comms[group as usize],
            member.rank,
            member.nranks,
            if nccl == Nccl::V2_16_5 {
                String::new()
            } else {
                format!(" nvmlDev {dev}")
            },
            0x60 + dev * 0x10,
            member.id,
        );
        let front = if nccl == Nccl::V2_31_2 {
            format!("[Rank {}] ", member.rank)
        } else {
            String::new()
        };
        let starts_late = nccl.is_old();
        if !starts_late || (!is_stuck && nccl != Nccl::V2_16_5) {
            self.info(out, format_args!("{front}{who} - Init START"));
        }
        if is_stuck {
            return;
        }
        self.info(
            out,
            format_args!("NCCL_NVLS_ENABLE set by environment to 0."),
        );
        let locals = if group == Group::World {
            self.job.ranks_on(self.job.host_of(self.rank))
        } else {
            member.nranks
        };
        let nodes = if group == Group::World {
            self.job.hosts()
        } else {
            1
        };
        self.info(
            out,
            format_args!(
                "comm {:#x} rank {} nRanks {} nNodes {nodes} localRanks {locals} localRank {dev} MNNVL 0",
                self.comms[group as usize], member.rank, member.nranks
            ),
        );
        if member.rank == 0 {
            self.channels(out, member.nranks);
        }
        let (next, before) = (
            neighbour(member.rank + 1, member.nranks),
            i64::from(member.rank) - 1,
        );
        self.info(
            out,
            format_args!(
                "Trees [0] {next}/-1/-1->{0}->{before} [1] {next}/-1/-1->{0}->{before}",
                member.rank
            ),
        );
        self.info(out, format_args!("P2P Chunksize set to 131072"));
        if nccl.is_old() {
            self.connect(out, group);
        } else {
            self.info(
                out,
                format_args!("Check P2P Type isAllDirectP2p 1 directMode 0 isAllCudaP2p 1"),
            );
        }
        self.info(
            out,
            format_args!(
                "threadThresholds 8/8/64 | {}/8/64 | 512 | 512",
                8 * member.nranks
            ),
        );
        self.info(out, format_args!("2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 1 p2p channels per peer"));
        self.info(out, format_args!("{front}{who} - Init COMPLETE"));
        if !nccl.is_old() {
            self.info(
                out,
                format_args!(
                    "Init timings - {}: rank {} nranks {} total 2.74 (kernels 2.37, alloc 0.01, bootstrap 0.02, allgathers 0.03, topo 0.27, graphs 0.00, connections 0.03, rest 0.00)",
                    nccl.init_call().trim_end(), member.rank, member.nranks
                ),
            );
        }
    }

    /// The rings, cut at 1,023 bytes as NCCL does.
    fn channels(&self, out: &mut Vec<u8>, nranks: u32) {
        for channel in 0..2 {
            let start = out.len();
            out.extend_from_slice(&self.head);
            write!(out, "Channel {channel:02}/02 :").expect("a Vec takes every byte");
            for rank in 0..nranks {
                if out.len() - start >= 1023 {
                    break;
                }
                write!(out, " {rank:4}").expect("a Vec takes every byte");
            }
            out.truncate(start + 1023);
            out.push(b'\n');
        }
    }

    /// The transports to both neighbours of the ring.
    fn connect(&self, out: &mut Vec<u8>, group: Group) {
        let member = self.member(group);
        if member.nranks > 1 {
            let per_host = self.job.spec.ranks_per_host;
            let next = (member.rank + 1) % member.nranks;
            let before = (member.rank + member.nranks - 1) % member.nranks;
            let same_host =
                |other: u32| group == Group::Host || other / per_host == member.rank / per_host;
            let end = |rank: u32| format!("{rank}[{}]", rank % per_host);
            for channel in 0..2 {
                if !same_host(before) {
                    self.info(
                        out,
                        format_args!(
                            "Channel {channel:02}/0 : {} -> {} [receive] via NET/Socket/0",
                            end(before),
                            end(member.rank)
                        ),
                    );
                }
                let via = if same_host(next) {
                    "via P2P/CUMEM"
                } else {
                    "[send] via NET/Socket/0"
                };
                self.info(
                    out,
                    format_args!(
                        "Channel {channel:02}/0 : {} -> {} {via}",
                        end(member.rank),
                        end(next)
                    ),
                );
            }
        }
        self.info(out, format_args!("Connected all rings"));
        if self.job.spec.nccl.is_old() {
            self.info(out, format_args!("Connected all trees"));
        }
    }

    /// What a job with a wrong interface prints until somebody stops it.
    fn retries(&self, out: &mut Vec<u8>) {
        let Fault::Iface(bad) = self.job.spec.fault else {
            return;
        };
        let host = self.job.host_of(self.rank);
        let first = bad * self.job.spec.ranks_per_host;
        // The root is rank 0: if its host is the bad one nobody reaches it, else it and the rank in
        // front of the bad host in the ring reach nobody there.
        let retries = if bad == 0 {
            host != 0
        } else {
            self.rank == 0 || self.rank + 1 == first
        };
        if !retries {
            return;
        }
        let port =
            40_000 + self.job.world_id % 20_000 + u64::from(bad != 0) * u64::from(self.rank % 100);
        let address = format!("{}<{port}>", self.job.address(bad).1);
        let is_root = bad != 0 && self.rank == 0;
        for attempt in 1..=24 {
            out.extend_from_slice(if is_root {
                &self.proxy_head
            } else {
                &self.head
            });
            line!(
                out,
                "{}",
                self.job.spec.nccl.connect_retry(&address, attempt)
            );
        }
    }

    fn one_step(&mut self, out: &mut Vec<u8>, is_last: bool) {
        let spec = &self.job.spec;
        let has_host_group = self.job.has_host_group();
        for call in calls_of_step(spec.seed, self.step, has_host_group) {
            let is_fault = is_last && call.is_first_of_world && spec.fault != Fault::None;
            match spec.fault {
                Fault::Skip(rank) | Fault::Die(rank) if is_fault && rank == self.rank => return,
                Fault::Count(rank) if is_fault && rank == self.rank => {
                    self.collective(
                        out,
                        &Call {
                            count: call.count / 2 + 7,
                            ..call
                        },
                    );
                }
                _ => self.collective(out, &call),
            }
            if is_fault {
                self.aftermath(out);
                return;
            }
        }
        if self.step.is_multiple_of(10) && self.rank == 0 {
            line!(
                out,
                "step {} loss {:.4}",
                self.step,
                2.0 + 8.0 / (1.0 + self.step as f64)
            );
        }
        if is_last {
            self.end(out);
        }
    }

    fn collective(&mut self, out: &mut Vec<u8>, call: &Call) {
        let group = call.group as usize;
        let nccl = self.job.spec.nccl;
        let member = self.member(call.group);
        let (count, datatype) = call.printed(nccl);
        let counts = nccl != Nccl::V2_28_9 || (call.group == Group::World && self.job.hosts() > 1);
        let buffer = self.buffers + (self.step * 7 + u64::from(call.slot)) % 61 * 0x40_0000;
        out.extend_from_slice(&self.head);
        line!(
            out,
            "{}: opCount {:x} sendbuff {buffer:#x} recvbuff {buffer:#x} count {count} datatype {datatype} op {} root {} comm {:#x} [nranks={}] stream {}",
            call.function,
            self.op_counts[group],
            call.op,
            call.root,
            self.comms[group],
            member.nranks,
            if nccl.is_old() { "0x2aa76c60" } else { "(nil)" },
        );
        let is_first = self.step == 1 && call.is_first_of_group;
        self.op_counts[group] += u64::from(counts);
        if is_first && !nccl.is_old() {
            self.connect(out, call.group);
        }
    }

    /// What the waiting ranks see of a rank that died: only its neighbours see anything.
    fn aftermath(&self, out: &mut Vec<u8>) {
        let Fault::Die(dead) = self.job.spec.fault else {
            return;
        };
        let (nccl, per_host) = (self.job.spec.nccl, self.job.spec.ranks_per_host);
        if self.job.host_of(dead) == self.job.host_of(self.rank) {
            out.extend_from_slice(&self.proxy_head);
            line!(
                out,
                "[Service thread] Connection closed by localRank {}",
                dead % per_host
            );
            return;
        }
        let apart = self.rank.abs_diff(dead);
        if apart != 1 && apart != per_host && apart + 1 != self.job.spec.ranks {
            return;
        }
        let (place, trail) = nccl.closed_trail();
        let head = String::from_utf8_lossy(&self.proxy_head);
        let head = head.trim_end_matches("NCCL INFO ");
        // 2.28.9 prints an empty address here, as recorded.
        let peer = if nccl == Nccl::V2_28_9 {
            String::new()
        } else {
            format!(
                "{}<{}>",
                self.job.address(self.job.host_of(dead)).1,
                40_000 + dead % 20_000
            )
        };
        line!(
            out,
            "\n{}{head}{place} NCCL WARN socketProgress: Connection closed by remote peer {peer}",
            nccl.warn_stamp(2_555)
        );
        for (depth, place) in trail.iter().enumerate() {
            let thread = if depth == 3 { " [Progress Thread]" } else { "" };
            out.extend_from_slice(&self.proxy_head);
            line!(out, "{place} -> 6{thread}");
        }
    }

    fn end(&self, out: &mut Vec<u8>) {
        // 2.30 moved these lines to a subsystem that is off by default.
        if self.job.spec.nccl != Nccl::V2_31_2 {
            for group in [Group::Host, Group::World] {
                if group == Group::World || self.job.has_host_group() {
                    let member = self.member(group);
                    let dev = self.rank % self.job.spec.ranks_per_host;
                    self.info(
                        out,
                        format_args!(
                            "comm {:#x} rank {} nranks {} cudaDev {dev} busId {:x} - Destroy COMPLETE",
                            self.comms[group as usize], member.rank, member.nranks, 0x60 + dev * 0x10
                        ),
                    );
                }
            }
        }
        line!(out, "rank {} done", self.rank);
    }

    fn member(&self, group: Group) -> Member {
        let host = self.job.host_of(self.rank);
        match group {
            Group::World => Member {
                rank: self.rank,
                nranks: self.job.spec.ranks,
                id: self.job.world_id,
            },
            Group::Host => Member {
                rank: self.rank % self.job.spec.ranks_per_host,
                nranks: self.job.ranks_on(host),
                id: Prng::new(self.job.world_id ^ u64::from(host) << 8).next(),
            },
        }
    }
}

/// A rank's place in a communicator.
struct Member {
    rank: u32,
    nranks: u32,
    id: u64,
}

/// The rank, or -1 where a chain ends.
fn neighbour(rank: u32, nranks: u32) -> i64 {
    if rank < nranks { i64::from(rank) } else { -1 }
}
