//! How a task's context is kept small: worked out when its configuration changes, not for each message.

use std::sync::Arc;

use super::{Inner, Task};
use crate::context::{Asked, Policy, Settings};
use crate::model::{Provider, StoreError, TaskConfig};
use crate::store::env::Env;

/// The least that a model that refuses is taken to take.
const LEAST_LIMIT: u64 = 512;

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
            inner.policy = resolved(&self.env, self.config(&inner), &inner.asked);
        }
        Ok(Arc::clone(&inner.policy))
    }

    /// Remembers that the model refused the context as too long. `told` is what it says it takes; if it says nothing, half
    /// of what it was sent is tried.
    pub(crate) fn note_overflow(&self, told: Option<u64>) -> Result<(), StoreError> {
        let mut inner = self.lock();
        self.check_there(&inner)?;
        self.ensure_view(&mut inner);
        let sent = self.pressure(&mut inner).tokens;
        // It counts otherwise than we do, so what it says it takes may still be too much by our count.
        let most = told.unwrap_or(sent / 2).min(sent / 10 * 9).max(LEAST_LIMIT);
        inner.asked.most = Some(most);
        inner.policy = resolved(&self.env, self.config(&inner), &inner.asked);
        Ok(())
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
