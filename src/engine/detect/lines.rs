//! Line rules to findings: one finding a rule, over all ranks whose lines matched.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Scene, facts, kernel, undone};
use crate::engine::catalog::CaptureKind;
use crate::engine::finding::Finding;
use crate::engine::hits::HitRecord;
use crate::engine::ids::{RuleIx, WriterIx};
use crate::engine::job::Kept;

/// Adds a finding for every rule that matched.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let mut by_rule: BTreeMap<RuleIx, Vec<(WriterIx, &HitRecord)>> = BTreeMap::new();
    for (rule, writer, record) in scene.hits.by_rule() {
        if !scene.ranks.stale[writer.ix()] {
            by_rule.entry(rule).or_default().push((writer, record));
        }
    }
    for (rule, records) in by_rule {
        let records = undone::left(scene, &scene.catalog.rule(rule).id, records);
        if records.is_empty() {
            continue;
        }
        if scene.catalog.rule(rule).merge {
            found.push(finding(scene, rule, &records));
        } else {
            found.extend(
                records
                    .iter()
                    .map(|one| finding(scene, rule, std::slice::from_ref(one))),
            );
        }
    }
}

fn finding(scene: &Scene<'_>, rule: RuleIx, records: &[(WriterIx, &HitRecord)]) -> Finding {
    let declared = scene.catalog.rule(rule);
    let mut draft = Draft::of(scene, rule);
    let mut sets: BTreeMap<&BTreeMap<&'static str, String>, u64> = BTreeMap::new();
    let mut accused = BTreeSet::new();
    let mut lines: Vec<(&Kept, Option<u32>)> = Vec::new();
    for (writer, record) in records {
        let rank = scene.ranks.rank_of(*writer);
        draft.ranks(rank).count(record.count);
        if rank.is_none()
            && let Some(host) = scene.host_of_source(*writer)
        {
            draft.finding().hosts.insert(host.to_owned());
            if !declared.printer_is_victim && scene.hosts().len() > 1 {
                draft.accuse_hosts([host.to_owned()]);
            }
        }
        lines.extend(record.lines.iter().map(|line| (line, rank)));
        for captures in &record.captures {
            *sets.entry(captures).or_default() += 1;
            for (name, value) in captures {
                if declared.captures.get(*name) == Some(&CaptureKind::Rank) {
                    accused.extend(numbers(value));
                }
            }
        }
    }
    // The most common line stands for all; ties go to the first in order.
    let most = sets
        .iter()
        .max_by_key(|(captures, count)| (**count, std::cmp::Reverse(**captures)));
    for (name, value) in most.iter().flat_map(|(captures, _)| captures.iter()) {
        draft.fact(name, value.clone());
    }
    // The rule's own first line, then what explains it: a bounded list keeps both.
    lines.sort_by_key(|(line, _)| line.place);
    let mut lines = lines.into_iter();
    if let Some((line, rank)) = lines.next() {
        draft.evidence(line, rank);
    }
    let common = most.map(|(captures, _)| (*captures).clone());
    facts::add(
        scene,
        &declared.id,
        records,
        &common.unwrap_or_default(),
        &mut draft,
    );
    kernel::add(scene, &declared.id, records, &mut draft);
    for (line, rank) in lines {
        draft.evidence(line, rank);
    }
    let world = scene.ranks.ranks.len() as u32;
    accused.retain(|rank| *rank < world.max(1));
    if accused.is_empty() && !declared.printer_is_victim {
        let printers: Vec<u32> = draft.finding().ranks.iter().copied().collect();
        draft.accuse(printers);
    }
    draft.accuse(accused);
    draft.build()
}

fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
}
