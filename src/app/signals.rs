//! SIGINT, SIGTERM, SIGQUIT and SIGHUP end a watch in good order; the second one ends the process at once.
//! After SIGHUP there is no terminal any more, and waiting for its keys never ends: a moment later the
//! process ends by itself.

use std::io;
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long an end in good order may take after the terminal is gone.
const GRACE: Duration = Duration::from_secs(2);
const HANGUP: i32 = 1;

/// Calls `on_first` when the first of the signals arrives, from a thread of its own.
///
/// # Errors
/// If the signals or the thread cannot be set up.
pub fn on_end(on_first: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let listen = |kind| runtime.block_on(async { signal(kind) });
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let mut quit = listen(SignalKind::quit())?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let first = runtime.block_on(any(&mut interrupt, &mut terminate, &mut hangup, &mut quit));
            on_first();
            let number = runtime.block_on(async {
                let second = any(&mut interrupt, &mut terminate, &mut hangup, &mut quit);
                if first == HANGUP {
                    tokio::time::timeout(GRACE, second).await.unwrap_or(first)
                } else {
                    second.await
                }
            });
            if first != HANGUP {
                ratatui::restore();
            }
            #[expect(
                clippy::exit,
                reason = "asked for twice, or nobody is there any more: whatever hangs must not go on"
            )]
            std::process::exit(128 + number);
        })?;
    Ok(())
}

/// A signal that is passed on to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Ctrl-C
    Interrupt,
    /// `kill`
    Terminate,
    /// The terminal is gone.
    Hangup,
    /// Ctrl-\
    Quit,
    /// Whatever the job means by it.
    User1,
    /// Likewise.
    User2,
}

/// Calls `on_each` with every such signal, from a thread of its own; none of them ends this process.
///
/// # Errors
/// If the signals or the thread cannot be set up.
pub fn on_each(mut on_each: impl FnMut(Passed) + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let listen = |kind| runtime.block_on(async { signal(kind) });
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let mut quit = listen(SignalKind::quit())?;
    let mut user1 = listen(SignalKind::user_defined1())?;
    let mut user2 = listen(SignalKind::user_defined2())?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            loop {
                on_each(runtime.block_on(async {
                    tokio::select! {
                        _ = interrupt.recv() => Passed::Interrupt,
                        _ = terminate.recv() => Passed::Terminate,
                        _ = hangup.recv() => Passed::Hangup,
                        _ = quit.recv() => Passed::Quit,
                        _ = user1.recv() => Passed::User1,
                        _ = user2.recv() => Passed::User2,
                    }
                }));
            }
        })?;
    Ok(())
}

async fn any(
    interrupt: &mut Signal,
    terminate: &mut Signal,
    hangup: &mut Signal,
    quit: &mut Signal,
) -> i32 {
    tokio::select! {
        _ = interrupt.recv() => 2,
        _ = terminate.recv() => 15,
        _ = hangup.recv() => HANGUP,
        _ = quit.recv() => 3,
    }
}
