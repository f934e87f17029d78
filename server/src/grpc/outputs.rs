//! Reading outputs of tools: lines and bytes as they are asked for, and what is known of them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use contextstore_proto::v1 as pb;
use futures_util::Stream;
use tokio::task::block_in_place;

use super::answer;
use super::convert::{self, Parsed};
use super::serving::Serving;
use super::status::Refusal;
use crate::infra::metrics;
use crate::model::{InvalidField, StoreError, TaskId};
use crate::outputs::{Lines, OutputHead, OutputId, OutputName, Raw, Step};
use crate::store::{Output, Store};

/// How long ago an output must have been put, if nothing else is asked for.
const MIN_AGE: Duration = Duration::from_secs(3600);
/// Bytes of a chunk.
const CHUNK: usize = 128 << 10;

pub(super) fn ref_id(text: &str) -> Parsed<OutputName> {
    let problem = "is not the ref of an output: out- and 32 hex digits, or seq= and the number of a message";
    OutputName::parse(text).ok_or_else(|| InvalidField::new("ref_id", problem))
}

pub(super) fn told_ref(id: OutputName, head: &OutputHead) -> pb::ToolOutputRef {
    pb::ToolOutputRef {
        id: id.to_string(),
        byte_size: head.byte_size,
        line_count: head.line_count,
        media_type: head.media_type.clone(),
        blake3: head.blake3.clone(),
    }
}

fn told(output: &Output) -> pb::ToolOutput {
    let head = &output.meta.head;
    pb::ToolOutput {
        r#ref: Some(told_ref(output.name, head)),
        tool_name: head.tool_name.clone(),
        tool_call_id: head.tool_call_id.clone(),
        create_time: Some(answer::timestamp(head.created_at)),
        bytes_on_disk: output.bytes_on_disk(),
        compressed: output.content.is_packed(),
    }
}

pub(super) async fn stat(
    serving: &Serving,
    asked: &pb::StatToolOutputRequest,
) -> Result<pb::StatToolOutputResponse, Refusal> {
    let (id, output) = (TaskId::parse(&asked.task_uuid)?, ref_id(&asked.ref_id)?);
    let output = serving.engine.with(|store| store.output(id, output)).await?;
    Ok(pb::StatToolOutputResponse { output: Some(told(&output)) })
}

pub(super) async fn list(
    serving: &Serving,
    asked: &pb::ListToolOutputsRequest,
) -> Result<pb::ListToolOutputsResponse, Refusal> {
    const MOST: u32 = 1000;
    let id = TaskId::parse(&asked.task_uuid)?;
    let size = match asked.page_size {
        0 => 100,
        size if size > MOST => {
            let problem = format!("is {size}; at most {MOST} is allowed");
            return Err(InvalidField::new("page_size", problem).into());
        }
        size => size as usize,
    };
    let bad = || InvalidField::new("page_token", "is not the token of a page");
    let token = convert::some(asked.page_token.clone());
    let after = token.map(|token| OutputId::parse(&token).ok_or_else(bad)).transpose()?;
    serving
        .engine
        .with(|store| {
            // One more tells whether there is another page.
            let mut found = store.outputs_after(id, after, size + 1)?;
            let more = found.len() > size;
            found.truncate(size);
            let next = found.last().filter(|_| more).map(ToString::to_string);
            Ok(pb::ListToolOutputsResponse {
                outputs: found.into_iter().filter_map(|found| listed(store, id, found)).collect(),
                next_page_token: next.unwrap_or_default(),
            })
        })
        .await
        .map_err(Refusal::from)
}

/// An output of a list. One that went since is not told; of one that is damaged, that it is there.
fn listed(store: &Store, id: TaskId, output: OutputId) -> Option<pb::ToolOutput> {
    match store.output(id, output) {
        Ok(output) => Some(told(&output)),
        Err(StoreError::OutputNotFound { .. }) => None,
        Err(error) => {
            tracing::warn!(%id, %output, %error, "an output cannot be read");
            let named = pb::ToolOutputRef { id: output.to_string(), ..pb::ToolOutputRef::default() };
            Some(pb::ToolOutput { r#ref: Some(named), ..pb::ToolOutput::default() })
        }
    }
}

/// Begins to read what a request asks for.
pub(super) async fn read(serving: &Serving, asked: &pb::ReadToolOutputRequest) -> Result<Chunks, Refusal> {
    let (id, output) = (TaskId::parse(&asked.task_uuid)?, ref_id(&asked.ref_id)?);
    if asked.raw && asked.max_line_length > 0 {
        return Err(InvalidField::new("max_line_length", "cannot stand beside raw").into());
    }
    if asked.max_line_length == 1 {
        return Err(InvalidField::new(
            "max_line_length",
            "is 1; at least 2 are needed, one of them to say so",
        )
        .into());
    }
    let (skip, limit, most) = (asked.offset, asked.limit, asked.max_line_length as usize);
    serving
        .engine
        .with(|store| {
            let Output { content, meta, .. } = store.output(id, output)?;
            let reader = if asked.raw {
                Raw::new(content, &meta, skip, limit).map(Reader::Raw)
            } else {
                Lines::new(content, &meta, skip, limit, most).map(Reader::Lines)
            };
            let reader = reader.map_err(|error| store.bad_output(id, output, error))?;
            Ok(Chunks { store: store.clone(), id, output, reader: Some(reader) })
        })
        .await
        .map_err(Refusal::from)
}

pub(super) async fn collect(
    serving: &Serving,
    asked: &pb::CollectGarbageRequest,
) -> Result<pb::CollectGarbageResponse, Refusal> {
    let task = convert::some_id("task_uuid", &asked.task_uuid)?;
    let min_age = asked.min_age.as_ref().map_or(Ok(MIN_AGE), |age| convert::time_span("min_age", age))?;
    let dry_run = asked.dry_run;
    let garbage = serving.engine.with(|store| store.collect_garbage(task, min_age, dry_run)).await?;
    let found = garbage.collected;
    if !dry_run {
        metrics::outputs_removed(found.removed);
    }
    Ok(pb::CollectGarbageResponse {
        removed: found.removed,
        removed_bytes: found.removed_bytes,
        kept: found.kept,
        kept_bytes: found.kept_bytes,
        tasks: garbage.tasks,
        failed: garbage.failed,
    })
}

#[derive(Debug)]
enum Reader {
    Lines(Lines),
    Raw(Raw),
}

/// An output, chunk by chunk.
#[derive(Debug)]
pub(super) struct Chunks {
    store: Store,
    id: TaskId,
    output: OutputName,
    /// None at the end.
    reader: Option<Reader>,
}

impl Chunks {
    fn step(&mut self) -> Result<Option<pb::ReadToolOutputResponse>, StoreError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let mut data = Vec::new();
        let step = block_in_place(|| match reader {
            Reader::Lines(lines) => lines.step(&mut data, CHUNK),
            Reader::Raw(raw) => raw.step(&mut data, CHUNK),
        });
        let Step { position, more } =
            step.map_err(|error| self.store.bad_output(self.id, self.output, error))?;
        if !more {
            self.reader = None;
        }
        metrics::bytes_streamed("ReadToolOutput", data.len());
        Ok(Some(pb::ReadToolOutputResponse { data: data.into(), position }))
    }
}

impl Stream for Chunks {
    type Item = Result<pb::ReadToolOutputResponse, Refusal>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.step() {
            // Much was passed over: others first, then on with it, unless the reader has gone.
            Ok(Some(chunk)) if chunk.data.is_empty() && self.reader.is_some() => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(Some(chunk)) if chunk.data.is_empty() => Poll::Ready(None),
            Ok(chunk) => Poll::Ready(chunk.map(Ok)),
            Err(error) => {
                self.reader = None;
                Poll::Ready(Some(Err(error.into())))
            }
        }
    }
}
