//! Texts that came before, and what was found out about them. Most messages of a job are printed by
//! every rank and many again and again (retries, stack traces), so that looking a text up is less work
//! than reading it.
//!
//! What is kept here follows from the text alone, so whether it is remembered changes nothing. For the
//! same reason a clone begins anew: what it has forgotten it finds out again.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::vocab::LineClass;

/// Places are looked for in sets of a few, so that two texts that meet do not drive each other out.
const SETS: usize = 1 << 12;
const WAYS: usize = 4;
/// Longer texts are seldom the same twice.
const LONGEST: usize = 2048;
/// Bytes of all texts together; what is more makes a new beginning.
const BYTES: usize = 2 << 20;

/// A text that is kept, for as long as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextId {
    place: u16,
    age: u32,
}

/// Texts by their bytes and the kind of text, each with a value.
#[derive(Debug)]
pub(super) struct Texts<V> {
    sets: Box<[Set]>,
    entries: Vec<Entry<V>>,
    bytes: usize,
    /// Of the text that was kept last.
    age: u32,
}

/// What is known of the texts that meet here, newest first.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    /// Hashes of texts that came and are not kept. One is kept only when it comes again, so that texts
    /// that never do (addresses, numbers) cost no copy.
    seen: [u32; WAYS],
    /// Hashes of the kept; 0 for none.
    kept: [u32; WAYS],
    /// Where they are.
    entries: [u16; WAYS],
}

#[derive(Clone, Debug)]
struct Entry<V> {
    text: Box<[u8]>,
    age: u32,
    kind: u8,
    value: V,
}

/// What a text that is not kept waits for: see [`Texts::keep`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vacant(Option<(u16, u32, u8)>);

impl Vacant {
    /// Nothing is to be kept.
    pub(super) const NONE: Self = Self(None);

    /// The text came before, so that it is worth keeping.
    pub(super) fn is_open(self) -> bool {
        self.0.is_some()
    }
}

impl<V> Default for Texts<V> {
    fn default() -> Self {
        Self {
            sets: vec![Set::default(); SETS].into_boxed_slice(),
            entries: Vec::new(),
            bytes: 0,
            age: 0,
        }
    }
}

impl<V> Clone for Texts<V> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<V: Copy> Texts<V> {
    /// A text of this kind and its value, or the place where it may be kept.
    #[inline]
    pub(super) fn get(&mut self, kind: u8, text: &[u8]) -> Result<(TextId, V), Vacant> {
        if text.len() > LONGEST {
            return Err(Vacant::NONE);
        }
        let mut hasher = FxHasher::default();
        hasher.write(text);
        hasher.write_u8(kind);
        let hash = hasher.finish();
        let at = hash as usize % SETS;
        let mark = (hash >> 32) as u32 | 1;
        let set = &mut self.sets[at];
        for way in 0..WAYS {
            let place = set.entries[way];
            if set.kept[way] == mark
                && let Some(entry) = self.entries.get(usize::from(place))
                && entry.kind == kind
                && *entry.text == *text
            {
                let age = entry.age;
                return Ok((TextId { place, age }, entry.value));
            }
        }
        if set.seen.contains(&mark) {
            return Err(Vacant(Some((at as u16, mark, kind))));
        }
        set.seen.copy_within(..WAYS - 1, 1);
        set.seen[0] = mark;
        Err(Vacant::NONE)
    }

    /// Keeps a text that [`Texts::get`] did not have, if it came before.
    pub(super) fn keep(&mut self, vacant: Vacant, text: &[u8], value: V) -> Option<TextId> {
        let (at, mark, kind) = vacant.0?;
        let age = self.age.wrapping_add(1);
        if self.bytes + text.len() > BYTES {
            *self = Self::default();
        }
        self.age = age;
        self.bytes += text.len();
        let entry = Entry {
            text: text.into(),
            age,
            kind,
            value,
        };
        let set = &mut self.sets[usize::from(at)];
        // The oldest goes.
        let last = WAYS - 1;
        let oldest = (set.kept[last] != 0).then_some(set.entries[last]);
        set.kept.copy_within(..last, 1);
        set.entries.copy_within(..last, 1);
        set.kept[0] = mark;
        // There are no more entries than places.
        let place = oldest.unwrap_or(self.entries.len() as u16);
        set.entries[0] = place;
        match self.entries.get_mut(usize::from(place)) {
            Some(old) => {
                self.bytes -= old.text.len();
                *old = entry;
            }
            None => self.entries.push(entry),
        }
        Some(TextId { place, age })
    }
}

/// Values of kept texts that came as a line of one class.
#[derive(Debug)]
pub(super) struct ByText<V>(Vec<Option<(u32, LineClass, V)>>);

impl<V> Default for ByText<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Clone for ByText<V> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<V> ByText<V> {
    #[inline]
    pub(super) fn get(&self, text: TextId, class: LineClass) -> Option<&V> {
        match self.0.get(usize::from(text.place)) {
            Some(Some((age, of, value))) if (*age, *of) == (text.age, class) => Some(value),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, text: TextId, class: LineClass, value: V) {
        let place = usize::from(text.place);
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some((text.age, class, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_when_it_comes_again() {
        let mut texts = Texts::default();
        let vacant = texts.get(0, b"text").expect_err("new");
        assert!(!vacant.is_open());
        assert_eq!(texts.keep(vacant, b"text", 7), None);
        let vacant = texts.get(0, b"text").expect_err("only once yet");
        assert!(vacant.is_open());
        let id = texts.keep(vacant, b"text", 7).expect("it came again");
        assert_eq!(texts.get(0, b"text").ok(), Some((id, 7)));
        assert!(texts.get(1, b"text").is_err(), "another kind");
        assert!(texts.get(0, b"texts").is_err(), "another text");
        assert!(
            texts.clone().get(0, b"text").is_err(),
            "a clone begins anew"
        );
    }

    #[test]
    fn no_text_has_the_value_of_another() {
        let mut texts = Texts::default();
        let mut said = ByText::default();
        for round in 0..3 {
            for n in 0..40_000_u32 {
                let text = format!("line {n}");
                let id = match texts.get(0, text.as_bytes()) {
                    Ok((id, value)) => {
                        assert_eq!(value, n, "round {round}");
                        Some(id)
                    }
                    Err(vacant) => texts.keep(vacant, text.as_bytes(), n),
                };
                let Some(id) = id else { continue };
                let known = said.get(id, LineClass::App);
                assert!(known.is_none_or(|known| *known == n), "round {round}");
                assert!(said.get(id, LineClass::C10d).is_none(), "another class");
                said.set(id, LineClass::App, n);
            }
        }
        assert!(texts.entries.len() <= SETS * WAYS);
    }

    #[test]
    fn the_lines_of_a_long_log_are_all_remembered() {
        let mut texts = Texts::default();
        let lines: Vec<String> = (0..4_000).map(|n| format!("line {n}")).collect();
        let mut known = 0;
        for _ in 0..4 {
            known = 0;
            for line in &lines {
                match texts.get(0, line.as_bytes()) {
                    Ok(_) => known += 1,
                    Err(vacant) => {
                        texts.keep(vacant, line.as_bytes(), ());
                    }
                }
            }
        }
        assert!(known > lines.len() * 95 / 100, "{known}");
    }

    #[test]
    fn many_long_texts_take_no_more_than_their_share() {
        let mut texts = Texts::default();
        let mut last = None;
        for n in 0..4_000_u32 {
            let text = format!("{n:02000}");
            for _ in 0..2 {
                if let Err(vacant) = texts.get(0, text.as_bytes()) {
                    let id = texts.keep(vacant, text.as_bytes(), n);
                    assert!(id.is_none() || id != last, "an id is given once");
                    last = id.or(last);
                }
            }
            let all: usize = texts.entries.iter().map(|entry| entry.text.len()).sum();
            assert_eq!(all, texts.bytes);
            assert!(all <= BYTES);
        }
    }
}
