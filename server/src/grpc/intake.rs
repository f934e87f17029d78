//! The bodies of requests on their way in: no message over the limit, and not too many bytes at once.
//!
//! gRPC tells the length of a message before it comes, so one that is too large is refused before it is read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::status::Refusal;
use crate::infra::metrics;

/// Flag and length in front of each message.
const PREFIX_BYTES: usize = 5;
/// What a request may have beside its message.
const AROUND_BYTES: u64 = 1 << 20;

/// Bytes of requests that are in flight.
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

/// What one call has of them. It is given back when the call ends.
#[derive(Debug)]
pub(super) struct Held {
    all: Arc<InFlight>,
    bytes: AtomicU64,
}

impl Held {
    pub(super) fn new(all: &Arc<InFlight>) -> Arc<Self> {
        Arc::new(Self { all: Arc::clone(all), bytes: AtomicU64::new(0) })
    }

    /// The next message begins; the one before it was handed on.
    fn exchange(&self, size: u64) -> Result<(), Status> {
        let limit = self.all.message_bytes;
        if size > limit + AROUND_BYTES {
            return Err(Refusal::TooLarge { size, limit }.into());
        }
        let before = self.bytes.swap(size, Ordering::Relaxed);
        let used = self.all.used.fetch_add(size, Ordering::Relaxed) + size - before;
        self.all.used.fetch_sub(before, Ordering::Relaxed);
        if used > self.all.limit {
            metrics::rejected("bytes_in_flight");
            return Err(Refusal::Overloaded { what: "bytes in flight", limit: self.all.limit }.into());
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.used.fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A request's body.
#[derive(Debug)]
pub(super) struct Intake {
    body: Body,
    held: Arc<Held>,
    prefix: Vec<u8>,
    /// Bytes of the message that have not come yet.
    left: u64,
    /// Whether there has to be a message, and there was none yet.
    wanting: bool,
    /// Whether it was told that the request is not whole.
    told: bool,
}

impl Intake {
    /// `wanting`: a request without a message is none.
    pub(super) fn new(body: Body, held: Arc<Held>, wanting: bool) -> Self {
        Self { body, held, prefix: Vec::with_capacity(PREFIX_BYTES), left: 0, wanting, told: false }
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

    /// Follows the messages in what has come.
    fn follow(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(data.len() as u64);
                self.left -= passed;
                data.advance(usize::try_from(passed).unwrap_or(data.len()));
                continue;
            }
            let missing = (PREFIX_BYTES - self.prefix.len()).min(data.len());
            self.prefix.extend_from_slice(&data[..missing]);
            data.advance(missing);
            if let [_, a, b, c, d] = self.prefix[..] {
                self.left = u64::from(u32::from_be_bytes([a, b, c, d]));
                self.prefix.clear();
                self.wanting = false;
                self.held.exchange(self.left)?;
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
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map(|frame| {
            let Some(frame) = frame else {
                let missing = self.missing();
                self.told = true;
                return missing.map(|missing| Err(missing.into()));
            };
            Some(frame.and_then(|frame| {
                if let Some(data) = frame.data_ref() {
                    self.follow(data)?;
                }
                Ok(frame)
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
