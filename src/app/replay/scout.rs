//! Reads what is to be played once through beforehand, on a thread of its own: when lines and findings come.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::script::Script;
use crate::app::handle::Shared;
use crate::app::timeline::{Tally, lines};
use crate::engine::Engine;

/// Between two words about how far it has got.
const TELL: Duration = Duration::from_millis(200);

/// Starts reading. It ends by itself, at the end of the script or of the replay.
///
/// # Errors
/// If the thread cannot be started.
pub(super) fn start(
    script: Box<dyn Script>,
    engine: Engine,
    shared: Arc<Shared>,
) -> io::Result<()> {
    thread::Builder::new()
        .name("scout".to_owned())
        .spawn(move || read(script, engine, &shared))?;
    Ok(())
}

/// What cannot be read is told by the replay itself when it gets there.
fn read(mut script: Box<dyn Script>, mut engine: Engine, shared: &Shared) {
    let mut tally = Tally::new(script.axis(), script.length());
    let mut told = Instant::now();
    while let Ok(Some((at, record))) = script.next() {
        if shared.is_shut_down() {
            return;
        }
        if tally.begins_part(at) {
            tally.look(&engine.snapshot());
            if told.elapsed() >= TELL {
                told = Instant::now();
                tell(&tally, shared);
            }
        }
        engine.handle(record.seen, record.what.as_input());
        tally.count(at, lines(&record.what));
    }
    tally.look(&engine.snapshot());
    tally.end();
    tell(&tally, shared);
}

fn tell(tally: &Tally, shared: &Shared) {
    let timeline = Arc::new(tally.timeline.clone());
    shared.edit_status(|status| {
        status.timeline = Some(timeline);
        true
    });
}
