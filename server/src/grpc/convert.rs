//! Wire ⇄ model. Every field of a request is parsed here, and nothing is decided.

use std::time::Duration;

use chrono::{DateTime, Utc};
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ToolCallType;
use prost_types::Timestamp;
use serde_json::{Map, Value};

use super::enums;
use crate::context::Settings;
use crate::model::{
    Event, Holder, InstanceId, InvalidField, Json, JsonKind, NewMessage, OutputRef, RequestId, Role, Status,
    TaskConfig, TaskFilter, TaskId, TaskKey, TokenCounter, ToolCall, ToolStatus, fields, plain_text,
};
use crate::store::{Append, Caller};

/// Largest number a caller may send: what JSON carries without loss everywhere.
const MAX_NUMBER: u64 = (1 << 53) - 1;

pub(super) type Parsed<T> = Result<T, InvalidField>;

/// Text that need not be there.
pub(super) fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

pub(super) fn caller(request_id: &str, lease_generation: u64) -> Parsed<Caller> {
    let request_id = if request_id.is_empty() { None } else { Some(RequestId::parse(request_id)?) };
    Ok(Caller { request_id, lease_generation })
}

/// The id of a task in some field; none if it is empty.
pub(super) fn some_id(field: &'static str, text: &str) -> Parsed<Option<TaskId>> {
    if text.is_empty() {
        return Ok(None);
    }
    TaskId::parse(text).map(Some).map_err(|bad| InvalidField::new(field, bad.problem))
}

pub(super) fn number(field: &'static str, value: u64) -> Parsed<u64> {
    if value > MAX_NUMBER {
        return Err(InvalidField::new(field, format!("is {value}; at most {MAX_NUMBER} is allowed")));
    }
    Ok(value)
}

/// A number that must be given: 0 is what was left out.
pub(super) fn from_one(field: &'static str, value: u64) -> Parsed<u64> {
    if value == 0 { Err(InvalidField::new(field, "must be at least 1")) } else { Ok(value) }
}

/// A last number; 0 means all there are.
pub(super) fn last(from: u64, field: &'static str, to: u64) -> Parsed<u64> {
    match to {
        0 => Ok(u64::MAX),
        to if to < from => Err(InvalidField::new(field, format!("is {to}, which is before {from}"))),
        to => Ok(to),
    }
}

pub(super) fn holder(holder: Option<pb::Holder>) -> Parsed<Holder> {
    let holder = holder.ok_or_else(|| InvalidField::new("holder", "is missing"))?;
    plain_text("holder.hostname", &holder.hostname)?;
    Ok(Holder {
        instance_id: InstanceId::parse(&holder.instance_id)?,
        process_id: holder.process_id,
        hostname: holder.hostname,
    })
}

pub(super) fn key(key: Option<pb::TaskKey>) -> TaskKey {
    let pb::TaskKey { task_source, owner, repo, task_type, task_id } = key.unwrap_or_default();
    TaskKey { task_source, owner, repo, task_type, task_id }
}

pub(super) fn config(config: pb::TaskConfig) -> Parsed<TaskConfig> {
    plain_text("config.llm_provider", &config.llm_provider)?;
    plain_text("config.model", &config.model)?;
    if config.context_length == Some(0) {
        return Err(InvalidField::new("config.context_length", "must be at least 1"));
    }
    if let Some(length) = config.context_length {
        number("config.context_length", length)?;
    }
    let durability = enums::some("config.durability", config.durability)?;
    let mut other = extra("config.extra_json", &config.extra_json)?;
    let own = ["llm_provider", "model", "context_length", "durability", TokenCounter::KEY];
    if let Some(known) = own.into_iter().chain(Settings::KEYS).find(|known| other.contains_key(*known)) {
        let problem = format!("has the key {known}, which has a field of its own");
        return Err(InvalidField::new("config.extra_json", problem));
    }
    other.extend(super::settings::of_config(&config)?.to_json());
    if let Some(counter) = enums::some::<TokenCounter>("config.token_counter", config.token_counter)? {
        other.insert(TokenCounter::KEY.to_owned(), counter.as_str().into());
    }
    Ok(TaskConfig {
        llm_provider: config.llm_provider,
        model: config.model,
        context_length: config.context_length,
        durability,
        other,
    })
}

fn extra(field: &'static str, text: &str) -> Parsed<Map<String, Value>> {
    if text.is_empty() {
        return Ok(Map::new());
    }
    let json = json(field, text)?;
    if json.kind() != JsonKind::Object {
        return Err(InvalidField::new(field, "is not a JSON object"));
    }
    if let Some(number) = too_long(json.as_str()) {
        let problem = format!("has the number {number}, which would not be kept as it is; send it as text");
        return Err(InvalidField::new(field, problem));
    }
    serde_json::from_str(json.as_str())
        .map_err(|error| InvalidField::new(field, format!("is not valid: {error}")))
}

/// A whole number in compact JSON that has more digits than are kept.
fn too_long(json: &str) -> Option<&str> {
    let (bytes, mut at) = (json.as_bytes(), 0);
    while at < bytes.len() {
        let len = match bytes[at] {
            b'"' => text_len(&bytes[at..]),
            b'-' | b'0'..=b'9' => {
                let len = bytes[at..].iter().take_while(|byte| !matches!(byte, b',' | b']' | b'}')).count();
                let number = &json[at..at + len];
                let whole = !number.contains(['.', 'e', 'E']);
                if whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return Some(number);
                }
                len
            }
            _ => 1,
        };
        at += len;
    }
    None
}

/// The length of the JSON text that some bytes begin with, with its quotes.
fn text_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn json(field: &'static str, text: &str) -> Parsed<Json> {
    Json::parse(text).map_err(|error| InvalidField::new(field, format!("is not valid JSON: {error}")))
}

/// JSON that need not be there.
pub(super) fn some_json(field: &'static str, text: &str) -> Parsed<Option<Json>> {
    if text.is_empty() { Ok(None) } else { json(field, text).map(Some) }
}

/// Tools that are sent with a request, if there are any.
pub(super) fn tools(text: &str) -> Parsed<Option<Json>> {
    const FIELD: &str = "tools_json";
    let tools = some_json(FIELD, text)?;
    if tools.as_ref().is_some_and(|tools| tools.kind() != JsonKind::Array) {
        return Err(InvalidField::new(FIELD, "is not a JSON array of tools"));
    }
    Ok(tools)
}

/// JSON that must be there.
pub(super) fn required_json(field: &'static str, text: &str) -> Parsed<Json> {
    some_json(field, text)?.ok_or_else(|| InvalidField::new(field, "is missing"))
}

/// The message of a request.
pub(super) fn append(request: pb::AppendMessageRequest) -> Parsed<(TaskId, Append)> {
    let id = TaskId::parse(&request.task_uuid)?;
    let new = request.message.ok_or_else(|| InvalidField::new("message", "is missing"))?;
    let append = new_message(new, request.lease_generation).map_err(|invalid| invalid.within("message"))?;
    Ok((id, append))
}

/// All messages of a request, in order.
pub(super) fn appends(request: pb::AppendMessagesRequest) -> Parsed<(TaskId, Vec<Append>)> {
    let id = TaskId::parse(&request.task_uuid)?;
    if request.messages.is_empty() {
        return Err(InvalidField::new("messages", "is empty"));
    }
    Ok((id, new_messages(request.messages, request.lease_generation)?))
}

/// The new messages of a chat. Those without an id of their own get one that is made of the call's.
pub(super) fn chat_messages(messages: Vec<pb::NewMessage>, caller: &Caller) -> Parsed<Vec<Append>> {
    let mut appends = new_messages(messages, caller.lease_generation)?;
    for (at, append) in appends.iter_mut().enumerate() {
        if append.caller.request_id.is_none() {
            append.caller.request_id = caller.request_id.as_ref().map(|id| id.part(&at.to_string()));
        }
    }
    Ok(appends)
}

fn new_messages(messages: Vec<pb::NewMessage>, lease: u64) -> Parsed<Vec<Append>> {
    let one =
        |(at, new)| new_message(new, lease).map_err(|invalid| invalid.within(&format!("messages[{at}]")));
    messages.into_iter().enumerate().map(one).collect()
}

fn new_message(new: pb::NewMessage, lease: u64) -> Parsed<Append> {
    use pb::new_message::Body;
    let mut message = match new.body {
        Some(Body::Fields(fields)) => message(fields).map_err(|invalid| invalid.within("fields"))?,
        Some(Body::Json(json)) => NewMessage::from_json(&json)?,
        None => return Err(InvalidField::new("body", "is missing: neither fields nor json is set")),
    };
    message.pinned = new.pinned;
    message.output_ref = some_ref(&new.output_ref)?;
    Ok(Append { message, caller: caller(&new.request_id, lease)? })
}

pub(super) fn usage(request: &pb::RecordUsageRequest) -> Parsed<Event> {
    Ok(Event::Usage {
        input_tokens: number("input_tokens", request.input_tokens)?,
        output_tokens: number("output_tokens", request.output_tokens)?,
        cache_creation_tokens: number("cache_creation_tokens", request.cache_creation_tokens)?,
        cache_read_tokens: number("cache_read_tokens", request.cache_read_tokens)?,
        // The store counts.
        counted_tokens: None,
        tools_tokens: number("tools_tokens", request.tools_tokens)?,
    })
}

pub(super) fn some_ref(text: &str) -> Parsed<Option<OutputRef>> {
    if text.is_empty() { Ok(None) } else { OutputRef::parse(text).map(Some) }
}

fn message(message: pb::Message) -> Parsed<NewMessage> {
    let role: Role = enums::required("role", message.role)?;
    let content = if message.content_json.is_empty() {
        // An assistant that only calls tools has no content, not an empty one.
        let calls = role == Role::Assistant && !message.tool_calls.is_empty();
        let none = calls && message.content.is_empty();
        if none { json("content", "null")? } else { Json::text(&message.content) }
    } else {
        if !message.content.is_empty() {
            return Err(InvalidField::new("content_json", "cannot stand beside content"));
        }
        let parts = json("content_json", &message.content_json)?;
        if parts.kind() != JsonKind::Array {
            return Err(InvalidField::new("content_json", "is not a JSON array of content parts"));
        }
        parts
    };
    let text = |text: &str| (!text.is_empty()).then(|| Json::text(text));
    let message = NewMessage {
        role,
        content: Some(content),
        tool_name: text(&message.tool_name),
        tool_calls: tool_calls(&message.tool_calls)?,
        tool_call_id: text(&message.tool_call_id),
        name: text(&message.name),
        extra: message_extra(&message.extra_json)?,
        pinned: false,
        output_ref: None,
    };
    message.check("content_json", "tool_calls")?;
    Ok(message)
}

fn tool_calls(calls: &[pb::ToolCall]) -> Parsed<Option<Json>> {
    if calls.is_empty() {
        return Ok(None);
    }
    let bad = |problem: String| InvalidField::new("tool_calls", problem);
    let mut list = Vec::with_capacity(calls.len());
    for (index, call) in calls.iter().enumerate() {
        if call.id.is_empty() || call.name.is_empty() {
            return Err(bad(format!("[{index}] has no id or no name")));
        }
        // In the order in which OpenAI writes them.
        let [id, name, arguments] = [&call.id, &call.name, &call.arguments].map(|text| Json::text(text));
        let [id, name, arguments] = [id.as_str(), name.as_str(), arguments.as_str()];
        let kind = enums::wire("tool_calls", call.r#type)
            .map_err(|invalid| bad(format!("[{index}] has a type that {}", invalid.problem)))?;
        list.push(match kind {
            ToolCallType::Unspecified | ToolCallType::Function => format!(
                r#"{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#
            ),
            ToolCallType::Custom => {
                format!(r#"{{"id":{id},"type":"custom","custom":{{"name":{name},"input":{arguments}}}}}"#)
            }
        });
    }
    json("tool_calls", &format!("[{}]", list.join(","))).map(Some)
}

/// Fields of a message that have no field of their own; those that have one would say two things.
fn message_extra(text: &str) -> Parsed<Option<Json>> {
    const FIELD: &str = "extra_json";
    const OWN: [&str; 6] = ["role", "content", "name", "tool_calls", "tool_call_id", "tool_name"];
    let Some(extra) = some_json(FIELD, text)? else { return Ok(None) };
    if extra.kind() != JsonKind::Object {
        return Err(InvalidField::new(FIELD, "is not a JSON object"));
    }
    for (key, _) in fields(extra.as_str()) {
        let key: String = serde_json::from_str(key).unwrap_or_default();
        if OWN.contains(&key.as_str()) {
            return Err(InvalidField::new(FIELD, format!("has the key {key}, which has a field of its own")));
        }
    }
    Ok((extra.as_str() != "{}").then_some(extra))
}

pub(super) fn tool_call(request: pb::RecordToolCallRequest) -> Parsed<ToolCall> {
    let status = enums::some("status", request.status)?.unwrap_or(ToolStatus::Success);
    Ok(ToolCall {
        tool_name: request.tool_name,
        arguments: some_json("arguments_json", &request.arguments_json)?,
        result: some_json("result_json", &request.result_json)?,
        output_ref: some_ref(&request.output_ref)?,
        status,
        error: some(request.error),
        duration_ms: request.duration.as_ref().map(|took| milliseconds("duration", took)).transpose()?,
        message_seq: request.message_seq.map(|seq| number("message_seq", seq)).transpose()?,
    })
}

pub(super) fn filter(filter: Option<pb::TaskFilter>) -> Parsed<TaskFilter> {
    let filter = filter.unwrap_or_default();
    let statuses = filter.statuses.iter().map(|status| enums::required("filter.statuses", *status));
    let statuses = statuses.collect::<Parsed<Vec<Status>>>()?;
    let parts = [
        ("filter.task_source", &filter.task_source),
        ("filter.owner", &filter.owner),
        ("filter.repo", &filter.repo),
        ("filter.task_type", &filter.task_type),
        ("filter.task_id", &filter.task_id),
        ("filter.user", &filter.user),
    ];
    for (field, value) in parts {
        plain_text(field, value)?;
    }
    Ok(TaskFilter {
        statuses,
        task_source: some(filter.task_source),
        owner: some(filter.owner),
        repo: some(filter.repo),
        task_type: some(filter.task_type),
        task_id: some(filter.task_id),
        user: some(filter.user),
        created_from: filter.created_from.map(|at| time("filter.created_from", at)).transpose()?,
        created_before: filter.created_before.map(|at| time("filter.created_before", at)).transpose()?,
    })
}

fn time(field: &'static str, at: Timestamp) -> Parsed<DateTime<Utc>> {
    let nanos = u32::try_from(at.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    // What RFC 3339 can write: years 1 to 9999.
    let seconds = Some(at.seconds).filter(|seconds| (-62_135_596_800..=253_402_300_799).contains(seconds));
    let found = seconds.zip(nanos).and_then(|(seconds, nanos)| DateTime::from_timestamp(seconds, nanos));
    found.ok_or_else(|| InvalidField::new(field, "is not a time between the years 1 and 9999"))
}

/// A length of time, as the protocol of Google's defines one that is not negative.
pub(super) fn time_span(field: &'static str, span: &prost_types::Duration) -> Parsed<Duration> {
    let seconds = u64::try_from(span.seconds).ok().filter(|seconds| *seconds <= 315_576_000_000);
    let nanos = u32::try_from(span.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let found = seconds.zip(nanos).map(|(seconds, nanos)| Duration::new(seconds, nanos));
    found.ok_or_else(|| InvalidField::new(field, "is not a length of time between nothing and 10000 years"))
}

/// A length of time in whole milliseconds, as the logs have it.
fn milliseconds(field: &'static str, span: &prost_types::Duration) -> Parsed<u64> {
    let length = time_span(field, span)?;
    Ok(length.as_secs() * 1000 + u64::from(length.subsec_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_would_change_is_found() {
        let long = "123456789012345678901234567890";
        for fine in [
            "{}",
            r#"{"a":1,"b":[-5,0.1,1e300,18446744073709551615,-9223372036854775808]}"#,
            &format!(r#"{{"a":"{long}","{long}":1,"b\"{long}":"\\"}}"#),
        ] {
            assert_eq!(too_long(fine), None, "{fine}");
        }
        for lossy in [format!(r#"{{"a":{long}}}"#), format!(r#"{{"a":[1,{{"b":-{long}}}]}}"#)] {
            assert!(too_long(&lossy).is_some(), "{lossy}");
        }
    }
}
