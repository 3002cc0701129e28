//! What this host lets a process have: limits, the control group, shared memory; and what it is.

use serde::Serialize;

use super::host::{Host, Space};

/// A limit of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// So many (bytes, files, processes).
    At(u64),
    /// None.
    Unlimited,
}

impl Limit {
    /// Whether it is less than so many.
    #[must_use]
    pub fn below(self, most: u64) -> bool {
        matches!(self, Self::At(n) if n < most)
    }
}

/// Soft and hard.
pub type Pair = (Limit, Limit);

/// Limits and shared memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Memory that may be pinned, bytes (`ulimit -l`, there in KiB).
    pub memlock: Option<Pair>,
    /// Open files (`ulimit -n`).
    pub nofile: Option<Pair>,
    /// Processes and threads of the user (`ulimit -u`).
    pub nproc: Option<Pair>,
    /// Whether the process may pin memory whatever the limit (CAP_IPC_LOCK).
    pub may_pin: Option<bool>,
    /// Shared memory.
    pub shm: Option<Space>,
    /// Files of NCCL in it: how many, and their bytes.
    pub shm_files: Option<(usize, u64)>,
    /// The control group.
    pub cgroup: Cgroup,
}

/// Limits of the control group, the tightest of it and those above it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cgroup {
    /// 1, 2, or unknown.
    pub version: Option<u8>,
    /// Memory, bytes; `None` if there is no limit or it is not seen.
    pub memory: Option<u64>,
    /// Times that a process was killed because its memory was full.
    pub oom_kills: Option<u64>,
    /// Tasks: at most and now.
    pub tasks: Option<(u64, u64)>,
    /// CPUs' worth of time, thousandths.
    pub cpu_milli: Option<u64>,
}

/// Reads them.
#[must_use]
pub fn limits(host: &Host) -> Limits {
    let text = host.text(&host.process("limits")).unwrap_or_default();
    let status = host.text(&host.process("status")).unwrap_or_default();
    Limits {
        memlock: pair(&text, "Max locked memory"),
        nofile: pair(&text, "Max open files"),
        nproc: pair(&text, "Max processes"),
        may_pin: capability(&status, IPC_LOCK),
        shm: host.space("/dev/shm"),
        shm_files: nccl_files(host),
        cgroup: cgroup(host),
    }
}

/// `CAP_IPC_LOCK` of linux/capability.h.
const IPC_LOCK: u32 = 14;

fn capability(status: &str, number: u32) -> Option<bool> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let set = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(set >> number & 1 == 1)
}

/// A line of /proc/PID/limits: `Max open files            1024                 524288               files`
fn pair(text: &str, name: &str) -> Option<Pair> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let mut words = line.split_whitespace();
    let mut next = || match words.next()? {
        "unlimited" => Some(Limit::Unlimited),
        number => number.parse().ok().map(Limit::At),
    };
    Some((next()?, next()?))
}

/// Segments of NCCL are named `nccl-XXXXXX` (src/misc/shmutils.cc) and go when all have attached, or stay if
/// a process was killed before that.
fn nccl_files(host: &Host) -> Option<(usize, u64)> {
    let folder = host.path_inside("/dev/shm");
    if !folder.is_dir() {
        return None;
    }
    let (mut files, mut bytes) = (0, 0);
    for name in super::host::list(&folder) {
        if name.starts_with("nccl-") {
            files += 1;
            bytes += folder.join(&name).symlink_metadata().map_or(0, |m| m.len());
        }
    }
    Some((files, bytes))
}

fn cgroup(host: &Host) -> Cgroup {
    let text = host.text(&host.process("cgroup")).unwrap_or_default();
    let mut found = Cgroup::default();
    let of = |controller: &str| {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let mut names = controllers.split(',');
            names.any(|name| name == controller).then_some(path)
        })
    };
    if let Some(path) = of("memory") {
        found.version = Some(1);
        let folders = folders("/sys/fs/cgroup/memory", path);
        found.memory = least(host, &folders, "memory.limit_in_bytes");
        found.oom_kills = folders.first().and_then(|folder| {
            let text = host.text(&format!("{folder}/memory.oom_control"))?;
            word_after(&text, "oom_kill")
        });
        if let Some(path) = of("pids") {
            found.tasks = tasks(host, &self::folders("/sys/fs/cgroup/pids", path));
        }
        let cpu = of("cpu").map(|path| self::folders("/sys/fs/cgroup/cpu", path));
        found.cpu_milli = cpu
            .unwrap_or_default()
            .iter()
            .filter_map(|folder| {
                let quota: u64 = host.number(&format!("{folder}/cpu.cfs_quota_us"))?;
                let period: u64 = host.number(&format!("{folder}/cpu.cfs_period_us"))?;
                (quota * 1000).checked_div(period)
            })
            .min();
    } else if let Some(path) = of("") {
        found.version = Some(2);
        let folders = folders("/sys/fs/cgroup", path);
        found.memory = least(host, &folders, "memory.max");
        found.oom_kills = folders.first().and_then(|folder| {
            let text = host.text(&format!("{folder}/memory.events"))?;
            word_after(&text, "oom_kill")
        });
        found.tasks = tasks(host, &folders);
        found.cpu_milli = folders
            .iter()
            .filter_map(|folder| {
                let text = host.text(&format!("{folder}/cpu.max"))?;
                let (quota, period) = text.split_once(' ')?;
                (quota.parse::<u64>().ok()? * 1000).checked_div(period.parse().ok()?)
            })
            .min();
    }
    found
}

/// The group's folder and those above it. In a container the path may be the host's, and the mount the group.
fn folders(mount: &str, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut path = path.trim_end_matches('/');
    while !path.is_empty() {
        found.push(format!("{mount}{path}"));
        path = path.rsplit_once('/').map_or("", |(above, _)| above);
    }
    found.push(mount.to_owned());
    found
}

fn least(host: &Host, folders: &[String], file: &str) -> Option<u64> {
    // Version 1 says "no limit" with a number that no machine has.
    const NONE: u64 = 1 << 60;
    let limits = folders
        .iter()
        .filter_map(|f| host.number::<u64>(&format!("{f}/{file}")));
    limits.filter(|limit| *limit < NONE).min()
}

/// The limit that is nearest to being reached.
fn tasks(host: &Host, folders: &[String]) -> Option<(u64, u64)> {
    let pairs = folders.iter().filter_map(|folder| {
        let most: u64 = host.number(&format!("{folder}/pids.max"))?;
        Some((most, host.number(&format!("{folder}/pids.current"))?))
    });
    pairs.min_by_key(|(most, now)| most.saturating_sub(*now))
}

fn word_after(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok()).flatten()
    })
}

/// The container that this runs in, if it does.
#[must_use]
pub fn container(host: &Host) -> Option<&'static str> {
    let variables = host.variables();
    let groups = host.text("/proc/1/cgroup").unwrap_or_default();
    let set = |name: &str| variables.contains_key(name);
    if set("KUBERNETES_SERVICE_HOST") || groups.contains("kubepods") {
        Some("Kubernetes")
    } else if host.exists("/.dockerenv") || groups.contains("/docker/") {
        Some("Docker")
    } else if host.exists("/run/.containerenv") {
        Some("Podman")
    } else if host.exists("/.singularity.d")
        || set("APPTAINER_CONTAINER")
        || set("SINGULARITY_CONTAINER")
    {
        Some("Apptainer")
    } else if set("ENROOT_ROOTFS") {
        Some("Enroot")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_limits() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max locked memory         65536                unlimited            bytes\n\
                    Max open files            1024                 524288               files\n";
        assert_eq!(
            pair(text, "Max locked memory"),
            Some((Limit::At(65536), Limit::Unlimited))
        );
        assert_eq!(
            pair(text, "Max open files"),
            Some((Limit::At(1024), Limit::At(524_288)))
        );
        assert_eq!(pair(text, "Max processes"), None);
    }

    #[test]
    fn capabilities() {
        assert_eq!(
            capability("CapEff:\t000001ffffffffff\n", IPC_LOCK),
            Some(true)
        );
        assert_eq!(
            capability("CapEff:\t0000000000000000\n", IPC_LOCK),
            Some(false)
        );
        assert_eq!(capability("", IPC_LOCK), None);
    }

    #[test]
    fn groups_above() {
        assert_eq!(folders("/m", "/a/b"), ["/m/a/b", "/m/a", "/m"]);
        assert_eq!(folders("/m", "/"), ["/m"]);
    }
}
