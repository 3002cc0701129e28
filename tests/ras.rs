//! NCCL RAS beside the logs, and alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;
use unhang::engine::catalog::Catalog;
use unhang::engine::ids::SourceId;
use unhang::engine::input::{EndReason, Input, SourceInfo, SourceKind, Time};
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Role, Severity, State};
use unhang::engine::witness::Witness;
use unhang::engine::{Engine, Options};

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::builtin);

#[derive(Deserialize)]
struct Truth {
    class: Class,
    state: State,
    guilty_ranks: Vec<u32>,
    guilty_hosts: Vec<String>,
    #[serde(default)]
    also_right: Vec<Class>,
    #[serde(default)]
    also_state: Vec<String>,
    #[serde(default)]
    stuck: bool,
    needs: Option<String>,
}

struct Job {
    folder: PathBuf,
    truth: Truth,
}

fn job(kind: &str, name: &str) -> Job {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(kind)
        .join(name);
    let truth = fs::read(folder.join("truth.json")).expect("a truth");
    Job {
        truth: serde_json::from_slice(&truth).expect("a truth that can be read"),
        folder,
    }
}

/// Every recorded job with a usable answer of RAS.
fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for kind in ["cases", "healthy"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(kind);
        let mut names: Vec<_> = fs::read_dir(root).expect("fixtures").flatten().collect();
        names.sort_by_key(fs::DirEntry::file_name);
        for entry in names {
            let answer = fs::read(entry.path().join("ras.txt")).unwrap_or_default();
            if answer.starts_with(b"NCCL version") || answer.starts_with(b"SERVER PROTOCOL") {
                jobs.push(job(kind, &entry.file_name().to_string_lossy()));
            }
        }
    }
    jobs
}

struct Driver {
    engine: Engine,
    next: u32,
}

impl Driver {
    fn new() -> Self {
        Self {
            engine: Engine::new(CATALOG.clone(), Options::default()),
            next: 0,
        }
    }

    fn source(&mut self, name: &str, kind: SourceKind) -> SourceId {
        let id = SourceId(self.next);
        self.next += 1;
        let info = SourceInfo {
            id,
            name: name.to_owned(),
            kind,
            host: None,
            pid: None,
            rank: None,
        };
        self.engine.handle(None, Input::Source(info));
        id
    }

    fn logs(mut self, job: &Job) -> Self {
        let mut names: Vec<_> = fs::read_dir(&job.folder)
            .expect("a folder")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .collect();
        names.sort();
        for path in names {
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let source = self.source(&name, SourceKind::File);
            let chunk = &fs::read(&path).expect("a log")[..];
            let input = Input::Bytes {
                source,
                offset: 0,
                chunk,
            };
            self.engine.handle(None, input);
            let (why, detail) = (EndReason::Eof, None);
            self.engine.handle(
                None,
                Input::Ended {
                    source,
                    why,
                    detail,
                },
            );
        }
        self
    }

    fn answer(mut self, job: &Job, name: &str) -> Self {
        let source = self.source(name, SourceKind::Ras);
        let reply = &fs::read(job.folder.join(name)).expect("an answer")[..];
        self.engine.handle(None, Input::Ras { source, reply });
        self
    }

    fn asked(mut self, source: SourceId, at: u64, reply: &[u8]) -> Self {
        let now = Some(Time(at * 1_000_000_000));
        self.engine.handle(now, Input::Ras { source, reply });
        self.engine.handle(now, Input::Tick);
        self
    }

    fn verdict(mut self, stuck: bool) -> Snapshot {
        if stuck {
            self.engine.handle(None, Input::Claim { stuck_for: None });
        }
        self.engine.snapshot()
    }
}

#[test]
fn with_the_logs_every_answer_is_right() {
    let jobs = jobs();
    assert!(jobs.len() >= 14, "only {}", jobs.len());
    let mut wrong = String::new();
    for job in &jobs {
        for name in ["ras.txt", "ras.json"] {
            let seen = Driver::new()
                .logs(job)
                .answer(job, name)
                .verdict(job.truth.stuck);
            let (truth, verdict) = (&job.truth, &seen.verdict);
            let class = verdict.class == truth.class || truth.also_right.contains(&verdict.class);
            let healthy = matches!(verdict.state, State::Healthy | State::Completed)
                && truth.class == Class::Healthy;
            let state = verdict.state == truth.state
                || healthy
                || truth
                    .also_state
                    .iter()
                    .any(|state| state == verdict.state.name());
            let guilty = verdict.ranks == truth.guilty_ranks && verdict.hosts == truth.guilty_hosts;
            if !(class && state && guilty) && truth.needs.as_deref() != Some("dumps") {
                wrong += &format!(
                    "{} {name}: {} {} {:?} {:?}: {}\n",
                    job.folder.display(),
                    verdict.class,
                    verdict.state,
                    verdict.ranks,
                    verdict.hosts,
                    verdict.summary
                );
            }
            let loud = seen
                .findings
                .iter()
                .find(|f| f.severity >= Severity::Warning);
            if let Some(loud) = loud.filter(|_| truth.class == Class::Healthy) {
                wrong += &format!("{} {name}: {}\n", job.folder.display(), loud.title);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// What RAS alone can know: who launched less, who called something else, who is gone. Where it shows
/// no difference it says nothing, and never that the job is well.
#[test]
fn alone_it_says_what_it_knows() {
    for (name, class, state, ranks) in [
        (
            "skipped-collective",
            Class::MissingRank,
            State::Hung,
            vec![1],
        ),
        (
            "mismatch-count-16",
            Class::MissingRank,
            State::Hung,
            vec![9],
        ),
        (
            "mismatch-op",
            Class::MismatchedCollective,
            State::Hung,
            vec![],
        ),
        ("rank-killed", Class::RankDied, State::Hung, vec![1]),
        ("rank-killed-16", Class::RankDied, State::Hung, vec![6]),
        (
            "mismatch-count",
            Class::Inconclusive,
            State::Inconclusive,
            vec![],
        ),
        (
            "algo-mismatch",
            Class::Inconclusive,
            State::Inconclusive,
            vec![],
        ),
    ] {
        let job = job("cases", name);
        for answer in ["ras.txt", "ras.json"] {
            let seen = Driver::new().answer(&job, answer).verdict(true);
            let verdict = &seen.verdict;
            assert_eq!(
                (verdict.class, verdict.state, &verdict.ranks),
                (class, state, &ranks),
                "{name} {answer}: {}",
                verdict.summary
            );
        }
    }
}

#[test]
fn both_witnesses_stand_in_one_finding() {
    let job = job("cases", "skipped-collective");
    let seen = Driver::new()
        .logs(&job)
        .answer(&job, "ras.txt")
        .verdict(true);
    let causes: Vec<_> = seen
        .findings
        .iter()
        .filter(|f| f.role == Role::Cause)
        .collect();
    let [cause] = causes.as_slice() else {
        panic!("one cause: {causes:?}")
    };
    let sources: Vec<&str> = cause
        .evidence
        .iter()
        .map(|e| seen.inputs.sources[e.source.ix()].name.as_str())
        .collect();
    assert!(
        sources.contains(&"rank0.log") && sources.contains(&"ras.txt"),
        "{sources:?}"
    );
    assert_eq!(
        cause.witnesses,
        BTreeSet::from([Witness::Log, Witness::Ras])
    );
}

#[test]
fn equal_counts_are_called_blind_beside_a_mismatch() {
    let job = job("cases", "mismatch-count");
    let seen = Driver::new()
        .logs(&job)
        .answer(&job, "ras.json")
        .verdict(true);
    assert!(
        seen.findings
            .iter()
            .any(|f| f.id == "RAS005" && f.role == Role::Note)
    );
}

/// Equal numbers of launches speak against a rank that never made a call.
#[test]
fn equal_counts_are_no_support_for_a_rank_that_is_behind() {
    let job = job("cases", "skipped-collective");
    let answer = fs::read_to_string(job.folder.join("ras.json")).expect("an answer");
    let equal = answer.replace("\"AllReduce\": 2", "\"AllReduce\": 3");
    assert_ne!(answer, equal);
    let mut driver = Driver::new().logs(&job);
    let source = driver.source("ras.json", SourceKind::Ras);
    let seen = driver.asked(source, 1, equal.as_bytes()).verdict(true);
    assert_eq!(seen.verdict.ranks, [1]);
    let note = seen.findings.iter().find(|f| f.id == "FR005");
    let title = &note.expect("a note").title;
    assert!(
        title.contains("the logs point at rank 1 (RANK001), NCCL RAS counts equally many"),
        "{title}"
    );
}

#[test]
fn an_answer_of_another_job_is_not_believed() {
    let ours = job("cases", "skipped-collective");
    for (theirs, name) in [
        ("rank-killed", "ras.json"),
        ("rank-killed", "ras.txt"),
        ("mismatch-count-16", "ras.txt"),
    ] {
        let seen = Driver::new()
            .logs(&ours)
            .answer(&job("cases", theirs), name)
            .verdict(true);
        let verdict = (seen.verdict.class, seen.verdict.ranks.as_slice());
        assert_eq!(verdict, (Class::MissingRank, &[1][..]), "{theirs} {name}");
        let of_ras: Vec<_> = seen
            .findings
            .iter()
            .filter(|f| f.id.starts_with("RAS"))
            .map(|f| (f.id.as_str(), f.role))
            .collect();
        assert!(
            of_ras.is_empty() || of_ras == [("RAS006", Role::Note)],
            "{theirs} {name}: {of_ras:?}"
        );
    }
    let seen = Driver::new()
        .logs(&ours)
        .answer(&job("cases", "rank-killed"), "ras.json")
        .verdict(true);
    assert!(seen.findings.iter().any(|f| f.id == "RAS006"));
}

#[test]
fn an_answer_against_the_logs_is_told_with_both_sides() {
    let job = job("cases", "skipped-collective");
    let answer = fs::read_to_string(job.folder.join("ras.txt")).expect("an answer");
    let turned = answer
        .replace("operation 3", "operation X")
        .replace("operation 2", "operation 3")
        .replace("operation X", "operation 2");
    assert_ne!(answer, turned);
    let mut driver = Driver::new().logs(&job);
    let source = driver.source("ras.txt", SourceKind::Ras);
    let seen = driver.asked(source, 1, turned.as_bytes()).verdict(true);
    assert_eq!(seen.verdict.ranks, [1]);
    let ids: Vec<&str> = seen.findings.iter().map(|f| f.id.as_str()).collect();
    let note = seen.findings.iter().find(|f| f.id == "FR005");
    let note = note.unwrap_or_else(|| panic!("no note: {ids:?}"));
    assert!(
        note.title.contains("the logs point at rank 1 (RANK001)")
            && note.title.contains("NCCL RAS points at rank 0 (RAS001)"),
        "{}",
        note.title
    );
    let cause = seen.findings.iter().find(|f| f.role == Role::Cause);
    let cited = &cause.expect("a cause").evidence;
    assert!(cited.iter().all(|e| e.source != source), "not as support");
}

/// Two answers tell progress from standstill.
#[test]
fn two_polls_tell_a_late_rank_from_a_stuck_one() {
    let job = job("cases", "skipped-collective");
    let first = fs::read(job.folder.join("ras.txt")).expect("an answer");
    let moved = String::from_utf8(first.clone())
        .expect("text")
        .replace("operation 3", "operation 4")
        .replace("operation 2", "operation 3");
    let polls = |second: &[u8], at: u64| {
        let mut driver = Driver::new();
        let source = driver.source("RAS on localhost:28028", SourceKind::Ras);
        driver.engine.handle(Some(Time(0)), Input::Tick);
        driver
            .asked(source, 1, &first)
            .asked(source, at, second)
            .verdict(false)
    };
    let state = |seen: &Snapshot| (seen.verdict.state, seen.verdict.class);
    let at_once = polls(&first, 2);
    assert_eq!(state(&at_once), (State::Inconclusive, Class::Inconclusive));
    let late = polls(&first, 20);
    assert_eq!(state(&late), (State::Waiting, Class::MissingRank));
    let stuck = polls(&first, 40);
    assert_eq!(state(&stuck), (State::Hung, Class::MissingRank));
    assert_eq!(stuck.verdict.ranks, [1]);
    let runs = polls(moved.as_bytes(), 40);
    assert_eq!(state(&runs), (State::Inconclusive, Class::Inconclusive));
    assert!(runs.findings.iter().all(|f| f.severity == Severity::Info));
}

/// So do two saved ones: they carry their own stamps, and may be read in any order.
#[test]
fn two_saved_answers_tell_progress_too() {
    let job = job("cases", "skipped-collective");
    let saved = fs::read(job.folder.join("ras.json")).expect("an answer");
    let saved: serde_json::Value = serde_json::from_slice(&saved).expect("JSON");
    // `more`: what each rank has launched since.
    let after = |second: u32, more: [u64; 2]| {
        let mut answer = saved.clone();
        answer["timestamp"] = format!("2026-11-30 19:27:{second:02}").into();
        let ranks = answer["communicators"][0]["ranks"].as_array_mut();
        for (rank, more) in ranks.expect("ranks").iter_mut().zip(more) {
            let count = &mut rank["collective_counts"]["AllReduce"];
            *count = (count.as_u64().expect("a count") + more).into();
        }
        serde_json::to_vec_pretty(&answer).expect("JSON")
    };
    let state = |answers: [Vec<u8>; 2]| {
        let mut driver = Driver::new();
        for (n, reply) in answers.iter().enumerate() {
            let source = driver.source(&format!("ras{n}.json"), SourceKind::Ras);
            driver.engine.handle(None, Input::Ras { source, reply });
        }
        let seen = driver.verdict(false);
        (seen.verdict.state, seen.verdict.class)
    };
    let old = after(1, [0, 0]);
    let moved = after(40, [1, 1]);
    let cannot_tell = (State::Inconclusive, Class::Inconclusive);
    assert_eq!(state([old.clone(), moved.clone()]), cannot_tell);
    assert_eq!(state([moved, old.clone()]), cannot_tell);
    // Only who is ahead went on: rank 1 stands where it stood.
    let waits = (State::Waiting, Class::MissingRank);
    assert_eq!(state([old.clone(), after(20, [1, 0])]), waits);
    let stands = (State::Hung, Class::MissingRank);
    assert_eq!(state([old, after(50, [0, 0])]), stands);
}

/// Where it names nobody it says what it saw, and what it does not see.
#[test]
fn alone_it_says_what_it_cannot_tell() {
    let summary = |text: &str| {
        let mut driver = Driver::new();
        let source = driver.source("ras.txt", SourceKind::Ras);
        let seen = driver.asked(source, 1, text.as_bytes()).verdict(true);
        assert!(seen.verdict.ranks.is_empty());
        assert_eq!(seen.verdict.class, Class::Inconclusive);
        seen.verdict.summary
    };
    let read = |name: &str| {
        fs::read_to_string(job("cases", name).folder.join("ras.txt")).expect("an answer")
    };
    let equal = summary(&read("mismatch-count"));
    assert!(
        equal.starts_with(
            "cannot tell: all 2 ranks launched equally often by NCCL RAS, which compares neither"
        ),
        "{equal}"
    );
    // Nobody says that the others wait.
    let killed = job("cases", "rank-killed-16");
    let seen = Driver::new().answer(&killed, "ras.json").verdict(false);
    assert_eq!(
        seen.verdict.summary,
        "cannot tell: NCCL RAS got no data from rank 6 (process 3348 on 10.20.0.4): ended, frozen or cut off (--stuck if \
         it stands still)"
    );
    // Half and half, the text lists nobody.
    let tie =
        read("mismatch-count-16").replace("  15 ranks have launched", "  8 ranks have launched");
    let at = tie.find("  Rank 9").expect("an outlier");
    let tie = format!(
        "{}  8 ranks have launched up to operation 2\n\n",
        &tie[..at]
    );
    let tie = summary(&tie);
    assert!(
        tie.contains("unequal launches of AllReduce (8 ranks launched it 3 times, 8 ranks launched it 2 times)"),
        "{tie}"
    );
}

/// A rank in a communicator is no rank of the world, and is not printed as one.
#[test]
fn ranks_that_cannot_be_placed_are_called_ranks_of_the_communicator() {
    let job = job("cases", "skipped-collective");
    for name in ["ras.txt", "ras.json"] {
        let answer = fs::read_to_string(job.folder.join(name)).expect("an answer");
        // A job of 4: which of its ranks the two are is not told.
        let row = "      1          2            1          2        2";
        let other = "      1          4            1          4        4";
        let mut answer = answer.replace(row, other);
        if name == "ras.json" {
            let at = answer.find("\"communicators\"").expect("communicators");
            let more = r#""communicators": [ { "hash": "0x1", "secondary_hash": "0x0:0x0", "size": 4, "ranks_count": 0,
                "missing_ranks_count": 0, "ranks": [], "missing_ranks": [] }, "#;
            let rest = answer[at..].split_once('[').expect("a list").1.to_owned();
            answer = format!("{}{more}{rest}", &answer[..at]);
        }
        let mut driver = Driver::new();
        let source = driver.source(name, SourceKind::Ras);
        let seen = driver.asked(source, 1, answer.as_bytes()).verdict(true);
        assert!(
            seen.verdict.ranks.is_empty(),
            "{name}: {}",
            seen.verdict.summary
        );
        let found = seen.findings.iter().find(|f| f.id == "RAS001");
        let found = found.unwrap_or_else(|| panic!("{name}: {:?}", seen.verdict));
        assert!(
            found.title.starts_with("rank 1 of the communicator launched AllReduce twice, and rank 0 of the communicator"),
            "{}",
            found.title
        );
        assert!(
            found
                .evidence
                .iter()
                .any(|e| e.rank.is_none() && e.text.ends_with("(comm rank 1)")),
            "{:?}",
            found.evidence
        );
    }
}

/// The logs and RAS say the same, the dumps another thing: the note names all who say it.
#[test]
fn a_note_names_everybody_who_points_at_a_rank() {
    let job = job("cases", "skipped-collective");
    let mut driver = Driver::new().logs(&job).answer(&job, "ras.txt");
    for (name, of) in [("fr_rank_0", "fr_rank_1"), ("fr_rank_1", "fr_rank_0")] {
        let source = driver.source(name, SourceKind::Dump);
        let bytes = &fs::read(job.folder.join(of)).expect("a dump")[..];
        driver.engine.handle(None, Input::Dump { source, bytes });
    }
    let seen = driver.verdict(true);
    let note = seen
        .findings
        .iter()
        .find(|f| f.id == "FR005")
        .expect("a note");
    assert_eq!(
        note.title,
        "the witnesses do not agree: the logs and NCCL RAS point at rank 1 (RANK001), the dumps point at rank 0 (RANK001)"
    );
}
