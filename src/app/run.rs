//! Starts a job so that it leaves something to read, and passes signals and its exit code on.
//!
//! **Architecture invariant:** nothing here can hold the job up or end it. Its output goes into files, not
//! through this process, so a terminal that stands still, a reader that is gone or the death of unhang
//! itself are nothing to it.

pub mod echo;
pub mod settings;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;

use nix::sys::signal::{kill, killpg};
use nix::unistd::Pid;

use super::signals::Passed;
use crate::error::InputError;

/// Names tried for a folder.
const NAMES: u32 = 10_000;

/// The folder of a run: what NCCL and the job write.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
}

impl Folder {
    /// A new one: the one named, which must hold nothing; else the next free `unhang-run-N` in the present
    /// folder, or in the temporary one if nothing can be written here.
    ///
    /// # Errors
    /// If none can be made.
    pub fn create(named: Option<&Path>) -> Result<Self, InputError> {
        let path = match named {
            Some(path) => {
                let failed = |error: io::Error| InputError::io("create", path, &error);
                fs::create_dir_all(path).map_err(failed)?;
                if fs::read_dir(path).map_err(failed)?.next().is_some() {
                    let why =
                        "there is something in it already, which would be taken for this job's";
                    return Err(InputError::because("use", path, why).hint("name a new folder"));
                }
                path.to_owned()
            }
            None => next_free(Path::new(".")).or_else(|_| next_free(&std::env::temp_dir()))?,
        };
        // The job may run elsewhere than here, so the names given to it are whole.
        let whole =
            fs::canonicalize(&path).map_err(|error| InputError::io("open", &path, &error))?;
        Ok(Self { path: whole })
    }

    /// What the job writes on its standard output.
    #[must_use]
    pub fn stdout(&self) -> PathBuf {
        self.path.join("stdout.log")
    }

    /// Bytes of what is in it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        files
            .filter_map(|file| file.metadata().ok())
            .map(|meta| meta.len())
            .sum()
    }

    /// What it writes on its standard error.
    #[must_use]
    pub fn stderr(&self) -> PathBuf {
        self.path.join("stderr.log")
    }
}

fn next_free(below: &Path) -> Result<PathBuf, InputError> {
    for n in 1..=NAMES {
        let path = below.join(format!("unhang-run-{n}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(InputError::io("create", &path, &error)),
        }
    }
    let why = format!("{NAMES} folders unhang-run-* are there already");
    Err(InputError::because("create a folder in", below, why))
}

/// A job that runs.
#[derive(Debug)]
pub struct Job {
    pid: Pid,
    /// It has a process group of its own, so that keys do not reach it by themselves.
    apart: bool,
    ended: Arc<Ended>,
}

/// Whether a job has ended.
#[derive(Debug, Default)]
pub struct Ended(OnceLock<i32>);

impl Ended {
    /// Its exit code, if it has: 128 and the signal's number if a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.0.get().copied()
    }
}

impl Job {
    /// Starts it.
    ///
    /// # Errors
    /// If it, or the files for its output, cannot be made.
    pub fn start(
        command: &[OsString],
        settings: &[(&'static str, OsString)],
        folder: &Folder,
    ) -> Result<Self, InputError> {
        let create = |path: PathBuf| {
            let file = File::options().create_new(true).append(true).open(&path);
            file.map_err(|error| InputError::io("create", &path, &error))
        };
        let (program, args) = match command {
            [program, args @ ..] => (Path::new(program), args),
            [] => {
                return Err(InputError::because(
                    "start",
                    Path::new(""),
                    "there is no command",
                ));
            }
        };
        let apart = !in_foreground();
        let mut starting = Command::new(program);
        starting
            .args(args)
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::from(create(folder.stdout())?))
            .stderr(Stdio::from(create(folder.stderr())?));
        if apart {
            starting.process_group(0);
        }
        let failed = |error| InputError::io("start", program, &error);
        let mut child = starting.spawn().map_err(failed)?;
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        let ended = Arc::new(Ended::default());
        let tell = Arc::clone(&ended);
        thread::Builder::new()
            .name("job".to_owned())
            .spawn(move || {
                // It ends once.
                let _set = tell.0.set(child.wait().map_or(1, code_of));
            })
            .map_err(failed)?;
        Ok(Self { pid, apart, ended })
    }

    /// Its exit code once it has ended.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.ended.code()
    }

    /// To ask from elsewhere whether it has ended.
    #[must_use]
    pub fn state(&self) -> Arc<Ended> {
        Arc::clone(&self.ended)
    }

    /// What passes a signal on that reached unhang. Keys of a terminal reach a job in the foreground by
    /// themselves; a job apart gets them as its whole group, as from a terminal, and what is meant for
    /// one process (`kill`) as one process.
    pub fn passes_on(&self) -> impl Fn(Passed) + Send + 'static {
        let (pid, apart) = (self.pid, self.apart);
        move |signal| {
            let number = signal.number();
            let keys = matches!(signal, Passed::Interrupt | Passed::Quit | Passed::Hangup);
            // It may have ended just now.
            let _gone = match (keys, apart) {
                (true, true) => killpg(pid, number),
                (true, false) => Ok(()),
                (false, _) => kill(pid, number),
            };
        }
    }
}

fn code_of(status: ExitStatus) -> i32 {
    let by_signal = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(by_signal).unwrap_or(1)
}

/// True in the foreground of a terminal, whose keys go to all processes of the group.
fn in_foreground() -> bool {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // pid (name) state ppid pgrp session tty tpgid
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    matches!(fields.get(2..6), Some([group, _, terminal, front]) if *terminal != "0" && group == front)
}
