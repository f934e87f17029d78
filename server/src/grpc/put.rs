//! PutToolOutput: a header, then bytes, which go to disk as they come.

use std::time::Instant;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::put_tool_output_request::Part;
use tokio::task::spawn_blocking;
use tonic::{Request, Streaming};

use super::convert::Parsed;
use super::intake::Whole;
use super::serving::Serving;
use super::status::Refusal;
use super::{answer, convert};
use crate::context::OutputPolicy;
use crate::infra::metrics;
use crate::model::{InvalidField, StoreError, TaskId, ToolCall};
use crate::outputs::{MediaKind, ViewLimits};
use crate::store::{NewOutput, Put, PutDone};

/// Longest names of tools and ids of calls, in bytes.
const MAX_NAME: usize = 1024;
/// Longest media type, in bytes.
const MAX_MEDIA_TYPE: usize = 255;
/// Largest view that may be asked for, in bytes.
const MAX_VIEW: usize = 1 << 20;
/// Longest line of a view that may be asked for, in characters.
const MAX_LINE: u32 = 1 << 20;
/// How much text may grow when it is written as JSON, with room for the rest of the message.
const ESCAPED: usize = 8;

/// What a record has beside what the call says: its ref, and the id of the call.
const AROUND_RECORD: usize = 256;

/// A put whose file goes where nobody waits for it, if the call ends before it does.
struct Begun(Option<Put>);

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(put) = self.0.take() {
            spawn_blocking(move || drop(put));
        }
    }
}

pub(super) async fn put(
    serving: &Serving,
    request: Request<Streaming<pb::PutToolOutputRequest>>,
) -> Result<pb::PutToolOutputResponse, Refusal> {
    let whole_request = request.extensions().get::<Whole>().cloned().unwrap_or_default();
    let mut requests = request.into_inner();
    let out_of_order = |problem| Refusal::from(StoreError::OutputMalformed { problem });
    let header = match next(serving, &mut requests).await? {
        Some(Part::Header(header)) => header,
        Some(Part::Data(_)) => return Err(out_of_order("there are data before the header")),
        None => return Err(out_of_order("there is no header")),
    };
    let within = |invalid: InvalidField| invalid.within("header");
    let id = TaskId::parse(&header.task_uuid).map_err(within)?;
    let policy = serving.engine.with(|store| store.policy(id)).await?;
    let (new, content) = parse(serving, header, &policy.outputs).map_err(within)?;
    let put = serving.engine.with(|store| store.begin_put(id, new)).await?;
    let mut begun = Begun(Some(put));
    let whole = content.is_some();
    let mut renewed = Instant::now();
    let mut data = content;
    loop {
        if let (Some(data), Some(put)) = (data.take(), &mut begun.0) {
            serving.engine.with(|_| put.write(&data)).await?;
            metrics::output_bytes_put(data.len());
            // Whoever sends is at work on the task.
            if renewed.elapsed() >= serving.engine.lease_ttl() / 3 && put.lease_generation() > 0 {
                let _ = serving.engine.with(|store| store.renew_lease(id, put.lease_generation())).await;
                renewed = Instant::now();
            }
        }
        match next(serving, &mut requests).await? {
            None => break,
            Some(Part::Header(_)) => return Err(out_of_order("there is a second header")),
            Some(Part::Data(_)) if whole => {
                return Err(out_of_order("there are data behind a header that carries the whole output"));
            }
            Some(Part::Data(more)) => data = Some(more),
        }
    }
    if !whole_request.is_whole() {
        // Half an output would pass for a whole one.
        return Err(Refusal::Malformed("it was broken off"));
    }
    let Some(put) = begun.0.take() else {
        return Err(Refusal::Internal("a put without a beginning".to_owned()));
    };
    let done = serving.engine.with(|_| put.finish()).await?;
    serving.engine.tidy(id, done.due);
    if let Some(pressure) = &done.pressure {
        serving.engine.keep_small(id, pressure);
    }
    count(&done);
    Ok(told(done))
}

/// The next part; none at the end of the stream.
async fn next(
    serving: &Serving,
    requests: &mut Streaming<pb::PutToolOutputRequest>,
) -> Result<Option<Part>, Refusal> {
    loop {
        let request = tokio::select! {
            request = requests.message() => request?,
            () = serving.engine.stopped() => return Err(Refusal::Stopping),
        };
        match request {
            None => return Ok(None),
            // Nothing was set, which is nothing.
            Some(pb::PutToolOutputRequest { part: None }) => {}
            Some(pb::PutToolOutputRequest { part: Some(part) }) => return Ok(Some(part)),
        }
    }
}

fn count(done: &PutDone) {
    let is_text = MediaKind::of(&done.head.media_type) == MediaKind::Text;
    metrics::output_put(if is_text { "text" } else { "binary" });
    if let (Some(source), false) = (&done.source, done.duplicate) {
        metrics::message_appended(source, "tool");
    }
}

/// What a header asks for; how much is shown is for the task to say where the call does not.
fn parse(
    serving: &Serving,
    header: pb::PutToolOutputHeader,
    policy: &OutputPolicy,
) -> Parsed<(NewOutput, Option<bytes::Bytes>)> {
    let caller = convert::caller(&header.request_id, header.lease_generation)?;
    check_name("tool_name", &header.tool_name)?;
    check_name("tool_call_id", &header.tool_call_id)?;
    check_media_type(&header.media_type)?;
    if (header.append || header.record.is_some()) && header.tool_name.is_empty() {
        return Err(InvalidField::new("tool_name", "is missing, beside append or record"));
    }
    if header.append && header.tool_call_id.is_empty() {
        return Err(InvalidField::new("tool_call_id", "is missing, beside append"));
    }
    let record = header
        .record
        .as_ref()
        .map(|record| record_of(&header, record, serving.limits.message_bytes))
        .transpose()?;
    let limits = limits(serving, policy, &header)?;
    let part = |word| caller.request_id.as_ref().map(|id| id.part(word));
    let new = NewOutput {
        record_id: part("record"),
        message_id: part("message"),
        lease_generation: caller.lease_generation,
        tool_name: header.tool_name,
        tool_call_id: header.tool_call_id,
        media_type: header.media_type,
        append: header.append,
        record,
        limits,
    };
    Ok((new, header.content))
}

/// The tool call that is to be recorded. What is too large for its log is refused before anything is written.
fn record_of(header: &pb::PutToolOutputHeader, record: &pb::OutputRecord, most: usize) -> Parsed<ToolCall> {
    let call = convert::tool_call(pb::RecordToolCallRequest {
        tool_name: header.tool_name.clone(),
        arguments_json: record.arguments_json.clone(),
        status: record.status,
        error: record.error.clone(),
        duration: record.duration,
        ..pb::RecordToolCallRequest::default()
    });
    let checked = call.and_then(|call| {
        call.validate()?;
        let size = call.body().map_or(usize::MAX, |body| body.len().saturating_add(AROUND_RECORD));
        if size > most {
            let problem = format!("makes a record of {size} bytes; at most {most} are allowed");
            return Err(InvalidField::new(call.largest_field(), problem));
        }
        Ok(call)
    });
    checked.map_err(|invalid| if invalid.field == "tool_name" { invalid } else { invalid.within("record") })
}

fn check_name(field: &'static str, text: &str) -> Parsed<()> {
    if text.len() > MAX_NAME {
        return Err(InvalidField::new(
            field,
            format!("has {} bytes; at most {MAX_NAME} are allowed", text.len()),
        ));
    }
    Ok(())
}

fn check_media_type(text: &str) -> Parsed<()> {
    let bad = |problem: &str| Err(InvalidField::new("media_type", problem));
    if text.is_empty() {
        return Ok(());
    }
    if text.len() > MAX_MEDIA_TYPE {
        return bad(&format!("has {} bytes; at most {MAX_MEDIA_TYPE} are allowed", text.len()));
    }
    let visible = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let (family, name) = text.split_once('/').unwrap_or_default();
    if !visible || family.is_empty() || name.is_empty() || text.contains(['"', '\\', ',']) {
        return bad("is not a media type, as text/plain is one");
    }
    Ok(())
}

/// How much is shown: as the call says, else as it is configured, and never more than fits into a message.
fn limits(serving: &Serving, policy: &OutputPolicy, header: &pb::PutToolOutputHeader) -> Parsed<ViewLimits> {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let most = MAX_VIEW.min(serving.limits.message_bytes / ESCAPED).max(ViewLimits::LEAST_BYTES);
    let least = ViewLimits::LEAST_BYTES;
    let max_bytes = match size(header.max_message_bytes) {
        0 => size(policy.max_message_bytes).min(most),
        given if given < least || given > most => {
            let problem = format!("is {given}; {least} to {most} are allowed");
            return Err(InvalidField::new("max_message_bytes", problem));
        }
        given => given,
    };
    let max_line_length = match header.max_line_length {
        0 => size(policy.max_line_length),
        given if !(2..=MAX_LINE).contains(&given) => {
            let problem = format!("is {given}; 2 to {MAX_LINE} are allowed");
            return Err(InvalidField::new("max_line_length", problem));
        }
        given => given as usize,
    };
    let tail_bytes = match header.tail_bytes.map(size) {
        None => size(policy.tail_bytes).min(max_bytes / 2),
        Some(given) if given > max_bytes / 2 => {
            let problem = format!("is {given}; at most half of the view, {}, is allowed", max_bytes / 2);
            return Err(InvalidField::new("tail_bytes", problem));
        }
        Some(given) => given,
    };
    let limits = ViewLimits { max_line_length, max_bytes, tail_bytes, part_bytes: 0 };
    Ok(if header.as_parts { limits.with_parts(serving.limits.message_bytes) } else { limits })
}

fn told(done: PutDone) -> pb::PutToolOutputResponse {
    let view_json =
        if done.view.text.is_some() { String::new() } else { done.view.content.as_str().to_owned() };
    pb::PutToolOutputResponse {
        r#ref: Some(super::outputs::told_ref(done.id.into(), &done.head)),
        view: done.view.text.unwrap_or_default(),
        view_json,
        truncated: done.view.truncated,
        seq: done.seq,
        tool_seq: done.tool_seq,
        tokens: done.tokens,
        duplicate: done.duplicate,
        pressure: done.pressure.as_ref().map(answer::pressure),
        masked: answer::masked(&done.masked),
    }
}
