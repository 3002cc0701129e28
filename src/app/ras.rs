//! Asks RAS while a job is watched, and once for a report.
//!
//! **Architecture invariant:** nobody is asked whose version is known to have crashed when asked, or is
//! not known, unless the user insists; and nobody is asked unasked before the job stands still.

mod listen;

pub(crate) use listen::listen;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::engine_thread::{Msg, Sender};
use crate::engine::ids::SourceId;
use crate::engine::input::{Input, SourceInfo, SourceKind};
use crate::engine::snapshot::Snapshot;
use crate::engine::vocab::State;
use crate::error::InputError;
use crate::sources::ras::{Endpoint, Patience, danger};
use crate::sources::record::{Record, What};

/// Without a line for this long a job seems to stand still.
const QUIET: Duration = Duration::from_secs(30);

/// How RAS is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Whom; none: whoever listens on this host by the logs' own words, once the job stands still.
    pub endpoints: Vec<Endpoint>,
    /// Never ask.
    pub off: bool,
    /// Ask whatever the version.
    pub force: bool,
    /// Let those endpoints tell of changes by themselves, too.
    pub monitor: bool,
    /// The user says that the job stands still.
    pub stuck: bool,
    /// Between two questions.
    pub every: Duration,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            off: false,
            force: false,
            monitor: false,
            stuck: false,
            every: Duration::from_secs(30),
        }
    }
}

/// A source of answers.
#[must_use]
pub fn source(id: SourceId, endpoint: &Endpoint) -> SourceInfo {
    SourceInfo {
        id,
        name: format!("RAS at {endpoint}"),
        kind: SourceKind::Ras,
        host: None,
        pid: None,
        rank: None,
    }
}

/// Why a job must not be asked, if it must not.
#[must_use]
pub fn refusal(snapshot: &Snapshot, endpoint: &Endpoint) -> Option<InputError> {
    let versions = snapshot.job.versions.iter().filter(|v| v.name == "nccl");
    let mut versions = versions.flat_map(|v| &v.values).peekable();
    let unknown = versions.peek().is_none();
    let why = if unknown {
        "the logs do not tell NCCL's version, and asking some versions has crashed jobs".to_owned()
    } else {
        let (version, why) = versions.find_map(|(version, _)| Some((version, danger(version)?)))?;
        format!("the job uses NCCL {version}: {why}")
    };
    let name = endpoint.to_string();
    let problem = InputError::because("ask RAS at", Path::new(&name), why);
    Some(problem.hint("--ras-force asks all the same"))
}

/// The addresses on this host that the logs name.
fn named(snapshot: &Snapshot, here: &str) -> Vec<Endpoint> {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let of_here = snapshot
        .job
        .ras
        .iter()
        .filter(|(host, _)| short(host) == short(here));
    let mut endpoints: Vec<Endpoint> = of_here
        .filter_map(|(_, address)| Endpoint::as_printed(address))
        .collect();
    endpoints.sort();
    endpoints.dedup();
    // One answer tells of the whole job.
    endpoints.truncate(1);
    endpoints
}

/// When to ask. News make the next question come at once, and the one after it no sooner than without them.
struct Pace {
    every: Duration,
    due: Instant,
}

impl Pace {
    fn is_due(&self, now: Instant, news: &AtomicBool) -> bool {
        let ahead = self.due.saturating_duration_since(now);
        ahead.is_zero() || (ahead <= self.every && news.load(Ordering::Relaxed))
    }

    fn asked(&mut self, now: Instant) {
        self.due = self.due.max(now) + self.every;
    }
}

/// Asks again and again until the watch ends. `ids` are the sources' ids, one for each endpoint that
/// was named, and one more for what the logs name. `news`: RAS told that a process is gone or silent.
pub(crate) fn poll(
    asking: &Asking,
    ids: &[SourceId],
    news: &AtomicBool,
    sender: &Sender,
    clock: Clock,
) {
    let here = nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut told: BTreeMap<Endpoint, String> = BTreeMap::new();
    let mut sources: BTreeMap<Endpoint, SourceId> = BTreeMap::new();
    let mut pace = Pace {
        every: asking.every,
        due: Instant::now(),
    };
    let mut again = Instant::now();
    loop {
        // Short naps, so that the end of the watch is not waited for.
        std::thread::sleep(Duration::from_millis(250));
        if sender.shared.is_shut_down() {
            return;
        }
        let now = Instant::now();
        if now < again || !pace.is_due(now, news) {
            continue;
        }
        let snapshot = sender.shared.snapshot();
        let unasked = asking.endpoints.is_empty();
        let endpoints = if unasked {
            if !stands_still(&snapshot, asking.stuck) {
                continue;
            }
            named(&snapshot, &here)
        } else {
            asking.endpoints.clone()
        };
        let mut asked = false;
        for endpoint in endpoints {
            let refusal = refusal(&snapshot, &endpoint).filter(|_| !asking.force);
            // The version may stand in a line that is still to come.
            let result = match refusal {
                Some(refusal) => Err(refusal),
                None => {
                    asked = true;
                    news.store(false, Ordering::Relaxed);
                    endpoint.ask(Patience::default())
                }
            };
            match result {
                Ok(reply) => {
                    let known = sources.len();
                    let source = *sources.entry(endpoint.clone()).or_insert_with(|| {
                        let id = ids[known.min(ids.len() - 1)];
                        send(
                            sender,
                            clock,
                            What::Other(Input::Source(source(id, &endpoint))),
                        );
                        id
                    });
                    told.remove(&endpoint);
                    send(sender, clock, What::Ras { source, reply });
                    sender.shared.edit_status(|status| {
                        status.asked_ras += 1;
                        true
                    });
                }
                Err(problem) => {
                    let text = problem.to_string();
                    let quiet = unasked || told.get(&endpoint) == Some(&text);
                    if !quiet {
                        told.insert(endpoint, text.clone());
                        sender.send(Msg::Message(text));
                    }
                }
            }
        }
        if asked {
            pace.asked(Instant::now());
        } else {
            again = Instant::now() + Duration::from_secs(1);
        }
    }
}

/// Unasked, only a job that seems to hang is asked: a moving one learns nothing from it.
fn stands_still(snapshot: &Snapshot, claimed: bool) -> bool {
    let last = snapshot
        .job
        .ranks
        .iter()
        .filter_map(|rank| rank.last_seen)
        .max();
    let quiet = match (snapshot.now, last) {
        (Some(now), Some(last)) => now.since(last) > QUIET,
        _ => false,
    };
    let opening = |comm: &crate::engine::snapshot::CommView| {
        let open = |m: &crate::engine::snapshot::MemberView| m.started && !m.complete && !m.ended;
        comm.members.iter().any(open)
    };
    (claimed || quiet || matches!(snapshot.verdict.state, State::Hung | State::Waiting))
        && !snapshot.job.comms.iter().any(opening)
}

fn send(sender: &Sender, clock: Clock, what: What) {
    sender.send(Msg::Record(Record {
        seen: Some(clock.now()),
        what,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_bring_a_question_forward_and_make_no_more_of_them() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut pace = Pace {
            every: Duration::from_secs(30),
            due: start,
        };
        let (quiet, news) = (AtomicBool::new(false), AtomicBool::new(true));
        assert!(pace.is_due(start, &quiet));
        pace.asked(start);
        assert!(!pace.is_due(at(29), &quiet) && pace.is_due(at(30), &quiet));
        assert!(pace.is_due(at(3), &news));
        pace.asked(at(3));
        // That was the question of second 30; the next one is that of second 60.
        for second in [4, 20, 29] {
            assert!(!pace.is_due(at(second), &news), "{second}");
        }
        assert!(!pace.is_due(at(59), &quiet) && pace.is_due(at(60), &quiet));
        assert!(pace.is_due(at(31), &news));
    }
}
