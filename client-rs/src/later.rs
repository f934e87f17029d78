//! Appending without waiting: messages that are on disk some time later, and what has to wait for them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contextstore_proto::v1;
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::client::new_id;
use crate::pipeline::{Failed, Fed, Item, Window, send_all};
use crate::stream::Items;
use crate::{Client, Error, NewMessage, Task};

/// What was appended without waiting, by a handle and its clones.
#[derive(Default)]
pub(crate) struct Later {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pipe: Option<Arc<Pipe>>,
    not_appended: Vec<NewMessage>,
}

/// What takes messages and sends them in the background. Without it, what it has taken is still sent.
struct Pipe {
    feed: mpsc::UnboundedSender<Item>,
    window: Arc<Window>,
    /// Messages that were handed on.
    taken: AtomicU64,
    /// Those of them that the last flush has waited for.
    flushed: AtomicU64,
    progress: watch::Receiver<Progress>,
}

#[derive(Default)]
struct Progress {
    acknowledged: u64,
    last: Option<v1::AppendMessagesResponse>,
    failed: Option<Arc<Failed>>,
}

impl Later {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends no more: the task has ended, or was put aside.
    pub(crate) fn close(&self) {
        self.lock().pipe = None;
    }

    /// What a pipe failed with. It is used no more, and what it has not appended is kept for the caller.
    async fn failed(&self, pipe: &Arc<Pipe>, rest: Option<Item>) -> Error {
        let mut progress = pipe.progress.clone();
        let failed = progress.wait_for(|progress| progress.failed.is_some()).await;
        let failed = failed.ok().and_then(|progress| progress.failed.clone());
        let mut state = self.lock();
        if state.pipe.as_ref().is_some_and(|current| Arc::ptr_eq(current, pipe)) {
            state.pipe = None;
            let items = failed.iter().flat_map(|failed| &failed.not_appended);
            state.not_appended = items.map(|item| NewMessage::of_request(item.request.clone())).collect();
        }
        state.not_appended.extend(rest.map(|item| NewMessage::of_request(item.request)));
        failed.map_or_else(
            || Error::protocol("appending ended with the runtime that it was begun in"),
            |failed| failed.error.clone(),
        )
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later").field("open", &self.lock().pipe.is_some()).finish_non_exhaustive()
    }
}

impl Pipe {
    fn open(client: Client) -> Self {
        let (feed, fed) = mpsc::unbounded_channel();
        let (told, progress) = watch::channel(Progress::default());
        let window = Arc::new(Window::new());
        let room = Arc::clone(&window);
        tokio::spawn(async move {
            let mut messages = Fed(fed);
            let mut acknowledged = |answer, bytes| {
                room.free(bytes);
                told.send_modify(|progress| {
                    progress.acknowledged += 1;
                    progress.last = Some(answer);
                });
            };
            let Err(mut failed) = send_all(client, &mut messages, &mut acknowledged).await else { return };
            messages.0.close();
            while let Ok(item) = messages.0.try_recv() {
                failed.not_appended.push_back(item);
            }
            told.send_modify(|progress| progress.failed = Some(Arc::new(failed)));
            room.close();
        });
        Self { feed, window, taken: AtomicU64::new(0), flushed: AtomicU64::new(0), progress }
    }

    /// Hands on a message when there is room for it; gives it back if nothing is taken any more.
    async fn take(&self, item: Item) -> Result<(), Item> {
        if self.window.admit(item.bytes).await.is_none() {
            return Err(item);
        }
        self.taken.fetch_add(1, Ordering::AcqRel);
        self.feed.send(item).map_err(|refused| refused.0)
    }
}

impl Task {
    /// Appends a message without waiting until it is on disk: it is when [`Task::flush`] or any other call of this handle
    /// or its clones returns, and that is where it is told if it failed. Messages keep their order.
    ///
    /// At most 512 messages, or 8 MiB, are under way; this waits for room. A broken connection is taken up again, and
    /// nothing is appended twice. After a failure nothing behind it is appended, and [`Task::take_not_appended`] has what
    /// was not.
    ///
    /// ```no_run
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// use contextstore_client::NewMessage;
    ///
    /// for step in 0..1000 {
    ///     task.append_later(NewMessage::assistant(format!("step {step}"))).await?;
    /// }
    /// let last = task.flush().await?;
    /// println!("all up to {:?} are on disk", last.map(|added| added.seq));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn append_later(&self, message: impl Into<NewMessage>) -> Result<(), Error> {
        let request =
            message.into().one_of_many(self.uuid().to_owned(), self.lease_generation(), || self.request_id());
        let pipe = {
            let mut state = self.later().lock();
            Arc::clone(state.pipe.get_or_insert_with(|| Arc::new(Pipe::open(self.client().clone()))))
        };
        match pipe.take(request.into()).await {
            Ok(()) => Ok(()),
            Err(item) => Err(self.later().failed(&pipe, Some(item)).await),
        }
    }

    /// Waits until everything that [`Task::append_later`] took is on disk; answers the last of it, if there was anything
    /// since the last time. Every other call of the task does this first.
    pub async fn flush(&self) -> Result<Option<v1::AppendMessagesResponse>, Error> {
        let Some(pipe) = self.later().lock().pipe.clone() else { return Ok(None) };
        let taken = pipe.taken.load(Ordering::Acquire);
        if pipe.flushed.load(Ordering::Acquire) >= taken {
            return Ok(None);
        }
        let mut progress = pipe.progress.clone();
        let done = |progress: &Progress| progress.acknowledged >= taken;
        let reached = progress.wait_for(|progress| done(progress) || progress.failed.is_some()).await;
        let last = reached.ok().filter(|progress| done(progress)).map(|progress| progress.last.clone());
        match last {
            Some(last) => {
                pipe.flushed.fetch_max(taken, Ordering::AcqRel);
                Ok(last)
            }
            None => Err(self.later().failed(&pipe, None).await),
        }
    }

    /// What was not appended when [`Task::append_later`] last failed: the message that was refused first, and all behind it.
    /// They have request ids, so whoever appends them again does it once.
    pub fn take_not_appended(&self) -> Vec<NewMessage> {
        std::mem::take(&mut self.later().lock().not_appended)
    }

    /// The client, behind all that was appended without waiting.
    pub(crate) async fn settled(&self) -> Result<&Client, Error> {
        self.flush().await?;
        Ok(self.client())
    }

    /// Items that come behind all that was appended without waiting.
    pub(crate) fn behind<T: Send + 'static>(&self, items: Items<T>) -> Items<T> {
        let task = self.clone();
        let flushed = stream::once(async move { task.flush().await.map(|_| items) });
        Items::new(flushed.try_flatten())
    }

    /// Appends messages without waiting for each: the answers come in the same order, each when its message is
    /// on disk. The first failure ends the stream, and nothing behind it is appended.
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
    pub async fn append_many<S>(&self, messages: S) -> Result<Items<v1::AppendMessagesResponse>, Error>
    where
        S: Stream<Item: Into<NewMessage>> + Send + 'static,
    {
        self.flush().await?;
        let window = Arc::new(Window::new());
        let (tell, told) = mpsc::unbounded_channel();
        let (client, room, task) = (self.client().clone(), Arc::clone(&window), self.clone());
        let requests = Box::pin(messages).map(move |message| {
            Item::from(message.into().one_of_many(task.uuid().to_owned(), task.lease_generation(), new_id))
        });
        let sending = tokio::spawn(async move {
            let mut messages = Box::pin(stream::unfold((requests, room), |(mut requests, room)| async {
                room.admit_one().await?;
                let item = requests.next().await?;
                room.admit_bytes(item.bytes).await?;
                Some((item, (requests, room)))
            }));
            // Nobody who is told has gone: that ends this.
            let mut acknowledged = |answer, bytes| drop(tell.send(Ok((answer, bytes))));
            if let Err(failed) = send_all(client, &mut messages, &mut acknowledged).await {
                drop(tell.send(Err(failed.error)));
            }
        });
        let state = (told, window, Ending(sending.abort_handle()));
        Ok(Items::new(stream::try_unfold(state, |(mut told, window, ending)| async move {
            let Some(answer) = told.recv().await else { return Ok(None) };
            let (answer, bytes) = answer?;
            window.free(bytes);
            Ok(Some((answer, (told, window, ending))))
        })))
    }
}

/// Ends what runs in the background when it is dropped.
struct Ending(AbortHandle);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::RetryPolicy;

    #[tokio::test]
    async fn what_was_not_appended_is_told_and_kept() {
        let retry = RetryPolicy { attempts: 2, ..RetryPolicy::default() };
        let client = Client::builder().address("unix:/gone/s").retry(retry).connect_lazy().unwrap();
        let task = client.task("018f6b2e-5c1a-7d3e-9a41-000000000001");
        assert!(task.flush().await.unwrap().is_none());
        for id in ["a", "b", "c"] {
            task.append_later(NewMessage::user("hi").request_id(id)).await.unwrap();
        }
        // Whatever waits for it is told, and is not done.
        let failed = task.clone().get().await.unwrap_err();
        assert!(matches!(failed, Error::Connection { .. }), "{failed:?}");
        let ids = |messages: Vec<NewMessage>| -> Vec<String> {
            let request = |message: NewMessage| message.single(String::new(), 0, new_id).request_id;
            messages.into_iter().map(request).collect()
        };
        assert_eq!(ids(task.take_not_appended()), ["a", "b", "c"]);
        assert!(task.take_not_appended().is_empty() && task.flush().await.unwrap().is_none());
    }
}
