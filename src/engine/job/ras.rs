//! What NCCL RAS answered: the last answer of each source, and for how long nothing moved; and what it told by itself.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::engine::ids::SourceId;
use crate::engine::input::Time;
use crate::engine::limits;
use crate::engine::ras::events::{Change, Told};
use crate::engine::ras::{Process, RasComm, Reply};

/// The last answer of one source.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its source.
    pub source: SourceId,
    /// When it came; the server's own stamp for a saved answer that has one.
    pub time: Option<Time>,
    /// What it says.
    pub reply: Reply,
}

/// By function: how often, and by which ranks.
type Launched = Vec<(String, Vec<(u64, Vec<u32>)>)>;

/// Launches on a communicator, over successive answers.
#[derive(Clone, Debug)]
struct Still {
    launched: Launched,
    since: Option<Time>,
    last: Option<Time>,
    /// Those who had launched least have launched more between two answers.
    moved: bool,
}

/// All answers.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// By source.
    pub last: Vec<Answer>,
    /// Where each source's answer is.
    places: FxHashMap<SourceId, usize>,
    /// By communicator.
    stills: FxHashMap<u64, Still>,
    /// What was told of processes without being asked, by address and pid.
    pub heard: BTreeMap<(String, u32), Heard>,
    /// Lines told so far, by source.
    lines: FxHashMap<SourceId, u64>,
}

/// How a process stands by what RAS told of it.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The last change.
    pub change: Change,
    /// What led to it, the first ones.
    pub told: Vec<Process>,
}

impl Answers {
    /// Takes an answer; it replaces the one before of the same source.
    pub fn take(&mut self, source: SourceId, seen: Option<Time>, reply: Reply) {
        let time = seen.or_else(|| stamp(reply.stamp.as_deref()?));
        for comm in &reply.comms {
            self.compare(comm, time);
        }
        let answer = Answer {
            source,
            time,
            reply,
        };
        match self.places.entry(source) {
            Entry::Occupied(place) => self.last[*place.get()] = answer,
            Entry::Vacant(place) => {
                place.insert(self.last.len());
                self.last.push(answer);
            }
        }
    }

    /// Lines that a source told so far.
    #[must_use]
    pub fn lines_of(&self, source: SourceId) -> u64 {
        self.lines.get(&source).copied().unwrap_or(0)
    }

    /// Takes what RAS told by itself. Whoever is given up stays so until it is well again.
    pub fn hear(&mut self, source: SourceId, told: Told) {
        /// Lines kept of one process.
        const LINES: usize = 3;
        *self.lines.entry(source).or_default() += told.lines;
        for event in told.events {
            let (Some(pid), node) = (event.peer.pid, event.peer.node.clone()) else {
                continue;
            };
            let known = self.heard.len();
            let process = (node.unwrap_or_default(), pid);
            if known >= limits::RANKS as usize && !self.heard.contains_key(&process) {
                continue;
            }
            let heard = self.heard.entry(process).or_insert(Heard {
                change: Change::Well,
                told: Vec::new(),
            });
            if event.change == Change::Well {
                heard.told.clear();
                heard.change = Change::Well;
                continue;
            }
            // That it was given up is the weightiest; room is kept for it.
            let given_up = event.change == Change::Dead && heard.change != Change::Dead;
            if heard.told.len() < LINES {
                heard.told.push(event.peer);
            } else if given_up {
                heard.told[LINES - 1] = event.peer;
            }
            heard.change = heard.change.max(event.change);
        }
    }

    fn compare(&mut self, comm: &RasComm, time: Option<Time>) {
        let launched = launched(comm);
        let fresh = Still {
            launched,
            since: time,
            last: time,
            moved: false,
        };
        let least = |launched: &Launched| -> Vec<(String, u64)> {
            let of = |sides: &[(u64, Vec<u32>)]| sides.iter().map(|side| side.0).min();
            let functions = launched.iter();
            functions
                .map(|(function, sides)| (function.clone(), of(sides).unwrap_or(0)))
                .collect()
        };
        let known = self.stills.get(&comm.hash);
        let moved = known
            .is_some_and(|known| known.moved || least(&known.launched) != least(&fresh.launched));
        match self.stills.get_mut(&comm.hash) {
            Some(known) if known.launched == fresh.launched => {
                known.since = known.since.min(time).or(known.since);
                known.last = known.last.max(time);
            }
            // The later of two saved answers stands, whichever was read first.
            Some(known) if known.last <= fresh.last => *known = fresh,
            Some(_) => {}
            None => drop(self.stills.insert(comm.hash, fresh)),
        }
        if let Some(known) = self.stills.get_mut(&comm.hash) {
            known.moved = moved;
        }
    }

    /// True if two answers show that everybody on a communicator has launched more between them.
    #[must_use]
    pub fn moved(&self, hash: u64) -> bool {
        self.stills.get(&hash).is_some_and(|still| still.moved)
    }

    /// How long the launches of a communicator have stood still, as far as two answers tell.
    #[must_use]
    pub fn still_for(&self, hash: u64) -> Duration {
        let still = self.stills.get(&hash);
        still
            .and_then(|still| Some(still.last?.since(still.since?)))
            .unwrap_or_default()
    }
}

/// What two answers are compared by: not where their lines stand.
fn launched(comm: &RasComm) -> Launched {
    comm.counts
        .iter()
        .map(|counts| {
            let sides = counts.sides.iter().map(|side| {
                let ranks = side.ranks.iter().filter_map(|p| p.rank).collect();
                (side.launched, ranks)
            });
            (counts.function.clone(), sides.collect())
        })
        .collect()
}

/// `2026-11-30 19:27:30`, taken as if it were UTC: only differences between stamps of one job count.
fn stamp(text: &str) -> Option<Time> {
    let mut fields = text.split(['-', ' ', ':']).map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && day <= 31;
    // 60 where a second is inserted.
    if !is_date || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970-03-01 of a calendar whose year begins in March.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day;
    let days = days.checked_sub(719_469)?;
    Some(Time(
        (((days * 24 + hour) * 60 + minute) * 60 + second).checked_mul(1_000_000_000)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps() {
        let at = |text: &str| stamp(text).map(|t| t.0 / 1_000_000_000);
        assert_eq!(at("1970-01-01 00:00:00"), Some(0));
        assert_eq!(at("2026-11-30 19:27:30"), Some(1_796_066_850));
        assert_eq!(at("2024-02-29 00:00:00"), Some(1_709_164_800));
        assert_eq!(at("soon"), None);
        assert_eq!(at("0001-13-01 00:00:00"), None);
        let most = u64::MAX;
        assert_eq!(at(&format!("2026-11-30 {most}:{most}:{most}")), None);
    }
}
