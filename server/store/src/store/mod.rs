//! The store: tasks in a data directory, and everything that can be done with them.
//!
//! [`Store`] is a cheap handle. Its calls block: they write, sync and read files. A call that returns `Ok` has
//! happened and stays; one that returns an error has changed nothing, unless its words say otherwise.

mod bound;
mod chat;
mod checkpoint;
mod collect;
mod compress;
pub mod doctor;
mod ending;
mod env;
mod files;
mod fork;
mod handles;
mod inherit;
pub mod layout;
mod lease;
mod masking;
mod metadata;
mod notes;
mod open;
mod outputs;
mod reads;
mod recover;
mod task;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use crate::context::{LimitSource, Policy, Settings, Strategy};
use crate::infra::fs::{File, Kind, StorePath};
use crate::log::Digest;
pub use crate::log::FORMAT_VERSION;
use crate::model::{
    Event, Holder, InheritedFrom, InvalidField, Metadata, Page, Plan, RequestId, StoreError, TaskConfig,
    TaskFilter, TaskId, TaskKey, TaskOrder, ToolCall,
};

pub use crate::log::MISSING_TOKENS;
pub use crate::log::{Head, Line, LogKind, Seen};
pub use bound::Binding;
pub use collect::Garbage;
pub use compress::WorkFile;
pub use ending::Ending;
pub use env::StoreOptions;
pub use fork::ForkTask;
pub use inherit::{Beginning, Inherit, InheritanceContext, Previous};
pub use notes::{NOT_A_TOKEN, is_token};
pub use open::Ground;
pub use outputs::{NewOutput, Put, PutDone};
pub use recover::Recovered;
pub use task::Protected;
pub use task::{
    Append, AppendOutcome, Caller, Collected, Compressed, ContextUsage, CurrentReader, Due, FilePart,
    LineReader, LogEnds, NewRewrite, NewView, Outline, Output, Part, Pending, Recorded, RequestFile, Retold,
    Subscription, SummaryLines, TaskHandle, TaskInfo, TrimOutcome, ViewLines, ViewSnapshot,
};

use env::Env;
use handles::Handles;
use layout::Folder;
use task::{First, Mode, Task};

/// A data directory that is open for use.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// The one task that it is for, where its id could come to mean another.
    binding: Option<Binding>,
}

#[derive(Debug)]
struct Shared {
    env: Arc<Env>,
    handles: Handles,
    /// Held as long as the store is; the kernel releases it with the process.
    lock: Option<Arc<dyn File>>,
    /// If the directory took no writes when it was opened: the room it must have to be worth another try.
    heals_with: Option<u64>,
}

/// A task to start.
#[derive(Debug, Clone)]
pub struct StartTask {
    /// Its id; without one it gets a new one, and a retry would start another task.
    pub id: Option<TaskId>,
    /// Where it comes from.
    pub key: TaskKey,
    /// Who it is for.
    pub user: String,
    /// Its configuration.
    pub config: TaskConfig,
    /// Who works on it.
    pub holder: Holder,
    /// Names the call.
    pub request_id: Option<RequestId>,
}

/// What starting a task is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The task.
    pub id: TaskId,
    /// The lease to write under.
    pub lease_generation: u64,
    /// Whether it was made, rather than taken up again.
    pub created: bool,
    /// The task that it took over from, if it did.
    pub inherited_from: Option<InheritedFrom>,
}

impl Store {
    /// Largest configuration of a task, in bytes of JSON.
    pub const MAX_CONFIG_BYTES: usize = 64 << 10;
    /// Largest error message and final summary, in bytes.
    pub const MAX_TEXT_BYTES: usize = 1 << 20;

    /// Starts a task, or takes up one that is running: for the same instance at once, for another when the
    /// lease has expired.
    pub fn start_task(&self, start: StartTask) -> Result<Started, StoreError> {
        self.start_task_under(start, 0)
    }

    /// The same for a caller that had a lease before: refused if the task was taken over since.
    pub fn start_task_under(&self, start: StartTask, lease_generation: u64) -> Result<Started, StoreError> {
        self.start_task_with(start, lease_generation, &Beginning::default())
    }

    /// The same with something that it has from the start, if it is made.
    pub fn start_task_with(
        &self,
        start: StartTask,
        lease_generation: u64,
        beginning: &Beginning,
    ) -> Result<Started, StoreError> {
        start.key.validate()?;
        crate::model::plain_text("user", &start.user)?;
        crate::model::plain_text("holder.hostname", &start.holder.hostname)?;
        check_config(&start.config)?;
        let start = self.masked_start(start)?;
        let beginning = &self.masked_beginning(beginning);
        let id = start.id.unwrap_or_default();
        let asked = serde_json::to_string(&(&start.key, &start.user, &start.config)).unwrap_or_default();
        let begins = beginning.asked();
        let mut parts = vec!["start", start.holder.instance_id.as_str(), &asked];
        parts.extend(begins.as_deref());
        let digest = Digest::of(&parts);
        let system = beginning.system(self.shared.env.options.max_message_bytes)?;
        // Looked for before the task's place is taken: nobody waits for two places.
        let new = lease_generation == 0 && self.find(id)?.is_none();
        if new {
            self.check_limit(id, &start.config)?;
        }
        let first = if new { self.first(&start, beginning, system)? } else { First::default() };
        let mut created = false;
        let task = self.shared.handles.get(id, || {
            if let Some(folder) = self.find(id)? {
                return self.open_task(id, folder);
            }
            if lease_generation > 0 {
                // It was there once; making another under its name is not what the caller asks for.
                return Err(StoreError::TaskNotFound { id });
            }
            self.shared.env.check_writable()?;
            let inherited = first.inherited.as_ref().map_or(0, |inherited| inherited.text.len());
            let said = beginning.system_message.as_ref().map_or(0, String::len);
            self.shared.env.check_quota((asked.len() + said + inherited) as u64)?;
            created = true;
            let metadata = Metadata {
                format_version: FORMAT_VERSION,
                uuid: id,
                repository: start.key.repository(),
                task_key: start.key.clone(),
                user: start.user.clone(),
                created_at: self.shared.env.clock.now(),
                process_id: start.holder.process_id,
                hostname: start.holder.hostname.clone(),
                config: start.config.clone(),
                inherited_from: first.inherited_from.clone(),
            };
            let request = start.request_id.clone().map(|request_id| (request_id, digest));
            let task = task::create(&self.shared.env, metadata, start.holder.clone(), request, &first)?;
            self.shared.env.leases.renew(id, self.shared.env.clock.monotonic());
            Ok(Arc::new(task))
        })?;
        let lease_generation = if created {
            task.refresh();
            task.first_lease()
        } else {
            task.take_lease(
                &start.holder,
                lease_generation,
                start.request_id.as_ref().map(|request_id| (request_id, digest)),
            )?
        };
        // The first lease is given only by making the task; told again, it is to the call that made it.
        let created = lease_generation == task.first_lease();
        Ok(Started { id, lease_generation, created, inherited_from: task.inherited_from() })
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

    /// Changes a task's configuration as a whole.
    pub fn update_config(&self, id: TaskId, config: TaskConfig, caller: &Caller) -> Result<(), StoreError> {
        check_config(&config)?;
        self.check_limit(id, &config)?;
        self.task(id)?.append_event(&Event::Config { config }, caller)
    }

    /// Refuses a task that asks for `compact` and of whose model it is not known what it takes: that does not guess.
    fn check_limit(&self, id: TaskId, config: &TaskConfig) -> Result<(), StoreError> {
        if Settings::of(config).compression.strategy.as_deref() != Some(Strategy::Compact.as_str()) {
            return Ok(());
        }
        let policy = Policy::resolve(None, config, &self.shared.env.options.compression);
        if policy.limit_source == LimitSource::Default {
            return Err(StoreError::LimitUnknown { id });
        }
        Ok(())
    }

    /// Keeps a lease alive; answers how long it lives.
    pub fn renew_lease(&self, id: TaskId, generation: u64) -> Result<Duration, StoreError> {
        self.task(id)?.renew_lease(generation)?;
        Ok(self.shared.env.leases.time_to_live())
    }

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

    /// Appends a plan.
    pub fn append_plan(&self, id: TaskId, plan: &Plan, caller: &Caller) -> Result<Recorded, StoreError> {
        self.task(id)?.append_plan(plan, caller)
    }

    /// Publishes a rewrite of the view; answers its ordinal.
    pub fn rewrite(&self, id: TaskId, rewrite: &NewRewrite, caller: &Caller) -> Result<u64, StoreError> {
        self.task(id)?.rewrite(rewrite, caller)
    }

    /// Replaces the oldest images and files of a view that is too large for a request; answers the ordinal of the
    /// rewrite, if there was one.
    pub fn shed_media(&self, id: TaskId, rendered: Option<u64>) -> Result<Option<u64>, StoreError> {
        self.task(id)?.shed_media(rendered)
    }

    /// Takes the pieces of an interrupted answer out of a view, before it is asked for again. Returns whether there were any.
    pub fn drop_pieces(
        &self,
        id: TaskId,
        prefix: &str,
        after: Option<u64>,
        caller: &Caller,
    ) -> Result<bool, StoreError> {
        self.task(id)?.drop_pieces(prefix, after, caller)
    }

    /// Replaces all images and files of a view that the model has answered; answers the ordinal of the rewrite, if there was
    /// one.
    pub fn shed_all_media(&self, id: TaskId) -> Result<Option<u64>, StoreError> {
        self.task(id)?.shed_all_media()
    }

    /// Trims the oldest outputs of tools in a view, if they have passed their budget and it is worth a rewrite.
    pub fn trim_if_due(&self, id: TaskId) -> Result<Option<TrimOutcome>, StoreError> {
        self.task(id)?.trim_if_due()
    }

    /// Trims the oldest outputs of tools in a view until the rest has at most so many tokens; none: the task's own budget.
    pub fn trim_outputs(
        &self,
        id: TaskId,
        budget_tokens: Option<u64>,
        caller: &Caller,
    ) -> Result<TrimOutcome, StoreError> {
        self.task(id)?.trim_outputs(budget_tokens, caller)
    }

    /// Takes back the newest compaction in force; answers the new ordinal.
    pub fn undo(&self, id: TaskId, caller: &Caller) -> Result<u64, StoreError> {
        self.task(id)?.undo(caller)
    }

    /// Takes the view back to what it was after a message; answers the new ordinal.
    pub fn rewind(&self, id: TaskId, seq: u64, caller: &Caller) -> Result<u64, StoreError> {
        self.task(id)?.rewind(seq, caller)
    }

    /// One page of the tasks that match.
    pub fn list_tasks(
        &self,
        filter: &TaskFilter,
        order: TaskOrder,
        page_size: usize,
        page_token: Option<&str>,
    ) -> Result<Page, StoreError> {
        self.refresh_catalog();
        self.shared.env.catalog.list(filter, order, page_size, page_token)
    }

    /// How a store works.
    pub fn options(&self) -> &StoreOptions {
        &self.shared.env.options
    }

    /// Makes every view of a task again, from its logs. Those of a damaged task stay as they are.
    pub fn rebuild_views(&self, id: TaskId) -> Result<(), StoreError> {
        self.shared.handles.exclusively(id, |task| {
            if let Some(task) = task {
                task.retire();
            }
            let Some(folder) = self.find(id)? else { return Err(StoreError::TaskNotFound { id }) };
            if folder == Folder::Quarantine {
                // What is there may be the last copy of what the log has lost.
                let reason = "its views cannot be made again from its log".to_owned();
                return Err(StoreError::Quarantined { id, reason });
            }
            metadata::restore(&self.shared.env, folder, id)?;
            task::remove_views(&self.shared.env, id, folder)?;
            let task = self.open_task(id, folder)?;
            task.rebuild()?;
            task.mend_outputs()
        })
    }

    /// Why no writes are taken, if that is so.
    pub fn read_only(&self) -> Option<String> {
        self.shared.env.read_only()
    }

    /// How many tasks are open.
    pub fn open_tasks(&self) -> usize {
        self.shared.handles.open_count()
    }

    /// Closes every task and the catalog in order, so that the next start reads next to nothing.
    pub fn close(self) -> Result<(), StoreError> {
        self.refresh_catalog();
        self.shared.handles.close_all();
        if let Err(error) = self.empty_trash() {
            tracing::warn!(%error, "what is left of deleted tasks goes at the next start");
        }
        if self.shared.env.read_only().is_some() {
            return Ok(());
        }
        if self.shared.env.is_undone() {
            // Without the mark of an orderly stop, the next start looks at everything.
            return self.shared.env.catalog.flush();
        }
        self.shared.env.catalog.close()
    }

    fn task(&self, id: TaskId) -> Result<Arc<Task>, StoreError> {
        let task = self.shared.handles.get(id, || {
            let folder = self.find(id)?.ok_or(StoreError::TaskNotFound { id })?;
            self.open_task(id, folder)
        })?;
        self.binding.as_ref().map_or(Ok(()), |binding| binding.check(&task))?;
        Ok(task)
    }

    /// The folder a task is in. The directories are the truth, so they are asked, not the catalog.
    fn find(&self, id: TaskId) -> Result<Option<Folder>, StoreError> {
        for folder in Folder::HEALTHY.into_iter().chain([Folder::Quarantine]) {
            let path = folder.task(id);
            let stat = self.shared.env.fs.stat(&path);
            let stat = stat.map_err(|error| StoreError::io(format!("looking at {path}"), error))?;
            if stat.is_some_and(|stat| stat.kind == Kind::Dir) {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }

    fn open_task(&self, id: TaskId, folder: Folder) -> Result<Arc<Task>, StoreError> {
        let env = &self.shared.env;
        let look = folder == Folder::Quarantine || env.read_only().is_some();
        let mode = if look { Mode::Look } else { Mode::Write };
        if mode == Mode::Write {
            env.sync_new_tasks()?;
            metadata::restore(env, folder, id)?;
        }
        let opened = match Task::open(env, id, folder, mode) {
            Err(error @ StoreError::Damaged { .. }) if mode == Mode::Write => {
                recover::quarantine(env, id, folder, &error)?;
                Task::open(env, id, Folder::Quarantine, Mode::Look)
            }
            Err(StoreError::NewerFormat { .. }) => Task::open(env, id, folder, Mode::Look),
            // Want of room is no reason not to read.
            Err(StoreError::DiskFull { .. }) if mode == Mode::Write => {
                let task = Task::open(env, id, folder, Mode::Look)?;
                task.wait_for_room();
                return Ok(Arc::new(task));
            }
            opened => opened,
        };
        let task = opened?;
        if mode == Mode::Write {
            // A start does not look at tasks that ended, nor at any after an orderly stop.
            task.sweep()?;
            task.finish();
        }
        Ok(Arc::new(task))
    }
}

fn check_config(config: &TaskConfig) -> Result<(), InvalidField> {
    let bytes = serde_json::to_vec(config).map_or(usize::MAX, |json| json.len());
    if bytes > Store::MAX_CONFIG_BYTES {
        let most = Store::MAX_CONFIG_BYTES;
        return Err(InvalidField::new("config", format!("has {bytes} bytes; at most {most} are allowed")));
    }
    // What cannot be read back would look like damage: keys that stand twice, values of the wrong kind, too
    // deep nesting (`metadata.json` and events have it one level down).
    let text = serde_json::to_string(&[[config]]).unwrap_or_default();
    let read: Result<[[TaskConfig; 1]; 1], _> = serde_json::from_str(&text);
    match read {
        Ok([[read]]) if read == *config => Ok(()),
        Ok(_) => Err(InvalidField::new("config", "has values that JSON cannot hold")),
        Err(error) => Err(InvalidField::new("config", format!("cannot be read back: {error}"))),
    }
}

fn check_text(field: &'static str, text: Option<&str>) -> Result<(), InvalidField> {
    let bytes = text.map_or(0, str::len);
    if bytes > Store::MAX_TEXT_BYTES {
        let most = Store::MAX_TEXT_BYTES;
        return Err(InvalidField::new(field, format!("has {bytes} bytes; at most {most} are allowed")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
