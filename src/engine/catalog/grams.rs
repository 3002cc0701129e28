//! The first look at a message: every fourth byte on, is what stands there part of a literal?
//!
//! A literal of eleven bytes or more covers one whole group of eight that begins at a multiple of
//! four, wherever the literal itself begins. So four groups of each literal, one for each way it can
//! lie, go into a bitmap; a text none of whose groups is in the bitmap holds no literal. Shorter
//! literals do the same with groups of four. The cost does not grow with the number of literals.

use memchr::memmem::Finder;

/// Bytes from group to group.
const STEP: usize = 4;
/// Bytes of a literal that covers a group of eight, or of four, however it lies.
const SPAN: usize = 8 + STEP - 1;
const SHORT_SPAN: usize = 4 + STEP - 1;
/// Bits of a bitmap, as a power of two: few enough for the nearest cache. A group sets two of them, so
/// that a thousand literals leave one group in a thousand to be taken for one of theirs.
const BITS: u32 = 16;

/// Tells quickly that no literal is in a text.
#[derive(Clone, Debug)]
pub(super) struct Grams {
    eights: Bitmap,
    fours: Bitmap,
    /// Literals that are too short for either.
    tiny: Vec<Finder<'static>>,
}

impl Grams {
    pub(super) fn new(literals: &[&[u8]]) -> Self {
        let (mut eights, mut fours) = (Bitmap::new(), Bitmap::new());
        let mut tiny: Vec<&[u8]> = Vec::new();
        for literal in literals {
            if let Some(span) = rarest(literal, SPAN) {
                let groups = span.windows(8).filter_map(<[u8]>::first_chunk);
                groups.for_each(|group| eights.insert(u64::from_le_bytes(*group)));
            } else if let Some(span) = rarest(literal, SHORT_SPAN) {
                let groups = span.windows(4).filter_map(<[u8]>::first_chunk);
                groups.for_each(|group| fours.insert(u32::from_le_bytes(*group).into()));
            } else {
                tiny.push(literal);
            }
        }
        tiny.sort_unstable();
        tiny.dedup();
        let tiny = tiny
            .into_iter()
            .map(|literal| Finder::new(literal).into_owned())
            .collect();
        Self {
            eights,
            fours,
            tiny,
        }
    }

    /// False if no literal is in the text.
    pub(super) fn may_be_in(&self, text: &[u8]) -> bool {
        let mut rest = text;
        while let Some(group) = rest.first_chunk() {
            let group = u64::from_le_bytes(*group);
            if self.eights.has(group) || self.fours.has(group & 0xffff_ffff) {
                return true;
            }
            rest = &rest[STEP..];
        }
        let last = rest.first_chunk();
        last.is_some_and(|group| self.fours.has(u32::from_le_bytes(*group).into()))
            || self.tiny.iter().any(|f| f.find(text).is_some())
    }
}

/// Two bits for each group.
#[derive(Clone, Debug)]
struct Bitmap(Box<[u64]>);

impl Bitmap {
    fn new() -> Self {
        Self(vec![0; 1 << (BITS - 6)].into_boxed_slice())
    }

    fn insert(&mut self, group: u64) {
        for bit in places(group) {
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    fn has(&self, group: u64) -> bool {
        let set = |bit: usize| self.0[bit / 64] >> (bit % 64) & 1 != 0;
        let [first, second] = places(group);
        set(first) && set(second)
    }
}

/// The bits of a group.
#[inline]
fn places(group: u64) -> [usize; 2] {
    let hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let second = hash >> (64 - 2 * BITS) & ((1 << BITS) - 1);
    [(hash >> (64 - BITS)) as usize, second as usize]
}

/// The part of a literal that is rarest in logs.
fn rarest(literal: &[u8], span: usize) -> Option<&[u8]> {
    literal.windows(span).min_by_key(|span| commonness(span))
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

    #[test]
    fn a_literal_is_seen_wherever_it_lies() {
        let literals: [&[u8]; 4] = [
            b" died",
            b"exitcode",
            b"death signal, shutting down workers",
            b"Broken pipe",
        ];
        let grams = Grams::new(&literals);
        for literal in literals {
            for before in 0..9 {
                let text = [&b"........."[..before], literal, b"~~"].concat();
                assert!(grams.may_be_in(&text), "{before} before {literal:?}");
                assert!(grams.may_be_in(&text[..before + literal.len()]));
            }
        }
        for text in [
            &b"step 12 loss 3.14159"[..],
            b"halt code",
            b"dead",
            b"",
            b"pipe",
        ] {
            assert!(!grams.may_be_in(text), "{text:?}");
        }
    }
}
