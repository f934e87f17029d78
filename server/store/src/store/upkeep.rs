//! Upkeep of a store: rows for the catalog, damaged logs, the trash, and how much everything takes.

use super::env::{Env, lock};
use super::handles::Busy;
use super::layout::{self, Folder};
use super::{Store, StoreError, files, recover};
use crate::infra::fs::StorePath;
use crate::model::TaskId;

impl Store {
    /// Queues the rows of all tasks that were written since the last time.
    pub fn refresh_catalog(&self) {
        for id in self.shared.env.take_dirty() {
            // One task that is busy for long, as its view is made again, must not hold up the others.
            match self.shared.handles.peek(id).map(|task| task.map(|task| task.try_refresh())) {
                // What the spent handle knows was taken back.
                Ok(Some(Ok(false))) => self.task(id).map_or((), |task| task.refresh()),
                // A task that was closed since has left its row behind.
                Ok(Some(Ok(true)) | None) => {}
                Ok(Some(Err(Busy))) | Err(Busy) => self.shared.env.note_dirty(id),
            }
        }
    }

    /// Returns whether something is left of deleted tasks: [`Self::empty_trash`] has something to do.
    pub fn has_trash(&self) -> bool {
        // Whoever deletes something has it for long.
        self.shared.env.trash.try_lock().map_or(true, |trash| !trash.is_empty())
    }

    /// Returns whether readers have found damage: [`Self::set_apart_damaged`] has something to do.
    pub fn has_damage(&self) -> bool {
        !self.shared.env.damage.is_empty()
    }

    /// Reads the logs again in which readers have found damage, and puts their tasks into quarantine if it is there.
    pub fn set_apart_damaged(&self) {
        let notes = &self.shared.env.damage;
        for id in notes.tasks() {
            let looked = self.task(id).and_then(|task| match task.check_logs() {
                // It may have been deleted meanwhile, and another started under its id.
                Err(damage @ StoreError::Damaged { .. }) => self.quarantine(id, &damage, || task.is_there()),
                looked => looked,
            });
            let looked = match looked {
                Err(StoreError::TaskNotFound { .. }) => Ok(()),
                looked => looked,
            };
            match looked {
                Ok(()) => notes.forget(id),
                Err(error) => tracing::error!(%id, %error, "a damaged log could not be checked or set apart"),
            }
        }
    }

    /// Sets a damaged task apart, if it is in a healthy folder and still the one that was looked at.
    pub(crate) fn quarantine(
        &self,
        id: TaskId,
        reason: &StoreError,
        is_current: impl FnOnce() -> bool,
    ) -> Result<(), StoreError> {
        self.shared.handles.exclusively(id, |task| {
            if !is_current() {
                return Ok(());
            }
            if let Some(task) = task {
                task.retire();
            }
            let folder = self.find(id)?.filter(|folder| *folder != Folder::Quarantine);
            folder.map_or(Ok(()), |folder| recover::quarantine(&self.shared.env, id, folder, reason))
        })
    }

    /// The highest lease that any deleted task had. A new task begins with a higher one.
    pub fn lease_floor(&self) -> u64 {
        self.shared.env.lease_floor()
    }

    /// Removes what is left of deleted tasks, as far as that is possible now.
    pub fn empty_trash(&self) -> Result<(), StoreError> {
        self.shared.env.empty_trash()
    }

    /// Returns whether rows in the catalog are behind their tasks: [`Self::refresh_catalog`] has something to do.
    pub fn is_catalog_behind(&self) -> bool {
        self.shared.env.is_dirty()
    }

    /// Measures how much all tasks take, for the store's quota and for those who count.
    pub fn measure(&self) -> Result<u64, StoreError> {
        let fs = self.shared.env.fs.as_ref();
        let mut used = 0;
        for folder in Folder::HEALTHY.into_iter().chain([Folder::Quarantine]) {
            let path = folder.path();
            let bytes = files::tree_bytes(fs, &path);
            used += bytes.map_err(|error| StoreError::io(format!("measuring {path}"), error))?;
        }
        self.shared.env.note_used(used);
        Ok(used)
    }

    /// Bytes of `tasks.db`.
    pub fn catalog_bytes(&self) -> u64 {
        let path = StorePath::ROOT.join(layout::CATALOG);
        self.shared.env.fs.stat(&path).ok().flatten().map_or(0, |stat| stat.len)
    }
}

impl Env {
    /// Removes what is left of deleted tasks once their rows are gone: the next start knows by it whose rows have to go.
    pub(crate) fn empty_trash(&self) -> Result<(), StoreError> {
        let left: Vec<TaskId> = lock(&self.trash).keys().copied().collect();
        if left.is_empty() {
            return Ok(());
        }
        self.catalog.flush()?;
        let mut done = Ok(());
        for id in left {
            let mut trash = lock(&self.trash);
            let (fs, path) = (self.fs.as_ref(), StorePath::ROOT.join(layout::TRASH).join(id.uuid()));
            let synced = match trash.get(&id).copied().flatten() {
                Some(folder) => fs.sync_dir(&path.parent()).and_then(|()| fs.sync_dir(&folder.path())),
                None => Ok(()),
            };
            match synced.and_then(|()| files::remove_tree(fs, &path)) {
                Ok(()) => drop(trash.remove(&id)),
                Err(error) => done = Err(StoreError::io(format!("removing {path}"), error)),
            }
        }
        done
    }
}
