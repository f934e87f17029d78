//! The bodies of requests on their way in: no message over the limit, and not too many bytes at once.
//!
//! gRPC tells the length of a message before it comes, so one that is too large is refused before it is read.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

use super::status::Refusal;
use crate::infra::metrics;

/// Flag and length in front of each message.
const PREFIX_BYTES: usize = 5;
/// What a request may have beside its message.
const AROUND_BYTES: u64 = 1 << 20;

/// What anybody may send: a question about health.
const SMALL_BYTES: u64 = 4 << 10;

/// Beside the limit there is this much for messages that are not larger, so that large ones do not shut them out.
const SMALL_MESSAGE: u64 = 64 << 10;
const RESERVE_BYTES: u64 = 8 << 20;

/// Bytes of requests, and of large answers, that are in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    limit: u64,
    message_bytes: u64,
    used: AtomicU64,
}

impl InFlight {
    pub(crate) fn new(limit: u64, message_bytes: u64) -> Arc<Self> {
        // The largest message alone must go through.
        let limit = limit.max(message_bytes + AROUND_BYTES);
        Arc::new(Self { limit, message_bytes, used: AtomicU64::new(0) })
    }

    /// How many there are.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// What one call has of them: of its request while that is worked on, of a large answer until it is taken.
#[derive(Debug)]
pub(super) struct Held {
    /// None: what the call may send is so little that it is not counted.
    all: Option<Arc<InFlight>>,
    most: u64,
    request: Mutex<Arriving>,
    answer: AtomicU64,
}

/// The message of a request that came last.
#[derive(Debug, Default)]
struct Arriving {
    /// Its number, from 1.
    number: u64,
    /// Its size, and how much of it has come and was not given back.
    size: u64,
    held: u64,
    /// Of the message before it, until that was handed on.
    before: u64,
}

impl Held {
    /// Of a call by somebody who may call.
    pub(super) fn new(all: &Arc<InFlight>) -> Arc<Self> {
        Self::with(Some(Arc::clone(all)), all.message_bytes)
    }

    /// Of a call by anybody.
    pub(super) fn small() -> Arc<Self> {
        Self::with(None, 0)
    }

    fn with(all: Option<Arc<InFlight>>, most: u64) -> Arc<Self> {
        Arc::new(Self { all, most, request: Mutex::default(), answer: AtomicU64::new(0) })
    }

    fn request(&self) -> MutexGuard<'_, Arriving> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message begins; the one before it was handed on.
    fn begin(&self, size: u64) -> Result<(), Status> {
        let around = if self.all.is_some() { AROUND_BYTES } else { SMALL_BYTES };
        if size > self.most + around {
            let limit = if self.all.is_some() { self.most } else { SMALL_BYTES };
            return Err(Refusal::TooLarge { size, limit }.into());
        }
        let mut request = self.request();
        let before = request.before + request.held;
        *request = Arriving { number: request.number + 1, size, held: 0, before };
        Ok(())
    }

    /// The messages before the last were handed on: nobody asks for more before.
    fn hand_on(&self) {
        let before = std::mem::take(&mut self.request().before);
        self.give_back(before);
    }

    /// More of it has come. Only what is there counts, so that nobody can have room set aside for what never comes.
    fn arrived(&self, bytes: u64) -> Result<(), Status> {
        let mut request = self.request();
        request.held += bytes;
        // What is refused is held until its rest was passed over: it is in memory as long.
        self.charge(bytes, request.size <= SMALL_MESSAGE)
    }

    /// A message, by its number from 1, is not in memory any more.
    pub(super) fn release(&self, number: u64) {
        let mut request = self.request();
        if request.number == number {
            self.give_back(std::mem::take(&mut request.held));
        }
    }

    /// A large answer is to be kept until it is taken.
    pub(super) fn keep(&self, bytes: usize) -> Result<(), Status> {
        self.answer.fetch_add(bytes as u64, Ordering::Relaxed);
        self.charge(bytes as u64, false)
    }

    fn charge(&self, bytes: u64, is_small: bool) -> Result<(), Status> {
        let Some(all) = &self.all else { return Ok(()) };
        let used = all.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let reserve = if is_small { RESERVE_BYTES } else { 0 };
        if used > all.limit.saturating_add(reserve) {
            metrics::rejected("bytes_in_flight");
            return Err(Refusal::Overloaded { what: "bytes in flight", limit: all.limit }.into());
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        if let Some(all) = &self.all {
            all.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let request = std::mem::take(&mut *self.request());
        self.give_back(request.held + request.before + self.answer.load(Ordering::Relaxed));
    }
}

/// Whether a request has come to its end, rather than being broken off. To tonic a stream that was cancelled has ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Whole(Arc<AtomicBool>);

impl Whole {
    pub(super) fn is_whole(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A request's body.
#[derive(Debug)]
pub(super) struct Intake {
    body: Body,
    held: Arc<Held>,
    whole: Whole,
    prefix: Vec<u8>,
    /// Bytes of the message that have not come yet.
    left: u64,
    /// Whether there has to be a message, and there was none yet.
    wanting: bool,
    /// Whether it was told that the request is not whole.
    told: bool,
    /// How long a message that has begun may take, and until when this one may.
    patience: Duration,
    late: Option<Pin<Box<Sleep>>>,
    /// Why the next message may not come in.
    refused: Option<Status>,
}

impl Intake {
    /// `wanting`: a request without a message is none.
    pub(super) fn new(body: Body, held: Arc<Held>, wanting: bool, patience: Duration, whole: Whole) -> Self {
        let prefix = Vec::with_capacity(PREFIX_BYTES);
        Self { body, held, whole, prefix, left: 0, wanting, told: false, patience, late: None, refused: None }
    }

    /// Whether a message has begun and does not come.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // A call that has one message begins with its headers.
        if self.told || (self.left == 0 && self.prefix.is_empty() && !self.wanting) {
            self.late = None;
            return Poll::Pending;
        }
        let patience = self.patience;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(patience)));
        late.as_mut().poll(context)
    }

    /// Why the request is not whole if nothing more comes.
    fn missing(&self) -> Option<Refusal> {
        if self.told {
            None
        } else if self.left > 0 || !self.prefix.is_empty() {
            Some(Refusal::Malformed("it ends within a message"))
        } else {
            self.wanting.then_some(Refusal::Malformed("it has no message"))
        }
    }

    /// Passes over the rest of a message that is refused, and tells why then: a client that is cut off while it sends may not hear
    /// the answer. All of it has the time that else each part has.
    fn poll_refused(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        while self.left > 0 {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending if self.poll_late(context).is_pending() => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                    self.left = self.left.saturating_sub(bytes);
                }
                Poll::Pending | Poll::Ready(Some(Err(_)) | None) => break,
            }
        }
        self.told = true;
        let refused = self.refused.take();
        Poll::Ready(refused.unwrap_or_else(|| Refusal::Malformed("it was refused before").into()))
    }

    /// Follows the messages in what has come. If one may not come in: how much there is before it, and why.
    fn follow(&mut self, data: &[u8]) -> Result<(), (usize, Status)> {
        let mut at = 0;
        while at < data.len() {
            let rest = data.len() - at;
            if self.left > 0 {
                let passed = usize::try_from(self.left).map_or(rest, |left| left.min(rest));
                self.left -= passed as u64;
                self.held.arrived(passed as u64).map_err(|status| (at, status))?;
                at += passed;
                continue;
            }
            let before = at;
            let missing = (PREFIX_BYTES - self.prefix.len()).min(rest);
            self.prefix.extend_from_slice(&data[at..at + missing]);
            at += missing;
            if let [_, a, b, c, d] = self.prefix[..] {
                let size = u64::from(u32::from_be_bytes([a, b, c, d]));
                self.prefix.clear();
                self.wanting = false;
                self.held.begin(size).map_err(|status| (before, status))?;
                self.left = size;
            }
        }
        Ok(())
    }
}

impl http_body::Body for Intake {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.held.hand_on();
        if self.refused.is_some() {
            return self.poll_refused(context).map(|refused| Some(Err(refused)));
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_pending() {
            if self.poll_late(context).is_pending() {
                return Poll::Pending;
            }
            let is_within = self.left > 0 || !self.prefix.is_empty();
            let problem = if is_within { "it stopped within a message" } else { "it has no message" };
            self.told = true;
            return Poll::Ready(Some(Err(Refusal::Malformed(problem).into())));
        }
        // Something has come: that is patience for more.
        self.late = None;
        polled.map(|frame| {
            let Some(frame) = frame else {
                let missing = self.missing();
                self.whole.0.store(missing.is_none() && !self.told, Ordering::Release);
                self.told = true;
                return missing.map(|missing| Err(missing.into()));
            };
            Some(frame.and_then(|frame| {
                let Some(data) = frame.data_ref() else { return Ok(frame) };
                match self.follow(data) {
                    Ok(()) => Ok(frame),
                    Err((0, refused)) if self.left == 0 => Err(refused),
                    // Messages before it came with it, and are worked on first.
                    Err((before, refused)) => {
                        self.refused = Some(refused);
                        Ok(Frame::data(data.slice(..before)))
                    }
                }
            }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.missing().is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
