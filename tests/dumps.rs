//! Dumps of PyTorch's Flight Recorder: every format is read, nothing is executed, and the odd rank is found whatever the
//! order of the files.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeSet;

use unhang::engine::dump::{self, Common};
use unhang::engine::finding::Finding;
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Role, Severity, State};

#[path = "dumps/batches.rs"]
mod batches;
#[path = "common/drive.rs"]
#[expect(dead_code, reason = "whole logs and dumps are given here")]
mod drive;
#[path = "dumps/files.rs"]
mod files;
#[path = "dumps/partial.rs"]
mod partial;
#[path = "dumps/pipelines.rs"]
mod pipelines;
#[path = "../examples/synth_dumps/dump.rs"]
mod synth;
#[path = "dumps/together.rs"]
mod together;

use synth::{Dump, Entry, Group};

const START: i64 = 1_796_000_000_000_000_000;

/// A collective of a group, through.
fn call(group: usize, seq: u32, name: &str, shape: &[i64]) -> Entry {
    Entry {
        group,
        seq,
        p2p_seq: 0,
        op_id: seq,
        name: format!("nccl:{name}"),
        inputs: vec![shape.to_vec()],
        outputs: vec![shape.to_vec()],
        datatype: "Float",
        state: "completed",
        retired: true,
        created_ns: START + i64::from(seq) * 1_000_000,
        frames: vec![("main", "/job/train.py", i64::from(seq))],
    }
}

/// The same, not through.
fn open(entry: Entry) -> Entry {
    Entry {
        state: "started",
        retired: false,
        ..entry
    }
}

/// A send or recv.
fn p2p(n: u32, name: &str, shape: &[i64]) -> Entry {
    Entry {
        seq: 0,
        p2p_seq: n,
        ..call(0, n, name, shape)
    }
}

fn world(ranks: u32) -> Group {
    Group {
        pg_id: 0,
        name: "0".to_owned(),
        desc: "default_pg".to_owned(),
        ranks: (0..ranks).collect(),
    }
}

fn group(name: u32, ranks: &[u32]) -> Group {
    Group {
        pg_id: name.into(),
        name: name.to_string(),
        desc: "undefined".to_owned(),
        ranks: ranks.to_vec(),
    }
}

/// A dump of a rank in a world of `ranks`.
fn of_world(ranks: u32, entries: Vec<Entry>) -> Dump {
    Dump {
        groups: vec![world(ranks)],
        entries,
        first: 0,
    }
}

/// `ranks` equal dumps: `steps` all-reduces, the last of them not through.
fn equal(ranks: u32, steps: u32) -> Vec<Dump> {
    let mut entries: Vec<Entry> = (1..=steps)
        .map(|n| call(0, n, "all_reduce", &[256]))
        .collect();
    let last = entries.pop().unwrap();
    entries.push(open(last));
    vec![of_world(ranks, entries); ranks as usize]
}

fn named(dumps: &[Dump]) -> Vec<(String, Vec<u8>)> {
    let dumps = dumps.iter().enumerate();
    dumps
        .map(|(n, d)| (format!("fr_rank_{n}"), d.pickle()))
        .collect()
}

fn ask(files: &[(String, Vec<u8>)], stuck: bool) -> Snapshot {
    let dumps: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(n, b)| (n.as_str(), b.as_slice()))
        .collect();
    drive::diagnose_all(&[], [], &dumps, stuck)
}

fn stuck(dumps: &[Dump]) -> Snapshot {
    ask(&named(dumps), true)
}

fn lead(answer: &Snapshot) -> &Finding {
    &answer.findings[answer.verdict.finding.expect("a cause")]
}

fn causes(answer: &Snapshot) -> Vec<&str> {
    let causes = answer.findings.iter().filter(|f| f.role == Role::Cause);
    causes.map(|f| f.id.as_str()).collect()
}

/// Every way to lay out eight files that matters: each rotation, forwards and backwards.
fn orders(files: &[(String, Vec<u8>)]) -> Vec<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for n in 0..files.len() {
        let mut order = files.to_vec();
        order.rotate_left(n);
        all.push(order.clone());
        order.reverse();
        all.push(order);
    }
    all
}

#[test]
fn one_wrong_rank_of_eight_is_named_and_only_it_in_any_order_of_the_files() {
    type Change = (&'static str, &'static str, fn(&mut Entry));
    let changes: [Change; 3] = [
        ("function", "COLL001", |e| {
            e.name = "nccl:broadcast".to_owned();
        }),
        ("size", "COLL001", |e| {
            e.inputs = vec![vec![512]];
            e.outputs = vec![vec![512]];
        }),
        ("datatype", "COLL001", |e| e.datatype = "Double"),
    ];
    for (aspect, id, change) in changes {
        for odd in [0, 3, 7] {
            let mut dumps = equal(8, 5);
            change(dumps[odd].entries.last_mut().unwrap());
            for order in orders(&named(&dumps)) {
                let answer = ask(&order, true);
                assert_eq!(
                    answer.verdict.ranks,
                    [odd as u32],
                    "{aspect}: {}",
                    answer.verdict.summary
                );
                assert_eq!(answer.verdict.class, Class::MismatchedCollective);
                assert_eq!(answer.verdict.state, State::Hung);
                assert_eq!(causes(&answer), [id]);
                assert!(
                    lead(&answer).explanation.contains(aspect),
                    "{}",
                    lead(&answer).explanation
                );
            }
        }
    }
}

#[test]
fn a_rank_that_never_came_is_named_in_any_order_of_the_files() {
    let mut dumps = equal(8, 5);
    dumps[6].entries.pop();
    for order in orders(&named(&dumps)) {
        let answer = ask(&order, true);
        assert_eq!(answer.verdict.ranks, [6]);
        assert_eq!(answer.verdict.class, Class::MissingRank);
        assert_eq!(answer.verdict.state, State::Hung);
        let sites = lead(&answer).sites.as_deref();
        assert_eq!(
            sites,
            Some(
                "rank 6 last called all_reduce at train.py:4 (main), ranks 0-5, 7 wait in all_reduce at train.py:5 (main)"
            )
        );
        let entries: BTreeSet<Option<u64>> =
            lead(&answer).evidence.iter().map(|e| e.entry).collect();
        assert_eq!(entries, BTreeSet::from([Some(3), Some(4)]));
    }
    // Nothing proves that it stands still: late is not stuck.
    let answer = ask(&named(&dumps), false);
    assert_eq!(answer.verdict.state, State::Waiting);
    assert!(answer.findings.iter().all(|f| f.severity == Severity::Info));
}

#[test]
fn one_against_one_accuses_nobody() {
    let mut dumps = equal(2, 3);
    dumps[1].entries.last_mut().unwrap().datatype = "Half";
    let answer = stuck(&dumps);
    assert_eq!(causes(&answer), ["COLL002"]);
    assert!(answer.verdict.ranks.is_empty());
    assert!(
        answer
            .verdict
            .summary
            .ends_with("which is wrong cannot be told")
    );
}

#[test]
fn a_running_job_is_silent() {
    // Some are through the call, some are in it, some have it in the queue.
    let mut dumps = equal(4, 5);
    dumps[0].entries.last_mut().unwrap().state = "completed";
    dumps[1].entries.last_mut().unwrap().state = "scheduled";
    let answer = ask(&named(&dumps), false);
    assert!(answer.findings.is_empty(), "{:?}", answer.findings);
    assert_eq!(answer.verdict.state, State::Healthy);
    // Of a job that stands still it is said, and nobody is accused of it.
    let answer = ask(&named(&dumps), true);
    assert_eq!(causes(&answer), ["FR003"]);
    assert!(answer.verdict.ranks.is_empty());
    let title = &lead(&answer).title;
    let parts = "ranks 1-3 got no further, rank 0 is through it";
    assert!(title.ends_with(parts), "{title}");
    // A dump that was taken earlier: whoever is beyond a call that needs everybody shows that all made it.
    let mut dumps = equal(4, 50);
    dumps[2].entries.truncate(20);
    let answer = ask(&named(&dumps), false);
    assert!(answer.findings.is_empty(), "{:?}", answer.findings);
}

#[test]
fn sizes_that_may_differ_are_no_mismatch() {
    for (name, of) in [
        (
            "all_to_all",
            (|r| (vec![vec![r + 1]], vec![vec![9 - r]])) as fn(i64) -> _,
        ),
        ("gather", |r| {
            (
                vec![vec![4]],
                if r == 0 { vec![vec![4]; 4] } else { vec![] },
            )
        }),
        ("scatter", |r| {
            (
                if r == 0 { vec![vec![4]; 4] } else { vec![] },
                vec![vec![4]],
            )
        }),
        ("all_reduce", |r| {
            if r == 0 {
                (vec![vec![4, 2]], vec![vec![8]])
            } else {
                (vec![vec![8]], vec![vec![2, 4]])
            }
        }),
    ] {
        let dumps: Vec<Dump> = (0..4)
            .map(|rank| {
                let (inputs, outputs) = of(rank);
                let entry = Entry {
                    inputs,
                    outputs,
                    ..call(0, 1, name, &[])
                };
                of_world(4, vec![entry])
            })
            .collect();
        let answer = ask(&named(&dumps), false);
        assert!(answer.findings.is_empty(), "{name}: {:?}", answer.findings);
    }
}

#[test]
fn another_order_of_the_same_calls_is_said_so() {
    let mut dumps = equal(4, 5);
    for dump in &mut dumps {
        dump.entries.push(open(call(0, 6, "broadcast", &[8])));
    }
    let odd = &mut dumps[1].entries;
    let (five, six) = (odd[4].clone(), odd[5].clone());
    odd[4] = Entry { seq: 5, ..six };
    odd[5] = Entry { seq: 6, ..five };
    let answer = stuck(&dumps);
    assert_eq!(causes(&answer), ["COLL003"]);
    assert_eq!(answer.verdict.ranks, [1]);
}

#[test]
fn a_mismatch_that_everybody_got_through_is_wrong_results() {
    let mut dumps = equal(4, 5);
    dumps[3].entries[2].datatype = "Int";
    let answer = ask(&named(&dumps), false);
    assert_eq!(causes(&answer), ["COLL004"]);
    assert_eq!(answer.verdict.state, State::WrongResults);
}

#[test]
fn a_ring_that_has_wrapped_is_aligned_by_the_calls_numbers() {
    // Every ring keeps another part of the calls.
    let mut dumps = equal(8, 100);
    for (rank, dump) in dumps.iter_mut().enumerate() {
        let cut = 20 + rank * 5;
        dump.entries.drain(..cut);
        dump.first = cut as i64;
    }
    dumps[4].entries.last_mut().unwrap().datatype = "Double";
    let answer = stuck(&dumps);
    assert_eq!(answer.verdict.ranks, [4]);
    assert!(answer.verdict.summary.contains("as call 100 on default_pg"));
}

#[test]
fn a_send_without_its_recv_names_the_peer() {
    let waits = of_world(
        4,
        vec![p2p(1, "send 0->1", &[8]), open(p2p(2, "send 0->1", &[8]))],
    );
    let peer = of_world(
        4,
        vec![p2p(1, "recv 1<-0", &[8]), call(0, 1, "all_reduce", &[1])],
    );
    let idle = of_world(4, vec![call(0, 1, "all_reduce", &[1])]);
    let mut sender = waits;
    sender.entries.insert(0, call(0, 1, "all_reduce", &[1]));
    let answer = stuck(&[sender, peer, idle.clone(), idle]);
    assert_eq!(causes(&answer), ["FR002"]);
    assert_eq!(answer.verdict.ranks, [1]);
    assert_eq!(
        answer.verdict.summary,
        "rank 0 waits in send 0->1 of [8] Float at train.py:2 (main) on default_pg; rank 1 never called the matching recv"
    );
}

#[test]
fn a_send_and_a_recv_of_another_size_do_not_fit() {
    let send = of_world(2, vec![open(p2p(1, "send 0->1", &[8]))]);
    let recv = of_world(2, vec![open(p2p(1, "recv 1<-0", &[16]))]);
    let answer = stuck(&[send, recv]);
    assert_eq!(causes(&answer), ["COLL002"]);
    assert!(
        answer.verdict.summary.contains("send 0->1 of [8] Float"),
        "{}",
        answer.verdict.summary
    );
    assert!(answer.verdict.summary.contains("recv 1<-0 of [16] Float"));
}

#[test]
fn two_that_both_send_wait_for_each_other() {
    let a = of_world(2, vec![open(p2p(1, "send 0->1", &[8]))]);
    let b = of_world(2, vec![open(p2p(1, "send 1->0", &[8]))]);
    let answer = stuck(&[a, b]);
    assert_eq!(causes(&answer), ["COLL007"]);
    assert!(answer.verdict.ranks.is_empty());
}

#[test]
fn a_wait_is_followed_through_groups_to_the_rank_that_waits_for_nobody() {
    // A pipeline 0 → 1 → 2 → 3: rank 3 left its loop, 2 waits for it in their group, 1 for 2, 0 for 1.
    let groups = |rank: u32| -> Vec<Group> {
        let mut groups = vec![world(4)];
        groups.extend(
            (0..3)
                .filter(|n| *n == rank || *n + 1 == rank)
                .map(|n| group(n + 1, &[n, n + 1])),
        );
        groups
    };
    let dump = |rank: u32, entries: Vec<Entry>| Dump {
        groups: groups(rank),
        entries,
        first: 0,
    };
    let first = || call(0, 1, "all_reduce", &[1]);
    // Indices of groups within each dump: 1 is the earlier neighbour's, 2 the later one's.
    let dumps = [
        dump(0, vec![first(), open(call(1, 1, "broadcast", &[4]))]),
        dump(1, vec![first(), open(call(2, 1, "broadcast", &[4]))]),
        dump(2, vec![first(), open(call(2, 1, "broadcast", &[4]))]),
        dump(3, vec![first()]),
    ];
    let answer = stuck(&dumps);
    assert_eq!(answer.verdict.ranks, [3], "{}", answer.verdict.summary);
    assert_eq!(causes(&answer), ["RANK001"]);
    // Rank 3 called nothing in the group that it is waited for in: where it was last is told all the same.
    let sites = lead(&answer).sites.as_deref().unwrap_or_default();
    let last = "rank 3 last called all_reduce at train.py:1 (main)";
    assert!(sites.starts_with(last), "{sites}");
    let symptoms = answer
        .findings
        .iter()
        .filter(|f| f.role == Role::Symptom)
        .count();
    assert_eq!(symptoms, 2);
}

#[test]
fn a_circle_of_waits_accuses_nobody() {
    let groups = || vec![world(2), group(1, &[0, 1]), group(2, &[0, 1])];
    let dump = |entries: Vec<Entry>| Dump {
        groups: groups(),
        entries,
        first: 0,
    };
    let dumps = [
        dump(vec![open(call(1, 1, "all_reduce", &[4]))]),
        dump(vec![open(call(2, 1, "all_reduce", &[4]))]),
    ];
    let answer = stuck(&dumps);
    assert_eq!(causes(&answer), ["COLL010"]);
    assert_eq!(answer.verdict.class, Class::MismatchedCollective);
    assert!(answer.verdict.ranks.is_empty());
}

#[test]
fn coalesced_calls_are_compared_one_by_one() {
    let part = |n: u32, name: &str, size: i64| Entry {
        op_id: n,
        ..open(call(0, 2, name, &[size]))
    };
    // An all_gather of unequal parts is a broadcast of each.
    for (name, odd) in [
        (
            "_reduce_scatter_base",
            "reduce_scatter_tensor of [17] Float",
        ),
        (
            "_broadcast_oop",
            "(part of an uneven all_gather) of [17] Float",
        ),
    ] {
        compare_coalesced(&part, name, odd);
    }
}

fn compare_coalesced(part: &dyn Fn(u32, &str, i64) -> Entry, name: &str, odd: &str) {
    let coalesced = |sizes: [i64; 3]| {
        let mut entries = vec![call(0, 1, "all_reduce", &[1])];
        let parts = sizes.iter().zip(2..).map(|(size, n)| part(n, name, *size));
        entries.extend(parts);
        entries.push(part(5, "coalesced", 0));
        of_world(4, entries)
    };
    let mut dumps = vec![coalesced([8, 16, 32]); 4];
    let answer = ask(&named(&dumps), false);
    assert!(answer.findings.is_empty(), "{:?}", answer.findings);
    dumps[2] = coalesced([8, 17, 32]);
    let answer = stuck(&dumps);
    assert_eq!(answer.verdict.ranks, [2]);
    let summary = &answer.verdict.summary;
    assert!(summary.contains(odd), "{summary}");
}

#[test]
fn a_mismatch_that_all_got_on_behind_is_not_what_holds_them() {
    let dump = |rank: u32| {
        let size = |seq: u32| if (rank, seq) == (1, 2) { 5 } else { 6 };
        let mut entries: Vec<Entry> = (1..=20)
            .map(|seq| call(0, seq, "all_reduce", &[size(seq)]))
            .collect();
        if rank != 2 {
            entries.push(open(call(0, 21, "all_reduce", &[6])));
        }
        of_world(4, entries)
    };
    let dumps: Vec<Dump> = (0..4).map(dump).collect();
    let answer = stuck(&dumps);
    assert_eq!(answer.verdict.class, Class::MissingRank);
    assert_eq!(answer.verdict.ranks, [2]);
    let ids: Vec<&str> = answer.findings.iter().map(|f| f.id.as_str()).collect();
    assert!(ids.contains(&"COLL004"), "{ids:?}");
}

#[test]
fn missing_dumps_are_named_and_not_fatal() {
    let dumps = equal(8, 5);
    let mut some = named(&dumps);
    some.remove(5);
    // The others wait in a call that needs rank 5 too, and the job stands still.
    let answer = ask(&some, true);
    assert_eq!(causes(&answer), ["FR001"]);
    assert_eq!(answer.verdict.ranks, [5]);
    assert!(
        answer
            .verdict
            .summary
            .starts_with("rank 5 left no Flight Recorder dump")
    );
    let answer = ask(&some, false);
    assert_eq!(answer.verdict.state, State::Waiting);
    assert!(answer.verdict.ranks.is_empty());
    // With one dump of eight, or those of one host of two, the others were just not given.
    let answer = ask(&named(&dumps)[..4], true);
    assert!(answer.verdict.ranks.is_empty());
    let answer = ask(&some[..1], true);
    assert!(answer.verdict.ranks.is_empty());
    assert!(
        answer
            .findings
            .iter()
            .any(|f| f.id == "FR001" && f.role == Role::Note)
    );
}

#[test]
fn everybody_in_the_same_call_is_no_fault_of_a_rank() {
    let answer = stuck(&equal(8, 5));
    assert_eq!(causes(&answer), ["FR003"]);
    assert_eq!(answer.verdict.state, State::Hung);
    assert!(answer.verdict.ranks.is_empty());
    let missing = answer.verdict.missing_evidence.join("\n");
    assert!(missing.contains("reduction"), "{missing}");
}

/// The GPU of a rank has not begun the call that those of the others stand in.
#[test]
fn a_gpu_that_has_not_begun_the_call_is_waited_for() {
    let idle = |dumps: &mut [Dump], ranks: &[usize]| {
        for rank in ranks {
            dumps[*rank].entries.last_mut().unwrap().state = "scheduled";
        }
    };
    let mut dumps = equal(8, 5);
    idle(&mut dumps, &[3]);
    for order in orders(&named(&dumps)) {
        let answer = ask(&order, true);
        assert_eq!(causes(&answer), ["FR007"]);
        assert_eq!(answer.verdict.ranks, [3]);
    }
    assert!(ask(&named(&dumps), false).findings.is_empty(), "a moment");
    // Most have not begun: they are no odd ones. None has: PyTorch does not time its calls.
    idle(&mut dumps, &[0, 1, 2, 4, 5]);
    assert_eq!(causes(&stuck(&dumps)), ["FR003"]);
    idle(&mut dumps, &[6, 7]);
    assert_eq!(causes(&stuck(&dumps)), ["FR003"]);
    // Whoever stands in another group's call is held there.
    let mut dumps = equal(4, 5);
    idle(&mut dumps, &[3]);
    for rank in [2, 3] {
        dumps[rank].groups.push(group(1, &[2, 3]));
        dumps[rank]
            .entries
            .insert(4, open(call(1, 1, "all_gather", &[8])));
    }
    dumps[2].entries[4].seq = 1;
    let answer = stuck(&dumps);
    let of = |id| answer.findings.iter().find(|f| f.id == id);
    assert_eq!(of("FR007").unwrap().role, Role::Symptom);
    assert!(
        answer.verdict.ranks.is_empty(),
        "{}",
        answer.verdict.summary
    );
}

/// Ranks enqueue ahead of the GPU: what is queued behind a call that nobody is through says nothing.
#[test]
fn who_has_queued_more_is_no_further() {
    for ahead in [1, 2, 7] {
        let mut dumps = equal(8, 5);
        for dump in &mut dumps[..ahead] {
            dump.entries.push(open(call(0, 6, "all_reduce", &[256])));
        }
        let answer = stuck(&dumps);
        assert_eq!(causes(&answer), ["FR003"], "{ahead} ahead");
        assert!(answer.verdict.ranks.is_empty());
    }
}

#[test]
fn one_call_too_many_is_told_of_those_who_did_not_make_it() {
    let mut dumps = equal(8, 5);
    for dump in &mut dumps {
        let last = dump.entries.pop().unwrap();
        dump.entries.push(call(0, 5, "all_reduce", &[256]));
        drop(last);
    }
    dumps[3]
        .entries
        .push(open(call(0, 6, "all_reduce", &[256])));
    let answer = stuck(&dumps);
    assert_eq!(answer.verdict.ranks, [3]);
    let title = &lead(&answer).title;
    assert!(
        title.starts_with("ranks 0-2, 4-7 never called all_reduce number 6"),
        "{title}"
    );
    assert!(title.contains("rank 3 called it"), "{title}");
}

#[test]
fn names_of_files_may_be_anything() {
    let mut dumps = equal(4, 5);
    dumps[2].entries.last_mut().unwrap().datatype = "Double";
    let names = [
        [
            "node-17.example.org_trace_0",
            "node-17.example.org_trace_1",
            "node-18.example.org_trace_2",
            "node-18.example.org_trace_3",
        ],
        ["0", "1", "2", "3"],
        [
            "a/rank0/dump.pkl",
            "a/rank1/dump.pkl",
            "b/rank2/dump.pkl",
            "b/rank3/dump.pkl",
        ],
        [
            "fr_rank_0.host9",
            "fr_rank_1.host9",
            "fr_rank_2.host8",
            "fr_rank_3.host8",
        ],
        ["0.node3", "1.node3", "2.node3", "3.node3"],
        [
            "gpu-node-0.cluster-7",
            "gpu-node-1.cluster-7",
            "gpu-node-2.cluster-7",
            "gpu-node-3.cluster-7",
        ],
    ];
    for names in names {
        let files: Vec<(String, Vec<u8>)> = names
            .iter()
            .zip(&dumps)
            .map(|(n, d)| ((*n).to_owned(), d.pickle()))
            .collect();
        assert_eq!(ask(&files, true).verdict.ranks, [2], "{names:?}");
    }
    // Nothing says whose they are: told, and nobody is accused.
    let files: Vec<(String, Vec<u8>)> = ["x", "y", "z", "host"]
        .iter()
        .zip(&dumps)
        .map(|(n, d)| ((*n).to_owned(), d.pickle()))
        .collect();
    let answer = ask(&files, true);
    assert!(answer.verdict.ranks.is_empty());
    assert!(
        answer
            .findings
            .iter()
            .any(|f| f.id == "FR004" && f.title.contains("which rank wrote it"))
    );
}

/// A dump may list a group that its rank is not in.
#[test]
fn a_group_of_others_does_not_make_a_dump_nobodys() {
    let mut dumps = equal(4, 5);
    dumps[2].entries.last_mut().unwrap().datatype = "Double";
    for dump in &mut dumps {
        dump.groups.push(group(1, &[0, 1]));
    }
    assert_eq!(stuck(&dumps).verdict.ranks, [2]);
}

#[test]
fn a_dump_of_an_earlier_run_is_left_out() {
    let mut dumps = equal(4, 5);
    for entry in &mut dumps[1].entries {
        entry.created_ns -= 3_600_000_000_000;
        entry.datatype = "Half";
    }
    let answer = stuck(&dumps);
    assert!(
        answer
            .findings
            .iter()
            .any(|f| f.id == "FR004" && f.title.contains("earlier run"))
    );
    assert!(!causes(&answer).contains(&"COLL001"));
}

#[test]
fn a_broken_dump_is_told_and_loses_nothing_else() {
    let mut dumps = equal(8, 5);
    dumps[3].entries.last_mut().unwrap().datatype = "Double";
    let mut all = named(&dumps);
    all[6].1.truncate(400);
    all[7].1 = b"\x80\x02cos\nsystem\nX\x02\0\0\0id\x85R.".to_vec();
    let answer = ask(&all, true);
    assert_eq!(answer.verdict.ranks, [3]);
    let problems: Vec<String> = answer
        .inputs
        .sources
        .iter()
        .filter_map(|s| s.problem.clone())
        .collect();
    assert_eq!(problems.len(), 2);
    assert!(
        problems[0].contains("cut off after 400 bytes"),
        "{problems:?}"
    );
    assert!(
        problems[1].contains("byte 2 is the opcode GLOBAL"),
        "{problems:?}"
    );
}

#[test]
fn a_dump_that_cannot_be_read_was_left_all_the_same() {
    let mut all = named(&equal(8, 5));
    all[4].1.truncate(400);
    let answer = ask(&all, true);
    assert!(answer.verdict.ranks.is_empty(), "{:?}", answer.verdict);
    let ids: Vec<&str> = answer.findings.iter().map(|f| f.id.as_str()).collect();
    assert!(ids.contains(&"FR004") && !ids.contains(&"FR001"), "{ids:?}");
}

#[test]
fn json_says_the_same_as_the_pickle() {
    let mut dumps = equal(4, 5);
    dumps[1].entries.last_mut().unwrap().inputs = vec![vec![3]];
    let pickled = stuck(&dumps);
    let text: Vec<(String, Vec<u8>)> = dumps
        .iter()
        .enumerate()
        .map(|(n, d)| (format!("fr_rank_{n}"), d.json().into_bytes()))
        .collect();
    let read = ask(&text, true);
    assert_eq!(read.verdict.ranks, [1]);
    assert_eq!(read.verdict.class, pickled.verdict.class);
    let both: Vec<(String, Vec<u8>)> = named(&dumps)
        .into_iter()
        .chain(text.into_iter().map(|(n, b)| (n + ".json", b)))
        .collect();
    // The pickles have stacks, so they stand for their ranks.
    assert_eq!(ask(&both, true).verdict.summary, pickled.verdict.summary);
}

#[test]
fn formats_of_all_versions_are_read() {
    // 2.2 and 2.3: seq_id, groups by number, ranks as integers, neither process_group nor dtypes.
    let old = br#"{"version": "1.4", "pg_config": {"0": [0, 1]}, "entries": [{"record_id": 0, "pg_id": 0, "seq_id": 1,
        "op_id": 1, "profiling_name": "nccl:all_reduce", "time_created_ns": 1700000000000000000,
        "input_sizes": [[4]], "output_sizes": [[4]], "state": "started", "frames": []}]}"#;
    let read = dump::read(old, &mut Common::default()).unwrap();
    assert_eq!((read.version.as_str(), read.entries.len()), ("1.4", 1));
    assert_eq!(
        read.groups[0].ranks.as_ref().unwrap().ranks.as_ref(),
        [0, 1]
    );
    assert_eq!(read.entries[0].seq, 1);
    let odd = String::from_utf8_lossy(old)
        .replace("all_reduce", "broadcast")
        .into_bytes();
    let files = [("t_0".to_owned(), old.to_vec()), ("t_1".to_owned(), odd)];
    assert_eq!(causes(&ask(&files, true)), ["COLL002"]);
    // The recorder was off: an empty list of entries, or none at all.
    for empty in [
        "{\"version\":\"2.4\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1]\"}},\"entries\":[]}",
        "{\"version\":\"2.10\",\"nccl_comm_state\":{},\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1]\"}}}",
    ] {
        let files = [
            ("t_0".to_owned(), empty.as_bytes().to_vec()),
            ("t_1".to_owned(), empty.as_bytes().to_vec()),
        ];
        let answer = ask(&files, true);
        assert!(
            answer
                .findings
                .iter()
                .any(|f| f.title.contains("the recorder was off")),
            "{:?}",
            answer.findings
        );
    }
}
