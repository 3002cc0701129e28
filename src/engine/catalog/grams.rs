//! Finds every literal of a set in a message, at a cost that does not grow with their number.
//!
//! A literal of eleven bytes or more covers one whole group of eight that begins at a multiple of
//! four, wherever the literal itself begins. So four groups of each literal, one for each way it can
//! lie, go into a table with a bitmap in front of it; every fourth byte of a text is one look at the
//! bitmap, and only a group that is in the table is compared with its literals. Shorter literals do
//! the same with groups of four, and those that are too short for that are searched one by one.

use memchr::memmem::Finder;

/// Bytes from group to group.
const STEP: usize = 4;
/// Bytes of a literal that covers a group of eight, or of four, however it lies.
const SPAN: usize = 8 + STEP - 1;
const SHORT_SPAN: usize = 4 + STEP - 1;
/// Bits of a bitmap, as a power of two: few enough for the nearest cache. A group sets two of them, so
/// that a thousand literals leave one group in a thousand to be taken for one of theirs.
const BITS: u32 = 16;

/// A set of literals.
#[derive(Clone, Debug)]
pub(super) struct Grams {
    eights: Table,
    fours: Table,
    /// Literals that are too short for either.
    tiny: Vec<(Finder<'static>, u32)>,
    literals: Vec<Box<[u8]>>,
}

impl Grams {
    /// The set of these; [`Grams::find`] tells them by their place in the list.
    pub(super) fn new(literals: &[&[u8]]) -> Self {
        let (mut eights, mut fours) = (Vec::new(), Vec::new());
        let mut tiny = Vec::new();
        for (literal, number) in literals.iter().zip(0_u32..) {
            if let Some(at) = rarest(literal, SPAN) {
                let groups = literal[at..at + SPAN].windows(8).zip(at..);
                eights.extend(groups.filter_map(|(group, at)| {
                    let key = u64::from_le_bytes(*group.first_chunk()?);
                    Some(Group { key, number, at })
                }));
            } else if let Some(at) = rarest(literal, SHORT_SPAN) {
                let groups = literal[at..at + SHORT_SPAN].windows(4).zip(at..);
                fours.extend(groups.filter_map(|(group, at)| {
                    let key = u32::from_le_bytes(*group.first_chunk()?).into();
                    Some(Group { key, number, at })
                }));
            } else {
                tiny.push((Finder::new(literal).into_owned(), number));
            }
        }
        Self {
            eights: Table::new(eights),
            fours: Table::new(fours),
            tiny,
            literals: literals.iter().map(|literal| (*literal).into()).collect(),
        }
    }

    /// Hands out every literal that is in the text, once for each place or once in all.
    #[inline]
    pub(super) fn find(&self, text: &[u8], found: &mut dyn FnMut(usize)) {
        let mut at = 0;
        while let Some(group) = text[at..].first_chunk() {
            let group = u64::from_le_bytes(*group);
            if self.eights.may_have(group) {
                self.compare(&self.eights, group, text, at, found);
            }
            let four = group & 0xffff_ffff;
            if self.fours.may_have(four) {
                self.compare(&self.fours, four, text, at, found);
            }
            at += STEP;
        }
        if let Some(group) = text[at..].first_chunk() {
            let four = u32::from_le_bytes(*group).into();
            if self.fours.may_have(four) {
                self.compare(&self.fours, four, text, at, found);
            }
        }
        for (finder, number) in &self.tiny {
            if finder.find(text).is_some() {
                found(*number as usize);
            }
        }
    }

    /// Compares the literals of a group that stands at `at`.
    #[cold]
    fn compare(
        &self,
        table: &Table,
        key: u64,
        text: &[u8],
        at: usize,
        found: &mut dyn FnMut(usize),
    ) {
        for group in table.of(key) {
            let number = group.number as usize;
            let is_there = at
                .checked_sub(group.at)
                .is_some_and(|start| text[start..].starts_with(&self.literals[number]));
            if is_there {
                found(number);
            }
        }
    }
}

/// Some bytes of a literal.
#[derive(Clone, Copy, Debug)]
struct Group {
    key: u64,
    /// Which literal.
    number: u32,
    /// Where in it.
    at: usize,
}

/// Groups by their bytes.
#[derive(Clone, Debug)]
struct Table {
    /// Two bits for each group.
    bits: Box<[u64]>,
    /// Sorted by key.
    groups: Vec<Group>,
}

impl Table {
    fn new(mut groups: Vec<Group>) -> Self {
        let mut bits = vec![0; 1 << (BITS - 6)].into_boxed_slice();
        for group in &groups {
            for bit in places(group.key) {
                bits[bit / 64] |= 1 << (bit % 64);
            }
        }
        groups.sort_by_key(|group| (group.key, group.number));
        Self { bits, groups }
    }

    #[inline]
    fn may_have(&self, key: u64) -> bool {
        let set = |bit: usize| self.bits[bit / 64] >> (bit % 64) & 1 != 0;
        let [first, second] = places(key);
        set(first) && set(second)
    }

    fn of(&self, key: u64) -> impl Iterator<Item = &Group> {
        let from = self.groups.partition_point(|group| group.key < key);
        self.groups[from..]
            .iter()
            .take_while(move |group| group.key == key)
    }
}

/// The bits of a group.
#[inline]
fn places(group: u64) -> [usize; 2] {
    let hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let second = hash >> (64 - 2 * BITS) & ((1 << BITS) - 1);
    [(hash >> (64 - BITS)) as usize, second as usize]
}

/// Where the part of a literal begins that is rarest in logs; `None` if it is shorter than that.
fn rarest(literal: &[u8], span: usize) -> Option<usize> {
    let spans = literal.windows(span).enumerate();
    spans
        .min_by_key(|(_, span)| commonness(span))
        .map(|(at, _)| at)
}

/// How common a text is likely to be in logs; smaller is rarer.
fn commonness(text: &[u8]) -> u32 {
    let of = |byte: &u8| match byte {
        b'e' | b'a' | b'o' | b't' | b'i' | b'n' | b's' | b'r' => 8,
        b' ' | b'0' | b'1' | b'/' | b'.' => 7,
        b'l' | b'd' | b'c' | b'u' | b'm' | b'p' | b'_' | b'2'..=b'9' => 6,
        b'f' | b'g' | b'h' | b'y' | b'b' | b'w' | b'v' | b'-' | b':' | b'=' => 5,
        b'A'..=b'Z' | b',' | b'(' | b')' | b'"' => 4,
        _ => 3,
    };
    text.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(grams: &Grams, text: &[u8]) -> Vec<usize> {
        let mut all = Vec::new();
        grams.find(text, &mut |number| all.push(number));
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn a_literal_is_found_wherever_it_lies() {
        let literals: [&[u8]; 6] = [
            b" died",
            b"exitcode",
            b"death signal, shutting down workers",
            b"Broken pipe",
            b"signal, shutting",
            b"pipe",
        ];
        let grams = Grams::new(&literals);
        for (number, literal) in literals.iter().enumerate() {
            for before in 0..9 {
                let text = [&b"........."[..before], literal, b"~~"].concat();
                let all = found(&grams, &text);
                let contains = |l: &[u8]| text.windows(l.len()).any(|w| w == l);
                let expected: Vec<usize> = (0..literals.len())
                    .filter(|n| contains(literals[*n]))
                    .collect();
                assert!(all.contains(&number));
                assert_eq!(all, expected, "{before} before {literal:?}");
                assert!(found(&grams, &text[..before + literal.len()]).contains(&number));
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_literal_is_none() {
        let literals: [&[u8]; 3] = [
            b" died",
            b"exitcode",
            b"death signal, shutting down workers",
        ];
        let grams = Grams::new(&literals);
        for text in [
            &b"step 12 loss 3.14159"[..],
            b"halt code",
            b"dead",
            b"",
            b"exitcodX",
            b"eath signal, shutting down workers",
            b"death signal, shutting down worker",
        ] {
            assert!(found(&grams, text).is_empty(), "{text:?}");
        }
    }
}
