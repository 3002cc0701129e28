//! SIGINT, SIGTERM and SIGHUP end a watch in good order; the second one ends the process at once.

use std::io;
use std::thread;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Calls `on_first` when the first of the signals arrives, from a thread of its own.
///
/// # Errors
/// If the signals or the thread cannot be set up.
pub fn on_end(on_first: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let listen = |kind| runtime.block_on(async { signal(kind) });
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(any(&mut interrupt, &mut terminate, &mut hangup));
            on_first();
            let number = runtime.block_on(any(&mut interrupt, &mut terminate, &mut hangup));
            ratatui::restore();
            #[expect(
                clippy::exit,
                reason = "asked for twice: whatever hangs must not hold the user's terminal"
            )]
            std::process::exit(128 + number);
        })?;
    Ok(())
}

async fn any(interrupt: &mut Signal, terminate: &mut Signal, hangup: &mut Signal) -> i32 {
    tokio::select! {
        _ = interrupt.recv() => 2,
        _ = terminate.recv() => 15,
        _ = hangup.recv() => 1,
    }
}
