//! Batches of sends and recvs, and dumps that hold no longer, or never held, what is through.

use serde_json::{Value, json};
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Role, State};

use super::synth::{Dump, Entry};
use super::{START, ask, call, causes, lead, named, of_world, open, stuck};

/// What `batch_isend_irecv` records: its parts stay scheduled, the entry that closes them is timed.
fn batch(n: u32, parts: &[String], state: &'static str) -> Vec<Entry> {
    let entry = |name: String, state, retired| Entry {
        group: 0,
        seq: 0,
        p2p_seq: n,
        op_id: n,
        name: format!("nccl:{name}"),
        inputs: vec![vec![64]],
        outputs: vec![vec![64]],
        datatype: "Float",
        state,
        retired,
        created_ns: START + i64::from(n) * 1_000_000,
        frames: vec![("exchange", "/job/ring.py", 12)],
    };
    let made = parts.iter();
    let mut entries: Vec<Entry> = made
        .map(|name| entry(name.clone(), "scheduled", false))
        .collect();
    let mut end = entry("coalesced".to_owned(), state, state == "completed");
    (end.inputs, end.outputs) = (Vec::new(), Vec::new());
    entries.push(end);
    entries
}

/// Everybody sends to the next and takes from the one before.
fn around(rank: u32, ranks: u32) -> [String; 2] {
    let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    [
        format!("send {rank}->{next}"),
        format!("recv {rank}<-{before}"),
    ]
}

/// Batches around the ring; the last one is in `state`.
fn ring(ranks: u32, batches: u32, state: &'static str) -> Vec<Dump> {
    let dump = |rank| {
        let mut entries = vec![call(0, 1, "all_reduce", &[4])];
        for n in 1..=batches {
            let state = if n == batches { state } else { "completed" };
            entries.extend(batch(n, &around(rank, ranks), state));
        }
        of_world(ranks, entries)
    };
    (0..ranks).map(dump).collect()
}

/// The dumps as JSON, changed.
fn changed(dumps: &[Dump], change: impl Fn(usize, &mut Value)) -> Vec<(String, Vec<u8>)> {
    let files = dumps.iter().enumerate().map(|(rank, dump)| {
        let mut value: Value = serde_json::from_str(&dump.json()).unwrap();
        change(rank, &mut value);
        (format!("fr_rank_{rank}.json"), value.to_string().into())
    });
    files.collect()
}

/// As with `TORCH_INCLUDE_ONLY_ACTIVE`: what is through is left out.
fn only_active(value: &mut Value) {
    let entries = value["entries"].as_array_mut().unwrap();
    entries.retain(|entry| entry["state"] != "completed");
}

fn enqueued(value: &mut Value, last: u32) {
    value["pg_status"] = json!({"0": {
        "last_enqueued_collective": last.to_string(),
        "last_started_collective": "-1",
        "last_completed_collective": "-1",
    }});
}

fn accused(answer: &Snapshot) -> Vec<u32> {
    let causes = answer.findings.iter().filter(|f| f.role == Role::Cause);
    causes.flat_map(|f| f.accused.iter().copied()).collect()
}

#[test]
fn batches_that_are_through_are_silent() {
    let dumps = ring(4, 50, "completed");
    let answer = ask(&named(&dumps), false);
    assert!(answer.findings.is_empty(), "{:?}", answer.findings);
    assert_eq!(answer.verdict.state, State::Healthy);
    let files = changed(&dumps, |_, value| only_active(value));
    let answer = ask(&files, false);
    assert!(causes(&answer).is_empty(), "{:?}", answer.findings);
    // Some are in the last one, some through it.
    let mut dumps = ring(4, 50, "started");
    dumps[2] = ring(4, 50, "completed").remove(2);
    let answer = ask(&named(&dumps), false);
    assert!(causes(&answer).is_empty(), "{:?}", answer.findings);
}

#[test]
fn who_skipped_a_batch_is_named() {
    for skips in [0, 2] {
        let mut dumps = ring(4, 6, "started");
        let entries = &mut dumps[skips].entries;
        entries.truncate(entries.len() - 3);
        let answer = stuck(&dumps);
        assert_eq!(answer.verdict.ranks, [skips as u32], "{answer:?}");
        assert_eq!(accused(&answer), [skips as u32]);
    }
}

#[test]
fn a_batch_that_stands_accuses_nobody() {
    let answer = stuck(&ring(4, 6, "started"));
    assert_eq!(causes(&answer), ["FR008"]);
    assert!(answer.verdict.ranks.is_empty());
}

#[test]
fn a_send_and_a_recv_of_other_sizes_in_a_batch_are_found() {
    let mut dumps = ring(4, 6, "started");
    for entry in dumps[1].entries.iter_mut().rev().take(3) {
        if entry.name.contains("recv") {
            entry.inputs = vec![vec![32]];
            entry.outputs = vec![vec![32]];
        }
    }
    let answer = stuck(&dumps);
    assert_eq!(causes(&answer), ["COLL002"]);
    assert_eq!(answer.verdict.class, Class::MismatchedCollective);
    assert!(
        lead(&answer).title.contains("rank 0"),
        "{}",
        lead(&answer).title
    );
}

#[test]
fn a_send_that_the_watchdog_gave_up_proves_that_the_job_stood_still() {
    for in_batch in [true, false] {
        let mut dumps = ring(4, 6, "started");
        if !in_batch {
            for (rank, dump) in dumps.iter_mut().enumerate() {
                let part = around(rank as u32, 4)[rank % 2].clone();
                let at = dump.entries.len() - 3;
                dump.entries.truncate(at);
                dump.entries.push(open(super::p2p(6, &part, &[64])));
            }
        }
        assert_eq!(ask(&named(&dumps), false).verdict.state, State::Healthy);
        dumps[1].entries.last_mut().unwrap().retired = true;
        let answer = ask(&named(&dumps), false);
        assert_eq!(answer.verdict.state, State::Hung, "in a batch: {in_batch}");
    }
}

#[test]
fn an_uneven_all_to_all_beside_an_even_one_is_no_mismatch() {
    let dump = |rank: i64| {
        let name = if rank % 2 == 0 {
            "all_to_all"
        } else {
            "all_to_allv"
        };
        let entry = |n| Entry {
            inputs: vec![vec![rank + 4]],
            ..call(0, n, name, &[4])
        };
        of_world(4, (1..9).map(entry).collect())
    };
    let dumps: Vec<Dump> = (0..4).map(dump).collect();
    let answer = ask(&named(&dumps), false);
    assert!(answer.findings.is_empty(), "{:?}", answer.findings);
}

/// Rank 2 has left the group's calls behind in its ring: whether it came is not known, unless the group's count
/// tells.
#[test]
fn a_ring_that_holds_none_of_the_calls_proves_nothing() {
    let dump = |rank: u32, last: u32| {
        let mut entries: Vec<Entry> = (1..=last).map(|n| call(0, n, "all_reduce", &[4])).collect();
        if rank != 2 {
            let last = entries.pop().unwrap();
            entries.push(open(last));
        }
        let mut dump = of_world(4, entries);
        dump.groups.push(super::group(7, &[rank, rank + 4]));
        dump
    };
    let lost = |last: u32| {
        let mut dumps: Vec<Dump> = (0..4).map(|rank| dump(rank, 5)).collect();
        dumps[2] = dump(2, last);
        dumps[2].entries = (1..4)
            .map(|n| Entry {
                group: 1,
                ..call(1, n, "all_reduce", &[4])
            })
            .collect();
        dumps[2].first = 100;
        dumps
    };
    let answer = stuck(&lost(5));
    assert_eq!(causes(&answer), ["FR009"]);
    assert!(
        answer
            .verdict
            .summary
            .contains("the dump of rank 2 holds none of these calls"),
        "{}",
        answer.verdict.summary
    );
    assert!(accused(&answer).is_empty());
    // The count is right on the others, so it is believed of rank 2.
    let with_count = |of_two: u32, of_others: u32| {
        changed(&lost(5), |rank, value| {
            enqueued(value, if rank == 2 { of_two } else { of_others });
        })
    };
    let answer = ask(&with_count(4, 5), true);
    assert_eq!(answer.verdict.ranks, [2], "{}", answer.verdict.summary);
    assert_eq!(answer.verdict.class, Class::MissingRank);
    let answer = ask(&with_count(5, 5), true);
    assert_eq!(causes(&answer), ["FR003"], "all came");
    // It counts something else.
    let answer = ask(&with_count(4, 9), true);
    assert_eq!(causes(&answer), ["FR009"]);
}

#[test]
fn dumps_of_the_active_calls_alone_name_who_did_not_come() {
    let mut dumps = super::equal(4, 9);
    dumps[3].entries.pop();
    let files = changed(&dumps, |_, value| only_active(value));
    let answer = ask(&files, true);
    assert_eq!(causes(&answer), ["FR009"]);
    assert!(accused(&answer).is_empty());
    let files = changed(&dumps, |rank, value| {
        only_active(value);
        enqueued(value, if rank == 3 { 8 } else { 9 });
    });
    let answer = ask(&files, true);
    assert_eq!(answer.verdict.ranks, [3], "{}", answer.verdict.summary);
    // The ring of batches: whoever skipped one is not known, and the batches that are through are no open ones.
    let mut dumps = ring(4, 6, "started");
    let entries = &mut dumps[2].entries;
    entries.truncate(entries.len() - 3);
    let files = changed(&dumps, |_, value| only_active(value));
    let answer = ask(&files, true);
    assert!(
        accused(&answer).iter().all(|rank| *rank == 2),
        "{:?}",
        answer.verdict
    );
}

/// Everybody made the same calls and is through them: whoever says that the job stands still says that it does so
/// outside of them.
#[test]
fn equal_dumps_of_calls_that_are_through_show_that_it_stands_elsewhere() {
    let mut dumps = super::equal(4, 5);
    for dump in &mut dumps {
        dump.entries.last_mut().unwrap().state = "completed";
    }
    let answer = stuck(&dumps);
    assert_eq!(answer.verdict.state, State::Hung);
    assert_eq!(answer.verdict.class, Class::UserCode);
    assert!(answer.verdict.ranks.is_empty());
    let moves = ask(&named(&dumps), false);
    assert_eq!(moves.verdict.state, State::Healthy);
    // The dump of one is missing, or ends in front of the last call.
    let without = ask(&named(&dumps)[..3], true);
    assert_eq!(without.verdict.class, Class::Inconclusive);
    let mut files = named(&dumps);
    let half = files[1].1.len() / 2;
    files[1].1.truncate(half);
    assert_eq!(ask(&files, true).verdict.class, Class::Inconclusive);
}

/// A mismatch among some ranks and a rank that never came among others are two faults.
#[test]
fn two_faults_among_other_ranks_are_both_told() {
    let dump = |rank: u32| {
        let half = u32::from(rank >= 4);
        let ranks: Vec<u32> = (0..4).map(|n| half * 4 + n).collect();
        let made = if rank == 6 { 4 } else { 5 };
        let mut entries: Vec<Entry> = (1..=made).map(|n| call(1, n, "all_reduce", &[4])).collect();
        if rank != 6 {
            let mut last = open(entries.pop().unwrap());
            if rank == 1 {
                last.datatype = "Double";
            }
            entries.push(last);
        }
        let mut dump = of_world(8, entries);
        dump.groups.push(super::group(half + 1, &ranks));
        dump
    };
    let dumps: Vec<Dump> = (0..8).map(dump).collect();
    let answer = stuck(&dumps);
    assert_eq!(causes(&answer).len(), 2, "{:?}", answer.findings);
    assert_eq!(answer.verdict.ranks, [1]);
    assert_eq!(answer.verdict.other_causes, ["RANK001"]);
    let mut both: Vec<u32> = accused(&answer);
    both.sort_unstable();
    assert_eq!(both, [1, 6]);
}
