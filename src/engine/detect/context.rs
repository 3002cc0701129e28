//! Line rules that a look around decides: those whose file has patterns and names a detector.

use std::collections::{BTreeMap, BTreeSet};

use super::Scene;
use super::lines::{self, Records};
use crate::engine::demux::Hint;
use crate::engine::event::Subsystem;
use crate::engine::finding::Finding;
use crate::engine::ids::RuleIx;

/// Decides the hits of such rules. A rule that holds takes the place of the general one that matched
/// the same line.
pub(super) fn detect(scene: &Scene<'_>, hits: &BTreeMap<RuleIx, Records<'_>>, found: &mut Vec<Finding>) {
    for (rule, records) in hits {
        let (records, general): (Records<'_>, &str) = match scene.catalog.rule(*rule).id.as_str() {
            "NET009" if several_hosts(scene) => (records.clone(), "GLOO001"),
            "IB001" => (records.iter().copied().filter(|one| wants_rdma(scene, one)).collect(), "PLUG001"),
            _ => continue,
        };
        if !records.is_empty() {
            found.retain(|f| f.id != general);
            found.push(lines::finding(scene, *rule, &records));
        }
    }
}

/// By the names that NCCL prints, or by what the launcher calls the nodes of the logs.
fn several_hosts(scene: &Scene<'_>) -> bool {
    let hints = scene.writers.iter().flat_map(|w| &w.hints);
    let nodes: BTreeSet<&Hint> = hints.filter(|h| matches!(h, Hint::Node(_) | Hint::Host(_))).collect();
    let of_kind = |node: bool| nodes.iter().filter(|h| matches!(h, Hint::Node(_)) == node).count();
    scene.hosts().len() > 1 || of_kind(true) > 1 || of_kind(false) > 1
}

/// The line names InfiniBand, NCCL_NET does, or the process tried InfiniBand (its side channel is
/// printed) and nothing after it, although sockets are always there to fall back to.
fn wants_rdma(scene: &Scene<'_>, (writer, hits): &lines::One<'_>) -> bool {
    let Some(record) = scene.job.records.get(writer.ix()) else { return false };
    let named = hits.captures.iter().any(|c| c.contains_key("forced"));
    let forced = record.env.get("NCCL_NET").is_some_and(|(value, _)| value == "IB");
    let tried = |subsystem| record.addresses.iter().any(|a| a.subsystem == subsystem);
    named || forced || (tried(Subsystem::Oob) && !tried(Subsystem::Net))
}
