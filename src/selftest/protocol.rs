//! What a child tells its parent: one JSON object a line on standard output, behind a mark. Whatever else
//! a library prints there is kept as a line of the rank's log.

use serde::{Deserialize, Serialize};

use super::check::Differs;

/// In front of every line of the protocol.
const MARK: &str = "@unhang ";
/// A longer line is no line of the protocol.
pub const LINE_BYTES: usize = 64 << 10;

/// What a rank does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The driver and libnccl are loaded.
    Load,
    /// The GPU alone: memory is allocated, written and read back.
    Device,
    /// Rank 0 makes the unique id, the others get it.
    UniqueId,
    /// `ncclCommInitRank`.
    Init,
    /// The first all-reduce: connections are made here.
    First,
    /// Every operation against the CPU's answer.
    Correctness,
    /// How fast.
    Bandwidth,
    /// The communicator is destroyed.
    Destroy,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Load,
        Self::Device,
        Self::UniqueId,
        Self::Init,
        Self::First,
        Self::Correctness,
        Self::Bandwidth,
        Self::Destroy,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Device => "device alone",
            Self::UniqueId => "unique id",
            Self::Init => "communicator",
            Self::First => "first all-reduce",
            Self::Correctness => "correctness",
            Self::Bandwidth => "bandwidth",
            Self::Destroy => "destroy",
        }
    }

    /// The call that has not returned while the step has not ended.
    #[must_use]
    pub fn call(self) -> &'static str {
        match self {
            Self::Load => "loading libcuda and libnccl",
            Self::Device => "using its GPU alone",
            Self::UniqueId => "ncclGetUniqueId",
            Self::Init => "ncclCommInitRank",
            Self::First => "the first ncclAllReduce",
            Self::Correctness => "the correctness checks",
            Self::Bandwidth => "the bandwidth test",
            Self::Destroy => "ncclCommDestroy",
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A step begins.
    Begin(Step),
    /// It ended well.
    End(Step),
    /// The unique id, in hexadecimal (rank 0).
    Id(String),
    /// Something found out: `nccl`, `gpu`, `memory`, …
    Fact {
        /// What.
        name: String,
        /// Its value.
        value: String,
    },
    /// An operation was compared with the CPU's answer.
    Check {
        /// `all-reduce sum float32`.
        what: String,
        /// Where it differs first.
        wrong: Option<Differs>,
    },
    /// A call of the bandwidth test returned.
    Called,
    /// An operation was timed.
    Timed {
        /// Operation.
        op: super::plan::Op,
        /// Bytes as NCCL's tests count them.
        bytes: u64,
        /// Seconds of one call, the mean of several.
        seconds: f64,
        /// What NCCL chose for it, where this rank's log tells.
        chosen: Option<super::tuning::Chosen>,
    },
    /// A step failed.
    Fail {
        /// Which.
        step: Step,
        /// NCCL's or the driver's words.
        what: String,
        /// `ncclGetLastError`, or more.
        detail: Option<String>,
    },
    /// All done.
    Done,
}

impl Event {
    /// Whether the rank got on: a step of many calls may take long, and one call may not.
    #[must_use]
    pub fn is_progress(&self) -> bool {
        match self {
            Self::Begin(_)
            | Self::End(_)
            | Self::Check { .. }
            | Self::Called
            | Self::Timed { .. } => true,
            Self::Id(_) | Self::Fact { .. } | Self::Fail { .. } | Self::Done => false,
        }
    }

    /// As a line, with its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let json = serde_json::to_string(self).expect("events are plain data");
        format!("{MARK}{json}\n")
    }

    /// Reads a line back; `None` if it is none of the protocol.
    #[must_use]
    pub fn from_line(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?.trim_end();
        serde_json::from_str(line.strip_prefix(MARK)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_heard() {
        for (got, word) in [
            (f64::NAN, "\"NaN\""),
            (f64::INFINITY, "\"inf\""),
            (f64::NEG_INFINITY, "\"-inf\""),
        ] {
            let said = Event::Check {
                what: "all-reduce of ones".to_owned(),
                wrong: Differs::first([(2.0, 2.0), (got, 2.0)].into_iter()),
            };
            let line = said.to_line();
            assert!(line.contains(word), "{line}");
            let Some(Event::Check {
                wrong: Some(heard), ..
            }) = Event::from_line(line.as_bytes())
            else {
                panic!("{line}");
            };
            assert_eq!((heard.element, heard.expected), (1, 2.0));
            assert_eq!(heard.got.to_string(), got.to_string());
        }
    }

    #[test]
    fn lines() {
        for event in [
            Event::Begin(Step::Init),
            Event::Id("00ff".to_owned()),
            Event::Check {
                what: "all-reduce sum float32".to_owned(),
                wrong: Some(Differs {
                    element: 3,
                    got: 1.0,
                    expected: 2.0,
                }),
            },
            Event::Done,
        ] {
            assert_eq!(Event::from_line(event.to_line().as_bytes()), Some(event));
        }
        for line in [
            "@unhang {",
            "NCCL version 2.28.9",
            "",
            "@unhang {\"begin\":\"x\"}",
        ] {
            assert_eq!(Event::from_line(line.as_bytes()), None, "{line}");
        }
    }
}
