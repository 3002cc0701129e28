//! The self-test against stand-ins for the driver and for NCCL: every step done well, and badly.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "support/standins.rs"]
mod standins;

use standins::STANDINS;

struct Test {
    command: Command,
    _folder: tempfile::TempDir,
}

impl Test {
    fn new(args: &[&str]) -> Self {
        let mut test = Self::of_any_library(args);
        if !args.contains(&"--like") {
            test.command.arg("--nccl").arg(STANDINS.path());
        }
        test
    }

    fn of_any_library(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_unhang"));
        command
            .arg("selftest")
            .args(if args.contains(&"--gpus") {
                &[][..]
            } else {
                &["--gpus", "0"][..]
            })
            .args(args)
            .env("LD_LIBRARY_PATH", STANDINS.path())
            .env("TMPDIR", folder.path())
            .env("UNHANG_STANDIN_DIR", folder.path())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env_remove("RANK")
            .env_remove("PYTHONPATH")
            .stdin(Stdio::null());
        Self {
            command,
            _folder: folder,
        }
    }

    fn run(mut self) -> Output {
        self.command.output().unwrap()
    }

    fn json(mut self) -> (Option<i32>, Value) {
        let output = self.command.args(["--format", "json"]).output().unwrap();
        let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!(
                "{error}: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )
        });
        (output.status.code(), json)
    }
}

#[test]
fn all_steps_pass_and_every_operation_is_right() {
    for ranks in ["2", "3"] {
        let (code, json) = Test::new(&["--ranks-per-gpu", ranks]).json();
        assert_eq!(code, Some(0), "{json:#}");
        assert_eq!(json["verdict"], "passed");
        let right = json["checks"]["right"].as_array().unwrap();
        assert_eq!(right.len(), 12, "{right:?}");
        assert_eq!(json["checks"]["wrong"].as_array().unwrap().len(), 0);
        let steps: Vec<&str> = json["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["name"].as_str().unwrap())
            .collect();
        assert_eq!(steps.len(), 8, "{steps:?}");
        assert!(json["proves"].as_str().unwrap().contains("not P2P"));
        assert_eq!(json["paths"], serde_json::json!(["NET/Socket"]));
        assert_eq!(json["ranks"][1]["facts"]["nccl"], "2.28.9");
        assert!(!json["bandwidth"].as_array().unwrap().is_empty());
    }
}

#[test]
fn every_field_is_documented() {
    let page = include_str!("../docs/json.md");
    let (_, page) = page.split_once("## `unhang selftest").unwrap();
    let check = |value: &Value, path: &str| {
        for key in value.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{key}`")), "{path}{key}");
        }
    };
    let args = ["--ranks-per-gpu", "2"];
    let (_, passed) = Test::new(&args).json();
    check(&passed, "");
    check(&passed["bandwidth"][0], "bandwidth.");
    check(&passed["ranks"][0], "ranks.");
    let fails = [&args[..], &["--env", "UNHANG_STANDIN=wrong-sum"]].concat();
    let (_, failed) = Test::new(&fails).json();
    check(&failed["at"], "at.");
    check(&failed["conclusion"], "conclusion.");
    let mut pairs = Test::new(&["--pairs", "--gpus", "0-1"]);
    pairs.command.env("CUDA_VISIBLE_DEVICES", "0,1");
    let (_, pairs) = pairs.json();
    check(&pairs, "");
    check(&pairs["bad"], "bad.");
    let change = [&args[..], &["--repeats", "1", "--ab", "OTHER=1"]].concat();
    let (_, change) = Test::new(&change).json();
    check(&change, "");
}

#[test]
fn one_rank_proves_nothing() {
    let output = Test::new(&[]).run();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(12), "{text}");
    assert!(text.contains("world size 1"), "{text}");
}

#[test]
fn a_step_that_hangs_is_named_with_its_rank() {
    for (fault, rank, call) in [
        ("hang-driver", 1, "using its GPU alone"),
        ("hang-id", 0, "ncclGetUniqueId"),
        ("hang-init", 1, "ncclCommInitRank"),
        ("hang-first", 1, "the first ncclAllReduce"),
    ] {
        let started = Instant::now();
        let setting = format!("{rank}:UNHANG_STANDIN={fault}");
        let (code, json) =
            Test::new(&["--ranks-per-gpu", "2", "--timeout", "6s", "--env", &setting]).json();
        let said = json["fault"].as_str().unwrap_or_default();
        assert_eq!(code, Some(10), "{fault}: {json:#}");
        assert!(said.contains(call), "{fault}: {said}");
        assert!(said.contains(&rank.to_string()), "{fault}: {said}");
        let step = [
            "device alone",
            "unique id",
            "communicator",
            "first all-reduce",
        ]
        .into_iter()
        .find(|step| json["at"]["step"] == *step);
        assert!(step.is_some(), "{fault}: {json:#}");
        // Nobody else is named where one rank alone can be at fault.
        if matches!(fault, "hang-driver" | "hang-id") {
            assert_eq!(json["at"]["ranks"], serde_json::json!([rank]), "{json:#}");
        }
        assert_eq!(json["conclusion"]["name"], "stuck", "{json:#}");
        // The patience, and not much more on a slow machine.
        assert!(started.elapsed() < Duration::from_secs(30), "{fault}");
    }
}

/// Three sizes of four calls, and one call to agree on them: more seconds than the step has, and no call has
/// more than one.
#[test]
fn a_bandwidth_test_that_gets_on_is_slow_and_no_hang() {
    let (code, json) = Test::new(&[
        "--ranks-per-gpu",
        "2",
        "--timeout",
        "6s",
        "--env",
        "UNHANG_STANDIN=slow-timing",
    ])
    .json();
    assert_eq!(code, Some(0), "{json:#}");
    let steps = json["steps"].as_array().unwrap();
    let bandwidth = steps.iter().find(|step| step["name"] == "bandwidth");
    let took = bandwidth.unwrap()["seconds"].as_f64().unwrap();
    assert!(took > 12.0, "{took}: within the step's deadline");
}

/// It says itself that the GPU was in a collective when it stopped.
#[test]
fn a_child_stopped_in_the_middle_of_a_collective_is_called_stopped() {
    let plant = "1:correctness:stop-midway";
    let (code, json) =
        Test::new(&["--ranks-per-gpu", "2", "--timeout", "6s", "--plant", plant]).json();
    assert_eq!(code, Some(10), "{json:#}");
    let planted = json["ranks"][1]["facts"]["planted"].as_str().unwrap();
    assert!(
        planted.starts_with("stopped while the GPU ran an all-reduce of "),
        "{planted}"
    );
    let said = json["fault"].as_str().unwrap_or_default();
    assert!(said.contains("stopped (state T): rank 1"), "{said}");
    assert_names_rank_1(&json, "PROC001", "correctness");
}

/// The finding is of this rule, and about rank 1.
fn assert_names_rank_1(json: &Value, rule: &str, step: &str) {
    assert_eq!(json["finding"]["rule"], rule, "{step}: {json:#}");
    let title = json["finding"]["title"].as_str().unwrap();
    assert!(title.contains("rank 1"), "{json:#}");
}

#[test]
fn a_stopped_child_is_called_stopped() {
    for step in ["load", "device", "unique-id", "init", "correctness"] {
        let plant = format!("1:{step}:stop");
        let (code, json) =
            Test::new(&["--ranks-per-gpu", "2", "--timeout", "6s", "--plant", &plant]).json();
        let said = json["fault"].as_str().unwrap_or_default();
        assert_eq!(code, Some(10), "{json:#}");
        assert!(said.contains("stopped (state T): rank 1"), "{said}");
        assert_names_rank_1(&json, "PROC001", step);
    }
}

#[test]
fn errors_end_in_words_and_a_finding() {
    let (code, json) =
        Test::new(&["--ranks-per-gpu", "2", "--env", "UNHANG_STANDIN=fail-init"]).json();
    assert_eq!(code, Some(10));
    let said = json["fault"].as_str().unwrap();
    assert!(said.contains("ncclCommInitRank failed"), "{said}");
    assert!(said.contains("no socket interface found"), "{said}");
    assert_eq!(json["finding"]["class"], "wrong-interface", "{json:#}");

    for (fault, words, rule) in [
        ("error-802", "system not yet initialized", "CUDA001"),
        ("memory-full", "out of memory", "CUDA005"),
        ("crash-init", "by signal 6", "DIED001"),
    ] {
        let setting = format!("UNHANG_STANDIN={fault}");
        let (code, json) = Test::new(&["--ranks-per-gpu", "2", "--env", &setting]).json();
        let said = json["fault"].as_str().unwrap_or_default();
        assert_eq!(code, Some(10), "{json:#}");
        assert!(said.contains(words), "{fault}: {said}");
        assert_eq!(json["finding"]["rule"], rule, "{json:#}");
        if rule == "CUDA005" {
            let title = json["finding"]["title"].as_str().unwrap();
            assert_eq!(title, "no GPU memory was left in step device alone");
        }
    }
}

#[test]
fn a_gpu_whose_memory_is_wrong_is_named() {
    for (fault, words) in [
        ("bad-memory", "was written: byte 4096"),
        ("bad-memset", "the GPU itself set: byte 4096"),
    ] {
        let setting = format!("1:UNHANG_STANDIN={fault}");
        let (code, json) = Test::new(&["--ranks-per-gpu", "2", "--env", &setting]).json();
        let said = json["fault"].as_str().unwrap_or_default();
        assert_eq!(code, Some(10), "{json:#}");
        assert!(
            said.starts_with("rank 1 failed in step device alone"),
            "{said}"
        );
        assert!(said.contains(words), "{said}");
        assert_eq!(json["conclusion"]["name"], "gpu-memory-wrong", "{json:#}");
        assert_eq!(json["conclusion"]["ranks"], serde_json::json!([1]));
    }
}

#[test]
fn a_killed_rank_is_the_cause_and_not_the_one_that_waits() {
    for step in ["load", "device", "unique-id", "init", "correctness"] {
        let plant = format!("1:{step}:kill");
        let (code, json) = Test::new(&["--ranks-per-gpu", "2", "--plant", &plant]).json();
        let said = json["fault"].as_str().unwrap_or_default();
        assert_eq!(code, Some(10));
        assert!(
            said.starts_with("rank 1: its process ended by signal 9"),
            "{said}"
        );
        assert_names_rank_1(&json, "DIED001", step);
    }
}

#[test]
fn a_wrong_sum_is_found() {
    let (code, json) = Test::new(&[
        "--ranks-per-gpu",
        "2",
        "--env",
        "0:UNHANG_STANDIN=wrong-sum",
    ])
    .json();
    assert_eq!(code, Some(10));
    let wrong = json["checks"]["wrong"].as_array().unwrap();
    assert!(
        wrong.iter().any(|name| name == "all-reduce sum int32"),
        "{json:#}"
    );
    let conclusion = &json["conclusion"];
    assert_eq!(conclusion["name"], "wrong-data", "{json:#}");
    assert_eq!(conclusion["ranks"], serde_json::json!([0]));
    // What is passed on arrives right: no link is accused.
    assert_eq!(conclusion["links"], serde_json::json!([]));
    let title = conclusion["title"].as_str().unwrap();
    assert!(
        title.contains("rank 0 alone") && title.contains("GPU 0"),
        "{title}"
    );
}

#[test]
fn a_sum_that_is_no_number_is_wrong() {
    for (fault, name, words) in [
        ("nan", "all-reduce of ones", "element 0 is NaN, not 2"),
        ("late-nan", "all-reduce sum bfloat16", "wrong results: "),
    ] {
        let setting = format!("UNHANG_STANDIN={fault}");
        let (code, json) = Test::new(&["--ranks-per-gpu", "2", "--env", &setting]).json();
        assert_eq!(code, Some(10), "{json:#}");
        let said = json["fault"].as_str().unwrap();
        assert!(said.contains(words), "{said}");
        let wrong = json["checks"]["wrong"].as_array().unwrap();
        assert!(wrong.iter().any(|wrong| wrong == name), "{json:#}");
        assert_eq!(json["conclusion"]["name"], "wrong-data", "{json:#}");
    }
}

#[test]
fn data_that_is_changed_on_its_way_names_the_link() {
    let args = [
        "--ranks-per-gpu",
        "3",
        "--env",
        "1:UNHANG_STANDIN=wrong-wire",
    ];
    let (code, json) = Test::new(&[&args[..], &["--ops", "send-recv"]].concat()).json();
    assert_eq!(code, Some(10));
    let conclusion = &json["conclusion"];
    assert_eq!(conclusion["links"], serde_json::json!([[0, 1]]), "{json:#}");
    let title = conclusion["title"].as_str().unwrap();
    assert!(title.contains("from rank 0 to rank 1"), "{title}");
    assert!(title.contains("over NET/Socket"), "{title}");
    let text = Test::new(&args).run();
    let text = String::from_utf8(text.stdout).unwrap();
    let said = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("data is changed on the link"), "{text}");
}

#[test]
fn the_algorithm_of_a_size_is_told_where_nccl_tells() {
    for (fault, algorithm, protocol, shown) in [
        ("none", Some("Ring"), Some("Simple"), "Ring/Simple"),
        ("old-tuning", Some("Tree"), Some("LL128"), "Tree/LL128"),
        ("no-tuning", None, None, "unknown"),
    ] {
        let setting = format!("UNHANG_STANDIN={fault}");
        let args = ["--ranks-per-gpu", "2", "--env", &setting];
        let (code, json) = Test::new(&args).json();
        assert_eq!(code, Some(0), "{json:#}");
        for timed in json["bandwidth"].as_array().unwrap() {
            assert_eq!(timed["algorithm"].as_str(), algorithm, "{json:#}");
            assert_eq!(timed["protocol"].as_str(), protocol, "{json:#}");
        }
        let text = String::from_utf8(Test::new(&args).run().stdout).unwrap();
        assert!(text.contains(shown), "{text}");
    }
}

#[test]
fn garbage_on_the_pipe_is_kept_and_harms_nothing() {
    let output = Test::new(&["--ranks-per-gpu", "2", "--env", "UNHANG_STANDIN=noise"]).run();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("PASSED"), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn a_library_in_the_loaders_search_path_is_found() {
    let mut test = Test::of_any_library(&["--ranks-per-gpu", "2", "--bandwidth", "none"]);
    // No Python, whose own would be taken first.
    test.command.env("PATH", "/nonexistent");
    test.command.env_remove("VIRTUAL_ENV");
    test.command.env_remove("CONDA_PREFIX");
    let output = test.run();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let library = STANDINS.path().join("libnccl.so.2");
    let said = format!("libnccl in LD_LIBRARY_PATH: {}", library.display());
    assert!(text.contains(&said), "{text}");
}

#[test]
fn a_missing_or_broken_library_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("libnccl.so.2");
    fs::write(&broken, "not a library").unwrap();
    let mut test = Test::new(&["--ranks-per-gpu", "2"]);
    test.command.args(["--nccl", broken.to_str().unwrap()]);
    test.command.env_remove("LD_LIBRARY_PATH");
    let (code, json) = test.json();
    let said = json["fault"].as_str().unwrap_or_default();
    assert_eq!(code, Some(10));
    assert!(said.contains("cannot be loaded"), "{said}");
    assert_eq!(json["conclusion"]["name"], "not-loaded", "{json:#}");
    if said.contains("libcuda") {
        // Without the stand-in for it the driver is missing first.
        let mut test = Test::new(&["--ranks-per-gpu", "2"]);
        test.command.args(["--nccl", broken.to_str().unwrap()]);
        let (code, json) = test.json();
        let said = json["fault"].as_str().unwrap_or_default();
        assert_eq!(code, Some(10));
        assert!(said.contains(broken.to_str().unwrap()), "{said}");
        assert!(said.contains("file too short"), "{said}");
        let fix = json["conclusion"]["fix"].as_str().unwrap();
        for way in ["pip install", "--nccl PATH", "LD_LIBRARY_PATH"] {
            assert!(fix.contains(way), "{fix}");
        }
    }
    let missing = folder.path().join("none.so");
    let mut test = Test::new(&[]);
    test.command.args(["--nccl", missing.to_str().unwrap()]);
    let output = test.run();
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_change_is_proven_or_not() {
    let ab = |args: &[&str]| {
        let mut all = vec!["--ranks-per-gpu", "2", "--repeats", "2", "--timeout", "15s"];
        all.extend(args);
        let (code, json) = Test::new(&all).json();
        assert!(
            json["proves"].as_str().unwrap().contains("not P2P"),
            "{json:#}"
        );
        (code, json["answer"].as_str().unwrap_or_default().to_owned())
    };
    let shown = Test::new(&["--ranks-per-gpu", "2", "--repeats", "1", "--ab", "OTHER=1"]).run();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("ranks share a GPU"), "{shown}");
    let cures = ab(&[
        "--env",
        "UNHANG_STANDIN=fail-init",
        "--ab",
        "UNHANG_STANDIN=none",
    ]);
    assert_eq!(cures, (Some(0), "cures".to_owned()));
    let nothing = ab(&["--ab", "OTHER=1"]);
    assert_eq!(nothing.0, Some(12), "{nothing:?}");
    let worse = ab(&["--ab", "UNHANG_STANDIN=fail-init"]);
    assert_eq!(worse, (Some(10), "worse".to_owned()));
    let none = ab(&["--env", "UNHANG_STANDIN=fail-init", "--ab", "OTHER=1"]);
    assert_eq!(none, (Some(10), "no-difference".to_owned()));
}

#[test]
fn transports_are_tried_in_turn() {
    let (code, json) = Test::new(&["--ranks-per-gpu", "2", "--transports"]).json();
    assert_eq!(code, Some(0), "{json:#}");
    let runs = json["runs"].as_array().unwrap();
    let names: Vec<_> = runs
        .iter()
        .map(|run| run["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["as it is", "P2P off", "P2P and SHM off"]);
    assert!(runs.iter().all(|run| run["run"]["verdict"] == "passed"));
}

#[test]
fn every_pair_of_gpus_is_tried() {
    let mut test = Test::new(&["--pairs", "--gpus", "0-2"]);
    test.command.env("CUDA_VISIBLE_DEVICES", "0,1,2");
    let (code, json) = test.json();
    assert_eq!(code, Some(0), "{json:#}");
    assert_eq!(json["runs"].as_array().unwrap().len(), 3);
    assert!(
        json["bad"]["words"]
            .as_str()
            .unwrap()
            .contains("all 3 pairs passed"),
        "{json:#}"
    );
}

#[test]
fn the_pairs_name_the_bad_gpu_or_link() {
    for (fault, gpus, links, words) in [
        (
            "memory-full-of-2",
            serde_json::json!([2]),
            serde_json::json!([]),
            "PAIRS: GPU 2 is bad: all its pairs fail",
        ),
        (
            "fail-link-0-2",
            serde_json::json!([]),
            serde_json::json!([[0, 2]]),
            "PAIRS: the link between GPU 0 and GPU 2 is bad",
        ),
    ] {
        let setting = format!("UNHANG_STANDIN={fault}");
        let test = || {
            let mut test = Test::new(&["--pairs", "--gpus", "0-2", "--env", &setting]);
            test.command.env("CUDA_VISIBLE_DEVICES", "0,1,2");
            test
        };
        let (code, json) = test().json();
        assert_eq!(code, Some(10), "{json:#}");
        assert_eq!(json["bad"]["gpus"], gpus, "{json:#}");
        assert_eq!(json["bad"]["links"], links, "{json:#}");
        let text = String::from_utf8(test().run().stdout).unwrap();
        assert!(text.contains(words), "{text}");
        if fault.starts_with("memory") {
            assert!(text.contains("CUDA005"), "{text}");
        }
    }
}

/// The stand-in under this name, where a wheel in `venv` of this folder has it; the folder that it is in.
fn installed(folder: &Path, name: &str) -> PathBuf {
    let lib = folder.join("venv/lib/python3/site-packages/nvidia/nccl/lib");
    fs::create_dir_all(&lib).unwrap();
    fs::copy(STANDINS.path().join("libnccl.so.2"), lib.join(name)).unwrap();
    lib
}

#[test]
fn a_log_chooses_the_installed_library_of_its_version() {
    let folder = tempfile::tempdir().unwrap();
    // The name of the file tells the version.
    let lib = installed(folder.path(), "libnccl.so.2.28.9");
    std::os::unix::fs::symlink("libnccl.so.2.28.9", lib.join("libnccl.so.2")).unwrap();
    let log = folder.path().join("job.log");
    let run = |text: &str| {
        fs::write(&log, text).unwrap();
        let like = log.to_str().unwrap();
        let mut test = Test::new(&[
            "--ranks-per-gpu",
            "2",
            "--bandwidth",
            "none",
            "--like",
            like,
        ]);
        test.command.env("VIRTUAL_ENV", folder.path().join("venv"));
        let output = test.run();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let version = |v: &str| format!("node-0:7:7 [0] NCCL INFO NCCL version {v}\n");
    let (code, text, error) = run(&version("2.28.9+cuda12.9"));
    assert_eq!(code, Some(0), "{text}{error}");
    assert!(text.contains("of the log's version"), "{text}");
    let (code, text, error) = run(&version("2.18.1+cuda12.1"));
    assert_eq!(code, Some(3), "{text}{error}");
    assert!(error.contains("nvidia-nccl-cu12==2.18.1"), "{error}");
    assert!(error.contains("libnccl.so.2"), "{error}");
    let (code, text, error) = run("nothing of NCCL\n");
    assert_eq!(code, Some(3), "{text}{error}");
    assert!(error.contains("no line tells it"), "{error}");
}

/// A process that has mapped a library, as a rank has libnccl.
struct Job(std::process::Child);

impl Job {
    fn start(library: &Path) -> Self {
        let mut sleep = Command::new("sleep");
        let job = Self(sleep.arg("600").env("LD_PRELOAD", library).spawn().unwrap());
        let maps = format!("/proc/{}/maps", job.0.id());
        let deadline = Instant::now() + Duration::from_secs(20);
        let name = library.to_str().unwrap();
        while !fs::read_to_string(&maps).is_ok_and(|maps| maps.contains(name)) {
            assert!(Instant::now() < deadline, "{name} is not mapped");
            std::thread::yield_now();
        }
        job
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[test]
fn the_library_of_a_process_is_tested_with() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libnccl.so.2");
    fs::copy(STANDINS.path().join("libnccl.so.2"), &library).unwrap();
    let library = library.canonicalize().unwrap();
    let mut job = Job::start(&library);
    let pid = job.0.id().to_string();
    let run = |more: &[&str]| {
        let args = [
            "--ranks-per-gpu",
            "2",
            "--bandwidth",
            "none",
            "--like",
            &pid,
        ];
        let mut test = Test::new(&[&args[..], more].concat());
        // What is installed here.
        installed(folder.path(), "libnccl.so.2");
        test.command.env("VIRTUAL_ENV", folder.path().join("venv"));
        let output = test.run();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, text, error) = run(&[]);
    assert_eq!(code, Some(0), "{text}{error}");
    let origin = format!("libnccl used by process {pid}: {}", library.display());
    assert!(text.contains(&origin), "{text}");
    // Whoever runs no NCCL is no rank.
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let output = Test::new(&["--like", &other.id().to_string()]).run();
    other.kill().unwrap();
    other.wait().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("the process has not loaded it"), "{error}");
    // The job has ended: an error, or what is installed and a sentence that says so.
    job.end();
    let (code, text, error) = run(&[]);
    assert_eq!(code, Some(3), "{text}{error}");
    let (code, text, error) = run(&["--or-installed"]);
    assert_eq!(code, Some(0), "{text}{error}");
    assert!(text.contains("of the Python environment"), "{text}");
    assert!(error.contains(&pid), "{error}");
    assert!(
        error.contains("the installed libnccl is tested, which may be of another version"),
        "{error}"
    );
}

/// Processes whose command line names the hidden subcommand and this folder's parent.
fn children_of(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains("selftest-rank") && line.contains(&format!("\"parent\":{parent},"))
        })
        .collect()
}

#[test]
fn no_child_outlives_its_parent() {
    for signal in [
        nix::sys::signal::Signal::SIGKILL,
        nix::sys::signal::Signal::SIGTERM,
    ] {
        let mut test = Test::new(&[
            "--ranks-per-gpu",
            "2",
            "--timeout",
            "60s",
            "--env",
            "UNHANG_STANDIN=hang-init",
        ]);
        let mut parent = test.command.stdout(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let wait = |what: &str, met: &dyn Fn() -> bool| {
            while !met() {
                assert!(Instant::now() < deadline, "{what}");
                std::thread::yield_now();
            }
        };
        let pid = parent.id();
        wait("two children start", &|| children_of(pid).len() == 2);
        let id = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        nix::sys::signal::kill(id, signal).unwrap();
        parent.wait().unwrap();
        wait("both are gone", &|| children_of(pid).is_empty());
    }
}

#[test]
fn without_a_driver_it_says_so() {
    if PathBuf::from("/dev/nvidia0").exists() {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_unhang"))
        .arg("selftest")
        .env_remove("CUDA_VISIBLE_DEVICES")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(10));
    assert!(error.contains("no NVIDIA driver here"), "{error}");
}

#[test]
fn a_driver_that_cannot_be_loaded_fails_and_compares_nothing() {
    for args in [&[][..], &["--ab", "NCCL_NET=Socket", "--repeats", "2"][..]] {
        let mut test = Test::new(args);
        // A folder without libcuda; a machine with a driver has it elsewhere too.
        test.command.env("LD_LIBRARY_PATH", "/nonexistent");
        if PathBuf::from("/dev/nvidia0").exists() {
            return;
        }
        let output = test.run();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("libcuda.so.1 cannot be loaded"), "{text}");
        assert_eq!(output.status.code(), Some(10), "{args:?}: {text}");
    }
}

#[test]
fn what_is_typed_wrong_is_a_usage_error() {
    for args in [
        &["--env", "A"][..],
        &["--env", "1A=2"],
        &["--ab", ""],
        &["--ab", "A=1,"],
        &["--timeout", "0s"],
        &["--env", "99:X=1"],
        &["--ab", "1:X=1"],
        &["--port", "1"],
        &["--dry-run", "--env", "2:X=1"],
        &["--dry-run", "--pairs"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unhang"));
        command.arg("selftest").args(args);
        if !args.contains(&"--dry-run") {
            command.args(["--gpus", "0", "--nccl"]).arg(STANDINS.path());
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.starts_with("error: "), "{args:?}: {error}");
    }
}
