//! What NCCL RAS tells by itself: the client against servers of every kind, saved output, and what it proves.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use unhang::sources::ras::Endpoint;

#[path = "support/ras_server.rs"]
mod ras_server;

use ras_server::{SHORT, serve, unhang};

const HELLO: &[u8] = b"SERVER PROTOCOL 2\n";
const DEAD: &str =
    "[2026-12-01 10:01:00] PEER_DEAD: Process 3348 on node 10.20.0.4 managing GPU 0\n";
const LOST: &str =
    "[2026-12-01 10:00:00] PEER_DISCONNECTED: Process 3348 on node 10.20.0.4 managing GPU 0\n";

fn case(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("fixtures/cases").join(name)
}

/// The next command; nothing once the client is gone.
fn command(client: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    let _gone = client.read_line(&mut line);
    line.trim().to_owned()
}

fn say(client: &mut BufReader<TcpStream>, bytes: &[u8]) -> bool {
    client.get_mut().write_all(bytes).is_ok()
}

/// Greets, and answers MONITOR with this.
fn greet(client: &mut BufReader<TcpStream>, answer: &[u8]) {
    assert_eq!(command(client), "CLIENT PROTOCOL 2");
    say(client, HELLO);
    assert_eq!(command(client), "MONITOR lifecycle,trace");
    say(client, answer);
}

/// Holds the connection until the client leaves it.
fn hold(mut client: BufReader<TcpStream>) {
    while !command(&mut client).is_empty() {}
}

fn next(endpoint: &Endpoint) -> Result<Vec<u8>, String> {
    let monitor = endpoint.monitor(SHORT);
    let mut monitor = monitor.map_err(|error| error.to_string())?.at_most(1 << 20);
    let end = Instant::now() + Duration::from_secs(5);
    let mut all = Vec::new();
    while Instant::now() < end {
        match monitor.next(Duration::from_millis(200)) {
            Ok(lines) if lines.is_empty() && !all.is_empty() => return Ok(all),
            Ok(lines) if lines.is_empty() => return Err("nothing".to_owned()),
            Ok(lines) => all.extend(lines),
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("no end".to_owned())
}

#[test]
fn events_come_as_whole_lines() {
    let endpoint = serve(|mut client| {
        greet(&mut client, b"OK\n");
        // Torn anywhere, and the last one is never ended.
        say(
            &mut client,
            b"[2026-12-01 10:00:00] COMM_NEW: of a later version\n",
        );
        for piece in [
            &LOST.as_bytes()[..30],
            &LOST.as_bytes()[30..],
            DEAD.as_bytes(),
            b"[2026-12-0",
        ] {
            say(&mut client, piece);
            thread::sleep(Duration::from_millis(20));
        }
        hold(client);
    });
    let expected = format!("{LOST}{DEAD}");
    assert_eq!(
        String::from_utf8(next(&endpoint).unwrap()).unwrap(),
        expected
    );
}

#[test]
fn bad_servers_are_left_in_time() {
    type Serve = fn(BufReader<TcpStream>);
    let servers: [(&str, Serve, &str); 10] = [
        ("silent", |client| hold(client), "did not answer in time"),
        (
            "http",
            |mut client| {
                say(&mut client, b"HTTP/1.1 400 Bad Request\r\n");
            },
            "not NCCL RAS",
        ),
        (
            "quiet",
            |mut client| {
                greet(&mut client, b"OK\n");
                hold(client);
            },
            "nothing",
        ),
        (
            "old",
            |mut client| {
                greet(
                    &mut client,
                    b"ERROR: Unknown command MONITOR lifecycle,trace\n",
                );
            },
            "has no monitor mode",
        ),
        (
            "refuses",
            |mut client| greet(&mut client, b"ERROR: Invalid event group 'trace'\n"),
            "it answered ERROR: Invalid event group",
        ),
        (
            "another protocol",
            |mut client| greet(&mut client, b"220 ready\n"),
            "not NCCL RAS",
        ),
        (
            "closes",
            |mut client| greet(&mut client, b"OK\n"),
            "closed the connection",
        ),
        (
            "no events",
            |mut client| {
                greet(&mut client, b"OK\n");
                say(
                    &mut client,
                    b"[2026-12-01 10:00:00] PEER_NEW: x\nrm -rf /\n\x1b[2J\n",
                );
                hold(client);
            },
            "no event of RAS",
        ),
        (
            "a line without end",
            |mut client| {
                greet(&mut client, b"OK\n");
                while say(&mut client, &[b'x'; 512]) {}
            },
            "no event of RAS",
        ),
        (
            "endless",
            |mut client| {
                greet(&mut client, b"OK\n");
                while say(&mut client, DEAD.repeat(100).as_bytes()) {}
            },
            "more than any job",
        ),
    ];
    for (name, server, why) in servers {
        let started = Instant::now();
        let error = next(&serve(server)).expect_err(name);
        assert!(error.contains(why), "{name}: {error}");
        assert!(started.elapsed() < Duration::from_secs(10), "{name}");
    }
}

fn report(args: &[&Path]) -> serde_json::Value {
    let mut all = vec!["report", "--stuck", "--format", "json"];
    all.extend(args.iter().map(|path| path.to_str().unwrap()));
    serde_json::from_slice(&unhang(&all).stdout).unwrap()
}

/// The lines of evidence of the verdict's finding.
fn evidence(json: &serde_json::Value) -> Vec<String> {
    let of = json["findings"][0]["evidence"].as_array().unwrap();
    of.iter()
        .map(|e| e["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn saved_output_of_ncclras_is_evidence_where_the_peer_can_be_placed() {
    let folder = tempfile::tempdir().unwrap();
    let header =
        "RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...\n================\n";
    let saved = folder.path().join("monitor.txt");
    fs::write(&saved, format!("{header}{LOST}{DEAD}")).unwrap();
    let answer = case("rank-killed-16/ras.json");

    // The answer lists the process: rank 6.
    let json = report(&[&answer, &saved]);
    assert_eq!(json["verdict"]["class"], "rank-died");
    assert_eq!(json["verdict"]["ranks"], serde_json::json!([6]));
    let told = evidence(&json);
    assert!(
        told.iter().any(|line| line.contains("PEER_DEAD")),
        "{told:?}"
    );

    // So do the logs; and who is well again is not missed.
    let logs: Vec<PathBuf> = (0..16)
        .map(|n| case(&format!("rank-killed-16/rank{n}.log")))
        .collect();
    let with = |saved: &Path| {
        let mut all: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
        all.push(saved);
        report(&all)
    };
    let json = with(&saved);
    assert_eq!(json["verdict"]["ranks"], serde_json::json!([6]));
    let witnesses = &json["findings"][0]["witnesses"];
    assert_eq!(witnesses, &serde_json::json!(["log", "ras"]), "{json:#}");
    fs::write(
        &saved,
        format!("{header}{DEAD}{}", DEAD.replace("DEAD", "RECOVERED")),
    )
    .unwrap();
    let json = with(&saved);
    assert_eq!(json["findings"][0]["witnesses"], serde_json::json!(["log"]));

    // A process that nobody knows accuses nobody.
    fs::write(&saved, DEAD).unwrap();
    let json = report(&[&saved]);
    assert_eq!(json["verdict"]["ranks"], serde_json::json!([]));
    assert_eq!(json["verdict"]["class"], "inconclusive");
}

/// A process is not called gone by somebody's lost connection alone.
#[test]
fn a_closed_connection_alone_accuses_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("monitor.txt");
    let answer = case("mismatch-count-16/ras.json");
    for pid in [930, 929] {
        let text = LOST
            .replace("3348", &pid.to_string())
            .replace("10.20.0.4", "10.20.0.5");
        fs::write(&saved, text).unwrap();
        let json = report(&[&answer, &saved]);
        assert_eq!(json["verdict"]["class"], "missing-rank");
        assert_eq!(json["verdict"]["ranks"], serde_json::json!([9]));
    }
}

static POLLS: AtomicU32 = AtomicU32::new(0);
static MONITORS: AtomicU32 = AtomicU32::new(0);

/// Answers questions, and tells of a death to whoever listens.
fn both(mut client: BufReader<TcpStream>) {
    loop {
        let line = command(&mut client);
        match line.as_str() {
            "" => return,
            "CLIENT PROTOCOL 2" => {
                say(&mut client, HELLO);
            }
            "MONITOR lifecycle,trace" => {
                MONITORS.fetch_add(1, Ordering::Relaxed);
                say(&mut client, b"OK\n");
                while POLLS.load(Ordering::Relaxed) == 0 {
                    thread::sleep(Duration::from_millis(20));
                }
                say(&mut client, LOST.as_bytes());
                say(&mut client, DEAD.as_bytes());
                return hold(client);
            }
            "STATUS" => {
                POLLS.fetch_add(1, Ordering::Relaxed);
                say(
                    &mut client,
                    &fs::read(case("rank-killed-16/ras.json")).unwrap(),
                );
                return;
            }
            _ => {
                say(&mut client, b"OK\n");
            }
        }
    }
}

/// A watch listens only when told to and only to versions that can, asks at once when something happened, and its
/// journal replays to the same answer.
#[test]
fn a_watch_listens_and_records() {
    let endpoint = serve(both);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("rank0.log");
    let journal = folder.path().join("watch.journal");
    let version = |version: &str| {
        let line = format!("node-1:41:41 [0] NCCL INFO NCCL version {version}+cuda13.0\n");
        fs::write(&log, line).unwrap();
    };
    let ras = format!("--ras={endpoint}");
    let log = log.to_str().unwrap();

    version("2.28.9");
    let output = unhang(&[
        "watch",
        "--until-finding",
        "--timeout=3s",
        &ras,
        "--ras-monitor",
        log,
    ]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("monitor mode came with 2.29.2"), "{error}");
    version("2.29.7");
    unhang(&[
        "watch",
        "--until-finding",
        "--timeout=2s",
        &ras,
        "--ras-monitor",
        log,
    ]);
    version("2.30.4");
    unhang(&["watch", "--until-finding", "--timeout=2s", &ras, log]);
    assert_eq!(MONITORS.load(Ordering::Relaxed), 0);
    let output = unhang(&["watch", "--ras-monitor", log]);
    assert_eq!(output.status.code(), Some(2), "it needs --ras");

    POLLS.store(0, Ordering::Relaxed);
    let watch = Command::new(env!("CARGO_BIN_EXE_unhang"))
        .args([
            "watch",
            "--stuck",
            "--format",
            "json",
            "--ras-monitor",
            "--ras-every=60s",
        ])
        .args([&ras, log, "--record"])
        .arg(&journal)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(40);
    while POLLS.load(Ordering::Relaxed) < 2 {
        assert!(
            Instant::now() < deadline,
            "the event brought no question forward"
        );
        thread::sleep(Duration::from_millis(20));
    }
    // The journal grows by a block once the second answer is in it.
    let answer = fs::read(case("rank-killed-16/ras.json")).unwrap().len() as u64;
    while report(&[&journal])["inputs"]["bytes"].as_u64().unwrap_or(0) <= 2 * answer {
        assert!(
            Instant::now() < deadline,
            "the second answer was not recorded"
        );
        thread::sleep(Duration::from_millis(50));
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(watch.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = watch.wait_with_output().unwrap();
    let live = String::from_utf8(output.stdout).unwrap();
    let replayed = unhang(&["report", "--format", "json", journal.to_str().unwrap()]);
    assert_eq!(live, String::from_utf8(replayed.stdout).unwrap());
    let json: serde_json::Value = serde_json::from_str(&live).unwrap();
    assert_eq!(json["verdict"]["ranks"], serde_json::json!([6]));
    let told = evidence(&json);
    assert!(
        told.iter().any(|line| line.contains("PEER_DEAD")),
        "{told:?}"
    );
    assert_eq!(POLLS.load(Ordering::Relaxed), 2, "no more often than asked");
}
