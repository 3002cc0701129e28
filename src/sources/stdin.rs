//! Standard input, and any other pipe: read as it comes.

use std::io::{ErrorKind, Read};

/// Bytes taken at once: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// Reads until the end and hands each piece, with its offset, to `sink` as soon as it is there.
/// Ends early when `sink` returns false. Blocks; run it on a thread of its own.
///
/// # Errors
/// The first error of the stream.
pub fn pump(
    mut stream: impl Read,
    mut sink: impl FnMut(u64, &[u8]) -> bool,
) -> std::io::Result<()> {
    let mut buf = vec![0; CHUNK];
    let mut offset = 0;
    loop {
        match stream.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                if !sink(offset, &buf[..n]) {
                    return Ok(());
                }
                offset += n as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
