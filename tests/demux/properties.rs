//! What holds for any bytes in any chunks.

use proptest::prelude::*;
use unhang::engine::demux::{Demux, Writer};
use unhang::engine::ids::SourceId;
use unhang::engine::line::Line;

use crate::support::{run, run_chunks, text};

/// Pieces that real streams are made of, and what breaks readers of them.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        &b"node-0:1067:1070 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x1"[..],
        b"node-1:1067:1067 [1] NCCL INFO x",
        b"\n[2026-11-30 12:00:00] node-0:1067:1070 [0] init.cc:5 (f) NCCL WARN y",
        b"[rank1]:[E1130 19:43:01.954264601 ProcessGroupNCCL.cpp:2949] z",
        b"[default0]:hello",
        b"[1,0]<stdout>:",
        b"<stdout rank=\"0\">a&#010;</stdout>",
        b"(Worker_TP1 pid=964) ",
        b"\x1b[36m(RayWorkerWrapper pid=1, ip=10.0.0.2)\x1b[0m hi\x1b[32m [repeated 2x across cluster]\x1b[0m",
        b"2016-10-06T00:17:09.669794202Z stdout P part",
        b"2016-10-06T00:17:09.669794202Z stdout F rest",
        b"{\"log\":\"x\\u001b[0m\\n\",\"stream\":\"stderr\",\"time\":\"t\"}",
        b"[3] x",
        b"  3: x",
        b"Traceback (most recent call last):",
        b"  File \"x.py\", line 3, in f",
        b"ValueError: x",
        b"frame #0: x",
        b"\xff\xfe\0\0",
        b"\r\n",
        b"\r",
        b"\n",
        b"\n",
        b"\n",
        b"\x1b]0;t\x07",
        b"\x1b[",
    ]);
    prop_oneof![6 => known.prop_map(<[u8]>::to_vec), 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_lines(parts in prop::collection::vec(fragments(), 0..40), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let bytes = parts.concat();
        let whole = run(&bytes);
        let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for to in at {
            chunks.push(&bytes[from..to]);
            from = to;
        }
        chunks.push(&bytes[from..]);
        let cut = run_chunks(chunks);
        prop_assert_eq!(&whole.lines, &cut.lines);
        prop_assert_eq!(whole.counts(), cut.counts());
        prop_assert_eq!(whole.demux.writers(), cut.demux.writers());
        let bytewise = run_chunks(bytes.chunks(1));
        prop_assert_eq!(&whole.lines, &bytewise.lines);
    }

    #[test]
    fn any_bytes_harm_nobody(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let run = run(&bytes);
        prop_assert!(run.lines.iter().all(|l| !l.text.trim_ascii().is_empty()));
    }

    #[test]
    fn places_point_at_the_raw_line(parts in prop::collection::vec(fragments(), 0..40)) {
        let bytes = parts.concat();
        let mut demux = Demux::default();
        let mut wrong = Vec::new();
        let mut check = |line: &Line<'_>, _: &[Writer]| {
            let from = line.place.offset as usize;
            let at = bytes.get(from..from + line.place.len as usize);
            if at != Some(line.raw) {
                wrong.push((line.place, text(line.raw)));
            }
        };
        demux.feed(SourceId(0), 0, &bytes, &mut check);
        demux.end(SourceId(0), &mut check);
        // What a container left unfinished is shown at its last part's place.
        wrong.retain(|(_, raw)| !raw.contains("part"));
        prop_assert!(wrong.is_empty(), "{:?}", wrong);
    }
}
