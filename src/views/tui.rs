//! The dashboard.
//!
//! ```text
//!  key ─► keymap::lookup ─► Action ─► update(&mut Ui, &Snapshot, &Status) ─► Effect ─► Handle, clipboard
//!                                                                    │
//!                    view(&Ui, &Snapshot, &Status, &mut Frame) ◄─────┘   when something changed,
//!                                                                        at most every 33 ms
//! ```

pub mod keymap;
pub mod screen;
pub mod svg;
mod terminal;
pub mod theme;
pub mod ui;
pub mod update;
pub mod view;
mod widget;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyEventKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::app::handle::{Handle, LogPage, LogRequest, Mode, Status};
use crate::engine::snapshot::Snapshot;
use crate::views::escape::Glyphs;

use terminal::Session;
use theme::Theme;
use ui::Ui;
use update::{Effect, arrived, refresh, update};

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// How often it is looked whether something changed while no key is pressed.
const LOOK: Duration = Duration::from_millis(50);

/// What the dashboard cannot do itself.
pub struct Options<'a> {
    /// Colours and characters.
    pub theme: Theme,
    /// Saves a report of the snapshot; says where, or why not.
    pub save: &'a dyn Fn(&Snapshot) -> Result<String, String>,
    /// Leaves of a snapshot what the user wants to see.
    pub narrow: &'a dyn Fn(Arc<Snapshot>) -> Arc<Snapshot>,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("theme", &self.theme)
            .finish_non_exhaustive()
    }
}

/// Shows the dashboard until the user quits or the handle asks for the end.
///
/// # Errors
/// If the terminal cannot be taken over, read or written.
pub fn run(handle: &Handle, options: &Options<'_>) -> io::Result<()> {
    let mut session = Session::start()?;
    let mut dashboard = Dashboard {
        ui: Ui::new(options.theme),
        snapshot: (options.narrow)(handle.snapshot()),
        status: handle.status(),
        handle,
        options,
        pending: None,
    };
    // The first look for input starts listening for new sizes: none may come before it.
    event::poll(Duration::ZERO)?;
    let changes = handle.changes();
    let mut seen = *changes.borrow();
    let mut dirty = true;
    let mut drawn: Option<Instant> = None;
    loop {
        let since = drawn.map_or(FRAME, |at| at.elapsed());
        if dirty && since >= FRAME {
            session.terminal.draw(|frame| dashboard.draw(frame))?;
            drawn = Some(Instant::now());
            dirty = false;
        }
        let wait = if dirty {
            FRAME.saturating_sub(since)
        } else {
            LOOK
        };
        // All input is drained before the next frame.
        let mut ready = event::poll(wait)?;
        while ready {
            dirty = true;
            if dashboard.event(&event::read()?, &mut session)? {
                return Ok(());
            }
            ready = event::poll(Duration::ZERO)?;
        }
        if session.is_told_to_stop() {
            session.suspend()?;
            dirty = true;
        }
        let now = *changes.borrow();
        if now != seen {
            seen = now;
            dirty = true;
            dashboard.look();
        }
        if dashboard.status.shutdown {
            return Ok(());
        }
        dirty |= dashboard.collect();
    }
}

/// The overview of a job as a picture (SVG), the same for the same snapshot.
#[must_use]
pub fn picture(snapshot: &Snapshot, status: &Status, width: u16, height: u16) -> String {
    let theme = Theme {
        color: true,
        glyphs: Glyphs::Unicode,
    };
    let ui = Ui {
        size: (width, height),
        ..Ui::new(theme)
    };
    let area = Rect::new(0, 0, width, height);
    let mut buf = Buffer::empty(area);
    view::render(&ui, snapshot, status, area, &mut buf);
    svg::svg(&buf)
}

struct Dashboard<'a> {
    ui: Ui,
    snapshot: Arc<Snapshot>,
    status: Status,
    handle: &'a Handle,
    options: &'a Options<'a>,
    /// Lines of a log that were asked for.
    pending: Option<(u32, LogRequest, Receiver<LogPage>)>,
}

impl Dashboard<'_> {
    fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        self.ui.size = (frame.area().width, frame.area().height);
        view::view(&self.ui, &self.snapshot, &self.status, frame);
    }

    /// Deals with an event; true ends the dashboard.
    fn event(&mut self, event: &Event, session: &mut Session) -> io::Result<bool> {
        match event {
            // A new size needs nothing but the next frame, which asks for it.
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                let here = self.ui.here(self.status.mode == Mode::Replay);
                if let Some(action) = keymap::lookup(here, *key) {
                    let effects = update(&mut self.ui, &self.snapshot, &self.status, action);
                    for effect in effects {
                        if self.carry_out(effect, session)? {
                            return Ok(true);
                        }
                    }
                    // What the effect changed is shown at once.
                    self.status = self.handle.status();
                }
            }
            _ => {}
        }
        Ok(false)
    }

    fn carry_out(&mut self, effect: Effect, session: &mut Session) -> io::Result<bool> {
        match effect {
            Effect::Quit => return Ok(true),
            Effect::Pause => self.handle.pause(),
            Effect::Resume => self.handle.resume(),
            Effect::Step => self.handle.step(),
            Effect::Speed(speed) => self.handle.set_speed(speed),
            Effect::Seek(to) => self.handle.seek(to),
            Effect::Log(rank, request) => {
                self.pending = Some((rank, request, self.handle.log(rank, request)));
            }
            Effect::Suspend => session.suspend()?,
            Effect::Copy(text) => {
                session.copy(&text)?;
                self.ui.message = Some(format!("copied: {}", text.trim_end()));
            }
            Effect::Save => {
                self.ui.message = Some(match (self.options.save)(&self.snapshot) {
                    Ok(path) => format!("saved {path}"),
                    Err(why) => format!("not saved: {why}"),
                });
            }
        }
        Ok(false)
    }

    /// Takes in what changed behind the handle.
    fn look(&mut self) {
        self.snapshot = (self.options.narrow)(self.handle.snapshot());
        let status = self.handle.status();
        if let Some(news) = status
            .messages
            .last()
            .filter(|m| Some(*m) != self.status.messages.last())
        {
            self.ui.message = Some(news.clone());
        }
        self.status = status;
        if self.pending.is_none()
            && let Some(Effect::Log(rank, request)) = refresh(&mut self.ui, &self.snapshot)
        {
            self.pending = Some((rank, request, self.handle.log(rank, request)));
        }
    }

    /// Takes in lines that have arrived; true if there were any.
    fn collect(&mut self) -> bool {
        let Some((rank, request, receiver)) = &self.pending else {
            return false;
        };
        match receiver.try_recv() {
            Ok(page) => {
                arrived(&mut self.ui, *rank, *request, page);
                self.pending = None;
                true
            }
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => {
                self.pending = None;
                false
            }
        }
    }
}
