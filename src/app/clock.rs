//! The only `now` of a running watch.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::engine::input::Time;

/// Wall clock at the start, monotonic from then on: a clock that is set while a job is watched
/// must not make a rank silent.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    epoch: Duration,
}

impl Clock {
    /// Starts the clock.
    #[must_use]
    pub fn start() -> Self {
        let epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            epoch,
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        let now = self.epoch + self.started.elapsed();
        Time(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
