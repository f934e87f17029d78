//! Single messages of a task, and what the view takes of the model's limit.

use contextstore_proto::v1 as pb;
use tonic::Response;

use super::service::{Reply, Service};
use super::{answer, convert};
use crate::model::{Event, TaskId};

pub(super) async fn usage(
    service: &Service,
    request: pb::GetContextUsageRequest,
) -> Reply<pb::GetContextUsageResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let tools = convert::tools(&request.tools_json)?;
    let usage = service.serving.engine.with(|store| store.context_usage(id, tools.as_ref())).await?;
    Ok(Response::new(answer::context_usage(&usage)))
}

pub(super) async fn get(service: &Service, request: pb::GetMessageRequest) -> Reply<pb::GetMessageResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let (record, pinned) = service
        .serving
        .engine
        .with(|store| Ok((store.message(id, request.seq)?, store.is_pinned(id, request.seq)?)))
        .await?;
    Ok(Response::new(pb::GetMessageResponse { record: record.into(), pinned }))
}

pub(super) async fn pin(service: &Service, request: pb::PinMessageRequest) -> Reply<pb::PinMessageResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let event = Event::Pin { seq: request.seq, pinned: true };
    service.change(who, |store, id, caller| store.append_event(id, &event, caller)).await?;
    Ok(Response::new(pb::PinMessageResponse {}))
}

pub(super) async fn unpin(
    service: &Service,
    request: pb::UnpinMessageRequest,
) -> Reply<pb::UnpinMessageResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let event = Event::Pin { seq: request.seq, pinned: false };
    service.change(who, |store, id, caller| store.append_event(id, &event, caller)).await?;
    Ok(Response::new(pb::UnpinMessageResponse {}))
}

pub(super) async fn rewind(
    service: &Service,
    request: pb::RewindTaskRequest,
) -> Reply<pb::RewindTaskResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let seq = convert::from_one("seq", request.seq)?;
    let (id, generation) = service.change(who, |store, id, caller| store.rewind(id, seq, caller)).await?;
    let pressure = answer::pressure(&service.serving.engine.with(|store| store.pressure(id)).await?);
    Ok(Response::new(pb::RewindTaskResponse { generation, pressure: Some(pressure) }))
}
