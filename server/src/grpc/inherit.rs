//! Tasks that come from others: forks, and what is taken over from a task that ended.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::start_task_request::Inherit as WantedInherit;
use tonic::Response;

use super::service::{Reply, Service};
use super::{answer, convert, enums};
use crate::context::LEAST_INHERITED_TOKENS;
use crate::hooks::HookTrigger;
use crate::model::{InvalidField, TaskId, plain_text};
use crate::store::{ForkTask, Inherit, Previous};

pub(super) async fn fork(service: &Service, request: pb::ForkTaskRequest) -> Reply<pb::ForkTaskResponse> {
    let fork = ForkTask {
        from: TaskId::parse(&request.task_uuid)?,
        at_seq: request.at_seq,
        id: convert::some_id("new_task_uuid", &request.new_task_uuid)?,
        holder: convert::holder(request.holder)?,
        request_id: convert::caller(&request.request_id, 0)?.request_id,
    };
    let forked = service.serving.engine.with(|store| store.fork_task(fork)).await?;
    if forked.created {
        service.serving.engine.notify(HookTrigger::Started, forked.id).await;
    }
    Ok(Response::new(pb::ForkTaskResponse {
        task: service.changed(forked.id).await,
        lease_generation: forked.lease_generation,
        lease_ttl: Some(answer::duration(service.serving.engine.lease_ttl())),
    }))
}

/// What a new task is to take over.
pub(super) fn wanted(inherit: Option<&WantedInherit>) -> Result<Inherit, InvalidField> {
    const FROM: &str = "inherit_from";
    match inherit {
        None => Ok(Inherit::Auto),
        Some(WantedInherit::InheritMode(mode)) => match enums::wire("inherit_mode", *mode)? {
            pb::InheritMode::Unspecified | pb::InheritMode::Auto => Ok(Inherit::Auto),
            pb::InheritMode::Never => Ok(Inherit::Never),
        },
        Some(WantedInherit::InheritFrom(id)) => {
            convert::some_id(FROM, id)?.map(Inherit::From).ok_or_else(|| InvalidField::new(FROM, "is empty"))
        }
    }
}

pub(super) async fn find(
    service: &Service,
    request: pb::FindPreviousContextsRequest,
) -> Reply<pb::FindPreviousContextsResponse> {
    const MOST: u32 = 100;
    let limit = match request.limit {
        0 => 10,
        limit if limit > MOST => {
            let problem = format!("is {limit}; at most {MOST} is allowed");
            return Err(InvalidField::new("limit", problem).into());
        }
        limit => limit as usize,
    };
    let (key, user) = (convert::key(request.key), request.user);
    key.validate()?;
    plain_text("user", &user)?;
    let found = service.serving.engine.with(|store| store.previous_contexts(&key, &user, limit)).await?;
    let contexts = found.iter().map(previous).collect();
    Ok(Response::new(pb::FindPreviousContextsResponse { contexts }))
}

pub(super) async fn context(
    service: &Service,
    request: &pb::GetInheritanceContextRequest,
) -> Reply<pb::GetInheritanceContextResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let max_tokens = match request.max_summary_tokens {
        0 => None,
        few if few < LEAST_INHERITED_TOKENS => {
            let problem = format!("is {few}; it must be 0 or at least {LEAST_INHERITED_TOKENS}");
            return Err(InvalidField::new("max_summary_tokens", problem).into());
        }
        tokens => Some(tokens),
    };
    let found = service.serving.engine.with(|store| store.inheritance_context(id, max_tokens)).await?;
    Ok(Response::new(pb::GetInheritanceContextResponse {
        context: Some(previous(&found.previous)),
        comment: found.previous.from.comment(),
        text: found.inheritance.text,
        tokens: found.inheritance.tokens,
        truncated: found.inheritance.truncated,
    }))
}

fn previous(previous: &Previous) -> pb::PreviousContext {
    pb::PreviousContext {
        task_uuid: previous.from.uuid.to_string(),
        status: enums::number(previous.from.status),
        complete_time: Some(answer::timestamp(previous.from.completed_at)),
        has_final_summary: previous.has_final_summary,
    }
}
