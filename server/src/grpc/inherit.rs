//! Tasks that come from others: forks, and what is taken over from a task that ended.

use contextstore_proto::v1 as pb;
use tonic::{Response, Status};

use super::service::{Answer, Service};
use super::{answer, convert};
use crate::model::TaskId;
use crate::store::ForkTask;

pub(super) async fn fork(service: &Service, request: pb::ForkTaskRequest) -> Answer<pb::ForkTaskResponse> {
    let fork = ForkTask {
        from: TaskId::parse(&request.task_uuid)?,
        at_seq: request.at_seq,
        id: convert::some_id("new_task_uuid", &request.new_task_uuid)?,
        holder: convert::holder(request.holder)?,
        request_id: convert::caller(&request.request_id, 0)?.request_id,
    };
    let forked = service.serving.with(|store| store.fork_task(fork)).await?;
    Ok(Response::new(pb::ForkTaskResponse {
        task: service.changed(forked.id).await,
        lease_generation: forked.lease_generation,
        lease_ttl: Some(answer::duration(service.serving.lease_ttl())),
    }))
}

pub(super) async fn find(
    _: &Service,
    _: pb::FindPreviousContextsRequest,
) -> Answer<pb::FindPreviousContextsResponse> {
    Err(Status::unimplemented(""))
}

pub(super) async fn context(
    _: &Service,
    _: &pb::GetInheritanceContextRequest,
) -> Answer<pb::GetInheritanceContextResponse> {
    Err(Status::unimplemented(""))
}
