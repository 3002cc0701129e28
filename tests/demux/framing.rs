//! Line ends, escapes, wrapping, bounds.

use unhang::engine::demux::Counts;
use unhang::engine::limits::LINE_BYTES;

use crate::support::{run, run_chunks};

#[test]
fn partial_lines_of_containers_are_joined() {
    let cri = run(
        "2016-10-06T00:17:09.6Z stdout P hel\n2016-10-06T00:17:09.7Z stderr F err\n2016-10-06T00:17:09.8Z stdout F lo\n",
    );
    assert_eq!(
        cri.lines
            .iter()
            .map(|l| l.text.as_str())
            .collect::<Vec<_>>(),
        ["err", "hello"]
    );
    let docker = run(
        "{\"log\":\"\\u001b[31mhel\",\"stream\":\"stdout\",\"time\":\"x\"}\n{\"log\":\"l\\u00f6 \\ud83d\\ude00\\n\",\"stream\":\"stdout\",\"time\":\"x\"}\n",
    );
    assert_eq!(docker.lines.len(), 1);
    assert_eq!(docker.lines[0].text, "hellö 😀");
    let unfinished = run("2016-10-06T00:17:09.6Z stdout P hel\n");
    assert_eq!(unfinished.lines[0].text, "hel");
}

#[test]
fn framing() {
    let run = run(b"a\r\n\n10%\r20%\r30%\nb\rc");
    let seen: Vec<(u64, u64, &str)> = run
        .lines
        .iter()
        .map(|l| (l.number, l.offset, l.raw.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            (1, 0, "a"),
            (3, 4, "10%"),
            (3, 8, "20%"),
            (3, 12, "30%"),
            (4, 16, "b"),
            (4, 18, "c")
        ]
    );
    assert_eq!(
        run.counts(),
        Counts {
            bytes: 19,
            lines: 7,
            dropped: 0
        }
    );

    let coloured = run_chunks([
        &b"\x1b[1;3"[..],
        b"1mred\x1b]0;title\x07\x1b[0m \x1b]unended",
    ]);
    assert_eq!(coloured.lines[0].text, "red unended");

    let holes = run_chunks([&b"\0\0\0"[..], b"\0hello\n"]);
    assert_eq!(
        (holes.lines[0].offset, holes.lines[0].text.as_str()),
        (4, "hello")
    );
}

#[test]
fn a_huge_line_is_bounded_and_counted() {
    let chunk = vec![b'x'; 1 << 20];
    let run = run_chunks(std::iter::repeat_n(chunk.as_slice(), 100).chain([&b"\nnext\n"[..]]));
    assert_eq!(run.lines.len(), 2);
    assert_eq!(run.lines[0].raw.len(), LINE_BYTES);
    assert_eq!(run.lines[1].text, "next");
    assert_eq!(run.counts().dropped, 100 * (1 << 20) - LINE_BYTES as u64);
}
