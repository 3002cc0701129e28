//! Followed files: whatever is done to them, every byte arrives once.
//!
//! Polling is driven by hand, so nothing here sleeps or waits.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use unhang::engine::ids::SourceId;
use unhang::engine::input::{EndReason, Input};
use unhang::sources::discover::Discoverer;
use unhang::sources::tail::{FAIR, Tailer};

/// What a tailer said, per source.
#[derive(Default)]
struct Heard {
    names: BTreeMap<SourceId, String>,
    /// The incarnations of a source, each with its bytes.
    bytes: BTreeMap<SourceId, Vec<Vec<u8>>>,
    events: Vec<&'static str>,
}

impl Heard {
    fn hear(&mut self, input: Input<'_>) {
        match input {
            Input::Source(info) => {
                self.bytes.insert(info.id, vec![Vec::new()]);
                self.names.insert(info.id, info.name);
            }
            Input::Bytes {
                source,
                offset,
                chunk,
            } => {
                let now = self
                    .bytes
                    .get_mut(&source)
                    .expect("announced")
                    .last_mut()
                    .unwrap();
                assert_eq!(now.len() as u64, offset, "no gap and no overlap");
                now.extend_from_slice(chunk);
            }
            Input::Rotated(source) => self.again(source, "rotated"),
            Input::Truncated(source) => self.again(source, "truncated"),
            Input::Ended { why, .. } => {
                assert_eq!(why, EndReason::Eof);
                self.events.push("ended");
            }
            Input::Ras { .. }
            | Input::Dump { .. }
            | Input::Process { .. }
            | Input::Gpu { .. }
            | Input::Claim { .. }
            | Input::Tick => {
                unreachable!()
            }
        }
    }

    fn again(&mut self, source: SourceId, event: &'static str) {
        self.bytes
            .get_mut(&source)
            .expect("announced")
            .push(Vec::new());
        self.events.push(event);
    }

    /// Every line of every source.
    fn lines(&self) -> Vec<String> {
        let all = self.bytes.values().flatten();
        let lines = all.flat_map(|bytes| bytes.split_inclusive(|&b| b == b'\n'));
        lines
            .map(|line| String::from_utf8_lossy(line).trim_end().to_owned())
            .collect()
    }

    fn of(&self, name: &str) -> Vec<String> {
        let (id, _) = self
            .names
            .iter()
            .find(|(_, known)| *known == name)
            .expect("known");
        self.bytes[id]
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }
}

struct Bench {
    dir: tempfile::TempDir,
    tailer: Tailer,
    heard: Heard,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tailer = Tailer::new(Discoverer::new(&[dir.path().to_owned()]), 0);
        Self {
            dir,
            tailer,
            heard: Heard::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn append(&self, name: &str, text: &str) {
        append(&self.path(name), text);
    }

    fn search(&mut self) {
        let found = self.tailer.search(&mut |input| self.heard.hear(input));
        assert!(found.problems.is_empty(), "{:?}", found.problems);
    }

    fn poll(&mut self) -> bool {
        let round = self.tailer.poll(&mut |input| self.heard.hear(input));
        let problems = self.tailer.take_problems();
        assert!(problems.is_empty(), "{problems:?}");
        round.changing || round.more
    }

    /// Polls until nothing changes any more.
    fn settle(&mut self) {
        self.search();
        for _ in 0..100 {
            if !self.poll() {
                return;
            }
        }
        panic!("does not settle");
    }
}

fn append(path: &Path, text: &str) {
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn files_appear_and_grow() {
    let mut bench = Bench::new();
    bench.settle();
    bench.append("rank0.log", "a\n");
    bench.settle();
    bench.append("rank0.log", "b");
    bench.append("rank1.log", "c\n");
    bench.settle();
    bench.append("rank0.log", "d\n");
    bench.settle();
    assert_eq!(bench.heard.of("rank0.log"), ["a\nbd\n"]);
    assert_eq!(bench.heard.of("rank1.log"), ["c\n"]);
    assert!(bench.heard.events.is_empty());
}

#[test]
fn a_rotation_is_told_from_a_truncation() {
    let mut bench = Bench::new();
    bench.append("rank0.log", "one\ntwo\n");
    bench.append("rank1.log", "one\ntwo\n");
    bench.settle();
    fs::rename(bench.path("rank0.log"), bench.path("rank0.log.1")).unwrap();
    append(&bench.path("rank0.log.1"), "late\n");
    bench.append("rank0.log", "new\n");
    bench.settle();
    assert_eq!(bench.heard.events, ["rotated"]);
    assert_eq!(bench.heard.of("rank0.log"), ["one\ntwo\nlate\n", "new\n"]);

    File::create(bench.path("rank1.log")).unwrap();
    bench.append("rank1.log", "x\n");
    bench.settle();
    assert_eq!(bench.heard.events, ["rotated", "truncated"]);
    assert_eq!(bench.heard.of("rank1.log"), ["one\ntwo\n", "x\n"]);
    assert_eq!(
        bench.heard.names.len(),
        2,
        "the file that was rotated away is not a new log"
    );
}

#[test]
fn a_truncated_file_that_grew_beyond_its_old_end_is_noticed() {
    let mut bench = Bench::new();
    bench.append("rank0.log", "first run\n");
    bench.settle();
    fs::write(
        bench.path("rank0.log"),
        "second run, and longer than the first\n",
    )
    .unwrap();
    bench.settle();
    assert_eq!(bench.heard.events, ["truncated"]);
    assert_eq!(
        bench.heard.of("rank0.log")[1],
        "second run, and longer than the first\n"
    );
}

#[test]
fn a_deleted_file_is_read_to_its_end_and_its_successor_from_the_start() {
    let mut bench = Bench::new();
    bench.append("rank0.log", "one\n");
    bench.settle();
    let mut writer = File::options()
        .append(true)
        .open(bench.path("rank0.log"))
        .unwrap();
    fs::remove_file(bench.path("rank0.log")).unwrap();
    bench.settle();
    writer.write_all(b"last words\n").unwrap();
    bench.settle();
    bench.append("rank0.log", "one\n");
    bench.settle();
    assert_eq!(bench.heard.of("rank0.log"), ["one\nlast words\n", "one\n"]);
    assert_eq!(bench.heard.events, ["rotated"]);
}

#[test]
fn a_file_that_stays_deleted_is_closed_and_known_as_new_when_it_comes_back() {
    let mut bench = Bench::new();
    bench.append("rank0.log", "one\n");
    bench.settle();
    fs::remove_file(bench.path("rank0.log")).unwrap();
    for _ in 0..300 {
        bench.poll();
    }
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let target = bench.path("rank0.log");
    let held = open
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .any(|to| to.starts_with(&target));
    assert!(!held, "its disk space is free");
    bench.append("rank0.log", "one\nmore\n");
    bench.settle();
    assert_eq!(bench.heard.of("rank0.log"), ["one\n", "one\nmore\n"]);
}

#[test]
fn a_busy_file_does_not_starve_the_others() {
    let mut bench = Bench::new();
    bench.append("rank0.log", &"x\n".repeat(FAIR));
    bench.append("rank1.log", "y\n");
    bench.search();
    assert!(bench.poll());
    assert_eq!(bench.heard.of("rank0.log")[0].len(), FAIR);
    assert_eq!(bench.heard.of("rank1.log"), ["y\n"]);
}

#[test]
fn packed_logs_are_read_once() {
    let mut bench = Bench::new();
    let packed = zstd::encode_all(&b"old\n"[..], 1).unwrap();
    fs::write(bench.path("rank0.log.1.zst"), packed).unwrap();
    bench.settle();
    assert_eq!(bench.heard.of("rank0.log.1.zst"), ["old\n"]);
    assert_eq!(bench.heard.events, ["ended"]);
}

/// What may happen to a file.
#[derive(Clone, Debug)]
enum Action {
    Append {
        file: usize,
        lines: usize,
    },
    /// Renamed away; the next append makes a new one.
    Rotate {
        file: usize,
    },
    Delete {
        file: usize,
    },
    Truncate {
        file: usize,
    },
    Poll,
    Search,
}

fn action(truncates: bool) -> impl Strategy<Value = Action> {
    let file = 0..3_usize;
    let cut = if truncates { 1 } else { 0 };
    prop_oneof![
        6 => (file.clone(), 1..40_usize).prop_map(|(file, lines)| Action::Append { file, lines }),
        2 => file.clone().prop_map(|file| Action::Rotate { file }),
        1 => file.clone().prop_map(|file| Action::Delete { file }),
        cut => file.prop_map(|file| Action::Truncate { file }),
        6 => Just(Action::Poll),
        2 => Just(Action::Search),
    ]
}

/// Plays a script; returns what was written and what was heard.
fn play(script: &[Action]) -> (Vec<String>, Heard) {
    let mut bench = Bench::new();
    let (mut written, mut rotations) = (Vec::new(), 0);
    let name = |file: usize| format!("rank{file}.log");
    for action in script {
        match *action {
            Action::Append { file, lines } => {
                let new: Vec<String> = (0..lines)
                    .map(|n| format!("{file} line {}", written.len() + n))
                    .collect();
                bench.append(&name(file), &(new.join("\n") + "\n"));
                written.extend(new);
            }
            Action::Rotate { file } => {
                rotations += 1;
                // It keeps the name of a log, so one that was rotated away unseen is found by the search.
                let _absent = fs::rename(
                    bench.path(&name(file)),
                    bench.path(&format!("{}.{rotations}", name(file))),
                );
            }
            Action::Delete { file } => {
                // What is created and deleted between two looks cannot be seen by anybody.
                bench.settle();
                let _absent = fs::remove_file(bench.path(&name(file)));
            }
            Action::Truncate { file } => {
                bench.settle();
                if bench.path(&name(file)).exists() {
                    File::create(bench.path(&name(file))).unwrap();
                }
            }
            Action::Poll => drop(bench.poll()),
            Action::Search => bench.search(),
        }
    }
    bench.settle();
    (written, bench.heard)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once(script in prop::collection::vec(action(false), 1..60)) {
        let (mut written, heard) = play(&script);
        let mut lines = heard.lines();
        lines.sort();
        written.sort();
        prop_assert_eq!(lines, written);
    }

    /// With truncation losslessness cannot be promised, but nothing is made up and nothing comes twice.
    #[test]
    fn truncation_makes_nothing_up(script in prop::collection::vec(action(true), 1..60)) {
        let (written, heard) = play(&script);
        let mut lines = heard.lines();
        lines.sort();
        let count = lines.len();
        lines.dedup();
        prop_assert_eq!(lines.len(), count, "a line came twice");
        prop_assert!(lines.iter().all(|line| written.contains(line)));
    }
}
