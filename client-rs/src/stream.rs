//! Streams of answers, in one shape.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};
use prost::Message;
use tonic::{Response, Status, Streaming};

use crate::client::RawClient;
use crate::retry::Retries;
use crate::{Client, Error};

/// Items that come one after the other. Ends at the first error.
///
/// Take them with [`Items::try_next`], or as a [`Stream`].
pub struct Items<T> {
    stream: BoxStream<'static, Result<T, Error>>,
}

impl<T> Items<T> {
    pub(crate) fn new(stream: impl Stream<Item = Result<T, Error>> + Send + 'static) -> Self {
        Self { stream: stream.boxed() }
    }

    /// The next item; `None` at the end.
    pub async fn try_next(&mut self) -> Result<Option<T>, Error> {
        self.stream.try_next().await
    }
}

impl<T> Stream for Items<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.poll_next_unpin(context)
    }
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").finish_non_exhaustive()
    }
}

/// Chunks by lines, without their ends. Holds one line in memory.
pub(crate) fn by_lines(chunks: Items<Bytes>) -> Items<Bytes> {
    let state = (chunks, BytesMut::new(), 0);
    Items::new(stream::try_unfold(state, |(mut chunks, mut rest, mut seen)| async move {
        loop {
            if let Some(at) = rest[seen..].iter().position(|byte| *byte == b'\n') {
                let line = rest.split_to(seen + at).freeze();
                rest.advance(1);
                return Ok(Some((line, (chunks, rest, 0))));
            }
            seen = rest.len();
            match chunks.try_next().await? {
                Some(chunk) => rest.extend_from_slice(&chunk),
                None if rest.is_empty() => return Ok(None),
                None => return Err(Error::protocol("the messages end within a line")),
            }
        }
    }))
}

pub(crate) type Opening<A> = BoxFuture<'static, Result<Response<Streaming<A>>, Status>>;

/// A stream that is opened again while it fails in passing and nothing has come, and never after that, unless it repeats.
pub(crate) struct Streamed<R, A> {
    client: Client,
    request: R,
    /// How long it may be silent.
    silence: Option<Duration>,
    open: fn(RawClient, R) -> Opening<A>,
    answers: Option<Streaming<A>>,
    begun: bool,
    /// Whether the server knows the call by its request id, so that it can be made again also when something has come.
    repeats: bool,
    retries: Retries,
}

impl<R: Clone + Message + 'static, A: Send + 'static> Streamed<R, A> {
    pub(crate) fn new(
        client: Client,
        request: R,
        silence: Option<Duration>,
        open: fn(RawClient, R) -> Opening<A>,
    ) -> Self {
        let retries = client.settings().retry.start();
        Self { client, request, silence, open, answers: None, begun: false, repeats: false, retries }
    }

    pub(crate) fn repeating(self) -> Self {
        Self { repeats: true, ..self }
    }

    pub(crate) fn items(self) -> impl stream::Stream<Item = Result<A, Error>> + Send + 'static {
        stream::try_unfold(self, |mut streamed| async {
            Ok(streamed.next().await?.map(|answer| (answer, streamed)))
        })
    }

    pub(crate) async fn next(&mut self) -> Result<Option<A>, Error> {
        loop {
            let error = match self.receive().await {
                Ok(answer) => {
                    // Once: a server that fails at each try is left alone.
                    if !std::mem::replace(&mut self.begun, true) {
                        self.retries.reset();
                    }
                    return Ok(answer);
                }
                Err(error) => error,
            };
            self.answers = None;
            let pause = if self.begun && !self.repeats { None } else { self.retries.pause(&error) };
            let Some(pause) = pause else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn receive(&mut self) -> Result<Option<A>, Error> {
        let Self { client, silence, answers, .. } = self;
        let answers = match answers {
            Some(answers) => answers,
            None => {
                client.check_size(self.request.encoded_len()).await?;
                let opening = (self.open)(client.raw(), self.request.clone());
                answers.insert(in_time(client, *silence, opening).await?.into_inner())
            }
        };
        in_time(client, *silence, answers.message()).await
    }
}

async fn in_time<T>(
    client: &Client,
    silence: Option<Duration>,
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Error> {
    match silence {
        Some(silence) => client.in_time(silence, answer).await,
        None => match answer.await {
            Ok(answer) => Ok(answer),
            Err(status) => Err(client.failed(status).await),
        },
    }
}
