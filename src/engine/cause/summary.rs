//! Words for a verdict that rests on no finding.

use crate::engine::detect::{Scene, ranges};
use crate::engine::finding::Finding;
use crate::engine::vocab::{Role, State};

use super::state;

/// One line.
pub(super) fn without_cause(scene: &Scene<'_>, state: State, findings: &[Finding]) -> String {
    let seen: Vec<u32> = scene
        .ranks
        .ranks
        .iter()
        .filter(|r| r.was_seen())
        .map(|r| r.rank)
        .collect();
    let who = match seen.len() {
        0 => "the job".to_owned(),
        1 => format!("rank {}", ranges(seen.iter().copied())),
        n => format!("{n} ranks"),
    };
    let symptom = findings.iter().find(|f| f.role == Role::Symptom);
    match state {
        State::Completed => format!("{who} ended well, nothing wrong was seen"),
        State::Healthy => format!("{who}, nothing wrong was seen"),
        State::Hung => match symptom {
            Some(symptom) => format!(
                "stands still, the cause is not in these logs: {}",
                symptom.title
            ),
            None if !state::knows_calls(scene) => {
                format!(
                    "{who} stand still; their logs do not show which collective each one called"
                )
            }
            None => "every communicator is idle and equal on all ranks: it is stuck outside NCCL"
                .to_owned(),
        },
        State::Failed => match symptom {
            Some(symptom) => format!("failed, the cause is not in these logs: {}", symptom.title),
            None => "failed, the cause is not in these logs".to_owned(),
        },
        State::Waiting => {
            let note = findings.iter().find(|f| state::is_unaccounted(f));
            note.map_or_else(|| "some ranks wait".to_owned(), |f| f.title.clone())
        }
        _ => "these logs do not say what the job does".to_owned(),
    }
}

/// What to switch on so that the next log says more.
pub(super) fn switch_on(scene: &Scene<'_>, state: State) -> Vec<String> {
    let mut what = Vec::new();
    if matches!(state, State::Healthy | State::Completed) {
        return what;
    }
    let nccl = scene
        .all_records()
        .any(|(_, r)| r.nccl.is_some() || !r.members.is_empty());
    let calls = scene.ranks.comms.iter().any(|c| {
        c.members
            .values()
            .any(|m| scene.job.members[m.ix()].called())
    });
    if !nccl {
        what.push("what NCCL does: NCCL_DEBUG=INFO on every rank".to_owned());
    }
    if !calls {
        what.push("which collective each rank called: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,COLL".to_owned());
    }
    if state == State::Hung {
        what.push("where each rank's program is: `py-spy dump --pid PID` on a rank".to_owned());
    }
    what
}
