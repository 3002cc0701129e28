//! Moving about in time: in a replay, and in what a watch has seen so far.

use std::time::Duration;

use crate::app::handle::{Mode, Status};
use crate::app::timeline::Mark;
use crate::views::tui::keymap::Action;
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

/// Why an action in time would do nothing now.
pub(super) fn refusal(status: &Status, action: Action) -> Option<String> {
    let present = || Some(PRESENT.to_owned());
    match action {
        Action::Step if status.playback.is_none() && !status.paused => present(),
        Action::Faster | Action::Slower if status.playback.is_none() => present(),
        Action::Seek(_) | Action::Edge(_) if place(status).is_none() => {
            Some("nothing of it is kept yet".to_owned())
        }
        Action::FirstSign | Action::Sign(_) => mark(status, action).err(),
        _ => None,
    }
}

/// Where a jump along the findings leads; the error says why nowhere.
fn mark(status: &Status, action: Action) -> Result<Mark, String> {
    let known = status.timeline.as_ref().zip(place(status));
    let Some((timeline, (at, _))) = known else {
        return Err("nobody has looked through this replay".to_owned());
    };
    let (mark, none) = match action {
        Action::FirstSign => (timeline.first_sign(), "no finding came up"),
        Action::Sign(by) if by < 0 => (timeline.before(at), "no finding came up before"),
        _ => (timeline.after(at), "no finding comes up after this"),
    };
    let known = timeline.known();
    mark.cloned().ok_or_else(|| match known {
        known if known < 1.0 => {
            format!("{none}; {:.0}% was looked through so far", known * 100.0)
        }
        _ => none.to_owned(),
    })
}

/// To the start, or to the end, which is the present of a watch.
pub(super) fn edge(status: &Status, end: bool) -> Vec<Effect> {
    let to = if end { Duration::MAX } else { Duration::ZERO };
    let known = place(status).map(|_| Effect::Seek(to));
    known.into_iter().collect()
}

pub(super) fn speed(status: &Status, factor: f64) -> Vec<Effect> {
    let playback = status.playback.iter();
    playback.map(|p| Effect::Speed(p.speed * factor)).collect()
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

/// Jumps to where the first cause, the next or the previous finding came up, and stops there, since the moment
/// would pass; says what it is.
pub(super) fn jump(ui: &mut Ui, status: &Status, action: Action) -> Vec<Effect> {
    let Ok(mark) = mark(status, action) else {
        return Vec::new();
    };
    let found = match action {
        Action::FirstSign => "first sign",
        _ => "came up here",
    };
    ui.message = Some(format!("{found}: {} {}", mark.id, mark.title));
    ui.findings.id = Some(mark.id);
    ui.findings.top = 0;
    // A watch stops by itself where it looks back.
    let runs = !status.paused && status.playback.is_some();
    let stop = runs.then_some(Effect::Pause);
    stop.into_iter().chain([Effect::Seek(mark.at)]).collect()
}
