//! Asks NCCL RAS: read-only, bounded in time and size, one question for each call.
//!
//! ```text
//! us   CLIENT PROTOCOL 2   TIMEOUT 5   SET FORMAT json       [VERBOSE ]STATUS
//! it   SERVER PROTOCOL 2   OK          OK | ERROR: Unknown…  the report, then it closes
//! ```
//! Only STATUS is asked unless the user wants more. `MONITOR` (since 2.29.2, [`monitor`]) tells at once that a peer is
//! gone or does not answer, which the next STATUS says as well (INCOMPLETE, DEAD), together with what its ranks had
//! launched; it keeps a connection to a process of the job open, so it is asked for by name.
//!
//! `DIAGNOSTICS` (since 2.31) is never asked: it makes code run in every process of the job that was never
//! seen to run in one that hangs, and RAS has crashed jobs before; it compares the NCCL variables, drivers and GPU
//! models that the logs show anyhow. What of it decides something (ECC errors and NVLinks of far hosts) is read
//! where the user had NCCL print it (`NCCL_RUN_RAS_DIAGNOSTICS=1`): rule HW006.
//!
//! (`src/ras/client.cc`, `src/ras/client_support.cc`, NCCL 2.24.3 to 2.32; JSON since 2.28.7.)

pub mod monitor;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::engine::ids::SourceId;
use crate::engine::ras::{REPLY_BYTES, Refused, parse};
use crate::error::{InputError, in_words};

/// Where RAS listens unless `NCCL_RAS_ADDR` says otherwise.
pub const PORT: u16 = 28028;
/// Connecting takes this long at most; a frozen process may own the accept, so it is tried again.
const CONNECT: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 2;
/// All processes of a host listen on one port, and the kernel picks one: if that one is frozen it never
/// says a word, and another connection most likely reaches another process.
const GREETINGS: u32 = 6;
/// RAS gives each of its own peers this long, in seconds; a report takes two to three of these.
const LEG: u64 = 5;
/// A line of the server, before the report.
const LINE: usize = 1024;

/// How long an answer may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the server's short answers, each.
    pub answer: Duration,
    /// For the whole report: its legs and what the network takes.
    pub report: Duration,
    /// For the whole question, from the first connection to the last byte.
    pub whole: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(3),
            report: Duration::from_secs(3 * LEG + 5),
            whole: Duration::from_secs(30),
        }
    }
}

/// An address to ask: `host`, `host:port`, `:port`, `[IPv6]:port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    host: String,
    port: u16,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
            port: PORT,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no HOST:PORT");
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(bad)?;
                (host, rest.strip_prefix(':'))
            }
            // More than one colon without brackets is an IPv6 address alone.
            None if text.matches(':').count() > 1 => (text, None),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().map_err(|_| bad())?,
            None => PORT,
        };
        if host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/') || port == 0 {
            return Err(bad());
        }
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl Endpoint {
    /// The address as NCCL prints it: `::1<28028>`.
    #[must_use]
    pub fn as_printed(text: &str) -> Option<Self> {
        let (host, rest) = text.split_once('<')?;
        let port = rest.strip_suffix('>')?;
        format!("[{host}]:{port}").parse().ok()
    }

    /// Asks once and returns the report as it came, JSON where the server knows it.
    ///
    /// # Errors
    /// If nobody listens, if what listens is not RAS, or if the report does not come in time.
    pub fn ask(&self, patience: Patience) -> Result<Vec<u8>, InputError> {
        let report = self.report(patience, true)?;
        let broken = |problem: &Refused| matches!(problem, Refused::Cut(_) | Refused::Unlike(_));
        match parse(SourceId(0), &report) {
            // Where a server's JSON is broken, its text is not.
            Err(problem) if broken(&problem) => self.report(patience, false).or(Ok(report)),
            _ => Ok(report),
        }
    }

    fn report(&self, patience: Patience, json: bool) -> Result<Vec<u8>, InputError> {
        let mut session = self.greeted(patience)?;
        session.say(&format!("TIMEOUT {LEG}"))?;
        session.line()?;
        let json = json && {
            session.say("SET FORMAT json")?;
            session.line()? == "OK"
        };
        // Verbose changes the text only: how many ranks of a group it lists.
        session.say(if json { "STATUS" } else { "VERBOSE STATUS" })?;
        session.rest()
    }

    /// A session with somebody who answers.
    fn greeted(&self, patience: Patience) -> Result<Session<'_>, InputError> {
        let end = Instant::now() + patience.whole;
        let mut refused = None;
        for _ in 0..GREETINGS {
            if refused.is_some() && Instant::now() >= end {
                break;
            }
            let mut session = Session::open(self, patience, end)?;
            session.say("CLIENT PROTOCOL 2")?;
            match session.line() {
                Ok(hello) if hello.starts_with("SERVER PROTOCOL ") => return Ok(session),
                Ok(_) => return Err(session.failed("what listens there is not NCCL RAS")),
                Err(error) if !error.why.contains("in time") => return Err(error),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| {
            let name = self.to_string();
            InputError::because("ask RAS at", Path::new(&name), "nobody answers")
        }))
    }
}

struct Session<'a> {
    endpoint: &'a Endpoint,
    stream: TcpStream,
    patience: Patience,
    /// When the whole question has to be answered.
    end: Instant,
    /// Bytes that came behind the last line.
    ahead: Vec<u8>,
}

impl<'a> Session<'a> {
    fn open(endpoint: &'a Endpoint, patience: Patience, end: Instant) -> Result<Self, InputError> {
        let name = endpoint.to_string();
        let wrap = |error: &io::Error| {
            let problem = InputError::because("ask RAS at", Path::new(&name), in_words(error));
            if error.kind() == io::ErrorKind::ConnectionRefused {
                return problem.hint("RAS listens once a process has begun its first communicator (NCCL 2.24.3 and later), on localhost unless NCCL_RAS_ADDR says otherwise");
            }
            problem
        };
        let addresses: Vec<SocketAddr> = (endpoint.host.as_str(), endpoint.port)
            .to_socket_addrs()
            .map_err(|error| wrap(&error))?
            .collect();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for _ in 0..ATTEMPTS {
            for address in &addresses {
                let left = end.saturating_duration_since(Instant::now()).min(CONNECT);
                if left.is_zero() {
                    last = io::Error::from(io::ErrorKind::TimedOut);
                    continue;
                }
                match TcpStream::connect_timeout(address, left) {
                    Ok(stream) => {
                        stream
                            .set_write_timeout(Some(patience.answer))
                            .map_err(|error| wrap(&error))?;
                        return Ok(Self {
                            endpoint,
                            stream,
                            patience,
                            end,
                            ahead: Vec::new(),
                        });
                    }
                    Err(error) => last = error,
                }
            }
            if last.kind() != io::ErrorKind::TimedOut {
                break;
            }
        }
        Err(wrap(&last))
    }

    fn failed(&self, why: impl Into<String>) -> InputError {
        let name = self.endpoint.to_string();
        InputError::because("ask RAS at", Path::new(&name), why)
    }

    fn say(&mut self, command: &str) -> Result<(), InputError> {
        self.stream
            .write_all(format!("{command}\n").as_bytes())
            .map_err(|error| self.failed(in_words(&error)))
    }

    /// Reads once, until the deadline at most; nothing at the end of the stream.
    fn read(&mut self, deadline: Instant, into: &mut [u8]) -> Result<usize, InputError> {
        let deadline = deadline.min(self.end);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.failed("it did not answer in time"));
            }
            // A zero time-out would mean none at all; `left` is not zero here.
            self.stream
                .set_read_timeout(Some(left))
                .map_err(|error| self.failed(in_words(&error)))?;
            match self.stream.read(into) {
                Ok(n) => return Ok(n),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        return Err(self.failed("it did not answer in time"));
                    }
                    _ => return Err(self.failed(in_words(&error))),
                },
            }
        }
    }

    /// A short line of the server.
    fn line(&mut self) -> Result<String, InputError> {
        let deadline = Instant::now() + self.patience.answer;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.ahead) {
                let line: Vec<u8> = self.ahead.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim().to_owned());
            }
            if self.ahead.len() > LINE {
                return Err(self.failed("what listens there is not NCCL RAS"));
            }
            let mut buf = [0; LINE];
            match self.read(deadline, &mut buf)? {
                0 => return Err(self.failed("it closed the connection")),
                n => self.ahead.extend_from_slice(&buf[..n]),
            }
        }
    }

    /// Everything up to the end of the stream.
    fn rest(&mut self) -> Result<Vec<u8>, InputError> {
        let deadline = Instant::now() + self.patience.report;
        let mut report = std::mem::take(&mut self.ahead);
        let mut buf = vec![0; 64 << 10];
        loop {
            match self.read(deadline, &mut buf)? {
                0 => return Ok(report),
                n => report.extend_from_slice(&buf[..n]),
            }
            if report.len() > REPLY_BYTES {
                return Err(self.failed(format!(
                    "the answer is longer than {} MiB",
                    REPLY_BYTES >> 20
                )));
            }
        }
    }
}

/// True if this version can tell of changes by itself.
#[must_use]
pub fn has_monitor(version: &str) -> bool {
    numbers(version).is_some_and(|number| number >= (2, 29, 2))
}

/// Why a version must not be asked, if it must not: asking has crashed jobs.
///
/// NVIDIA/nccl issues 1669 (2.26.2), 1718 (2.26.5), 1762 (2.27.3), 2346 (2.29.7, while communicators are
/// being made); the RAS thread of 2.27.7 has crashed by itself (1996).
#[must_use]
pub fn danger(version: &str) -> Option<&'static str> {
    let Some(number) = numbers(version) else {
        return Some("its version is not known");
    };
    match number {
        (..2, ..) | (2, ..24, _) => Some("RAS came with NCCL 2.24.3"),
        (2, 24..=27, _) => Some("asking RAS has crashed jobs with NCCL 2.26 and 2.27"),
        (2, 29, 7) => Some("asking RAS has crashed jobs with NCCL 2.29.7"),
        _ => None,
    }
}

/// `2.28.9+cuda13.0` as numbers, if it has two at least.
fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let number = |part: &str| {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u32>().ok()
    };
    let mut parts = version.split('.').map(number);
    let mut next = || parts.next().flatten();
    Some((next()?, next()?, next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let read = |text: &str| text.parse::<Endpoint>().map(|e| e.to_string());
        assert_eq!(read("localhost:28028").as_deref(), Ok("localhost:28028"));
        assert_eq!(read("node-3").as_deref(), Ok("node-3:28028"));
        assert_eq!(read(":7000").as_deref(), Ok("localhost:7000"));
        assert_eq!(read("[::1]:7").as_deref(), Ok("[::1]:7"));
        assert_eq!(read("::1").as_deref(), Ok("[::1]:28028"));
        for bad in ["a:b", "a:70000", "a:0", "[::1", "a b:1", "http://a:1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let printed = Endpoint::as_printed("::1<28028>").map(|e| e.to_string());
        assert_eq!(printed.as_deref(), Some("[::1]:28028"));
        let printed = Endpoint::as_printed("127.0.0.1<9>").map(|e| e.to_string());
        assert_eq!(printed.as_deref(), Some("127.0.0.1:9"));
        assert_eq!(Endpoint::as_printed("none"), None);
    }

    #[test]
    fn dangerous_versions() {
        for bad in [
            "2.23.4",
            "2.26.2+cuda12.2",
            "2.26.5",
            "2.27.3",
            "2.27.7",
            "2.29.7",
            "",
            "x",
        ] {
            assert!(danger(bad).is_some(), "{bad}");
        }
        for good in ["2.28.9+cuda13.0", "2.30.4", "2.31.2", "3.0.1"] {
            assert_eq!(danger(good), None, "{good}");
        }
        let can = |version: &&str| has_monitor(version);
        let all = [
            "2.28.9+cuda13.0",
            "2.29.1",
            "2.29.2",
            "2.30.4",
            "2.30",
            "3.0.1",
            "",
            "x",
        ];
        let with: Vec<&str> = all.into_iter().filter(can).collect();
        assert_eq!(with, ["2.29.2", "2.30.4", "2.30", "3.0.1"]);
    }
}
