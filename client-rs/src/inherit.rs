//! Tasks that come from others: forks, and what a new task takes over from one that ended.

use contextstore_proto::v1;
use uuid::Uuid;

use crate::client::{call, named, new_id};
use crate::lease::{Lease, ttl_of};
use crate::task::Origin;
use crate::{Client, Error, Task};

/// How a task is forked.
#[derive(Debug, Clone, Default)]
pub struct Fork {
    /// The last message that is copied; 0: all there are.
    pub at_seq: u64,
    /// The id of the new task: a UUID. `None`: a new one.
    pub new_task_uuid: Option<String>,
    /// Names the call. `None`: a new name.
    pub request_id: Option<String>,
}

/// What a new task inherits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Inherit {
    /// What the newest task that [`Client::previous_contexts`] finds has to pass on, if the configuration allows it.
    #[default]
    Auto,
    /// Nothing.
    Never,
    /// What the task with this id, which has ended, has to pass on.
    From(String),
}

impl From<Inherit> for v1::start_task_request::Inherit {
    fn from(inherit: Inherit) -> Self {
        match inherit {
            Inherit::Auto => Self::InheritMode(v1::InheritMode::Auto.into()),
            Inherit::Never => Self::InheritMode(v1::InheritMode::Never.into()),
            Inherit::From(task_uuid) => Self::InheritFrom(task_uuid),
        }
    }
}

impl Client {
    /// Makes another task out of the first messages of one, whatever its status, and holds its lease. Each of the two
    /// stands alone.
    pub async fn fork_task(&self, task_uuid: impl Into<String>, fork: Fork) -> Result<Task, Error> {
        let new_task_uuid = fork.new_task_uuid.unwrap_or_else(|| Uuid::now_v7().to_string());
        let request = v1::ForkTaskRequest {
            task_uuid: task_uuid.into(),
            at_seq: fork.at_seq,
            new_task_uuid: new_task_uuid.clone(),
            holder: Some(self.holder()),
            request_id: named(fork.request_id).unwrap_or_else(new_id),
        };
        let forked = call!(self, fork_task, request)?;
        let uuid = forked.task.map_or(new_task_uuid, |task| task.uuid);
        let origin = Origin { created: true, ..Origin::default() };
        let lease = Lease::new(forked.lease_generation, ttl_of(forked.lease_ttl));
        Ok(Task::new(self.clone(), uuid, lease, origin).kept())
    }

    /// Tasks that ended and that a task with this key and user would go on with, newest first; at most `limit`, 0: 10.
    pub async fn previous_contexts(
        &self,
        key: v1::TaskKey,
        user: impl Into<String>,
        limit: u32,
    ) -> Result<Vec<v1::PreviousContext>, Error> {
        let request = v1::FindPreviousContextsRequest { key: Some(key), user: user.into(), limit };
        Ok(call!(self, find_previous_contexts, request)?.contexts)
    }

    /// What a task would take over from one that ended; 0 tokens: as the server is configured. Fails with
    /// [`ErrorReason::NothingToInherit`](crate::ErrorReason::NothingToInherit) if there is nothing.
    pub async fn inheritance_context(
        &self,
        task_uuid: impl Into<String>,
        max_summary_tokens: u64,
    ) -> Result<v1::GetInheritanceContextResponse, Error> {
        let request = v1::GetInheritanceContextRequest { task_uuid: task_uuid.into(), max_summary_tokens };
        call!(self, get_inheritance_context, request)
    }
}

impl Task {
    /// Makes another task out of the messages of this one; see [`Client::fork_task`].
    pub async fn fork(&self, fork: Fork) -> Result<Self, Error> {
        self.settled().await?.fork_task(self.uuid(), fork).await
    }
}
