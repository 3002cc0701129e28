//! What was found out about a text before. Most messages of a job are printed by every rank and many
//! again and again (retries, stack traces), so that looking a text up is less work than reading it.
//!
//! The answers kept here follow from the text alone, so whether one is remembered changes nothing.

use std::hash::Hasher;

use rustc_hash::FxHasher;

/// Places for texts; a new one takes the place of the one that was there.
const PLACES: usize = 1 << 12;
/// Longer texts are seldom the same twice.
const LONGEST: usize = 512;

/// Values by text and kind of text.
#[derive(Clone, Debug)]
pub(super) struct Memo<V> {
    /// Of the last text that met each place. One is kept only when it comes again, so that texts that
    /// never do (addresses, numbers) cost no copy.
    seen: Box<[u32]>,
    kept: Vec<Option<Entry<V>>>,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    text: Box<[u8]>,
    kind: u8,
    value: V,
}

/// What a text without a value waits for: see [`Memo::keep`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Vacant(Option<(usize, u8)>);

impl<V: Copy> Default for Memo<V> {
    fn default() -> Self {
        Self {
            seen: vec![0; PLACES].into_boxed_slice(),
            kept: std::iter::repeat_with(|| None).take(PLACES).collect(),
        }
    }
}

impl<V: Copy> Memo<V> {
    /// The value of a text of this kind, or the place where one may be kept.
    #[inline]
    pub(super) fn get(&mut self, kind: u8, text: &[u8]) -> Result<V, Vacant> {
        if text.len() > LONGEST {
            return Err(Vacant(None));
        }
        let mut hasher = FxHasher::default();
        hasher.write(text);
        hasher.write_u8(kind);
        let hash = hasher.finish();
        let at = hash as usize % PLACES;
        if let Some(entry) = &self.kept[at]
            && entry.kind == kind
            && *entry.text == *text
        {
            return Ok(entry.value);
        }
        let mark = (hash >> 32) as u32;
        let before = std::mem::replace(&mut self.seen[at], mark);
        Err(Vacant((before == mark).then_some((at, kind))))
    }

    /// Keeps the value of a text that [`Memo::get`] did not have.
    pub(super) fn keep(&mut self, vacant: Vacant, text: &[u8], value: V) {
        if let Vacant(Some((at, kind))) = vacant {
            self.kept[at] = Some(Entry {
                text: text.into(),
                kind,
                value,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_when_it_comes_again() {
        let mut memo = Memo::default();
        let vacant = memo.get(0, b"text").expect_err("new");
        memo.keep(vacant, b"text", 7);
        let vacant = memo.get(0, b"text").expect_err("only once yet");
        memo.keep(vacant, b"text", 7);
        assert_eq!(memo.get(0, b"text").ok(), Some(7));
        assert!(memo.get(1, b"text").is_err(), "another kind");
        assert!(memo.get(0, b"texts").is_err(), "another text");
    }

    #[test]
    fn no_text_has_the_value_of_another() {
        let mut memo = Memo::default();
        for round in 0..3 {
            for n in 0..20_000_u32 {
                let text = format!("line {n}");
                match memo.get(0, text.as_bytes()) {
                    Ok(value) => assert_eq!(value, n, "round {round}"),
                    Err(vacant) => memo.keep(vacant, text.as_bytes(), n),
                }
            }
        }
    }
}
