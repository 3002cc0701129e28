//! Follows files that grow, appear, are rotated, truncated, deleted and written anew.
//!
//! Polling is the truth: [`Tailer::poll`] looks at every file once and [`Tailer::search`] looks for new
//! ones. Neither waits nor knows the time, so tests drive both by hand. File system events
//! ([`hint::Hints`]) only tell when to poll sooner.

pub mod follow;
pub mod hint;

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use self::follow::{Followed, Inode, Known, Look};
use super::decompress::Packing;
use super::discover::{Discoverer, Found, Log};
use super::progress::Progress;
use super::read::Reader;
use crate::engine::ids::SourceId;
use crate::engine::input::{Input, SourceInfo, SourceKind};
use crate::engine::limits;
use crate::error::InputError;

/// Bytes taken of one file in one round, so that a busy file does not starve the others.
pub const FAIR: usize = 256 << 10;

/// Rotated files that are known again; older ones are new logs if they turn up.
const LEFT: usize = 1_024;

/// What one round of polling did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Bytes taken.
    pub bytes: u64,
    /// Something changed, or may soon: poll again shortly.
    pub changing: bool,
    /// At least one file has more to read right now.
    pub more: bool,
}

/// Follows every log that a [`Discoverer`] finds.
pub struct Tailer {
    discoverer: Discoverer,
    files: Vec<Followed>,
    next: u32,
    buf: Vec<u8>,
    problems: Vec<InputError>,
    new_files: Vec<(SourceId, PathBuf)>,
    /// Files that were rotated away, oldest first.
    left: VecDeque<Known>,
    /// Dumps that were seen, and those that are to be read at the next poll.
    dumps: HashMap<PathBuf, SourceId>,
    unread: Vec<(SourceId, Log)>,
}

impl Tailer {
    /// Ids of sources are given from `first_id` on.
    #[must_use]
    pub fn new(discoverer: Discoverer, first_id: u32) -> Self {
        Self {
            discoverer,
            files: Vec::new(),
            next: first_id,
            buf: vec![0; FAIR],
            problems: Vec::new(),
            new_files: Vec::new(),
            left: VecDeque::new(),
            dumps: HashMap::new(),
            unread: Vec::new(),
        }
    }

    /// Looks for new logs and announces them. What it returns still lists the journals, pipes and
    /// problems, which the caller has to deal with.
    pub fn search(&mut self, sink: &mut dyn FnMut(Input<'_>)) -> Found {
        let mut found = self.discoverer.search();
        let (pipes, files): (Vec<Log>, Vec<Log>) = found.logs.drain(..).partition(|log| log.pipe);
        let reading: HashSet<Inode> = match files.is_empty() {
            true => HashSet::new(),
            false => self.files.iter().filter_map(Followed::inode).collect(),
        };
        for log in files {
            // A file that was renamed while it is read, or rotated away, is not a new log.
            let known = follow::inode_of(&log.path).is_some_and(|inode| {
                reading.contains(&inode) || self.left.iter().any(|left| left.is(&log.path, inode))
            });
            if known {
                continue;
            }
            let id = self.new_source();
            sink(Input::Source(source_info(id, &log, SourceKind::Tail)));
            if log.packing == Packing::Plain {
                self.new_files.push((id, log.path.clone()));
            }
            self.files
                .push(Followed::new(id, log.path, log.packing, log.len));
        }
        found.logs = pipes;
        for dump in found.dumps.drain(..) {
            let known = self.dumps.get(&dump.path).copied();
            let id = known.unwrap_or_else(|| self.new_source());
            if known.is_none() {
                sink(Input::Source(source_info(id, &dump, SourceKind::Dump)));
                self.dumps.insert(dump.path.clone(), id);
            }
            self.unread.push((id, dump));
        }
        found
    }

    /// Reads the dumps that are new or were written anew. One that is still being written is read again when it
    /// has changed.
    fn read_dumps(&mut self, round: &mut Round, sink: &mut dyn FnMut(Input<'_>)) {
        for (source, dump) in std::mem::take(&mut self.unread) {
            round.changing = true;
            match Reader::whole(&dump, limits::DUMP_BYTES, "dump") {
                Ok(bytes) => {
                    round.bytes += bytes.len() as u64;
                    let bytes = &bytes;
                    sink(Input::Dump { source, bytes });
                }
                Err(problem) => self.problems.push(problem),
            }
        }
    }

    /// Looks at every file once and hands out what is new.
    pub fn poll(&mut self, sink: &mut dyn FnMut(Input<'_>)) -> Round {
        let mut round = Round::default();
        self.read_dumps(&mut round, sink);
        for file in &mut self.files {
            match file.poll(&mut self.buf, sink) {
                Look::Idle => {}
                Look::Unsettled => round.changing = true,
                Look::Read { bytes, more } => {
                    round.bytes += bytes;
                    round.changing = true;
                    round.more |= more;
                }
            }
            self.problems.extend(file.take_problem());
            self.left.extend(file.take_left());
        }
        while self.left.len() > LEFT {
            self.left.pop_front();
        }
        round
    }

    /// Errors since the last call; each file tells each of its errors once.
    pub fn take_problems(&mut self) -> Vec<InputError> {
        std::mem::take(&mut self.problems)
    }

    /// Files found since the last call whose bytes can be read again from the disk.
    pub fn take_new_files(&mut self) -> Vec<(SourceId, PathBuf)> {
        std::mem::take(&mut self.new_files)
    }

    /// An id that no other source has.
    pub fn new_source(&mut self) -> SourceId {
        let id = SourceId(self.next);
        self.next += 1;
        id
    }

    /// How much was read of what the files held when they were found.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut progress = Progress {
            of_files: self.files.len(),
            ..Progress::default()
        };
        for file in &self.files {
            let (read, of) = file.progress();
            progress.bytes += read;
            progress.of += of;
            progress.files += usize::from(read == of);
        }
        progress
    }

    /// How many files are followed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True if no file is followed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.dumps.is_empty()
    }

    /// Where events about the files, or about new ones, can come from.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders = self.discoverer.folders();
        folders.extend(
            self.files
                .iter()
                .filter_map(|file| file.path().parent().map(PathBuf::from)),
        );
        folders.sort();
        folders.dedup();
        folders
    }
}

/// What is known about a log before its first byte.
#[must_use]
pub fn source_info(id: SourceId, log: &Log, kind: SourceKind) -> SourceInfo {
    SourceInfo {
        id,
        name: log.name.clone(),
        kind,
        host: None,
        pid: None,
        rank: None,
    }
}
