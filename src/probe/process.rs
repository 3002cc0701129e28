//! Processes of a job on this host: whether they run, from /proc alone.
//!
//! A pid alone may be another process: the logs may be of yesterday, or of a container that counts its
//! pids anew. So a process is believed to be a rank only if it runs NCCL and is older than the last
//! word of the logs; and one that is not there is called gone only once the pids of this host are known
//! to be the logs' own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::engine::input::{ProcessLoad, ProcessState};

/// Clock ticks in a second, for every program on Linux (USER_HZ).
const TICKS: u64 = 100;
/// Clocks of files and processes differ by less than this.
const SLACK: Duration = Duration::from_secs(2);
/// Threads of a process whose names are read.
const THREADS: usize = 4_096;

/// Looks at processes, again and again.
#[derive(Debug)]
pub struct Looker {
    proc: PathBuf,
    /// When the host started.
    boot: Option<SystemTime>,
    known: BTreeMap<u32, Known>,
}

#[derive(Debug)]
struct Known {
    /// In ticks since boot: with the pid it names a process once and for all.
    started: u64,
    used: u64,
    at: Instant,
}

/// What /proc/PID/stat says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: ProcessState,
    used: u64,
    threads: u32,
    started: u64,
}

impl Default for Looker {
    fn default() -> Self {
        Self::new(Path::new("/proc"))
    }
}

impl Looker {
    fn new(proc: &Path) -> Self {
        Self {
            proc: proc.to_owned(),
            boot: boot(proc),
            known: BTreeMap::new(),
        }
    }

    /// True if this process was believed before: then nobody has to say again when the logs ended.
    #[must_use]
    pub fn knows(&self, pid: u32) -> bool {
        self.known.contains_key(&pid)
    }

    /// When a process that was believed started, since the host did.
    #[must_use]
    pub fn started(&self, pid: u32) -> Option<Duration> {
        let known = self.known.get(&pid)?;
        Some(Duration::from_millis(known.started * 1000 / TICKS))
    }

    /// When the oldest of the believed processes started, since the host did.
    #[must_use]
    pub fn first_started(&self) -> Option<Duration> {
        self.known.keys().filter_map(|pid| self.started(*pid)).min()
    }

    /// What a process does; `None` if it is not known to be the one meant. `last_word` is when the
    /// logs were last written.
    pub fn look(
        &mut self,
        pid: u32,
        last_word: Option<SystemTime>,
    ) -> Option<(ProcessState, ProcessLoad)> {
        let folder = self.proc.join(pid.to_string());
        let gone = (ProcessState::Gone, ProcessLoad::default());
        let Some(stat) = fs::read(folder.join("stat")).ok().and_then(|s| parse(&s)) else {
            let ours = self.knows(pid) || !self.known.is_empty();
            // Only if it is not there; /proc may also be closed to us.
            return (ours && !folder.exists()).then_some(gone);
        };
        match self.known.get(&pid) {
            Some(known) if known.started != stat.started => return Some(gone),
            Some(_) => {}
            None if self.is_later(stat, last_word) => {
                return (!self.known.is_empty()).then_some(gone);
            }
            None if !runs_nccl(&folder) => return None,
            None => {}
        }
        let now = Instant::now();
        let before = self.known.insert(
            pid,
            Known {
                started: stat.started,
                used: stat.used,
                at: now,
            },
        );
        let load = ProcessLoad {
            cpu_percent: before.and_then(|before| share(&before, stat.used, now)),
            threads: Some(stat.threads),
            nccl_threads: nccl_threads(&folder),
        };
        Some((stat.state, load))
    }

    /// Started after the logs were last written: it wrote none of them.
    fn is_later(&self, stat: Stat, last_word: Option<SystemTime>) -> bool {
        let (Some(boot), Some(last_word)) = (self.boot, last_word) else {
            return false;
        };
        let started = boot + Duration::from_secs(stat.started / TICKS);
        started > last_word + SLACK
    }
}

fn boot(proc: &Path) -> Option<SystemTime> {
    let text = fs::read_to_string(proc.join("stat")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(UNIX_EPOCH + Duration::from_secs(line.trim().parse().ok()?))
}

/// `pid (name) S ppid …`: the name may hold anything, so fields count from the last bracket.
fn parse(stat: &[u8]) -> Option<Stat> {
    let after = memchr::memrchr(b')', stat)?;
    let text = std::str::from_utf8(&stat[after + 1..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let state = match *fields.first()? {
        "T" => ProcessState::Stopped,
        "t" => ProcessState::Traced,
        "D" => ProcessState::Uninterruptible,
        "Z" => ProcessState::Zombie,
        "X" | "x" => ProcessState::Gone,
        _ => ProcessState::Running,
    };
    Some(Stat {
        state,
        used: number(11)?.saturating_add(number(12)?),
        threads: u32::try_from(number(17)?).ok()?,
        started: number(19)?,
    })
}

fn share(before: &Known, used: u64, now: Instant) -> Option<u32> {
    let ticks = used.checked_sub(before.used)?;
    let elapsed = now.duration_since(before.at);
    // Too short to be measured in ticks.
    if elapsed < Duration::from_millis(200) {
        return None;
    }
    let elapsed = u64::try_from(elapsed.as_millis()).ok()?;
    u32::try_from(ticks * 1000 / TICKS * 100 / elapsed).ok()
}

/// NCCL is loaded, or threads bear its name.
fn runs_nccl(folder: &Path) -> bool {
    nccl_threads(folder).is_some()
        || fs::read(folder.join("maps"))
            .is_ok_and(|maps| memchr::memmem::find(&maps, b"libnccl").is_some())
}

/// Threads that NCCL named (`NCCL Progress 0`, `NCCL Service 0`, `NCCL RAS`). It does so only with
/// NCCL_SET_THREAD_NAME=1 (src/debug.cc, 2.12.7-2.32), so that none proves nothing.
fn nccl_threads(folder: &Path) -> Option<u32> {
    let tasks = fs::read_dir(folder.join("task")).ok()?;
    let named = tasks.take(THREADS).flatten().filter(|task| {
        fs::read(task.path().join("comm")).is_ok_and(|name| name.starts_with(b"NCCL"))
    });
    u32::try_from(named.count()).ok().filter(|named| *named > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(proc: &Path, pid: u32, state: &str, used: u64, started: u64, thread: &str) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(folder.join("task/1")).expect("a folder");
        let stat = format!(
            "{pid} (py) (th)on) {state} 1 1 1 0 -1 4194560 0 0 0 0 {used} 0 0 0 20 0 3 0 {started} 1 2"
        );
        fs::write(folder.join("stat"), stat).expect("a file");
        fs::write(folder.join("task/1/comm"), format!("{thread}\n")).expect("a file");
    }

    fn host() -> (tempfile::TempDir, Looker) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("stat"), "cpu 1 2\nbtime 1000\n").expect("a file");
        let looker = Looker::new(folder.path());
        (folder, looker)
    }

    fn state(looked: Option<(ProcessState, ProcessLoad)>) -> Option<ProcessState> {
        looked.map(|(state, _)| state)
    }

    #[test]
    fn states() {
        let (proc, mut looker) = host();
        let states = [
            ("R", ProcessState::Running),
            ("S", ProcessState::Running),
            ("T", ProcessState::Stopped),
            ("t", ProcessState::Traced),
            ("D", ProcessState::Uninterruptible),
            ("Z", ProcessState::Zombie),
        ];
        for (letter, expected) in states {
            write(proc.path(), 7, letter, 0, 100, "NCCL Service 0");
            let (state, load) = looker.look(7, None).expect("a rank");
            assert_eq!(state, expected, "{letter}");
            assert_eq!((load.threads, load.nccl_threads), (Some(3), Some(1)));
        }
        // Without NCCL_SET_THREAD_NAME its threads have the program's name.
        write(proc.path(), 7, "S", 0, 100, "python3");
        let (_, load) = looker.look(7, None).expect("still the rank");
        assert_eq!((load.threads, load.nccl_threads), (Some(3), None));
    }

    #[test]
    fn a_pid_that_was_used_again_is_gone() {
        let (proc, mut looker) = host();
        write(proc.path(), 7, "S", 0, 100, "NCCL Service 0");
        assert_eq!(state(looker.look(7, None)), Some(ProcessState::Running));
        write(proc.path(), 7, "S", 0, 900, "bash");
        assert_eq!(state(looker.look(7, None)), Some(ProcessState::Gone));
    }

    #[test]
    fn nobody_is_called_gone_before_a_rank_was_found() {
        let (proc, mut looker) = host();
        // Logs of yesterday, or of a container: the pid is another program's, or nobody's.
        write(proc.path(), 7, "T", 0, 100, "bash");
        assert_eq!(looker.look(7, None), None);
        assert_eq!(looker.look(8, None), None);
        write(proc.path(), 9, "S", 0, 100, "NCCL Progress 0");
        assert_eq!(state(looker.look(9, None)), Some(ProcessState::Running));
        assert_eq!(state(looker.look(8, None)), Some(ProcessState::Gone));
    }

    #[test]
    fn a_process_younger_than_the_logs_is_another() {
        let (proc, mut looker) = host();
        let last_word = Some(UNIX_EPOCH + Duration::from_secs(1500));
        write(proc.path(), 7, "S", 0, 60_000, "NCCL Service 0");
        assert_eq!(looker.look(7, last_word), None);
        write(proc.path(), 9, "S", 0, 40_000, "NCCL Service 0");
        assert_eq!(
            state(looker.look(9, last_word)),
            Some(ProcessState::Running)
        );
        assert_eq!(state(looker.look(7, last_word)), Some(ProcessState::Gone));
    }

    #[test]
    fn cpu_time_is_a_share_of_one_core() {
        let before = Known {
            started: 1,
            used: 100,
            at: Instant::now(),
        };
        let later = before.at + Duration::from_secs(2);
        assert_eq!(share(&before, 200, later), Some(50));
        assert_eq!(share(&before, 99, later), None);
        assert_eq!(share(&before, 200, before.at), None);
    }
}
