//! Dumps of PyTorch's Flight Recorder: what each rank's process groups were asked to do, and what came of it.
//!
//! The recorder is a ring of the last calls of a process (2,000 by default since PyTorch 2.11, off before). Its
//! dump is a pickle or JSON; formats 1.x (2.2, 2.3) to 2.10 (2.15) differ in few fields. A dump does not say
//! which rank wrote it: its file's name does.

mod calls;
mod fields;
mod json;
mod pickle;
mod tree;

pub use calls::{Call, CallIx, Common, Frame, Peers, RankList, StackIx};

/// Why a dump cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    /// No byte in it.
    #[error("it is empty: the process ended before it could write its dump")]
    Empty,
    /// Its file cannot be read or unpacked.
    #[error("{0}")]
    Unreadable(String),
    /// It ends in the middle of a value.
    #[error(
        "it is cut off after {at} bytes: the process ended while it wrote, or the copy is incomplete"
    )]
    Cut {
        /// Bytes there are.
        at: usize,
    },
    /// An opcode that no dump has.
    #[error(
        "byte {at} is the opcode {name} ({code:#04x}), which no Flight Recorder dump has; nothing was executed"
    )]
    Refused {
        /// Python's name of it.
        name: &'static str,
        /// The byte.
        code: u8,
        /// Where it stands.
        at: usize,
    },
    /// Opcodes that make no sense.
    #[error("it is no valid pickle at byte {at}: {why}")]
    Broken {
        /// Where.
        at: usize,
        /// What is wrong there.
        why: &'static str,
    },
    /// A bound.
    #[error("it holds more than {most} {what}, which no Flight Recorder dump does")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// The bound.
        most: usize,
    },
    /// Not JSON.
    #[error("it is no valid JSON: {0}")]
    Json(String),
    /// Something else.
    #[error("it is no Flight Recorder dump: {0}")]
    NotADump(&'static str),
}

/// How far a call got, as its own process saw it. Gloo's are `Scheduled` whatever became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Progress {
    /// Put into the queue; its kernel has not begun.
    Scheduled,
    /// Its kernel runs: it waits for the others or moves data.
    Started,
    /// Its kernel is through.
    Completed,
}

impl Progress {
    /// The recorder's own word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Started => "started",
            Self::Completed => "completed",
        }
    }
}

/// One recorded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the process; the first one kept is above 0 once the ring has wrapped.
    pub record_id: u32,
    /// Index into [`Dump::groups`].
    pub group: u32,
    /// Collectives of the group up to this one, from 1: the same on all ranks.
    pub seq: u32,
    /// Point-to-point calls likewise.
    pub p2p_seq: u32,
    /// Logical operations of the group, the parts of coalesced ones included.
    pub op_id: u32,
    /// A send or recv, or a coalesced group of them.
    pub is_p2p: bool,
    /// What was called.
    pub call: CallIx,
    /// From where, if stacks were recorded.
    pub stack: Option<StackIx>,
    /// How far it got.
    pub progress: Progress,
    /// The watchdog has let go of it: done, or given up.
    pub retired: bool,
    /// When it was called, in nanoseconds since the Unix epoch of its host's clock; 0 if unknown.
    pub created_ns: u64,
    /// How long the watchdog waits for it, in milliseconds; 0 if unknown.
    pub timeout_ms: u32,
}

/// A process group that a dump knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The process's own number for it: not comparable between ranks.
    pub pg_id: Option<i64>,
    /// Its name, the same on its ranks (`0`); empty if unknown.
    pub name: String,
    /// What the program calls it (`default_pg`); empty if nothing.
    pub desc: String,
    /// `nccl`, `gloo`; empty if nothing was called on it.
    pub backend: String,
    /// World ranks, in the order of their rank in the group.
    pub ranks: Option<RankList>,
    /// The number of the last call that was enqueued, by `pg_status` (PyTorch 2.5 and later). It counts sends and recvs
    /// by their own numbers, so that it is a collective's only in a group without any.
    pub enqueued: Option<u32>,
}

/// One dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The format's version (`2.10`).
    pub version: String,
    /// The communication library's version; empty for Gloo.
    pub library: String,
    /// The rank, where the dump itself says so.
    pub rank: Option<u32>,
    /// Process groups.
    pub groups: Vec<Group>,
    /// Calls, oldest first.
    pub entries: Vec<Entry>,
    /// Older calls of the process that the ring had no room for, and entries left out here because of a bound.
    pub dropped: u64,
    /// Of these, the oldest ones that were left out because this dump names the same lists again and again.
    pub unread: usize,
    /// The ranks of every group of the process that it lists, named or not.
    pub mentioned: Vec<RankList>,
    /// Its bytes, where they end before it does: the newest calls are missing, and nobody knows how many.
    pub cut: Option<usize>,
}

/// Reads a dump of any version, pickled or JSON. Texts and calls are shared with other dumps through `common`.
///
/// Of a dump that is cut, the calls in front of the cut are read.
///
/// # Errors
/// If it is no dump, cut before its first call, or holds what no dump holds; `common` may then have grown.
pub fn read(bytes: &[u8], common: &mut Common) -> Result<Dump, DumpError> {
    if bytes.len() > crate::engine::limits::DUMP_BYTES {
        return Err(DumpError::TooMuch {
            what: "bytes",
            most: crate::engine::limits::DUMP_BYTES,
        });
    }
    let values = match bytes.iter().find(|b| !b.is_ascii_whitespace()) {
        None => return Err(DumpError::Empty),
        Some(0x80) => pickle::read(bytes)?,
        Some(b'{') => json::read(bytes)?,
        Some(_) => return Err(DumpError::NotADump("it is neither a pickle nor JSON")),
    };
    let dump = fields::read(&values.tree, values.top, common);
    if !values.cut {
        return dump;
    }
    let at = bytes.len();
    match dump {
        Ok(dump) if !dump.entries.is_empty() => Ok(Dump {
            cut: Some(at),
            ..dump
        }),
        _ => Err(DumpError::Cut { at }),
    }
}

/// True if a file that begins like this may be a dump: a pickle or JSON with the recorder's words in it.
#[must_use]
pub fn looks_like(head: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(head, word).is_some();
    let text = head.trim_ascii_start();
    match text.first() {
        Some(0x80) if text.get(1).is_some_and(|p| (2..=5).contains(p)) => {
            has(b"pg_config") || has(b"entries") || has(b"nccl_comm_state")
        }
        Some(b'{') => {
            let entry = has(b"\"record_id\"") && has(b"\"profiling_name\"");
            entry || has(b"\"pg_config\"") && (has(b"\"pg_status\"") || has(b"\"nccl_comm_state\""))
        }
        _ => false,
    }
}
