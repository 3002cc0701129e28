//! What a run leaves behind for its diagnosis: logs, states of processes, GPUs; of one host or of several.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::outcome::{Ended, Fault, Outcome};
use super::plan::Plan;
use super::run::{log_of, nccl_log_of};
use crate::engine::Engine;
use crate::engine::gpu::GpuSample;
use crate::engine::ids::SourceId;
use crate::engine::input::{EndReason, Input, ProcessLoad, ProcessState, SourceInfo, SourceKind};
use crate::engine::snapshot::Snapshot;

/// Bytes of a log that are diagnosed.
const LOG_BYTES: u64 = 64 << 20;

/// What the ranks of one host left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Left {
    host: String,
    logs: Vec<Log>,
    /// Processes that did not run when the run ended, as `/proc` has their state; `X` for those that had
    /// ended without a word.
    processes: Vec<(u32, char)>,
    gpus: Option<GpuSample>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Log {
    rank: u32,
    pid: Option<u32>,
    name: String,
    text: String,
}

impl Left {
    /// Reads it from the folder of a run that has ended.
    #[must_use]
    pub fn of(scratch: &Path, plan: &Plan, outcome: &Outcome, gpus: Option<GpuSample>) -> Self {
        let mut logs = Vec::new();
        for seat in &plan.seats {
            for path in [log_of(scratch, seat.rank), nccl_log_of(scratch, seat.rank)] {
                let mut bytes = Vec::new();
                let read =
                    File::open(&path).and_then(|file| file.take(LOG_BYTES).read_to_end(&mut bytes));
                if read.is_err() {
                    continue;
                }
                let name = path.file_name().unwrap_or_default();
                let of_rank = outcome.ranks.iter().find(|rank| rank.rank == seat.rank);
                logs.push(Log {
                    rank: seat.rank,
                    pid: of_rank.map(|rank| rank.pid),
                    name: name.to_string_lossy().into_owned(),
                    text: String::from_utf8_lossy(&bytes).into_owned(),
                });
            }
        }
        let stuck: &[u32] = match &outcome.fault {
            Some(Fault::Stuck { ranks, .. }) => ranks,
            _ => &[],
        };
        let processes = outcome.ranks.iter().filter_map(|rank| {
            let silent = rank.failed.is_none() && !rank.finished;
            let state = match (rank.state, rank.ended) {
                (_, Some(Ended::Signal(_) | Ended::Status(_))) if silent => 'X',
                (Some(held @ ('T' | 't')), _) => held,
                // A process that works is in the kernel for moments too.
                (Some('D'), _) if stuck.contains(&rank.rank) => 'D',
                _ => return None,
            };
            Some((rank.pid, state))
        });
        let host = nix::unistd::gethostname().unwrap_or_default();
        let host = host.to_string_lossy();
        Self {
            host: host.split('.').next().unwrap_or_default().to_owned(),
            logs,
            processes: processes.collect(),
            gpus,
        }
    }

    /// Small enough to be sent: the start and the end of logs that are larger than this.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        let share = bytes / self.logs.len().max(1);
        for log in &mut self.logs {
            if log.text.len() > share {
                let start = log.text.floor_char_boundary(share / 2);
                let end = log.text.ceil_char_boundary(log.text.len() - share / 2);
                // A line that is cut is none.
                let start = log.text[..start].rfind('\n').map_or(0, |at| at + 1);
                let end = log.text[end..]
                    .find('\n')
                    .map_or(log.text.len(), |at| end + at + 1);
                log.text.replace_range(start..end, "");
            }
        }
        self
    }
}

/// The same engine that diagnoses jobs reads what was left.
#[must_use]
pub fn diagnose(mut engine: Engine, left: &[&Left], outcome: &Outcome) -> Snapshot {
    let logs = left
        .iter()
        .flat_map(|left| left.logs.iter().map(|log| (&left.host, log)));
    for (id, (host, log)) in (0..).map(SourceId).zip(logs) {
        engine.handle(
            None,
            Input::Source(SourceInfo {
                id,
                name: log.name.clone(),
                kind: SourceKind::File,
                // A rank that is held or dies before NCCL prints anything is met by these alone.
                host: Some(host.clone()),
                pid: log.pid,
                rank: Some(log.rank),
            }),
        );
        let input = Input::Bytes {
            source: id,
            offset: 0,
            chunk: log.text.as_bytes(),
        };
        engine.handle(None, input);
        engine.handle(
            None,
            Input::Ended {
                source: id,
                why: EndReason::Eof,
                detail: None,
            },
        );
    }
    for left in left {
        for (pid, state) in &left.processes {
            let state = match state {
                'T' => ProcessState::Stopped,
                't' => ProcessState::Traced,
                'D' => ProcessState::Uninterruptible,
                _ => ProcessState::Gone,
            };
            engine.handle(
                None,
                Input::Process {
                    host: left.host.clone(),
                    pid: *pid,
                    state,
                    load: ProcessLoad::default(),
                },
            );
        }
        if let Some(sample) = &left.gpus {
            let (host, sample) = (left.host.clone(), Box::new(sample.clone()));
            engine.handle(None, Input::Gpu { host, sample });
        }
    }
    if matches!(outcome.fault, Some(Fault::Stuck { .. })) {
        engine.handle(None, Input::Claim { stuck_for: None });
    }
    engine.snapshot()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_too_large_keeps_whole_lines_of_both_ends() {
        let lines: String = (0..100).map(|n| format!("line {n:02} \u{e9}\n")).collect();
        let log = |text: &str| Log {
            rank: 0,
            pid: None,
            name: "rank0.log".to_owned(),
            text: text.to_owned(),
        };
        let left = |text: &str| Left {
            host: "node-0".to_owned(),
            logs: vec![log(text), log("short")],
            processes: Vec::new(),
            gpus: None,
        };
        let small = left(&lines).within(200);
        assert_eq!(small.logs[1].text, "short");
        let kept: Vec<&str> = small.logs[0].text.lines().collect();
        assert_eq!(kept.first(), Some(&"line 00 \u{e9}"));
        assert_eq!(kept.last(), Some(&"line 99 \u{e9}"));
        assert!(kept.iter().all(|line| lines.contains(&format!("{line}\n"))));
        assert!(
            small.logs[0].text.len() <= 100,
            "{}",
            small.logs[0].text.len()
        );
        assert_eq!(left(&lines).within(1 << 20).logs[0].text, lines);
    }
}
