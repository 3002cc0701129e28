//! The dashboard in a real terminal: what it draws, and that it gives the terminal back.
//!
//! The tests start this very binary again with `UNHANG_TEST_CHILD` set: the child then is a dashboard
//! over a sample. Nothing sleeps: the tests wait until the screen says something.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use nix::sys::signal::{Signal, killpg, raise};
use nix::unistd::Pid;
use portable_pty::CommandBuilder;
use unhang::app::handle::{Handle, Mode, Status};
use unhang::engine::snapshot::Snapshot;
use unhang::views::escape::Glyphs;
use unhang::views::tui::{
    self,
    theme::{Colors, Theme},
};

#[path = "support/samples.rs"]
mod samples;
#[expect(dead_code, reason = "this test needs a part of it")]
#[path = "support/terminal.rs"]
mod terminal;

use terminal::Terminal;

const CHILD: &str = "UNHANG_TEST_CHILD";

/// The child: a dashboard whose `s` does what the variable says. Without the variable: nothing.
#[test]
fn child() {
    let Ok(on_save) = std::env::var(CHILD) else {
        return;
    };
    let snapshot = samples::all()
        .into_iter()
        .find(|(n, _)| *n == "wrong_interface")
        .unwrap()
        .1;
    let mut status = Status::new(Mode::Live);
    status.failure = (on_save == "failure").then(|| "index out of bounds".to_owned());
    let handle = Handle::still(snapshot, status);
    let save = |_: &Snapshot| {
        match on_save.as_str() {
            "panic" => panic!("a bug of the save"),
            "thread" => {
                let thread = std::thread::spawn(|| panic!("a bug of another thread"));
                let _ = thread.join();
                return Ok("after the panic".to_owned());
            }
            "shutdown" => handle.shutdown(),
            "stop" => raise(Signal::SIGTSTP).unwrap(),
            _ => return Ok("report.txt".to_owned()),
        }
        Err("no".to_owned())
    };
    let theme = Theme {
        colors: Colors::Dark,
        glyphs: Glyphs::Unicode,
    };
    let options = tui::Options {
        theme,
        keys: tui::keymap::Keys::default(),
        save: &save,
        narrow: &|snapshot| snapshot,
    };
    tui::run(&handle, &options).unwrap();
}

fn start(on_save: &str) -> Terminal {
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, on_save);
    // A backtrace would push the message off the screen.
    command.env("RUST_BACKTRACE", "0");
    Terminal::start(command, 24, 80)
}

#[test]
fn keys_move_about_and_quit_restores_the_terminal() {
    let mut terminal = start("save");
    terminal.wait_for("H U N G");
    terminal.wait("the alternate screen", |seen| {
        seen.parser.screen().alternate_screen()
    });
    terminal.press("3");
    terminal.wait_for("fix (env, cures it)");
    terminal.press("?");
    terminal.wait_for("Everywhere");
    terminal.press("?4");
    terminal.wait_for("1 unlike the others");
    terminal.press("\x1b[C");
    terminal.wait_for("0x3cd91741efa7caee");
    terminal.press("s");
    terminal.wait_for("saved report.txt");
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn a_new_size_is_drawn() {
    let mut terminal = start("save");
    terminal.wait_for("H U N G");
    terminal.resize(40, 120);
    // Only the larger screen has room for evidence on its first page.
    terminal.wait_for("evidence");
    terminal.press("\x03");
    assert!(terminal.end().success(), "Ctrl-C quits too");
}

#[test]
fn the_fix_goes_to_the_clipboard() {
    let mut terminal = start("save");
    terminal.wait_for("H U N G");
    terminal.press("y");
    terminal.wait_for("copied, if the terminal takes OSC 52: export NCCL_SOCKET_IFNAME=data0");
    terminal.wait("OSC 52", |seen| {
        // base64 of "export NCCL_SOCKET_IFNAME=data0\n"
        let sequence = b"\x1b]52;c;ZXhwb3J0IE5DQ0xfU09DS0VUX0lGTkFNRT1kYXRhMAo=";
        seen.raw.windows(sequence.len()).any(|w| w == sequence)
    });
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn pause_is_said() {
    let mut terminal = start("save");
    terminal.wait_for("H U N G");
    terminal.press(" ");
    terminal.wait_for("PAUSED");
    terminal.press(" ");
    terminal.wait("the present", |seen| {
        !seen.parser.screen().contents().contains("PAUSED")
    });
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_readable() {
    let mut terminal = start("panic");
    terminal.wait_for("H U N G");
    terminal.press("s");
    assert!(!terminal.end().success());
    terminal.wait_for("a bug of the save");
}

#[test]
fn a_panic_of_another_thread_leaves_the_screen_alone_and_is_told_at_the_end() {
    let mut terminal = start("thread");
    terminal.wait_for("H U N G");
    terminal.press("s");
    terminal.wait_for("after the panic");
    terminal.wait("the screen", |seen| {
        let screen = seen.parser.screen();
        screen.alternate_screen() && !screen.contents().contains("bug")
    });
    terminal.press("q");
    assert!(terminal.end().success());
    terminal.wait_for("a bug of another thread");
}

#[test]
fn the_end_asked_for_from_outside_restores_the_terminal() {
    let mut terminal = start("shutdown");
    terminal.wait_for("H U N G");
    terminal.press("s");
    assert!(terminal.end().success());
}

#[test]
fn a_stop_from_outside_gives_the_terminal_back_until_it_goes_on() {
    // Only a process with a parent in its session can be made to go on.
    let mut command = CommandBuilder::new("sh");
    command.args(["-c", "\"$@\"; exit $?", "sh"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, "stop");
    let mut terminal = Terminal::start(command, 24, 80);
    terminal.wait_for("H U N G");
    terminal.press("s");
    terminal.wait("the terminal back", |seen| {
        let screen = seen.parser.screen();
        !screen.alternate_screen() && !screen.hide_cursor()
    });
    let shell = terminal.pid();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_stopped(shell) {
        assert!(std::time::Instant::now() < until, "it does not stop");
        std::thread::yield_now();
    }
    killpg(Pid::from_raw(shell.cast_signed()), Signal::SIGCONT).unwrap();
    terminal.wait("the dashboard again", |seen| {
        seen.parser.screen().alternate_screen()
    });
    terminal.wait_for("H U N G");
    terminal.press("q");
    let status = terminal.end();
    terminal.wait("success", |_| status.success());
}

/// True if the only child of a process is stopped.
fn is_stopped(parent: u32) -> bool {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let child = children.unwrap_or_default().trim().to_owned();
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| rest.starts_with(" T"))
}

/// What `unhang demo` writes to a terminal of this kind; as it ends by itself or by `q`.
#[test]
fn a_terminal_that_can_do_nothing_gets_plain_lines() {
    for term in ["dumb", ""] {
        let mut command = CommandBuilder::new("env");
        command.arg(format!("TERM={term}"));
        command.args([env!("CARGO_BIN_EXE_unhang"), "demo"]);
        let terminal = Terminal::start(command, 24, 80);
        terminal.wait("the end", |seen| seen.closed);
        terminal.wait("plain lines", |seen| {
            let text = String::from_utf8_lossy(&seen.raw);
            text.contains("plain lines instead of the dashboard") && !text.contains("\x1b[?1049h")
        });
    }
}

#[test]
fn an_engine_that_died_is_told_while_the_last_state_stays() {
    let mut terminal = start("failure");
    terminal.wait_for("the engine stopped: index out of bounds");
    terminal.wait_for("H U N G");
    terminal.press("3");
    terminal.wait_for("fix (env, cures it)");
    terminal.press("q");
    assert!(terminal.end().success());
}
