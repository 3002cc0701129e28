//! Sends without a recv, recvs without a send, and pairs that do not fit.
//!
//! Numbers of point-to-point calls count per process, so the nth send from one rank to another is matched with the
//! nth recv there; in rings that have wrapped only with what is not through yet.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, MOST_GROUPS, Scene, Waits, at_site, cite, site};
use crate::engine::detect::ranges;
use crate::engine::dump::{Common, Entry};
use crate::engine::finding::Finding;
use crate::engine::vocab::{Confidence, Role};
use crate::engine::witness::recorder::{GroupRec, Part};

/// A call whose partner is missing, or is not its like.
pub(super) struct Unmatched<'a> {
    group: &'a GroupRec<'a>,
    /// The rank that waits.
    pub(super) waits: u32,
    /// For whom.
    pub(super) peer: u32,
    /// In what.
    pub(super) entry: &'a Entry,
    /// The partner, where there is one that does not fit.
    other: Option<&'a Entry>,
}

/// What one rank called towards one peer.
#[derive(Default)]
struct Lane<'a> {
    sends: Vec<&'a Entry>,
    recvs: Vec<&'a Entry>,
}

/// Calls that wait for a partner who never comes.
pub(super) fn unmatched<'a>(common: &Common, groups: &'a [GroupRec<'a>]) -> Vec<Unmatched<'a>> {
    let mut found = Vec::new();
    for group in groups {
        let lanes: BTreeMap<u32, BTreeMap<u32, Lane<'a>>> = group
            .members
            .iter()
            .filter(|(_, part)| !part.calls.p2p.is_empty())
            .map(|(rank, part)| (*rank, lanes(common, group, part)))
            .collect();
        let nothing = Lane::default();
        for (rank, towards) in &lanes {
            for (peer, mine) in towards {
                let Some(part) = group.members.get(peer) else {
                    continue;
                };
                let theirs = lanes
                    .get(peer)
                    .and_then(|lanes| lanes.get(rank))
                    .unwrap_or(&nothing);
                let wrapped = part.wrapped || group.members[rank].wrapped;
                for (mine, theirs, first) in [
                    (&mine.sends, &theirs.recvs, true),
                    (&mine.recvs, &theirs.sends, false),
                ] {
                    let found_one = match_up(common, group, mine, theirs, wrapped, first);
                    found.extend(found_one.map(|(entry, other)| Unmatched {
                        group,
                        waits: *rank,
                        peer: *peer,
                        entry,
                        other,
                    }));
                }
            }
        }
    }
    found
}

fn lanes<'a>(common: &Common, group: &GroupRec<'a>, part: &Part<'a>) -> BTreeMap<u32, Lane<'a>> {
    let mut lanes: BTreeMap<u32, Lane<'a>> = BTreeMap::new();
    for entry in &part.calls.p2p {
        let Some(peers) = common.call(entry.call).peers else {
            continue;
        };
        let Some(peer) = peers.peer.and_then(|peer| group.world_rank(peer)) else {
            continue;
        };
        let lane = lanes.entry(peer).or_default();
        if peers.send {
            lane.sends.push(entry);
        } else {
            lane.recvs.push(entry);
        }
    }
    lanes
}

/// The first of mine that waits and has no partner, or one that does not fit. A pair that does not fit is told
/// from one side only.
fn match_up<'a>(
    common: &Common,
    group: &GroupRec<'_>,
    mine: &[&'a Entry],
    theirs: &[&'a Entry],
    wrapped: bool,
    tells_pairs: bool,
) -> Option<(&'a Entry, Option<&'a Entry>)> {
    let waits = |e: &&&Entry| !group.is_done(e);
    if wrapped {
        let first = mine.iter().find(waits)?;
        return theirs
            .iter()
            .all(|e| group.is_done(e))
            .then_some((*first, None));
    }
    for (at, entry) in mine.iter().enumerate() {
        match theirs.get(at) {
            Some(other) if tells_pairs => {
                let fits = common.call(entry.call).moved() == common.call(other.call).moved();
                if !fits && (!group.is_done(entry) || !group.is_done(other)) {
                    return Some((*entry, Some(*other)));
                }
            }
            Some(_) => {}
            None if !group.is_done(entry) => return Some((*entry, None)),
            None => {}
        }
    }
    None
}

pub(super) fn findings(scene: &Scene<'_>, pairs: &[Unmatched<'_>], waits: &Waits) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut told: BTreeSet<(u32, u32)> = BTreeSet::new();
    for pair in pairs {
        let back = pairs.iter().find(|other| {
            (other.waits, other.peer) == (pair.peer, pair.waits) && other.other.is_none()
        });
        let finding = match (pair.other, back) {
            (Some(other), _) => differs(scene, pair, other),
            (None, Some(back)) if told.contains(&(back.waits, back.peer)) => None,
            (None, Some(back)) => both_wait(scene, pair, back),
            (None, None) => alone(scene, pair, waits),
        };
        told.insert((pair.waits, pair.peer));
        found.extend(finding);
        if found.len() == MOST_GROUPS {
            break;
        }
    }
    found
}

/// A send and its recv of another size or type.
fn differs(scene: &Scene<'_>, pair: &Unmatched<'_>, other: &Entry) -> Option<Finding> {
    let common = &scene.job.recorder.common;
    let words = |e: &Entry| format!("{}{}", common.call(e.call).words(), at_site(common, e));
    let (a, b) = (
        common.call(pair.entry.call).moved(),
        common.call(other.call).moved(),
    );
    let mut draft = Draft::new(scene, "COLL002")?;
    draft
        .fact("comm", pair.group.name.clone())
        .fact("minority", pair.waits.to_string())
        .fact("minority_call", words(pair.entry))
        .fact("majority", pair.peer.to_string())
        .fact("majority_call", words(other))
        .fact("aspect", if a.1 == b.1 { "size" } else { "datatype" })
        .ranks([pair.waits, pair.peer])
        .sure(Confidence::Certain);
    draft.finding().comm = Some(pair.group.name.clone());
    cite(scene, &mut draft, pair.group, pair.waits, pair.entry);
    cite(scene, &mut draft, pair.group, pair.peer, other);
    Some(draft.finish())
}

/// Both send, or both receive: each waits for the other.
fn both_wait(scene: &Scene<'_>, pair: &Unmatched<'_>, back: &Unmatched<'_>) -> Option<Finding> {
    let common = &scene.job.recorder.common;
    let words = |e: &Entry| format!("{}{}", common.call(e.call).words(), at_site(common, e));
    let mut draft = Draft::new(scene, "COLL007")?;
    draft
        .fact("comm", pair.group.name.clone())
        .fact("minority", pair.waits.to_string())
        .fact("minority_call", words(pair.entry))
        .fact("majority", back.waits.to_string())
        .fact("majority_call", words(back.entry))
        .ranks([pair.waits, back.waits]);
    draft.finding().comm = Some(pair.group.name.clone());
    cite(scene, &mut draft, pair.group, pair.waits, pair.entry);
    cite(scene, &mut draft, back.group, back.waits, back.entry);
    Some(draft.finish())
}

fn alone(scene: &Scene<'_>, pair: &Unmatched<'_>, waits: &Waits) -> Option<Finding> {
    let common = &scene.job.recorder.common;
    let call = common.call(pair.entry.call);
    let send = call.peers.is_some_and(|peers| peers.send);
    let peer = BTreeSet::from([pair.peer]);
    let mut draft = Draft::new(scene, "FR002")?;
    draft
        .fact("comm", pair.group.name.clone())
        .fact("waiting", ranges([pair.waits]))
        .fact("call", call.words())
        .fact("wanted", if send { "recv" } else { "send" })
        .fact("at", site(common, pair.entry).unwrap_or_default())
        .named([pair.peer])
        .ranks([pair.waits, pair.peer])
        .accuse(peer.intersection(&waits.roots).copied());
    if waits.is_symptom(&peer) {
        draft.finding().role = Role::Symptom;
    }
    draft.finding().comm = Some(pair.group.name.clone());
    cite(scene, &mut draft, pair.group, pair.waits, pair.entry);
    let last = pair.group.members.get(&pair.peer);
    let last = last.and_then(|part| {
        part.calls
            .p2p
            .iter()
            .chain(&part.calls.collectives)
            .max_by_key(|e| e.record_id)
    });
    if let Some(last) = last {
        cite(scene, &mut draft, pair.group, pair.peer, last);
    }
    Some(draft.finish())
}
