//! How a task's context is kept small: worked out when its configuration changes, not for each message.

use std::sync::Arc;

use super::{Inner, Task};
use crate::context::{Policy, Settings};
use crate::model::{StoreError, TaskConfig};
use crate::store::env::Env;

/// What follows from a configuration.
pub(super) fn resolved(env: &Env, config: &TaskConfig) -> Arc<Policy> {
    Arc::new(Policy::resolve(None, config, &env.options.compression))
}

impl Task {
    /// What holds.
    pub(crate) fn policy(&self) -> Result<Arc<Policy>, StoreError> {
        let inner = self.lock();
        self.check_there(&inner)?;
        Ok(Arc::clone(&inner.policy))
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
        Ok(Policy::resolve(Some((call, target_tokens)), self.config(&inner), server))
    }

    /// What holds by the configuration that readers are told.
    pub(super) fn shown_policy(&self, inner: &Inner) -> Arc<Policy> {
        let (shown, newest) = (self.shown_config(inner), self.config(inner));
        if std::ptr::eq(shown, newest) { Arc::clone(&inner.policy) } else { resolved(&self.env, shown) }
    }
}
