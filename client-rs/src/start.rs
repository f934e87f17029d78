//! How tasks are started, taken up, and found by their keys.

use contextstore_proto::v1;
use uuid::Uuid;

use crate::client::{call, named, new_id};
use crate::lease::{Lease, ttl_of};
use crate::task::Origin;
use crate::{Client, Error, Inherit, Task, TaskQuery};

/// A task to start. A [`v1::TaskKey`] is one, and so is a text, which is its `task_id`.
///
/// ```
/// use contextstore_client::StartTask;
///
/// assert_eq!(StartTask::from("17").key.task_id, "17");
/// ```
#[derive(Debug, Clone, Default)]
pub struct StartTask {
    /// Its id: a UUID. `None`: a new one. With the id of a running task that nobody else holds, that one is
    /// taken up.
    pub task_uuid: Option<String>,
    /// Where it comes from.
    pub key: v1::TaskKey,
    /// Who it is for.
    pub user: String,
    /// Its configuration.
    pub config: v1::TaskConfig,
    /// Names the call. `None`: a new name.
    pub request_id: Option<String>,
    /// What a new task inherits; [`Task::inherited_from`] names the task.
    pub inherit: Inherit,
    /// The system prompt: appended as the first message of a new task. Empty: none.
    pub system_message: String,
}

impl From<v1::TaskKey> for StartTask {
    fn from(key: v1::TaskKey) -> Self {
        Self { key, ..Self::default() }
    }
}

impl From<&str> for StartTask {
    fn from(task_id: &str) -> Self {
        v1::TaskKey { task_id: task_id.to_owned(), ..v1::TaskKey::default() }.into()
    }
}

impl Client {
    /// Starts a task, or takes up one that is running, and holds its lease, which is kept alive in the background; see
    /// [`Builder::renew_leases`](crate::Builder::renew_leases).
    pub async fn start_task(&self, start: StartTask) -> Result<Task, Error> {
        let task_uuid = start.task_uuid.unwrap_or_else(|| Uuid::now_v7().to_string());
        let request = v1::StartTaskRequest {
            task_uuid: task_uuid.clone(),
            key: Some(start.key),
            user: start.user,
            config: Some(start.config),
            holder: Some(self.holder()),
            request_id: named(start.request_id).unwrap_or_else(new_id),
            lease_generation: 0,
            inherit: Some(start.inherit.into()),
            system_message: start.system_message,
        };
        let started = call!(self, start_task, request)?;
        // The id in its usual form, however it was given.
        let task_uuid = started.task.map_or(task_uuid, |task| task.uuid);
        let v1::StartTaskResponse { created, inherited_from, inheritance_comment, .. } = started;
        let origin = Origin { created, inherited_from, inheritance_comment };
        let lease = Lease::new(started.lease_generation, ttl_of(started.lease_ttl));
        Ok(Task::new(self.clone(), task_uuid, lease, origin).kept())
    }

    /// Goes on with a paused task, and holds its lease.
    pub async fn resume_task(&self, task_uuid: impl Into<String>) -> Result<Task, Error> {
        let task = self.task(task_uuid);
        task.resume().await?;
        Ok(task)
    }

    /// The task of a key, to work on: the newest one of just this key and user that is running or paused, or else a
    /// new one ([`Task::is_new`] tells).
    ///
    /// So an agent that was restarted goes on where it was, and one that comes after a task that ended takes over from it;
    /// [`Client::start_task`] always makes a new one. A task that is there keeps its own configuration. Fails with
    /// [`ErrorReason::LeaseHeld`](crate::ErrorReason::LeaseHeld) if another client works on it. A task that was made by
    /// another client less than a second ago may not be found.
    ///
    /// ```no_run
    /// # async fn example(client: contextstore_client::Client) -> Result<(), contextstore_client::Error> {
    /// use contextstore_client::{StartTask, v1};
    ///
    /// let key = v1::TaskKey { task_source: "github".into(), task_id: "17".into(), ..Default::default() };
    /// let task = client.task_of(StartTask { user: "ada".into(), ..key.into() }).await?;
    /// if !task.is_new() {
    ///     println!("going on with {}", task.uuid());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn task_of(&self, start: impl Into<StartTask>) -> Result<Task, Error> {
        let start = start.into();
        let mut found =
            self.tasks(TaskQuery { filter: open_ones(&start), page_size: 10, ..TaskQuery::default() });
        while let Some(task) = found.try_next().await? {
            // An empty part of a filter matches everything.
            if task.key.as_ref() != Some(&start.key) || task.user != start.user {
                continue;
            }
            if task.status() == v1::TaskStatus::Paused {
                return self.resume_task(task.uuid).await;
            }
            return self.start_task(StartTask { task_uuid: Some(task.uuid), ..StartTask::default() }).await;
        }
        self.start_task(start).await
    }
}

/// Tasks that are not ended, of this key and user, and others where a part of those is empty.
fn open_ones(start: &StartTask) -> v1::TaskFilter {
    let v1::TaskKey { task_source, owner, repo, task_type, task_id, .. } = start.key.clone();
    v1::TaskFilter {
        statuses: vec![v1::TaskStatus::Running.into(), v1::TaskStatus::Paused.into()],
        task_source,
        owner,
        repo,
        task_type,
        task_id,
        user: start.user.clone(),
        ..v1::TaskFilter::default()
    }
}
