//! `unhang demo`: a recorded failure that is built in.

use clap::Args;

use super::common::Common;
use super::output;
use super::replay::{PlayArgs, play};
use crate::app::demo::{CASES, Case};
use crate::exit;

const AFTER: &str = "\
Exit code: 0 if the demonstration worked, whatever the recorded job's state is.";

/// Arguments of `unhang demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct DemoArgs {
    /// The case to play; see --list
    pub(crate) case: Option<String>,
    /// List the cases
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) play: PlayArgs,
}

/// Runs `unhang demo`. Its exit code says whether the demonstration worked, not how the recorded
/// job fared: a failure is what it is meant to show.
///
/// # Errors
/// If there is no such case, or the terminal or standard output fails.
pub(crate) fn run(args: &DemoArgs, common: &Common) -> anyhow::Result<u8> {
    if args.list {
        let lines: String = CASES
            .iter()
            .map(|case| format!("{:<20} {}\n", case.name, case.about))
            .collect();
        output::print(&lines)?;
        return Ok(exit::OK);
    }
    let Some(case) = Case::find(args.case.as_deref()) else {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        super::messages::error(&anyhow::anyhow!(
            "there is no such case; there are: {}",
            names.join(", ")
        ));
        return Ok(exit::USAGE);
    };
    let hint = format!(
        "demo: ! jumps to the first sign, {}, ? lists the keys",
        case.look
    );
    let code = play(case.script()?, args.play, Some(hint), common)?;
    Ok(if code == exit::INPUT { code } else { exit::OK })
}
