//! Headers of PyTorch's loggers: c10, glog, Python's, and Gloo's.

use super::bytes::{number, shaped, split, whole_number};
use crate::engine::line::C10dHead;

/// The header at the start of `text` and the message behind it.
pub(super) fn parse(text: &[u8], rank: Option<u32>) -> Option<(C10dHead<'_>, &[u8])> {
    let (level, stamp, location, message) = match *text.first()? {
        b'[' => bracketed(&text[1..])
            .or_else(|| dated(&text[1..]))
            .or_else(|| gloo(&text[1..]))?,
        b'I' | b'W' | b'E' | b'F' | b'V' | b'D' | b'C' => glog(text).or_else(|| named(text))?,
        _ => return None,
    };
    Some((
        C10dHead {
            rank,
            level,
            location,
            stamp,
        },
        message,
    ))
}

type Location<'a> = (&'a [u8], u32);

/// Level, stamp, location, message.
type Parts<'a> = (u8, Option<&'a [u8]>, Location<'a>, &'a [u8]);

fn is_level(byte: u8) -> bool {
    b"IWEFV".contains(&byte)
}

/// `E1130 19:43:01.954264601 File.cpp:12] ` (torch 2.4 and later) or `E File.cpp:12] `.
fn bracketed(text: &[u8]) -> Option<Parts<'_>> {
    let level = *text.first().filter(|b| is_level(**b))?;
    let rest = &text[1..];
    let Some(rest) = rest.strip_prefix(b" ") else {
        let (stamp, rest) = stamp(rest, 4)?;
        let (location, message) = place(rest)?;
        return Some((level, Some(stamp), location, message));
    };
    let (location, message) = place(rest)?;
    Some((level, None, location, message))
}

/// `E20261130 20:16:15.244186 27355 File.cpp:12] ` and Python's `W1130 19:29:23.404000 18310 torch/x.py:12] `.
fn glog(text: &[u8]) -> Option<Parts<'_>> {
    let level = text[0];
    let (stamp, rest) = stamp(&text[1..], 8)?;
    let (_, rest) = split(rest.trim_ascii_start(), b' ', 24)
        .filter(|(id, _)| id.iter().all(u8::is_ascii_digit))?;
    let (location, message) = place(rest)?;
    Some((level, Some(stamp), location, message))
}

/// Month and day (no leading zero in C++), blank, time of day with a fraction, blank.
fn stamp(text: &[u8], digits: usize) -> Option<(&[u8], &[u8])> {
    let day = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(3..=digits).contains(&day) || !shaped(&text[day..], b" 00:00:00.") {
        return None;
    }
    let end = day + 1 + text[day + 1..].iter().position(|b| *b == b' ')?;
    Some((&text[..end], &text[end + 1..]))
}

/// `path:line] `.
fn place(text: &[u8]) -> Option<(Location<'_>, &[u8])> {
    let (place, rest) = split(text, b']', 512)?;
    let colon = memchr::memrchr(b':', place)?;
    let line = whole_number(&place[colon + 1..])?;
    let file = &place[..colon];
    if file.is_empty() || file.contains(&b' ') || !file.contains(&b'.') {
        return None;
    }
    Some(((file, line), rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// `2024-01-01 12:00:00,123] torch.distributed.run: [WARNING] ` (torch 2.1 and 2.2).
fn dated(text: &[u8]) -> Option<Parts<'_>> {
    const STAMP: &[u8] = b"0000-00-00 00:00:00,000";
    if !shaped(text, STAMP) {
        return None;
    }
    let rest = text[STAMP.len()..]
        .strip_prefix(b"] ")
        .filter(|r| r.starts_with(b"torch."))?;
    let (name, rest) = split(rest, b':', 128)?;
    let (level, rest) = split(rest.strip_prefix(b" [")?, b']', 16)?;
    Some((
        *level.first()?,
        Some(&text[..STAMP.len()]),
        (name, 0),
        rest.strip_prefix(b" ").unwrap_or(rest),
    ))
}

/// `WARNING:torch.distributed.run:` (torch up to 2.0).
fn named(text: &[u8]) -> Option<Parts<'_>> {
    let (level, rest) =
        split(text, b':', 10).filter(|(l, _)| l.iter().all(u8::is_ascii_uppercase))?;
    if !rest.starts_with(b"torch.") {
        return None;
    }
    let (name, message) = split(rest, b':', 128).filter(|(n, _)| !n.contains(&b' '))?;
    Some((level[0], None, (name, 0), message))
}

/// `/pytorch/third_party/gloo/gloo/x.cc:12] ERROR `.
fn gloo(text: &[u8]) -> Option<Parts<'_>> {
    let (location, message) =
        place(text).filter(|((file, _), _)| memchr::memmem::find(file, b"gloo/").is_some())?;
    let (level, message) =
        split(message, b' ', 10).filter(|(l, _)| l.iter().all(u8::is_ascii_uppercase))?;
    Some((*level.first()?, None, location, message))
}

/// `[rankN]:` at the start: the rank and what is behind, of which one space is the prefix's.
pub(super) fn rank(text: &[u8]) -> Option<(u32, &[u8])> {
    let (rank, rest) = number(text.strip_prefix(b"[rank")?)?;
    let rest = rest.strip_prefix(b"]:")?;
    Some((rank, rest.strip_prefix(b" ").unwrap_or(rest)))
}
