//! Ranks that ended: the first to end is the cause, resets and timeouts elsewhere are the effect.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Scene, ranges, wait};
use crate::engine::event::Exit;
use crate::engine::finding::Finding;
use crate::engine::gpu::Means;
use crate::engine::input::ProcessState;
use crate::engine::job::{ExceptionSeen, Kept, ProcessSeen, RankRec};
use crate::engine::vocab::{Class, Confidence, Role};

/// Texts of exceptions that say "somebody else ended or did not come" (PyTorch 1.13–2.15, NCCL's
/// `ncclGetErrorString`, Gloo): who raises one of them is a victim.
const CONSEQUENCES: [&str; 28] = [
    "Connection closed by",
    "Connection reset by peer",
    "Broken pipe",
    "remote process exited",
    "ncclRemoteError",
    "NCCL communicator was aborted",
    "Timed out waiting",
    "Timed out after",
    "Timed out initializing",
    "timed out in blocking wait",
    "Operation timed out",
    "wait timeout after",
    "Socket Timeout",
    "monitoredBarrier",
    "Watchdog caught",
    "collective operation timeout",
    "recvValue failed",
    "sendBytes failed",
    "recvVector failed",
    "failed to recv, got 0 bytes",
    "Application timeout caused pair closure",
    "retrieving ncclUniqueId",
    "closing signal",
    "death signal",
    "connectFullMesh failed",
    "Engine core initialization failed",
    "EngineCore encountered an issue",
    "Read error",
];

/// Exceptions that launchers and parents raise about their children.
const PARENTS: [&str; 6] = [
    "ChildFailedError",
    "SignalException",
    "EngineDeadError",
    "RendezvousConnectionError",
    "RendezvousTimeoutError",
    "RuntimeError: Engine",
];

/// How a rank ended.
struct Ended<'a> {
    how: String,
    /// Type and text of the exception that ended it.
    raised: Option<(String, String)>,
    /// Where its traceback leads.
    at: Option<&'a str>,
    signal: Option<i32>,
    exit: Option<i32>,
    line: &'a Kept,
    /// A launcher calls it the first, or it is not known to be a victim.
    confidence: Confidence,
}

/// Adds a finding for the ranks that ended by themselves.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    let mut ended: BTreeMap<u32, Ended<'_>> = BTreeMap::new();
    for rec in &scene.ranks.ranks {
        let end = own_end(scene, rec).or_else(|| by_state(scene, rec));
        ended.extend(end.map(|end| (rec.rank, end)));
    }
    if ended.is_empty() {
        by_children(scene, &mut ended);
    }
    let mismatch = found
        .iter()
        .any(|f| f.class == Class::MismatchedCollective && f.role == Role::Cause);
    // Whoever ends a job that hangs by a mismatch closes its connections.
    if ended.is_empty() && !mismatch {
        by_peers(scene, &mut ended);
    }
    first_only(&mut ended);
    let certain = ended
        .values()
        .any(|e| e.raised.is_some() || e.confidence > Confidence::Possible);
    match by_anyone(scene).filter(|_| !certain) {
        Some(end) => found.extend(unranked(scene, &end)),
        None => found.extend(finding(scene, &ended)),
    }
}

/// True if the rank surely ended by itself, and not because others did not come.
pub(super) fn by_itself(scene: &Scene<'_>, rec: &RankRec) -> bool {
    let end = own_end(scene, rec);
    end.is_some_and(|end| end.confidence > Confidence::Possible)
}

/// What the rank's own log and its launcher tell of its end.
fn own_end<'a>(scene: &Scene<'a>, rec: &RankRec) -> Option<Ended<'a>> {
    by_exception(scene, rec)
        .or_else(|| by_abort(scene, rec))
        .or_else(|| by_report(scene, rec))
}

/// A crash in native code that the process itself told. What `terminate called` and `Aborted` tell is mostly how
/// PyTorch ends a process that gave up.
fn by_abort<'a>(scene: &Scene<'a>, rec: &RankRec) -> Option<Ended<'a>> {
    let records: Vec<_> = scene.records(rec).collect();
    let crash = records.iter().find_map(|r| r.abort.as_ref())?;
    let native = ["Segmentation fault", "Illegal instruction"];
    let native = native.iter().any(|text| crash.text.contains(text));
    let late = crash.line.place.number < wait::progress_in(scene, rec, &crash.line);
    if !native || late || gave_up_before(&records, &crash.line) {
        return None;
    }
    Some(Ended {
        how: format!("crashed: {}", shorten(&crash.text)),
        raised: None,
        at: None,
        signal: None,
        exit: None,
        line: &crash.line,
        confidence: Confidence::Likely,
    })
}

/// An exception of its own after which the rank did nothing more.
fn by_exception<'a>(scene: &Scene<'a>, rec: &RankRec) -> Option<Ended<'a>> {
    let records: Vec<_> = scene.records(rec).collect();
    let last = records.iter().flat_map(|r| &r.exceptions).filter(|e| {
        let ends = e.line.place.number > wait::progress_in(scene, rec, &e.line);
        ends && !PARENTS.contains(&e.kind.as_str())
    });
    // Of a chain of exceptions the first one is the root.
    let exception = last.min_by_key(|e| e.line.place)?;
    let victim = is_consequence(exception) || gave_up_before(&records, &exception.line);
    (!victim).then(|| raised(exception))
}

/// An exception in a stream that does not say whose it is, in a job that a launcher says failed.
fn by_anyone<'a>(scene: &Scene<'a>) -> Option<Ended<'a>> {
    let failed = scene
        .all_records()
        .flat_map(|(_, r)| &r.reports)
        .any(|r| !matches!(r.exit, Some(Exit::Code(0)) | None));
    if !failed {
        return None;
    }
    let unknown = scene
        .all_records()
        .filter(|(rank, _)| rank.is_none())
        .flat_map(|(_, r)| &r.exceptions);
    let own = unknown.filter(|e| !is_consequence(e) && !PARENTS.contains(&e.kind.as_str()));
    own.min_by_key(|e| e.line.place).map(raised)
}

fn is_consequence(exception: &ExceptionSeen) -> bool {
    let whole = exception.line.text();
    CONSEQUENCES
        .iter()
        .any(|c| exception.message.contains(c) || whole.contains(c))
}

fn raised(exception: &ExceptionSeen) -> Ended<'_> {
    Ended {
        how: format!("raised {}: {}", exception.kind, shorten(&exception.message)),
        raised: Some((exception.kind.clone(), shorten(&exception.message))),
        at: exception.at.as_deref(),
        signal: None,
        exit: None,
        line: &exception.line,
        confidence: Confidence::Likely,
    }
}

fn gave_up_before(records: &[&crate::engine::job::Record], line: &Kept) -> bool {
    records
        .iter()
        .filter(|r| r.source == line.place.source)
        .any(|r| {
            r.watchdogs
                .iter()
                .any(|w| w.line.place.number < line.place.number)
        })
}

/// A launcher's report: a signal from outside or a bad status that no timeout of its own explains.
fn by_report<'a>(scene: &Scene<'a>, rec: &RankRec) -> Option<Ended<'a>> {
    let report = scene.reports.of_process(rec)?;
    // SIGTERM is the launcher's own clean-up; SIGABRT is how a watchdog ends its process.
    let (how, signal, exit) = match report.exit? {
        Exit::Signal(15) | Exit::Code(0) => return None,
        Exit::Signal(signal) => (
            format!("was ended by {}", signal_name(signal)),
            Some(signal),
            None,
        ),
        Exit::Code(code) => (format!("exited with status {code}"), None, Some(code)),
    };
    let victim = scene
        .records(rec)
        .any(|r| !r.watchdogs.is_empty() || r.exceptions.iter().any(|_| true) || r.store.is_some());
    let soft = signal == Some(6) || exit.is_some();
    if victim && soft {
        return None;
    }
    // torchrun's "first observed failure" is the first to end, which is often a victim.
    let confidence = if soft {
        Confidence::Possible
    } else {
        Confidence::Likely
    };
    Some(Ended {
        how,
        signal,
        exit,
        raised: None,
        at: None,
        line: &report.line,
        confidence,
    })
}

/// A process that the operating system no longer has, and that another one of its host waits for.
fn by_state<'a>(scene: &Scene<'a>, rec: &RankRec) -> Option<Ended<'a>> {
    let (host, pid) = (rec.host.as_deref()?, rec.pid?);
    let seen = scene.job.processes.get(host, pid)?;
    let line = scene
        .records(rec)
        .filter_map(|r| r.last.as_ref())
        .max_by_key(|l| l.place)?;
    if !seen.is_gone()
        || wait::end_of(scene, rec) == wait::End::Well
        || !is_missed(scene, rec, seen)
    {
        return None;
    }
    let how = if seen.state == ProcessState::Zombie {
        format!("has ended: process {pid} on {host} is a zombie")
    } else {
        format!("is gone: no process {pid} on {host} any more")
    };
    Some(Ended {
        how,
        signal: None,
        exit: None,
        raised: None,
        at: None,
        line,
        confidence: Confidence::Certain,
    })
}

/// True if somebody seems to wait for a process that is gone. At the end of a job that went well all
/// go, one a little later than the other, and rank 0 may still save a checkpoint.
fn is_missed(scene: &Scene<'_>, rec: &RankRec, seen: &ProcessSeen) -> bool {
    let Some(gone_for) = seen.lasts(scene.now) else {
        // Nobody watches: whoever looked at the processes did so because the job failed.
        return true;
    };
    let rule = scene.catalog.by_id("DIED001");
    let patience = rule.and_then(|rule| scene.catalog.rule(rule).threshold("gone_s"));
    if gone_for.as_secs_f64() < patience.unwrap_or(10.0) {
        return false;
    }
    let host = rec.host.as_deref().unwrap_or_default();
    let others = scene
        .ranks
        .ranks
        .iter()
        .filter(|other| other.host.as_deref() == Some(host) && other.rank != rec.rank);
    let mut lives = others.filter(|other| {
        let seen = other.pid.and_then(|pid| scene.job.processes.get(host, pid));
        seen.is_some_and(|seen| !seen.is_gone())
    });
    let proven = scene.claimed || wait::standstill(scene).is_some();
    lives.any(|other| {
        let waits = match scene.job.gpu_of(other).and_then(|(_, gpu)| gpu.means()) {
            Some(means) => means == Means::Spins,
            None => wait::nobody_prints(scene, "DIED001"),
        };
        proven || waits
    })
}

/// A parent says that a child ended (vLLM); its index is the rank where the engine is the world.
fn by_children<'a>(scene: &Scene<'a>, ended: &mut BTreeMap<u32, Ended<'a>>) {
    for (_, record) in scene.all_records() {
        for (index, exit, line) in &record.children {
            let Some(rank) = index.filter(|rank| (*rank as usize) < scene.ranks.ranks.len()) else {
                continue;
            };
            let (signal, code) = match exit {
                Some(Exit::Signal(signal)) => (Some(*signal), None),
                Some(Exit::Code(code)) => (None, Some(*code)),
                None => (None, None),
            };
            let how = signal.map_or_else(
                || "ended unexpectedly".to_owned(),
                |s| format!("was ended by {}", signal_name(s)),
            );
            ended.entry(rank).or_insert(Ended {
                how,
                signal,
                exit: code,
                raised: None,
                at: None,
                line,
                confidence: Confidence::Likely,
            });
        }
    }
}

/// Others saw its connection close while they still worked, and it is behind them. A closed
/// connection alone also ends healthy jobs, so the standstill must be proven otherwise.
fn by_peers<'a>(scene: &Scene<'a>, ended: &mut BTreeMap<u32, Ended<'a>>) {
    let proven =
        scene.claimed || wait::standstill(scene).is_some() || wait::nobody_prints(scene, "DIED001");
    if !proven {
        return;
    }
    let closings = closings(scene);
    if closings.is_empty() {
        return;
    }
    let behind = behind(scene);
    for closing in closings {
        let Some(rank) = closing.by else {
            continue;
        };
        // What a torn log does not show may have been there.
        let torn = || {
            let closer = scene.ranks.ranks.get(rank as usize);
            closer.is_some_and(|closer| scene.records(closer).any(|r| r.torn))
        };
        if closing.after || rank == closing.seen_by || !behind.contains(&rank) || torn() {
            continue;
        }
        ended.entry(rank).or_insert(Ended {
            how: format!("rank {} saw its connections close", closing.seen_by),
            signal: None,
            exit: None,
            raised: None,
            at: None,
            line: closing.line,
            confidence: Confidence::Likely,
        });
    }
}

/// A connection that a rank saw close.
struct Closing<'a> {
    seen_by: u32,
    line: &'a Kept,
    /// Who closed it, where NCCL says which local rank did.
    by: Option<u32>,
    /// The rank had given up before: then everybody is on the way out.
    after: bool,
}

fn closings<'a>(scene: &Scene<'a>) -> Vec<Closing<'a>> {
    let by_host = ranks_by_host(scene);
    // NCCL counts the local ranks of a host in the order of ranks.
    let rank_on = |host: &str, local: u32| by_host.get(host)?.get(local as usize).copied();
    let mut found = Vec::new();
    for rec in &scene.ranks.ranks {
        let gave_up = scene.gave_up(rec);
        for closed in scene.records(rec).flat_map(|r| &r.closed) {
            let place = closed.line.place;
            let by = rec.host.as_deref().zip(closed.local);
            found.push(Closing {
                seen_by: rec.rank,
                line: &closed.line,
                by: by.and_then(|(host, local)| rank_on(host, local)),
                after: gave_up
                    .iter()
                    .any(|(source, line)| *source == place.source && *line < place.number),
            });
        }
    }
    found
}

fn ranks_by_host<'a>(scene: &'a Scene<'_>) -> BTreeMap<&'a str, Vec<u32>> {
    let mut by_host: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for rec in &scene.ranks.ranks {
        if let Some(host) = rec.host.as_deref() {
            by_host.entry(host).or_default().push(rec.rank);
        }
    }
    by_host
}

/// Ranks that made fewer calls than another on some communicator and did not end it.
fn behind(scene: &Scene<'_>) -> BTreeSet<u32> {
    let mut behind = BTreeSet::new();
    for comm in &scene.ranks.comms {
        let members = comm
            .members
            .iter()
            .map(|(r, m)| (*r, &scene.job.members[m.ix()]));
        let most = members.clone().map(|(_, m)| m.reached).max().unwrap_or(0);
        let late = members.filter(|(_, m)| m.reached < most && !m.ended);
        behind.extend(late.filter_map(|(r, _)| scene.ranks.world_rank(scene.job, comm, r)));
    }
    behind
}

/// Of several in one source the first to end is the cause of the rest.
fn first_only(ended: &mut BTreeMap<u32, Ended<'_>>) {
    let sources: BTreeSet<_> = ended.values().map(|e| e.line.place.source).collect();
    if sources.len() != 1 || ended.len() < 2 {
        return;
    }
    let exceptions = ended.values().any(|e| e.raised.is_some());
    if exceptions {
        ended.retain(|_, e| e.raised.is_some());
    }
    let surest = ended.values().map(|e| e.confidence).max();
    ended.retain(|_, e| Some(e.confidence) == surest);
    let first = ended.values().map(|e| e.line.place).min();
    // torchrun's report lists its processes in no order of time: only lines of the ranks count.
    if exceptions {
        ended.retain(|_, e| Some(e.line.place) == first);
    }
}

fn unranked(scene: &Scene<'_>, end: &Ended<'_>) -> Option<Finding> {
    let (kind, text) = end.raised.clone()?;
    let mut draft = Draft::new(scene, "DIED002")?;
    draft
        .fact("at", end.at.unwrap_or_default())
        .fact("memory", out_of_memory(&text))
        .fact("exception", kind)
        .fact("text", text)
        .sure(end.confidence)
        .evidence(end.line, None);
    Some(draft.build())
}

fn finding(scene: &Scene<'_>, ended: &BTreeMap<u32, Ended<'_>>) -> Option<Finding> {
    let (_, first) = ended.iter().next()?;
    let (kind, text) = first.raised.clone().unwrap_or_default();
    let id = if first.raised.is_some() {
        "DIED002"
    } else {
        "DIED001"
    };
    let mut draft = Draft::new(scene, id)?;
    draft
        .fact("rank", ranges(ended.keys().copied()))
        .fact("how", first.how.clone())
        .fact("at", first.at.unwrap_or_default())
        .fact("memory", out_of_memory(&text))
        .fact("exception", kind)
        .fact("text", text)
        .fact("signal", first.signal.map(signal_name).unwrap_or_default())
        .fact(
            "exit",
            first.exit.map(|code| code.to_string()).unwrap_or_default(),
        )
        .fact(
            "logged",
            if ended
                .keys()
                .all(|r| scene.ranks.ranks[*r as usize].lines > 0)
            {
                "yes"
            } else {
                ""
            },
        )
        .ranks(ended.keys().copied())
        .sure(first.confidence);
    // Several that exited with a plain status, and no word of why: any of them may be the first.
    if ended.len() == 1
        || ended
            .values()
            .any(|e| e.raised.is_some() || e.signal.is_some_and(|s| s != 6))
    {
        draft.accuse(ended.keys().copied());
    }
    draft.fact("left", left_behind(scene, ended));
    for (rank, end) in ended.iter().take(8) {
        draft.evidence(end.line, Some(*rank));
    }
    // Without a word of its own: what it did last.
    if ended.values().all(|e| e.raised.is_none()) {
        for rank in ended.keys().take(2) {
            if let Some(last) = super::stack::last_words(scene, &scene.ranks.ranks[*rank as usize])
            {
                draft.evidence(last, Some(*rank));
            }
        }
    }
    // A line about another local rank, or of a rank that had given up, proves nothing about this one.
    let closings = closings(scene);
    let about = |c: &&Closing<'_>| !c.after && c.by.is_none_or(|by| ended.contains_key(&by));
    for closing in closings.iter().filter(about).take(3) {
        draft.evidence(closing.line, Some(closing.seen_by));
    }
    Some(draft.build())
}

/// `yes` where nobody ends the other ranks: no launcher that watches its processes, and some rank is left.
fn left_behind(scene: &Scene<'_>, ended: &BTreeMap<u32, Ended<'_>>) -> &'static str {
    let watched = scene
        .all_records()
        .any(|(_, r)| !r.reports.is_empty() || !r.children.is_empty());
    let mut others = scene
        .ranks
        .ranks
        .iter()
        .filter(|rec| !ended.contains_key(&rec.rank));
    let left = others.any(|rec| wait::end_of(scene, rec) == wait::End::Unknown);
    if scene.frameworks.torch() && !watched && left {
        "yes"
    } else {
        ""
    }
}

/// `yes` where a GPU had no memory left for the program.
fn out_of_memory(text: &str) -> &'static str {
    if text.contains("CUDA out of memory") {
        "yes"
    } else {
        ""
    }
}

/// As much of an exception's text as a title takes, whole sentences where they fit.
fn shorten(text: &str) -> String {
    const MOST: usize = 240;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let cut: String = text.chars().take(MOST).collect();
    match cut.rfind(". ").filter(|at| *at > MOST / 3) {
        Some(at) => cut[..=at].to_owned(),
        None => match cut.rfind(' ') {
            Some(at) => format!("{}…", &cut[..at]),
            None => format!("{cut}…"),
        },
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}
