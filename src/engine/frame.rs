//! Bytes to lines: any chunks in, the same lines out.
//!
//! `\n`, `\r\n` and a lone `\r` (progress bars) end a line. A line that lies whole in a chunk is
//! borrowed from it; only a line across chunk edges is assembled here.

use memchr::memchr3_iter;

use super::limits::LINE_BYTES;

const ESC: u8 = 0x1b;

/// One line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// The line, cut at [`LINE_BYTES`].
    pub bytes: &'a [u8],
    /// Line number from 1. Only `\n` counts, as editors and `grep -n` do: what a progress bar
    /// overwrote with `\r` shares the number.
    pub number: u64,
    /// Offset of its first byte in the source.
    pub offset: u64,
    /// It may hold escape sequences.
    pub escapes: bool,
    /// It was ended by `\r` (which a `\n` may follow).
    pub by_return: bool,
}

/// Cuts one source into lines.
#[derive(Clone, Debug)]
pub struct Framer {
    /// The unfinished line of earlier chunks.
    carry: Vec<u8>,
    carry_offset: u64,
    escapes: bool,
    after_return: bool,
    number: u64,
    next_offset: u64,
    lines: u64,
    dropped: u64,
}

impl Default for Framer {
    fn default() -> Self {
        Self {
            carry: Vec::new(),
            carry_offset: 0,
            escapes: false,
            after_return: false,
            number: 1,
            next_offset: 0,
            lines: 0,
            dropped: 0,
        }
    }
}

impl Framer {
    /// Lines ended so far, empty ones too.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Bytes cut off lines that were too long.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes the next bytes. `offset` is where they stand in the source; a gap ends the line before it.
    pub fn feed(&mut self, offset: u64, chunk: &[u8], each: &mut impl FnMut(Framed<'_>)) {
        if offset != self.next_offset {
            self.finish(each);
            self.after_return = false;
        }
        self.next_offset = offset + chunk.len() as u64;
        let mut start = 0;
        for at in memchr3_iter(b'\n', b'\r', ESC, chunk) {
            let byte = chunk[at];
            if byte == ESC {
                self.escapes = true;
                continue;
            }
            if byte == b'\n' && at == start && self.after_return {
                self.number += 1;
                self.after_return = false;
                start = at + 1;
                continue;
            }
            self.line(
                &chunk[start..at],
                offset + start as u64,
                byte == b'\r',
                each,
            );
            self.after_return = byte == b'\r';
            if byte == b'\n' {
                self.number += 1;
            }
            start = at + 1;
        }
        if start < chunk.len() {
            self.after_return = false;
            self.keep(&chunk[start..], offset + start as u64);
        }
    }

    /// Hands out the unfinished last line, if any.
    pub fn finish(&mut self, each: &mut impl FnMut(Framed<'_>)) {
        if !self.carry.is_empty() {
            self.line(b"", self.next_offset, false, each);
        }
    }

    /// Begins again at offset 0; the counters go on.
    pub fn restart(&mut self) {
        *self = Self {
            lines: self.lines,
            dropped: self.dropped,
            ..Self::default()
        };
    }

    fn line(
        &mut self,
        tail: &[u8],
        offset: u64,
        by_return: bool,
        each: &mut impl FnMut(Framed<'_>),
    ) {
        self.lines += 1;
        let escapes = std::mem::take(&mut self.escapes);
        let number = self.number;
        if self.carry.is_empty() {
            let skipped = leading_nuls(tail);
            let whole = &tail[skipped..];
            let bytes = &whole[..whole.len().min(LINE_BYTES)];
            self.dropped += (whole.len() - bytes.len()) as u64;
            each(Framed {
                bytes,
                number,
                offset: offset + skipped as u64,
                escapes,
                by_return,
            });
            return;
        }
        self.keep(tail, offset);
        each(Framed {
            bytes: &self.carry,
            number,
            offset: self.carry_offset,
            escapes,
            by_return,
        });
        self.carry.clear();
        if self.carry.capacity() > LINE_BYTES / 4 {
            self.carry.shrink_to(0);
        }
    }

    fn keep(&mut self, mut bytes: &[u8], offset: u64) {
        if self.carry.is_empty() {
            // A file truncated under its writer starts with a hole of NULs: they are no text.
            let skipped = leading_nuls(bytes);
            bytes = &bytes[skipped..];
            self.carry_offset = offset + skipped as u64;
        }
        let room = LINE_BYTES - self.carry.len();
        let kept = bytes.len().min(room);
        self.carry.extend_from_slice(&bytes[..kept]);
        self.dropped += (bytes.len() - kept) as u64;
    }
}

fn leading_nuls(bytes: &[u8]) -> usize {
    if bytes.first() != Some(&0) {
        return 0;
    }
    bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len())
}
