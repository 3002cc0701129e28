//! Dumps in files: found below a folder, packed or not, watched, recorded and played again.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use unhang::app::{report, watch};
use unhang::engine::catalog::Catalog;
use unhang::engine::finding::Finding;
use unhang::engine::vocab::Class;
use unhang::engine::{Engine, Options};
use unhang::views::json;

use super::equal;
use super::synth::Dump;

/// A folder with logs and other JSON beside dumps that are plain, packed, empty and cut.
fn folder(dumps: &[Dump]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    write("truth.json", b"{\"case\": \"x\", \"class\": \"healthy\"}");
    write("config.json", b"{\"entries\": [1, 2], \"version\": 3}");
    write("trace_rank_0", &dumps[0].pickle());
    write("trace_rank_1.json", dumps[1].json().as_bytes());
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&dumps[2].pickle()).unwrap();
    write("trace_rank_2.gz", &gz.finish().unwrap());
    write(
        "trace_rank_3.zst",
        &zstd::encode_all(dumps[3].pickle().as_slice(), 1).unwrap(),
    );
    dir
}

fn engine() -> Engine {
    Engine::new(Catalog::builtin(), Options::default())
}

fn plan(path: &Path) -> report::Plan {
    report::Plan {
        paths: vec![path.to_owned()],
        claim: Some(None),
        ..Default::default()
    }
}

#[test]
fn a_folder_is_searched_for_dumps() {
    let mut dumps = equal(5, 5);
    dumps[2].entries.last_mut().unwrap().datatype = "Double";
    let dir = folder(&dumps);
    fs::write(dir.path().join("trace_rank_4"), b"").unwrap();
    let report = report::run(&plan(dir.path()), engine());
    let answer = report.snapshot;
    assert_eq!(answer.verdict.ranks, [2]);
    let passed: Vec<String> = report
        .passed_over
        .iter()
        .map(|(p, why)| format!("{}: {why}", p.file_name().unwrap().display()))
        .collect();
    assert_eq!(
        passed.iter().filter(|p| p.ends_with(".json: JSON")).count(),
        2,
        "{passed:?}"
    );
    // The empty file is called like the dumps: a process that ended while it wrote.
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].contains("trace_rank_4") && problems[0].contains("it is empty"),
        "{problems:?}"
    );
}

#[test]
fn a_journal_with_dumps_gives_the_same_answer() {
    let mut dumps = equal(4, 5);
    dumps[2].entries.pop();
    let dir = folder(&dumps);
    let journal = tempfile::NamedTempFile::new().unwrap();
    let watch = watch::start(
        &watch::Plan {
            paths: vec![dir.path().to_owned()],
            claim: Some(None),
            record: Some(journal.path().to_owned()),
            ..Default::default()
        },
        engine(),
    )
    .unwrap();
    let handle = watch.handle();
    let mut seen = 0;
    for _ in 0..100 {
        seen = handle.wait_for_change(seen, std::time::Duration::from_millis(200));
        if !handle.snapshot().verdict.ranks.is_empty() {
            break;
        }
    }
    let live = watch.finish();
    assert_eq!(live.verdict.ranks, [2]);
    let played = report::run(&plan(journal.path()), engine()).snapshot;
    assert_eq!(json::to_string(&live, true), json::to_string(&played, true));
}

/// Up to PyTorch 2.3 groups go by each process's own numbers: here rank 0 made them in another order than rank 1.
#[test]
fn groups_known_by_number_alone_are_told_apart_by_their_ranks() {
    let dump = |pairs: [(u32, &str); 2]| {
        let entry = |(n, (group, shape)): (usize, (u32, &str))| {
            format!(
                r#"{{"record_id": {n}, "pg_id": {group}, "seq_id": 1, "op_id": 1, "profiling_name": "nccl:all_reduce",
                "time_created_ns": 1700000000000000000, "input_sizes": [[{shape}]], "output_sizes": [[{shape}]],
                "state": "started", "frames": []}}"#
            )
        };
        let entries: Vec<String> = pairs.into_iter().enumerate().map(entry).collect();
        let group = |number: u32| pairs.iter().position(|(g, _)| *g == number);
        // Whose sizes are 4 spans two ranks, whose are 8 all three.
        let ranks = |number| match group(number).map(|at| pairs[at].1) {
            Some("4") => "[0, 1]",
            _ => "[2, 1, 0]",
        };
        format!(
            r#"{{"version": "1.4", "pg_config": {{"0": [0, 1, 2], "1": {}, "2": {}}}, "entries": [{}]}}"#,
            ranks(1),
            ranks(2),
            entries.join(",")
        )
        .into_bytes()
    };
    let files = [
        ("t_0".to_owned(), dump([(1, "4"), (2, "8")])),
        ("t_1".to_owned(), dump([(2, "4"), (1, "8")])),
    ];
    let answer = super::ask(&files, true);
    let unlike = |f: &&Finding| f.class == Class::MismatchedCollective;
    assert!(
        !answer.findings.iter().any(|f| unlike(&f)),
        "{:?}",
        answer.findings
    );
    let files = [
        ("t_0".to_owned(), dump([(1, "4"), (2, "8")])),
        ("t_1".to_owned(), {
            let odd = String::from_utf8(dump([(2, "4"), (1, "8")])).unwrap();
            odd.replacen("all_reduce", "broadcast", 1).into_bytes()
        }),
    ];
    let answer = super::ask(&files, true);
    let found = answer.findings.iter().find(unlike).expect("a mismatch");
    assert!(
        found.title.contains("group of ranks 0, 1"),
        "{}",
        found.title
    );
}
