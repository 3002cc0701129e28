//! Wires sources, engine and views together.

pub mod clock;
pub mod demo;
mod engine_thread;
pub mod handle;
pub mod host;
mod lines;
mod past;
pub mod prove;
pub mod pystack;
pub mod ras;
mod recorder;
pub mod replay;
pub mod report;
pub mod rules;
pub mod run;
pub mod settled;
pub mod signals;
pub mod task;
pub mod timeline;
pub mod watch;
