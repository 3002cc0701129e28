//! The real binary: what it prints, where, and how it ends.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The binary, with nothing of this terminal's settings.
fn unhang() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhang"));
    command
        .env_remove("NO_COLOR")
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null());
    command
}

fn run(args: &[&str], folder: &Path) -> Output {
    unhang().args(args).current_dir(folder).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("not ended by a signal")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const LINE: &str = "node-1:41:41 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n";

/// Codes of a diagnosis without trouble on the way.
const DIAGNOSED: [i32; 4] = [0, 10, 11, 12];

fn folder(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in files {
        fs::write(dir.path().join(name), LINE).unwrap();
    }
    dir
}

#[test]
fn alone_it_says_what_it_can_do() {
    let dir = folder(&[]);
    let output = run(&[], dir.path());
    assert_eq!(code(&output), 0);
    for word in ["watch", "report", "replay", "demo", "rules"] {
        assert!(out(&output).contains(word), "{word}");
    }
    assert_eq!(err(&output), "");
}

#[test]
fn a_wrong_command_line_is_2_and_on_stderr() {
    let dir = folder(&["a.log"]);
    for args in [
        &["frobnicate"][..],
        &["report", "--format", "yaml"],
        &["report", "--stuck=soon"],
        &["report", "--ranks", "7-0", "a.log"],
        &["demo", "no-such-case"],
        &["demo", "--speed", "0"],
        &["demo", "--speed", "nan"],
        &["demo", "--speed", "inf"],
        &["demo", "--speed", "1001"],
        &["demo", "--at", "-5s"],
        &["report", "--ranks", "-1", "a.log"],
    ] {
        let output = run(args, dir.path());
        assert_eq!(code(&output), 2, "{args:?}");
        assert_eq!(out(&output), "", "{args:?}");
        assert!(
            err(&output).starts_with("error: "),
            "{args:?}: {}",
            err(&output)
        );
    }
}

#[test]
fn help_names_the_exit_codes() {
    let dir = folder(&[]);
    let output = run(&["--help"], dir.path());
    assert_eq!(code(&output), 0);
    assert!(out(&output).contains("12  waiting, or nothing can be said"));
}

#[test]
fn a_missing_path_is_3() {
    let dir = folder(&[]);
    for command in ["report", "watch", "replay"] {
        let output = run(&[command, "none.log"], dir.path());
        assert_eq!(code(&output), 3, "{command}");
        assert_eq!(out(&output), "", "{command}");
        let text = "error: failed to open none.log: no such file or directory\nhint: ";
        assert!(
            err(&output).starts_with(text),
            "{command}: {}",
            err(&output)
        );
    }
}

#[test]
fn a_folder_without_logs_is_3_and_v_says_why() {
    let dir = folder(&[]);
    fs::write(dir.path().join("train.py"), "print(1)\n").unwrap();
    let output = run(&["report", "-v", "."], dir.path());
    assert_eq!(code(&output), 3);
    assert_eq!(out(&output), "");
    assert!(
        err(&output).contains("passed over ./train.py: not a log by its name"),
        "{}",
        err(&output)
    );
    assert!(
        err(&output).contains("error: failed to find logs below .: there is none"),
        "{}",
        err(&output)
    );
    assert!(!err(&output).contains("hint"), "{}", err(&output));
    assert!(err(&run(&["report", "."], dir.path())).contains("hint: `-v` lists"));
}

#[test]
fn what_is_wrong_with_a_number_is_said() {
    let dir = folder(&[]);
    for (args, text) in [
        (["demo", "--at", "-5s"], "`-5s` is no duration"),
        (["report", "--ranks", "-1"], "`-1` is no list of ranks"),
        (
            ["replay", "--speed", "-2"],
            "`-2` is no number from 0.1 to 1000",
        ),
    ] {
        let output = run(&args, dir.path());
        assert!(err(&output).contains(text), "{}", err(&output));
    }
}

#[test]
fn help_can_be_asked_for_as_a_command() {
    let dir = folder(&[]);
    for (args, same) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "report"], &["report", "--help"]),
    ] {
        let output = run(args, dir.path());
        assert_eq!(code(&output), 0, "{}", err(&output));
        assert_eq!(out(&output), out(&run(same, dir.path())));
    }
    let demo = out(&run(&["demo", "--help"], dir.path()));
    assert!(
        demo.contains("Exit code: 0 if the demonstration worked"),
        "{demo}"
    );
}

#[test]
fn json_of_nothing_names_what_could_not_be_read() {
    let dir = folder(&[]);
    let output = run(&["report", "--format", "json", "nope"], dir.path());
    assert_eq!(code(&output), 3);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"]["state"], "inconclusive");
    let source = &json["inputs"]["sources"][0];
    assert_eq!(source["name"], "nope", "{json}");
    assert!(source.to_string().contains("no such file"), "{source}");
}

#[test]
fn the_kernels_own_folders_are_not_searched() {
    let dir = folder(&["rank0.log"]);
    let output = run(&["report", "/proc"], dir.path());
    assert_eq!(code(&output), 3);
    assert!(
        err(&output).contains("it shows the kernel"),
        "{}",
        err(&output)
    );
    symlink("/proc/kmsg", dir.path().join("rank1.log")).unwrap();
    symlink("/proc", dir.path().join("proc")).unwrap();
    let output = run(&["report", "-v", "."], dir.path());
    assert!(DIAGNOSED.contains(&code(&output)), "{}", err(&output));
    assert!(err(&output).contains("passed over ./rank1.log: it shows the kernel"));
    assert!(err(&output).contains("passed over ./proc: a link to a folder"));
}

#[test]
fn a_replay_tells_of_a_damaged_journal_what_a_report_tells() {
    let dir = folder(&["rank0.log", "rank1.log"]);
    let mut child = unhang()
        .args(["watch", "-", "--record", "w.journal"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = LINE.repeat(3);
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    ended(child);
    let whole = fs::read(dir.path().join("w.journal")).unwrap();
    for (cut, text) in [
        (whole.len() - 20, "unfinished"),
        (20, "cut off before its first record"),
        (16, "cut off before its first record"),
    ] {
        fs::write(dir.path().join("cut.journal"), &whole[..cut]).unwrap();
        let report = run(&["report", "cut.journal"], dir.path());
        let replay = run(&["replay", "cut.journal"], dir.path());
        assert!(err(&report).contains(text), "{cut}: {}", err(&report));
        assert_eq!((code(&report), code(&replay)), (3, 3), "{cut}");
        assert_eq!(err(&report), err(&replay), "{cut}");
    }
}

#[test]
fn rules_that_cannot_be_used_are_told_and_make_3() {
    let dir = folder(&["rank0.log"]);
    let rules = dir.path().join("rules");
    fs::create_dir(&rules).unwrap();
    symlink("/dev/zero", rules.join("a.toml")).unwrap();
    for folder in ["rules", "no-such-folder"] {
        for args in [
            &["report", "rank0.log"][..],
            &["replay", "rank0.log"],
            &["demo"],
            &["rules", "list"],
            &["rules", "explain", "RANK002"],
        ] {
            let output = run(&[args, &["--rules", folder]].concat(), dir.path());
            assert_eq!(code(&output), 3, "{args:?} {folder}");
            assert!(!out(&output).is_empty(), "{args:?}: the rest works");
            assert!(
                err(&output).starts_with("error: failed to "),
                "{}",
                err(&output)
            );
        }
    }
}

#[test]
fn a_check_finds_ids_that_are_taken() {
    let dir = folder(&[]);
    let builtin = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules/rank");
    let mut files = fs::read_dir(builtin)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let rule = files
        .find(|path| path.to_string_lossy().contains("RANK002-"))
        .unwrap();
    let check = |name: &str| {
        fs::copy(&rule, dir.path().join(name)).unwrap();
        let output = run(&["rules", "check", "."], dir.path());
        (code(&output), err(&output))
    };
    let same = rule.file_name().unwrap().to_str().unwrap();
    assert_eq!(check(same), (0, String::new()), "a copy that is worked on");
    let (code, text) = check("Z-other.toml");
    assert_eq!(code, 1);
    assert!(text.contains("the id RANK002 is taken"), "{text}");
    fs::remove_file(dir.path().join(same)).unwrap();
    let (code, text) = check("Z-other.toml");
    assert_eq!(code, 1);
    assert!(text.contains("is taken by the built-in"), "{text}");
}

#[test]
fn a_binary_file_is_3() {
    let dir = folder(&[]);
    fs::write(dir.path().join("core"), [0_u8; 4096]).unwrap();
    let output = run(&["report", "core"], dir.path());
    assert_eq!(code(&output), 3);
    assert_eq!(
        err(&output),
        "error: failed to read core: it is binary, not a log\n"
    );
}

#[test]
fn an_unreadable_file_among_good_ones_is_told_and_the_others_are_diagnosed() {
    let dir = folder(&["rank0.log", "rank1.log"]);
    symlink("nowhere", dir.path().join("rank2.log")).unwrap();
    let output = run(&["report", "--format", "json", "."], dir.path());
    assert_eq!(code(&output), 3);
    assert_eq!(
        err(&output),
        "error: failed to open ./rank2.log: the link points to nothing\n"
    );
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    assert!(json["verdict"]["state"].is_string());
}

#[test]
fn a_cut_gz_gives_what_it_holds_and_3() {
    let dir = folder(&[]);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(LINE.repeat(50).as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    fs::write(dir.path().join("rank0.log.gz"), &packed[..packed.len() - 6]).unwrap();
    let output = run(&["report", "--format", "json", "rank0.log.gz"], dir.path());
    assert_eq!(code(&output), 3);
    assert!(
        err(&output).ends_with("rank0.log.gz: the compressed file is cut off\n"),
        "{}",
        err(&output)
    );
    assert!(out(&output).contains("\"schema\""));
}

#[test]
fn names_of_files_do_not_reach_the_terminal_raw() {
    let dir = folder(&[]);
    let output = run(&["report", "a\x1b]0;title\x07.log"], dir.path());
    assert_eq!(code(&output), 3);
    assert!(
        !err(&output).contains(['\x1b', '\x07']),
        "{:?}",
        err(&output)
    );
}

#[test]
fn standard_input_is_read() {
    let dir = folder(&[]);
    let mut child = unhang()
        .args(["report", "--format", "json", "-"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(LINE.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(DIAGNOSED.contains(&code(&output)));
    assert!(out(&output).contains("stdin"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = folder(&["rank0.log"]);
    let mut child = unhang()
        .args(["report", "rank0.log"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(DIAGNOSED.contains(&code(&output)), "{output:?}");
    assert_eq!(err(&output), "");
}

#[test]
fn colours_only_where_they_are_wanted() {
    let dir = folder(&["rank0.log"]);
    let colored = |command: &mut Command| {
        out(&command.current_dir(dir.path()).output().unwrap()).contains("\x1b[")
    };
    assert!(!colored(unhang().args(["report", "."])), "not into a pipe");
    assert!(colored(unhang().args(["report", ".", "--color", "always"])));
    assert!(
        colored(
            unhang()
                .args(["report", ".", "--color", "always"])
                .env("NO_COLOR", "1")
        ),
        "asked for"
    );
    assert!(!colored(unhang().args(["report", ".", "--color", "never"])));
}

#[test]
fn the_demo_is_a_report_without_a_terminal() {
    let dir = folder(&[]);
    let output = run(&["demo"], dir.path());
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(!out(&output).trim().is_empty());
    assert_eq!(err(&output), "");
    let list = out(&run(&["demo", "--list"], dir.path()));
    assert!(list.lines().count() >= 3);
    for line in list.lines() {
        let case = line.split_whitespace().next().unwrap();
        assert_eq!(code(&run(&["demo", case], dir.path())), 0, "{case}");
    }
}

/// Waits for the end of a process that was told to end.
fn ended(mut child: Child) -> Output {
    let end = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::yield_now();
    }
    child.wait_with_output().unwrap()
}

#[test]
fn watch_ends_with_its_standard_input_and_records_it() {
    let dir = folder(&[]);
    let mut child = unhang()
        .args(["watch", "-", "--record", "w.journal", "--format", "json"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(LINE.repeat(3).as_bytes())
        .unwrap();
    let live = ended(child);
    assert!(DIAGNOSED.contains(&code(&live)), "{live:?}");
    let again = run(&["report", "--format", "json", "w.journal"], dir.path());
    assert_eq!(err(&again), "");
    assert_eq!(out(&again), out(&live), "the journal gives the same answer");
}

#[test]
fn watch_ends_in_good_order_when_it_is_told_to() {
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let dir = folder(&["rank0.log"]);
        let mut child = unhang()
            .args(["watch", ".", "--record", "w.journal"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Once the journal has its first block, everything runs.
        let end = Instant::now() + Duration::from_secs(20);
        while fs::metadata(dir.path().join("w.journal")).map_or(0, |meta| meta.len()) < 60 {
            assert!(
                Instant::now() < end && child.try_wait().unwrap().is_none(),
                "it does not run"
            );
            std::thread::yield_now();
        }
        let sent = Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        let output = ended(child);
        assert!(DIAGNOSED.contains(&code(&output)), "{signal}: {output:?}");
        assert!(!out(&output).is_empty(), "{signal}: the last report");
        let mut file = Vec::new();
        fs::File::open(dir.path().join("w.journal"))
            .unwrap()
            .read_to_end(&mut file)
            .unwrap();
        assert!(
            file.ends_with(b"unhangix"),
            "{signal}: the journal is closed"
        );
    }
}

/// Starts a watch that ends at the first finding, over logs that are copied there piece by piece, each
/// up to a word if there is one.
fn until_finding(case: &str, up_to: &str, args: &[&str]) -> Output {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(case);
    let logs = fs::read_dir(from).unwrap().flatten();
    let logs: Vec<_> = logs
        .filter(|log| log.path().extension().is_some_and(|e| e == "log"))
        .collect();
    let dir = folder(&[]);
    for log in &logs {
        fs::write(dir.path().join(log.file_name()), "").unwrap();
    }
    let mut child = unhang()
        .args(["watch", ".", "--until-finding"])
        .args(args)
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = |log: &fs::DirEntry| {
        let text = fs::read_to_string(log.path()).unwrap();
        let end = text.find(up_to).filter(|_| !up_to.is_empty());
        text.as_bytes()[..end.unwrap_or(text.len())].to_vec()
    };
    let texts: Vec<Vec<u8>> = logs.iter().map(text).collect();
    let longest = texts.iter().map(Vec::len).max().unwrap();
    for start in (0..longest).step_by(16 << 10) {
        for (log, text) in logs.iter().zip(&texts) {
            let piece = &text[start.min(text.len())..text.len().min(start + (16 << 10))];
            let path = dir.path().join(log.file_name());
            let mut file = fs::File::options().append(true).open(path).unwrap();
            file.write_all(piece).unwrap();
        }
    }
    let end = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::yield_now();
    }
    child.wait_with_output().unwrap()
}

#[test]
fn watch_ends_at_the_first_proven_cause_if_asked_to() {
    // The guilty rank is named, not the fifteen that report its end.
    let output = until_finding("cases/rank-killed-16", "", &[]);
    assert_eq!(code(&output), 10, "{}{}", out(&output), err(&output));
    assert!(out(&output).contains("rank 6"), "{}", out(&output));
    let output = until_finding(
        "cases/rank-killed-16",
        "",
        &["--format", "json", "--timeout", "1h"],
    );
    let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(json["verdict"]["class"], "rank-died", "{json:#}");
}

#[test]
fn watch_until_a_finding_ends_in_time_without_one() {
    // It waits: late or stuck cannot be told from these logs, so nothing is proven.
    let output = until_finding("cases/skipped-collective", "Watchdog", &["--timeout", "3s"]);
    assert_eq!(code(&output), 12, "{}{}", out(&output), err(&output));
    assert!(
        err(&output).contains("no cause is proven"),
        "{}",
        err(&output)
    );
    let dir = folder(&[]);
    let output = run(
        &["watch", ".", "--until-finding", "--timeout", "100ms"],
        dir.path(),
    );
    assert_eq!(code(&output), 12);
    // What has ended well need not be waited for.
    let healthy =
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/healthy")).unwrap();
    let name = healthy.flatten().map(|e| e.file_name()).min().unwrap();
    let name = format!("healthy/{}", name.to_str().unwrap());
    let output = until_finding(&name, "", &["--timeout", "30s"]);
    assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
    let output = run(&["watch", ".", "--timeout", "3s"], dir.path());
    assert_eq!(code(&output), 2, "it needs --until-finding");
}

#[test]
fn a_replay_without_a_terminal_is_a_report() {
    let dir = folder(&["rank0.log", "rank1.log"]);
    let replay = run(&["replay", "."], dir.path());
    let report = run(&["report", "."], dir.path());
    assert_eq!((code(&replay), out(&replay)), (code(&report), out(&report)));
}

#[test]
fn a_named_pipe_is_read_as_a_stream() {
    let dir = folder(&[]);
    let fifo = dir.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let child = unhang()
        .args(["report", "--format", "json", "fifo"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    fs::write(&fifo, LINE).unwrap();
    let output = ended(child);
    assert!(DIAGNOSED.contains(&code(&output)));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
}
