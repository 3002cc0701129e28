//! Where each writer's recent lines stand and in which order they came, for the log screen.

use std::collections::{BinaryHeap, VecDeque};

use super::ids::{SourceId, WriterIx};
use super::limits;
use super::line::{Line, Place};

/// Whose lines are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of these ranks.
    Ranks(Vec<u32>),
    /// Everybody's, writers whose rank is not known among them.
    All,
}

impl Whose {
    /// How many lines are kept together.
    #[must_use]
    pub fn limit(&self) -> usize {
        match self {
            Self::Ranks(ranks) if ranks.len() < 2 => limits::RECENT_LINES,
            _ => limits::MERGED_LINES,
        }
    }
}

/// A line that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where it stands.
    pub place: Place,
    /// The world rank that wrote it, if known.
    pub rank: Option<u32>,
}

/// Rings of places, by writer.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    rings: Vec<Ring>,
    /// Lines so far, of all writers.
    count: u64,
}

#[derive(Clone, Debug, Default)]
struct Ring {
    /// All lines of a writer are of one source.
    source: Option<SourceId>,
    lines: VecDeque<Entry>,
}

/// A place, packed: there may be thousands for each of thousands of ranks.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    offset: u64,
    /// Which line it is over all writers, and its length.
    order: u64,
}

/// Bits of an order that hold the length.
const LEN: u32 = 16;
const _: () = assert!(limits::LINE_BYTES < 1 << LEN);

impl Entry {
    fn place(self, source: SourceId) -> Place {
        Place {
            source,
            number: self.number,
            offset: self.offset,
            len: (self.order & ((1 << LEN) - 1)) as u32,
        }
    }
}

impl Recent {
    pub(super) fn push(&mut self, line: &Line<'_>) {
        self.keep(line.writer, line.place);
    }

    fn keep(&mut self, writer: WriterIx, place: Place) {
        let ix = writer.ix();
        if self.rings.len() <= ix {
            self.rings.resize_with(ix + 1, Ring::default);
        }
        let ring = &mut self.rings[ix];
        if ring.lines.len() >= limits::RECENT_LINES {
            ring.lines.pop_front();
        }
        self.count += 1;
        ring.source = Some(place.source);
        ring.lines.push_back(Entry {
            number: place.number,
            offset: place.offset,
            order: self.count << LEN | u64::from(place.len),
        });
    }

    /// Drops the places in a source whose bytes are gone: the same offsets mean other lines now.
    pub(super) fn forget(&mut self, source: SourceId) {
        for ring in &mut self.rings {
            if ring.source == Some(source) {
                ring.lines.clear();
            }
        }
    }

    /// The newest lines of several writers, `limit` at most, in the order in which they came; none older
    /// than `since`, if that is among them.
    pub(super) fn newest(
        &self,
        writers: impl Iterator<Item = (WriterIx, Option<u32>)>,
        limit: usize,
        since: Option<Place>,
    ) -> Vec<Kept> {
        // The last line of every ring, then always the line before the one that was taken.
        let mut ends = BinaryHeap::new();
        for (writer, rank) in writers {
            let ring = self.rings.get(writer.ix());
            if let Some((ring, at)) = ring.and_then(|r| Some((r, r.lines.len().checked_sub(1)?))) {
                ends.push((ring.lines[at].order, writer.ix(), at, rank));
            }
        }
        let mut kept = Vec::new();
        while let Some((_, ix, at, rank)) = ends.pop() {
            if kept.len() == limit {
                break;
            }
            let ring = &self.rings[ix];
            let Some(source) = ring.source else { continue };
            let place = ring.lines[at].place(source);
            kept.push(Kept { place, rank });
            if Some(place) == since {
                break;
            }
            if let Some(before) = at.checked_sub(1) {
                ends.push((ring.lines[before].order, ix, before, rank));
            }
        }
        kept.reverse();
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(source: u32, number: u64) -> Place {
        Place {
            source: SourceId(source),
            number,
            offset: number * 10,
            len: 9,
        }
    }

    fn writer(ix: usize) -> (WriterIx, Option<u32>) {
        (WriterIx::from_ix(ix), Some(ix as u32))
    }

    /// Two writers that take turns.
    fn two() -> Recent {
        let mut recent = Recent::default();
        for number in 1..=5 {
            recent.keep(WriterIx(0), place(0, number));
            recent.keep(WriterIx(1), place(1, number));
        }
        recent
    }

    fn numbers(kept: &[Kept]) -> Vec<(u32, u64)> {
        kept.iter()
            .map(|k| (k.rank.unwrap_or(99), k.place.number))
            .collect()
    }

    #[test]
    fn places_in_a_file_that_was_rotated_are_forgotten_and_others_stay() {
        let mut recent = two();
        recent.forget(SourceId(0));
        let kept = recent.newest([writer(0), writer(1)].into_iter(), 2, None);
        assert_eq!(numbers(&kept), [(1, 4), (1, 5)]);
        assert_eq!(kept[1].place, place(1, 5));
    }

    #[test]
    fn lines_of_several_writers_come_in_the_order_of_their_arrival() {
        let recent = two();
        let both = || [writer(0), writer(1)].into_iter();
        let newest = recent.newest(both(), 3, None);
        assert_eq!(numbers(&newest), [(1, 4), (0, 5), (1, 5)]);
        let since = recent.newest(both(), 99, Some(place(0, 4)));
        assert_eq!(numbers(&since), [(0, 4), (1, 4), (0, 5), (1, 5)]);
        assert_eq!(recent.newest(both(), 99, None).len(), 10);
    }
}
