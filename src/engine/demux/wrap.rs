//! Lines inside lines: docker's JSON, CRI's files, Open MPI's XML; and colours off.

use std::borrow::Cow;

use super::bytes::{number, split};
use super::prefix::rfc3339;
use crate::engine::limits::LINE_BYTES;

/// A wrapped line's parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrapped<'a> {
    pub(super) text: Cow<'a, [u8]>,
    /// It belongs to standard error.
    pub(super) stderr: bool,
    /// The next line of this stream goes on with it.
    pub(super) partial: bool,
}

/// `{"log":"…\n","stream":"stdout","time":"…"}`.
pub(super) fn docker(line: &[u8]) -> Option<Wrapped<'_>> {
    let body = line.strip_prefix(b"{\"log\":\"")?;
    let mut text = Vec::new();
    let mut at = 0;
    loop {
        let next = at + memchr::memchr2(b'"', b'\\', &body[at..])?;
        text.extend_from_slice(&body[at..next]);
        if body[next] == b'"' {
            at = next + 1;
            break;
        }
        at = next + 1 + escape(&body[next + 1..], &mut text)?;
    }
    let rest = &body[at..];
    let partial = text.last() != Some(&b'\n');
    while matches!(text.last(), Some(b'\n' | b'\r')) {
        text.pop();
    }
    let stderr = memchr::memmem::find(rest, b"\"stream\":\"stderr\"").is_some();
    memchr::memmem::find(rest, b"\"stream\":\"")?;
    Some(Wrapped {
        text: Cow::Owned(text),
        stderr,
        partial,
    })
}

/// Reads what follows a backslash; returns its length.
fn escape(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let byte = match text.first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'u' => return unicode(text, out),
        other => *other,
    };
    out.push(byte);
    Some(1)
}

fn unicode(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let unit =
        |text: &[u8]| u32::from_str_radix(std::str::from_utf8(text.get(1..5)?).ok()?, 16).ok();
    let high = unit(text)?;
    let mut used = 5;
    let mut code = high;
    if (0xd800..0xdc00).contains(&high)
        && text.get(5..7) == Some(b"\\u")
        && let Some(low) = unit(&text[6..]).filter(|low| (0xdc00..0xe000).contains(low))
    {
        code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        used = 11;
    }
    let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    Some(used)
}

/// `2016-10-06T00:17:09.669794202Z stdout F MSG`.
pub(super) fn cri(line: &[u8]) -> Option<Wrapped<'_>> {
    let rest = rfc3339(line)?;
    let (stream, rest) =
        split(rest, b' ', 7).filter(|(s, _)| matches!(*s, b"stdout" | b"stderr"))?;
    let (tags, text) = split(rest, b' ', 64).unwrap_or((rest, b""));
    let partial = match tags.split(|b| *b == b':').next()? {
        b"P" => true,
        b"F" => false,
        _ => return None,
    };
    Some(Wrapped {
        text: Cow::Borrowed(text),
        stderr: stream == b"stderr",
        partial,
    })
}

/// `<stdout rank="0">MSG&#010;</stdout>…`: rewritten to one `[0]<stdout>:MSG` per element, separated by `\n`.
pub(super) fn xml(line: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = line;
    while let Some(at) = memchr::memchr(b'<', rest) {
        // What stands between elements is text that was not wrapped.
        let between = rest[..at].trim_ascii();
        if !between.is_empty() {
            begin(&mut out, between);
        }
        let Some((tag, rank, body)) = element(&rest[at..]) else {
            if out.is_empty() {
                return None;
            }
            begin(&mut out, &rest[at..]);
            return Some(out);
        };
        begin(&mut out, format!("[{rank}]<{tag}>:").as_bytes());
        let close = format!("</{tag}>");
        let end = memchr::memmem::find(body, close.as_bytes());
        entities(&body[..end.unwrap_or(body.len())], &mut out);
        rest = end.map_or(&[][..], |end| &body[end + close.len()..]);
    }
    if !rest.trim_ascii().is_empty() && !out.is_empty() {
        begin(&mut out, rest);
    }
    (!out.is_empty()).then_some(out)
}

fn begin(out: &mut Vec<u8>, text: &[u8]) {
    if !out.is_empty() {
        out.push(b'\n');
    }
    out.extend_from_slice(text);
}

fn element(text: &[u8]) -> Option<(&'static str, u32, &[u8])> {
    let tag = ["stdout", "stderr", "stddiag"]
        .into_iter()
        .find(|t| text[1..].starts_with(t.as_bytes()))?;
    let (rank, rest) = number(text[1 + tag.len()..].strip_prefix(b" rank=\"")?)?;
    let (_, body) = split(rest, b'>', 64)?;
    Some((tag, rank, body))
}

fn entities(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'&', 0, rest) {
        out.extend_from_slice(&rest[..at]);
        let (byte, used) = match &rest[at..] {
            [0, ..] => (None, 1),
            r if r.starts_with(b"&lt;") => (Some(b'<'), 4),
            r if r.starts_with(b"&gt;") => (Some(b'>'), 4),
            r if r.starts_with(b"&amp;") => (Some(b'&'), 5),
            r if r.starts_with(b"&#") => match number(&r[2..]) {
                // A line end inside an element is its last byte, and escape codes stay for their own step.
                Some((code, end)) if end.first() == Some(&b';') => {
                    let byte = u8::try_from(code)
                        .ok()
                        .filter(|b| !matches!(b, b'\n' | b'\r' | 0));
                    (byte, r.len() - end.len() + 1)
                }
                _ => (Some(b'&'), 1),
            },
            _ => (Some(b'&'), 1),
        };
        out.extend(byte);
        rest = &rest[at + used..];
    }
    out.extend_from_slice(rest);
}

/// Appends `text` without CSI and OSC sequences and other escapes.
pub(super) fn without_escapes(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(0x1b, rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + escape_len(&rest[at..])..];
    }
    out.extend_from_slice(rest);
}

fn escape_len(text: &[u8]) -> usize {
    match text.get(1) {
        Some(b'[') => {
            let parameters = text[2..]
                .iter()
                .take_while(|b| (0x20..0x40).contains(*b))
                .count();
            // Without a final byte the sequence is torn: only what belongs to it goes.
            let end = text
                .get(2 + parameters)
                .is_some_and(|b| (0x40..0x7f).contains(b));
            2 + parameters + usize::from(end)
        }
        Some(b']' | b'P' | b'X' | b'^' | b'_') => match memchr::memchr2(7, 0x1b, &text[2..]) {
            Some(at) if text[2 + at] == 7 => 3 + at,
            Some(at) => 2 + at + 1 + usize::from(text.get(3 + at) == Some(&b'\\')),
            // Never ended: it must not hide the rest of the line.
            None => 2,
        },
        Some(b' '..=b'/') => text.len().min(3),
        Some(0x30..=0x7e) => 2,
        _ => 1,
    }
}

/// Parts of a line that its container cut, per stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Partial([Vec<u8>; 2]);

impl Partial {
    /// Adds a part; returns the bytes that did not fit.
    pub(super) fn add(&mut self, stderr: bool, text: &[u8]) -> u64 {
        let part = &mut self.0[usize::from(stderr)];
        let kept = text.len().min(LINE_BYTES - part.len());
        part.extend_from_slice(&text[..kept]);
        (text.len() - kept) as u64
    }

    pub(super) fn is_empty(&self, stderr: bool) -> bool {
        self.0[usize::from(stderr)].is_empty()
    }

    pub(super) fn take(&mut self, stderr: bool) -> Vec<u8> {
        std::mem::take(&mut self.0[usize::from(stderr)])
    }
}
