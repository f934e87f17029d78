//! What the streaming reads of a task begin with: who asks for what, and the reader that gives it.

use std::pin::Pin;
use std::sync::Arc;

use contextstore_proto::v1 as pb;
use futures_util::Stream;

use super::convert;
use super::follow::{self, History};
use super::read::{Batches, CHUNK_BYTES, Chunks, Kinds, LogRecords};
use super::serving::Serving;
use super::status::Refusal;
use crate::model::{InvalidField, StoreError, TaskId};
use crate::store::{CurrentReader, SummaryLines};

/// The view, from an offset of a generation of it.
pub(super) async fn current(serving: &Serving, asked: &pb::StreamCurrentRequest) -> Result<Chunks, Refusal> {
    let id = TaskId::parse(&asked.task_uuid)?;
    let chunk_bytes = match asked.chunk_bytes as usize {
        0 => CHUNK_BYTES,
        size if size > CurrentReader::MAX_CHUNK_BYTES => {
            let problem = format!("is {size}; at most {} is allowed", CurrentReader::MAX_CHUNK_BYTES);
            return Err(InvalidField::new("chunk_bytes", problem).into());
        }
        size => size,
    };
    let as_of = Some(asked.as_of_seq).filter(|seq| *seq > 0);
    let mut reader = serving.engine.with(|store| store.current(id, as_of)).await?;
    let newest = reader.generation;
    match asked.generation {
        Some(given) if given != newest => return Err(StoreError::StaleView { id, given, newest }.into()),
        None if asked.offset > 0 => {
            return Err(InvalidField::new("generation", "is missing, beside offset").into());
        }
        _ => {}
    }
    reader.skip_to(asked.offset)?;
    Ok(Chunks::new(reader, chunk_bytes))
}

type MessagesItem = Result<pb::StreamMessagesResponse, Refusal>;

/// Records of the log: those that are there, or with those to come.
pub(super) async fn messages(
    serving: &Arc<Serving>,
    asked: &pb::StreamMessagesRequest,
) -> Result<Pin<Box<dyn Stream<Item = MessagesItem> + Send>>, Refusal> {
    let id = TaskId::parse(&asked.task_uuid)?;
    let (from, to) = (asked.from_seq, convert::last(asked.from_seq, "to_seq", asked.to_seq)?);
    let kinds = Kinds::parse(&asked.kinds)?;
    if asked.follow && asked.to_seq > 0 {
        return Err(InvalidField::new("to_seq", "cannot stand beside follow").into());
    }
    if asked.follow {
        serving.engine.with(|store| store.log_ends(id)).await?;
        let history = History { from, limit: asked.limit, kinds };
        return Ok(Box::pin(follow::history(Arc::clone(serving), id, history)));
    }
    let lines = serving.engine.with(|store| store.lines(id, from, to)).await?;
    let wrap = |records| pb::StreamMessagesResponse { records };
    Ok(Box::pin(Batches::new(LogRecords { lines, kinds }, asked.limit, "StreamMessages", wrap)))
}

/// The log of tool calls.
pub(super) async fn tool_calls(
    serving: &Serving,
    asked: &pb::StreamToolCallsRequest,
) -> Result<Batches<LogRecords, pb::StreamToolCallsResponse>, Refusal> {
    let id = TaskId::parse(&asked.task_uuid)?;
    let (from, to) = (asked.from_seq, convert::last(asked.from_seq, "to_seq", asked.to_seq)?);
    let lines = serving.engine.with(|store| store.tool_calls(id, from, to)).await?;
    let records = LogRecords { lines, kinds: Kinds::default() };
    Ok(Batches::new(records, asked.limit, "StreamToolCalls", |records| pb::StreamToolCallsResponse {
        records,
    }))
}

/// The log of plans.
pub(super) async fn plans(
    serving: &Serving,
    asked: &pb::StreamPlansRequest,
) -> Result<Batches<LogRecords, pb::StreamPlansResponse>, Refusal> {
    let id = TaskId::parse(&asked.task_uuid)?;
    let (from, to) = (asked.from_id, convert::last(asked.from_id, "to_id", asked.to_id)?);
    let lines = serving.engine.with(|store| store.plans(id, from, to)).await?;
    let records = LogRecords { lines, kinds: Kinds::default() };
    Ok(Batches::new(records, asked.limit, "StreamPlans", |records| pb::StreamPlansResponse { records }))
}

/// The summaries of a view.
pub(super) async fn summaries(
    serving: &Serving,
    asked: &pb::StreamSummariesRequest,
) -> Result<Batches<SummaryLines, pb::StreamSummariesResponse>, Refusal> {
    let id = TaskId::parse(&asked.task_uuid)?;
    let lines = serving.engine.with(|store| store.summary_lines(id)).await?;
    Ok(Batches::new(lines, asked.limit, "StreamSummaries", |records| pb::StreamSummariesResponse { records }))
}
