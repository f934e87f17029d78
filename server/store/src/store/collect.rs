//! Outputs of all tasks: removing those that no log names, packing those that are not read much any more.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::layout::{self, Folder};
use super::recover::task_of;
use super::task::Collected;
use super::{Store, StoreError};
use crate::infra::fs::Kind;
use crate::model::{TaskId, in_full};

/// Tasks that could not be looked at, of which it is told why.
const MAX_FAILED: usize = 100;

/// The outputs that were removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Garbage {
    /// Of all tasks together.
    pub collected: Collected,
    /// Tasks that were looked at.
    pub tasks: u64,
    /// Tasks that could not be looked at, and why.
    pub failed: Vec<String>,
}

impl Store {
    /// Removes outputs that no log names and that were last put longer ago than `min_age`, of one task or of all; or only
    /// tells what would go.
    pub fn collect_garbage(
        &self,
        task: Option<TaskId>,
        min_age: Duration,
        dry_run: bool,
    ) -> Result<Garbage, StoreError> {
        if !dry_run {
            self.shared.env.check_may_free()?;
        }
        let before = self.ago(min_age);
        if let Some(id) = task {
            let collected = self.task(id)?.collect(before, dry_run)?;
            return Ok(Garbage { collected, tasks: 1, failed: Vec::new() });
        }
        let mut garbage = Garbage::default();
        for id in self.tasks_with_outputs()? {
            match self.task(id).and_then(|task| task.collect(before, dry_run)) {
                Ok(collected) => {
                    garbage.tasks += 1;
                    garbage.collected.add(collected);
                }
                // It went since.
                Err(StoreError::TaskNotFound { .. }) => {}
                Err(error) if garbage.failed.len() < MAX_FAILED => {
                    garbage.failed.push(format!("{id}: {}", in_full(&error)));
                }
                Err(_) => {}
            }
        }
        Ok(garbage)
    }

    /// Packs the outputs of tasks that ended, and those that were last put longer ago than `age`; answers how many.
    pub fn pack_outputs(&self, age: Duration) -> Result<u64, StoreError> {
        self.shared.env.check_writable()?;
        let before = self.ago(age);
        let mut packed = 0;
        for id in self.tasks_with_outputs()? {
            match self.task(id).and_then(|task| task.pack_outputs(before)) {
                Ok(count) => packed += count,
                Err(StoreError::TaskNotFound { .. }) => {}
                Err(error @ (StoreError::DiskFull { .. } | StoreError::ReadOnly { .. })) => {
                    return Err(error);
                }
                Err(error) => tracing::warn!(%id, %error, "the outputs of a task could not be packed"),
            }
        }
        Ok(packed)
    }

    fn ago(&self, age: Duration) -> DateTime<Utc> {
        let now = self.shared.env.clock.now();
        chrono::Duration::from_std(age)
            .ok()
            .and_then(|age| now.checked_sub_signed(age))
            .unwrap_or(DateTime::<Utc>::MIN_UTC)
    }

    /// Healthy tasks that have outputs.
    fn tasks_with_outputs(&self) -> Result<Vec<TaskId>, StoreError> {
        let fs = self.shared.env.fs.as_ref();
        let mut tasks = Vec::new();
        for folder in Folder::HEALTHY {
            let path = folder.path();
            let listed = fs.list(&path, &mut |entry| {
                let Some(id) = task_of(&entry.name).filter(|_| entry.kind == Kind::Dir) else {
                    return Ok(());
                };
                let outputs = fs.stat(&folder.task(id).join(layout::OUTPUTS))?;
                if outputs.is_some_and(|stat| stat.kind == Kind::Dir) {
                    tasks.push(id);
                }
                Ok(())
            });
            listed.map_err(|error| StoreError::io(format!("listing {path}"), error))?;
        }
        Ok(tasks)
    }
}
