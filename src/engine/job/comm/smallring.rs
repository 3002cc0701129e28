//! The last few lines of a sequence.

use crate::engine::job::kept::Kept;

const LINES: usize = 4;

/// The last four lines, oldest first when iterated.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    lines: Vec<Kept>,
    next: usize,
}

impl Ring {
    /// Adds a line; the oldest one goes.
    pub fn push(&mut self, line: Kept) {
        if self.lines.len() < LINES {
            self.lines.push(line);
        } else {
            self.lines[self.next] = line;
        }
        self.next = (self.next + 1) % LINES;
    }

    /// The lines, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Kept> {
        let n = self.lines.len();
        (0..n)
            .map(move |back| &self.lines[(self.next + LINES - 1 - back) % LINES.max(1) % n.max(1)])
    }
}

impl<'a> IntoIterator for &'a mut Ring {
    type Item = &'a mut Kept;
    type IntoIter = std::slice::IterMut<'a, Kept>;

    fn into_iter(self) -> Self::IntoIter {
        self.lines.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ids::SourceId;
    use crate::engine::line::Place;

    #[test]
    fn newest_come_first() {
        let mut ring = Ring::default();
        let numbers = |ring: &Ring| {
            ring.newest_first()
                .map(|k| k.place.number)
                .collect::<Vec<_>>()
        };
        for number in 1..=6 {
            let place = Place {
                source: SourceId(0),
                number,
                offset: 0,
                len: 0,
            };
            let mut kept = Kept { place, text: None };
            kept.fill(0, b"");
            ring.push(kept);
            let expected: Vec<u64> = (1..=number).rev().take(LINES).collect();
            assert_eq!(numbers(&ring), expected);
        }
    }
}
