//! Streaming reads: chunks of the view, and records of the logs in batches. Nothing is read before it is asked for.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::RecordKind;
use futures_util::Stream;
use tokio::task::block_in_place;

use super::enums;
use super::status::Refusal;
use crate::infra::metrics;
use crate::model::{InvalidField, StoreError};
use crate::store::{CurrentReader, Head, Line, LineReader, SummaryLines};

/// A batch is handed on when it is this large. Its last record may make it larger.
pub(super) const BATCH_BYTES: usize = 256 << 10;
/// Bytes that are looked through at a time.
const SCAN_BYTES: u64 = 4 << 20;
/// Most records of a batch.
const BATCH_RECORDS: usize = 1024;
/// Bytes of a chunk of the view, if nothing else is asked for.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// The view, chunk by chunk.
#[derive(Debug)]
pub(super) struct Chunks {
    reader: CurrentReader,
    chunk_bytes: usize,
    /// Whether anything was sent: a view without bytes is told by one empty chunk.
    begun: bool,
}

impl Chunks {
    pub(super) fn new(reader: CurrentReader, chunk_bytes: usize) -> Self {
        Self { reader, chunk_bytes, begun: false }
    }

    fn next(&mut self) -> Result<Option<pb::StreamCurrentResponse>, StoreError> {
        let offset = self.reader.offset();
        let mut data = Vec::new();
        // What is in memory takes microseconds; what is not is waited for where others are not held up.
        let more = match self.reader.read_cached(&mut data, self.chunk_bytes) {
            Some(read) => read?,
            None => block_in_place(|| self.reader.read(&mut data, self.chunk_bytes))?,
        };
        if !more && std::mem::replace(&mut self.begun, true) {
            return Ok(None);
        }
        self.begun = true;
        metrics::bytes_streamed("StreamCurrent", data.len());
        Ok(Some(pb::StreamCurrentResponse {
            data: data.into(),
            offset,
            generation: self.reader.generation,
            total_bytes: self.reader.total_bytes,
        }))
    }
}

impl Stream for Chunks {
    type Item = Result<pb::StreamCurrentResponse, Refusal>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.next().map_err(Refusal::from).transpose())
    }
}

/// Something with records in it.
pub(super) trait Records: Send + Unpin + std::fmt::Debug {
    /// Hands over the next record, if it is wanted; `None` at the end.
    fn step(&mut self) -> Result<Option<Option<Bytes>>, StoreError>;
    /// Where it is, in bytes.
    fn position(&self) -> u64;
}

/// Lines of a log of some kinds.
#[derive(Debug)]
pub(super) struct LogRecords {
    pub(super) lines: LineReader,
    pub(super) kinds: Kinds,
}

impl Records for LogRecords {
    fn step(&mut self) -> Result<Option<Option<Bytes>>, StoreError> {
        let kinds = &self.kinds;
        self.lines.step(|line| kinds.wants(line).then(|| Bytes::copy_from_slice(line.text.as_bytes())))
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}

impl Records for SummaryLines {
    fn step(&mut self) -> Result<Option<Option<Bytes>>, StoreError> {
        Ok(SummaryLines::step(self)?.map(|line| Some(Bytes::from(line.into_owned()))))
    }

    fn position(&self) -> u64 {
        SummaryLines::position(self)
    }
}

/// Which records are asked for; empty: all.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinds(Vec<&'static str>);

impl Kinds {
    pub(super) fn parse(kinds: &[i32]) -> Result<Self, InvalidField> {
        let name = |kind: &i32| match enums::wire::<RecordKind>("kinds", *kind)?.name() {
            "" => Err(enums::wrong::<RecordKind>("kinds", "has an unspecified kind")),
            name => Ok(name),
        };
        kinds.iter().map(name).collect::<Result<_, _>>().map(Self)
    }

    fn wants(&self, line: &Line<'_>) -> bool {
        let kind = match line.head {
            Head::Message { .. } | Head::Record { .. } => "message",
            Head::Event { name, .. } => name,
        };
        self.0.is_empty() || self.0.contains(&kind)
    }
}

/// Fills a batch; false if there is nothing more to come. `left` is how many records are still wanted. A batch may
/// stay empty where nothing is wanted for long, so that one who has gone is noticed.
pub(super) fn fill(
    records: &mut dyn Records,
    batch: &mut Vec<Bytes>,
    left: &mut u64,
) -> Result<bool, StoreError> {
    let (mut bytes, began) = (0, records.position());
    while *left > 0 {
        let scanned = records.position() - began;
        if bytes >= BATCH_BYTES || batch.len() >= BATCH_RECORDS || scanned >= SCAN_BYTES {
            return Ok(true);
        }
        let Some(record) = records.step()? else { return Ok(false) };
        if let Some(record) = record {
            bytes += record.len();
            *left -= 1;
            batch.push(record);
        }
    }
    Ok(false)
}

/// Records in batches, as responses of some kind.
pub(super) struct Batches<R, T> {
    records: R,
    left: u64,
    method: &'static str,
    wrap: fn(Vec<Bytes>) -> T,
    done: bool,
}

impl<R, T> std::fmt::Debug for Batches<R, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<R: Records, T> Batches<R, T> {
    /// At most `limit` records; 0: all.
    pub(super) fn new(records: R, limit: u64, method: &'static str, wrap: fn(Vec<Bytes>) -> T) -> Self {
        let left = if limit == 0 { u64::MAX } else { limit };
        Self { records, left, method, wrap, done: false }
    }
}

impl<R: Records, T> Stream for Batches<R, T> {
    type Item = Result<T, Refusal>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let Self { records, left, .. } = &mut *self;
        let mut batch = Vec::new();
        let filled = block_in_place(|| fill(records, &mut batch, left));
        match filled {
            Ok(more) => self.done = !more,
            Err(error) => {
                self.done = true;
                return Poll::Ready(Some(Err(error.into())));
            }
        }
        if batch.is_empty() && !self.done {
            // Others first; then on with it, unless the reader has gone.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if batch.is_empty() {
            return Poll::Ready(None);
        }
        metrics::bytes_streamed(self.method, batch.iter().map(Bytes::len).sum());
        Poll::Ready(Some(Ok((self.wrap)(batch))))
    }
}
