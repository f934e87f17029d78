//! Messages on their way: sent without waiting for each, acknowledged in order, and sent again when a stream breaks.
//!
//! They stay in a queue until they are acknowledged, so that a new stream can send them again, in order, under the same
//! request ids, and so that nothing is lost with whatever sends them. Who fills the queue and who hears of the answers is in
//! `later.rs` and `many.rs`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contextstore_proto::v1;
use futures_util::stream::{self, Stream};
use prost::Message;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;

use crate::retry::Retries;
use crate::{Client, Error, NewMessage};

/// Most messages that are under way. Whoever sends them again must find all of them among the last 1 024 request ids of
/// the task's log, where events stand too: so half of that.
const MOST_MESSAGES: usize = 512;
/// Most of their bytes. A message that is larger goes alone.
const MOST_BYTES: usize = 8 << 20;

/// How long a stream is kept open on which nothing is sent: a server that is to stop waits for those that are open.
const IDLE: Duration = Duration::from_secs(1);

/// A message on its way, with its size.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) request: v1::AppendMessagesRequest,
    pub(crate) bytes: usize,
}

impl From<v1::AppendMessagesRequest> for Item {
    fn from(request: v1::AppendMessagesRequest) -> Self {
        let bytes = request.encoded_len();
        Self { request, bytes }
    }
}

/// Room for messages that are under way.
#[derive(Debug)]
pub(crate) struct Window {
    messages: Semaphore,
    bytes: Semaphore,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { messages: Semaphore::new(MOST_MESSAGES), bytes: Semaphore::new(MOST_BYTES) }
    }

    /// Waits until there is room for a message; `None` if nothing is taken any more. Whoever waits no more has taken none.
    pub(crate) async fn admit(&self, bytes: usize) -> Option<()> {
        let one = self.messages.acquire().await.ok()?;
        self.bytes.acquire_many(share(bytes)).await.ok()?.forget();
        one.forget();
        Some(())
    }

    /// The same for one whose size is not known yet: [`Window::admit_bytes`] is to follow.
    pub(crate) async fn admit_one(&self) -> Option<()> {
        self.messages.acquire().await.ok()?.forget();
        Some(())
    }

    /// Waits until there is room for the bytes of a message.
    pub(crate) async fn admit_bytes(&self, bytes: usize) -> Option<()> {
        self.bytes.acquire_many(share(bytes)).await.ok()?.forget();
        Some(())
    }

    /// A message is not under way any more.
    pub(crate) fn free(&self, bytes: usize) {
        self.bytes.add_permits(share(bytes) as usize);
        self.messages.add_permits(1);
    }

    /// Takes nothing any more.
    pub(crate) fn close(&self) {
        self.messages.close();
        self.bytes.close();
    }
}

fn share(bytes: usize) -> u32 {
    u32::try_from(bytes.min(MOST_BYTES)).unwrap_or(u32::MAX)
}

/// The messages that are not known to be on disk, in order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Item>,
    /// Whether no more will come.
    ended: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: Item) {
        self.lock().items.push_back(item);
        self.changed.notify_one();
    }

    /// No more will come.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Takes out everything, as messages that can be appended again.
    pub(crate) fn drain(&self) -> Vec<NewMessage> {
        let items = std::mem::take(&mut self.lock().items);
        items.into_iter().map(|item| NewMessage::of_request(item.request)).collect()
    }

    /// The first message is on disk.
    fn acknowledge(&self) -> Option<Item> {
        self.lock().items.pop_front()
    }

    /// Hands out copies of the messages behind the first `sent`; answers how many there were, and whether these are the last.
    fn behind(&self, sent: usize, mut send: impl FnMut(v1::AppendMessagesRequest)) -> (usize, bool) {
        let waiting = self.lock();
        waiting.items.iter().skip(sent).for_each(|item| send(item.request.clone()));
        (waiting.items.len().saturating_sub(sent), waiting.ended)
    }

    /// Waits for a message; false if none will come.
    async fn has_message(&self) -> bool {
        loop {
            {
                let waiting = self.lock();
                if !waiting.items.is_empty() || waiting.ended {
                    return !waiting.items.is_empty();
                }
            }
            self.changed.notified().await;
        }
    }
}

/// Sends the messages of a queue until it has ended, and takes out each that is on disk, telling of its answer. The first that
/// is refused ends it, and stays in the queue with all behind it; a stream that breaks is followed by another.
pub(crate) async fn send_all(
    client: Client,
    queue: Arc<Queue>,
    mut acknowledged: impl FnMut(v1::AppendMessageResponse, usize) + Send,
) -> Result<(), Error> {
    let retries = client.settings().retry.start();
    let mut sending = Sending { client, queue, retries };
    while sending.queue.has_message().await {
        let Err(error) = sending.stretch(&mut acknowledged).await else { continue };
        let Some(pause) = sending.retries.pause_to_resume(&error) else { return Err(error) };
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

struct Sending {
    client: Client,
    queue: Arc<Queue>,
    retries: Retries,
}

impl Sending {
    /// Sends all that is not acknowledged and then what comes, on one stream, until nothing comes any more, or for a while.
    async fn stretch(
        &mut self,
        acknowledged: &mut (impl FnMut(v1::AppendMessageResponse, usize) + Send),
    ) -> Result<(), Error> {
        let (feed, requests) = mpsc::unbounded_channel();
        let mut feed = Some(feed);
        // Messages at the front of the queue that are on this stream.
        let mut sent = 0;
        let timeout = self.client.settings().timeout;
        let (mut end, mut idle) = (Instant::now() + timeout, Instant::now() + IDLE);
        self.feed(&mut feed, &mut sent);
        let mut raw = self.client.raw();
        let opened = self.client.in_time(timeout, raw.append_messages(received(requests))).await?;
        let mut answers = opened.into_inner();
        while sent > 0 || feed.is_some() {
            tokio::select! {
                answer = tokio::time::timeout_at(end, answers.message()), if sent > 0 => {
                    let answer = answer.map_err(|_| Error::Deadline { after: timeout })?;
                    let short = || Error::protocol("not every message was acknowledged");
                    let answer = match answer {
                        Ok(answer) => answer.ok_or_else(short)?,
                        Err(status) => return Err(self.client.failed(status).await),
                    };
                    let [answer] = <[_; 1]>::try_from(answer.responses).map_err(|_| short())?;
                    let item = self.queue.acknowledge().ok_or_else(short)?;
                    sent -= 1;
                    self.retries.reset();
                    (end, idle) = (Instant::now() + timeout, Instant::now() + IDLE);
                    acknowledged(answer, item.bytes);
                }
                () = tokio::time::sleep_until(idle), if sent == 0 => feed = None,
                () = self.queue.changed.notified(), if feed.is_some() => {}
            }
            if sent == 0 {
                end = Instant::now() + timeout;
            }
            self.feed(&mut feed, &mut sent);
        }
        // All is on disk, whatever is said now.
        let _ = self.client.in_time(timeout, answers.message()).await;
        Ok(())
    }

    /// Sends what the stream does not have yet. What cannot be sent because the stream has broken is sent on the next.
    fn feed(&self, feed: &mut Option<mpsc::UnboundedSender<v1::AppendMessagesRequest>>, sent: &mut usize) {
        let Some(open) = feed else { return };
        let (more, ended) = self.queue.behind(*sent, |request| drop(open.send(request)));
        *sent += more;
        if ended {
            *feed = None;
        }
    }
}

/// What comes through a channel, as a stream.
fn received<T: Send + 'static>(
    channel: mpsc::UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send + 'static {
    stream::unfold(channel, |mut channel| async { Some((channel.recv().await?, channel)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    use futures_util::FutureExt;

    #[test]
    fn there_is_room_for_so_many_messages_and_so_many_bytes() {
        let window = Window::new();
        let admit = |bytes| window.admit(bytes).now_or_never().flatten();
        for _ in 0..MOST_MESSAGES {
            admit(10).unwrap();
        }
        assert!(admit(10).is_none());
        window.free(10);
        admit(10).unwrap();

        let window = Window::new();
        let admit = |bytes| window.admit(bytes).now_or_never().flatten();
        admit(MOST_BYTES / 2).unwrap();
        admit(MOST_BYTES / 2).unwrap();
        assert!(admit(1).is_none());
        window.free(MOST_BYTES / 2);
        window.free(MOST_BYTES / 2);
        // One that is larger than all the room takes all of it.
        admit(3 * MOST_BYTES).unwrap();
        assert!(admit(1).is_none());
        window.free(3 * MOST_BYTES);
        // Who does not wait for the bytes has not taken the place of a message.
        admit(MOST_BYTES).unwrap();
        for _ in 0..MOST_MESSAGES * 2 {
            assert!(admit(1).is_none());
        }
        window.free(MOST_BYTES);
        admit(1).unwrap();
        window.close();
        assert!(window.admit_one().now_or_never().flatten().is_none());
    }

    #[tokio::test]
    async fn what_cannot_be_sent_stays_in_order() {
        let client = Client::builder().address("unix:/gone/s").connect_lazy().unwrap();
        let queue = Arc::new(Queue::default());
        for id in ["a", "b"] {
            queue.push(NewMessage::user(id).one_of_many(String::new(), 0, || id.to_owned()).into());
        }
        queue.end();
        let failed = send_all(client.clone(), Arc::clone(&queue), |_, _| panic!("nobody is there")).await;
        let failed = failed.unwrap_err();
        assert!(matches!(failed, Error::Connection { .. }), "{failed:?}");
        assert_eq!(queue.len(), 2);
        let ids: Vec<_> = queue.drain().iter().map(|message| message.id().unwrap().to_owned()).collect();
        assert_eq!(ids, ["a", "b"]);
        assert!(send_all(client, queue, |_, _| ()).await.is_ok(), "nothing is asked of nobody");
    }
}
