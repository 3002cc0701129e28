//! Between which hosts a connection over InfiniBand or RoCE failed: a completion names the peer by an address alone.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Scene};
use crate::engine::hits::HitRecord;
use crate::engine::ids::WriterIx;

/// Pairs that a text lists.
const LISTED: usize = 3;

/// Names both ends, as far as the logs show whose address the peer's is.
pub(super) fn ends(scene: &Scene<'_>, records: &[(WriterIx, &HitRecord)], draft: &mut Draft<'_>) {
    let owners = owners(scene);
    // By local host, peer's host if known, and its address.
    let mut pairs: BTreeMap<(&str, Option<&str>, &str), usize> = BTreeMap::new();
    for (writer, record) in records {
        let local = scene.job.records[writer.ix()]
            .host
            .as_deref()
            .or_else(|| scene.host_of(scene.ranks.rank_of(*writer)?));
        for captures in &record.captures {
            if let (Some(local), Some(peer)) = (local, captures.get("peer")) {
                let host = owners.get(peer.as_str()).copied().flatten();
                *pairs.entry((local, host, peer)).or_default() += 1;
            }
            let link_local = |name: &str| {
                captures
                    .get(name)
                    .is_some_and(|gid| gid.starts_with("fe80:"))
            };
            if link_local("local_gid") || link_local("remote_gid") {
                draft.fact("link_local", "yes");
            }
        }
    }
    let most = pairs
        .iter()
        .max_by_key(|(pair, count)| (**count, std::cmp::Reverse(**pair)));
    let Some(((local, host, address), _)) = most else {
        return;
    };
    let end = |host: Option<&str>, address: &str| match host {
        Some(host) => format!("{host} ({address})"),
        None => address.to_owned(),
    };
    draft
        .fact("local", *local)
        .fact("peer", end(*host, address));
    let distinct: BTreeSet<(&str, String)> = pairs
        .keys()
        .map(|(local, host, address)| (*local, end(*host, address)))
        .collect();
    if distinct.len() < 2 {
        return;
    }
    let mut words: Vec<String> = distinct
        .iter()
        .take(LISTED)
        .map(|(local, peer)| format!("{local} with {peer}"))
        .collect();
    if distinct.len() > LISTED {
        words.push(format!("{} more", distinct.len() - LISTED));
    }
    draft.fact("pairs", words.join(", "));
    draft.fact(
        "common",
        common(pairs.keys().map(|(local, host, _)| (*local, *host))),
    );
}

/// The only host that is an end of every pair of hosts; nothing where several are, as with one pair.
fn common<'a>(pairs: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> &'a str {
    let both: BTreeSet<BTreeSet<&str>> = pairs
        .map(|(local, host)| std::iter::once(local).chain(host).collect())
        .collect();
    let mut all = both.iter().flatten().copied().collect::<BTreeSet<&str>>();
    all.retain(|host| both.iter().all(|pair| pair.contains(host)));
    match all.first() {
        Some(host) if all.len() == 1 && both.len() > 1 => host,
        _ => "",
    }
}

/// Whose an address is; `None` where several hosts have it.
fn owners<'a>(scene: &'a Scene<'_>) -> BTreeMap<&'a str, Option<&'a str>> {
    let mut owners: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for (_, record) in scene.all_records() {
        let Some(host) = record.host.as_deref() else {
            continue;
        };
        for seen in &record.addresses {
            let further = seen.further.iter().map(|(_, address)| address.as_str());
            for address in further.chain([seen.address.as_str()]) {
                let owner = owners.entry(address).or_insert(Some(host));
                if *owner != Some(host) {
                    *owner = None;
                }
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_is_an_end_of_every_pair() {
        let of = |pairs: &[(&'static str, Option<&'static str>)]| common(pairs.iter().copied());
        assert_eq!(of(&[("a", Some("b")), ("a", Some("c"))]), "a");
        assert_eq!(of(&[("a", Some("b")), ("c", Some("b"))]), "b");
        // One pair, seen from both ends, has two.
        assert_eq!(of(&[("a", Some("b")), ("b", Some("a"))]), "");
        assert_eq!(of(&[("a", Some("b")), ("c", Some("d"))]), "");
        assert_eq!(of(&[("a", None), ("b", None)]), "");
    }
}
