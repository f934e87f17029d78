//! CompleteTask and FailTask.

use contextstore_app::ending::end;
use contextstore_proto::v1 as pb;
use tonic::Response;

use super::convert;
use super::service::{Reply, Service};
use crate::model::TaskId;
use crate::store::Ending;

pub(super) async fn complete(
    service: &Service,
    request: pb::CompleteTaskRequest,
) -> Reply<pb::CompleteTaskResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let caller = convert::caller(&request.request_id, request.lease_generation)?;
    end(&service.serving.engine, id, Ending::Completed, Some(request.final_summary), caller).await?;
    Ok(Response::new(pb::CompleteTaskResponse { task: service.changed(id).await }))
}

pub(super) async fn fail(service: &Service, request: pb::FailTaskRequest) -> Reply<pb::FailTaskResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let caller = convert::caller(&request.request_id, request.lease_generation)?;
    let ending = Ending::Failed { error_message: request.error_message };
    end(&service.serving.engine, id, ending, Some(request.final_summary), caller).await?;
    Ok(Response::new(pb::FailTaskResponse { task: service.changed(id).await }))
}
