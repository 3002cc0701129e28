//! The `unhang` binary: parses the command line, runs it, and maps the result to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    unhang::cli::main()
}
