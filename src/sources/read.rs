//! Reads a saved file once, from its start to its end.

use std::io::{ErrorKind, Read};

use super::decompress;
use super::discover::Log;
use crate::error::InputError;

/// Bytes asked for at once: few system calls, and small enough for the cache beside the engine.
pub const CHUNK: usize = 512 << 10;

/// Reads files one at a time with one buffer.
pub struct Reader {
    buf: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            buf: vec![0; CHUNK],
        }
    }
}

impl Reader {
    /// Hands every chunk and its offset to `sink`; returns the number of bytes.
    ///
    /// # Errors
    /// If the file cannot be opened, or reading stops early; `sink` has then got what came before.
    pub fn read(&mut self, log: &Log, sink: &mut dyn FnMut(u64, &[u8])) -> Result<u64, InputError> {
        let mut body = decompress::open(&log.path, log.packing)
            .map_err(|error| InputError::io("open", &log.path, &error))?;
        self.drain(&mut body, sink)
            .map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof => {
                    InputError::because("read", &log.path, "the compressed file is cut off")
                }
                _ => InputError::io("read", &log.path, &error),
            })
    }

    /// Reads a file whole, as answers and dumps are, `most` bytes of it and one more if there are more:
    /// who gets them then sees that it is too long.
    ///
    /// # Errors
    /// If it cannot be opened or read.
    pub fn whole(log: &Log, most: usize) -> Result<Vec<u8>, InputError> {
        let body = decompress::open(&log.path, log.packing)
            .map_err(|error| InputError::io("open", &log.path, &error))?;
        let mut bytes = Vec::new();
        body.take(most as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| InputError::io("read", &log.path, &error))?;
        Ok(bytes)
    }

    /// The same for anything that can be read.
    ///
    /// # Errors
    /// The first error of the stream.
    pub fn drain(
        &mut self,
        body: &mut dyn Read,
        sink: &mut dyn FnMut(u64, &[u8]),
    ) -> std::io::Result<u64> {
        let mut offset = 0;
        loop {
            match body.read(&mut self.buf) {
                Ok(0) => return Ok(offset),
                Ok(n) => {
                    sink(offset, &self.buf[..n]);
                    offset += n as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
