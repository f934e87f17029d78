//! The view of a task, as a stream of bytes that survives broken connections.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use contextstore_proto::v1;
use futures_util::stream::{self, Stream, StreamExt};
use tonic::Streaming;

use crate::client::open;
use crate::retry::Retries;
use crate::stream::{Items, by_lines};
use crate::{Client, Error};

/// How to read the view.
#[derive(Debug, Clone, Default)]
pub struct ReadCurrent {
    /// Bytes of a chunk, at most 4 MiB; 0: 256 KiB.
    pub chunk_bytes: u32,
    /// The view as it was after this message; 0: as it is now.
    pub as_of_seq: u64,
}

/// What the model sees: `current.jsonl`, one OpenAI chat message a line, as chunks of bytes.
///
/// One snapshot from start to end. If the connection breaks, the read goes on where it was; if the view was
/// rewritten meanwhile, it fails with [`ErrorReason::StaleView`](crate::ErrorReason::StaleView) and is to be
/// started anew.
pub struct Current {
    generation: u64,
    total_bytes: u64,
    chunks: Items<Bytes>,
}

impl Current {
    pub(crate) async fn open(client: Client, task_uuid: String, read: ReadCurrent) -> Result<Self, Error> {
        let request = v1::StreamCurrentRequest {
            task_uuid,
            offset: 0,
            generation: None,
            chunk_bytes: read.chunk_bytes,
            as_of_seq: read.as_of_seq,
        };
        let retries = client.settings().retry.start();
        let mut reading = Reading { client, request, parts: None, snapshot: None, retries };
        let first = reading.next_chunk().await?;
        let (generation, total_bytes) = reading.snapshot.unwrap_or_default();
        let rest = stream::try_unfold(reading, |mut reading| async move {
            Ok(reading.next_chunk().await?.map(|chunk| (chunk, reading)))
        });
        let chunks = stream::iter(first.map(Ok)).chain(rest);
        Ok(Self { generation, total_bytes, chunks: Items::new(chunks) })
    }

    /// Ordinal of the rewrite that made the view; 0 if there was none.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Length of the whole view.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The next chunk; `None` at the end. A chunk may end within a line.
    pub async fn try_next(&mut self) -> Result<Option<Bytes>, Error> {
        self.chunks.try_next().await
    }

    /// The same by lines: one OpenAI chat message each, without its line end. Holds one line in memory.
    pub fn lines(self) -> Items<Bytes> {
        by_lines(self.chunks)
    }
}

impl Stream for Current {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.chunks).poll_next(context)
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("generation", &self.generation)
            .field("total_bytes", &self.total_bytes)
            .finish_non_exhaustive()
    }
}

/// A read under way.
struct Reading {
    client: Client,
    /// Always what goes on behind the last chunk.
    request: v1::StreamCurrentRequest,
    parts: Option<Streaming<v1::StreamCurrentResponse>>,
    /// Generation and length, as the first answer told them. A view only grows until it is rewritten, so
    /// stopping there gives one snapshot, however often the connection broke.
    snapshot: Option<(u64, u64)>,
    retries: Retries,
}

impl Reading {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if self.snapshot.is_some_and(|(_, end)| self.request.offset >= end) {
                return Ok(None);
            }
            let error = match self.receive().await {
                Ok(Some(part)) => {
                    self.retries.reset();
                    match self.accept(part)? {
                        chunk if chunk.is_empty() => continue,
                        chunk => return Ok(Some(chunk)),
                    }
                }
                Ok(None) => return Err(Error::protocol("the view ended before its end")),
                Err(error) => error,
            };
            self.parts = None;
            let Some(pause) = self.retries.pause_to_resume(&error) else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn receive(&mut self) -> Result<Option<v1::StreamCurrentResponse>, Error> {
        let client = &self.client;
        let parts = match &mut self.parts {
            Some(parts) => parts,
            None => self.parts.insert(open!(client, stream_current, self.request.clone())?),
        };
        client.in_time(client.settings().timeout, parts.message()).await
    }

    fn accept(&mut self, mut part: v1::StreamCurrentResponse) -> Result<Bytes, Error> {
        let (generation, end) = *self.snapshot.get_or_insert((part.generation, part.total_bytes));
        if part.generation != generation || part.offset != self.request.offset {
            return Err(Error::protocol(format!(
                "byte {} of view {generation} was asked for, and {} of {} came",
                self.request.offset, part.offset, part.generation
            )));
        }
        let left = usize::try_from(end - self.request.offset).unwrap_or(usize::MAX);
        part.data.truncate(left);
        self.request.offset += part.data.len() as u64;
        self.request.generation = Some(generation);
        Ok(part.data)
    }
}
