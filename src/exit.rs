//! Exit codes: a documented, tested part of the interface.

use std::process::ExitCode;

use crate::engine::vocab::State;

/// The job is healthy or completed.
pub const OK: u8 = 0;
/// Anything else that went wrong inside unhang.
pub const ERROR: u8 = 1;
/// The command line could not be understood.
pub const USAGE: u8 = 2;
/// An input could not be read.
pub const INPUT: u8 = 3;
/// The job hangs, failed or computed wrong results.
pub const BROKEN: u8 = 10;
/// The job works on a worse path than it could.
pub const DEGRADED: u8 = 11;
/// Some ranks wait for others, or nothing can be said.
pub const UNKNOWN: u8 = 12;

/// The exit code of a diagnosis, by the job's state alone.
#[must_use]
pub fn of_state(state: State) -> u8 {
    match state {
        State::Healthy | State::Completed => OK,
        State::Hung | State::Failed | State::WrongResults => BROKEN,
        State::Degraded => DEGRADED,
        State::Waiting | State::Inconclusive => UNKNOWN,
    }
}

/// The same as the process' status.
#[must_use]
pub fn status_of(state: State) -> ExitCode {
    ExitCode::from(of_state(state))
}
