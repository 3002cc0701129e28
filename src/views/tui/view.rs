//! One frame: header, tabs, a screen, footer.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::app::handle::Status;
use crate::engine::snapshot::Snapshot;
use crate::views::escape;
use crate::views::words;

use super::keymap;
use super::screen::{self, Screen};
use super::theme::Tone;
use super::ui::{Asked, Ui};
use super::update::now::Now;
use super::widget::header::Header;
use super::widget::pen::Pen;
use super::widget::timebar;
use super::widget::{overlay, palette};

/// The smallest terminal in which the screens make sense.
const SMALLEST: (u16, u16) = (40, 10);

/// Rows of a terminal in which the bar of time has room.
const WITH_TIME: u16 = 24;

/// All that a screen needs to be drawn.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) ui: &'a Ui,
    pub(super) snapshot: &'a Snapshot,
    pub(super) status: &'a Status,
}

/// Draws the dashboard.
pub fn view(ui: &Ui, snapshot: &Snapshot, status: &Status, frame: &mut Frame<'_>) {
    let area = frame.area();
    render(ui, snapshot, status, area, frame.buffer_mut());
}

/// Draws the dashboard into a buffer.
pub fn render(ui: &Ui, snapshot: &Snapshot, status: &Status, area: Rect, buf: &mut Buffer) {
    let area = area.intersection(buf.area);
    let scene = Scene {
        ui,
        snapshot,
        status,
    };
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        too_small(scene, area, buf);
        return;
    }
    let row = |y| Rect {
        y: area.y + y,
        height: 1,
        ..area
    };
    Header(scene).render(row(0), buf);
    tabs(scene, row(1), buf);
    footer(scene, row(area.height - 1), buf);
    // Blank rows keep tabs and footer apart where there is room for them.
    let gap = u16::from(area.height > 14);
    let end = u16::from(area.height > 30);
    let mut body = Rect {
        y: area.y + 2 + gap,
        height: area.height - 3 - gap - end,
        ..area
    };
    if let Some(timeline) = status
        .timeline
        .as_ref()
        .filter(|_| area.height >= WITH_TIME)
    {
        body.height -= 1;
        let at = status.playback.map(|p| p.at);
        timebar::render(timeline, at, ui.theme, row(area.height - 2), buf);
    }
    if ui.help {
        screen::help::Help(scene).render(body, buf);
        return;
    }
    body_of(scene, body, buf);
    if let Some(task) = ui.task.as_ref().filter(|task| !task.hidden) {
        overlay::render(task, ui.theme, body, buf);
    }
    if ui.asks(Asked::Action) {
        palette::render(scene, body, buf);
    }
}

/// The screen itself.
fn body_of(scene: Scene<'_>, body: Rect, buf: &mut Buffer) {
    let ui = scene.ui;
    match ui.screen {
        Screen::Overview => screen::overview::Overview(scene).render(body, buf),
        Screen::Ranks => screen::ranks::RankTable(scene).render(body, buf),
        Screen::Findings => screen::findings::FindingList(scene).render(body, buf),
        Screen::Hosts => screen::hosts::HostTable(scene).render(body, buf),
        Screen::Collectives => screen::collectives::Collectives(scene).render(body, buf),
        Screen::Log => screen::log::LogView(scene).render(body, buf),
        Screen::Env => screen::env::Environment(scene).render(body, buf),
        Screen::Gpus => screen::gpus::GpuTable(scene).render(body, buf),
    }
}

fn too_small(scene: Scene<'_>, area: Rect, buf: &mut Buffer) {
    let verdict = &scene.snapshot.verdict;
    let mut pen = Pen::new(buf, area, scene.ui.theme);
    pen.line(Tone::State(verdict.state), words::headline(verdict.state));
    let need = format!("needs {}x{}, 80x24 is good", SMALLEST.0, SMALLEST.1);
    pen.wrapped(Tone::Plain, &need, 0, 3);
    pen.line(Tone::Plain, "q quit");
}

/// Stands at the end of the tabs, however narrow they are.
const HELP: &str = "? help";

fn tabs(scene: Scene<'_>, area: Rect, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area, scene.ui.theme);
    // Where it is narrow the blanks go first; the way to the help stays.
    let whole = |margin| {
        Screen::ALL
            .iter()
            .map(|s| s.title().len() + 3 + margin)
            .sum::<usize>()
    };
    let wide = whole(1) + HELP.len() <= pen.width();
    let margin = if wide { " " } else { "" };
    for (at, screen) in Screen::ALL.into_iter().enumerate() {
        let label = format!("{margin}{} {} ", at + 1, screen.title());
        let here = screen == scene.ui.screen && !scene.ui.help;
        pen.put(if here { Tone::Selected } else { Tone::Plain }, &label);
    }
    let tone = if scene.ui.help {
        Tone::Selected
    } else {
        Tone::Quiet
    };
    let help = [" ? help  q quit ", HELP];
    let help = help.into_iter().find(|text| text.len() <= pen.room());
    pen.put_right(tone, help.unwrap_or("?"));
}

fn footer(scene: Scene<'_>, area: Rect, buf: &mut Buffer) {
    let ui = scene.ui;
    let mut pen = Pen::new(buf, area, ui.theme);
    if let Some(prompt) = &ui.prompt {
        // The end of what is typed matters, so the start gives way.
        pen.put(Tone::Strong, prompt.asked.label());
        let shown = escape::harmless(&prompt.text, ui.theme.glyphs);
        let skip = escape::width(&shown).saturating_sub(pen.room().saturating_sub(2));
        pen.put(
            Tone::Plain,
            &escape::window(&shown, skip, pen.room(), ui.theme.glyphs),
        );
        pen.put(Tone::Selected, " ");
        return;
    }
    let told = scene
        .status
        .failure
        .as_ref()
        .map(|f| (Tone::Bad, format!("the engine stopped: {f}")));
    let told = told.or_else(|| ui.message.clone().map(|m| (Tone::Strong, m)));
    if let Some((tone, text)) = told {
        pen.put(tone, &format!(" {text}"));
        return;
    }
    pen.put(Tone::Plain, " ");
    let now = Now::new(ui, scene.snapshot, scene.status);
    for binding in keymap::footer(&ui.keys, ui.here(scene.status.has_time())) {
        let Some(word) = now.word(binding) else {
            continue;
        };
        let key = binding.keys[0].name();
        if pen.room() < key.len() + word.len() + 3 {
            break;
        }
        pen.put(Tone::Strong, &key);
        pen.put(Tone::Quiet, &format!(" {word}  "));
    }
}
