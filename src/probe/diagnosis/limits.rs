//! Shared memory, limits and the control group.

use super::Trouble;
use crate::engine::vocab::FixKind;
use crate::probe::facts::Facts;
use crate::probe::limits::Limit;

/// Bytes in /dev/shm of one process that talks over the network, by the version from which on: the pool of
/// operations of NCCL's proxy (`ncclProxyOpsPool` in src/include/proxy.h), as measured. What P2P and SHM
/// need comes on top, so that this is the least.
const POOL: [((u32, u32, u32), u64); 7] = [
    ((2, 32, 3), 68_420_268),
    ((2, 31, 0), 34_210_188),
    ((2, 30, 7), 34_210_180),
    ((2, 27, 0), 33_030_532),
    ((2, 24, 0), 14_156_132),
    ((2, 21, 0), 7_340_388),
    ((2, 18, 0), 4_194_660),
];

/// Bytes of the SHM transport for one channel and direction, by default (`shmRecvSetup` in
/// src/transport/shm.cc: 4 KiB, LL 512 KiB, LL128 4.7 MiB, Simple 4 MiB); there are two channels at least.
const SEGMENT: u64 = 9_637_888;

/// The least that a rank needs of /dev/shm over the network.
fn shm_of_a_rank(version: (u32, u32, u32)) -> Option<u64> {
    let row = POOL.iter().find(|(from, _)| version >= *from);
    row.map(|(_, bytes)| *bytes)
}

pub(super) fn check(facts: &Facts, found: &mut Vec<Trouble>) {
    shm(facts, found);
    let limits = &facts.limits;
    let gpus = facts.usable_gpus() as u64;
    // NCCL raises the soft limit to the hard one itself (`setFilesLimit` in src/bootstrap.cc).
    if let Some((_, hard)) = limits.nofile
        && hard.below(1024)
        && gpus > 0
    {
        found.push(
            Trouble::wrong("nofile", format!("a process may have only {} files open (ulimit -Hn)", number(hard)))
                .why("every rank holds sockets to many others; it ends with \"Too many open files\"")
                .fix(FixKind::Host, "raise nofile to 65536 in limits.conf, LimitNOFILE= of the service, or docker run --ulimit nofile=65536"),
        );
    }
    if let Some((most, now)) = limits.cgroup.tasks
        && most.saturating_sub(now) < 32 * gpus
    {
        found.push(
            Trouble::wrong("pids-limit", format!("the control group allows {most} tasks and has {now}: no room for {gpus} ranks"))
                .why("each rank starts dozens of threads; pthread_create ends with \"Resource temporarily unavailable\"")
                .fix(FixKind::Launch, "docker run --pids-limit=-1; in Kubernetes podPidsLimit of the kubelet; systemd TasksMax="),
        );
    }
    if let Some(kills) = limits.cgroup.oom_kills.filter(|kills| *kills > 0) {
        found.push(
            Trouble::note("oom-kills", format!("processes of this control group were killed because its memory was full: {kills} so far"))
                .why("a rank that was killed so says nothing; the others wait for it")
                .fix(FixKind::Launch, "give the job more memory, or load less on the CPU (DataLoader workers, checkpoints)"),
        );
    }
    if let Some(milli) = limits.cgroup.cpu_milli
        && gpus > 0
        && milli < gpus * 1000
    {
        found.push(
            Trouble::note(
                "few-cpus",
                format!(
                    "the control group gives {:.1} CPUs for {gpus} GPUs",
                    milli as f64 / 1e3
                ),
            )
            .why("NCCL's proxy threads spin; throttled ones make every collective slow")
            .fix(
                FixKind::Launch,
                "ask for at least two CPUs a GPU (--cpus-per-task, resources.limits.cpu)",
            ),
        );
    }
}

fn number(limit: Limit) -> String {
    match limit {
        Limit::At(n) => n.to_string(),
        Limit::Unlimited => "unlimited".to_owned(),
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn shm(facts: &Facts, found: &mut Vec<Trouble>) {
    let gpus = facts.usable_gpus() as u64;
    let (Some(space), Some(version)) = (facts.limits.shm, facts.libraries.nccl_version()) else {
        return;
    };
    let Some(one) = shm_of_a_rank(version) else {
        return;
    };
    if gpus == 0 {
        return;
    }
    let version = format!("NCCL {}.{}.{}", version.0, version.1, version.2);
    let more = "docker run --shm-size=16g or --ipc=host; in Kubernetes an emptyDir with medium: Memory at /dev/shm; on a host mount -o remount,size=50% /dev/shm";
    if gpus > 1 && space.total < one * gpus {
        found.push(
            Trouble::wrong("shm-small", format!("/dev/shm has {} in all: too little for {gpus} ranks of {version}", mib(space.total)))
                .why(format!("a rank that talks over the network takes {} of it, those without P2P more: \"No space left on device\", or a bus error", mib(one)))
                .fix(FixKind::Launch, more),
        );
    } else if gpus > 1 && facts.container.is_some() && space.total < (one + 4 * SEGMENT) * gpus {
        found.push(
            Trouble::note("shm-tight", format!("/dev/shm has {} in all: enough for {gpus} ranks of {version} only if they reach each other by P2P", mib(space.total)))
                .why("without P2P and without cuMem host memory each pair takes 9 MiB a channel and direction of it")
                .fix(FixKind::Launch, more),
        );
    } else if space.free < one {
        let left = match facts.limits.shm_files {
            Some((n, bytes)) if n > 0 => format!(", {} of it in {n} files of NCCL", mib(bytes)),
            _ => String::new(),
        };
        found.push(
            Trouble::wrong("shm-full", format!("/dev/shm is full: {} of {} are free{left}", mib(space.free), mib(space.total)))
                .why(format!("a rank of {version} that talks over the network takes {}", mib(one)))
                .fix(FixKind::Host, "if no job runs here, what lies there was left over: rm /dev/shm/nccl-* (`fuser -v /dev/shm/*` says what is in use)")
                .fix(FixKind::Launch, more),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_grows_with_the_version() {
        for (version, bytes) in [
            ((2, 17, 1), None),
            ((2, 20, 5), Some(4_194_660)),
            ((2, 28, 9), Some(33_030_532)),
            ((2, 32, 3), Some(68_420_268)),
            ((3, 0, 0), Some(68_420_268)),
        ] {
            assert_eq!(shm_of_a_rank(version), bytes, "{version:?}");
        }
    }
}
