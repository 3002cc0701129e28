//! `unhang report`: one diagnosis, and the exit code carries it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::common::{Common, Format, duration, new_engine};
use super::{messages, output};
use crate::app::report::{self, Plan};
use crate::exit;

/// Arguments of `unhang report`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArgs {
    /// Logs: files, patterns, folders, journals, or - for standard input; the present folder if none
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) claim: ClaimArgs,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// List every rank in JSON, however many there are
    #[arg(long)]
    pub(crate) full: bool,
}

/// What the user has seen and no saved log can tell.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ClaimArgs {
    /// The job stands still, and has for this long (such as 10m); logs that end prove nothing
    #[arg(long, value_name = "DURATION", value_parser = duration, num_args = 0..=1, require_equals = true)]
    pub(crate) stuck: Option<Option<Duration>>,
}

/// Runs `unhang report`.
///
/// # Errors
/// If standard output cannot be written.
pub(crate) fn run(args: &ReportArgs, common: &Common) -> anyhow::Result<u8> {
    let plan = Plan {
        paths: args.paths.clone(),
        claim: args.claim.stuck,
        on_pipe: Some(|path| {
            messages::note(&format!(
                "{} is a named pipe: waits until something writes to it and closes it",
                path.display()
            ));
        }),
    };
    let (rules, sound) = common.rule_files();
    let report = report::run(&plan, new_engine(&rules, false));
    if common.verbose {
        messages::inputs(&report.taken, &report.passed_over);
    }
    // A program gets its document even so; people have the message.
    if !report.taken.is_empty() || args.format == Format::Json {
        output::print(&common.render(&report.snapshot, args.format, args.full))?;
    }
    let code = if report.problems.is_empty() {
        exit::of_state(report.snapshot.verdict.state)
    } else {
        exit::INPUT
    };
    for problem in report.problems {
        messages::problem(&common.without_v(problem));
    }
    Ok(sound.or_input(code))
}
