//! What runs beside the dashboard on request: the proof of a fix, and the Python stack of a rank.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unhang::app::handle::{Mode, Status};
use unhang::app::pystack::{self, Here};
use unhang::app::task::{End, Seen, Task};
use unhang::engine::input::{ProcessLoad, ProcessState};
use unhang::engine::job::ProcessSeen;
use unhang::engine::snapshot::Snapshot;
use unhang::views::escape::Glyphs;
use unhang::views::tui::keymap::Action;
use unhang::views::tui::theme::{Colors, Theme};
use unhang::views::tui::ui::Ui;
use unhang::views::tui::update::{Effect, update};
use unhang::views::tui::{task, view};

#[path = "support/samples.rs"]
mod samples;
#[path = "support/screens.rs"]
#[expect(dead_code, reason = "this test needs a part of it")]
mod screens;
#[path = "support/standins.rs"]
mod standins;
#[expect(dead_code, reason = "this test needs a part of it")]
#[path = "support/terminal.rs"]
mod terminal;

use standins::STANDINS;
use terminal::Terminal;

/// A dashboard over a job whose fix is unsetting NCCL_P2P_DISABLE, on a host with two stand-ins for
/// GPUs; `fault` is what the stand-in for NCCL does.
fn dashboard(folder: &Path, fault: &str) -> Terminal {
    let library = folder.join("venv/lib/python3/site-packages/nvidia/nccl/lib");
    fs::create_dir_all(&library).unwrap();
    symlink(
        STANDINS.path().join("libnccl.so.2"),
        library.join("libnccl.so.2"),
    )
    .unwrap();
    let case = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/cases/p2p-off");
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_unhang"));
    command.args(["replay", case, "--speed", "1000"]);
    command.env("VIRTUAL_ENV", folder.join("venv"));
    command.env("LD_LIBRARY_PATH", STANDINS.path());
    command.env("CUDA_VISIBLE_DEVICES", "0,1");
    command.env("TMPDIR", folder);
    command.env("UNHANG_STANDIN_DIR", folder);
    command.env("UNHANG_STANDIN", fault);
    for name in ["RANK", "WORLD_SIZE", "NCCL_P2P_DISABLE"] {
        command.env_remove(name);
    }
    Terminal::start(command, 40, 120)
}

#[test]
fn a_fix_is_proven_from_the_dashboard() {
    for (fault, answer) in [
        (
            "fail-init@NCCL_P2P_DISABLE",
            "proof: the fix on this host: cures",
        ),
        ("none", "proof: the fix on this host: not reproduced"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut terminal = dashboard(folder.path(), fault);
        terminal.wait_for("P2P001");
        terminal.press("3p");
        terminal.wait_for("unhang selftest --env NCCL_P2P_DISABLE=1 --ab NCCL_P2P_DISABLE=");
        terminal.wait_for("This uses all 2 GPUs");
        terminal.press("\r");
        terminal.wait_for("THE CHANGE: ");
        terminal.wait_for("prove it again");
        terminal.press("\x1b");
        terminal.wait_for(answer);
        terminal.press("q");
        // Its status is the job's: it works on a worse path.
        assert_eq!(terminal.end().exit_code(), 11);
    }
}

/// Processes of the self-test that were started with this folder.
fn left(folder: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let wanted = format!("UNHANG_STANDIN_DIR={}", folder.display());
    let is_one = |process: &fs::DirEntry| {
        let read = |name| fs::read(process.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&read("environ")).contains(&wanted)
            && String::from_utf8_lossy(&read("cmdline")).contains("selftest")
    };
    processes.filter(is_one).count()
}

#[test]
fn a_proof_is_stopped_by_escape_and_by_leaving() {
    for leaving in ["\x1b", "\x03"] {
        let folder = tempfile::tempdir().unwrap();
        let mut terminal = dashboard(folder.path(), "hang-init");
        terminal.wait_for("P2P001");
        terminal.press("p");
        terminal.wait_for("run it");
        terminal.press("\r");
        terminal.wait_for("running for");
        // Enter hides it, and it goes on.
        terminal.press("\r");
        terminal.wait_without("running for");
        terminal.press("3");
        terminal.wait_for("is being proven on this host");
        let until = Instant::now() + Duration::from_secs(60);
        while left(folder.path()) < 3 {
            assert!(Instant::now() < until, "two ranks start");
            std::thread::yield_now();
        }
        terminal.press("p");
        terminal.wait_for("running for");
        terminal.press(leaving);
        if leaving == "\x1b" {
            terminal.wait_for("stopped after");
            terminal.press("\x1b");
            terminal.wait_for("unproven, the test was stopped");
            terminal.press("q");
        }
        terminal.wait("the end", |seen| seen.closed);
        while left(folder.path()) > 0 {
            assert!(Instant::now() < until, "a process is left");
            std::thread::yield_now();
        }
    }
}

#[test]
fn without_a_gpu_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let case = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/cases/p2p-off");
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_unhang"));
    command.args(["replay", case, "--speed", "1000"]);
    command.env("CUDA_VISIBLE_DEVICES", "");
    command.env("TMPDIR", folder.path());
    let mut terminal = Terminal::start(command, 30, 100);
    terminal.wait_for("P2P001");
    terminal.press("p");
    terminal.wait_for("CUDA_VISIBLE_DEVICES hides every GPU");
    terminal.press("\x1b");
    terminal.wait_without("hides every GPU");
    terminal.press("q");
    terminal.wait("the end", |seen| seen.closed);
}

#[test]
fn the_screen_of_gpus_says_that_there_is_no_driver() {
    if Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let host = unhang::app::host::here();
    let line = format!(
        "{host}:7:7 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId \
         18000 commId 0x2 - Init START\n"
    );
    fs::write(folder.path().join("rank0.log"), line).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_unhang"));
    command.arg("watch");
    command.arg(folder.path());
    let mut terminal = Terminal::start(command, 30, 100);
    terminal.wait_for("1 of 2 ranks");
    terminal.press("8");
    terminal.wait_for("no NVIDIA driver here");
    terminal.press("q");
    terminal.wait("the end", |seen| seen.closed);
}

/// A job of which rank 0 is this very process, on this host.
fn job() -> Snapshot {
    let mut snapshot = samples::all().remove(0).1;
    let rank = &mut snapshot.job.ranks[0];
    rank.host = Some(unhang::app::host::here());
    rank.pid = Some(std::process::id());
    rank.process = Some(ProcessSeen {
        state: ProcessState::Running,
        since: None,
        load: ProcessLoad::default(),
    });
    snapshot
}

/// A folder with a `py-spy` that does this.
fn py_spy(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("py-spy");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn here(folder: &Path) -> Here {
    let mut here = Here::this(true);
    here.path = vec![PathBuf::from("/nonexistent"), folder.to_owned()];
    here
}

/// Presses `P` on rank 0 and waits for what the program says; what is shown then.
fn stack(script: &str, patience: Duration) -> (Seen, String) {
    let (snapshot, status, folder) = (job(), Status::new(Mode::Live), py_spy(script));
    let mut ui = Ui::new(Theme {
        colors: Colors::Mono,
        glyphs: Glyphs::Unicode,
    });
    ui.size = (100, 40);
    ui.screen = unhang::views::tui::screen::Screen::Ranks;
    ui.ranks.selected = Some(unhang::views::tui::ui::RankKey::of(&snapshot.job.ranks[0]));
    let effects = update(&mut ui, &snapshot, &status, Action::Stack);
    assert_eq!(effects, [Effect::Stack(0)]);
    let mut order = pystack::order(&snapshot, 0, &here(folder.path())).unwrap();
    order.patience = patience;
    task::stack_asked(&mut ui, 0, snapshot.job.ranks[0].pid, &Ok(order.clone()));
    let running = Task::start(&order);
    let until = Instant::now() + Duration::from_secs(60);
    while running.seen().end.is_none() {
        assert!(Instant::now() < until, "it does not end");
        std::thread::yield_now();
    }
    task::progressed(&mut ui, running.seen());
    let area = Rect::new(0, 0, ui.size.0, ui.size.1);
    let mut buf = Buffer::empty(area);
    view::render(&ui, &snapshot, &status, area, &mut buf);
    (running.seen(), screens::plain(&buf))
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_stack_is_shown() {
    let (seen, shown) = stack(
        "echo \"$@\"; echo 'Thread 1 (idle): \"MainThread\"'; echo '    all_reduce (train.py:12)'",
        LONG,
    );
    assert_eq!(seen.end, Some(End::Status(0)));
    let pid = std::process::id();
    for words in [
        "Python stack of rank 0",
        &format!("py-spy dump --nonblocking --pid {pid}"),
        &format!("dump --nonblocking --pid {pid}"),
        "Thread 1 (idle)",
        "all_reduce (train.py:12)",
    ] {
        assert!(shown.contains(words), "{words}:\n{shown}");
    }
}

/// A process that looks like a rank, and ends with the test.
struct Rank(std::process::Child);

impl Drop for Rank {
    fn drop(&mut self) {
        let _ended_before = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn the_stack_of_a_process_of_this_host_is_shown_in_the_dashboard() {
    let folder = py_spy("echo \"Process $4\"; echo '    all_reduce (train.py:12)'");
    // A script is called by its name, and NCCL's threads by this one.
    let program = folder.path().join("NCCL Service 0");
    fs::write(&program, "#!/bin/sh\nwhile :; do sleep 1; done\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let rank = Rank(std::process::Command::new(&program).spawn().unwrap());
    let (host, pid) = (unhang::app::host::here(), rank.0.id());
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let line = format!(
        "{host}:{pid}:{pid} [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 cudaDev 0 \
         nvmlDev 0 busId 18000 commId 0x2 - Init START\n"
    );
    fs::write(logs.join("rank0.log"), line).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_unhang"));
    command.args(["watch", "--no-gpu"]);
    command.arg(&logs);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    let mut terminal = Terminal::start(command, 30, 100);
    terminal.wait_for("1 of 2 ranks");
    terminal.press("2");
    terminal.wait_for(&pid.to_string());
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        terminal.press("P");
        let known = std::cell::Cell::new(false);
        terminal.wait("an answer", |seen| {
            let shown = seen.parser.screen().contents();
            known.set(shown.contains("all_reduce (train.py:12)"));
            known.get() || shown.contains("is not known to be rank 0")
        });
        if known.get() {
            break;
        }
        // Processes are looked at once a second.
        assert!(Instant::now() < until, "the process is not found");
        terminal.press("\x1b");
        terminal.wait_without("is not known to be rank 0");
    }
    terminal.wait_for(&format!("Process {pid}"));
    terminal.press("\x1b");
    terminal.wait_without("all_reduce (train.py:12)");
    terminal.press("q");
    terminal.wait("the end", |seen| seen.closed);
}

#[test]
fn a_stack_that_is_hostile_or_endless_harms_nothing() {
    let (seen, shown) = stack(
        "printf '\\033]0;gone\\007\\033[2Jcleared\\n'; head -c 5000000 /dev/zero | tr '\\0' 'x'",
        LONG,
    );
    assert!(seen.dropped > 4_000_000, "{}", seen.dropped);
    assert!(
        shown.contains("cleared") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    assert!(shown.contains("rows"), "the frame scrolls:\n{shown}");

    let (seen, shown) = stack("echo begun; sleep 600", Duration::from_secs(1));
    assert_eq!(seen.end, Some(End::TimedOut));
    assert!(
        shown.contains("begun") && shown.contains("no answer for"),
        "{shown}"
    );
}

#[test]
fn a_refusal_of_the_system_is_explained() {
    let (_, shown) = stack(
        "echo 'Error: Permission Denied: Try running again with elevated permissions' >&2; exit 1",
        LONG,
    );
    let pid = std::process::id();
    assert!(shown.contains("it ended with status 1"), "{shown}");
    assert!(
        shown.contains(&format!("sudo py-spy dump --pid {pid}")),
        "{shown}"
    );
}

#[test]
fn a_process_that_is_not_the_users_to_look_into_is_left_alone() {
    let folder = py_spy("echo never");
    let refused = |edit: &dyn Fn(&mut Snapshot, &mut Here)| {
        let (mut snapshot, mut here) = (job(), here(folder.path()));
        edit(&mut snapshot, &mut here);
        pystack::order(&snapshot, 0, &here).unwrap_err().join("\n")
    };
    for (edit, words) in [
        (
            &(|s: &mut Snapshot, _: &mut Here| s.job.ranks[0].pid = None)
                as &dyn Fn(&mut Snapshot, &mut Here),
            "do not tell the process",
        ),
        (
            &|s, _| s.job.ranks[0].host = Some("node-9".to_owned()),
            "rank 0 runs on node-9",
        ),
        (
            &|s, _| s.job.ranks[0].process = None,
            "is not known to be rank 0",
        ),
        (
            &|s, _| s.job.ranks[0].process.as_mut().unwrap().state = ProcessState::Gone,
            "has ended",
        ),
        (&|_, h| h.live = false, "this is a replay"),
        (&|_, h| h.user = 4_294_000_000, "belongs to another user"),
        (&|_, h| h.path.clear(), "py-spy is not on PATH"),
        (
            &|_, h| h.proc = PathBuf::from("/nonexistent"),
            "has ended just now",
        ),
    ] {
        let why = refused(edit);
        assert!(why.contains(words), "{words}: {why}");
    }
}
