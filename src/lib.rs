//! unhang tells why a distributed GPU job hangs: which rank, host or collective, and what to change.
//!
//! Data flows one way: `sources` turn the outside into [`engine::input::Input`]s, the pure
//! [`engine`] turns inputs into a plain [`engine::snapshot::Snapshot`], and [`views`] show it.
//! [`app`] wires them together; [`cli`] is the command line. A lower layer never imports an upper
//! one: engine, then sources, then app and views, then cli (held by `tests/house.rs`).

pub mod app;
pub mod cli;
#[deny(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the engine is pure: bytes and time come in as arguments"
)]
pub mod engine;
pub mod error;
pub mod exit;
pub mod probe;
pub mod selftest;
pub mod sources;
pub mod views;
