//! Reading tasks: the view, the logs, summaries, and what is known of a task.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::task::{
    ContextUsage, CurrentReader, FilePart, LineReader, LogEnds, Subscription, SummaryLines, TaskInfo,
    ViewSnapshot,
};
use super::{LogKind, Store};
use crate::context::{Policy, Pressure, Settings};
use crate::model::{Json, Plan, StoreError, SummaryRecord, TaskId};

impl Store {
    /// Returns how the context of a task is kept small.
    pub fn policy(&self, id: TaskId) -> Result<Arc<Policy>, StoreError> {
        self.task(id)?.policy()
    }

    /// The same for a call that says something of its own.
    pub fn policy_with(
        &self,
        id: TaskId,
        call: &Settings,
        target_tokens: Option<u64>,
    ) -> Result<Policy, StoreError> {
        self.task(id)?.policy_with(call, target_tokens)
    }

    /// The view as it is, or as it was after message `as_of`.
    pub fn current(&self, id: TaskId, as_of: Option<u64>) -> Result<CurrentReader, StoreError> {
        self.task(id)?.current(as_of)
    }

    /// The view with what OpenAI does not know of its messages, both as they are at this moment.
    pub fn view_snapshot(&self, id: TaskId) -> Result<ViewSnapshot, StoreError> {
        self.task(id)?.view_snapshot()
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

    /// The last messages of the log, with the events among them.
    pub fn last_messages(&self, id: TaskId, count: u64) -> Result<LineReader, StoreError> {
        self.task(id)?.last_messages(count)
    }

    /// One message, as it stands in the log.
    pub fn message(&self, id: TaskId, seq: u64) -> Result<String, StoreError> {
        self.task(id)?.message(seq)
    }

    /// Returns whether a message is pinned.
    pub fn is_pinned(&self, id: TaskId, seq: u64) -> Result<bool, StoreError> {
        self.task(id)?.is_pinned(seq)
    }

    /// Records of `tools.jsonl`.
    pub fn tool_calls(&self, id: TaskId, from: u64, to: u64) -> Result<LineReader, StoreError> {
        self.task(id)?.records(LogKind::Tools, from, to)
    }

    /// Records of `planning.jsonl`.
    pub fn plans(&self, id: TaskId, from: u64, to: u64) -> Result<LineReader, StoreError> {
        self.task(id)?.records(LogKind::Plans, from, to)
    }

    /// The newest plan with its number and when it was appended.
    pub fn latest_plan(&self, id: TaskId) -> Result<Option<(u64, Plan, DateTime<Utc>)>, StoreError> {
        self.task(id)?.latest_plan()
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

    /// Lines of a log from an offset on, which must be the beginning of a line.
    pub fn lines_at(&self, id: TaskId, kind: LogKind, offset: u64) -> Result<LineReader, StoreError> {
        self.task(id)?.lines_at(kind, offset)
    }

    /// Returns what is to be remembered of a task that ended.
    pub fn final_summary(&self, id: TaskId) -> Result<Option<String>, StoreError> {
        self.task(id)?.final_summary()
    }

    /// Returns how full the context of a task is.
    pub fn pressure(&self, id: TaskId) -> Result<Pressure, StoreError> {
        self.task(id)?.pressure_now()
    }

    /// Returns how full the context of a task is with tools beside it, and how that is counted.
    pub fn context_usage(&self, id: TaskId, tools: Option<&Json>) -> Result<ContextUsage, StoreError> {
        self.task(id)?.context_usage(tools)
    }

    /// A task as it is now.
    pub fn task_info(&self, id: TaskId) -> Result<TaskInfo, StoreError> {
        self.task(id)?.info()
    }
}
