//! Prefixes of launchers, containers and frameworks.

use unhang::engine::demux::Hint;
use unhang::engine::demux::Hint::{
    Address, EngineRank, Host, LocalRank, Name, Node, Pid, WorldRank,
};
use unhang::engine::vocab::LineClass::C10d;

use crate::support::run;

#[test]
fn one_prefix_each() {
    let table: &[(&str, &str, &[Hint])] = &[
        (
            "[pod/train-worker-3/pytorch] hello",
            "hello",
            &[Name("train-worker-3".into())],
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
        (
            "[default3/11]:hello",
            "hello",
            &[WorldRank(11), LocalRank(3)],
        ),
        ("[epoch3/10]: loss", "[epoch3/10]: loss", &[]),
        ("[Rank3]:hello", "[Rank3]:hello", &[]),
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
fn a_repeat_mark_in_a_prefix_harms_nobody() {
    for line in [
        "(W pid=1) (a [repeated 2x across cluster] pid=2) h:1:1 [0] NCCL INFO x)",
        "(a [repeated 2x across cluster] pid=2) ]",
        "(W pid=1) [repeated 2x across cluster]",
    ] {
        assert!(run(line).lines.len() <= 1);
    }
}
