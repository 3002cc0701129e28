//! What a line says behind the prefixes that loggers and launchers put in front, and when.

/// The words of a line, and its time of day if a prefix has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said<'a> {
    /// Hours, minutes and seconds, as printed.
    pub(super) time: Option<&'a str>,
    /// The rest.
    pub(super) words: &'a str,
}

/// Levels that loggers print as a word of their own.
const LEVELS: [&str; 6] = ["DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL"];

/// Steps over `(Worker_TP1 pid=3666) INFO 11-30 20:44:33 [model_runner.py:284] `, `[rank1]:`, `2025-11-30 …`.
pub(super) fn said(line: &str) -> Said<'_> {
    let mut said = Said {
        time: None,
        words: line.trim(),
    };
    while let Some(rest) = behind_prefix(said.words) {
        let prefix = &said.words[..said.words.len() - rest.len()];
        said.time = said.time.or_else(|| time_of_day(prefix));
        said.words = rest;
    }
    said
}

/// The text behind one prefix; nothing if there is none, or nothing but prefixes.
fn behind_prefix(text: &str) -> Option<&str> {
    let end = match text.chars().next()? {
        '(' => text.find(')')? + 1,
        '[' => text.find(']')? + 1,
        _ => text.find(' ')?,
    };
    let word = text.get(..end)?;
    let bracketed = word.starts_with(['(', '[']);
    // Dates and times; a number alone may be what the line says.
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let marks = word.bytes().filter(|b| b":-/".contains(b)).count();
    let clock = digits >= 4 && marks >= 1 && digits + marks + 4 >= word.len();
    if !bracketed && !clock && !LEVELS.contains(&word.trim_end_matches(':')) {
        return None;
    }
    let rest = text.get(end..)?.trim_start_matches(':').trim_start();
    (!rest.is_empty()).then_some(rest)
}

/// `20:44:33` in `11-30 20:44:33.127`.
fn time_of_day(prefix: &str) -> Option<&str> {
    let bytes = prefix.as_bytes();
    let fits = |at: &usize| {
        let Some(window) = bytes.get(*at..*at + 8) else {
            return false;
        };
        let shape = window.iter().enumerate().all(|(n, byte)| {
            if n == 2 || n == 5 {
                *byte == b':'
            } else {
                byte.is_ascii_digit()
            }
        });
        let free = *at == 0 || !bytes[*at - 1].is_ascii_digit();
        shape && free
    };
    let at = (0..bytes.len()).find(fits)?;
    prefix.get(at..at + 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_no_words() {
        let of = |line| {
            let Said { time, words } = said(line);
            (time, words)
        };
        let vllm = "(Worker_TP1 pid=3666) INFO 11-30 20:44:33 [model_runner.py:284] Loading model from scratch...";
        assert_eq!(
            of(vllm),
            (Some("20:44:33"), "Loading model from scratch...")
        );
        assert_eq!(of("[rank1]: step 12 ok"), (None, "step 12 ok"));
        assert_eq!(
            of("2025-11-30T12:00:01.250Z WARNING: slow [disk] here"),
            (Some("12:00:01"), "slow [disk] here")
        );
        assert_eq!(of("12 steps (of 20) done"), (None, "12 steps (of 20) done"));
        assert_eq!(of("[1, 2, 3]"), (None, "[1, 2, 3]"));
        assert_eq!(of(""), (None, ""));
    }
}
