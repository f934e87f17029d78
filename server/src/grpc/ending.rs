//! How tasks end: with the final summary that their caller gives, or one that is made for them.

use contextstore_proto::v1 as pb;
use tonic::Response;

use super::convert;
use super::service::{Reply, Service};
use super::status::Refusal;
use crate::hooks::Happened;
use crate::model::TaskId;
use crate::store::{Caller, Ending, Store};

pub(super) async fn complete(
    service: &Service,
    request: pb::CompleteTaskRequest,
) -> Reply<pb::CompleteTaskResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let caller = convert::caller(&request.request_id, request.lease_generation)?;
    if let Some(own) = given(request.final_summary) {
        service.serving.with(|store| store.complete_task(id, Some(own), &caller)).await?;
        service.serving.tell(Happened::Completed, id).await;
    } else {
        summarized(service, id, Ending::Completed, caller).await?;
    }
    Ok(Response::new(pb::CompleteTaskResponse { task: service.changed(id).await }))
}

pub(super) async fn fail(service: &Service, request: pb::FailTaskRequest) -> Reply<pb::FailTaskResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let caller = convert::caller(&request.request_id, request.lease_generation)?;
    let error = request.error_message;
    if let Some(own) = given(request.final_summary) {
        service.serving.with(|store| store.fail_task(id, error, Some(own), &caller)).await?;
        service.serving.tell(Happened::Failed, id).await;
    } else {
        summarized(service, id, Ending::Failed { error_message: error }, caller).await?;
    }
    Ok(Response::new(pb::FailTaskResponse { task: service.changed(id).await }))
}

/// A summary that says something.
fn given(summary: String) -> Option<String> {
    Some(summary).filter(|summary| !summary.trim().is_empty())
}

/// Ends a task with a summary that is made for it. Goes on if the caller goes away, so that a retry finds it done rather
/// than asking a model again.
async fn summarized(service: &Service, id: TaskId, ending: Ending, caller: Caller) -> Result<(), Refusal> {
    let service = service.clone();
    let ended = tokio::spawn(async move {
        let compressor = &service.serving.compressor;
        let _turn = compressor.turn_to_end(id).await;
        let binding = service.serving.with(|store| store.bind(id)).await?;
        let before = |store: &Store| store.ended_before(id, &ending, &caller);
        if service.serving.with_bound(&binding, before).await? {
            return Ok(());
        }
        let store = service.serving.store().bound(&binding);
        let completed = ending == Ending::Completed;
        let made = async {
            if completed {
                // What the final summary is made of is then small, and what is left of the view is in order.
                compressor.if_due(&store, id, false).await;
            }
            // A model is asked at a good end only: after a bad one there may be more to do in a hurry.
            compressor.final_summary(&store, id, completed).await
        };
        let made = service.serving.held(id, caller.lease_generation, made).await;
        let end = |store: &Store| store.end_task(id, &ending, made, &caller);
        service.serving.with_bound(&binding, end).await?;
        let happened = if completed { Happened::Completed } else { Happened::Failed };
        service.serving.tell(happened, id).await;
        Ok(())
    });
    ended.await.map_err(|error| Refusal::Internal(format!("ending a task: {error}")))?
}
