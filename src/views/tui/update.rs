//! What an action changes, and what it asks of the outside.

mod log;
pub mod now;
mod time;

use std::time::Duration;

use crate::app::handle::{LogRequest, Status};
use crate::app::prove::Test;
use crate::engine::recent::Whose;
use crate::engine::snapshot::Snapshot;

use super::keymap::Action;
use super::palette;
use super::screen::Screen;
use super::screen::collectives::groups;
use super::screen::ranks::visible;
use super::screen::{env, gpus};
use super::task;
use super::ui::{Asked, Prompt, RankKey, Ui};

use log::{LINE_BYTES, hit, neighbour, open_log, open_log_at};
pub use log::{arrived, refresh};
use now::{Now, Target};

/// Characters of a prompt.
const PROMPT: usize = 200;
/// Columns that a log scrolls sideways.
const SIDEWAYS: usize = 16;

/// What the dashboard asks of the outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// End.
    Quit,
    /// Freeze, or stop the replay.
    Pause,
    /// Undo it.
    Resume,
    /// Play one piece.
    Step,
    /// Play at this speed.
    Speed(f64),
    /// Jump there.
    Seek(Duration),
    /// Read lines of some ranks.
    Log(Whose, LogRequest),
    /// Put a text on the clipboard.
    Copy(String),
    /// Save a report.
    Save,
    /// See which test proves the fix of this finding, and ask whether to run it.
    Prove(usize),
    /// Run this test.
    Run(Test),
    /// Read the Python stack of this rank.
    Stack(u32),
    /// Stop what runs beside the dashboard.
    StopTask,
    /// Go to the background.
    Suspend,
}

/// Carries an action out.
pub fn update(ui: &mut Ui, snapshot: &Snapshot, status: &Status, action: Action) -> Vec<Effect> {
    ui.message = None;
    if ui.help && help_took(ui, action) {
        return Vec::new();
    }
    if let Some(effects) = task::took(ui, action) {
        return effects;
    }
    if let Some(why) = Now::new(ui, snapshot, status).refusal(action) {
        ui.message = Some(why);
        return Vec::new();
    }
    match action {
        Action::Quit => return vec![Effect::Quit],
        Action::Suspend => return vec![Effect::Suspend],
        Action::Save => return vec![Effect::Save],
        Action::Pause => {
            return vec![if status.paused {
                Effect::Resume
            } else {
                Effect::Pause
            }];
        }
        Action::Step => return vec![Effect::Step],
        Action::Faster => return time::speed(status, 2.0),
        Action::Slower => return time::speed(status, 0.5),
        Action::Seek(by) => return time::seek(status, by),
        Action::Edge(end) => return time::edge(status, end),
        Action::FirstSign | Action::Sign(_) => return time::jump(ui, status, action),
        Action::CopyFix => {
            let fix = now::fix(ui, snapshot);
            return fix.map(Effect::Copy).into_iter().collect();
        }
        Action::Prove => return prove(ui, snapshot),
        Action::Stack => return stack(ui, snapshot, status),
        Action::Go(screen) => return go(ui, snapshot, screen),
        Action::NextScreen => return go(ui, snapshot, ui.screen.turned(1)),
        Action::PreviousScreen => return go(ui, snapshot, ui.screen.turned(-1)),
        Action::Open => {
            let target = Now::new(ui, snapshot, status).target();
            return target.map_or_else(|_| Vec::new(), |target| show(ui, snapshot, target));
        }
        Action::Finding(by) => return finding(ui, snapshot, by),
        Action::Neighbour(by) => return neighbour(ui, snapshot, by),
        Action::Sideways(by) => return sideways(ui, snapshot, by),
        Action::Back => back(ui),
        Action::Help => {
            ui.help = true;
            ui.help_top = 0;
        }
        Action::Move(by) => step(ui, snapshot, by),
        Action::Page(by) if ui.screen == Screen::Findings => {
            let rows = isize::try_from(ui.page() / 2).unwrap_or(1) * by;
            ui.findings.top = ui.findings.top.saturating_add_signed(rows);
        }
        Action::Page(by) => step(ui, snapshot, isize::try_from(ui.page()).unwrap_or(1) * by),
        Action::Top => step(ui, snapshot, isize::MIN),
        Action::Bottom => step(ui, snapshot, isize::MAX),
        Action::Sort => ui.ranks.sort = ui.ranks.sort.next(),
        Action::Reverse => ui.ranks.reverse = !ui.ranks.reverse,
        Action::Follow => {
            ui.log.follow = !ui.log.follow;
            if ui.log.follow {
                ui.log.row = ui.log.last();
            }
        }
        Action::Hit(by) => hit(ui, by),
        Action::Mark => mark(ui, snapshot),
        Action::MarkAll => mark_all(ui, snapshot),
        Action::Widen => return log::widen(ui, snapshot),
        Action::Wrap => ui.log.wrap = !ui.log.wrap,
        Action::Search if ui.screen == Screen::Ranks => {
            let filter = ui.ranks.filter.clone();
            ask(ui, Asked::Ranks, filter);
        }
        Action::Search => ask(ui, Asked::Search, String::new()),
        Action::Only => {
            let present = pattern_text(ui.log.only.as_ref());
            ask(ui, Asked::Only, present);
        }
        Action::Without => {
            let present = pattern_text(ui.log.without.as_ref());
            ask(ui, Asked::Without, present);
        }
        Action::Type(c) => typed(ui, Some(c)),
        Action::Erase => typed(ui, None),
        Action::Palette => ask(ui, Asked::Action, String::new()),
        Action::Choose(by) => choose(ui, status, by),
        Action::Accept if ui.asks(Asked::Action) => return run(ui, snapshot, status),
        Action::Accept => accept(ui),
        Action::Cancel => ui.prompt = None,
    }
    Vec::new()
}

/// True if the help page has dealt with the action.
fn help_took(ui: &mut Ui, action: Action) -> bool {
    let page = isize::try_from(ui.page()).unwrap_or(1);
    let by = match action {
        Action::Help | Action::Back => {
            ui.help = false;
            return true;
        }
        Action::Move(by) => by,
        Action::Page(by) => by * page,
        Action::Top => isize::MIN,
        Action::Bottom => isize::MAX,
        _ => {
            ui.help = false;
            return false;
        }
    };
    ui.help_top = moved(ui.help_top, by, super::screen::help::rows(&ui.keys));
    true
}

fn go(ui: &mut Ui, snapshot: &Snapshot, screen: Screen) -> Vec<Effect> {
    if screen == Screen::Log && ui.whose().is_none() {
        // The log one most likely wants: the guilty rank's.
        let guilty = snapshot.verdict.ranks.first().copied();
        let first = snapshot.job.ranks.iter().find_map(|r| r.rank);
        if let Some(rank) = guilty.or(first) {
            return open_log(ui, snapshot, rank);
        }
    }
    if screen != ui.screen {
        ui.back.push(ui.screen);
        let surplus = ui.back.len().saturating_sub(32);
        ui.back.drain(..surplus);
        ui.screen = screen;
    }
    refresh(ui, snapshot).into_iter().collect()
}

fn back(ui: &mut Ui) {
    if ui.screen == Screen::Ranks && !ui.ranks.filter.is_empty() {
        ui.ranks.filter.clear();
        return;
    }
    if ui.screen == Screen::Log && log::clear_filters(ui) {
        return;
    }
    ui.screen = ui.back.pop().unwrap_or_default();
}

fn show(ui: &mut Ui, snapshot: &Snapshot, target: Target) -> Vec<Effect> {
    match target {
        Target::Findings => go(ui, snapshot, Screen::Findings),
        Target::Host(name) => {
            ui.ranks.filter = name;
            go(ui, snapshot, Screen::Ranks)
        }
        Target::Log(rank, extent, at) => open_log_at(ui, snapshot, Some(rank), extent, at),
    }
}

fn finding(ui: &mut Ui, snapshot: &Snapshot, by: isize) -> Vec<Effect> {
    let row = moved(ui.finding_row(snapshot), by, snapshot.findings.len());
    select_finding(ui, snapshot, row);
    match ui.screen {
        Screen::Log => match now::evidence(ui, snapshot) {
            Ok(target) => show(ui, snapshot, target),
            Err(why) => {
                ui.message = Some(why.to_owned());
                Vec::new()
            }
        },
        Screen::Overview | Screen::Findings => Vec::new(),
        _ => go(ui, snapshot, Screen::Findings),
    }
}

fn sideways(ui: &mut Ui, snapshot: &Snapshot, by: isize) -> Vec<Effect> {
    match ui.screen {
        Screen::Log => {
            ui.log.column = moved(ui.log.column, by * SIDEWAYS as isize, LINE_BYTES);
            Vec::new()
        }
        Screen::Collectives => {
            let comm = moved(ui.comm_row(snapshot), by, snapshot.job.comms.len());
            ui.comm = Some(comm);
            ui.member = 0;
            Vec::new()
        }
        screen => go(ui, snapshot, screen.turned(by)),
    }
}

fn step(ui: &mut Ui, snapshot: &Snapshot, by: isize) {
    match ui.screen {
        Screen::Overview | Screen::Findings => {
            let row = moved(ui.finding_row(snapshot), by, snapshot.findings.len());
            select_finding(ui, snapshot, row);
        }
        Screen::Ranks => {
            let rows = visible(ui, snapshot);
            let row = moved(rank_row(ui, snapshot, &rows), by, rows.len());
            ui.ranks.row = row;
            ui.ranks.selected = rows
                .get(row)
                .map(|at| RankKey::of(&snapshot.job.ranks[*at]));
        }
        Screen::Hosts => {
            let rows = snapshot.job.hosts.len() + snapshot.job.connects.len();
            ui.host = Some(moved(ui.host_row(snapshot), by, rows));
        }
        Screen::Collectives => {
            let rows = snapshot
                .job
                .comms
                .get(ui.comm_row(snapshot))
                .map_or(0, |comm| groups(comm).len());
            ui.member = moved(ui.member, by, rows);
        }
        Screen::Env => {
            ui.env = moved(ui.env, by, env::rows(&snapshot.job).len());
        }
        Screen::Gpus => {
            ui.gpu = moved(ui.gpu, by, gpus::rows(&snapshot.job).len());
        }
        Screen::Log => {
            let log = &mut ui.log;
            let to = moved(log.position(), by, log.passing.len());
            log.row = log.passing.get(to).copied().unwrap_or(0);
            // Going up leaves the end; coming back to it follows again.
            log.follow = log.row == log.last();
        }
    }
}

fn select_finding(ui: &mut Ui, snapshot: &Snapshot, row: usize) {
    ui.findings.row = row;
    ui.findings.id = snapshot.findings.get(row).map(|f| f.id.clone());
    ui.findings.top = 0;
}

/// The row of the selected rank among the visible ones; at first the one at fault.
pub(super) fn rank_row(ui: &Ui, snapshot: &Snapshot, rows: &[usize]) -> usize {
    let ranks = &snapshot.job.ranks;
    let row = match &ui.ranks.selected {
        Some(key) => rows.iter().position(|at| RankKey::of(&ranks[*at]) == *key),
        None => rows.iter().position(|at| ranks[*at].guilty),
    };
    row.unwrap_or(ui.ranks.row)
        .min(rows.len().saturating_sub(1))
}

fn typed(ui: &mut Ui, c: Option<char>) {
    let Some(prompt) = &mut ui.prompt else { return };
    match c {
        Some(c) if prompt.text.chars().count() < PROMPT => prompt.text.push(c),
        Some(_) => {}
        None => {
            prompt.text.pop();
        }
    }
    prompt.row = 0;
}

/// Moves within the list of actions, round and round.
fn choose(ui: &mut Ui, status: &Status, by: isize) {
    let entries = palette::entries(ui, status.has_time());
    if let Some(prompt) = &mut ui.prompt {
        let len = entries.len().max(1);
        prompt.row = prompt.row.wrapping_add_signed(by + len as isize) % len;
    }
}

/// Runs the chosen action, on the screen that has it.
fn run(ui: &mut Ui, snapshot: &Snapshot, status: &Status) -> Vec<Effect> {
    let entries = palette::entries(ui, status.has_time());
    let row = ui.prompt.take().map_or(0, |prompt| prompt.row);
    let Some(entry) = entries.get(row) else {
        ui.message = Some("no action is called so; ? lists all".to_owned());
        return Vec::new();
    };
    let mut effects = match entry.screen {
        Some(screen) => go(ui, snapshot, screen),
        None => Vec::new(),
    };
    effects.extend(update(ui, snapshot, status, entry.action));
    effects
}

fn accept(ui: &mut Ui) {
    let Some(Prompt { asked, text, .. }) = ui.prompt.take() else {
        return;
    };
    match asked {
        Asked::Ranks => ui.ranks.filter = text,
        Asked::Search if text.is_empty() => ui.log.pattern = None,
        Asked::Search => log::search(ui, &text),
        Asked::Only | Asked::Without => log::filter(ui, asked, &text),
        Asked::Action => {}
    }
}

fn ask(ui: &mut Ui, asked: Asked, text: String) {
    ui.prompt = Some(Prompt {
        asked,
        text,
        row: 0,
    });
}

fn pattern_text(pattern: Option<&regex::Regex>) -> String {
    pattern.map_or_else(String::new, |pattern| pattern.as_str().to_owned())
}

/// Marks the selected rank, or takes its mark away, and goes to the next.
fn mark(ui: &mut Ui, snapshot: &Snapshot) {
    let rows = visible(ui, snapshot);
    let row = rows.get(rank_row(ui, snapshot, &rows));
    let Some(rank) = row.and_then(|at| snapshot.job.ranks[*at].rank) else {
        return;
    };
    if !ui.ranks.marked.remove(&rank) {
        ui.ranks.marked.insert(rank);
    }
    step(ui, snapshot, 1);
}

fn mark_all(ui: &mut Ui, snapshot: &Snapshot) {
    if ui.ranks.marked.is_empty() {
        let rows = visible(ui, snapshot);
        let ranks = rows.iter().filter_map(|at| snapshot.job.ranks[*at].rank);
        ui.ranks.marked = ranks.collect();
    } else {
        ui.ranks.marked.clear();
    }
}

/// What runs is shown again: one program at a time is enough.
fn shows_running(ui: &mut Ui) -> bool {
    let running = ui.task.as_mut().filter(|task| task.runs());
    running.map(|task| task.hidden = false).is_some()
}

fn prove(ui: &mut Ui, snapshot: &Snapshot) -> Vec<Effect> {
    if shows_running(ui) {
        return Vec::new();
    }
    let Some(row) = now::meant(ui, snapshot) else {
        return Vec::new();
    };
    // What came out is shown again before it is asked for anew.
    let about = task::About::Fix(task::FindingKey::of(&snapshot.findings[row]));
    if let Some(known) = ui.task.as_mut().filter(|task| task.about == about) {
        known.hidden = false;
        return Vec::new();
    }
    vec![Effect::Prove(row)]
}

fn stack(ui: &mut Ui, snapshot: &Snapshot, status: &Status) -> Vec<Effect> {
    if shows_running(ui) {
        return Vec::new();
    }
    let rank = Now::new(ui, snapshot, status).rank_meant();
    rank.map(Effect::Stack).into_iter().collect()
}

/// A row moved by some rows, within a list.
fn moved(row: usize, by: isize, len: usize) -> usize {
    row.min(len.saturating_sub(1))
        .saturating_add_signed(by)
        .min(len.saturating_sub(1))
}
