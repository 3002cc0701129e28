//! No false alarm on a healthy job, wherever its logs are cut.
//!
//! A log that is still being written, or was copied too early, ends anywhere: every rank's at
//! another place. Without a proof of standstill that is no fault.

use std::fmt::Write as _;

use unhang::engine::vocab::{Severity, State};

#[path = "common/drive.rs"]
mod drive;
#[path = "common/jobs.rs"]
mod jobs;
#[path = "../examples/synth_job/prng.rs"]
mod prng;

use prng::Prng;

/// Cuts of every healthy job; `UNHANG_CUTS` asks for more.
const CUTS: u64 = 40;

#[test]
fn no_cut_of_a_healthy_job_alarms() {
    let cuts = std::env::var("UNHANG_CUTS").map_or(CUTS, |text| text.parse().expect("a number"));
    let cases = jobs::recorded("healthy");
    assert!(
        cases.len() >= 25,
        "only {} healthy jobs were found",
        cases.len()
    );
    let mut report = String::new();
    for case in &cases {
        assert!(!case.stuck, "{} is no healthy job", case.name);
        for seed in 0..cuts {
            let mut random = Prng::new(seed << 32 ^ hash(&case.name));
            let logs: Vec<(&str, &[u8])> = case
                .logs
                .iter()
                .map(|log| {
                    (
                        log.name.as_str(),
                        &log.bytes[..random.below(log.bytes.len() + 1)],
                    )
                })
                .collect();
            let answer = drive::diagnose(&logs, false);
            let ends: Vec<usize> = logs.iter().map(|(_, bytes)| bytes.len()).collect();
            if matches!(answer.verdict.state, State::Hung | State::Failed) {
                writeln!(
                    report,
                    "{} cut at {ends:?} is {}: {}",
                    case.name, answer.verdict.state, answer.verdict.summary
                )
                .expect("a string");
            }
            for finding in answer
                .findings
                .iter()
                .filter(|finding| finding.severity >= Severity::Warning)
            {
                writeln!(
                    report,
                    "{} cut at {ends:?} has {} {}: {}",
                    case.name, finding.severity, finding.id, finding.title
                )
                .expect("a string");
            }
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// A number that belongs to a name.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn no_choice_of_a_healthy_jobs_dumps_alarms() {
    let cases = jobs::recorded("healthy")
        .into_iter()
        .filter(|case| !case.dumps.is_empty());
    let mut asked = 0;
    for case in cases {
        for chosen in 1..1_usize << case.dumps.len() {
            let dumps = case
                .dumps
                .iter()
                .enumerate()
                .filter(|(n, _)| chosen >> n & 1 == 1);
            let dumps: Vec<(&str, &[u8])> = dumps
                .map(|(_, d)| (d.name.as_str(), d.bytes.as_slice()))
                .collect();
            let answer = drive::diagnose_all(&[], [], &dumps, false);
            let alarm = answer
                .findings
                .iter()
                .find(|f| f.severity >= Severity::Warning);
            assert!(
                alarm.is_none(),
                "{} with dumps {chosen:b}: {alarm:?}",
                case.name
            );
            asked += 1;
        }
    }
    assert!(asked > 100, "only {asked} choices");
}
