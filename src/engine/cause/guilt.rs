//! Who is guilty, by class.

use std::collections::BTreeSet;

use crate::engine::detect::Scene;
use crate::engine::finding::Finding;
use crate::engine::vocab::Class;

/// The guilty ranks and hosts of the verdict's finding.
pub(super) fn of(scene: &Scene<'_>, finding: &Finding) -> (BTreeSet<u32>, BTreeSet<String>) {
    let none = BTreeSet::new;
    let accused = finding.accused.clone();
    let seen: BTreeSet<u32> = scene
        .ranks
        .ranks
        .iter()
        .filter(|r| r.was_seen())
        .map(|r| r.rank)
        .collect();
    let all = !accused.is_empty() && seen.is_subset(&accused);
    match finding.class {
        Class::Healthy | Class::Inconclusive | Class::Stopped => (BTreeSet::new(), none()),
        // Those absent, the minority, the first to end: the detector points at exactly them.
        Class::MissingRank | Class::MismatchedCollective => (accused, none()),
        Class::RankDied | Class::UserCode => {
            let everyone = all && seen.len() > 1;
            (if everyone { BTreeSet::new() } else { accused }, none())
        }
        // Those unlike the majority or cut off, and their hosts where the host's setting is at fault.
        Class::WrongInterface | Class::NetworkUnreachable | Class::Rendezvous => {
            if all || !anyone_else_came_further(scene, finding) {
                (BTreeSet::new(), none())
            } else {
                (accused, finding.accused_hosts.clone())
            }
        }
        // The minority.
        Class::EnvMismatch | Class::VersionMismatch | Class::Launcher => {
            // One that sets what the others leave at their default is named even if it is one of two.
            let minority = accused.len() * 2 < scene.ranks.ranks.len().max(seen.len());
            if minority || finding.class == Class::EnvMismatch {
                (accused, finding.accused_hosts.clone())
            } else {
                (BTreeSet::new(), none())
            }
        }
        // Those that show it, if not all do.
        _ => {
            if all {
                return (BTreeSet::new(), none());
            }
            let hosts = scene.whole_hosts(&accused);
            let every = hosts.len() == scene.hosts().len();
            (accused, if every { none() } else { hosts })
        }
    }
}

/// True if a rank that is not accused chose its network: only then are the accused unlike the others.
/// The rank that makes the communicator's id fails first, and the others never get so far.
fn anyone_else_came_further(scene: &Scene<'_>, finding: &Finding) -> bool {
    if finding.class != Class::WrongInterface {
        return true;
    }
    let mut others = scene
        .ranks
        .ranks
        .iter()
        .filter(|r| !finding.accused.contains(&r.rank));
    others.any(|rec| {
        scene
            .records(rec)
            .any(|r| r.network.is_some() || !r.addresses.is_empty())
    })
}
