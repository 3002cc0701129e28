//! How far reading has got, in the last line of a terminal; nothing where there is none.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use crate::sources::progress::Progress;
use crate::views::words;

/// What takes less is not worth a word.
const SHORT: Duration = Duration::from_millis(500);
/// Between two words.
const EVERY: Duration = Duration::from_millis(100);

/// The line.
pub(crate) struct Line {
    started: Instant,
    on: bool,
    /// When it was written last, if it stands there.
    shown: Option<Instant>,
}

impl Line {
    /// Nothing was read yet.
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            on: stderr().is_terminal(),
            shown: None,
        }
    }

    /// Says it, if it takes long.
    pub(crate) fn tell(&mut self, progress: &Progress) {
        self.write(|took| words::loading(progress, took));
    }

    /// The same where no bytes are counted: a part of the whole, up to 1.
    pub(crate) fn tell_part(&mut self, part: f64) {
        self.write(|_| format!("reading: {:.0} %", part.clamp(0.0, 1.0) * 100.0));
    }

    fn write(&mut self, text: impl FnOnce(Duration) -> String) {
        let took = self.started.elapsed();
        let due = self.shown.is_none_or(|at| at.elapsed() >= EVERY);
        if self.on && took >= SHORT && due {
            self.shown = Some(Instant::now());
            write(&format!("\r{}\x1b[K", text(took)));
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if self.shown.take().is_some() {
            write("\r\x1b[K");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

/// There is nobody left to tell if this fails.
fn write(text: &str) {
    let mut to = stderr().lock();
    let _unwritten = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}
