//! TrimToolOutputs: trims outputs of tools in the view.

use contextstore_proto::v1 as pb;
use tonic::Response;

use super::answer;
use super::service::Service;
use super::status::Refusal;
use contextstore_app::send;

/// Trims outputs until the rest fits a budget.
pub(super) async fn trim(
    service: &Service,
    request: pb::TrimToolOutputsRequest,
) -> Result<Response<pb::TrimToolOutputsResponse>, Refusal> {
    let who = (request.task_uuid.as_str(), request.request_id.as_str(), request.lease_generation);
    let budget = request.budget_tokens;
    let (id, done) = service.change(who, |store, id, caller| store.trim_outputs(id, budget, caller)).await?;
    send::count_trimmed(&done);
    let pressure = service.serving.engine.with(|store| store.pressure(id)).await?;
    Ok(Response::new(pb::TrimToolOutputsResponse {
        trimmed: done.trimmed,
        tokens_before: done.tokens_before,
        tokens_after: done.tokens_after,
        generation: done.generation,
        duplicate: done.duplicate,
        pressure: Some(answer::pressure(&pressure)),
    }))
}
