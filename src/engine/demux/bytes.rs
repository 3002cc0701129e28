//! Small readers over bytes: each takes a piece off the front or answers `None`.

/// A decimal number that fits 32 bits, and the rest.
pub(super) fn number(text: &[u8]) -> Option<(u32, &[u8])> {
    let mut value: u32 = 0;
    let mut at = 0;
    while let Some(digit) = text
        .get(at)
        .map(|b| b.wrapping_sub(b'0'))
        .filter(|d| *d < 10)
    {
        value = value.checked_mul(10)?.checked_add(u32::from(digit))?;
        at += 1;
    }
    (at > 0).then(|| (value, &text[at..]))
}

/// A number with an optional minus, and the rest.
pub(super) fn signed(text: &[u8]) -> Option<(i64, &[u8])> {
    match text.strip_prefix(b"-") {
        Some(rest) => number(rest).map(|(n, rest)| (-i64::from(n), rest)),
        None => number(text).map(|(n, rest)| (i64::from(n), rest)),
    }
}

/// What stands before and behind the first `byte`, looking at no more than `within` bytes.
pub(super) fn split(text: &[u8], byte: u8, within: usize) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(byte, &text[..text.len().min(within)])?;
    Some((&text[..at], &text[at + 1..]))
}

/// A text that is only a number.
pub(super) fn whole_number(text: &[u8]) -> Option<u32> {
    number(text)
        .filter(|(_, rest)| rest.is_empty())
        .map(|(n, _)| n)
}

/// True if `text` has the shape of `pattern`, where `0` stands for a digit, `a` for a letter, `_` for a
/// digit or a space, and everything else for itself.
pub(super) fn shaped(text: &[u8], pattern: &[u8]) -> bool {
    text.len() >= pattern.len()
        && text.iter().zip(pattern).all(|(&b, &p)| match p {
            b'0' => b.is_ascii_digit(),
            b'a' => b.is_ascii_alphabetic(),
            b'_' => b.is_ascii_digit() || b == b' ',
            other => b == other,
        })
}

/// A byte of a host name (without the dot) or of an identifier.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The host name up to its first dot.
pub(super) fn short(host: &[u8]) -> &[u8] {
    match memchr::memchr(b'.', host) {
        Some(at) if at > 0 && !host[0].is_ascii_digit() => &host[..at],
        _ => host,
    }
}

/// The number at the end of `text`, and what stands before it.
pub(super) fn trailing_number(text: &[u8]) -> Option<(&[u8], u32)> {
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (before, number) = text.split_at(text.len() - digits);
    whole_number(number).map(|n| (before, n))
}

/// Nothing but white space.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_whitespace)
}
