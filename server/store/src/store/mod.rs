//! The store: tasks in a data directory, and everything that can be done with them.
//!
//! [`Store`] is a cheap handle. Its calls block: they write, sync and read files. A call that returns `Ok` has
//! happened and stays; one that returns an error has changed nothing, unless its words say otherwise.

mod binding;
mod checkpoint;
mod collect;
pub mod doctor;
mod endpoint;
mod env;
mod files;
mod handles;
mod inherit;
pub mod layout;
mod lease;
mod masking;
mod metadata;
mod open;
mod outputs;
mod reads;
mod recover;
mod start;
mod task;
mod upkeep;
mod writes;

use std::sync::Arc;

use crate::infra::fs::{File, Kind};
pub use crate::log::FORMAT_VERSION;
use crate::model::{Page, StoreError, TaskFilter, TaskId, TaskOrder};

pub use crate::log::MISSING_TOKENS;
pub use crate::log::{Head, Line, LogKind, ViewMessage};
pub use binding::Binding;
pub use collect::Garbage;
pub use endpoint::{NOT_A_TOKEN, is_token};
pub use env::StoreOptions;
pub use inherit::{Beginning, Inherit, InheritanceContext, Previous};
pub use open::Ground;
pub use outputs::{NewOutput, Put, PutDone};
pub use recover::Recovered;
pub use start::{ForkTask, StartTask, Started};
pub use task::{
    Append, AppendOutcome, Caller, Collected, Compressed, CompressionReport, ContextUsage, CurrentReader,
    Due, FilePart, LineReader, LogEnds, NewRewrite, NewView, Outline, Output, Part, Pending,
    ProtectedOutputs, Recorded, RequestFile, Subscription, SummaryLines, TaskHandle, TaskInfo, TrimOutcome,
    ViewLines, ViewSnapshot,
};
pub use writes::{Ending, WorkFile};

use env::Env;
use handles::Handles;
use layout::Folder;
use task::{OpenMode, Task};

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

impl Store {
    /// Largest configuration of a task, in bytes of JSON.
    pub const MAX_CONFIG_BYTES: usize = 64 << 10;
    /// Largest error message and final summary, in bytes.
    pub const MAX_TEXT_BYTES: usize = 1 << 20;

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

    /// Returns how a store works.
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

    /// Returns why no writes are taken, if that is so.
    pub fn read_only(&self) -> Option<String> {
        self.shared.env.read_only()
    }

    /// Returns how many tasks are open.
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
        let mode = if look { OpenMode::Look } else { OpenMode::Write };
        if mode == OpenMode::Write {
            env.sync_new_tasks()?;
            metadata::restore(env, folder, id)?;
        }
        let opened = match Task::open(env, id, folder, mode) {
            Err(error @ StoreError::Damaged { .. }) if mode == OpenMode::Write => {
                recover::quarantine(env, id, folder, &error)?;
                Task::open(env, id, Folder::Quarantine, OpenMode::Look)
            }
            Err(StoreError::NewerFormat { .. }) => Task::open(env, id, folder, OpenMode::Look),
            // Want of room is no reason not to read.
            Err(StoreError::DiskFull { .. }) if mode == OpenMode::Write => {
                let task = Task::open(env, id, folder, OpenMode::Look)?;
                task.wait_for_room();
                return Ok(Arc::new(task));
            }
            opened => opened,
        };
        let task = opened?;
        if mode == OpenMode::Write {
            // A start does not look at tasks that ended, nor at any after an orderly stop.
            task.sweep()?;
            task.finish();
        }
        Ok(Arc::new(task))
    }
}

#[cfg(test)]
mod tests;
