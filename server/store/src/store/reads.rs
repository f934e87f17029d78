//! Reading tasks: the view, the logs, summaries, and what is known of a task.

use std::sync::Arc;

use super::task::{ContextUsage, FilePart, LineReader, LogEnds, Subscription, SummaryLines};
use super::{LogKind, Store};
use crate::context::{Policy, Pressure};
use crate::model::{Json, StoreError, SummaryRecord, TaskId};

impl Store {
    /// Returns how the context of a task is kept small.
    pub fn policy(&self, id: TaskId) -> Result<Arc<Policy>, StoreError> {
        self.task(id)?.policy()
    }

    /// The fields of the view's messages that OpenAI does not know: a file and how much of it to read.
    pub fn current_extra(&self, id: TaskId) -> Result<Option<FilePart>, StoreError> {
        self.task(id)?.extra()
    }

    /// Lines of the log from message `from` to message `to`, with the events after each; from 0: those before
    /// the first message too.
    pub fn lines(&self, id: TaskId, from: u64, to: u64) -> Result<LineReader, StoreError> {
        self.task(id)?.lines(from, to)
    }

    /// One message, as it stands in the log.
    pub fn message(&self, id: TaskId, seq: u64) -> Result<String, StoreError> {
        self.task(id)?.message(seq)
    }

    /// Records of `tools.jsonl`.
    pub fn tool_calls(&self, id: TaskId, from: u64, to: u64) -> Result<LineReader, StoreError> {
        self.task(id)?.records(LogKind::Tools, from, to)
    }

    /// Records of `planning.jsonl`.
    pub fn plans(&self, id: TaskId, from: u64, to: u64) -> Result<LineReader, StoreError> {
        self.task(id)?.records(LogKind::Plans, from, to)
    }

    /// `summaries.jsonl`: a file and how much of it to read.
    pub fn summaries(&self, id: TaskId) -> Result<Option<FilePart>, StoreError> {
        self.task(id)?.summaries()
    }

    /// Lines of `summaries.jsonl`, with `undone` in those that were taken back.
    pub fn summary_lines(&self, id: TaskId) -> Result<SummaryLines, StoreError> {
        self.task(id)?.summary_lines()
    }

    /// The newest summary that the view has.
    pub fn latest_summary(&self, id: TaskId) -> Result<Option<SummaryRecord>, StoreError> {
        self.task(id)?.latest_summary()
    }

    /// Tells when there may be more to see of a task, whether or not there is such a task.
    pub fn subscribe(&self, id: TaskId) -> Subscription {
        Subscription::new(self.shared.env.signal(id))
    }

    /// Returns where the logs of a task end for readers.
    pub fn log_ends(&self, id: TaskId) -> Result<LogEnds, StoreError> {
        self.task(id)?.ends()
    }

    /// Returns what is to be remembered of a task that ended.
    pub fn final_summary(&self, id: TaskId) -> Result<Option<String>, StoreError> {
        self.task(id)?.final_summary()
    }

    /// Returns how full the context of a task is with tools beside it, and how that is counted.
    pub fn context_usage(&self, id: TaskId, tools: Option<&Json>) -> Result<ContextUsage, StoreError> {
        self.task(id)?.context_usage(tools)
    }

    /// Returns how full the context of a task is.
    pub fn pressure(&self, id: TaskId) -> Result<Pressure, StoreError> {
        self.task(id)?.pressure_now()
    }
}
