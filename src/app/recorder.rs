//! Writes a journal beside a running watch. Recording may fail; watching may not.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::engine::input::{Input, Time};
use crate::error::{InputError, in_words};
use crate::sources::journal::{self, write::Writer};

/// Pieces of the file that wait for the disk.
const PIECES: usize = 64;
/// Bytes kept beyond that while the disk is slow; more ends the recording.
const BACKLOG: usize = 64 << 20;
/// What a crash may lose.
const FLUSH: Duration = Duration::from_secs(1);

/// A journal that is being written by a thread of its own.
pub(crate) struct Recorder {
    writer: Writer<Pipe>,
    flushed: Instant,
    disk: JoinHandle<()>,
}

impl Recorder {
    /// Creates the file. An existing one is replaced only if it is a journal.
    pub(crate) fn create(path: &Path) -> Result<Self, InputError> {
        let failed = |error| InputError::io("create", path, &error);
        if !may_replace(path).map_err(failed)? {
            let why = "there is a file of this name that is no journal";
            return Err(InputError::because("create", path, why).hint("choose another name"));
        }
        let file = File::create(path).map_err(failed)?;
        Self::to(file).map_err(failed)
    }

    /// Records to anything.
    pub(crate) fn to(file: impl Write + Send + 'static) -> io::Result<Self> {
        let (pieces, inbox) = sync_channel(PIECES);
        let trouble = Arc::new(Mutex::new(None));
        let seen_by_disk = Arc::clone(&trouble);
        let disk = thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || write_all(file, &inbox, &seen_by_disk))?;
        let writer = Writer::new(Pipe {
            pieces,
            waiting: Vec::new(),
            trouble,
        })?;
        Ok(Self {
            writer,
            flushed: Instant::now(),
            disk,
        })
    }

    /// Adds an input. An error ends the recording.
    pub(crate) fn append(&mut self, seen: Option<Time>, input: &Input<'_>) -> io::Result<()> {
        self.writer.append(seen, input)?;
        if self.flushed.elapsed() >= FLUSH {
            self.flushed = Instant::now();
            self.writer.flush()?;
        }
        Ok(())
    }

    /// Writes the rest and the index, and waits for the disk.
    pub(crate) fn finish(self) -> io::Result<()> {
        let Pipe {
            pieces,
            waiting,
            trouble,
        } = self.writer.finish()?;
        if !waiting.is_empty() {
            let _gone = pieces.send(waiting);
        }
        drop(pieces);
        let ended = self.disk.join();
        match trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            Some(error) => Err(error),
            None => ended.map_err(|_| io::Error::other("the thread that writes it ended")),
        }
    }
}

/// The text of an error of recording, for the user.
pub(crate) fn stopped(error: &io::Error) -> String {
    format!("recording stopped: {}; watching goes on", in_words(error))
}

fn may_replace(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    // Devices and pipes are written to, never replaced.
    if !file.metadata()?.is_file() {
        return Ok(true);
    }
    let mut head = Vec::new();
    (&file)
        .take(journal::MAGIC.len() as u64)
        .read_to_end(&mut head)?;
    Ok(head.is_empty() || head == journal::MAGIC)
}

fn write_all(mut file: impl Write, inbox: &Receiver<Vec<u8>>, trouble: &Mutex<Option<io::Error>>) {
    for piece in inbox {
        if let Err(error) = file.write_all(&piece) {
            *trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            return;
        }
    }
    if let Err(error) = file.flush() {
        *trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// The near end: never waits for the disk.
struct Pipe {
    pieces: SyncSender<Vec<u8>>,
    waiting: Vec<u8>,
    trouble: Arc<Mutex<Option<io::Error>>>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.waiting.len() + bytes.len() > BACKLOG {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the disk cannot keep up",
            ));
        }
        self.waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        match self.pieces.try_send(std::mem::take(&mut self.waiting)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(back)) => {
                self.waiting = back;
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => {
                let trouble = self
                    .trouble
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                Err(trouble.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()))
            }
        }
    }
}
