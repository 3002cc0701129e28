//! Ranks that the inputs say nothing of.

use super::{Draft, Scene};
use crate::engine::finding::Finding;

/// Above this many ranks nobody forgets one log, and looking at every pair would take long.
const MOST_RANKS: usize = 512;

/// Adds a note about ranks without a log, where others have one.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let (seen, unseen): (Vec<_>, Vec<_>) = scene
        .ranks
        .ranks
        .iter()
        .partition(|r| r.has_source || r.lines > 0);
    if seen.is_empty() || unseen.is_empty() || seen.len() > MOST_RANKS {
        return;
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
        return;
    }
    if let Some(mut draft) = Draft::new(scene, "RANK005") {
        let unseen = unseen.iter().map(|r| r.rank);
        draft.ranks(unseen).note();
        found.push(draft.build());
    }
}
