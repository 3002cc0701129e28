//! Ranks that wait for each other in a circle: the calls of several communicators in different orders.

use std::collections::BTreeSet;

use super::draft::rank_names;
use super::{Draft, Scene};
use crate::engine::finding::Finding;
use crate::engine::vocab::Role;

/// Steps that a finding tells.
const CITED: usize = 6;
/// Evidence lines taken of one step.
const LINES: usize = 2;

/// Some ranks wait in a call for others. World ranks.
pub(super) struct Step {
    /// Who waits.
    pub(super) who: BTreeSet<u32>,
    /// In what: `AllReduce number 3 on communicator 0x…`.
    pub(super) call: String,
    /// For whom.
    pub(super) whom: BTreeSet<u32>,
    /// The communicator, as findings name it.
    pub(super) comm: String,
}

impl Step {
    /// The finding is about this step.
    fn is_told_by(&self, finding: &Finding) -> bool {
        let same = finding.comm.as_deref() == Some(self.comm.as_str());
        let mut ranks = self.who.iter().chain(&self.whom);
        same && ranks.all(|rank| finding.ranks.contains(rank))
    }
}

/// The finding about a circle, and those of `found` (of these rules) as its symptoms; `None` if the steps do not
/// close. It cites those about its own steps. Where everybody who is waited for waits, somebody on each step's far
/// side is on the circle; steps that nobody waits for only lead to it.
pub(super) fn close<'a>(
    scene: &'a Scene<'a>,
    mut steps: Vec<Step>,
    found: &mut [Finding],
    rules: &[&str],
) -> Option<Draft<'a>> {
    loop {
        let all = steps.len();
        let waited: BTreeSet<u32> = steps.iter().flat_map(|s| &s.whom).copied().collect();
        steps.retain(|step| !step.who.is_disjoint(&waited));
        if steps.len() == all {
            break;
        }
    }
    let waits: BTreeSet<u32> = steps.iter().flat_map(|s| &s.who).copied().collect();
    if steps.len() < 2 || steps.iter().any(|step| step.whom.is_disjoint(&waits)) {
        return None;
    }
    let mut draft = Draft::new(scene, "COLL010")?;
    let words: Vec<String> = steps
        .iter()
        .take(CITED)
        .map(|s| {
            format!(
                "{} in {} for {}",
                rank_names(&s.who),
                s.call,
                rank_names(&s.whom)
            )
        })
        .collect();
    draft
        .fact("steps", words.join("; "))
        .ranks(waits.iter().copied())
        .named(waits.iter().copied());
    for step in found.iter_mut().filter(|f| rules.contains(&f.id.as_str())) {
        step.role = Role::Symptom;
        let finding = draft.finding();
        if !finding.explains.contains(&step.id) {
            finding.explains.push(step.id.clone());
        }
        if !steps.iter().any(|on| on.is_told_by(step)) {
            continue;
        }
        finding
            .evidence
            .extend(step.evidence.iter().take(LINES).cloned());
        finding.witnesses.clone_from(&step.witnesses);
    }
    Some(draft)
}
