//! After several failures in a row a model is not asked for a while, each time for longer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::model::Provider;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerConfig {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it stays open first.
    pub pause: Duration,
    /// How long at most.
    pub longest: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    failures: u32,
    /// How often it opened since the last success.
    opened: u32,
    until: Option<Instant>,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 3, pause: Duration::from_secs(30), longest: Duration::from_secs(600) }
    }
}

/// One for each provider.
#[derive(Debug)]
pub struct Breakers {
    config: BreakerConfig,
    states: Mutex<[State; 5]>,
}

impl Breakers {
    /// All closed.
    pub fn new(config: BreakerConfig) -> Self {
        Self { config, states: Mutex::default() }
    }

    /// Whether a provider is not to be asked now. When the pause is over, one more failure opens it again.
    pub fn is_open(&self, provider: Provider, now: Instant) -> bool {
        self.with(provider, |state, _| state.until.is_some_and(|until| now < until))
    }

    /// Whether any is open.
    pub fn open(&self, now: Instant) -> Vec<Provider> {
        Provider::ALL.into_iter().filter(|provider| self.is_open(*provider, now)).collect()
    }

    /// A provider has done what it was asked.
    pub fn succeeded(&self, provider: Provider) {
        self.with(provider, |state, _| *state = State::default());
    }

    /// A provider has failed; answers whether that opened its breaker.
    pub fn failed(&self, provider: Provider, now: Instant) -> bool {
        self.with(provider, |state, config| {
            state.failures = state.failures.saturating_add(1);
            if state.failures < config.failures {
                return false;
            }
            let pause = config.pause.saturating_mul(1 << state.opened.min(16)).min(config.longest);
            state.opened = state.opened.saturating_add(1);
            state.until = Some(now + pause);
            true
        })
    }

    fn with<T>(&self, provider: Provider, act: impl FnOnce(&mut State, &BreakerConfig) -> T) -> T {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut states[provider as usize], &self.config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_for_longer_each_time() {
        let second = Duration::from_secs(1);
        let config = BreakerConfig { failures: 3, pause: 10 * second, longest: 30 * second };
        let (breakers, start) = (Breakers::new(config), Instant::now());
        let (ours, other) = (Provider::OpenAi, Provider::Ollama);
        assert!(!breakers.failed(ours, start) && !breakers.failed(ours, start));
        breakers.succeeded(ours);
        assert!(!breakers.failed(ours, start) && !breakers.failed(ours, start));
        assert!(!breakers.is_open(ours, start));
        assert!(breakers.failed(ours, start) && breakers.is_open(ours, start));
        assert!(!breakers.is_open(other, start) && breakers.open(start) == [ours]);
        let mut now = start + 10 * second;
        assert!(!breakers.is_open(ours, now));
        for pause in [20, 30, 30] {
            assert!(breakers.failed(ours, now));
            assert!(breakers.is_open(ours, now + (pause - 1) * second));
            now += pause * second;
            assert!(!breakers.is_open(ours, now));
        }
        breakers.succeeded(ours);
        assert!(!breakers.failed(ours, now) && !breakers.is_open(ours, now));
    }
}
