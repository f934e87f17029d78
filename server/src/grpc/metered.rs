//! Answers on their way out: counted with their code and time when they are done, and watched for whether they are
//! taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body as _, Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};

use super::intake::Held;
use super::methods::Method;
use super::paced::{Pace, Rest, Taken};
use super::peer::{Connection, OpenCall};
use crate::infra::metrics;

/// The body of an answer.
pub(crate) struct Metered {
    body: Body,
    call: Option<Call>,
    /// What the call has of the bytes in flight; it is given back with the answer.
    held: Arc<Held>,
    keeper: Option<Keeper>,
    /// What is left of a large answer.
    rest: Option<Arc<Rest>>,
    /// Of a stream.
    taken: Option<Arc<Taken>>,
    /// Of a call that anybody may make; counted until the answer has ended.
    _open_call: Option<OpenCall>,
}

/// An answer that is larger goes out in pieces, so that what its reader has not taken is here, where it is bounded,
/// and not in the transport, where it is not.
const WHOLE_BYTES: usize = 512 << 10;
/// The size of a piece.
const PIECE_BYTES: usize = 256 << 10;

/// Who keeps what is left of a large answer, and for which connection.
pub(super) struct Keeper {
    pub(super) pace: Arc<Pace>,
    pub(super) line: Arc<Connection>,
}

/// A call that is not done yet.
#[derive(Debug)]
struct Call {
    method: Method,
    started: Instant,
}

impl Metered {
    pub(super) fn wrap(
        mut response: Response<Body>,
        method: Method,
        started: Instant,
        held: Arc<Held>,
        keeper: Option<Keeper>,
        open_call: Option<OpenCall>,
    ) -> Response<Self> {
        let mut call = Some(Call { method, started });
        // An error without a body has its code among the headers.
        if let Some(code) = code(response.headers()) {
            finish(&mut call, code);
        }
        let taken = response.extensions_mut().remove();
        response.map(|body| Self { body, call, held, keeper, rest: None, taken, _open_call: open_call })
    }
}

fn code(headers: &HeaderMap) -> Option<Code> {
    Status::from_header_map(headers).map(|status| status.code())
}

fn code_word(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

fn finish(call: &mut Option<Call>, code: Code) {
    if let Some(Call { method, started }) = call.take() {
        metrics::request_ended(method.service, method.name, code_word(code), started.elapsed());
    }
}

impl http_body::Body for Metered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = self.poll_piece(context);
        if let Some(taken) = &self.taken {
            // Nobody asks for more before there is room for it.
            if matches!(polled, Poll::Ready(Some(Ok(_)))) { taken.hand_out() } else { taken.wait() }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

impl Metered {
    /// The next frame, or the next piece of a large one.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(piece) = self.rest.as_ref().and_then(|rest| rest.next(PIECE_BYTES)) {
            return Poll::Ready(Some(piece.map(Frame::data)));
        }
        self.rest = None;
        let mut polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && let Some(data) = frame.data_mut().filter(|data| data.len() > WHOLE_BYTES)
            && let Some(keeper) = &self.keeper
        {
            let first = data.split_to(PIECE_BYTES);
            let (rest, line) = (std::mem::replace(data, first), Arc::clone(&keeper.line));
            let (kept, keep) = (self.held.keep(rest.len()), keeper.pace.rest(rest, line));
            self.rest = Some(keep);
            if let Err(status) = kept {
                polled = Poll::Ready(Some(Err(status)));
            }
        }
        if let Poll::Ready(frame) = &polled {
            match frame {
                Some(Ok(frame)) => {
                    if let Some(code) = frame.trailers_ref().and_then(code) {
                        finish(&mut self.call, code);
                    }
                }
                Some(Err(status)) => finish(&mut self.call, status.code()),
                None => finish(&mut self.call, Code::Ok),
            }
        }
        polled
    }
}

impl Drop for Metered {
    /// A client that has gone before the end.
    fn drop(&mut self) {
        finish(&mut self.call, Code::Cancelled);
    }
}
