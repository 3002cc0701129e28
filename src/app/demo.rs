//! Recorded failures that are built into the binary (`examples/make_journal.rs` writes them).

use std::io::{self, Cursor};

use super::replay::script::{JournalScript, Script};
use crate::sources::journal::read::Journal;

/// One recorded failure.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happened, in one line.
    pub about: &'static str,
    /// The key of the screen that shows it best, and what it shows: `5 shows who called what`.
    pub look: &'static str,
    journal: &'static [u8],
}

/// Every case; the first is played if none is named.
pub const CASES: &[Case] = &[
    Case {
        name: "skipped-collective",
        about: "one of two ranks leaves out an all-reduce and the other waits for it",
        look: "5 shows who called what",
        journal: include_bytes!("../../fixtures/journals/skipped-collective.journal"),
    },
    Case {
        name: "iface-docker-16",
        about: "16 ranks on 8 hosts bootstrap on docker0, which has the same address everywhere",
        look: "4 shows the addresses",
        journal: include_bytes!("../../fixtures/journals/iface-docker-16.journal"),
    },
    Case {
        name: "mismatch-count-16",
        about: "one of 16 ranks calls a collective with another element count",
        look: "5 shows who called what",
        journal: include_bytes!("../../fixtures/journals/mismatch-count-16.journal"),
    },
    Case {
        name: "rank-killed-16",
        about: "one of 16 ranks is killed and 15 report it",
        look: "2 shows how far each got",
        journal: include_bytes!("../../fixtures/journals/rank-killed-16.journal"),
    },
    Case {
        name: "version-mix",
        about: "two ranks load different versions of NCCL and never get through start-up",
        look: "7 shows the versions",
        journal: include_bytes!("../../fixtures/journals/version-mix.journal"),
    },
    Case {
        name: "p2p-off",
        about: "a forgotten NCCL_P2P_DISABLE=1 sends traffic through host memory",
        look: "3 shows the fix",
        journal: include_bytes!("../../fixtures/journals/p2p-off.journal"),
    },
];

impl Case {
    /// The case of this name, or the first.
    #[must_use]
    pub fn find(name: Option<&str>) -> Option<&'static Self> {
        match name {
            Some(name) => CASES.iter().find(|case| case.name == name),
            None => CASES.first(),
        }
    }

    /// What to play.
    ///
    /// # Errors
    /// If the built-in journal is broken, which a test excludes.
    pub fn script(&self) -> io::Result<Box<dyn Script>> {
        let (case, journal) = (*self, Journal::open(Cursor::new(self.journal))?);
        let script = JournalScript::new(journal).reopened_by(move || case.script());
        Ok(Box::new(script))
    }
}
