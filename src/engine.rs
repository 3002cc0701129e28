//! The engine: bytes, samples and time in; findings and a snapshot out.
//!
//! ```text
//! frame ─► demux ─► classify ─► parse ─► Event ─► job model ─► rules + detectors ─► cause ─► Snapshot
//! ```
//!
//! **Architecture invariant:** nothing in here reads a clock, a file, a socket, the environment or a
//! global, and nothing starts a thread (`clippy.toml`). The same inputs in the same order give the
//! same snapshot; how the bytes are cut into chunks does not matter.

pub mod catalog;
pub mod cause;
pub mod detect;
pub mod event;
pub mod finding;
pub mod ids;
pub mod input;
pub mod job;
pub mod limits;
pub mod line;
pub mod parse;
pub mod demux;
pub mod frame;
pub mod snapshot;
pub mod vocab;
