//! A block's header: enough to skip it, to seek by time and to know that it is whole.

use std::io::{self, Read};

use super::NO_TIME;
use crate::engine::input::Time;

/// Bytes of a header.
pub(crate) const HEADER: usize = 1 + 4 + 4 + 4 + 8 + 8 + 4;
/// Raw bytes after which a block is closed.
pub(crate) const TARGET: usize = 256 << 10;
/// Larger blocks are not ours: a block is closed after the record that fills it, and the largest
/// record is one chunk of a source.
pub(crate) const LARGEST: u32 = 32 << 20;

/// Records.
pub(crate) const RECORDS: u8 = 1;
/// The index.
pub(crate) const INDEX: u8 = 2;

/// What a block's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) packed: u32,
    pub(crate) raw: u32,
    pub(crate) records: u32,
    /// Times of the first and last timed record, in this order even if clocks went back.
    pub(crate) times: Option<(Time, Time)>,
    pub(crate) crc: u32,
}

impl Header {
    /// Fills in the checksum.
    pub(crate) fn seal(mut self, packed: &[u8]) -> Self {
        self.crc = self.checksum(packed);
        self
    }

    /// The checksum that belongs to this header and these bytes.
    pub(crate) fn checksum(&self, packed: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.to_bytes()[..HEADER - 4]);
        hasher.update(packed);
        hasher.finalize()
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let (first, last) = self
            .times
            .map_or((NO_TIME, NO_TIME), |(first, last)| (first.0, last.0));
        let mut out = [0; HEADER];
        out[0] = self.kind;
        out[1..5].copy_from_slice(&self.packed.to_le_bytes());
        out[5..9].copy_from_slice(&self.raw.to_le_bytes());
        out[9..13].copy_from_slice(&self.records.to_le_bytes());
        out[13..21].copy_from_slice(&first.to_le_bytes());
        out[21..29].copy_from_slice(&last.to_le_bytes());
        out[29..33].copy_from_slice(&self.crc.to_le_bytes());
        out
    }

    /// `None` if the numbers cannot be true.
    pub(crate) fn from_bytes(bytes: &[u8; HEADER]) -> Option<Self> {
        let mut rest = &bytes[1..];
        let packed = take_u32(&mut rest)?;
        let raw = take_u32(&mut rest)?;
        let records = take_u32(&mut rest)?;
        let (first, last) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
        let times = (first != NO_TIME).then_some((Time(first), Time(last)));
        let header = Self {
            kind: bytes[0],
            packed,
            raw,
            records,
            times,
            crc: take_u32(&mut rest)?,
        };
        let sane = header.kind != 0 && packed <= LARGEST && raw <= LARGEST && packed > 0;
        sane.then_some(header)
    }

    /// Reads the packed bytes behind the header, checks and unpacks them.
    pub(crate) fn body(&self, file: &mut impl Read) -> io::Result<Vec<u8>> {
        let mut packed = Vec::new();
        file.take(u64::from(self.packed)).read_to_end(&mut packed)?;
        if packed.len() != self.packed as usize || self.checksum(&packed) != self.crc {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the checksum is wrong",
            ));
        }
        zstd::bulk::decompress(&packed, self.raw as usize)
    }
}

pub(crate) fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (front, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_le_bytes(*front))
}

pub(crate) fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    let (front, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*front))
}
