//! What the operating system shows of the ranks' processes: stopped, held by a debugger, stuck in the
//! kernel. Those that ended are [`super::died`]'s.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Draft, Scene, wait};
use crate::engine::finding::Finding;
use crate::engine::input::ProcessState;
use crate::engine::job::{Kept, ProcessSeen, RankRec};
use crate::engine::witness::Witness;

/// Adds what the processes show.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let mut by_state: BTreeMap<&str, (Vec<u32>, ProcessState)> = BTreeMap::new();
    for (rank, seen) in held(scene) {
        let how = if seen.state == ProcessState::Traced {
            "held by a debugger"
        } else {
            "stopped by a signal"
        };
        by_state
            .entry(how)
            .or_insert((Vec::new(), seen.state))
            .0
            .push(rank);
    }
    for (how, (ranks, _)) in by_state {
        found.extend(finding(scene, "PROC001", how, &ranks));
    }
    let stuck: Vec<u32> = lasting(scene, "PROC002", |seen| {
        seen.state == ProcessState::Uninterruptible
    })
    .map(|(rank, _)| rank)
    .collect();
    if !stuck.is_empty() {
        found.extend(finding(scene, "PROC002", "waits in the kernel", &stuck));
    }
}

/// Ranks whose process has been stopped or held for longer than a debugger's short look.
pub(super) fn held<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = (u32, &'a ProcessSeen)> + 'a {
    lasting(scene, "PROC001", ProcessSeen::is_held)
}

/// The last line of a rank that is held: it proves that the job stands still.
pub(super) fn standstill<'a>(scene: &Scene<'a>) -> Option<&'a Kept> {
    let (rank, _) = held(scene).next()?;
    last_line(scene, scene.ranks.ranks.get(rank as usize)?)
}

fn last_line<'a>(scene: &Scene<'a>, rec: &RankRec) -> Option<&'a Kept> {
    let last = scene.records(rec).filter_map(|r| r.last.as_ref());
    last.max_by_key(|line| line.place)
}

/// Ranks that have not ended and whose process is in a state for longer than a rule's patience.
fn lasting<'a>(
    scene: &'a Scene<'_>,
    rule: &str,
    wanted: impl Fn(&ProcessSeen) -> bool + 'a,
) -> impl Iterator<Item = (u32, &'a ProcessSeen)> + 'a {
    let rule = scene.catalog.by_id(rule);
    let patience = rule.and_then(|rule| scene.catalog.rule(rule).threshold("state_s"));
    let patience = Duration::from_secs_f64(patience.unwrap_or(10.0).clamp(0.0, 1e6));
    scene.ranks.ranks.iter().filter_map(move |rec| {
        let seen = scene.job.processes.get(rec.host.as_deref()?, rec.pid?)?;
        // Where nobody watches, whoever looked says that it was so.
        let long = seen.lasts(scene.now).is_none_or(|lasts| lasts >= patience);
        let open = wait::end_of(scene, rec) == wait::End::Unknown;
        (wanted(seen) && long && open).then_some((rec.rank, seen))
    })
}

fn finding(scene: &Scene<'_>, rule: &str, how: &str, ranks: &[u32]) -> Option<Finding> {
    let mut draft = Draft::new(scene, rule)?;
    let recs = ranks
        .iter()
        .filter_map(|rank| scene.ranks.ranks.get(*rank as usize));
    let recs: Vec<&RankRec> = recs.collect();
    let pids: Vec<String> = recs
        .iter()
        .filter_map(|rec| rec.pid.map(|pid| pid.to_string()))
        .collect();
    let hosts: BTreeSet<&str> = recs.iter().filter_map(|rec| rec.host.as_deref()).collect();
    draft
        .fact("how", how)
        .fact("pids", pids.join(" "))
        .fact("host", hosts.into_iter().collect::<Vec<_>>().join(", "))
        .ranks(ranks.iter().copied())
        .accuse(ranks.iter().copied());
    for rec in &recs {
        if let Some(line) = last_line(scene, rec) {
            draft.evidence(line, Some(rec.rank));
        }
    }
    draft.finding().witnesses = BTreeSet::from([Witness::Process]);
    Some(draft.build())
}
