//! Recorded answers, older texts, and what is no answer.

use super::*;

/// A recorded answer.
fn fixture(name: &str) -> Vec<u8> {
    macro_rules! recorded {
        ($($name:literal),*) => {
            match name {
                $($name => &include_bytes!(concat!("../../../fixtures/cases/", $name))[..],)*
                _ => panic!("{name} is not listed"),
            }
        };
    }
    recorded!(
        "skipped-collective/ras.txt",
        "skipped-collective/ras.json",
        "mismatch-count-16/ras.txt",
        "mismatch-count-16/ras.json",
        "rank-killed-16/ras.txt",
        "rank-killed-16/ras.json"
    )
    .to_vec()
}

fn read(name: &str) -> Reply {
    parse(SourceId(0), &fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn ranks(side: &Side) -> Vec<u32> {
    side.ranks.iter().filter_map(|p| p.rank).collect()
}

#[test]
fn text_and_json_tell_the_same() {
    for (name, function, behind, launched) in [
        ("skipped-collective", "AllReduce", 1, 2),
        ("mismatch-count-16", "AllReduce", 9, 2),
    ] {
        for end in ["txt", "json"] {
            let reply = read(&format!("{name}/ras.{end}"));
            assert_eq!(reply.nccl.as_deref(), Some("2.28.9"));
            assert_eq!((reply.total, reply.timeouts), (1, 0));
            let [comm] = &reply.comms[..] else {
                panic!("{name}: one communicator")
            };
            assert_eq!(comm.nranks, Some(reply.largest));
            let [counts] = &comm.counts[..] else {
                panic!("{name}: one function differs")
            };
            assert_eq!(counts.function, function);
            let least = counts.sides.last().expect("two sides");
            assert_eq!((least.launched, ranks(least)), (launched, vec![behind]));
            let line = least.ranks[0].line.as_ref().expect("its line");
            let text = String::from_utf8(fixture(&format!("{name}/ras.{end}"))).expect("UTF-8");
            let there = text.lines().nth(line.place.number as usize - 1);
            let there = there.expect("the line exists").to_lowercase();
            assert!(
                there.contains("rank") && there.contains(&behind.to_string()),
                "{there}"
            );
        }
    }
}

#[test]
fn a_process_that_is_gone() {
    for end in ["txt", "json"] {
        let reply = read(&format!("rank-killed-16/ras.{end}"));
        let comm = &reply.comms[0];
        let missing: Vec<_> = comm.missing.iter().map(|p| (p.rank, p.pid)).collect();
        assert_eq!(missing, [(Some(6), Some(3348))], "{end}");
        assert_eq!(comm.errors.len(), 1, "{end}");
        assert_eq!(comm.errors[0].0.rank, Some(4), "{end}");
        assert_eq!(reply.lost.len(), 1, "{end}");
    }
}

#[test]
fn older_texts() {
    let head = "NCCL version 2.24.3 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version 12080\n\nCommunicators... (0.00s)\n=============\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  in group\n    0         1         2         4         8         8   RUNNING  MISMATCH\n\nErrors\n======\n\n";
    let reply = format!(
        "SERVER PROTOCOL 2\r\nOK\n{head}#0-0 (00000000000000aa) INCOMPLETE\n  Missing communicator data from 3 ranks\n  The missing rank(s): 1, 4-5\n\nWarnings\n========\n\nTIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n#0-0 (00000000000000aa) MISMATCH\n  Communicator ranks have different collective operation counts\n  4 ranks have launched up to operation 7\n  Rank 2 has not launched any operations -- GPU 2 (NVML 6) managed by process 12 on node 10.0.0.1\n"
    );
    let reply = parse(SourceId(0), reply.as_bytes()).expect("an answer");
    let comm = &reply.comms[0];
    assert_eq!((comm.hash, comm.nranks, reply.timeouts), (0xaa, Some(8), 2));
    let missing: Vec<_> = comm.missing.iter().filter_map(|p| p.rank).collect();
    assert_eq!(missing, [1, 4, 5]);
    let sides: Vec<_> = comm.counts[0]
        .sides
        .iter()
        .map(|s| (s.launched, s.size, ranks(s)))
        .collect();
    assert_eq!(sides, [(7, 4, vec![]), (0, 1, vec![2])]);
    assert_eq!(comm.counts[0].sides[1].ranks[0].pid, Some(12));
}

#[test]
fn ranks_of_a_group_follow_its_line() {
    let reply = "NCCL version 2.30.4 compiled with CUDA 13.0\n\nWarnings\n========\n\n#1-3 (ff) MISMATCH\n  Communicator ranks have different status\n  6 ranks have status RUNNING\n  2 ranks have status ABORT\n  Rank 3 -- GPU 3 managed by process 4 on node 10.0.0.1\n  Rank 4 -- GPU 4 managed by process 5 on node 10.0.0.1\n\n  Communicator ranks have different AllReduce operation counts\n  6 ranks have launched up to operation 9\n  2 ranks have launched up to operation 8\n  Rank 3 -- GPU 3 managed by process 4 on node 10.0.0.1\n  Rank 4 -- GPU 4 managed by process 5 on node 10.0.0.1\n";
    let reply = parse(SourceId(0), reply.as_bytes()).expect("an answer");
    let comm = &reply.comms[0];
    let states: Vec<_> = comm
        .states
        .iter()
        .map(|(p, s)| (p.rank, s.as_str()))
        .collect();
    assert_eq!(states, [(Some(3), "ABORT"), (Some(4), "ABORT")]);
    assert_eq!(ranks(&comm.counts[0].sides[1]), [3, 4]);
}

#[test]
fn what_is_no_answer_is_refused() {
    let refused = |reply: &[u8]| parse(SourceId(0), reply).expect_err("refused");
    assert_eq!(refused(b""), Refused::Empty);
    assert_eq!(refused(b"connection refused\n"), Refused::Foreign);
    assert_eq!(
        refused(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        Refused::Foreign
    );
    assert_eq!(refused(b"{\"state\": 1}"), Refused::Foreign);
    // It may come from a file as well as from a server.
    let unlike = refused(b"{\"nccl_version\": \"2.28.9\", \"communicators\": 3}").to_string();
    assert!(
        unlike.starts_with("it is an answer of NCCL RAS in a form that is not known: invalid type")
    );
    assert!(matches!(
        refused(b"ERROR: Invalid timeout value x\n"),
        Refused::Server(_)
    ));
    for end in ["txt", "json"] {
        let whole = fixture(&format!("rank-killed-16/ras.{end}"));
        for cut in 0..whole.len().saturating_sub(3) {
            let _panics_never = parse(SourceId(0), &whole[..cut]);
        }
        let half = parse(SourceId(0), &whole[..whole.len() / 2]);
        assert!(half.is_err(), "{end}: {half:?}");
    }
}

#[test]
fn numbers_of_hostile_answers_are_bounded() {
    let head =
        "NCCL version 2.24.3 compiled with CUDA 12.8\n\nErrors\n======\n\n#0-0 (aa) INCOMPLETE\n";
    let reply = format!("{head}  The missing rank(s): 0-4294967295\n\nWarnings\n========\n");
    let reply = parse(SourceId(0), reply.as_bytes()).expect("an answer");
    assert!(reply.comms[0].missing.len() <= 1 << 17);
}
