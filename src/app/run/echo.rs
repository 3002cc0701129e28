//! Shows what the job writes: copies its two files to standard output and standard error as they grow.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Folder;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(30);
/// After a pause a terminal gets this much of what came meanwhile; the file has the rest.
const BACK: u64 = 16 << 10;

const SHOWING: u8 = 0;
const PAUSED: u8 = 1;
const ENDING: u8 = 2;

/// The thread that shows the output.
#[derive(Debug)]
pub struct Echo {
    state: Arc<AtomicU8>,
    thread: JoinHandle<()>,
}

impl Echo {
    /// Starts it.
    ///
    /// # Errors
    /// If the files cannot be opened or the thread not started.
    pub fn start(folder: &Folder) -> io::Result<Self> {
        let mut streams = [
            Stream::new(
                File::open(folder.stdout())?,
                io::stdout(),
                io::stdout().is_terminal(),
            ),
            Stream::new(
                File::open(folder.stderr())?,
                io::stderr(),
                io::stderr().is_terminal(),
            ),
        ];
        let state = Arc::new(AtomicU8::new(SHOWING));
        let seen = Arc::clone(&state);
        let thread = thread::Builder::new()
            .name("echo".to_owned())
            .spawn(move || {
                loop {
                    let state = seen.load(Ordering::SeqCst);
                    let mut more = false;
                    for stream in &mut streams {
                        more |= stream.copy(state == PAUSED);
                    }
                    match state {
                        ENDING if !more => return,
                        _ if more => {}
                        _ => thread::sleep(LOOK),
                    }
                }
            })?;
        Ok(Self { state, thread })
    }

    /// Leaves the terminal to somebody else.
    pub fn pause(&self) {
        self.state.store(PAUSED, Ordering::SeqCst);
    }

    /// Goes on, with the end of what came meanwhile.
    pub fn resume(&self) {
        self.state.store(SHOWING, Ordering::SeqCst);
    }

    /// Shows the rest, once nothing more comes.
    pub fn finish(self) {
        self.state.store(ENDING, Ordering::SeqCst);
        // Should it have panicked, the output is in the files.
        let _panicked = self.thread.join();
    }
}

/// One file on its way to one stream.
struct Stream {
    file: File,
    to: Box<dyn Write + Send>,
    terminal: bool,
    /// A pause has not been caught up with.
    behind: bool,
    /// Nobody reads it any more.
    closed: bool,
    buf: Vec<u8>,
}

impl Stream {
    fn new(file: File, to: impl Write + Send + 'static, terminal: bool) -> Self {
        Self {
            file,
            to: Box::new(to),
            terminal,
            behind: false,
            closed: false,
            buf: vec![0; 64 << 10],
        }
    }

    /// Copies some of what is new; true if there may be more. What cannot be shown is in the file.
    fn copy(&mut self, paused: bool) -> bool {
        if self.closed {
            return false;
        }
        if paused && self.terminal {
            self.behind = true;
            return false;
        }
        if std::mem::take(&mut self.behind) {
            self.closed |= self.skip().is_err();
        }
        match self.file.read(&mut self.buf) {
            Ok(0) => false,
            Ok(n) => {
                let written = self
                    .to
                    .write_all(&self.buf[..n])
                    .and_then(|()| self.to.flush());
                self.closed = written.is_err();
                true
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(_) => {
                self.closed = true;
                false
            }
        }
    }

    /// Leaves out what is too much for a screen.
    fn skip(&mut self) -> io::Result<()> {
        let (at, end) = (self.file.stream_position()?, self.file.metadata()?.len());
        let skipped = end.saturating_sub(at).saturating_sub(BACK);
        if skipped > 0 {
            self.file.seek(SeekFrom::Start(at + skipped))?;
            writeln!(
                self.to,
                "… {skipped} bytes of the job's output are only in its file …"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("a screen").write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_pause_leaves_out_what_is_too_much_on_a_terminal_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        for terminal in [true, false] {
            let mut writer = File::create(&path).expect("a file");
            let screen = Screen::default();
            let file = File::open(&path).expect("a file");
            let mut stream = Stream::new(file, screen.clone(), terminal);
            writer.write_all(b"begin\n").expect("written");
            assert!(stream.copy(false) && !stream.copy(false));
            writer.write_all(&[b'x'; 100_000]).expect("written");
            writer.write_all(b"end\n").expect("written");
            while stream.copy(true) {}
            while stream.copy(false) {}
            let shown = screen.0.lock().expect("a screen").clone();
            assert!(shown.starts_with(b"begin\n") && shown.ends_with(b"end\n"));
            assert_eq!(shown.len() < 20_000, terminal, "{}", shown.len());
        }
    }
}
