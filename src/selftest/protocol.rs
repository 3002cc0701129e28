//! What a child tells its parent: one JSON object a line on standard output, behind a mark. Whatever else
//! a library prints there is kept as a line of the rank's log.

use serde::{Deserialize, Serialize};

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
        /// Where it differs first: element, got, expected.
        wrong: Option<(u64, f64, f64)>,
    },
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
    fn lines() {
        for event in [
            Event::Begin(Step::Init),
            Event::Id("00ff".to_owned()),
            Event::Check {
                what: "all-reduce sum float32".to_owned(),
                wrong: Some((3, 1.0, 2.0)),
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
