//! Outputs of tools that became too many for the view: trimmed when somebody asks, and by themselves.

use contextstore_proto::v1 as pb;
use tonic::Response;

use super::answer;
use super::service::Service;
use super::status::Refusal;
use crate::infra::metrics;
use crate::model::TaskId;
use crate::store::{Store, TrimOutcome};

/// Trims outputs until the rest fits a budget.
pub(super) async fn trim(
    service: &Service,
    request: pb::TrimToolOutputsRequest,
) -> Result<Response<pb::TrimToolOutputsResponse>, Refusal> {
    let who = (request.task_uuid.as_str(), request.request_id.as_str(), request.lease_generation);
    let budget = request.budget_tokens;
    let (id, done) = service.change(who, |store, id, caller| store.trim_outputs(id, budget, caller)).await?;
    count(&done);
    let pressure = service.serving.with(|store| store.pressure(id)).await?;
    Ok(Response::new(pb::TrimToolOutputsResponse {
        trimmed: done.trimmed,
        tokens_before: done.tokens_before,
        tokens_after: done.tokens_after,
        generation: done.generation,
        duplicate: done.duplicate,
        pressure: Some(answer::pressure(&pressure)),
    }))
}

/// Trims outputs if they have passed their budget. Should it fail, the view is as it was.
pub(super) fn if_due(store: &Store, id: TaskId) {
    match store.trim_if_due(id) {
        Ok(Some(done)) => {
            count(&done);
            let TrimOutcome { trimmed, tokens_before, tokens_after, generation, .. } = done;
            tracing::info!(%id, generation, trimmed, tokens_before, tokens_after, "old outputs were trimmed");
        }
        Ok(None) => {}
        // A task that does not run, or a rewrite that is going on: the next output tries again.
        Err(error) => tracing::debug!(%id, %error, "old outputs could not be trimmed"),
    }
}

fn count(done: &TrimOutcome) {
    if done.trimmed > 0 {
        metrics::outputs_trimmed(done.trimmed);
    }
}
