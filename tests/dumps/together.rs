//! Logs and dumps of one job: who decides, and what is said where they do not agree.

use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Role};

use super::drive;

#[path = "../common/jobs.rs"]
mod jobs;

/// The answer to a recorded job's logs, changed, with some dumps.
fn together(case: &str, change: impl Fn(&str) -> bool, dumps: &[(&str, &[u8])]) -> Snapshot {
    let case = jobs::recorded("cases")
        .into_iter()
        .find(|c| c.name == case)
        .unwrap();
    let kept = |bytes: &[u8]| -> Vec<u8> {
        let text = String::from_utf8_lossy(bytes);
        let lines = text.split_inclusive('\n').filter(|line| change(line));
        lines.collect::<String>().into_bytes()
    };
    let logs: Vec<(String, Vec<u8>)> = case
        .logs
        .iter()
        .map(|l| (l.name.clone(), kept(&l.bytes)))
        .collect();
    let names: Vec<&str> = logs.iter().map(|(name, _)| name.as_str()).collect();
    let pieces = logs
        .iter()
        .enumerate()
        .map(|(n, (_, bytes))| (n, 0, bytes.as_slice()));
    drive::diagnose_all(&names, pieces, dumps, case.stuck)
}

fn dumps_of(case: &str) -> Vec<jobs::Log> {
    let case = jobs::recorded("cases").into_iter().find(|c| c.name == case);
    case.unwrap().dumps
}

#[test]
fn dumps_decide_what_logs_without_their_calls_leave_open() {
    let calls = |line: &str| {
        let tells = ["opCount", "enqueued", "Watchdog"];
        !tells.iter().any(|word| line.contains(word))
    };
    let alone = together("cases/skipped-collective", calls, &[]);
    assert!(alone.verdict.ranks.is_empty(), "{}", alone.verdict.summary);
    let dumps = dumps_of("cases/skipped-collective");
    let dumps: Vec<(&str, &[u8])> = dumps
        .iter()
        .map(|d| (d.name.as_str(), d.bytes.as_slice()))
        .collect();
    let answer = together("cases/skipped-collective", calls, &dumps);
    assert_eq!(answer.verdict.ranks, [1]);
    assert_eq!(answer.verdict.class, Class::MissingRank);
}

#[test]
fn where_logs_and_dumps_disagree_both_sides_are_shown() {
    // The dumps' names are swapped.
    let dumps = dumps_of("cases/skipped-collective");
    let swapped = [
        ("fr_rank_1", dumps[0].bytes.as_slice()),
        ("fr_rank_0", dumps[1].bytes.as_slice()),
    ];
    let answer = together("cases/skipped-collective", |_| true, &swapped);
    let note = answer
        .findings
        .iter()
        .find(|f| f.id == "FR005")
        .expect("a note");
    assert_eq!(
        note.title,
        "the witnesses do not agree: the logs point at rank 1 (RANK001), the dumps point at rank 0 (RANK001)"
    );
    assert!(
        note.evidence.iter().any(|e| e.entry.is_some())
            && note.evidence.iter().any(|e| e.entry.is_none())
    );
    assert_eq!(note.role, Role::Note);
}

/// By the logs one calls something else, by the dumps another one never came.
#[test]
fn they_may_disagree_about_what_is_wrong_too() {
    let dumps = dumps_of("cases/mismatch-count-16");
    let mut dumps: Vec<(&str, &[u8])> = dumps
        .iter()
        .map(|d| (d.name.as_str(), d.bytes.as_slice()))
        .collect();
    // Rank 9's dump goes for rank 4's, and a usual one for rank 9's.
    let at =
        |dumps: &[(&str, &[u8])], rank: &str| dumps.iter().position(|(n, _)| n.ends_with(rank));
    let (nine, four) = (at(&dumps, "_9").unwrap(), at(&dumps, "_4").unwrap());
    (dumps[nine].1, dumps[four].1) = (dumps[four].1, dumps[nine].1);
    let answer = together("cases/mismatch-count-16", |_| true, &dumps);
    assert_eq!(answer.verdict.ranks, [9]);
    let note = answer.findings.iter().find(|f| f.id == "FR005");
    let title = &note.expect("a note").title;
    assert!(
        title.contains("the logs point at rank 9 (COLL001), the dumps point at rank 4"),
        "{title}"
    );
}

#[test]
fn dumps_of_another_job_are_left_out() {
    let dumps = dumps_of("cases/mismatch-count-16");
    let dumps: Vec<(&str, &[u8])> = dumps
        .iter()
        .map(|d| (d.name.as_str(), d.bytes.as_slice()))
        .collect();
    let alone = together("cases/skipped-collective", |_| true, &[]);
    let answer = together("cases/skipped-collective", |_| true, &dumps);
    assert_eq!(answer.verdict.ranks, alone.verdict.ranks);
    assert_eq!(answer.verdict.class, alone.verdict.class);
    assert!(
        answer
            .findings
            .iter()
            .any(|f| f.id == "FR005" && f.title.contains("the dumps of 16"))
    );
}

/// Logs of prints alone: they say nothing of how the rank that left no dump ended.
#[test]
fn prints_of_the_program_do_not_speak_for_a_rank_without_dump() {
    let mut files = super::named(&super::equal(4, 5));
    files.remove(2);
    let dumps: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    let prints = b"step 1 loss 2.31\nstep 2 loss 2.11\nstep 3 loss 2.02\n";
    let names = ["rank_0.log", "rank_1.log", "rank_2.log", "rank_3.log"];
    let pieces = (0..4).map(|n| (n, 0, &prints[..]));
    let answer = drive::diagnose_all(&names, pieces, &dumps, true);
    assert_eq!(answer.verdict.ranks, [2], "{}", answer.verdict.summary);
    assert_eq!(answer.verdict.class, Class::RankDied);
}
