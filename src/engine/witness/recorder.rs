//! Flight Recorder dumps of a job: whose each is, and what they say of each process group.

mod batches;
mod groups;
mod place;
pub mod view;

pub use groups::{GroupRec, Part};
pub use place::Recorded;

use std::collections::BTreeMap;

use crate::engine::dump::{self, Common, Dump, DumpError, Entry, Group};
use crate::engine::ids::SourceId;
use crate::engine::input::Time;
use crate::engine::limits;

/// What one process recorded on one process group.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Collectives, by their number in the group.
    pub collectives: Vec<Entry>,
    /// Sends and recvs, in their order.
    pub p2p: Vec<Entry>,
}

/// A dump that was read.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The name of its source.
    pub name: String,
    /// Its head and groups; the entries are in `calls`.
    pub dump: Dump,
    /// By group.
    pub calls: Vec<Calls>,
    /// Calls it holds.
    pub entries: usize,
    /// When the first and the last of them were made; 0 if unknown.
    pub span: (u64, u64),
    /// When the dump was seen.
    pub seen: Option<Time>,
}

impl Taken {
    fn new(common: &Common, name: String, mut dump: Dump, seen: Option<Time>) -> Self {
        let mut calls = vec![Calls::default(); dump.groups.len()];
        let mut entries = std::mem::take(&mut dump.entries);
        let kept = entries.len();
        batches::settle(common, &mut entries);
        let times = entries.iter().map(|e| e.created_ns).filter(|at| *at > 0);
        let span = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
        for entry in &entries {
            let group = &mut calls[entry.group as usize];
            if entry.is_p2p {
                group.p2p.push(*entry);
            } else {
                group.collectives.push(*entry);
            }
        }
        for group in &mut calls {
            group
                .collectives
                .sort_by_key(|e| (e.seq, e.op_id, e.record_id));
            group.collectives.shrink_to_fit();
            group.p2p.shrink_to_fit();
        }
        Self {
            name,
            dump,
            calls,
            entries: kept,
            span,
            seen,
        }
    }

    /// True if it tells of no call and of no group: all there is then is its file's name.
    #[must_use]
    pub fn says_nothing(&self) -> bool {
        self.entries == 0 && self.dump.mentioned.is_empty()
    }

    /// Its groups with what was called on them.
    pub fn groups(&self) -> impl Iterator<Item = (&Group, &Calls)> {
        self.dump.groups.iter().zip(&self.calls)
    }

    /// Of a dump that is cut: what was read of it, in words.
    #[must_use]
    pub fn cut(&self) -> Option<String> {
        let at = self.dump.cut?;
        let calls = match self.entries {
            1 => "only its first call was".to_owned(),
            n => format!("only its first {n} calls were"),
        };
        Some(format!(
            "{calls} read: it is cut off after {at} bytes, so what its rank called after them is not known"
        ))
    }

    /// Older calls are missing: the ring has wrapped.
    #[must_use]
    pub fn wrapped(&self) -> bool {
        self.dump.dropped > 0
    }
}

/// Every dump of the job.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// What the dumps have in common.
    pub common: Common,
    /// The dumps, by source.
    pub dumps: BTreeMap<SourceId, Taken>,
    /// Those that could not be read, with their names.
    pub unread: BTreeMap<SourceId, (String, DumpError)>,
}

impl Recorder {
    /// Takes a dump; a later one of the same source replaces it.
    pub fn take(&mut self, source: SourceId, name: String, bytes: &[u8], seen: Option<Time>) {
        self.dumps.remove(&source);
        self.unread.remove(&source);
        match dump::read(bytes, &mut self.common) {
            Ok(dump) => {
                let taken = Taken::new(&self.common, name, dump, seen);
                self.dumps.insert(source, taken);
            }
            Err(error) => {
                self.unread.insert(source, (name, error));
            }
        }
    }

    /// A dump is there, and its file could not be read or unpacked.
    pub fn unreadable(&mut self, source: SourceId, name: String, why: String) {
        self.dumps.remove(&source);
        self.unread
            .insert(source, (name, DumpError::Unreadable(why)));
    }

    /// Why the dump of a source could not be read, or not in whole.
    #[must_use]
    pub fn problem(&self, source: SourceId) -> Option<String> {
        if let Some((_, error)) = self.unread.get(&source) {
            return Some(error.to_string());
        }
        let taken = self.dumps.get(&source)?;
        if let Some(cut) = taken.cut() {
            return Some(cut);
        }
        (taken.dump.unread > 0).then(|| {
            format!(
            "only its newest {} of {} calls were read: it names the same lists again and again, for more than {} values",
                taken.entries,
                taken.entries + taken.dump.unread,
                limits::DUMP_VISITS,
            )
        })
    }

    /// True if no dump was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dumps.is_empty() && self.unread.is_empty()
    }
}
