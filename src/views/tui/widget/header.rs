//! The first row: what the job does, what is watched, and whether one sees the present.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::app::handle::{Axis, Following, Mode, Playback, Status};
use crate::engine::input::SourceKind;
use crate::engine::snapshot::Snapshot;
use crate::engine::vocab::Class;
use crate::views::tui::screen::Screen;
use crate::views::tui::theme::Tone;
use crate::views::tui::view::Scene;
use crate::views::words;

use super::pen::Pen;

/// Reading that takes less is not worth a word.
const SHORT: Duration = Duration::from_millis(300);

pub(in crate::views::tui) struct Header<'a>(pub(in crate::views::tui) Scene<'a>);

impl Widget for &Header<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Scene {
            ui,
            snapshot,
            status,
        } = self.0;
        let verdict = &snapshot.verdict;
        let mut pen = Pen::new(buf, area, ui.theme);
        // The overview says the verdict in large.
        if ui.screen == Screen::Overview && !ui.help {
            pen.put(Tone::Strong, " unhang  ");
        } else {
            pen.put(
                Tone::State(verdict.state),
                &format!(" {} ", words::headline(verdict.state)),
            );
            pen.put(Tone::Plain, " ");
            if !matches!(verdict.class, Class::Healthy | Class::Inconclusive) {
                pen.put(Tone::Strong, verdict.class.name());
                pen.put(Tone::Plain, "  ");
            }
        }
        // What one has to know comes first; the rest goes where there is room.
        if status.paused {
            let word = if status.mode == Mode::Replay {
                " STOPPED "
            } else if status.looks_back() {
                " LOOKING BACK "
            } else {
                " PAUSED "
            };
            pen.put(Tone::Selected, word);
            if status.behind > 0 {
                pen.put(
                    Tone::Plain,
                    &format!(" {} behind", words::bytes(status.behind)),
                );
            }
            pen.put(Tone::Plain, "  ");
        } else if status.looks_back() {
            pen.put(Tone::Selected, " PLAYING THE PAST ");
            pen.put(Tone::Plain, "  ");
        }
        if let Some(playback) = status.playback.as_ref().filter(|_| status.looks_back()) {
            let behind = playback.length.saturating_sub(playback.at);
            let text = format!(
                "{} behind the present, ) goes there",
                words::duration(behind)
            );
            pen.put(Tone::Strong, &text);
            if playback.seeking {
                pen.put(Tone::Plain, " (on its way)");
            }
            pen.put(Tone::Plain, "  ");
            if let Some(kept) = status.kept_from {
                let text = format!(
                    "the first {} are not kept any more  ",
                    words::duration(kept)
                );
                pen.put(Tone::Warn, &text);
            }
        } else if let Some(playback) = &status.playback {
            pen.put(Tone::Plain, &position(playback));
            pen.put(Tone::Plain, "  ");
        }
        if let Some(loading) = status.loading.filter(|loading| loading.took >= SHORT) {
            let text = words::loading(&loading.progress, loading.took);
            pen.put(Tone::Warn, &text);
            return;
        }
        let dropped = snapshot.inputs.dropped + status.dropped;
        if dropped > 0 {
            pen.put(
                Tone::Warn,
                &format!("{} dropped  ", words::thousands(dropped)),
            );
        }
        for part in facts(snapshot, status) {
            if pen.room() > part.len() {
                pen.put(Tone::Quiet, &part);
                pen.put(Tone::Plain, "  ");
            }
        }
    }
}

fn position(playback: &Playback) -> String {
    let mut text = match playback.axis {
        Axis::Recorded => {
            format!(
                "{} of {}",
                words::duration(playback.at),
                words::duration(playback.length)
            )
        }
        Axis::Bytes => {
            let part =
                playback.at.as_secs_f64() / playback.length.as_secs_f64().max(f64::MIN_POSITIVE);
            format!("{:.0}% of the bytes", (part * 100.0).clamp(0.0, 100.0))
        }
    };
    if (playback.speed - 1.0).abs() > 0.01 {
        text.push_str(&format!(" x{}", playback.speed));
    }
    if playback.seeking {
        text.push_str(" (on its way)");
    }
    text
}

fn facts(snapshot: &Snapshot, status: &Status) -> Vec<String> {
    let mut facts = Vec::new();
    let sources = &snapshot.inputs.sources;
    let of = |kind| sources.iter().filter(|s| s.kind == kind).count();
    let (answers, dumps) = (of(SourceKind::Ras), of(SourceKind::Dump));
    let sources = sources.len().max(status.sources) - answers - dumps;
    let doing = match (status.mode, status.ended) {
        (Mode::Live, false) => "watching",
        (Mode::Live, true) => "read",
        (Mode::Replay, false) => "replaying",
        (Mode::Replay, true) => "replayed",
    };
    let mut read = words::count(sources, "log");
    for (count, what) in [(dumps, "dump"), (answers, "RAS source")] {
        if count > 0 {
            read.push_str(&format!(", {}", words::count(count, what)));
        }
    }
    facts.push(format!("{doing} {read}"));
    if let Some(age) = quiet_for(snapshot) {
        facts.push(format!("last line {} ago", words::duration(age)));
    }
    if status.asked_ras > 0 {
        let times = words::count(
            usize::try_from(status.asked_ras).unwrap_or(usize::MAX),
            "time",
        );
        facts.push(format!("RAS asked {times}"));
    }
    if status.hears_ras > 0 {
        facts.push("RAS tells of changes".to_owned());
    }
    if let Some(path) = &status.recording {
        facts.push(format!("recording {path}"));
    }
    if let Following::Polling(why) = &status.following {
        facts.push(format!("polling: {why}"));
    }
    facts
}

/// How long ago anybody wrote anything.
fn quiet_for(snapshot: &Snapshot) -> Option<Duration> {
    let last = snapshot
        .job
        .ranks
        .iter()
        .filter_map(|r| r.last_seen)
        .max()?;
    Some(snapshot.now?.since(last))
}
