//! An input that owns its bytes, so that it can wait in a queue or in a journal.

use crate::engine::ids::SourceId;
use crate::engine::input::{Input, Time};

/// One input and when it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was seen; `None` for saved logs, which carry no arrival times.
    pub seen: Option<Time>,
    /// What was seen.
    pub what: What,
}

/// An [`Input`] without a borrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Bytes of a source, see [`Input::Bytes`].
    Bytes {
        /// The source.
        source: SourceId,
        /// Bytes of the source before this chunk.
        offset: u64,
        /// The bytes.
        chunk: Vec<u8>,
    },
    /// A whole answer, see [`Input::Ras`].
    Ras {
        /// The source.
        source: SourceId,
        /// The answer.
        reply: Vec<u8>,
    },
    /// A dump, see [`Input::Dump`].
    Dump {
        /// The source.
        source: SourceId,
        /// The file, unpacked.
        bytes: Vec<u8>,
    },
    /// Everything else; never what the other variants are for when made by [`What::from_input`].
    Other(Input<'static>),
}

impl What {
    /// Copies the bytes, if there are any.
    #[must_use]
    pub fn from_input(input: &Input<'_>) -> Self {
        match input {
            Input::Bytes {
                source,
                offset,
                chunk,
            } => Self::Bytes {
                source: *source,
                offset: *offset,
                chunk: chunk.to_vec(),
            },
            Input::Ras { source, reply } => Self::Ras {
                source: *source,
                reply: reply.to_vec(),
            },
            Input::Dump { source, bytes } => Self::Dump {
                source: *source,
                bytes: bytes.to_vec(),
            },
            Input::Source(info) => Self::Other(Input::Source(info.clone())),
            Input::Rotated(source) => Self::Other(Input::Rotated(*source)),
            Input::Truncated(source) => Self::Other(Input::Truncated(*source)),
            Input::Ended {
                source,
                why,
                detail,
            } => Self::Other(Input::Ended {
                source: *source,
                why: *why,
                detail: detail.clone(),
            }),
            Input::Process {
                host,
                pid,
                state,
                load,
            } => Self::Other(Input::Process {
                host: host.clone(),
                pid: *pid,
                state: *state,
                load: *load,
            }),
            Input::Gpu { host, sample } => Self::Other(Input::Gpu {
                host: host.clone(),
                sample: sample.clone(),
            }),
            Input::Claim { stuck_for } => Self::Other(Input::Claim {
                stuck_for: *stuck_for,
            }),
            Input::Tick => Self::Other(Input::Tick),
        }
    }

    /// The input, borrowed, as the engine takes it.
    #[must_use]
    pub fn as_input(&self) -> Input<'_> {
        match self {
            Self::Bytes {
                source,
                offset,
                chunk,
            } => Input::Bytes {
                source: *source,
                offset: *offset,
                chunk,
            },
            Self::Ras { source, reply } => Input::Ras {
                source: *source,
                reply,
            },
            Self::Dump { source, bytes } => Input::Dump {
                source: *source,
                bytes,
            },
            Self::Other(input) => input.clone(),
        }
    }

    /// Bytes it carries.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes { chunk, .. } => chunk.len() as u64,
            Self::Ras { reply, .. } => reply.len() as u64,
            Self::Dump { bytes, .. } => bytes.len() as u64,
            Self::Other(_) => 0,
        }
    }

    /// True if it carries no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The source it is about, if it is about one.
    #[must_use]
    pub fn source(&self) -> Option<SourceId> {
        match self {
            Self::Bytes { source, .. } | Self::Ras { source, .. } | Self::Dump { source, .. } => {
                Some(*source)
            }
            Self::Other(input) => match input {
                Input::Source(info) => Some(info.id),
                Input::Rotated(source) | Input::Truncated(source) => Some(*source),
                Input::Bytes { source, .. }
                | Input::Ras { source, .. }
                | Input::Dump { source, .. }
                | Input::Ended { source, .. } => Some(*source),
                Input::Process { .. } | Input::Gpu { .. } | Input::Claim { .. } | Input::Tick => {
                    None
                }
            },
        }
    }

    /// Moves its source ids up by `base`, so that several recordings can be read side by side.
    pub fn shift_source(&mut self, base: u32) {
        let shift = |source: &mut SourceId| source.0 = source.0.saturating_add(base);
        match self {
            Self::Bytes { source, .. } | Self::Ras { source, .. } | Self::Dump { source, .. } => {
                shift(source);
            }
            Self::Other(input) => match input {
                Input::Source(info) => shift(&mut info.id),
                Input::Rotated(source) | Input::Truncated(source) => shift(source),
                Input::Bytes { source, .. }
                | Input::Ras { source, .. }
                | Input::Dump { source, .. }
                | Input::Ended { source, .. } => shift(source),
                Input::Process { .. } | Input::Gpu { .. } | Input::Claim { .. } | Input::Tick => {}
            },
        }
    }
}
