//! What NCCL RAS tells by itself in monitor mode (`MONITOR`, `ncclras -m`; NCCL 2.29.2 and later).
//!
//! ```text
//! RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...
//! ================================================================
//! [2026-12-01 10:00:00] PEER_DEAD: Process 2035 on node 192.0.2.2 managing GPU 0
//! ```
//! The head goes to standard error, so saved output may lack it. With `-f json` an object each, one behind the other.
//! The stream ends anywhere, so a last line without its end is left out. (`src/ras/client_support.cc`,
//! `src/ras/client.cc`.)

use super::{Lines, Process};
use crate::engine::ids::SourceId;
use crate::engine::job::Kept;
use crate::engine::parse::cursor::Cursor;

/// What happened to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// It joined, was connected or answers again.
    Well,
    /// Its connection closed or is not to be had, or it does not answer: it may be frozen, ended or only slow.
    Lost,
    /// It was given up after 60 s of silence.
    Dead,
}

impl Change {
    fn of(event: &[u8]) -> Option<Self> {
        Some(match event {
            b"PEER_NEW" | b"PEER_CONNECTED" | b"PEER_RECOVERED" => Self::Well,
            b"PEER_DEAD" | b"PEER_TIMEOUT_DEAD" => Self::Dead,
            b"PEER_UNRESPONSIVE"
            | b"PEER_RETRY"
            | b"PEER_SEND_STUCK"
            | b"PEER_KEEPALIVE_TIMEOUT"
            | b"PEER_INIT_TIMEOUT"
            | b"PEER_DISCONNECTED" => Self::Lost,
            // PEER_CONNECTING, and what later versions add.
            _ => return None,
        })
    }
}

/// One event that says something about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// To whom; its line tells it.
    pub peer: Process,
}

/// What was told, and how many lines it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Events about processes with a pid, in their order.
    pub events: Vec<Event>,
    /// Whole lines.
    pub lines: u64,
}

/// True if this is how the output of monitor mode begins.
#[must_use]
pub fn begin(head: &[u8]) -> bool {
    let front = Front::of(head);
    if front.headed {
        return true;
    }
    let text = front.rest;
    if text.starts_with(b"{") {
        let begins = &text[..text.len().min(300)];
        let has = |word: &[u8]| memchr::memmem::find(begins, word).is_some();
        return has(b"\"LIFECYCLE\"") || has(b"\"TRACE\"");
    }
    is_event(text.split(|b| *b == b'\n').next().unwrap_or(text))
}

/// True if this line is an event of a peer, whatever it tells.
#[must_use]
pub fn is_event(line: &[u8]) -> bool {
    stamped(line).is_some_and(|(event, _)| event.starts_with(b"PEER_"))
}

/// True if it has the form of an event: later versions may tell of other things.
#[must_use]
pub fn looks_like_event(line: &[u8]) -> bool {
    stamped(line).is_some()
}

/// Understands what monitor mode tells, behind `lines` lines and `offset` bytes of its source; `None` if it is
/// something else.
#[must_use]
pub fn read(source: SourceId, offset: u64, lines: u64, bytes: &[u8]) -> Option<Told> {
    if !begin(bytes) {
        return None;
    }
    let at = Lines {
        source,
        offset,
        number: lines,
    };
    let body = Front::of(bytes).rest;
    Some(if body.starts_with(b"{") {
        objects(at, bytes, body)
    } else {
        text(at, bytes)
    })
}

/// What saved output has in front: `SERVER PROTOCOL 2`, `OK`, the head of `ncclras -m`, empty lines.
struct Front<'a> {
    rest: &'a [u8],
    /// The head was there.
    headed: bool,
}

impl<'a> Front<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let mut front = Self {
            rest: bytes,
            headed: false,
        };
        while !front.rest.is_empty() {
            let end = memchr::memchr(b'\n', front.rest).map_or(front.rest.len(), |at| at + 1);
            let line = front.rest[..end].trim_ascii();
            let head = line.starts_with(b"RAS Monitor Mode");
            let greets = line.is_empty() || line == b"OK" || line.starts_with(b"SERVER PROTOCOL");
            let rule = front.headed && line.starts_with(b"====");
            if !head && !greets && !rule {
                break;
            }
            front.headed |= head;
            front.rest = &front.rest[end..];
        }
        front
    }
}

fn text(at: Lines, bytes: &[u8]) -> Told {
    let mut told = Told::default();
    let mut offset = 0;
    let whole = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
    for (number, raw) in bytes[..whole].split_inclusive(|b| *b == b'\n').enumerate() {
        let line = raw.trim_ascii_end();
        told.lines += 1;
        if let Some((event, words)) = stamped(line) {
            let mut peer = Process {
                line: Some(at.keep(number, offset, line.len(), line)),
                ..Process::default()
            };
            peer.pid = process(words);
            peer.node = node(words);
            told.events
                .extend(Change::of(event).and_then(|change| happened(change, peer)));
        }
        offset += raw.len();
    }
    told
}

/// Without a pid nobody knows whom it is about.
fn happened(change: Change, peer: Process) -> Option<Event> {
    peer.pid?;
    Some(Event { change, peer })
}

/// `[2026-12-01 10:00:00] PEER_DEAD: Process …` → the event and what follows it.
fn stamped(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', rest).filter(|end| (8..40).contains(end))?;
    let stamp = &rest[..end];
    let is_stamp = |b: &u8| b.is_ascii_digit() || b"-: .".contains(b);
    if !stamp.iter().all(is_stamp) {
        return None;
    }
    let rest = rest[end + 1..].strip_prefix(b" ")?;
    let colon = memchr::memchr(b':', rest).unwrap_or(rest.len());
    let event = &rest[..colon];
    let is_word = |b: &u8| b.is_ascii_uppercase() || *b == b'_';
    let words = rest.get(colon + 1..).unwrap_or_default();
    (!event.is_empty() && event.iter().all(is_word)).then_some((event, words))
}

/// `Process 2035 on node …`
fn process(words: &[u8]) -> Option<u32> {
    let mut words = Cursor(words.trim_ascii_start());
    words.lit(b"Process ")?;
    words.dec32()
}

fn node(words: &[u8]) -> Option<String> {
    let at = memchr::memmem::find(words, b" on node ")? + b" on node ".len();
    let node = Cursor(&words[at..]).word();
    Some(String::from_utf8_lossy(node).into_owned())
}

/// Objects of JSON, one behind the other; what is no whole one ends them.
fn objects(at: Lines, bytes: &[u8], body: &[u8]) -> Told {
    let before = bytes.len() - body.len();
    let lines_in = |part: &[u8]| memchr::memchr_iter(b'\n', part).count();
    let mut told = Told {
        lines: lines_in(bytes) as u64,
        ..Told::default()
    };
    let mut objects = serde_json::Deserializer::from_slice(body).into_iter::<serde_json::Value>();
    let (mut start, mut number) = (0, lines_in(&bytes[..before]));
    while let Some(Ok(object)) = objects.next() {
        let end = objects.byte_offset();
        let blank = body[start..end]
            .iter()
            .take_while(|b| b.is_ascii_whitespace())
            .count();
        number += lines_in(&body[start..start + blank]);
        let raw = &body[start + blank..end];
        let event = object["event"].as_str().unwrap_or_default();
        let number_of = |field: &serde_json::Value| u32::try_from(field.as_u64()?).ok();
        let peer = &object["peer"];
        let words = format!(
            "{event}: {peer} {}",
            object["details"].as_str().unwrap_or_default()
        );
        let kept: Kept = at.keep(
            number,
            before + start + blank,
            raw.len(),
            words.trim_end().as_bytes(),
        );
        let peer = Process {
            pid: number_of(&peer["pid"]),
            node: peer["host"].as_str().map(str::to_owned),
            line: Some(kept),
            ..Process::default()
        };
        told.events
            .extend(Change::of(event.as_bytes()).and_then(|change| happened(change, peer)));
        number += lines_in(raw);
        start = end;
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = "RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...\n\
        ================================================================\n\
        [2026-12-01 10:00:00] PEER_DISCONNECTED: Process 2035 on node 192.0.2.2 managing GPU 0 \
        (peer closed the connection during receive operation)\n\
        [2026-12-01 10:01:00] PEER_DEAD: Process 2035 on node 192.0.2.2 managing GPU 0,1\n\
        [2026-12-01 10:01:00] PEER_CONNECTING: Process 7 on node 192.0.2.3 managing GPU 2\n\
        [2026-12-01 10:01:01] PEER_RECOVERED: Process 7 on node 192.0.2.3 managing GPU 2\n\
        [2026-12-01 10:01:02] PEER_DEAD: Process 99";

    fn told(text: &str) -> Vec<(Change, u32, Option<String>)> {
        let told = read(SourceId(0), 0, 0, text.as_bytes()).expect("events");
        let of = |event: Event| (event.change, event.peer.pid.unwrap(), event.peer.node);
        told.events.into_iter().map(of).collect()
    }

    #[test]
    fn events_are_read_and_a_torn_one_is_not() {
        let node = |n: u8| Some(format!("192.0.2.{n}"));
        let expected = [
            (Change::Lost, 2035, node(2)),
            (Change::Dead, 2035, node(2)),
            (Change::Well, 7, node(3)),
        ];
        assert_eq!(told(SAVED), expected);
        let batch = read(
            SourceId(3),
            700,
            9,
            &SAVED.as_bytes()[SAVED.find('[').unwrap()..],
        )
        .unwrap();
        let place = batch.events[0].peer.line.as_ref().unwrap().place;
        assert_eq!((place.number, place.offset, batch.lines), (10, 700, 4));
    }

    #[test]
    fn json_events_are_read() {
        let json = "{\n  \"timestamp\": \"2026-12-01 10:00:00\",\n  \"group\": \"LIFECYCLE\",\n  \"event\": \"PEER_DEAD\",\n  \
            \"peer\": {\"host\": \"192.0.2.2\", \"pid\": 2035, \"cuda_devs\": [0], \"nvml_devs\": [0]}\n}\n{\n  \
            \"timestamp\": \"2026-12-01 10:00:01\", \"group\": \"TRACE\", \"event\": \"PEER_CONNECTED\",\n  \
            \"peer\": {\"addr\": \"192.0.2.3<40000>\"}\n}\n{ \"timestamp\": \"2026";
        assert_eq!(
            told(json),
            [(Change::Dead, 2035, Some("192.0.2.2".to_owned()))]
        );
        let read = read(SourceId(0), 0, 0, json.as_bytes()).unwrap();
        assert_eq!(read.events[0].peer.line.as_ref().unwrap().place.number, 1);
    }

    #[test]
    fn other_output_is_not_taken_for_events() {
        for other in [
            "",
            "OK\n",
            "[2026-12-01 10:00:00] INFO: something\n",
            "[rank0]: PEER_DEAD: Process 1 on node a\n",
            "NCCL version 2.29.3 compiled with CUDA 13.0\n",
            "{\"nccl_version\": \"2.29.3\"}",
        ] {
            assert!(!begin(other.as_bytes()), "{other}");
        }
        assert!(begin(b"SERVER PROTOCOL 2\nOK\n[2026-12-01 10:00:00] PEER_NEW: Process 1 on node a managing GPU 0\n"));
        assert!(
            told("RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...\n").is_empty()
        );
    }
}
