//! Files of a task that are there as long as they are used: what is being sent to a provider, what is being summarised.

use std::io;
use std::sync::Arc;

use crate::infra::fs::{File, Name, Open};
use crate::model::{StoreError, TaskId};

use super::Task;
use crate::store::{Store, files};

/// A file that is being made or read. It is removed when this is dropped; what a crash leaves is removed when the task is
/// opened again.
#[derive(Debug)]
pub struct RequestFile {
    /// The task is not held: an answer can take long, and needs none of its files.
    store: Store,
    id: TaskId,
    name: Name,
    file: Arc<dyn File>,
    len: u64,
}

impl RequestFile {
    pub(crate) fn new(store: &Store, task: &Task, name: &Name) -> Result<Self, StoreError> {
        let (name, file) = task.make_transient(name)?;
        Ok(Self { store: store.clone(), id: task.id, name, file, len: 0 })
    }

    /// Adds to its end.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.file.write_all_at(bytes, self.len);
        written.map_err(|error| StoreError::io(format!("writing {}", self.name), error))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// The file, and how much of it is written. It can be read even if its name is gone.
    pub fn contents(&self) -> (Arc<dyn File>, u64) {
        (Arc::clone(&self.file), self.len)
    }
}

impl Drop for RequestFile {
    fn drop(&mut self) {
        // Wherever the task is now; if it was removed, so was this.
        if let Ok(task) = self.store.task(self.id) {
            task.remove_transient(&self.name);
        }
    }
}

impl Task {
    /// Makes a file under a name that nobody else uses.
    fn make_transient(&self, wanted: &Name) -> Result<(Name, Arc<dyn File>), StoreError> {
        let inner = self.lock();
        self.check_writable(&inner)?;
        let mut name = wanted.clone();
        for number in 2_u64.. {
            let path = inner.log.path(name.clone());
            match self.env.fs.open(&path, Open::New) {
                Ok(file) => return Ok((name, file)),
                // Another one of this task is in use.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    name = wanted.numbered(number);
                }
                Err(error) => return Err(StoreError::io(format!("making {path}"), error)),
            }
        }
        Err(StoreError::io(format!("making {wanted}"), io::ErrorKind::AlreadyExists.into()))
    }

    fn remove_transient(&self, name: &Name) {
        let inner = self.lock();
        let path = inner.log.path(name.clone());
        if let Err(error) = files::remove_if_there(self.env.fs.as_ref(), &path) {
            tracing::warn!(%path, %error, "could not be removed; it is when the task is next opened");
        }
    }
}
