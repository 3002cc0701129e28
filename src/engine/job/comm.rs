//! Communicators, their members, and the sequence of calls on each.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::kept::Kept;
use super::record::Link;
use crate::engine::event::{Coll, CommInit, Func, Transport};
use crate::engine::ids::{CommIx, WriterIx};
use crate::engine::limits;
use crate::engine::line::Line;

mod smallring;

pub(super) use smallring::NO_ORDINAL;
use smallring::Ring;

/// A member of a communicator: one writer's place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIx(pub u32);

impl MemberIx {
    /// The place in [`super::Job::members`].
    #[must_use]
    pub fn ix(self) -> usize {
        self.0 as usize
    }

    pub(super) fn from_ix(n: usize) -> Self {
        Self(u32::try_from(n).expect("fewer than 2^32 members"))
    }
}

/// What identifies a communicator across ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommKey {
    /// Its commId; `nth` tells communicators of one rank apart that print the same id (split
    /// children of 2.18–2.22 share their parent's and colour's).
    Id {
        /// commId or commHash.
        id: u64,
        /// How many with this id the rank had before.
        nth: u32,
    },
    /// A split child without an id of its own (2.23–2.30).
    Split {
        /// Its parent.
        parent: CommIx,
        /// Which split of the parent.
        child: u32,
        /// Colour.
        color: i64,
    },
    /// The `nth` communicator of that size (before 2.16, where no id is printed).
    Sized {
        /// Its ranks.
        nranks: u32,
        /// How many of that size the rank had before.
        nth: u32,
    },
    /// Start not seen: known in one process only.
    Alone {
        /// Whose.
        writer: WriterIx,
        /// Its address there.
        pointer: u64,
        /// Which one at that address.
        nth: u32,
    },
}

impl CommKey {
    /// How findings call it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Id { id, .. } => format!("{id:#x}"),
            Self::Split { child, color, .. } => format!("split {child} colour {color}"),
            Self::Sized { nranks, nth } => format!("{} of {nranks} ranks", nth + 1),
            Self::Alone { pointer, .. } => format!("at {pointer:#x}"),
        }
    }
}

/// One communicator.
#[derive(Clone, Debug)]
pub struct Comm {
    /// What identifies it.
    pub key: CommKey,
    /// Its ranks; 0 if not known; the most that a member says.
    pub nranks: u32,
    /// What its members say; more than one value is a launch line that differs.
    pub sizes: BTreeSet<u32>,
    /// Its members that were seen, in the order they came.
    pub members: Vec<MemberIx>,
    /// Ids of the calls by ordinal, as the first rank to reach each ordinal made them.
    pub reference: Vec<u32>,
}

impl Comm {
    pub(super) fn new(key: CommKey, nranks: u32) -> Self {
        Self {
            key,
            nranks,
            sizes: BTreeSet::from([nranks]),
            members: Vec::new(),
            reference: Vec::new(),
        }
    }
}

/// A call, comparable across ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// Function.
    pub func: Func,
    /// Elements (bytes for Broadcast and AllGather up to NCCL 2.21).
    pub count: u64,
    /// `ncclDataType_t`.
    pub datatype: u8,
    /// `ncclRedOp_t`, user-made ones all 5.
    pub op: u8,
    /// Root or peer.
    pub root: u32,
}

/// `ncclDataType_t` (`src/nccl.h.in`, to 2.32).
const DATATYPES: [(&str, u64); 12] = [
    ("int8", 1),
    ("uint8", 1),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("float16", 2),
    ("float32", 4),
    ("float64", 8),
    ("bfloat16", 2),
    ("fp8e4m3", 1),
    ("fp8e5m2", 1),
];

impl Call {
    pub(super) fn of(coll: &Coll) -> Self {
        Self {
            func: coll.func,
            count: coll.count,
            datatype: coll.datatype,
            op: coll.op,
            root: coll.root,
        }
    }

    /// Name of its datatype.
    #[must_use]
    pub fn datatype_name(&self) -> String {
        match DATATYPES.get(usize::from(self.datatype)) {
            Some((name, _)) => (*name).to_owned(),
            None => format!("datatype {}", self.datatype),
        }
    }

    /// Size in bytes, if its datatype is known.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let (_, size) = DATATYPES.get(usize::from(self.datatype))?;
        self.count.checked_mul(*size)
    }

    /// Name of its reduction.
    #[must_use]
    pub fn op_name(&self) -> &'static str {
        ["sum", "prod", "max", "min", "avg"]
            .get(usize::from(self.op))
            .copied()
            .unwrap_or("user-made op")
    }

    /// True if the two are the same call although versions print it differently: Broadcast and
    /// AllGather are printed in bytes as int8 up to 2.21, in elements later.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self == other
            || (matches!(self.func, Func::Broadcast | Func::AllGather)
                && (self.datatype == 0 || other.datatype == 0)
                && (self.func, self.op, self.root) == (other.func, other.op, other.root)
                && self.bytes().is_some()
                && self.bytes() == other.bytes())
    }

    /// In words: `AllReduce of 1048576 float32, sum`.
    #[must_use]
    pub fn words(&self) -> String {
        let tail = match self.func {
            Func::AllReduce | Func::ReduceScatter => format!(", {}", self.op_name()),
            Func::Reduce => format!(", {}, root {}", self.op_name(), self.root),
            Func::Broadcast | Func::Gather | Func::Scatter => format!(", root {}", self.root),
            Func::Send => format!(" to {}", self.root),
            Func::Recv => format!(" from {}", self.root),
            _ => String::new(),
        };
        format!(
            "{} of {} {}{tail}",
            self.func.name(),
            self.count,
            self.datatype_name()
        )
    }

    /// What differs between two calls, as people call it.
    #[must_use]
    pub fn difference(&self, other: &Self) -> &'static str {
        if self.func != other.func {
            "function"
        } else if self.datatype != other.datatype {
            "datatype"
        } else if self.count != other.count {
            "count"
        } else if self.op != other.op {
            "reduction"
        } else {
            "root"
        }
    }
}

/// A call unlike the reference.
#[derive(Clone, Debug)]
pub struct Deviation {
    /// Ordinal on the communicator, from 0.
    pub ordinal: u64,
    /// Id of the call made there.
    pub call: u32,
    /// The line.
    pub line: Kept,
}

/// Calls towards one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCalls {
    /// Sends to it.
    pub sends: u64,
    /// Receives from it.
    pub recvs: u64,
}

/// One writer's place in a communicator.
#[derive(Clone, Debug)]
pub struct Member {
    /// The communicator.
    pub comm: CommIx,
    /// Who.
    pub writer: WriterIx,
    /// Rank in the communicator; `u32::MAX` if its start was not seen.
    pub rank: u32,
    /// How many ranks the communicator has, as this one says; 0 if its start was not seen.
    pub nranks: u32,
    /// CUDA device.
    pub cuda_dev: u32,
    /// Physical index.
    pub nvml_dev: Option<i32>,
    /// PCI bus id, packed.
    pub bus_id: Option<u64>,
    /// START or COMPLETE was seen, so ordinals count from the first call.
    pub known_start: bool,
    /// Lines are missing since then.
    pub gap: bool,
    /// Calls that NCCL counted between two that were logged: their lines are lost, or one group was
    /// launched in several pieces, on all ranks alike.
    pub leaps: u64,
    /// NCCL's count at the last call.
    last_op: Option<u64>,
    /// COMPLETE was seen.
    pub complete: bool,
    /// `Bootstrap timings` was seen: it met everybody once.
    pub bootstrapped: bool,
    /// `Connected all …` was seen.
    pub connected: bool,
    /// Destroyed.
    pub ended: bool,
    /// Aborted.
    pub aborted: bool,
    /// (hosts, ranks on this host) as NCCL counts them.
    pub nodes: Option<(u32, u32)>,
    /// `isAllDirectP2p`, with its line.
    pub all_direct: Option<(bool, Kept)>,
    /// START.
    pub start_line: Option<Kept>,
    /// COMPLETE.
    pub complete_line: Option<Kept>,
    /// Collectives called.
    pub reached: u64,
    /// The last call.
    pub last_call: Option<Call>,
    /// The last calls' lines.
    pub recent: Ring,
    /// Calls unlike the reference, by ordinal, the first ones.
    pub deviations: Vec<Deviation>,
    /// Point-to-point calls by peer.
    pub peers: FxHashMap<u32, PeerCalls>,
    /// Connections by (from, to), the first line of each.
    pub links: Vec<Link>,
    pub(super) touched: u32,
}

impl Member {
    pub(super) fn new(comm: CommIx, writer: WriterIx, init: &CommInit) -> Self {
        Self {
            rank: init.rank,
            nranks: init.nranks,
            cuda_dev: init.cuda_dev,
            nvml_dev: init.nvml_dev,
            bus_id: Some(init.bus_id),
            known_start: true,
            ..Self::unknown_start(comm, writer)
        }
    }

    pub(super) fn unknown_start(comm: CommIx, writer: WriterIx) -> Self {
        Self {
            comm,
            writer,
            rank: u32::MAX,
            nranks: 0,
            cuda_dev: 0,
            nvml_dev: None,
            bus_id: None,
            known_start: false,
            gap: false,
            leaps: 0,
            last_op: None,
            complete: false,
            bootstrapped: false,
            connected: false,
            ended: false,
            aborted: false,
            nodes: None,
            all_direct: None,
            start_line: None,
            complete_line: None,
            reached: 0,
            last_call: None,
            recent: Ring::default(),
            deviations: Vec::new(),
            peers: FxHashMap::default(),
            links: Vec::new(),
            touched: 0,
        }
    }

    /// Destroyed or aborted.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended || self.aborted
    }

    /// True if its ordinals can be compared with the other members'.
    #[must_use]
    pub fn ordinals_hold(&self) -> bool {
        self.known_start && !self.gap
    }

    /// True if it made any call that was logged.
    #[must_use]
    pub fn called(&self) -> bool {
        self.reached > 0 || !self.peers.is_empty()
    }

    /// Id of the call made at `ordinal`, if that can be known.
    #[must_use]
    pub fn call_at(&self, reference: &[u32], ordinal: u64) -> Option<u32> {
        if ordinal >= self.reached {
            return None;
        }
        if let Some(deviation) = self.deviations.iter().find(|d| d.ordinal == ordinal) {
            return Some(deviation.call);
        }
        let beyond = self.deviations.len() >= limits::DEVIATIONS
            && self
                .deviations
                .last()
                .is_some_and(|last| ordinal > last.ordinal);
        if beyond {
            return None;
        }
        reference.get(usize::try_from(ordinal).ok()?).copied()
    }

    pub(super) fn deviate(&mut self, ordinal: u64, call: u32, line: &Line<'_>) {
        if self.deviations.len() < limits::DEVIATIONS {
            self.deviations.push(Deviation {
                ordinal,
                call,
                line: Kept::now(line),
            });
        }
    }

    /// Takes NCCL's own count of a call.
    pub(super) fn counted(&mut self, op_count: u64) {
        let leap = self
            .last_op
            .map_or(0, |last| op_count.saturating_sub(last.saturating_add(1)));
        self.leaps = self.leaps.saturating_add(leap);
        self.last_op = Some(op_count);
    }

    pub(super) fn peer_call(&mut self, func: Func, peer: u32) {
        if self.peers.len() >= limits::PEERS && !self.peers.contains_key(&peer) {
            self.gap = true;
            return;
        }
        let calls = self.peers.entry(peer).or_default();
        match func {
            Func::Send => calls.sends += 1,
            Func::Recv => calls.recvs += 1,
            _ => {}
        }
    }

    pub(super) fn link(&mut self, from: u32, to: u32, transport: Transport, line: &Line<'_>) {
        let known = self
            .links
            .iter()
            .any(|l| (l.from, l.to, l.transport) == (from, to, transport));
        if !known && self.links.len() < limits::LINKS {
            self.links.push(Link {
                from,
                to,
                transport,
                line: Kept::now(line),
            });
        }
    }
}
