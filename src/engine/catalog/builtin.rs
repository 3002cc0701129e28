//! The rules that are built into the binary.

/// Path and text of every file below `rules/`, sorted by path (made by `build.rs`).
pub static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/rules.rs"));
