//! Ranks that never made the call that the others of their group wait in.

use std::collections::BTreeSet;

use super::p2p::Unmatched;
use super::stand::{Lag, Stand};
use super::{Draft, MOST_GROUPS, Scene, Waits, at_site, cite, site};
use crate::engine::detect::circle::{self, Step};
use crate::engine::detect::ranges;
use crate::engine::dump::{Common, Entry};
use crate::engine::finding::Finding;
use crate::engine::vocab::{Confidence, Role};
use crate::engine::witness::recorder::GroupRec;

/// Ranks of each side that are cited.
const CITED: usize = 3;

pub(super) fn findings(scene: &Scene<'_>, stands: &[Stand<'_>], waits: &Waits) -> Vec<Finding> {
    let lags = stands.iter().filter_map(|stand| match stand {
        Stand::Behind(lag) => finding(scene, lag, waits),
        Stand::Unbegun(lag) => unbegun(scene, lag, waits),
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
    // A single rank that is ahead of more than one other is the odd one: its call may be one too many. Not where one
    // of those waits elsewhere: then that is why it has not come.
    let many = lag.ahead.len() == 1 && lag.behind.len() > 1;
    let alone = many && lag.behind.is_subset(&waits.roots);
    let roots: BTreeSet<u32> = lag.behind.intersection(&waits.roots).copied().collect();
    let accused = if alone { lag.ahead.clone() } else { roots };
    let last = lag
        .behind
        .iter()
        .find_map(|rank| last_call(scene, group, *rank));
    let mut draft = Draft::new(scene, "RANK001")?;
    let function = first.map(|e| common.call(e.call).function().to_owned());
    let elsewhere = last.filter(|(of, _)| of.name != group.name);
    let last_words =
        last.map(|(_, e)| format!("{}{}", common.call(e.call).words(), at_site(common, e)));
    draft
        .fact("ordinal", lag.seq.to_string())
        .fact("function", function.unwrap_or_default())
        .fact("comm", group.name.clone())
        .fact("last", last_words.unwrap_or_default())
        .fact(
            "elsewhere",
            elsewhere.map_or_else(String::new, |(of, _)| format!("on {}", of.name)),
        )
        .fact("waiting", ranges(lag.ahead.iter().copied()))
        .named(lag.behind.iter().copied())
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
        if let Some((of, entry)) = last_call(scene, group, *rank) {
            cite(scene, &mut draft, of, *rank, entry);
        }
    }
    for rank in lag.ahead.iter().take(CITED) {
        if let Some(entry) = group.members[rank].at(lag.seq).first() {
            cite(scene, &mut draft, group, *rank, entry);
        }
    }
    draft.sites(sites(common, lag, first, last.map(|(_, entry)| entry)));
    Some(draft.finish())
}

/// The last collective of a rank in a group; of one that never called any there, its last call in any group.
fn last_call<'s>(
    scene: &'s Scene<'_>,
    group: &'s GroupRec<'_>,
    rank: u32,
) -> Option<(&'s GroupRec<'s>, &'s Entry)> {
    if let Some(entry) = group.members.get(&rank)?.calls.collectives.last() {
        return Some((group, entry));
    }
    let groups = scene.recorded.groups.iter();
    let calls = groups.filter_map(|of| {
        let calls = of.members.get(&rank)?.calls;
        let last = calls.collectives.iter().chain(&calls.p2p);
        Some((of, last.max_by_key(|e| e.record_id)?))
    });
    calls.max_by_key(|(_, entry)| entry.record_id)
}

/// Ranks whose GPUs have not begun what those of the others stand in.
fn unbegun(scene: &Scene<'_>, lag: &Lag<'_>, waits: &Waits) -> Option<Finding> {
    let common = &scene.job.recorder.common;
    let group = lag.group;
    let ranks = || lag.behind.iter().chain(&lag.ahead);
    let entry = ranks().find_map(|rank| group.members[rank].at(lag.seq).first())?;
    let mut draft = Draft::new(scene, "FR007")?;
    draft
        .fact("call", common.call(entry.call).words())
        .fact("ordinal", lag.seq.to_string())
        .fact("comm", group.name.clone())
        .fact("waiting", ranges(lag.ahead.iter().copied()))
        .named(lag.behind.iter().copied())
        .ranks(ranks().copied())
        .accuse(lag.behind.intersection(&waits.roots).copied());
    if waits.is_symptom(&lag.behind) {
        draft.symptom();
    }
    draft.finding().comm = Some(group.name.clone());
    for side in [&lag.behind, &lag.ahead] {
        for rank in side.iter().take(CITED) {
            if let Some(entry) = group.members[rank].at(lag.seq).first() {
                cite(scene, &mut draft, group, *rank, entry);
            }
        }
    }
    Some(draft.finish())
}

/// `rank 1 last called all_reduce at train.py:39 (main), rank 0 waits in all_reduce at train.py:101 (main)`
fn sites(
    common: &Common,
    lag: &Lag<'_>,
    first: Option<&Entry>,
    last: Option<&Entry>,
) -> Option<String> {
    let part = |ranks: &BTreeSet<u32>, one: &str, many: &str, entry: Option<&Entry>| {
        let entry = entry?;
        let (site, call) = (site(common, entry)?, common.call(entry.call).function());
        let (rank, verb) = if ranks.len() == 1 {
            ("rank", one)
        } else {
            ("ranks", many)
        };
        let who = ranges(ranks.iter().copied());
        Some(format!("{rank} {who} {verb} {call} at {site}"))
    };
    let behind = part(&lag.behind, "last called", "last called", last);
    let ahead = part(&lag.ahead, "waits in", "wait in", first);
    let both: Vec<String> = behind.into_iter().chain(ahead).collect();
    (!both.is_empty()).then(|| both.join(", "))
}

/// Everybody who is waited for waits for somebody: the steps of the circle are one finding, and each by itself is
/// its symptom.
pub(super) fn circle(
    scene: &Scene<'_>,
    stands: &[Stand<'_>],
    pairs: &[Unmatched<'_>],
    found: &mut Vec<Finding>,
) {
    let common = &scene.job.recorder.common;
    let mut steps: Vec<Step> = Vec::new();
    for stand in stands {
        let Stand::Behind(lag) = stand else { continue };
        let entry = lag
            .ahead
            .iter()
            .find_map(|rank| lag.group.members[rank].at(lag.seq).first());
        let call =
            entry.map(|e| format!("{}{}", common.call(e.call).function(), at_site(common, e)));
        let call = format!("{} of {}", call.unwrap_or_default(), lag.group.name);
        steps.push(Step {
            who: lag.ahead.clone(),
            call,
            whom: lag.behind.clone(),
            comm: lag.group.name.clone(),
        });
    }
    for pair in pairs {
        let entry = pair.entry;
        let call = format!(
            "{}{}",
            common.call(entry.call).function(),
            at_site(common, entry)
        );
        steps.push(Step {
            who: BTreeSet::from([pair.waits]),
            call,
            whom: BTreeSet::from([pair.peer]),
            comm: pair.group.name.clone(),
        });
    }
    let circle = circle::close(scene, steps, found, &["RANK001", "FR002"]);
    found.extend(circle.map(Draft::finish));
}
