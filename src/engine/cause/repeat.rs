//! Findings that only say again what the cause has said.

use std::collections::BTreeSet;

use crate::engine::detect::Scene;
use crate::engine::finding::{Evidence, Finding, Fix};
use crate::engine::limits;
use crate::engine::vocab::{Class, Effect, Role};

/// Takes out of the findings those that repeat the one at `main`; returns where it is then.
pub(super) fn fold(scene: &Scene<'_>, findings: &mut Vec<Finding>, main: usize) -> usize {
    let cause = findings[main].clone();
    let pids = pids(scene, &cause);
    let mut taken: Vec<Evidence> = Vec::new();
    let mut better: Vec<Fix> = Vec::new();
    let mut at = 0;
    let mut now_at = main;
    findings.retain(|f| {
        let here = at;
        at += 1;
        if here == main {
            return true;
        }
        let report = is_report(f) && names_any(f, &pids);
        let again = report || (f.role == Role::Symptom && says_again(&cause, f));
        if again && here < main {
            now_at -= 1;
        }
        if report {
            taken.extend(f.evidence.iter().cloned());
        } else if again && cause.name == "python-exception" {
            // A rule that knows this very exception knows what to do about it.
            better.extend(f.fixes.iter().cloned());
        }
        !again
    });
    let cause = &mut findings[now_at];
    cause.fixes.splice(0..0, better);
    for line in taken {
        let known = cause.evidence.iter().any(|e| same_place(e, &line));
        if !known && cause.evidence.len() < limits::EVIDENCE_PER_FINDING {
            cause.evidence.push(line);
        }
    }
    now_at
}

/// The same line, or the same part of one: an answer in JSON is a single line.
fn same_place(a: &Evidence, b: &Evidence) -> bool {
    (a.source, a.line, a.entry, &a.text) == (b.source, b.line, b.entry, &b.text)
}

/// It rests on lines of the cause alone, or is the exception that the cause surfaced in.
fn says_again(cause: &Finding, f: &Finding) -> bool {
    let of_cause = |e: &Evidence| cause.evidence.iter().any(|c| same_place(c, e));
    if !f.evidence.is_empty() && f.more_evidence == 0 && f.evidence.iter().all(of_cause) {
        return true;
    }
    let stops = cause.effect == Effect::Fatal && cause.class != Class::MismatchedCollective;
    let alike = f.ranks.is_subset(&cause.ranks) && (f.ranks.is_empty() == cause.ranks.is_empty());
    f.name == "python-exception" && cause.class != Class::RankDied && stops && alike
}

/// torchrun's line about a process that failed.
fn is_report(f: &Finding) -> bool {
    f.name.starts_with("elastic-") && f.evidence.len() == 1
}

fn names_any(f: &Finding, pids: &BTreeSet<u32>) -> bool {
    f.evidence.iter().all(|e| {
        let pid = e.text.split("(pid: ").nth(1);
        let digits = pid.and_then(|rest| rest.split(')').next());
        digits
            .and_then(|d| d.parse().ok())
            .is_some_and(|pid: u32| pids.contains(&pid))
    })
}

/// Processes of the ranks that the cause says ended.
fn pids(scene: &Scene<'_>, cause: &Finding) -> BTreeSet<u32> {
    if cause.class != Class::RankDied {
        return BTreeSet::new();
    }
    let ranks = scene.ranks.ranks.iter();
    ranks
        .filter(|rec| cause.accused.contains(&rec.rank))
        .flat_map(|rec| [rec.pid, scene.reported_pid(rec.rank)])
        .flatten()
        .collect()
}
