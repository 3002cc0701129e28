//! The only door into the engine.

use std::time::Duration;

use super::gpu::GpuSample;
use super::ids::SourceId;

/// Nanoseconds since the Unix epoch, as the source that saw the input measured them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The time that passed since `earlier`, zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// What kind of stream a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// A file that is read once (a saved log).
    File,
    /// A file that is followed while it grows.
    Tail,
    /// Standard input.
    Stdin,
    /// Output of a command started by unhang.
    Child,
    /// Answers of NCCL RAS, saved or asked for, or what it tells by itself.
    Ras,
    /// A file with a dump of PyTorch's Flight Recorder.
    Dump,
}

/// Everything known about a source before its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// The id that its bytes carry.
    pub id: SourceId,
    /// The name shown to people: a path relative to what was asked for, or `stdin`.
    pub name: String,
    /// What kind of stream it is.
    pub kind: SourceKind,
    /// The host, if whoever opened the source knows it.
    pub host: Option<String>,
    /// The process, if known.
    pub pid: Option<u32>,
    /// The world rank, if known for certain (a file's name is only a hint and is not given here).
    pub rank: Option<u32>,
}

/// Why a source ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// A saved file was read to its end: says nothing about the process.
    Eof,
    /// A pipe was closed by its writers: they ended.
    Closed,
    /// The process that wrote it is gone.
    ProcessGone,
    /// Reading it failed; the text says why.
    Unreadable,
}

/// The state of a process as the operating system tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// Runs or sleeps.
    Running,
    /// Stopped by a signal (T).
    Stopped,
    /// Waits in the kernel (D).
    Uninterruptible,
    /// Ended, not yet reaped.
    Zombie,
    /// No such process any more.
    Gone,
    /// Held by a debugger (t).
    Traced,
}

/// What a process does, as far as it was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLoad {
    /// CPU time since the last look, in percent of one core.
    pub cpu_percent: Option<u32>,
    /// Its threads.
    pub threads: Option<u32>,
    /// Those that NCCL named, which it does with NCCL_SET_THREAD_NAME=1.
    pub nccl_threads: Option<u32>,
}

/// One thing that the outside tells the engine.
///
/// A journal is these, one after another, each with the time it was seen. Further kinds join here as
/// variants; a journal's reader skips and counts kinds it does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// A new source; must come before its bytes.
    Source(SourceInfo),
    /// Bytes of a source. `offset` is where the chunk starts in the source.
    Bytes {
        /// The source.
        source: SourceId,
        /// Bytes of the source before this chunk.
        offset: u64,
        /// The bytes, cut anywhere.
        chunk: &'a [u8],
    },
    /// A whole dump of PyTorch's Flight Recorder; a later one of the same source replaces it.
    Dump {
        /// The source.
        source: SourceId,
        /// The file, unpacked.
        bytes: &'a [u8],
    },
    /// The file was replaced by a new one under the same name; offsets start again.
    Rotated(SourceId),
    /// The file became shorter; offsets start again.
    Truncated(SourceId),
    /// No more bytes will come.
    Ended {
        /// The source.
        source: SourceId,
        /// Why.
        why: EndReason,
        /// For [`EndReason::Unreadable`]: the error.
        detail: Option<String>,
    },
    /// A whole answer of NCCL RAS, text or JSON; a later one of the same source replaces it. Or whole lines of its
    /// monitor mode, which follow those before.
    Ras {
        /// The source.
        source: SourceId,
        /// What was answered, or what came instead of an answer.
        reply: &'a [u8],
    },
    /// A process was seen in this state.
    Process {
        /// Host name as the process prints it.
        host: String,
        /// Process id on that host.
        pid: u32,
        /// What was seen.
        state: ProcessState,
        /// What it does.
        load: ProcessLoad,
    },
    /// The GPUs of a host said this of themselves.
    Gpu {
        /// Host name as the processes print it.
        host: String,
        /// What they said.
        sample: Box<GpuSample>,
    },
    /// The user says that the job stands still (`--stuck`), for this long if given.
    Claim {
        /// How long the user has watched it.
        stuck_for: Option<Duration>,
    },
    /// Time passed and nothing else happened. What comes after the first tick was written while
    /// somebody watched; what was there before, at any time.
    Tick,
}
