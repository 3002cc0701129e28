//! Wires sources, engine and views together.

pub mod handle;
