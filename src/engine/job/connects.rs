//! Connects that failed, as the views see them: one row an address and reason, over all ranks.

use std::collections::{BTreeMap, BTreeSet};

use super::rankmap::Ranks;
use super::{Job, Record};
use crate::engine::limits;
use crate::engine::snapshot::ConnectView;

/// Who connects, where to, and what the operating system says.
type Key<'a> = (&'static str, Option<&'a str>, Option<u16>, &'a str);

/// What ranks have in common that failed alike.
#[derive(Default)]
struct Row<'a> {
    ranks: BTreeSet<u32>,
    hosts: BTreeSet<&'a str>,
    ports: BTreeSet<Option<u16>>,
    most: u64,
    count: u64,
    gave_up: bool,
}

impl Job {
    /// Connects that failed, the most tried first, and how many more addresses there are.
    pub(super) fn connect_views(&self, ranks: &Ranks) -> (Vec<ConnectView>, usize) {
        let mut rows: BTreeMap<Key<'_>, Row<'_>> = BTreeMap::new();
        for writer in ranks.in_order.iter().filter(|w| !ranks.stale[w.ix()]) {
            let record = &self.records[writer.ix()];
            let rank = ranks.of_writer[writer.ix()];
            for (key, port, count, gave_up) in failures(record) {
                let row = rows.entry(key).or_default();
                match (rank, &record.host) {
                    (Some(rank), _) => {
                        row.ranks.insert(rank);
                    }
                    (None, Some(host)) => {
                        row.hosts.insert(host);
                    }
                    (None, None) => {}
                }
                row.ports.insert(port);
                row.most = row.most.max(count);
                row.count += count;
                row.gave_up |= gave_up;
            }
        }
        let mut views: Vec<ConnectView> = rows
            .into_iter()
            .map(|((subsystem, address, _, reason), row)| {
                let mut ports = row.ports.into_iter();
                ConnectView {
                    subsystem,
                    ranks: row.ranks.into_iter().collect(),
                    hosts: row.hosts.into_iter().map(str::to_owned).collect(),
                    address: address.map(str::to_owned),
                    port: ports.next().flatten().filter(|_| ports.next().is_none()),
                    reason: reason.to_owned(),
                    most: row.most,
                    count: row.count,
                    gave_up: row.gave_up,
                }
            })
            .collect();
        views.sort_by_key(|view| (std::cmp::Reverse(view.most), !view.gave_up));
        let more = views.len().saturating_sub(limits::CONNECTS);
        views.truncate(limits::CONNECTS);
        (views, more)
    }
}

/// What failed for one writer: whom and where, port, how often, and whether it gave up. The ports of NCCL are
/// those of the moment; the store's is part of its name.
fn failures(record: &Record) -> impl Iterator<Item = (Key<'_>, Option<u16>, u64, bool)> {
    let nccl = record.connects.iter().map(|c| {
        let key = ("nccl", c.address.as_deref(), None, c.reason.as_str());
        (key, c.port, c.count.max(u64::from(c.attempts)), c.gave_up)
    });
    let store = record.store_failures.iter().map(|f| {
        let key = (
            "c10d",
            Some(f.host.as_str()),
            Some(f.port),
            f.reason.as_str(),
        );
        (key, Some(f.port), f.lines.0.max(f.lines.1), f.gave_up)
    });
    nccl.chain(store)
}
