//! Appending messages, one by one and pipelined.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contextstore_proto::v1 as pb;
use futures_util::Stream;
use futures_util::stream::unfold;
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::{block_in_place, yield_now};
use tokio::time::sleep;
use tonic::Streaming;

use super::intake::Held;
use super::serving::Serving;
use super::status::Refusal;
use super::{answer, convert};
use crate::infra::metrics;
use crate::model::{Role, TaskId};
use crate::store::{Append, AppendOutcome, Pending, TaskHandle};

/// Messages that may wait for their responses.
const WINDOW: usize = 1024;
/// After how long a stream lets go of its task.
const SILENT: Duration = Duration::from_secs(1);
/// A request that is larger is not worked on where other calls wait behind it.
pub(super) const INLINE_BYTES: usize = 64 << 10;

/// Appends one message.
pub(super) async fn one(
    serving: &Serving,
    request: pb::AppendMessageRequest,
) -> Result<pb::AppendMessageResponse, Refusal> {
    let started = Instant::now();
    let large = request.encoded_len() > INLINE_BYTES;
    let (id, append) = whole(large, || convert::append(request))?;
    let begun = if large { None } else { serving.engine.store().try_handle(id) };
    let pending = match begun.and_then(|handle| handle.try_append(&append)) {
        Some(begun) => begun?,
        None => serving.engine.with(|store| store.begin_append(id, &append)).await?,
    };
    serving.engine.tidy(id, pending.due);
    let role = append.message.role;
    let outcome = pending.durable().await?;
    count(&outcome, role, started);
    serving.engine.keep_small(id, &outcome.pressure);
    Ok(answer::appended(&outcome))
}

/// Does something with a whole request that takes as long as that is large.
pub(super) fn whole<T>(large: bool, act: impl FnOnce() -> T) -> T {
    if large { block_in_place(act) } else { act() }
}

fn count(outcome: &AppendOutcome, role: Role, started: Instant) {
    if !outcome.duplicate {
        metrics::message_appended(&outcome.source, role.as_str());
    }
    metrics::append_took(started.elapsed());
}

/// A message that was written.
struct Written {
    pending: Pending,
    role: Role,
    started: Instant,
}

/// A message that was written, or why it was not; and whether it is the last of its request.
struct Item {
    written: Result<Written, Refusal>,
    last: bool,
}

/// Appends messages as they come; the responses follow in their order.
pub(super) fn many(
    serving: Arc<Serving>,
    requests: Streaming<pb::AppendMessagesRequest>,
    held: Option<Arc<Held>>,
) -> impl Stream<Item = Result<pb::AppendMessagesResponse, Refusal>> + Send {
    let (written, waiting) = mpsc::channel(WINDOW);
    tokio::spawn(write(serving, requests, written, held));
    unfold(Answers::Of(waiting), Answers::next)
}

/// What is to be answered yet.
enum Answers {
    /// Of what was written.
    Of(mpsc::Receiver<Item>),
    /// Behind the first failure nothing more is told, and the one who writes notices.
    Failed(Refusal),
    Done,
}

impl Answers {
    async fn next(self) -> Option<(Result<pb::AppendMessagesResponse, Refusal>, Self)> {
        let mut waiting = match self {
            Self::Of(waiting) => waiting,
            Self::Failed(status) => return Some((Err(status), Self::Done)),
            Self::Done => return None,
        };
        let (mut responses, mut failed) = (Vec::new(), None);
        while let Some(Item { written, last }) = waiting.recv().await {
            match settled(written, responses.is_empty()).await {
                Ok(response) => responses.push(response),
                Err(status) => failed = Some(status),
            }
            if last || failed.is_some() {
                break;
            }
        }
        match (responses.is_empty(), failed) {
            (true, None) => None,
            (true, Some(status)) => Some((Err(status), Self::Done)),
            (false, None) => Some((Ok(pb::AppendMessagesResponse { responses }), Self::Of(waiting))),
            (false, Some(status)) => {
                Some((Ok(pb::AppendMessagesResponse { responses }), Self::Failed(status)))
            }
        }
    }
}

/// Waits until a message is durable.
async fn settled(
    written: Result<Written, Refusal>,
    is_first: bool,
) -> Result<pb::AppendMessageResponse, Refusal> {
    let Written { pending, role, started } = written?;
    // The transport sends what it has been given when it finds nothing more. Without this, one who syncs here would
    // keep it from looking, and responses would lie there for as long as more is to be synced.
    if is_first && !pending.is_durable() {
        yield_now().await;
    }
    let outcome = pending.durable().await?;
    count(&outcome, role, started);
    Ok(answer::appended(&outcome))
}

/// Writes what comes, until it ends or something fails.
async fn write(
    serving: Arc<Serving>,
    mut requests: Streaming<pb::AppendMessagesRequest>,
    written: mpsc::Sender<Item>,
    held: Option<Arc<Held>>,
) {
    let mut taken = 0;
    // One handle for as long as the messages are of one task, so that nothing goes through behind a failure.
    let mut handle: Option<TaskHandle> = None;
    let mut stopped = std::pin::pin!(serving.engine.stopped());
    loop {
        let request = tokio::select! {
            request = requests.message() => request.map_err(Refusal::from),
            // Nobody waits for the responses any more.
            () = written.closed() => return,
            // What was written is acknowledged; the rest is for another server, or a later one.
            () = &mut stopped => Err(Refusal::Stopping),
            // A stream that is silent does not keep its task open.
            () = sleep(SILENT), if handle.is_some() => match settle(&serving, &mut handle).await {
                Ok(()) => continue,
                Err(status) => Err(status),
            },
        };
        let going_on = match request {
            Ok(Some(request)) => write_all(&serving, &mut handle, request, &written).await,
            Ok(None) => false,
            Err(status) => fail(&written, status).await,
        };
        // It is in the log, and takes no memory while the stream waits for the next.
        taken += 1;
        held.iter().for_each(|held| held.release(taken));
        if !going_on {
            return;
        }
    }
}

/// Writes the messages of a request, up to the first that fails; false if that was the end.
async fn write_all(
    serving: &Serving,
    handle: &mut Option<TaskHandle>,
    request: pb::AppendMessagesRequest,
    written: &mpsc::Sender<Item>,
) -> bool {
    let size = request.encoded_len();
    let limit = serving.limits.message_bytes;
    if request.messages.len() > 1 && size > limit {
        let (size, limit) = (size as u64, limit as u64);
        return fail(written, Refusal::TooLarge { size, limit }).await;
    }
    let large = size > INLINE_BYTES;
    let (id, appends) = match whole(large, || convert::appends(request)) {
        Ok(parsed) => parsed,
        Err(invalid) => return fail(written, invalid.into()).await,
    };
    let count = appends.len();
    for (at, append) in appends.into_iter().enumerate() {
        let outcome = begin(serving, handle, id, append, large).await;
        let failed = outcome.is_err();
        let item = Item { written: outcome, last: at + 1 == count };
        if written.send(item).await.is_err() || failed {
            return false;
        }
    }
    true
}

/// Tells why there is no more, which is the end.
async fn fail(written: &mpsc::Sender<Item>, refusal: Refusal) -> bool {
    let _ = written.send(Item { written: Err(refusal), last: true }).await;
    false
}

async fn begin(
    serving: &Serving,
    handle: &mut Option<TaskHandle>,
    id: TaskId,
    append: Append,
    large: bool,
) -> Result<Written, Refusal> {
    let started = Instant::now();
    let role = append.message.role;
    let handle = match handle.take_if(|handle| handle.id() == id) {
        Some(same) => handle.insert(same),
        None => {
            // Another task: what is written to it would stay if the messages before it could not be made durable.
            settle(serving, handle).await?;
            handle.insert(serving.engine.with(|store| store.handle(id)).await?)
        }
    };
    let tried = if large { None } else { handle.try_append(&append) };
    let pending = match tried {
        Some(tried) => tried?,
        None => serving.engine.with(|_| handle.append(&append)).await?,
    };
    serving.engine.tidy(id, pending.due);
    serving.engine.keep_small(id, pending.pressure());
    Ok(Written { pending, role, started })
}

/// Lets go of a task once everything that was written to it is durable.
async fn settle(serving: &Serving, handle: &mut Option<TaskHandle>) -> Result<(), Refusal> {
    match handle.take() {
        Some(handle) => Ok(serving.engine.with(|_| handle.settle()).await?),
        None => Ok(()),
    }
}
