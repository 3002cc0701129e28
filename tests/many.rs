//! The self-test of ranks that a launcher starts: each process is a host of its own, with stand-ins for the
//! driver and for NCCL.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "support/standins.rs"]
mod standins;

use standins::STANDINS;

struct Job {
    folder: tempfile::TempDir,
    port: u16,
    world: u32,
}

impl Job {
    fn new(world: u32) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            port: free.local_addr().unwrap().port(),
            world,
        }
    }

    fn rank(&self, rank: u32, env: &[(&str, &str)]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_unhang"))
            .args(["selftest", "--timeout", "6s", "--format", "json", "--nccl"])
            .arg(STANDINS.path())
            .args(["--port", &self.port.to_string()])
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", self.world.to_string())
            .env("LOCAL_RANK", "0")
            .env("MASTER_ADDR", "127.0.0.1")
            // What a launcher does that gives each process its own GPU.
            .env("CUDA_VISIBLE_DEVICES", "0")
            .env("LD_LIBRARY_PATH", STANDINS.path())
            .env("TMPDIR", self.folder.path())
            .env("UNHANG_STANDIN_DIR", self.folder.path())
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

fn ended(children: Vec<Child>) -> Vec<(Option<i32>, Value)> {
    let read = |child: Child| {
        let output = child.wait_with_output().unwrap();
        let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            panic!("{error}: {text}")
        });
        (output.status.code(), json)
    };
    children.into_iter().map(read).collect()
}

#[test]
fn ranks_of_several_processes_pass_together() {
    for world in [2, 3] {
        let job = Job::new(world);
        let ranks = (0..world).map(|rank| job.rank(rank, &[])).collect();
        for (code, json) in ended(ranks) {
            assert_eq!(code, Some(0), "{json:#}");
            assert_eq!(json["verdict"], "passed");
            assert_eq!(json["world_size"], world);
            assert_eq!(
                json["checks"]["right"].as_array().unwrap().len(),
                12,
                "{json:#}"
            );
        }
    }
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let job = Job::new(3);
    let ranks = vec![job.rank(0, &[]), job.rank(2, &[])];
    for (code, json) in ended(ranks) {
        assert_eq!(code, Some(10), "{json:#}");
        let fault = json["fault"].as_str().unwrap();
        assert!(
            fault.contains("rank 1 never came to rank 0 at 127.0.0.1"),
            "{fault}"
        );
    }
}

#[test]
fn what_happens_to_a_rank_elsewhere_is_told_by_all() {
    for (fault, words) in [
        (
            "hang-driver",
            "rank 1 has not returned from using its GPU alone",
        ),
        ("crash-init", "rank 1: its process ended by signal"),
        ("fail-init", "rank 1 failed in step communicator"),
    ] {
        let started = Instant::now();
        let job = Job::new(2);
        let ranks = vec![job.rank(0, &[]), job.rank(1, &[("UNHANG_STANDIN", fault)])];
        for (code, json) in ended(ranks) {
            assert_eq!(code, Some(10), "{fault}: {json:#}");
            let said = json["fault"].as_str().unwrap();
            assert!(said.contains(words), "{fault}: {said}");
            // What rank 1's log says is diagnosed on rank 0's host, too.
            if fault == "fail-init" {
                let finding = &json["finding"];
                assert_eq!(finding["rule"], "NET001", "{json:#}");
            }
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{fault}");
    }
}

#[test]
fn those_behind_a_process_that_hangs_are_not_named() {
    let job = Job::new(3);
    let first = job.rank(0, &[]);
    let mut second = job.rank(1, &[("UNHANG_STANDIN", "hang-init")]);
    let third = job.rank(2, &[]);
    // Its child is in the communicator: the unique id has come.
    let until = Instant::now() + Duration::from_secs(20);
    let is_there = || {
        let runs = fs::read_dir(job.folder.path()).unwrap().flatten();
        let mut logs = runs.map(|run| run.path().join("nccl.rank1.log"));
        logs.any(|log| fs::read_to_string(log).is_ok_and(|log| log.contains("Init START")))
    };
    while !is_there() {
        assert!(Instant::now() < until, "rank 1 never got there");
        std::thread::yield_now();
    }
    let id = nix::unistd::Pid::from_raw(i32::try_from(second.id()).unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGSTOP).unwrap();
    for (code, json) in ended(vec![first, third]) {
        assert_eq!(code, Some(10), "{json:#}");
        assert_eq!(json["at"]["ranks"], serde_json::json!([1]), "{json:#}");
        let said = json["fault"].as_str().unwrap();
        assert!(
            said.starts_with("rank 1: nothing more came to rank 0"),
            "{said}"
        );
    }
    second.kill().unwrap();
    second.wait().unwrap();
}

#[test]
fn a_host_without_a_gpu_is_named_and_a_process_that_is_killed_too() {
    let job = Job::new(2);
    let ranks = vec![
        job.rank(0, &[]),
        job.rank(1, &[("CUDA_VISIBLE_DEVICES", "")]),
    ];
    for (code, json) in ended(ranks) {
        assert_eq!(code, Some(10), "{json:#}");
        let said = json["fault"].as_str().unwrap();
        assert!(
            said.contains("rank 1 on ") && said.contains("no GPU is visible"),
            "{said}"
        );
    }
    let job = Job::new(2);
    let first = job.rank(0, &[]);
    let mut second = job.rank(1, &[("UNHANG_STANDIN", "hang-init")]);
    // It has come when its child has a log.
    let until = Instant::now() + Duration::from_secs(20);
    let log = job
        .folder
        .path()
        .join(format!("unhang-selftest-{}/rank1.log", second.id()));
    while !log.exists() && Instant::now() < until {
        std::thread::yield_now();
    }
    second.kill().unwrap();
    second.wait().unwrap();
    let (code, json) = ended(vec![first]).remove(0);
    assert_eq!(code, Some(10), "{json:#}");
    let said = json["fault"].as_str().unwrap();
    assert!(
        said.contains("rank 1: nothing more came to rank 0"),
        "{said}"
    );
}
