//! The body of a request: a file that is read while it is sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::task::block_in_place;

use crate::infra::fs::File;

/// Bytes per read.
const CHUNK_BYTES: usize = 256 << 10;

/// The first bytes of a file, as a request body.
#[derive(Debug, Clone)]
pub struct Payload {
    /// The file.
    pub file: Arc<dyn File>,
    /// The number of bytes to send.
    pub len: u64,
}

/// A payload in transit.
#[derive(Debug)]
pub(super) struct FileBody {
    payload: Payload,
    at: u64,
    /// The number of bytes that the connection has accepted.
    sent: Arc<AtomicU64>,
}

impl FileBody {
    pub(super) fn new(payload: Payload, sent: Arc<AtomicU64>) -> Self {
        sent.store(0, Ordering::Relaxed);
        Self { payload, at: 0, sent }
    }

    fn next(&mut self) -> io::Result<Option<Bytes>> {
        let left = self.payload.len - self.at;
        if left == 0 {
            return Ok(None);
        }
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let mut chunk = vec![0; size];
        let file = &self.payload.file;
        // A file that was just written is in the page cache. Other reads can block, so they run where blocking is
        // allowed.
        let read = match file.read_cached_at(&mut chunk, self.at)? {
            Some(read) if read > 0 => read,
            Some(_) | None => block_in_place(|| file.read_at(&mut chunk, self.at))?,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        chunk.truncate(read);
        self.at += read as u64;
        self.sent.store(self.at, Ordering::Relaxed);
        Ok(Some(chunk.into()))
    }
}

impl http_body::Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.next().map(|chunk| chunk.map(Frame::data)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.at == self.payload.len
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.payload.len - self.at)
    }
}
