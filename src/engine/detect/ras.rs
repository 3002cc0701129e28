//! What NCCL RAS shows beside the logs: ranks that have launched fewer collectives, and processes that
//! do not answer.
//!
//! RAS sees launches of five functions and nothing else of a call, so it never overrules what the
//! logs say; where both say the same, its lines join the evidence of the finding that is there.

mod heard;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::circle::{self, Step};
use super::join::{contradiction, name_others, says};
use super::wait::{self, End};
use super::{Draft, Scene, ranges};
use crate::engine::finding::Finding;
use crate::engine::ids::SourceId;
use crate::engine::job::{Answer, CommKey, CommRec, Kept};
use crate::engine::ras::events::Change;
use crate::engine::ras::{Counts, Process, RasComm};
use crate::engine::vocab::{Class, Confidence, Phase, Role};
use crate::engine::witness::Witness;

/// Evidence lines taken of one side.
const LINES: usize = 3;
/// Communicators that are reported at most.
const MOST_COMMS: usize = 8;

/// Builds a finding that rests on RAS.
fn finish(mut draft: Draft<'_>) -> Finding {
    draft.finding().witnesses = BTreeSet::from([Witness::Ras]);
    draft.build()
}

/// Adds what RAS shows, or joins it to what the logs show.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let cause = |f: &Finding| f.role == Role::Cause;
    if wait::end_was_seen(scene) && !found.iter().any(cause) {
        // The job ended and nothing was wrong: an answer of another time, or of another job.
        return;
    }
    let ids = Ids::of(scene);
    let mut new = Vec::new();
    let mut apart = Vec::new();
    let all = scene.job.ras.last.iter();
    let (others, ours): (Vec<&Answer>, _) = all.partition(|a| foreign(scene, &ids.pids, a));
    let comms = newest(ours);
    for (answer, comm) in &comms {
        apart.extend(Apart::of(scene, &ids, answer, comm));
    }
    let roots_of = roots(&apart);
    for (apart, roots) in apart.iter().zip(&roots_of).take(MOST_COMMS) {
        let mut finding = if apart.differ() {
            differ(scene, apart)
        } else {
            behind(scene, apart, roots.clone())
        };
        // Who is waited for there waits in another one.
        let led = roots.is_empty() && roots_of.iter().any(|roots| !roots.is_empty());
        if let Some(finding) = finding.as_mut().filter(|f| led && f.accused.is_empty()) {
            finding.role = Role::Symptom;
        }
        new.extend(finding);
    }
    if !apart.is_empty() && roots_of.iter().all(BTreeSet::is_empty) && wait::stands_still(scene) {
        let steps = apart.iter().filter_map(Apart::step).collect();
        let circle = circle::close(scene, steps, &mut new, &["RAS001"]);
        new.extend(circle.map(finish));
    }
    new.extend(silent(scene, &ids, &comms, found));
    for finding in new {
        join(scene, finding, found);
    }
    heard::support(scene, &ids, found);
    found.extend(
        others
            .first()
            .and_then(|answer| of_another_job(scene, answer)),
    );
}

/// True if an answer knows none of this job's communicators and none of its processes.
fn foreign(scene: &Scene<'_>, pids: &Pids, answer: &Answer) -> bool {
    let reply = &answer.reply;
    let comms = scene.ranks.comms.iter();
    let printed = comms
        .map(|comm| scene.job.comms[comm.ix.ix()].key)
        .any(|key| matches!(key, CommKey::Id { .. }));
    if !printed || reply.comms.iter().any(|c| known(scene, c.hash).is_some()) {
        return false;
    }
    let mut told = processes(answer)
        .filter_map(|process| process.pid)
        .peekable();
    told.peek().is_some() && told.all(|pid| !pids.contains_key(&pid))
}

/// Every process that an answer names.
fn processes(answer: &Answer) -> impl Iterator<Item = &Process> {
    let comms = answer.reply.comms.iter().flat_map(processes_of);
    comms.chain(&answer.reply.dead)
}

/// Those of one communicator.
fn processes_of(comm: &RasComm) -> impl Iterator<Item = &Process> {
    let sides = comm.counts.iter().flat_map(|counts| &counts.sides);
    sides.flat_map(|side| &side.ranks).chain(&comm.missing)
}

/// The address and pid of a process: in containers several have the same pid.
fn place(process: &Process) -> Option<(String, u32)> {
    Some((process.node.clone()?, process.pid?))
}

/// Says that an answer was not believed.
fn of_another_job(scene: &Scene<'_>, answer: &Answer) -> Option<Finding> {
    let mut draft = Draft::new(scene, "RAS006")?;
    let comm = answer.reply.comms.first();
    draft.fact(
        "comm",
        comm.map_or_else(String::new, |c| format!("{:#x}", c.hash)),
    );
    let lines = processes(answer).filter_map(|process| process.line.as_ref());
    for line in lines.take(LINES) {
        draft.evidence(line, None);
    }
    Some(finish(draft))
}

/// The communicators that the answers tell of, each once: the newest answer's word counts.
fn newest(answers: Vec<&Answer>) -> Vec<(&Answer, &RasComm)> {
    let mut newest: BTreeMap<u64, (&Answer, &RasComm)> = BTreeMap::new();
    for answer in answers {
        for comm in &answer.reply.comms {
            match newest.get(&comm.hash) {
                Some((known, _)) if known.time > answer.time => {}
                _ => drop(newest.insert(comm.hash, (answer, comm))),
            }
        }
    }
    newest.into_values().collect()
}

/// The communicator as the logs know it: RAS prints the commId since NCCL 2.26.2.
fn known<'s>(scene: &Scene<'s>, hash: u64) -> Option<&'s CommRec> {
    let is = |comm: &&CommRec| {
        let key = scene.job.comms[comm.ix.ix()].key;
        matches!(key, CommKey::Id { id, .. } if id == hash)
    };
    scene.ranks.comms.iter().find(is)
}

/// Which world ranks the ranks of one communicator are.
struct Places<'s> {
    scene: &'s Scene<'s>,
    known: Option<&'s CommRec>,
    /// It spans the world.
    whole: bool,
    pids: &'s Pids,
    told: Option<&'s Told>,
}

/// World ranks of the processes that a communicator of the whole world lists; `None` where one has several.
type Told = BTreeMap<(String, u32), Option<u32>>;

/// What tells which world rank a process is.
struct Ids {
    pids: Pids,
    /// By answer.
    told: BTreeMap<SourceId, Told>,
}

impl Ids {
    fn of(scene: &Scene<'_>) -> Self {
        let answers = scene.job.ras.last.iter();
        let told = answers.map(|answer| (answer.source, told(scene, answer)));
        Self {
            pids: pids(scene),
            told: told.collect(),
        }
    }
}

fn told(scene: &Scene<'_>, answer: &Answer) -> Told {
    let world = scene.ranks.world.or(answer.reply.world());
    let mut told = Told::new();
    let whole = answer.reply.comms.iter();
    let whole = whole.filter(|comm| world.is_some() && comm.nranks == world);
    let listed = answer
        .reply
        .whole
        .iter()
        .filter(|_| world == answer.reply.world());
    for process in whole.flat_map(processes_of).chain(listed) {
        let (Some(rank), Some(place)) = (process.rank, place(process)) else {
            continue;
        };
        let known = told.entry(place).or_insert(Some(rank));
        if *known != Some(rank) {
            *known = None;
        }
    }
    told
}

/// World ranks by pid; `None` where several have it: containers count their pids anew.
type Pids = FxHashMap<u32, Option<u32>>;

fn pids(scene: &Scene<'_>) -> Pids {
    let mut pids = Pids::default();
    for rec in &scene.ranks.ranks {
        if let Some(pid) = rec.pid {
            let entry = pids.entry(pid);
            entry
                .and_modify(|rank| *rank = None)
                .or_insert(Some(rec.rank));
        }
    }
    pids
}

impl<'s> Places<'s> {
    fn of(scene: &'s Scene<'_>, ids: &'s Ids, answer: &Answer, comm: &RasComm) -> Self {
        let world = scene.ranks.world.or(answer.reply.world());
        Self {
            told: ids.told.get(&answer.source),
            scene,
            known: known(scene, comm.hash),
            whole: world.is_some() && comm.nranks == world,
            pids: &ids.pids,
        }
    }

    /// The world rank of a rank of the communicator.
    fn world_rank(&self, process: &Process) -> Option<u32> {
        let rank = process.rank?;
        let known = self.known;
        known
            .and_then(|known| self.scene.ranks.world_rank(self.scene.job, known, rank))
            .or_else(|| self.whole.then_some(rank))
            .or_else(|| *self.told?.get(&place(process)?)?)
            .or_else(|| *self.pids.get(&process.pid?)?)
    }
}

/// A communicator whose ranks have launched unequally often.
struct Apart<'a> {
    comm: &'a RasComm,
    /// Launches by function, by rank in the communicator.
    launched: BTreeMap<&'a str, BTreeMap<u32, u64>>,
    /// World ranks of those that are behind in some function, and of those that are ahead.
    behind: BTreeSet<u32>,
    ahead: BTreeSet<u32>,
    world: BTreeMap<u32, u32>,
    lines: BTreeMap<u32, &'a Kept>,
}

impl<'a> Apart<'a> {
    /// `None` while a job moves: in one that runs, some rank has always launched a moment less.
    fn of(scene: &Scene<'_>, ids: &Ids, answer: &'a Answer, comm: &'a RasComm) -> Option<Self> {
        if comm.counts.is_empty() {
            return None;
        }
        let still = scene.job.ras.still_for(comm.hash);
        let moves = scene.watched_since.is_some() || scene.job.ras.moved(comm.hash);
        if moves && !scene.claimed && still < late(scene) {
            return None;
        }
        let mut apart = Self {
            comm,
            launched: BTreeMap::new(),
            behind: BTreeSet::new(),
            ahead: BTreeSet::new(),
            world: BTreeMap::new(),
            lines: BTreeMap::new(),
        };
        let places = Places::of(scene, ids, answer, comm);
        for counts in &comm.counts {
            apart.take(&places, counts);
        }
        Some(apart)
    }

    fn take(&mut self, places: &Places<'_>, counts: &'a Counts) {
        let mut launched: BTreeMap<u32, u64> = BTreeMap::new();
        for side in &counts.sides {
            for process in &side.ranks {
                let Some(rank) = process.rank else { continue };
                launched.insert(rank, side.launched);
                if let Some(world) = places.world_rank(process) {
                    self.world.insert(rank, world);
                }
                if let Some(line) = process.line.as_ref().or(side.line.as_ref()) {
                    self.lines.entry(rank).or_insert(line);
                }
            }
        }
        // The text only counts the ranks of a large group: they are those that nobody else lists.
        let unlisted: Vec<_> = counts.sides.iter().filter(|s| s.ranks.is_empty()).collect();
        if let ([side], Some(nranks)) = (unlisted.as_slice(), self.comm.nranks) {
            let missing: BTreeSet<u32> = self.comm.missing.iter().filter_map(|p| p.rank).collect();
            for rank in (0..nranks).filter(|rank| !missing.contains(rank)) {
                if let std::collections::btree_map::Entry::Vacant(free) = launched.entry(rank) {
                    free.insert(side.launched);
                    let process = Process {
                        rank: Some(rank),
                        ..Process::default()
                    };
                    if let Some(world) = places.world_rank(&process) {
                        self.world.insert(rank, world);
                    }
                    if let Some(line) = &side.line {
                        self.lines.entry(rank).or_insert(line);
                    }
                }
            }
        }
        // Whoever has launched more than the least waits for those that launched it, however far it has come.
        let least = launched.values().min().copied().unwrap_or_default();
        let equal = launched.values().all(|times| *times == least);
        for (rank, times) in &launched {
            let Some(world) = self.world.get(rank) else {
                continue;
            };
            if *times == least && !equal {
                self.behind.insert(*world);
            } else {
                self.ahead.insert(*world);
            }
        }
        self.launched.insert(&counts.function, launched);
    }

    /// True if some rank is ahead in one function and behind in another: it called something else.
    fn differ(&self) -> bool {
        !self.behind.is_disjoint(&self.ahead)
    }

    /// The function in which most ranks are ahead says what they wait in: its launches by rank, and the least.
    fn waited_in(&self) -> Option<(&'a str, &BTreeMap<u32, u64>, u64)> {
        let (function, launched) = self.launched.iter().max_by_key(|(_, ranks)| {
            let least = ranks.values().min().copied();
            ranks.values().filter(|n| Some(**n) > least).count()
        })?;
        Some((function, launched, launched.values().min().copied()?))
    }

    /// Who waits in it for whom; `None` where that is unknown.
    fn step(&self) -> Option<Step> {
        let (function, _, least) = self.waited_in().filter(|_| !self.differ())?;
        Some(Step {
            who: self.ahead.clone(),
            call: format!(
                "{} number {} on communicator {}",
                function_name(function),
                least + 1,
                self.name()
            ),
            whom: self.behind.clone(),
            comm: self.name(),
        })
    }

    /// Ranks in words: those of the world, or of the communicator where these are not known.
    fn words(&self, ranks: &[u32]) -> String {
        let world = self.worlds(ranks.iter().copied());
        if world.len() == ranks.len() {
            ranges(world)
        } else {
            format!("{} of the communicator", ranges(ranks.iter().copied()))
        }
    }

    fn worlds(&self, ranks: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
        ranks
            .into_iter()
            .filter_map(|rank| self.world.get(&rank).copied())
            .collect()
    }

    fn name(&self) -> String {
        format!("{:#x}", self.comm.hash)
    }

    /// Lines of some ranks, several ranks of a large group having the same one.
    fn evidence(&self, draft: &mut Draft<'_>, ranks: impl IntoIterator<Item = u32>) {
        let mut seen = BTreeSet::new();
        for rank in ranks {
            if seen.len() >= LINES {
                return;
            }
            if let Some(line) = self.lines.get(&rank)
                && seen.insert(line.place)
            {
                cite(draft, line, self.world.get(&rank).copied(), Some(rank));
            }
        }
    }
}

/// Below this a difference may be one that any running job has.
fn late(scene: &Scene<'_>) -> Duration {
    let rule = scene.catalog.by_id("RAS001");
    let seconds = rule.and_then(|rule| scene.catalog.rule(rule).threshold("late_s"));
    Duration::from_secs_f64(seconds.unwrap_or(10.0))
}

/// For each communicator, the ranks behind in it that do not wait in another one.
fn roots(apart: &[Apart<'_>]) -> Vec<BTreeSet<u32>> {
    let waiting: BTreeSet<u32> = apart
        .iter()
        .flat_map(|one| one.ahead.difference(&one.behind).copied())
        .collect();
    apart
        .iter()
        .map(|one| one.behind.difference(&waiting).copied().collect())
        .collect()
}

/// Ranks that have launched less than the others.
fn behind(scene: &Scene<'_>, apart: &Apart<'_>, roots: BTreeSet<u32>) -> Option<Finding> {
    let (function, launched, least) = apart.waited_in()?;
    let (behind, ahead): (Vec<u32>, Vec<u32>) =
        launched.keys().partition(|rank| launched[rank] == least);
    let further = || ahead.iter().map(|rank| launched[rank]);
    let (next, most) = (further().min()?, further().max()?);
    let mut draft = Draft::new(scene, "RAS001")?;
    // One that is ahead of several others may have made a call too many.
    let many = ahead.len() == 1 && behind.len() > 1;
    let alone = many && roots == apart.worlds(behind.iter().copied());
    let accused = match (apart.comm.missing.is_empty(), alone) {
        // Whoever is missing may be what all of them wait for.
        (false, _) => BTreeSet::new(),
        (true, true) => apart.worlds(ahead.iter().copied()),
        (true, false) => roots,
    };
    let named = apart.worlds(behind.iter().copied());
    let waiting = apart.worlds(ahead.iter().copied());
    draft
        .fact("function", function_name(function))
        .fact("comm", apart.name())
        .fact("behind", times(least))
        .fact(
            "ahead",
            if next == most {
                times(most)
            } else {
                format!("{next} to {most} times")
            },
        )
        .fact("ordinal", (least + 1).to_string())
        .fact("waiting", apart.words(&ahead))
        .named_as(apart.words(&behind))
        .ranks(named.iter().chain(&waiting).copied())
        .accuse(accused)
        .sure(if alone {
            Confidence::Possible
        } else {
            Confidence::Likely
        });
    draft.finding().comm = Some(apart.name());
    apart.evidence(&mut draft, behind);
    apart.evidence(&mut draft, ahead);
    Some(finish(draft))
}

/// Ranks that have launched other functions than their peers.
fn differ(scene: &Scene<'_>, apart: &Apart<'_>) -> Option<Finding> {
    let ranks: BTreeSet<u32> = apart
        .launched
        .values()
        .flat_map(|ranks| ranks.keys().copied())
        .collect();
    let mut sides: BTreeMap<Vec<Option<u64>>, Vec<u32>> = BTreeMap::new();
    for rank in &ranks {
        let of_rank = apart.launched.values().map(|f| f.get(rank).copied());
        sides.entry(of_rank.collect()).or_default().push(*rank);
    }
    let mut sides: Vec<(Vec<Option<u64>>, Vec<u32>)> = sides.into_iter().collect();
    sides.sort_by_key(|(_, ranks)| (std::cmp::Reverse(ranks.len()), ranks.first().copied()));
    let [major, minor, ..] = sides.as_slice() else {
        return None;
    };
    // What each side launched more of than the other.
    let more = |a: &[Option<u64>], b: &[Option<u64>]| {
        let functions = apart.launched.keys().zip(a.iter().zip(b));
        let names: Vec<&str> = functions
            .filter(|(_, (a, b))| a > b)
            .map(|(name, _)| *name)
            .collect();
        names.join(", ")
    };
    let others: Vec<u32> = sides[1..].iter().flat_map(|(_, r)| r.clone()).collect();
    let majority = major.1.len() > others.len();
    let mut draft = Draft::new(scene, "RAS002")?;
    draft
        .fact("comm", apart.name())
        .fact("minority", apart.words(&minor.1))
        .fact("minority_call", more(&minor.0, &major.0))
        .fact("majority", apart.words(&major.1))
        .fact("majority_call", more(&major.0, &minor.0))
        .ranks(apart.worlds(ranks.iter().copied()));
    if majority {
        draft.accuse(apart.worlds(others));
    }
    draft.finding().comm = Some(apart.name());
    apart.evidence(&mut draft, minor.1.iter().copied());
    apart.evidence(&mut draft, major.1.iter().copied());
    for counts in &apart.comm.counts {
        let lines = counts.sides.iter().flat_map(|side| &side.ranks).take(LINES);
        for process in lines {
            if let Some(line) = &process.line {
                let Some(rank) = process.rank else { continue };
                cite(
                    &mut draft,
                    line,
                    apart.world.get(&rank).copied(),
                    Some(rank),
                );
            }
        }
    }
    Some(finish(draft))
}

/// A line of a rank: of the world's, or of the communicator's where the former is not known.
fn cite(draft: &mut Draft<'_>, line: &Kept, world: Option<u32>, own: Option<u32>) {
    match (world, own) {
        (None, Some(own)) => draft.evidence_with(line, &format!("comm rank {own}")),
        _ => draft.evidence(line, world),
    };
}

fn function_name(function: &str) -> String {
    if function.is_empty() {
        "its collectives".to_owned()
    } else {
        function.to_owned()
    }
}

fn times(n: u64) -> String {
    match n {
        0 => "not once".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    }
}

/// Processes that did not answer. Whoever ended well is not missed, and neither is anybody while
/// nothing says that the others wait: a job that ends takes its processes one after another.
fn silent(
    scene: &Scene<'_>,
    ids: &Ids,
    comms: &[(&Answer, &RasComm)],
    found: &[Finding],
) -> Option<Finding> {
    let mut ranks: BTreeMap<u32, &Process> = BTreeMap::new();
    // Those whose rank in the world is not known.
    let mut others: Vec<&Process> = Vec::new();
    let mut seen = BTreeSet::new();
    let (mut frozen, mut dead) = (false, false);
    for (answer, comm) in comms {
        let places = Places::of(scene, ids, answer, comm);
        let gone: BTreeSet<Option<u32>> = answer.reply.dead.iter().map(|p| p.pid).collect();
        for process in &comm.missing {
            if process.answers() {
                continue;
            }
            dead |= process.dead || gone.contains(&process.pid);
            frozen |= answer.reply.timeouts > 0;
            match places.world_rank(process) {
                Some(rank) => drop(ranks.insert(rank, process)),
                None if seen.insert(place(process)) => others.push(process),
                None => {}
            }
        }
    }
    let heard = heard::placed(scene, ids);
    for (rank, heard) in &heard {
        if let (Change::Dead, Some(process)) = (heard.change, heard.told.last()) {
            dead = true;
            ranks.entry(*rank).or_insert(process);
        }
    }
    let ended = |rank: &u32| {
        let rec = scene.ranks.ranks.get(*rank as usize);
        rec.is_some_and(|rec| rec.lines > 0 && wait::end_of(scene, rec) == End::Well)
    };
    ranks.retain(|rank, _| !ended(rank));
    let others_wait = scene.claimed
        || wait::standstill(scene).is_some()
        || found
            .iter()
            .any(|f| f.role == Role::Cause && f.class == Class::RankDied);
    let nobody = ranks.is_empty() && others.is_empty();
    if nobody || !others_wait || wait::end_was_seen(scene) {
        return None;
    }
    let rule = if frozen && !dead { "RAS004" } else { "RAS003" };
    let mut draft = Draft::new(scene, rule)?;
    draft
        .accuse(ranks.keys().copied())
        .ranks(ranks.keys().copied());
    if dead {
        draft.fact("dead", "yes");
    }
    let placed = ranks.iter().map(|(rank, process)| (Some(*rank), *process));
    let all: Vec<(Option<u32>, &Process)> = placed
        .chain(others.into_iter().map(|p| (None, p)))
        .collect();
    if let [(_, one)] = all.as_slice() {
        draft
            .fact(
                "pid",
                one.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            )
            .fact("node", one.node.clone().unwrap_or_default());
    }
    for (rank, process) in all {
        if let Some(line) = &process.line {
            cite(&mut draft, line, rank, process.rank);
        }
        let told = heard.iter().filter(|(of, _)| Some(*of) == rank);
        for line in told
            .flat_map(|(_, heard)| &heard.told)
            .filter_map(|peer| peer.line.as_ref())
        {
            draft.evidence(line, rank);
        }
    }
    for (_, comm) in comms {
        for (process, _) in comm.errors.iter().take(LINES) {
            if let Some(line) = &process.line {
                draft.evidence(line, None);
            }
        }
    }
    Some(finish(draft))
}

/// Joins a finding of RAS to the one of the logs that says the same; else adds it. Where the logs name others, they
/// are believed, and a note has both sides.
fn join(scene: &Scene<'_>, finding: Finding, found: &mut Vec<Finding>) {
    let waits = |class: Class| matches!(class, Class::MissingRank | Class::MismatchedCollective);
    let same = |f: &&mut Finding| {
        if f.role != Role::Cause {
            return false;
        }
        let on_same = f.comm == finding.comm || !f.accused.is_disjoint(&finding.accused);
        match finding.class {
            // What the logs show of the calls is more than the number of launches.
            Class::MissingRank | Class::MismatchedCollective => waits(f.class) && on_same,
            // A rank that ended, whatever ended it.
            _ => !f.accused.is_empty() && finding.accused.is_subset(&f.accused) && !waits(f.class),
        }
    };
    match found.iter_mut().find(same) {
        Some(known) if name_others(known, &finding) => {
            let note = contradiction(scene, known, &finding);
            found.extend(note);
        }
        Some(known) => {
            known.pointing = known.accusers_with(&finding);
            known.evidence.extend(finding.evidence);
            known.witnesses.extend(finding.witnesses);
            if known.confidence == Confidence::Possible && known.accused == finding.accused {
                known.confidence = Confidence::Likely;
            }
        }
        None => found.push(finding),
    }
}

/// Calls differ or are missing by the other witnesses, and RAS shows nothing: said, since who asks RAS first
/// believes it.
pub(super) fn blind(scene: &Scene<'_>, found: &[Finding]) -> Option<Finding> {
    let mut answers = scene.job.ras.last.iter();
    let equal = answers.any(|answer| {
        let reply = &answer.reply;
        let quiet = |comm: &RasComm| comm.counts.is_empty() && comm.missing.is_empty();
        reply.total > 0 && reply.comms.iter().all(quiet)
    });
    if !equal {
        return None;
    }
    let apart = |f: &&Finding| {
        f.role == Role::Cause
            && !f.witnesses.contains(&Witness::Ras)
            && f.phase == Phase::Collective
    };
    let cause = found.iter().filter(apart).find_map(|f| match f.class {
        Class::MismatchedCollective => Some((f, "RAS005")),
        // RAS counts launches of some functions, and a rank that is behind in one of them is behind there too.
        Class::MissingRank if !f.accused.is_empty() && f.id == "RANK001" => Some((f, "FR005")),
        _ => None,
    });
    let (cause, rule) = cause?;
    let mut draft = Draft::new(scene, rule)?;
    draft.ranks(cause.ranks.iter().copied());
    draft.finding().comm.clone_from(&cause.comm);
    if rule == "RAS005" {
        let witness = if cause.witnesses.contains(&Witness::Log) {
            "the logs show"
        } else {
            "the dumps show"
        };
        draft.fact("witness", witness);
    } else {
        draft.fact("one", says(cause)).fact(
            "other",
            "NCCL RAS counts equally many launches on all ranks",
        );
        draft.finding().evidence = cause.evidence.iter().take(LINES).cloned().collect();
    }
    Some(finish(draft))
}
