//! `unhang watch`: the dashboard of a running job, or lines as things happen where there is no terminal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use super::common::{Common, Format, duration, new_engine};
use super::report::{ClaimArgs, RasArgs};
use super::{dashboard, messages, output, progress};
use crate::app::handle::{Following, Handle};
use crate::app::ras::Asking;
use crate::app::settled::Settling;
use crate::app::signals;
use crate::app::watch::{self, Plan};
use crate::engine::input::Time;
use crate::engine::snapshot::Snapshot;
use crate::engine::vocab::{Class, Severity, State};
use crate::exit;
use crate::views::escape::harmless;

/// RAS is not asked more often than this: each question goes to every process of the job.
const RAS_EVERY: Duration = Duration::from_secs(5);

/// Looking again after this time costs nothing.
const QUIET: Duration = Duration::from_secs(60);

/// Arguments of `unhang watch`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatchArgs {
    /// Logs and Flight Recorder dumps: files, patterns, folders, or - for standard input; the present folder if none.
    /// Files that appear later below a folder are watched too
    pub(crate) paths: Vec<PathBuf>,
    /// Record everything that is seen, to be played again with `unhang replay`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) claim: ClaimArgs,
    #[command(flatten)]
    pub(crate) ras: RasArgs,
    /// Never ask NCCL RAS; else a job of this host that stands still is asked, if its version allows it
    #[arg(long, conflicts_with = "ras")]
    pub(crate) no_ras: bool,
    /// With --ras: have RAS tell at once which process is gone or silent, too (its monitor mode, NCCL 2.29.2 and
    /// later). A process of the job then holds one connection to unhang for as long as it watches
    #[arg(long, requires = "ras")]
    pub(crate) ras_monitor: bool,
    /// Time between two questions to RAS (such as 30s)
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub(crate) ras_every: Duration,
    /// Do not look at this host's GPUs; else they are asked once a second where the job has ranks here
    #[arg(long)]
    pub(crate) no_gpu: bool,
    /// End at the first proven cause, or when the job has ended well, with the exit code of its state: for prologs and
    /// CI. Lines instead of the dashboard
    #[arg(long)]
    pub(crate) until_finding: bool,
    /// With --until-finding: end after this time all the same (such as 10m), with the exit code of the state by then
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "until_finding")]
    pub(crate) timeout: Option<Duration>,
    /// Without a terminal: how to print the last diagnosis; anything but text prints only that
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// List every rank in JSON, however many there are
    #[arg(long)]
    pub(crate) full: bool,
}

/// Runs `unhang watch`.
///
/// # Errors
/// If nothing can be watched, or the terminal or standard output fails.
pub(crate) fn run(args: &WatchArgs, common: &Common) -> anyhow::Result<u8> {
    let plan = Plan {
        paths: args.paths.clone(),
        claim: args.claim.stuck,
        record: args.record.clone(),
        ras: Asking {
            off: args.no_ras,
            every: args.ras_every.max(RAS_EVERY),
            monitor: args.ras_monitor,
            stuck: args.claim.stuck == Some(None),
            ..args.ras.asking()?
        },
        no_gpu: args.no_gpu,
        since: None,
    };
    let dashboard = !args.until_finding && common.full_screen();
    let (rules, sound) = common.rule_files();
    let watch = watch::start(&plan, new_engine(&rules, dashboard))?;
    if common.verbose {
        messages::inputs(&[], &watch.passed_over);
    }
    for problem in &watch.problems {
        messages::problem(problem);
    }
    let unread = !watch.problems.is_empty();
    let handle = watch.handle();
    let ender = handle.clone();
    signals::on_end(move || ender.shutdown())?;
    let shown = if dashboard {
        dashboard::show(&handle, common)
    } else {
        let until = args.until_finding.then(|| Until::new(args.timeout));
        follow(&handle, common, args.format, until)
    };
    let snapshot = watch.finish();
    shown?;
    let status = handle.status();
    if dashboard {
        status
            .messages
            .iter()
            .for_each(|text| messages::warning(text));
    } else {
        output::print(&common.render(&snapshot, args.format, args.full))?;
    }
    if let Some(panic) = status.failure {
        anyhow::bail!("a bug in the engine ended it: {panic}");
    }
    Ok(sound.or_input(if unread {
        exit::INPUT
    } else {
        exit::of_state(snapshot.verdict.state)
    }))
}

/// What ends a watch beside its input and the user.
struct Until {
    settling: Settling,
    deadline: Option<Instant>,
}

impl Until {
    fn new(timeout: Option<Duration>) -> Self {
        Self {
            settling: Settling::default(),
            // A time too long to be told is no deadline.
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        }
    }

    /// True at its end; why stands on standard error.
    fn is_over(&mut self, snapshot: &Snapshot) -> bool {
        let now = Instant::now();
        if self.settling.look(snapshot, now).is_some() {
            return true;
        }
        let late = self.deadline.is_some_and(|deadline| now >= deadline);
        if late {
            messages::note("no cause is proven, and the time is over");
        }
        late
    }

    /// How long nothing has to be looked at, if nothing happens.
    fn patience(&self) -> Duration {
        let next = [self.settling.due(), self.deadline]
            .into_iter()
            .flatten()
            .min();
        let next = next.map(|next| next.saturating_duration_since(Instant::now()));
        next.unwrap_or(QUIET).min(QUIET)
    }
}

/// Prints what happens until the input or the user ends it.
fn follow(
    handle: &Handle,
    common: &Common,
    format: Format,
    mut until: Option<Until>,
) -> anyhow::Result<()> {
    let mut printer = Printer::new(common);
    let mut line = progress::Line::new();
    let mut messages_told = 0;
    let mut following_told = None;
    let mut ras_told = false;
    let mut hears_told = false;
    let mut seen = 0;
    loop {
        let status = handle.status();
        match &status.loading {
            Some(loading) => line.tell(&loading.progress),
            None => line.clear(),
        }
        if format == Format::Text {
            output::print(&printer.news(&handle.snapshot()))?;
        }
        // Old messages make room for new ones, so the number told is only a hint.
        messages_told = messages_told.min(status.messages.len());
        for text in &status.messages[messages_told..] {
            messages::warning(text);
        }
        messages_told = status.messages.len();
        if status.asked_ras > 0 && !ras_told {
            messages::note(
                "NCCL RAS was asked what each rank has launched, which changes nothing there (--no-ras: never)",
            );
            ras_told = true;
        }
        if status.hears_ras > 0 && !hears_told {
            messages::note(
                "NCCL RAS tells of processes that are gone or silent; one of the job holds a connection for it",
            );
            hears_told = true;
        }
        if let Following::Polling(why) = &status.following
            && following_told.as_ref() != Some(why)
        {
            messages::warning(&format!("looking again and again: {why}"));
            following_told = Some(why.clone());
        }
        if status.shutdown || status.ended || status.failure.is_some() {
            return Ok(());
        }
        let over = |until: &mut Until| until.is_over(&handle.snapshot());
        if until.as_mut().is_some_and(over) {
            return Ok(());
        }
        let patience = until.as_ref().map_or(QUIET, Until::patience);
        seen = handle.wait_for_change(seen, patience);
    }
}

/// Remembers what was printed already.
pub(super) struct Printer<'a> {
    common: &'a Common,
    first: Option<Time>,
    /// Findings told, by rule and communicator.
    told: BTreeMap<(String, Option<String>), usize>,
    verdict: Option<(State, Class)>,
}

impl<'a> Printer<'a> {
    /// Nothing was printed yet.
    pub(super) fn new(common: &'a Common) -> Self {
        Self {
            common,
            first: None,
            told: BTreeMap::new(),
            verdict: None,
        }
    }

    /// Lines about what is new in this snapshot.
    pub(super) fn news(&mut self, snapshot: &Snapshot) -> String {
        let mut out = String::new();
        let Some(now) = snapshot.now else { return out };
        let since = now.since(*self.first.get_or_insert(now));
        let mut line = |what: &str, text: &str| {
            let text = harmless(text, self.common.glyphs());
            out.push_str(&format!("[+{:.1}s] {what} {text}\n", since.as_secs_f64()));
        };
        let mut seen: BTreeMap<(String, Option<String>), usize> = BTreeMap::new();
        for finding in &snapshot.findings {
            if finding.severity == Severity::Info && !self.common.verbose {
                continue;
            }
            let key = (finding.id.clone(), finding.comm.clone());
            let count = seen.entry(key.clone()).or_default();
            *count += 1;
            if *count > self.told.get(&key).copied().unwrap_or(0) {
                self.told.insert(key, *count);
                line(
                    finding.severity.name(),
                    &format!("{} {}", finding.id, finding.title),
                );
            }
        }
        let verdict = (snapshot.verdict.state, snapshot.verdict.class);
        if self.verdict != Some(verdict) && verdict != (State::Inconclusive, Class::Inconclusive) {
            self.verdict = Some(verdict);
            line(verdict.0.name(), &snapshot.verdict.summary);
        }
        out
    }
}
