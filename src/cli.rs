//! The command line.

pub mod rules;

use std::process::ExitCode;
/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(crate::exit::OK)
}
