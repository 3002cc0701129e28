//! Two processes of one job that both want to host its store.

use super::{Draft, Scene};
use crate::engine::finding::Finding;
use crate::engine::ids::WriterIx;
use crate::engine::vocab::{Confidence, Effect, Role};

/// Whoever finds the store's port taken while another process of the same job holds a store is a second
/// rank 0. The port alone may also be a stranger's.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let Some(taken) = found.iter().position(|f| f.id == "STORE001") else {
        return;
    };
    let rule = found[taken].rule;
    let refused: Vec<WriterIx> = scene
        .hits
        .by_rule()
        .filter(|(hit, ..)| *hit == rule)
        .map(|(_, writer, _)| writer)
        .collect();
    let sources: Vec<_> = refused
        .iter()
        .map(|w| scene.job.records[w.ix()].source)
        .collect();
    let mut holders = scene
        .all_records()
        .filter(|(_, r)| !sources.contains(&r.source));
    let Some((rank, store)) = holders.find_map(|(rank, r)| Some((rank, r.store.as_ref()?))) else {
        return;
    };
    let Some(mut draft) = Draft::new(scene, "LAUNCH002") else {
        return;
    };
    draft
        .fact("rank", "0")
        .fact("of", store.of.to_string())
        .fact("port", port(scene, &refused))
        .ranks(found[taken].ranks.iter().copied())
        .ranks(rank)
        .sure(Confidence::Likely);
    draft.finding().effect = Effect::Fatal;
    draft.finding().evidence = found[taken].evidence.clone();
    draft.evidence(&store.line, rank);
    found[taken].role = Role::Symptom;
    found.push(draft.build());
}

fn port(scene: &Scene<'_>, refused: &[WriterIx]) -> String {
    let hits = scene.hits.by_rule().filter(|(_, w, _)| refused.contains(w));
    let captured = hits.flat_map(|(.., record)| &record.captures);
    let mut ports = captured.filter_map(|c| c.get("port"));
    ports.next().cloned().unwrap_or_default()
}
