//! The dashboard.
//!
//! ```text
//!  key ─► keymap::lookup ─► Action ─► update(&mut Ui, &Snapshot, &Status) ─► Effect ─► Handle, clipboard
//!                                                                    │
//!                    view(&Ui, &Snapshot, &Status, &mut Frame) ◄─────┘   when something changed,
//!                                                                        at most every 33 ms
//! ```

pub mod keymap;
pub mod level;
pub mod palette;
pub mod screen;
pub mod svg;
pub mod task;
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
use crate::app::task::{Order, Task};
use crate::app::{prove, pystack};
use crate::engine::recent::Whose;
use crate::engine::snapshot::Snapshot;
use crate::probe::nccl_library;
use crate::views::escape::Glyphs;

use keymap::Keys;
use terminal::Session;
use theme::{Colors, Theme};
use ui::Ui;
use update::{Effect, arrived, refresh, update};

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// How often it is looked whether something changed while no key is pressed.
const LOOK: Duration = Duration::from_millis(50);
/// How often the time that a program has taken is shown anew.
const CLOCK: Duration = Duration::from_secs(1);

/// What the dashboard cannot do itself.
pub struct Options<'a> {
    /// Colours and characters.
    pub theme: Theme,
    /// What keys mean.
    pub keys: Keys,
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
    let status = handle.status();
    let mut dashboard = Dashboard {
        ui: Ui {
            message: status.messages.last().cloned(),
            keys: options.keys.clone(),
            ..Ui::new(options.theme)
        },
        snapshot: (options.narrow)(handle.snapshot()),
        status,
        handle,
        options,
        pending: None,
        task: None,
        looked: None,
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
        dirty |= dashboard.progress();
    }
}

/// The overview of a job as a picture (SVG), the same for the same snapshot.
#[must_use]
pub fn picture(snapshot: &Snapshot, status: &Status, width: u16, height: u16) -> String {
    let theme = Theme {
        colors: Colors::Dark,
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
    pending: Option<(Whose, LogRequest, Receiver<LogPage>)>,
    /// The program that runs beside the dashboard; it ends with it.
    task: Option<Task>,
    /// What was seen of it last, and when.
    looked: Option<(u64, Instant)>,
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
                let here = self.ui.here(self.status.has_time());
                if let Some(action) = keymap::lookup(&self.ui.keys, here, *key) {
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
            Effect::Log(whose, request) => self.ask(whose, request),
            Effect::Prove(row) => {
                if let Some(finding) = self.snapshot.findings.get(row) {
                    let here = prove::Here::this();
                    let has_nccl = |pid| nccl_library::of_process(pid).is_ok();
                    let test = prove::test(&self.snapshot, finding, &here)
                        .map(|test| test.with_library(&self.snapshot, finding, &here, &has_nccl));
                    task::ask_to_prove(&mut self.ui, finding, &here, test);
                }
            }
            Effect::Run(test) => match test.order() {
                Ok(order) => self.start(&order),
                Err(error) => self.ui.message = Some(format!("not started: {error}")),
            },
            Effect::Stack(rank) => {
                let here = pystack::Here::this(self.status.mode == Mode::Live);
                let pid = self.snapshot.job.rank(rank).and_then(|r| r.pid);
                let order = pystack::order(&self.snapshot, rank, &here);
                task::stack_asked(&mut self.ui, rank, pid, &order);
                if let Ok(order) = order {
                    self.start(&order);
                }
            }
            Effect::StopTask => self.task.iter().for_each(Task::stop),
            Effect::Suspend => session.suspend()?,
            Effect::Copy(text) => {
                session.copy(&text)?;
                self.ui.message = Some(format!(
                    "copied, if the terminal takes OSC 52: {}",
                    text.trim_end()
                ));
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

    fn start(&mut self, order: &Order) {
        self.task = Some(Task::start(order));
        self.looked = None;
    }

    /// Takes in what the program beside the dashboard says; true if there was something.
    fn progress(&mut self) -> bool {
        let Some(running) = &self.task else {
            return false;
        };
        let generation = running.generation();
        let news = match self.looked {
            Some((seen, at)) => seen != generation || at.elapsed() >= CLOCK,
            None => true,
        };
        if !news {
            return false;
        }
        self.looked = Some((generation, Instant::now()));
        let seen = running.seen();
        if seen.end.is_some() {
            self.task = None;
        }
        task::progressed(&mut self.ui, seen);
        true
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
            && let Some(Effect::Log(whose, request)) = refresh(&mut self.ui, &self.snapshot)
        {
            self.ask(whose, request);
        }
    }

    fn ask(&mut self, whose: Whose, request: LogRequest) {
        let page = self.handle.log(whose.clone(), request);
        self.pending = Some((whose, request, page));
    }

    /// Takes in lines that have arrived; true if there were any.
    fn collect(&mut self) -> bool {
        let Some((whose, request, receiver)) = &self.pending else {
            return false;
        };
        match receiver.try_recv() {
            Ok(page) => {
                arrived(&mut self.ui, whose, *request, page);
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
