//! Tasks: start, resume, pause, update, delete, leases, and what is known of them.

use contextstore_proto::v1 as pb;
use tokio::task::block_in_place;
use tonic::Response;

use super::service::{Reply, Service};
use super::{answer, convert, enums, inherit};
use crate::hooks::HookTrigger;
use crate::model::{InheritedFrom, InvalidField, TaskId};
use crate::store::{Beginning, StartTask, Store};

pub(super) async fn start(service: &Service, request: pb::StartTaskRequest) -> Reply<pb::StartTaskResponse> {
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
        inherit: inherit::wanted(request.inherit.as_ref())?,
        system_message: convert::some(request.system_message),
    };
    let lease = caller.lease_generation;
    let started =
        service.serving.engine.with(|store| store.start_task_with(start, lease, &beginning)).await?;
    let from = started.inherited_from;
    if started.created {
        service.serving.engine.notify(HookTrigger::Started, started.id).await;
    } else {
        // Whoever had it before has nothing to bring.
        service.serving.engine.compressor.left(&service.serving.engine.store(), started.id);
    }
    Ok(Response::new(pb::StartTaskResponse {
        task: service.changed(started.id).await,
        lease_generation: started.lease_generation,
        created: started.created,
        lease_ttl: Some(answer::duration(service.serving.engine.lease_ttl())),
        inherited_from: from.as_ref().map(|from| from.uuid.to_string()).unwrap_or_default(),
        inheritance_comment: from.as_ref().map(InheritedFrom::comment).unwrap_or_default(),
    }))
}

pub(super) async fn resume(
    service: &Service,
    request: pb::ResumeTaskRequest,
) -> Reply<pb::ResumeTaskResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let holder = convert::holder(request.holder.clone())?;
    let (id, lease_generation) =
        service.change(who, |store, id, caller| store.resume_task(id, holder, caller)).await?;
    Ok(Response::new(pb::ResumeTaskResponse {
        task: service.trigger(HookTrigger::Resumed, id).await,
        lease_generation,
        lease_ttl: Some(answer::duration(service.serving.engine.lease_ttl())),
    }))
}

pub(super) async fn pause(service: &Service, request: pb::PauseTaskRequest) -> Reply<pb::PauseTaskResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let (id, ()) = service.change(who, Store::pause_task).await?;
    Ok(Response::new(pb::PauseTaskResponse { task: service.trigger(HookTrigger::Paused, id).await }))
}

pub(super) async fn update(
    service: &Service,
    request: pb::UpdateTaskRequest,
) -> Reply<pb::UpdateTaskResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let config = request.config.ok_or_else(|| InvalidField::new("config", "is missing"))?;
    let config = convert::config(config)?;
    let (id, ()) = service.change(who, |store, id, caller| store.update_config(id, config, caller)).await?;
    Ok(Response::new(pb::UpdateTaskResponse { task: service.changed(id).await }))
}

pub(super) async fn delete(
    service: &Service,
    request: pb::DeleteTaskRequest,
) -> Reply<pb::DeleteTaskResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let (id, ()) = service.change(who, Store::delete_task).await?;
    block_in_place(|| service.serving.engine.compressor.deleted(id));
    Ok(Response::new(pb::DeleteTaskResponse {}))
}

pub(super) async fn renew_lease(
    service: &Service,
    request: pb::RenewLeaseRequest,
) -> Reply<pb::RenewLeaseResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let lives = service.serving.engine.with(|store| store.renew_lease(id, request.lease_generation)).await?;
    Ok(Response::new(pb::RenewLeaseResponse { lease_ttl: Some(answer::duration(lives)) }))
}

pub(super) async fn get(service: &Service, request: pb::GetTaskRequest) -> Reply<pb::GetTaskResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let info = service.serving.engine.info(id).await?;
    let mut task = answer::task(&info, service.serving.engine.lease_ttl(), service.serving.clock.now());
    task.final_summary =
        service.serving.engine.with(|store| store.final_summary(id)).await?.unwrap_or_default();
    Ok(Response::new(pb::GetTaskResponse {
        task: Some(task),
        pressure: Some(answer::pressure(&info.pressure)),
    }))
}

pub(super) async fn list(service: &Service, request: pb::ListTasksRequest) -> Reply<pb::ListTasksResponse> {
    const MOST: u32 = 1000;
    let filter = convert::filter(request.filter)?;
    let order = enums::some("order", request.order)?.unwrap_or_default();
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
        service.serving.engine.with(|store| store.list_tasks(&filter, order, size, token.as_deref())).await?;
    Ok(Response::new(pb::ListTasksResponse {
        tasks: page.rows.into_iter().map(answer::listed).collect(),
        next_page_token: page.next.unwrap_or_default(),
    }))
}
