//! Logs saved as `.gz` (several members too) and `.zst`, with a limit on how far they may expand.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
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
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(counted)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(counted)?),
    };
    Ok(Box::new(Guarded {
        inner,
        taken,
        given: Cell::new(0),
    }))
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
