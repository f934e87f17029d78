//! Appending without waiting: messages that are on disk some time later, and what has to wait for them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use contextstore_proto::v1;
use futures_util::future::join_all;
use futures_util::stream::{self, TryStreamExt};
use prost::Message;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::NotAppended;
use crate::pipeline::{Item, Queue, Window, send_all};
use crate::stream::Items;
use crate::{Client, Error, NewMessage, Task};

/// What was appended without waiting, by a handle and its clones.
#[derive(Default)]
pub(crate) struct Later {
    pipe: Mutex<Option<Arc<Pipe>>>,
}

/// Messages that were handed over, and what sends them in the background.
pub(crate) struct Pipe {
    task_uuid: String,
    queue: Arc<Queue>,
    window: Window,
    /// Messages that were handed over.
    taken: AtomicU64,
    /// Those of them that the last flush has waited for.
    flushed: AtomicU64,
    progress: watch::Sender<Progress>,
    sender: Mutex<Option<AbortHandle>>,
    of_client: Weak<Pipes>,
}

#[derive(Default)]
struct Progress {
    acknowledged: u64,
    last: Option<v1::AppendMessageResponse>,
    /// Whether a sender is at work. One ends with its runtime.
    sending: bool,
    failed: Option<Failed>,
}

struct Failed {
    why: Arc<NotAppended>,
    /// Whether somebody has heard of it.
    reported: bool,
}

/// The pipes of a client, so that it can wait for all of them.
#[derive(Default)]
pub(crate) struct Pipes {
    open: Mutex<Vec<Weak<Pipe>>>,
    /// Messages of handles that are gone, which could not be appended, and why the first could not.
    lost: Mutex<Option<(u64, Error)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later").field("open", &lock(&self.pipe).is_some()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Pipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipes").field("open", &lock(&self.open).len()).finish_non_exhaustive()
    }
}

impl Later {
    /// The pipe to put messages into: a new one behind one that has failed and of which somebody has heard.
    fn open(&self, task: &Task) -> Arc<Pipe> {
        let mut pipe = lock(&self.pipe);
        match &*pipe {
            Some(open) if !open.is_over() => Arc::clone(open),
            _ => Arc::clone(pipe.insert(Pipe::open(task))),
        }
    }

    fn pipe(&self) -> Option<Arc<Pipe>> {
        lock(&self.pipe).clone().filter(|pipe| !pipe.is_over())
    }
}

impl Drop for Later {
    /// What was handed over is sent all the same.
    fn drop(&mut self) {
        if let Some(pipe) = lock(&self.pipe).take() {
            pipe.queue.end();
        }
    }
}

impl Pipe {
    fn open(task: &Task) -> Arc<Self> {
        let pipes = task.client().pipes();
        let pipe = Arc::new(Self {
            task_uuid: task.uuid().to_owned(),
            queue: Arc::default(),
            window: Window::new(),
            taken: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            progress: watch::Sender::default(),
            sender: Mutex::default(),
            of_client: Arc::downgrade(pipes),
        });
        let mut open = lock(&pipes.open);
        if open.len() == open.capacity() {
            open.retain(|pipe| pipe.strong_count() > 0);
        }
        open.push(Arc::downgrade(&pipe));
        pipe
    }

    /// Whether it has failed, and somebody has heard of that.
    fn is_over(&self) -> bool {
        self.progress.borrow().failed.as_ref().is_some_and(|failed| failed.reported)
    }

    /// Hands on a message when there is room for it; gives it back if nothing is taken any more.
    async fn take(self: &Arc<Self>, client: &Client, item: Item) -> Result<(), Item> {
        if self.window.admit(item.bytes).await.is_none() {
            return Err(item);
        }
        {
            // Whoever fails it has taken out all that was in the queue.
            let progress = self.progress.borrow();
            if progress.failed.is_some() {
                return Err(item);
            }
            self.taken.fetch_add(1, Ordering::AcqRel);
            self.queue.push(item);
        }
        self.send(client);
        Ok(())
    }

    /// Has the messages sent in the background, unless they are: the runtime in which they were may have ended.
    fn send(self: &Arc<Self>, client: &Client) {
        let mut sender = lock(&self.sender);
        if self.progress.borrow().sending {
            return;
        }
        self.progress.send_modify(|progress| progress.sending = true);
        let sending = Sending(Arc::clone(self));
        let pipe = Arc::clone(self);
        let acknowledged = move |answer, bytes| {
            pipe.progress.send_modify(|progress| {
                progress.acknowledged += 1;
                progress.last = Some(answer);
            });
            pipe.window.free(bytes);
        };
        let all = send_all(client.clone(), Arc::clone(&self.queue), acknowledged);
        let task = tokio::spawn(async move {
            if let Err(error) = all.await {
                sending.0.fail(error);
            }
        });
        *sender = Some(task.abort_handle());
    }

    /// Sends no more, and keeps what is not acknowledged for the report.
    fn fail(&self, error: Error) {
        self.progress.send_modify(|progress| {
            if progress.failed.is_some() {
                return;
            }
            let messages = self.queue.drain().into_iter().map(|message| message.of_task(&self.task_uuid));
            let why = Arc::new(NotAppended::new(error, None, messages.collect()));
            progress.failed = Some(Failed { why, reported: false });
        });
        self.window.close();
    }

    /// What it has failed with.
    fn report(&self) -> Option<Arc<NotAppended>> {
        let mut why = None;
        self.progress.send_if_modified(|progress| {
            if let Some(failed) = &mut progress.failed {
                failed.reported = true;
                why = Some(Arc::clone(&failed.why));
            }
            false
        });
        why
    }

    /// Waits until everything that was handed over is on disk.
    async fn flush(self: &Arc<Self>, client: &Client) -> Result<Option<v1::AppendMessageResponse>, Error> {
        let taken = self.taken.load(Ordering::Acquire);
        let mut progress = self.progress.subscribe();
        loop {
            let over = |progress: &Progress| {
                progress.acknowledged >= taken || progress.failed.is_some() || !progress.sending
            };
            // It is never closed: this has its other end.
            let Ok(now) = progress.wait_for(over).await else { return Ok(None) };
            if now.acknowledged >= taken {
                let known = self.flushed.fetch_max(taken, Ordering::AcqRel) >= taken;
                // A failure behind it is for the next call.
                return Ok(now.last.clone().filter(|_| !known));
            }
            let failed = now.failed.is_some();
            drop(now);
            match self.report() {
                Some(why) if failed => return Err(Error::NotAppended(why)),
                _ => self.send(client),
            }
        }
    }

    /// The same for at most so long; then nothing more is sent.
    async fn flush_within(self: Arc<Self>, client: &Client, limit: Duration) -> Result<(), Arc<NotAppended>> {
        let flushed = tokio::time::timeout(limit, self.flush(client)).await;
        match flushed {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Error::NotAppended(why))) => Err(why),
            Ok(Err(error)) => Err(Arc::new(NotAppended::new(error, None, Vec::new()))),
            Err(_) => {
                if let Some(sender) = &*lock(&self.sender) {
                    sender.abort();
                }
                self.fail(Error::Deadline { after: limit });
                self.report().map_or(Ok(()), Err)
            }
        }
    }
}

impl Drop for Pipe {
    /// Nothing can be raised here: a warning has the count, and so has the error of [`Client::close`].
    fn drop(&mut self) {
        let progress = self.progress.borrow();
        let (count, error) = match &progress.failed {
            Some(Failed { reported: true, .. }) => return,
            Some(failed) => (failed.why.messages.len() as u64, failed.why.error.clone()),
            None => (self.queue.len() as u64, Error::RuntimeEnded),
        };
        if count == 0 {
            return;
        }
        tracing::warn!(task = self.task_uuid, count, %error, "messages were not appended");
        if let Some(pipes) = self.of_client.upgrade() {
            lock(&pipes.lost).get_or_insert((0, error)).0 += count;
        }
    }
}

/// Marks a pipe as being sent until it is dropped.
struct Sending(Arc<Pipe>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.progress.send_modify(|progress| progress.sending = false);
    }
}

impl Task {
    /// Appends a message without waiting until it is on disk: it is when [`Task::flush`] or any other call of this handle
    /// or its clones returns, and that is where it is reported if it failed. Messages keep their order.
    ///
    /// At most 512 messages, or 8 MiB, are under way; this waits for room. A broken connection is taken up again, and
    /// nothing is appended twice. After a failure nothing behind it is appended, and [`Error::not_appended`] has what was
    /// not; the message of the call that fails is the last. A call that is cancelled loses nothing that was handed over
    /// before it.
    ///
    /// What is handed over is sent also when the handle is dropped. Call [`Client::close`] before the program ends: what is
    /// not on disk when the tokio runtime ends is lost, and a warning says how many messages that were.
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
        let refused =
            |error, request| NotAppended::with(error, NewMessage::of_request(request).of_task(self.uuid()));
        if let Err(error) = self.client().check_size(request.encoded_len()).await {
            return Err(refused(error, request));
        }
        let pipe = self.later().open(self);
        pipe.take(self.client(), request.into()).await.map_err(|item| {
            let error = pipe.report().map_or_else(|| Error::protocol("appending ended"), Error::NotAppended);
            refused(error, item.request)
        })
    }

    /// Waits until everything that [`Task::append_later`] took is on disk; answers the last of it, if there was anything
    /// since the last time. Every other call of the task does this first.
    pub async fn flush(&self) -> Result<Option<v1::AppendMessageResponse>, Error> {
        match self.later().pipe() {
            Some(pipe) => pipe.flush(self.client()).await,
            None => Ok(None),
        }
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
}

impl Client {
    /// Waits until everything that was appended without waiting, by any task of this client and its clones, is on disk; at
    /// most for [`Builder::close_timeout`](crate::Builder::close_timeout). Call it before the program ends.
    ///
    /// What is not on disk then is not sent any more, and is in [`Error::not_appended`], each message with its
    /// [`task_uuid`](NewMessage::task_uuid). The connection ends with the last clone of the client.
    ///
    /// ```no_run
    /// # async fn example(client: contextstore_client::Client) {
    /// if let Err(error) = client.close().await {
    ///     eprintln!("{} messages were not saved: {error}", error.not_appended().len());
    /// }
    /// # }
    /// ```
    pub async fn close(&self) -> Result<(), Error> {
        let pipes: Vec<_> = lock(&self.pipes().open).iter().filter_map(Weak::upgrade).collect();
        let limit = self.settings().close_timeout;
        let open = pipes.into_iter().filter(|pipe| !pipe.is_over());
        let flushed = join_all(open.map(|pipe| pipe.flush_within(self, limit))).await;
        let mut failed = flushed.into_iter().filter_map(Result::err);
        let lost = lock(&self.pipes().lost).take();
        let first = failed.next().map(|why| NotAppended::clone(&why));
        let Some(mut all) = first
            .or_else(|| lost.as_ref().map(|(_, error)| NotAppended::new(error.clone(), None, Vec::new())))
        else {
            return Ok(());
        };
        for why in failed {
            all.messages.extend(why.messages.iter().cloned());
        }
        all.lost += lost.map_or(0, |(count, _)| count);
        Err(Error::NotAppended(Arc::new(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_not_appended_is_reported_and_kept() {
        let client = Client::builder().address("unix:/gone/s").connect_lazy().unwrap();
        let task = client.task("018f6b2e-5c1a-7d3e-9a41-000000000001");
        assert!(task.flush().await.unwrap().is_none());
        for id in ["a", "b", "c"] {
            task.append_later(NewMessage::user("hi").request_id(id)).await.unwrap();
        }
        // Whatever waits for it hears of it, and is not done.
        let failed = task.clone().get().await.unwrap_err();
        assert_eq!(failed.code(), tonic::Code::Unavailable);
        let ids: Vec<_> = failed.not_appended().iter().map(|message| message.id().unwrap()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(failed.not_appended()[0].task_uuid(), Some(task.uuid()));
        assert!(task.flush().await.unwrap().is_none() && client.close().await.is_ok());

        // Of handles that are gone the client knows how many messages were lost with them.
        let gone = client.task(task.uuid());
        gone.append_later(NewMessage::user("hi")).await.unwrap();
        drop(gone);
        while lock(&client.pipes().lost).is_none() {
            tokio::task::yield_now().await;
        }
        let closed = client.close().await.unwrap_err();
        assert!(closed.to_string().contains("1 message was not appended"), "{closed}");
        assert!(client.close().await.is_ok());
    }
}
