//! Whether a weak prefix is one: only if nearly every line carries it and its values come back.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::prefix::{Layer, Weak};

/// Lines in a row that must carry it.
const RUN: u32 = 8;
/// Values remembered to see them come back.
const RING: usize = 32;

/// What one source has shown of weak prefixes.
#[derive(Clone, Debug, Default)]
pub(super) struct Learn {
    /// The family that the lines carry, once known.
    accepted: Option<Weak>,
    current: Option<Weak>,
    run: u32,
    repeats: u32,
    /// One bit a line, newest lowest: it carried the accepted family.
    history: u64,
    ring: Vec<u64>,
    next: usize,
}

impl Learn {
    /// Notes what the line carries, and says whether to believe it.
    pub(super) fn observe(&mut self, seen: Option<(Weak, Layer<'_>)>) -> bool {
        let kind = seen.map(|(kind, _)| kind);
        self.history = self.history << 1 | u64::from(kind.is_some() && kind == self.accepted);
        if let Some(accepted) = self.accepted {
            if self.history.count_ones() < 16 {
                *self = Self::default();
                return false;
            }
            return kind == Some(accepted);
        }
        let Some((kind, layer)) = seen else {
            self.run = 0;
            return false;
        };
        if self.current != Some(kind) {
            *self = Self {
                current: Some(kind),
                ..Self::default()
            };
        }
        self.run += 1;
        let value = hash(layer);
        if self.ring.contains(&value) {
            self.repeats += 1;
        } else if self.ring.len() < RING {
            self.ring.push(value);
        } else {
            self.ring[self.next] = value;
            self.next = (self.next + 1) % RING;
        }
        // One value alone is no demultiplexing and may be any text, except for compose's bar.
        let apart = self.ring.len() >= 2 || kind == Weak::Pipe;
        if self.run >= RUN && apart && self.repeats * 2 >= self.run.min(2 * RUN) / 2 {
            self.accepted = Some(kind);
            self.history = u64::MAX;
            return true;
        }
        false
    }
}

fn hash(layer: Layer<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    match layer {
        Layer::Label { rank, .. } => rank.hash(&mut hasher),
        Layer::Host(name) | Layer::Service(name) => name.hash(&mut hasher),
        _ => {}
    }
    hasher.finish()
}
