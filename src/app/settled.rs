//! When a watch has its answer: the same proven cause for a moment, so that what its victims write a
//! little earlier than the guilty rank is not taken for it.

use std::time::{Duration, Instant};

use crate::engine::snapshot::Snapshot;
use crate::engine::vocab::{Confidence, Role, Severity, State};

/// How long an answer has to stay the same: logs of several ranks are not read at one moment.
const SETTLE: Duration = Duration::from_secs(2);

/// What a watch may end with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A cause of an error that is more than possible, of a job that does not go on.
    Cause {
        /// Id of its rule.
        rule: String,
        /// Whom it names.
        ranks: Vec<u32>,
    },
    /// The job ended well.
    Completed,
}

impl Answer {
    /// The answer that a snapshot gives, if it gives one.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Option<Self> {
        let verdict = &snapshot.verdict;
        match verdict.state {
            State::Completed => Some(Self::Completed),
            State::Hung | State::Failed | State::WrongResults => {
                let lead = snapshot.findings.get(verdict.finding?)?;
                let proven = lead.severity == Severity::Error
                    && lead.role == Role::Cause
                    && verdict.confidence != Confidence::Possible;
                proven.then(|| Self::Cause {
                    rule: lead.id.clone(),
                    ranks: verdict.ranks.clone(),
                })
            }
            _ => None,
        }
    }
}

/// Waits for an answer that stays.
#[derive(Debug, Default)]
pub struct Settling {
    candidate: Option<(Answer, Instant)>,
}

impl Settling {
    /// The answer, once it has stayed the same; `now` never goes back.
    pub fn look(&mut self, snapshot: &Snapshot, now: Instant) -> Option<Answer> {
        let answer = Answer::of(snapshot);
        if self.candidate.as_ref().map(|(known, _)| known) != answer.as_ref() {
            self.candidate = answer.map(|answer| (answer, now));
        }
        let (answer, since) = self.candidate.as_ref()?;
        (now - *since >= SETTLE).then(|| answer.clone())
    }

    /// When to look again even if nothing happens.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.candidate.as_ref().map(|(_, since)| *since + SETTLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::Catalog;
    use crate::engine::{Engine, Options};

    #[test]
    fn an_answer_has_to_stay_the_same() {
        let mut snapshot = Engine::new(Catalog::builtin(), Options::default()).snapshot();
        let mut settling = Settling::default();
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(settling.look(&snapshot, at(0)), None);
        snapshot.verdict.state = State::Completed;
        assert_eq!(settling.look(&snapshot, at(1)), None);
        assert_eq!(settling.due(), Some(at(3)));
        // It was no end after all.
        snapshot.verdict.state = State::Waiting;
        assert_eq!(settling.look(&snapshot, at(2)), None);
        snapshot.verdict.state = State::Completed;
        assert_eq!(settling.look(&snapshot, at(4)), None);
        assert_eq!(settling.look(&snapshot, at(6)), Some(Answer::Completed));
        // A state without a finding names no cause.
        snapshot.verdict.state = State::Hung;
        assert_eq!(settling.look(&snapshot, at(60)), None);
        assert_eq!(settling.due(), None);
    }
}
