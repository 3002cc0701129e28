//! What line rules matched, by rule and writer.

use std::collections::BTreeMap;

use super::catalog::{Catalog, Hit};
use super::ids::{RuleIx, WriterIx};
use super::job::Kept;
use super::limits;
use super::line::Line;

/// Matches of one rule in one writer's lines.
#[derive(Clone, Debug, Default)]
pub struct HitRecord {
    /// How many lines.
    pub count: u64,
    /// The first lines and the last one.
    pub lines: Vec<Kept>,
    /// Captures of the kept lines, likewise.
    pub captures: Vec<BTreeMap<&'static str, String>>,
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
            known.is_none_or(|record| record.lines.len() < limits::EVIDENCE_PER_RANK)
        };
        catalog.matches_of(line.class, line.message, &kept, &mut self.scratch);
        for hit in &self.scratch {
            let record = self.records.entry((hit.rule, line.writer)).or_default();
            record.count += 1;
            if record.lines.len() < limits::EVIDENCE_PER_RANK {
                record.captures.push(hit.texts(line.message));
                record.lines.push(Kept::now(line));
            }
        }
        !self.scratch.is_empty()
    }

    /// Rules that matched, with what each writer's lines matched.
    pub fn by_rule(&self) -> impl Iterator<Item = (RuleIx, WriterIx, &HitRecord)> {
        self.records
            .iter()
            .map(|((rule, writer), record)| (*rule, *writer, record))
    }
}
