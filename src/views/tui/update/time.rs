//! Moving about in time: in a replay, and in what a watch has seen so far.

use std::time::Duration;

use crate::app::handle::{Mode, Status};
use crate::app::timeline::{Mark, Timeline};
use crate::views::tui::ui::Ui;

use super::Effect;

/// What can only be done to what was before.
const PRESENT: &str = "this is the present, which has its own pace; [ looks back";

/// Where one is and how long it all is; a watch that does not look back is at its end.
fn place(status: &Status) -> Option<(Duration, Duration)> {
    if let Some(playback) = &status.playback {
        return Some((playback.at, playback.length));
    }
    let watch = status.mode == Mode::Live;
    let timeline = status.timeline.as_ref().filter(|_| watch)?;
    Some((timeline.length, timeline.length))
}

pub(super) fn step(ui: &mut Ui, status: &Status) -> Vec<Effect> {
    if status.playback.is_none() && !status.paused {
        ui.message = Some(PRESENT.to_owned());
        return Vec::new();
    }
    vec![Effect::Step]
}

/// To the start, or to the end, which is the present of a watch.
pub(super) fn edge(status: &Status, end: bool) -> Vec<Effect> {
    let to = if end { Duration::MAX } else { Duration::ZERO };
    let known = place(status).map(|_| Effect::Seek(to));
    known.into_iter().collect()
}

pub(super) fn speed(ui: &mut Ui, status: &Status, factor: f64) -> Vec<Effect> {
    if status.playback.is_none() {
        ui.message = Some(PRESENT.to_owned());
    }
    status
        .playback
        .iter()
        .map(|p| Effect::Speed(p.speed * factor))
        .collect()
}

pub(super) fn seek(status: &Status, by: isize) -> Vec<Effect> {
    let Some((at, length)) = place(status) else {
        return Vec::new();
    };
    let leap = length / 20;
    let to = if by < 0 {
        at.saturating_sub(leap)
    } else {
        at + leap
    };
    // A watch grows while one looks back, so its end is where it is by then.
    let end = status.mode == Mode::Live && to >= length;
    vec![Effect::Seek(if end {
        Duration::MAX
    } else {
        to.min(length)
    })]
}

/// To where the first cause came up.
pub(super) fn first_sign(ui: &mut Ui, status: &Status) -> Vec<Effect> {
    let found = |timeline: &Timeline, _| timeline.first_sign().cloned();
    jump(ui, status, found, ["first sign", "no finding came up"])
}

/// To where the next finding came up, or the previous one.
pub(super) fn sign(ui: &mut Ui, status: &Status, by: isize) -> Vec<Effect> {
    if by < 0 {
        let found = |timeline: &Timeline, at| timeline.before(at).cloned();
        return jump(
            ui,
            status,
            found,
            ["came up here", "no finding came up before"],
        );
    }
    let found = |timeline: &Timeline, at| timeline.after(at).cloned();
    jump(
        ui,
        status,
        found,
        ["came up here", "no finding comes up after this"],
    )
}

/// Jumps to a mark and stops there, since the moment would pass; says what it is, or that there is none.
fn jump(
    ui: &mut Ui,
    status: &Status,
    find: impl FnOnce(&Timeline, Duration) -> Option<Mark>,
    [found, none]: [&str; 2],
) -> Vec<Effect> {
    let (Some(timeline), Some((at, _))) = (&status.timeline, place(status)) else {
        ui.message = Some("nobody has looked through this replay".to_owned());
        return Vec::new();
    };
    let Some(mark) = find(timeline, at) else {
        let known = timeline.known();
        ui.message = Some(if known < 1.0 {
            format!("{none}; {:.0}% was looked through so far", known * 100.0)
        } else {
            none.to_owned()
        });
        return Vec::new();
    };
    ui.message = Some(format!("{found}: {} {}", mark.id, mark.title));
    ui.findings.id = Some(mark.id);
    ui.findings.top = 0;
    // A watch stops by itself where it looks back.
    let runs = !status.paused && status.playback.is_some();
    let stop = runs.then_some(Effect::Pause);
    stop.into_iter().chain([Effect::Seek(mark.at)]).collect()
}
