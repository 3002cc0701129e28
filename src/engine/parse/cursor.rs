//! Reads a message from its start, piece by piece.

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Cursor<'a>(pub(in crate::engine) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Steps over a literal. Its length is part of the type, so that no loop compares it.
    #[inline]
    pub(in crate::engine) fn lit<const N: usize>(&mut self, literal: &[u8; N]) -> Option<()> {
        let (begins, rest) = self.0.split_first_chunk::<N>()?;
        if begins != literal {
            return None;
        }
        self.0 = rest;
        Some(())
    }

    /// Steps over a literal if it is there.
    #[inline]
    pub(in crate::engine) fn has<const N: usize>(&mut self, literal: &[u8; N]) -> bool {
        self.lit(literal).is_some()
    }

    /// A decimal number.
    #[inline]
    pub(in crate::engine) fn dec(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        let mut n = 0;
        for byte in self.0 {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            n += 1;
        }
        // Up to 19 digits fit whatever they are.
        if n > 19 {
            value = str::from_utf8(&self.0[..n]).ok()?.parse().ok()?;
        }
        self.0 = &self.0[n..];
        (n > 0).then_some(value)
    }

    /// A decimal number that fits 32 bits.
    #[inline]
    pub(in crate::engine) fn dec32(&mut self) -> Option<u32> {
        u32::try_from(self.dec()?).ok()
    }

    /// A decimal number with a sign.
    #[inline]
    pub(in crate::engine) fn int(&mut self) -> Option<i64> {
        let negative = self.has(b"-");
        let value = i64::try_from(self.dec()?).ok()?;
        Some(if negative { -value } else { value })
    }

    /// A hexadecimal number, with or without `0x`; `(nil)` is 0.
    #[inline]
    pub(in crate::engine) fn hex(&mut self) -> Option<u64> {
        if self.has(b"(nil)") {
            return Some(0);
        }
        self.has(b"0x");
        let mut value = 0_u64;
        let mut n = 0;
        for byte in self.0 {
            let digit = HEX[usize::from(*byte)];
            if digit > 15 {
                break;
            }
            value = value << 4 | u64::from(digit);
            n += 1;
        }
        self.0 = &self.0[n..];
        (1..=16).contains(&n).then_some(value)
    }

    /// The bytes up to a space or the end.
    #[inline]
    pub(in crate::engine) fn word(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|b| *b == b' ');
        let end = end.unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// The bytes up to a literal, which is stepped over.
    pub(in crate::engine) fn until(&mut self, literal: &[u8]) -> Option<&'a [u8]> {
        let at = memchr::memmem::find(self.0, literal)?;
        let found = &self.0[..at];
        self.0 = &self.0[at + literal.len()..];
        Some(found)
    }
}

/// The value of a hexadecimal digit; 255 for every other byte.
const HEX: [u8; 256] = {
    let mut table = [255; 256];
    let digits = *b"0123456789abcdef";
    let mut value = 0;
    while value < 16 {
        table[digits[value] as usize] = value as u8;
        table[digits[value].to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    table
};
