//! The first look at a message: four bytes at a time, is any of them part of a literal?
//!
//! A literal of seven bytes or more covers one whole group of four, wherever it begins. So four
//! groups of each literal, one for each way it can lie, go into a bitmap; a text none of whose groups
//! is in the bitmap holds no literal. The cost does not grow with the number of literals.

use memchr::memmem::Finder;

/// Bytes of a group.
const GROUP: usize = 4;
/// Bytes of a literal that covers a group however it lies.
const SPAN: usize = 2 * GROUP - 1;
/// Bits of the bitmap, as a power of two: few enough for the nearest cache.
const BITS: u32 = 15;

/// Tells quickly that no literal is in a text.
#[derive(Clone, Debug)]
pub(super) struct Grams {
    bitmap: Box<[u64]>,
    /// Literals that are too short for it.
    short: Vec<Finder<'static>>,
}

impl Grams {
    pub(super) fn new(literals: &[&[u8]]) -> Self {
        let mut short: Vec<&[u8]> = Vec::new();
        let mut bitmap = vec![0; 1 << (BITS - 6)].into_boxed_slice();
        for literal in literals {
            let rarest = literal.windows(SPAN).min_by_key(|span| commonness(span));
            match rarest {
                Some(span) => {
                    for group in span.windows(GROUP) {
                        let bit = place(group);
                        bitmap[bit / 64] |= 1 << (bit % 64);
                    }
                }
                None => short.push(literal),
            }
        }
        short.sort_unstable();
        short.dedup();
        let short = short
            .into_iter()
            .map(|literal| Finder::new(literal).into_owned())
            .collect();
        Self { bitmap, short }
    }

    /// False if no literal is in the text.
    pub(super) fn may_be_in(&self, text: &[u8]) -> bool {
        let known = |group: &[u8]| {
            let bit = place(group);
            self.bitmap[bit / 64] >> (bit % 64) & 1 != 0
        };
        text.chunks_exact(GROUP).any(known) || self.short.iter().any(|f| f.find(text).is_some())
    }
}

/// The bit of a group.
fn place(group: &[u8]) -> usize {
    let group = u32::from_ne_bytes(group.try_into().expect("a group has four bytes"));
    (group.wrapping_mul(0x9e37_79b1) >> (32 - BITS)) as usize
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
        for text in [&b"step 12 loss 3.14159"[..], b"exit code", b"dead", b""] {
            assert!(!grams.may_be_in(text), "{text:?}");
        }
    }
}
