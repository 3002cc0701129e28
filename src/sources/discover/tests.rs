//! Directories as launchers leave them.

use std::os::unix::fs::symlink;

use super::*;

/// A scratch folder with these files; content by the end of the name.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

fn names(found: &Found) -> Vec<&str> {
    found.logs.iter().map(|log| log.name.as_str()).collect()
}

fn search(args: &[PathBuf]) -> Found {
    Discoverer::new(args).search()
}

const LINE: &[u8] = b"node-1:7:7 [0] NCCL INFO Bootstrap: Using eth0\n";

#[test]
fn natural_order_puts_numbers_by_value() {
    let mut names = [
        "rank10.log",
        "rank2.log",
        "rank02.log",
        "a/b",
        "a.b",
        "rank1/x",
    ];
    names.sort_by_key(|name| natural(name));
    assert_eq!(
        names,
        [
            "a/b",
            "a.b",
            "rank1/x",
            "rank2.log",
            "rank02.log",
            "rank10.log"
        ]
    );
}

#[test]
fn a_folder_is_searched_for_the_layouts_of_launchers() {
    let dir = folder(&[
        ("run_ab/attempt_0/0/stdout.log", LINE),
        ("run_ab/attempt_0/0/stderr.log", b""),
        ("run_ab/attempt_0/0/error.json", b"{\"message\": 1}"),
        ("job/rank.0/stdout", LINE),
        ("job/rank.10/stderr", LINE),
        ("job/rank.2/stderr", LINE),
        ("slurm-1234.out", LINE),
        ("nccl.node-1.77.log", LINE),
        ("host_7.txt", LINE),
        (
            "fr_rank_0",
            include_bytes!("../../../fixtures/cases/skipped-collective/fr_rank_0"),
        ),
        (
            "ras.json",
            b"{\n  \"nccl_version\": \"2.28.9\", \"communicators_count\": 1}",
        ),
        (
            "ras.txt",
            b"NCCL version 2.28.9 compiled with CUDA 13.0\nCUDA runtime version 13000, driver version 13000\n",
        ),
        ("truth.json", b"{}"),
        ("shot.png", b"\x89PNG\r\n"),
        ("core.log", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\0\0\0"),
        (".git/HEAD.log", LINE),
    ]);
    let found = search(&[dir.path().to_owned()]);
    assert_eq!(
        names(&found),
        [
            "host_7.txt",
            "job/rank.0/stdout",
            "job/rank.2/stderr",
            "job/rank.10/stderr",
            "nccl.node-1.77.log",
            "run_ab/attempt_0/0/stderr.log",
            "run_ab/attempt_0/0/stdout.log",
            "slurm-1234.out",
        ]
    );
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    let why = |name: &str| {
        let (_, why) = found
            .passed_over
            .iter()
            .find(|(path, _)| path.ends_with(name))
            .unwrap();
        why.clone()
    };
    let dumps: Vec<&str> = found.dumps.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(dumps, ["fr_rank_0"]);
    let answers: Vec<&str> = found.answers.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(answers, ["ras.json", "ras.txt"]);
    assert_eq!(why("core.log"), "binary");
    assert_eq!(why("error.json"), "JSON");
}

#[test]
fn packed_logs_are_logs() {
    let zst = zstd::encode_all(LINE, 1).unwrap();
    let dir = folder(&[("rank0.log.zst", &zst)]);
    let found = search(&[dir.path().to_owned()]);
    assert_eq!(found.logs[0].packing, Packing::Zstd);
}

#[test]
fn links_do_not_loop_and_do_not_count_twice() {
    let dir = folder(&[("logs/rank0.log", LINE)]);
    symlink("..", dir.path().join("logs/up")).unwrap();
    symlink("rank0.log", dir.path().join("logs/a.log")).unwrap();
    symlink("nowhere", dir.path().join("logs/gone.log")).unwrap();
    let found = search(&[dir.path().to_owned()]);
    assert_eq!(names(&found), ["logs/rank0.log"]);
    assert_eq!(found.problems.len(), 1);
    assert!(
        found.problems[0]
            .to_string()
            .ends_with("gone.log: the link points to nothing")
    );
}

#[test]
fn links_to_folders_are_not_followed() {
    let away = folder(&[("rank9.log", LINE)]);
    let dir = folder(&[("logs/rank0.log", LINE)]);
    symlink(away.path(), dir.path().join("logs/away")).unwrap();
    symlink("logs", dir.path().join("latest")).unwrap();
    assert_eq!(names(&search(&[dir.path().to_owned()])), ["logs/rank0.log"]);
    let named = search(&[dir.path().join("latest")]);
    assert_eq!(named.logs.len(), 1, "a link that is named is searched");
    let above = search(&[dir.path().join("logs")]);
    assert_eq!(above.logs.len(), 1);
}

#[test]
fn names_are_relative_to_what_was_asked_for() {
    let dir = folder(&[("a/rank0.log", LINE), ("b/rank0.log", LINE)]);
    let at = |name: &str| dir.path().join(name);
    assert_eq!(
        names(&search(&[at("a/rank0.log"), at("b/rank0.log")])),
        ["a/rank0.log", "b/rank0.log"]
    );
    assert_eq!(names(&search(&[at("a/rank0.log")])), ["rank0.log"]);
    assert_eq!(
        names(&search(&[at("*/rank?.log")])),
        ["a/rank0.log", "b/rank0.log"]
    );
}

#[test]
fn what_is_named_and_missing_is_a_problem() {
    let dir = folder(&[("a.bin", b"\0\0\0\0"), ("x.log", LINE)]);
    let at = |name: &str| dir.path().join(name);
    let found = search(&[at("none.log"), at("*.none"), at("a.bin"), at("x.log")]);
    assert_eq!(names(&found), ["x.log"]);
    let texts: Vec<String> = found.problems.iter().map(|p| p.why.clone()).collect();
    assert_eq!(
        texts,
        [
            "no such file or directory",
            "no file has such a name",
            "it is binary, not a log"
        ]
    );
}

#[test]
fn a_second_search_gives_only_what_is_new() {
    let dir = folder(&[("rank0.log", LINE), ("notes", b"")]);
    let mut discoverer = Discoverer::new(&[dir.path().to_owned()]);
    assert_eq!(names(&discoverer.search()), ["rank0.log"]);
    assert!(discoverer.search().logs.is_empty());
    fs::write(dir.path().join("rank1.log"), b"").unwrap();
    fs::write(dir.path().join("notes"), LINE).unwrap();
    assert_eq!(names(&discoverer.search()), ["notes", "rank1.log"]);
}

#[test]
fn the_number_of_a_descriptor_is_no_name() {
    let (reader, _writer) = io::pipe().unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&reader);
    let found = Discoverer::new(&[PathBuf::from(format!("/dev/fd/{number}"))]).search();
    let names: Vec<&str> = found.logs.iter().map(|log| log.name.as_str()).collect();
    assert_eq!(names, ["a pipe"]);
    assert!(found.logs[0].pipe);
}
