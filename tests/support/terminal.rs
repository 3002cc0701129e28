//! A program in a terminal of its own, and the screen it makes. Nothing sleeps: tests wait until the
//! screen says something.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};

/// No machine is that slow.
const PATIENCE: Duration = Duration::from_secs(60);

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize {
        rows,
        cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}

/// What the child has written, and the screen it makes.
pub(crate) struct Seen {
    pub(crate) raw: Vec<u8>,
    pub(crate) parser: vt100::Parser,
    pub(crate) closed: bool,
    /// When the last bytes came.
    pub(crate) at: Instant,
}

pub(crate) struct Terminal {
    /// Held open: its end would end the child.
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

impl Terminal {
    /// Starts the program on a screen of this size.
    pub(crate) fn start(mut command: CommandBuilder, rows: u16, cols: u16) -> Self {
        let pty = native_pty_system().openpty(size(rows, cols)).unwrap();
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let seen = Seen {
            raw: Vec::new(),
            parser: vt100::Parser::new(cells(rows), cells(cols), 0),
            closed: false,
            at: Instant::now(),
        };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        let mut reader = pty.master.try_clone_reader().unwrap();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut chunk = [0; 65_536];
            loop {
                let read = reader.read(&mut chunk).unwrap_or(0);
                let mut seen = shared.0.lock().unwrap();
                seen.raw.extend_from_slice(&chunk[..read]);
                seen.parser.process(&chunk[..read]);
                seen.closed = read == 0;
                seen.at = Instant::now();
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

    /// Waits until it is so; returns when it came to be.
    pub(crate) fn wait(&self, what: &str, is: impl Fn(&Seen) -> bool) -> Instant {
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
        seen.at
    }

    pub(crate) fn wait_for(&self, text: &str) -> Instant {
        self.wait(text, |seen| seen.parser.screen().contents().contains(text))
    }

    pub(crate) fn wait_without(&self, text: &str) -> Instant {
        self.wait(text, |seen| !seen.parser.screen().contents().contains(text))
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    pub(crate) fn resize(&mut self, rows: u16, cols: u16) {
        let mut seen = self.seen.0.lock().unwrap();
        seen.parser.screen_mut().set_size(cells(rows), cells(cols));
        drop(seen);
        self.master.resize(size(rows, cols)).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Waits for the end; the terminal must be as it was.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.wait("the end", |seen| seen.closed);
        let seen = self.seen.0.lock().unwrap();
        let screen = seen.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.hide_cursor(), "the cursor is back");
        drop(seen);
        self.child.wait().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only a failed test leaves it running.
        if let Ok(None) = self.child.try_wait() {
            let _ended_meanwhile = self.child.kill();
        }
    }
}
