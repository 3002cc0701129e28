//! The doctor on recorded hosts, and on the machine that runs this test.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use unhang::engine::catalog::Catalog;
use unhang::engine::gpu::{Gpu, GpuSample, P2p, Pair};
use unhang::probe::diagnosis::expect::{self, Answer};
use unhang::probe::diagnosis::{Level, Trouble, diagnose};
use unhang::probe::facts::Facts;
use unhang::probe::gpus::Gpus;
use unhang::probe::host::Host;
use unhang::views::doctor::Report;
use unhang::views::escape::Glyphs;

/// Unpacks a recorded host: `PATH = "text"`, `PATH -> target` and `PATH/` below a folder.
fn unpack(name: &str, folder: &Path) {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/hosts/{name}.tree"));
    for line in fs::read_to_string(tree).unwrap().lines() {
        if line.starts_with('#') {
            continue;
        }
        let place = |path: &str| {
            let path = folder.join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        if let Some((path, text)) = line.split_once(" = ") {
            fs::write(place(path), serde_json::from_str::<String>(text).unwrap()).unwrap();
        } else if let Some((path, target)) = line.split_once(" -> ") {
            symlink(target, place(path)).unwrap();
        } else {
            fs::create_dir_all(place(line)).unwrap();
        }
    }
}

struct Seen {
    facts: Facts,
    troubles: Vec<Trouble>,
}

impl Seen {
    fn of(name: &str) -> Self {
        Self::changed(name, |_| {})
    }

    /// The recorded host after a change of its files.
    fn changed(name: &str, change: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        unpack(name, folder.path());
        change(folder.path());
        let facts = Facts::of(&Host::at(folder.path()).unwrap());
        assert!(facts.late.is_empty());
        let troubles = diagnose(&facts, &Catalog::builtin());
        Self { facts, troubles }
    }

    fn names(&self, level: Level) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .troubles
            .iter()
            .filter(|trouble| trouble.level == level)
            .map(|trouble| trouble.name.as_ref())
            .collect();
        names.dedup();
        names
    }

    fn check(&self, text: &str) -> Answer {
        expect::check(&expect::parse(text).unwrap(), &self.facts).answer
    }

    fn text(&self) -> String {
        let report = Report {
            facts: &self.facts,
            troubles: &self.troubles,
            expectations: &[],
        };
        report.text(Glyphs::Unicode)
    }
}

/// The environment of a recorded host with one variable more.
fn with_variable(folder: &Path, name: &str, value: &str) {
    let path = folder.join("answers.json");
    let mut answers: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    if answers["env"].is_null() {
        answers["env"] = serde_json::json!({});
    }
    answers["env"][name] = value.into();
    fs::write(path, answers.to_string()).unwrap();
}

#[test]
fn a_healthy_host_is_told_nothing() {
    let seen = Seen::of("h100-ib");
    assert_eq!(seen.troubles, [], "{}", seen.text());
    for (text, answer) in [
        ("gpus=8", Answer::Met),
        ("gpus>=4", Answer::Met),
        ("gpus=2", Answer::NotMet),
        ("rdma=8", Answer::Met),
        ("gdr", Answer::Met),
        ("nccl>=2.24", Answer::Met),
        ("nccl>=2.29", Answer::NotMet),
        ("driver>=580", Answer::Met),
        ("torch=2.10", Answer::Met),
        ("shm>=64GiB", Answer::Met),
        ("memlock>=unlimited", Answer::Met),
        ("interface=ibs0", Answer::Met),
        // Only the driver's library knows.
        ("p2p", Answer::CannotTell),
    ] {
        assert_eq!(seen.check(text), answer, "{text}");
    }
    let text = seen.text();
    for part in [
        "nothing wrong was found",
        "8: NVIDIA H100 80GB HBM3",
        "2.28.9",
        "export NCCL_SOCKET_IFNAME='=eth0' GLOO_SOCKET_IFNAME=eth0",
        "4 NVSwitches, Fabric Manager runs",
        "mlx5_7",
        "400 Gb/sec (4X NDR)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Recorded on one H200; two libnccl are there, and the wheel's is the one that torch loads.
#[test]
fn a_machine_with_one_h200() {
    let seen = Seen::of("h200-vm");
    assert_eq!(seen.names(Level::Wrong), [""; 0], "{}", seen.text());
    assert_eq!(seen.names(Level::Note), ["name-is-loopback"]);
    for (text, answer) in [
        ("gpus=1", Answer::Met),
        ("driver>=580.159", Answer::Met),
        ("nccl=2.28.9", Answer::Met),
        ("torch>=2.11", Answer::Met),
        ("p2p", Answer::NotMet),
        ("rdma", Answer::NotMet),
    ] {
        assert_eq!(seen.check(text), answer, "{text}");
    }
    assert!(seen.text().contains("1: NVIDIA H200"));
    assert!(seen.text().contains("2.28.3 of the system"));
}

#[test]
fn one_port_of_eight_that_is_down_is_wrong() {
    let seen = Seen::of("ib-port-down");
    assert_eq!(seen.names(Level::Wrong), ["port-down"], "{}", seen.text());
    assert!(seen.text().contains("mlx5_3 is down (DOWN, Polling)"));
    assert_eq!(seen.names(Level::Note), [""; 0]);
    assert_eq!(seen.check("rdma=8"), Answer::NotMet);
}

#[test]
fn half_of_the_ports_unused_is_not_wrong() {
    let seen = Seen::changed("h100-ib", |folder| {
        for n in 4..8 {
            let port = folder.join(format!("sys/class/infiniband/mlx5_{n}/ports/1"));
            fs::write(port.join("state"), "1: DOWN\n").unwrap();
            fs::write(port.join("phys_state"), "3: Disabled\n").unwrap();
        }
    });
    assert_eq!(seen.troubles, [], "{}", seen.text());
}

#[test]
fn laptops_and_plain_containers_are_not_accused() {
    let seen = Seen::of("laptop");
    assert_eq!(seen.names(Level::Wrong), [""; 0], "{}", seen.text());
    assert!(seen.text().contains("GLOO_SOCKET_IFNAME=wlp2s0"));
    let seen = Seen::of("docker-plain");
    assert_eq!(seen.names(Level::Wrong), [""; 0], "{}", seen.text());
    assert_eq!(seen.names(Level::Note), ["gpus-not-given"]);
    assert!(
        seen.text()
            .replace("\n  ", " ")
            .contains("no statement about NCCL is possible here")
    );
    assert_eq!(seen.check("gpus=8"), Answer::NotMet);
}

#[test]
fn shared_memory_is_measured_against_what_this_nccl_needs() {
    let seen = Seen::of("docker-small-shm");
    assert_eq!(seen.names(Level::Wrong), ["shm-small"], "{}", seen.text());
    assert_eq!(seen.names(Level::Note), [""; 0]);
    // An NCCL that needs less has room in the same container.
    let older = Seen::changed("docker-small-shm", |folder| {
        let lib = folder.join("opt/env/lib/python3.12/site-packages/nvidia/nccl/lib");
        fs::remove_file(lib.join("libnccl.so.2")).unwrap();
        fs::write(lib.join("libnccl.so.2.21.5"), "").unwrap();
        symlink("libnccl.so.2.21.5", lib.join("libnccl.so.2")).unwrap();
    });
    assert_eq!(older.names(Level::Wrong), [""; 0], "{}", older.text());
    assert_eq!(older.names(Level::Note), ["shm-tight"]);
}

#[test]
fn the_route_to_the_store_tells_which_interface_is_meant() {
    let seen = Seen::of("ipv6-only");
    assert_eq!(seen.troubles, [], "{}", seen.text());
    assert!(seen.text().contains("NCCL takes  ens3 2001:db8::5"));
    assert!(
        seen.text()
            .replace("\n              ", " ")
            .contains("GLOO_SOCKET_IFNAME=ens3 (the route to MASTER_ADDR)")
    );
    let seen = Seen::of("bonded");
    assert_eq!(seen.names(Level::Wrong), [""; 0], "{}", seen.text());
    assert_eq!(seen.names(Level::Note), ["interface-not-the-route's"]);
    assert!(seen.text().contains("NCCL_SOCKET_IFNAME='=bond0.200'"));
    // As it is advised, nothing is left to say.
    let set = Seen::changed("bonded", |folder| {
        with_variable(folder, "NCCL_SOCKET_IFNAME", "=bond0.200");
    });
    assert_eq!(set.troubles, [], "{}", set.text());
}

/// The host's card is a part of it: `br0` is the way out, however much it looks like a container's bridge.
#[test]
fn a_bridge_that_a_route_goes_through_leads_out() {
    let with_bridge = |folder: &Path, destination: &str, mask: &str| {
        let bridge = folder.join("sys/class/net/br0");
        fs::create_dir_all(bridge.join("bridge")).unwrap();
        for (file, text) in [
            ("ifindex", "9"),
            ("type", "1"),
            ("operstate", "up"),
            ("mtu", "1500"),
            ("uevent", "INTERFACE=br0\nDEVTYPE=bridge\n"),
            ("carrier", "1"),
        ] {
            fs::write(bridge.join(file), text).unwrap();
        }
        let change = |file: &str, from: &str, to: &str| {
            let path = folder.join(file);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(path, text.replacen(from, to, 1)).unwrap();
        };
        change(
            "answers.json",
            r#"{"interface": "wlp2s0""#,
            r#"{"interface": "br0", "address": "10.9.0.5", "prefix": 24}, {"interface": "wlp2s0""#,
        );
        let route = format!("br0\t{destination}\t0100090A\t0003\t0\t0\t0\t{mask}\t0\t0\t0\nwlp2s0");
        change("proc/self/net/route", "wlp2s0", &route);
    };
    let default = Seen::changed("laptop", |folder| {
        with_bridge(folder, "00000000", "00000000");
    });
    let to_master = Seen::changed("laptop", |folder| {
        with_bridge(folder, "0000090A", "0000FFFF");
        with_variable(folder, "MASTER_ADDR", "10.9.7.7");
    });
    for (seen, why) in [
        (default, "the default route"),
        (to_master, "the route to MASTER_ADDR"),
    ] {
        assert_eq!(seen.names(Level::Wrong), [""; 0], "{}", seen.text());
        let text = seen.text().replace("\n              ", " ");
        assert!(text.contains("NCCL_SOCKET_IFNAME='=br0'"), "{text}");
        assert!(text.contains(why), "{text}");
    }
    // It leads out there too, where the job goes another way.
    let other = Seen::changed("laptop", |folder| {
        with_bridge(folder, "00000000", "00000000");
        with_variable(folder, "MASTER_ADDR", "192.168.1.77");
    });
    assert_eq!(other.names(Level::Wrong), [""; 0], "{}", other.text());
    assert!(other.text().contains("NCCL_SOCKET_IFNAME='=wlp2s0'"));
    assert!(
        other
            .names(Level::Note)
            .contains(&"interface-not-the-route's"),
        "{}",
        other.text()
    );
}

#[test]
fn a_name_that_matches_nothing_is_wrong() {
    let seen = Seen::changed("h100-ib", |folder| {
        with_variable(folder, "NCCL_SOCKET_IFNAME", "ens9");
    });
    assert_eq!(seen.names(Level::Wrong), ["ifname-matches-nothing"]);
    let seen = Seen::changed("laptop", |folder| {
        with_variable(folder, "NCCL_SOCKET_IFNAME", "docker0");
    });
    assert_eq!(
        seen.names(Level::Wrong),
        ["ifname-without-link"],
        "{}",
        seen.text()
    );
    let seen = Seen::changed("laptop", |folder| {
        with_variable(folder, "MASTER_ADDR", "no-such-host");
    });
    assert_eq!(
        seen.names(Level::Wrong),
        ["master-unknown"],
        "{}",
        seen.text()
    );
}

#[test]
fn what_people_do_wrong_is_named_with_its_fix() {
    let seen = Seen::of("many-faults");
    let text = seen.text();
    assert_eq!(
        seen.names(Level::Wrong),
        [
            "driver-library-differs",
            "no-fabric-manager",
            "packages-clash",
            "driver-too-old",
            "interface-leads-nowhere",
            "gloo-ifname-missing",
            "master-is-loopback",
            "hca-matches-nothing",
            "no-subnet-manager",
            "memlock",
            "shm-full",
            "nofile",
            "pids-limit",
            "misspelled",
        ],
        "{text}"
    );
    assert_eq!(
        seen.names(Level::Note),
        [
            "iommu",
            "no-libibverbs",
            "no-gpudirect",
            "oom-kills",
            "few-cpus",
            "workaround"
        ],
        "{text}"
    );
    assert!(
        seen.troubles
            .iter()
            .filter(|t| t.level == Level::Wrong)
            .all(|t| !t.fixes.is_empty())
    );
    assert!(!text.contains("never-shown"), "{text}");
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= 80 || line.contains('/')),
        "{text}"
    );
    assert!(text.contains("VLLM_API_KEY=(set, not shown)"));
}

#[test]
fn a_gpu_without_its_driver_is_wrong_and_one_given_away_is_not() {
    let without = |driver: Option<&'static str>| {
        Seen::changed("laptop", |folder| {
            fs::remove_dir_all(folder.join("proc/driver")).unwrap();
            fs::remove_file(folder.join("dev/nvidia0")).unwrap();
            let gpu = folder.join("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/driver");
            fs::remove_file(&gpu).unwrap();
            if let Some(driver) = driver {
                symlink(format!("../../../bus/pci/drivers/{driver}"), gpu).unwrap();
            }
        })
    };
    assert_eq!(without(None).names(Level::Wrong), ["no-driver"]);
    assert_eq!(without(Some("nouveau")).names(Level::Wrong), ["no-driver"]);
    assert_eq!(without(Some("vfio-pci")).names(Level::Wrong), [""; 0]);
}

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unhang"))
        .arg("doctor")
        .args(args)
        .env("NCCL_DEBUG", "INFO")
        .env("VLLM_SECRET_TOKEN", "never-shown")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Whatever this machine is: the doctor answers, and nothing is called wrong without a GPU or RDMA device.
#[test]
fn this_machine() {
    let output = doctor(&["--format", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    assert!(!output.stdout.windows(11).any(|w| w == b"never-shown"));
    let state = json["verdict"]["state"].as_str().unwrap();
    let code = match state {
        "wrong" => 10,
        "no-gpu" => 12,
        _ => 0,
    };
    assert_eq!(output.status.code(), Some(code), "{json:#}");
    let gpus = json["facts"]["gpus"]["bus"].as_array().unwrap().len();
    if gpus == 0 {
        assert_eq!(state, "no-gpu", "{:#}", json["troubles"]);
        let text = String::from_utf8(doctor(&[]).stdout).unwrap();
        assert!(
            text.replace("\n ", "")
                .contains("no statement about NCCL is possible here"),
            "{text}"
        );
    }
}

/// What NVML says of pairs decides whether there is P2P, and a variable that turns it off does as well.
#[test]
fn peer_to_peer_is_expected_of_nvml() {
    let pair = |read: Option<P2p>| Pair {
        a: 0,
        b: 1,
        read,
        write: read,
        nvlink: read,
        ..Pair::default()
    };
    let says = |read: Option<P2p>| GpuSample {
        gpus: (0..2)
            .map(|index| Gpu {
                index,
                ..Gpu::default()
            })
            .collect(),
        pairs: vec![pair(read)],
        ..GpuSample::default()
    };
    let mut seen = Seen::of("laptop");
    assert_eq!(seen.check("p2p"), Answer::NotMet);
    for (read, answer, found) in [
        (Some(P2p::Ok), Answer::Met, "1 of 1 pairs over NVLink"),
        (Some(P2p::Chipset), Answer::NotMet, "not between GPUs 0-1"),
        (None, Answer::CannotTell, "NVML does not tell"),
    ] {
        seen.facts.nvml = Some(says(read));
        let checked = expect::check(&expect::parse("p2p").unwrap(), &seen.facts);
        assert_eq!(checked.answer, answer, "{}", checked.found);
        assert!(checked.found.contains(found), "{}", checked.found);
    }
    let mut seen = Seen::changed("laptop", |folder| {
        with_variable(folder, "NCCL_P2P_DISABLE", "1");
    });
    seen.facts.nvml = Some(says(Some(P2p::Ok)));
    assert_eq!(seen.check("p2p"), Answer::NotMet);
}

#[test]
fn one_gpu_and_none_say_nothing_about_nccl() {
    let mut seen = Seen::of("laptop");
    seen.facts.gpus = Gpus::default();
    for (gpus, words) in [
        (0, Some("no GPU here")),
        (1, Some("one GPU here")),
        (2, None),
    ] {
        let gpu = |index| Gpu {
            index,
            ..Gpu::default()
        };
        seen.facts.nvml = Some(GpuSample {
            gpus: (0..gpus).map(gpu).collect(),
            ..GpuSample::default()
        });
        let text = seen.text().replace("\n ", "");
        let said = "dry run only: no statement about NCCL is possible here";
        assert_eq!(text.contains(said), words.is_some(), "{text}");
        assert!(words.is_none_or(|words| text.contains(words)), "{text}");
    }
}

#[test]
fn expectations_decide_the_exit_code() {
    let code = |expect: &str| doctor(&["--expect", expect]).status.code();
    assert_eq!(code("gpus>=0"), Some(0));
    assert_eq!(code("gpus=977"), Some(10));
    assert_eq!(code("gpus>=0,gpus=977"), Some(10));
    assert_eq!(code("gpu=2"), Some(2));
    assert_eq!(code("nccl>=new"), Some(2));
}

#[test]
fn a_process_is_looked_at_from_inside() {
    let mut sleeper = Command::new("sleep")
        .arg("60")
        .env("NCCL_SOCKET_IFNAME", "=no_such0")
        .spawn()
        .unwrap();
    let pid = sleeper.id().to_string();
    // The variables of the new program are there once it is that program.
    let exe = format!("/proc/{pid}/cmdline");
    while !fs::read_to_string(&exe)
        .unwrap_or_default()
        .starts_with("sleep")
    {
        std::thread::yield_now();
    }
    let output = doctor(&["--pid", &pid, "--format", "json"]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> = json["troubles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"ifname-matches-nothing"), "{names:?}");
    assert!(names.contains(&"nccl-not-loaded"), "{names:?}");
    let output = doctor(&["--pid", "4194999"]);
    assert_eq!(output.status.code(), Some(3));
}

/// The version of the interpreter, `3.12`, where it looks at the user's own packages.
fn python() -> Option<String> {
    let script =
        "import sys\nif sys.prefix == sys.base_prefix: print('%d.%d' % sys.version_info[:2])";
    let asked = Command::new("python3").args(["-I", "-c", script]).output();
    let version = String::from_utf8(asked.ok()?.stdout).ok()?;
    (!version.trim().is_empty()).then(|| version.trim().to_owned())
}

fn install(folder: &Path, name: &str, version: &str, needs: &[&str]) {
    let info = folder.join(format!("{name}-{version}.dist-info"));
    fs::create_dir_all(&info).unwrap();
    let needs: String = needs
        .iter()
        .map(|need| format!("Requires-Dist: {need}; platform_system == \"Linux\"\n"))
        .collect();
    let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}\n");
    fs::write(info.join("METADATA"), text).unwrap();
}

#[test]
fn the_users_own_packages_are_found_and_nothing_of_the_present_folder_runs() {
    let Some(version) = python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let own = folder
        .path()
        .join(format!("user/lib/python{version}/site-packages"));
    let added = folder.path().join("added");
    install(
        &own,
        "torch",
        "2.9.0",
        &[
            "nvidia-cudnn-cu12==9.10.2.21",
            "nvidia-cuda-runtime-cu12 (==12.8.90)",
            "nvidia-cublas-cu12==12.8.4.1",
            "nvidia-nccl-cu12==2.27.5",
        ],
    );
    install(&own, "nvidia_cudnn_cu12", "9.15.0.57", &[]);
    install(&own, "nvidia_cublas_cu12", "12.8.4.1", &[]);
    install(&added, "vllm", "0.11.0", &[]);
    // Whoever looked here would run this.
    let here = folder.path().join("here");
    fs::create_dir(&here).unwrap();
    let trap = folder.path().join("ran");
    for name in ["os", "site", "sitecustomize", "usercustomize", "encodings"] {
        let text = format!("open({:?}, 'w').close()\n", trap.to_str().unwrap());
        fs::write(here.join(format!("{name}.py")), text).unwrap();
    }
    for name in ["python3", "python", "ldconfig"] {
        let path = here.join(name);
        fs::write(&path, format!("#!/bin/sh\ntouch '{}'\n", trap.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // An empty entry, and a relative one, are the present folder.
    let path = format!(":.:{}:", std::env::var("PATH").unwrap_or_default());
    let doctor = |shut: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_unhang"))
            .args(["doctor", "--format", "json"])
            .current_dir(&here)
            .env("PYTHONUSERBASE", folder.path().join("user"))
            .env("PYTHONPATH", format!("{}::.", added.display()))
            .env("PYTHONNOUSERSITE", shut)
            .env("PATH", &path)
            .env_remove("VIRTUAL_ENV")
            .env_remove("CONDA_PREFIX")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        json
    };
    let json = doctor("");
    let packages = json["facts"]["libraries"]["packages"].as_array().unwrap();
    let has = |packages: &[Value], name: &str, folder: &Path| {
        let found = |p: &Value| p["name"] == name && p["folder"] == folder.to_str().unwrap();
        packages.iter().any(found)
    };
    assert!(has(packages, "torch", &own), "{packages:#?}");
    assert!(has(packages, "vllm", &added), "{packages:#?}");
    let trouble = |name: &str| {
        let troubles = json["troubles"].as_array().unwrap();
        troubles.iter().find(|t| t["name"] == name).cloned()
    };
    let conflict = trouble("cuda-packages-not-torch's").unwrap();
    let title = conflict["title"].as_str().unwrap();
    assert!(
        title.contains("nvidia-cudnn-cu12 9.10.2.21 (9.15.0.57 is installed)"),
        "{title}"
    );
    assert!(!title.contains("cublas"), "{title}");
    assert_eq!(
        conflict["fixes"][0]["text"],
        "pip install nvidia-cudnn-cu12==9.10.2.21"
    );
    let missing = trouble("cuda-packages-missing").unwrap();
    assert_eq!(
        missing["fixes"][0]["text"],
        "pip install nvidia-cuda-runtime-cu12==12.8.90"
    );
    let json = doctor("1");
    let packages = json["facts"]["libraries"]["packages"].as_array().unwrap();
    assert!(!has(packages, "torch", &own), "{packages:#?}");
    assert!(!trap.exists(), "something of the present folder ran");
}
