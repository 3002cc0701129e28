//! Ranks that the inputs say nothing of.

use super::{Draft, Scene};
use crate::engine::finding::Finding;

/// Adds a note about ranks without a log, where others have one.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let (seen, unseen): (Vec<_>, Vec<_>) = scene
        .ranks
        .ranks
        .iter()
        .partition(|r| r.has_source || r.lines > 0);
    if seen.is_empty() || unseen.is_empty() {
        return;
    }
    if let Some(mut draft) = Draft::new(scene, "RANK005") {
        let unseen = unseen.iter().map(|r| r.rank);
        draft.ranks(unseen).note();
        found.push(draft.build());
    }
}
