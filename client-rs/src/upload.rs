//! Sending outputs of tools: from bytes, streams and readers; again from the start where they can be had again.

use std::future::poll_fn;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contextstore_proto::v1;
use contextstore_proto::v1::put_tool_output_request::Part;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Response;

use crate::{Error, Outputs, PutOutput};

/// Bytes that are sent at once.
const PIECE: usize = 256 << 10;
/// Bytes that are sent in a second at least.
const LEAST_SPEED: u64 = 1 << 20;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn broken(error: impl Into<AnyError>) -> Error {
    Error::Source { index: None, error: Arc::from(error.into()) }
}

impl Outputs {
    /// Keeps an output; it is on disk when this returns. It is sent again when the connection breaks, and kept once.
    pub async fn put(
        &self,
        put: PutOutput,
        bytes: impl Into<Bytes>,
    ) -> Result<v1::PutToolOutputResponse, Error> {
        let (header, bytes) = (self.header(put), bytes.into());
        let least = Duration::from_secs(bytes.len() as u64 / LEAST_SPEED);
        let send = |_, request: tonic::Request<(v1::PutToolOutputHeader, Bytes)>| {
            let mut raw = self.client().raw_outputs();
            let (header, bytes) = request.into_inner();
            async move { raw.put_tool_output(parts(header, stream::iter(pieces(bytes)))).await }
        };
        Box::pin(self.task().settled().await?.call_for(least, (header, bytes), send)).await
    }

    /// The same with bytes as they come, which may take any time. The server has to take and to answer them in time: see
    /// [`Builder::timeout`](crate::Builder::timeout).
    ///
    /// They are sent once: if the connection breaks, nothing of them is kept, the call fails with an error that
    /// [is transient](Error::is_transient), and the caller has to put the output again. [`Outputs::put_with`] does that by
    /// itself.
    pub async fn put_stream<S>(&self, put: PutOutput, bytes: S) -> Result<v1::PutToolOutputResponse, Error>
    where
        S: Stream<Item = Bytes> + Send + 'static,
    {
        self.upload(put, &mut Once(bytes.map(Ok).boxed())).await
    }

    /// The same with bytes that may fail to come: then nothing is kept, and the call fails with [`Error::Source`].
    pub async fn try_put_stream<S, B, E>(
        &self,
        put: PutOutput,
        bytes: S,
    ) -> Result<v1::PutToolOutputResponse, Error>
    where
        S: Stream<Item = Result<B, E>> + Send + 'static,
        B: Into<Bytes>,
        E: Into<AnyError>,
    {
        self.upload(put, &mut Once(fallible(bytes))).await
    }

    /// The same with bytes that can be had again: they are asked for anew for each try, and kept once.
    ///
    /// ```no_run
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// use contextstore_client::PutOutput;
    /// use futures_util::stream;
    ///
    /// let lines = || async { Ok::<_, std::io::Error>(stream::iter(["one\n", "two\n"].map(Ok::<_, std::io::Error>))) };
    /// task.outputs().put_with(PutOutput::default(), lines).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_with<F, R, S, B, E>(
        &self,
        put: PutOutput,
        mut open: F,
    ) -> Result<v1::PutToolOutputResponse, Error>
    where
        F: FnMut() -> R + Send,
        R: Future<Output = Result<S, E>> + Send,
        S: Stream<Item = Result<B, E>> + Send + 'static,
        B: Into<Bytes>,
        E: Into<AnyError>,
    {
        let mut reopen = move || {
            let opened = open();
            async move { opened.await.map(fallible).map_err(broken) }
        };
        let bytes = reopen().await?;
        self.upload(put, &mut Reopened { bytes, reopen }).await
    }

    /// The same with all that a reader gives. If it fails, nothing is kept, and the call fails with [`Error::Source`]. It is
    /// read once: see [`Outputs::put_stream`].
    pub async fn put_reader<R>(&self, put: PutOutput, reader: R) -> Result<v1::PutToolOutputResponse, Error>
    where
        R: AsyncRead + Send + Unpin + 'static,
    {
        self.upload(put, &mut Reader(reader)).await
    }

    /// The same with a reader that can go back to where it stands now, such as a file: it is read again when the connection
    /// breaks, and kept once.
    pub async fn put_seekable<R>(
        &self,
        put: PutOutput,
        mut reader: R,
    ) -> Result<v1::PutToolOutputResponse, Error>
    where
        R: AsyncRead + AsyncSeek + Send + Unpin + 'static,
    {
        let start = seek(&mut reader, SeekFrom::Current(0)).await.map_err(broken)?;
        self.upload(put, &mut Seekable { reader, start }).await
    }

    async fn upload(
        &self,
        put: PutOutput,
        source: &mut impl Source,
    ) -> Result<v1::PutToolOutputResponse, Error> {
        let header = self.header(put);
        let mut retries = self.task().settled().await?.settings().retry.start();
        loop {
            let error = match Box::pin(self.upload_once(header.clone(), source)).await {
                Ok(kept) => return Ok(kept),
                Err(error) => error,
            };
            let Some(pause) = retries.pause(&error) else { return Err(error) };
            if !source.rewind().await? {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends the output in one try. Only the source may take any time.
    async fn upload_once(
        &self,
        header: v1::PutToolOutputHeader,
        source: &mut impl Source,
    ) -> Result<v1::PutToolOutputResponse, Error> {
        let client = self.client();
        let limit = client.settings().timeout;
        let (feed, fed) = mpsc::channel::<Option<Bytes>>(1);
        let data = stream::unfold(fed, |mut fed| async {
            match fed.recv().await {
                Some(Some(piece)) => Some((piece, fed)),
                Some(None) => None,
                // The output broke off. An end would say that this was all; the call is being cancelled.
                None => std::future::pending().await,
            }
        });
        let mut raw = client.raw_outputs();
        let mut answer = std::pin::pin!(raw.put_tool_output(parts(header, data)));
        let mut sent = 0;
        loop {
            let bytes = tokio::select! {
                biased;
                early = &mut answer => return client.in_time(limit, async { early }).await.map(Response::into_inner),
                bytes = source.next() => bytes?,
            };
            let last = bytes.is_none();
            let pieces = bytes.into_iter().flat_map(pieces).map(Some).chain(last.then_some(None));
            for piece in pieces {
                sent += piece.as_ref().map_or(0, |piece| piece.len() as u64);
                tokio::select! {
                    biased;
                    early = &mut answer => return client.in_time(limit, async { early }).await.map(Response::into_inner),
                    taken = timeout(limit, feed.send(piece)) => drop(taken.map_err(|_| Error::Deadline { after: limit })?),
                }
            }
            if last {
                let limit = limit.max(Duration::from_secs(sent / LEAST_SPEED));
                return client.in_time(limit, answer).await.map(Response::into_inner);
            }
        }
    }
}

/// Where the bytes of an output come from.
trait Source: Send {
    /// The next bytes; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;

    /// Goes back to the start; false if it cannot.
    fn rewind(&mut self) -> impl Future<Output = Result<bool, Error>> + Send;
}

type Chunks = BoxStream<'static, Result<Bytes, Error>>;

fn fallible<B: Into<Bytes>, E: Into<AnyError>>(
    bytes: impl Stream<Item = Result<B, E>> + Send + 'static,
) -> Chunks {
    bytes.map(|bytes| bytes.map(Into::into).map_err(broken)).boxed()
}

struct Once(Chunks);

impl Source for Once {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.0.next().await.transpose()
    }

    async fn rewind(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
}

struct Reopened<F> {
    bytes: Chunks,
    reopen: F,
}

impl<F, R> Source for Reopened<F>
where
    F: FnMut() -> R + Send,
    R: Future<Output = Result<Chunks, Error>> + Send,
{
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.bytes.next().await.transpose()
    }

    async fn rewind(&mut self) -> Result<bool, Error> {
        self.bytes = (self.reopen)().await?;
        Ok(true)
    }
}

struct Reader<R>(R);

impl<R: AsyncRead + Send + Unpin> Source for Reader<R> {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        next_piece(&mut self.0).await.map_err(broken)
    }

    async fn rewind(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
}

struct Seekable<R> {
    reader: R,
    start: u64,
}

impl<R: AsyncRead + AsyncSeek + Send + Unpin> Source for Seekable<R> {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        next_piece(&mut self.reader).await.map_err(broken)
    }

    async fn rewind(&mut self) -> Result<bool, Error> {
        seek(&mut self.reader, SeekFrom::Start(self.start)).await.map_err(broken)?;
        Ok(true)
    }
}

async fn seek<R: AsyncSeek + Unpin>(reader: &mut R, to: SeekFrom) -> io::Result<u64> {
    // One seek may be under way.
    poll_fn(|context| Pin::new(&mut *reader).poll_complete(context)).await?;
    Pin::new(&mut *reader).start_seek(to)?;
    poll_fn(|context| Pin::new(&mut *reader).poll_complete(context)).await
}

fn parts(
    header: v1::PutToolOutputHeader,
    bytes: impl Stream<Item = Bytes> + Send + 'static,
) -> impl Stream<Item = v1::PutToolOutputRequest> + Send + 'static {
    let header = stream::once(async { Part::Header(header) });
    header.chain(bytes.map(Part::Data)).map(|part| v1::PutToolOutputRequest { part: Some(part) })
}

/// Bytes in pieces that one message can carry.
fn pieces(mut bytes: Bytes) -> impl Iterator<Item = Bytes> + Send {
    std::iter::from_fn(move || {
        let piece = bytes.split_to(bytes.len().min(PIECE));
        (!piece.is_empty()).then_some(piece)
    })
}

/// The next bytes of a reader; `None` at its end.
async fn next_piece<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Option<Bytes>> {
    let mut piece = vec![0; PIECE];
    let mut read = ReadBuf::new(&mut piece);
    poll_fn(|context| Pin::new(&mut *reader).poll_read(context, &mut read)).await?;
    let filled = read.filled().len();
    piece.truncate(filled);
    Ok((filled > 0).then(|| piece.into()))
}
