//! What people and programs see.

pub mod escape;
pub mod json;
pub mod report;
pub mod tui;
