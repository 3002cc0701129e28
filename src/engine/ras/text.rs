//! The text report.
//!
//! ```text
//! #0-0 (fdcb716592c917a7) MISMATCH
//!   Communicator ranks have different AllReduce operation counts
//!   15 ranks have launched up to operation 3
//!   Rank 1 has launched up to operation 2 -- GPU 1 managed by process 1068 on node 192.0.2.2
//! ```

use rustc_hash::FxHashMap;

use super::{COMMS, Counts, Lines, Process, RasComm, Refused, Reply, Side};
use crate::engine::job::Kept;
use crate::engine::limits;
use crate::engine::parse::cursor::Cursor;

/// Ranks of one answer that are taken.
const RANKS: usize = 1 << 17;

/// What the lines below a heading are about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    Nothing,
    Job,
    Table,
    Lost,
    Dead,
    Missing,
    Errors,
    Counts,
    States,
}

struct Parser {
    reply: Reply,
    about: About,
    /// The communicator that a `#0-0 (hash)` line opened.
    comm: Option<usize>,
    by_hash: FxHashMap<u64, usize>,
    /// Ranks per communicator, by its group.
    groups: Vec<Option<u32>>,
    /// The status that `N ranks have status S` named: members follow.
    state: String,
    error: String,
    taken: usize,
    end_seen: bool,
}

pub(super) fn parse(at: Lines, body: &[u8]) -> Result<Reply, Refused> {
    if !body.starts_with(b"NCCL version ") {
        return Err(Refused::Foreign);
    }
    let mut parser = Parser {
        reply: Reply::default(),
        about: About::Nothing,
        comm: None,
        by_hash: FxHashMap::default(),
        groups: Vec::new(),
        state: String::new(),
        error: String::new(),
        taken: 0,
        end_seen: false,
    };
    let mut offset = 0;
    for (number, raw) in body.split(|b| *b == b'\n').enumerate() {
        let line = raw.strip_suffix(b"\r").unwrap_or(raw);
        parser.line(line, |text| at.keep(number, offset, line.len(), text));
        offset += raw.len() + 1;
    }
    if parser.end_seen && body.ends_with(b"\n") {
        Ok(parser.reply)
    } else {
        Err(Refused::Cut(
            "the last line or the heading Warnings, which ends every report, is missing".to_owned(),
        ))
    }
}

impl Parser {
    fn line(&mut self, line: &[u8], keep: impl Fn(&[u8]) -> Kept) {
        let indented = line.starts_with(b"  ");
        let words = Cursor(line.trim_ascii());
        if words.0.is_empty() {
            if self.about != About::Counts && self.about != About::States {
                self.about = About::Nothing;
            }
            return;
        }
        if !indented && words.0.starts_with(b"#") {
            self.comm_heading(words);
            return;
        }
        if !indented {
            self.heading(words);
            return;
        }
        if self.about == About::Job {
            self.job_row(words);
            return;
        }
        if self.about == About::Table {
            self.table_row(words);
            return;
        }
        if words.0.starts_with(b"Communicator ranks have different ") {
            self.different(words);
            return;
        }
        if self.taken >= RANKS {
            return;
        }
        self.entry(words, line, keep);
    }

    fn heading(&mut self, mut words: Cursor<'_>) {
        match words.0 {
            b"Warnings" => self.end_seen = true,
            b"No communicator data collected!" => self.end_seen = true,
            b"INCOMPLETE" => self.about = About::Lost,
            b"DEAD" => self.about = About::Dead,
            text if text.starts_with(b"(total) ") => self.about = About::Job,
            text if text.starts_with(b"Group ") => self.about = About::Table,
            text if text.starts_with(b"=") => {}
            _ => {
                if words.lit(b"NCCL version ").is_some() {
                    self.reply.nccl = Some(text_of(words.word()));
                }
                self.about = About::Nothing;
            }
        }
        self.comm = None;
    }

    /// `#0-0 (fdcb716592c917a7) MISMATCH`
    fn comm_heading(&mut self, mut words: Cursor<'_>) {
        self.about = About::Nothing;
        self.comm = None;
        let mut take = || {
            words.lit(b"#")?;
            let group = words.dec()?;
            words.lit(b"-")?;
            words.dec()?;
            words.lit(b" (")?;
            let hash = words.hex()?;
            words.lit(b")")?;
            Some((group, hash))
        };
        let Some((group, hash)) = take() else { return };
        let group = usize::try_from(group).unwrap_or(usize::MAX);
        if let Some(known) = self.by_hash.get(&hash) {
            self.comm = Some(*known);
        } else if self.reply.comms.len() < COMMS {
            let nranks = self.groups.get(group).copied().flatten();
            self.reply.comms.push(RasComm {
                hash,
                nranks,
                ..RasComm::default()
            });
            let at = self.reply.comms.len() - 1;
            self.by_hash.insert(hash, at);
            self.comm = Some(at);
        }
    }

    /// `      8          2            1         16       16`: the last is all GPUs.
    fn job_row(&mut self, words: Cursor<'_>) {
        let fields = words.0.split(|b| *b == b' ').filter(|f| !f.is_empty());
        let numbers: Option<Vec<u32>> = fields
            .map(|field| std::str::from_utf8(field).ok()?.parse().ok())
            .collect();
        if let Some([.., gpus]) = numbers.as_deref().filter(|n| n.len() == 5) {
            self.reply.gpus = *gpus;
        }
    }

    /// `    0         1         8         2        16        16   RUNNING  MISMATCH`, below a
    /// second line of headings that begins with `#`.
    fn table_row(&mut self, words: Cursor<'_>) {
        let fields: Vec<&[u8]> = words
            .0
            .split(|b| *b == b' ')
            .filter(|field| !field.is_empty())
            .collect();
        let number = |at: usize| {
            let field = fields.get(at)?;
            std::str::from_utf8(field).ok()?.parse::<u32>().ok()
        };
        let (Some(_), Some(comms), Some(nranks)) = (number(0), number(1), number(4)) else {
            return;
        };
        // More ranks than any job has are not believed.
        let nranks = Some(nranks).filter(|n| *n <= limits::RANKS);
        if self.groups.len() < COMMS {
            self.groups.push(nranks);
        }
        self.reply.total += u64::from(comms);
        self.reply.largest = self.reply.largest.max(nranks.unwrap_or_default());
    }

    /// `Communicator ranks have different AllReduce operation counts`, `… different status`
    fn different(&mut self, mut words: Cursor<'_>) {
        words.lit(b"Communicator ranks have different ");
        if words.0 == b"status" {
            self.about = About::States;
            return;
        }
        let function = words.word();
        self.about = About::Counts;
        let Some(comm) = self.comm else { return };
        // 2.24 and 2.25 count all functions together.
        let function = if function == b"collective" {
            String::new()
        } else {
            text_of(function)
        };
        self.reply.comms[comm].counts.push(Counts {
            function,
            sides: Vec::new(),
        });
    }

    fn entry(&mut self, mut words: Cursor<'_>, line: &[u8], keep: impl Fn(&[u8]) -> Kept) {
        if words.0.starts_with(b"Encountered ") {
            words.lit(b"Encountered ");
            self.reply.timeouts += words.dec().unwrap_or(0);
            return;
        }
        if words.0.starts_with(b"Missing communicator data from") {
            if self.comm.is_some() {
                self.about = About::Missing;
            }
            return;
        }
        if words.0.starts_with(b"Initialization error")
            || words.0.starts_with(b"Asynchronous error")
        {
            self.about = About::Errors;
            return;
        }
        if let Some(list) = words.0.strip_prefix(b"The missing rank(s): ") {
            // 2.24 and 2.25.
            self.about = About::Missing;
            let kept = keep(line);
            let believable = numbers(list).filter(|rank| *rank < limits::RANKS);
            for rank in believable.take(RANKS.saturating_sub(self.taken)) {
                let process = Process {
                    rank: Some(rank),
                    line: Some(kept.clone()),
                    ..Process::default()
                };
                self.member(process);
            }
            return;
        }
        let mut process = Process {
            line: Some(keep(line)),
            ..Process::default()
        };
        managed_by(words.0, &mut process);
        if words.lit(b"Rank ").is_some() {
            process.rank = words.dec32();
            self.rank(words, process);
        } else if words.0.starts_with(b"Process ") {
            words.lit(b"Process ");
            process.pid = words.dec32();
            match self.about {
                About::Lost => self.reply.lost.push(process),
                About::Dead => self.reply.dead.push(process),
                _ => return,
            }
            self.taken += 1;
        } else if let Some(size) = words.dec() {
            self.many(u32::try_from(size).unwrap_or(u32::MAX), words, process);
        }
    }

    /// `15 ranks have launched up to operation 3`, `… have not launched any operations`,
    /// `… have status RUNNING`, `… reported System error`
    fn many(&mut self, size: u32, mut words: Cursor<'_>, process: Process) {
        words.lit(b" ");
        words.word();
        words.lit(b" ");
        if let Some(launched) = launched(words.0) {
            self.side(launched, size, process.line);
        } else if let Some(state) = words.0.strip_prefix(b"have status ") {
            self.state = text_of(state);
        } else if let Some(error) = words.0.strip_prefix(b"reported ") {
            self.error = text_of(error);
        }
    }

    /// What follows `Rank 9`.
    fn rank(&mut self, mut words: Cursor<'_>, process: Process) {
        words.lit(b" ");
        if let Some(launched) = launched(words.0) {
            self.side(launched, 1, process.line.clone());
            self.member(process);
        } else if let Some(state) = words.0.strip_prefix(b"has status ") {
            self.state = text_of(before_dashes(state));
            self.member(process);
        } else if let Some(error) = words.0.strip_prefix(b"reported ") {
            self.error = text_of(before_dashes(error));
            self.member(process);
        } else if words.0.starts_with(b"--") {
            self.member(process);
        }
    }

    fn side(&mut self, launched: u64, size: u32, line: Option<Kept>) {
        let counts = self
            .comm
            .and_then(|at| self.reply.comms[at].counts.last_mut());
        let Some(counts) = counts.filter(|_| self.about == About::Counts) else {
            return;
        };
        counts.sides.push(Side {
            launched,
            size,
            ranks: Vec::new(),
            line,
        });
    }

    /// A rank of what was opened last.
    fn member(&mut self, process: Process) {
        let Some(at) = self.comm else { return };
        let comm = &mut self.reply.comms[at];
        self.taken += 1;
        match self.about {
            About::Missing => comm.missing.push(process),
            About::Errors => comm.errors.push((process, self.error.clone())),
            About::States => comm.states.push((process, self.state.clone())),
            About::Counts => {
                let side = comm.counts.last_mut().and_then(|c| c.sides.last_mut());
                if let Some(side) = side {
                    side.ranks.push(process);
                }
            }
            _ => {}
        }
    }
}

/// `has|have launched up to operation 3`, `has|have not launched any operations`
fn launched(words: &[u8]) -> Option<u64> {
    let mut words = Cursor(words.strip_prefix(b"ha")?);
    words.lit(b"s ").or_else(|| words.lit(b"ve "))?;
    if words.0.starts_with(b"not launched any ") {
        return Some(0);
    }
    words.lit(b"launched up to operation ")?;
    words.dec()
}

/// `… -- GPU 1 (NVML 1) managed by process 1068 on node 192.0.2.2`
fn managed_by(words: &[u8], process: &mut Process) {
    if let Some(at) = memchr::memmem::find(words, b" managed by process ") {
        let mut rest = Cursor(&words[at + b" managed by process ".len()..]);
        process.pid = rest.dec32();
    }
    if let Some(at) = memchr::memmem::find(words, b" on node ") {
        let node = Cursor(&words[at + b" on node ".len()..]).word();
        process.node = Some(text_of(node));
    }
}

fn before_dashes(words: &[u8]) -> &[u8] {
    let end = memchr::memmem::find(words, b" --").unwrap_or(words.len());
    &words[..end]
}

/// The numbers of `1, 2, 5-7`.
fn numbers(list: &[u8]) -> impl Iterator<Item = u32> + '_ {
    list.split(|b| *b == b',').flat_map(|part| {
        let mut ends = part.trim_ascii().split(|b| *b == b'-').map(|end| {
            std::str::from_utf8(end)
                .ok()
                .and_then(|end| end.trim().parse::<u32>().ok())
        });
        let first = ends.next().flatten();
        let last = ends.next().flatten().or(first);
        match (first, last) {
            (Some(first), Some(last)) => first..last.saturating_add(1),
            _ => 0..0,
        }
    })
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
