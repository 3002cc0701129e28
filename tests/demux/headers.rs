//! Headers of NCCL and PyTorch, of every version.

use unhang::engine::vocab::LineClass;
use unhang::engine::vocab::LineClass::{
    App, C10d, Launcher, NcclCall, NcclInfo, NcclOther, NcclWarn,
};

use crate::support::{Got, run};

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
