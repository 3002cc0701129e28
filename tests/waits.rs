//! Who waits for whom across communicators, and who of several that are behind is at fault.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use unhang::engine::catalog::Catalog;
use unhang::engine::finding::Finding;
use unhang::engine::ids::SourceId;
use unhang::engine::input::{Input, SourceInfo, SourceKind};
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Confidence, Role};
use unhang::engine::{Engine, Options};

#[path = "common/drive.rs"]
mod drive;

/// The log of a rank of 4 that made these calls, by the pointer of the communicator: `t` and `d`.
fn log(rank: u32, comms: &[(char, u64, u32, u32)], calls: &str) -> String {
    let pid = 700 + rank;
    let head = format!("node-0:{pid}:{pid} [{rank}] NCCL INFO ");
    let mut text = String::new();
    let mut line = |rest: String| writeln!(text, "{head}{rest}").expect("a string");
    let world = ('w', 0x77, rank, 4);
    for (name, id, at, nranks) in [world].iter().chain(comms) {
        for end in ["START", "COMPLETE"] {
            line(format!(
                "ncclCommInitRankConfig comm 0x{:x} rank {at} nranks {nranks} cudaDev {rank} nvmlDev {rank} \
                 busId {rank}0 commId 0x{id:x} - Init {end}",
                pointer(*name)
            ));
        }
    }
    for (n, call) in calls.chars().enumerate() {
        let at = calls.chars().take(n).filter(|c| *c == call).count();
        line(format!(
            "AllReduce: opCount {at:x} sendbuff 0x7f00000000 recvbuff 0x7f00000000 count 4096 datatype 7 op 0 \
             root 0 comm 0x{:x} [nranks=2] stream 0x5500000000",
            pointer(call)
        ));
    }
    text
}

fn pointer(name: char) -> u64 {
    0x5500_0000 + u64::from(u32::from(name)) * 0x1000
}

/// Ranks 0-3; tensor-parallel pairs 0-1 and 2-3, data-parallel pairs 0-2 and 1-3.
fn job(calls: [&str; 4]) -> Vec<(String, String)> {
    let comms = |rank: u32| {
        let (t, d) = (0x100 + u64::from(rank / 2), 0x200 + u64::from(rank % 2));
        [('t', t, rank % 2, 2), ('d', d, rank / 2, 2)]
    };
    (0..4)
        .map(|rank| {
            let calls = calls[rank as usize];
            (format!("rank{rank}.log"), log(rank, &comms(rank), calls))
        })
        .collect()
}

fn diagnosed(calls: [&str; 4], stuck: bool) -> Snapshot {
    with_last_words(calls, "", stuck)
}

/// Rank 1's log ends in these words.
fn with_last_words(calls: [&str; 4], words: &str, stuck: bool) -> Snapshot {
    let mut logs = job(calls);
    logs[1].1.push_str(words);
    let logs: Vec<(&str, &[u8])> = logs
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_bytes()))
        .collect();
    drive::diagnose(&logs, stuck)
}

fn causes(seen: &Snapshot) -> Vec<&Finding> {
    let findings = seen.findings.iter();
    findings.filter(|f| f.role == Role::Cause).collect()
}

#[test]
fn pairs_that_wait_around_a_square_are_a_circle() {
    // 0 waits in t for 1, 1 in d for 3, 3 in t for 2, 2 in d for 0.
    let seen = diagnosed(["tdt", "tdd", "tdd", "tdt"], true);
    let causes = causes(&seen);
    let ids: Vec<&str> = causes.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["COLL010"]);
    assert_eq!(seen.verdict.class, Class::MismatchedCollective);
    assert_eq!(
        causes[0].ranks.iter().copied().collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    assert!(seen.verdict.ranks.is_empty(), "nobody alone is at fault");
    assert!(
        causes[0]
            .title
            .contains("rank 0 in AllReduce number 2 on communicator 0x100 for rank 1"),
        "{}",
        causes[0].title
    );
    assert!(!causes[0].evidence.is_empty());
}

#[test]
fn a_chain_of_waits_has_an_end_and_is_no_circle() {
    // 0 waits in t for 1, which waits in d for 3, which did no more.
    let seen = diagnosed(["tdt", "tdd", "td", "td"], true);
    assert_eq!(seen.verdict.class, Class::MissingRank);
    assert!(seen.findings.iter().all(|f| f.id != "COLL010"));
    // Of 2 and 3, who are behind, only 3 is waited for.
    assert_eq!(seen.verdict.ranks, [3]);
}

#[test]
fn ranks_in_motion_are_no_circle() {
    let seen = diagnosed(["tdt", "tdd", "tdd", "tdt"], false);
    assert!(seen.findings.iter().all(|f| f.id != "COLL010"));
}

#[test]
fn a_rank_that_ended_waits_for_nobody() {
    let raised = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/job/train.py\", line 7, in <module>\n\
                  [rank1]:     step()\n[rank1]: ValueError: bad batch\n";
    let crashed = "Fatal Python error: Segmentation fault\n";
    for words in [raised, crashed] {
        let seen = with_last_words(["tdt", "tdd", "tdd", "tdt"], words, true);
        assert_eq!(
            seen.verdict.class,
            Class::RankDied,
            "{}",
            seen.verdict.summary
        );
        assert_eq!(seen.verdict.ranks, [1]);
        assert!(seen.findings.iter().all(|f| f.id != "COLL010"));
    }
}

/// What RAS answers about communicators: hash, world ranks, launches of each.
fn answer(comms: &[(u64, &[u32], &[u64])]) -> String {
    let gpus: BTreeSet<u32> = comms
        .iter()
        .flat_map(|(_, ranks, _)| *ranks)
        .copied()
        .collect();
    let gpus = gpus.len();
    let mut text = format!(
        "NCCL version 2.28.9 compiled with CUDA 13.0\n\nJob summary\n===========\n\n  Nodes  Processes         \
         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n      1          {gpus}  \
         1          {gpus}        {gpus}\n\nCommunicators... (0.00s)\n=============\n\nGroup     Comms     \
         Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  \
         in group\n"
    );
    for (at, (_, ranks, _)) in comms.iter().enumerate() {
        let n = ranks.len();
        writeln!(text, "    {at}  1  1  {n}  {n}  {n}   RUNNING  MISMATCH").expect("a string");
    }
    text.push_str("\nErrors\n======\n\nWarnings\n========\n\n");
    for (at, (hash, ranks, launched)) in comms.iter().enumerate() {
        write!(
            text,
            "#{at}-0 ({hash:016x}) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
        )
        .expect("a string");
        for (at, (rank, launched)) in ranks.iter().zip(*launched).enumerate() {
            writeln!(
                text,
                "  Rank {at} has launched up to operation {launched} -- GPU {rank} managed by process {} on node \
                 192.0.2.2",
                700 + rank
            )
            .expect("a string");
        }
        text.push('\n');
    }
    text
}

fn asked(reply: &str, stuck: bool) -> Snapshot {
    let mut engine = Engine::new(Catalog::builtin(), Options::default());
    let source = SourceId(0);
    engine.handle(
        None,
        Input::Source(SourceInfo {
            id: source,
            name: "ras.txt".to_owned(),
            kind: SourceKind::Ras,
            host: None,
            pid: None,
            rank: None,
        }),
    );
    let reply = reply.as_bytes();
    engine.handle(None, Input::Ras { source, reply });
    if stuck {
        engine.handle(None, Input::Claim { stuck_for: None });
    }
    engine.snapshot()
}

#[test]
fn ras_alone_sees_the_circle_of_two_communicators() {
    // Both belong to the same two ranks, and each called its own first.
    let seen = asked(
        &answer(&[(0x100, &[0, 1], &[3, 2]), (0x200, &[0, 1], &[5, 6])]),
        true,
    );
    let ids: Vec<&str> = causes(&seen).iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["COLL010"]);
    assert_eq!(seen.verdict.class, Class::MismatchedCollective);
    // Behind in both is one that waits for nobody.
    let seen = asked(
        &answer(&[(0x100, &[0, 1], &[3, 2]), (0x200, &[0, 1], &[6, 5])]),
        true,
    );
    assert_eq!(seen.verdict.class, Class::MissingRank);
    assert!(seen.findings.iter().all(|f| f.id != "COLL010"));
}

#[test]
fn only_those_with_the_least_launches_are_waited_for() {
    for (launched, behind) in [
        (&[4, 5, 5, 6][..], &[0][..]),
        (&[5, 4, 7, 7], &[1]),
        (&[6, 4, 7, 4], &[1, 3]),
        (&[5, 6, 7, 8, 8, 8, 8, 8], &[0]),
    ] {
        let ranks: Vec<u32> = (0..8).take(launched.len()).collect();
        let seen = asked(&answer(&[(0xaa, &ranks, launched)]), true);
        assert_eq!(seen.verdict.class, Class::MissingRank, "{launched:?}");
        assert_eq!(seen.verdict.ranks, behind, "{launched:?}");
    }
}

#[test]
fn a_wait_is_followed_through_ras_to_the_rank_that_waits_for_nobody() {
    // 0 waits for 1, which waits in another communicator for 2.
    let reply = answer(&[(0x100, &[0, 1], &[3, 2]), (0x200, &[1, 2], &[6, 5])]);
    let seen = asked(&reply, true);
    assert_eq!(seen.verdict.class, Class::MissingRank);
    // No communicator spans the three of them: whose rank of the world they are is not known.
    assert!(seen.verdict.ranks.is_empty(), "{:?}", seen.verdict.ranks);
    // With one that does, only who waits for nobody is named.
    let world: (u64, &[u32], &[u64]) = (0x300, &[0, 1, 2], &[9, 9, 8]);
    let reply = answer(&[(0x100, &[0, 1], &[3, 2]), (0x200, &[1, 2], &[6, 5]), world]);
    let seen = asked(&reply, true);
    assert_eq!(seen.verdict.class, Class::MissingRank);
    assert_eq!(seen.verdict.ranks, [2], "{}", seen.verdict.summary);
}

/// The answer in JSON, which lists every rank: communicators with their hash, world ranks and launches; what is
/// missing from each.
fn in_json(comms: &[(u64, &[u32], &[u64])], missing: &str) -> String {
    let comm = |(hash, ranks, launched): &(u64, &[u32], &[u64])| {
        let rank = |(at, (world, launched)): (usize, (&u32, &u64))| {
            format!(
                r#"{{"rank":{at},"host":"192.0.2.2","pid":{},"cuda_dev":{world},"status":{{"init_state":0}},
                   "collective_counts":{{"AllReduce":{launched}}}}}"#,
                700 + world
            )
        };
        let ranks: Vec<String> = ranks.iter().zip(*launched).enumerate().map(rank).collect();
        let size = ranks.len() + usize::from(!missing.is_empty());
        format!(
            r#"{{"hash":"{hash:#x}","size":{size},"ranks":[{}],"missing_ranks":[{missing}]}}"#,
            ranks.join(",")
        )
    };
    let comms: Vec<String> = comms.iter().map(comm).collect();
    let reply = format!(
        r#"{{"nccl_version":"2.28.9","communicators_count":{},"communicators":[{}],"ras":{{"timeouts_count":0}}}}"#,
        comms.len(),
        comms.join(",")
    );
    reply.replace('\n', "")
}

/// An answer in JSON is one line: what it says of one rank is not what it says of another.
#[test]
fn a_dead_process_is_told_beside_ranks_that_are_behind() {
    let dead = r#"{"rank":2,"host":"192.0.2.2","pid":702,"status":{"unresponsive":true,"considered_dead":true}}"#;
    let seen = asked(&in_json(&[(0x100, &[0, 1], &[3, 2])], dead), true);
    let ids: Vec<&str> = seen.findings.iter().map(|f| f.id.as_str()).collect();
    assert!(
        ids.contains(&"RAS003") && ids.contains(&"RAS001"),
        "{ids:?}"
    );
}

#[test]
fn a_communicator_of_all_ranks_places_those_of_the_others_though_it_is_equal() {
    let pairs = |world: (u64, &'static [u32], &'static [u64])| {
        let square: [(u64, &[u32], &[u64]); 4] = [
            (0x100, &[0, 1], &[2, 1]),
            (0x101, &[2, 3], &[1, 2]),
            (0x200, &[0, 2], &[1, 2]),
            (0x201, &[1, 3], &[2, 1]),
        ];
        [&[world], &square[..]].concat()
    };
    let seen = asked(
        &in_json(&pairs((0x300, &[0, 1, 2, 3], &[9, 9, 9, 9])), ""),
        true,
    );
    let ids: Vec<&str> = causes(&seen).iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["COLL010"]);
    // A communicator of three of the four ranks places nobody.
    let seen = asked(&in_json(&pairs((0x300, &[0, 1, 2], &[9, 9, 9])), ""), true);
    assert!(seen.verdict.ranks.is_empty());
    assert!(seen.findings.iter().all(|f| f.id != "COLL010"));
}

/// The log of a rank whose communicator `t` was destroyed behind its last call there.
fn destroyed(log: &str, rank: u32) -> String {
    let pid = 700 + rank;
    let pointer = pointer('t');
    format!(
        "{log}node-0:{pid}:{pid} [{rank}] NCCL INFO comm 0x{pointer:x} rank 0 nranks 2 cudaDev {rank} busId {rank}0 - \
         Destroy COMPLETE\n"
    )
}

fn seen_of(logs: &[(String, String)]) -> Snapshot {
    let logs: Vec<(&str, &[u8])> = logs
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_bytes()))
        .collect();
    drive::diagnose(&logs, true)
}

/// Whoever destroyed a communicator waits for nobody there.
#[test]
fn a_circle_does_not_close_through_a_communicator_that_is_gone() {
    let mut logs = job(["tdt", "tdd", "tdd", "tdt"]);
    logs[0].1 = destroyed(&logs[0].1, 0);
    let seen = seen_of(&logs);
    assert!(seen.findings.iter().all(|f| f.id != "COLL010"));
    // 2 waits for 0 in d; 3 for 2 in t; 1 for 3 in d.
    assert_eq!(seen.verdict.class, Class::MissingRank);
    assert_eq!(seen.verdict.ranks, [0]);
}

/// A circle cites its own steps and names each rule once; steps that only lead to it are its symptoms.
#[test]
fn a_circle_cites_its_own_steps() {
    let seen = diagnosed(["tdt", "tdd", "tdd", "tdt"], true);
    let circle = causes(&seen)[0];
    assert_eq!(circle.explains, ["RANK001"]);

    // 0 and 1 wait for each other; 2 waits in its group with 0 for 0, and nobody waits for 2 or 3.
    let comms = |rank: u32| -> Vec<(char, u64, u32, u32)> {
        match rank {
            0 => vec![('t', 0x100, 0, 2), ('d', 0x200, 0, 2), ('e', 0x300, 0, 2)],
            1 => vec![('t', 0x100, 1, 2), ('d', 0x200, 1, 2)],
            2 => vec![('e', 0x300, 1, 2)],
            _ => Vec::new(),
        }
    };
    let calls = ["tdet", "tdd", "ee", ""];
    let logs: Vec<(String, String)> = (0..4)
        .map(|rank| {
            (
                format!("rank{rank}.log"),
                log(rank, &comms(rank), calls[rank as usize]),
            )
        })
        .collect();
    let seen = seen_of(&logs);
    let circle = causes(&seen)[0];
    assert_eq!(circle.id, "COLL010", "{:?}", seen.verdict);
    let of: BTreeSet<Option<u32>> = circle.evidence.iter().map(|e| e.rank).collect();
    assert_eq!(
        of,
        BTreeSet::from([Some(0), Some(1)]),
        "{:?}",
        circle.evidence
    );
    let mut steps = seen.findings.iter().filter(|f| f.id == "RANK001");
    assert!(steps.all(|f| f.role == Role::Symptom));
}

/// Part of a circle, and the log of one of its ranks is absent: the rank at the end of what is seen is not likely at
/// fault.
#[test]
fn a_circle_with_an_absent_log_is_no_likely_fault_of_the_last_one() {
    for absent in 0..4 {
        let mut logs = job(["tdt", "tdd", "tdd", "tdt"]);
        logs.remove(absent);
        let seen = seen_of(&logs);
        assert_eq!(
            seen.verdict.confidence,
            Confidence::Possible,
            "{absent}: {}",
            seen.verdict.summary
        );
        let missing = seen.verdict.missing_evidence.join("; ");
        assert!(missing.contains("waits elsewhere"), "{missing}");
        assert!(
            missing.contains(&format!("the log of rank {absent}")),
            "{missing}"
        );
    }
}
