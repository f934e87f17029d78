//! What compressing a view needs of the store: the view at one moment, files to work with, and a new view in its place.

use std::sync::Arc;

use super::task::{Caller, Compressed, NewView, Outline, RequestFile, Retold};
use super::{Store, StoreError, layout};
use crate::context::Policy;
use crate::log::Digest;
use crate::model::{Json, Overflow, Provider, TaskId};

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

impl Store {
    /// The view of a task as it is now, message by message.
    pub fn outline(&self, id: TaskId) -> Result<Outline, StoreError> {
        self.task(id)?.outline()
    }

    /// Whether it is time to compress a view without being asked, with what is not durable yet.
    pub fn is_compression_due(&self, id: TaskId) -> Result<bool, StoreError> {
        self.task(id)?.compression_due()
    }

    /// The lease of whoever works on a task; 0: nobody does.
    pub fn lease(&self, id: TaskId) -> Result<u64, StoreError> {
        self.task(id)?.lease()
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

    /// What the rewrite that made a generation of the view has done.
    pub fn retell(&self, id: TaskId, generation: u64) -> Result<Retold, StoreError> {
        self.task(id)?.retell(generation)
    }

    /// `task_source` of a task's key, for those who count.
    pub fn source_of(&self, id: TaskId) -> Arc<str> {
        self.task(id).map_or_else(|_| Arc::from(""), |task| task.source())
    }

    /// Remembers who is asked, as the limit of that model counts; answers what holds.
    pub fn note_asked(&self, id: TaskId, provider: Provider, model: &str) -> Result<Arc<Policy>, StoreError> {
        self.task(id)?.note_asked(provider, model)
    }

    /// Remembers that a model refused the context as too long, and the figures that it stated.
    pub fn note_overflow(&self, id: TaskId, stated: Overflow) -> Result<(), StoreError> {
        self.task(id)?.note_overflow(stated)
    }

    /// Remembers the tools of a request: they are sent beside the view with the next one too.
    pub fn note_tools(&self, id: TaskId, tools: &Json) -> Result<(), StoreError> {
        self.task(id)?.note_tools(tools)
    }

    /// Adds to the counters what summaries by a model cost. Nobody's lease is asked for, as the server has spent it already.
    pub fn note_cost(&self, id: TaskId, llm_calls: u64, tokens: u64) -> Result<(), StoreError> {
        self.task(id)?.note_cost(llm_calls, tokens)
    }

    /// Refuses a caller that could not compress a view, before anything is done for it.
    pub fn may_compress(&self, id: TaskId, caller: &Caller) -> Result<(), StoreError> {
        self.task(id)?.may_compress(caller)
    }

    /// Refuses a caller that does not work on a task and so has nothing to give up, whatever has become of the task.
    pub fn may_give_up(&self, id: TaskId, caller: &Caller) -> Result<(), StoreError> {
        self.task(id)?.may_give_up(caller)
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
}
