//! Compressing on demand, by the agent itself, and taking it back.

use contextstore_proto::v1 as pb;
use tonic::{Request, Status};

use super::paced::Items;
use super::service::{Answer, Service};

pub(super) async fn compress(
    _: &Service,
    _: Request<pb::CompressRequest>,
) -> Answer<Items<pb::CompressResponse>> {
    Err(Status::unimplemented(""))
}

pub(super) async fn begin(
    _: &Service,
    _: Request<pb::BeginCompactionRequest>,
) -> Answer<Items<pb::BeginCompactionResponse>> {
    Err(Status::unimplemented(""))
}

pub(super) async fn commit(
    _: &Service,
    _: pb::CommitCompactionRequest,
) -> Answer<pb::CommitCompactionResponse> {
    Err(Status::unimplemented(""))
}

pub(super) async fn abort(
    _: &Service,
    _: &pb::AbortCompactionRequest,
) -> Answer<pb::AbortCompactionResponse> {
    Err(Status::unimplemented(""))
}

pub(super) async fn undo(_: &Service, _: &pb::UndoCompactionRequest) -> Answer<pb::UndoCompactionResponse> {
    Err(Status::unimplemented(""))
}
