//! The only access to time: wall-clock stamps for records, a monotonic clock for leases.

use std::fmt::Debug;
use std::sync::Arc;
#[cfg(feature = "sim")]
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound, Utc};

/// A source of time. The wall clock only labels records; no decision depends on it.
pub trait Clock: Debug + Send + Sync {
    /// Returns the wall-clock time in UTC, to the microsecond, which is the precision of a record.
    fn now(&self) -> DateTime<Utc>;
    /// Returns the time since an arbitrary start; it never decreases.
    fn monotonic(&self) -> Duration;
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts now.
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

/// A clock that only tests advance, except that each read of the wall clock takes one millisecond, so that records
/// have different times.
#[cfg(feature = "sim")]
#[derive(Debug)]
pub struct ManualClock {
    time: Mutex<ManualTime>,
}

#[cfg(feature = "sim")]
#[derive(Debug)]
struct ManualTime {
    wall: DateTime<Utc>,
    monotonic: Duration,
}

#[cfg(feature = "sim")]
impl ManualClock {
    /// Creates a clock at 2026-01-01T00:00:00Z, with a monotonic time of zero.
    pub fn shared() -> Arc<Self> {
        // Seconds since 1970, within the range of dates, so the default is never used.
        let wall = DateTime::from_timestamp(1_767_225_600, 0).unwrap_or_default();
        Arc::new(Self { time: Mutex::new(ManualTime { wall, monotonic: Duration::ZERO }) })
    }

    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        let mut time = self.time();
        time.wall += by;
        time.monotonic += by;
    }

    /// Sets the wall clock back, as an administrator or a time server may.
    pub fn set_back(&self, by: Duration) {
        self.time().wall -= by;
    }

    fn time(&self) -> MutexGuard<'_, ManualTime> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "sim")]
impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        let mut time = self.time();
        let now = time.wall;
        time.wall += Duration::from_millis(1);
        now
    }

    fn monotonic(&self) -> Duration {
        self.time().monotonic
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_on_request_and_a_little_at_each_read() {
        let clock = ManualClock::shared();
        let stamp = || clock.now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        assert_eq!(stamp(), "2026-01-01T00:00:00.000Z");
        assert_eq!(stamp(), "2026-01-01T00:00:00.001Z");
        assert_eq!(clock.monotonic(), Duration::ZERO);
        clock.advance(Duration::from_secs(90));
        assert_eq!(stamp(), "2026-01-01T00:01:30.002Z");
        assert_eq!(clock.monotonic(), Duration::from_secs(90));
    }
}

/// Returns the processor time of this thread.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
