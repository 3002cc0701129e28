//! What line rules matched, by rule and writer.

use std::collections::BTreeMap;

use super::catalog::{Catalog, Hit};
use super::ids::{RuleIx, WriterIx};
use super::job::Kept;
use super::limits;
use super::line::Line;

/// What a line captured, by name.
pub type Captured = BTreeMap<&'static str, String>;

/// Matches of one rule in one writer's lines.
#[derive(Clone, Debug, Default)]
pub struct HitRecord {
    /// How many lines.
    pub count: u64,
    /// The first lines and the last one.
    pub lines: Vec<Kept>,
    /// Captures of the kept lines, likewise.
    pub captures: Vec<Captured>,
    /// Of a rule that names processes or GPUs: each that was named once, with its first line; the newest.
    pub named: Vec<(Captured, Kept)>,
}

impl HitRecord {
    /// Remembers what a line names, if no line before it did.
    fn name(&mut self, captured: Captured, line: &Line<'_>) {
        if captured.is_empty() || self.named.iter().any(|(known, _)| *known == captured) {
            return;
        }
        if self.named.len() == limits::NAMED_PER_WRITER {
            self.named.remove(0);
        }
        self.named.push((captured, Kept::now(line)));
    }
}

/// Rules that a text is remembered to match.
const FEW: usize = 2;

/// The rules that a text matches, if they are few.
#[derive(Clone, Copy, Debug, Default)]
pub struct Matched([Option<RuleIx>; FEW]);

impl Matched {
    /// True if there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0[0].is_none()
    }
}

/// Matches of all rules.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    records: BTreeMap<(RuleIx, WriterIx), HitRecord>,
    scratch: Vec<Hit>,
}

impl Hits {
    /// Matches a line against the catalog. Returns true if a rule matched.
    pub fn take(&mut self, catalog: &Catalog, line: &Line<'_>) -> bool {
        self.scratch.clear();
        let records = &self.records;
        // Further lines of a writer only count.
        let kept = |rule| {
            let known: Option<&HitRecord> = records.get(&(rule, line.writer));
            catalog.rule(rule).names_things
                || known.is_none_or(|record| record.lines.len() < limits::EVIDENCE_PER_RANK)
        };
        catalog.matches_of(line.class, line.message, &kept, &mut self.scratch);
        for hit in &self.scratch {
            let record = self.records.entry((hit.rule, line.writer)).or_default();
            record.count += 1;
            if catalog.rule(hit.rule).names_things {
                record.name(hit.texts(line.message), line);
            }
            if record.lines.len() < limits::EVIDENCE_PER_RANK {
                record.captures.push(hit.texts(line.message));
                record.lines.push(Kept::now(line));
            }
        }
        !self.scratch.is_empty()
    }

    /// What the line that was taken last matched; `None` if that is too much to remember.
    #[must_use]
    pub fn matched(&self) -> Option<Matched> {
        let mut matched = Matched::default();
        if self.scratch.len() > FEW {
            return None;
        }
        for (place, hit) in matched.0.iter_mut().zip(&self.scratch) {
            *place = Some(hit.rule);
        }
        Some(matched)
    }

    /// Takes a line that is known to match these. False, and nothing is taken, if the line has to be
    /// looked at itself, because it is one of those that are kept.
    pub fn take_again(&mut self, matched: Matched, writer: WriterIx) -> bool {
        let rules = || matched.0.into_iter().flatten();
        let only_counts = |rule| {
            let known = self.records.get(&(rule, writer));
            known.is_some_and(|record| record.lines.len() >= limits::EVIDENCE_PER_RANK)
        };
        if !rules().all(only_counts) {
            return false;
        }
        for rule in rules() {
            if let Some(record) = self.records.get_mut(&(rule, writer)) {
                record.count += 1;
            }
        }
        true
    }

    /// Rules that matched, with what each writer's lines matched.
    pub fn by_rule(&self) -> impl Iterator<Item = (RuleIx, WriterIx, &HitRecord)> {
        self.records
            .iter()
            .map(|((rule, writer), record)| (*rule, *writer, record))
    }
}
