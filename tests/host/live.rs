//! The real binary with a stand-in for NVML: its samples, its findings, and no driver at all.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gethostname};
use serde_json::Value;

use super::support::{call, init};

/// Test machines are shared and slow.
const PATIENCE: Duration = Duration::from_secs(120);

static STANDIN: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin/nvml.rs");
    let built = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "-O", "-o"])
        .arg(folder.path().join("libnvidia-ml.so.1"))
        .arg(source)
        .output()
        .expect("rustc");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    folder
});

pub(crate) fn host() -> String {
    let name = gethostname().expect("a host name");
    name.to_string_lossy()
        .split('.')
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Logs of two ranks of this host that are in a collective, and what the GPUs say.
pub(crate) struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new(gpus: &str, pids: [u32; 2]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let host = host();
        fs::create_dir(folder.path().join("logs")).expect("a folder");
        for rank in 0..2 {
            let pid = pids[rank as usize];
            let mut text = init(&host, pid, rank, "START");
            text += &init(&host, pid, rank, "COMPLETE");
            text += &call(&host, pid, rank);
            // Rank 0 is one call ahead and waits.
            if rank == 0 {
                text += &call(&host, pid, rank);
            }
            let path = folder.path().join(format!("logs/rank{rank}.log"));
            fs::write(path, text).expect("a file");
        }
        let scene = Self { folder };
        scene.gpus(gpus);
        scene
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    /// The GPUs are so from now on.
    pub(crate) fn gpus(&self, keys: &str) {
        let keys = keys.replace(' ', "\n");
        let (next, now) = (
            self.folder.path().join("next"),
            self.folder.path().join("gpus"),
        );
        fs::write(&next, keys).expect("a file");
        fs::rename(next, now).expect("a file");
    }

    pub(crate) fn unhang(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unhang"));
        command
            .env("LD_LIBRARY_PATH", STANDIN.path())
            .env("UNHANG_STANDIN_NVML", self.folder.path().join("gpus"))
            .stdin(Stdio::null());
        command
    }

    fn report(&self) -> Value {
        let output = self
            .unhang()
            .args(["report", "--gpu", "--format", "json"])
            .arg(self.logs())
            .output()
            .expect("unhang");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    pub(crate) fn watch(&self, args: &[&str]) -> Watch {
        let mut child = self
            .unhang()
            .args(["watch", "--no-ras"])
            .args(args)
            .arg(self.logs())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unhang");
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Watch {
            child,
            lines,
            seen: Vec::new(),
        }
    }
}

/// `unhang watch` without a terminal.
pub(crate) struct Watch {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Watch {
    /// Waits for a line.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => self.seen.push(line),
                Err(error) => panic!("no {text:?}: {error}: {:#?}", self.seen),
            }
        }
    }

    pub(crate) fn end(mut self) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGINT).expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn rules(json: &Value) -> Vec<&str> {
    let findings = json["findings"].as_array().expect("findings");
    findings.iter().filter_map(|f| f["rule"].as_str()).collect()
}

#[test]
fn a_report_looks_at_the_gpus_once() {
    let json = Scene::new("busy=100 power=120000", [4_000_000, 4_000_001]).report();
    let host = &json["job"]["gpus"][0];
    assert_eq!(host["driver"], "580.65.06");
    assert_eq!(host["cuda"], "13.0");
    let gpu = &host["gpus"][1];
    assert_eq!(gpu["bus_id"], "00000000:28:00.0");
    assert_eq!(gpu["busy"], 100);
    assert_eq!(gpu["pcie"]["generation"], 5);
    assert_eq!(gpu["links"][3]["mbps"], 26_562);
    assert_eq!(gpu["fabric"]["state"], "completed");
    assert_eq!(gpu["remapped"]["failed"], false);
    assert_eq!(host["pairs"][0]["read"], "ok");
    assert_eq!(host["pairs"][0]["atomics"], "ok");
    assert_eq!(host["pairs"][0]["path"], "system");
    let rank = &json["job"]["ranks"][1];
    assert_eq!(rank["gpu_state"]["index"], 1);
    assert_eq!(rank["gpu_state"]["means"], "spins");
    let gpu_rules: Vec<&str> = rules(&json)
        .into_iter()
        .filter(|r| r.starts_with("GPU"))
        .collect();
    assert!(gpu_rules.is_empty(), "{gpu_rules:?}");
}

#[test]
fn what_a_gpu_does_not_give_is_null() {
    let json = Scene::new("1.values=none", [4_000_000, 4_000_001]).report();
    let gpus = &json["job"]["gpus"][0]["gpus"];
    assert_eq!(gpus[0]["busy"], 0);
    for key in [
        "busy",
        "power_mw",
        "temperature_c",
        "memory_used",
        "processes",
        "mig",
        "ecc",
        "remapped",
    ] {
        assert_eq!(gpus[1][key], Value::Null, "{key}");
    }
    assert_eq!(gpus[1]["pcie"]["generation"], Value::Null);
    for key in ["means", "memory_full", "slowed_by"] {
        assert_eq!(
            json["job"]["ranks"][1]["gpu_state"][key],
            Value::Null,
            "{key}"
        );
    }
}

/// What lies between two GPUs is told kind by kind, and what is not given is unknown.
#[test]
fn ways_between_gpus_are_told_or_unknown() {
    let pair = |keys: &str| {
        let json = Scene::new(keys, [4_000_000, 4_000_001]).report();
        json["job"]["gpus"][0]["pairs"][0].clone()
    };
    let told = pair("p2p.atomics=5 p2p.nvlink=4 path=10");
    assert_eq!(told["read"], "ok");
    assert_eq!(told["nvlink"], "regkey");
    assert_eq!(told["atomics"], "unsupported");
    assert_eq!(told["path"], "switch");
    let unknown = pair("p2p=none path=none");
    for key in ["read", "write", "nvlink", "atomics", "path"] {
        assert_eq!(unknown[key], Value::Null, "{key}");
    }
}

/// A process of the job is named by its rank, any other by pid and name.
#[test]
fn processes_on_a_gpu_are_told_by_rank_or_by_name() {
    let scene = Scene::new("", [4_000_000, 4_000_001]);
    let keys = "0.pids=4000000 4711 4712\nname.4000000=/usr/bin/python3 train.py\nname.4711=/opt/serve --port 1";
    fs::write(scene.folder.path().join("gpus"), keys).expect("a file");
    let json = scene.report();
    let on = json["job"]["gpus"][0]["gpus"][0]["processes"].as_array();
    let on = on.expect("processes");
    let told = |at: usize| {
        (
            on[at]["pid"].as_u64(),
            on[at]["name"].as_str(),
            on[at]["rank"].as_u64(),
        )
    };
    assert_eq!(told(2), (Some(4_000_000), Some("python3"), Some(0)));
    assert_eq!(told(0), (Some(4711), Some("serve"), None));
    assert_eq!(told(1), (Some(4712), None, None));
    let findings = json["findings"].as_array().expect("findings");
    let shared = findings
        .iter()
        .find(|f| f["rule"] == "GPU012")
        .expect("strangers");
    let title = shared["title"].as_str().expect("a title");
    assert!(
        title.contains("4711 serve (4096 MiB), 4712 (4096 MiB)"),
        "{title}"
    );
    // Where no pid is the job's, the driver counts pids in another way than the logs.
    fs::write(scene.folder.path().join("gpus"), "0.pids=4711").expect("a file");
    assert!(!rules(&scene.report()).contains(&"GPU012"));
}

#[test]
fn full_memory_and_held_clocks_stand_beside_the_rank() {
    let json = Scene::new(
        "busy=100 power=120000 0.used=149900000000 0.throttle=72 1.throttle=4",
        [4_000_000, 4_000_001],
    )
    .report();
    let state = |rank: usize| json["job"]["ranks"][rank]["gpu_state"].clone();
    assert_eq!(state(0)["memory_full"], true);
    assert_eq!(
        state(0)["slowed_by"],
        serde_json::json!(["hardware", "hardware-heat"])
    );
    assert!(rules(&json).contains(&"GPU013"), "{:?}", rules(&json));
    // The power limit is how it is meant to run.
    assert_eq!(state(1)["memory_full"], false);
    assert_eq!(state(1)["slowed_by"], serde_json::json!([]));
}

#[test]
fn p2p_and_fabric_are_reported() {
    let json = Scene::new("p2p=1 fabric=2", [4_000_000, 4_000_001]).report();
    let rules = rules(&json);
    assert!(rules.contains(&"GPU009"), "{rules:?}");
    assert!(rules.contains(&"GPU010"), "{rules:?}");
}

/// The doctor judges them by the same rules, without a job.
#[test]
fn the_doctor_asks_nvml() {
    let doctor = |gpus: &str, expect: &str| -> (Option<i32>, Value) {
        let scene = Scene::new(gpus, [4_000_000, 4_000_001]);
        let output = scene
            .unhang()
            .env_remove("NCCL_P2P_DISABLE")
            .args(["doctor", "--format", "json", "--expect", expect])
            .output()
            .expect("unhang");
        let json = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), json)
    };
    let (code, json) = doctor("busy=0", "gpus>=2,p2p");
    assert_eq!(code, Some(0), "{:#}", json["expectations"]);
    assert_eq!(json["facts"]["nvml"]["gpus"][1]["busy"], 0);
    let (code, json) = doctor("p2p=1 fabric=2", "p2p");
    assert_eq!(code, Some(10), "{:#}", json["expectations"]);
    let troubles = json["troubles"].as_array().expect("troubles");
    let trouble = troubles.iter().find(|t| t["name"] == "fabric-not-ready");
    let trouble = trouble.unwrap_or_else(|| panic!("no such trouble: {troubles:#?}"));
    assert_eq!(trouble["level"], "wrong");
    assert!(!trouble["fixes"].as_array().expect("fixes").is_empty());
}

#[test]
fn no_driver_is_said_and_the_rest_goes_on() {
    let scene = Scene::new("", [4_000_000, 4_000_001]);
    let output = scene
        .unhang()
        .env_remove("LD_LIBRARY_PATH")
        .args(["report", "--gpu", "--format", "json"])
        .arg(scene.logs())
        .output()
        .expect("unhang");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    // A machine that runs the tests may have a driver.
    if !Path::new("/dev/nvidiactl").exists() {
        assert!(error.contains("no NVIDIA driver here"), "{error}");
        assert_eq!(output.status.code(), Some(3));
    }
    let json: Value = serde_json::from_slice(&output.stdout).expect("a report all the same");
    assert_eq!(json["job"]["world_size"], 2);
}

/// The same link and bus, idle and under load: only what lasts under load, or differs from its siblings, is said.
#[test]
fn a_watch_tells_slow_links_and_a_slow_bus_from_idle_ones() {
    let scene = Scene::new("pcie=1 busy=0 carried=0", [4_000_000, 4_000_001]);
    let mut watch = scene.watch(&[]);
    watch.wait_for("waiting");
    scene.gpus("pcie=1 busy=0 carried=0 1.link3.mbps=12500");
    let line = watch.wait_for("GPU007");
    assert!(line.contains("12.5 GB/s instead of 26.5 GB/s"), "{line}");
    // By then the idle bus has been looked at for seconds.
    scene.gpus("0.pcie=1 busy=80 carried=400000");
    let line = watch.wait_for("GPU011");
    assert!(line.contains("GPU 0"), "{line}");
    assert!(line.contains("generation 1 x16"), "{line}");
    assert!(
        !watch.seen.iter().any(|l| l.contains("GPU011")),
        "{:#?}",
        watch.seen
    );
    watch.end();
}

/// One watch, one GPU after the other getting worse; a dead one stops nobody.
#[test]
fn a_watch_sees_links_errors_xids_and_a_gpu_that_vanishes() {
    let scene = Scene::new("busy=100", [4_000_000, 4_000_001]);
    let journal = scene.folder.path().join("watch.journal");
    let mut watch = scene.watch(&["--record", journal.to_str().expect("a path")]);
    scene.gpus("busy=100 0.link2.up=0");
    // Whichever came first, it was up or its sibling is.
    watch.wait_for("GPU007");
    scene.gpus("busy=100 0.link2.up=0 1.link1.crc_data=grow");
    watch.wait_for("GPU008");
    scene.gpus("busy=100 1.xid=94");
    let line = watch.wait_for("GPU005");
    assert!(line.contains("Xid 94"), "{line}");
    scene.gpus("busy=100 1.xid=79 1.state=lost");
    let line = watch.wait_for("GPU004");
    assert!(line.contains("has fallen off the bus"), "{line}");
    watch.end();
    // What was seen plays again where there is no GPU.
    let output = Command::new(env!("CARGO_BIN_EXE_unhang"))
        .args(["report", "--format", "json"])
        .arg(&journal)
        .output()
        .expect("unhang");
    let json: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(rules(&json).contains(&"GPU004"), "{:?}", rules(&json));
    let gpus = json["job"]["gpus"][0]["gpus"].as_array().expect("GPUs");
    assert_eq!(gpus[0]["busy"], 100, "the other one still answers");
    // How much it grew is known again from the samples.
    assert_eq!(gpus[0]["links"][1]["new_errors"], 0);
    assert_eq!(gpus[1]["trouble"], "lost");
    assert_eq!(gpus[1]["bus_id"], "00000000:28:00.0");
}

/// The driver never answers about one GPU: the others are still seen.
#[test]
fn a_driver_that_hangs_over_one_gpu_hides_no_other() {
    let scene = Scene::new("busy=100", [4_000_000, 4_000_001]);
    let mut watch = scene.watch(&[]);
    scene.gpus("busy=100 1.state=hang");
    let line = watch.wait_for("GPU004");
    assert!(line.contains("GPU 1"), "{line}");
    assert!(line.contains("of rank 1"), "{line}");
    assert!(line.contains("does not answer"), "{line}");
    watch.end();
}

#[test]
fn no_gpu_means_none() {
    let scene = Scene::new("1.state=lost", [4_000_000, 4_000_001]);
    let journal = scene.folder.path().join("watch.journal");
    let mut watch = scene.watch(&["--no-gpu", "--record", journal.to_str().expect("a path")]);
    watch.wait_for("waiting");
    watch.end();
    let output = scene
        .unhang()
        .args(["report", "--format", "json"])
        .arg(&journal)
        .output();
    let json: Value = serde_json::from_slice(&output.expect("unhang").stdout).expect("a report");
    assert_eq!(json["job"]["gpus"], Value::Null);
}
