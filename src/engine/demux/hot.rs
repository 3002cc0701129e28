//! Headers that a source has shown before: most lines begin with one of them.

use rustc_hash::FxHashMap;

use super::header::{self, Tail};
use crate::engine::ids::WriterIx;
use crate::engine::vocab::LineClass;

/// What the bytes of a line up to `host:pid:` mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Where the prefixes end.
    pub(super) body: usize,
    pub(super) host: usize,
    pub(super) host_len: usize,
    pub(super) pid: u32,
    pub(super) writer: WriterIx,
    /// The launcher's number in the prefixes.
    pub(super) label: Option<u32>,
}

/// Headers remembered per source before they are forgotten all at once.
const KNOWN: usize = 4_096;

/// The headers that came before: a line with one of them needs no other look at its front.
#[derive(Clone, Debug, Default)]
pub(super) struct Hot {
    last: Vec<u8>,
    last_known: Option<Known>,
    /// Of the line before, if it was an INFO line: its front up to the message.
    whole: Vec<u8>,
    thread: (u32, Option<i64>),
    known: FxHashMap<Box<[u8]>, Known>,
}

impl Hot {
    /// What `line` begins with, and what is behind that, if it begins as the one before.
    #[inline]
    pub(super) fn last<'a>(&mut self, line: &'a [u8]) -> Option<(Known, Tail<'a>)> {
        let known = self.last_known?;
        if !self.whole.is_empty()
            && let Some(behind) = line.strip_prefix(self.whole.as_slice())
        {
            let (tid, dev) = self.thread;
            return Some((
                known,
                Tail {
                    tid,
                    dev,
                    location: None,
                    class: LineClass::NcclInfo,
                    behind,
                },
            ));
        }
        let rest = line.strip_prefix(self.last.as_slice())?;
        Some((known, self.tail(line, rest)?))
    }

    /// The same, if it begins as any before.
    pub(super) fn any<'a>(
        &mut self,
        line: &'a [u8],
        finder: &header::Finder,
    ) -> Option<(Known, Tail<'a>)> {
        if self.known.is_empty() {
            return None;
        }
        let head = finder.head(line)?;
        let known = *self.known.get(head)?;
        self.remember(head, known);
        Some((known, self.tail(line, &line[head.len()..])?))
    }

    /// Reads what is behind `host:pid:`, and remembers it for the next line.
    fn tail<'a>(&mut self, line: &'a [u8], rest: &'a [u8]) -> Option<Tail<'a>> {
        let tail = header::tail(rest)?;
        self.whole.clear();
        if tail.class == LineClass::NcclInfo && tail.location.is_none() {
            self.whole
                .extend_from_slice(&line[..line.len() - tail.behind.len()]);
            self.thread = (tail.tid, tail.dev);
        }
        Some(tail)
    }

    /// Remembers what `head` means.
    pub(super) fn put(&mut self, head: &[u8], known: Known) {
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        self.known.insert(head.into(), known);
        self.remember(head, known);
    }

    fn remember(&mut self, head: &[u8], known: Known) {
        self.last.clear();
        self.last.extend_from_slice(head);
        self.last_known = Some(known);
        self.whole.clear();
    }
}
