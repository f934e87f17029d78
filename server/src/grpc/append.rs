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
use crate::model::{InvalidField, Role, TaskId};
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
    let (id, append) = parse(request, large)?;
    let begun = if large { None } else { serving.store().try_handle(id) };
    let pending = match begun.and_then(|handle| handle.try_append(&append)) {
        Some(begun) => begun?,
        None => serving.with(|store| store.begin_append(id, &append)).await?,
    };
    let role = append.message.role;
    let outcome = pending.durable().await?;
    count(&outcome, role, started);
    Ok(answer::appended(&outcome))
}

fn parse(request: pb::AppendMessageRequest, large: bool) -> Result<(TaskId, Append), InvalidField> {
    let parse = || convert::append(request);
    if large { block_in_place(parse) } else { parse() }
}

fn count(outcome: &AppendOutcome, role: Role, started: Instant) {
    if !outcome.duplicate {
        metrics::message_appended(&outcome.source, role.as_str());
    }
    metrics::append_took(started.elapsed());
}

/// A message that was written, or why it was not.
type Written = Result<(Pending, Role, Instant), Status>;

/// Appends messages as they come; the responses follow in their order.
pub(super) fn many(
    serving: Arc<Serving>,
    requests: Streaming<pb::AppendMessagesRequest>,
) -> impl Stream<Item = Result<pb::AppendMessagesResponse, Status>> + Send {
    let (written, waiting) = mpsc::channel(WINDOW);
    tokio::spawn(write(serving, requests, written));
    unfold(Some(waiting), |waiting| async move {
        let mut waiting: mpsc::Receiver<Written> = waiting?;
        let durable = match waiting.recv().await? {
            Ok((pending, role, started)) => {
                pending.durable().await.map_err(Status::from).inspect(|outcome| {
                    count(outcome, role, started);
                })
            }
            Err(status) => Err(status),
        };
        // Behind the first failure nothing more is told, and the one who writes notices.
        let waiting = durable.is_ok().then_some(waiting);
        Some((durable.map(|outcome| acknowledged(&outcome)), waiting))
    })
}

fn acknowledged(outcome: &AppendOutcome) -> pb::AppendMessagesResponse {
    let pb::AppendMessageResponse { seq, tokens, duplicate, pressure } = answer::appended(outcome);
    pb::AppendMessagesResponse { seq, tokens, duplicate, pressure }
}

/// Writes what comes, until it ends or something fails.
async fn write(
    serving: Arc<Serving>,
    mut requests: Streaming<pb::AppendMessagesRequest>,
    written: mpsc::Sender<Written>,
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
        let outcome = match request {
            Ok(Some(request)) => begin(&serving, &mut handle, convert::as_one(request)).await,
            Ok(None) => return,
            Err(status) => Err(status),
        };
        let failed = outcome.is_err();
        if written.send(outcome).await.is_err() || failed {
            return;
        }
    }
}

async fn begin(
    serving: &Serving,
    handle: &mut Option<TaskHandle>,
    request: pb::AppendMessageRequest,
) -> Written {
    let started = Instant::now();
    let large = request.encoded_len() > INLINE_BYTES;
    let (id, append) = parse(request, large)?;
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
    Ok((pending, role, started))
}

/// Lets go of a task once everything that was written to it is durable.
async fn settle(serving: &Serving, handle: &mut Option<TaskHandle>) -> Result<(), Status> {
    match handle.take() {
        Some(handle) => serving.with(|_| handle.settle()).await,
        None => Ok(()),
    }
}
