//! Ranks that never made the call that the others of their group wait in.

use std::collections::BTreeSet;

use super::stand::{Lag, Stand};
use super::{Draft, MOST_GROUPS, Scene, Waits, at_site, cite, site};
use crate::engine::detect::ranges;
use crate::engine::finding::Finding;
use crate::engine::vocab::{Confidence, Role};

/// Ranks of each side that are cited.
const CITED: usize = 3;

pub(super) fn findings(scene: &Scene<'_>, stands: &[Stand<'_>], waits: &Waits) -> Vec<Finding> {
    let lags = stands.iter().filter_map(|stand| match stand {
        Stand::Behind(lag) => finding(scene, lag, waits),
        _ => None,
    });
    lags.take(MOST_GROUPS).collect()
}

fn finding(scene: &Scene<'_>, lag: &Lag<'_>, waits: &Waits) -> Option<Finding> {
    let common = &scene.job.recorder.common;
    let group = lag.group;
    let first = lag
        .ahead
        .iter()
        .find_map(|rank| group.members[rank].at(lag.seq).first());
    // A single rank that is ahead of more than one other is the odd one: its call may be one too many.
    let alone = lag.ahead.len() == 1 && lag.behind.len() > 1;
    let roots: BTreeSet<u32> = lag.behind.intersection(&waits.roots).copied().collect();
    let (accused, named) = if alone {
        (lag.ahead.clone(), &lag.ahead)
    } else {
        (roots, &lag.behind)
    };
    let last = lag
        .behind
        .iter()
        .find_map(|rank| group.members[rank].calls.collectives.last());
    let mut draft = Draft::new(scene, "RANK001")?;
    let function = first.map(|e| common.call(e.call).function().to_owned());
    let last_words = last.map(|e| format!("{}{}", common.call(e.call).words(), at_site(common, e)));
    draft
        .fact("ordinal", lag.seq.to_string())
        .fact("function", function.unwrap_or_default())
        .fact("comm", group.name.clone())
        .fact("last", last_words.unwrap_or_default())
        .fact("waiting", ranges(lag.ahead.iter().copied()))
        .named(named.iter().copied())
        .ranks(lag.behind.iter().chain(&lag.ahead).copied())
        .accuse(accused)
        .sure(if alone {
            Confidence::Possible
        } else {
            Confidence::Likely
        });
    if !group.absent.is_empty() {
        let ranks = ranges(group.absent.iter().copied());
        draft.missing(format!("the dumps of rank {ranks}: are they behind too?"));
    }
    if !alone && waits.is_symptom(&lag.behind) {
        draft.finding().role = Role::Symptom;
    }
    draft.finding().comm = Some(group.name.clone());
    for rank in lag.behind.iter().take(CITED) {
        if let Some(entry) = group.members[rank].calls.collectives.last() {
            cite(scene, &mut draft, group, *rank, entry);
        }
    }
    for rank in lag.ahead.iter().take(CITED) {
        if let Some(entry) = group.members[rank].at(lag.seq).first() {
            cite(scene, &mut draft, group, *rank, entry);
        }
    }
    let waiting = first.and_then(|e| site(common, e));
    if let (Some(waiting), Some(entry)) = (waiting, first) {
        let who = ranges(lag.ahead.iter().copied());
        let (ranks, waits) = match lag.ahead.len() {
            1 => ("rank", "waits"),
            _ => ("ranks", "wait"),
        };
        let call = common.call(entry.call).function();
        draft.sites(Some(format!(
            "{ranks} {who} {waits} in {call} at {waiting}"
        )));
    }
    Some(draft.finish())
}
