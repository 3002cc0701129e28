//! Listens to NCCL RAS in monitor mode: it tells by itself when a process of the job is gone.
//!
//! ```text
//! us   CLIENT PROTOCOL 2   MONITOR lifecycle,trace
//! it   SERVER PROTOCOL 2   OK | ERROR: …            an event a line, until somebody closes
//! ```
//! Nothing more is said: the connection is only read, and a process of the job holds its other end. What is no event,
//! a line without end and more events than any job has end it.

use std::io::{self, Read};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Endpoint, Patience, Session};
use crate::engine::ras::events::{is_event, looks_like_event};
use crate::error::{InputError, in_words};

/// Bytes of events of one connection: some 40 of each process of the largest job.
const MOST: u64 = 64 << 20;

/// A line of an event: RAS writes no more than 2 KiB.
const LINE: usize = 4 << 10;

/// A connection that events come in on.
pub struct Monitor {
    endpoint: Endpoint,
    stream: TcpStream,
    /// Bytes of a line whose end has not come.
    ahead: Vec<u8>,
    /// Bytes that may still come.
    left: u64,
}

impl Endpoint {
    /// Asks to be told of changes.
    ///
    /// # Errors
    /// If nobody listens, if what listens is not RAS, or is one without monitor mode.
    pub fn monitor(&self, patience: Patience) -> Result<Monitor, InputError> {
        let mut session = self.greeted(patience)?;
        session.say("MONITOR lifecycle,trace")?;
        match session.line()?.as_str() {
            "OK" => {}
            line if line.starts_with("ERROR: Unknown command") => {
                return Err(session.failed("its NCCL has no monitor mode, which came with 2.29.2"));
            }
            line if line.starts_with("ERROR:") => {
                let answered = format!("it answered {line}");
                return Err(session.failed(answered));
            }
            _ => return Err(session.failed("what listens there is not NCCL RAS")),
        }
        let Session { stream, ahead, .. } = session;
        Ok(Monitor {
            endpoint: self.clone(),
            stream,
            ahead,
            left: MOST,
        })
    }
}

impl Monitor {
    /// The same, ended after so many bytes.
    #[must_use]
    pub fn at_most(self, left: u64) -> Self {
        Self { left, ..self }
    }

    /// Waits for events of peers, for this long at most: whole lines, none if nothing happened.
    ///
    /// # Errors
    /// If the connection is closed, or what comes are no events.
    pub fn next(&mut self, wait: Duration) -> Result<Vec<u8>, InputError> {
        let deadline = Instant::now() + wait;
        loop {
            if let Some(end) = memchr::memrchr(b'\n', &self.ahead) {
                let rest = self.ahead.split_off(end + 1);
                let lines = std::mem::replace(&mut self.ahead, rest);
                let events = self.events(&lines)?;
                if events.is_empty() {
                    continue;
                }
                return Ok(events);
            }
            if self.ahead.len() > LINE {
                return Err(self.failed("what it says is no event of RAS"));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Vec::new());
            }
            self.read(left)?;
        }
    }

    /// Reads once, for this long at most.
    fn read(&mut self, wait: Duration) -> Result<(), InputError> {
        let mut buf = [0; 16 << 10];
        let limit = self.stream.set_read_timeout(Some(wait));
        limit.map_err(|error| self.failed(in_words(&error)))?;
        let n = match self.stream.read(&mut buf) {
            Ok(0) => return Err(self.failed("it closed the connection")),
            Ok(n) => n,
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut => return Ok(()),
                _ => return Err(self.failed(in_words(&error))),
            },
        };
        let left = self.left.checked_sub(n as u64);
        self.left = left.ok_or_else(|| self.failed("it tells more than any job has to tell"))?;
        self.ahead.extend_from_slice(&buf[..n]);
        Ok(())
    }

    /// The events of peers among these lines.
    fn events(&self, lines: &[u8]) -> Result<Vec<u8>, InputError> {
        let mut events = Vec::new();
        for line in lines.split_inclusive(|b| *b == b'\n') {
            let text = line.trim_ascii();
            if is_event(text) {
                events.extend_from_slice(line);
            } else if !text.is_empty() && !looks_like_event(text) {
                return Err(self.failed("what it says is no event of RAS"));
            }
        }
        Ok(events)
    }

    fn failed(&self, why: impl Into<String>) -> InputError {
        let name = self.endpoint.to_string();
        InputError::because("listen to RAS at", Path::new(&name), why)
    }
}
