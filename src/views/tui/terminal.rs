//! The terminal: taken over and given back in one place, on panic too.

use std::io::{self, Write};

use crossterm::clipboard::CopyToClipboard;
use crossterm::execute;
use ratatui::DefaultTerminal;

/// The terminal in raw mode on its alternate screen, until this is dropped.
///
/// A panic in any thread gives it back first, so that its message can be read.
pub(super) struct Session {
    pub(super) terminal: DefaultTerminal,
}

impl Session {
    /// Takes the terminal over.
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self {
            terminal: ratatui::try_init()?,
        })
    }

    /// Puts a text on the clipboard of the terminal, also over ssh, if the terminal allows it.
    pub(super) fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text))?;
        io::stdout().flush()
    }

    /// Gives the terminal back, stops the process as Ctrl-Z does, and takes the terminal over again.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        ratatui::try_restore()?;
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGTSTP)?;
        crossterm::terminal::enable_raw_mode()?;
        execute!(io::stdout(), crossterm::terminal::EnterAlternateScreen)?;
        self.terminal.clear()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A terminal that is gone cannot be restored; there is nobody to tell.
        let _ = ratatui::try_restore();
    }
}
