//! Reads lines back by their place: files from the disk, pipes and packed files from memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;

use super::handle::{LogLine, LogPage, LogRequest};
use crate::engine::ids::SourceId;
use crate::engine::line::Place;
use crate::engine::recent::Kept;
use crate::sources::record::What;

/// Bytes kept in memory of everything that cannot be read again.
const RING: usize = 64 << 20;
/// Pieces smaller than this are joined, so that a pipe of short writes costs no list of short pieces.
const PIECE: usize = 64 << 10;
/// Requests that wait; more are refused.
const REQUESTS: usize = 16;

/// Where the bytes of every source can be found again.
#[derive(Default)]
pub(crate) struct Lines {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    files: HashMap<SourceId, PathBuf>,
    kept: HashMap<SourceId, BTreeMap<u64, Vec<u8>>>,
    /// Sources and offsets of the pieces, oldest first.
    order: VecDeque<(SourceId, u64)>,
    bytes: usize,
}

impl Lines {
    /// When any of the files was last written.
    pub(crate) fn last_word(&self) -> Option<SystemTime> {
        let inner = self.lock();
        let written = inner.files.values().filter_map(|path| {
            let meta = std::fs::metadata(path).ok()?;
            meta.modified().ok()
        });
        written.max()
    }

    /// The bytes of this source stay in this file.
    pub(crate) fn in_file(&self, source: SourceId, path: PathBuf) {
        self.lock().files.insert(source, path);
    }

    /// Keeps what was seen, if it cannot be read again.
    pub(crate) fn keep(&self, what: What) {
        match what {
            What::Bytes {
                source,
                offset,
                chunk,
            } => self.lock().keep(source, offset, chunk),
            // Answers and dumps have no lines to be read back.
            What::Ras { .. } | What::Dump { .. } => {}
            What::Other(input) => {
                use crate::engine::input::Input::{Rotated, Truncated};
                if let Rotated(source) | Truncated(source) = input {
                    self.lock().forget(source);
                }
            }
        }
    }

    /// The file of a source, or the bytes of this place from memory.
    fn find(&self, place: Place) -> Found {
        let inner = self.lock();
        match inner.files.get(&place.source) {
            Some(path) => Found::InFile(path.clone()),
            None => Found::InMemory(inner.read(place)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Found {
    InFile(PathBuf),
    InMemory(Option<Vec<u8>>),
}

impl Inner {
    fn keep(&mut self, source: SourceId, offset: u64, chunk: Vec<u8>) {
        if self.files.contains_key(&source) {
            return;
        }
        self.bytes += chunk.len();
        let pieces = self.kept.entry(source).or_default();
        match pieces.last_entry() {
            Some(mut last)
                if *last.key() + last.get().len() as u64 == offset && last.get().len() < PIECE =>
            {
                last.get_mut().extend_from_slice(&chunk);
            }
            _ => {
                pieces.insert(offset, chunk);
                self.order.push_back((source, offset));
            }
        }
        while self.bytes > RING {
            let Some((source, offset)) = self.order.pop_front() else {
                break;
            };
            let piece = self
                .kept
                .get_mut(&source)
                .and_then(|pieces| pieces.remove(&offset));
            self.bytes -= piece.map_or(0, |piece| piece.len());
        }
    }

    fn forget(&mut self, source: SourceId) {
        if let Some(pieces) = self.kept.remove(&source) {
            self.bytes -= pieces.values().map(Vec::len).sum::<usize>();
            self.order.retain(|(other, _)| *other != source);
        }
    }

    fn read(&self, place: Place) -> Option<Vec<u8>> {
        let pieces = self.kept.get(&place.source)?;
        let len = place.len as usize;
        let mut out = Vec::with_capacity(len);
        let (&start, _) = pieces.range(..=place.offset).next_back()?;
        for (&at, piece) in pieces.range(start..) {
            let wanted = place.offset + out.len() as u64;
            let skip = usize::try_from(wanted.checked_sub(at)?).ok()?;
            let rest = piece.get(skip..)?;
            out.extend_from_slice(&rest[..rest.len().min(len - out.len())]);
            if out.len() == len {
                return Some(out);
            }
        }
        None
    }
}

/// A question for the thread that reads lines.
struct Job {
    places: Vec<Kept>,
    request: LogRequest,
    reply: SyncSender<LogPage>,
}

/// A thread that reads lines, so that a slow disk delays neither the engine nor the keys.
pub(crate) struct LineReader {
    jobs: SyncSender<Job>,
}

impl LineReader {
    pub(crate) fn start(lines: Arc<Lines>) -> std::io::Result<Self> {
        let (jobs, inbox) = sync_channel(REQUESTS);
        thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || answer(&lines, &inbox))?;
        Ok(Self { jobs })
    }

    /// Reads a page of these places, oldest first, and sends it. Refused if too many wait.
    pub(crate) fn ask(&self, places: Vec<Kept>, request: LogRequest, reply: SyncSender<LogPage>) {
        // Whoever asked sees that the reply's sender is gone.
        let _refused = self.jobs.try_send(Job {
            places,
            request,
            reply,
        });
    }
}

fn answer(lines: &Lines, inbox: &Receiver<Job>) {
    for job in inbox {
        let (range, page) = page(&job.places, job.request);
        let mut files = HashMap::new();
        let read = |kept: &Kept| LogLine {
            place: kept.place,
            rank: kept.rank,
            bytes: read_line(lines, kept.place, &mut files),
        };
        let page = LogPage {
            lines: job.places[range].iter().map(read).collect(),
            ..page
        };
        // Nobody waits any more: fine.
        let _gone = job.reply.try_send(page);
    }
}

/// Which of the kept places make up the page.
fn page(places: &[Kept], request: LogRequest) -> (std::ops::Range<usize>, LogPage) {
    let find = |place: Place| places.iter().rposition(|kept| kept.place == place);
    let range = match request {
        LogRequest::Newest(n) => places.len().saturating_sub(n)..places.len(),
        LogRequest::Before(place, n) => {
            // A place that was forgotten has nothing kept before it.
            let end = find(place).unwrap_or(0);
            end.saturating_sub(n)..end
        }
        LogRequest::After(place, n) => {
            let start = find(place).map_or(0, |at| at + 1);
            start..places.len().min(start.saturating_add(n))
        }
    };
    let page = LogPage {
        lines: Vec::new(),
        older: range.start,
        newer: places.len() - range.end,
    };
    (range, page)
}

fn read_line(
    lines: &Lines,
    place: Place,
    files: &mut HashMap<SourceId, Option<File>>,
) -> Option<Vec<u8>> {
    if let Some(file) = files.get(&place.source) {
        return read_from(file.as_ref()?, place);
    }
    match lines.find(place) {
        Found::InMemory(bytes) => bytes,
        Found::InFile(path) => {
            let file = files.entry(place.source).or_insert_with(|| open(&path));
            read_from(file.as_ref()?, place)
        }
    }
}

fn open(path: &Path) -> Option<File> {
    File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .ok()
}

fn read_from(file: &File, place: Place) -> Option<Vec<u8>> {
    let mut bytes = vec![0; place.len as usize];
    file.read_exact_at(&mut bytes, place.offset).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(source: u32, offset: u64, len: u32) -> Place {
        Place {
            source: SourceId(source),
            number: 1,
            offset,
            len,
        }
    }

    fn bytes(source: u32, offset: u64, chunk: &[u8]) -> What {
        What::Bytes {
            source: SourceId(source),
            offset,
            chunk: chunk.to_vec(),
        }
    }

    #[test]
    fn a_pipe_is_read_back_across_pieces() {
        let lines = Lines::default();
        lines.keep(bytes(0, 0, &[b'a'; PIECE]));
        lines.keep(bytes(1, 0, b"other"));
        lines.keep(bytes(0, PIECE as u64, b"bcd"));
        let inner = lines.lock();
        assert_eq!(
            inner.read(place(0, PIECE as u64 - 2, 4)),
            Some(b"aabc".to_vec())
        );
        assert_eq!(inner.read(place(0, PIECE as u64, 4)), None);
        assert_eq!(inner.read(place(2, 0, 1)), None);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes() {
        let lines = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        for n in 0..100 {
            lines.keep(bytes(0, n << 20, &piece));
        }
        let inner = lines.lock();
        assert!(inner.bytes <= RING);
        assert_eq!(inner.read(place(0, 0, 4)), None);
        assert_eq!(inner.read(place(0, 99 << 20, 4)), Some(b"xxxx".to_vec()));
    }

    #[test]
    fn pages_are_cut_around_a_place() {
        let kept = |place| Kept { place, rank: None };
        let places: Vec<Kept> = (0..10).map(|n| kept(place(0, n * 10, 5))).collect();
        let at = |n: usize| places[n].place;
        let cut = |request| page(&places, request).0;
        assert_eq!(cut(LogRequest::Newest(3)), 7..10);
        assert_eq!(cut(LogRequest::Before(at(7), 3)), 4..7);
        assert_eq!(cut(LogRequest::After(at(7), 9)), 8..10);
        assert_eq!(cut(LogRequest::After(place(9, 9, 9), 4)), 0..4);
        assert_eq!(page(&places, LogRequest::Before(at(7), 3)).1.newer, 3);
    }
}
