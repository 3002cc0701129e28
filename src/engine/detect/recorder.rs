//! What Flight Recorder dumps show: ranks that called different things, ranks that never came, sends without a recv.
//!
//! The dumps are compared by group and by the number of the call in it, never by their place in the ring. A rank that
//! is behind in one group because it waits in another is a symptom: the wait is followed to a rank that waits for
//! nobody. That some ranks are through a call and others not yet is how a running job looks, and no fault.

mod behind;
mod calls;
mod notes;
mod p2p;
mod stand;

use std::collections::BTreeSet;

use super::{Draft, Scene, wait};
use crate::engine::dump::{Common, Entry};
use crate::engine::finding::Finding;
use crate::engine::vocab::Role;
use crate::engine::witness::recorder::GroupRec;

use stand::Stand;

/// Groups that are reported at most, of each kind.
const MOST_GROUPS: usize = 8;

/// Findings of the dumps alone. `explained` is true if the logs have found a cause by themselves.
pub(super) fn detect(scene: &Scene<'_>, explained: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let recorder = &scene.job.recorder;
    if recorder.is_empty() {
        return found;
    }
    notes::unusable(scene, &mut found);
    if notes::of_another_job(scene, &mut found) {
        return found;
    }
    let groups = &scene.recorded.groups;
    let still = wait::stands_still(scene);
    let mut stands: Vec<Stand<'_>> = groups
        .iter()
        .flat_map(|group| Stand::of(&recorder.common, group, still))
        .collect();
    let lanes = p2p::Lanes::of(&recorder.common, groups);
    stand::settle(&mut stands, groups, lanes.any_stands());
    let pairs = &lanes.unmatched;
    let waits = Waits::of(&stands, &lanes);
    let differing = stands.iter().filter_map(|s| calls::finding(scene, s));
    found.extend(differing.take(MOST_GROUPS));
    found.extend(behind::findings(scene, &stands, &waits));
    found.extend(p2p::findings(scene, pairs, &waits));
    if waits.no_root && waits.held.is_empty() && !found.iter().any(|f| f.id == "COLL007") {
        behind::circle(scene, &stands, pairs, &mut found);
    }
    let cause = found.iter().any(|f| f.role == Role::Cause);
    found.extend(notes::without_dump(
        scene,
        &stands,
        &lanes,
        &waits,
        explained || cause,
    ));
    if !cause && !explained {
        let stalled = notes::all_in(scene, &stands);
        let stalled = stalled.or_else(|| p2p::stalled(scene, &lanes));
        let named = found.iter().any(|f| f.role == Role::Cause);
        let unknown = || notes::unknown(scene, &stands, &lanes).filter(|_| !named);
        found.extend(stalled.or_else(unknown));
    }
    found
}

/// Who waits, and for whom.
struct Waits {
    /// Ranks that stand in a call that everybody made, or in one that is not the same everywhere: held by neither
    /// themselves nor an absent one.
    held: BTreeSet<u32>,
    /// Ranks that are waited for and wait for nobody.
    roots: BTreeSet<u32>,
    /// Everybody who is waited for waits: in a circle, or for what holds others.
    no_root: bool,
    /// Ranks whose standing follows from a root or from what holds somebody, over any number of steps.
    led: BTreeSet<u32>,
}

impl Waits {
    fn of(stands: &[Stand<'_>], lanes: &p2p::Lanes<'_>) -> Self {
        let mut held = lanes.held();
        // Who waits for whom.
        let mut steps: Vec<(BTreeSet<u32>, BTreeSet<u32>)> = Vec::new();
        for stand in stands {
            match stand {
                Stand::Behind(lag) | Stand::Unbegun(lag) => {
                    steps.push((lag.ahead.clone(), lag.behind.clone()));
                }
                Stand::AllIn(inside) if inside.unknown.is_empty() => {
                    held.extend(inside.ranks.iter().copied());
                }
                Stand::AllIn(inside) => {
                    steps.push((inside.ranks.clone(), inside.unknown.clone()));
                }
                Stand::Differs(split) => held.extend(split.stuck.iter().copied()),
                Stand::Quiet => {}
            }
        }
        let pairs = lanes.unmatched.iter().chain(&lanes.absent);
        steps.extend(pairs.map(|p| (BTreeSet::from([p.waits]), BTreeSet::from([p.peer]))));
        let waiting: BTreeSet<u32> = steps.iter().flat_map(|step| &step.0).copied().collect();
        let wanted: BTreeSet<u32> = steps.iter().flat_map(|step| &step.1).copied().collect();
        let stands_somewhere = |rank: &u32| waiting.contains(rank) || held.contains(rank);
        let roots: BTreeSet<u32> = wanted
            .iter()
            .copied()
            .filter(|r| !stands_somewhere(r))
            .collect();
        let no_root = !wanted.is_empty() && roots.is_empty();
        let mut led: BTreeSet<u32> = roots.union(&held).copied().collect();
        // Each step is taken once at most, when somebody it leads to is known.
        let mut open: Vec<_> = steps.iter().collect();
        loop {
            let known = open.len();
            open.retain(|(waits, wanted)| {
                let leads = wanted.iter().any(|rank| led.contains(rank));
                if leads {
                    led.extend(waits.iter().copied());
                }
                !leads
            });
            if open.len() == known {
                break;
            }
        }
        Self {
            held,
            roots,
            no_root,
            led,
        }
    }

    /// What is found about these ranks follows from something else.
    fn is_symptom(&self, wanted: &BTreeSet<u32>) -> bool {
        let own = wanted.iter().any(|rank| self.roots.contains(rank));
        !own && wanted.iter().any(|rank| self.led.contains(rank))
    }
}

/// Where a call stands in the program: `train.py:212 (main)`; `None` if no stack was recorded.
fn site(common: &Common, entry: &Entry) -> Option<String> {
    let frames = common.site(entry.stack?);
    frames.first().map(|frame| frame.short())
}

/// ` at train.py:212 (main)`, or nothing.
fn at_site(common: &Common, entry: &Entry) -> String {
    site(common, entry).map_or_else(String::new, |site| format!(" at {site}"))
}

/// An entry as a line of evidence: the call, its number, how far it got, and the program's frames.
fn in_words(common: &Common, group: &GroupRec<'_>, entry: &Entry) -> String {
    /// Frames shown.
    const FRAMES: usize = 4;
    let call = common.call(entry.call);
    let number = if entry.is_p2p {
        format!("point-to-point {}", entry.p2p_seq)
    } else {
        format!("call {}", entry.seq)
    };
    // Gloo's entries are called scheduled whatever became of them.
    let progress = match (group.tells_completion(), entry.retired) {
        (true, _) => entry.progress.name(),
        (false, true) => "over",
        (false, false) => "not over",
    };
    let mut text = format!("{}, {number} of {}: {progress}", call.words(), group.name);
    let frames = entry
        .stack
        .map(|stack| common.site(stack))
        .unwrap_or_default();
    for (at, frame) in frames.iter().take(FRAMES).enumerate() {
        let joint = if at == 0 { "; at" } else { ", from" };
        text.push_str(&format!(
            "{joint} {}:{} ({})",
            frame.file, frame.line, frame.name
        ));
    }
    text
}

/// Adds an entry as evidence.
fn cite(scene: &Scene<'_>, draft: &mut Draft<'_>, group: &GroupRec<'_>, rank: u32, entry: &Entry) {
    if let Some(part) = group.members.get(&rank) {
        let text = in_words(&scene.job.recorder.common, group, entry);
        draft.entry(part.source, entry.record_id, rank, text);
    }
}
