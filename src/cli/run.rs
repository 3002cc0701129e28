//! `unhang run`: starts a job so that it can be diagnosed, shows what it writes, and what is wrong with it.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;

use super::common::{Common, new_engine};
use super::watch::Printer;
use super::{dashboard, messages};
use crate::app::handle::Handle;
use crate::app::ras::Asking;
use crate::app::run::echo::Echo;
use crate::app::run::settings::{of_launcher, settings};
use crate::app::run::{Folder, Job};
use crate::app::settled::{Answer, Settling};
use crate::app::signals::{self, Passed};
use crate::app::watch::{self, Plan, Watch};
use crate::engine::snapshot::Snapshot;
use crate::engine::vocab::{Role, Severity, State};
use crate::exit;
use crate::views::report::{self, ReportOptions};

/// Between two looks at the job.
const LOOK: Duration = Duration::from_millis(50);
/// After the job's end, what it wrote last is read for this long.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// New bytes show within this time.
const QUIET: Duration = Duration::from_millis(600);
/// After the terminal is gone a dashboard may hang in reading its keys.
const GRACE: Duration = Duration::from_secs(2);

const AFTER: &str = "\
The job gets NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE and PYTHONUNBUFFERED=1 where they are not \
set; what is set stays, and is told where it leaves something unseen. COLL in NCCL_DEBUG_SUBSYS writes a \
line for every collective of every rank; set NCCL_DEBUG_SUBSYS=INIT,ENV,NET to do without. Ranks on other \
hosts are read if the folder is on a file system that they share.

Standard input is the job's. What it writes goes into stdout.log and stderr.log of the folder, and from there \
to standard output and standard error, so that nothing here can hold it up. On a terminal the dashboard opens \
at the first proven cause; until `q` leaves it, its keys are the dashboard's, and then the job goes on with its output as lines. Without a \
terminal, and with --lines, findings are lines on standard error.

Signals are passed on to the job, and Ctrl-C ends it as ever. If unhang itself is killed, the job goes on.

Exit code: the job's own; 128 and the number of the signal that ended it; 127 if there is no such command, 126 \
if it cannot be started. The state that was diagnosed is not in it: `unhang report FOLDER` gives that.";

/// Arguments of `unhang run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct RunArgs {
    /// Keep what NCCL and the job write in this new folder; the next free unhang-run-N here if none
    #[arg(long, value_name = "DIR")]
    pub(crate) logs: Option<PathBuf>,
    /// Record everything that is seen, to be played again with `unhang replay`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Lines instead of the dashboard, on a terminal too
    #[arg(long)]
    pub(crate) lines: bool,
    /// Never ask NCCL RAS
    #[arg(long)]
    pub(crate) no_ras: bool,
    /// Do not look at this host's GPUs
    #[arg(long)]
    pub(crate) no_gpu: bool,
    /// The job: a command and its arguments, such as torchrun --nproc-per-node 8 train.py
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Runs `unhang run`.
///
/// # Errors
/// If the job's folder cannot be made. Once the job runs, nothing ends this but its end.
pub(crate) fn run(args: &RunArgs, common: &Common) -> anyhow::Result<u8> {
    let folder = Folder::create(args.logs.as_deref())?;
    let settings = settings(|name| std::env::var_os(name), &folder.path);
    let notes = settings.notes.iter().map(String::as_str);
    for note in notes.chain(of_launcher(&args.command)) {
        say(note);
    }
    let (rules, _sound) = common.rule_files();
    let dashboard = !args.lines && io::stdin().is_terminal() && common.full_screen();
    let (signal, signals) = channel();
    signals::on_each(move |passed| {
        // It is listened to until the end.
        let _unheard = signal.send(passed);
    })?;
    let since = SystemTime::now();
    let job = match Job::start(&args.command, &settings.set, &folder) {
        Ok(job) => job,
        Err(problem) => {
            messages::problem(&problem);
            let missing = problem.why.contains("no such file");
            // It holds two empty files and nothing else.
            let _left = std::fs::remove_dir_all(&folder.path);
            return Ok(if missing { 127 } else { 126 });
        }
    };
    say(&format!(
        "what NCCL and the job write is kept in {}",
        folder.path.display()
    ));

    // From here on nothing but the end of the job ends this.
    let echo =
        Echo::start(&folder).map_err(|error| say(&format!("its output is not shown: {error}")));
    let plan = Plan {
        paths: std::iter::once(folder.path.clone())
            .chain(settings.elsewhere)
            .collect(),
        record: args.record.clone(),
        ras: Asking {
            off: args.no_ras,
            ..Asking::default()
        },
        no_gpu: args.no_gpu,
        since: Some(since),
        ..Plan::default()
    };
    let watch = watch::start(&plan, new_engine(&rules, dashboard));
    let watch = watch.map_err(|problem| messages::problem(&problem)).ok();
    let mut running = Running {
        common,
        echo: echo.ok(),
        handle: watch.as_ref().map(Watch::handle),
        job,
        told: Arc::default(),
    };
    running.pass_on(signals);
    let code = running.until_the_end(dashboard);
    Ok(running.finish(watch, code, &folder))
}

/// What signals have told.
#[derive(Debug, Default)]
struct Told {
    /// To end: nobody waits in front of the dashboard.
    end: AtomicBool,
    /// The terminal is gone.
    hangup: AtomicBool,
}

struct Running<'a> {
    common: &'a Common,
    echo: Option<Echo>,
    handle: Option<Handle>,
    job: Job,
    told: Arc<Told>,
}

impl Running<'_> {
    fn pass_on(&self, signals: std::sync::mpsc::Receiver<Passed>) {
        let (pass_on, told, handle) = (
            self.job.passes_on(),
            Arc::clone(&self.told),
            self.handle.clone(),
        );
        let state = self.job.state();
        thread::spawn(move || {
            for signal in signals {
                pass_on(signal);
                match signal {
                    Passed::User1 | Passed::User2 => {}
                    Passed::Hangup => {
                        told.hangup.store(true, Ordering::SeqCst);
                        handle.iter().for_each(Handle::shutdown);
                        let state = Arc::clone(&state);
                        thread::spawn(move || leave_after(&state));
                    }
                    _ => told.end.store(true, Ordering::SeqCst),
                }
            }
        });
    }

    /// Shows what there is to show until the job ends; its exit code.
    fn until_the_end(&mut self, dashboard: bool) -> i32 {
        let mut printer = Printer::new(self.common);
        let mut settling = Settling::default();
        let mut may_open = dashboard;
        let mut seen = 0;
        loop {
            if let Some(code) = self.job.code() {
                return code;
            }
            let Some(handle) = self.handle.clone() else {
                thread::sleep(LOOK);
                continue;
            };
            let snapshot = handle.snapshot();
            if may_open {
                let answer = settling.look(&snapshot, Instant::now());
                if matches!(answer, Some(Answer::Cause { .. })) {
                    may_open = false;
                    // What it showed need not be told again.
                    self.open(&handle);
                    let _told = printer.news(&handle.snapshot());
                    continue;
                }
            } else {
                printer.news(&snapshot).lines().for_each(say);
            }
            let patience = if may_open { LOOK } else { LOOK * 4 };
            seen = handle.wait_for_change(seen, patience);
        }
    }

    /// Shows the dashboard until the user leaves it.
    fn open(&self, handle: &Handle) {
        if let Some(echo) = &self.echo {
            echo.pause();
        }
        let left = Arc::new(AtomicBool::new(false));
        let (gone, told, state) = (Arc::clone(&left), Arc::clone(&self.told), self.job.state());
        let shown = handle.clone();
        let watcher = thread::spawn(move || {
            while !gone.load(Ordering::SeqCst) {
                if let Some(code) = state.code() {
                    shown.tell(format!("the job has ended with status {code}; q leaves"));
                    if told.end.load(Ordering::SeqCst) {
                        shown.shutdown();
                    }
                    return;
                }
                thread::sleep(LOOK);
            }
        });
        let result = dashboard::show(handle, self.common);
        left.store(true, Ordering::SeqCst);
        let _panicked = watcher.join();
        if let Some(echo) = &self.echo {
            echo.resume();
        }
        if let Err(error) = result {
            say(&format!("the dashboard ended: {error}"));
        } else if self.job.code().is_none() {
            say("the job goes on, and its output follows; Ctrl-C ends it");
        }
    }

    /// Reads the rest and says how the job stands; the exit code.
    fn finish(mut self, watch: Option<Watch>, code: i32, folder: &Folder) -> u8 {
        if let Some(echo) = self.echo.take() {
            echo.finish();
        }
        if let (Some(watch), false) = (watch, self.told.hangup.load(Ordering::SeqCst)) {
            let handle = watch.handle();
            last_words(&handle, folder);
            let snapshot = watch.finish();
            let status = handle.status();
            status
                .messages
                .iter()
                .for_each(|text| messages::warning(text));
            if let Some(panic) = status.failure {
                messages::error_text(&format!("a bug in the engine ended it: {panic}"));
            }
            self.report(&snapshot, code, folder);
        }
        u8::try_from(code).unwrap_or(exit::ERROR)
    }

    fn report(&self, snapshot: &Snapshot, code: i32, folder: &Folder) {
        let wrong = |f: &crate::engine::finding::Finding| {
            f.severity >= Severity::Warning && f.role != Role::Note
        };
        let quiet = matches!(
            snapshot.verdict.state,
            State::Healthy | State::Completed | State::Inconclusive
        );
        if code == 0 && quiet && !snapshot.findings.iter().any(wrong) {
            say("the job ended well, and nothing wrong was seen");
            return;
        }
        say(&format!("the job ended with status {code}"));
        if snapshot.findings.is_empty() && snapshot.verdict.state == State::Inconclusive {
            say("nothing that it or NCCL wrote says why");
            return;
        }
        let options = ReportOptions {
            width: 80,
            color: self.common.color_on(&io::stderr()),
            ascii: self.common.ascii,
            verbose: self.common.verbose,
        };
        messages::raw(report::text(snapshot, &options).trim_end());
        say(&format!(
            "unhang replay {} shows more",
            folder.path.display()
        ));
    }
}

/// Waits until what the job wrote last has been read.
fn last_words(handle: &Handle, folder: &Folder) {
    let end = Instant::now() + LAST_WORDS;
    let calm = Instant::now() + QUIET;
    loop {
        let now = Instant::now();
        let written = folder.bytes();
        if now >= end || now >= calm && handle.snapshot().inputs.bytes >= written {
            return;
        }
        thread::sleep(LOOK);
    }
}

/// Ends this process after the job has, should a terminal that is gone hold it up.
fn leave_after(state: &crate::app::run::Ended) {
    let code = loop {
        if let Some(code) = state.code() {
            break code;
        }
        thread::sleep(LOOK);
    };
    thread::sleep(GRACE);
    #[expect(
        clippy::exit,
        reason = "the main thread may wait for keys of a terminal that is gone"
    )]
    process::exit(code)
}

/// A line of unhang among those of the job.
fn say(text: &str) {
    messages::note(&format!("unhang: {text}"));
}
