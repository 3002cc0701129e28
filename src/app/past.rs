//! What a watch has seen so far, kept in memory within a bound, and looking back into it.
//!
//! ```text
//!  engine thread ──push──► Past: parts, each with a copy of the engine at its start and packed inputs
//!                            │
//!  keys ─► Handle ─► player on its own thread: copy of an engine + inputs up to the position ─► Snapshot
//! ```
//!
//! The engine's thread goes on as ever. When the bound is reached the oldest part goes, with its engine.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::handle::{Axis, Shared};
use super::lines::Lines;
use super::replay::{self, script::Script};
use crate::engine::Engine;
use crate::engine::input::Time;
use crate::error::InputError;
use crate::sources::journal::codec::{self, Decoded, Decoder};
use crate::sources::record::Record;

/// Packed bytes that are kept of all inputs; logs pack to about a tenth.
const ROOM: usize = 64 << 20;
/// Parts into which they are cut.
const PARTS: usize = 4;
/// Bytes of inputs that are packed together.
const BLOCK: usize = 256 << 10;

/// The kept inputs of a watch.
pub(crate) struct Past {
    inner: Mutex<Inner>,
    pub(crate) lines: Arc<Lines>,
}

struct Inner {
    room: usize,
    /// Where the axis begins.
    began: Time,
    /// When the last input came.
    now: Time,
    parts: VecDeque<Part>,
    /// Blocks that were made so far.
    made: u64,
    /// The oldest part is gone.
    lost: bool,
}

struct Part {
    /// The engine before the first input of this part, and when that was.
    base: Arc<Engine>,
    from: Time,
    blocks: Vec<Arc<Block>>,
    packed: usize,
    open: Vec<u8>,
    before: u64,
}

struct Block {
    number: u64,
    packed: Vec<u8>,
    raw: usize,
}

impl Past {
    /// Begins with an engine as it is now.
    pub(crate) fn begin(engine: &Engine, lines: Arc<Lines>, began: Time, now: Time) -> Self {
        Self::with_room(engine, lines, began, now, ROOM)
    }

    fn with_room(engine: &Engine, lines: Arc<Lines>, began: Time, now: Time, room: usize) -> Self {
        let inner = Inner {
            room,
            began,
            now,
            parts: VecDeque::from([Part::new(engine, now)]),
            made: 0,
            lost: false,
        };
        Self {
            inner: Mutex::new(inner),
            lines,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an input, before the engine takes it.
    pub(crate) fn push(&self, engine: &Engine, record: &Record) {
        let mut inner = self.lock();
        inner.now = record.seen.unwrap_or(inner.now).max(inner.now);
        let full = inner.room / PARTS;
        if inner.parts.back().is_none_or(|part| part.packed >= full) {
            inner.seal();
            let part = Part::new(engine, inner.now);
            inner.parts.push_back(part);
            if inner.parts.len() > PARTS {
                inner.parts.pop_front();
                inner.lost = true;
            }
        }
        if let Some(part) = inner.parts.back_mut() {
            codec::encode(
                &mut part.open,
                &mut part.before,
                record.seen,
                &record.what.as_input(),
            );
            if part.open.len() >= BLOCK {
                inner.seal();
            }
        }
    }

    /// The present, on the axis.
    pub(crate) fn length(&self) -> Duration {
        let inner = self.lock();
        inner.now.since(inner.began)
    }

    /// From where on it is kept, once the oldest part is gone.
    pub(crate) fn kept_from(&self) -> Option<Duration> {
        let inner = self.lock();
        let oldest = inner.parts.front().filter(|_| inner.lost)?;
        Some(oldest.from.since(inner.began))
    }

    /// The newest engine that is no later than a position, what came after it, and where that begins.
    fn from(&self, to: Duration) -> Option<(Arc<Engine>, Duration, Vec<Arc<Block>>)> {
        let mut inner = self.lock();
        inner.seal();
        let began = inner.began;
        let fits = |part: &Part| part.from.since(began) <= to;
        let first = inner.parts.iter().rposition(fits).unwrap_or(0);
        let part = inner.parts.get(first)?;
        let blocks = inner.parts.iter().skip(first);
        Some((
            Arc::clone(&part.base),
            part.from.since(began),
            blocks
                .flat_map(|part| part.blocks.iter().cloned())
                .collect(),
        ))
    }

    /// The blocks from this one on; `None` if it is gone.
    fn since(&self, number: u64) -> Option<Vec<Arc<Block>>> {
        let mut inner = self.lock();
        inner.seal();
        let blocks = inner.parts.iter().flat_map(|part| &part.blocks);
        let blocks: Vec<_> = blocks.filter(|b| b.number >= number).cloned().collect();
        let gap = blocks.first().is_some_and(|first| first.number != number);
        (!gap).then_some(blocks)
    }
}

impl Part {
    fn new(engine: &Engine, from: Time) -> Self {
        Self {
            base: Arc::new(engine.clone()),
            from,
            blocks: Vec::new(),
            packed: 0,
            open: Vec::new(),
            before: 0,
        }
    }
}

impl Inner {
    /// Packs what is not packed yet.
    fn seal(&mut self) {
        let Some(part) = self.parts.back_mut().filter(|part| !part.open.is_empty()) else {
            return;
        };
        let raw = std::mem::take(&mut part.open);
        part.before = 0;
        // Packing into memory fails for want of memory only; what is played ends at such a block.
        let packed = zstd::bulk::compress(&raw, 1).unwrap_or_default();
        part.packed += packed.len() + size_of::<Block>();
        part.blocks.push(Arc::new(Block {
            number: self.made,
            packed,
            raw: raw.len(),
        }));
        self.made += 1;
    }
}

/// Plays what is kept.
struct PastScript {
    past: Arc<Past>,
    /// The engine to begin with, until it is taken.
    base: Option<Arc<Engine>>,
    blocks: VecDeque<Arc<Block>>,
    /// The block that comes after those.
    next: u64,
    ready: VecDeque<Record>,
    at: Duration,
}

impl PastScript {
    fn new(past: Arc<Past>) -> Self {
        Self {
            past,
            base: None,
            blocks: VecDeque::new(),
            next: 0,
            ready: VecDeque::new(),
            at: Duration::ZERO,
        }
    }

    fn take(&mut self, blocks: Vec<Arc<Block>>) {
        self.next = blocks.last().map_or(self.next, |last| last.number + 1);
        self.blocks.extend(blocks);
    }
}

impl Script for PastScript {
    fn next(&mut self) -> io::Result<Option<(Duration, Record)>> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                let began = self.past.lock().began;
                let at = record.seen.map_or(self.at, |seen| seen.since(began));
                self.at = self.at.max(at);
                return Ok(Some((self.at, record)));
            }
            if self.blocks.is_empty() {
                let gone = || io::Error::other("what came next is not kept any more");
                let newer = self.past.since(self.next).ok_or_else(gone)?;
                self.take(newer);
            }
            let Some(block) = self.blocks.pop_front() else {
                return Ok(None);
            };
            let raw = zstd::bulk::decompress(&block.packed, block.raw)?;
            let mut decoder = Decoder::new(&raw);
            while let Some(decoded) = decoder.next() {
                if let Decoded::Record(record) = decoded {
                    self.ready.push_back(record);
                }
            }
        }
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.rewind_to(Duration::ZERO)
    }

    fn rewind_to(&mut self, to: Duration) -> io::Result<()> {
        let nothing = || io::Error::other("nothing is kept");
        let (base, from, blocks) = self.past.from(to).ok_or_else(nothing)?;
        self.base = Some(base);
        self.at = from;
        self.ready.clear();
        self.blocks.clear();
        self.take(blocks);
        Ok(())
    }

    fn base(&mut self) -> Option<Engine> {
        self.base.take().map(|base| (*base).clone())
    }

    fn again(&self) -> io::Result<Option<Box<dyn Script>>> {
        Ok(None)
    }

    fn axis(&self) -> Axis {
        Axis::Recorded
    }

    fn length(&self) -> Duration {
        self.past.length()
    }

    fn losses(&self) -> u64 {
        0
    }

    fn problems(&self) -> Vec<InputError> {
        Vec::new()
    }
}

/// Starts looking back at a position, stopped there. What comes out is what the returned `Shared` says.
///
/// # Errors
/// If a thread cannot be started, or nothing is kept.
pub(crate) fn look_back(
    present: &Arc<Shared>,
    past: &Arc<Past>,
    to: Duration,
) -> io::Result<Arc<Shared>> {
    let script = PastScript::new(Arc::clone(past));
    replay::look_back(present, Box::new(script), Arc::clone(&past.lines), to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Options;
    use crate::engine::catalog::Catalog;
    use crate::engine::ids::SourceId;
    use crate::engine::input::{Input, SourceInfo, SourceKind};
    use crate::sources::record::What;

    fn second(n: u64) -> Time {
        Time(n * 1_000_000_000)
    }

    fn line(n: u64, noise: usize) -> Record {
        // Hashes do not pack.
        let mut state = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut text = format!("line {n} ");
        while text.len() < noise {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.push_str(&format!("{state:016x}"));
        }
        text.push('\n');
        Record {
            seen: Some(second(n)),
            what: What::Bytes {
                source: SourceId(0),
                offset: n * text.len() as u64,
                chunk: text.into_bytes(),
            },
        }
    }

    fn opened() -> Record {
        let info = SourceInfo {
            id: SourceId(0),
            name: "rank0.log".to_owned(),
            kind: SourceKind::Tail,
            host: None,
            pid: None,
            rank: None,
        };
        Record {
            seen: Some(second(0)),
            what: What::Other(Input::Source(info)),
        }
    }

    #[test]
    fn what_is_played_again_gives_the_same_and_the_oldest_goes() {
        let mut engine = Engine::new(Catalog::builtin(), Options::default());
        let room = 64 << 10;
        let past = Past::with_room(&engine, Arc::default(), Time(0), Time(0), room);
        let past = Arc::new(past);
        let mut take = |record: Record| {
            past.push(&engine, &record);
            engine.handle(record.seen, record.what.as_input());
            engine.snapshot()
        };
        let _opened = take(opened());
        let mut were = Vec::new();
        for n in 1..=60 {
            were.push(take(line(n, 10_000)));
            // A look in between cuts the blocks elsewhere.
            let _kept = past.since(0);
        }
        let kept_from = past.kept_from().expect("more came than there is room for");
        assert!(kept_from > Duration::from_secs(1) && kept_from < past.length());
        let packed: usize = past.lock().parts.iter().map(|part| part.packed).sum();
        assert!(packed <= room + room / 2, "{packed}");
        // Wherever one looks, what was shown then is shown again.
        let mut script = PastScript::new(Arc::clone(&past));
        for to in kept_from.as_secs()..=60 {
            let goal = Duration::from_secs(to);
            script.rewind_to(goal).expect("it is kept");
            let mut again = script.base().expect("a part has an engine");
            while let Some((at, record)) = script.next().expect("it is kept") {
                if at > goal {
                    break;
                }
                again.handle(record.seen, record.what.as_input());
            }
            assert_eq!(again.snapshot(), were[to as usize - 1], "at {to}");
        }
        // What is gone is told.
        assert!(past.since(0).is_none());
    }
}
