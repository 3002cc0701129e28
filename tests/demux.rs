//! Whose line is it, what kind is it: over the shapes that launchers, frameworks and NCCL print.

use proptest::prelude::*;
use unhang::engine::demux::Hint::{
    Address, EngineRank, Host, LocalRank, Name, Node, Pid, WorldRank,
};
use unhang::engine::demux::{Counts, Demux, Hint};
use unhang::engine::ids::SourceId;
use unhang::engine::input::{SourceInfo, SourceKind};
use unhang::engine::limits::{LINE_BYTES, WRITERS_PER_SOURCE};
use unhang::engine::line::{Head, Line};
use unhang::engine::vocab::LineClass::{
    self, App, C10d, Launcher, NcclCall, NcclInfo, NcclOther, NcclWarn, Traceback,
};

/// A line that owns what it says.
#[derive(Clone, Debug, PartialEq)]
struct Got {
    number: u64,
    offset: u64,
    writer: u32,
    class: LineClass,
    raw: String,
    text: String,
    message: String,
    head: String,
    is_default: bool,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn got(line: &Line<'_>, is_default: bool) -> Got {
    Got {
        number: line.place.number,
        offset: line.place.offset,
        writer: line.writer.0,
        class: line.class,
        raw: text(line.raw),
        text: text(line.text),
        message: text(line.message),
        head: match line.head {
            Head::Nccl(h) => format!(
                "nccl {}:{}:{} {:?} {:?} {:?}",
                text(h.host),
                h.pid,
                h.tid,
                h.dev,
                h.location.map(|(f, l)| (text(f), l)),
                h.stamp.map(text)
            ),
            Head::C10d(h) => format!(
                "c10d {:?} {} {}:{} {:?}",
                h.rank,
                h.level as char,
                text(h.location.0),
                h.location.1,
                h.stamp.map(text)
            ),
            Head::Plain => String::new(),
        },
        is_default,
    }
}

struct Run {
    lines: Vec<Got>,
    demux: Demux,
}

impl Run {
    fn hints(&self, line: usize) -> &[Hint] {
        &self.demux.writers()[self.lines[line].writer as usize].hints
    }

    fn counts(&self) -> Counts {
        self.demux.counts(SourceId(0))
    }

    fn find(&self, message: &str) -> usize {
        self.lines
            .iter()
            .position(|l| l.message == message)
            .unwrap_or_else(|| panic!("no line {message:?} in {:#?}", self.lines))
    }
}

fn info(name: &str) -> SourceInfo {
    SourceInfo {
        id: SourceId(0),
        name: name.to_owned(),
        kind: SourceKind::File,
        host: None,
        pid: None,
        rank: None,
    }
}

fn run_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Run {
    let mut demux = Demux::default();
    let mut lines = Vec::new();
    demux.open(&info("job.log"));
    let mut offset = 0;
    let mut sink = |line: &Line<'_>, writers: &[unhang::engine::demux::Writer]| {
        lines.push(got(line, writers[line.writer.ix()].is_default));
    };
    for chunk in chunks {
        demux.feed(SourceId(0), offset, chunk, &mut sink);
        offset += chunk.len() as u64;
    }
    demux.end(SourceId(0), &mut sink);
    Run { lines, demux }
}

fn run(bytes: impl AsRef<[u8]>) -> Run {
    run_chunks([bytes.as_ref()])
}

#[test]
fn one_prefix_each() {
    let table: &[(&str, &str, &[Hint])] = &[
        (
            "[pod/train-worker-3/pytorch] hello",
            "hello",
            &[Node(3), Name("train-worker-3".into())],
        ),
        ("[1,3]<stdout>:hello", "hello", &[WorldRank(3)]),
        ("[1,3]<stderr>: hello", "hello", &[WorldRank(3)]),
        (
            "[1,3][vm:14924]<stdout>: hello",
            "hello",
            &[WorldRank(3), Host("vm".into()), Pid(14924)],
        ),
        (
            "[1,3][unknown:unknown]<stdout>: hello",
            "hello",
            &[WorldRank(3)],
        ),
        (
            "[prterun-vm-14933@1,3]<stdout>: hello",
            "hello",
            &[WorldRank(3)],
        ),
        ("[3]<stdout>: hello", "hello", &[WorldRank(3)]),
        ("[3]<stderr>:hello", "hello", &[WorldRank(3)]),
        (
            "Mon Nov 30 19:54:43 2026[1,3]<stdout>:hello",
            "hello",
            &[WorldRank(3)],
        ),
        (
            "[Mon Nov 30 19:54:22 2026][1,3]<stdout>: hello",
            "hello",
            &[WorldRank(3)],
        ),
        ("[Mon Nov 30 19:54:22 2026]<stdout>: hello", "hello", &[]),
        ("Mon Nov 30 19:54:42 2026<stdout>:hello", "hello", &[]),
        ("[default3]:hello", "hello", &[LocalRank(3)]),
        (
            "[trainer3]:hello",
            "hello",
            &[LocalRank(3), Name("trainer".into())],
        ),
        (
            "[default11/3@vm]: hello",
            "hello",
            &[WorldRank(11), LocalRank(3), Host("vm".into())],
        ),
        ("[rank3]: hello", "hello", &[WorldRank(3)]),
        ("[node-2]: hello", "hello", &[Node(2)]),
        (
            "(Worker_TP1 pid=964) hello",
            "hello",
            &[EngineRank(1), Pid(964), Name("Worker_TP1".into())],
        ),
        (
            "(Worker_DP0_TP1 pid=964) hello",
            "hello",
            &[EngineRank(1), Pid(964), Name("Worker_DP0_TP1".into())],
        ),
        (
            "(Worker_PP1_TP1 pid=964) hello",
            "hello",
            &[Pid(964), Name("Worker_PP1_TP1".into())],
        ),
        (
            "(VllmWorker rank=5 pid=7) hello",
            "hello",
            &[EngineRank(5), Pid(7), Name("VllmWorker rank=5".into())],
        ),
        (
            "(EngineCore_DP0 pid=9) hello",
            "hello",
            &[Pid(9), Name("EngineCore_DP0".into())],
        ),
        (
            "(APIServer pid=9) hello",
            "hello",
            &[Pid(9), Name("APIServer".into())],
        ),
        (
            "(RayWorkerWrapper pid=123, ip=10.0.0.2) hello",
            "hello",
            &[
                Address("10.0.0.2".into()),
                Pid(123),
                Name("RayWorkerWrapper".into()),
            ],
        ),
        (
            "\x1b[36m(RayWorkerWrapper pid=1)\x1b[0m hello\x1b[32m [repeated 2x across cluster]\x1b[0m",
            "hello",
            &[Pid(1), Name("RayWorkerWrapper".into())],
        ),
        (
            "(MyRankActor(rank=7) pid=17073) hello",
            "hello",
            &[Pid(17073), Name("MyRankActor(rank=7)".into())],
        ),
        ("(pid=17073) hello", "hello", &[Pid(17073)]),
        (
            "[2025-03-08 12:29:11 TP1] hello",
            "hello",
            &[EngineRank(1), Name("TP1".into())],
        ),
        ("2026-11-30T19:34:20.123456789Z hello", "hello", &[]),
        (
            "Nov 30 12:00:00 gpu7.cluster python3[1234]: hello",
            "hello",
            &[Host("gpu7".into()), Pid(1234), Name("python3".into())],
        ),
        (
            "2016-10-06T00:17:09.669794202Z stdout F hello",
            "hello",
            &[],
        ),
        (
            r#"{"log":"hello\n","stream":"stdout","time":"2026-11-30T19:34:20Z"}"#,
            "hello",
            &[],
        ),
        (
            r#"<stdout rank="3">hello&#010;</stdout>"#,
            "hello",
            &[WorldRank(3)],
        ),
        (
            "[0] is setting up NCCL communicator",
            "[0] is setting up NCCL communicator",
            &[],
        ),
        ("[job] rank 0 done", "[job] rank 0 done", &[]),
        ("loss: 3", "loss: 3", &[]),
        ("3: x", "3: x", &[]),
        ("a | b", "a | b", &[]),
        ("[12]: x", "[12]: x", &[]),
        ("(a, b)", "(a, b)", &[]),
    ];
    for (line, expected, hints) in table {
        let run = run(line);
        assert_eq!(run.lines.len(), 1, "{line}: {:#?}", run.lines);
        assert_eq!(run.lines[0].text, *expected, "{line}");
        assert_eq!(run.hints(0), *hints, "{line}");
        assert_eq!(run.lines[0].is_default, hints.is_empty(), "{line}");
        assert_eq!(run.lines[0].raw, *line);
    }
}

#[test]
fn prefixes_nest_and_the_innermost_wins() {
    let run = run(concat!(
        "[pod/w-1/c] [default1]:[rank5]:[E1130 19:43:01.954264601 ProcessGroupNCCL.cpp:29] [PG ID 0 PG GUID 0(default_pg) Rank 5] x\n",
        "[pod/w-1/c] [default1]:hello\n",
        "[1,0]<stdout>:node-0:1067:1070 [0] NCCL INFO Bootstrap\n",
        "(EngineCore_DP0 pid=1) (Worker_TP0 pid=2) hi\n",
        "[1,3]<stderr>:[rank5]: Traceback (most recent call last):\n",
    ));
    assert_eq!(run.lines[0].class, C10d);
    assert_eq!(
        run.lines[0].head,
        "c10d Some(5) E ProcessGroupNCCL.cpp:29 Some(\"1130 19:43:01.954264601\")"
    );
    assert_eq!(
        run.lines[0].message,
        "[PG ID 0 PG GUID 0(default_pg) Rank 5] x"
    );
    assert_eq!(
        run.hints(0),
        [WorldRank(5), LocalRank(1), Node(1), Name("w-1".into())]
    );
    assert_eq!(
        run.lines[0].writer, run.lines[1].writer,
        "a rank in the message adds to the tee's writer"
    );
    assert_eq!(
        run.hints(2),
        [WorldRank(0), Host("node-0".into()), Pid(1067)]
    );
    assert_eq!(
        run.hints(3),
        [EngineRank(0), Pid(2), Name("Worker_TP0".into())]
    );
    assert_eq!(
        run.hints(4),
        [WorldRank(5), Node(3)],
        "a task's number is no rank where PyTorch says another"
    );
}

#[test]
fn nccl_headers_of_every_version() {
    let table: &[(&str, LineClass, &str, &str)] = &[
        (
            "node-0:1067:1070 [0] NCCL INFO Trees [0]",
            NcclInfo,
            "nccl node-0:1067:1070 Some(0) None None",
            "Trees [0]",
        ),
        (
            "node-0:1067:1070 [-1] NCCL INFO x",
            NcclInfo,
            "nccl node-0:1067:1070 Some(-1) None None",
            "x",
        ),
        (
            "node-0:1067:1070 [1835627630] NCCL INFO x",
            NcclInfo,
            "nccl node-0:1067:1070 Some(1835627630) None None",
            "x",
        ),
        (
            "[2026-11-30 12:00:00] node-0:7:8 [0] NCCL INFO x",
            NcclInfo,
            "nccl node-0:7:8 Some(0) None Some(\"2026-11-30 12:00:00\")",
            "x",
        ),
        (
            "2026-11-30 12:00:00.123 node-0:7:8 [0] NCCL INFO x",
            NcclInfo,
            "nccl node-0:7:8 Some(0) None Some(\"2026-11-30 12:00:00.123\")",
            "x",
        ),
        (
            "[Mon Nov 30 12:00:00 CET]node-0:7:8 [0] NCCL INFO x",
            NcclInfo,
            "nccl node-0:7:8 Some(0) None Some(\"Mon Nov 30 12:00:00 CET\")",
            "x",
        ),
        (
            "node-0:7:8 [0] init.cc:584 NCCL WARN x",
            NcclWarn,
            "nccl node-0:7:8 Some(0) Some((\"init.cc\", 584)) None",
            "x",
        ),
        (
            "[2026-11-30 12:00:00] node-0:7:8 [0] transport/net_ib.cc:846 (ncclIbInit) NCCL WARN x: y",
            NcclWarn,
            "nccl node-0:7:8 Some(0) Some((\"transport/net_ib.cc\", 846)) Some(\"2026-11-30 12:00:00\")",
            "x: y",
        ),
        (
            "node-0:7:8 [0] init.cc:5 (f) NCCL ATTN x",
            NcclWarn,
            "nccl node-0:7:8 Some(0) Some((\"init.cc\", 5)) None",
            "x",
        ),
        (
            "node-0:7:8 NCCL CALL ncclAllReduce(1)",
            NcclCall,
            "nccl node-0:7:8 None None None",
            "ncclAllReduce(1)",
        ),
        (
            "node-0:7:8 [0] 12.345678 ncclInit:12 NCCL TRACE x",
            NcclOther,
            "nccl node-0:7:8 Some(0) None None",
            "x",
        ),
        (
            "node-0.cluster.local:7 NCCL DIAG x",
            NcclOther,
            "nccl node-0:7:7 None None None",
            "x",
        ),
        (
            "NCCL version 2.21.5+cuda12.4",
            NcclOther,
            "",
            "NCCL version 2.21.5+cuda12.4",
        ),
        (
            "node-0:7:8 [0] NCCL INFO ",
            NcclInfo,
            "nccl node-0:7:8 Some(0) None None",
            "",
        ),
        (
            "see the NCCL INFO lines",
            App,
            "",
            "see the NCCL INFO lines",
        ),
        (
            "NCCL error in: x.cpp:1, NCCL INFO",
            App,
            "",
            "NCCL error in: x.cpp:1, NCCL INFO",
        ),
    ];
    for (line, class, head, message) in table {
        let run = run(line);
        assert_eq!(run.lines.len(), 1, "{line}");
        assert_eq!(
            (
                run.lines[0].class,
                run.lines[0].head.as_str(),
                run.lines[0].message.as_str()
            ),
            (*class, *head, *message),
            "{line}"
        );
    }
}

#[test]
fn torch_headers_of_every_version() {
    let table: &[(&str, LineClass, &str, &str)] = &[
        (
            "[E ProcessGroupNCCL.cpp:828] [Rank 1] x",
            C10d,
            "c10d None E ProcessGroupNCCL.cpp:828 None",
            "[Rank 1] x",
        ),
        (
            "[rank0]:[E ProcessGroupNCCL.cpp:523] x",
            C10d,
            "c10d Some(0) E ProcessGroupNCCL.cpp:523 None",
            "x",
        ),
        (
            "[rank0]:[W513 02:14:17.000348870 socket.cpp:12] [c10d] x",
            C10d,
            "c10d Some(0) W socket.cpp:12 Some(\"513 02:14:17.000348870\")",
            "[c10d] x",
        ),
        (
            "E20261130 20:16:15.244186 27355 ProcessGroupGloo.cpp:137] x",
            C10d,
            "c10d None E ProcessGroupGloo.cpp:137 Some(\"20261130 20:16:15.244186\")",
            "x",
        ),
        (
            "W1130 19:29:23.404000 18310 torch/distributed/run.py:982] x",
            C10d,
            "c10d None W torch/distributed/run.py:982 Some(\"1130 19:29:23.404000\")",
            "x",
        ),
        (
            "[rank1]:I1130 20:00:38.247000 55 torch/x.py:7] x",
            C10d,
            "c10d Some(1) I torch/x.py:7 Some(\"1130 20:00:38.247000\")",
            "x",
        ),
        (
            "WARNING:torch.distributed.run:",
            C10d,
            "c10d None W torch.distributed.run:0 None",
            "",
        ),
        (
            "E1130 19:46:21.850000 2430 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 2715) of binary: /opt/python3",
            Launcher,
            "c10d None E torch/distributed/elastic/multiprocessing/api.py:1002 Some(\"1130 19:46:21.850000\")",
            "failed (exitcode: -9) local_rank: 1 (pid: 2715) of binary: /opt/python3",
        ),
        (
            "[/pytorch/third_party/gloo/gloo/transport/tcp/debug_logger.cc:7] ERROR failed to connect",
            C10d,
            "c10d None E /pytorch/third_party/gloo/gloo/transport/tcp/debug_logger.cc:7 None",
            "failed to connect",
        ),
        (
            "[Errno 98] Address already in use",
            App,
            "",
            "[Errno 98] Address already in use",
        ),
        ("Epoch 1: E1130", App, "", "Epoch 1: E1130"),
    ];
    for (line, class, head, message) in table {
        let run = run(line);
        assert_eq!(
            (
                run.lines[0].class,
                run.lines[0].head.as_str(),
                run.lines[0].message.as_str()
            ),
            (*class, *head, *message),
            "{line}"
        );
    }
}

#[test]
fn tracebacks_and_reports_are_blocks() {
    let run = run(include_str!("demux/torchrun.txt"));
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
fn numbers_in_front_are_learned_before_they_are_ranks() {
    let labelled = |form: fn(u32) -> String| {
        (0..6)
            .flat_map(|i| (0..4).map(move |r| (i, r)))
            .map(|(i, r)| format!("{}line {i} of {r}\n", form(r)))
            .collect::<String>()
    };
    type Form = (fn(u32) -> String, fn(u32) -> Hint);
    let forms: [Form; 5] = [
        (|r| format!("[{r}] "), WorldRank),
        (|r| format!("{r:>3}: "), WorldRank),
        (|r| format!("gpu{r}: "), |r| Host(format!("gpu{r}"))),
        (
            |r| format!("trainer-{r}  | "),
            |r| Name(format!("trainer-{r}")),
        ),
        (|r| format!("[{r}@vm] "), WorldRank),
    ];
    for (form, hint) in forms {
        let run = run(labelled(form));
        let line = run.find("line 5 of 3");
        assert!(
            run.hints(line).contains(&hint(3)),
            "{}: {:?}",
            form(3),
            run.hints(line)
        );
    }
    // Counters, a constant, and text with words before a colon are none.
    let counter: String = (0..40).map(|i| format!("[{i}] loss\n")).collect();
    let constant: String = (0..40)
        .map(|i| format!("0: 480x640 {i} persons\n"))
        .collect();
    let mixed: String = (0..40).map(|i| format!("[{}] x\nother\n", i % 4)).collect();
    for text in [counter, constant, mixed] {
        assert!(run(&text).lines.iter().all(|l| l.is_default), "{text}");
    }
    // A known form behind one decides at once.
    let run = run(
        "3: node-0:7:8 [0] NCCL INFO x\n[2] node-1:7:8 [0] NCCL INFO y\nnode-2: node-2:7:7 [0] NCCL INFO z\n",
    );
    assert_eq!(run.hints(0), [WorldRank(3), Host("node-0".into()), Pid(7)]);
    assert_eq!(run.hints(1), [WorldRank(2), Host("node-1".into()), Pid(7)]);
    assert_eq!(run.lines[2].text, "node-2:7:7 [0] NCCL INFO z");
}

#[test]
fn a_label_over_two_processes_is_a_task() {
    let line =
        |label: u32, pid: u32| format!("{label}: node-{label}:{pid}:{pid} [0] NCCL INFO x\n");
    let run = run([
        line(0, 10),
        line(1, 10),
        line(0, 11),
        line(0, 10),
        line(0, 11),
        line(1, 12),
    ]
    .concat());
    for at in 0..6 {
        assert!(
            !run.hints(at).iter().any(|h| matches!(h, WorldRank(_))),
            "{:?}",
            run.hints(at)
        );
    }
    assert!(run.hints(0).contains(&Node(0)));
    assert!(run.hints(1).contains(&Node(1)));
}

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
fn stack_bytes_behind_a_long_message_are_cut() {
    let mut bytes = b"node-0:7:8 [0] NCCL INFO ".to_vec();
    bytes.resize(1023, b'x');
    bytes.extend_from_slice(b"\0\x7f\xff\0garbage\0node-0:7:9 [0] NCCL INFO next\n");
    let run = run(&bytes);
    assert_eq!(run.lines.len(), 2, "{:#?}", run.lines);
    assert!(
        run.lines[0].message.bytes().all(|b| b == b'x') && run.lines[0].message.len() == 1023 - 25
    );
    assert_eq!(run.lines[1].message, "next");
    assert_eq!(run.lines[0].writer, run.lines[1].writer);
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

#[test]
fn the_quick_way_reads_a_line_as_the_long_way() {
    for line in [
        "node-0:1067:1070 [0] NCCL INFO Trees [0]",
        "node-0:1067:1070 [-1] NCCL INFO ",
        "node-0:7:8 [0] transport/net_ib.cc:846 (ncclIbInit) NCCL WARN x: y",
        "node-0:7:8 [0] init.cc:5 NCCL ATTN x",
        "node-0:7:8 NCCL CALL ncclAllReduce(1)",
        "node-0:7:8 [0] 12.345678 ncclInit:12 NCCL TRACE x",
        "[1,3]<stdout>:node-0:7:8 [0] NCCL INFO x",
        " 3: [default1]:node-0:7:8 [0] NCCL INFO x",
        "(Worker_TP1 pid=7) node-0:7:8 [0] NCCL INFO x",
        "a:1:1 [0] NCCL INFO b:2:2 [0] NCCL INFO two",
    ] {
        let run = run(format!(
            "{line}\n{line}\nother:9:9 [0] NCCL INFO z\n{line}\n"
        ));
        let once = (run.lines.len() - 1) / 3;
        let shape = |at: usize| Got {
            number: 0,
            offset: 0,
            ..run.lines[at].clone()
        };
        for at in 0..once {
            assert_eq!(shape(at), shape(at + once), "{line}");
            assert_eq!(shape(at), shape(at + 2 * once + 1), "{line}");
        }
    }
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
fn a_repeat_mark_in_a_prefix_harms_nobody() {
    for line in [
        "(W pid=1) (a [repeated 2x across cluster] pid=2) h:1:1 [0] NCCL INFO x)",
        "(a [repeated 2x across cluster] pid=2) ]",
        "(W pid=1) [repeated 2x across cluster]",
    ] {
        assert!(run(line).lines.len() <= 1);
    }
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
        let mut check = |line: &Line<'_>, _: &[unhang::engine::demux::Writer]| {
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

/// Class, what is known of the writer, and the text of every line.
fn told(run: &Run) -> String {
    (0..run.lines.len())
        .map(|at| {
            format!(
                "{:<11} {:?} | {}\n",
                run.lines[at].class.name(),
                run.hints(at),
                run.lines[at].text
            )
        })
        .collect()
}

#[test]
fn recorded_launchers_name_the_rank_of_every_line() {
    let recorded = include_bytes!("demux/launchers.txt");
    let mut out = String::new();
    let mut sections = Vec::new();
    for line in recorded.split_inclusive(|b| *b == b'\n') {
        match line.strip_prefix(b"== ") {
            Some(name) => sections.push((text(name), Vec::new())),
            None => sections
                .last_mut()
                .expect("the file begins with a name")
                .1
                .extend_from_slice(line),
        }
    }
    for (name, bytes) in &sections {
        out += &format!("== {name}{}", told(&run(bytes)));
        // What each tagged line says of its own rank is what its writer is taken for.
        if name.contains("tag") || name.contains("output-rank") || name.contains("xml") {
            let run = run(bytes);
            for at in 0..run.lines.len() {
                if let Some((_, rank)) = run.lines[at].text.rsplit_once("from rank ") {
                    let rank = rank
                        .trim_end()
                        .parse()
                        .expect("the program printed its rank");
                    assert!(
                        run.hints(at).contains(&WorldRank(rank)),
                        "{name}{:?}",
                        run.lines[at]
                    );
                }
            }
        }
    }
    insta::assert_snapshot!(out);
}

#[test]
fn recorded_ray_driver() {
    insta::assert_snapshot!(told(&run(include_bytes!("demux/ray.txt"))));
}
