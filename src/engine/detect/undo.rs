//! How to take back what a fix sets: the value that was there before, where the logs show it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Scene, ranges};
use crate::engine::catalog::FixTemplate;

/// The way back for a fix that sets variables; `None` where the rule's own words hold: it says more than
/// `unset`, or the logs show no former value.
pub(super) fn of(scene: &Scene<'_>, accused: &BTreeSet<u32>, fix: &FixTemplate) -> Option<String> {
    if !fix.undo.as_deref()?.starts_with("unset ") {
        return None;
    }
    let former: Vec<(&String, BTreeMap<&str, Vec<u32>>, Vec<u32>)> = fix
        .env
        .keys()
        .map(|name| {
            let (set, unset) = values(scene, accused, name);
            (name, set, unset)
        })
        .collect();
    if former.iter().all(|(_, set, _)| set.is_empty()) {
        return None;
    }
    let mut steps: Vec<String> = Vec::new();
    for (name, set, unset) in former {
        let everywhere = set.len() + usize::from(!unset.is_empty()) == 1;
        for (value, ranks) in &set {
            let step = format!("export {name}={}", quoted(value));
            steps.push(step + &on(ranks, everywhere));
        }
        if set.is_empty() || !unset.is_empty() {
            steps.push(format!("unset {name}{}", on(&unset, set.is_empty())));
        }
    }
    Some(steps.join("; "))
}

fn on(ranks: &[u32], everywhere: bool) -> String {
    if everywhere {
        return String::new();
    }
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!(" on {noun} {}", ranges(ranks.iter().copied()))
}

/// The former values by rank, of the accused or of all, and the ranks that print their variables and not
/// this one.
fn values<'a>(
    scene: &Scene<'a>,
    accused: &BTreeSet<u32>,
    name: &str,
) -> (BTreeMap<&'a str, Vec<u32>>, Vec<u32>) {
    let (mut set, mut unset) = (BTreeMap::<&str, Vec<u32>>::new(), Vec::new());
    let concerned = |rank: u32| accused.is_empty() || accused.contains(&rank);
    for rec in scene.ranks.ranks.iter().filter(|r| concerned(r.rank)) {
        match scene.env_of(rec.rank, name) {
            Some(value) => set.entry(value).or_default().push(rec.rank),
            None if scene.records(rec).any(|r| !r.env.is_empty()) => unset.push(rec.rank),
            None => {}
        }
    }
    (set, unset)
}

/// A value as a shell reads it back.
fn quoted(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.,:/+=@%^".contains(&b);
    if !value.is_empty() && value.bytes().all(plain) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', r"'\''"))
    }
}
