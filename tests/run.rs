//! `unhang run`: what the job gets, that nothing holds it up or ends it, and what is said about it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use portable_pty::CommandBuilder;

#[path = "support/terminal.rs"]
#[expect(dead_code, reason = "this test needs a part of it")]
mod terminal;

use terminal::Terminal;

const PATIENCE: Duration = Duration::from_secs(60);
const VARIABLES: [&str; 4] = [
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_FILE",
    "PYTHONUNBUFFERED",
];

/// `unhang run` of a shell script, in a folder of its own.
fn run(script: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhang"));
    command.args(["run", "--no-gpu", "--", "sh", "-c", script, "job"]);
    command.current_dir(folder).env("TERM", "xterm-256color");
    for name in VARIABLES {
        command.env_remove(name);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ended(mut child: Child) -> Output {
    wait("the end", || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

fn wait(what: &str, mut met: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !met() {
        assert!(Instant::now() < end, "waited for {what}");
        std::thread::yield_now();
    }
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// Copies a recorded job to where its NCCL would write.
fn write_logs(case: &str) -> String {
    let from = format!("{}/fixtures/{case}", env!("CARGO_MANIFEST_DIR"));
    format!("for f in {from}/*.log; do cp \"$f\" \"$(dirname \"$NCCL_DEBUG_FILE\")\"; done")
}

#[test]
fn settings_input_output_and_exit_code_are_passed() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cat; echo $NCCL_DEBUG $NCCL_DEBUG_SUBSYS $NCCL_DEBUG_FILE; echo err >&2; exit 7";
    let mut child = run(script, folder.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    let output = ended(child);
    assert_eq!(output.status.code(), Some(7));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let kept = fs::canonicalize(folder.path())
        .unwrap()
        .join("unhang-run-1");
    let wanted = format!(
        "INFO INIT,BOOTSTRAP,ENV,NET,COLL,P2P,SHM,GRAPH,NVLS,DESTROY,RAS {}/nccl.%h.%p.log",
        kept.display()
    );
    assert_eq!(out, format!("typed\n{wanted}\n"));
    assert!(err.lines().any(|line| line == "err"), "{err}");
    assert_eq!(fs::read_to_string(kept.join("stdout.log")).unwrap(), out);

    // What is set stays, and is told.
    let output = run("echo $NCCL_DEBUG", folder.path())
        .env("NCCL_DEBUG", "WARN")
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "WARN\n");
    assert!(text(&output.stderr).contains("NCCL_DEBUG=WARN stays as it is set"));
    assert!(folder.path().join("unhang-run-2").is_dir());
}

#[test]
fn ends_of_all_kinds_have_their_code() {
    let folder = tempfile::tempdir().unwrap();
    let code = |script: &str| run(script, folder.path()).output().unwrap().status.code();
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("kill -9 $$"), Some(137));
    let err = text(&run("exit 3", folder.path()).output().unwrap().stderr);
    assert!(
        err.contains("nothing that it or NCCL wrote says why"),
        "{err}"
    );
    let of = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unhang"));
        let output = command
            .arg("run")
            .args(args)
            .current_dir(folder.path())
            .output()
            .unwrap();
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(of(&["--", "/nonexistent"]).0, Some(127));
    assert_eq!(of(&["--", "/etc/passwd"]).0, Some(126));
    assert_eq!(of(&[]).0, Some(2));
    fs::create_dir(folder.path().join("used")).unwrap();
    fs::write(folder.path().join("used/old.log"), "old").unwrap();
    let (code, err) = of(&["--logs", "used", "--", "true"]);
    assert_eq!(code, Some(3));
    assert!(err.contains("something in it already"), "{err}");
}

#[test]
fn signals_are_passed_on_once() {
    for (signal, name) in [
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGHUP, "HUP"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "trap 'echo got; n=$((n+1))' {name}; touch ready; while [ ! -e done ]; do sleep 0.1; done; exit $((n+40))"
        );
        let child = run(&script, folder.path()).spawn().unwrap();
        wait("the job", || folder.path().join("ready").exists());
        send(&child, signal);
        let kept = folder.path().join("unhang-run-1/stdout.log");
        wait("the signal", || {
            fs::read(&kept).is_ok_and(|out| out.starts_with(b"got"))
        });
        fs::write(folder.path().join("done"), "").unwrap();
        assert_eq!(ended(child).status.code(), Some(41), "{name}");
    }
}

#[test]
fn the_job_outlives_unhang_and_its_readers() {
    let folder = tempfile::tempdir().unwrap();
    let script = "touch ready; while [ ! -e go ]; do sleep 0.1; done; \
                  for i in 1 2 3; do echo line $i; done; echo over > over";
    // Somebody kills unhang.
    let mut child = run(script, folder.path()).spawn().unwrap();
    wait("the job", || folder.path().join("ready").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    wait("the job's end", || folder.path().join("over").exists());
    let kept = fs::read_to_string(folder.path().join("unhang-run-1/stdout.log")).unwrap();
    assert_eq!(kept, "line 1\nline 2\nline 3\n");

    // Somebody reads one line and goes.
    let script = "for i in $(seq 20000); do echo line $i; done; exit 5";
    let mut child = run(script, folder.path()).spawn().unwrap();
    let mut first = [0; 7];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    assert_eq!(&first, b"line 1\n");
    assert_eq!(ended(child).status.code(), Some(5));
}

#[test]
fn what_is_wrong_is_told_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "{}; echo written; sleep 2; exit 1",
        write_logs("cases/rank-killed-16")
    );
    let output = run(&script, folder.path()).output().unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "written\n");
    assert!(err.contains("unhang: [+"), "{err}");
    assert!(err.contains("error DIED001 rank 6 died"), "{err}");
    assert!(err.contains("at fault: rank 6"), "the report: {err}");
    // The files came after the start of the watch, and are still called by their names.
    assert!(err.contains("rank7.log:64  node-3:3350:3449"), "{err}");

    let script = format!("{}; exit 0", write_logs("healthy/ddp-healthy"));
    let output = run(&script, folder.path()).output().unwrap();
    let err = text(&output.stderr);
    assert!(err.contains("nothing wrong was seen"), "{err}");
    assert!(!err.contains("error"), "{err}");
}

#[test]
fn logs_that_the_user_sends_elsewhere_are_read_and_old_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).unwrap();
    // The end of another job.
    let old = logs.join("nccl.node-9.1.log");
    let case = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/cases/rank-killed-16/rank6.log"
    );
    fs::copy(case, &old).unwrap();
    let yesterday = std::time::SystemTime::now() - Duration::from_secs(86_400);
    fs::File::options()
        .append(true)
        .open(&old)
        .unwrap()
        .set_modified(yesterday)
        .unwrap();
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/healthy/ddp-healthy");
    let script = format!(
        "for f in {from}/*.log; do cp $f logs/nccl.node.$(basename $f).log; done; sleep 1; exit 1"
    );
    let mut command = run(&script, folder.path());
    command.env("NCCL_DEBUG_FILE", logs.join("nccl.%h.%p.log"));
    let output = command.output().unwrap();
    let err = text(&output.stderr);
    assert!(err.contains("is watched too"), "{err}");
    let files = fs::read_dir(from).unwrap().flatten();
    let files = files
        .filter(|f| f.path().extension().is_some_and(|e| e == "log"))
        .count();
    // Beside them the job's own output.
    assert!(
        err.contains(&format!("read {} sources", files + 2)),
        "{err}"
    );
}

/// `unhang run` in a terminal.
fn in_terminal(script: &str, folder: &Path) -> Terminal {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_unhang"));
    command.args(["run", "--no-gpu", "--", "sh", "-c", script, "job"]);
    command.cwd(folder);
    for name in VARIABLES {
        command.env_remove(name);
    }
    Terminal::start(command, 24, 90)
}

#[test]
fn the_dashboard_opens_at_the_first_cause_and_leaving_it_leaves_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "echo begun; {}; while [ ! -e go ]; do sleep 0.1; done; echo went on; exit 9",
        write_logs("cases/rank-killed-16")
    );
    let mut terminal = in_terminal(&script, folder.path());
    terminal.wait_for("begun");
    terminal.wait_for("H U N G");
    terminal.press("q");
    terminal.wait_for("the job goes on");
    fs::write(folder.path().join("go"), "").unwrap();
    terminal.wait_for("went on");
    assert_eq!(terminal.end().exit_code(), 9);
}

#[test]
fn the_end_of_the_job_is_told_in_the_dashboard() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "{}; while [ ! -e go ]; do sleep 0.1; done; exit 4",
        write_logs("cases/rank-killed-16")
    );
    let mut terminal = in_terminal(&script, folder.path());
    terminal.wait_for("H U N G");
    fs::write(folder.path().join("go"), "").unwrap();
    terminal.wait_for("the job has ended with status 4");
    terminal.press("q");
    assert_eq!(terminal.end().exit_code(), 4);
}

#[test]
fn keys_reach_a_job_in_the_foreground_once() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'n=$((n+1)); echo got $n' INT; echo ready; read line; echo read $line; \
                  while [ ! -e done ]; do sleep 0.1; done; exit $((n+40))";
    let mut terminal = in_terminal(script, folder.path());
    terminal.wait_for("ready");
    terminal.press("typed\r");
    // Ctrl-C takes back what was typed and not yet read.
    terminal.wait_for("read typed");
    terminal.press("\x03");
    terminal.wait_for("got 1");
    fs::write(folder.path().join("done"), "").unwrap();
    assert_eq!(terminal.end().exit_code(), 41);
}
