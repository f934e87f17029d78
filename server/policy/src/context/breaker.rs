//! After several failures in a row a model is not asked for a while, each time for longer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    /// Whether one call finds out if the model is well again.
    probing: bool,
}

/// A model of a provider; an empty name is the provider's own choice.
type Model = (Provider, String);

/// Most models that are known to have failed.
const MOST_MODELS: usize = 256;

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 3, pause: Duration::from_secs(30), longest: Duration::from_secs(600) }
    }
}

/// One for each model that failed.
#[derive(Debug)]
pub struct Breakers {
    config: BreakerConfig,
    states: Mutex<HashMap<Model, State>>,
}

/// Leave to ask a model. Dropped without a word of how it went, it is as if nobody had asked.
#[derive(Debug)]
pub struct Leave<'a> {
    breakers: &'a Breakers,
    model: Model,
    /// How often the breaker had opened then: what began before it opened again says nothing new.
    opened: u32,
    probes: bool,
}

impl Breakers {
    /// All closed.
    pub fn new(config: BreakerConfig) -> Self {
        Self { config, states: Mutex::default() }
    }

    /// Whether a model is not to be asked now. When the pause is over, one more failure opens it again.
    pub fn is_open(&self, provider: Provider, model: &str, now: Instant) -> bool {
        let states = self.lock();
        // It is asked with every append.
        !states.is_empty()
            && states.get(&(provider, model.to_owned())).is_some_and(|state| state.is_open(now))
    }

    /// Providers of which any model is not asked.
    pub fn open(&self, now: Instant) -> Vec<Provider> {
        let states = self.lock();
        let is_open = |wanted: &Provider| {
            states.iter().any(|((provider, _), state)| provider == wanted && state.is_open(now))
        };
        Provider::ALL.into_iter().filter(is_open).collect()
    }

    /// Leave to ask a model; none while its breaker is open. After the pause one call finds out how it is, and the others
    /// wait for that.
    pub fn ask(&self, provider: Provider, model: &str, now: Instant) -> Option<Leave<'_>> {
        let model = (provider, model.to_owned());
        let (opened, probes) = match self.lock().get_mut(&model) {
            Some(state) if state.is_open(now) || state.probing => return None,
            Some(state) => {
                state.probing = state.opened > 0;
                (state.opened, state.probing)
            }
            None => (0, false),
        };
        Some(Leave { breakers: self, model, opened, probes })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Model, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_open(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

impl Leave<'_> {
    /// The model has done what it was asked.
    pub fn succeeded(self) {
        self.breakers.lock().remove(&self.model);
    }

    /// The model has failed; answers whether that opened its breaker.
    pub fn failed(self, now: Instant) -> bool {
        let config = &self.breakers.config;
        let mut states = self.breakers.lock();
        if states.len() >= MOST_MODELS && !states.contains_key(&self.model) {
            // One that is not open is known by its few failures only.
            let other = states.iter().find(|(_, state)| !state.is_open(now)).or(states.iter().next());
            let other = other.map(|(model, _)| model.clone());
            other.and_then(|model| states.remove(&model));
        }
        let state = states.entry(self.model.clone()).or_default();
        if state.opened != self.opened {
            return false;
        }
        state.failures = state.failures.saturating_add(1);
        if state.failures < config.failures {
            return false;
        }
        let pause = config.pause.saturating_mul(1 << state.opened.min(16)).min(config.longest);
        state.opened = state.opened.saturating_add(1);
        state.until = Some(now + pause);
        true
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.probes
            && let Some(state) = self.breakers.lock().get_mut(&self.model)
        {
            state.probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breakers() -> Breakers {
        Breakers::new(BreakerConfig { failures: 3, pause: 10 * SECOND, longest: 30 * SECOND })
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_for_longer_each_time() {
        let (breakers, start) = (breakers(), Instant::now());
        let ask = |now| breakers.ask(Provider::OpenAi, "a", now);
        let fails = |now| ask(now).unwrap().failed(now);
        let is_open = |now| breakers.is_open(Provider::OpenAi, "a", now);
        assert!(!fails(start) && !fails(start));
        ask(start).unwrap().succeeded();
        assert!(!fails(start) && !fails(start) && !is_open(start));
        assert!(fails(start) && is_open(start) && ask(start).is_none());
        // Others are asked, of the same provider too.
        assert!(
            !breakers.is_open(Provider::Ollama, "a", start) && breakers.open(start) == [Provider::OpenAi]
        );
        assert!(breakers.ask(Provider::OpenAi, "b", start).is_some());
        let mut now = start + 10 * SECOND;
        assert!(!is_open(now));
        for pause in [20, 30, 30] {
            assert!(fails(now));
            assert!(is_open(now + (pause - 1) * SECOND));
            now += pause * SECOND;
            assert!(!is_open(now));
        }
        ask(now).unwrap().succeeded();
        assert!(!fails(now) && !is_open(now));
    }

    #[test]
    fn one_finds_out_whether_a_model_is_well_again() {
        let (breakers, start) = (breakers(), Instant::now());
        let ask = |now| breakers.ask(Provider::OpenAi, "a", now);
        let early: Vec<_> = (0..5).map(|_| ask(start).unwrap()).collect();
        let opened: Vec<bool> = early.into_iter().map(|leave| leave.failed(start)).collect();
        // What began before it opened says nothing new.
        assert_eq!(opened, [false, false, true, false, false]);
        let late = start + 10 * SECOND;
        let probe = ask(late).unwrap();
        assert!(ask(late).is_none());
        // Whoever is not answered leaves it to the next.
        drop(probe);
        let probe = ask(late).unwrap();
        assert!(ask(late).is_none());
        probe.succeeded();
        assert!(ask(late).is_some() && ask(late).is_some());
    }

    #[test]
    fn not_every_name_is_remembered() {
        let (breakers, start) = (breakers(), Instant::now());
        let fail = |model: &str| breakers.ask(Provider::OpenAi, model, start).unwrap().failed(start);
        assert!(!fail("bad") && !fail("bad") && fail("bad"));
        for number in 0..2 * MOST_MODELS {
            fail(&number.to_string());
        }
        assert_eq!(breakers.lock().len(), MOST_MODELS);
        assert!(breakers.is_open(Provider::OpenAi, "bad", start));
    }
}
