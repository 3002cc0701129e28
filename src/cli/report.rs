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
    /// Logs and Flight Recorder dumps: files, patterns, folders, journals, or - for standard input; the present folder if none
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
    };
    let report = report::run(&plan, new_engine(&common.rule_files(), false));
    if common.verbose {
        messages::inputs(&report.taken, &report.passed_over);
    }
    for problem in &report.problems {
        messages::problem(problem);
    }
    let mut code = exit::INPUT;
    if let Some(snapshot) = &report.snapshot {
        output::print(&common.render(snapshot, args.format, args.full))?;
        if report.problems.is_empty() {
            code = exit::of_state(snapshot.verdict.state);
        }
    }
    Ok(code)
}
