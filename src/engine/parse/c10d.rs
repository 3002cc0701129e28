//! Messages of PyTorch's C++ and Python loggers, behind their header (1.13–2.15).

use memchr::memmem;

use super::cursor::Cursor;
use super::literals::{Literal, Literals};
use super::{launcher, text};
use crate::engine::event::Event;

/// A message behind `[E1130 … File.cpp:12] ` or `W1130 … torch/…:12] `.
pub(super) fn parse(message: &[u8], found: Literals) -> Option<Event<'_>> {
    if found.is_empty() {
        return launcher::parse(message, found);
    }
    if found.find(Literal::Watchdog, message).is_some() {
        return watchdog(message);
    }
    let enqueued = found.find(Literal::Enqueued, message);
    if let Some(at) = enqueued.or_else(|| found.find(Literal::EnqueuedNccl, message)) {
        return work_status(message, at);
    }
    if let Some(event) = text::parse(message, found) {
        return Some(event);
    }
    if found.find(Literal::GroupOptions, message).is_some() {
        return init_options(message).or(Some(Event::StoreContact));
    }
    if found.has(Literal::ClientSocket) {
        if is_contact(message) {
            return Some(Event::StoreContact);
        }
        if let Some(event) = refused(message) {
            return Some(event);
        }
    }
    if let Some(at) = found.find(Literal::NameLookup, message) {
        return unresolved(message, at);
    }
    launcher::parse(message, found)
}

/// `The IPv6 network addresses of (node-zero, 29500) cannot be retrieved (gai error: -2 - Name or service not known).`
fn unresolved(message: &[u8], at: usize) -> Option<Event<'_>> {
    let (before, behind) = (&message[..at], &message[at..]);
    let host = &before[memchr::memrchr(b'(', before)? + 1..];
    let host = &host[..memchr::memchr(b',', host)?];
    let mut rest = Cursor(behind);
    rest.until(b"gai error: ")?;
    rest.until(b" - ")?;
    let reason = &rest.0[..memchr::memchr(b')', rest.0)?];
    Some(Event::Unresolved { host, reason })
}

/// A connect to the store that failed, in one of two lines of each try. The addresses behind the names are
/// no witness: some builds print garbage there.
///
/// `TCP client failed to connect/validate to host H:P - retrying (try=N, …): … (errno: 101 - R).` (2.4 and later) ·
/// `The client socket has failed to connect to any network address of (H, P).` (2.0 and later)
fn refused(message: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(message.strip_prefix(b"[c10d] ")?);
    if rest.has(b"The client socket has failed to connect to any network address of (") {
        let host = rest.until(b", ")?;
        let port = u16::try_from(rest.dec32()?).ok()?;
        return Some(Event::StoreRefused {
            host,
            port,
            reason: None,
            retrying: true,
        });
    }
    rest.lit(b"TCP client failed to connect/validate to host ")?;
    let to = rest.until(b" - ")?;
    let colon = memchr::memrchr(b':', to)?;
    let port = u16::try_from(Cursor(&to[colon + 1..]).dec32()?).ok()?;
    let retrying = rest.0.starts_with(b"retrying");
    rest.until(b"): ")?;
    let why = rest.0;
    let errno = memmem::rfind(why, b"(errno: ").and_then(|at| {
        let words = &why[at + memmem::find(&why[at..], b" - ")? + 3..];
        Some(&words[..memchr::memchr(b')', words)?])
    });
    let timeout = || {
        let words = why.strip_prefix(b"The client socket has ")?;
        Some(&words[..memmem::find(words, b" while trying")?])
    };
    Some(Event::StoreRefused {
        host: &to[..colon],
        port,
        reason: Some(errno.or_else(timeout).unwrap_or(why)),
        retrying,
    })
}

/// A socket of the store's client: connected, or about to be.
fn is_contact(message: &[u8]) -> bool {
    let literal = Literal::ClientSocket.text();
    memmem::find_iter(message, literal).any(|at| {
        let (before, behind) = (&message[..at], &message[at + literal.len()..]);
        let connects = behind.starts_with(b" has connected")
            && (before.ends_with(b"[c10d] The") || before.ends_with(b"[c10d - debug] The"));
        connects
            || before.ends_with(b"[c10d] The hostname of the")
            || before.ends_with(b"[c10d] The") && behind.starts_with(b" cannot be initialized")
    })
}

/// `WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=…, NumelOut=…, Timeout(ms)=10000) ran for 10045 milliseconds`.
fn watchdog(message: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(message);
    rest.until(b"SeqNum=")?;
    let seq = rest.dec()?;
    rest.lit(b", OpType=")?;
    let op = &rest.0[..memchr::memchr(b',', rest.0)?];
    rest.until(b"Timeout(ms)=")?;
    let timeout_ms = rest.dec()?;
    rest.lit(b") ran for ")?;
    Some(Event::Watchdog {
        seq,
        op,
        ran_ms: rest.dec()?,
        timeout_ms,
    })
}

fn work_status(message: &[u8], at: usize) -> Option<Event<'_>> {
    let mut rest = Cursor(&message[at..]);
    rest.until(b": ")?;
    let enqueued = rest.int()?;
    rest.until(b"last completed ")?;
    rest.until(b": ")?;
    let completed = rest.int()?;
    let group = message
        .strip_prefix(b"[")
        .and_then(|m| memmem::find(m, b" Rank ").map(|end| &m[..end]))
        .unwrap_or(b"");
    Some(Event::WorkStatus {
        group,
        enqueued,
        completed,
    })
}

/// `… size: 8, global rank: 1, TIMEOUT(ms): …` (INFO).
fn init_options(message: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(message);
    rest.until(b"options: size: ")?;
    let of = rest.dec32()?;
    rest.lit(b", global rank: ")?;
    let rank = rest.dec32()?;
    (rank < of).then_some(Event::RankOf { rank, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(message: &[u8]) -> Option<Event<'_>> {
        parse(message, Literals::ANY)
    }

    #[test]
    fn a_name_that_does_not_resolve() {
        assert_eq!(
            parsed(b"[c10d] The IPv6 network addresses of (node-zero, 29500) cannot be retrieved (gai error: -2 - Name or service not known)."),
            Some(Event::Unresolved { host: b"node-zero", reason: b"Name or service not known" })
        );
        assert_eq!(parsed(b"it cannot be retrieved (gai error: "), None);
    }

    #[test]
    fn a_store_that_cannot_be_reached() {
        let refused = |host: &'static str, port, reason: Option<&'static str>, retrying| {
            Some(Event::StoreRefused {
                host: host.as_bytes(),
                port,
                reason: reason.map(str::as_bytes),
                retrying,
            })
        };
        assert_eq!(
            parsed(b"[c10d] TCP client failed to connect/validate to host 10.20.0.1:21060 - retrying (try=3, timeout=600000ms, delay=1821ms): The client socket has failed to connect to any network address of (10.20.0.1, 21060). The client socket has failed to connect to 10.20.0.1:21060 (errno: 101 - Network is unreachable)."),
            refused("10.20.0.1", 21060, Some("Network is unreachable"), true)
        );
        assert_eq!(
            parsed(b"[c10d] TCP client failed to connect/validate to host ::1:1 - timed out (try=1, timeout=8000ms): The client socket has timed out after 8000ms while trying to connect to (::1, 1)."),
            refused("::1", 1, Some("timed out after 8000ms"), false)
        );
        assert_eq!(
            parsed(b"[c10d] The client socket has failed to connect to any network address of (node-0, 29500)."),
            refused("node-0", 29500, None, true)
        );
        for torn in [
            "any network address of (node-0, 99999).",
            "[::1]:1 (errno: 99 - x).",
            "any",
        ] {
            let line = format!("[c10d] The client socket has failed to connect to {torn}");
            assert_eq!(parsed(line.as_bytes()), None, "{torn}");
        }
    }

    #[test]
    fn watchdog_of_every_version() {
        assert_eq!(
            parsed(b"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=10000) ran for 10045 milliseconds before timing out."),
            Some(Event::Watchdog { seq: 3, op: b"ALLREDUCE", ran_ms: 10_045, timeout_ms: 10_000 })
        );
        assert!(matches!(
            parsed(b"[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, TensorShape=[1024], Timeout(ms)=1800000) ran for 1800451 milliseconds before timing out."),
            Some(Event::Watchdog { seq: 7, .. })
        ));
        assert_eq!(
            parsed(b"[PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 3 PG status: last enqueued work: 3, last completed work: 2"),
            Some(Event::WorkStatus { group: b"PG ID 0 PG GUID 0(default_pg)", enqueued: 3, completed: 2 })
        );
    }
}
