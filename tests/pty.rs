//! The dashboard in a real terminal: what it draws, and that it gives the terminal back.
//!
//! The tests start this very binary again with `UNHANG_TEST_CHILD` set: the child then is a dashboard
//! over a sample. Nothing sleeps: the tests wait until the screen says something.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use unhang::app::handle::{Handle, Mode, Status};
use unhang::engine::snapshot::Snapshot;
use unhang::views::escape::Glyphs;
use unhang::views::tui::{self, theme::Theme};

#[path = "support/samples.rs"]
mod samples;

const CHILD: &str = "UNHANG_TEST_CHILD";
/// No machine is that slow.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let handle = Handle::still(snapshot, Status::new(Mode::Live));
    let save = |_: &Snapshot| {
        match on_save.as_str() {
            "panic" => panic!("a bug of the save"),
            "thread" => {
                let thread = std::thread::spawn(|| panic!("a bug of another thread"));
                let _ = thread.join();
                return Ok("after the panic".to_owned());
            }
            "shutdown" => handle.shutdown(),
            _ => return Ok("report.txt".to_owned()),
        }
        Err("no".to_owned())
    };
    let theme = Theme {
        color: true,
        glyphs: Glyphs::Unicode,
    };
    tui::run(&handle, &tui::Options { theme, save: &save }).unwrap();
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

/// What the child has written, and the screen it makes.
struct Seen {
    raw: Vec<u8>,
    parser: vt100::Parser,
    closed: bool,
}

struct Terminal {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

impl Terminal {
    fn start(on_save: &str) -> Self {
        let size = PtySize {
            rows: 24,
            cols: 80,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pty = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        command.env(CHILD, on_save);
        // A backtrace would push the message off the screen.
        command.env("RUST_BACKTRACE", "0");
        command.env("TERM", "xterm-256color");
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let seen = Seen {
            raw: Vec::new(),
            parser: vt100::Parser::new(cells(24), cells(80), 0),
            closed: false,
        };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        let mut reader = pty.master.try_clone_reader().unwrap();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            loop {
                let read = reader.read(&mut chunk).unwrap_or(0);
                let mut seen = shared.0.lock().unwrap();
                seen.raw.extend_from_slice(&chunk[..read]);
                seen.parser.process(&chunk[..read]);
                seen.closed = read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Self {
            writer: pty.master.take_writer().unwrap(),
            master: pty.master,
            child,
            seen,
        }
    }

    fn wait(&self, what: &str, is: impl Fn(&Seen) -> bool) {
        let seen = self.seen.0.lock().unwrap();
        let (seen, timeout) = self
            .seen
            .1
            .wait_timeout_while(seen, PATIENCE, |seen| !is(seen))
            .unwrap();
        assert!(
            !timeout.timed_out(),
            "waited for {what}, but:\n{}",
            seen.parser.screen().contents()
        );
    }

    fn wait_for(&self, text: &str) {
        self.wait(text, |seen| seen.parser.screen().contents().contains(text));
    }

    fn press(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Waits for the end; the terminal must be as it was.
    fn end(&mut self) -> ExitStatus {
        self.wait("the end", |seen| seen.closed);
        let seen = self.seen.0.lock().unwrap();
        let screen = seen.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.hide_cursor(), "the cursor is back");
        drop(seen);
        self.child.wait().unwrap()
    }
}

#[test]
fn keys_move_about_and_quit_restores_the_terminal() {
    let mut terminal = Terminal::start("save");
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
    let mut terminal = Terminal::start("save");
    terminal.wait_for("H U N G");
    let size = PtySize {
        rows: 40,
        cols: 120,
        pixel_width: 0,
        pixel_height: 0,
    };
    terminal
        .seen
        .0
        .lock()
        .unwrap()
        .parser
        .screen_mut()
        .set_size(cells(40), cells(120));
    terminal.master.resize(size).unwrap();
    // Only the larger screen has room for evidence on its first page.
    terminal.wait_for("evidence");
    terminal.press("\x03");
    assert!(terminal.end().success(), "Ctrl-C quits too");
}

#[test]
fn the_fix_goes_to_the_clipboard() {
    let mut terminal = Terminal::start("save");
    terminal.wait_for("H U N G");
    terminal.press("y");
    terminal.wait_for("copied: export NCCL_SOCKET_IFNAME=data0");
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
    let mut terminal = Terminal::start("save");
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
    let mut terminal = Terminal::start("panic");
    terminal.wait_for("H U N G");
    terminal.press("s");
    assert!(!terminal.end().success());
    terminal.wait_for("a bug of the save");
}

#[test]
fn a_panic_of_another_thread_leaves_the_screen_alone_and_is_told_at_the_end() {
    let mut terminal = Terminal::start("thread");
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
    let mut terminal = Terminal::start("shutdown");
    terminal.wait_for("H U N G");
    terminal.press("s");
    assert!(terminal.end().success());
}
