//! What can be done now: a key that does nothing here says why, and the footer does not offer it.

use std::cell::OnceCell;

use crate::app::handle::Status;
use crate::engine::ids::SourceId;
use crate::engine::snapshot::Snapshot;
use crate::views::escape::{Glyphs, harmless};
use crate::views::tui::keymap::{Action, Binding};
use crate::views::tui::screen::collectives::groups;
use crate::views::tui::screen::ranks::visible;
use crate::views::tui::screen::{Screen, env, gpus};
use crate::views::tui::task::Stage;
use crate::views::tui::ui::{Extent, Ui};
use crate::views::words;

use super::{log, rank_row, time};

/// A line of a log: its source and number.
type At = (SourceId, u64);

/// What Enter leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The findings.
    Findings,
    /// The ranks of this host.
    Host(String),
    /// A log: of the marked ranks with this one in front, or of this one alone; at a line, or at its end.
    Log(u32, Extent, Option<At>),
}

const NO_RANK: &str = "its rank is not known, so its lines cannot be picked out";
const NO_FINDING: &str = "nothing was found";

/// The dashboard as it stands, asked what can be done.
pub struct Now<'a> {
    ui: &'a Ui,
    snapshot: &'a Snapshot,
    status: &'a Status,
    /// The rank under the cursor of the table of ranks, looked for once: it may be among many.
    selected: OnceCell<Option<u32>>,
}

impl<'a> Now<'a> {
    /// Of this moment.
    #[must_use]
    pub fn new(ui: &'a Ui, snapshot: &'a Snapshot, status: &'a Status) -> Self {
        Self {
            ui,
            snapshot,
            status,
            selected: OnceCell::new(),
        }
    }

    /// Why an action would do nothing; `None` if it does something.
    #[must_use]
    pub fn refusal(&self, action: Action) -> Option<String> {
        let (ui, snapshot) = (self.ui, self.snapshot);
        let says = |why: &str| Some(why.to_owned());
        let running = ui.task.as_ref().is_some_and(|task| task.runs());
        match action {
            Action::Open => self.target().err().map(str::to_owned),
            Action::Back if ui.screen == Screen::Overview && ui.back.is_empty() => {
                says("this is the first screen; q quits")
            }
            Action::Finding(_) if snapshot.findings.is_empty() => says(NO_FINDING),
            Action::Finding(by) if self.ends(by) => says("there is no other finding there"),
            Action::CopyFix if fix(ui, snapshot).is_none() => says("there is no fix to copy"),
            Action::Prove if !running && meant(ui, snapshot).is_none() => {
                says("there is no fix to prove")
            }
            Action::Stack if !running && self.rank_meant().is_none() => {
                says("its rank is not known, nor is its process")
            }
            Action::Mark if self.selected().is_none() => says(NO_RANK),
            Action::MarkAll if ui.ranks.marked.is_empty() && self.selected().is_none() => {
                says("no rank is shown that could be marked")
            }
            Action::Hit(_) if ui.log.pattern.is_none() => {
                says("nothing to search for yet: / starts a search")
            }
            Action::Neighbour(by) if log::beside(ui, snapshot, by).is_none() => {
                says("there is no other rank's log there")
            }
            Action::Step
            | Action::Faster
            | Action::Slower
            | Action::Seek(_)
            | Action::Edge(_)
            | Action::FirstSign
            | Action::Sign(_) => time::refusal(self.status, action),
            _ => None,
        }
    }

    /// The footer's word for a binding; `None` if it is not offered.
    #[must_use]
    pub fn word(&self, binding: &Binding) -> Option<&'static str> {
        let overlay = self.ui.task.as_ref().filter(|task| !task.hidden);
        if let Some(task) = overlay {
            let asked = matches!(task.stage, Stage::Asked(_));
            return match binding.action {
                Action::Accept if asked => Some("run"),
                Action::Accept if task.runs() => Some("hide"),
                Action::Cancel if task.runs() => Some("stop"),
                Action::Cancel => Some("close"),
                Action::CopyFix => task.command().map(|_| binding.footer),
                _ => None,
            };
        }
        match binding.action {
            Action::Pause if self.status.paused => Some("go on"),
            Action::Follow if self.ui.log.follow => Some("hold"),
            action if self.refusal(action).is_some() => None,
            _ => Some(binding.footer),
        }
    }

    /// The selected finding is the last one on this side, and is shown.
    fn ends(&self, by: isize) -> bool {
        let (ui, findings) = (self.ui, self.snapshot.findings.len());
        let row = ui.finding_row(self.snapshot);
        let shown = matches!(ui.screen, Screen::Overview | Screen::Findings);
        shown && super::moved(row, by, findings) == row
    }

    /// The rank under the cursor of the table of ranks.
    fn selected(&self) -> Option<u32> {
        let find = || {
            let rows = visible(self.ui, self.snapshot);
            let row = rows.get(rank_row(self.ui, self.snapshot, &rows))?;
            self.snapshot.job.ranks[*row].rank
        };
        *self.selected.get_or_init(find)
    }

    /// The rank whose process is meant.
    pub(super) fn rank_meant(&self) -> Option<u32> {
        match self.ui.screen {
            Screen::Log => log::rank_here(self.ui),
            _ => self.selected(),
        }
    }

    /// What is under the cursor; the error says why there is nothing to open.
    pub(super) fn target(&self) -> Result<Target, &'static str> {
        const NO_LOG: &str = "there is no rank's log to open here";
        let (ui, snapshot) = (self.ui, self.snapshot);
        let job = &snapshot.job;
        let log_of = |rank: Option<u32>| {
            let target = rank.map(|rank| Target::Log(rank, Extent::One, None));
            target.ok_or(NO_LOG)
        };
        match ui.screen {
            Screen::Overview => Ok(Target::Findings),
            Screen::Ranks => {
                let rank = self.selected().ok_or(NO_RANK)?;
                let marked = !ui.ranks.marked.is_empty();
                let extent = if marked { Extent::Marked } else { Extent::One };
                Ok(Target::Log(rank, extent, None))
            }
            Screen::Findings => evidence(ui, snapshot),
            Screen::Hosts => {
                let row = ui.host_row(snapshot);
                if let Some(host) = job.hosts.get(row) {
                    return Ok(Target::Host(host.name.clone()));
                }
                let connect = job.connects.get(row - job.hosts.len());
                log_of(connect.and_then(|c| c.ranks.first().copied()))
            }
            Screen::Collectives => {
                let comm = job.comms.get(ui.comm_row(snapshot));
                let groups = comm.map(groups).unwrap_or_default();
                log_of(groups.get(ui.member).and_then(|g| g.ranks.first().copied()))
            }
            Screen::Gpus => {
                let rows = gpus::rows(job);
                let row = rows.get(ui.gpu.min(rows.len().saturating_sub(1)));
                log_of(row.and_then(|r| r.ranks().first().copied()))
            }
            Screen::Env => log_of(env::rows(job).get(ui.env).and_then(|row| row.rank)),
            Screen::Log if ui.log.extent == Extent::One => {
                Err("this is the log of one rank already")
            }
            Screen::Log => {
                let line = ui.log.lines.get(ui.log.row).ok_or("there is no line")?;
                let place = (line.place.source, line.place.number);
                Ok(Target::Log(
                    line.rank.ok_or(NO_RANK)?,
                    Extent::One,
                    Some(place),
                ))
            }
        }
    }
}

/// The log at the first line of the selected finding.
pub(super) fn evidence(ui: &Ui, snapshot: &Snapshot) -> Result<Target, &'static str> {
    let finding = snapshot.findings.get(ui.finding_row(snapshot));
    let evidence = &finding.ok_or(NO_FINDING)?.evidence;
    let mut lines = evidence.iter().filter(|e| e.entry.is_none());
    let first = lines.find_map(|e| Some((e.rank?, (e.source, e.line))));
    let (rank, place) = first.ok_or("no line of a known rank supports it")?;
    Ok(Target::Log(rank, Extent::One, Some(place)))
}

/// The finding whose fix is meant: the selected one, elsewhere the verdict's.
pub(super) fn meant(ui: &Ui, snapshot: &Snapshot) -> Option<usize> {
    let row = match ui.screen {
        Screen::Findings => Some(ui.finding_row(snapshot)),
        _ => snapshot.verdict.finding,
    };
    row.filter(|row| *row < snapshot.findings.len())
}

/// The fix that is meant, as text for the clipboard: its commands, else its words.
pub(super) fn fix(ui: &Ui, snapshot: &Snapshot) -> Option<String> {
    let fixes = &snapshot.findings[meant(ui, snapshot)?].fixes;
    let mut commands = fixes.iter().map(words::exports);
    let commands = commands.find(|lines| !lines.is_empty());
    let words = || Some(harmless(&fixes.first()?.text, Glyphs::Unicode).into_owned());
    commands.map(|lines| lines.join("\n") + "\n").or_else(words)
}
