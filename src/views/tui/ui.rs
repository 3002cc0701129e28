//! What the dashboard remembers between two frames: where the user is, and nothing about the job.

use std::collections::BTreeSet;

use regex::Regex;

use crate::engine::finding::Finding;
use crate::engine::ids::SourceId;
use crate::engine::line::Place;
use crate::engine::recent::Whose;
use crate::engine::snapshot::{RankView, Snapshot};

use super::keymap::{Here, Keys};
use super::level::Level;
use super::screen::Screen;
use super::screen::collectives;
use super::screen::ranks::Sort;
use super::task::{FindingKey, TaskView};
use super::theme::Theme;

/// The state of the dashboard.
#[derive(Debug, Default)]
pub struct Ui {
    /// What keys mean.
    pub keys: Keys,
    /// The screen that is shown.
    pub screen: Screen,
    /// Screens to go back to.
    pub back: Vec<Screen>,
    /// The help page lies over it.
    pub help: bool,
    /// First row of the help page.
    pub help_top: usize,
    /// Colours and characters.
    pub theme: Theme,
    /// Size of the terminal.
    pub size: (u16, u16),
    /// The table of ranks.
    pub ranks: Ranks,
    /// The list of findings.
    pub findings: Findings,
    /// Selected host, or behind the hosts a connect that failed, if the user chose one.
    pub host: Option<usize>,
    /// Selected row of the settings.
    pub env: usize,
    /// Selected GPU.
    pub gpu: usize,
    /// Selected communicator, if the user chose one.
    pub comm: Option<usize>,
    /// Selected row of the communicator.
    pub member: usize,
    /// The log of one rank.
    pub log: Log,
    /// What is being typed.
    pub prompt: Option<Prompt>,
    /// Something to tell, until the next key.
    pub message: Option<String>,
    /// The program that was asked for last.
    pub task: Option<TaskView>,
    /// What was found out about fixes, in words.
    pub proofs: Vec<(FindingKey, String)>,
}

/// The table of ranks.
#[derive(Debug, Default)]
pub struct Ranks {
    /// The selected one; its row is looked up, since rows move.
    pub selected: Option<RankKey>,
    /// Its row when it was selected.
    pub row: usize,
    /// The column to sort by.
    pub sort: Sort,
    /// The other way round.
    pub reverse: bool,
    /// Only rows in which this is found.
    pub filter: String,
    /// Those whose logs are to be read together.
    pub marked: BTreeSet<u32>,
}

/// Something that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What for.
    pub asked: Asked,
    /// What is there so far.
    pub text: String,
    /// The chosen row, where there is a list to choose from.
    pub row: usize,
}

/// What is typed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A pattern to search a log for.
    Search,
    /// What rows of ranks have to contain.
    Ranks,
    /// A pattern that lines of a log have to have.
    Only,
    /// A pattern that they must not have.
    Without,
    /// What an action is called.
    Action,
}

impl Asked {
    /// What stands in front of it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Search => "search: ",
            Self::Ranks => "filter: ",
            Self::Only => "only lines with: ",
            Self::Without => "no lines with: ",
            Self::Action => "action: ",
        }
    }
}

/// What a row of the table is about, whatever row it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankKey(Option<u32>, Option<String>, Option<u32>);

impl RankKey {
    /// The key of a rank or writer.
    #[must_use]
    pub fn of(rank: &RankView) -> Self {
        let unnamed = rank.rank.is_none();
        Self(
            rank.rank,
            rank.name.clone().filter(|_| unnamed),
            rank.pid.filter(|_| unnamed),
        )
    }
}

/// The list of findings.
#[derive(Debug, Default)]
pub struct Findings {
    /// The selected row.
    pub row: usize,
    /// Id of the finding in it, by which it is found again after others came.
    pub id: Option<String>,
    /// First row of the detail.
    pub top: usize,
}

/// Whose lines the log screen shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Those of one rank.
    #[default]
    One,
    /// Those of the marked ranks.
    Marked,
    /// Those of all.
    All,
}

/// The log of one, some or all ranks.
#[derive(Debug, Default)]
pub struct Log {
    /// Whose log it is; where several are shown, the one it was opened for.
    pub rank: Option<u32>,
    /// Whether others are shown, too.
    pub extent: Extent,
    /// The kept lines.
    pub lines: Vec<LogRow>,
    /// Which of them pass the filters: indices, in order.
    pub passing: Vec<usize>,
    /// Lines that are kept but older than the first of these.
    pub older: usize,
    /// Lines that had been written when these were asked for.
    pub seen: u64,
    /// The line of the cursor; one that passes, if any does.
    pub row: usize,
    /// First column that is shown.
    pub column: usize,
    /// Long lines go on in further rows.
    pub wrap: bool,
    /// Stays at the end.
    pub follow: bool,
    /// Only lines that have this are shown.
    pub only: Option<Regex>,
    /// No lines that have this are shown.
    pub without: Option<Regex>,
    /// What is searched for.
    pub pattern: Option<Regex>,
    /// The line to go to as soon as it is there: source and number.
    pub wanted: Option<(SourceId, u64)>,
}

/// One line of a log.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// Where it stands.
    pub place: Place,
    /// Who wrote it, if known.
    pub rank: Option<u32>,
    /// How bad it is.
    pub level: Level,
    /// Its text as far as it is shown; not yet escaped.
    pub text: String,
}

impl Log {
    /// Where the cursor stands among the lines that pass.
    #[must_use]
    pub fn position(&self) -> usize {
        let at = self.passing.partition_point(|at| *at < self.row);
        at.min(self.passing.len().saturating_sub(1))
    }

    /// Moves the cursor to a line, or to the next one that passes.
    pub(super) fn go_to(&mut self, row: usize) {
        self.row = row;
        self.row = self.passing.get(self.position()).copied().unwrap_or(0);
    }

    /// The last line that passes.
    pub(super) fn last(&self) -> usize {
        self.passing.last().copied().unwrap_or(0)
    }
}

impl Ui {
    /// A dashboard that has just been opened.
    #[must_use]
    pub fn new(theme: Theme) -> Self {
        Self {
            theme,
            log: Log {
                follow: true,
                ..Log::default()
            },
            ..Self::default()
        }
    }

    /// Where the user is, as far as keys care.
    #[must_use]
    pub fn here(&self, replay: bool) -> Here {
        Here {
            screen: self.screen,
            prompt: self.prompt.is_some(),
            overlay: self.task.as_ref().is_some_and(|task| !task.hidden),
            replay,
        }
    }

    /// True while this is asked for.
    #[must_use]
    pub fn asks(&self, asked: Asked) -> bool {
        self.prompt.as_ref().is_some_and(|p| p.asked == asked)
    }

    /// Whose lines the log screen shows, if it shows any.
    #[must_use]
    pub fn whose(&self) -> Option<Whose> {
        match self.log.extent {
            Extent::All => Some(Whose::All),
            Extent::Marked if !self.ranks.marked.is_empty() => {
                Some(Whose::Ranks(self.ranks.marked.iter().copied().collect()))
            }
            Extent::One | Extent::Marked => Some(Whose::Ranks(vec![self.log.rank?])),
        }
    }

    /// Rows between header and footer.
    #[must_use]
    pub fn page(&self) -> usize {
        usize::from(self.size.1.saturating_sub(4)).max(1)
    }

    /// The row of the selected host, or behind them of a connect that failed; at first the odd host.
    #[must_use]
    pub fn host_row(&self, snapshot: &Snapshot) -> usize {
        let hosts = &snapshot.job.hosts;
        let odd = || hosts.iter().position(|h| h.odd).unwrap_or(0);
        self.host
            .unwrap_or_else(odd)
            .min((hosts.len() + snapshot.job.connects.len()).saturating_sub(1))
    }

    /// The selected communicator; at first the one that something is wrong with.
    #[must_use]
    pub fn comm_row(&self, snapshot: &Snapshot) -> usize {
        let comms = snapshot.job.comms.len();
        self.comm
            .unwrap_or_else(|| collectives::first(snapshot))
            .min(comms.saturating_sub(1))
    }

    /// The row of the selected finding.
    #[must_use]
    pub fn finding_row(&self, snapshot: &Snapshot) -> usize {
        let findings = &snapshot.findings;
        let is_it = |f: &Finding| Some(&f.id) == self.findings.id.as_ref();
        if findings.get(self.findings.row).is_some_and(is_it) {
            return self.findings.row;
        }
        let again = findings.iter().position(is_it);
        again
            .unwrap_or(self.findings.row)
            .min(findings.len().saturating_sub(1))
    }
}
