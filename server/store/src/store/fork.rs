//! Forks of tasks: who asks for what, and what a retry is told.

use std::sync::Arc;

use super::task::Fork;
use super::{Started, Store};
use crate::log::Digest;
use crate::model::{Holder, RequestId, StoreError, TaskId};

/// A fork to make.
#[derive(Debug, Clone)]
pub struct ForkTask {
    /// The task that is copied.
    pub from: TaskId,
    /// The last message that is; 0: all there are.
    pub at_seq: u64,
    /// The new task; without an id it gets a new one, and a retry would make another.
    pub id: Option<TaskId>,
    /// Who works on it.
    pub holder: Holder,
    /// Names the call.
    pub request_id: Option<RequestId>,
}

impl Store {
    /// Makes a task out of the first messages of another, whatever its status.
    pub fn fork_task(&self, fork: ForkTask) -> Result<Started, StoreError> {
        crate::model::plain_text("holder.hostname", &fork.holder.hostname)?;
        let ForkTask { from, at_seq, id, holder, request_id } = fork;
        let id = id.unwrap_or_default();
        let asked = [from.to_string(), at_seq.to_string()];
        let digest = Digest::of(&["fork", holder.instance_id.as_str(), &asked[0], &asked[1]]);
        let request = request_id.map(|request_id| (request_id, digest));
        // Found before the new task's place is taken: nobody waits for two places.
        let source = if self.find(id)?.is_none() { Some(self.task(from)?) } else { None };
        let mut created = false;
        let task = self.shared.handles.get(id, || {
            if let Some(folder) = self.find(id)? {
                return self.open_task(id, folder);
            }
            let source = source.as_ref().ok_or(StoreError::TaskNotFound { id })?;
            self.shared.env.check_writable()?;
            created = true;
            let task = source.fork(Fork { id, at_seq, holder, request: request.clone() })?;
            self.shared.env.leases.renew(id, self.shared.env.clock.monotonic());
            Ok(Arc::new(task))
        })?;
        let lease_generation = if created {
            task.refresh();
            task.lease_generation()
        } else {
            task.forked_before(request.as_ref())?
        };
        Ok(Started { id, lease_generation, created: true, inherited_from: task.inherited_from() })
    }
}
