//! What the operating system says of the processes of a job.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::input::{ProcessLoad, ProcessState, Time};

/// Processes that are remembered.
const PROCESSES: usize = 1 << 17;

/// All processes that somebody looked at.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    seen: BTreeMap<(String, u32), ProcessSeen>,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessSeen {
    /// Its state.
    pub state: ProcessState,
    /// Since when it has been seen in it, one look after the other.
    pub since: Option<Time>,
    /// What it does.
    pub load: ProcessLoad,
}

impl Processes {
    /// A process was seen.
    pub fn take(
        &mut self,
        host: String,
        pid: u32,
        seen: Option<Time>,
        state: ProcessState,
        load: ProcessLoad,
    ) {
        let full = self.seen.len() >= PROCESSES;
        match self.seen.entry((host, pid)) {
            std::collections::btree_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                if known.state != state {
                    known.since = seen;
                }
                known.state = state;
                known.load = load;
            }
            std::collections::btree_map::Entry::Vacant(free) if !full => {
                free.insert(ProcessSeen {
                    state,
                    since: seen,
                    load,
                });
            }
            std::collections::btree_map::Entry::Vacant(_) => {}
        }
    }

    /// What is known of a process.
    #[must_use]
    pub fn get(&self, host: &str, pid: u32) -> Option<&ProcessSeen> {
        self.seen.get(&(host.to_owned(), pid))
    }

    /// Processes of a host.
    pub fn of_host(&self, host: &str) -> impl Iterator<Item = (u32, &ProcessSeen)> {
        let from = (host.to_owned(), 0);
        let to = (host.to_owned(), u32::MAX);
        self.seen
            .range(from..=to)
            .map(|((_, pid), seen)| (*pid, seen))
    }
}

impl ProcessSeen {
    /// How long it has been in this state; `None` where nobody watches, so that no time is known.
    #[must_use]
    pub fn lasts(&self, now: Option<Time>) -> Option<Duration> {
        Some(now?.since(self.since?))
    }

    /// It does not run and will not by itself: stopped by a signal or held by a debugger.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.state, ProcessState::Stopped | ProcessState::Traced)
    }

    /// It has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.state, ProcessState::Gone | ProcessState::Zombie)
    }
}
