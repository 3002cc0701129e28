//! Proves a change: the job's settings and the proposed ones are run in turn, several times.

use super::outcome::{Outcome, Verdict};
use super::plan::Op;

/// Below this a difference of bandwidth is noise.
const NOTABLE: f64 = 1.15;

/// The runs of one side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Runs that passed.
    pub passed: u32,
    /// Runs that did not.
    pub failed: u32,
    /// The best busbw of each run that passed, bytes a second.
    pub busbw: Vec<f64>,
}

impl Side {
    /// Counts a run.
    pub fn take(&mut self, outcome: &Outcome) {
        if outcome.verdict() == Verdict::Failed {
            self.failed += 1;
        } else {
            self.passed += 1;
        }
        if let Some((_, busbw)) = outcome.best(Op::AllReduce) {
            self.busbw.push(busbw);
        }
    }

    /// The middle one of its bandwidths.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.busbw.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

/// What the runs prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Fails without, passes with.
    Cures,
    /// Works without: there was nothing to cure here.
    NotReproduced,
    /// Fails with and without.
    NoDifference,
    /// Works without and fails with.
    Worse,
    /// Works with and without, and is faster with it.
    Faster,
    /// Works with and without, and is slower with it.
    Slower,
    /// The runs of one side do not agree with each other.
    Unclear,
}

impl Answer {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Cures,
        Self::NotReproduced,
        Self::NoDifference,
        Self::Worse,
        Self::Faster,
        Self::Slower,
        Self::Unclear,
    ];

    /// One line.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Cures => "cures: fails without the change, passes with it",
            Self::NotReproduced => {
                "not reproduced: passes without the change, so it is unproven that it cures anything"
            }
            Self::NoDifference => "no difference: fails with the change as without it",
            Self::Worse => "worse: passes without the change, fails with it",
            Self::Faster => "restores bandwidth: both pass, and the change makes it faster",
            Self::Slower => {
                "not reproduced, and slower: passes without the change, which only costs bandwidth"
            }
            Self::Unclear => "unclear: runs with the same settings differ; more of them may tell",
        }
    }
}

/// Judges the runs without (`a`) and with (`b`) the change.
#[must_use]
pub fn judge(a: &Side, b: &Side) -> Answer {
    let mixed = |side: &Side| side.passed > 0 && side.failed > 0;
    if mixed(a) || mixed(b) {
        // Fails sometimes without and never with it: not yet proven, but no contradiction either.
        return Answer::Unclear;
    }
    match (a.passed > 0, b.passed > 0) {
        (false, true) => Answer::Cures,
        (false, false) => Answer::NoDifference,
        (true, false) => Answer::Worse,
        (true, true) => match (a.median(), b.median()) {
            (Some(a), Some(b)) if b > a * NOTABLE => Answer::Faster,
            (Some(a), Some(b)) if a > b * NOTABLE => Answer::Slower,
            _ => Answer::NotReproduced,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let side = |passed, failed, busbw: &[f64]| Side {
            passed,
            failed,
            busbw: busbw.to_vec(),
        };
        let fails = side(0, 5, &[]);
        let passes = side(5, 0, &[300.0, 310.0, 305.0]);
        let slow = side(5, 0, &[27.0, 27.5, 26.0]);
        assert_eq!(judge(&fails, &passes), Answer::Cures);
        assert_eq!(judge(&fails, &fails), Answer::NoDifference);
        assert_eq!(judge(&passes, &fails), Answer::Worse);
        assert_eq!(judge(&passes, &passes), Answer::NotReproduced);
        assert_eq!(judge(&slow, &passes), Answer::Faster);
        assert_eq!(judge(&passes, &slow), Answer::Slower);
        assert_eq!(judge(&side(3, 2, &[]), &passes), Answer::Unclear);
    }
}
