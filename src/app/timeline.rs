//! What comes when: how much is written, and when findings come up. What a bar of time shows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::handle::Axis;
use crate::engine::finding::Finding;
use crate::engine::snapshot::Snapshot;
use crate::engine::vocab::{Role, Severity};
use crate::sources::record::What;

/// Parts into which the length is cut: more than a terminal has columns, and few enough to look at
/// the findings after each.
pub const PARTS: u32 = 512;
/// How long the parts of a watch are at first, together: a quarter of a second each.
const LIVE: Duration = Duration::from_secs(128);
/// Marks that are kept; the earliest are.
const MARKS: usize = 256;

/// Lines and findings along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// What positions mean.
    pub axis: Axis,
    /// The whole length; of a running watch, up to now.
    pub length: Duration,
    /// How long [`PARTS`] are: as the length, or longer while that grows.
    pub span: Duration,
    /// Lines in each part of the span, as far as it is known.
    pub lines: Vec<u64>,
    /// Where findings came up that still stand as far as it is known, the earliest first.
    pub marks: Vec<Mark>,
    /// All of it is known.
    pub whole: bool,
}

/// Where a finding came up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// All that it rests on stands up to here.
    pub at: Duration,
    /// It is no cause: another finding explains it, or nothing is proven. Causes come first.
    pub symptom: bool,
    /// Id of its rule.
    pub id: String,
    /// What it says.
    pub title: String,
}

impl Timeline {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(axis: Axis, length: Duration) -> Self {
        Self {
            axis,
            length,
            span: length,
            lines: Vec::new(),
            marks: Vec::new(),
            whole: false,
        }
    }

    /// How much of the length is known: 1 is all.
    #[must_use]
    pub fn known(&self) -> f64 {
        if self.whole {
            return 1.0;
        }
        // All may be counted, and not yet looked at.
        (self.lines.len() as f64 / f64::from(PARTS)).min(0.99)
    }

    /// Where the first cause came up; without causes, the first finding.
    #[must_use]
    pub fn first_sign(&self) -> Option<&Mark> {
        let cause = self.marks.iter().find(|mark| !mark.symptom);
        cause.or_else(|| self.marks.first())
    }

    /// The first mark behind a position.
    #[must_use]
    pub fn after(&self, at: Duration) -> Option<&Mark> {
        self.marks.iter().find(|mark| mark.at > at)
    }

    /// The last mark in front of a position.
    #[must_use]
    pub fn before(&self, at: Duration) -> Option<&Mark> {
        let last = self.marks.iter().rfind(|mark| mark.at < at)?.at;
        self.marks.iter().find(|mark| mark.at == last)
    }

    /// Lines in each of so many columns; `None` where it is not known yet.
    #[must_use]
    pub fn columns(&self, columns: usize) -> Vec<Option<u64>> {
        let columns = columns.max(1);
        let span = self.span.as_nanos().max(1) * columns as u128;
        let part = |column: usize| {
            let at = self.length.as_nanos() * column as u128 * u128::from(PARTS);
            usize::try_from(at / span).unwrap_or(usize::MAX)
        };
        let of = |column: usize| {
            let from = part(column);
            // The last column has the part in which the end lies.
            let last = column + 1 == columns;
            let to = if last { usize::MAX } else { part(column + 1) };
            let lines = self.lines.get(from..)?;
            let lines = &lines[..lines.len().min(to.saturating_sub(from).max(1))];
            (!lines.is_empty()).then(|| lines.iter().sum())
        };
        (0..columns).map(of).collect()
    }

    /// The column of a position among so many.
    #[must_use]
    pub fn column(&self, at: Duration, columns: usize) -> usize {
        let length = self.length.as_nanos().max(1);
        let column = at.as_nanos() * columns as u128 / length;
        usize::try_from(column)
            .unwrap_or(usize::MAX)
            .min(columns.saturating_sub(1))
    }
}

/// What tells a finding from others, so that it is known again: rule, communicator, which of those, and
/// of a note whom it names: in half-read logs it is now this rank that is behind and now that one.
type Key = (String, Option<String>, usize, BTreeSet<u32>);

/// Makes a timeline of what comes.
pub(crate) struct Tally {
    pub(crate) timeline: Timeline,
    marks: BTreeMap<Key, Mark>,
    at: Duration,
    /// The length grows with what comes.
    live: bool,
}

impl Tally {
    pub(crate) fn new(axis: Axis, length: Duration) -> Self {
        Self {
            timeline: Timeline::new(axis, length),
            marks: BTreeMap::new(),
            at: Duration::ZERO,
            live: false,
        }
    }

    /// Of a watch that has just begun: its length is not known, and grows.
    pub(crate) fn live() -> Self {
        let mut tally = Self::new(Axis::Recorded, LIVE);
        tally.timeline.length = Duration::ZERO;
        tally.timeline.whole = true;
        tally.live = true;
        tally
    }

    /// The part in which a position lies. A part holds its end and not its beginning, so that all of
    /// it has come where its end has been reached.
    fn part(&self, at: Duration) -> usize {
        let span = self.timeline.span.as_nanos().max(1);
        let part = (at.as_nanos() * u128::from(PARTS)).div_ceil(span);
        usize::try_from(part)
            .unwrap_or(usize::MAX)
            .clamp(1, PARTS as usize)
            - 1
    }

    /// Moves the end on to a position, with parts of twice the length as often as they do not reach it.
    fn reach(&mut self, at: Duration) {
        let timeline = &mut self.timeline;
        timeline.length = timeline.length.max(at);
        while timeline.span < timeline.length {
            timeline.span = timeline.span.max(LIVE).saturating_mul(2);
            let pairs = timeline.lines.chunks(2).map(|pair| pair.iter().sum());
            timeline.lines = pairs.collect();
        }
    }

    /// True if what comes at this position lies in another part than what came before.
    pub(crate) fn begins_part(&self, at: Duration) -> bool {
        self.part(at) >= self.timeline.lines.len().max(1)
    }

    /// Takes in what came at a position; positions never go back.
    pub(crate) fn count(&mut self, at: Duration, lines: u64) {
        self.at = self.at.max(at);
        // What lies behind the end of a replay belongs to its last part.
        if self.live {
            self.reach(self.at);
        }
        let part = self.part(self.at);
        let counts = &mut self.timeline.lines;
        if counts.len() <= part {
            counts.resize(part + 1, 0);
        }
        counts[part] += lines;
    }

    /// Takes in what stands after all that was counted. A finding that is gone leaves no mark: it was
    /// said of half-read logs. One that comes again has come up then.
    pub(crate) fn look(&mut self, snapshot: &Snapshot) {
        let mut standing = BTreeMap::new();
        // What nobody has proven to stand still is told by a note. While one watches, a rank that is
        // only late makes such a note for a moment, which is no sign of anything.
        let lead = snapshot.verdict.finding.filter(|_| !self.live);
        for (at, finding) in snapshot.findings.iter().enumerate() {
            let note = is_note(finding);
            if note && lead != Some(at) {
                continue;
            }
            let named = if note {
                finding.accused.clone()
            } else {
                BTreeSet::new()
            };
            let mut key = (finding.id.clone(), finding.comm.clone(), 0, named);
            while standing.contains_key(&key) {
                key.2 += 1;
            }
            let known = self.marks.get(&key);
            let mark = Mark {
                at: known.map_or(self.at, |mark| mark.at),
                symptom: note || finding.role != Role::Cause,
                id: finding.id.clone(),
                title: finding.title.clone(),
            };
            standing.insert(key, mark);
        }
        self.marks = standing;
        let mut marks: Vec<Mark> = self.marks.values().cloned().collect();
        marks.sort();
        marks.truncate(MARKS);
        self.timeline.marks = marks;
    }

    /// Nothing more will come.
    pub(crate) fn end(&mut self) {
        self.timeline.lines.resize(PARTS as usize, 0);
        self.timeline.whole = true;
    }
}

/// Lines that an input brings.
pub(crate) fn lines(what: &What) -> u64 {
    match what {
        What::Bytes { chunk, .. } => memchr::memchr_iter(b'\n', chunk).count() as u64,
        What::Ras { .. } | What::Dump { .. } | What::Other(_) => 0,
    }
}

/// Notes say that nothing is wrong yet.
fn is_note(finding: &Finding) -> bool {
    finding.severity == Severity::Info || finding.role == Role::Note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn parts_hold_their_ends() {
        let mut tally = Tally::new(Axis::Recorded, second(512));
        assert!(!tally.begins_part(second(0)) && !tally.begins_part(second(1)));
        tally.count(second(0), 1);
        tally.count(second(1), 2);
        assert!(tally.begins_part(Duration::from_millis(1_001)));
        tally.count(second(3), 4);
        assert_eq!(tally.timeline.lines, [3, 0, 4]);
        // What comes behind the end belongs to the last part.
        tally.count(second(600), 1);
        assert_eq!(tally.timeline.lines.len(), 512);
        assert_eq!(tally.timeline.lines[511], 1);
    }

    #[test]
    fn columns_add_up_and_what_is_unknown_is_no_zero() {
        let mut timeline = Timeline::new(Axis::Bytes, second(30));
        timeline.lines = vec![1; 256];
        assert_eq!(timeline.columns(4), [Some(128), Some(128), None, None]);
        assert_eq!(timeline.columns(512).iter().flatten().sum::<u64>(), 256);
        assert_eq!(timeline.columns(1024).len(), 1024);
        assert_eq!(timeline.columns(1024)[511], Some(1));
        assert_eq!(timeline.columns(1024)[512], None);
        assert_eq!(timeline.column(second(30), 10), 9);
        assert_eq!(timeline.column(second(14), 10), 4);
        let nothing = Timeline::new(Axis::Bytes, Duration::ZERO);
        assert_eq!(nothing.column(second(1), 10), 9);
        assert_eq!(nothing.columns(0), [None]);
    }

    #[test]
    fn a_watch_grows_in_the_same_room() {
        let mut tally = Tally::live();
        assert_eq!(tally.timeline.columns(3), [None; 3]);
        for at in 0..10_000 {
            tally.count(second(at), 1);
            let timeline = &tally.timeline;
            assert_eq!(timeline.length, second(at));
            assert!(timeline.lines.len() <= 512 && timeline.known() >= 1.0);
            assert_eq!(timeline.lines.iter().sum::<u64>(), at + 1);
        }
        assert_eq!(tally.timeline.span, LIVE * 128);
        let shown: Vec<u64> = tally.timeline.columns(100).into_iter().flatten().collect();
        assert_eq!((shown.len(), shown.iter().sum()), (100, 10_000_u64));
        assert!(
            shown.iter().all(|lines| (48..=128).contains(lines)),
            "{shown:?}"
        );
        assert_eq!(tally.timeline.column(second(9_999), 100), 99);
    }

    #[test]
    fn the_first_sign_is_a_cause_and_marks_are_found_both_ways() {
        let mark = |at, symptom, id: &str| Mark {
            at: second(at),
            symptom,
            id: id.to_owned(),
            title: String::new(),
        };
        let mut timeline = Timeline::new(Axis::Recorded, second(100));
        assert_eq!(timeline.first_sign(), None);
        timeline.marks = vec![
            mark(10, true, "A"),
            mark(20, false, "B"),
            mark(20, true, "C"),
        ];
        let id = |mark: Option<&Mark>| mark.map(|mark| mark.id.clone()).unwrap_or_default();
        assert_eq!(id(timeline.first_sign()), "B");
        assert_eq!(id(timeline.after(second(10))), "B");
        assert_eq!(id(timeline.after(second(20))), "");
        assert_eq!(id(timeline.before(second(30))), "B");
        assert_eq!(id(timeline.before(second(20))), "A");
        assert_eq!(id(timeline.before(second(10))), "");
        timeline.marks.truncate(1);
        assert_eq!(id(timeline.first_sign()), "A");
    }
}
