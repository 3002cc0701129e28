//! COLL lines, the hot path: one call, no search.

use super::cursor::Cursor;
use crate::engine::event::{Coll, Func};

/// `AllReduce: opCount 0 sendbuff 0x… recvbuff 0x… count 256 datatype 7 op 0 root 0 comm 0x… [nranks=2] stream 0x…`
/// (`src/enqueue.cc`; 2.4–2.21 count in `%zi`, later `%zu`).
pub(super) fn parse(message: &[u8], last: &mut Last) -> Option<Coll> {
    let (func, mut rest) = func(message)?;
    rest.lit(b": opCount ")?;
    let op_count = rest.hex()?;
    rest.lit(b" sendbuff ")?;
    rest.word();
    rest.lit(b" recvbuff ")?;
    rest.word();
    rest.lit(b" count ")?;
    let count = rest.dec()?;
    if let Some(same) = last.read(rest.0) {
        return Some(Coll {
            func,
            op_count,
            count,
            ..same
        });
    }
    let start = rest.0;
    rest.lit(b" datatype ")?;
    let datatype = u8::try_from(rest.dec()?).ok()?;
    rest.lit(b" op ")?;
    let op = rest.dec()?.min(5) as u8;
    rest.lit(b" root ")?;
    let root = rest.int()?;
    rest.lit(b" comm ")?;
    let comm = rest.hex()?;
    let nranks = if rest.has(b" [nranks=") {
        let nranks = rest.dec32();
        rest.has(b"]");
        nranks
    } else {
        None
    };
    let coll = Coll {
        func,
        op_count,
        count,
        datatype,
        op,
        root: u32::try_from(root).unwrap_or(u32::MAX),
        comm,
        nranks,
    };
    if rest.0.starts_with(b" stream ") {
        last.keep(&start[..start.len() - rest.0.len()], coll);
    }
    Some(coll)
}

/// True if the line of a call begins here.
pub(super) fn begins(message: &[u8]) -> bool {
    func(message).is_some_and(|(_, rest)| rest.0.starts_with(b": opCount "))
}

/// From the datatype on a call is mostly the same, byte for byte, as the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Last {
    text: Vec<u8>,
    coll: Option<Coll>,
}

impl Last {
    fn read(&self, text: &[u8]) -> Option<Coll> {
        let coll = self.coll?;
        let rest = text.strip_prefix(self.text.as_slice())?;
        rest.starts_with(b" stream ").then_some(coll)
    }

    fn keep(&mut self, text: &[u8], coll: Coll) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.coll = Some(coll);
    }
}

fn func(message: &[u8]) -> Option<(Func, Cursor<'_>)> {
    let candidates: &[Func] = match message.first()? {
        b'A' => &[Func::AllReduce, Func::AllGather, Func::AlltoAll],
        b'R' => &[Func::ReduceScatter, Func::Reduce, Func::Recv],
        b'B' => &[Func::Broadcast],
        b'S' => &[Func::Send, Func::Scatter, Func::Signal],
        b'G' => &[Func::Gather],
        b'P' => &[Func::PutSignal],
        b'W' => &[Func::WaitSignal],
        _ => return None,
    };
    candidates.iter().find_map(|func| {
        let rest = message.strip_prefix(func.name().as_bytes())?;
        (rest.first() == Some(&b':')).then_some((*func, Cursor(rest)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(message: &[u8]) -> Option<Coll> {
        parse(message, &mut Last::default())
    }

    #[test]
    fn what_is_the_same_as_before_is_read_only_once() {
        let mut last = Last::default();
        let mut read = |tail: &str| {
            let text = format!("AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 8{tail}");
            parse(text.as_bytes(), &mut last)
        };
        let tails = [
            " datatype 7 op 0 root 0 comm 0xab [nranks=2] stream 0x1",
            " datatype 7 op 0 root 0 comm 0xab [nranks=2] stream 0x2",
            " datatype 7 op 0 root 0 comm 0xab [nranks=20] stream 0x2",
            " datatype 7 op 0 root 0 comm 0xab stream 0x2",
            " datatype 7 op 0 root 0 comm 0xabc stream 0x2",
            " datatype 7 op 1 root 3 comm 0xabc stream 0x2",
        ];
        for tail in tails {
            let text = format!("AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 8{tail}");
            assert_eq!(read(tail), parsed(text.as_bytes()), "{tail}");
        }
    }

    #[test]
    fn every_version_of_the_line() {
        let coll = parsed(b"AllReduce: opCount a sendbuff 0x7fd5 recvbuff 0x7fd5 count 1048576 datatype 7 op 0 root 0 comm 0x3826df60 [nranks=2] stream (nil)").expect("2.28.9");
        assert_eq!(
            (coll.func, coll.count, coll.comm, coll.nranks),
            (Func::AllReduce, 1_048_576, 0x3826_df60, Some(2))
        );
        let send = parsed(b"Send: opCount 8 sendbuff (nil) recvbuff 0x7f56 count 256 datatype 7 op 0 root 1 comm 0x10624450 [nranks=2] stream 0x107d").expect("2.16.5");
        assert_eq!((send.func, send.root), (Func::Send, 1));
        assert!(parsed(b"Reduce: opCount 7 sendbuff").is_none());
        assert!(parsed(b"AllReduceX: opCount 7").is_none());
    }
}
