//! Whose line is it: launcher prefixes, NCCL headers, and the writers they tell apart.
//!
//! A *writer* is what one source shows of one process: keyed by (source, host as printed, pid)
//! where a line has an NCCL header, else by the launcher's prefix, else the source's own. Several
//! writers can be one process or one rank; the job model joins them by their hints.

use super::ids::SourceId;
use super::input::SourceInfo;
use super::line::Line;

/// Something that says which rank or host a writer is. Strongest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hint {
    /// The world rank: `[rankN]:` of PyTorch, a launcher's global rank (`[1,N]<stdout>:`, `srun -l`,
    /// `rank.N/` of Open MPI), or the source's opener knows it.
    WorldRank(u32),
    /// The local rank on its node: torchrun's tee number or folder.
    LocalRank(u32),
    /// A rank in the engine of vLLM, SGLang or the like (`Worker_TP1`, `VllmWorker rank=1`): the
    /// world rank only if the engine is the world.
    EngineRank(u32),
    /// The node's index (`--node-rank`, a pod's ordinal, `node1.log`).
    Node(u32),
    /// The host, short form.
    Host(String),
    /// The process id.
    Pid(u32),
    /// The single number in a file's name that differs between the files beside it.
    FileNumber(u32),
    /// torchrun's attempt (restart count), from the folder.
    Attempt(u32),
    /// What the launcher calls it (`Worker_TP1`, `RayWorkerWrapper`, `EngineCore`, a role).
    Name(String),
}

/// What one source shows of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The source.
    pub source: SourceId,
    /// What is known of it. Sorted, without duplicates.
    pub hints: Vec<Hint>,
    /// True for the source's own writer: lines that carry no sign of who wrote them.
    pub is_default: bool,
}

/// Splits the bytes of every source into lines with a known writer and class.
#[derive(Debug, Default)]
pub struct Demux {}

impl Demux {
    /// Announces a source. Ids are given by the caller and may come in any order.
    pub fn open(&mut self, _info: &SourceInfo) {}

    /// Takes the next bytes of a source and hands every finished line to `sink`, in order.
    pub fn feed(&mut self, _source: SourceId, _offset: u64, _chunk: &[u8], _sink: &mut dyn FnMut(&Line<'_>, &[Writer])) {}

    /// Ends a source: hands out its unfinished last line, if any.
    pub fn end(&mut self, _source: SourceId, _sink: &mut dyn FnMut(&Line<'_>, &[Writer])) {}

    /// Starts a source again from offset 0 (rotation, truncation); its writers stay.
    pub fn restart(&mut self, _source: SourceId) {}

    /// Every writer, by index.
    #[must_use]
    pub fn writers(&self) -> &[Writer] {
        &[]
    }

    /// Counters of a source.
    #[must_use]
    pub fn counts(&self, _source: SourceId) -> Counts {
        Counts::default()
    }
}

/// What a source held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes taken.
    pub bytes: u64,
    /// Lines finished (empty ones too).
    pub lines: u64,
    /// Bytes cut off lines that were too long.
    pub dropped: u64,
}
