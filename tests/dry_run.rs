//! The dry run: ranks on the loopback and in network namespaces, and what stands between them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a step may take here.
const PATIENCE: &str = "4s";
/// No fault may take longer to be named: three steps and what rank 0 is given beyond them.
const AT_MOST: Duration = Duration::from_secs(45);

/// What stands in front of a rank's command, and its variables.
struct Rank<'a> {
    inside: Option<&'a str>,
    rank: u32,
    world: u32,
    master: &'a str,
    port: u16,
    env: Vec<(&'a str, &'a str)>,
}

impl Rank<'_> {
    fn start(&self, more: &[&str]) -> Child {
        let program = env!("CARGO_BIN_EXE_unhang");
        let mut command = match self.inside {
            Some(name) => {
                let mut ip = Command::new("ip");
                ip.args(["netns", "exec", name, program]);
                ip
            }
            None => Command::new(program),
        };
        command
            .args(["selftest", "--dry-run", "--timeout", PATIENCE, "--port"])
            .arg(self.port.to_string())
            .args(more)
            .env("RANK", self.rank.to_string())
            .env("WORLD_SIZE", self.world.to_string())
            .env("MASTER_ADDR", self.master)
            .env_remove("NCCL_SOCKET_IFNAME")
            .envs(self.env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Runs all of them; each one's exit code and text.
fn run(ranks: &[Rank<'_>]) -> Vec<(Option<i32>, String)> {
    let started = Instant::now();
    let children: Vec<Child> = ranks.iter().map(|rank| rank.start(&[])).collect();
    let outputs: Vec<Output> = children
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    assert!(started.elapsed() < AT_MOST, "{:?}", started.elapsed());
    let text = |output: &Output| {
        // One line a sentence, however the page breaks it.
        let text = String::from_utf8_lossy(&output.stdout).replace("\n    ", " ");
        format!("{text}{}", String::from_utf8_lossy(&output.stderr))
    };
    outputs.iter().map(|o| (o.status.code(), text(o))).collect()
}

fn on_loopback<'a>(world: u32, port: u16) -> Vec<Rank<'a>> {
    let rank = |rank| Rank {
        inside: None,
        rank,
        world,
        master: "127.0.0.1",
        port,
        env: vec![("NCCL_SOCKET_IFNAME", "lo")],
    };
    (0..world).map(rank).collect()
}

fn expect(answers: &[(Option<i32>, String)], code: i32, words: &str) {
    for (answered, text) in answers {
        assert_eq!(*answered, Some(code), "{text}");
        assert!(text.contains("no evidence about NCCL"), "{text}");
    }
    assert!(answers[0].1.contains(words), "{words}: {}", answers[0].1);
}

#[test]
fn ranks_of_one_process_meet() {
    for (ranks, world) in [("1", 2), ("4", 4)] {
        let output = Command::new(env!("CARGO_BIN_EXE_unhang"))
            .args([
                "selftest",
                "--dry-run",
                "--ranks-per-gpu",
                ranks,
                "--format",
                "json",
            ])
            .args(["--env", "NCCL_SOCKET_IFNAME=lo"])
            .env_remove("RANK")
            .output()
            .unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        // It went well, and proves nothing.
        assert_eq!(output.status.code(), Some(12), "{json:#}");
        assert_eq!(json["verdict"], "passed");
        assert_eq!(json["about_nccl"], false);
        assert_eq!(json["world_size"], world);
        assert_eq!(json["ranks"].as_array().unwrap().len(), world as usize);
        assert_eq!(json["steps"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn ranks_of_a_launcher_meet() {
    for world in [2, 4] {
        let answers = run(&on_loopback(world, free_port()));
        expect(&answers, 12, "all-reduce right");
        assert!(
            answers[1].1.contains("PASSED rank 1 of"),
            "{}",
            answers[1].1
        );
    }
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let mut ranks = on_loopback(4, free_port());
    ranks.remove(2);
    let answers = run(&ranks);
    expect(&answers, 10, "rank 2 never came to rank 0");
    // The others say so too.
    assert!(
        answers[2].1.contains("rank 2 never came"),
        "{}",
        answers[2].1
    );
    for rank in [0, 1, 3] {
        assert!(
            !answers[0].1.contains(&format!("rank {rank} never came")),
            "{}",
            answers[0].1
        );
    }
}

/// It comes, tells its address, and says and takes nothing more.
#[test]
fn a_rank_that_hangs_is_named_and_not_those_that_wait_for_it() {
    let port = free_port();
    let mut ranks = on_loopback(4, port);
    ranks.remove(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = serde_json::json!({
        "host": "node-1",
        "pid": 7,
        "interface": "lo",
        "address": listener.local_addr().unwrap(),
        "fault": null,
    });
    let words = format!("{{\"unhang\":1,\"rank\":1,\"world\":4}}\n{member}\n");
    let hung = std::thread::spawn(move || {
        let until = Instant::now() + AT_MOST;
        loop {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
                stream.write_all(words.as_bytes()).unwrap();
                return stream;
            }
            assert!(Instant::now() < until, "rank 0 never listened");
            std::thread::yield_now();
        }
    });
    let answers = run(&ranks);
    expect(&answers, 10, "nothing more came from rank 1 to rank 0");
    for (_, text) in &answers {
        for word in ["rank 2 to rank 0", "rank 3 to rank 0", "from rank 2:"] {
            assert!(!text.contains(word), "{text}");
        }
    }
    drop((hung.join().unwrap(), listener));
}

#[test]
fn without_rank_0_its_port_is_named() {
    let port = free_port();
    let ranks = on_loopback(2, port);
    let answers = run(&ranks[1..]);
    expect(
        &answers,
        10,
        &format!("rank 0 at 127.0.0.1 port {port} does not accept: connection refused"),
    );
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let mut ranks = on_loopback(2, free_port());
    ranks[1].env = vec![("NCCL_SOCKET_IFNAME", "ens9")];
    let answers = run(&ranks);
    expect(
        &answers,
        10,
        "NCCL_SOCKET_IFNAME=ens9 matches no usable interface; there are lo",
    );
    assert!(answers[0].1.contains("rank 1 on "), "{}", answers[0].1);
}

#[test]
fn a_master_without_an_address_and_a_rank_twice_are_named() {
    let mut ranks = on_loopback(2, free_port());
    ranks[1].master = "no-such-host.invalid";
    let answers = run(&ranks[1..]);
    expect(&answers, 10, "MASTER_ADDR=no-such-host.invalid");
    let port = free_port();
    let mut ranks = on_loopback(3, port);
    ranks[2].rank = 1;
    let answers = run(&ranks);
    assert!(
        answers[0].1.contains("rank 1 came twice"),
        "{}",
        answers[0].1
    );
}

#[test]
fn launch_lines_are_printed() {
    for launcher in ["srun", "torchrun", "mpirun", "kubectl", "ray"] {
        let output = Command::new(env!("CARGO_BIN_EXE_unhang"))
            .args([
                "selftest",
                "--dry-run",
                "--env",
                "NCCL_SOCKET_IFNAME=eth0",
                "--print-launch",
                launcher,
            ])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(
            text.contains("unhang selftest --dry-run --env NCCL_SOCKET_IFNAME=eth0"),
            "{text}"
        );
    }
}

/// Hosts in network namespaces on one bridge; gone when dropped.
struct Net {
    names: Vec<String>,
}

/// Each test has its own.
static NETS: AtomicU32 = AtomicU32::new(0);

impl Net {
    /// `None` where namespaces may not be made.
    fn new(hosts: u32) -> Option<Self> {
        let id = format!(
            "uh{}x{}",
            std::process::id(),
            NETS.fetch_add(1, Ordering::Relaxed)
        );
        let mut net = Self {
            names: vec![format!("{id}s")],
        };
        let switch = net.names[0].clone();
        if !ip(&["netns", "add", &switch]) {
            net.names.clear();
            return None;
        }
        let mut made = ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"])
            && ip(&["-n", &switch, "link", "set", "br0", "up"]);
        for host in 0..hosts {
            let name = format!("{id}h{host}");
            let port = format!("p{host}");
            let address = format!("10.77.0.{}/24", host + 1);
            net.names.push(name.clone());
            made = made
                && ip(&["netns", "add", &name])
                && ip(&[
                    "-n", &switch, "link", "add", &port, "type", "veth", "peer", "name", "data0",
                    "netns", &name,
                ])
                && ip(&["-n", &switch, "link", "set", &port, "master", "br0", "up"])
                && ip(&["-n", &name, "addr", "add", &address, "dev", "data0"])
                && ip(&["-n", &name, "link", "set", "data0", "up"])
                && ip(&["-n", &name, "link", "set", "lo", "up"]);
        }
        made.then_some(net)
    }

    fn host(&self, host: usize) -> &str {
        &self.names[host + 1]
    }

    fn ranks(&self) -> Vec<Rank<'_>> {
        let world = u32::try_from(self.names.len() - 1).unwrap();
        let rank = |rank| Rank {
            inside: Some(self.host(rank as usize)),
            rank,
            world,
            master: "10.77.0.1",
            port: 29_555,
            env: Vec::new(),
        };
        (0..world).map(rank).collect()
    }

    /// From now on what `host` sends to this address is lost on the way, as behind a firewall that drops.
    fn lose(&self, host: usize, address: &str) {
        let nobody = "02:00:00:00:00:99";
        assert!(ip(&[
            "-n",
            self.host(host),
            "neigh",
            "replace",
            address,
            "lladdr",
            nobody,
            "dev",
            "data0",
            "nud",
            "permanent"
        ]));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

fn ip(args: &[&str]) -> bool {
    let status = Command::new("ip")
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// The net, or the word that says why the test shows nothing here. The same faults on the loopback are above.
#[expect(clippy::print_stderr, reason = "a test that shows nothing says so")]
fn net(hosts: u32) -> Option<Net> {
    let net = Net::new(hosts);
    if net.is_none() {
        eprintln!("SKIPPED: network namespaces cannot be made here (it takes root and `ip`)");
    }
    net
}

#[test]
fn hosts_of_a_network_meet() {
    for hosts in [2, 4] {
        let Some(net) = net(hosts) else { return };
        let answers = run(&net.ranks());
        expect(&answers, 12, "data0 10.77.0.2:");
    }
}

#[test]
fn a_way_that_loses_packets_is_named_with_both_ranks() {
    let Some(net) = net(4) else { return };
    // Rank 1 reaches rank 0, and not rank 2.
    net.lose(1, "10.77.0.3");
    let answers = run(&net.ranks());
    expect(
        &answers,
        10,
        "from rank 1: rank 2 at 10.77.0.3 (data0) port",
    );
    assert!(
        answers[0].1.contains("does not answer in"),
        "{}",
        answers[0].1
    );
    assert!(
        !answers[0].1.contains("from rank 2"),
        "an effect: {}",
        answers[0].1
    );
}

#[test]
fn a_route_that_is_closed_is_named() {
    let Some(net) = net(2) else { return };
    assert!(ip(&[
        "-n",
        net.host(0),
        "route",
        "add",
        "unreachable",
        "10.77.9.0/24"
    ]));
    // Rank 1 tells an address that rank 0 has no way to.
    let one = net.host(1);
    let pair = ["mgmt0", "type", "veth", "peer", "name", "other0"];
    assert!(ip(&[&["-n", one, "link", "add"], &pair[..]].concat()));
    assert!(ip(&[
        "-n",
        one,
        "addr",
        "add",
        "10.77.9.2/24",
        "dev",
        "mgmt0"
    ]));
    for end in ["mgmt0", "other0"] {
        assert!(ip(&["-n", one, "link", "set", end, "up"]));
    }
    let mut ranks = net.ranks();
    ranks[1].env = vec![("NCCL_SOCKET_IFNAME", "mgmt0")];
    let answers = run(&ranks);
    expect(
        &answers,
        10,
        "from rank 0: rank 1 at 10.77.9.2 (mgmt0) port",
    );
    assert!(
        answers[0].1.contains("cannot be reached: no route to host"),
        "{}",
        answers[0].1
    );
}

#[test]
fn a_blocked_way_to_rank_0_is_named_on_both_sides() {
    let Some(net) = net(2) else { return };
    net.lose(1, "10.77.0.1");
    let answers = run(&net.ranks());
    expect(
        &answers,
        10,
        "rank 1 never came to rank 0 at 10.77.0.1 port 29555",
    );
    let own = &answers[1].1;
    assert!(
        own.contains("rank 0 at 10.77.0.1 port 29555 does not answer in"),
        "{own}"
    );
}

#[test]
fn a_host_that_is_missing_or_has_another_name_for_its_interface() {
    let Some(net) = net(4) else { return };
    let mut ranks = net.ranks();
    ranks.remove(3);
    expect(&run(&ranks), 10, "rank 3 never came");
    let mut ranks = net.ranks();
    ranks[2].env = vec![("NCCL_SOCKET_IFNAME", "eth0")];
    expect(
        &run(&ranks),
        10,
        "NCCL_SOCKET_IFNAME=eth0 matches no usable interface; there are lo, data0",
    );
}
