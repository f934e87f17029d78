//! One task: what an agent does with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contextstore_proto::v1;
use contextstore_proto::v1::ErrorReason;

use crate::client::{call, named, new_id};
use crate::error::NotAppended;
use crate::hooks::Hooks;
use crate::later::Later;
use crate::lease::Lease;
use crate::stream::Items;
use crate::{Client, Current, Error, NewMessage, ReadCurrent, ReadMessages, ReadRecords, records};

/// A handle on a task. Cheap to clone; clones share the lease.
#[derive(Debug, Clone)]
pub struct Task {
    client: Client,
    uuid: String,
    lease: Arc<Lease>,
    hooks: Arc<Hooks>,
    later: Arc<Later>,
    origin: Arc<Origin>,
    request_id: Option<String>,
}

/// How a task came to be.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    pub(crate) created: bool,
    pub(crate) inherited_from: String,
    pub(crate) inheritance_comment: String,
}

/// A tool that was executed.
#[derive(Debug, Clone, Default)]
pub struct ToolCall {
    /// Its name.
    pub tool_name: String,
    /// What it was called with: any JSON; empty if there is nothing to say.
    pub arguments_json: String,
    /// What it answered: any JSON. Cannot stand beside `output_ref`.
    pub result_json: String,
    /// Where its answer is, if that is large.
    pub output_ref: String,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// How long it took.
    pub duration: Option<Duration>,
    /// The message that carries its answer.
    pub message_seq: Option<u64>,
}

/// One call of an LLM, in disjoint parts: take cached tokens out of OpenAI's input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that were read, but for those in the last two.
    pub input_tokens: u64,
    /// Tokens that were written.
    pub output_tokens: u64,
    /// Tokens that went into the provider's cache.
    pub cache_creation_tokens: u64,
    /// Tokens that came out of the provider's cache.
    pub cache_read_tokens: u64,
    /// What was counted of the tools that were sent, as `context_usage` does, so that they do not pass for messages.
    pub tools_tokens: u64,
}

/// Numbers to add to a task's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls of the LLM.
    pub llm_calls: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Tokens.
    pub tokens: u64,
    /// Compactions.
    pub compressions: u64,
}

impl Task {
    pub(crate) fn new(client: Client, uuid: String, lease: Lease, origin: Origin) -> Self {
        let lease = Arc::new(lease);
        let (hooks, later, origin) = (Arc::default(), Arc::default(), Arc::new(origin));
        Self { client, uuid, lease, hooks, later, origin, request_id: None }
    }

    /// Its id.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The lease that changes are made under; 0 for none.
    pub fn lease_generation(&self) -> u64 {
        self.lease.held()
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// The lease has ended with the task, or with this part of its life.
    pub(crate) fn let_go(&self) {
        self.lease.let_go();
    }

    pub(crate) fn later(&self) -> &Later {
        &self.later
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// The task that this one took over from when it was started; empty if there was none.
    pub fn inherited_from(&self) -> &str {
        &self.origin.inherited_from
    }

    /// With it: a comment for people, as to post on the issue.
    pub fn inheritance_comment(&self) -> &str {
        &self.origin.inheritance_comment
    }

    /// Whether [`Client::start_task`] made it, rather than took it up.
    pub fn is_new(&self) -> bool {
        self.origin.created
    }

    /// The client it is used through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same task for one change under a name of the caller's: a program that dies and does not know whether
    /// the change happened makes it again under the same name, and it is carried out once.
    ///
    /// ```no_run
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// task.with_request_id("run-7-step-3").rewind(12).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_request_id(&self, request_id: impl Into<String>) -> Self {
        Self { request_id: named(Some(request_id.into())), ..self.clone() }
    }

    /// The name that the caller gave to the next change.
    pub(crate) fn name(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    pub(crate) fn request_id(&self) -> String {
        self.request_id.clone().unwrap_or_else(new_id)
    }

    /// The task as it is now, with its statistics and how full its context is.
    pub async fn get(&self) -> Result<v1::GetTaskResponse, Error> {
        self.settled().await?.get_task(&self.uuid).await
    }

    /// Appends a message; it is on disk when this returns. If this fails, the message is the last of
    /// [`Error::not_appended`], and [`Error::cause`] says why.
    pub async fn append(&self, message: impl Into<NewMessage>) -> Result<v1::AppendMessageResponse, Error> {
        let message = message.into().named_by(|| self.request_id());
        let request = message.clone().single(self.uuid.clone(), self.lease_generation());
        let appended = async { call!(self.settled().await?, append_message, request) };
        appended.await.map_err(|error| NotAppended::with(error, message.of_task(&self.uuid)))
    }

    /// One message as it stands in the log.
    pub async fn message(&self, seq: u64) -> Result<v1::GetMessageResponse, Error> {
        call!(self.settled().await?, get_message, v1::GetMessageRequest { task_uuid: self.uuid.clone(), seq })
    }

    /// What the model sees, straight from the server's disk.
    pub async fn current(&self, read: ReadCurrent) -> Result<Current, Error> {
        self.flush().await?;
        Current::open(self.client.clone(), self.uuid.clone(), read).await
    }

    /// The history: lines of the log, messages and events.
    pub fn messages(&self, read: ReadMessages) -> Items<Bytes> {
        let ReadMessages { from_seq, to_seq, limit, follow, kinds } = read;
        let (task_uuid, kinds) = (self.uuid.clone(), kinds.into_iter().map(i32::from).collect());
        let request = v1::StreamMessagesRequest { task_uuid, from_seq, to_seq, limit, follow, kinds };
        self.behind(records::read(self.client.clone(), request))
    }

    /// What happens to the task from the first [`Items::try_next`] on, or behind the event with a `resume_token`.
    /// Nothing is missed when the connection breaks.
    pub fn watch(&self, resume_token: impl Into<String>) -> Items<v1::WatchTaskResponse> {
        let request =
            v1::WatchTaskRequest { task_uuid: self.uuid.clone(), resume_token: resume_token.into() };
        self.behind(records::watch(self.client.clone(), request))
    }

    /// Pins a message: no compaction takes it out of the view.
    pub async fn pin(&self, seq: u64) -> Result<(), Error> {
        let request = v1::PinMessageRequest {
            task_uuid: self.uuid.clone(),
            seq,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        call!(self.settled().await?, pin_message, request).map(drop)
    }

    /// Releases a pinned message.
    pub async fn unpin(&self, seq: u64) -> Result<(), Error> {
        let request = v1::UnpinMessageRequest {
            task_uuid: self.uuid.clone(),
            seq,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        call!(self.settled().await?, unpin_message, request).map(drop)
    }

    /// Takes the view back to what it was after a message.
    pub async fn rewind(&self, seq: u64) -> Result<v1::RewindTaskResponse, Error> {
        let request = v1::RewindTaskRequest {
            task_uuid: self.uuid.clone(),
            seq,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        call!(self.settled().await?, rewind_task, request)
    }

    /// Records the execution of a tool.
    pub async fn record_tool_call(&self, tool_call: ToolCall) -> Result<v1::RecordToolCallResponse, Error> {
        let request = v1::RecordToolCallRequest {
            task_uuid: self.uuid.clone(),
            tool_name: tool_call.tool_name,
            arguments_json: tool_call.arguments_json,
            result_json: tool_call.result_json,
            output_ref: tool_call.output_ref,
            status: status_of(tool_call.error.as_deref()),
            error: tool_call.error.unwrap_or_default(),
            duration: tool_call.duration.and_then(|duration| duration.try_into().ok()),
            message_seq: tool_call.message_seq,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        call!(self.settled().await?, record_tool_call, request)
    }

    /// The tool calls that were recorded: lines of `tools.jsonl`.
    pub fn tool_calls(&self, read: ReadRecords) -> Items<Bytes> {
        let request = v1::StreamToolCallsRequest {
            task_uuid: self.uuid.clone(),
            from_seq: read.from,
            to_seq: read.to,
            limit: read.limit,
        };
        self.behind(records::read(self.client.clone(), request))
    }

    /// Appends a plan: any JSON.
    pub async fn append_plan(
        &self,
        plan_type: impl Into<String>,
        plan_content_json: impl Into<String>,
    ) -> Result<v1::AppendPlanResponse, Error> {
        let request = v1::AppendPlanRequest {
            task_uuid: self.uuid.clone(),
            plan_type: plan_type.into(),
            plan_content_json: plan_content_json.into(),
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        call!(self.settled().await?, append_plan, request)
    }

    /// The newest plan; `None` if there is none.
    pub async fn latest_plan(&self) -> Result<Option<v1::GetLatestPlanResponse>, Error> {
        let request = v1::GetLatestPlanRequest { task_uuid: self.uuid.clone() };
        none_if(ErrorReason::PlanNotFound, call!(self.settled().await?, get_latest_plan, request))
    }

    /// The plans: lines of `planning.jsonl`.
    pub fn plans(&self, read: ReadRecords) -> Items<Bytes> {
        let request = v1::StreamPlansRequest {
            task_uuid: self.uuid.clone(),
            from_id: read.from,
            to_id: read.to,
            limit: read.limit,
        };
        self.behind(records::read(self.client.clone(), request))
    }

    /// The newest summary that the view has; `None` if there is none.
    pub async fn latest_summary(&self) -> Result<Option<v1::Summary>, Error> {
        let request = v1::GetLatestSummaryRequest { task_uuid: self.uuid.clone() };
        let found =
            none_if(ErrorReason::SummaryNotFound, call!(self.settled().await?, get_latest_summary, request))?;
        Ok(found.and_then(|found| found.summary))
    }

    /// The summaries: lines of `summaries.jsonl`, at most `limit`; 0: all. Those that were taken back have `"undone":true`.
    pub fn summaries(&self, limit: u64) -> Items<Bytes> {
        let request = v1::StreamSummariesRequest { task_uuid: self.uuid.clone(), limit };
        self.behind(records::read(self.client.clone(), request))
    }

    /// Reports one call of the LLM; answers how full the context is.
    pub async fn record_usage(&self, usage: Usage) -> Result<v1::Pressure, Error> {
        let request = v1::RecordUsageRequest {
            task_uuid: self.uuid.clone(),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_creation_tokens: usage.cache_creation_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
            tools_tokens: usage.tools_tokens,
        };
        there("pressure", call!(self.settled().await?, record_usage, request)?.pressure)
    }

    /// Adds to the task's counters; answers what they are now.
    pub async fn update_statistics(&self, add: Statistics) -> Result<v1::TaskStatistics, Error> {
        let request = v1::UpdateStatisticsRequest {
            task_uuid: self.uuid.clone(),
            llm_calls: add.llm_calls,
            tool_calls: add.tool_calls,
            tokens: add.tokens,
            compressions: add.compressions,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        there("statistics", call!(self.settled().await?, update_statistics, request)?.statistics)
    }
}

/// How a tool call ended, by its error.
pub(crate) fn status_of(error: Option<&str>) -> i32 {
    if error.is_some() { v1::ToolCallStatus::Error } else { v1::ToolCallStatus::Success }.into()
}

/// A part of an answer that must not be missing.
pub(crate) fn there<T>(what: &str, part: Option<T>) -> Result<T, Error> {
    part.ok_or_else(|| Error::protocol(format!("the answer has no {what}")))
}

fn none_if<T>(reason: ErrorReason, answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if error.reason() == Some(reason) => Ok(None),
        answer => answer.map(Some),
    }
}
