//! Appending messages, one by one and pipelined.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contextstore_proto::v1 as pb;
use futures_util::Stream;
use futures_util::stream::unfold;
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tonic::{Status, Streaming};

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
const INLINE_BYTES: usize = 64 << 10;

/// Appends one message.
pub(super) async fn one(
    serving: &Serving,
    request: pb::AppendMessageRequest,
) -> Result<pb::AppendMessageResponse, Status> {
    let started = Instant::now();
    let large = request.encoded_len() > INLINE_BYTES;
    let (id, append) = whole(large, || convert::append(request))?;
    let begun = if large { None } else { serving.store().try_handle(id) };
    let pending = match begun.and_then(|handle| handle.try_append(&append)) {
        Some(begun) => begun?,
        None => serving.with(|store| store.begin_append(id, &append)).await?,
    };
    if pending.shedding_due {
        serving.shed(id);
    }
    let role = append.message.role;
    let outcome = pending.durable().await?;
    count(&outcome, role, started);
    Ok(answer::appended(&outcome))
}

/// Does something with a whole request that takes as long as that is large.
fn whole<T>(large: bool, act: impl FnOnce() -> T) -> T {
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

/// What was written of a request, and why the rest of it was not.
struct Batch {
    written: Vec<Written>,
    failed: Option<Status>,
}

impl Batch {
    fn failed(status: Status) -> Self {
        Self { written: Vec::new(), failed: Some(status) }
    }
}

/// Appends messages as they come; the responses follow in their order.
pub(super) fn many(
    serving: Arc<Serving>,
    requests: Streaming<pb::AppendMessagesRequest>,
) -> impl Stream<Item = Result<pb::AppendMessagesResponse, Status>> + Send {
    let (written, waiting) = mpsc::channel(WINDOW);
    tokio::spawn(write(serving, requests, written));
    unfold(Answers::Of(waiting), Answers::next)
}

/// What is to be answered yet.
enum Answers {
    /// Of what was written.
    Of(mpsc::Receiver<Batch>),
    /// Behind the first failure nothing more is told, and the one who writes notices.
    Failed(Status),
    Done,
}

impl Answers {
    async fn next(self) -> Option<(Result<pb::AppendMessagesResponse, Status>, Self)> {
        let mut waiting = match self {
            Self::Of(waiting) => waiting,
            Self::Failed(status) => return Some((Err(status), Self::Done)),
            Self::Done => return None,
        };
        let Batch { written, mut failed } = waiting.recv().await?;
        let mut durable = Vec::with_capacity(written.len());
        for Written { pending, role, started } in written {
            match pending.durable().await {
                Ok(outcome) => {
                    count(&outcome, role, started);
                    durable.push(answer::appended(&outcome));
                }
                Err(error) => {
                    failed = Some(error.into());
                    break;
                }
            }
        }
        let mut durable = durable.into_iter();
        Some(match (durable.next(), failed) {
            (None, failed) => (Err(failed?), Self::Done),
            (Some(first), None) => (Ok(together(first, durable.collect())), Self::Of(waiting)),
            (Some(first), Some(status)) => (Ok(together(first, durable.collect())), Self::Failed(status)),
        })
    }
}

fn together(
    first: pb::AppendMessageResponse,
    more: Vec<pb::AppendMessageResponse>,
) -> pb::AppendMessagesResponse {
    let pb::AppendMessageResponse { seq, tokens, duplicate, pressure } = first;
    pb::AppendMessagesResponse { seq, tokens, duplicate, pressure, more }
}

/// Writes what comes, until it ends or something fails.
async fn write(
    serving: Arc<Serving>,
    mut requests: Streaming<pb::AppendMessagesRequest>,
    written: mpsc::Sender<Batch>,
) {
    // One handle for as long as the messages are of one task, so that nothing goes through behind a failure.
    let mut handle: Option<TaskHandle> = None;
    let mut stopped = std::pin::pin!(serving.stopped());
    loop {
        let request = tokio::select! {
            request = requests.message() => request,
            // Nobody waits for the responses any more.
            () = written.closed() => return,
            // What was written is acknowledged; the rest is for another server, or a later one.
            () = &mut stopped => Err(Refusal::Stopping.into()),
            // A stream that is silent does not keep its task open.
            () = sleep(SILENT), if handle.is_some() => match settle(&serving, &mut handle).await {
                Ok(()) => continue,
                Err(status) => Err(status),
            },
        };
        let batch = match request {
            Ok(Some(request)) => begin_all(&serving, &mut handle, request).await,
            Ok(None) => return,
            Err(status) => Batch::failed(status),
        };
        let failed = batch.failed.is_some();
        if written.send(batch).await.is_err() || failed {
            return;
        }
    }
}

/// Writes the messages of a request, up to the first that fails.
async fn begin_all(
    serving: &Serving,
    handle: &mut Option<TaskHandle>,
    request: pb::AppendMessagesRequest,
) -> Batch {
    let size = request.encoded_len();
    let limit = serving.limits.message_bytes;
    if !request.more.is_empty() && size > limit {
        let (size, limit) = (size as u64, limit as u64);
        return Batch::failed(Refusal::TooLarge { size, limit }.into());
    }
    let large = size > INLINE_BYTES;
    let (id, appends) = match whole(large, || convert::appends(request)) {
        Ok(parsed) => parsed,
        Err(invalid) => return Batch::failed(invalid.into()),
    };
    let mut batch = Batch { written: Vec::with_capacity(appends.len()), failed: None };
    for append in appends {
        match begin(serving, handle, id, append, large).await {
            Ok(written) => batch.written.push(written),
            Err(status) => {
                batch.failed = Some(status);
                break;
            }
        }
    }
    batch
}

async fn begin(
    serving: &Serving,
    handle: &mut Option<TaskHandle>,
    id: TaskId,
    append: Append,
    large: bool,
) -> Result<Written, Status> {
    let started = Instant::now();
    let role = append.message.role;
    let handle = match handle.take_if(|handle| handle.id() == id) {
        Some(same) => handle.insert(same),
        None => {
            // Another task: what is written to it would stay if the messages before it could not be made durable.
            settle(serving, handle).await?;
            handle.insert(serving.with(|store| store.handle(id)).await?)
        }
    };
    let tried = if large { None } else { handle.try_append(&append) };
    let pending = match tried {
        Some(tried) => tried?,
        None => serving.with(|_| handle.append(&append)).await?,
    };
    if pending.shedding_due {
        serving.shed(id);
    }
    Ok(Written { pending, role, started })
}

/// Lets go of a task once everything that was written to it is durable.
async fn settle(serving: &Serving, handle: &mut Option<TaskHandle>) -> Result<(), Status> {
    match handle.take() {
        Some(handle) => serving.with(|_| handle.settle()).await,
        None => Ok(()),
    }
}
