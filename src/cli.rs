//! The command line: what is typed becomes a plan, what came out becomes text and an exit code.

mod common;
mod config;
mod dashboard;
mod demo;
mod doctor;
mod messages;
mod output;
mod progress;
mod ranks;
mod replay;
mod report;
pub mod rules;
mod run;
mod selftest;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit;
use common::Common;

const EXIT_CODES: &str = "\
Exit codes of a diagnosis:
  0   healthy or completed
  10  hung, failed or wrong results
  11  degraded: works on a worse path
  12  waiting, or nothing can be said
  2   the command line was not understood
  3   an input that was asked for could not be read, or a rule of --rules;
      what could be read is diagnosed all the same
  1   anything else
Of a run: the job's own; 128 and the number of the signal that ended it; 127 or
126 if it cannot be started.
Of the doctor: 0 nothing is wrong; 10 something is; 12 nothing is wrong and there
is no GPU. With --expect: 0 all is met; 10 something is not; 12 it cannot be told.
Of a self-test: 0 passed, or the change cures; 10 failed; 11 passed on a worse
path than the GPUs have; 12 proved nothing (world size 1, not reproduced).
A demo ends with 0: a failure is what it is meant to show.";

/// Tells why a distributed GPU job hangs: which rank, host or collective, and what to change
#[derive(Debug, Parser)]
#[command(name = "unhang", version, after_long_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a job's logs while it runs: a dashboard, or plain lines without a terminal
    Watch(watch::WatchArgs),
    /// Start a job with the right NCCL_DEBUG settings, and tell what is wrong with it
    Run(run::RunArgs),
    /// Read a job's logs once and print one diagnosis
    Report(report::ReportArgs),
    /// Play a saved failure again, with pause, step and seek
    Replay(replay::ReplayArgs),
    /// Play a recorded failure that is built in
    Demo(demo::DemoArgs),
    /// Look at this host before a launch: GPUs, libraries, interfaces, RDMA, shared memory, limits
    Doctor(doctor::DoctorArgs),
    /// Test NCCL between these GPUs, and prove that a change cures what fails
    Selftest(selftest::SelftestArgs),
    /// List, explain and check the rules
    Rules(rules::RulesArgs),
    #[command(name = crate::selftest::run::CHILD, hide = true)]
    Rank {
        /// What to do
        task: String,
    },
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are data and succeed; anything else is a message. If neither can be
            // written, the exit code still tells.
            let code = if error.use_stderr() {
                exit::USAGE
            } else {
                exit::OK
            };
            let _unwritten = error.print();
            return ExitCode::from(code);
        }
    };
    let Some(command) = cli.command else {
        let help = Cli::command().render_help();
        return output::finish(output::print(&help.to_string()).map(|()| exit::OK));
    };
    // A rank of a self-test is no command of the user's.
    let common = match command {
        Command::Rank { .. } => cli.common,
        _ => cli.common.configured(),
    };
    let common = &common;
    match command {
        Command::Watch(args) => output::finish(watch::run(&args, common)),
        Command::Run(args) => output::finish(run::run(&args, common)),
        Command::Report(args) => output::finish(report::run(&args, common)),
        Command::Replay(args) => output::finish(replay::run(&args, common)),
        Command::Demo(args) => output::finish(demo::run(&args, common)),
        Command::Doctor(args) => output::finish(doctor::run(&args, common)),
        Command::Selftest(args) => output::finish(selftest::run(&args, common)),
        Command::Rank { task } => output::finish(selftest::rank(&task)),
        Command::Rules(mut args) => {
            args.folders.clone_from(&common.rules);
            match rules::run(&args) {
                Ok(code) => code,
                Err(error) => output::finish(Err(error)),
            }
        }
    }
}
