//! Changes of a task: messages, events and records, rewrites of its view, its status.

use std::sync::Arc;
use std::time::Duration;

use super::start::check_config;
use super::task::{
    Append, AppendOutcome, Caller, Compressed, NewRewrite, NewView, Outline, Pending, Recorded, RequestFile,
    StatusChange, TaskHandle,
};
use super::{Store, layout};
use crate::context::Policy;
use crate::infra::fs::StorePath;
use crate::log::Digest;
use crate::model::{Event, Holder, InvalidField, Json, RequestId, StoreError, TaskConfig, TaskId, ToolCall};

/// A file that is there while a view is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkFile {
    /// What a summary is to stand for.
    ToSummarize,
    /// What stays beside it.
    Unsummarized,
    /// What is sent to the model that summarises.
    SummaryRequest,
}

/// The end of a task whose caller gives no final summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Completed,
    /// Badly.
    Failed {
        /// Why.
        error_message: String,
    },
}

impl Ending {
    fn change(&self, made: Option<String>) -> Result<StatusChange, StoreError> {
        check_text("final_summary", made.as_deref())?;
        Ok(match self {
            Self::Completed => StatusChange::Complete { final_summary: None, made },
            Self::Failed { error_message } => {
                check_text("error_message", Some(error_message))?;
                StatusChange::Fail { error_message: error_message.clone(), final_summary: None, made }
            }
        })
    }
}

impl Store {
    /// Appends a message. It is durable, by the task's measure, when this returns.
    pub fn append(&self, id: TaskId, append: &Append) -> Result<AppendOutcome, StoreError> {
        self.begin_append(id, append)?.wait()
    }

    /// Writes a message, which is acknowledged when it is durable: [`Pending`] waits for that.
    pub fn begin_append(&self, id: TaskId, append: &Append) -> Result<Pending, StoreError> {
        let task = self.task(id)?;
        task.append(&task.prepare(append)?)
    }

    /// A handle to append several messages with: if one fails, none after it goes through.
    pub fn handle(&self, id: TaskId) -> Result<TaskHandle, StoreError> {
        self.task(id).map(TaskHandle::new)
    }

    /// The same if the task is open; does not block.
    pub fn try_handle(&self, id: TaskId) -> Option<TaskHandle> {
        self.shared.handles.try_get(id).map(TaskHandle::new)
    }

    /// Appends an event that a caller may write: usage, statistics, a pin.
    pub fn append_event(&self, id: TaskId, event: &Event, caller: &Caller) -> Result<(), StoreError> {
        match event {
            Event::Usage { .. } | Event::Statistics { .. } | Event::Pin { .. } => {
                self.task(id)?.append_event(event, caller)
            }
            Event::Started { .. }
            | Event::Lease { .. }
            | Event::Config { .. }
            | Event::Rewrite(_)
            | Event::Status { .. }
            | Event::Forked { .. }
            | Event::Erased { .. } => {
                Err(InvalidField::new("event", format!("{} has a call of its own", event.name())).into())
            }
        }
    }

    /// Records a tool call.
    pub fn record_tool_call(
        &self,
        id: TaskId,
        call: &ToolCall,
        caller: &Caller,
    ) -> Result<Recorded, StoreError> {
        self.task(id)?.record_tool_call(call, caller)
    }

    /// Publishes a rewrite of the view; answers its ordinal.
    pub fn rewrite(&self, id: TaskId, rewrite: &NewRewrite, caller: &Caller) -> Result<u64, StoreError> {
        self.task(id)?.rewrite(rewrite, caller)
    }

    /// Writes messages one behind the other, with nobody else's in between. All are looked at before the first is
    /// written. Without any, this only answers whether the caller could write some.
    pub fn begin_append_all(
        &self,
        id: TaskId,
        appends: &[Append],
        caller: &Caller,
    ) -> Result<Vec<Pending>, StoreError> {
        let task = self.task(id)?;
        let prepared = appends.iter().map(|append| task.prepare(append));
        let prepared: Vec<_> = prepared.collect::<Result<_, _>>()?;
        task.append_all(&prepared, caller)
    }

    /// Returns the message of an earlier call with this id, if it is remembered. It is durable.
    pub fn remembered(&self, id: TaskId, request_id: &RequestId) -> Result<Option<u64>, StoreError> {
        self.task(id)?.remembered(request_id)
    }

    /// A new file for a request to a provider, in the directory of its task. It goes when it is dropped.
    pub fn request_file(&self, id: TaskId) -> Result<RequestFile, StoreError> {
        RequestFile::new(self, self.task(id)?.as_ref(), &layout::REQUEST)
    }

    /// The view of a task as it is now, message by message.
    pub fn outline(&self, id: TaskId) -> Result<Outline, StoreError> {
        self.task(id)?.outline()
    }

    /// A new file in the directory of a task. It goes when it is dropped.
    pub fn work_file(&self, id: TaskId, file: WorkFile) -> Result<RequestFile, StoreError> {
        let name = match file {
            WorkFile::ToSummarize => layout::TO_SUMMARIZE,
            WorkFile::Unsummarized => layout::UNSUMMARIZED,
            WorkFile::SummaryRequest => layout::SUMMARY_REQUEST,
        };
        RequestFile::new(self, self.task(id)?.as_ref(), &name)
    }

    /// Puts a new view in the place of the old one. If that was rewritten since the outline, other than trimmed, it is
    /// StaleView. A repeated call is known by what was asked, not by what was made of it.
    pub fn compress(
        &self,
        id: TaskId,
        new: &NewView,
        caller: &Caller,
        asked: &str,
    ) -> Result<Compressed, StoreError> {
        self.task(id)?.compress(new, caller, Digest::of(&["compress", asked]))
    }

    /// The generation of the view that a call with the same id made, if there was one.
    pub fn compressed_before(
        &self,
        id: TaskId,
        caller: &Caller,
        asked: &str,
    ) -> Result<Option<u64>, StoreError> {
        self.task(id)?.compressed_before(caller, Digest::of(&["compress", asked]))
    }

    /// `task_source` of a task's key, for those who count.
    pub fn source_of(&self, id: TaskId) -> Arc<str> {
        self.task(id).map_or_else(|_| Arc::from(""), |task| task.source())
    }

    /// Remembers the tools of a request: they are sent beside the view with the next one too.
    pub fn note_tools(&self, id: TaskId, tools: &Json) -> Result<(), StoreError> {
        self.task(id)?.note_tools(tools)
    }

    /// Remembers that compressing a view was tried and brought nothing; `over`: as what has to stay is too large alone.
    /// `seen` are the tokens of all messages that it knew of. A try by other settings than the task has is not remembered.
    pub fn note_try(&self, id: TaskId, policy: &Policy, seen: u64, over: bool) -> Result<(), StoreError> {
        self.task(id)?.note_try(policy, seen, over);
        Ok(())
    }

    /// Remembers that compressing a view failed: it is tried again after a while, or when there is more.
    pub fn note_failure(&self, id: TaskId) -> Result<(), StoreError> {
        self.task(id)?.note_failure();
        Ok(())
    }

    /// Puts a running task aside; its lease ends.
    pub fn pause_task(&self, id: TaskId, caller: &Caller) -> Result<(), StoreError> {
        self.task(id)?.change_status(&StatusChange::Pause, caller).map(drop)
    }

    /// Goes on with a paused task, for a new holder; answers the lease to write under. A caller that had a lease
    /// before is refused if the task was taken over since.
    pub fn resume_task(&self, id: TaskId, holder: Holder, caller: &Caller) -> Result<u64, StoreError> {
        crate::model::plain_text("holder.hostname", &holder.hostname)?;
        self.task(id)?.change_status(&StatusChange::Resume { holder }, caller)
    }

    /// Ends a task well.
    pub fn complete_task(
        &self,
        id: TaskId,
        final_summary: Option<String>,
        caller: &Caller,
    ) -> Result<(), StoreError> {
        check_text("final_summary", final_summary.as_deref())?;
        self.task(id)?.change_status(&StatusChange::Complete { final_summary, made: None }, caller).map(drop)
    }

    /// Ends a task badly.
    pub fn fail_task(
        &self,
        id: TaskId,
        error_message: String,
        final_summary: Option<String>,
        caller: &Caller,
    ) -> Result<(), StoreError> {
        check_text("error_message", Some(&error_message))?;
        check_text("final_summary", final_summary.as_deref())?;
        let change = StatusChange::Fail { error_message, final_summary, made: None };
        self.task(id)?.change_status(&change, caller).map(drop)
    }

    /// Returns whether a call with the same id has ended the task before. If it has not, and could not now either, that is
    /// an error: nobody need make a summary first.
    pub fn ended_before(&self, id: TaskId, ending: &Ending, caller: &Caller) -> Result<bool, StoreError> {
        self.task(id)?.changed_before(&ending.change(None)?, caller)
    }

    /// Ends a task with a final summary that was made for it. A repeated call is known by what was asked, not by that.
    pub fn end_task(
        &self,
        id: TaskId,
        ending: &Ending,
        made: Option<String>,
        caller: &Caller,
    ) -> Result<(), StoreError> {
        self.task(id)?.change_status(&ending.change(made)?, caller).map(drop)
    }

    /// Keeps a lease alive; answers how long it lives.
    pub fn renew_lease(&self, id: TaskId, generation: u64) -> Result<Duration, StoreError> {
        self.task(id)?.renew_lease(generation)?;
        Ok(self.shared.env.leases.time_to_live())
    }

    /// Changes a task's configuration as a whole.
    pub fn update_config(&self, id: TaskId, config: TaskConfig, caller: &Caller) -> Result<(), StoreError> {
        check_config(&config)?;
        self.check_limit(id, &config)?;
        self.task(id)?.append_event(&Event::Config { config }, caller)
    }

    /// Removes a task with everything in it. Readers that have it open go on to their end.
    pub fn delete_task(&self, id: TaskId, caller: &Caller) -> Result<(), StoreError> {
        let found = self.task(id);
        if let Err(StoreError::TaskNotFound { .. }) = found {
            // It may have been removed by a call whose sync failed: what is told now must stay true.
            let trash = StorePath::ROOT.join(layout::TRASH);
            let synced = self.shared.env.fs.sync_dir(&trash);
            synced.map_err(|error| StoreError::io(format!("syncing {trash}"), error))?;
        }
        // Held, so that it is not closed for want of room in between.
        let _held = found?;
        self.shared.handles.exclusively(id, |task| {
            let Some(task) = task else { return Err(StoreError::TaskNotFound { id }) };
            task.delete(caller)
        })
    }
}

/// Refuses a text that is too long.
fn check_text(field: &'static str, text: Option<&str>) -> Result<(), InvalidField> {
    let bytes = text.map_or(0, str::len);
    if bytes > Store::MAX_TEXT_BYTES {
        let most = Store::MAX_TEXT_BYTES;
        return Err(InvalidField::new(field, format!("has {bytes} bytes; at most {most} are allowed")));
    }
    Ok(())
}
