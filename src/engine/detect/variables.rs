//! Workarounds that are switched on: worth knowing, nothing wrong with them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Scene, ranges};
use crate::engine::catalog::variables::{Kind, Variable, find};
use crate::engine::finding::Finding;
use crate::engine::job::Kept;
use crate::engine::vocab::Role;

/// What one setting was seen on.
#[derive(Default)]
struct Seen<'a> {
    ranks: BTreeSet<u32>,
    line: Option<(&'a Kept, Option<u32>)>,
}

/// Adds a note that names every workaround in effect.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let mut settings: BTreeMap<(&str, &str), Seen<'_>> = BTreeMap::new();
    // Looked up once a name, not once a rank.
    let mut known: BTreeMap<&str, Option<Variable>> = BTreeMap::new();
    for (rank, record) in scene.all_records() {
        for (name, (value, line)) in &record.env {
            let variable = *known.entry(name).or_insert_with(|| workaround(name));
            if variable.is_none_or(|v| v.default == value) {
                continue;
            }
            let seen = settings.entry((name, value)).or_default();
            seen.ranks.extend(rank);
            seen.line.get_or_insert((line, rank));
        }
    }
    // What a finding is about, or asks to unset, is told there.
    settings.retain(|(name, _), _| !found.iter().any(|f| is_about(f, name)));
    if settings.is_empty() {
        return;
    }
    let Some(mut draft) = Draft::new(scene, "ENV003") else {
        return;
    };
    let every = scene.ranks.ranks.len();
    let list: Vec<String> = settings
        .iter()
        .map(|((name, value), seen)| match seen.ranks.len() {
            0 => format!("{name}={value}"),
            n if n == every => format!("{name}={value}"),
            _ => format!("{name}={value} ({})", ranges(seen.ranks.iter().copied())),
        })
        .collect();
    let what: BTreeSet<String> = settings
        .keys()
        .filter_map(|(name, _)| known.get(name).copied().flatten())
        .map(|v| format!("{}: {}", v.name, v.meaning))
        .collect();
    draft.fact("settings", list.join(", "));
    draft.fact("meanings", what.into_iter().collect::<Vec<_>>().join("; "));
    for seen in settings.values() {
        draft.ranks(seen.ranks.iter().copied());
        if let Some((line, rank)) = seen.line {
            draft.evidence(line, rank);
        }
    }
    draft.note();
    found.push(draft.build());
}

/// True if a finding names the variable as the thing to change.
fn is_about(finding: &Finding, name: &str) -> bool {
    let mut unset = finding.fixes.iter().flat_map(|fix| &fix.unset);
    finding.role != Role::Note && (finding.title.contains(name) || unset.any(|u| u == name))
}

/// The variable, if it is a workaround.
fn workaround(name: &str) -> Option<Variable> {
    find(name).filter(|known| known.kind == Kind::Workaround)
}
