//! Dumps that are missing, unusable or of another job, and calls that everybody made and nobody got through.

use std::collections::{BTreeMap, BTreeSet};

use super::p2p::Lanes;
use super::stand::{Inside, Stand};
use super::{Draft, Scene, Waits, at_site, cite};
use crate::engine::detect::draft::rank_names;
use crate::engine::detect::{ranges, wait};
use crate::engine::finding::Finding;
use crate::engine::ids::SourceId;
use crate::engine::vocab::Role;

/// Ranks that are cited.
const CITED: usize = 3;

/// Ranks that left no dump: those that the others wait for, if nothing else explains it; else a note.
pub(super) fn without_dump(
    scene: &Scene<'_>,
    stands: &[Stand<'_>],
    lanes: &Lanes<'_>,
    waits: &Waits,
    explained: bool,
) -> Option<Finding> {
    let world = scene.ranks.world.or(scene.recorded.world)?;
    let with: BTreeSet<u32> = scene.recorded.by_rank.keys().copied().collect();
    // A dump that cannot be read was left all the same.
    let left = |rank: &u32| with.contains(rank) || scene.recorded.unread.contains(rank);
    let without: BTreeSet<u32> = (0..world).filter(|rank| !left(rank)).collect();
    if with.is_empty() || without.is_empty() {
        return None;
    }
    let waiting: Vec<&Inside<'_>> = stands
        .iter()
        .filter_map(|stand| match stand {
            Stand::AllIn(inside) if !inside.unknown.is_empty() => Some(inside),
            _ => None,
        })
        .collect();
    let wanted: BTreeSet<u32> = waiting
        .iter()
        .flat_map(|i| i.unknown.iter().copied())
        .chain(lanes.absent.iter().map(|pair| pair.peer))
        .collect();
    let waiters: BTreeSet<u32> = waiting
        .iter()
        .flat_map(|i| i.ranks.iter().copied())
        .chain(lanes.absent.iter().map(|pair| pair.waits))
        .collect();
    // As many missing dumps as there are, or more: they were not collected, and say nothing.
    let few = without.len() < with.len() || world == 2;
    let accused: BTreeSet<u32> = if few {
        let roots = wanted.intersection(&waits.roots).copied();
        roots.filter(|rank| !left(rank)).collect()
    } else {
        BTreeSet::new()
    };
    // Prints of the program alone say nothing of how it ended.
    let alive = |rank: &u32| {
        let rec = scene.ranks.ranks.get(*rank as usize);
        rec.is_some_and(|rec| scene.records(rec).any(|record| record.of_a_job))
    };
    // Whoever has a log of NCCL's, PyTorch's or a launcher's is spoken for there.
    let accused = if explained || accused.iter().any(alive) {
        BTreeSet::new()
    } else {
        accused
    };
    let mut draft = Draft::new(scene, "FR001")?;
    let is_cause = !accused.is_empty() && wait::stands_still(scene);
    let named = if accused.is_empty() {
        &without
    } else {
        &accused
    };
    draft
        .named(named.iter().copied())
        .fact("waiting", ranges(waiters.iter().copied()))
        .ranks(named.iter().chain(&waiters).copied())
        .accuse(accused.iter().copied());
    if let Some(inside) = waiting.first() {
        let common = &scene.job.recorder.common;
        let entry = inside
            .ranks
            .iter()
            .find_map(|rank| inside.group.members[rank].at(inside.seq).first());
        if let Some(entry) = entry {
            let call = common.call(entry.call).words();
            draft.fact("call", format!("{call}{}", at_site(common, entry)));
        }
        draft
            .fact("comm", inside.group.name.clone())
            .fact("ordinal", inside.seq.to_string());
        draft.finding().comm = Some(inside.group.name.clone());
        for rank in inside.ranks.iter().take(CITED) {
            if let Some(entry) = inside.group.members[rank].at(inside.seq).first() {
                cite(scene, &mut draft, inside.group, *rank, entry);
            }
        }
    }
    for pair in lanes.absent.iter().take(CITED) {
        if waiting.is_empty() {
            let common = &scene.job.recorder.common;
            let call = common.call(pair.entry.call).words();
            draft
                .fact("call", format!("{call}{}", at_site(common, pair.entry)))
                .fact("comm", pair.group.name.clone());
            draft.finding().comm = Some(pair.group.name.clone());
        }
        cite(scene, &mut draft, pair.group, pair.waits, pair.entry);
    }
    if !is_cause {
        draft.note();
    }
    Some(draft.finish())
}

/// Everybody made the same call, and nobody is through it although the job stands still.
pub(super) fn all_in(scene: &Scene<'_>, stands: &[Stand<'_>]) -> Option<Finding> {
    if !wait::stands_still(scene) {
        return None;
    }
    let inside = stands.iter().find_map(|stand| match stand {
        Stand::AllIn(inside) if inside.unknown.is_empty() => {
            (inside.ranks.len() + inside.through.len() > 1).then_some(inside)
        }
        _ => None,
    })?;
    let common = &scene.job.recorder.common;
    let group = inside.group;
    let entry = inside
        .ranks
        .iter()
        .find_map(|rank| group.members[rank].at(inside.seq).first())?;
    let mut draft = Draft::new(scene, "FR003")?;
    draft
        .fact("call", common.call(entry.call).words())
        .fact("ordinal", inside.seq.to_string())
        .fact("comm", group.name.clone())
        .ranks(inside.ranks.iter().chain(&inside.through).copied());
    if !inside.through.is_empty() {
        let [stuck, through] = [&inside.ranks, &inside.through].map(|r| ranges(r.iter().copied()));
        draft.fact("stuck", stuck).fact("through", through);
    }
    draft.finding().comm = Some(group.name.clone());
    for rank in inside.ranks.iter().take(CITED) {
        if let Some(entry) = group.members[rank].at(inside.seq).first() {
            cite(scene, &mut draft, group, *rank, entry);
        }
    }
    Some(draft.finish())
}

/// Ranks stand in a call, and whether the others came is not known: their dumps are missing, or end before it.
pub(super) fn unknown(
    scene: &Scene<'_>,
    stands: &[Stand<'_>],
    lanes: &Lanes<'_>,
) -> Option<Finding> {
    if !wait::stands_still(scene) {
        return None;
    }
    let inside = stands.iter().find_map(|stand| match stand {
        Stand::AllIn(inside) if !inside.unknown.is_empty() => Some(inside),
        _ => None,
    });
    let (group, waiting, unknown, ordinal) = match (inside, lanes.absent.first()) {
        (Some(inside), _) => {
            let ordinal = inside.seq.to_string();
            (
                inside.group,
                inside.ranks.clone(),
                inside.unknown.clone(),
                ordinal,
            )
        }
        (None, Some(pair)) => {
            let (waits, peer) = (BTreeSet::from([pair.waits]), BTreeSet::from([pair.peer]));
            (pair.group, waits, peer, String::new())
        }
        (None, None) => return None,
    };
    let entry_of = |rank: &u32| match inside {
        Some(inside) => group.members[rank].at(inside.seq).first(),
        None => lanes.absent.first().map(|pair| pair.entry),
    };
    let common = &scene.job.recorder.common;
    let entry = waiting.iter().find_map(&entry_of)?;
    let mut draft = Draft::new(scene, "FR009")?;
    let dumps = lost(scene, &unknown);
    draft
        .fact("waiting", ranges(waiting.iter().copied()))
        .fact(
            "call",
            format!(
                "{}{}",
                common.call(entry.call).words(),
                at_site(common, entry)
            ),
        )
        .fact("ordinal", ordinal)
        .fact("comm", group.name.clone())
        .fact("dumps", dumps)
        .named(unknown.iter().copied())
        .ranks(waiting.iter().chain(&unknown).copied());
    draft.finding().comm = Some(group.name.clone());
    for rank in waiting.iter().take(CITED) {
        if let Some(entry) = entry_of(rank) {
            cite(scene, &mut draft, group, *rank, entry);
        }
    }
    Some(draft.finish())
}

/// Why these ranks' dumps do not say whether they came: `the dump of rank 2 cannot be read`.
fn lost(scene: &Scene<'_>, ranks: &BTreeSet<u32>) -> String {
    let recorded = scene.recorded;
    let (read, others): (Vec<u32>, Vec<u32>) = ranks
        .iter()
        .partition(|rank| recorded.by_rank.contains_key(rank));
    let is_cut = |rank: &u32| recorded.by_rank[rank].1.cut().is_some();
    let (cut, lost): (Vec<u32>, Vec<u32>) = read.into_iter().partition(is_cut);
    let (unread, missing): (Vec<u32>, Vec<u32>) = others
        .into_iter()
        .partition(|rank| recorded.unread.contains(rank));
    let kinds = [
        (cut, "ends before it", "end before it"),
        (
            lost,
            "holds none of these calls",
            "hold none of these calls",
        ),
        (unread, "cannot be read", "cannot be read"),
        (missing, "is missing", "are missing"),
    ];
    let words = kinds.into_iter().filter_map(|(of, one, many)| {
        let (noun, verb) = match of.len() {
            0 => return None,
            1 => ("dump", one),
            _ => ("dumps", many),
        };
        let names = rank_names(&of.into_iter().collect());
        Some(format!("the {noun} of {names} {verb}"))
    });
    words.collect::<Vec<String>>().join(" and ")
}

/// Dumps that could not be read, hold nothing, are nobody's or of an earlier run: each kind one note.
pub(super) fn unusable(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let recorder = &scene.job.recorder;
    // By whether some of it was read, and why not all.
    let mut kinds: BTreeMap<(bool, String), Vec<&str>> = BTreeMap::new();
    let mut add = |why: String, name| kinds.entry((false, why)).or_default().push(name);
    for (name, error) in recorder.unread.values() {
        add(error.to_string(), name.as_str());
    }
    let name = |id: &SourceId| {
        recorder
            .dumps
            .get(id)
            .map_or("", |taken| taken.name.as_str())
    };
    for id in &scene.recorded.nobodys {
        let why = "neither it nor its file's name says which rank wrote it";
        add(why.to_owned(), name(id));
    }
    for id in &scene.recorded.earlier {
        let why = "it ended before the others began: it is of an earlier run";
        add(why.to_owned(), name(id));
    }
    let placed = scene.recorded.by_rank.values().map(|(_, taken)| *taken);
    let silent = scene.recorded.silent.iter();
    let silent = silent.filter_map(|id| recorder.dumps.get(id));
    for taken in placed
        .clone()
        .chain(silent)
        .filter(|taken| taken.entries == 0)
    {
        let why = "it holds no call: the recorder was off (TORCH_FR_BUFFER_SIZE, before PyTorch 2.8 TORCH_NCCL_TRACE_BUFFER_SIZE)";
        add(why.to_owned(), taken.name.as_str());
    }
    for taken in placed {
        if let Some(cut) = taken.cut() {
            kinds.entry((true, cut)).or_default().push(&taken.name);
        }
    }
    for ((read, why), mut names) in kinds {
        names.sort_unstable();
        let Some(mut draft) = Draft::new(scene, "FR004") else {
            return;
        };
        let more = names.len().saturating_sub(CITED);
        let mut shown = names[..names.len() - more].join(", ");
        if more > 0 {
            shown.push_str(&format!(" and {more} more"));
        }
        draft.fact("dumps", shown).fact("problem", why);
        draft.fact("unread", if read { "" } else { "yes" });
        found.push(draft.finish());
    }
}

/// The logs are of a job of another size: the dumps are left out.
pub(super) fn of_another_job(scene: &Scene<'_>, found: &mut Vec<Finding>) -> bool {
    let Some((logs, dumps)) = scene.recorded.foreign else {
        return false;
    };
    if let Some(mut draft) = Draft::new(scene, "FR005") {
        draft
            .fact("one", format!("the logs are of {logs} ranks"))
            .fact("other", format!("the dumps of {dumps}: they are left out"));
        draft.finding().role = Role::Note;
        found.push(draft.finish());
    }
    true
}
