//! The log screen's part of an update: which lines to read, where to go in them.

use regex::RegexBuilder;

use crate::app::handle::{LogPage, LogRequest};
use crate::engine::ids::SourceId;
use crate::engine::limits::RECENT_LINES;
use crate::engine::snapshot::Snapshot;
use crate::views::escape::harmless;
use crate::views::tui::screen::Screen;
use crate::views::tui::ui::{Log, LogRow, Ui};

use super::{Effect, go, moved};

/// Bytes of a line that the log screen keeps.
pub(super) const LINE_BYTES: usize = 4 * 1024;
/// Memory that a pattern typed by the user may take.
const PATTERN_BYTES: usize = 1 << 20;

/// Takes in lines that were asked for.
pub fn arrived(ui: &mut Ui, rank: u32, request: LogRequest, page: LogPage) {
    let log = &mut ui.log;
    if log.rank != Some(rank) {
        return;
    }
    let rows = page.lines.into_iter().map(|line| {
        let bytes = line
            .bytes
            .unwrap_or_else(|| b"(this line cannot be read any more)".to_vec());
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LINE_BYTES)]).into_owned();
        LogRow {
            place: line.place,
            text,
        }
    });
    if let LogRequest::After(..) = request {
        log.lines.extend(rows);
    } else {
        log.lines = rows.collect();
        log.older = page.older;
    }
    let surplus = log.lines.len().saturating_sub(RECENT_LINES);
    log.lines.drain(..surplus);
    log.older += surplus;
    log.row = log.row.saturating_sub(surplus);
    if let Some((source, number)) = log.wanted.take() {
        match log
            .lines
            .iter()
            .position(|l| l.place.source == source && l.place.number == number)
        {
            Some(row) => log.row = row,
            None => {
                ui.message = Some(format!(
                    "line {number} is no longer kept; the newest lines are shown"
                ));
            }
        }
    }
    let last = ui.log.lines.len().saturating_sub(1);
    ui.log.row = if ui.log.follow {
        last
    } else {
        ui.log.row.min(last)
    };
}

/// What to read so that the log is up to date with the snapshot.
pub fn refresh(ui: &mut Ui, snapshot: &Snapshot) -> Option<Effect> {
    let rank = ui.log.rank.filter(|_| ui.screen == Screen::Log)?;
    let view = snapshot.job.ranks.iter().find(|r| r.rank == Some(rank))?;
    if view.lines == ui.log.seen {
        return None;
    }
    // Fewer lines than before: a replay went back, or another attempt began.
    let fresh = view.lines < ui.log.seen;
    ui.log.seen = view.lines;
    let newest = LogRequest::Newest(RECENT_LINES);
    let request = match ui.log.lines.last() {
        Some(last) if !fresh => LogRequest::After(last.place, RECENT_LINES),
        _ => newest,
    };
    Some(Effect::Log(rank, request))
}

pub(super) fn open_log(
    ui: &mut Ui,
    snapshot: &Snapshot,
    rank: u32,
    wanted: Option<(SourceId, u64)>,
) -> Vec<Effect> {
    let follow = wanted.is_none();
    let pattern = ui.log.pattern.take();
    let seen = snapshot
        .job
        .ranks
        .iter()
        .find(|r| r.rank == Some(rank))
        .map_or(0, |r| r.lines);
    ui.log = Log {
        rank: Some(rank),
        follow,
        wanted,
        pattern,
        seen,
        ..Log::default()
    };
    let mut effects = go(ui, snapshot, Screen::Log);
    effects.push(Effect::Log(rank, LogRequest::Newest(RECENT_LINES)));
    effects
}

/// Opens the log at the first line of the selected finding.
pub(super) fn evidence(ui: &mut Ui, snapshot: &Snapshot) -> Vec<Effect> {
    let Some(finding) = snapshot.findings.get(ui.finding_row(snapshot)) else {
        return Vec::new();
    };
    let first = finding
        .evidence
        .iter()
        .filter(|e| e.entry.is_none())
        .find_map(|e| Some((e.rank?, (e.source, e.line))));
    match first {
        Some((rank, place)) => open_log(ui, snapshot, rank, Some(place)),
        None => {
            ui.message = Some("no line of a known rank supports it".to_owned());
            Vec::new()
        }
    }
}

pub(super) fn neighbour(ui: &mut Ui, snapshot: &Snapshot, by: isize) -> Vec<Effect> {
    let ranks: Vec<u32> = snapshot.job.ranks.iter().filter_map(|r| r.rank).collect();
    let here = ranks
        .iter()
        .position(|r| Some(*r) == ui.log.rank)
        .unwrap_or(0);
    match ranks.get(moved(here, by, ranks.len())) {
        Some(rank) if Some(*rank) != ui.log.rank => open_log(ui, snapshot, *rank, None),
        _ => Vec::new(),
    }
}

pub(super) fn hit(ui: &mut Ui, by: isize) {
    let Some(pattern) = &ui.log.pattern else {
        ui.message = Some("nothing to search for yet: / starts a search".to_owned());
        return;
    };
    let count = ui.log.lines.len();
    let glyphs = ui.theme.glyphs;
    let rows = (1..=count)
        .map(|n| (ui.log.row as isize + by * n as isize).rem_euclid(count as isize) as usize);
    let found = rows
        .into_iter()
        .find(|row| pattern.is_match(&harmless(&ui.log.lines[*row].text, glyphs)));
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
    // Small letters find capitals too; a capital is meant.
    let any_case = !text.chars().any(char::is_uppercase);
    match RegexBuilder::new(text)
        .case_insensitive(any_case)
        .size_limit(PATTERN_BYTES)
        .build()
    {
        Ok(pattern) => {
            ui.log.pattern = Some(pattern);
            hit(ui, 1);
        }
        Err(_) => ui.message = Some(format!("not a regular expression: {text}")),
    }
}
