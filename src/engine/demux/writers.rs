//! The writers of all sources and what is known of each.

use super::classify::Block;
use super::{Hint, Writer};
use crate::engine::ids::{SourceId, WriterIx};
use crate::engine::limits::WRITERS;

/// A [`Hint`] that borrows from the line it was found in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    WorldRank(u32),
    LocalRank(u32),
    EngineRank(u32),
    Node(u32),
    Host(&'a [u8]),
    Address(&'a [u8]),
    Pid(u32),
    Name(&'a [u8]),
}

impl Found<'_> {
    fn is(&self, hint: &Hint) -> bool {
        match (self, hint) {
            (Found::WorldRank(a), Hint::WorldRank(b))
            | (Found::LocalRank(a), Hint::LocalRank(b))
            | (Found::EngineRank(a), Hint::EngineRank(b))
            | (Found::Node(a), Hint::Node(b))
            | (Found::Pid(a), Hint::Pid(b)) => a == b,
            (Found::Host(a), Hint::Host(b))
            | (Found::Address(a), Hint::Address(b))
            | (Found::Name(a), Hint::Name(b)) => *a == b.as_bytes(),
            _ => false,
        }
    }

    fn to_hint(self) -> Hint {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Found::WorldRank(n) => Hint::WorldRank(n),
            Found::LocalRank(n) => Hint::LocalRank(n),
            Found::EngineRank(n) => Hint::EngineRank(n),
            Found::Node(n) => Hint::Node(n),
            Found::Pid(n) => Hint::Pid(n),
            Found::Host(t) => Hint::Host(text(t)),
            Found::Address(t) => Hint::Address(text(t)),
            Found::Name(t) => Hint::Name(text(t)),
        }
    }
}

/// Hints kept of one writer; a hostile stream adds no more.
const HINTS: usize = 32;

#[derive(Clone, Debug, Default)]
pub(super) struct Writers {
    list: Vec<Writer>,
    blocks: Vec<Block>,
    /// Hash of the prefixes that a writer's hints were last taken from.
    taken: Vec<u64>,
}

impl Writers {
    pub(super) fn as_slice(&self) -> &[Writer] {
        &self.list
    }

    /// A new writer; `None` if there are too many.
    pub(super) fn add(&mut self, source: SourceId) -> Option<WriterIx> {
        (self.list.len() < WRITERS).then(|| self.push(source, false))
    }

    /// A source's own writer, which is always given.
    pub(super) fn add_own(&mut self, source: SourceId) -> WriterIx {
        self.push(source, true)
    }

    fn push(&mut self, source: SourceId, is_default: bool) -> WriterIx {
        self.list.push(Writer {
            source,
            hints: Vec::new(),
            is_default,
        });
        self.blocks.push(Block::None);
        self.taken.push(0);
        WriterIx::from_ix(self.list.len() - 1)
    }

    /// True once for every change of the prefixes a writer is seen with.
    pub(super) fn is_news(&mut self, ix: WriterIx, prefixes: u64) -> bool {
        std::mem::replace(&mut self.taken[ix.ix()], prefixes) != prefixes
    }

    pub(super) fn hint(&mut self, ix: WriterIx, found: Found<'_>) {
        if !self.list[ix.ix()].hints.iter().any(|hint| found.is(hint)) {
            self.own_hint(ix, found.to_hint());
        }
    }

    pub(super) fn own_hint(&mut self, ix: WriterIx, hint: Hint) {
        let hints = &mut self.list[ix.ix()].hints;
        if let Err(at) = hints.binary_search(&hint)
            && hints.len() < HINTS
        {
            hints.insert(at, hint);
        }
    }

    /// Takes back that a launcher's number is the world rank: it is the number of a task.
    pub(super) fn rank_is_task(&mut self, ix: WriterIx, label: u32) {
        let hints = &mut self.list[ix.ix()].hints;
        let before = hints.len();
        hints.retain(|hint| *hint != Hint::WorldRank(label));
        if hints.len() != before {
            self.own_hint(ix, Hint::Node(label));
        }
    }

    pub(super) fn block(&mut self, ix: WriterIx) -> &mut Block {
        &mut self.blocks[ix.ix()]
    }
}
