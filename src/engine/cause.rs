//! From findings to one answer: what explains what, the state, and who is guilty.
//!
//! The four tables of ARCHITECTURE.md ("How a verdict is reached") are this file and nothing else.

mod guilt;
mod repeat;
mod state;
mod summary;

use super::detect::{Scene, logs, wait};
use super::finding::Finding;
use super::snapshot::Verdict;
use super::vocab::{Class, Confidence, Effect, Role, Severity, State};

/// Orders the findings and draws the verdict from them.
#[must_use]
pub fn judge(scene: &Scene<'_>, mut findings: Vec<Finding>) -> (Verdict, Vec<Finding>) {
    findings.retain(|finding| !wait::is_merely_late(scene, finding));
    ended_from_outside(scene, &mut findings);
    fold(&mut findings);
    // A refusal that something else explains says nothing of its own.
    findings.retain(|f| f.class != Class::NetworkUnreachable || f.role != Role::Symptom);
    let main = main_cause(&findings).map(|at| repeat::fold(scene, &mut findings, at));
    let unseen = logs::unseen(scene);
    let state = state::of(scene, main.map(|at| &findings[at]), &findings, &unseen);
    if state == State::Waiting {
        soften(&mut findings);
    }
    let verdict = verdict(
        scene,
        main.map(|at| &findings[at]),
        state,
        &findings,
        &unseen,
    );
    order(&mut findings, main, verdict)
}

/// A job that is ended from outside while it works leaves its ranks at different calls; one that stood still before was
/// ended because of that.
fn ended_from_outside(scene: &Scene<'_>, findings: &mut [Finding]) {
    let stopped = |f: &Finding| f.class == Class::Stopped && f.role == Role::Cause;
    if !findings.iter().any(stopped) {
        return;
    }
    let waits = |f: &Finding| f.class == Class::MissingRank && f.role == Role::Cause;
    if !wait::stands_still(scene) {
        for finding in findings.iter_mut().filter(|f| waits(f)) {
            finding.role = Role::Note;
            finding.severity = Severity::Info;
            finding.confidence = Confidence::Possible;
        }
        return;
    }
    let known = |f: &Finding| {
        let unlike = f.class == Class::MismatchedCollective && f.role == Role::Cause;
        (unlike || waits(f)) && f.effect != Effect::None && f.confidence > Confidence::Possible
    };
    if let Some(cause) = findings.iter().position(known) {
        for at in 0..findings.len() {
            if stopped(&findings[at]) {
                findings[at].role = Role::Symptom;
                let id = findings[at].id.clone();
                findings[cause].explains.push(id);
            }
        }
    }
}

/// Turns causes that another finding explains into its symptoms.
fn fold(findings: &mut [Finding]) {
    for at in 0..findings.len() {
        if findings[at].role != Role::Cause {
            continue;
        }
        let mut explained_by: Vec<usize> = (0..findings.len())
            .filter(|by| {
                *by != at
                    && findings[*by].role == Role::Cause
                    && explains(&findings[*by], &findings[at])
            })
            .collect();
        // Two that explain each other stay as they are; the order decides between them.
        explained_by.retain(|by| {
            !explains(&findings[at], &findings[*by])
                || rank_of(&findings[*by]) < rank_of(&findings[at])
        });
        if let Some(by) = explained_by.first().copied() {
            findings[at].role = Role::Symptom;
            let id = findings[at].id.clone();
            findings[by].explains.push(id);
        }
    }
}

/// True if `a` accounts for `b`: its rank is the one that `b` waits for, or `b` is how `a` surfaced.
fn explains(a: &Finding, b: &Finding) -> bool {
    if a.severity < b.severity || a.id == b.id {
        return false;
    }
    let stops = matches!(a.effect, Effect::Fatal | Effect::Died);
    let on_same = !b.accused.is_empty() && b.accused.is_subset(&a.ranks);
    match b.class {
        // Whoever others wait for ended, or failed before it came.
        Class::MissingRank => {
            let everyone = b.accused.is_empty() && stops && a.class != Class::RankDied;
            let differ = matches!(a.class, Class::EnvMismatch | Class::VersionMismatch)
                || (a.class == Class::Launcher && a.effect != Effect::None);
            let held = a.name == "process-held" && b.name != a.name && on_same;
            held || (stops && on_same) || everyone || differ || differs_first(a, b) || cut_off(a, b)
        }
        // An exception is how an error of a better known kind surfaced.
        Class::VersionMismatch => {
            a.class == Class::EnvMismatch || (a.name == "version-differs" && b.name != a.name)
        }
        Class::RankDied => {
            // A launch that was refused ends all its processes.
            let refused = a.class == Class::Launcher && stops && b.name == "rank-died";
            let surfaced = stops && a.class != Class::RankDied && (on_same || a.ranks.is_empty());
            surfaced
                || refused
                || a.class == Class::Stopped
                || matches!(
                    a.class,
                    Class::MismatchedCollective | Class::EnvMismatch | Class::VersionMismatch
                )
                || (a.class == Class::MissingRank
                    && a.accused.is_disjoint(&b.accused)
                    && a.confidence >= b.confidence)
        }
        Class::Gloo | Class::Rendezvous => {
            a.class == Class::WrongInterface
                || (a.class == Class::RankDied && !a.accused.is_empty())
                || (a.class == Class::Launcher && stops)
                || (a.name == "master-name-unresolved" && b.name == "store-unreachable")
        }
        Class::NetworkUnreachable => {
            let refused = b.confidence == Confidence::Possible;
            let others = matches!(
                a.class,
                Class::MismatchedCollective | Class::MissingRank | Class::Launcher
            );
            matches!(a.class, Class::RankDied | Class::WrongInterface) || (refused && others)
        }
        Class::MismatchedCollective => false,
        _ => a.class == Class::Stopped,
    }
}

/// A mismatch on the same communicator comes before whatever its ranks did not call after it, unless all got on
/// behind it. Among other ranks altogether it is another fault.
fn differs_first(a: &Finding, b: &Finding) -> bool {
    let holds = a.class == Class::MismatchedCollective && a.effect != Effect::None;
    let apart = !a.ranks.is_empty() && !b.accused.is_empty() && a.ranks.is_disjoint(&b.ranks);
    holds && (a.comm == b.comm || (a.phase <= b.phase && !apart))
}

/// Nobody comes who cannot be reached.
fn cut_off(a: &Finding, b: &Finding) -> bool {
    let network = matches!(
        a.class,
        Class::WrongInterface | Class::NetworkUnreachable | Class::VersionMismatch
    );
    network
        && a.effect != Effect::None
        && a.phase <= b.phase
        && (b.accused.is_empty() || !b.accused.is_disjoint(&a.ranks))
}

/// Smaller is the likelier cause: errors before degradations, what ended a rank before what only
/// waits, earlier phases, then the more certain one.
fn rank_of(
    f: &Finding,
) -> (
    std::cmp::Reverse<Severity>,
    u8,
    super::vocab::Phase,
    std::cmp::Reverse<Confidence>,
    String,
) {
    let effect = match f.effect {
        Effect::Fatal => 0,
        Effect::Died => 1,
        Effect::Standstill => 2,
        Effect::Degraded => 3,
        Effect::None => 4,
    };
    (
        std::cmp::Reverse(f.severity),
        effect,
        f.phase,
        std::cmp::Reverse(f.confidence),
        f.id.clone(),
    )
}

fn main_cause(findings: &[Finding]) -> Option<usize> {
    let causes = (0..findings.len()).filter(|at| findings[*at].role == Role::Cause);
    causes.min_by_key(|at| rank_of(&findings[*at]))
}

/// Waiting is no fault yet: what is only late is a note, and so is whatever follows from it.
fn soften(findings: &mut [Finding]) {
    for finding in findings.iter_mut() {
        let late = finding.class == Class::MissingRank;
        if late || (finding.role == Role::Cause && finding.class != Class::MismatchedCollective) {
            finding.role = Role::Note;
            finding.severity = Severity::Info;
            finding.confidence = Confidence::Possible;
        }
    }
}

fn verdict(
    scene: &Scene<'_>,
    main: Option<&Finding>,
    state: State,
    findings: &[Finding],
    unseen: &[u32],
) -> Verdict {
    let class = match main {
        Some(finding) => finding.class,
        None => state::class_without_cause(scene, state, findings, unseen),
    };
    let (ranks, hosts) = main.map(|f| guilt::of(scene, f)).unwrap_or_default();
    let mut missing = main.map(|f| f.missing.clone()).unwrap_or_default();
    let asked = missing.iter().any(|what| what.starts_with("the log"));
    if !unseen.is_empty() && !asked && main.is_none_or(|f| f.confidence < Confidence::Certain) {
        missing.insert(0, logs::logs_of(unseen.iter().copied()));
    }
    if main.is_none() {
        missing.extend(summary::switch_on(scene, state));
    }
    let certain = matches!(state, State::Healthy | State::Completed);
    let alone = if certain {
        Confidence::Certain
    } else {
        Confidence::Possible
    };
    let confidence = main.map_or(alone, |f| f.confidence);
    // One kind of fault twice is another cause where it is other ranks'.
    let others = findings.iter().filter(|f| {
        let another = |m: &Finding| {
            let elsewhere = !f.accused.is_empty() && f.ranks.is_disjoint(&m.ranks);
            m.id != f.id || elsewhere
        };
        f.role == Role::Cause && main.is_some_and(another)
    });
    let mut other_causes: Vec<String> = others.map(|f| f.id.clone()).collect();
    other_causes.sort();
    other_causes.dedup();
    Verdict {
        state,
        class,
        summary: main.map_or_else(
            || summary::without_cause(scene, state, findings, unseen),
            |f| f.title.clone(),
        ),
        confidence: if state == State::Waiting {
            Confidence::Possible
        } else {
            confidence
        },
        ranks: ranks.into_iter().collect(),
        hosts: hosts.into_iter().collect(),
        other_causes,
        missing_evidence: missing,
        finding: None,
    }
}

/// Causes, symptoms, notes; the verdict's own finding first.
fn order(
    findings: &mut Vec<Finding>,
    main: Option<usize>,
    mut verdict: Verdict,
) -> (Verdict, Vec<Finding>) {
    let mut sorted: Vec<(bool, Finding)> = std::mem::take(findings)
        .into_iter()
        .enumerate()
        .map(|(at, f)| (Some(at) != main, f))
        .collect();
    sorted.sort_by_key(|(not_main, f)| (*not_main, f.role, rank_of(f)));
    verdict.finding = main.map(|_| 0);
    (verdict, sorted.into_iter().map(|(_, f)| f).collect())
}
