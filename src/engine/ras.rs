//! What NCCL RAS answers: the communicators of a job, and how many collectives each rank has launched.
//!
//! RAS counts launches of five functions on the host and compares nothing else: not counts of elements,
//! data types, operations or roots, not Send and Recv, not what the GPU has finished. Equal counts are
//! therefore no sign of health. It knows a communicator only once its ranks have met, and a process by
//! its pid and the address it bootstraps on. Text since NCCL 2.24.3, JSON since 2.28.7
//! (`src/ras/client_support.cc`).

pub mod events;
mod json;
mod text;

use super::ids::SourceId;
use super::job::Kept;
use super::line::Place;

/// Bytes of one answer; what is longer is refused. 16,384 ranks of one communicator are some 7 MB of
/// JSON.
pub const REPLY_BYTES: usize = 24 << 20;

/// Communicators of one answer that are looked at; the others are counted.
const COMMS: usize = 1024;

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// NCCL's version, as printed.
    pub nccl: Option<String>,
    /// Communicators that it tells something about. The text names only those with an error or a
    /// difference; [`Reply::total`] counts all.
    pub comms: Vec<RasComm>,
    /// Communicators in all.
    pub total: u64,
    /// Ranks of the largest communicator.
    pub largest: u32,
    /// GPUs of the job, each a rank; 0 if not told.
    pub gpus: u32,
    /// The processes of a communicator that spans them, whatever it tells of them; the text lists only those that
    /// differ.
    pub whole: Vec<Process>,
    /// Processes that did not answer.
    pub lost: Vec<Process>,
    /// Processes given up as dead after 60 s of silence.
    pub dead: Vec<Process>,
    /// Times that RAS itself waited in vain for an answer: somebody holds a connection and is silent.
    pub timeouts: u64,
    /// When it was made, as printed (JSON: local time of the server, whole seconds).
    pub stamp: Option<String>,
}

impl Reply {
    /// Ranks of the world, if a communicator of this answer spans it: only then are its ranks those of the world.
    #[must_use]
    pub fn world(&self) -> Option<u32> {
        Some(self.largest).filter(|largest| *largest >= self.gpus)
    }
}

/// A communicator in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RasComm {
    /// commHash: the commId of log lines since 2.26.2.
    pub hash: u64,
    /// Its size, if told.
    pub nranks: Option<u32>,
    /// Functions that its ranks have launched unequally often.
    pub counts: Vec<Counts>,
    /// Ranks that no data came from.
    pub missing: Vec<Process>,
    /// Ranks with an error, and its words.
    pub errors: Vec<(Process, String)>,
    /// Ranks by their status (`INIT`, `RUNNING`, …), where they differ.
    pub states: Vec<(Process, String)>,
}

/// Launches of one function, the ranks grouped by how many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `AllReduce`; empty where RAS counts all functions together (2.24, 2.25).
    pub function: String,
    /// Groups in the order of the answer.
    pub sides: Vec<Side>,
}

/// Ranks that launched a function equally often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Launches.
    pub launched: u64,
    /// Its ranks in number.
    pub size: u32,
    /// Its ranks; empty where the text only counts them.
    pub ranks: Vec<Process>,
    /// The line that tells of it.
    pub line: Option<Kept>,
}

/// A rank of a communicator, or a process, as RAS names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// Process id in its namespace.
    pub pid: Option<u32>,
    /// The address that it bootstraps on.
    pub node: Option<String>,
    /// No answer came from it; `Some(false)`: it answered that it is not in that communicator.
    pub unresponsive: Option<bool>,
    /// Given up as dead.
    pub dead: bool,
    /// The line that tells of it.
    pub line: Option<Kept>,
}

impl Process {
    /// It is alive and told so: it has only left this communicator, or not come yet.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.unresponsive == Some(false) && !self.dead
    }
}

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing came.
    #[error("the answer is empty")]
    Empty,
    /// More than [`REPLY_BYTES`].
    #[error("the answer is longer than {} MiB", REPLY_BYTES >> 20)]
    TooLong,
    /// The server refused.
    #[error("the server answered: {0}")]
    Server(String),
    /// It ends before its end.
    #[error("the answer is cut off: {0}")]
    Cut(String),
    /// An answer, but not in a form that is known.
    #[error("it is an answer of NCCL RAS in a form that is not known: {0}")]
    Unlike(String),
    /// Something else.
    #[error("it is no answer of NCCL RAS")]
    Foreign,
}

/// Understands an answer, text or JSON. `source` is where its lines stand for evidence.
///
/// # Errors
/// If it is no whole answer.
pub fn parse(source: SourceId, reply: &[u8]) -> Result<Reply, Refused> {
    if reply.len() > REPLY_BYTES {
        return Err(Refused::TooLong);
    }
    let (skipped, body) = body(reply)?;
    let at = Lines {
        source,
        offset: skipped.len() as u64,
        number: memchr::memchr_iter(b'\n', skipped).count() as u64,
    };
    if body.starts_with(b"{") {
        json::parse(at, body)
    } else {
        text::parse(at, body)
    }
}

/// Where the body of an answer stands in its source.
#[derive(Clone, Copy)]
struct Lines {
    source: SourceId,
    offset: u64,
    number: u64,
}

impl Lines {
    /// A line to keep: the `number`th of the body (from 0), at `offset` in it, saying `text`.
    fn keep(self, number: usize, offset: usize, len: usize, text: &[u8]) -> Kept {
        let place = Place {
            source: self.source,
            number: self.number + number as u64 + 1,
            offset: self.offset + offset as u64,
            len: u32::try_from(len).unwrap_or(u32::MAX),
        };
        Kept::at(place, text)
    }
}

/// Skips what a saved session has in front of the report: `SERVER PROTOCOL 2`, `OK`, empty lines.
fn body(reply: &[u8]) -> Result<(&[u8], &[u8]), Refused> {
    let mut rest = reply;
    loop {
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let line = rest[..end].trim_ascii();
        if rest.is_empty() {
            return Err(Refused::Empty);
        }
        if let Some(why) = line.strip_prefix(b"ERROR:") {
            let why = String::from_utf8_lossy(why.get(..200).unwrap_or(why));
            // An older server does not know `SET FORMAT`; its report follows all the same.
            if !why.contains("nknown command") || rest.len() == end {
                return Err(Refused::Server(why.trim().to_owned()));
            }
        } else if !line.is_empty() && line != b"OK" && !line.starts_with(b"SERVER PROTOCOL") {
            return Ok(reply.split_at(reply.len() - rest.len()));
        }
        rest = &rest[end..];
    }
}

#[cfg(test)]
mod tests;
