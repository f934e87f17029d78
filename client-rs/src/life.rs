//! The life of a task: how it is configured, put aside, taken up and ended.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use contextstore_proto::v1;
use contextstore_proto::v1::ErrorReason;

use crate::client::call;
use crate::lease::ttl_of;
use crate::task::there;
use crate::{Error, RawClient, Task};

/// How long a completion may take at least, for which the server asks a model.
const SUMMARIZING: Duration = Duration::from_secs(300);

impl Task {
    /// Replaces the configuration as a whole.
    pub async fn update(&self, config: v1::TaskConfig) -> Result<v1::Task, Error> {
        let request = v1::UpdateTaskRequest {
            task_uuid: self.uuid().to_owned(),
            config: Some(config),
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        there("task", call!(self.settled().await?, update_task, request)?.task)
    }

    /// Puts the task aside; its lease ends.
    pub async fn pause(&self) -> Result<v1::Task, Error> {
        self.before("paused", "", "").await?;
        let request = v1::PauseTaskRequest {
            task_uuid: self.uuid().to_owned(),
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        let ended = call!(self.settled().await?, pause_task, request)?;
        self.let_go();
        there("task", ended.task)
    }

    /// Goes on with the task after a pause, under a new lease, which this handle and its clones hold from now
    /// on. Fails with [`ErrorReason::StaleLease`] if another client had the task since this handle did.
    pub async fn resume(&self) -> Result<v1::Task, Error> {
        let request = v1::ResumeTaskRequest {
            task_uuid: self.uuid().to_owned(),
            holder: Some(self.client().holder()),
            request_id: self.request_id(),
            lease_generation: self.lease().had(),
        };
        let resumed = call!(self.client(), resume_task, request)?;
        self.lease().take(resumed.lease_generation, ttl_of(resumed.lease_ttl));
        self.keep_lease();
        there("task", resumed.task)
    }

    /// Ends the task well. The summary is what is to be remembered of it; if it is empty, the server makes one, which may
    /// take longer than other calls.
    pub async fn complete(&self, final_summary: impl Into<String>) -> Result<v1::Task, Error> {
        let final_summary = final_summary.into();
        self.before("completed", &final_summary, "").await?;
        let least = if final_summary.is_empty() { SUMMARIZING } else { Duration::ZERO };
        let request = v1::CompleteTaskRequest {
            task_uuid: self.uuid().to_owned(),
            final_summary,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        let send = |mut raw: RawClient, request| async move { raw.complete_task(request).await };
        let ended = self.settled().await?.call_for(least, request, send).await?;
        self.let_go();
        there("task", ended.task)
    }

    /// Ends the task badly. The summary is what is to be remembered of it; if it is empty, the server makes one.
    pub async fn fail(
        &self,
        error_message: impl Into<String>,
        final_summary: impl Into<String>,
    ) -> Result<v1::Task, Error> {
        let (error_message, final_summary) = (error_message.into(), final_summary.into());
        self.before("failed", &final_summary, &error_message).await?;
        let request = v1::FailTaskRequest {
            task_uuid: self.uuid().to_owned(),
            error_message,
            final_summary,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        let ended = call!(self.settled().await?, fail_task, request)?;
        self.let_go();
        there("task", ended.task)
    }

    /// Removes the task with everything in it. Cannot be undone.
    pub async fn delete(&self) -> Result<(), Error> {
        let request = v1::DeleteTaskRequest {
            task_uuid: self.uuid().to_owned(),
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        let tries = AtomicU32::new(0);
        let send = |mut raw: RawClient, request| {
            tries.fetch_add(1, Ordering::Relaxed);
            async move { raw.delete_task(request).await }
        };
        match self.settled().await?.call(request, send).await {
            // A removed task remembers no request: it was an earlier try that removed it.
            Err(error)
                if error.reason() == Some(ErrorReason::TaskNotFound) && tries.load(Ordering::Relaxed) > 1 => {
            }
            done => done.map(drop)?,
        }
        self.let_go();
        Ok(())
    }
}
