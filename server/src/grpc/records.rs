//! What agents report beside messages (tool calls, plans, usage, statistics), and the newest plan and summary.

use contextstore_proto::v1 as pb;
use tonic::Response;

use super::service::{Reply, Service};
use super::status::Refusal;
use super::{answer, convert};
use crate::model::{Event, Plan, TaskId};

pub(super) async fn record_tool_call(
    service: &Service,
    request: pb::RecordToolCallRequest,
) -> Reply<pb::RecordToolCallResponse> {
    let who = (&*request.task_uuid.clone(), &*request.request_id.clone(), request.lease_generation);
    let call = convert::tool_call(request)?;
    let (id, recorded) =
        service.change(who, |store, id, caller| store.record_tool_call(id, &call, caller)).await?;
    service.serving.engine.keep_small(id, &service.serving.engine.with(|store| store.pressure(id)).await?);
    Ok(Response::new(pb::RecordToolCallResponse {
        seq: recorded.number,
        duplicate: recorded.duplicate,
        masked: answer::masked(&recorded.masked),
    }))
}

pub(super) async fn append_plan(
    service: &Service,
    request: pb::AppendPlanRequest,
) -> Reply<pb::AppendPlanResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let plan_content = convert::required_json("plan_content_json", &request.plan_content_json)?;
    let plan = Plan { plan_type: request.plan_type, plan_content };
    let (_, recorded) = service.change(who, |store, id, caller| store.append_plan(id, &plan, caller)).await?;
    Ok(Response::new(pb::AppendPlanResponse {
        id: recorded.number,
        duplicate: recorded.duplicate,
        masked: answer::masked(&recorded.masked),
    }))
}

pub(super) async fn get_latest_plan(
    service: &Service,
    request: pb::GetLatestPlanRequest,
) -> Reply<pb::GetLatestPlanResponse> {
    let task = TaskId::parse(&request.task_uuid)?;
    let found = service.serving.engine.with(|store| store.latest_plan(task)).await?;
    let (id, plan, at) = found.ok_or(Refusal::PlanNotFound(task))?;
    Ok(Response::new(pb::GetLatestPlanResponse {
        id,
        plan_type: plan.plan_type,
        plan_content_json: plan.plan_content.as_str().to_owned(),
        create_time: Some(answer::timestamp(at)),
    }))
}

pub(super) async fn get_latest_summary(
    service: &Service,
    request: pb::GetLatestSummaryRequest,
) -> Reply<pb::GetLatestSummaryResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let found = service.serving.engine.with(|store| store.latest_summary(id)).await?;
    let summary = answer::summary(found.ok_or(Refusal::SummaryNotFound(id))?);
    Ok(Response::new(pb::GetLatestSummaryResponse { summary: Some(summary) }))
}

pub(super) async fn record_usage(
    service: &Service,
    request: pb::RecordUsageRequest,
) -> Reply<pb::RecordUsageResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let event = convert::usage(&request)?;
    let (id, ()) = service.change(who, |store, id, caller| store.append_event(id, &event, caller)).await?;
    let pressure = service.serving.engine.with(|store| store.pressure(id)).await?;
    service.serving.engine.keep_small(id, &pressure);
    Ok(Response::new(pb::RecordUsageResponse { pressure: Some(answer::pressure(&pressure)) }))
}

pub(super) async fn update_statistics(
    service: &Service,
    request: pb::UpdateStatisticsRequest,
) -> Reply<pb::UpdateStatisticsResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let event = Event::Statistics {
        llm_calls: convert::number("llm_calls", request.llm_calls)?,
        tool_calls: convert::number("tool_calls", request.tool_calls)?,
        tokens: convert::number("tokens", request.tokens)?,
        compressions: convert::number("compressions", request.compressions)?,
    };
    let (id, ()) = service.change(who, |store, id, caller| store.append_event(id, &event, caller)).await?;
    let statistics = answer::statistics(&service.serving.engine.info(id).await?);
    Ok(Response::new(pb::UpdateStatisticsResponse { statistics: Some(statistics) }))
}
