//! Where bytes come from: files, pipes and journals, each turned into [`crate::engine::input::Input`]s.
//!
//! ```text
//!  PATH GLOB DIR ─► discover ─► read   saved files, once, in big chunks
//!                       └─────► tail   growing files: polling is the truth, events only a hint
//!  -            ─► stdin
//!  JOURNAL      ─► journal            the inputs of an earlier watch, in their order
//! ```
//!
//! Nothing in here knows the time: whoever drives a source stamps what it gives.

pub mod decompress;
pub mod discover;
pub mod fifo;
pub mod journal;
pub mod progress;
pub mod ras;
pub mod read;
pub mod record;
pub mod sniff;
pub mod stdin;
pub mod tail;
