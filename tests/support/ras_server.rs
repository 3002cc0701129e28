//! A server in place of NCCL RAS, and unhang beside it.

use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use unhang::sources::ras::{Endpoint, Patience};

/// Patience of tests.
pub(crate) const SHORT: Patience = Patience {
    answer: Duration::from_millis(300),
    report: Duration::from_millis(600),
    whole: Duration::from_secs(5),
};

/// What a server does with one connection.
pub(crate) type Serve = fn(BufReader<TcpStream>);

/// Listens, each connection on a thread of its own.
pub(crate) fn serve(each: Serve) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || each(BufReader::new(stream)));
        }
    });
    address.to_string().parse().unwrap()
}

/// The program with these arguments, to its end.
pub(crate) fn unhang(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unhang"))
        .args(args)
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}
