//! The client of NCCL RAS against servers that speak well, badly, slowly or not at all.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use unhang::engine::ids::SourceId;
use unhang::engine::ras;
use unhang::sources::ras::{Endpoint, Patience};

#[path = "support/ras_server.rs"]
mod ras_server;

use ras_server::{SHORT, Serve, serve, unhang};

fn fixture(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cases");
    fs::read(root.join(name)).unwrap()
}

/// A server, and the commands it was sent.
struct Server {
    endpoint: Endpoint,
}

impl Server {
    fn start(each: Serve) -> Self {
        Self {
            endpoint: serve(each),
        }
    }

    fn ask(&self) -> Result<Vec<u8>, String> {
        self.endpoint.ask(SHORT).map_err(|error| error.to_string())
    }
}

/// Speaks as NCCL does; `json` since 2.28.7.
fn speak(mut client: BufReader<TcpStream>, json: bool, text: &[u8], as_json: &[u8]) {
    let mut format_is_json = false;
    loop {
        let mut line = String::new();
        if client.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut say = |bytes: &[u8]| client.get_mut().write_all(bytes).is_ok();
        match line.trim() {
            "CLIENT PROTOCOL 2" => say(b"SERVER PROTOCOL 2\n"),
            "SET FORMAT json" if json => {
                format_is_json = true;
                say(b"OK\n")
            }
            line if line.starts_with("TIMEOUT ") => say(b"OK\n"),
            "STATUS" | "VERBOSE STATUS" => {
                say(if format_is_json { as_json } else { text });
                return;
            }
            other => say(format!("ERROR: Unknown command {other}\n").as_bytes()),
        };
    }
}

fn new(client: BufReader<TcpStream>) {
    let (text, json) = (
        fixture("rank-killed-16/ras.txt"),
        fixture("rank-killed-16/ras.json"),
    );
    speak(client, true, &text, &json);
}

fn old(client: BufReader<TcpStream>) {
    speak(client, false, &fixture("rank-killed-16/ras.txt"), b"");
}

#[test]
fn new_and_old_servers_answer() {
    let json = Server::start(new).ask().unwrap();
    assert_eq!(json, fixture("rank-killed-16/ras.json"));
    let text = Server::start(old).ask().unwrap();
    assert_eq!(text, fixture("rank-killed-16/ras.txt"));
    for reply in [json, text] {
        let reply = ras::parse(SourceId(0), &reply).unwrap();
        assert_eq!(reply.comms[0].missing[0].rank, Some(6));
    }
}

/// A server whose JSON is broken is asked for text.
#[test]
fn broken_json_is_asked_for_as_text() {
    let server = Server::start(|client| {
        let json = fixture("rank-killed-16/ras.json");
        let torn = &json[..json.len() / 2];
        speak(client, true, &fixture("rank-killed-16/ras.txt"), torn);
    });
    assert_eq!(server.ask().unwrap(), fixture("rank-killed-16/ras.txt"));
}

#[test]
fn bad_servers_are_refused_in_time() {
    let silent: Serve = |client| loop_until_closed(client);
    let closing: Serve = drop;
    let http: Serve = |mut client| {
        let _gone = client
            .get_mut()
            .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    };
    let endless: Serve = |mut client| while client.get_mut().write_all(&[b'x'; 4096]).is_ok() {};
    let stalls: Serve = |mut client| {
        let _gone = client
            .get_mut()
            .write_all(b"SERVER PROTOCOL 2\nOK\nOK\n{\n");
        loop_until_closed(client);
    };
    let drips: Serve = |mut client| {
        let _gone = client.get_mut().write_all(b"SERVER PROTOCOL 2\nOK\nOK\n");
        while client.get_mut().write_all(b" ").is_ok() {
            thread::yield_now();
        }
    };
    for (name, serve, why) in [
        ("silent", silent, "did not answer in time"),
        ("closing", closing, "connection"),
        ("http", http, "not NCCL RAS"),
        ("endless", endless, "not NCCL RAS"),
        ("stalls", stalls, "did not answer in time"),
        ("drips", drips, ""),
    ] {
        let started = Instant::now();
        let error = Server::start(serve).ask().expect_err(name);
        assert!(error.contains(why), "{name}: {error}");
        assert!(
            error.starts_with("failed to ask RAS at 127.0.0.1:"),
            "{error}"
        );
        // Far below what the default patience allows.
        assert!(started.elapsed() < Duration::from_secs(10), "{name}");
    }
}

/// Holds the connection without a word.
fn loop_until_closed(mut client: BufReader<TcpStream>) {
    let mut line = String::new();
    while client.read_line(&mut line).unwrap_or(0) > 0 {
        line.clear();
    }
}

#[test]
fn an_answer_without_end_is_cut() {
    let huge: Serve = |mut client| {
        let _gone = client.get_mut().write_all(b"SERVER PROTOCOL 2\nOK\nOK\n");
        let piece = vec![b' '; 1 << 20];
        while client.get_mut().write_all(&piece).is_ok() {}
    };
    let patience = Patience {
        report: Duration::from_secs(30),
        whole: Duration::from_secs(30),
        ..SHORT
    };
    let error = Server::start(huge)
        .endpoint
        .ask(patience)
        .expect_err("too long");
    assert!(error.to_string().contains("longer than"), "{error}");
}

/// Each of its answers is in time, and yet it would hold the caller for many times as long.
#[test]
fn a_whole_question_has_one_deadline() {
    static ASKED: Mutex<u32> = Mutex::new(0);
    let slow: Serve = |mut client| {
        let first = {
            let mut asked = ASKED.lock().unwrap();
            *asked += 1;
            *asked < 3
        };
        if first {
            return loop_until_closed(client);
        }
        let _gone = client.get_mut().write_all(b"SERVER PROTOCOL 2\nOK\nOK\n");
        while client.get_mut().write_all(b"{").is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let patience = Patience {
        answer: Duration::from_millis(400),
        report: Duration::from_secs(600),
        whole: Duration::from_millis(1_200),
    };
    let started = Instant::now();
    let answer = Server::start(slow).endpoint.ask(patience);
    let error = answer.expect_err("never ends").to_string();
    assert!(error.contains("did not answer in time"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn nobody_listens() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint: Endpoint = free.local_addr().unwrap().to_string().parse().unwrap();
    drop(free);
    let error = endpoint.ask(SHORT).expect_err("refused");
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(error.hint.is_some());
}

/// A job whose version has crashed when asked is not asked, unless the user insists.
#[test]
fn dangerous_versions_are_not_asked() {
    static ASKED: Mutex<u32> = Mutex::new(0);
    let server = Server::start(|client| {
        *ASKED.lock().unwrap() += 1;
        new(client);
    });
    let folder = tempfile::tempdir().unwrap();
    let log = |version: &str| {
        format!(
            "node-1:41:41 [0] NCCL INFO NCCL version {version}\nnode-1:41:41 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
        )
    };
    let ras = format!("--ras={}", server.endpoint);
    let path = folder.path().join("rank0.log");
    let path = path.to_str().unwrap();
    let asked = || *ASKED.lock().unwrap();

    fs::write(path, log("2.27.3+cuda12.2")).unwrap();
    let output = unhang(&["report", path, &ras]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), asked()), (Some(3), 0), "{error}");
    assert!(
        error.contains("2.27.3") && error.contains("--ras-force"),
        "{error}"
    );

    fs::write(path, "epoch 1\n").unwrap();
    unhang(&["report", path, &ras]);
    assert_eq!(asked(), 0, "an unknown version");

    fs::write(path, log("2.27.3+cuda12.2")).unwrap();
    unhang(&["report", path, &ras, "--ras-force"]);
    assert_eq!(asked(), 1);

    fs::write(path, log("2.28.9+cuda13.0")).unwrap();
    let output = unhang(&["report", "--stuck", "--format", "json", path, &ras]);
    assert_eq!(asked(), 2);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"]["class"], "rank-died");
    assert_eq!(json["verdict"]["ranks"], serde_json::json!([6]));
}

/// A watch asks, shows it, and its journal replays to the same answer.
#[test]
fn a_watch_asks_and_records() {
    let server = Server::start(new);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("rank0.log");
    fs::write(
        &log,
        "node-1:41:41 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n",
    )
    .unwrap();
    let journal = folder.path().join("watch.journal");
    let watch = Command::new(env!("CARGO_BIN_EXE_unhang"))
        .args(["watch", "--stuck", "--format", "json", "--record"])
        .arg(&journal)
        .arg(format!("--ras={}", server.endpoint))
        .arg("--ras-every=5s")
        .arg(&log)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The journal grows by a block once the answer is in it.
    let answer = Arc::new(fixture("rank-killed-16/ras.json"));
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let output = unhang(&["report", "--format", "json", journal.to_str().unwrap()]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let bytes = json["inputs"]["bytes"].as_u64().unwrap_or(0);
        if bytes > answer.len() as u64 {
            break;
        }
        assert!(Instant::now() < deadline, "never asked: {json}");
        thread::yield_now();
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(watch.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let live = watch.wait_with_output().unwrap().stdout;
    let replayed = unhang(&["report", "--format", "json", journal.to_str().unwrap()]).stdout;
    assert_eq!(
        String::from_utf8_lossy(&live),
        String::from_utf8_lossy(&replayed)
    );
    let json: serde_json::Value = serde_json::from_slice(&live).unwrap();
    assert_eq!(json["verdict"]["ranks"], serde_json::json!([6]));
}

/// Once the job stands still, the address that the logs name on this host is asked unasked, and the user is told.
#[test]
fn who_listens_on_this_host_is_asked_unasked() {
    let server = Server::start(new);
    let port = server
        .endpoint
        .to_string()
        .rsplit(':')
        .next()
        .unwrap()
        .to_owned();
    let host = nix::unistd::gethostname().unwrap();
    let host = host.to_string_lossy();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("rank0.log");
    let line = |text: &str| format!("{host}:41:41 [0] NCCL INFO {text}\n");
    let listens = format!("RAS client listening socket at 127.0.0.1<{port}>");
    fs::write(&log, line("NCCL version 2.28.9+cuda13.0") + &line(&listens)).unwrap();
    let log = log.to_str().unwrap();
    let watch = |more: &[&str]| {
        let mut args = vec!["watch", "--stuck", "--until-finding"];
        args.extend(more);
        args.push(log);
        let output = unhang(&args);
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    let text = watch(&["--timeout=20s"]);
    assert!(text.contains("NCCL RAS was asked"), "{text}");
    assert!(text.contains("rank 6"), "{text}");
    let text = watch(&["--no-ras", "--timeout=1s"]);
    assert!(!text.contains("RAS was asked"), "{text}");
}
