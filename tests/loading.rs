//! While much is read: how far it has got is said, and nothing of what half-read logs seem to show.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;
use unhang::app::watch::{self, Plan};
use unhang::engine::catalog::Catalog;
use unhang::engine::vocab::{Class, State};
use unhang::engine::{Engine, Options};

#[path = "support/terminal.rs"]
#[expect(dead_code, reason = "this test needs a part of it")]
mod terminal;

/// A recorded failure, and beside it so much else that reading takes a while.
fn much(megabytes: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cases/rank-killed-16");
    for log in fs::read_dir(case).unwrap().flatten() {
        if log.path().extension().is_some_and(|e| e == "log") {
            fs::copy(log.path(), folder.path().join(log.file_name())).unwrap();
        }
    }
    let line = "step 17 loss 3.1415 lr 0.0003 tokens 1048576 throughput 41000 tokens/s\n";
    let block = line.repeat((1 << 20) / line.len());
    let mut file = File::create(folder.path().join("trainer.log")).unwrap();
    for _ in 0..megabytes {
        file.write_all(block.as_bytes()).unwrap();
    }
    folder
}

#[test]
fn half_read_logs_accuse_nobody() {
    let folder = much(64);
    let plan = Plan {
        paths: vec![folder.path().to_owned()],
        no_gpu: true,
        ..Plan::default()
    };
    let engine = Engine::new(Catalog::builtin(), Options::default());
    let watch = watch::start(&plan, engine).unwrap();
    let handle = watch.handle();
    let first = handle.status().loading.expect("it has just begun");
    assert_eq!(first.progress.of_files, 17);
    assert!(first.progress.of > 60 << 20, "{first:?}");
    let end = Instant::now() + Duration::from_secs(60);
    let (mut seen, mut last) = (0, first);
    while let Some(loading) = handle.status().loading {
        let snapshot = handle.snapshot();
        // Reading may have ended in between.
        if handle.status().loading.is_some() {
            assert_eq!(snapshot.verdict.class, Class::Inconclusive);
            assert!(snapshot.findings.is_empty());
        }
        assert!(
            loading.progress.bytes >= last.progress.bytes
                && loading.progress.bytes <= loading.progress.of
        );
        last = loading;
        seen = handle.wait_for_change(seen, Duration::from_millis(50));
        assert!(Instant::now() < end, "it does not end: {loading:?}");
    }
    while handle.snapshot().verdict.state != State::Hung {
        seen = handle.wait_for_change(seen, Duration::from_millis(50));
        assert!(Instant::now() < end, "no verdict");
    }
    let snapshot = watch.finish();
    assert_eq!(snapshot.verdict.ranks, [6]);
}

#[test]
fn a_report_says_on_a_terminal_how_far_it_has_got() {
    let folder = much(4);
    let outside = tempfile::tempdir().unwrap();
    let pipe = outside.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_unhang"));
    command.args(["report", pipe.to_str().unwrap(), "."]);
    command.cwd(folder.path());
    let terminal = terminal::Terminal::start(command, 50, 100);
    let held = terminal.wait_for("named pipe that nobody writes to");
    let_go(&pipe, held);
    terminal.wait("progress", |seen| {
        String::from_utf8_lossy(&seen.raw).contains("reading: ")
    });
    terminal.wait_for("at fault: rank 6");
    terminal.wait_without("reading: ");

    // Without one nothing is said of it.
    let mut report = Command::new(env!("CARGO_BIN_EXE_unhang"))
        .args(["report", pipe.to_str().unwrap(), "."])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(report.stderr.take().unwrap());
    let mut note = String::new();
    told.read_line(&mut note).unwrap();
    assert!(note.contains("named pipe that nobody writes to"), "{note}");
    let_go(&pipe, Instant::now());
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    report.wait().unwrap();
    assert_eq!(rest, "");
}

/// Reading has to take half a second to be worth a word: the pipe holds it up that long, however fast the rest is.
fn let_go(pipe: &Path, held: Instant) {
    while let Some(left) = Duration::from_millis(500).checked_sub(held.elapsed()) {
        std::thread::park_timeout(left);
    }
    fs::write(pipe, "a line\n").unwrap();
}
