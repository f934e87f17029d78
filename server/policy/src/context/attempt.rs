//! The last attempt to compress a view, which decides when the next one is made.

use std::time::{Duration, Instant};

use super::{Policy, Pressure, Stage};

/// The time after which a failed attempt is repeated, even if nothing was appended.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The last attempt to compress a view. It is not kept: of a task that is opened again the log tells when it was last
/// compressed, and an attempt that brought nothing is made once more.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompressionAttempt {
    /// Tokens of all messages of the log that it knew of; none: there was no attempt since the task was opened.
    seen: Option<u64>,
    /// Tokens of all messages when the view was last compressed, as the log told then. If it tells the same, the attempt is
    /// what counts, as it may not have known all of them.
    compressed_at: u64,
    /// Whether the messages that have to stay are too large by themselves.
    over: bool,
    /// The limit that the view was over all the same, if it was: more attempts bring nothing then.
    over_limit: Option<u64>,
    /// When it may be repeated though nothing was appended, after a failure.
    retry_at: Option<Instant>,
}

/// How far a log has grown, in tokens of all its messages.
#[derive(Debug, Clone, Copy)]
pub struct LogTokens {
    /// As it is.
    pub now: u64,
    /// When the view was last compressed.
    pub compressed_at: u64,
}

impl CompressionAttempt {
    /// Returns the attempt that made the present view out of messages of `seen` tokens. Nobody has found yet that a view over
    /// the limit cannot be made smaller.
    pub fn succeeded(seen: u64, compressed_at: u64) -> Self {
        Self { seen: Some(seen), compressed_at, ..Self::default() }
    }

    /// Returns an attempt that brought nothing; `over` if the messages that have to stay are too large by themselves, and
    /// `over_limit` is the limit that the view is over.
    pub fn useless(seen: u64, compressed_at: u64, over: bool, over_limit: Option<u64>) -> Self {
        Self { seen: Some(seen), compressed_at, over, over_limit, retry_at: None }
    }

    /// Records that an attempt failed: the next one waits for more messages, or for a while.
    pub fn fail(&mut self, log: LogTokens, limit: u64, now: Instant) {
        self.seen = Some(log.now);
        self.compressed_at = log.compressed_at;
        self.over_limit = Some(limit);
        self.retry_at = Some(now + RETRY_AFTER);
    }

    /// Returns whether the messages that have to stay were too large by themselves.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns whether it is time for another attempt, on a view that has passed its threshold.
    pub fn is_next_due(&self, policy: &Policy, pressure: &Pressure, log: LogTokens, now: Instant) -> bool {
        let since = match self.seen {
            Some(seen) if self.compressed_at == log.compressed_at => seen,
            Some(seen) => seen.max(log.compressed_at),
            None => log.compressed_at,
        };
        if since == 0 || self.retry_at.is_some_and(|retry_at| now >= retry_at) {
            return true;
        }
        let grown = log.now.saturating_sub(since);
        if pressure.stage != Stage::Emergency {
            return grown > 0 && grown >= policy.worth();
        }
        // The view may be over the limit without another message: another model is asked, tools came, an undo.
        self.over_limit != Some(policy.limit) || grown > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ServerPolicy;
    use crate::model::TaskConfig;

    fn policy() -> Policy {
        let config = TaskConfig { context_length: Some(10_000), ..TaskConfig::default() };
        Policy::resolve(None, &config, &ServerPolicy::default())
    }

    /// Returns whether an attempt is due on a view of `tokens`, with `log` tokens of messages.
    fn is_due(last: &CompressionAttempt, tokens: u64, log: u64, now: Instant) -> bool {
        let policy = policy();
        let log = LogTokens { now: log, compressed_at: 0 };
        last.is_next_due(&policy, &Pressure::of(tokens, &policy), log, now)
    }

    #[test]
    fn the_first_attempt_is_due_at_once_and_the_next_after_some_growth() {
        let now = Instant::now();
        assert!(is_due(&CompressionAttempt::default(), 8_000, 8_000, now));
        let last = CompressionAttempt::useless(8_000, 0, false, None);
        let worth = policy().worth();
        assert!(!is_due(&last, 8_000, 8_000, now));
        assert!(!is_due(&last, 8_000, 8_000 + worth - 1, now));
        assert!(is_due(&last, 8_000, 8_000 + worth, now));
    }

    #[test]
    fn a_failed_attempt_is_repeated_after_a_while() {
        let now = Instant::now();
        let mut last = CompressionAttempt::default();
        last.fail(LogTokens { now: 8_000, compressed_at: 0 }, 10_000, now);
        assert!(!is_due(&last, 8_000, 8_000, now));
        assert!(is_due(&last, 8_000, 8_000, now + RETRY_AFTER));
    }

    #[test]
    fn over_the_limit_any_growth_or_another_limit_is_enough() {
        let now = Instant::now();
        let last = CompressionAttempt::useless(11_000, 0, true, Some(10_000));
        assert!(!is_due(&last, 11_000, 11_000, now));
        assert!(is_due(&last, 11_000, 11_001, now));
        let last = CompressionAttempt::useless(11_000, 0, true, Some(20_000));
        assert!(is_due(&last, 11_000, 11_000, now));
        assert!(is_due(&CompressionAttempt::succeeded(11_000, 0), 11_000, 11_000, now));
    }
}
