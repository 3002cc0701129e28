//! Reports of torchrun and other launchers (torch elastic 1.9–2.15).

use super::cursor::Cursor;
use super::literals::{Literal, Literals};
use super::text::{exit_of, number_behind};
use crate::engine::event::Event;

/// A line of a launcher's report.
pub(super) fn parse(message: &[u8], found: Literals) -> Option<Event<'_>> {
    let line = message.trim_ascii();
    match line.first()? {
        b'r' if line.starts_with(b"rank ") => report_rank(line),
        b'e' if line.starts_with(b"exitcode ") => report_exit(line),
        b'R' if line.starts_with(b"Root Cause (first observed failure)") => {
            Some(Event::ReportRootCause)
        }
        _ if found.is_empty() => None,
        _ => agent(line, found),
    }
}

/// `rank      : 2 (local_rank: 2)`
fn report_rank(line: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(line.strip_prefix(b"rank")?.trim_ascii_start());
    rest.lit(b": ")?;
    let rank = rest.dec32()?;
    rest.lit(b" (local_rank: ")?;
    Some(Event::ReportRank {
        rank,
        local: rest.dec32()?,
    })
}

/// `exitcode  : -9 (pid: 2715)  (SIGKILL)`
fn report_exit(line: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(line.strip_prefix(b"exitcode")?.trim_ascii_start());
    rest.lit(b": ")?;
    let exit = exit_of(rest.int()?)?;
    rest.lit(b" (pid: ")?;
    Some(Event::ReportExit {
        exit,
        pid: rest.dec32()?,
    })
}

/// Lines of the agent's own log.
fn agent(line: &[u8], found: Literals) -> Option<Event<'_>> {
    if let Some(at) = found.find(Literal::AgentExit, line) {
        let mut rest = Cursor(&line[at + Literal::AgentExit.text().len()..]);
        let exit = exit_of(rest.int()?)?;
        rest.lit(b") local_rank: ")?;
        let local = rest.dec32()?;
        return Some(Event::AgentExit {
            exit,
            local,
            pid: number_behind(line, b"(pid: ")?,
        });
    }
    if found.find(Literal::AgentStopped, line).is_some() {
        return Some(Event::LauncherStopped);
    }
    let restarts = found.find(Literal::AgentRestarts, line);
    restarts.map(|_| Event::Restart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::event::Exit;

    fn parsed(message: &[u8]) -> Option<Event<'_>> {
        parse(message, Literals::ANY)
    }

    #[test]
    fn reports() {
        assert_eq!(
            parsed(b"  rank      : 2 (local_rank: 2)"),
            Some(Event::ReportRank { rank: 2, local: 2 })
        );
        assert_eq!(
            parsed(b"  exitcode  : -9 (pid: 2715)  (SIGKILL)"),
            Some(Event::ReportExit {
                exit: Exit::Signal(9),
                pid: 2715
            })
        );
        assert_eq!(
            parsed(b"failed (exitcode: 1) local_rank: 1 (pid: 1438) of binary: /usr/bin/python"),
            Some(Event::AgentExit {
                exit: Exit::Code(1),
                pid: 1438,
                local: 1
            })
        );
        assert_eq!(
            parsed(b"Received 15 death signal, shutting down workers"),
            Some(Event::LauncherStopped)
        );
        assert_eq!(parsed(b"rank 3 is fine"), None);
    }
}
