//! Lines whose meaning the rest of the logs decides: whose process or GPU the kernel names, and what a later line
//! takes back.

use std::fmt::Write as _;

use unhang::engine::finding::Finding;
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Role, State};

#[path = "common/drive.rs"]
mod drive;

/// Two ranks on each of two hosts, on GPUs 18:00 and 38:00; lines of NCCL in front of and behind init.
fn job(before: &str, behind: &str) -> Vec<(String, String)> {
    let ranks = 0..4;
    let log = |rank: u32| {
        let (host, pid, local) = (rank / 2, 4100 + rank, rank % 2);
        let head = format!("node-{host}:{pid}:{pid} [{local}] NCCL INFO ");
        let mut text = String::new();
        let mut line = |rest: &str| writeln!(text, "{head}{rest}").expect("a string");
        line("NCCL version 2.28.9+cuda12.9");
        before.lines().for_each(&mut line);
        for end in ["START", "COMPLETE"] {
            line(&format!(
                "ncclCommInitRankConfig comm 0x55d0c{rank}e0100 rank {rank} nranks 4 cudaDev {local} nvmlDev {local} \
                 busId {}8000 commId 0x9c1d2e3f40516273 - Init {end}",
                1 + 2 * local
            ));
        }
        behind
            .replace("COMM", &format!("0x55d0c{rank}e0100"))
            .lines()
            .for_each(&mut line);
        (format!("rank{rank}.log"), text)
    };
    ranks.map(log).collect()
}

const CALL: &str = "AllReduce: opCount 0 sendbuff 0x7f0 recvbuff 0x7f0 count 4096 datatype 7 op 0 root 0 comm COMM \
                    [nranks=4] stream 0x550";
const END: &str = "comm COMM rank 0 nranks 4 cudaDev 0 busId 18000 - Destroy COMPLETE";

/// The job's logs and one more.
fn with(mut job: Vec<(String, String)>, name: &str, text: &str, stuck: bool) -> Snapshot {
    job.push((name.to_owned(), text.to_owned()));
    let logs: Vec<(&str, &[u8])> = job
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_bytes()))
        .collect();
    drive::diagnose(&logs, stuck)
}

fn finding<'a>(answer: &'a Snapshot, id: &str) -> Option<&'a Finding> {
    answer.findings.iter().find(|f| f.id == id)
}

fn title(answer: &Snapshot, id: &str) -> String {
    finding(answer, id).map_or_else(String::new, |f| f.title.clone())
}

#[test]
fn a_misspelt_variable_of_the_launch_line_is_named_with_the_right_one() {
    let launch = "+ mpirun -np 4 -x NCCL_DEBUG=INFO -x NCCL_SOKCET_IFNAME=data0 -x GLOO_SOCKET_IFNAMES=data0 python t.py\n";
    let env = "NCCL_DEBUG set by environment to INFO";
    let answer = with(job(env, CALL), "launch.log", launch, false);
    assert_eq!(
        title(&answer, "ENV002"),
        "misspelt, so without effect: GLOO_SOCKET_IFNAMES (meant: GLOO_SOCKET_IFNAME), NCCL_SOKCET_IFNAME (meant: \
         NCCL_SOCKET_IFNAME)"
    );
    assert_eq!(finding(&answer, "ENV002").map(|f| f.role), Some(Role::Note));
    // Where every rank prints the right one, the other name is the script's own.
    let launch = "+ NCCL_IFNAME=data0\n+ export NCCL_SOCKET_IFNAME=data0\n";
    let env = "NCCL_SOCKET_IFNAME set by environment to data0";
    let answer = with(job(env, CALL), "launch.log", launch, false);
    assert_eq!(title(&answer, "ENV002"), "");
}

#[test]
fn the_out_of_memory_killer_names_a_process_and_the_logs_whose_it_is() {
    let killed = |pid: u32| {
        format!(
            "[918.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/j,\
             task_memcg=/j,task=python3,pid={pid},uid=0\n\
             [918.2] Memory cgroup out of memory: Killed process {pid} (python3) total-vm:1kB, anon-rss:1kB\n"
        )
    };
    // The log's name says on which host.
    let answer = with(job("", CALL), "node-1-dmesg.txt", &killed(4102), true);
    assert_eq!(
        answer.verdict.summary,
        "the kernel killed rank 2 (process 4102, python3) on node-1 for lack of memory"
    );
    assert_eq!(answer.verdict.ranks, [2]);
    // Earlier ones of other programs are no part of it, however many there were.
    let many: String = (100..180).map(killed).chain([killed(4103)]).collect();
    let answer = with(job("", CALL), "node-1-dmesg.txt", &many, true);
    assert_eq!(answer.verdict.ranks, [3]);
    assert!(answer.verdict.summary.contains("rank 3 (process 4103"));
    // The same number on the other host is another process, and so is one of a host that is none of the job's.
    for (name, stamp) in [
        ("node-0-dmesg.txt", ""),
        ("messages", "Nov 30 12:01:02 node-7 kernel: "),
    ] {
        let lines: String = killed(4102)
            .lines()
            .map(|l| format!("{stamp}{l}\n"))
            .collect();
        let answer = with(job("", CALL), name, &lines, true);
        assert!(answer.verdict.ranks.is_empty(), "{name}");
    }
    // Nothing says on which of the two hosts it was.
    let answer = with(job("", CALL), "dmesg.txt", &killed(4102), true);
    assert!(answer.verdict.ranks.is_empty());
    let stamped = format!(
        "Nov 30 12:01:02 node-1 kernel: {}",
        killed(4102).lines().last().expect("two lines")
    );
    let answer = with(job("", CALL), "messages", &stamped, true);
    assert_eq!(answer.verdict.ranks, [2]);
}

#[test]
fn a_kernel_log_of_a_job_that_is_well_accuses_nobody() {
    let dmesg = "[918.2] Out of memory: Killed process 77 (java) total-vm:1kB, anon-rss:1kB\n";
    let answer = with(job("", CALL), "node-1-dmesg.txt", dmesg, false);
    assert_eq!(
        answer.verdict.class,
        Class::Healthy,
        "{}",
        answer.verdict.summary
    );
    assert_eq!(
        finding(&answer, "HOST002").map(|f| f.role),
        Some(Role::Note)
    );
    // All came to their end: what the driver said was of another time or program.
    let dmesg =
        "[918.2] NVRM: Xid (PCI:0000:18:00): 94, pid=77, name=python3, Contained: SM (0x1).\n";
    let answer = with(job("", END), "node-1-dmesg.txt", dmesg, false);
    assert_eq!(
        answer.verdict.state,
        State::Completed,
        "{}",
        answer.verdict.summary
    );
}

#[test]
fn of_several_xids_the_first_that_is_no_consequence_is_the_cause() {
    let xids = "[900.0] NVRM: Xid (PCI:0000:38:00): 63, pid='<unknown>', name=<unknown>, Row Remapper\n\
                [918.1] NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n\
                [918.2] NVRM: Xid (PCI:0000:38:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error\n\
                [918.3] NVRM: Xid (PCI:0000:18:00): 45, pid=4102, name=python3, Ch 00000010\n\
                [918.4] NVRM: Xid (PCI:0000:38:00): 43, pid=4103, name=python3, Ch 00000010\n";
    let answer = with(job("", CALL), "node-1-dmesg.txt", xids, true);
    assert_eq!(
        answer.verdict.summary,
        "the driver reports a fault of GPU 0000:18:00 (rank 2, node-1): Xid 79, the GPU has fallen off the bus (power, \
         slot, heat)"
    );
    assert_eq!(answer.verdict.ranks, [2]);
    let role = |id| finding(&answer, id).map(|f| f.role);
    assert_ne!(role("HW002"), Some(Role::Cause));
    assert_ne!(role("HW004"), Some(Role::Cause));
    // The clean-up alone is no cause.
    let last = xids.lines().last().expect("five lines");
    let answer = with(job("", CALL), "node-1-dmesg.txt", last, true);
    assert_ne!(answer.verdict.class, Class::GpuHardware);
    assert_eq!(
        finding(&answer, "HW002").map(|f| f.role),
        Some(Role::Symptom)
    );
    // A program's own fault, where the process is a rank's.
    let own = "[918.3] NVRM: Xid (PCI:0000:18:00): 31, pid=4102, name=python3, Ch 00000008, MMU Fault\n\
               [918.4] NVRM: Xid (PCI:0000:18:00): 45, pid=4102, name=python3, Ch 00000010\n";
    let answer = with(job("", CALL), "node-1-dmesg.txt", own, true);
    assert_eq!(
        (answer.verdict.class, &answer.verdict.ranks[..]),
        (Class::UserCode, &[2][..])
    );
    // A GPU that no rank uses is none of the job's.
    let other = "[918.1] NVRM: Xid (PCI:0000:9a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n";
    let answer = with(job("", CALL), "node-1-dmesg.txt", other, false);
    assert_eq!(finding(&answer, "HW001").map(|f| f.role), Some(Role::Note));
}

#[test]
fn a_failure_after_which_the_rank_works_is_none() {
    let gloo = "RuntimeError: [enforce fail at ./gloo/transport/tcp/device.cc:80] ifa != nullptr. Unable to find address \
                for: eth9";
    let plugin = |rank: u32| {
        format!(
            "node-{}:{pid}:{pid} [0] NCCL WARN Failed to initialize any NET plugin",
            rank / 2,
            pid = 4100 + rank
        )
    };
    for (id, error) in [("NET008", gloo.to_owned()), ("PLUG001", plugin(0))] {
        let with_error = |front: bool| {
            let mut logs = job("NCCL_NET_PLUGIN set by environment to ofi", CALL);
            let log = &mut logs[0].1;
            *log = if front {
                format!("{error}\n{log}")
            } else {
                format!("{log}{error}\n")
            };
            let all: Vec<(&str, &[u8])> = logs
                .iter()
                .map(|(n, t)| (n.as_str(), t.as_bytes()))
                .collect();
            drive::diagnose(&all, false)
        };
        assert_eq!(title(&with_error(true), id), "", "{id}");
        assert_ne!(title(&with_error(false), id), "", "{id}");
    }
}

/// The job, and a second call that rank 3 has not made.
fn uneven() -> Vec<(String, String)> {
    let mut logs = job("", CALL);
    for (rank, (_, log)) in logs.iter_mut().enumerate().take(3) {
        let call = log
            .lines()
            .last()
            .expect("the call")
            .replace("opCount 0", "opCount 1");
        writeln!(log, "{call}").expect("a string");
        assert!(call.contains(&format!("0x55d0c{rank}e0100")));
    }
    logs
}

#[test]
fn a_job_that_works_until_it_is_ended_from_outside_has_no_other_culprit() {
    for (line, who) in [
        (
            "slurmstepd: error: *** JOB 7 ON node-0 CANCELLED AT 2026-11-30T12:00:00 ***",
            "it was cancelled (scancel)",
        ),
        (
            "slurmstepd: error: *** STEP 7.0 ON node-0 CANCELLED AT 2026-11-30T12:00:00 DUE TO PREEMPTION ***",
            "it was preempted",
        ),
        (
            "slurmstepd: error: *** STEP 7.0 ON node-0 CANCELLED AT 2026-11-30T12:00:00 DUE TO NODE FAILURE, SEE \
             SLURMCTLD LOG FOR DETAILS ***",
            "a node failed",
        ),
        (
            "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
            "its time limit was reached",
        ),
    ] {
        let aftermath = "\nsrun: error: node-0: tasks 0-1: Terminated\nsrun: error: node-1: tasks 2-3: Killed\n";
        let answer = with(uneven(), "slurm.out", &format!("{line}{aftermath}"), false);
        assert_eq!(
            answer.verdict.summary,
            format!("the job was ended from outside: {who}")
        );
        assert_eq!(
            (answer.verdict.class, answer.verdict.state),
            (Class::Stopped, State::Failed)
        );
        assert!(
            answer.verdict.ranks.is_empty() && answer.verdict.other_causes.is_empty(),
            "{line}"
        );
    }
}

#[test]
fn a_job_that_stood_still_before_its_time_was_up_has_the_cause_of_that() {
    let mut logs = uneven();
    logs[0].1.push_str(
        "[rank0]:[E1130 12:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: \
         WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600010 \
         milliseconds before timing out.\n",
    );
    let limit = "slurmstepd: error: *** STEP 7.0 ON node-0 CANCELLED AT 2026-11-30T12:00:00 DUE TO TIME LIMIT ***\n";
    let answer = with(logs, "slurm.out", limit, false);
    assert_eq!(
        (answer.verdict.class, &answer.verdict.ranks[..]),
        (Class::MissingRank, &[3][..])
    );
    assert_eq!(
        finding(&answer, "STOP002").map(|f| f.role),
        Some(Role::Symptom)
    );
}

#[test]
fn a_step_that_srun_ends_after_a_task_failed_was_cancelled_by_nobody() {
    let out = "srun: error: node-1: task 3: Exited with exit code 1\nsrun: Terminating StepId=7.0\n\
               slurmstepd: error: *** STEP 7.0 ON node-0 CANCELLED AT 2026-11-30T12:00:00 ***\n\
               srun: error: node-0: tasks 0-1: Terminated\n";
    let answer = with(job("", CALL), "slurm.out", out, false);
    assert_eq!(title(&answer, "STOP002"), "");
    assert_eq!(
        title(&answer, "STOP003"),
        "Slurm reports that task 3 on node-1 ended: Exited with exit code 1"
    );
}

#[test]
fn a_completion_error_names_both_hosts() {
    let chose = |host: usize| format!("Bootstrap: Using data0:10.20.0.{}<0>", host + 1);
    let warn = |rank: usize, peer: &str| {
        let (host, pid) = (rank / 2, 4100 + rank);
        format!(
            "node-{host}:{pid}:{pid} [0] NCCL WARN NET/IB: Got completion from peer {peer}<41231> with status=12 opcode=0 \
             len=0 vendor err 129 (Send) localGid fe80::1 remoteGids fe80::2 hca mlx5_3\n"
        )
    };
    let answer = |peer: &str| {
        let mut logs = job("", CALL);
        for (rank, (_, log)) in logs.iter_mut().enumerate() {
            let pid = 4100 + rank;
            *log = format!(
                "node-{}:{pid}:{pid} [0] NCCL INFO {}\n{log}",
                rank / 2,
                chose(rank / 2)
            );
        }
        logs[3].1.push_str(&warn(3, peer));
        let (name, log) = logs.pop().expect("four");
        with(logs, &name, &log, false)
    };
    let known = answer("10.20.0.1");
    assert_eq!(
        known.verdict.summary,
        "node-1 got no acknowledgement over InfiniBand or RoCE from node-0 (10.20.0.1) on mlx5_3 (status 12, retries exceeded)"
    );
    let fixes = finding(&known, "IB002").map(|f| {
        f.fixes
            .iter()
            .filter(|fix| fix.text.contains("link-local"))
            .count()
    });
    assert_eq!(fixes, Some(1));
    // Nobody's address that is known.
    assert!(title(&answer("10.99.0.1"), "IB002").contains("from 10.99.0.1 on mlx5_3"));
}

#[test]
fn the_host_of_a_gloo_warning_is_named_without_nccl() {
    let warning = "[W1130 ProcessGroupGloo.cpp:760] Warning: Unable to resolve hostname to a (local) address. Using the \
                   loopback address as fallback. (function operator())\n";
    let of = |name: &str| {
        title(
            &with(
                Vec::new(),
                name,
                &format!("[rank1]: hello\n{warning}"),
                false,
            ),
            "GLOO002",
        )
    };
    assert_eq!(
        of("node-3.log"),
        "Gloo cannot resolve the host's own name on node 3 and takes the loopback address"
    );
    assert_eq!(
        of("nccl.gpu07.812.log"),
        "Gloo cannot resolve the host's own name on gpu07 and takes the loopback address"
    );
    assert_eq!(
        of("job.log"),
        "Gloo cannot resolve the host's own name and takes the loopback address"
    );
}
