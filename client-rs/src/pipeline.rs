//! Messages on their way: sent without waiting for each, acknowledged in order, and sent again when a stream breaks.
//!
//! They are kept until they are acknowledged, so that a new stream can send them again, in order, under the same request
//! ids. Who gives them and who is told is in `later.rs` and in [`Task::append_many`](crate::Task::append_many).

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use contextstore_proto::v1;
use futures_util::stream::{self, Stream, StreamExt};
use prost::Message;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::retry::Retries;
use crate::{Client, Error};

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

/// What comes through a channel, as a stream that can be looked into when it is given up.
#[derive(Debug)]
pub(crate) struct Fed(pub(crate) mpsc::UnboundedReceiver<Item>);

impl Stream for Fed {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        self.0.poll_recv(context)
    }
}

/// Why the first of some messages was not appended.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: Error,
    /// It, and what was sent behind it.
    pub(crate) not_appended: VecDeque<Item>,
}

/// Sends messages until there are no more, and tells of each that is on disk. The first that is refused ends it; a stream
/// that breaks is followed by another.
pub(crate) async fn send_all(
    client: Client,
    messages: &mut (impl Stream<Item = Item> + Send + Unpin),
    acknowledged: &mut (impl FnMut(v1::AppendMessagesResponse, usize) + Send),
) -> Result<(), Failed> {
    let retries = client.settings().retry.start();
    let mut sending = Sending { client, sent: VecDeque::new(), ended: false, retries };
    loop {
        let error = match sending.stretch(messages, acknowledged).await {
            Ok(()) if sending.ended => return Ok(()),
            Ok(()) => continue,
            Err(error) => error,
        };
        let Some(pause) = sending.retries.pause_to_resume(&error) else {
            return Err(Failed { error, not_appended: sending.sent });
        };
        tokio::time::sleep(pause).await;
    }
}

struct Sending {
    client: Client,
    /// What is not acknowledged, in order.
    sent: VecDeque<Item>,
    /// Whether there are no more messages.
    ended: bool,
    retries: Retries,
}

impl Sending {
    /// Sends all that is not acknowledged and then what comes, on one stream, until nothing comes any more, or for a while.
    async fn stretch(
        &mut self,
        messages: &mut (impl Stream<Item = Item> + Send + Unpin),
        acknowledged: &mut (impl FnMut(v1::AppendMessagesResponse, usize) + Send),
    ) -> Result<(), Error> {
        if self.sent.is_empty() {
            // Nothing is opened for nothing.
            match messages.next().await {
                Some(item) => self.sent.push_back(item),
                None => {
                    self.ended = true;
                    return Ok(());
                }
            }
        }
        let (feed, requests) = mpsc::unbounded_channel();
        // What cannot be sent because the stream has broken is sent on the next.
        let send = |feed: &mpsc::UnboundedSender<_>, item: &Item| drop(feed.send(item.request.clone()));
        self.sent.iter().for_each(|item| send(&feed, item));
        let mut feed = Some(feed).filter(|_| !self.ended);
        let client = self.client.clone();
        let timeout = client.settings().timeout;
        let requests =
            stream::unfold(requests, |mut requests| async { Some((requests.recv().await?, requests)) });
        let mut raw = client.raw();
        let mut answers = client.in_time(timeout, raw.append_messages(requests)).await?.into_inner();
        let (mut end, mut idle) = (Instant::now() + timeout, Instant::now() + IDLE);
        while !self.sent.is_empty() || feed.is_some() {
            tokio::select! {
                answer = tokio::time::timeout_at(end, answers.message()), if !self.sent.is_empty() => {
                    let answer = answer.map_err(|_| Error::Deadline { after: timeout })?;
                    let answer = answer.map_err(|status| client.error(status))?;
                    let short = || Error::protocol("not every message was acknowledged");
                    let answer = answer.ok_or_else(short)?;
                    let item = self.sent.pop_front().ok_or_else(short)?;
                    self.retries.reset();
                    (end, idle) = (Instant::now() + timeout, Instant::now() + IDLE);
                    acknowledged(answer, item.bytes);
                }
                () = tokio::time::sleep_until(idle), if self.sent.is_empty() => feed = None,
                next = messages.next(), if feed.is_some() => match (next, &feed) {
                    (Some(item), Some(feed)) => {
                        if self.sent.is_empty() {
                            end = Instant::now() + timeout;
                        }
                        send(feed, &item);
                        self.sent.push_back(item);
                    }
                    _ => {
                        self.ended = true;
                        feed = None;
                    }
                },
            }
        }
        // All is on disk, whatever is said now.
        let _ = client.in_time(timeout, answers.message()).await;
        Ok(())
    }
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
    async fn what_cannot_be_sent_is_given_back_in_order() {
        let retry = crate::RetryPolicy { attempts: 2, ..crate::RetryPolicy::default() };
        let client = Client::builder().address("unix:/gone/s").retry(retry).connect_lazy().unwrap();
        let item = |id: &str| v1::AppendMessagesRequest { request_id: id.to_owned(), ..Default::default() };
        let mut messages = stream::iter(["a", "b"].map(|id| Item::from(item(id))));
        let failed = send_all(client.clone(), &mut messages, &mut |_, _| panic!("nobody is there")).await;
        let failed = failed.unwrap_err();
        assert!(matches!(failed.error, Error::Connection { .. }), "{failed:?}");
        let mut left: Vec<_> = failed.not_appended.into_iter().collect();
        left.extend(messages.collect::<Vec<_>>().await);
        let ids: Vec<_> = left.iter().map(|item| item.request.request_id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);

        let mut none = stream::iter([]);
        assert!(send_all(client, &mut none, &mut |_, _| ()).await.is_ok(), "nothing is asked of nobody");
    }
}
