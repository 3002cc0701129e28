//! What the job is made of: a fix is for a framework that is there.

use std::collections::BTreeSet;

use super::Scene;
use crate::engine::demux::{Hint, Writer};
use crate::engine::job::{Kept, RankRec, Stack};

/// Frameworks, and whether there are several hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frameworks {
    stack: Stack,
    vllm: bool,
    spread: bool,
}

impl Frameworks {
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let mut stack = scene
            .all_records()
            .fold(Stack::default(), |all, (_, r)| all.and(r.stack));
        // Only PyTorch writes dumps.
        stack.torch |= !scene.recorded.by_rank.is_empty() || !scene.recorded.nobodys.is_empty();
        let names = scene.writers.iter().filter_map(Writer::name);
        // What vLLM calls its processes; its workers' other names are also used elsewhere.
        let vllm = names.into_iter().any(|name| {
            ["EngineCore", "APIServer", "VllmWorker"]
                .iter()
                .any(|own| name.starts_with(own))
        });
        stack.torch |= vllm;
        Self {
            stack,
            vllm,
            spread: several_hosts(scene),
        }
    }

    /// True if PyTorch was seen.
    #[must_use]
    pub fn torch(self) -> bool {
        self.stack.torch
    }

    /// True if the job is on several hosts.
    #[must_use]
    pub fn spread(self) -> bool {
        self.spread
    }

    /// The fact of this name for a template: `yes` or nothing; `None` if it is no such fact.
    pub(super) fn fact(self, name: &str) -> Option<String> {
        let there = match name {
            "nccl" => self.stack.nccl,
            "gloo" => self.stack.gloo,
            "torch" => self.stack.torch,
            "vllm" => self.vllm,
            "spread" => self.spread,
            _ => return None,
        };
        Some(if there { "yes" } else { "" }.to_owned())
    }
}

/// By the names that NCCL prints, or by what the launcher calls the nodes of the logs.
pub(super) fn several_hosts(scene: &Scene<'_>) -> bool {
    let hints: BTreeSet<&Hint> = scene.writers.iter().flat_map(|w| &w.hints).collect();
    let nodes = hints.iter().filter(|h| matches!(h, Hint::Node(_))).count();
    let hosts = hints.iter().filter(|h| matches!(h, Hint::Host(_))).count();
    scene.hosts().len() > 1 || nodes > 1 || hosts > 1
}

/// True if the job is known to run on one host only.
pub(super) fn one_host(scene: &Scene<'_>) -> bool {
    let known = scene.ranks.ranks.iter().all(|rec| rec.host.is_some());
    known && scene.hosts().len() == 1 && !several_hosts(scene)
}

/// The name of the job's only host; nothing where there are others, or may be: any host may call itself localhost.
pub(super) fn only_host(scene: &Scene<'_>) -> String {
    let hosts = scene.hosts();
    match hosts.first() {
        Some(host) if one_host(scene) && !host.starts_with("localhost") => (*host).to_owned(),
        _ => String::new(),
    }
}

/// The line that says best where a rank is: the last of its own work, else its last one.
pub(super) fn last_words<'a>(scene: &Scene<'a>, rank: &RankRec) -> Option<&'a Kept> {
    let own = scene.records(rank).filter_map(|r| r.last_own());
    let any = scene.records(rank).filter_map(|r| r.last.as_ref());
    own.max_by_key(|line| line.place)
        .or_else(|| any.max_by_key(|line| line.place))
}
