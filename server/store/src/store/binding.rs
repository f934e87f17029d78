//! Binds long work to one task: a compression, a chat, an ending.
//!
//! Between two of its steps the task can be deleted, and another started under the same id. A bound store refuses that other
//! one, so that nothing of a deleted task ends up in its successor, and says when its task was deleted.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::Store;
use super::env::{Env, lock};
use super::task::Task;
use crate::model::{StoreError, TaskId};

/// One task, not merely its id: two tasks with the same id never begin with the same lease.
#[derive(Debug, Clone)]
pub struct Binding {
    id: TaskId,
    first_lease: u64,
    deleted: Arc<watch::Sender<bool>>,
}

impl Binding {
    /// Returns when the task is deleted.
    pub async fn deleted(&self) {
        // The sender lives as long as this.
        let _ = self.deleted.subscribe().wait_for(|deleted| *deleted).await;
    }

    /// Returns whether the task is deleted.
    pub fn is_deleted(&self) -> bool {
        *self.deleted.borrow()
    }

    /// Refuses another task with the same id.
    pub(super) fn check(&self, task: &Task) -> Result<(), StoreError> {
        let is_other = self.id == task.id && self.first_lease != task.first_lease();
        if is_other { Err(StoreError::TaskNotFound { id: task.id }) } else { Ok(()) }
    }
}

impl Store {
    /// The task that an id means now.
    pub fn bind(&self, id: TaskId) -> Result<Binding, StoreError> {
        loop {
            // Registered first: a deletion that comes in between is noticed.
            let deleted = self.shared.env.deletion(id);
            let first_lease = self.task(id)?.first_lease();
            if !*deleted.borrow() {
                return Ok(Binding { id, first_lease, deleted });
            }
        }
    }

    /// The store for work on that task. Once it is deleted, calls on its id are `TaskNotFound`, also if there is another with
    /// the same id.
    pub fn bound(&self, binding: &Binding) -> Self {
        Self { shared: Arc::clone(&self.shared), binding: Some(binding.clone()) }
    }

    /// Returns when the task is deleted that the store is bound to; never if it is bound to none.
    pub async fn deleted(&self) {
        match &self.binding {
            Some(binding) => binding.deleted().await,
            None => std::future::pending().await,
        }
    }
}

impl Env {
    /// Returns what says that a task was deleted.
    fn deletion(&self, id: TaskId) -> Arc<watch::Sender<bool>> {
        let mut deletions = lock(&self.deletions);
        if let Some(deletion) = deletions.get(&id).and_then(Weak::upgrade) {
            return deletion;
        }
        // Only what is in use stays: at most twice as much as was in use when it was last looked through.
        if deletions.len() == deletions.capacity() {
            deletions.retain(|_, deletion| deletion.strong_count() > 0);
        }
        let deletion = Arc::new(watch::Sender::new(false));
        deletions.insert(id, Arc::downgrade(&deletion));
        deletion
    }

    /// Says that a task was deleted.
    pub(super) fn note_deleted(&self, id: TaskId) {
        if let Some(deletion) = lock(&self.deletions).remove(&id).and_then(|deletion| deletion.upgrade()) {
            deletion.send_replace(true);
        }
    }
}
