//! What a dump holds before anybody knows what its fields mean: plain values in flat tables.
//!
//! No value owns another one, so nothing is walked recursively and a value that contains itself,
//! which a pickle can express, does no harm.

use std::borrow::Cow;

use super::DumpError;
use crate::engine::limits;

/// A list, tuple or dictionary in [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node(pub(super) u32);

/// A text in [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text(pub(super) u32);

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Val {
    None,
    Bool(bool),
    /// Integers beyond 64 bits are cut to the nearest that fits.
    Int(i64),
    Float(f64),
    Text(Text),
    /// A list or tuple.
    List(Node),
    Dict(Node),
}

/// Open lists and dictionaries that a cut dump is worth: the dump itself and its entries.
pub(super) const SALVAGED: usize = 2;

/// The values of a dump, and the one that holds all others.
#[derive(Debug)]
pub(super) struct Values<'a> {
    pub(super) tree: Tree<'a>,
    pub(super) top: Val,
    /// The bytes end before the value does: what is whole was read.
    pub(super) cut: bool,
}

/// Where the items of a node stand; keys and values of a dictionary take turns.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    len: u32,
    room: u32,
}

/// All values of a dump.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    bytes: Cow<'a, [u8]>,
    texts: Vec<(u32, u32)>,
    items: Vec<Val>,
    nodes: Vec<Span>,
}

impl<'a> Tree<'a> {
    /// Texts are places in `bytes`.
    pub(super) fn over(bytes: &'a [u8]) -> Self {
        Self {
            bytes: Cow::Borrowed(bytes),
            ..Self::default()
        }
    }

    /// Adds a text that stands in the bytes already.
    pub(super) fn text_at(&mut self, start: usize, len: usize) -> Result<Text, DumpError> {
        self.bounded(self.texts.len())?;
        self.texts.push((small(start)?, small(len)?));
        Ok(Text(small(self.texts.len() - 1)?))
    }

    /// Adds a text by copying it.
    pub(super) fn text(&mut self, text: &str) -> Result<Text, DumpError> {
        let start = self.bytes.len();
        self.bytes.to_mut().extend_from_slice(text.as_bytes());
        self.text_at(start, text.len())
    }

    /// Adds an empty list or dictionary.
    pub(super) fn node(&mut self) -> Result<Node, DumpError> {
        self.bounded(self.nodes.len())?;
        self.nodes.push(Span::default());
        Ok(Node(small(self.nodes.len() - 1)?))
    }

    /// Appends items to a node. Where others were added behind its own, they move to where there is
    /// room, twice as much each time.
    pub(super) fn append(&mut self, node: Node, items: &[Val]) -> Result<(), DumpError> {
        self.bounded(self.items.len() + items.len())?;
        let more = small(items.len())?;
        let span = &mut self.nodes[node.0 as usize];
        let end = (span.start + span.room) as usize;
        let (start, len) = (span.start as usize, span.len as usize);
        if span.room == 0 || end == self.items.len() {
            if span.room == 0 {
                span.start = small(self.items.len())?;
            }
            self.items.truncate(span.start as usize + len);
            self.items.extend_from_slice(items);
            span.len += more;
            span.room = span.len;
        } else if span.len + more <= span.room {
            self.items[start + len..start + len + items.len()].copy_from_slice(items);
            span.len += more;
        } else {
            let at = small(self.items.len())?;
            let room = (span.len + more).saturating_mul(2);
            *span = Span {
                start: at,
                len: span.len + more,
                room,
            };
            self.items.extend_from_within(start..start + len);
            self.items.extend_from_slice(items);
            self.items.resize((at + room) as usize, Val::None);
        }
        Ok(())
    }

    /// The items of a list, or keys and values of a dictionary.
    pub(super) fn items(&self, node: Node) -> &[Val] {
        let span = self.nodes[node.0 as usize];
        &self.items[span.start as usize..(span.start + span.len) as usize]
    }

    /// The items of a list; nothing for any other value.
    pub(super) fn list(&self, val: Val) -> &[Val] {
        match val {
            Val::List(node) => self.items(node),
            _ => &[],
        }
    }

    /// Keys and values of a dictionary; nothing for any other value.
    pub(super) fn dict(&self, val: Val) -> impl Iterator<Item = (Val, Val)> + '_ {
        let items = match val {
            Val::Dict(node) => self.items(node),
            _ => &[],
        };
        items.chunks_exact(2).map(|pair| (pair[0], pair[1]))
    }

    /// A text's bytes.
    pub(super) fn bytes(&self, text: Text) -> &[u8] {
        let (start, len) = self.texts[text.0 as usize];
        &self.bytes[start as usize..start as usize + len as usize]
    }

    /// A text as a person reads it.
    pub(super) fn lossy(&self, text: Text) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(text))
    }

    /// Number of texts.
    pub(super) fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Number of lists and dictionaries.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn bounded(&self, values: usize) -> Result<(), DumpError> {
        if values >= limits::DUMP_VALUES {
            return Err(DumpError::TooMuch {
                what: "values",
                most: limits::DUMP_VALUES,
            });
        }
        Ok(())
    }
}

fn small(n: usize) -> Result<u32, DumpError> {
    u32::try_from(n).map_err(|_| DumpError::TooMuch {
        what: "bytes",
        most: u32::MAX as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_grow_in_turns_keep_their_items() {
        let mut tree = Tree::default();
        let (a, b) = (tree.node().unwrap(), tree.node().unwrap());
        for n in 0..1_000 {
            tree.append(a, &[Val::Int(n)]).unwrap();
            tree.append(b, &[Val::Int(-n), Val::None]).unwrap();
        }
        let expected: Vec<Val> = (0..1_000).map(Val::Int).collect();
        assert_eq!(tree.items(a), expected);
        assert_eq!(tree.items(b).len(), 2_000);
        assert_eq!(tree.items(b)[1_998], Val::Int(-999));
        assert!(tree.items.len() < 12_000, "{}", tree.items.len());
    }
}
