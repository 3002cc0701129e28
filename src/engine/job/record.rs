//! What one writer's lines said, communicators aside.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::comm::MemberIx;
use super::kept::Kept;
use super::stack::Stack;
use super::traceback::Frames;
use crate::engine::event::{Event, Exit, Subsystem, Transport};
use crate::engine::ids::SourceId;
use crate::engine::input::Time;
use crate::engine::limits;
use crate::engine::line::{Line, NcclHead};
use crate::engine::parse::split_address;
use crate::engine::vocab::Phase;

/// An address that a subsystem chose.
#[derive(Clone, Debug)]
pub struct AddressSeen {
    /// Who chose.
    pub subsystem: Subsystem,
    /// Interface name.
    pub interface: String,
    /// Address without port.
    pub address: String,
    /// The others it listed: (interface, address).
    pub further: Vec<(String, String)>,
    /// The line.
    pub line: Kept,
}

/// Connects to one address that failed for one reason.
#[derive(Clone, Debug)]
pub struct ConnectFailure {
    /// Address without port; `None` where NCCL does not print it (up to 2.26).
    pub address: Option<String>,
    /// The port, if it was always the same.
    pub port: Option<u16>,
    /// The operating system's words.
    pub reason: String,
    /// How often it was printed.
    pub count: u64,
    /// Attempts as NCCL counts them, the highest.
    pub attempts: u32,
    /// It gave up.
    pub gave_up: bool,
    /// The first and the last line.
    pub first: Kept,
    /// The last one.
    pub last: Kept,
}

/// Connects to PyTorch's store that failed.
#[derive(Clone, Debug)]
pub struct StoreFailure {
    /// Host as the user named it.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Why, the last time that it was said; empty if it never was.
    pub reason: String,
    /// Lines with a reason, and lines without: each try has one of either, or one of the second kind alone.
    pub lines: (u64, u64),
    /// It gave up.
    pub gave_up: bool,
}

/// A peer's connection that closed.
#[derive(Clone, Debug)]
pub struct PeerClosed {
    /// The local rank that closed it, where NCCL says so.
    pub local: Option<u32>,
    /// The line.
    pub line: Kept,
}

/// A watchdog timeout.
#[derive(Clone, Debug)]
pub struct WatchdogSeen {
    /// Sequence number in its group.
    pub seq: u64,
    /// Operation.
    pub op: String,
    /// How long it waited.
    pub ran_ms: u64,
    /// The timeout in force.
    pub timeout_ms: u64,
    /// The line.
    pub line: Kept,
}

/// An exception that ended a traceback.
#[derive(Clone, Debug)]
pub struct ExceptionSeen {
    /// Type without module.
    pub kind: String,
    /// Text.
    pub message: String,
    /// Where its traceback leads: the innermost frame of the program's own files, as `file:line`, else of any.
    pub at: Option<String>,
    /// The line.
    pub line: Kept,
}

/// One process in a launcher's report.
#[derive(Clone, Debug)]
pub struct ExitReport {
    /// World rank, if the report says so.
    pub rank: Option<u32>,
    /// Local rank.
    pub local: Option<u32>,
    /// Process id.
    pub pid: Option<u32>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// The launcher calls it the first that failed.
    pub first: bool,
    /// The line.
    pub line: Kept,
}

/// Joined and expected ranks at a store.
#[derive(Clone, Debug)]
pub struct StoreJoined {
    /// Joined.
    pub joined: u32,
    /// Expected.
    pub of: u32,
    /// The line.
    pub line: Kept,
}

/// A connection between two ranks of a communicator.
#[derive(Clone, Debug)]
pub struct Link {
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// How.
    pub transport: Transport,
    /// The line.
    pub line: Kept,
}

/// A sign that the process ended badly.
#[derive(Clone, Debug)]
pub struct Death {
    /// What the line says.
    pub text: String,
    /// The line.
    pub line: Kept,
}

/// Two ranks whose calls PyTorch compared, each with its operation.
#[derive(Clone, Debug)]
pub struct Fingerprints {
    /// The reporter.
    pub a: (u32, String),
    /// The rank that differs from it.
    pub b: (u32, String),
}

/// What one writer's lines said.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where it writes.
    pub source: SourceId,
    /// Host, as NCCL prints it.
    pub host: Option<String>,
    /// Process id, as NCCL prints it.
    pub pid: Option<u32>,
    /// Lines.
    pub lines: u64,
    /// The end of one of NCCL's was missing: what it does not show may have been there.
    pub torn: bool,
    /// A line of NCCL, PyTorch or a launcher was among them.
    pub of_a_job: bool,
    /// Frameworks that its lines show.
    pub stack: Stack,
    /// The last one.
    pub last: Option<Kept>,
    /// The last one of its own work, where others follow it.
    own: Option<Kept>,
    last_is_own: bool,
    /// Line numbers of its last three lines, newest last.
    pub tail: [u64; 3],
    /// When it was seen.
    pub last_seen: Option<Time>,
    /// How far it got.
    pub phase: Phase,
    /// NCCL's version.
    pub nccl: Option<(String, Kept)>,
    /// The driver's CUDA version.
    pub cuda_driver: Option<String>,
    /// Variables in effect.
    pub env: BTreeMap<String, (String, Kept)>,
    /// Addresses chosen.
    pub addresses: Vec<AddressSeen>,
    /// `Using network X`.
    pub network: Option<(String, Kept)>,
    /// A network plugin that was not found.
    pub plugin_not_found: Option<Kept>,
    /// A RAS line: its bootstrap ring neighbours answered.
    pub ras: bool,
    /// Where its RAS listens, as printed: `::1<28028>`.
    pub ras_address: Option<String>,
    /// Its communicators, in the order they came.
    pub members: Vec<MemberIx>,
    /// The one its last init or call belongs to.
    pub active: Option<MemberIx>,
    pointers: FxHashMap<u64, MemberIx>,
    last_pointer: Option<(u64, MemberIx)>,
    /// Connects that failed.
    pub connects: Vec<ConnectFailure>,
    /// Connects to the store that failed.
    pub store_failures: Vec<StoreFailure>,
    /// Peers whose connection closed.
    pub closed: Vec<PeerClosed>,
    /// Watchdog timeouts.
    pub watchdogs: Vec<WatchdogSeen>,
    /// Highest enqueued and completed work by group.
    pub work: BTreeMap<String, (i64, i64, Kept)>,
    /// A store that did not fill.
    pub store: Option<StoreJoined>,
    /// A host's name that did not resolve, and why.
    pub unresolved: Option<(String, String, Kept)>,
    /// It met the store.
    pub store_contact: bool,
    /// Rank and size by its own words.
    pub rank_of: Option<(u32, u32, Kept)>,
    /// Size by a launcher's words.
    pub world_size: Option<u32>,
    /// Ranks that did not pass a monitored barrier.
    pub barrier_missing: Option<(Vec<u32>, Kept)>,
    /// Fingerprints that differ: (rank, operation) twice, and what differs.
    pub fingerprints: Option<Fingerprints>,
    /// Exceptions that ended a traceback.
    pub exceptions: Vec<ExceptionSeen>,
    /// Line number of its last init, call or destroy: it lived then.
    pub progress: u64,
    /// When that line was seen.
    pub progressed: Option<Time>,
    /// Line number of its last init or call alone: what is destroyed may be so on the way out.
    pub worked: u64,
    in_traceback: bool,
    /// The frames of the traceback that is being read.
    frames: Frames,
    /// The PyTorch call that its last traceback or failed collective stands in.
    pub calling: Option<(String, Kept)>,
    /// It aborts.
    pub abort: Option<Death>,
    /// A launcher's reports.
    pub reports: Vec<ExitReport>,
    report_rank: Option<(u32, u32)>,
    root_cause: bool,
    /// Children that ended unexpectedly: (index, exit, line).
    pub children: Vec<(Option<u32>, Option<Exit>, Kept)>,
    /// The launcher was told to stop.
    pub stopped: Option<Kept>,
    /// The agent started its workers again.
    pub restarts: u32,
    /// It serves requests.
    pub serving: bool,
    pub(super) touched: u32,
}

impl Record {
    /// This line shows that the process lives and gets on.
    pub(super) fn got_on(&mut self, line: &Line<'_>) {
        self.progress = line.place.number;
        self.progressed = self.last_seen;
    }

    /// This line shows that it works.
    pub(super) fn goes_on(&mut self, line: &Line<'_>) {
        self.worked = line.place.number;
        self.got_on(line);
    }

    pub(super) fn new(source: SourceId) -> Self {
        Self {
            source,
            host: None,
            pid: None,
            lines: 0,
            torn: false,
            of_a_job: false,
            stack: Stack::default(),
            last: None,
            own: None,
            last_is_own: false,
            tail: [0; 3],
            last_seen: None,
            phase: Phase::Launched,
            nccl: None,
            cuda_driver: None,
            env: BTreeMap::new(),
            addresses: Vec::new(),
            network: None,
            plugin_not_found: None,
            ras: false,
            ras_address: None,
            members: Vec::new(),
            active: None,
            pointers: FxHashMap::default(),
            last_pointer: None,
            connects: Vec::new(),
            store_failures: Vec::new(),
            closed: Vec::new(),
            watchdogs: Vec::new(),
            work: BTreeMap::new(),
            store: None,
            unresolved: None,
            store_contact: false,
            rank_of: None,
            world_size: None,
            barrier_missing: None,
            fingerprints: None,
            exceptions: Vec::new(),
            progress: 0,
            progressed: None,
            worked: 0,
            in_traceback: false,
            frames: Frames::default(),
            calling: None,
            abort: None,
            reports: Vec::new(),
            report_rank: None,
            root_cause: false,
            children: Vec::new(),
            stopped: None,
            restarts: 0,
            serving: false,
            touched: 0,
        }
    }

    /// The member whose communicator was last seen at this address.
    #[must_use]
    pub fn at_pointer(&self, pointer: u64) -> Option<MemberIx> {
        match self.last_pointer {
            Some((last, member)) if last == pointer => Some(member),
            _ => self.pointers.get(&pointer).copied(),
        }
    }

    pub(super) fn bind(&mut self, pointer: u64, member: MemberIx) {
        self.members.push(member);
        self.pointers.insert(pointer, member);
        self.last_pointer = Some((pointer, member));
    }

    /// Remembers the address that the hot path asks for next.
    pub(super) fn advance(&mut self, phase: Phase) {
        self.phase = self.phase.max(phase);
    }

    /// The line at which it stopped waiting or working, if it did: what closes after that says nothing.
    #[must_use]
    pub fn gave_up_at(&self) -> Option<u64> {
        let watchdog = self.watchdogs.first().map(|w| w.line.place.number);
        let abort = self.abort.as_ref().map(|a| a.line.place.number);
        let exception = self
            .exceptions
            .iter()
            .map(|e| e.line.place.number)
            .find(|n| *n > self.progress);
        [watchdog, abort, exception].into_iter().flatten().min()
    }

    pub(super) fn set_last(&mut self, line: &Line<'_>, own: bool, borrowed: bool) {
        if self.last_is_own && !own {
            self.own = self.last.take();
        }
        self.last_is_own = own;
        self.last = Some(Kept::deferred(line, borrowed));
    }

    pub(super) fn last_lines_mut(&mut self) -> impl Iterator<Item = &mut Kept> {
        self.last.iter_mut().chain(&mut self.own)
    }

    /// The last line that says where it is in its own work, if there is one.
    #[must_use]
    pub fn last_own(&self) -> Option<&Kept> {
        if self.last_is_own {
            self.last.as_ref()
        } else {
            self.own.as_ref()
        }
    }

    /// Any line, understood or not.
    pub(super) fn plain(&mut self, line: &Line<'_>) {
        if self.in_traceback && !line.text.first().is_some_and(u8::is_ascii_whitespace) {
            self.in_traceback = line.text.starts_with(b"Traceback");
        } else if self.in_traceback {
            self.frames.take(line.text);
        }
    }

    /// Events that concern the writer alone.
    pub(super) fn take(&mut self, line: &Line<'_>, event: &Event<'_>) {
        match *event {
            Event::NcclVersion(version) => {
                self.nccl
                    .get_or_insert_with(|| (lossy(version), Kept::now(line)));
            }
            Event::CudaDriver(version) => self.cuda_driver = Some(lossy(version)),
            Event::Env { name, value } => self.set_env(line, name, value),
            Event::Address {
                subsystem,
                interface,
                address,
                further,
            } => {
                self.choose(line, subsystem, interface, address, further);
            }
            Event::Network(name) => {
                self.network
                    .get_or_insert_with(|| (lossy(name), Kept::now(line)));
                self.advance(Phase::Network);
            }
            Event::PluginNotFound => {
                self.plugin_not_found.get_or_insert_with(|| Kept::now(line));
            }
            Event::RasListening(address) => {
                self.ras = true;
                if let Some(address) = address {
                    self.ras_address = Some(String::from_utf8_lossy(address).into_owned());
                }
            }
            Event::Topology => self.advance(Phase::Topology),
            Event::ConnectFailed {
                address,
                port,
                reason,
                attempt,
                retrying,
            } => {
                self.connect_failed(line, (address, port), reason, attempt, retrying);
            }
            Event::StoreRefused {
                host,
                port,
                reason,
                retrying,
            } => self.store_refused(host, port, reason, retrying),
            Event::PeerClosed { local } => self.peer_closed(line, local),
            Event::RankOf { rank, of } => {
                self.rank_of
                    .get_or_insert_with(|| (rank, of, Kept::now(line)));
                self.advance(Phase::Rendezvous);
            }
            Event::WorldSize(size) => self.world_size = Some(size),
            Event::Watchdog {
                seq,
                op,
                ran_ms,
                timeout_ms,
            } => push_bounded(
                &mut self.watchdogs,
                WatchdogSeen {
                    seq,
                    op: lossy(op),
                    ran_ms,
                    timeout_ms,
                    line: Kept::now(line),
                },
            ),
            Event::WorkStatus {
                group,
                enqueued,
                completed,
            } => self.work_status(group, enqueued, completed, Kept::now(line)),
            Event::StoreJoined { joined, of } => {
                self.store.get_or_insert_with(|| StoreJoined {
                    joined,
                    of,
                    line: Kept::now(line),
                });
                self.exception(line);
            }
            Event::Unresolved { host, reason } => {
                self.unresolved
                    .get_or_insert_with(|| (lossy(host), lossy(reason), Kept::now(line)));
            }
            Event::StoreContact => {
                self.store_contact = true;
                self.advance(Phase::Rendezvous);
            }
            Event::BarrierMissing(list) => {
                let ranks = numbers(list);
                if !ranks.is_empty() {
                    self.barrier_missing
                        .get_or_insert_with(|| (ranks, Kept::now(line)));
                }
                self.exception(line);
            }
            Event::Fingerprints { a, b, .. } => {
                self.fingerprints.get_or_insert_with(|| Fingerprints {
                    a: (a.0, lossy(a.1)),
                    b: (b.0, lossy(b.1)),
                });
                self.exception(line);
            }
            Event::TracebackStart => {
                self.in_traceback = true;
                self.frames.clear();
            }
            Event::Frame(name) => self.calling = Some((lossy(name), Kept::now(line))),
            Event::Exception { .. } => self.exception(line),
            Event::Abort(text) => {
                self.abort.get_or_insert_with(|| Death {
                    text: lossy(text),
                    line: Kept::now(line),
                });
            }
            Event::ReportRootCause => self.root_cause = true,
            Event::ReportRank { rank, local } => self.report_rank = Some((rank, local)),
            Event::ReportExit { exit, pid } => self.report(line, exit, pid),
            Event::AgentExit { exit, pid, local } => {
                self.add_report(ExitReport {
                    rank: None,
                    local: Some(local),
                    pid: Some(pid),
                    exit: Some(exit),
                    first: false,
                    line: Kept::now(line),
                });
            }
            Event::ChildDied { index, exit } => {
                push_bounded(&mut self.children, (index, exit, Kept::now(line)));
            }
            Event::LauncherStopped => {
                self.stopped.get_or_insert_with(|| Kept::now(line));
            }
            Event::Restart => self.restarts += 1,
            Event::Serving => self.serving = true,
            // Handled with their communicator, or plain progress.
            _ => {}
        }
    }

    fn work_status(&mut self, group: &[u8], enqueued: i64, completed: i64, line: Kept) {
        if self.work.len() < limits::EVENTS_PER_WRITER {
            self.work.insert(lossy(group), (enqueued, completed, line));
        }
    }

    /// The line may end a traceback with its exception.
    fn exception(&mut self, line: &Line<'_>) {
        let Some((kind, message)) = split_exception(line.message) else {
            return;
        };
        if !self.in_traceback || self.exceptions.len() >= limits::EVENTS_PER_WRITER {
            return;
        }
        self.in_traceback = false;
        self.exceptions.push(ExceptionSeen {
            kind,
            message,
            at: self.frames.at(),
            line: Kept::now(line),
        });
        self.frames.clear();
    }

    fn report(&mut self, line: &Line<'_>, exit: Exit, pid: u32) {
        let (rank, local) = match self.report_rank.take() {
            Some((rank, local)) => (Some(rank), Some(local)),
            None => (None, None),
        };
        let first = std::mem::take(&mut self.root_cause);
        self.add_report(ExitReport {
            rank,
            local,
            pid: Some(pid),
            exit: Some(exit),
            first,
            line: Kept::now(line),
        });
    }

    fn add_report(&mut self, report: ExitReport) {
        if self.reports.len() < limits::EVENTS_PER_WRITER * 16 {
            self.reports.push(report);
        }
    }

    fn set_env(&mut self, line: &Line<'_>, name: &[u8], value: &[u8]) {
        let name = lossy(name);
        if self.env.len() < limits::ENV_PER_WRITER {
            self.env
                .entry(name)
                .or_insert_with(|| (lossy(value), Kept::now(line)));
        }
    }

    fn choose(
        &mut self,
        line: &Line<'_>,
        subsystem: Subsystem,
        interface: &[u8],
        address: &[u8],
        further: &[u8],
    ) {
        let phase = if subsystem == Subsystem::Bootstrap {
            Phase::Bootstrap
        } else {
            Phase::Network
        };
        self.advance(phase);
        let (interface, address) = (lossy(interface), lossy(address));
        let known = self
            .addresses
            .iter()
            .any(|a| (a.subsystem, &a.interface, &a.address) == (subsystem, &interface, &address));
        if known || self.addresses.len() >= limits::EVENTS_PER_WRITER {
            return;
        }
        let further = further
            .split(|b| *b == b'[')
            .filter_map(|part| {
                let at = memchr::memchr(b']', part)?;
                let (interface, address) = split_address(&part[at + 1..])?;
                Some((lossy(interface), lossy(address)))
            })
            .take(16)
            .collect();
        self.addresses.push(AddressSeen {
            subsystem,
            interface,
            address,
            further,
            line: Kept::now(line),
        });
    }

    fn connect_failed(
        &mut self,
        line: &Line<'_>,
        (address, port): (Option<&[u8]>, Option<u16>),
        reason: &[u8],
        attempt: Option<u32>,
        retrying: bool,
    ) {
        let kept = Kept::now(line);
        let known = self.connects.iter_mut().find(|c| {
            same(&c.reason, reason)
                && match (&c.address, address) {
                    (Some(known), Some(address)) => same(known, address),
                    (known, address) => known.is_none() && address.is_none(),
                }
        });
        if let Some(known) = known {
            known.count += 1;
            known.port = known.port.filter(|known| Some(*known) == port);
            known.attempts = known.attempts.max(attempt.unwrap_or(0));
            known.gave_up |= !retrying;
            known.last = kept;
        } else if self.connects.len() < limits::EVENTS_PER_WRITER {
            self.connects.push(ConnectFailure {
                address: address.map(lossy),
                port,
                reason: lossy(reason),
                count: 1,
                attempts: attempt.unwrap_or(0),
                gave_up: !retrying,
                first: kept.clone(),
                last: kept,
            });
        }
    }

    fn store_refused(&mut self, host: &[u8], port: u16, reason: Option<&[u8]>, retrying: bool) {
        let all = &mut self.store_failures;
        let same_place = |f: &StoreFailure| f.port == port && same(&f.host, host);
        let at = all.iter().position(same_place).unwrap_or(all.len());
        if at == limits::EVENTS_PER_WRITER {
            return;
        }
        if at == all.len() {
            all.push(StoreFailure {
                host: lossy(host),
                port,
                reason: String::new(),
                lines: (0, 0),
                gave_up: false,
            });
        }
        let known = &mut all[at];
        known.gave_up |= !retrying;
        match reason {
            Some(reason) => {
                known.lines.0 += 1;
                known.reason = lossy(reason);
            }
            None => known.lines.1 += 1,
        }
    }

    fn peer_closed(&mut self, line: &Line<'_>, local: Option<u32>) {
        if self.closed.len() < limits::EVENTS_PER_WRITER {
            self.closed.push(PeerClosed {
                local,
                line: Kept::now(line),
            });
        }
    }

    /// Takes what an NCCL header says of the writer.
    pub(super) fn head(&mut self, head: &NcclHead<'_>) {
        self.host = Some(lossy(head.host));
        self.pid = Some(head.pid);
    }
}

fn push_bounded<T>(list: &mut Vec<T>, item: T) {
    if list.len() < limits::EVENTS_PER_WRITER {
        list.push(item);
    }
}

/// True if a text is what [`lossy`] made of the bytes.
fn same(text: &str, bytes: &[u8]) -> bool {
    text.as_bytes() == bytes || text == String::from_utf8_lossy(bytes)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `torch.distributed.DistStoreError: text` → kind without module, text.
fn split_exception(message: &[u8]) -> Option<(String, String)> {
    let end = message
        .iter()
        .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')))
        .unwrap_or(message.len());
    let kind = message[..end].rsplit(|b| *b == b'.').next()?;
    if !kind.first()?.is_ascii_uppercase() {
        return None;
    }
    let text = message[end..]
        .strip_prefix(b":")
        .unwrap_or(&message[end..])
        .trim_ascii();
    Some((lossy(kind), lossy(text)))
}

/// `1, 2` → [1, 2]
fn numbers(list: &[u8]) -> Vec<u32> {
    list.split(|b| !b.is_ascii_digit())
        .filter_map(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
        .take(4096)
        .collect()
}
