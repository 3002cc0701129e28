//! One record as bytes, and back.

use std::time::Duration;

use crate::engine::ids::SourceId;
use crate::engine::input::{
    EndReason, Input, ProcessLoad, ProcessState, SourceInfo, SourceKind, Time,
};
use crate::sources::record::{Record, What};

/// Sources in one journal.
const SOURCES: u32 = 1 << 20;
/// Set in the kind of a record that has a time.
const TIMED: u8 = 0x80;

mod kind {
    pub(super) const SOURCE: u8 = 1;
    pub(super) const BYTES: u8 = 2;
    pub(super) const ROTATED: u8 = 3;
    pub(super) const TRUNCATED: u8 = 4;
    pub(super) const ENDED: u8 = 5;
    pub(super) const PROCESS: u8 = 6;
    pub(super) const CLAIM: u8 = 7;
    pub(super) const TICK: u8 = 8;
    pub(super) const DUMP: u8 = 9;
    pub(super) const RAS: u8 = 10;
    pub(super) const GPU: u8 = 11;
}

const SOURCE_KINDS: [SourceKind; 6] = [
    SourceKind::File,
    SourceKind::Tail,
    SourceKind::Stdin,
    SourceKind::Child,
    SourceKind::Dump,
    SourceKind::Ras,
];
const END_REASONS: [EndReason; 4] = [
    EndReason::Eof,
    EndReason::Closed,
    EndReason::ProcessGone,
    EndReason::Unreadable,
];
const PROCESS_STATES: [ProcessState; 6] = [
    ProcessState::Running,
    ProcessState::Stopped,
    ProcessState::Uninterruptible,
    ProcessState::Zombie,
    ProcessState::Gone,
    ProcessState::Traced,
];

/// The place of a value in its table: the tables only ever grow at their end.
fn number<T: PartialEq>(table: &[T], value: &T) -> u64 {
    table
        .iter()
        .position(|known| known == value)
        .expect("the table lists every value") as u64
}

/// Appends a record. `before` is the time of the last timed record of the block, 0 at its start.
pub(crate) fn encode(out: &mut Vec<u8>, before: &mut u64, seen: Option<Time>, input: &Input<'_>) {
    let mut payload = Vec::new();
    let (kind, tail): (u8, &[u8]) = match input {
        Input::Source(info) => {
            source(&mut payload, info);
            (kind::SOURCE, &[])
        }
        Input::Bytes {
            source,
            offset,
            chunk,
        } => {
            varint(&mut payload, u64::from(source.0));
            varint(&mut payload, *offset);
            (kind::BYTES, *chunk)
        }
        Input::Ras { source, reply } => {
            varint(&mut payload, u64::from(source.0));
            (kind::RAS, *reply)
        }
        Input::Dump { source, bytes } => {
            varint(&mut payload, u64::from(source.0));
            (kind::DUMP, *bytes)
        }
        Input::Rotated(source) => {
            varint(&mut payload, u64::from(source.0));
            (kind::ROTATED, &[])
        }
        Input::Truncated(source) => {
            varint(&mut payload, u64::from(source.0));
            (kind::TRUNCATED, &[])
        }
        Input::Ended {
            source,
            why,
            detail,
        } => {
            varint(&mut payload, u64::from(source.0));
            varint(&mut payload, number(&END_REASONS, why));
            maybe_text(&mut payload, detail.as_deref());
            (kind::ENDED, &[])
        }
        Input::Process {
            host,
            pid,
            state,
            load,
        } => {
            text(&mut payload, host);
            varint(&mut payload, u64::from(*pid));
            varint(&mut payload, number(&PROCESS_STATES, state));
            for value in [load.cpu_percent, load.threads, load.nccl_threads] {
                maybe(&mut payload, value.map(u64::from));
            }
            (kind::PROCESS, &[])
        }
        Input::Gpu { host, sample } => {
            text(&mut payload, host);
            // JSON: later versions add fields, and blocks are packed.
            serde_json::to_writer(&mut payload, sample).expect("plain data and a Vec");
            (kind::GPU, &[])
        }
        Input::Claim { stuck_for } => {
            let nanos = stuck_for.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            maybe(&mut payload, nanos);
            (kind::CLAIM, &[])
        }
        Input::Tick => (kind::TICK, &[]),
    };
    out.push(kind | if seen.is_some() { TIMED } else { 0 });
    if let Some(Time(now)) = seen {
        // Times nearly always grow, so a signed difference stays short and any value still fits.
        let difference = now.wrapping_sub(*before).cast_signed();
        varint(
            out,
            ((difference << 1) ^ (difference >> 63)).cast_unsigned(),
        );
        *before = now;
    }
    varint(out, (payload.len() + tail.len()) as u64);
    out.extend_from_slice(&payload);
    out.extend_from_slice(tail);
}

fn source(out: &mut Vec<u8>, info: &SourceInfo) {
    varint(out, u64::from(info.id.0));
    varint(out, number(&SOURCE_KINDS, &info.kind));
    text(out, &info.name);
    maybe_text(out, info.host.as_deref());
    maybe(out, info.pid.map(u64::from));
    maybe(out, info.rank.map(u64::from));
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn text(out: &mut Vec<u8>, text: &str) {
    varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn maybe(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        varint(out, value);
    }
}

fn maybe_text(out: &mut Vec<u8>, value: Option<&str>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        text(out, value);
    }
}

/// What stands next in a block.
pub(crate) enum Decoded {
    Record(Record),
    /// Of a kind that this version does not know, or a known one with content it does not understand.
    Unknown,
}

/// Reads the records of a block, one after another.
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
    before: u64,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(block: &'a [u8]) -> Self {
        Self {
            rest: block,
            before: 0,
        }
    }

    /// `None` at the end of the block, or where it makes no sense any more.
    pub(crate) fn next(&mut self) -> Option<Decoded> {
        let mut fields = Fields(self.rest);
        let head = fields.byte()?;
        let mut seen = None;
        if head & TIMED != 0 {
            let zigzag = fields.varint()?;
            let difference = (zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed());
            self.before = self.before.wrapping_add(difference.cast_unsigned());
            seen = Some(Time(self.before));
        }
        let len = usize::try_from(fields.varint()?).ok()?;
        let payload = fields.take(len)?;
        self.rest = fields.0;
        Some(match decode(head & !TIMED, Fields(payload)) {
            Some(what) => Decoded::Record(Record { seen, what }),
            None => Decoded::Unknown,
        })
    }
}

fn decode(kind: u8, mut fields: Fields<'_>) -> Option<What> {
    let what = match kind {
        kind::SOURCE => Input::Source(SourceInfo {
            id: fields.source()?,
            kind: fields.one_of(&SOURCE_KINDS)?,
            name: fields.text()?,
            host: fields.maybe(Fields::text)?,
            pid: fields.maybe(Fields::u32)?,
            rank: fields.maybe(Fields::u32)?,
        }),
        kind::BYTES => {
            let (source, offset) = (fields.source()?, fields.varint()?);
            return Some(What::Bytes {
                source,
                offset,
                chunk: fields.0.to_vec(),
            });
        }
        kind::RAS => {
            return Some(What::Ras {
                source: fields.source()?,
                reply: fields.0.to_vec(),
            });
        }
        kind::DUMP => {
            let source = fields.source()?;
            return Some(What::Dump {
                source,
                bytes: fields.0.to_vec(),
            });
        }
        kind::ROTATED => Input::Rotated(fields.source()?),
        kind::TRUNCATED => Input::Truncated(fields.source()?),
        kind::ENDED => Input::Ended {
            source: fields.source()?,
            why: fields.one_of(&END_REASONS)?,
            detail: fields.maybe(Fields::text)?,
        },
        kind::PROCESS => Input::Process {
            host: fields.text()?,
            pid: fields.u32()?,
            state: fields.one_of(&PROCESS_STATES)?,
            // Earlier versions recorded the state alone.
            load: ProcessLoad {
                cpu_percent: fields.maybe(Fields::u32).flatten(),
                threads: fields.maybe(Fields::u32).flatten(),
                nccl_threads: fields.maybe(Fields::u32).flatten(),
            },
        },
        kind::GPU => Input::Gpu {
            host: fields.text()?,
            sample: serde_json::from_slice(fields.0).ok()?,
        },
        kind::CLAIM => Input::Claim {
            stuck_for: fields.maybe(Fields::varint)?.map(Duration::from_nanos),
        },
        kind::TICK => Input::Tick,
        _ => return None,
    };
    // Fields that a later version added behind are ignored.
    Some(What::Other(what))
}

/// Reads fields off the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(front)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn u32(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }

    /// Ids index tables, so a made-up one must not become a huge table.
    fn source(&mut self) -> Option<SourceId> {
        self.u32().filter(|id| *id < SOURCES).map(SourceId)
    }

    fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn one_of<T: Copy>(&mut self, table: &[T]) -> Option<T> {
        table.get(usize::try_from(self.varint()?).ok()?).copied()
    }

    /// The outer `None` is broken, the inner one absent.
    fn maybe<T>(&mut self, read: fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            _ => read(self).map(Some),
        }
    }
}
