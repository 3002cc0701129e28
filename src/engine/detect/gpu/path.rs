//! Worse ways than there could be: no P2P, a PCIe link below its maximum.

use std::collections::{BTreeMap, BTreeSet};

use super::Here;
use crate::engine::finding::Finding;
use crate::engine::gpu::{Gpu, P2p, Pair};

/// Pairs named in a title.
const NAMED: usize = 4;

/// While data goes over it, the PCIe link is below what GPU and slot can do.
pub(super) fn bus(here: &Here<'_>, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Finding> {
    let past = here.gpus.past.get(&gpu.index)?;
    let samples = here.threshold("GPU011", "samples")?;
    if f64::from(past.slow_bus) < samples {
        return None;
    }
    let bus = &past.well.as_ref()?.pcie;
    let link = |generation: u32, width: u32| format!("generation {generation} x{width}");
    let mut draft = here.draft("GPU011", gpu, ranks)?;
    draft
        .fact("now", link(bus.generation?, bus.width?))
        .fact("most", link(bus.generation_max?, bus.width_max?));
    Some(draft.build())
}

/// Why two GPUs do not reach each other, and whether somebody can change it.
fn reason(pair: &Pair) -> Option<(&'static str, bool)> {
    let not_ok = |status: Option<P2p>| status.filter(|s| *s != P2p::Ok);
    Some(match not_ok(pair.read).or(not_ok(pair.write))? {
        P2p::Ok => return None,
        P2p::Chipset => ("the chipset does not allow it", true),
        P2p::Topology => ("what lies between them does not allow it", true),
        P2p::Regkey => ("the driver was told not to", true),
        P2p::Gpu => ("these GPUs cannot", false),
        P2p::Unsupported => ("not supported", false),
    })
}

/// Pairs of GPUs of the job that cannot read each other's memory, by reason.
pub(super) fn p2p(here: &Here<'_>) -> Vec<Finding> {
    let mut by_reason: BTreeMap<(&str, bool), Vec<&Pair>> = BTreeMap::new();
    for pair in &here.gpus.last.pairs {
        let needed = here.owners.contains_key(&pair.a) && here.owners.contains_key(&pair.b);
        if let Some(reason) = reason(pair).filter(|_| needed) {
            by_reason.entry(reason).or_default().push(pair);
        }
    }
    let findings = by_reason.into_iter().filter_map(|((why, fixable), pairs)| {
        let mut draft = here.begin("GPU009")?;
        let gpus: BTreeSet<u32> = pairs.iter().flat_map(|p| [p.a, p.b]).collect();
        let ranks = gpus.iter().filter_map(|gpu| here.owners.get(gpu)).flatten();
        let mut names: Vec<String> = pairs
            .iter()
            .take(NAMED)
            .map(|p| format!("{} and {}", p.a, p.b))
            .collect();
        if pairs.len() > NAMED {
            names.push(format!("{} more pairs", pairs.len() - NAMED));
        }
        draft
            .fact("pairs", names.join(", "))
            .fact("reason", why)
            .ranks(ranks.copied());
        if fixable {
            draft.fact("fixable", "yes");
        } else {
            // The usual state of consumer GPUs: NCCL knows and goes through host memory.
            draft.note();
        }
        Some(draft.build())
    });
    findings.collect()
}
