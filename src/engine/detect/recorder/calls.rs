//! Ranks that called different things as the same call of a group.

use std::collections::BTreeSet;

use super::stand::{Side, Split, parts, same};
use super::{Draft, Scene, at_site, cite};
use crate::engine::detect::{ranges, wait};
use crate::engine::dump::{Common, Entry};
use crate::engine::finding::{CallSide, Divergence, Finding};
use crate::engine::limits;
use crate::engine::vocab::Confidence;

/// Calls looked at behind the first difference, to tell an order that differs from a single slip.
const WINDOW: u32 = 16;
/// Ranks of each side that are cited.
const CITED: usize = 4;

pub(super) fn finding(scene: &Scene<'_>, stand: &super::Stand<'_>) -> Option<Finding> {
    let super::Stand::Differs(split) = stand else {
        return None;
    };
    let common = &scene.job.recorder.common;
    let (group, sides) = (split.group, &split.sides);
    let (major, minor) = (sides.first()?, sides.get(1)?);
    let others: usize = sides[1..].iter().map(|side| side.ranks.len()).sum();
    let majority = major.ranks.len() > others;
    let id = match (went_on(scene, split), swapped(common, split), majority) {
        (true, ..) => "COLL004",
        (_, true, _) => "COLL003",
        (_, _, true) => "COLL001",
        (_, _, false) => "COLL002",
    };
    let (odd, usual) = telling(common, minor.entries, major.entries);
    let words = |side: &Side<'_>, entry: &Entry, other: &Entry| {
        let call = common
            .call(entry.call)
            .words_beside(common.call(other.call));
        let several = several(common, split, side).unwrap_or_default();
        format!("{several}{call}{}", at_site(common, entry))
    };
    let aspect = common.call(usual.call).difference(common.call(odd.call));
    let mut draft = Draft::new(scene, id)?;
    draft
        .fact("ordinal", split.seq.to_string())
        .fact("comm", group.name.clone())
        .fact("minority", ranges(minor.ranks.iter().copied()))
        .fact("minority_call", words(minor, odd, usual))
        .fact("went_on", if id == "COLL004" { "yes" } else { "" })
        .fact("majority", ranges(major.ranks.iter().copied()))
        .fact("majority_call", words(major, usual, odd))
        .fact("aspect", aspect.unwrap_or("number of calls"))
        .ranks(sides.iter().flat_map(|side| side.ranks.iter().copied()))
        .sure(Confidence::Certain);
    if majority {
        let odd: BTreeSet<u32> = sides[1..]
            .iter()
            .flat_map(|s| s.ranks.iter().copied())
            .collect();
        draft.accuse(odd);
    }
    draft.finding().comm = Some(group.name.clone());
    for side in sides[1..].iter().chain(&sides[..1]) {
        show(scene, &mut draft, split, side);
    }
    draft.finding().calls = Some(Divergence {
        ordinal: u64::from(split.seq),
        sides: sides
            .iter()
            .take(limits::SIDES)
            .map(|side| {
                let against = if side.ranks == major.ranks {
                    minor
                } else {
                    major
                };
                let pair = telling(common, side.entries, against.entries);
                let several = several(common, split, side);
                called(common, side, several, pair)
            })
            .collect(),
        more: sides.len().saturating_sub(limits::SIDES),
        majority,
    });
    draft.sites(common_sites(common, split));
    Some(draft.finish())
}

/// The first pair of entries that differ, of calls that may be several each.
fn telling<'e>(common: &Common, a: &'e [Entry], b: &'e [Entry]) -> (&'e Entry, &'e Entry) {
    let (a, b) = (parts(common, a), parts(common, b));
    let mut pairs = a.iter().zip(&b);
    let pair = pairs.find(|(a, b)| !common.alike(a.call, b.call));
    pair.map_or((a[0], b[0]), |(a, b)| (*a, *b))
}

/// `3 coalesced calls with `, where the sides made another number of them.
fn several(common: &Common, split: &Split<'_>, side: &Side<'_>) -> Option<String> {
    let number = |side: &Side<'_>| parts(common, side.entries).len();
    let alike = split
        .sides
        .iter()
        .all(|other| number(other) == number(side));
    let calls = match number(side) {
        1 => "one call, ".to_owned(),
        n => format!("{n} coalesced calls with "),
    };
    (!alike).then_some(calls)
}

/// A side as it is shown; a dump records neither reduction nor root.
fn called(
    common: &Common,
    side: &Side<'_>,
    several: Option<String>,
    (entry, other): (&Entry, &Entry),
) -> CallSide {
    let call = common.call(entry.call);
    let (count, datatype) = call.moved_beside(common.call(other.call));
    CallSide {
        ranks: side.ranks.clone(),
        function: format!("{}{}", several.unwrap_or_default(), call.function()),
        count,
        datatype,
        frames: entry
            .stack
            .map(|stack| common.frames(stack))
            .unwrap_or_default(),
        ..CallSide::default()
    }
}

fn show(scene: &Scene<'_>, draft: &mut Draft<'_>, split: &Split<'_>, side: &Side<'_>) {
    for rank in side.ranks.iter().take(CITED) {
        let entries = split.group.members[rank].at(split.seq);
        if let Some(entry) = entries.first() {
            cite(scene, draft, split.group, *rank, entry);
        }
    }
}

/// `rank 1 is at train.py:212 (main), ranks 0, 2-7 are at train.py:208 (main)`
fn common_sites(common: &Common, split: &Split<'_>) -> Option<String> {
    let of = |side: &Side<'_>| {
        let site = super::site(common, &side.entries[0])?;
        let call = common.call(side.entries[0].call).function();
        let one = side.ranks.len() == 1;
        let left = side.entries.iter().all(|entry| split.group.is_done(entry));
        let (rank, is) = match (one, left) {
            (true, false) => ("rank", "is in"),
            (false, false) => ("ranks", "are in"),
            (true, true) => ("rank", "was through with"),
            (false, true) => ("ranks", "were through with"),
        };
        Some(format!(
            "{rank} {} {is} {call} at {site}",
            ranges(side.ranks.iter().copied())
        ))
    };
    let sites: Vec<String> = split
        .sides
        .iter()
        .skip(1)
        .chain(&split.sides[..1])
        .filter_map(of)
        .collect();
    (sites.len() == split.sides.len()).then(|| sites.join(", "))
}

/// Every rank is through the call: the job went on with wrong data. What holds it now, if anything, is not this.
fn went_on(scene: &Scene<'_>, split: &Split<'_>) -> bool {
    if split.over {
        return true;
    }
    let group = split.group;
    let through = split.sides.iter().flat_map(|side| &side.ranks).all(|rank| {
        let entries = group.members[rank].at(split.seq);
        entries.iter().all(|e| group.is_done(e))
    });
    let everybody = split
        .sides
        .iter()
        .map(|side| side.ranks.len())
        .sum::<usize>()
        == group.members.len();
    through && everybody && group.tells_completion() && !wait::stands_still(scene)
}

/// True if each side makes the other's call a little later: the order differs.
fn swapped(common: &Common, split: &Split<'_>) -> bool {
    let (a, b) = (&split.sides[0], &split.sides[1]);
    let makes_later = |side: &Side<'_>, entries: &[Entry]| {
        let part = &split.group.members[&side.ranks[0]];
        let later = (split.seq + 1)..split.seq.saturating_add(1 + WINDOW);
        later
            .map(|seq| part.at(seq))
            .take_while(|made| !made.is_empty())
            .any(|made| same(common, made, entries))
    };
    makes_later(a, b.entries) && makes_later(b, a.entries)
}
