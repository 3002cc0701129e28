//! Reads a message from its start, piece by piece.

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Steps over a literal.
    pub(super) fn lit(&mut self, literal: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(literal)?;
        Some(())
    }

    /// Steps over a literal if it is there.
    pub(super) fn has(&mut self, literal: &[u8]) -> bool {
        self.lit(literal).is_some()
    }

    /// A decimal number.
    pub(super) fn dec(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        let mut n = 0;
        while let Some(digit) = self
            .0
            .get(n)
            .map(|b| b.wrapping_sub(b'0'))
            .filter(|d| *d < 10)
        {
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
            n += 1;
        }
        self.0 = &self.0[n..];
        (n > 0).then_some(value)
    }

    /// A decimal number that fits 32 bits.
    pub(super) fn dec32(&mut self) -> Option<u32> {
        u32::try_from(self.dec()?).ok()
    }

    /// A decimal number with a sign.
    pub(super) fn int(&mut self) -> Option<i64> {
        let negative = self.has(b"-");
        let value = i64::try_from(self.dec()?).ok()?;
        Some(if negative { -value } else { value })
    }

    /// A hexadecimal number, with or without `0x`; `(nil)` is 0.
    pub(super) fn hex(&mut self) -> Option<u64> {
        if self.has(b"(nil)") {
            return Some(0);
        }
        self.has(b"0x");
        let mut value = 0_u64;
        let mut n = 0;
        while let Some(digit) = self.0.get(n).and_then(|b| hex_digit(*b)) {
            if n == 16 {
                return None;
            }
            value = value << 4 | u64::from(digit);
            n += 1;
        }
        self.0 = &self.0[n..];
        (n > 0).then_some(value)
    }

    /// The bytes up to a space or the end.
    pub(super) fn word(&mut self) -> &'a [u8] {
        let end = memchr::memchr(b' ', self.0).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// The bytes up to a literal, which is stepped over.
    pub(super) fn until(&mut self, literal: &[u8]) -> Option<&'a [u8]> {
        let at = memchr::memmem::find(self.0, literal)?;
        let found = &self.0[..at];
        self.0 = &self.0[at + literal.len()..];
        Some(found)
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
