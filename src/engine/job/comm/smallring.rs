//! The last few calls of a member, each with its line.

use crate::engine::job::kept::Kept;

const LINES: usize = 16;

/// The ordinal that stands for a point-to-point call, which has none.
pub(in crate::engine::job) const NO_ORDINAL: u64 = u64::MAX;

/// The last sixteen calls.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    lines: Vec<(u64, Kept)>,
    next: usize,
}

impl Ring {
    /// Adds a call; the oldest one goes.
    pub fn push(&mut self, ordinal: u64, line: Kept) {
        if self.lines.len() < LINES {
            self.lines.push((ordinal, line));
        } else {
            self.lines[self.next] = (ordinal, line);
        }
        self.next = (self.next + 1) % LINES;
    }

    /// The last call's line.
    #[must_use]
    pub fn newest(&self) -> Option<&Kept> {
        let last = (self.next + LINES - 1) % LINES;
        self.lines.get(last).map(|(_, line)| line)
    }

    /// The line of the collective with this ordinal, if it is one of the last.
    #[must_use]
    pub fn at(&self, ordinal: u64) -> Option<&Kept> {
        self.lines
            .iter()
            .find(|(n, _)| *n == ordinal)
            .map(|(_, line)| line)
    }

    /// Every line, to fill in its text.
    pub(in crate::engine::job) fn lines_mut(&mut self) -> impl Iterator<Item = &mut Kept> {
        self.lines.iter_mut().map(|(_, line)| line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ids::SourceId;
    use crate::engine::line::Place;

    #[test]
    fn the_last_calls_are_found_by_ordinal() {
        let mut ring = Ring::default();
        assert_eq!(ring.newest(), None);
        for number in 0..40 {
            let place = Place {
                source: SourceId(0),
                number,
                offset: 0,
                len: 0,
            };
            ring.push(number, Kept { place, text: None });
            let newest = ring.newest().map(|k| k.place.number);
            assert_eq!(newest, Some(number));
        }
        let found = |n| ring.at(n).map(|k| k.place.number);
        assert_eq!(
            (found(23), found(24), found(39)),
            (None, Some(24), Some(39))
        );
    }
}
