//! `unhang report`: one diagnosis, and the exit code carries it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::common::{Common, Format, duration, new_engine};
use super::{messages, output, progress};
use crate::app::ras::Asking;
use crate::app::report::{self, Plan};
use crate::engine::vocab::State;
use crate::exit;
use crate::sources::ras::Endpoint;
use crate::views::words;

/// Arguments of `unhang report`.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = states())]
pub(crate) struct ReportArgs {
    /// Logs and Flight Recorder dumps: files, patterns, folders, journals, or - for standard input; the present folder if none
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) claim: ClaimArgs,
    #[command(flatten)]
    pub(crate) ras: RasArgs,
    /// Look once at this host's GPUs as well, which belong to the job if it still runs here
    #[arg(long)]
    pub(crate) gpu: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// List every rank in JSON, however many there are
    #[arg(long)]
    pub(crate) full: bool,
}

/// What the first word of a report means.
fn states() -> String {
    let word = |state| format!("  {:<14} {}", words::headline(state), words::gloss(state));
    let all: Vec<String> = State::ALL.iter().copied().map(word).collect();
    format!("The first word of a report:\n{}", all.join("\n"))
}

/// What the user has seen and no saved log can tell.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ClaimArgs {
    /// The job stands still, and has for this long (such as 10m); logs that end prove nothing
    #[arg(long, value_name = "DURATION", value_parser = duration, num_args = 0..=1, require_equals = true)]
    pub(crate) stuck: Option<Option<Duration>>,
}

/// Whether NCCL RAS is asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct RasArgs {
    /// Ask NCCL RAS there, read-only; without an address $NCCL_RAS_ADDR or localhost:28028
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) ras: Vec<String>,
    /// Ask RAS even if the job's NCCL version is unknown or has crashed when asked
    #[arg(long)]
    pub(crate) ras_force: bool,
}

impl RasArgs {
    /// What is meant.
    pub(crate) fn asking(&self) -> anyhow::Result<Asking> {
        let read = |text: &String| {
            let set = std::env::var("NCCL_RAS_ADDR").ok();
            let text = if text.is_empty() {
                set.unwrap_or_default()
            } else {
                text.clone()
            };
            text.parse::<Endpoint>().map_err(|why| anyhow::anyhow!(why))
        };
        Ok(Asking {
            endpoints: self.ras.iter().map(read).collect::<anyhow::Result<_>>()?,
            force: self.ras_force,
            ..Asking::default()
        })
    }
}

/// How long a named pipe is waited for that nobody writes to.
const WRITER: Duration = Duration::from_secs(10);

/// Runs `unhang report`.
///
/// # Errors
/// If standard output cannot be written.
pub(crate) fn run(args: &ReportArgs, common: &Common) -> anyhow::Result<u8> {
    let plan = Plan {
        paths: args.paths.clone(),
        claim: args.claim.stuck,
        ras: args.ras.asking()?,
        pipe_patience: WRITER,
        gpu: args.gpu,
        on_pipe: Some(|path| {
            messages::note(&format!(
                "{} is a named pipe that nobody writes to yet: waits for it",
                path.display()
            ));
        }),
    };
    let (rules, sound) = common.rule_files();
    let mut line = progress::Line::new();
    let report = report::run_told(&plan, new_engine(&rules, false), &mut |at| line.tell(&at));
    drop(line);
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
