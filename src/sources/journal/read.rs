//! Reads a journal, whole or torn.

use std::collections::{HashSet, VecDeque};
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use super::block::{HEADER, Header, INDEX, LARGEST, RECORDS, take_u64};
use super::codec::{Decoded, Decoder};
use super::{END, MAGIC, VERSION};
use crate::engine::ids::SourceId;
use crate::engine::input::{Input, Time};
use crate::sources::record::{Record, What};

/// What was lost on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records and blocks of a kind that this version does not know.
    pub unknown: u64,
    /// Records in blocks whose checksum is wrong.
    pub damaged: u64,
    /// Bytes of an unfinished or unreadable end.
    pub torn_bytes: u64,
}

/// A journal that is being read from its start on.
pub struct Journal<R> {
    file: R,
    blocks: Vec<(u64, Header)>,
    next: usize,
    ready: VecDeque<Record>,
    losses: Losses,
    scanned: Losses,
    announced: HashSet<SourceId>,
    /// It ends in the middle: there is no index.
    open_ended: bool,
}

impl<R: Read + Seek> Journal<R> {
    /// Reads the header and the index; without an index, the header of every block.
    ///
    /// # Errors
    /// If it is no journal, is of a later version, or cannot be read.
    pub fn open(mut file: R) -> io::Result<Self> {
        let mut magic = [0; MAGIC.len() + 2];
        file.read_exact(&mut magic)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    invalid("no journal, or one that is cut off within its first bytes")
                }
                _ => error,
            })?;
        if !magic.starts_with(MAGIC) {
            return Err(invalid("no journal of unhang"));
        }
        let version = u16::from_le_bytes([magic[MAGIC.len()], magic[MAGIC.len() + 1]]);
        if version == 0 || version > VERSION {
            return Err(invalid(&format!(
                "version {version} is newer than this unhang, which reads {VERSION}"
            )));
        }
        let len = file.seek(SeekFrom::End(0))?;
        let index = read_index(&mut file, len)?;
        let open_ended = index.is_none();
        let (blocks, scanned) = match index {
            Some(blocks) => (blocks, Losses::default()),
            None => scan(&mut file, len)?,
        };
        Ok(Self {
            file,
            blocks,
            next: 0,
            ready: VecDeque::new(),
            losses: scanned,
            scanned,
            announced: HashSet::new(),
            open_ended,
        })
    }

    /// The next record, in the order in which they were written.
    ///
    /// # Errors
    /// If the file cannot be read; damaged blocks are no error, see [`Journal::losses`].
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Ok(Some(record));
            }
            let Some(&(at, header)) = self.blocks.get(self.next) else {
                return Ok(None);
            };
            self.next += 1;
            self.file.seek(SeekFrom::Start(at + HEADER as u64))?;
            match header.body(&mut self.file) {
                Ok(block) => self.fill(&block, &header),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.losses.damaged += u64::from(header.records);
                }
                // zstd reports broken data as `Other`.
                Err(error) if error.kind() == io::ErrorKind::Other => {
                    self.losses.damaged += u64::from(header.records);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&mut self, block: &[u8], header: &Header) {
        let mut decoder = Decoder::new(block);
        let mut count = 0;
        while let Some(decoded) = decoder.next() {
            count += 1;
            match decoded {
                Decoded::Record(record) if self.is_announced(&record) => {
                    self.ready.push_back(record);
                }
                Decoded::Record(_) | Decoded::Unknown => self.losses.unknown += 1,
            }
        }
        self.losses.damaged += u64::from(header.records).saturating_sub(count);
    }

    /// A record of a source that was never announced (its announcement was in a damaged block) means
    /// nothing to anybody.
    fn is_announced(&mut self, record: &Record) -> bool {
        match &record.what {
            What::Other(Input::Source(info)) => {
                self.announced.insert(info.id);
                true
            }
            what => what
                .source()
                .is_none_or(|source| self.announced.contains(&source)),
        }
    }

    /// Goes back to the start.
    pub fn rewind(&mut self) {
        self.announced.clear();
        self.next = 0;
        self.ready.clear();
        self.losses = self.scanned;
    }

    /// True if the recording ended before its first block was written.
    #[must_use]
    pub fn holds_nothing(&self) -> bool {
        self.open_ended && self.blocks.is_empty()
    }

    /// What was lost so far.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Times of the first and last timed record; `None` if no record has a time.
    #[must_use]
    pub fn times(&self) -> Option<(Time, Time)> {
        let mut times = self.blocks.iter().filter_map(|(_, header)| header.times);
        let (first, last) = times.next()?;
        Some((first, times.next_back().map_or(last, |(_, last)| last)))
    }

    /// Time between the first and the last timed record.
    #[must_use]
    pub fn length(&self) -> Option<Duration> {
        self.times().map(|(first, last)| last.since(first))
    }

    /// Unpacked bytes of all blocks.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.blocks
            .iter()
            .map(|(_, header)| u64::from(header.raw))
            .sum()
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The index at the end; `None` if there is none that can be trusted.
fn read_index(file: &mut (impl Read + Seek), len: u64) -> io::Result<Option<Vec<(u64, Header)>>> {
    let mut end = [0; 16];
    if len < (MAGIC.len() + 2 + HEADER + end.len()) as u64 {
        return Ok(None);
    }
    file.seek(SeekFrom::End(-(end.len() as i64)))?;
    file.read_exact(&mut end)?;
    if &end[8..] != END {
        return Ok(None);
    }
    let offset = take_u64(&mut &end[..8]).unwrap_or(u64::MAX);
    if offset > len - HEADER as u64 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(offset))?;
    let Some(header) = read_header(file)? else {
        return Ok(None);
    };
    if header.kind != INDEX {
        return Ok(None);
    }
    let Ok(body) = header.body(file) else {
        return Ok(None);
    };
    let mut blocks = Vec::new();
    for entry in body.chunks_exact(8 + HEADER) {
        let at = take_u64(&mut &entry[..8]).unwrap_or(u64::MAX);
        let header = entry[8..].first_chunk().and_then(Header::from_bytes);
        match header {
            Some(header) if at < offset => blocks.push((at, header)),
            _ => return Ok(None),
        }
    }
    Ok(Some(blocks))
}

/// Without an index: hops from header to header.
fn scan(file: &mut (impl Read + Seek), len: u64) -> io::Result<(Vec<(u64, Header)>, Losses)> {
    let (mut blocks, mut losses) = (Vec::new(), Losses::default());
    let mut at = (MAGIC.len() + 2) as u64;
    while at < len {
        file.seek(SeekFrom::Start(at))?;
        let header = read_header(file)?;
        let end = header.map(|header| at + HEADER as u64 + u64::from(header.packed));
        let (Some(header), Some(end)) = (header, end.filter(|&end| end <= len)) else {
            losses.torn_bytes = len - at;
            break;
        };
        match header.kind {
            RECORDS => blocks.push((at, header)),
            INDEX => {}
            _ => losses.unknown += 1,
        }
        at = end;
    }
    Ok((blocks, losses))
}

fn read_header(file: &mut impl Read) -> io::Result<Option<Header>> {
    let mut bytes = [0; HEADER];
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(Header::from_bytes(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// A block of this many bytes fits in memory more than once.
const _: () = assert!(LARGEST <= 64 << 20);
