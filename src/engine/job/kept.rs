//! A line that is kept as evidence.

use std::sync::Arc;

use crate::engine::limits;
use crate::engine::line::{Line, Place};

/// A place and, once copied, its text; clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where the line stands.
    pub place: Place,
    pub(super) text: Option<Arc<[u8]>>,
}

impl Kept {
    /// Copies the line's text at once.
    #[must_use]
    pub fn now(line: &Line<'_>) -> Self {
        Self {
            place: line.place,
            text: Some(cut(line.raw).into()),
        }
    }

    /// A line that is no log's, with its text.
    #[must_use]
    pub fn at(place: Place, text: &[u8]) -> Self {
        Self {
            place,
            text: Some(cut(text).into()),
        }
    }

    /// Copies the text at the end of the chunk if the line lies in it, else at once.
    #[must_use]
    pub fn deferred(line: &Line<'_>, borrowed: bool) -> Self {
        if borrowed {
            Self {
                place: line.place,
                text: None,
            }
        } else {
            Self::now(line)
        }
    }

    /// Copies the text out of the chunk that starts at `offset` in the line's source.
    pub fn fill(&mut self, offset: u64, chunk: &[u8]) {
        if self.text.is_some() || self.place.offset < offset {
            return;
        }
        let start = usize::try_from(self.place.offset - offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(self.place.len as usize);
        if let Some(text) = chunk.get(start..end) {
            self.text = Some(cut(text).into());
        }
    }

    /// The text, lossy.
    #[must_use]
    pub fn text(&self) -> String {
        self.text
            .as_deref()
            .map(|t| String::from_utf8_lossy(t).into_owned())
            .unwrap_or_default()
    }
}

fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(limits::EVIDENCE_BYTES)]
}
