//! How bad a line of a log is by its own word, whoever wrote it.

use std::sync::LazyLock;

use regex::Regex;

use super::theme::Tone;

/// What a line calls itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// An error, or a traceback.
    Error,
    /// A warning; NCCL calls its errors so, too.
    Warn,
    /// Nothing, or that it is information.
    #[default]
    Plain,
}

/// `[E1130 19:43:01` of PyTorch and glog.
static HEAD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:^|[\[\s])([IWEF])\d{4} \d\d:\d\d:\d\d").ok());
/// A level in capitals, as loggers print it.
static WORD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b(ERROR|FATAL|CRITICAL|WARNING|WARN|INFO|DEBUG|TRACE)\b").ok());
/// The last line of a Python traceback, and the first.
static RAISED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:\[[^\]]*\]:? ?)*(?:Traceback \(most recent|[A-Za-z_.]*(?:Error|Exception)\b)")
        .ok()
});

impl Level {
    /// The level of a line.
    #[must_use]
    pub fn of(text: &str) -> Self {
        // What NCCL prints says its level behind its own name, whatever its text is about.
        let said = text.split(" NCCL ").skip(1).find_map(|rest| {
            let (word, _) = rest.split_once(' ')?;
            match word {
                "WARN" | "ATTN" => Some(Self::Warn),
                "INFO" | "TRACE" | "CALL" => Some(Self::Plain),
                _ => None,
            }
        });
        if let Some(level) = said {
            return level;
        }
        let found = |pattern: &LazyLock<Option<Regex>>| {
            let found = pattern.as_ref()?.captures(text)?;
            Some(found.get(1)?.as_str().chars().next().unwrap_or(' '))
        };
        match found(&HEAD).or_else(|| found(&WORD)) {
            Some('E' | 'F' | 'C') => Self::Error,
            Some('W') => Self::Warn,
            Some(_) => Self::Plain,
            None if RAISED.as_ref().is_some_and(|r| r.is_match(text)) => Self::Error,
            None => Self::Plain,
        }
    }

    /// Its letter, so that it is not told by colour alone.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Error => "E",
            Self::Warn => "W",
            Self::Plain => " ",
        }
    }

    /// How it looks.
    #[must_use]
    pub fn tone(self) -> Tone {
        match self {
            Self::Error => Tone::Bad,
            Self::Warn => Tone::Warn,
            Self::Plain => Tone::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_how_bad_they_are() {
        for (level, text) in [
            (
                Level::Warn,
                "n:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed",
            ),
            (Level::Plain, "n:1:2 [0] NCCL INFO ERROR is in its text"),
            (
                Level::Error,
                "[rank3]:[E1130 19:43:01.954264601 ProcessGroupNCCL.cpp:632] timeout",
            ),
            (
                Level::Warn,
                "W1130 19:43:01.954000 123 torch/distributed/run.py:792] Setting OMP",
            ),
            (
                Level::Error,
                "[rank0]: torch.distributed.DistBackendError: NCCL error",
            ),
            (Level::Error, "Traceback (most recent call last):"),
            (
                Level::Error,
                "2024-11-30 19:43:01 ERROR trainer: loss is nan",
            ),
            (Level::Warn, "WARNING: no GPU"),
            (
                Level::Error,
                "[rank4]:[E1130 19:52:04.939672259 ProcessGroupNCCL.cpp:1914] Last enqueued NCCL work: 3",
            ),
            (Level::Plain, "step 3 loss 2.1, errors 0"),
        ] {
            assert_eq!(Level::of(text), level, "{text}");
        }
    }
}
