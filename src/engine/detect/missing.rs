//! Ranks that never came: to the store, to a communicator's init, to a collective.

use std::collections::BTreeSet;

use super::mismatch::{comm_name, comm_words, world_ranks};
use super::{Draft, Scene, missing_calls, ranges, wait};
use crate::engine::finding::Finding;
use crate::engine::job::{CommRec, RankRec};
use crate::engine::vocab::{Confidence, Phase};

/// Communicators that are reported at most.
const MOST_COMMS: usize = 8;

/// Adds findings for ranks that others wait for.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let before = found.len();
    found.extend(
        scene
            .ranks
            .comms
            .iter()
            .filter_map(|c| absent_from_init(scene, c))
            .take(MOST_COMMS),
    );
    found.extend(not_in_bootstrap(scene));
    at_store(scene, found);
    barrier(scene, found);
    if found.len() == before && !found.iter().any(|f| f.id == "RANK003") {
        found.extend(not_at_rendezvous(scene));
    }
    missing_calls::detect(scene, found);
}

/// The absent ranks split by what is known of them.
struct Absent {
    /// A log of the rank was given; it may be empty.
    with_log: BTreeSet<u32>,
    /// No log of it was given.
    without_log: BTreeSet<u32>,
}

impl Absent {
    fn of(scene: &Scene<'_>, ranks: impl IntoIterator<Item = u32>) -> Self {
        let has_log = |rank: &u32| {
            scene
                .ranks
                .ranks
                .get(*rank as usize)
                .is_some_and(|r| r.has_source)
        };
        let (with_log, without_log) = ranks.into_iter().partition(has_log);
        Self {
            with_log,
            without_log,
        }
    }

    /// Whom to point at: those whose log shows that they are not there; without such a log, those
    /// without any, unless they are as many as the ranks that wait: then the logs were not given.
    fn accused(&self, waiting: usize) -> (BTreeSet<u32>, Confidence) {
        if !self.with_log.is_empty() {
            let confidence = if self.without_log.is_empty() {
                Confidence::Likely
            } else {
                Confidence::Possible
            };
            return (self.with_log.clone(), confidence);
        }
        if self.without_log.len() < waiting {
            return (self.without_log.clone(), Confidence::Likely);
        }
        (BTreeSet::new(), Confidence::Possible)
    }

    /// `yes` if the log of every one of them was given.
    fn logged(&self) -> &'static str {
        if self.without_log.is_empty() && !self.with_log.is_empty() {
            "yes"
        } else {
            ""
        }
    }

    /// Asks for the logs; without a single one of them nobody knows that their ranks did not come.
    fn ask(&self, draft: &mut Draft<'_>) {
        if self.without_log.is_empty() {
            return;
        }
        draft.missing(format!(
            "{}: did it start at all, and what did it print last?",
            super::logs::logs_of(self.without_log.iter().copied())
        ));
        if self.with_log.is_empty() {
            draft.fact(
                "came",
                if self.without_log.len() == 1 {
                    "is not seen in"
                } else {
                    "are not seen in"
                },
            );
        }
    }
}

/// A communicator that some ranks wait in while others never started its init.
fn absent_from_init(scene: &Scene<'_>, comm: &CommRec) -> Option<Finding> {
    let waiting: Vec<u32> = comm
        .members
        .iter()
        .filter(|(_, m)| {
            let member = &scene.job.members[m.ix()];
            member.known_start && !member.complete && !member.ended
        })
        .map(|(rank, _)| *rank)
        .collect();
    let complete = comm
        .members
        .values()
        .any(|m| scene.job.members[m.ix()].complete);
    // Looked at first: there may be as many communicators as ranks.
    if waiting.is_empty() || complete {
        return None;
    }
    // Up to 2.22 START comes only after the bootstrap: such a rank has come all the same.
    let inside = |rank: u32| {
        let rec = scene.ranks.ranks.get(rank as usize);
        comm.is_world && rec.is_some_and(|rec| in_bootstrap(scene, rec) || is_beyond(scene, rec))
    };
    let absent: Vec<u32> = (0..comm.nranks)
        .filter(|rank| !comm.members.contains_key(rank) && !inside(*rank))
        .collect();
    if absent.is_empty() {
        return None;
    }
    let world = if comm.is_world {
        absent.clone()
    } else {
        elsewhere(scene, comm, absent.len())
    };
    let known = Absent::of(scene, world);
    let (accused, confidence) = known.accused(waiting.len());
    let mut draft = Draft::new(scene, "RANK002")?;
    draft
        .fact("comm", comm_words(scene, comm))
        .fact("nranks", comm.nranks.to_string())
        .fact("absent", ranges(absent.iter().copied()))
        .fact("present", ranges(waiting.iter().copied()))
        .fact("logged", known.logged())
        .fact("mute", mute(scene, &accused))
        .fact("empty", empty(scene, &accused))
        .fact("further", further(scene, comm, &accused))
        .ranks(world_ranks(scene, comm, &waiting))
        .accuse(accused)
        .sure(confidence);
    known.ask(&mut draft);
    draft.finding().comm = Some(comm_name(scene, comm));
    for rank in waiting.iter().take(3) {
        let member = scene.member(comm, *rank)?;
        if let Some(line) = &member.start_line {
            draft.evidence(line, scene.ranks.world_rank(scene.job, comm, *rank));
        }
    }
    last_words(scene, &mut draft);
    Some(draft.build())
}

/// The last lines of the accused: where they are instead.
fn last_words(scene: &Scene<'_>, draft: &mut Draft<'_>) {
    let accused: Vec<u32> = draft.finding().accused.iter().copied().take(3).collect();
    for rank in accused {
        let Some(rec) = scene.ranks.ranks.get(rank as usize) else {
            continue;
        };
        if let Some(last) = super::stack::last_words(scene, rec) {
            draft.evidence(last, Some(rank));
        }
    }
}

/// The ranks that a group smaller than the world waits for, if there is only one way: as many ranks
/// as are missing belong to no communicator that is open or newer.
fn elsewhere(scene: &Scene<'_>, comm: &CommRec, missing: usize) -> Vec<u32> {
    let members: BTreeSet<u32> = comm
        .members
        .keys()
        .filter_map(|rank| scene.ranks.world_rank(scene.job, comm, *rank))
        .collect();
    let rank_of = |member: &crate::engine::job::MemberIx| {
        scene.ranks.rank_of(scene.job.members[member.ix()].writer)
    };
    // Ranks that are in another group of the same size are busy there.
    let busy: BTreeSet<u32> = scene
        .ranks
        .comms
        .iter()
        .filter(|c| c.ix != comm.ix && c.nranks == comm.nranks)
        .flat_map(|c| c.members.values().filter_map(rank_of).collect::<Vec<_>>())
        .collect();
    let free: Vec<u32> = scene
        .ranks
        .ranks
        .iter()
        .map(|r| r.rank)
        .filter(|rank| !members.contains(rank) && !busy.contains(rank))
        .collect();
    if free.len() == missing {
        free
    } else {
        Vec::new()
    }
}

/// It chose its network and printed no START.
fn in_bootstrap(scene: &Scene<'_>, rec: &RankRec) -> bool {
    scene.records(rec).any(|r| r.network.is_some())
        && scene.records(rec).all(|r| r.members.is_empty())
}

/// It does what comes only behind the START that its log does not show: the log's head is cut off.
fn is_beyond(scene: &Scene<'_>, rec: &RankRec) -> bool {
    scene.records(rec).all(|r| r.members.is_empty())
        && scene
            .records(rec)
            .any(|r| r.phase >= Phase::Topology || r.network.is_none() && !r.connects.is_empty())
}

/// Those of the ranks that printed something and nothing of NCCL.
fn mute(scene: &Scene<'_>, ranks: &BTreeSet<u32>) -> String {
    those(scene, ranks, |rec| {
        rec.lines > 0 && scene.records(rec).all(|r| r.pid.is_none())
    })
}

/// Those of the ranks whose log is there and has not one line.
fn empty(scene: &Scene<'_>, ranks: &BTreeSet<u32>) -> String {
    those(scene, ranks, |rec| rec.has_source && !rec.was_seen())
}

/// Those of the ranks that are so.
fn those(scene: &Scene<'_>, ranks: &BTreeSet<u32>, is: impl Fn(&RankRec) -> bool) -> String {
    let are = ranks.iter().copied().filter(|rank| {
        let rec = scene.ranks.ranks.get(*rank as usize);
        rec.is_some_and(&is)
    });
    ranges(are)
}

/// Those of the ranks that share another communicator, which stands, with one of those that wait: they came
/// once, and it is a further group that they did not make.
fn further(scene: &Scene<'_>, comm: &CommRec, ranks: &BTreeSet<u32>) -> String {
    let world = |comm: &CommRec, rank: &u32| scene.ranks.world_rank(scene.job, comm, *rank);
    let waiting: BTreeSet<u32> = comm.members.keys().filter_map(|r| world(comm, r)).collect();
    let mut shared: BTreeSet<u32> = BTreeSet::new();
    for other in scene.ranks.comms.iter().filter(|c| c.ix != comm.ix) {
        let complete = other
            .members
            .iter()
            .filter(|(_, m)| scene.job.members[m.ix()].complete);
        let of_it: BTreeSet<u32> = complete
            .filter_map(|(rank, _)| world(other, rank))
            .collect();
        if !of_it.is_disjoint(&waiting) {
            shared.extend(of_it);
        }
    }
    ranges(ranks.intersection(&shared).copied())
}

/// Up to 2.22 START is printed only after the bootstrap: ranks that wait in it end with
/// `Using network`, the missing ones have no such line.
fn not_in_bootstrap(scene: &Scene<'_>) -> Option<Finding> {
    let ranks = scene.ranks.ranks.iter();
    let waiting: Vec<&RankRec> = ranks.filter(|rec| in_bootstrap(scene, rec)).collect();
    let absent: Vec<u32> = scene
        .ranks
        .ranks
        .iter()
        .filter(|rec| {
            scene
                .records(rec)
                .all(|r| r.network.is_none() && r.members.is_empty())
        })
        .map(|rec| rec.rank)
        .collect();
    if waiting.is_empty() || absent.is_empty() || !scene.ranks.comms.is_empty() {
        return None;
    }
    let known = Absent::of(scene, absent.iter().copied());
    let (accused, confidence) = known.accused(waiting.len());
    let mut draft = Draft::new(scene, "RANK002")?;
    draft
        .fact("absent", ranges(absent.iter().copied()))
        .fact("present", ranges(waiting.iter().map(|r| r.rank)))
        .fact("logged", known.logged())
        .fact("mute", mute(scene, &accused))
        .fact("empty", empty(scene, &accused))
        .fact(
            "nranks",
            scene.ranks.world.map(|w| w.to_string()).unwrap_or_default(),
        )
        .ranks(waiting.iter().map(|r| r.rank))
        .accuse(accused)
        .sure(confidence);
    known.ask(&mut draft);
    for rec in waiting.iter().take(3) {
        for (_, line) in scene.records(rec).filter_map(|r| r.network.as_ref()) {
            draft.evidence(line, Some(rec.rank));
        }
    }
    last_words(scene, &mut draft);
    Some(draft.build())
}

/// `14/16 clients joined`: who is missing follows from whose log is absent or empty.
fn at_store(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let Some((_, store)) = scene
        .all_records()
        .find_map(|(rank, r)| Some((rank, r.store.as_ref()?)))
    else {
        return;
    };
    if store.joined >= store.of {
        return;
    }
    let missing = (store.of - store.joined) as usize;
    let silent: BTreeSet<u32> = scene
        .ranks
        .ranks
        .iter()
        .filter(|r| !r.was_seen())
        .map(|r| r.rank)
        .collect();
    let accused = if silent.len() == missing {
        silent
    } else {
        BTreeSet::new()
    };
    let known = found.iter().position(|f| f.id == "RANK003");
    if let Some(at) = known {
        let evidence = std::mem::take(&mut found[at].evidence);
        found.remove(at);
        let Some(mut draft) = Draft::new(scene, "RANK003") else {
            return;
        };
        draft.finding().evidence = evidence;
        let empty = accused.iter().copied().filter(|rank| {
            let rec = scene.ranks.ranks.get(*rank as usize);
            rec.is_some_and(|rec| rec.has_source)
        });
        draft
            .fact("joined", store.joined.to_string())
            .fact("of", store.of.to_string())
            .fact("absent", ranges(accused.iter().copied()))
            .fact("empty", ranges(empty))
            .ranks(
                scene
                    .ranks
                    .ranks
                    .iter()
                    .filter(|r| r.was_seen())
                    .map(|r| r.rank),
            )
            .accuse(accused);
        found.push(draft.build());
    }
}

/// The monitored barrier names whom it waited for; rank 0 names them by their rank in the group,
/// which is the world's in the default group.
fn barrier(scene: &Scene<'_>, found: &mut [Finding]) {
    let Some(finding) = found.iter_mut().find(|f| f.id == "RANK004") else {
        return;
    };
    let named = scene
        .all_records()
        .filter_map(|(_, r)| r.barrier_missing.as_ref());
    let named: BTreeSet<u32> = named.flat_map(|(ranks, _)| ranks.iter().copied()).collect();
    if !named.is_empty() {
        finding.accused = named;
    }
}

/// Processes say how many there must be, some were never seen, and nobody came past the store:
/// only when the user or a timeout says that the job stands still.
fn not_at_rendezvous(scene: &Scene<'_>) -> Option<Finding> {
    let world = scene.ranks.world?;
    if !scene.claimed && wait::standstill(scene).is_none() {
        return None;
    }
    let (absent, seen): (Vec<&RankRec>, Vec<&RankRec>) =
        scene.ranks.ranks.iter().partition(|r| !r.was_seen());
    let early = seen
        .iter()
        .all(|rec| !rec.has_dump && scene.records(rec).all(|r| r.phase <= Phase::Rendezvous));
    if absent.is_empty() || absent.len() > seen.len() || !early {
        return None;
    }
    let mut draft = Draft::new(scene, "RANK008")?;
    let address = seen
        .iter()
        .flat_map(|rec| scene.records(rec))
        .find_map(|r| store_address(&r.rank_of.as_ref()?.2.text()));
    draft
        .fact("joined", seen.len().to_string())
        .fact("of", world.to_string())
        .fact("absent", ranges(absent.iter().map(|r| r.rank)))
        .fact(
            "store",
            address
                .as_deref()
                .and_then(|a| a.strip_prefix("tcp://")?.rsplit_once(':'))
                .map(|(host, port)| format!("{host} {port}"))
                .unwrap_or_default(),
        )
        .fact("address", address.unwrap_or_default())
        .ranks(seen.iter().map(|r| r.rank))
        .accuse(absent.iter().map(|r| r.rank))
        .sure(Confidence::Possible);
    for rec in seen.iter().take(3) {
        for record in scene.records(rec) {
            if let Some((_, _, line)) = &record.rank_of {
                draft.evidence(line, Some(rec.rank));
            }
        }
    }
    Absent::of(scene, absent.iter().map(|r| r.rank)).ask(&mut draft);
    Some(draft.build())
}

/// `tcp://10.20.0.1:26242` in a line that names where the process group is set up.
fn store_address(line: &str) -> Option<String> {
    let at = line.find("tcp://")?;
    let address = line[at..].split([' ', ',', '\'', '"', ')']).next()?;
    (address.len() > "tcp://".len()).then(|| address.to_owned())
}
