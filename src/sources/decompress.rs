//! Logs saved as `.gz` (several members too) and `.zst`, with a limit on how far they may expand.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// Every packed file may expand to this much.
const FREE: u64 = 256 << 20;
/// Beyond [`FREE`], the ratio that real logs stay below (gzip itself ends at 1,032).
const RATIO: u64 = 1_200;

impl Packing {
    /// Tells by the first bytes.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// Opens a file for reading from its start to its end, unpacked.
///
/// # Errors
/// If it cannot be opened.
pub fn open(path: &Path, packing: Packing) -> io::Result<Box<dyn Read + Send>> {
    let file = File::open(path)?;
    match packing {
        Packing::Plain => Ok(Box::new(file)),
        Packing::Gzip | Packing::Zstd => unpack(file, packing),
    }
}

/// Unpacks a stream. The result fails with `InvalidData` once it expands beyond reason.
///
/// # Errors
/// If the decompressor cannot be set up.
pub fn unpack(
    packed: impl Read + Send + 'static,
    packing: Packing,
) -> io::Result<Box<dyn Read + Send>> {
    let taken = Arc::new(AtomicU64::new(0));
    let counted = BufReader::with_capacity(
        64 << 10,
        Counted {
            inner: packed,
            taken: Arc::clone(&taken),
        },
    );
    let inner: Box<dyn Read + Send> = match packing {
        Packing::Plain => return Ok(Box::new(counted)),
        Packing::Gzip => Box::new(Members::new(counted)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(counted)?),
    };
    Ok(Box::new(Guarded {
        inner,
        taken,
        given: Cell::new(0),
    }))
}

/// The members of a gzip file, one after another. Zeros after the last one are padding, as gunzip has
/// it; anything else there is an error after all that was packed.
enum Members<R> {
    Inside(flate2::bufread::GzDecoder<R>),
    Over,
}

impl<R: BufRead> Members<R> {
    fn new(packed: R) -> Self {
        Self::Inside(flate2::bufread::GzDecoder::new(packed))
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let Self::Inside(member) = self else {
                return Ok(0);
            };
            let n = member.read(buf)?;
            if n > 0 || buf.is_empty() {
                return Ok(n);
            }
            let Self::Inside(member) = std::mem::replace(self, Self::Over) else {
                return Ok(0);
            };
            let mut packed = member.into_inner();
            let mut padded = false;
            *self = loop {
                let next = packed.fill_buf()?;
                match next.first() {
                    None => break Self::Over,
                    Some(0) => {
                        let zeros = next.iter().take_while(|byte| **byte == 0).count();
                        packed.consume(zeros);
                        padded = true;
                    }
                    Some(0x1f) if !padded => break Self::new(packed),
                    Some(_) => {
                        let text = "something else follows the compressed log; the log was used";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                    }
                }
            };
        }
    }
}

/// Counts the packed bytes.
struct Counted<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Stops a stream that expands beyond reason.
struct Guarded {
    inner: Box<dyn Read + Send>,
    taken: Arc<AtomicU64>,
    given: Cell<u64>,
}

impl Read for Guarded {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        let given = self.given.get() + n as u64;
        self.given.set(given);
        let allowed = FREE.max(self.taken.load(Ordering::Relaxed).saturating_mul(RATIO));
        if given > allowed {
            let text = format!("expands more than {RATIO} times, which no log does");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(packed: Vec<u8>) -> io::Result<Vec<u8>> {
        let packing = Packing::of(&packed);
        let mut out = Vec::new();
        unpack(io::Cursor::new(packed), packing)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn several_members_are_one_log() {
        let packed = [gzip(b"one\n"), gzip(b"two\n")].concat();
        assert_eq!(unpacked(packed).unwrap(), b"one\ntwo\n");
        let packed = [
            zstd::encode_all(&b"one\n"[..], 1).unwrap(),
            zstd::encode_all(&b"two\n"[..], 1).unwrap(),
        ];
        assert_eq!(unpacked(packed.concat()).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn zeros_after_a_log_are_padding_and_garbage_is_told_after_it() {
        let padded = [gzip(b"one\n"), gzip(b"two\n"), vec![0; 70_000]].concat();
        assert_eq!(unpacked(padded).unwrap(), b"one\ntwo\n");
        for rest in [&b"garbage"[..], b"\0\0garbage"] {
            let packed = [&gzip(b"one\n")[..], rest].concat();
            let mut out = Vec::new();
            let mut reader = unpack(io::Cursor::new(packed), Packing::Gzip).unwrap();
            let error = reader.read_to_end(&mut out).unwrap_err();
            assert_eq!(out, b"one\n");
            assert!(
                error.to_string().contains("follows the compressed log"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_cut_stream_is_an_error_after_its_bytes() {
        let mut packed = gzip(b"hello\n");
        packed.truncate(packed.len() - 4);
        assert_eq!(
            unpacked(packed).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn a_bomb_is_stopped() {
        let zeros = io::repeat(0).take(FREE + (64 << 20));
        let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
        io::copy(&mut zeros.take(FREE + (64 << 20)), &mut packer).unwrap();
        let packed = packer.finish().unwrap();
        let mut reader = unpack(io::Cursor::new(packed), Packing::Zstd).unwrap();
        let error = io::copy(&mut reader, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
