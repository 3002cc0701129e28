//! What tests of every pair of GPUs say together: which GPU or which link is bad.

use std::collections::BTreeSet;

use super::conclude::listed;
use super::links::{self, Standing};
use super::outcome::{Fault, Outcome, Verdict};
use super::protocol::Step;

/// Links that are named; more have a cause in common.
const LINKS: usize = 6;

/// How a pair did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It passed, as fast as its links let expect or with nothing to compare with.
    Well,
    /// It passed on less than its links carry, or on a worse path than it has.
    Slow,
    /// It failed.
    Failed,
    /// It says nothing about these GPUs: libraries that do not load, an interrupted run.
    Unknown,
}

impl Health {
    /// Of one run.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        match &outcome.fault {
            Some(
                Fault::Interrupted
                | Fault::Failed {
                    step: Step::Load, ..
                },
            ) => return Self::Unknown,
            _ if outcome.verdict() == Verdict::Failed => return Self::Failed,
            _ => {}
        }
        match links::judge(outcome).map(|judged| judged.standing) {
            Some(Standing::Low | Standing::WorsePath) => Self::Slow,
            _ => Self::Well,
        }
    }

    fn is_bad(self) -> bool {
        matches!(self, Self::Slow | Self::Failed)
    }
}

/// A pair of GPUs and how it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// One GPU.
    pub a: u32,
    /// The other.
    pub b: u32,
    /// How they did.
    pub health: Health,
}

/// What the pairs say together.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Bad {
    /// GPUs whose pairs are all bad, while others' are not.
    pub gpus: Vec<u32>,
    /// Bad pairs of GPUs that are well with others.
    pub links: Vec<(u32, u32)>,
    /// In one sentence.
    pub words: String,
}

/// Names the bad GPUs and links.
#[must_use]
pub fn conclude(pairs: &[Pair]) -> Bad {
    let known: Vec<&Pair> = pairs
        .iter()
        .filter(|p| p.health != Health::Unknown)
        .collect();
    let bad: Vec<&Pair> = known
        .iter()
        .copied()
        .filter(|p| p.health.is_bad())
        .collect();
    let how = match (
        bad.iter().any(|p| p.health == Health::Failed),
        bad.iter().any(|p| p.health == Health::Slow),
    ) {
        (true, true) => "fail or are slow",
        (true, false) => "fail",
        _ => "are slow",
    };
    let only = |words: String| Bad {
        words,
        ..Bad::default()
    };
    if known.is_empty() {
        return only("no pair could be tested".to_owned());
    }
    if bad.is_empty() {
        return only(format!(
            "no GPU and no link is bad: {} passed",
            count(known.len())
        ));
    }
    if bad.len() == known.len() && known.len() > 1 {
        return only(format!(
            "all {} pairs {how}: not one GPU or link, but what they have in common (a setting, the driver, IOMMU or ACS)",
            known.len()
        ));
    }
    let link = |pair: &Pair| (pair.a, pair.b);
    if known.len() == 1 {
        let (a, b) = link(bad[0]);
        return Bad {
            gpus: Vec::new(),
            links: vec![(a, b)],
            words: format!(
                "GPU {a}, GPU {b} or the link between them is bad; a third GPU would tell which"
            ),
        };
    }
    let gpus: BTreeSet<u32> = known.iter().flat_map(|p| [p.a, p.b]).collect();
    let of = |gpu: u32| move |p: &&&Pair| p.a == gpu || p.b == gpu;
    let bad_alone = |gpu: &u32| {
        let tested = known.iter().filter(of(*gpu)).count();
        tested > 1 && tested == bad.iter().filter(of(*gpu)).count()
    };
    let bad_gpus: Vec<u32> = gpus.into_iter().filter(bad_alone).collect();
    let links: Vec<(u32, u32)> = bad
        .iter()
        .map(|pair| link(pair))
        .filter(|(a, b)| !bad_gpus.contains(a) && !bad_gpus.contains(b))
        .collect();
    let mut parts = Vec::new();
    for gpu in &bad_gpus {
        parts.push(format!("GPU {gpu} is bad: all its pairs {how}"));
    }
    if let Some((a, b)) = links.first().filter(|_| links.len() == 1) {
        parts.push(format!(
            "the link between GPU {a} and GPU {b} is bad: both are well with others"
        ));
    } else if !links.is_empty() {
        let list = listed(&links, LINKS, "-");
        parts.push(format!("the links {list} are bad"));
    }
    Bad {
        gpus: bad_gpus,
        links,
        words: parts.join("; "),
    }
}

fn count(pairs: usize) -> String {
    match pairs {
        1 => "the one pair".to_owned(),
        n => format!("all {n} pairs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pairs of so many GPUs; these are bad.
    fn pairs(gpus: u32, bad: &[(u32, u32)]) -> Vec<Pair> {
        let all = (0..gpus).flat_map(|a| (a + 1..gpus).map(move |b| (a, b)));
        all.map(|(a, b)| Pair {
            a,
            b,
            health: if bad.contains(&(a, b)) {
                Health::Slow
            } else {
                Health::Well
            },
        })
        .collect()
    }

    #[test]
    fn a_gpu_or_a_link_or_neither() {
        for (gpus, bad, bad_gpus, links, words) in [
            (4, &[][..], &[][..], &[][..], "all 6 pairs passed"),
            (4, &[(1, 3)], &[], &[(1, 3)], "link between GPU 1 and GPU 3"),
            (4, &[(0, 2), (1, 2), (2, 3)], &[2], &[], "GPU 2 is bad"),
            (3, &[(0, 2), (1, 2)], &[2], &[], "GPU 2 is bad"),
            (4, &[(0, 1), (2, 3)], &[], &[(0, 1), (2, 3)], "0-1, 2-3"),
            (3, &[(0, 1), (0, 2), (1, 2)], &[], &[], "all 3 pairs"),
            (2, &[(0, 1)], &[], &[(0, 1)], "a third GPU would tell"),
            (
                5,
                &[(0, 4), (1, 4), (2, 4), (3, 4), (0, 1)],
                &[4],
                &[(0, 1)],
                "GPU 4 is bad: all its pairs are slow; the link between GPU 0 and GPU 1",
            ),
        ] {
            let found = conclude(&pairs(gpus, bad));
            assert_eq!(found.gpus, bad_gpus, "{found:?}");
            assert_eq!(found.links, links, "{found:?}");
            assert!(found.words.contains(words), "{found:?}");
        }
    }

    #[test]
    fn what_says_nothing_accuses_nobody() {
        let pair = Pair {
            a: 0,
            b: 1,
            health: Health::Unknown,
        };
        assert_eq!(conclude(&[pair]).words, "no pair could be tested");
    }
}
