//! The methods of `contextstore.v1.ContextStore`: parse, ask the store, answer.

use std::future::Future;
use std::sync::Arc;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::context_store_server::ContextStore;
use futures_util::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Request, Response, Status, Streaming};

use super::follow;
use super::intake::Held;
use super::paced::Items;
use super::peer::{Connection, Peer};
use super::serving::Serving;
use super::status::Refusal;
use super::{
    answer, append, chat, compress, convert, ending, info, inherit, messages, records, request, streams,
    tasks,
};
use crate::hooks::HookTrigger;
use crate::infra::metrics;
use crate::model::{StoreError, TaskId};
use crate::store::{Caller, Store};

/// The service.
#[derive(Clone)]
pub(crate) struct Service {
    pub(super) serving: Arc<Serving>,
}

pub(super) type Answer<T> = Result<Response<T>, Status>;
/// The response to a call, or why there is none.
pub(super) type Reply<T> = Result<Response<T>, Refusal>;

impl Service {
    pub(crate) fn new(serving: Arc<Serving>) -> Self {
        Self { serving }
    }

    /// Changes a task.
    pub(super) async fn change<T>(
        &self,
        (task_uuid, request_id, lease_generation): (&str, &str, u64),
        act: impl FnOnce(&Store, TaskId, &Caller) -> Result<T, StoreError>,
    ) -> Result<(TaskId, T), Refusal> {
        let id = TaskId::parse(task_uuid)?;
        let caller = convert::caller(request_id, lease_generation)?;
        let done = self.serving.engine.with(|store| act(store, id, &caller)).await?;
        Ok((id, done))
    }

    /// Gives a stream to its reader, at the reader's pace.
    pub(super) async fn stream<T, S, R>(
        &self,
        request: &Request<R>,
        make: impl Future<Output = Result<S, Refusal>> + Send,
    ) -> Reply<Items<T>>
    where
        S: Stream<Item = Result<T, Refusal>> + Send + Unpin + 'static,
        T: Send + 'static,
        R: Sync,
    {
        let place = self.place()?;
        let line = line(request)?;
        Ok(self.serving.pace.answer(make.await?, Some(place), line))
    }

    /// A place for one more stream.
    fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.serving.pace.place().inspect_err(|_| metrics::rejected("read_streams"))
    }

    /// A task to which something has trigger that others may be told.
    pub(super) async fn trigger(&self, trigger: HookTrigger, id: TaskId) -> Option<pb::Task> {
        self.serving.engine.notify(trigger, id).await;
        self.changed(id).await
    }

    /// A task that was changed. What fails here does not undo that: then only its id is told.
    pub(super) async fn changed(&self, id: TaskId) -> Option<pb::Task> {
        let told = self.serving.engine.info(id).await;
        let told =
            told.map(|info| answer::task(&info, self.serving.engine.lease_ttl(), self.serving.clock.now()));
        Some(told.unwrap_or_else(|_| pb::Task { uuid: id.to_string(), ..pb::Task::default() }))
    }
}

/// The connection that a call came on.
fn line<R>(request: &Request<R>) -> Result<Arc<Connection>, Refusal> {
    let peer = request.extensions().get::<Peer>();
    let line = peer.map(|peer| Arc::clone(&peer.line));
    line.ok_or_else(|| Refusal::Internal("a call without a connection".to_owned()))
}

#[tonic::async_trait]
impl ContextStore for Service {
    async fn start_task(&self, request: Request<pb::StartTaskRequest>) -> Answer<pb::StartTaskResponse> {
        Ok(tasks::start(self, request.into_inner()).await?)
    }

    async fn resume_task(&self, request: Request<pb::ResumeTaskRequest>) -> Answer<pb::ResumeTaskResponse> {
        Ok(tasks::resume(self, request.into_inner()).await?)
    }

    async fn pause_task(&self, request: Request<pb::PauseTaskRequest>) -> Answer<pb::PauseTaskResponse> {
        Ok(tasks::pause(self, request.into_inner()).await?)
    }

    async fn complete_task(
        &self,
        request: Request<pb::CompleteTaskRequest>,
    ) -> Answer<pb::CompleteTaskResponse> {
        Ok(ending::complete(self, request.into_inner()).await?)
    }

    async fn fail_task(&self, request: Request<pb::FailTaskRequest>) -> Answer<pb::FailTaskResponse> {
        Ok(ending::fail(self, request.into_inner()).await?)
    }

    async fn update_task(&self, request: Request<pb::UpdateTaskRequest>) -> Answer<pb::UpdateTaskResponse> {
        Ok(tasks::update(self, request.into_inner()).await?)
    }

    async fn delete_task(&self, request: Request<pb::DeleteTaskRequest>) -> Answer<pb::DeleteTaskResponse> {
        Ok(tasks::delete(self, request.into_inner()).await?)
    }

    async fn renew_lease(&self, request: Request<pb::RenewLeaseRequest>) -> Answer<pb::RenewLeaseResponse> {
        Ok(tasks::renew_lease(self, request.into_inner()).await?)
    }

    async fn get_task(&self, request: Request<pb::GetTaskRequest>) -> Answer<pb::GetTaskResponse> {
        Ok(tasks::get(self, request.into_inner()).await?)
    }

    async fn list_tasks(&self, request: Request<pb::ListTasksRequest>) -> Answer<pb::ListTasksResponse> {
        Ok(tasks::list(self, request.into_inner()).await?)
    }

    async fn get_server_info(
        &self,
        _: Request<pb::GetServerInfoRequest>,
    ) -> Answer<pb::GetServerInfoResponse> {
        Ok(Response::new(info::of(&self.serving)))
    }

    async fn append_message(
        &self,
        request: Request<pb::AppendMessageRequest>,
    ) -> Answer<pb::AppendMessageResponse> {
        Ok(Response::new(append::one(&self.serving, request.into_inner()).await?))
    }

    type AppendMessagesStream = Items<pb::AppendMessagesResponse>;

    async fn append_messages(
        &self,
        request: Request<Streaming<pb::AppendMessagesRequest>>,
    ) -> Answer<Self::AppendMessagesStream> {
        let (line, held) = (line(&request)?, request.extensions().get().cloned());
        let acks = append::many(Arc::clone(&self.serving), request.into_inner(), held);
        Ok(self.serving.pace.answer(Box::pin(acks), None, line))
    }

    type ChatStream = Items<pb::ChatResponse>;

    async fn chat(&self, request: Request<pb::ChatRequest>) -> Answer<Self::ChatStream> {
        let (place, line) = (self.place()?, line(&request)?);
        let held: Option<Arc<Held>> = request.extensions().get().cloned();
        let answer = chat::begin(&self.serving, request.into_inner()).await?;
        // What was asked is in the log; a model may take its time.
        held.iter().for_each(|held| held.release(1));
        Ok(self.serving.pace.answer(Box::pin(answer), Some(place), line))
    }

    async fn get_context_usage(
        &self,
        request: Request<pb::GetContextUsageRequest>,
    ) -> Answer<pb::GetContextUsageResponse> {
        Ok(messages::usage(self, request.into_inner()).await?)
    }

    type RenderContextStream = Items<pb::RenderContextResponse>;

    async fn render_context(
        &self,
        request: Request<pb::RenderContextRequest>,
    ) -> Answer<Self::RenderContextStream> {
        Ok(self.stream(&request, request::pieces(&self.serving, request.get_ref())).await?)
    }

    async fn get_message(&self, request: Request<pb::GetMessageRequest>) -> Answer<pb::GetMessageResponse> {
        Ok(messages::get(self, request.into_inner()).await?)
    }

    async fn pin_message(&self, request: Request<pb::PinMessageRequest>) -> Answer<pb::PinMessageResponse> {
        Ok(messages::pin(self, request.into_inner()).await?)
    }

    async fn unpin_message(
        &self,
        request: Request<pb::UnpinMessageRequest>,
    ) -> Answer<pb::UnpinMessageResponse> {
        Ok(messages::unpin(self, request.into_inner()).await?)
    }

    async fn rewind_task(&self, request: Request<pb::RewindTaskRequest>) -> Answer<pb::RewindTaskResponse> {
        Ok(messages::rewind(self, request.into_inner()).await?)
    }

    type StreamCurrentStream = Items<pb::StreamCurrentResponse>;

    async fn stream_current(
        &self,
        request: Request<pb::StreamCurrentRequest>,
    ) -> Answer<Self::StreamCurrentStream> {
        Ok(self.stream(&request, streams::current(&self.serving, request.get_ref())).await?)
    }

    type StreamMessagesStream = Items<pb::StreamMessagesResponse>;

    async fn stream_messages(
        &self,
        request: Request<pb::StreamMessagesRequest>,
    ) -> Answer<Self::StreamMessagesStream> {
        Ok(self.stream(&request, streams::messages(&self.serving, request.get_ref())).await?)
    }

    async fn record_tool_call(
        &self,
        request: Request<pb::RecordToolCallRequest>,
    ) -> Answer<pb::RecordToolCallResponse> {
        Ok(records::record_tool_call(self, request.into_inner()).await?)
    }

    type StreamToolCallsStream = Items<pb::StreamToolCallsResponse>;

    async fn stream_tool_calls(
        &self,
        request: Request<pb::StreamToolCallsRequest>,
    ) -> Answer<Self::StreamToolCallsStream> {
        Ok(self.stream(&request, streams::tool_calls(&self.serving, request.get_ref())).await?)
    }

    async fn append_plan(&self, request: Request<pb::AppendPlanRequest>) -> Answer<pb::AppendPlanResponse> {
        Ok(records::append_plan(self, request.into_inner()).await?)
    }

    async fn get_latest_plan(
        &self,
        request: Request<pb::GetLatestPlanRequest>,
    ) -> Answer<pb::GetLatestPlanResponse> {
        Ok(records::get_latest_plan(self, request.into_inner()).await?)
    }

    type StreamPlansStream = Items<pb::StreamPlansResponse>;

    async fn stream_plans(
        &self,
        request: Request<pb::StreamPlansRequest>,
    ) -> Answer<Self::StreamPlansStream> {
        Ok(self.stream(&request, streams::plans(&self.serving, request.get_ref())).await?)
    }

    async fn get_latest_summary(
        &self,
        request: Request<pb::GetLatestSummaryRequest>,
    ) -> Answer<pb::GetLatestSummaryResponse> {
        Ok(records::get_latest_summary(self, request.into_inner()).await?)
    }

    type StreamSummariesStream = Items<pb::StreamSummariesResponse>;

    async fn stream_summaries(
        &self,
        request: Request<pb::StreamSummariesRequest>,
    ) -> Answer<Self::StreamSummariesStream> {
        Ok(self.stream(&request, streams::summaries(&self.serving, request.get_ref())).await?)
    }

    async fn record_usage(
        &self,
        request: Request<pb::RecordUsageRequest>,
    ) -> Answer<pb::RecordUsageResponse> {
        Ok(records::record_usage(self, request.into_inner()).await?)
    }

    async fn update_statistics(
        &self,
        request: Request<pb::UpdateStatisticsRequest>,
    ) -> Answer<pb::UpdateStatisticsResponse> {
        Ok(records::update_statistics(self, request.into_inner()).await?)
    }

    type CompressStream = Items<pb::CompressResponse>;

    async fn compress(&self, request: Request<pb::CompressRequest>) -> Answer<Self::CompressStream> {
        Ok(compress::compress(self, request).await?)
    }

    type BeginCompactionStream = Items<pb::BeginCompactionResponse>;

    async fn begin_compaction(
        &self,
        request: Request<pb::BeginCompactionRequest>,
    ) -> Answer<Self::BeginCompactionStream> {
        Ok(compress::begin(self, request).await?)
    }

    async fn commit_compaction(
        &self,
        request: Request<pb::CommitCompactionRequest>,
    ) -> Answer<pb::CommitCompactionResponse> {
        Ok(compress::commit(self, request.into_inner()).await?)
    }

    async fn abort_compaction(
        &self,
        request: Request<pb::AbortCompactionRequest>,
    ) -> Answer<pb::AbortCompactionResponse> {
        Ok(compress::abort(self, &request.into_inner()).await?)
    }

    async fn undo_compaction(
        &self,
        request: Request<pb::UndoCompactionRequest>,
    ) -> Answer<pb::UndoCompactionResponse> {
        Ok(compress::undo(self, &request.into_inner()).await?)
    }

    async fn fork_task(&self, request: Request<pb::ForkTaskRequest>) -> Answer<pb::ForkTaskResponse> {
        Ok(inherit::fork(self, request.into_inner()).await?)
    }

    async fn find_previous_contexts(
        &self,
        request: Request<pb::FindPreviousContextsRequest>,
    ) -> Answer<pb::FindPreviousContextsResponse> {
        Ok(inherit::find(self, request.into_inner()).await?)
    }

    async fn get_inheritance_context(
        &self,
        request: Request<pb::GetInheritanceContextRequest>,
    ) -> Answer<pb::GetInheritanceContextResponse> {
        Ok(inherit::context(self, &request.into_inner()).await?)
    }

    type WatchTaskStream = Items<pb::WatchTaskResponse>;

    async fn watch_task(&self, request: Request<pb::WatchTaskRequest>) -> Answer<Self::WatchTaskStream> {
        Ok(follow::watch_task(self, request).await?)
    }
}
