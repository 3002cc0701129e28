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

    /// Reads a file whole and unpacked, as dumps and answers of RAS are; `what` it is, in words. Of a packed file that
    /// is cut, what comes out of it: its reader sees that the end is missing.
    ///
    /// # Errors
    /// If it cannot be read, or is larger than `most` bytes.
    pub fn whole(file: &Log, most: usize, what: &str) -> Result<Vec<u8>, InputError> {
        let mut bytes = Vec::new();
        let most = most as u64;
        let mut body = decompress::open(&file.path, file.packing)
            .map_err(|error| InputError::io("open", &file.path, &error))?
            .take(most + 1);
        match body.read_to_end(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && !bytes.is_empty() => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let why = "the compressed file is cut off";
                return Err(InputError::because("read", &file.path, why));
            }
            Err(error) => return Err(InputError::io("read", &file.path, &error)),
            Ok(_) => {}
        }
        if bytes.len() as u64 > most {
            let why = format!("it is larger than {} MiB, which no {what} is", most >> 20);
            return Err(InputError::because("read", &file.path, why));
        }
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
