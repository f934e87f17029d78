//! Streams of answers, in one shape.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{BoxStream, Stream, StreamExt, TryStreamExt};

use crate::Error;

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
