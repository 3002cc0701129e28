//! Makes text of a log harmless: nothing in it is obeyed by a terminal, everything in it is seen.
//!
//! What comes out of here has no control character, no character without width and none that turns
//! the writing direction, so that its width is the sum of its characters' widths.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// Tab stops are this far apart.
const TAB: usize = 8;

/// Which characters may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Glyphs {
    /// Any.
    #[default]
    Unicode,
    /// Printable ASCII only.
    Ascii,
}

impl Glyphs {
    /// The sign that something was cut off.
    #[must_use]
    pub fn ellipsis(self) -> &'static str {
        self.pick("…", "...")
    }

    /// One of two spellings.
    #[must_use]
    pub fn pick<T>(self, unicode: T, ascii: T) -> T {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }
}

/// The text with everything harmful shown as a visible escape.
#[must_use]
pub fn harmless(text: &str, glyphs: Glyphs) -> Cow<'_, str> {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut column = 0;
    for c in text.chars() {
        column += push(&mut out, c, column, glyphs);
    }
    Cow::Owned(out)
}

/// The harmless text in `width` columns at most, with an ellipsis where something was cut off.
#[must_use]
pub fn fit(text: &str, width: usize, glyphs: Glyphs) -> String {
    let ellipsis = glyphs.ellipsis();
    let room = width.saturating_sub(self::width(ellipsis));
    let mut out = String::new();
    let mut column = 0;
    let mut cut = 0;
    for c in text.chars() {
        let grown = column + push(&mut out, c, column, glyphs);
        if grown > width {
            out.truncate(cut);
            if self::width(ellipsis) <= width {
                out.push_str(ellipsis);
            }
            return out;
        }
        column = grown;
        if column <= room {
            cut = out.len();
        }
    }
    out
}

/// The harmless text, cut or filled with blanks to exactly `width` columns.
#[must_use]
pub fn pad(text: &str, width: usize, glyphs: Glyphs) -> String {
    let mut out = fit(text, width, glyphs);
    let used = self::width(&out);
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    out
}

/// The harmless text from column `skip` on, in `width` columns at most.
#[must_use]
pub fn window(text: &str, skip: usize, width: usize, glyphs: Glyphs) -> String {
    let text = harmless(text, glyphs);
    let mut column = 0;
    let start = text
        .char_indices()
        .find(|(_, c)| {
            let here = column;
            column += c.width().unwrap_or(0);
            here >= skip
        })
        .map_or(text.len(), |(at, _)| at);
    fit(&text[start..], width, glyphs)
}

/// The harmless text broken into lines of `width` columns (two at least), at blanks where possible.
#[must_use]
pub fn wrap(text: &str, width: usize, glyphs: Glyphs) -> Vec<String> {
    wrap_after(text, width, width, glyphs)
}

/// The same where the first line has `first` columns and the others have `rest`.
#[must_use]
pub fn wrap_after(text: &str, first: usize, rest: usize, glyphs: Glyphs) -> Vec<String> {
    let room = |lines: &[String]| if lines.is_empty() { first } else { rest }.max(2);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let word = harmless(word, glyphs);
        let len = width(&word);
        if used > 0 && used + 1 + len <= room(&lines) {
            line.push(' ');
            line.push_str(&word);
            used += 1 + len;
            continue;
        }
        let fits_better_below = lines.is_empty() && len > first && first < rest;
        if used > 0 || fits_better_below {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        for c in word.chars() {
            let w = c.width().unwrap_or(0);
            if used > 0 && used + w > room(&lines) {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += w;
        }
    }
    if used > 0 {
        lines.push(line);
    }
    lines
}

/// Ends a harmless line with an ellipsis, within `width` columns.
pub fn elide(line: &mut String, width: usize, glyphs: Glyphs) {
    let ellipsis = glyphs.ellipsis();
    while self::width(line) + self::width(ellipsis) > width && line.pop().is_some() {}
    line.truncate(line.trim_end().len());
    line.push_str(ellipsis);
}

/// Columns that a harmless text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Appends a character or what stands for it; returns its width.
fn push(out: &mut String, c: char, column: usize, glyphs: Glyphs) -> usize {
    let start = out.len();
    match c {
        ' '..='~' => {
            out.push(c);
            return 1;
        }
        '\t' => {
            let blanks = TAB - column % TAB;
            out.extend(std::iter::repeat_n(' ', blanks));
            return blanks;
        }
        '\x1b' => out.push_str(glyphs.pick("␛", "^[")),
        '\0'..='\x1f' => {
            out.push('^');
            out.push(char::from(c as u8 + b'@'));
        }
        '\x7f' => out.push_str("^?"),
        '\u{80}'..='\u{9f}' => out.push_str(&format!("\\x{:02x}", c as u32)),
        '…' if glyphs == Glyphs::Ascii => out.push_str("..."),
        '→' if glyphs == Glyphs::Ascii => out.push_str("->"),
        _ if glyphs == Glyphs::Ascii || is_deceptive(c) => {
            out.push_str(&format!("\\u{{{:x}}}", c as u32));
        }
        _ => {
            out.push(c);
            return c.width().unwrap_or(0);
        }
    }
    width(&out[start..])
}

/// True for characters that cannot be seen or that change how others are seen.
pub(super) fn is_deceptive(c: char) -> bool {
    // U+FFFE, U+FFFF and their like on every plane are no characters at all.
    c.width().unwrap_or(0) == 0
        || c as u32 & 0xfffe == 0xfffe
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fdd0}'..='\u{fdef}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_a_terminal_would_obey() {
        let shown = harmless(
            "a\x1b[2J\x07\r\n\u{9b}31m\x7f\u{202e}x\u{200b}e\u{301}",
            Glyphs::Unicode,
        );
        assert_eq!(shown, "a␛[2J^G^M^J\\x9b31m^?\\u{202e}x\\u{200b}e\\u{301}");
        assert_eq!(harmless("é\x1b日", Glyphs::Ascii), "\\u{e9}^[\\u{65e5}");
    }

    #[test]
    fn expands_tabs_to_stops() {
        assert_eq!(
            harmless("ab\tc\t\td", Glyphs::Unicode),
            "ab      c               d"
        );
    }

    #[test]
    fn cuts_by_width_and_never_inside_a_wide_character() {
        assert_eq!(fit("abcdef", 6, Glyphs::Unicode), "abcdef");
        assert_eq!(fit("abcdefg", 6, Glyphs::Unicode), "abcde…");
        assert_eq!(fit("abcdefg", 6, Glyphs::Ascii), "abc...");
        assert_eq!(fit("日本語", 5, Glyphs::Unicode), "日本…");
        assert_eq!(fit("日本語", 4, Glyphs::Unicode), "日…");
        assert_eq!(fit("abc", 0, Glyphs::Unicode), "");
        assert_eq!(fit("abc", 2, Glyphs::Ascii), "");
    }

    #[test]
    fn windows_and_pads() {
        assert_eq!(window("abcdefgh", 3, 3, Glyphs::Unicode), "de…");
        assert_eq!(window("ab", 5, 3, Glyphs::Unicode), "");
        assert_eq!(pad("日", 4, Glyphs::Unicode), "日  ");
    }

    #[test]
    fn wraps_at_blanks_and_breaks_long_words() {
        assert_eq!(
            wrap("one two three", 7, Glyphs::Unicode),
            ["one two", "three"]
        );
        assert_eq!(
            wrap("abcdefgh ij", 4, Glyphs::Unicode),
            ["abcd", "efgh", "ij"]
        );
        assert!(wrap(" \n ", 4, Glyphs::Unicode).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn nothing_harmful_comes_out(text in "\\PC*|(.|[\\x00-\\x1f\\x7f-\\x9f])*", size in 0usize..40) {
            for glyphs in [Glyphs::Unicode, Glyphs::Ascii] {
                let whole = harmless(&text, glyphs).into_owned();
                let mut shown = wrap(&text, size, glyphs);
                shown.push(whole);
                shown.push(fit(&text, size, glyphs));
                for piece in &shown {
                    assert!(piece.chars().all(|c| !c.is_control() && !is_deceptive(c)), "{piece:?}");
                    assert!(glyphs == Glyphs::Unicode || piece.is_ascii());
                }
                assert!(width(&fit(&text, size, glyphs)) <= size);
                assert_eq!(width(&pad(&text, size, glyphs)), size);
            }
        }
    }
}
