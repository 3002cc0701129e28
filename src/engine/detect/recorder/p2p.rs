//! Sends without a recv, recvs without a send, and pairs that do not fit.
//!
//! Numbers of point-to-point calls count per process, so the nth send from one rank to another is matched with the
//! nth recv there; in rings that have wrapped only with what is not through yet.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, MOST_GROUPS, Scene, Waits, at_site, cite, site};
use crate::engine::detect::{ranges, wait};
use crate::engine::dump::{Common, Entry};
use crate::engine::finding::Finding;
use crate::engine::vocab::{Confidence, Role};
use crate::engine::witness::recorder::{GroupRec, Part};

/// Calls that are cited.
const CITED: usize = 4;

/// A call whose partner is missing, or is not its like.
pub(super) struct Unmatched<'a> {
    pub(super) group: &'a GroupRec<'a>,
    /// The rank that waits.
    pub(super) waits: u32,
    /// For whom.
    pub(super) peer: u32,
    /// In what.
    pub(super) entry: &'a Entry,
    /// The partner, where there is one that does not fit.
    other: Option<&'a Entry>,
}

/// A call that has its partner, and stands all the same.
pub(super) struct Open<'a> {
    group: &'a GroupRec<'a>,
    rank: u32,
    peer: u32,
    entry: &'a Entry,
    /// The partner is not through either.
    both: bool,
}

/// How the point-to-point calls of all ranks stand.
#[derive(Default)]
pub(super) struct Lanes<'a> {
    /// Calls that wait for a partner who never comes, or is not their like.
    pub(super) unmatched: Vec<Unmatched<'a>>,
    /// Calls that wait for somebody without a dump, or with one that is cut, who may have called or not.
    pub(super) absent: Vec<Unmatched<'a>>,
    /// Calls that have their partner.
    open: Vec<Open<'a>>,
}

/// What one rank called towards one peer.
#[derive(Default)]
struct Lane<'a> {
    sends: Vec<&'a Entry>,
    recvs: Vec<&'a Entry>,
}

impl<'a> Lanes<'a> {
    pub(super) fn of(common: &Common, groups: &'a [GroupRec<'a>]) -> Self {
        let mut all = Self::default();
        for group in groups {
            all.add(common, group);
        }
        all
    }

    /// Somebody stands in a call.
    pub(super) fn any_stands(&self) -> bool {
        let open = self.open.iter().any(|open| open.both);
        open || !self.unmatched.is_empty() || !self.absent.is_empty()
    }

    /// Ranks that stand in a call whose partner came. A batch is over only as a whole: who shares an open pair with a
    /// rank that waits for somebody waits for that one.
    pub(super) fn held(&self) -> BTreeSet<u32> {
        let alone = self.unmatched.iter().filter(|pair| pair.other.is_none());
        let mut waits: BTreeSet<u32> = alone.chain(&self.absent).map(|pair| pair.waits).collect();
        let mut open: Vec<&Open<'_>> = self.open.iter().collect();
        loop {
            let known = open.len();
            open.retain(|open| {
                let led = waits.contains(&open.rank) || (open.both && waits.contains(&open.peer));
                if led {
                    waits.insert(open.rank);
                }
                !led
            });
            if open.len() == known {
                return open.iter().map(|open| open.rank).collect();
            }
        }
    }

    fn add(&mut self, common: &Common, group: &'a GroupRec<'a>) {
        let lanes: BTreeMap<u32, BTreeMap<u32, Lane<'a>>> = group
            .members
            .iter()
            .filter(|(_, part)| !part.calls.p2p.is_empty())
            .map(|(rank, part)| (*rank, lanes(common, group, part)))
            .collect();
        let nothing = Lane::default();
        for (rank, towards) in &lanes {
            for (peer, mine) in towards {
                let unmatched = |entry, other| Unmatched {
                    group,
                    waits: *rank,
                    peer: *peer,
                    entry,
                    other,
                };
                let Some(part) = group.members.get(peer) else {
                    let mut all = mine.sends.iter().chain(&mine.recvs);
                    let waits = all.find(|entry| !group.is_done(entry));
                    self.absent
                        .extend(waits.map(|entry| unmatched(*entry, None)));
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
                    match match_up(common, group, mine, theirs, wrapped, first) {
                        // What is behind the cut of a dump may be the partner.
                        Some(Standing::Alone(entry)) if part.cut => {
                            self.absent.push(unmatched(entry, None));
                        }
                        Some(Standing::Alone(entry)) => {
                            self.unmatched.push(unmatched(entry, None));
                        }
                        Some(Standing::Differs(entry, other)) => {
                            self.unmatched.push(unmatched(entry, Some(other)));
                        }
                        Some(Standing::Open { entry, both }) => self.open.push(Open {
                            group,
                            rank: *rank,
                            peer: *peer,
                            entry,
                            both,
                        }),
                        None => {}
                    }
                }
            }
        }
    }
}

/// The first call of a lane that stands.
enum Standing<'a> {
    /// It has no partner.
    Alone(&'a Entry),
    /// Its partner does not fit.
    Differs(&'a Entry, &'a Entry),
    /// Its partner fits.
    Open { entry: &'a Entry, both: bool },
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

/// The first of mine that waits. A pair that does not fit is told from one side only.
fn match_up<'a>(
    common: &Common,
    group: &GroupRec<'_>,
    mine: &[&'a Entry],
    theirs: &[&'a Entry],
    wrapped: bool,
    tells_pairs: bool,
) -> Option<Standing<'a>> {
    let done = |entry: &Entry| group.is_done(entry);
    if wrapped {
        let entry = *mine.iter().find(|entry| !done(entry))?;
        let both = theirs.iter().any(|entry| !done(entry));
        return Some(if both {
            Standing::Open { entry, both }
        } else {
            Standing::Alone(entry)
        });
    }
    let mut open = None;
    for (at, entry) in mine.iter().enumerate() {
        let stands = !done(entry);
        match theirs.get(at) {
            None if stands => return open.or(Some(Standing::Alone(entry))),
            None => {}
            Some(other) => {
                let fits = common.call(entry.call).moved() == common.call(other.call).moved();
                if !fits {
                    if tells_pairs && (stands || !done(other)) {
                        return Some(Standing::Differs(entry, other));
                    }
                } else if stands && open.is_none() {
                    let both = !done(other);
                    open = Some(Standing::Open { entry, both });
                }
            }
        }
    }
    open
}

/// A send and its recv that fit, both made and neither through, in a job that stands still.
pub(super) fn stalled(scene: &Scene<'_>, lanes: &Lanes<'_>) -> Option<Finding> {
    if !wait::stands_still(scene) {
        return None;
    }
    let common = &scene.job.recorder.common;
    let held = lanes.held();
    let stalled = || {
        let open = lanes.open.iter();
        open.filter(|open| open.both && held.contains(&open.rank))
    };
    let pair = stalled().next()?;
    let mut draft = Draft::new(scene, "FR008")?;
    draft
        .fact("call", common.call(pair.entry.call).words())
        .fact("at", site(common, pair.entry).unwrap_or_default())
        .fact("comm", pair.group.name.clone())
        .named([pair.rank, pair.peer])
        .ranks([pair.rank, pair.peer]);
    draft.finding().comm = Some(pair.group.name.clone());
    for open in stalled().take(CITED) {
        cite(scene, &mut draft, open.group, open.rank, open.entry);
    }
    Some(draft.finish())
}

pub(super) fn findings(scene: &Scene<'_>, pairs: &[Unmatched<'_>], waits: &Waits) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut told: BTreeSet<(u32, u32)> = BTreeSet::new();
    let back = |pair: &Unmatched<'_>| {
        pairs.iter().find(|other| {
            (other.waits, other.peer) == (pair.peer, pair.waits) && other.other.is_none()
        })
    };
    for pair in pairs {
        let finding = match (pair.other, back(pair)) {
            (Some(other), _) => differs(scene, pair, other),
            (None, Some(back)) if told.contains(&(back.waits, back.peer)) => None,
            (None, Some(back)) => both_wait(scene, pair, back),
            (None, None) if told.contains(&(pair.waits, pair.peer)) => None,
            (None, None) => {
                // Everybody who waits for the same peer is told of at once.
                let same = |other: &&Unmatched<'_>| {
                    let group = std::ptr::eq(other.group, pair.group);
                    group && other.peer == pair.peer && other.other.is_none()
                };
                let others = pairs.iter().filter(same);
                let others: Vec<&Unmatched<'_>> = others.filter(|o| back(o).is_none()).collect();
                told.extend(others.iter().map(|other| (other.waits, other.peer)));
                alone(scene, pair, &others, waits)
            }
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

/// `all` wait for this pair's peer, the pair's rank among them.
fn alone(
    scene: &Scene<'_>,
    pair: &Unmatched<'_>,
    all: &[&Unmatched<'_>],
    waits: &Waits,
) -> Option<Finding> {
    let common = &scene.job.recorder.common;
    let call = common.call(pair.entry.call);
    let send = call.peers.is_some_and(|peers| peers.send);
    let peer = BTreeSet::from([pair.peer]);
    let also: BTreeSet<u32> = all.iter().map(|other| other.waits).collect();
    let also: BTreeSet<u32> = also.into_iter().filter(|r| *r != pair.waits).collect();
    let mut draft = Draft::new(scene, "FR002")?;
    draft
        .fact("comm", pair.group.name.clone())
        .fact("waiting", ranges([pair.waits]))
        .fact("call", call.words())
        .fact("wanted", if send { "recv" } else { "send" })
        .fact("at", site(common, pair.entry).unwrap_or_default())
        .fact("also", ranges(also.iter().copied()))
        .named([pair.peer])
        .ranks([pair.waits, pair.peer])
        .ranks(also.iter().copied())
        .accuse(peer.intersection(&waits.roots).copied());
    if waits.is_symptom(&peer) {
        draft.finding().role = Role::Symptom;
    }
    draft.finding().comm = Some(pair.group.name.clone());
    let mut cited = BTreeSet::new();
    for other in all
        .iter()
        .filter(|other| cited.insert(other.waits))
        .take(CITED)
    {
        cite(scene, &mut draft, other.group, other.waits, other.entry);
    }
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
