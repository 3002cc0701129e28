//! Real processes: one is stopped, one is killed; the watch names the rank.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::live::Scene;

/// A program that bears the name of one of NCCL's threads and sleeps.
struct Rank(Child);

impl Rank {
    fn start() -> Self {
        let script =
            "printf 'NCCL Service 0' > /proc/$$/comm; while :; do read -t 1 < /dev/zero; done";
        let child = Command::new("bash")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash");
        let rank = Self(child);
        let comm = PathBuf::from(format!("/proc/{}/comm", rank.pid()));
        let until = Instant::now() + Duration::from_secs(60);
        while !fs::read_to_string(&comm).is_ok_and(|name| name.starts_with("NCCL")) {
            assert!(Instant::now() < until, "bash did not start");
            std::thread::yield_now();
        }
        rank
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn send(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("a pid");
        kill(Pid::from_raw(pid), signal).expect("it runs");
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[test]
fn a_rank_that_is_stopped_is_named() {
    let ranks = [Rank::start(), Rank::start()];
    let scene = Scene::new("busy=100", [ranks[0].pid(), ranks[1].pid()]);
    let mut watch = scene.watch(&["--no-gpu"]);
    ranks[1].send(Signal::SIGSTOP);
    let line = watch.wait_for("PROC001");
    assert!(line.contains("rank 1"), "{line}");
    assert!(line.contains(&format!("pid {}", ranks[1].pid())), "{line}");
    watch.wait_for("hung");
    watch.end();
}

#[test]
fn a_rank_that_was_killed_is_named() {
    let ranks = [Rank::start(), Rank::start()];
    let scene = Scene::new("busy=100 power=120000", [ranks[0].pid(), ranks[1].pid()]);
    let mut watch = scene.watch(&[]);
    // It has been seen alive once the other is seen waiting for it.
    watch.wait_for("waiting");
    ranks[1].send(Signal::SIGKILL);
    let line = watch.wait_for("DIED001");
    assert!(line.contains("rank 1"), "{line}");
    watch.end();
}
