//! The Python stack of a rank on request: py-spy, if it can look into the rank's process.
//!
//! `py-spy dump --nonblocking` reads the memory of the process and neither stops nor changes it. It needs
//! the right to trace the process (ptrace), though it does not use it to stop anything.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::host;
use super::task::Order;
use crate::engine::input::ProcessState;
use crate::engine::snapshot::Snapshot;

/// A stack is read in well under a second; symbols of a large program take longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// The program that is run.
pub const PROGRAM: &str = "py-spy";

/// Where the looking would be done.
#[derive(Clone, Debug)]
pub struct Here {
    /// The host's name, up to the first dot.
    pub host: String,
    /// Processes of this host are seen as they are now: not in a replay.
    pub live: bool,
    /// Folders that are searched for programs (`PATH`).
    pub path: Vec<PathBuf>,
    /// The user that unhang runs as.
    pub user: u32,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Here {
    /// This host.
    #[must_use]
    pub fn this(live: bool) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            host: host::here(),
            live,
            // An empty entry is the present folder, from which nothing is run.
            path: std::env::split_paths(&path)
                .filter(|folder| folder.is_absolute())
                .collect(),
            user: fs::metadata("/proc/self").map_or(u32::MAX, |meta| meta.uid()),
            proc: PathBuf::from("/proc"),
        }
    }
}

/// What shows the stack of a rank.
///
/// # Errors
/// Why it cannot be shown, and what to type instead; a sentence each.
pub fn order(snapshot: &Snapshot, rank: u32, here: &Here) -> Result<Order, Vec<String>> {
    let no = |why: String, what: String| Err(vec![why, what]);
    let view = snapshot.job.rank(rank);
    let host = view
        .and_then(|view| view.host.as_deref())
        .unwrap_or("its host");
    let Some((view, pid)) = view.and_then(|view| Some((view, view.pid?))) else {
        let why = format!("the logs do not tell the process of rank {rank}");
        return no(why, format!("on {host}: py-spy dump --pid PID"));
    };
    let there = format!("on {host}: py-spy dump --pid {pid}");
    if !here.live {
        return no(
            "this is a replay: its processes are of another time".to_owned(),
            there,
        );
    }
    if host::short(host) != here.host {
        let why = format!("rank {rank} runs on {host}, and this is {}", here.host);
        return no(why, there);
    }
    match view.process.as_ref().map(|process| process.state) {
        None => {
            let why = format!(
                "process {pid} is not known to be rank {rank}: no process of this number here runs NCCL \
                 and is older than the logs' last line (the job may run in a container, or be over)"
            );
            return no(why, format!("where the job runs: py-spy dump --pid {pid}"));
        }
        Some(ProcessState::Gone | ProcessState::Zombie) => {
            let why = format!("process {pid} of rank {rank} has ended");
            return no(why, "its last lines are in its log (Enter)".to_owned());
        }
        Some(_) => {}
    }
    let owner = fs::metadata(here.proc.join(pid.to_string())).map(|meta| meta.uid());
    match owner {
        Err(_) => return no(format!("process {pid} has ended just now"), there),
        Ok(owner) if owner != here.user && here.user != 0 => {
            let why = format!("process {pid} belongs to another user (uid {owner})");
            return no(
                why,
                format!("as that user, or as root: py-spy dump --pid {pid}"),
            );
        }
        Ok(_) => {}
    }
    let Some(program) = here.path.iter().find_map(|folder| executable(folder)) else {
        return no(
            "py-spy is not on PATH".to_owned(),
            "`pip install py-spy` brings it; then press P again".to_owned(),
        );
    };
    let args = ["dump", "--nonblocking", "--pid"].map(OsString::from);
    Ok(Order {
        program,
        args: args.into_iter().chain([pid.to_string().into()]).collect(),
        patience: PATIENCE,
    })
}

fn executable(folder: &Path) -> Option<PathBuf> {
    let path = folder.join(PROGRAM);
    let meta = fs::metadata(&path).ok()?;
    (meta.is_file() && meta.permissions().mode() & 0o111 != 0).then_some(path)
}

/// What may have kept py-spy from looking, once it has failed; what to type.
#[must_use]
pub fn why_not(error: &str, pid: u32) -> Option<String> {
    let refused = ["permission denied", "operation not permitted", "root"];
    let error = error.to_ascii_lowercase();
    if !refused.iter().any(|words| error.contains(words)) {
        return None;
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let why = match scope.trim() {
        "1" => "kernel.yama.ptrace_scope is 1: only its parents and root may look into a process",
        "2" | "3" => {
            "kernel.yama.ptrace_scope allows root alone, or nobody, to look into a process"
        }
        _ => "looking into a process takes the right to trace it (CAP_SYS_PTRACE in a container)",
    };
    Some(format!("{why}; as root: sudo py-spy dump --pid {pid}"))
}
