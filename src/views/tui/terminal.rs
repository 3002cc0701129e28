//! The terminal: taken over and given back in one place, on panic too.

use std::io::{self, Stdout, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use nix::unistd::{getppid, getsid};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// True while the terminal is taken over. Leaving twice would move the cursor back over what was
/// printed in between, such as the message of a panic.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Panics of other threads, told when the terminal is free again.
static LATE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The terminal in raw mode on its alternate screen, until this is dropped.
///
/// A panic of the thread that draws gives the terminal back first, so that its message can be read.
/// Panics of other threads leave the screen alone and are told at the end.
pub(super) struct Session {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Set by SIGTSTP, which would otherwise stop the process with the screen taken over.
    stop: Arc<AtomicBool>,
}

impl Session {
    /// Takes the terminal over.
    pub(super) fn start() -> io::Result<Self> {
        watch_panics();
        let stop = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGTSTP, Arc::clone(&stop))?;
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        if terminal.is_err() {
            give_back();
        }
        Ok(Self {
            terminal: terminal?,
            stop,
        })
    }

    /// Puts a text on the clipboard of the terminal, also over ssh, if the terminal allows it.
    pub(super) fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text))
    }

    /// Gives the terminal back, stops the process as Ctrl-Z does, and takes the terminal over again.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        // Without a parent in this session nobody could make it go on; the system ignores SIGTSTP
        // then too.
        if getsid(Some(getppid())).ok() != getsid(None).ok() {
            return Ok(());
        }
        give_back();
        // SIGTSTP is caught here, so this is the signal that cannot be.
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP)?;
        take()?;
        // The screen is empty again. Clearing it would ask the terminal where the cursor is, and not
        // every one answers.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }

    /// True once after somebody asked the process to stop.
    pub(super) fn is_told_to_stop(&self) -> bool {
        self.stop.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        give_back();
        for text in LATE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let entered = execute!(io::stdout(), EnterAlternateScreen);
    if entered.is_err() {
        give_back();
    }
    entered
}

/// Gives the terminal back, once. A terminal that is gone cannot be restored; there is nobody to tell.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    }
}

fn watch_panics() {
    let owner = std::thread::current().id();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() != owner && TAKEN.load(Ordering::SeqCst) {
            LATE.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(info.to_string());
            return;
        }
        give_back();
        before(info);
    }));
}
