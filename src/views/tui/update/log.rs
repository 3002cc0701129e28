//! The log screen's part of an update: which lines to read, where to go in them.

use regex::{Regex, RegexBuilder};

use crate::app::handle::{LogPage, LogRequest};
use crate::engine::ids::SourceId;
use crate::engine::recent::Whose;
use crate::engine::snapshot::Snapshot;
use crate::views::escape::{Glyphs, harmless};
use crate::views::tui::level::Level;
use crate::views::tui::screen::Screen;
use crate::views::tui::ui::{Asked, Extent, Log, LogRow, Ui};

use super::{Effect, go, moved};

/// Bytes of a line that the log screen keeps.
pub(super) const LINE_BYTES: usize = 4 * 1024;
/// Memory that a pattern typed by the user may take.
const PATTERN_BYTES: usize = 1 << 20;

/// Takes in lines that were asked for.
pub fn arrived(ui: &mut Ui, whose: &Whose, request: LogRequest, page: LogPage) {
    if ui.whose().as_ref() != Some(whose) {
        return;
    }
    let (log, glyphs) = (&mut ui.log, ui.theme.glyphs);
    let rows = page.lines.into_iter().map(|line| {
        let bytes = line
            .bytes
            .unwrap_or_else(|| b"(this line cannot be read any more)".to_vec());
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LINE_BYTES)]).into_owned();
        LogRow {
            place: line.place,
            rank: line.rank,
            level: Level::of(&text),
            text,
        }
    });
    let mut tested = log.lines.len();
    if let LogRequest::After(..) = request {
        log.lines.extend(rows);
    } else {
        tested = 0;
        log.passing.clear();
        log.lines = rows.collect();
        log.older = page.older;
    }
    let fresh = tested..log.lines.len();
    let passing = fresh.filter(|at| passes(log, &log.lines[*at].text, glyphs));
    let passing: Vec<usize> = passing.collect();
    log.passing.extend(passing);
    let surplus = log.lines.len().saturating_sub(whose.limit());
    if surplus > 0 {
        log.lines.drain(..surplus);
        log.older += surplus;
        let gone = log.passing.partition_point(|at| *at < surplus);
        log.passing.drain(..gone);
        log.passing.iter_mut().for_each(|at| *at -= surplus);
    }
    let row = log.row.saturating_sub(surplus);
    log.go_to(row);
    if let Some(wanted) = log.wanted.take() {
        go_to_wanted(ui, wanted);
    }
    if ui.log.follow {
        ui.log.row = ui.log.last();
    }
}

fn go_to_wanted(ui: &mut Ui, (source, number): (SourceId, u64)) {
    let is_it = |l: &LogRow| l.place.source == source && l.place.number == number;
    match ui.log.lines.iter().position(is_it) {
        Some(row) => {
            if ui.log.passing.binary_search(&row).is_err() {
                clear_filters(ui);
                ui.message = Some("the filters hid the line, so they are gone".to_owned());
            }
            ui.log.row = row;
        }
        None => {
            ui.message = Some(format!(
                "line {number} is no longer kept; the newest lines are shown"
            ));
            ui.log.row = ui.log.last();
        }
    }
}

/// What to read so that the log is up to date with the snapshot.
pub fn refresh(ui: &mut Ui, snapshot: &Snapshot) -> Option<Effect> {
    let whose = ui.whose().filter(|_| ui.screen == Screen::Log)?;
    let written = written(&whose, snapshot)?;
    if written == ui.log.seen {
        return None;
    }
    // Fewer lines than before: a replay went back, or another attempt began.
    let fresh = written < ui.log.seen;
    ui.log.seen = written;
    let request = match ui.log.lines.last() {
        Some(last) if !fresh => LogRequest::After(last.place, whose.limit()),
        _ => LogRequest::Newest(whose.limit()),
    };
    Some(Effect::Log(whose, request))
}

/// Lines written so far; `None` if there is none of them.
fn written(whose: &Whose, snapshot: &Snapshot) -> Option<u64> {
    let Whose::Ranks(wanted) = whose else {
        return Some(snapshot.inputs.lines);
    };
    let known = snapshot.job.ranks.iter().filter_map(|view| {
        let known = wanted.binary_search(&view.rank?).is_ok();
        known.then_some(view.lines)
    });
    known.fold(None, |sum, lines| Some(sum.unwrap_or(0) + lines))
}

/// Opens the log of a rank at its end.
pub(super) fn open_log(ui: &mut Ui, snapshot: &Snapshot, rank: u32) -> Vec<Effect> {
    open_log_at(ui, snapshot, Some(rank), Extent::One, None)
}

/// Opens a log at its end, or at a line.
pub(super) fn open_log_at(
    ui: &mut Ui,
    snapshot: &Snapshot,
    rank: Option<u32>,
    extent: Extent,
    wanted: Option<(SourceId, u64)>,
) -> Vec<Effect> {
    // How it is looked at stays.
    let old = std::mem::take(&mut ui.log);
    ui.log = Log {
        rank,
        extent,
        follow: wanted.is_none(),
        wanted,
        pattern: old.pattern,
        only: old.only,
        without: old.without,
        wrap: old.wrap,
        ..Log::default()
    };
    let Some(whose) = ui.whose() else {
        return Vec::new();
    };
    ui.log.seen = written(&whose, snapshot).unwrap_or(0);
    let mut effects = go(ui, snapshot, Screen::Log);
    let request = LogRequest::Newest(whose.limit());
    effects.push(Effect::Log(whose, request));
    effects
}

/// From one rank's lines to those of the marked ranks, to those of all, and back.
pub(super) fn widen(ui: &mut Ui, snapshot: &Snapshot) -> Vec<Effect> {
    let extent = match ui.log.extent {
        Extent::One if !ui.ranks.marked.is_empty() => Extent::Marked,
        Extent::One | Extent::Marked => Extent::All,
        Extent::All => Extent::One,
    };
    let place = ui.log.lines.get(ui.log.row).filter(|_| !ui.log.follow);
    let wanted = place.map(|line| (line.place.source, line.place.number));
    // Coming back from all, the line's own rank is the one that is looked at.
    let rank = match extent {
        Extent::One => rank_here(ui),
        Extent::Marked | Extent::All => ui.log.rank,
    };
    // A line that somebody else wrote is not among those of the marked ranks.
    let wanted = wanted.filter(|_| extent != Extent::Marked || marked_has(ui));
    open_log_at(ui, snapshot, rank, extent, wanted)
}

fn marked_has(ui: &Ui) -> bool {
    rank_here(ui).is_some_and(|rank| ui.ranks.marked.contains(&rank))
}

/// The rank whose line the cursor is on.
pub(super) fn rank_here(ui: &Ui) -> Option<u32> {
    let line = ui.log.lines.get(ui.log.row);
    line.and_then(|line| line.rank).or(ui.log.rank)
}

/// The rank whose log is beside this one.
pub(super) fn beside(ui: &Ui, snapshot: &Snapshot, by: isize) -> Option<u32> {
    let ranks: Vec<u32> = snapshot.job.ranks.iter().filter_map(|r| r.rank).collect();
    let here = rank_here(ui);
    let at = ranks.iter().position(|r| Some(*r) == here).unwrap_or(0);
    let rank = ranks.get(moved(at, by, ranks.len())).copied();
    rank.filter(|rank| Some(*rank) != ui.log.rank || ui.log.extent != Extent::One)
}

pub(super) fn neighbour(ui: &mut Ui, snapshot: &Snapshot, by: isize) -> Vec<Effect> {
    let rank = beside(ui, snapshot, by);
    rank.map_or_else(Vec::new, |rank| open_log(ui, snapshot, rank))
}

pub(super) fn hit(ui: &mut Ui, by: isize) {
    let Some(pattern) = &ui.log.pattern else {
        return;
    };
    let log = &ui.log;
    let (count, here) = (log.passing.len() as isize, log.position() as isize);
    let places = (1..=count).map(|n| log.passing[(here + by * n).rem_euclid(count) as usize]);
    let found = places
        .into_iter()
        .find(|row| pattern.is_match(&harmless(&log.lines[*row].text, ui.theme.glyphs)));
    match found {
        Some(row) => {
            ui.log.row = row;
            ui.log.follow = false;
        }
        None => ui.message = Some(format!("not found: {}", pattern.as_str())),
    }
}

/// Sets the pattern and goes to its next hit.
pub(super) fn search(ui: &mut Ui, text: &str) {
    if let Some(pattern) = pattern(ui, text) {
        ui.log.pattern = Some(pattern);
        hit(ui, 1);
    }
}

/// Sets one of the filters, or takes it away.
pub(super) fn filter(ui: &mut Ui, asked: Asked, text: &str) {
    let filter = if text.is_empty() {
        None
    } else {
        let Some(pattern) = pattern(ui, text) else {
            return;
        };
        Some(pattern)
    };
    match asked {
        Asked::Without => ui.log.without = filter,
        _ => ui.log.only = filter,
    }
    filter_again(ui);
}

/// Takes the filters away; false if there was none.
pub(super) fn clear_filters(ui: &mut Ui) -> bool {
    let log = &mut ui.log;
    let any = log.only.take().is_some() | log.without.take().is_some();
    if any {
        filter_again(ui);
    }
    any
}

fn filter_again(ui: &mut Ui) {
    let (log, glyphs) = (&mut ui.log, ui.theme.glyphs);
    let all = 0..log.lines.len();
    log.passing = all
        .filter(|at| passes(log, &log.lines[*at].text, glyphs))
        .collect();
    let row = if log.follow { log.last() } else { log.row };
    log.go_to(row);
}

/// What is searched and filtered is what is shown.
fn passes(log: &Log, text: &str, glyphs: Glyphs) -> bool {
    if log.only.is_none() && log.without.is_none() {
        return true;
    }
    let text = harmless(text, glyphs);
    log.only.as_ref().is_none_or(|p| p.is_match(&text))
        && !log.without.as_ref().is_some_and(|p| p.is_match(&text))
}

/// A pattern that was typed; tells if it is none.
fn pattern(ui: &mut Ui, text: &str) -> Option<Regex> {
    // Small letters find capitals too; a capital is meant.
    let any_case = !text.chars().any(char::is_uppercase);
    let built = RegexBuilder::new(text)
        .case_insensitive(any_case)
        .size_limit(PATTERN_BYTES)
        .build();
    if built.is_err() {
        ui.message = Some(format!("not a regular expression: {text}"));
    }
    built.ok()
}
