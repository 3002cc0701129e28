//! Where each writer's recent lines stand, for the log screen.

use std::collections::VecDeque;

use super::ids::{SourceId, WriterIx};
use super::limits;
use super::line::{Line, Place};

/// Rings of places, by writer.
#[derive(Debug, Default)]
pub(super) struct Recent {
    rings: Vec<VecDeque<Place>>,
}

impl Recent {
    pub(super) fn push(&mut self, line: &Line<'_>) {
        let ix = line.writer.ix();
        if self.rings.len() <= ix {
            self.rings.resize_with(ix + 1, VecDeque::new);
        }
        let ring = &mut self.rings[ix];
        if ring.len() >= limits::RECENT_LINES {
            ring.pop_front();
        }
        ring.push_back(line.place);
    }

    /// Drops the places in a source whose bytes are gone: the same offsets mean other lines now.
    pub(super) fn forget(&mut self, source: SourceId) {
        for ring in &mut self.rings {
            ring.retain(|place| place.source != source);
        }
    }

    /// The lines of several writers, in the order of their sources.
    pub(super) fn of(&self, writers: &[WriterIx]) -> Vec<Place> {
        let rings = writers.iter().filter_map(|w| self.rings.get(w.ix()));
        let mut places: Vec<Place> = rings.flatten().copied().collect();
        places.sort_unstable();
        places.dedup();
        let surplus = places.len().saturating_sub(limits::RECENT_LINES);
        places.split_off(surplus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_a_file_that_was_rotated_are_forgotten_and_others_stay() {
        let place = |source: u32, number: u64| Place {
            source: SourceId(source),
            number,
            offset: number * 10,
            len: 9,
        };
        let mut recent = Recent {
            rings: vec![
                VecDeque::from([place(0, 1), place(1, 1)]),
                VecDeque::from([place(0, 2)]),
            ],
        };
        recent.forget(SourceId(0));
        let writers = [WriterIx::from_ix(0), WriterIx::from_ix(1)];
        assert_eq!(recent.of(&writers), [place(1, 1)]);
    }
}
