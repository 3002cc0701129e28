//! Ranks that the inputs say nothing of.

use super::{Draft, Scene, ranges};
use crate::engine::finding::Finding;

/// Above this many ranks nobody forgets one log, and looking at every pair would take long.
const MOST_RANKS: usize = 512;

/// Adds a note about ranks without a log, where others have one.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let unseen = unseen(scene);
    if unseen.is_empty() {
        return;
    }
    if let Some(mut draft) = Draft::new(scene, "RANK005") {
        draft.ranks(unseen).note();
        found.push(draft.build());
    }
}

/// Ranks of the world whose logs were not given, while those of others were.
#[must_use]
pub fn unseen(scene: &Scene<'_>) -> Vec<u32> {
    let (seen, unseen): (Vec<_>, Vec<_>) = scene
        .ranks
        .ranks
        .iter()
        .partition(|r| r.has_source || r.lines > 0);
    if seen.is_empty() || unseen.is_empty() || seen.len() > MOST_RANKS {
        return Vec::new();
    }
    // In a stream of all ranks a rank may write lines that do not say whose they are.
    let shared = !scene.ranks.others.is_empty()
        || seen.iter().any(|r| {
            let mut sources = scene.records(r).map(|record| record.source);
            sources.any(|source| {
                let others = seen.iter().filter(|o| o.rank != r.rank);
                others
                    .flat_map(|o| scene.records(o))
                    .any(|record| record.source == source)
            })
        });
    if shared {
        return Vec::new();
    }
    unseen.iter().map(|r| r.rank).collect()
}

/// What to ask for: `the log of rank 3`, `the logs of ranks 1-15`.
#[must_use]
pub fn logs_of(ranks: impl IntoIterator<Item = u32>) -> String {
    let ranks: Vec<u32> = ranks.into_iter().collect();
    let (logs, of) = if ranks.len() == 1 {
        ("log", "rank")
    } else {
        ("logs", "ranks")
    };
    format!("the {logs} of {of} {}", ranges(ranks))
}
