//! The methods of `contextstore.v1.ContextStore`: parse, ask the store, answer.

use std::future::Future;
use std::sync::Arc;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::context_store_server::ContextStore;
use futures_util::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::block_in_place;
use tonic::{Request, Response, Status, Streaming};

use super::follow;
use super::intake::Held;
use super::paced::Items;
use super::peer::{Connection, Peer};
use super::serving::Serving;
use super::status::Refusal;
use super::token::Place;
use super::{answer, append, chat, compress, convert, ending, info, inherit, records, request, streams};
use crate::hooks::Happened;
use crate::infra::metrics;
use crate::model::{Event, InheritedFrom, InvalidField, StoreError, TaskId, TaskOrder};
use crate::store::{Beginning, Caller, StartTask, Store};

/// The service.
#[derive(Clone)]
pub(crate) struct Service {
    pub(super) serving: Arc<Serving>,
}

pub(super) type Answer<T> = Result<Response<T>, Status>;

impl Service {
    pub(crate) fn new(serving: Arc<Serving>) -> Self {
        Self { serving }
    }

    /// Changes a task.
    pub(super) async fn change<T>(
        &self,
        (task_uuid, request_id, lease_generation): (&str, &str, u64),
        act: impl FnOnce(&Store, TaskId, &Caller) -> Result<T, StoreError>,
    ) -> Result<(TaskId, T), Status> {
        let id = TaskId::parse(task_uuid)?;
        let caller = convert::caller(request_id, lease_generation)?;
        self.serving.with(|store| act(store, id, &caller)).await.map(|done| (id, done))
    }

    /// Gives a stream to its reader, at the reader's pace.
    pub(super) async fn stream<T, S, R>(
        &self,
        request: &Request<R>,
        make: impl Future<Output = Result<S, Status>> + Send,
    ) -> Answer<Items<T>>
    where
        S: Stream<Item = Result<T, Status>> + Send + Unpin + 'static,
        T: Send + 'static,
        R: Sync,
    {
        let place = self.place()?;
        let line = line(request)?;
        Ok(self.serving.pace.answer(make.await?, Some(place), line))
    }

    /// A place for one more stream.
    fn place(&self) -> Result<OwnedSemaphorePermit, Status> {
        Ok(self.serving.pace.place().inspect_err(|_| metrics::rejected("read_streams"))?)
    }

    /// A task to which something has happened that others may be told.
    pub(super) async fn happened(&self, happened: Happened, id: TaskId) -> Option<pb::Task> {
        self.serving.tell(happened, id).await;
        self.changed(id).await
    }

    /// A task that was changed. What fails here does not undo that: then only its id is told.
    pub(super) async fn changed(&self, id: TaskId) -> Option<pb::Task> {
        let told = self.serving.info(id).await;
        let told = told.map(|info| answer::task(&info, self.serving.lease_ttl(), self.serving.clock.now()));
        Some(told.unwrap_or_else(|_| pb::Task { uuid: id.to_string(), ..pb::Task::default() }))
    }
}

/// The connection that a call came on.
fn line<R>(request: &Request<R>) -> Result<Arc<Connection>, Status> {
    let peer = request.extensions().get::<Peer>();
    let line = peer.map(|peer| Arc::clone(&peer.line));
    line.ok_or_else(|| Refusal::Internal("a call without a connection".to_owned()).into())
}

#[tonic::async_trait]
impl ContextStore for Service {
    async fn start_task(&self, request: Request<pb::StartTaskRequest>) -> Answer<pb::StartTaskResponse> {
        let request = request.into_inner();
        let id = if request.task_uuid.is_empty() { None } else { Some(TaskId::parse(&request.task_uuid)?) };
        let caller = convert::caller(&request.request_id, request.lease_generation)?;
        let start = StartTask {
            id,
            key: convert::key(request.key),
            user: request.user,
            config: convert::config(request.config.unwrap_or_default())?,
            holder: convert::holder(request.holder)?,
            request_id: caller.request_id,
        };
        let beginning = Beginning {
            inherit: inherit::wanted(&request.inherit)?,
            system_message: convert::some(request.system_message),
        };
        let lease = caller.lease_generation;
        let started = self.serving.with(|store| store.start_task_with(start, lease, &beginning)).await?;
        let from = started.inherited_from;
        if started.created {
            self.serving.tell(Happened::Started, started.id).await;
        } else {
            // Whoever had it before has nothing to bring.
            self.serving.compressor.left(&self.serving.store(), started.id);
        }
        Ok(Response::new(pb::StartTaskResponse {
            task: self.changed(started.id).await,
            lease_generation: started.lease_generation,
            created: started.created,
            lease_ttl: Some(answer::duration(self.serving.lease_ttl())),
            inherited_from: from.as_ref().map(|from| from.uuid.to_string()).unwrap_or_default(),
            inheritance_comment: from.as_ref().map(InheritedFrom::comment).unwrap_or_default(),
        }))
    }

    async fn resume_task(&self, request: Request<pb::ResumeTaskRequest>) -> Answer<pb::ResumeTaskResponse> {
        let request = request.into_inner();
        let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
        let holder = convert::holder(request.holder.clone())?;
        let (id, lease_generation) =
            self.change(who, |store, id, caller| store.resume_task(id, holder, caller)).await?;
        Ok(Response::new(pb::ResumeTaskResponse {
            task: self.happened(Happened::Resumed, id).await,
            lease_generation,
            lease_ttl: Some(answer::duration(self.serving.lease_ttl())),
        }))
    }

    async fn pause_task(&self, request: Request<pb::PauseTaskRequest>) -> Answer<pb::PauseTaskResponse> {
        let request = request.into_inner();
        let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
        let (id, ()) = self.change(who, Store::pause_task).await?;
        Ok(Response::new(pb::PauseTaskResponse { task: self.happened(Happened::Paused, id).await }))
    }

    async fn complete_task(
        &self,
        request: Request<pb::CompleteTaskRequest>,
    ) -> Answer<pb::CompleteTaskResponse> {
        ending::complete(self, request.into_inner()).await
    }

    async fn fail_task(&self, request: Request<pb::FailTaskRequest>) -> Answer<pb::FailTaskResponse> {
        ending::fail(self, request.into_inner()).await
    }

    async fn update_task(&self, request: Request<pb::UpdateTaskRequest>) -> Answer<pb::UpdateTaskResponse> {
        let request = request.into_inner();
        let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
        let config = request.config.ok_or_else(|| InvalidField::new("config", "is missing"))?;
        let config = convert::config(config)?;
        let (id, ()) = self.change(who, |store, id, caller| store.update_config(id, config, caller)).await?;
        Ok(Response::new(pb::UpdateTaskResponse { task: self.changed(id).await }))
    }

    async fn delete_task(&self, request: Request<pb::DeleteTaskRequest>) -> Answer<pb::DeleteTaskResponse> {
        let request = request.into_inner();
        let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
        let (id, ()) = self.change(who, Store::delete_task).await?;
        block_in_place(|| self.serving.compressor.deleted(id));
        Ok(Response::new(pb::DeleteTaskResponse {}))
    }

    async fn renew_lease(&self, request: Request<pb::RenewLeaseRequest>) -> Answer<pb::RenewLeaseResponse> {
        let request = request.into_inner();
        let id = TaskId::parse(&request.task_uuid)?;
        let lives = self.serving.with(|store| store.renew_lease(id, request.lease_generation)).await?;
        Ok(Response::new(pb::RenewLeaseResponse { lease_ttl: Some(answer::duration(lives)) }))
    }

    async fn get_task(&self, request: Request<pb::GetTaskRequest>) -> Answer<pb::GetTaskResponse> {
        let id = TaskId::parse(&request.into_inner().task_uuid)?;
        let info = self.serving.info(id).await?;
        let mut task = answer::task(&info, self.serving.lease_ttl(), self.serving.clock.now());
        task.final_summary = self.serving.with(|store| store.final_summary(id)).await?.unwrap_or_default();
        Ok(Response::new(pb::GetTaskResponse {
            task: Some(task),
            pressure: Some(answer::pressure(&info.pressure)),
        }))
    }

    async fn list_tasks(&self, request: Request<pb::ListTasksRequest>) -> Answer<pb::ListTasksResponse> {
        const MOST: u32 = 1000;
        let request = request.into_inner();
        let filter = convert::filter(request.filter)?;
        let order: TaskOrder = convert::order(&request.order)?;
        let size = match request.page_size {
            0 => 100,
            size if size > MOST => {
                let problem = format!("is {size}; at most {MOST} is allowed");
                return Err(InvalidField::new("page_size", problem).into());
            }
            size => size as usize,
        };
        let token = convert::some(request.page_token);
        let page =
            self.serving.with(|store| store.list_tasks(&filter, order, size, token.as_deref())).await?;
        Ok(Response::new(pb::ListTasksResponse {
            tasks: page.rows.into_iter().map(answer::listed).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
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
        append::one(&self.serving, request.into_inner()).await.map(Response::new)
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
        let request = request.into_inner();
        let id = TaskId::parse(&request.task_uuid)?;
        let tools = convert::tools(&request.tools_json)?;
        let usage = self.serving.with(|store| store.context_usage(id, tools.as_ref())).await?;
        Ok(Response::new(answer::context_usage(&usage)))
    }

    type StreamRequestStream = Items<pb::StreamRequestResponse>;

    async fn stream_request(
        &self,
        request: Request<pb::StreamRequestRequest>,
    ) -> Answer<Self::StreamRequestStream> {
        self.stream(&request, request::pieces(&self.serving, request.get_ref())).await
    }

    async fn get_message(&self, request: Request<pb::GetMessageRequest>) -> Answer<pb::GetMessageResponse> {
        let request = request.into_inner();
        let id = TaskId::parse(&request.task_uuid)?;
        let (record, pinned) = self
            .serving
            .with(|store| Ok((store.message(id, request.seq)?, store.is_pinned(id, request.seq)?)))
            .await?;
        Ok(Response::new(pb::GetMessageResponse { record: record.into(), pinned }))
    }

    async fn pin_message(&self, request: Request<pb::PinMessageRequest>) -> Answer<pb::PinMessageResponse> {
        let request = request.into_inner();
        let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
        let event = Event::Pin { seq: request.seq, pinned: true };
        self.change(who, |store, id, caller| store.append_event(id, &event, caller)).await?;
        Ok(Response::new(pb::PinMessageResponse {}))
    }

    async fn unpin_message(
        &self,
        request: Request<pb::UnpinMessageRequest>,
    ) -> Answer<pb::UnpinMessageResponse> {
        let request = request.into_inner();
        let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
        let event = Event::Pin { seq: request.seq, pinned: false };
        self.change(who, |store, id, caller| store.append_event(id, &event, caller)).await?;
        Ok(Response::new(pb::UnpinMessageResponse {}))
    }

    async fn rewind_task(&self, request: Request<pb::RewindTaskRequest>) -> Answer<pb::RewindTaskResponse> {
        let request = request.into_inner();
        let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
        let seq = convert::from_one("seq", request.seq)?;
        let (id, generation) = self.change(who, |store, id, caller| store.rewind(id, seq, caller)).await?;
        let pressure = answer::pressure(&self.serving.with(|store| store.pressure(id)).await?);
        Ok(Response::new(pb::RewindTaskResponse { generation, pressure: Some(pressure) }))
    }

    type StreamCurrentStream = Items<pb::StreamCurrentResponse>;

    async fn stream_current(
        &self,
        request: Request<pb::StreamCurrentRequest>,
    ) -> Answer<Self::StreamCurrentStream> {
        self.stream(&request, streams::current(&self.serving, request.get_ref())).await
    }

    type StreamMessagesStream = Items<pb::StreamMessagesResponse>;

    async fn stream_messages(
        &self,
        request: Request<pb::StreamMessagesRequest>,
    ) -> Answer<Self::StreamMessagesStream> {
        self.stream(&request, streams::messages(&self.serving, request.get_ref())).await
    }

    async fn record_tool_call(
        &self,
        request: Request<pb::RecordToolCallRequest>,
    ) -> Answer<pb::RecordToolCallResponse> {
        records::record_tool_call(self, request.into_inner()).await
    }

    type StreamToolCallsStream = Items<pb::StreamToolCallsResponse>;

    async fn stream_tool_calls(
        &self,
        request: Request<pb::StreamToolCallsRequest>,
    ) -> Answer<Self::StreamToolCallsStream> {
        self.stream(&request, streams::tool_calls(&self.serving, request.get_ref())).await
    }

    async fn append_plan(&self, request: Request<pb::AppendPlanRequest>) -> Answer<pb::AppendPlanResponse> {
        records::append_plan(self, request.into_inner()).await
    }

    async fn get_latest_plan(
        &self,
        request: Request<pb::GetLatestPlanRequest>,
    ) -> Answer<pb::GetLatestPlanResponse> {
        records::get_latest_plan(self, request.into_inner()).await
    }

    type StreamPlansStream = Items<pb::StreamPlansResponse>;

    async fn stream_plans(
        &self,
        request: Request<pb::StreamPlansRequest>,
    ) -> Answer<Self::StreamPlansStream> {
        self.stream(&request, streams::plans(&self.serving, request.get_ref())).await
    }

    async fn get_latest_summary(
        &self,
        request: Request<pb::GetLatestSummaryRequest>,
    ) -> Answer<pb::GetLatestSummaryResponse> {
        records::get_latest_summary(self, request.into_inner()).await
    }

    type StreamSummariesStream = Items<pb::StreamSummariesResponse>;

    async fn stream_summaries(
        &self,
        request: Request<pb::StreamSummariesRequest>,
    ) -> Answer<Self::StreamSummariesStream> {
        self.stream(&request, streams::summaries(&self.serving, request.get_ref())).await
    }

    async fn record_usage(
        &self,
        request: Request<pb::RecordUsageRequest>,
    ) -> Answer<pb::RecordUsageResponse> {
        records::record_usage(self, request.into_inner()).await
    }

    async fn update_statistics(
        &self,
        request: Request<pb::UpdateStatisticsRequest>,
    ) -> Answer<pb::UpdateStatisticsResponse> {
        records::update_statistics(self, request.into_inner()).await
    }

    type CompressStream = Items<pb::CompressResponse>;

    async fn compress(&self, request: Request<pb::CompressRequest>) -> Answer<Self::CompressStream> {
        compress::compress(self, request).await
    }

    type BeginCompactionStream = Items<pb::BeginCompactionResponse>;

    async fn begin_compaction(
        &self,
        request: Request<pb::BeginCompactionRequest>,
    ) -> Answer<Self::BeginCompactionStream> {
        compress::begin(self, request).await
    }

    async fn commit_compaction(
        &self,
        request: Request<pb::CommitCompactionRequest>,
    ) -> Answer<pb::CommitCompactionResponse> {
        compress::commit(self, request.into_inner()).await
    }

    async fn abort_compaction(
        &self,
        request: Request<pb::AbortCompactionRequest>,
    ) -> Answer<pb::AbortCompactionResponse> {
        compress::abort(self, &request.into_inner()).await
    }

    async fn undo_compaction(
        &self,
        request: Request<pb::UndoCompactionRequest>,
    ) -> Answer<pb::UndoCompactionResponse> {
        compress::undo(self, &request.into_inner()).await
    }

    async fn fork_task(&self, request: Request<pb::ForkTaskRequest>) -> Answer<pb::ForkTaskResponse> {
        inherit::fork(self, request.into_inner()).await
    }

    async fn find_previous_contexts(
        &self,
        request: Request<pb::FindPreviousContextsRequest>,
    ) -> Answer<pb::FindPreviousContextsResponse> {
        inherit::find(self, request.into_inner()).await
    }

    async fn get_inheritance_context(
        &self,
        request: Request<pb::GetInheritanceContextRequest>,
    ) -> Answer<pb::GetInheritanceContextResponse> {
        inherit::context(self, &request.into_inner()).await
    }

    type WatchTaskStream = Items<pb::WatchTaskResponse>;

    async fn watch_task(&self, request: Request<pb::WatchTaskRequest>) -> Answer<Self::WatchTaskStream> {
        let asked = request.get_ref();
        let id = TaskId::parse(&asked.task_uuid)?;
        let from = Place::parse(&asked.resume_token)?;
        let mut begins = None;
        let response = self.stream(&request, async {
            let (place, events) = follow::watch(Arc::clone(&self.serving), id, from).await?;
            begins = Some(place);
            Ok(Box::pin(events))
        });
        let mut response = response.await?;
        if let Some(token) = begins.and_then(|place: Place| place.to_string().parse().ok()) {
            response.metadata_mut().insert("resume-token", token);
        }
        Ok(response)
    }
}
