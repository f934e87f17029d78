//! What a turn of a model needs of the store: messages together, what an earlier call was told, a file for the request.

use super::task::{Append, Caller, Pending, RequestFile};
use super::{Store, StoreError, layout};
use crate::model::{RequestId, TaskId};

impl Store {
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

    /// What a call with this id was told, if it is remembered: the number of a message. It is durable.
    pub fn remembered(&self, id: TaskId, request_id: &RequestId) -> Result<Option<u64>, StoreError> {
        self.task(id)?.remembered(request_id)
    }

    /// A new file for a request to a provider, in the directory of its task. It goes when it is dropped.
    pub fn request_file(&self, id: TaskId) -> Result<RequestFile, StoreError> {
        RequestFile::new(self, self.task(id)?.as_ref(), &layout::REQUEST)
    }
}
