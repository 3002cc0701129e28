//! What frameworks print without a header of their own: stores, exceptions, vLLM, Gloo.

use memchr::memmem;

use super::cursor::Cursor;
use super::literals::{Literal, Literals};
use crate::engine::event::{Event, Exit};

/// A line of the program or of a framework.
pub(super) fn parse(message: &[u8], found: Literals) -> Option<Event<'_>> {
    if found.is_empty() || message.len() > 4096 {
        return None;
    }
    type Read = fn(&[u8]) -> Option<Event<'_>>;
    const READERS: [(Literal, Read); 10] = [
        (Literal::ClientsJoined, clients_joined),
        (Literal::WorkersJoined, store_barrier),
        (Literal::WorkerCount, store_barrier),
        (Literal::WorldSize, world_size),
        (Literal::InWorldSize, in_world_size),
        (Literal::GlobalRank, global_rank),
        (Literal::MonitoredBarrier, monitored_barrier),
        (Literal::Fingerprints, fingerprints),
        (Literal::ChildDied, child_died),
        (Literal::Serving, |_| Some(Event::Serving)),
    ];
    let (_, read) = READERS
        .iter()
        .find(|(literal, _)| found.find(*literal, message).is_some())?;
    read(message)
}

/// A line of a traceback: its start, its end, or an abort.
pub(super) fn traceback(message: &[u8], found: Literals) -> Option<Event<'_>> {
    if message.starts_with(b"Traceback (most recent call last)") {
        return Some(Event::TracebackStart);
    }
    if let Some(frame) = frame(message, found) {
        return Some(frame);
    }
    const ABORTS: [&[u8]; 4] = [
        b"terminate called",
        b"Fatal Python error",
        b"Segmentation fault",
        b"Bus error",
    ];
    if ABORTS.iter().any(|abort| message.starts_with(abort)) {
        return Some(Event::Abort(message));
    }
    exception(message)
}

/// `File "…/distributed_c10d.py", line 4181, in all_reduce` of a traceback, and
/// `#0 all_reduce from …/distributed_c10d.py:3068` of a watchdog's stack trace.
fn frame(message: &[u8], found: Literals) -> Option<Event<'_>> {
    let at = found.find(Literal::Frame, message)?;
    if let Some(rest) = message.strip_prefix(b"#0 ") {
        return Some(Event::Frame(Cursor(rest).word()));
    }
    let mut rest = Cursor(&message[at..]);
    rest.until(b", in ")?;
    Some(Event::Frame(rest.word()))
}

/// `package.SomeError: text`, at the start of a line: a dotted name whose last part begins with a
/// capital letter and ends like an exception's name.
fn exception(message: &[u8]) -> Option<Event<'_>> {
    let end = message
        .iter()
        .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')))
        .unwrap_or(message.len());
    let (kind, rest) = message.split_at(end);
    let name = kind.rsplit(|b| *b == b'.').next()?;
    if !name.first()?.is_ascii_uppercase() || !(rest.is_empty() || rest.starts_with(b":")) {
        return None;
    }
    const ENDS: [&[u8]; 6] = [
        b"Error",
        b"Exception",
        b"Interrupt",
        b"Exit",
        b"Timeout",
        b"Failure",
    ];
    if !ENDS.iter().any(|end| name.ends_with(end)) {
        return None;
    }
    let text = rest.strip_prefix(b":").unwrap_or(rest);
    Some(Event::Exception {
        kind,
        message: text.strip_prefix(b" ").unwrap_or(text),
    })
}

/// `Timed out after 16 seconds waiting for clients. 1/2 clients joined.` (2.2 and later)
fn clients_joined(message: &[u8]) -> Option<Event<'_>> {
    let at = memmem::find(message, b" clients joined")?;
    let start = message[..at]
        .iter()
        .rposition(|b| *b == b' ')
        .map_or(0, |space| space + 1);
    let mut rest = Cursor(&message[start..]);
    let joined = rest.dec32()?;
    rest.lit(b"/")?;
    Some(Event::StoreJoined {
        joined,
        of: rest.dec32()?,
    })
}

/// `(world_size=2, num_workers_joined=1, …)` (2.1 and later), `worker_count=1` (earlier).
fn store_barrier(message: &[u8]) -> Option<Event<'_>> {
    let of = number_behind(message, b"world_size=")?;
    let joined = number_behind(message, b"num_workers_joined=")
        .or_else(|| number_behind(message, b"worker_count="))?;
    Some(Event::StoreJoined { joined, of })
}

/// `world_size=8 rank=3 local_rank=3 …` of vLLM, `world_size=2, local_world_size=1` of its leader.
fn world_size(message: &[u8]) -> Option<Event<'_>> {
    let at = memmem::find(message, b"world_size=")?;
    // `local_world_size=` and the like are something else.
    if at > 0 && !matches!(message[at - 1], b' ' | b'(' | b',') {
        return None;
    }
    let mut rest = Cursor(&message[at + b"world_size=".len()..]);
    let of = rest.dec32()?;
    if rest.has(b" rank=") {
        let rank = rest.dec32()?;
        return (rank < of).then_some(Event::RankOf { rank, of });
    }
    memmem::find(message, b"master_addr=").map(|_| Event::WorldSize(of))
}

/// `rank 3 in world size 8 is assigned as …` (vLLM).
fn in_world_size(message: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(message);
    rest.until(b"rank ")?;
    let rank = rest.dec32()?;
    rest.lit(b" in world size ")?;
    let of = rest.dec32()?;
    (rank < of).then_some(Event::RankOf { rank, of })
}

/// `GLOBAL_RANK: 3, MEMBER: 4/8` (Lightning).
fn global_rank(message: &[u8]) -> Option<Event<'_>> {
    let rank = number_behind(message, b"GLOBAL_RANK: ")?;
    let mut rest = Cursor(message);
    rest.until(b"MEMBER: ")?;
    rest.dec32()?;
    rest.lit(b"/")?;
    let of = rest.dec32()?;
    (rank < of).then_some(Event::RankOf { rank, of })
}

/// `[Rank 0]: Rank 2 failed to pass monitoredBarrier in 8000 ms`, `Ranks 1, 2 failed …`.
fn monitored_barrier(message: &[u8]) -> Option<Event<'_>> {
    let end = memmem::find(message, b" failed to pass monitoredBarrier")?;
    let start = memmem::rfind(&message[..end], b"Rank")? + b"Rank".len();
    let list = message[start..end]
        .strip_prefix(b"s")
        .unwrap_or(&message[start..end]);
    Some(Event::BarrierMissing(list.trim_ascii()))
}

/// `Detected mismatch between collectives on ranks. Rank 0 is running collective:
/// CollectiveFingerPrint(…OpType=ALLREDUCE…), but Rank 2 is running collective: CollectiveFingerPrint(…)`
fn fingerprints(message: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(message);
    rest.until(b"on ranks. Rank ")?;
    let a = rest.dec32()?;
    rest.until(b"OpType=")?;
    let a_op = operation(rest.0);
    rest.until(b"but Rank ")?;
    let b = rest.dec32()?;
    rest.until(b"OpType=")?;
    let b_op = operation(rest.0);
    let aspects = rest
        .until(b"following aspects:")
        .map(|_| rest.0)
        .unwrap_or(b"");
    Some(Event::Fingerprints {
        a: (a, a_op),
        b: (b, b_op),
        aspects: aspects.trim_ascii(),
    })
}

fn operation(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .position(|b| matches!(b, b',' | b')'))
        .unwrap_or(text.len());
    &text[..end]
}

/// `Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.`
fn child_died(message: &[u8]) -> Option<Event<'_>> {
    let at = memmem::find(message, b" died unexpectedly")?;
    let name = &message[..at];
    let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let index = Cursor(&name[name.len() - digits..]).dec32();
    let code = memmem::find(message, b"(exit code: ")
        .and_then(|at| Cursor(&message[at + b"(exit code: ".len()..]).int());
    Some(Event::ChildDied {
        index,
        exit: code.and_then(exit_of),
    })
}

/// Python's convention: negative codes are signals.
pub(super) fn exit_of(code: i64) -> Option<Exit> {
    let code = i32::try_from(code).ok()?;
    Some(if code < 0 {
        Exit::Signal(-code)
    } else {
        Exit::Code(code)
    })
}

pub(super) fn number_behind(message: &[u8], literal: &[u8]) -> Option<u32> {
    let at = memmem::find(message, literal)?;
    Cursor(&message[at + literal.len()..]).dec32()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(message: &[u8]) -> Option<Event<'_>> {
        parse(message, Literals::ANY)
    }

    fn traced(message: &[u8]) -> Option<Event<'_>> {
        traceback(message, Literals::ANY)
    }

    #[test]
    fn stores_and_ranks() {
        assert_eq!(
            parsed(b"torch.distributed.DistStoreError: Timed out after 13 seconds waiting for clients. 14/16 clients joined."),
            Some(Event::StoreJoined { joined: 14, of: 16 })
        );
        assert_eq!(
            parsed(b"Timed out initializing process group in store based barrier on rank 0, for key: store_based_barrier_key:1 (world_size=2, num_workers_joined=1, timeout=0:30:00)"),
            Some(Event::StoreJoined { joined: 1, of: 2 })
        );
        assert_eq!(
            parsed(b"INFO 11-30 [parallel_state.py:1615] world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://10.20.0.1:26242 backend=nccl"),
            Some(Event::RankOf { rank: 0, of: 2 })
        );
        assert_eq!(parsed(b"local_world_size=4 rank=1"), None);
        assert_eq!(
            parsed(b"[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 5000 ms"),
            Some(Event::BarrierMissing(b"1, 2"))
        );
        assert_eq!(
            parsed(b"ERROR Worker proc VllmWorker-3 died unexpectedly (exit code: -9), shutting down executor."),
            Some(Event::ChildDied { index: Some(3), exit: Some(Exit::Signal(9)) })
        );
    }

    #[test]
    fn exceptions() {
        assert_eq!(
            traced(b"torch.distributed.DistBackendError: NCCL error in: x"),
            Some(Event::Exception {
                kind: b"torch.distributed.DistBackendError",
                message: b"NCCL error in: x"
            })
        );
        assert!(matches!(
            traced(b"KeyboardInterrupt"),
            Some(Event::Exception { .. })
        ));
        assert_eq!(traced(b"INFO: something"), None);
        assert_eq!(traced(b"ValueError is bad"), None);
    }
}
