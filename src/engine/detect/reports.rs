//! What launchers said about how processes ended, by rank and by pid: asked for once a rank.

use std::collections::BTreeMap;

use crate::engine::job::{ExitReport, RankRec};

/// The first report of each rank, and of each pid whose report names no rank.
#[derive(Clone, Debug, Default)]
pub struct Reports<'a> {
    /// With its place among all reports.
    by_rank: BTreeMap<u32, (usize, &'a ExitReport)>,
    by_pid: BTreeMap<u32, (usize, &'a ExitReport)>,
}

impl<'a> Reports<'a> {
    pub(super) fn of(all: impl Iterator<Item = &'a ExitReport>) -> Self {
        let mut found = Self::default();
        for (at, report) in all.enumerate() {
            match (report.rank, report.pid) {
                (Some(rank), _) => found.by_rank.entry(rank).or_insert((at, report)),
                (None, Some(pid)) => found.by_pid.entry(pid).or_insert((at, report)),
                (None, None) => continue,
            };
        }
        found
    }

    /// The first one that names the rank.
    pub(super) fn of_rank(&self, rank: u32) -> Option<&'a ExitReport> {
        self.by_rank.get(&rank).map(|(_, report)| *report)
    }

    /// The first one that names the rank, or its pid and no rank.
    pub(super) fn of_process(&self, rank: &RankRec) -> Option<&'a ExitReport> {
        let named = self.by_rank.get(&rank.rank);
        let by_pid = rank.pid.and_then(|pid| self.by_pid.get(&pid));
        let first = named.into_iter().chain(by_pid).min_by_key(|(at, _)| *at);
        first.map(|(_, report)| *report)
    }
}
