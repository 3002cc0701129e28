//! Data, on standard output, and the exit code.

use std::io::{self, ErrorKind, Write, stdout};
use std::process::ExitCode;

use super::messages;
use crate::error::InputError;
use crate::exit;

/// Writes data. A reader that has seen enough (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error: io::Error| {
            anyhow::Error::new(error).context("failed to write to standard output")
        }),
    }
}

/// The command line asks for what cannot be: ends like what clap refuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Tells an error and turns the outcome of a command into the process' status.
pub(crate) fn finish(outcome: anyhow::Result<u8>) -> ExitCode {
    let code = outcome.unwrap_or_else(|error| {
        messages::error(&error);
        if error.is::<InputError>() {
            exit::INPUT
        } else if error.is::<Usage>() {
            exit::USAGE
        } else {
            exit::ERROR
        }
    });
    ExitCode::from(code)
}
