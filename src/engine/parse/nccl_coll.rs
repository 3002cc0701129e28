//! COLL lines, the hot path: one call, no search.

use super::cursor::Cursor;
use crate::engine::event::{Coll, Func};

/// `AllReduce: opCount 0 sendbuff 0x… recvbuff 0x… count 256 datatype 7 op 0 root 0 comm 0x… [nranks=2] stream 0x…`
/// (`src/enqueue.cc`; 2.4–2.21 count in `%zi`, later `%zu`).
pub(super) fn parse(message: &[u8]) -> Option<Coll> {
    let (func, mut rest) = func(message)?;
    rest.lit(b": opCount ")?;
    rest.hex()?;
    rest.lit(b" sendbuff ")?;
    rest.word();
    rest.lit(b" recvbuff ")?;
    rest.word();
    rest.lit(b" count ")?;
    let count = rest.dec()?;
    rest.lit(b" datatype ")?;
    let datatype = u8::try_from(rest.dec()?).ok()?;
    rest.lit(b" op ")?;
    let op = rest.dec()?.min(5) as u8;
    rest.lit(b" root ")?;
    let root = rest.int()?;
    rest.lit(b" comm ")?;
    let comm = rest.hex()?;
    let nranks = rest.has(b" [nranks=").then(|| rest.dec32()).flatten();
    Some(Coll {
        func,
        count,
        datatype,
        op,
        root: u32::try_from(root).unwrap_or(u32::MAX),
        comm,
        nranks,
    })
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

    #[test]
    fn every_version_of_the_line() {
        let coll = parse(b"AllReduce: opCount a sendbuff 0x7fd5 recvbuff 0x7fd5 count 1048576 datatype 7 op 0 root 0 comm 0x3826df60 [nranks=2] stream (nil)").expect("2.28.9");
        assert_eq!(
            (coll.func, coll.count, coll.comm, coll.nranks),
            (Func::AllReduce, 1_048_576, 0x3826_df60, Some(2))
        );
        let send = parse(b"Send: opCount 8 sendbuff (nil) recvbuff 0x7f56 count 256 datatype 7 op 0 root 1 comm 0x10624450 [nranks=2] stream 0x107d").expect("2.16.5");
        assert_eq!((send.func, send.root), (Func::Send, 1));
        assert!(parse(b"Reduce: opCount 7 sendbuff").is_none());
        assert!(parse(b"AllReduceX: opCount 7").is_none());
    }
}
