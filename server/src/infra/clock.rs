//! The one door to time: wall-clock stamps for records, a monotonic clock for leases.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound, Utc};

/// A source of time. The wall clock only ever labels records; nothing is decided by it.
pub trait Clock: Debug + Send + Sync {
    /// The wall clock, in UTC, to the microsecond (what a record can carry).
    fn now(&self) -> DateTime<Utc>;
    /// Time since an arbitrary start, never going back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self { start: Instant::now() })
    }
}

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
        let now = Utc::now();
        now.trunc_subsecs(6)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
