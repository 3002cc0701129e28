//! `unhang replay`: the dashboard over a saved failure; its report where there is no terminal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use super::common::{Common, Format, duration, new_engine, speed};
use super::report::ClaimArgs;
use super::{dashboard, messages, output, progress};
use crate::app::replay::script::{FilesScript, Script, open_journal};
use crate::app::replay::{self, Start};
use crate::app::{report, signals};
use crate::engine::snapshot::Snapshot;
use crate::error::InputError;
use crate::exit;
use crate::sources::discover::{self, Discoverer, Found};

/// Arguments of `unhang replay`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A journal, or saved logs: files, patterns, folders; the present folder if none
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) claim: ClaimArgs,
    #[command(flatten)]
    pub(crate) play: PlayArgs,
}

/// How to play.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PlayArgs {
    /// Play this many times as fast, 0.1 to 1000 [default: 1]
    #[arg(long, value_name = "N", value_parser = speed, allow_hyphen_values = true)]
    pub(crate) speed: Option<f64>,
    /// Begin at this time from the start, such as 90s
    #[arg(long, value_name = "T", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) at: Option<Duration>,
}

/// Runs `unhang replay`.
///
/// # Errors
/// If there is nothing to play, or the terminal or standard output fails.
pub(crate) fn run(args: &ReplayArgs, common: &Common) -> anyhow::Result<u8> {
    let (script, unread) = open(args, common)?;
    let code = play(script, args.play, None, common)?;
    Ok(if unread { exit::INPUT } else { code })
}

/// What to play, and whether something that was asked for could not be used.
fn open(args: &ReplayArgs, common: &Common) -> anyhow::Result<(Box<dyn Script>, bool)> {
    let Found {
        logs,
        answers,
        dumps,
        journals,
        stdin,
        passed_over,
        mut problems,
    } = Discoverer::new(&args.paths).search();
    if common.verbose {
        let files = logs.iter().chain(&answers).chain(&dumps);
        let taken: Vec<String> = files.map(|log| log.name.clone()).collect();
        messages::inputs(&taken, &passed_over);
    }
    let piped = logs.iter().find(|log| log.pipe).map(|log| log.path.clone());
    if let Some(pipe) = stdin.then(|| PathBuf::from("-")).or(piped) {
        let problem = InputError::because("replay", &pipe, "a pipe cannot go back");
        return Err(problem.hint("save it in a file first").into());
    }
    let nothing = logs.is_empty() && answers.is_empty() && dumps.is_empty();
    if let ([only], [log]) = (args.paths.as_slice(), logs.as_slice())
        && (log.len == 0 && log.path == *only)
    {
        let problem = InputError::because("replay", only, "it is empty");
        let hint = "a watch that records writes to its journal once it has seen something";
        return Err(problem.hint(hint).into());
    }
    match (journals.as_slice(), nothing) {
        ([journal], true) => {
            for problem in &problems {
                messages::problem(problem);
            }
            Ok((journal_script(journal)?, !problems.is_empty()))
        }
        ([], false) => {
            for problem in &problems {
                messages::problem(problem);
            }
            Ok((
                Box::new(FilesScript::new(logs, dumps, args.claim.stuck).then(answers)),
                !problems.is_empty(),
            ))
        }
        ([], true) if problems.is_empty() && passed_over.iter().any(is_journal) => {
            let here = PathBuf::from(".");
            let path = args.paths.first().unwrap_or(&here);
            let problem = InputError::because("find logs below", path, "there is only a journal");
            Err(problem.hint("name the journal itself to replay it").into())
        }
        ([], true) if problems.is_empty() => {
            Err(common.without_v(report::no_logs(&args.paths)).into())
        }
        ([], true) => Err(problems.remove(0).into()),
        _ => bail!("one journal or saved logs can be played, not both"),
    }
}

fn is_journal((_, why): &(PathBuf, String)) -> bool {
    why == discover::A_JOURNAL
}

fn journal_script(path: &Path) -> Result<Box<dyn Script>, InputError> {
    open_journal(path).map_err(|error| report::unusable_journal(path, &error))
}

/// Plays: the dashboard, which begins with `hint`, or at once to the end and a report where there is
/// no terminal.
///
/// # Errors
/// If the script cannot be read, or the terminal or standard output fails.
pub(crate) fn play(
    mut script: Box<dyn Script>,
    args: PlayArgs,
    hint: Option<String>,
    common: &Common,
) -> anyhow::Result<u8> {
    let (files, sound) = common.rule_files();
    if !common.full_screen() {
        let mut engine = new_engine(&files, false);
        let length = script.length().as_secs_f64().max(f64::MIN_POSITIVE);
        let mut line = progress::Line::new();
        let mut tell = |at: Duration| line.tell_part(at.as_secs_f64() / length);
        let snapshot = replay::to_the_end_told(script.as_mut(), &mut engine, &mut tell)?;
        drop(line);
        output::print(&common.render(&snapshot, Format::Text, false))?;
        return Ok(sound.or_input(played(&snapshot, &script.problems())));
    }
    let start = Start {
        speed: args.speed.or(common.config.speed).unwrap_or(1.0),
        at: args.at.unwrap_or_default(),
    };
    let replay = replay::start(script, move || new_engine(&files, true), start)?;
    let handle = replay.handle();
    if let Some(hint) = hint {
        handle.tell(hint);
    }
    let ender = handle.clone();
    signals::on_end(move || ender.shutdown())?;
    let shown = dashboard::show(&handle, common);
    let snapshot = replay.finish();
    shown?;
    let status = handle.status();
    if let Some(panic) = status.failure {
        bail!("a bug in the engine ended it: {panic}");
    }
    Ok(sound.or_input(played(&snapshot, &status.problems)))
}

/// Tells what could not be read, as a report does; the exit code.
fn played(snapshot: &Snapshot, problems: &[InputError]) -> u8 {
    problems.iter().for_each(messages::problem);
    if problems.is_empty() {
        exit::of_state(snapshot.verdict.state)
    } else {
        exit::INPUT
    }
}
