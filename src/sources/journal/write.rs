//! Writes a journal.

use std::io::{self, Write};

use super::block::{HEADER, Header, INDEX, RECORDS, TARGET};
use super::{END, MAGIC, VERSION, codec};
use crate::engine::input::{Input, Time};

/// Packs records into blocks and hands finished pieces of the file to a [`Write`].
pub struct Writer<W> {
    out: W,
    at: u64,
    block: Vec<u8>,
    records: u32,
    before: u64,
    times: Option<(Time, Time)>,
    index: Vec<(u64, Header)>,
}

impl<W: Write> Writer<W> {
    /// Begins a journal.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let at = (MAGIC.len() + 2) as u64;
        Ok(Self {
            out,
            at,
            block: Vec::new(),
            records: 0,
            before: 0,
            times: None,
            index: Vec::new(),
        })
    }

    /// Adds one input. Written when the block is full; see [`Writer::flush`].
    ///
    /// # Errors
    /// If `out` fails.
    pub fn append(&mut self, seen: Option<Time>, input: &Input<'_>) -> io::Result<()> {
        codec::encode(&mut self.block, &mut self.before, seen, input);
        self.records += 1;
        if let Some(now) = seen {
            let first = self.times.map_or(now, |(first, _)| first);
            self.times = Some((first, now));
        }
        if self.block.len() >= TARGET {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Closes the block that is being filled: what was added so far survives a crash.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        let header = Header {
            kind: RECORDS,
            packed: 0,
            raw: 0,
            records: std::mem::take(&mut self.records),
            times: self.times.take(),
            crc: 0,
        };
        self.before = 0;
        let header = self.write_block(header, &block)?;
        self.index
            .push((self.at - u64::from(header.packed) - HEADER as u64, header));
        self.block = block;
        self.block.clear();
        self.out.flush()
    }

    /// Writes the last block and the index.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        let offset = self.at;
        let mut index = Vec::with_capacity(self.index.len() * (8 + HEADER));
        for (at, header) in &self.index {
            index.extend_from_slice(&at.to_le_bytes());
            index.extend_from_slice(&header.to_bytes());
        }
        let header = Header {
            kind: INDEX,
            packed: 0,
            raw: 0,
            records: 0,
            times: None,
            crc: 0,
        };
        self.write_block(header, &index)?;
        self.out.write_all(&offset.to_le_bytes())?;
        self.out.write_all(END)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_block(&mut self, header: Header, raw: &[u8]) -> io::Result<Header> {
        let packed = zstd::bulk::compress(raw, 1)?;
        let too_large = |_| io::Error::new(io::ErrorKind::InvalidInput, "a record is too large");
        let header = Header {
            packed: u32::try_from(packed.len()).map_err(too_large)?,
            raw: u32::try_from(raw.len()).map_err(too_large)?,
            ..header
        }
        .seal(&packed);
        self.out.write_all(&header.to_bytes())?;
        self.out.write_all(&packed)?;
        self.at += HEADER as u64 + packed.len() as u64;
        Ok(header)
    }
}
