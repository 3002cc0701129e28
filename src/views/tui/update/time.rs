//! Moving about in the time of a replay.

use std::time::Duration;

use crate::app::handle::Status;
use crate::app::timeline::{Mark, Timeline};
use crate::views::tui::ui::Ui;

use super::Effect;

pub(super) fn speed(status: &Status, factor: f64) -> Vec<Effect> {
    status
        .playback
        .iter()
        .map(|p| Effect::Speed(p.speed * factor))
        .collect()
}

pub(super) fn seek(status: &Status, by: isize) -> Vec<Effect> {
    let Some(playback) = &status.playback else {
        return Vec::new();
    };
    let leap = playback.length / 20;
    let to = if by < 0 {
        playback.at.saturating_sub(leap)
    } else {
        playback.at + leap
    };
    vec![Effect::Seek(to.min(playback.length))]
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
    let (Some(timeline), Some(playback)) = (&status.timeline, &status.playback) else {
        ui.message = Some("nobody has looked through this replay".to_owned());
        return Vec::new();
    };
    let Some(mark) = find(timeline, playback.at) else {
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
    let stop = (!status.paused).then_some(Effect::Pause);
    stop.into_iter().chain([Effect::Seek(mark.at)]).collect()
}
