//! When a call is tried again, and after which pause. Only calls that are safe to repeat come here.

use std::time::Duration;

use contextstore_proto::v1::ErrorReason;

use crate::Error;

/// How calls that are safe to repeat are repeated: reads, and changes with a request id.
///
/// A call is tried again after a broken connection, and if the server says when to ([`Error::is_transient`]); within
/// its deadline, and after pauses that double and are partly random.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a call is tried in all; 1 for no repetition.
    pub attempts: u32,
    /// The pause before the second try.
    pub first_pause: Duration,
    /// No pause is longer, unless the server asks for more.
    pub longest_pause: Duration,
}

impl Default for RetryPolicy {
    /// Eight tries over some five seconds: long enough for a server that is started anew.
    fn default() -> Self {
        Self { attempts: 8, first_pause: Duration::from_millis(50), longest_pause: Duration::from_secs(2) }
    }
}

impl RetryPolicy {
    /// Never tries again.
    pub fn none() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    pub(crate) fn start(&self) -> Retries {
        Retries { policy: self.clone(), failed: 0 }
    }
}

/// The tries of one call.
#[derive(Debug)]
pub(crate) struct Retries {
    policy: RetryPolicy,
    failed: u32,
}

impl Retries {
    /// How long to wait before the next try; `None` if there is to be none.
    pub(crate) fn pause(&mut self, error: &Error) -> Option<Duration> {
        self.failed += 1;
        if self.failed >= self.policy.attempts || !error.is_transient() {
            return None;
        }
        let doubled = self.policy.first_pause.saturating_mul(1 << (self.failed - 1).min(20));
        // Clients that failed together should not come back together.
        let pause = doubled.min(self.policy.longest_pause).mul_f64(0.5 + fastrand::f64() / 2.0);
        Some(error.retry_after().map_or(pause, |asked| asked.max(pause)))
    }

    /// The same for a stream that knows where it was: it also goes on after it was closed for being slow.
    pub(crate) fn pause_to_resume(&mut self, error: &Error) -> Option<Duration> {
        if error.reason() == Some(ErrorReason::Stalled) && self.failed + 1 < self.policy.attempts {
            self.failed += 1;
            return Some(Duration::ZERO);
        }
        self.pause(error)
    }

    /// Something was received: what comes next fails for reasons of its own.
    pub(crate) fn reset(&mut self) {
        self.failed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    fn overloaded(retry_after: Option<Duration>) -> Error {
        let mut details = ErrorDetails::new();
        details.set_retry_info(retry_after);
        Error::from_status(Status::with_error_details(Code::ResourceExhausted, "", details), "unix:/s")
    }

    fn unavailable() -> Error {
        Error::from_status(Status::unavailable("stopping"), "unix:/s")
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_end() {
        let policy = RetryPolicy {
            attempts: 6,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_millis(500),
        };
        let mut retries = policy.start();
        for longest in [100, 200, 400, 500, 500].map(Duration::from_millis) {
            let pause = retries.pause(&unavailable()).unwrap();
            assert!(pause <= longest && pause >= longest / 2, "{pause:?} of {longest:?}");
        }
        assert_eq!(retries.pause(&unavailable()), None);
        retries.reset();
        assert!(retries.pause(&unavailable()).unwrap() <= Duration::from_millis(100));
        assert_eq!(RetryPolicy::none().start().pause(&unavailable()), None);
    }

    #[test]
    fn the_server_may_ask_for_more_time() {
        let asked = Duration::from_secs(7);
        assert_eq!(RetryPolicy::default().start().pause(&overloaded(Some(asked))), Some(asked));
        assert_eq!(RetryPolicy::default().start().pause(&overloaded(None)), None);
    }
}
