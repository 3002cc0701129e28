//! The fuzz targets' function over their seeds and over changed copies of these: what a fuzzer would try first, on
//! stable and in every run of the tests. `UNHANG_FUZZ_SECONDS` goes on for longer.

#![expect(
    clippy::print_stderr,
    reason = "how much a long run tried is asked for"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "../fuzz/body.rs"]
mod body;
#[path = "../examples/synth_job/prng.rs"]
mod prng;

use prng::Prng;

/// Changed copies of each seed in an ordinary run.
const COPIES: usize = 400;

/// The seeds of a target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("a corpus")
        .map(|entry| entry.expect("a listed entry").path())
        .collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| fs::read(path).expect("a seed"))
        .collect();
    assert!(seeds.len() >= 3, "only {} seeds of {target}", seeds.len());
    seeds
}

/// A copy of a seed with a few changes: bytes set, pieces removed, repeated, or taken from another seed.
fn changed(seeds: &[Vec<u8>], random: &mut Prng) -> Vec<u8> {
    /// Values at which lengths and counts turn.
    const EDGES: [u8; 12] = [
        0, 1, 0x7f, 0x80, 0xfe, 0xff, b'(', b'u', b'e', b'.', b'h', b'}',
    ];
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(6) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        let len = 1 + random.below(16.min(bytes.len() - at));
        match random.below(6) {
            0 => bytes[at] = EDGES[random.below(EDGES.len())],
            1 => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.drain(at..at + len)),
            3 => {
                let piece = bytes[at..at + len].to_vec();
                for _ in 0..=random.below(8) {
                    bytes.splice(at..at, piece.iter().copied());
                }
            }
            4 => bytes.truncate(at),
            _ => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let to = other.len().min(from + 1 + random.below(64));
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    bytes
}

fn run(target: &str, body: fn(&[u8])) {
    let seeds = corpus(target);
    for seed in &seeds {
        body(seed);
    }
    let seconds = std::env::var("UNHANG_FUZZ_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("a number of seconds"));
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut random = Prng::new(seeds.len() as u64);
    let mut lengths = BTreeSet::new();
    let mut copies = 0;
    while until.map_or(copies < COPIES * seeds.len(), |until| {
        Instant::now() < until
    }) {
        let bytes = changed(&seeds, &mut random);
        lengths.insert(bytes.len());
        body(&bytes);
        copies += 1;
    }
    assert!(lengths.len() > 50, "the copies hardly differ");
    if until.is_some() {
        eprintln!("{target}: {copies} copies");
    }
}

#[test]
fn pickles_of_any_bytes_do_no_harm() {
    run("dump_pickle", body::dump);
}

#[test]
fn json_of_any_bytes_does_no_harm() {
    run("dump_json", body::dump);
}

#[test]
fn ras_text_of_any_bytes_does_no_harm() {
    run("ras_text", body::ras);
}

#[test]
fn ras_json_of_any_bytes_does_no_harm() {
    run("ras_json", body::ras);
}
