//! The policy of a task's context, and what calls have shown of it.

use std::sync::Arc;

use super::{Inner, Task};
use crate::context::{Policy, ServerPolicy, Settings};
use crate::model::TaskId;
use crate::model::{Overflow, Provider, StoreError, TaskConfig};
use crate::store::Store;

impl Task {
    fn server_policy(&self) -> &ServerPolicy {
        &self.env.options.compression
    }

    /// Returns the policy in force.
    pub(crate) fn policy(&self) -> Result<Arc<Policy>, StoreError> {
        let inner = self.lock_existing()?;
        Ok(Arc::clone(inner.context.policy()))
    }

    /// Returns the configuration that readers see.
    pub(super) fn visible_config<'a>(&'a self, inner: &'a Inner) -> &'a TaskConfig {
        inner.readers.config(inner.log.state().config.as_ref()).unwrap_or(&self.metadata.config)
    }

    /// Returns the policy by the configuration that readers see.
    pub(super) fn visible_policy(&self, inner: &Inner) -> Arc<Policy> {
        let (visible, newest) = (self.visible_config(inner), self.config(&inner.log));
        if std::ptr::eq(visible, newest) {
            return Arc::clone(inner.context.policy());
        }
        Arc::new(inner.context.resolve(None, visible, self.server_policy()))
    }
}

impl Store {
    /// The same for a call that says something of its own.
    pub fn policy_with(
        &self,
        id: TaskId,
        call: &Settings,
        target_tokens: Option<u64>,
    ) -> Result<Policy, StoreError> {
        let task = self.task(id)?;
        let inner = task.lock_existing()?;
        let config = task.config(&inner.log);
        Ok(inner.context.resolve(Some((call, target_tokens)), config, task.server_policy()))
    }

    /// Remembers who is asked, as the limit of that model counts; answers what holds.
    pub fn note_asked(&self, id: TaskId, provider: Provider, model: &str) -> Result<Arc<Policy>, StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        let Inner { context, log, .. } = &mut *inner;
        context.ask(provider, model, task.config(log), task.server_policy());
        Ok(Arc::clone(context.policy()))
    }

    /// Remembers that a model refused the context as too long, and the figures that it stated.
    pub fn note_overflow(&self, id: TaskId, stated: Overflow) -> Result<(), StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        task.ensure_view(&mut inner);
        let calibrated = task.pressure(&mut inner).tokens;
        let counted = inner.view_tokens().saturating_add(inner.tools_tokens());
        let Inner { context, log, .. } = &mut *inner;
        context.refuse(stated, calibrated, counted, log.state().view_generation());
        context.set_policy(task.config(log), task.server_policy());
        Ok(())
    }
}
