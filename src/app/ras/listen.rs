//! Listens to what RAS tells by itself, where the user asked for it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Asking, refusal, send, source};
use crate::app::clock::Clock;
use crate::app::engine_thread::{Msg, Sender};
use crate::engine::ids::SourceId;
use crate::engine::input::Input;
use crate::engine::ras::events::{self, Change};
use crate::engine::snapshot::Snapshot;
use crate::error::InputError;
use crate::sources::ras::monitor::Monitor;
use crate::sources::ras::{Endpoint, Patience, has_monitor};
use crate::sources::record::What;

/// Short naps, so that the end of the watch is not waited for.
const NAP: Duration = Duration::from_millis(250);
/// Between two looks whether the job's version is known by now.
const LOOK: Duration = Duration::from_secs(1);

/// Listens until the watch ends. `news` is set where a process is gone or silent. A connection that fails is made
/// again as often as a question is asked, and no more.
pub(crate) fn listen(
    asking: &Asking,
    endpoint: &Endpoint,
    id: SourceId,
    news: &AtomicBool,
    sender: &Sender,
    clock: Clock,
) {
    let mut told = None;
    let mut announced = false;
    let mut next = Instant::now();
    while !sender.shared.is_shut_down() {
        std::thread::sleep(NAP);
        if Instant::now() < next {
            continue;
        }
        let snapshot = sender.shared.snapshot();
        // Whoever asks for answers says so.
        if !asking.force && refusal(&snapshot, endpoint).is_some() {
            next = Instant::now() + LOOK;
            continue;
        }
        let monitor = match without_monitor(&snapshot, endpoint) {
            Some(problem) => Err(problem),
            None => endpoint.monitor(Patience::default()),
        };
        next = Instant::now() + asking.every;
        let ended = monitor.and_then(|monitor| {
            told = None;
            if !std::mem::replace(&mut announced, true) {
                let mut info = source(id, endpoint);
                info.name = format!("events of {}", info.name);
                send(sender, clock, What::Other(Input::Source(info)));
            }
            hears(sender, 1);
            let ended = follow(monitor, id, news, sender, clock);
            hears(sender, -1);
            ended
        });
        if let Err(problem) = ended {
            let text = problem.to_string();
            if told.as_ref() != Some(&text) {
                told = Some(text.clone());
                sender.send(Msg::Message(text));
            }
        }
    }
}

/// Passes events on until the connection or the watch ends.
fn follow(
    mut monitor: Monitor,
    source: SourceId,
    news: &AtomicBool,
    sender: &Sender,
    clock: Clock,
) -> Result<(), InputError> {
    while !sender.shared.is_shut_down() {
        let reply = monitor.next(NAP)?;
        if reply.is_empty() {
            continue;
        }
        let told = events::read(source, 0, 0, &reply).unwrap_or_default();
        if told.events.iter().any(|event| event.change != Change::Well) {
            news.store(true, Ordering::Relaxed);
        }
        send(sender, clock, What::Ras { source, reply });
    }
    Ok(())
}

fn hears(sender: &Sender, more: i64) {
    sender.shared.edit_status(|status| {
        status.hears_ras = status.hears_ras.saturating_add_signed(more);
        true
    });
}

/// The job's version is known and has no monitor mode.
fn without_monitor(snapshot: &Snapshot, endpoint: &Endpoint) -> Option<InputError> {
    let versions = snapshot.job.versions.iter().filter(|v| v.name == "nccl");
    let mut versions = versions.flat_map(|v| &v.values);
    let (version, _) = versions.find(|(version, _)| !has_monitor(version))?;
    let why = format!("the job uses NCCL {version}, and monitor mode came with 2.29.2");
    let name = endpoint.to_string();
    Some(InputError::because(
        "listen to RAS at",
        Path::new(&name),
        why,
    ))
}
