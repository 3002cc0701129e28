//! One matter, one finding: what the logs and another witness found about the same thing becomes one.

use std::collections::BTreeSet;

use super::draft::rank_names;
use super::{Draft, Scene};
use crate::engine::finding::{Divergence, Finding};
use crate::engine::limits;
use crate::engine::vocab::{Class, Role};
use crate::engine::witness::Witness;

/// Adds the findings of another witness to those of the logs. The one that names the guilty leads, else the surer
/// one, else the logs'; the other's evidence goes into it. Where both name somebody and not the same, both stay and
/// a note says so.
pub(super) fn join(scene: &Scene<'_>, found: &mut Vec<Finding>, others: Vec<Finding>) {
    let mut disagree = Vec::new();
    for other in others {
        let open = |f: &Finding| f.role != Role::Note;
        let partner = found
            .iter()
            .position(|f| open(f) && f.witnesses != other.witnesses && same_matter(f, &other));
        match partner {
            Some(at) => {
                let known = found.remove(at);
                found.insert(at, merge(known, other));
            }
            _ => {
                let against = found.iter().position(|f| {
                    let apart = f.witnesses.is_disjoint(&other.witnesses);
                    apart && open(f) && open(&other) && contradicts(f, &other)
                });
                if let Some(at) = against {
                    disagree.extend(contradiction(scene, &found[at], &other));
                    // What a dump says of calls is more than a number of launches.
                    if found[at].witnesses.first() == Some(&Witness::Ras) {
                        found.remove(at);
                    }
                }
                found.push(other);
            }
        }
    }
    found.extend(disagree);
}

/// The same class, and the same ranks accused; or one accuses nobody, and both are about the same ranks.
fn same_matter(a: &Finding, b: &Finding) -> bool {
    // Who left no dump is who ended, or never came.
    let gone = |f: &Finding| f.id == "FR001" && !f.accused.is_empty();
    if gone(a) || gone(b) {
        let ends = |f: &Finding| {
            gone(f)
                || matches!(
                    f.class,
                    Class::RankDied | Class::UserCode | Class::MissingRank
                )
        };
        return ends(a) && ends(b) && a.accused == b.accused;
    }
    if a.class != b.class || a.class == Class::Inconclusive {
        return false;
    }
    let meet = !a.ranks.is_disjoint(&b.ranks) || a.ranks.is_empty() || b.ranks.is_empty();
    let accused = if a.accused.is_empty() || b.accused.is_empty() {
        let about = |f: &Finding| {
            f.ranks
                .union(&f.accused)
                .copied()
                .collect::<BTreeSet<u32>>()
        };
        let (a, b) = (about(a), about(b));
        a.is_subset(&b) || b.is_subset(&a)
    } else {
        a.accused == b.accused
    };
    meet && accused
}

/// They name others for the same standstill: the same class, or who is missing by one calls something else by the
/// other.
fn contradicts(a: &Finding, b: &Finding) -> bool {
    let calls = |f: &Finding| matches!(f.class, Class::MissingRank | Class::MismatchedCollective);
    let same = a.class == b.class && a.ranks == b.ranks;
    let causes = a.role == Role::Cause && b.role == Role::Cause;
    let other_class = causes && calls(a) && calls(b) && !a.ranks.is_disjoint(&b.ranks);
    (same || other_class) && name_others(a, b)
}

/// Both name somebody, and nobody is named by both.
pub(super) fn name_others(a: &Finding, b: &Finding) -> bool {
    !a.accused.is_empty() && !b.accused.is_empty() && a.accused.is_disjoint(&b.accused)
}

fn merge(known: Finding, other: Finding) -> Finding {
    let leads = match (known.accused.is_empty(), other.accused.is_empty()) {
        (true, false) => other.role != Role::Note,
        (false, true) => false,
        _ => other.confidence > known.confidence && other.role != Role::Note,
    };
    let pointing = known.accusers_with(&other);
    let (mut lead, second) = if leads {
        (other, known)
    } else {
        (known, other)
    };
    if second.role == Role::Cause && lead.role == Role::Symptom && lead.id == second.id {
        lead.role = Role::Cause;
    }
    lead.calls = one_table(
        lead.calls,
        second.calls,
        lead.witnesses.contains(&Witness::Log),
    );
    if lead.id != second.id && second.id != "FR001" {
        lead.explains.push(second.id.clone());
    }
    lead.explains.extend(second.explains);
    lead.ranks.extend(second.ranks);
    lead.hosts.extend(second.hosts);
    lead.witnesses.extend(second.witnesses);
    lead.pointing = pointing;
    lead.confidence = lead.confidence.max(second.confidence);
    lead.sites = lead.sites.or(second.sites);
    // The dumps that were asked for are here.
    lead.missing
        .retain(|text| !text.contains("TORCH_FR_BUFFER_SIZE"));
    lead.more_evidence += second.more_evidence;
    let mut evidence = Vec::new();
    let (mut a, mut b) = (lead.evidence.into_iter(), second.evidence.into_iter());
    // Two of the leading witness and one of the other fit a short report.
    evidence.extend(a.by_ref().take(1));
    evidence.extend(b.by_ref().take(1));
    evidence.extend(a.by_ref().take(1));
    loop {
        let (next, of_other) = (a.next(), b.next());
        if next.is_none() && of_other.is_none() {
            break;
        }
        evidence.extend(next.into_iter().chain(of_other));
    }
    let kept = evidence.len().min(limits::EVIDENCE_PER_FINDING);
    lead.more_evidence += (evidence.len() - kept) as u64;
    evidence.truncate(kept);
    lead.evidence = evidence;
    lead
}

/// Who called what, of two witnesses: the logs know reduction and root, the dumps the place in the program.
fn one_table(
    lead: Option<Divergence>,
    second: Option<Divergence>,
    leads_log: bool,
) -> Option<Divergence> {
    let (logs, dumps) = if leads_log {
        (lead, second)
    } else {
        (second, lead)
    };
    let (Some(mut table), Some(dumps)) = (logs.clone(), &dumps) else {
        return logs.or(dumps);
    };
    for side in table.sides.iter_mut().filter(|s| s.frames.is_empty()) {
        let same = dumps.sides.iter().find(|other| other.ranks == side.ranks);
        side.frames = same.map(|other| other.frames.clone()).unwrap_or_default();
    }
    Some(table)
}

/// A note with both sides.
pub(super) fn contradiction(scene: &Scene<'_>, log: &Finding, other: &Finding) -> Option<Finding> {
    let mut draft = Draft::new(scene, "FR005")?;
    draft
        .fact("one", says(log))
        .fact("other", says(other))
        .ranks(log.accused.iter().chain(&other.accused).copied());
    draft.finding().comm.clone_from(&other.comm);
    let evidence = log
        .evidence
        .iter()
        .take(3)
        .chain(other.evidence.iter().take(3));
    draft.finding().evidence = evidence.cloned().collect();
    draft.finding().witnesses = log.witnesses.union(&other.witnesses).copied().collect();
    Some(draft.build())
}

/// Whom a finding's witnesses point at, with its rule.
pub(super) fn says(f: &Finding) -> String {
    let accusers = f.accusers();
    let name = |who: &Witness| match who {
        Witness::Ras => "NCCL RAS",
        Witness::Dump => "the dumps",
        Witness::Log | Witness::Gpu | Witness::Process => "the logs",
    };
    let mut names: Vec<&str> = accusers.iter().map(name).collect();
    names.dedup();
    let verb = match accusers.first() {
        Some(Witness::Ras) => "points at",
        _ => "point at",
    };
    let (accused, id) = (rank_names(&f.accused), &f.id);
    format!("{} {verb} {accused} ({id})", names.join(" and "))
}
