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
    let former: Vec<(&String, Former<'_>)> = fix
        .env
        .keys()
        .map(|name| (name, Former::of(scene, accused, name)))
        .collect();
    if former.iter().all(|(_, former)| former.set.is_empty()) {
        return None;
    }
    let mut steps: Vec<String> = Vec::new();
    for (name, Former { set, unset }) in former {
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

/// What a variable was on the accused ranks, or on all where nobody is accused.
struct Former<'a> {
    /// Ranks by value.
    set: BTreeMap<&'a str, Vec<u32>>,
    /// Ranks that print their variables and not this one.
    unset: Vec<u32>,
}

impl<'a> Former<'a> {
    fn of(scene: &Scene<'a>, accused: &BTreeSet<u32>, name: &str) -> Self {
        let mut former = Self {
            set: BTreeMap::new(),
            unset: Vec::new(),
        };
        let concerned = |rank: u32| accused.is_empty() || accused.contains(&rank);
        for rec in scene.ranks.ranks.iter().filter(|r| concerned(r.rank)) {
            match scene.env_of(rec.rank, name) {
                Some(value) => former.set.entry(value).or_default().push(rec.rank),
                None if scene.records(rec).any(|r| !r.env.is_empty()) => {
                    former.unset.push(rec.rank);
                }
                None => {}
            }
        }
        former
    }
}

fn on(ranks: &[u32], everywhere: bool) -> String {
    if everywhere {
        return String::new();
    }
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!(" on {noun} {}", ranges(ranks.iter().copied()))
}

/// A value as a shell reads it back.
fn quoted(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.,:/+=@%^".contains(&b);
    // zsh takes `=` in front for the path of a command.
    if !value.is_empty() && value.bytes().all(plain) && !value.starts_with('=') {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', r"'\''"))
    }
}
