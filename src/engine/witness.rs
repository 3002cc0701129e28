//! Who said what: the logs, and the witnesses beside them.
//!
//! The logs make the job model. Each further witness has a module of its own here that keeps what it said and
//! brings it under the same ranks and communicators ([`recorder`]: Flight Recorder dumps). Its detectors fire
//! the same rules as those of the logs; [`crate::engine::detect`] joins findings about the same matter, so that
//! one finding cites every witness that supports it.

pub mod recorder;

use std::sync::Arc;

use super::ids::SourceId;

/// A kind of witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Witness {
    /// What the job printed.
    Log,
    /// Dumps of PyTorch's Flight Recorder.
    Dump,
    /// Answers of NCCL RAS.
    Ras,
    /// What the GPUs say of themselves.
    Gpu,
    /// What the operating system says of the processes.
    Process,
}

impl Witness {
    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Dump => "dump",
            Self::Ras => "ras",
            Self::Gpu => "gpu",
            Self::Process => "process",
        }
    }
}

/// What a witness beside the logs said of one rank in one communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Who said it.
    pub witness: Witness,
    /// The source it was said in.
    pub source: SourceId,
    /// Collectives called so far, as this witness counts them.
    pub reached: Option<u64>,
    /// The last call in words.
    pub call: Option<String>,
    /// How far that call got.
    pub progress: Option<String>,
    /// Where in the program it stands (`train.py:212 (main)`).
    pub at: Option<String>,
    /// The program's own frames there, innermost first.
    pub stack: Arc<[String]>,
}
