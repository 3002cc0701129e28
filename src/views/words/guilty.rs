//! Who a verdict points at, so that it can be found.

use crate::engine::snapshot::{RankView, Snapshot};

use super::{hosts, ranks};

/// The guilty ranks and hosts: `rank 6 (pid 3349 on node-3)`, `ranks 10-11 on node-5`, `node-2`; empty if
/// nobody is.
#[must_use]
pub fn guilty(snapshot: &Snapshot) -> String {
    let verdict = &snapshot.verdict;
    let who = ranks(verdict.ranks.iter().copied());
    let mut at = hosts(verdict.hosts.iter().map(String::as_str));
    let of_them = verdict
        .ranks
        .iter()
        .filter_map(|rank| snapshot.job.rank(*rank));
    let of_them: Vec<&RankView> = of_them.collect();
    if at.is_empty() {
        let theirs: Option<Vec<&str>> = of_them.iter().map(|r| r.host.as_deref()).collect();
        at = hosts(theirs.unwrap_or_default());
    }
    let pid = match of_them.as_slice() {
        [one] => one.pid,
        _ => None,
    };
    match (who.is_empty(), at.is_empty(), pid) {
        (true, ..) => at,
        (_, false, Some(pid)) => format!("{who} (pid {pid} on {at})"),
        (_, true, Some(pid)) => format!("{who} (pid {pid})"),
        (_, false, None) => format!("{who} on {at}"),
        (_, true, None) => who,
    }
}
