//! What a replay plays: a journal, or saved files with a made-up clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::app::handle::Axis;
use crate::app::report;
use crate::engine::Engine;
use crate::engine::ids::SourceId;
use crate::engine::input::{EndReason, Input, SourceKind, Time};
use crate::engine::limits;
use crate::engine::ras;
use crate::error::{InputError, in_words};
use crate::sources::decompress::{self, Packing};
use crate::sources::discover::Log;
use crate::sources::journal::read::Journal;
use crate::sources::journal::write::Writer;
use crate::sources::read::Reader;
use crate::sources::record::{Record, What};
use crate::sources::tail::source_info;

/// Without times a replay takes about this long.
const LENGTH: Duration = Duration::from_secs(30);
/// Bytes a second where there are few.
const SLOWEST: u64 = 2_048;
/// Pieces into which files are cut, between these sizes.
const PIECES: u64 = 1_000;
const PIECE: std::ops::RangeInclusive<u64> = 256..=64 << 10;
/// How much a packed log is taken to hold: its size is only known at its end.
const PACKED: u64 = 10;

/// Records in order, each with its position on the axis.
pub trait Script: Send {
    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// If it cannot be read.
    fn next(&mut self) -> io::Result<Option<(Duration, Record)>>;

    /// Goes back to the start.
    ///
    /// # Errors
    /// If it cannot be opened again.
    fn rewind(&mut self) -> io::Result<()>;

    /// Goes back to where it can begin to play up to a position; to its start, if it knows no later one.
    ///
    /// # Errors
    /// If it cannot be opened again.
    fn rewind_to(&mut self, _to: Duration) -> io::Result<()> {
        self.rewind()
    }

    /// The engine to begin with after going back, if that is not a new one.
    fn base(&mut self) -> Option<Engine> {
        None
    }

    /// The same from its start, to be read beside this one; `None` if what it reads is there only once.
    ///
    /// # Errors
    /// If it cannot be opened again.
    fn again(&self) -> io::Result<Option<Box<dyn Script>>>;

    /// What positions mean.
    fn axis(&self) -> Axis;

    /// Position of the end.
    fn length(&self) -> Duration;

    /// Records that were lost so far.
    fn losses(&self) -> u64;

    /// What could not be read of it so far.
    fn problems(&self) -> Vec<InputError>;
}

/// A made-up clock: a fixed rate of bytes.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: u64,
    total: u64,
}

impl Rate {
    fn new(total: u64) -> Self {
        Self {
            per_second: (total / LENGTH.as_secs()).max(SLOWEST),
            total,
        }
    }

    fn position(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes.min(self.total)) * 1_000_000_000 / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Opens a journal a second time.
type Reopen = Box<dyn Fn() -> io::Result<Box<dyn Script>> + Send>;

/// Plays a journal: with its times, or in the order of bytes if it has none.
pub struct JournalScript<R> {
    journal: Journal<R>,
    path: PathBuf,
    rate: Rate,
    bytes: u64,
    first: Option<Time>,
    at: Duration,
    reopen: Option<Reopen>,
}

impl<R: Read + Seek + Send> JournalScript<R> {
    /// Plays from the start; messages call it by `path`.
    #[must_use]
    pub fn of_file(journal: Journal<R>, path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::new(journal)
        }
    }

    /// Plays what is in no file from the start.
    #[must_use]
    pub fn new(journal: Journal<R>) -> Self {
        let rate = Rate::new(journal.raw_bytes());
        let first = journal.times().map(|(first, _)| first);
        Self {
            journal,
            path: PathBuf::from("the journal"),
            rate,
            bytes: 0,
            first,
            at: Duration::ZERO,
            reopen: None,
        }
    }

    /// The same, which can be opened again by `reopen`.
    #[must_use]
    pub fn reopened_by(
        mut self,
        reopen: impl Fn() -> io::Result<Box<dyn Script>> + Send + 'static,
    ) -> Self {
        self.reopen = Some(Box::new(reopen));
        self
    }
}

impl<R: Read + Seek + Send> Script for JournalScript<R> {
    fn next(&mut self) -> io::Result<Option<(Duration, Record)>> {
        let Some(record) = self.journal.next_record()? else {
            return Ok(None);
        };
        self.bytes += record.what.len();
        let at = match (self.first, record.seen) {
            (Some(first), Some(seen)) => seen.since(first),
            // A record without a time comes right after the one before it.
            (Some(_), None) => self.at,
            (None, _) => self.rate.position(self.bytes),
        };
        self.at = self.at.max(at);
        Ok(Some((self.at, record)))
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.journal.rewind();
        self.bytes = 0;
        self.at = Duration::ZERO;
        Ok(())
    }

    fn again(&self) -> io::Result<Option<Box<dyn Script>>> {
        self.reopen.as_ref().map(|reopen| reopen()).transpose()
    }

    fn axis(&self) -> Axis {
        if self.first.is_some() {
            Axis::Recorded
        } else {
            Axis::Bytes
        }
    }

    fn length(&self) -> Duration {
        self.journal
            .length()
            .unwrap_or_else(|| self.rate.position(self.rate.total))
    }

    fn losses(&self) -> u64 {
        let losses = self.journal.losses();
        losses.damaged + losses.unknown
    }

    fn problems(&self) -> Vec<InputError> {
        report::losses_in_words(&self.path, self.journal.losses())
            .into_iter()
            .collect()
    }
}

/// Plays saved files: all of them progress together, in proportion to their sizes.
pub struct FilesScript {
    logs: Vec<Log>,
    /// Written when the job gave up: they come last.
    dumps: Vec<Log>,
    next_dump: usize,
    answers: Vec<Log>,
    claim: Option<Option<Duration>>,
    rate: Rate,
    piece: usize,
    states: Vec<FileState>,
    /// Files by how far they have got (in 2³²ths), then by their order.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    ready: VecDeque<Record>,
    bytes: u64,
    answered: usize,
    claimed: bool,
    /// Files that could not be read, each told once.
    problems: Vec<InputError>,
}

#[derive(Default)]
struct FileState {
    offset: u64,
    /// Only packed files stay open.
    packed: Option<Box<dyn Read + Send>>,
}

impl FilesScript {
    /// Plays these logs from the start; dumps and a claim come at the end.
    #[must_use]
    pub fn new(logs: Vec<Log>, dumps: Vec<Log>, claim: Option<Option<Duration>>) -> Self {
        let total: u64 = logs.iter().chain(&dumps).map(size).sum();
        let piece = (total / PIECES).clamp(*PIECE.start(), *PIECE.end());
        let mut script = Self {
            logs,
            dumps,
            next_dump: 0,
            answers: Vec::new(),
            claim,
            rate: Rate::new(total),
            piece: usize::try_from(piece).unwrap_or(usize::MAX),
            states: Vec::new(),
            queue: BinaryHeap::new(),
            ready: VecDeque::new(),
            bytes: 0,
            answered: 0,
            claimed: false,
            problems: Vec::new(),
        };
        script.begin();
        script
    }

    /// Plays these answers of RAS behind the logs: they were asked for when the job stood still.
    #[must_use]
    pub fn then(mut self, answers: Vec<Log>) -> Self {
        self.answers = answers;
        self.begin();
        self
    }

    fn begin(&mut self) {
        self.bytes = 0;
        self.claimed = false;
        self.next_dump = 0;
        self.problems.clear();
        self.ready.clear();
        self.states = self.logs.iter().map(|_| FileState::default()).collect();
        self.queue = (0..self.logs.len()).map(|ix| Reverse((0, ix))).collect();
        let logs = self.logs.iter().map(|log| (log, SourceKind::File));
        let dumps = self.dumps.iter().map(|dump| (dump, SourceKind::Dump));
        let sources = logs.chain(dumps).enumerate();
        let sources = sources.map(|(ix, (file, kind))| {
            Input::Source(source_info(SourceId::from_ix(ix), file, kind))
        });
        self.ready.extend(sources.map(|input| Record {
            seen: None,
            what: What::Other(input),
        }));
        self.answered = 0;
    }

    /// The next answer, with its source in front.
    fn read_answer(&mut self) -> Option<Record> {
        let answer = self.answers.get(self.answered)?;
        let source = SourceId::from_ix(self.logs.len() + self.dumps.len() + self.answered);
        self.answered += 1;
        let info = source_info(source, answer, SourceKind::Ras);
        let (what, why, detail) = match Reader::whole(answer, ras::REPLY_BYTES, "answer of RAS") {
            Ok(reply) => (Some(What::Ras { source, reply }), EndReason::Eof, None),
            Err(problem) => {
                let why = problem.why.clone();
                self.problems.push(problem);
                (None, EndReason::Unreadable, Some(why))
            }
        };
        let end = What::Other(Input::Ended {
            source,
            why,
            detail,
        });
        let record = |what| Record { seen: None, what };
        self.ready.extend(what.map(record));
        self.ready.push_back(record(end));
        Some(record(What::Other(Input::Source(info))))
    }

    /// Reads the next piece of the file that is farthest behind.
    fn read_piece(&mut self) -> Option<Record> {
        let Reverse((_, ix)) = self.queue.pop()?;
        let (log, state) = (&self.logs[ix], &mut self.states[ix]);
        let source = SourceId::from_ix(ix);
        let what = match state.read(log, self.piece) {
            Ok(chunk) if chunk.is_empty() => What::Other(Input::Ended {
                source,
                why: EndReason::Eof,
                detail: None,
            }),
            Ok(chunk) => {
                let offset = state.offset;
                state.offset += chunk.len() as u64;
                self.bytes += chunk.len() as u64;
                let done = (u128::from(state.offset) << 32) / u128::from(size(log).max(1));
                self.queue
                    .push(Reverse((u64::try_from(done).unwrap_or(u64::MAX), ix)));
                What::Bytes {
                    source,
                    offset,
                    chunk,
                }
            }
            Err(error) => {
                let detail = Some(in_words(&error));
                self.problems.push(unreadable(log, &error));
                What::Other(Input::Ended {
                    source,
                    why: EndReason::Unreadable,
                    detail,
                })
            }
        };
        Some(Record { seen: None, what })
    }
}

impl FilesScript {
    /// The next dump, and then its end.
    fn read_dump(&mut self) -> Option<Record> {
        let dump = self.dumps.get(self.next_dump)?;
        let source = SourceId::from_ix(self.logs.len() + self.next_dump);
        self.next_dump += 1;
        self.bytes += size(dump);
        let end = |why, detail| Record {
            seen: None,
            what: What::Other(Input::Ended {
                source,
                why,
                detail,
            }),
        };
        match Reader::whole(dump, limits::DUMP_BYTES, "dump") {
            Ok(bytes) => {
                self.ready.push_back(end(EndReason::Eof, None));
                let what = What::Dump { source, bytes };
                Some(Record { seen: None, what })
            }
            Err(problem) => {
                let why = problem.why.clone();
                self.problems.push(problem);
                Some(end(EndReason::Unreadable, Some(why)))
            }
        }
    }
}

/// The same words that a report has for it.
fn unreadable(log: &Log, error: &io::Error) -> InputError {
    if log.packing != Packing::Plain && error.kind() == io::ErrorKind::UnexpectedEof {
        return InputError::because("read", &log.path, "the compressed file is cut off");
    }
    InputError::io("read", &log.path, error)
}

fn size(log: &Log) -> u64 {
    if log.packing == Packing::Plain {
        log.len
    } else {
        log.len * PACKED
    }
}

impl FileState {
    /// The next bytes, ending with a line if there is one; empty at the end.
    fn read(&mut self, log: &Log, piece: usize) -> io::Result<Vec<u8>> {
        let mut chunk = vec![0; piece];
        if log.packing != Packing::Plain {
            let reader = match &mut self.packed {
                Some(reader) => reader,
                None => self
                    .packed
                    .insert(decompress::open(&log.path, log.packing)?),
            };
            let n = reader.read(&mut chunk)?;
            chunk.truncate(n);
            return Ok(chunk);
        }
        // Opened for every piece: thousands of files do not have to be open at once.
        let n = File::open(&log.path)?.read_at(&mut chunk, self.offset)?;
        chunk.truncate(n);
        if let Some(end) = memchr::memrchr(b'\n', &chunk) {
            chunk.truncate(end + 1);
        }
        Ok(chunk)
    }
}

impl Script for FilesScript {
    fn next(&mut self) -> io::Result<Option<(Duration, Record)>> {
        let mut record = self
            .ready
            .pop_front()
            .or_else(|| self.read_piece())
            .or_else(|| self.read_answer())
            .or_else(|| self.read_dump());
        if record.is_none() && !std::mem::replace(&mut self.claimed, true) {
            let claim = self
                .claim
                .map(|stuck_for| What::Other(Input::Claim { stuck_for }));
            record = claim.map(|what| Record { seen: None, what });
        }
        Ok(record.map(|record| (self.rate.position(self.bytes), record)))
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.begin();
        Ok(())
    }

    fn again(&self) -> io::Result<Option<Box<dyn Script>>> {
        let (logs, dumps) = (self.logs.clone(), self.dumps.clone());
        let again = Self::new(logs, dumps, self.claim).then(self.answers.clone());
        Ok(Some(Box::new(again)))
    }

    fn axis(&self) -> Axis {
        Axis::Bytes
    }

    fn length(&self) -> Duration {
        self.rate.position(self.rate.total)
    }

    fn losses(&self) -> u64 {
        0
    }

    fn problems(&self) -> Vec<InputError> {
        self.problems.clone()
    }
}

/// Writes everything a script plays as a journal.
///
/// # Errors
/// If the script cannot be read or the journal not be written.
pub fn save<W: Write>(script: &mut dyn Script, out: W) -> io::Result<W> {
    let mut writer = Writer::new(out)?;
    while let Some((_, record)) = script.next()? {
        writer.append(record.seen, &record.what.as_input())?;
    }
    writer.finish()
}

/// Opens a journal file for playing.
///
/// # Errors
/// If it is no journal or cannot be read.
pub fn open_journal(path: &Path) -> io::Result<Box<dyn Script>> {
    let journal = report::open_journal(path)?;
    let again = path.to_owned();
    let script = JournalScript::of_file(journal, path).reopened_by(move || open_journal(&again));
    Ok(Box::new(script))
}
