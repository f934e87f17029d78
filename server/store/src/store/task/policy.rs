//! How a task's context is kept small: worked out when its configuration changes, not for each message.

use std::sync::Arc;

use super::{Inner, Task, Tried};
use crate::context::{Asked, Policy, Settings};
use crate::log::Tally;
use crate::model::{Event, Overflow, Provider, Reported, StoreError, TaskConfig};
use crate::store::env::Env;

/// The least that a model that refuses without a figure is taken to take.
const LEAST_LIMIT: u64 = 512;

/// What a refusal of a context says of the view that it was made of, until that is rewritten or taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    generation: u64,
    count: Reported,
}

/// What follows from a configuration, and from who was asked.
pub(super) fn resolved(env: &Env, config: &TaskConfig, asked: &Asked) -> Arc<Policy> {
    Arc::new(Policy::resolve_for(asked, None, config, &env.options.compression))
}

impl Task {
    /// What holds.
    pub(crate) fn policy(&self) -> Result<Arc<Policy>, StoreError> {
        let inner = self.lock();
        self.check_there(&inner)?;
        Ok(Arc::clone(&inner.policy))
    }

    /// Remembers who is asked: the limit of that model counts. Answers what holds.
    pub(crate) fn note_asked(&self, provider: Provider, model: &str) -> Result<Arc<Policy>, StoreError> {
        let mut inner = self.lock();
        self.check_there(&inner)?;
        if inner.asked.provider != Some(provider) || inner.asked.model != model {
            inner.asked = Asked { provider: Some(provider), model: model.to_owned(), most: None };
            inner.refused = None;
            inner.policy = resolved(&self.env, self.config(&inner), &inner.asked);
        }
        Ok(Arc::clone(&inner.policy))
    }

    /// Remembers that the model refused the context as too long. The limit that it states is the limit. If that is more than
    /// what is counted here, the count is wrong, and the view has at least one token more than the limit. Without a figure, the
    /// limit is a little below what was sent.
    pub(crate) fn note_overflow(&self, stated: Overflow) -> Result<(), StoreError> {
        let mut inner = self.lock();
        self.check_there(&inner)?;
        self.ensure_view(&mut inner);
        let told = self.pressure(&mut inner).tokens;
        let most = stated.limit.unwrap_or_else(|| (told / 10 * 9).max(LEAST_LIMIT));
        let least = stated.limit.map_or(0, |limit| limit.saturating_add(1)).max(stated.sent.unwrap_or(0));
        if least > told {
            let counted = inner.view_tokens().saturating_add(inner.tools_tokens());
            let generation = inner.log.state().view_generation();
            inner.refused = Reported::new(least, counted).map(|count| Refused { generation, count });
        }
        inner.asked.most = Some(most);
        inner.policy = resolved(&self.env, self.config(&inner), &inner.asked);
        // What the last try found was found by another count.
        inner.tried = Tried::default();
        Ok(())
    }

    /// Takes in a report of usage: a limit that is less than what the model has read is none, and what it refused is known.
    pub(super) fn note_taken(&self, inner: &mut Inner, usage: &Event) {
        inner.refused = None;
        if inner.asked.most.is_some_and(|most| usage.input_tokens() > most) {
            inner.asked.most = None;
            inner.policy = resolved(&self.env, self.config(inner), &inner.asked);
        }
    }

    /// What holds for a call that says something of its own.
    pub(crate) fn policy_with(
        &self,
        call: &Settings,
        target_tokens: Option<u64>,
    ) -> Result<Policy, StoreError> {
        let inner = self.lock();
        self.check_there(&inner)?;
        let server = &self.env.options.compression;
        Ok(Policy::resolve_for(&inner.asked, Some((call, target_tokens)), self.config(&inner), server))
    }

    /// What holds by the configuration that readers are told.
    pub(super) fn shown_policy(&self, inner: &Inner) -> Arc<Policy> {
        let (shown, newest) = (self.shown_config(inner), self.config(inner));
        let same = std::ptr::eq(shown, newest);
        if same { Arc::clone(&inner.policy) } else { resolved(&self.env, shown, &inner.asked) }
    }
}

impl Inner {
    /// What is known of the tokens of the view: by the log, and by a refusal that came since.
    pub(super) fn known(&self, tally: &Tally) -> Tally {
        let refused = self.refused.filter(|refused| refused.generation == self.log.state().view_generation());
        let reported = refused.map(|refused| refused.count).or(tally.reported);
        Tally { reported, ..tally.clone() }
    }
}
