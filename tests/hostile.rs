//! Hostile bytes: nothing crashes, nobody is accused, good lines behind bad ones are still read.

use std::fs;
use std::path::Path;

use unhang::engine::limits::LINE_BYTES;
use unhang::engine::vocab::State;

#[path = "common/drive.rs"]
mod drive;
#[path = "../examples/synth_job/prng.rs"]
mod prng;

use prng::Prng;

/// The samples of `fixtures/lines` and what is too large to store, by name.
fn samples() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/lines");
    let mut samples: Vec<(String, Vec<u8>)> = fs::read_dir(&folder)
        .expect("the samples")
        .map(|entry| entry.expect("a listed entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| {
            (
                path.display().to_string(),
                fs::read(&path).expect("a readable sample"),
            )
        })
        .collect();
    samples.sort();
    assert!(samples.len() >= 20, "only {} samples", samples.len());
    let head = "node-0:1067:1067 [0] NCCL INFO ";
    samples.push(("2 MB without a line end".to_owned(), b"x".repeat(2_000_000)));
    samples.push((
        "2 MB behind a header".to_owned(),
        format!("{head}{}\n", "Trees ".repeat(333_333)).into_bytes(),
    ));
    samples.push(("a million CRs".to_owned(), b"\r10%".repeat(1_000_000)));
    samples.push(("a million escapes".to_owned(), b"\x1b[".repeat(1_000_000)));
    samples
}

#[test]
fn hostile_bytes_accuse_nobody() {
    for (name, bytes) in samples() {
        let answer = drive::diagnose(&[("rank0.log", &bytes)], false);
        // Half a job's log may be waited for, but nothing in here stands still or ended somebody.
        let verdict = &answer.verdict;
        assert_ne!(verdict.state, State::Hung, "{name}: {}", verdict.summary);
        assert!(
            verdict.ranks.is_empty() || verdict.state == State::Waiting,
            "{name} accuses {:?}: {}",
            verdict.ranks,
            verdict.summary
        );
        assert_eq!(
            answer.inputs.bytes,
            bytes.len() as u64,
            "{name}: every byte is counted"
        );
    }
}

#[test]
fn what_is_too_long_is_cut_and_counted() {
    let long = b"x".repeat(100 << 20);
    let answer = drive::diagnose(&[("rank0.log", &long)], false);
    assert!(
        answer.inputs.dropped >= (long.len() - LINE_BYTES) as u64,
        "dropped {}",
        answer.inputs.dropped
    );
    let kept = answer
        .job
        .ranks
        .iter()
        .filter_map(|rank| rank.last_line.as_ref())
        .map(String::len)
        .max();
    assert!(
        kept.unwrap_or_default() <= LINE_BYTES,
        "{kept:?} bytes of a line are kept"
    );
}

#[test]
fn random_bytes_and_random_damage_crash_nothing() {
    let samples = samples();
    for seed in 0..200 {
        let mut random = Prng::new(seed);
        let (_, bytes) = &samples[random.below(samples.len())];
        let mut bytes = bytes[..bytes.len().min(8_192)].to_vec();
        for _ in 0..16 {
            let at = random.below(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        let answer = drive::diagnose(&[("a.log", &bytes), ("b.log", &bytes)], true);
        assert_eq!(answer.inputs.bytes, 2 * bytes.len() as u64, "seed {seed}");
    }
}
