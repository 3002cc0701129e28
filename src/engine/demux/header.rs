//! NCCL's own header, of every version: `[stamp] host:pid:tid [dev] file:line (func) NCCL LEVEL `.

use memchr::memmem;

use super::bytes::{is_word, number, short, signed, split, whole_number};
use crate::engine::line::NcclHead;
use crate::engine::vocab::LineClass;

/// NCCL 2.13 to 2.19 go on with whatever lies on the stack behind a message of this many bytes.
const NCCL_BUFFER: usize = 1023;

/// A header with what is behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nccl<'a> {
    pub(super) head: NcclHead<'a>,
    pub(super) class: LineClass,
    pub(super) message: &'a [u8],
    /// The message with everything behind it.
    pub(super) behind: &'a [u8],
}

/// What stands behind `host:pid:`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail<'a> {
    pub(super) tid: u32,
    pub(super) dev: Option<i64>,
    pub(super) location: Option<(&'a [u8], u32)>,
    pub(super) class: LineClass,
    /// The message, and stack bytes behind it if NCCL wrote some: see [`whole`].
    pub(super) behind: &'a [u8],
}

/// Reads `tid [dev] file:line (func) NCCL LEVEL message`.
pub(super) fn tail(text: &[u8]) -> Option<Tail<'_>> {
    let (tid, rest) = number(text)?;
    let mut rest = rest.strip_prefix(b" ")?;
    let mut dev = None;
    if let Some(inside) = rest.strip_prefix(b"[") {
        let (value, behind) = signed(inside)?;
        dev = Some(value);
        rest = behind.strip_prefix(b"] ")?;
    }
    if let Some(behind) = rest.strip_prefix(b"NCCL INFO ") {
        return Some(Tail {
            tid,
            dev,
            location: None,
            class: LineClass::NcclInfo,
            behind,
        });
    }
    let mut location = None;
    for _ in 0..4 {
        if let Some((class, behind)) = level(rest) {
            // A TRACE line names a function there, and no file.
            let location = location.filter(|_| class == LineClass::NcclWarn);
            return Some(Tail {
                tid,
                dev,
                location,
                class,
                behind,
            });
        }
        let (token, behind) = split(rest, b' ', 256)?;
        if let Some(place) = file_line(token) {
            location = Some(place);
        }
        rest = behind;
    }
    None
}

fn level(text: &[u8]) -> Option<(LineClass, &[u8])> {
    let rest = text.strip_prefix(b"NCCL ")?;
    let (word, message) = rest.split_at(rest.iter().take_while(|b| b.is_ascii_uppercase()).count());
    let class = match word {
        b"INFO" => LineClass::NcclInfo,
        b"WARN" | b"ATTN" => LineClass::NcclWarn,
        b"CALL" => LineClass::NcclCall,
        b"TRACE" | b"DIAG" | b"ABORT" => LineClass::NcclOther,
        _ => return None,
    };
    match message.first() {
        Some(b' ') => Some((class, &message[1..])),
        None => Some((class, message)),
        Some(_) => None,
    }
}

/// The message without stack bytes behind NCCL's buffer.
pub(super) fn whole(message: &[u8]) -> &[u8] {
    if message.len() < NCCL_BUFFER / 2 {
        return message;
    }
    match memchr::memchr(0, message) {
        Some(at) => &message[..at],
        None => message,
    }
}

fn file_line(token: &[u8]) -> Option<(&[u8], u32)> {
    let colon = memchr::memrchr(b':', token)?;
    let line = whole_number(&token[colon + 1..])?;
    (colon > 0).then(|| (&token[..colon], line))
}

/// Finds `NCCL ` in lines.
#[derive(Clone, Debug)]
pub(super) struct Finder(memmem::Finder<'static>);

impl Default for Finder {
    fn default() -> Self {
        Self(memmem::Finder::new(b"NCCL "))
    }
}

impl Finder {
    /// Where the first header's host begins, at or behind `from`.
    pub(super) fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            at += self.0.find(text.get(at..)?)?;
            if level(&text[at..]).is_some() {
                let ids = if text[at..].starts_with(b"NCCL DIAG") {
                    Ids::Pid
                } else {
                    Ids::PidTid
                };
                if let Some(start) = start_before(&text[from..at], ids) {
                    return Some(from + start);
                }
            }
            at += b"NCCL ".len();
        }
    }
}

impl Finder {
    /// The bytes up to `host:pid:` of an ordinary line, without a look at what they are.
    pub(super) fn head<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        let mut before = line[..self.0.find(line)?].strip_suffix(b" ")?;
        if before.last() == Some(&b']') {
            let floor = before.len().saturating_sub(16);
            let open = floor + memchr::memrchr(b'[', &before[floor..])?;
            before = before[..open].strip_suffix(b" ")?;
        }
        let digits = before
            .iter()
            .rev()
            .take(11)
            .take_while(|b| b.is_ascii_digit())
            .count();
        let head = &before[..before.len() - digits];
        (head.last() == Some(&b':')).then_some(head)
    }
}

/// What numbers follow the host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// `host:pid` of a DIAG line.
    Pid,
    PidTid,
}

/// Where `host:pid:tid` begins in what stands before `NCCL LEVEL`.
fn start_before(text: &[u8], ids: Ids) -> Option<usize> {
    let mut end = text.len();
    for _ in 0..5 {
        if end == 0 || text[end - 1] != b' ' {
            return None;
        }
        let token_end = end - 1;
        let floor = token_end.saturating_sub(512);
        let start =
            memchr::memrchr(b' ', &text[floor..token_end]).map_or(floor, |at| floor + at + 1);
        let token = &text[start..token_end];
        if let Some(host) = host_in(token, ids) {
            return Some(start + host);
        }
        let between = token
            .first()
            .is_some_and(|b| b"[(".contains(b) || b.is_ascii_digit())
            || file_line(token).is_some();
        if !between {
            return None;
        }
        end = start;
    }
    None
}

/// Where the host begins in a token that ends in `host:pid:tid` (`host:pid` before `NCCL DIAG`).
fn host_in(token: &[u8], ids: Ids) -> Option<usize> {
    let last = memchr::memrchr(b':', token)?;
    whole_number(&token[last + 1..])?;
    let host_end = match memchr::memrchr(b':', &token[..last]) {
        Some(colon) if whole_number(&token[colon + 1..last]).is_some() => colon,
        _ if ids == Ids::Pid => last,
        _ => return None,
    };
    let host = token[..host_end]
        .iter()
        .rev()
        .take_while(|b| is_word(**b) || **b == b'.')
        .count();
    (host > 0).then(|| host_end - host)
}

/// Reads a header that begins with its host.
pub(super) fn parse(text: &[u8]) -> Option<Nccl<'_>> {
    let (full, rest) = split(text, b':', 256)?;
    let host = short(full);
    let (pid, rest) = number(rest)?;
    if let Some(rest) = rest.strip_prefix(b":") {
        let Tail {
            tid,
            dev,
            location,
            class,
            behind,
        } = tail(rest)?;
        let head = NcclHead {
            host,
            pid,
            tid,
            dev,
            location,
            stamp: None,
        };
        return Some(Nccl {
            head,
            class,
            message: whole(behind),
            behind,
        });
    }
    let message = rest.strip_prefix(b" NCCL DIAG ")?;
    let head = NcclHead {
        host,
        pid,
        tid: pid,
        dev: None,
        location: None,
        stamp: None,
    };
    Some(Nccl {
        head,
        class: LineClass::NcclOther,
        message,
        behind: message,
    })
}

/// True if `text` can be a stamp in any format of `strftime`: digits, marks, and words only of dates.
pub(super) fn is_stamp(text: &[u8]) -> bool {
    if text.len() > 80 || text.iter().filter(|b| b.is_ascii_digit()).count() < 4 {
        return false;
    }
    text.split(|b| !b.is_ascii_alphabetic()).all(is_date_word)
        && text
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b" :-/.,+[]()_|=".contains(b))
}

fn is_date_word(word: &[u8]) -> bool {
    const WORDS: [&[u8; 3]; 19] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec", b"mon", b"tue", b"wed", b"thu", b"fri", b"sat", b"sun",
    ];
    let upper = word.len() <= 4 && word.iter().all(u8::is_ascii_uppercase);
    upper || (word.len() >= 3 && WORDS.iter().any(|w| word[..3].eq_ignore_ascii_case(&w[..])))
}

/// The stamp that stands at the end of `text`, as its length, if what stands there is one in brackets.
pub(super) fn stamp_at_end(text: &[u8]) -> usize {
    let trimmed = text.trim_ascii_end();
    if trimmed.last() != Some(&b']') {
        return 0;
    }
    match memchr::memrchr(b'[', trimmed) {
        Some(at) if is_stamp(&trimmed[at..]) => text.len() - at,
        _ => 0,
    }
}

/// A stamp without the brackets and spaces around it.
pub(super) fn bare_stamp(text: &[u8]) -> &[u8] {
    let trimmed = text.trim_ascii();
    trimmed
        .strip_prefix(b"[")
        .and_then(|t| t.strip_suffix(b"]"))
        .unwrap_or(trimmed)
}
