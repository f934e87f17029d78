//! Tasks that come from others: forks, and what is taken over from a task that ended.

use contextstore_proto::v1 as pb;
use tonic::Status;

use super::service::{Answer, Service};

pub(super) async fn fork(_: &Service, _: pb::ForkTaskRequest) -> Answer<pb::ForkTaskResponse> {
    Err(Status::unimplemented(""))
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
