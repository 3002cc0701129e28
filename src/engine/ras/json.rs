//! The JSON report (since 2.28.7): it judges nothing, so the counts are compared here.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use memchr::memmem;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{COMMS, Counts, Lines, Process, RasComm, Refused, Reply, Side};
use crate::engine::job::Kept;
use crate::engine::limits;
use crate::engine::parse::cursor::Cursor;

/// Lines kept of one group of ranks.
const LINES: usize = 4;

#[derive(Deserialize)]
struct Report {
    nccl_version: String,
    timestamp: Option<String>,
    communicators: Vec<Comm>,
    #[serde(default)]
    ras: Collection,
}

#[derive(Default, Deserialize)]
struct Collection {
    #[serde(default)]
    timeouts_count: u64,
}

#[derive(Deserialize)]
struct Comm {
    hash: String,
    size: u32,
    #[serde(default)]
    ranks: Vec<Rank>,
    #[serde(default)]
    missing_ranks: Vec<Missing>,
}

#[derive(Deserialize)]
struct Rank {
    rank: u32,
    host: Option<String>,
    pid: Option<i64>,
    #[serde(default)]
    cuda_dev: i64,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    collective_counts: BTreeMap<String, u64>,
}

#[derive(Default, Deserialize)]
struct Status {
    /// `ncclResult_t`; 7 is in progress.
    #[serde(default)]
    init_state: i64,
    #[serde(default)]
    async_error: i64,
}

#[derive(Deserialize)]
struct Missing {
    rank: u32,
    host: Option<String>,
    pid: Option<i64>,
    #[serde(default)]
    status: MissingStatus,
}

#[derive(Default, Deserialize)]
struct MissingStatus {
    unresponsive: Option<bool>,
    #[serde(default)]
    considered_dead: bool,
}

pub(super) fn parse(at: Lines, body: &[u8]) -> Result<Reply, Refused> {
    let repaired = with_commas(body);
    let report: Report = match serde_json::from_slice(&repaired) {
        Ok(report) => report,
        Err(error) if error.is_eof() => return Err(Refused::Cut(error.to_string())),
        // JSON of another kind, or a RAS that prints something new.
        Err(error) => {
            return Err(if memmem::find(body, b"\"nccl_version\"").is_some() {
                Refused::Unlike(error.to_string())
            } else {
                Refused::Foreign
            });
        }
    };
    let mut find = Finder::new(at, body);
    let mut reply = Reply {
        nccl: Some(report.nccl_version),
        total: report.communicators.len() as u64,
        timeouts: report.ras.timeouts_count,
        stamp: report.timestamp,
        ..Reply::default()
    };
    let ranks = report
        .communicators
        .iter()
        .take(COMMS)
        .flat_map(|c| &c.ranks);
    let gpus: BTreeSet<_> = ranks.map(|r| (&r.host, r.pid, r.cuda_dev)).collect();
    reply.gpus = u32::try_from(gpus.len()).unwrap_or(u32::MAX);
    let comms = report.communicators.iter().take(COMMS);
    let largest = comms.max_by_key(|c| c.size);
    if let Some(whole) = largest.filter(|c| (reply.gpus..=limits::RANKS).contains(&c.size)) {
        let ranks = whole.ranks.iter();
        reply.whole = ranks
            .map(|r| process(r.rank, r.pid, r.host.as_deref()))
            .collect();
    }
    for comm in report.communicators.into_iter().take(COMMS) {
        // More ranks than any job has are not believed.
        if comm.size > limits::RANKS {
            continue;
        }
        reply.largest = reply.largest.max(comm.size);
        let hash = comm.hash.strip_prefix("0x").unwrap_or(&comm.hash);
        let Ok(hash) = u64::from_str_radix(hash, 16) else {
            continue;
        };
        find.enter(&comm.hash);
        let told = RasComm {
            hash,
            nranks: Some(comm.size),
            counts: counts(&comm.ranks, &find),
            errors: errors(&comm.ranks, &find),
            states: Vec::new(),
            missing: comm
                .missing_ranks
                .iter()
                .map(|missing| missing_rank(missing, &find))
                .collect(),
        };
        reply
            .lost
            .extend(told.missing.iter().filter(|m| !m.dead).cloned());
        reply
            .dead
            .extend(told.missing.iter().filter(|m| m.dead).cloned());
        reply.comms.push(told);
    }
    Ok(reply)
}

/// Functions whose launches differ, the most launches first.
fn counts(ranks: &[Rank], find: &Finder<'_>) -> Vec<Counts> {
    let mut functions: BTreeMap<&str, BTreeMap<u64, Vec<&Rank>>> = BTreeMap::new();
    for rank in ranks {
        for (function, launched) in &rank.collective_counts {
            let sides = functions.entry(function).or_default();
            sides.entry(*launched).or_default().push(rank);
        }
    }
    let differ = functions.into_iter().filter(|(_, sides)| sides.len() > 1);
    differ
        .map(|(function, sides)| Counts {
            function: function.to_owned(),
            sides: sides
                .into_iter()
                .rev()
                .map(|(launched, ranks)| side(function, launched, &ranks, find))
                .collect(),
        })
        .collect()
}

fn side(function: &str, launched: u64, ranks: &[&Rank], find: &Finder<'_>) -> Side {
    let mut members: Vec<Process> = ranks
        .iter()
        .map(|rank| process(rank.rank, rank.pid, rank.host.as_deref()))
        .collect();
    for member in members.iter_mut().take(LINES) {
        let words = format!("has launched {function} {launched} times");
        member.line = member.rank.and_then(|rank| find.rank(rank, &words));
    }
    Side {
        launched,
        size: u32::try_from(members.len()).unwrap_or(u32::MAX),
        line: None,
        ranks: members,
    }
}

fn errors(ranks: &[Rank], find: &Finder<'_>) -> Vec<(Process, String)> {
    let words = |rank: &Rank| {
        let (what, code) = match (rank.status.init_state, rank.status.async_error) {
            (0 | 7, 0 | 7) => return None,
            (0 | 7, code) => ("an asynchronous error", code),
            (code, _) => ("an initialization error", code),
        };
        Some(format!("reports {what}: {}", result(code)))
    };
    ranks
        .iter()
        .filter_map(|rank| {
            let words = words(rank)?;
            let mut process = process(rank.rank, rank.pid, rank.host.as_deref());
            process.line = find.rank(rank.rank, &words);
            Some((process, words))
        })
        .collect()
}

/// `ncclResult_t` in the words of `ncclGetErrorString` (`src/init.cc`, to 2.32).
fn result(code: i64) -> String {
    let words = match code {
        1 => "unhandled cuda error",
        2 => "unhandled system error",
        3 => "internal error",
        4 => "invalid argument",
        5 => "invalid usage",
        6 => "remote process exited or there was a network error",
        8 => "operation timed out",
        _ => return format!("ncclResult {code}"),
    };
    words.to_owned()
}

fn missing_rank(missing: &Missing, find: &Finder<'_>) -> Process {
    let mut process = process(missing.rank, missing.pid, missing.host.as_deref());
    process.unresponsive = missing.status.unresponsive;
    process.dead = missing.status.considered_dead;
    let words = match (process.dead, process.unresponsive) {
        (true, _) => "considered dead",
        (false, Some(false)) => "answers, and is not in this communicator",
        (false, _) => "did not answer",
    };
    process.line = find.missing(missing.rank, words);
    process
}

fn process(rank: u32, pid: Option<i64>, host: Option<&str>) -> Process {
    Process {
        rank: Some(rank),
        // -1 and "unknown" where RAS itself does not know.
        pid: pid.and_then(|pid| u32::try_from(pid).ok()),
        node: host.filter(|host| *host != "unknown").map(str::to_owned),
        ..Process::default()
    }
}

/// NCCL 2.28.9 leaves out the comma behind `"nvml_dev": 1` of a missing rank. One key stands on a line,
/// so a line that begins with a quote and follows a finished value lacks it.
fn with_commas(body: &[u8]) -> Cow<'_, [u8]> {
    if serde_json::from_slice::<IgnoredAny>(body).is_ok() {
        return Cow::Borrowed(body);
    }
    let mut repaired = Vec::with_capacity(body.len() + 1024);
    for line in body.split_inclusive(|b| *b == b'\n') {
        if line.trim_ascii_start().starts_with(b"\"") {
            let end = repaired.trim_ascii_end().len();
            let finished = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'"' | b'}' | b']');
            if repaired[..end].last().is_some_and(finished) {
                repaired.insert(end, b',');
            }
        }
        repaired.extend_from_slice(line);
    }
    Cow::Owned(repaired)
}

/// Finds the lines of ranks, for evidence: where the members of one communicator stand.
struct Finder<'a> {
    at: Lines,
    body: &'a [u8],
    /// Where lines end.
    ends: Vec<usize>,
    ranks: FxHashMap<u32, usize>,
    missing: FxHashMap<u32, usize>,
    end: usize,
}

const RANK: &[u8] = b"\"rank\": ";

impl<'a> Finder<'a> {
    fn new(at: Lines, body: &'a [u8]) -> Self {
        Self {
            at,
            body,
            ends: memchr::memchr_iter(b'\n', body).collect(),
            ranks: FxHashMap::default(),
            missing: FxHashMap::default(),
            end: 0,
        }
    }

    /// Enters the next communicator.
    fn enter(&mut self, hash: &str) {
        let body = self.body;
        let within = |from: usize, to: usize, what: &[u8]| {
            let part = body.get(from..to).unwrap_or_default();
            memmem::find(part, what).map_or(to, |found| from + found)
        };
        let all = body.len();
        let comm = within(self.end, all, format!("\"hash\": \"{hash}\"").as_bytes());
        self.end = within((comm + 1).min(all), all, b"\"hash\":");
        let missing = within(comm, self.end, b"\"missing_ranks\"");
        self.ranks.clear();
        self.missing.clear();
        for at in memmem::find_iter(&body[comm..self.end], RANK) {
            let start = comm + at;
            let mut number = Cursor(&body[start + RANK.len()..self.end]);
            let Some(rank) = number.dec32().filter(|_| number.0.starts_with(b",")) else {
                continue;
            };
            let places = if start < missing {
                &mut self.ranks
            } else {
                &mut self.missing
            };
            places.entry(rank).or_insert(start);
        }
    }

    fn rank(&self, rank: u32, words: &str) -> Option<Kept> {
        Some(self.keep(*self.ranks.get(&rank)?, rank, words))
    }

    fn missing(&self, rank: u32, words: &str) -> Option<Kept> {
        Some(self.keep(*self.missing.get(&rank)?, rank, words))
    }

    fn keep(&self, start: usize, rank: u32, words: &str) -> Kept {
        let number = self.ends.partition_point(|end| *end < start);
        let len = format!("\"rank\": {rank},").len();
        let text = format!("rank {rank} {words}");
        self.at.keep(number, start, len, text.as_bytes())
    }
}
