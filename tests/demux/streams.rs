//! Several lines together: blocks, glued lines, writers.

use unhang::engine::demux::Demux;
use unhang::engine::demux::Hint::{Host, Pid, WorldRank};
use unhang::engine::ids::SourceId;
use unhang::engine::input::SourceInfo;
use unhang::engine::limits::WRITERS_PER_SOURCE;
use unhang::engine::vocab::LineClass;
use unhang::engine::vocab::LineClass::Traceback;

use crate::support::{info, run};

#[test]
fn tracebacks_and_reports_are_blocks() {
    let run = run(include_str!("torchrun.txt"));
    let classes: Vec<(LineClass, &str)> = run
        .lines
        .iter()
        .map(|l| (l.class, l.text.as_str()))
        .collect();
    insta::assert_debug_snapshot!(classes);
}

#[test]
fn continuations_belong_to_the_line_before() {
    let run = run(concat!(
        "[rank0]:[E1130 19:43:01.1 P.cpp:1] one\n",
        "[rank1]:[E1130 19:43:01.1 P.cpp:1] Stack trace of the failed collective: \n",
        "#0 all_reduce from /opt/torch/distributed_c10d.py:3068\n",
        "#1 main from /home/train.py:3\n",
        "hello\n",
        "frame #0: f() + 0x1 (0x2 in lib.so)\n",
        "[rank0]: RuntimeError: x\n",
        "Exception raised from run at socket.cpp:1 (most recent call first):\n",
        "frame #0: f() + 0x1 (0x2 in lib.so)\n",
    ));
    let writers: Vec<u32> = run.lines.iter().map(|l| l.writer).collect();
    assert_eq!(writers[1], writers[2]);
    assert_eq!(writers[1], writers[3]);
    assert!(run.lines[4].is_default);
    assert!(run.lines[5].is_default);
    assert_eq!(writers[0], writers[6]);
    assert_eq!(writers[0], writers[8]);
    assert!(
        run.lines[2..4]
            .iter()
            .chain(&run.lines[5..])
            .all(|l| l.class == Traceback)
    );
}

#[test]
fn a_prefix_in_mid_line_begins_another_line() {
    let table: &[(&str, &[&str])] = &[
        (
            "100%|##| 19.11s/it[rank1]:[E ProcessGroupNCCL.cpp:523] [Rank 1] x",
            &["100%|##| 19.11s/it", "[Rank 1] x"],
        ),
        ("[1,0]<stdout>:foo[1,1]<stdout>:bar", &["foo", "bar"]),
        ("[0]<stdout>: foo[1]<stdout>: bar", &["foo", "bar"]),
        (
            "Mon Nov 30 19:54:43 2026[1,0]<stdout>:fooMon Nov 30 19:54:43 2026[1,1]<stdout>:bar",
            &["foo", "bar"],
        ),
        (
            "[Mon Nov 30 19:54:22 2026][0]<stdout>: foo[Mon Nov 30 19:54:22 2026][1]<stdout>: bar",
            &["foo", "bar"],
        ),
        ("sum 8.0node-0:684:684 [0] NCCL INFO x", &["sum 8.0", "x"]),
        (
            "a:1:1 [0] NCCL INFO onb:2:2 [0] NCCL INFO two",
            &["onb:2:2 [0] NCCL INFO two"],
        ),
        (
            "step 1[2026-11-30 12:00:00] b:2:2 [0] x.cc:1 NCCL WARN two",
            &["step 1", "two"],
        ),
        (
            r#"<stdout rank="0">foo</stdout><stderr rank="1">bar &lt;&#010;</stderr>"#,
            &["foo", "bar <"],
        ),
        ("[default0]:10%[default1]:bar", &["10%", "bar"]),
        (
            "[trainer0]:x[1] [step1]:y[trainer1]:z",
            &["x[1] [step1]:y", "z"],
        ),
        ("x[default1]:bar", &["x[default1]:bar"]),
        ("loss [rank1]: 3", &["loss [rank1]: 3"]),
        ("unknown-prefix node-0:684:684 [0] NCCL INFO x", &["x"]),
    ];
    for (line, expected) in table {
        let run = run(line);
        let messages: Vec<&str> = run.lines.iter().map(|l| l.message.as_str()).collect();
        if line.contains("onb") {
            assert_eq!(run.lines.len(), 2, "{:#?}", run.lines);
            continue;
        }
        assert_eq!(messages, *expected, "{line}");
    }
    let run = run("node-0:684:684 [0] NCCL INFO x\ndonenode-0:684:684 [0] NCCL INFO y\n");
    let (x, y) = (run.find("x"), run.find("y"));
    assert_eq!(
        run.lines[x].writer, run.lines[y].writer,
        "a known host and pid are found behind glued text"
    );
    assert_eq!(run.lines[1].text, "done");
    assert_eq!(
        (run.lines[2].offset, run.lines[2].number),
        (run.lines[1].offset + 4, 2)
    );
}

#[test]
fn writers_are_bounded() {
    let lines: String = (0..20_000)
        .map(|pid| format!("h:{pid}:{pid} [0] NCCL INFO x\n(W pid={pid}) y\n"))
        .collect();
    let run = run(lines);
    assert_eq!(run.lines.len(), 40_000);
    assert_eq!(run.demux.writers().len(), WRITERS_PER_SOURCE + 1);
    assert!(run.lines[39_999].is_default);
}

#[test]
fn a_prefix_alone_on_a_progress_line_names_what_follows() {
    let run = run("(Worker_TP0 pid=5) \rLoading shards: 10%\rdone\n");
    assert!(run.hints(0).contains(&Pid(5)));
    assert!(run.lines[1].is_default);
}

#[test]
fn sources_keep_their_writers_apart_and_a_restart_keeps_them() {
    let mut demux = Demux::default();
    let mut writers = Vec::new();
    for id in [SourceId(9), SourceId(2)] {
        demux.open(&SourceInfo {
            id,
            rank: Some(id.0),
            host: Some("gpu1.x.y".into()),
            ..info("rank.4/stdout")
        });
        demux.feed(
            id,
            0,
            b"h:1:1 [0] NCCL INFO x\nunfinished",
            &mut |line, _| writers.push(line.writer),
        );
    }
    assert_ne!(writers[0], writers[1]);
    demux.restart(SourceId(9));
    let mut lines = Vec::new();
    demux.feed(
        SourceId(9),
        0,
        b"h:1:1 [0] NCCL INFO y\n",
        &mut |line, _| lines.push((line.writer, line.place.number, line.place.offset)),
    );
    assert_eq!(lines, [(writers[0], 1, 0)]);
    let own = demux
        .writers()
        .iter()
        .find(|w| w.is_default && w.source == SourceId(2))
        .expect("every source has its own writer");
    assert_eq!(own.hints, [WorldRank(2), WorldRank(4), Host("gpu1".into())]);
}
