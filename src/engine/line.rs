//! A line, after its prefixes were taken off and before anybody knows what it means.

use super::ids::{SourceId, WriterIx};
use super::memo::TextId;
use super::vocab::LineClass;

/// Where a line stands: enough to read it again and to show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The source.
    pub source: SourceId,
    /// Line number in the source, from 1 (counted since the last rotation or truncation).
    pub number: u64,
    /// Offset of the line's first byte in the source.
    pub offset: u64,
    /// Length in bytes, without the line end; [`super::limits::LINE_BYTES`] at most.
    pub len: u32,
}

/// One line and its writer. Borrows from the chunk it came in wherever it can.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Where it stands.
    pub place: Place,
    /// Who wrote it.
    pub writer: WriterIx,
    /// What kind of line it is.
    pub class: LineClass,
    /// The line as it is in the source (cut at the limit, no line end), prefixes and colours included.
    pub raw: &'a [u8],
    /// The line without launcher prefixes, container wrapping and colours.
    pub text: &'a [u8],
    /// What the writer says: behind `NCCL INFO `, `NCCL WARN `, `file.cpp:12] `; else the same as `text`.
    pub message: &'a [u8],
    /// The header in front of `message`.
    pub head: Head<'a>,
    /// Its message came before, with a head of the same kind.
    pub known: Option<TextId>,
    /// Its end is missing: other output begins in the middle of it.
    pub torn: bool,
}

/// The header that `message` was found behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head<'a> {
    /// NCCL's (`src/debug.cc`, every version).
    Nccl(NcclHead<'a>),
    /// PyTorch's C++ log (`c10/util/Logging.cpp`), glog's, or its Python log.
    C10d(C10dHead<'a>),
    /// None.
    Plain,
}

/// `[stamp] host:pid:tid [dev] file:line (func) NCCL …`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcclHead<'a> {
    /// Host name up to its first dot.
    pub host: &'a [u8],
    /// Process id in its namespace.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The CUDA device current in the printing thread; any integer, never a rank.
    pub dev: Option<i64>,
    /// Source file and line (WARN only).
    pub location: Option<(&'a [u8], u32)>,
    /// NCCL's own stamp, as text (WARN only by default, 2.26 and later).
    pub stamp: Option<&'a [u8]>,
}

/// `[rankN]:[E1130 19:43:01.954264601 File.cpp:2949] …`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct C10dHead<'a> {
    /// World rank from `[rankN]:` in front.
    pub rank: Option<u32>,
    /// `I`, `W`, `E` or `F`.
    pub level: u8,
    /// Source file and line.
    pub location: (&'a [u8], u32),
    /// Month-day and time of day, as text; fractions of a second are not wall clock in C++ lines.
    pub stamp: Option<&'a [u8]>,
}
