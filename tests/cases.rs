//! What unhang answers to every recorded job, against the truth: from the logs alone, and with the Flight Recorder
//! dumps that some jobs left.
//!
//! `docs/accuracy.md` is this test's table; `UPDATE_DOCS=1 cargo test --test cases` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;
use std::{env, fs};

use serde::Deserialize;
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Role, Severity, State};
use unhang::engine::witness::Witness;

#[path = "common/drive.rs"]
mod drive;
#[path = "common/jobs.rs"]
mod jobs;
#[path = "../examples/synth_job/prng.rs"]
mod prng;
#[path = "cases/variants.rs"]
mod variants;

use jobs::Case;

/// Classes that the detectors promise to get right.
const PROMISED: [Class; 5] = [
    Class::WrongInterface,
    Class::MismatchedCollective,
    Class::MissingRank,
    Class::P2p,
    Class::RankDied,
];

/// Share of them that must be right, in percent.
const PROMISED_PERCENT: usize = 95;

/// The fields of `truth.json` that a verdict is compared with; `fixtures/README.md` explains them.
#[derive(Debug, Deserialize)]
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
    also_guilty: Vec<Vec<u32>>,
    needs: Option<String>,
}

/// Jobs whose dumps alone tell everything.
const DUMPS_SUFFICE: [&str; 4] = [
    "cases/mismatch-count-16",
    "cases/mismatch-op",
    "cases/rank-killed",
    "cases/skipped-collective",
];

/// A recorded job and the answer to it.
struct Row {
    case: Case,
    truth: Truth,
    answer: Snapshot,
    wrong: Vec<&'static str>,
}

impl Row {
    fn is_right(&self) -> bool {
        self.wrong.is_empty()
    }

    fn is_promised(&self) -> bool {
        PROMISED.contains(&self.truth.class) && self.truth.needs.is_none()
    }
}

/// Every recorded job, diagnosed once from its logs.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let cases = ["cases", "healthy"].into_iter().flat_map(jobs::recorded);
    cases.map(|case| row(case, true, false)).collect()
});

/// The jobs that left dumps, diagnosed from logs and dumps.
static WITH_DUMPS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let cases = ["cases", "healthy"].into_iter().flat_map(jobs::recorded);
    let cases = cases.filter(|case| !case.dumps.is_empty());
    cases.map(|case| row(case, true, true)).collect()
});

/// The jobs that left dumps, diagnosed from these alone.
static DUMPS_ALONE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let cases = ["cases", "healthy"].into_iter().flat_map(jobs::recorded);
    let cases = cases.filter(|case| !case.dumps.is_empty());
    cases.map(|case| row(case, false, true)).collect()
});

fn row(case: Case, logs: bool, dumps: bool) -> Row {
    let files = |files: &'_ [jobs::Log], wanted: bool| -> Vec<(String, Vec<u8>)> {
        let files = files.iter().filter(|_| wanted);
        files.map(|f| (f.name.clone(), f.bytes.clone())).collect()
    };
    let (logs, dumps) = (files(&case.logs, logs), files(&case.dumps, dumps));
    let names: Vec<&str> = logs.iter().map(|(name, _)| name.as_str()).collect();
    let pieces = logs
        .iter()
        .enumerate()
        .map(|(n, (_, bytes))| (n, 0, bytes.as_slice()));
    let dumps: Vec<(&str, &[u8])> = dumps
        .iter()
        .map(|(n, b)| (n.as_str(), b.as_slice()))
        .collect();
    let answer = drive::diagnose_all(&names, pieces, &dumps, case.stuck);
    let truth = read_truth(&case);
    let wrong = what_is_wrong(&truth, &answer);
    Row {
        case,
        truth,
        answer,
        wrong,
    }
}

fn read_truth(case: &Case) -> Truth {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(&case.name)
        .join("truth.json");
    let text = fs::read_to_string(path).expect("every job has a truth.json");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// The parts of the verdict that differ from the truth and from every other honest answer.
fn what_is_wrong(truth: &Truth, answer: &Snapshot) -> Vec<&'static str> {
    let verdict = &answer.verdict;
    let mut wrong = Vec::new();
    if verdict.class != truth.class && !truth.also_right.contains(&verdict.class) {
        wrong.push("class");
    }
    // A log that stops without a word about the end shows a healthy job, not a completed one.
    let both_healthy =
        truth.class == Class::Healthy && matches!(verdict.state, State::Healthy | State::Completed);
    if verdict.state != truth.state
        && !both_healthy
        && !truth
            .also_state
            .iter()
            .any(|state| state == verdict.state.name())
    {
        wrong.push("state");
    }
    if verdict.ranks != truth.guilty_ranks && !truth.also_guilty.contains(&verdict.ranks) {
        wrong.push("ranks");
    }
    if verdict.hosts != truth.guilty_hosts {
        wrong.push("hosts");
    }
    wrong
}

/// Of a hung job with a log a rank, the log of one rank alone: it may not call the job well, and
/// whom it accuses beside its own rank is guilty.
#[test]
fn one_log_of_a_hung_job_says_which_logs_are_missing() {
    let hung = ROWS.iter().filter(|row| {
        let of_ranks = |log: &jobs::Log| log.name.starts_with("rank");
        row.truth.state == State::Hung
            && row.case.logs.len() > 1
            && row.case.logs.iter().all(of_ranks)
    });
    let mut looked_at = 0;
    let mut report = String::new();
    for row in hung {
        for (log, stuck) in row
            .case
            .logs
            .iter()
            .flat_map(|log| [(log, false), (log, true)])
        {
            let answer = drive::diagnose(&[(&log.name, &log.bytes)], stuck);
            let verdict = &answer.verdict;
            let own = |rank: &u32| log.name == format!("rank{rank}.log");
            let also = row.truth.also_guilty.iter().flatten();
            let guilty: Vec<&u32> = row.truth.guilty_ranks.iter().chain(also).collect();
            let honest = verdict
                .ranks
                .iter()
                .all(|rank| own(rank) || guilty.contains(&rank));
            let asks = verdict
                .missing_evidence
                .iter()
                .any(|what| what.starts_with("the log"));
            // What ended a rank by itself, or stands in its own log, needs no other log.
            let proven = answer
                .findings
                .iter()
                .any(|f| f.severity == Severity::Error);
            let well = matches!(verdict.state, State::Healthy | State::Completed);
            looked_at += 1;
            if well || !honest || !asks && !proven {
                writeln!(
                    report,
                    "{} {} (stuck: {stuck}) is {} of {:?}: {}; {:?}",
                    row.case.name,
                    log.name,
                    verdict.state,
                    verdict.ranks,
                    verdict.summary,
                    verdict.missing_evidence
                )
                .expect("a string");
            }
        }
    }
    assert!(looked_at >= 100, "only {looked_at} logs");
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn the_promised_classes_are_right() {
    let promised: Vec<&Row> = ROWS.iter().filter(|row| row.is_promised()).collect();
    assert!(
        promised.len() >= 60,
        "only {} jobs of the promised classes were found",
        promised.len()
    );
    let right = promised.iter().filter(|row| row.is_right()).count();
    let wrong: String = promised
        .iter()
        .filter(|row| !row.is_right())
        .map(|row| explain(row))
        .collect();
    assert!(
        right * 100 >= promised.len() * PROMISED_PERCENT,
        "{right} of {} are right, {PROMISED_PERCENT} % are promised:\n{wrong}",
        promised.len(),
    );
}

#[test]
fn with_their_dumps_all_jobs_are_right() {
    assert!(
        WITH_DUMPS.len() >= 18,
        "only {} jobs left dumps",
        WITH_DUMPS.len()
    );
    let wrong: String = WITH_DUMPS
        .iter()
        .filter(|row| !row.is_right())
        .map(explain)
        .collect();
    assert!(wrong.is_empty(), "\n{wrong}");
    // Those that the logs left open are among them.
    let needed = WITH_DUMPS.iter().filter(|row| row.truth.needs.is_some());
    assert!(needed.count() >= 3);
}

#[test]
fn the_dumps_alone_tell_what_they_hold() {
    let named = |row: &&Row| DUMPS_SUFFICE.contains(&row.case.name.as_str());
    let rows: Vec<&Row> = DUMPS_ALONE.iter().filter(named).collect();
    assert_eq!(rows.len(), DUMPS_SUFFICE.len());
    let wrong: String = rows
        .iter()
        .filter(|row| !row.is_right())
        .map(|row| explain(row))
        .collect();
    assert!(wrong.is_empty(), "\n{wrong}");
    // One against one: both calls are shown, and nobody is accused.
    let one = rows
        .iter()
        .find(|row| row.case.name == "cases/mismatch-op")
        .expect("listed");
    let summary = &one.answer.verdict.summary;
    assert!(
        summary.contains("which is wrong cannot be told"),
        "{summary}"
    );
    assert!(
        summary.contains("all_gather_into_tensor of [4096] Float at train__.p:95"),
        "{summary}"
    );
}

#[test]
fn what_logs_and_dumps_both_say_is_one_finding() {
    for row in WITH_DUMPS.iter() {
        let causes = row.answer.findings.iter().filter(|f| f.role == Role::Cause);
        let matters: Vec<(Class, &BTreeSet<u32>)> = causes.map(|f| (f.class, &f.accused)).collect();
        let distinct: BTreeSet<_> = matters.iter().collect();
        assert_eq!(
            distinct.len(),
            matters.len(),
            "{}: {matters:?}",
            row.case.name
        );
    }
    let both = |name: &str| {
        let row = WITH_DUMPS
            .iter()
            .find(|row| row.case.name == name)
            .expect("left dumps");
        let lead = &row.answer.findings[0];
        assert_eq!(
            lead.witnesses,
            BTreeSet::from([Witness::Log, Witness::Dump]),
            "{name}"
        );
        let cited = |dump: bool| lead.evidence.iter().any(|e| e.entry.is_some() == dump);
        assert!(cited(true) && cited(false), "{name} cites both");
    };
    for name in [
        "skipped-collective",
        "mismatch-count-16",
        "mismatch-op",
        "ddp-uneven-inputs",
    ] {
        both(&format!("cases/{name}"));
    }
    both("cases/gloo-fr-dtype-mismatch");
}

#[test]
fn healthy_jobs_are_called_healthy() {
    let mut report = String::new();
    let rows = ROWS
        .iter()
        .chain(WITH_DUMPS.iter())
        .chain(DUMPS_ALONE.iter());
    for row in rows.filter(|row| row.truth.class == Class::Healthy) {
        if !row.is_right() {
            report += &explain(row);
        }
        for finding in row
            .answer
            .findings
            .iter()
            .filter(|finding| finding.severity >= Severity::Warning)
        {
            writeln!(
                report,
                "{}: {} {}: {}",
                row.case.name, finding.severity, finding.id, finding.title
            )
            .expect("a string");
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn the_accuracy_table_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/accuracy.md");
    let table = accuracy_table();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &table).expect("docs/ can be written");
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == table,
        "docs/accuracy.md is stale: UPDATE_DOCS=1 cargo test --test cases"
    );
}

/// A wrong answer beside the right one.
fn explain(row: &Row) -> String {
    let (truth, verdict) = (&row.truth, &row.answer.verdict);
    format!(
        "{} ({}):\n  truth   {} {} {:?} {:?}\n  answer  {} {} {:?} {:?}: {}\n",
        row.case.name,
        row.wrong.join(", "),
        truth.class,
        truth.state,
        truth.guilty_ranks,
        truth.guilty_hosts,
        verdict.class,
        verdict.state,
        verdict.ranks,
        verdict.hosts,
        verdict.summary,
    )
}

fn accuracy_table() -> String {
    let mut out = String::from(
        "# What unhang answers to the recorded jobs\n\n\
         Written by `UPDATE_DOCS=1 cargo test --test cases`; that test fails when this page is stale.\n\n\
         Every job below `fixtures/` is read from its logs alone (no Flight Recorder dumps, no RAS answers), and those that\n\
         left dumps also with these, with\n\
         `--stuck` where the job was seen to stand still. An answer is right if class, state, guilty ranks and\n\
         guilty hosts are those of `truth.json` or one of the other honest answers listed there.\n\n\
         ## By class\n\n\
         | class | jobs | right |\n| --- | ---: | ---: |\n",
    );
    let mut classes: BTreeMap<Class, (usize, usize)> = BTreeMap::new();
    for row in ROWS.iter().filter(|row| row.truth.needs.is_none()) {
        let (jobs, right) = classes.entry(row.truth.class).or_default();
        *jobs += 1;
        *right += usize::from(row.is_right());
    }
    for (class, (jobs, right)) in &classes {
        writeln!(out, "| {class} | {jobs} | {right} |").expect("a string");
    }
    let (jobs, right) = classes
        .values()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    writeln!(out, "| all | {jobs} | {right} |").expect("a string");
    let promised = ROWS.iter().filter(|row| row.is_promised());
    let (jobs, right) = promised.fold((0, 0), |sum, row| {
        (sum.0 + 1, sum.1 + usize::from(row.is_right()))
    });
    writeln!(
        out,
        "\n{} together: {right} of {jobs}.",
        PROMISED.map(Class::name).join(", ")
    )
    .expect("a string");
    out.push_str(
        "Jobs that only dumps can decide are not counted; they are marked in the table below.\n",
    );
    let right = WITH_DUMPS.iter().filter(|row| row.is_right()).count();
    writeln!(
        out,
        "With the dumps that {} of the jobs left, {right} of these are right.",
        WITH_DUMPS.len()
    )
    .expect("a string");
    out.push_str(&variants::table());
    rows_in_words(&mut out, "Job by job, from the logs", &ROWS);
    rows_in_words(
        &mut out,
        "The jobs with dumps, from logs and dumps",
        &WITH_DUMPS,
    );
    out.push_str(
        "\nWithout the logs a dump cannot say how a process ended, who had started at all, or which reduction was \
         asked for.\n",
    );
    rows_in_words(&mut out, "The same from the dumps alone", &DUMPS_ALONE);
    out
}

fn rows_in_words(out: &mut String, heading: &str, rows: &[Row]) {
    writeln!(
        out,
        "\n## {heading}\n\n| job | | answer | summary |\n| --- | --- | --- | --- |"
    )
    .expect("a string");
    for row in rows {
        let verdict = &row.answer.verdict;
        let mark = match (&row.truth.needs, row.is_right()) {
            (_, true) => "right".to_owned(),
            (Some(needs), false) => format!("needs {needs}"),
            (None, false) => format!("wrong {}", row.wrong.join(", ")),
        };
        let ranks: Vec<String> = verdict.ranks.iter().map(ToString::to_string).collect();
        let summary = verdict.summary.replace('|', "\\|");
        writeln!(
            out,
            "| {} | {mark} | {} {}{}{} | {summary} |",
            row.case.name,
            verdict.state,
            verdict.class,
            list(" ranks", &ranks),
            list(" hosts", &verdict.hosts),
        )
        .expect("a string");
    }
}

/// `what a, b`, or nothing.
fn list(what: &str, items: &[String]) -> String {
    if items.is_empty() {
        String::new()
    } else {
        format!("{what} {}", items.join(", "))
    }
}
