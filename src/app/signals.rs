//! SIGINT, SIGTERM, SIGQUIT and SIGHUP end a watch in good order; the second one ends the process at once.
//! After SIGHUP there is no terminal any more, and waiting for its keys never ends: a moment later the
//! process ends by itself.

use std::io;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal as Number;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long an end in good order may take after the terminal is gone.
const GRACE: Duration = Duration::from_secs(2);

/// Calls `on_first` when the first of the signals arrives, from a thread of its own.
///
/// # Errors
/// If the signals or the thread cannot be set up.
pub fn on_end(on_first: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = runtime()?;
    let mut ends = runtime.block_on(async { Ends::listen() })?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let first = runtime.block_on(ends.next());
            on_first();
            let second = runtime.block_on(async {
                let second = ends.next();
                if first == Passed::Hangup {
                    tokio::time::timeout(GRACE, second).await.unwrap_or(first)
                } else {
                    second.await
                }
            });
            if first != Passed::Hangup {
                ratatui::restore();
            }
            #[expect(
                clippy::exit,
                reason = "asked for twice, or nobody is there any more: whatever hangs must not go on"
            )]
            std::process::exit(128 + second.number() as i32);
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

impl Passed {
    /// As the operating system knows it.
    #[must_use]
    pub fn number(self) -> Number {
        match self {
            Self::Interrupt => Number::SIGINT,
            Self::Terminate => Number::SIGTERM,
            Self::Hangup => Number::SIGHUP,
            Self::Quit => Number::SIGQUIT,
            Self::User1 => Number::SIGUSR1,
            Self::User2 => Number::SIGUSR2,
        }
    }
}

/// Calls `on_each` with every such signal, from a thread of its own; none of them ends this process.
///
/// # Errors
/// If the signals or the thread cannot be set up.
pub fn on_each(mut on_each: impl FnMut(Passed) + Send + 'static) -> io::Result<()> {
    let runtime = runtime()?;
    let mut ends = runtime.block_on(async { Ends::listen() })?;
    let own = |kind| runtime.block_on(async { signal(kind) });
    let mut user1 = own(SignalKind::user_defined1())?;
    let mut user2 = own(SignalKind::user_defined2())?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            loop {
                on_each(runtime.block_on(async {
                    tokio::select! {
                        end = ends.next() => end,
                        _ = user1.recv() => Passed::User1,
                        _ = user2.recv() => Passed::User2,
                    }
                }));
            }
        })?;
    Ok(())
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
}

/// The signals that end a program, while they are listened to.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Ends {
    /// Within a runtime.
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    async fn next(&mut self) -> Passed {
        tokio::select! {
            _ = self.interrupt.recv() => Passed::Interrupt,
            _ = self.terminate.recv() => Passed::Terminate,
            _ = self.hangup.recv() => Passed::Hangup,
            _ = self.quit.recv() => Passed::Quit,
        }
    }
}
