//! Appending a stream of messages, each of which is acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contextstore_proto::v1;
use futures_util::FutureExt;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::client::new_id;
use crate::error::NotAppended;
use crate::pipeline::{Queue, Window, send_all};
use crate::stream::Items;
use crate::{Error, NewMessage, Task};

type Messages = BoxStream<'static, Result<NewMessage, Error>>;
type Acknowledged = Result<(v1::AppendMessageResponse, usize), Error>;

impl Task {
    /// Appends messages without waiting for each: the answers come in the same order, each when its message is
    /// on disk. The first failure ends the stream, and nothing behind it is appended: [`Error::index`] is the number of the
    /// message, and [`Error::not_appended`] has it and those behind it that were taken.
    ///
    /// At most 512 messages, or 8 MiB, are under way: the next one is sent when the answer to an earlier one is taken. So
    /// do not wait for all of them to be sent before you take answers. When the connection breaks, what was not
    /// acknowledged is sent again under the same request ids, and appended once. Dropping the answers ends it: of what is
    /// under way then, the messages up to some point are appended.
    ///
    /// ```no_run
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// use contextstore_client::NewMessage;
    ///
    /// let lines = ["one", "two", "three"].map(NewMessage::user);
    /// let mut added = task.append_many(futures_util::stream::iter(lines)).await?;
    /// while let Some(added) = added.try_next().await? {
    ///     println!("message {} is on disk", added.seq);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn append_many<S>(&self, messages: S) -> Result<Items<v1::AppendMessageResponse>, Error>
    where
        S: Stream<Item: Into<NewMessage>> + Send + 'static,
    {
        self.append_all(messages.map(|message| Ok(message.into()))).await
    }

    /// The same for messages that may fail to come. Those before a failure are appended and acknowledged first; then comes
    /// [`Error::Source`] with the number of the message that did not come.
    ///
    /// ```no_run
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// use contextstore_client::NewMessage;
    ///
    /// let lines = [Ok(NewMessage::user("one")), Err(std::io::Error::other("the file ended early"))];
    /// let mut added = task.try_append_many(futures_util::stream::iter(lines)).await?;
    /// assert_eq!(added.try_next().await?.map(|added| added.seq), Some(1));
    /// let failed = added.try_next().await.unwrap_err();
    /// assert_eq!(failed.index(), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_append_many<S, M, E>(
        &self,
        messages: S,
    ) -> Result<Items<v1::AppendMessageResponse>, Error>
    where
        S: Stream<Item = Result<M, E>> + Send + 'static,
        M: Into<NewMessage>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.append_all(messages.map(|message| {
            message
                .map(Into::into)
                .map_err(|error| Error::Source { index: None, error: Arc::from(error.into()) })
        }))
        .await
    }

    async fn append_all(
        &self,
        messages: impl Stream<Item = Result<NewMessage, Error>> + Send + 'static,
    ) -> Result<Items<v1::AppendMessageResponse>, Error> {
        self.flush().await?;
        let (answer_to, answers) = mpsc::unbounded_channel();
        let window = Arc::new(Window::new());
        let sending = Sending {
            task: self.clone(),
            queue: Arc::default(),
            window: Arc::clone(&window),
            held: Mutex::default(),
        };
        let sending = tokio::spawn(sending.run(messages.boxed(), answer_to));
        let state = (answers, window, Ending(sending.abort_handle()));
        Ok(Items::new(stream::try_unfold(state, |(mut answers, window, ending)| async move {
            let Some(answer) = answers.recv().await else { return Ok(None) };
            let (answer, bytes) = answer?;
            window.free(bytes);
            Ok(Some((answer, (answers, window, ending))))
        })))
    }
}

struct Sending {
    task: Task,
    queue: Arc<Queue>,
    window: Arc<Window>,
    /// The message that the source has given and that is not in the queue yet.
    held: Mutex<Option<v1::AppendMessagesRequest>>,
}

impl Sending {
    async fn run(self, messages: Messages, answers: mpsc::UnboundedSender<Acknowledged>) {
        let appended = Arc::new(AtomicU64::new(0));
        let (counted, answered) = (Arc::clone(&appended), answers.clone());
        // Whoever wants no answers any more ends this.
        let acknowledged = move |answer, bytes| {
            counted.fetch_add(1, Ordering::AcqRel);
            drop(answered.send(Ok((answer, bytes))));
        };
        let this = Arc::new(self);
        let mut feeding = Box::pin(Arc::clone(&this).feed(messages));
        let mut sending =
            Box::pin(send_all(this.task.client().clone(), Arc::clone(&this.queue), acknowledged));
        let (sent, fed) = tokio::select! {
            biased;
            fed = &mut feeding => (sending.await, fed),
            sent = &mut sending => {
                // A message that waits for room is among those that are not appended.
                this.window.close();
                (sent, feeding.now_or_never().unwrap_or(Ok(())))
            }
        };
        let index = appended.load(Ordering::Acquire);
        let error = match (sent, fed) {
            (Ok(()), Ok(())) => return,
            (Ok(()), Err(Error::Source { error, .. })) => Error::Source { index: Some(index), error },
            (Err(error), _) | (Ok(()), Err(error)) => this.not_appended(error, index),
        };
        drop(answers.send(Err(error)));
    }

    /// The error of a message, with all that were taken and are not in the log.
    fn not_appended(&self, error: Error, index: u64) -> Error {
        let mut messages = self.queue.drain();
        messages.extend(self.held().take().map(NewMessage::of_request));
        let messages = messages.into_iter().map(|message| message.of_task(self.task.uuid())).collect();
        Error::NotAppended(Arc::new(NotAppended::new(error, Some(index), messages)))
    }

    /// Puts the messages into the queue as there is room for them. An error ends that as the end of the messages does: what
    /// was before it is sent.
    async fn feed(self: Arc<Self>, messages: Messages) -> Result<(), Error> {
        let fed = self.take_all(messages).await;
        self.queue.end();
        fed
    }

    async fn take_all(&self, mut messages: Messages) -> Result<(), Error> {
        while self.window.admit_one().await.is_some() {
            let Some(message) = messages.next().await else { break };
            let request =
                message?.one_of_many(self.task.uuid().to_owned(), self.task.lease_generation(), new_id);
            let size = request.encoded_len();
            *self.held() = Some(request);
            self.task.client().check_size(size).await?;
            let _ = self.window.admit_bytes(size).await;
            if let Some(request) = self.held().take() {
                self.queue.push(request.into());
            }
        }
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, Option<v1::AppendMessagesRequest>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends what runs in the background when it is dropped.
struct Ending(AbortHandle);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}
