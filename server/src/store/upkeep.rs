//! What is done for a store now and then: rows for the catalog, and how much everything takes.

use super::handles::Busy;
use super::layout::{self, Folder};
use super::{Store, StoreError, files};
use crate::infra::fs::StorePath;

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

    /// Whether rows in the catalog are behind their tasks: [`Self::refresh_catalog`] has something to do.
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
