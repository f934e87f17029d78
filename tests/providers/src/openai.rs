//! `POST /v1/chat/completions`.

mod content;
mod tools;

pub(crate) use tools::arguments;

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::openai_words::{
    OpenAi, SHARED, empty_array, format as check_format, length, long_array, metadata, no_json, only_with,
    range, size as check_size, tool_name,
};
use crate::refusal::Refusal;
use crate::shape::{Field, Kind, Voice as _, list, may, must, must_null, null, object, text};
use crate::{Rules, parse};

const ROLES: &[&str] = &["system", "assistant", "user", "function", "tool", "developer"];

const OWN: &[Field] = &[
    must("messages", Kind::Array),
    null("audio", Kind::Object),
    null("frequency_penalty", Kind::Num),
    may("function_call", Kind::StrOrObject),
    may("functions", Kind::Array),
    null("logit_bias", Kind::Object),
    null("logprobs", Kind::Bool),
    null("max_completion_tokens", Kind::Int),
    null("max_tokens", Kind::Int),
    null("modalities", Kind::Array),
    null("n", Kind::Int),
    null("prediction", Kind::Object),
    null("presence_penalty", Kind::Num),
    null("reasoning_effort", Kind::Word(&["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
    may("response_format", Kind::Object),
    null("seed", Kind::Int),
    null("service_tier", Kind::Word(&["auto", "default", "flex", "scale", "priority", "fast"])),
    null("stop", Kind::StrOrArray),
    may("tool_choice", Kind::StrOrObject),
    may("tools", Kind::Array),
    null("verbosity", Kind::Word(&["low", "medium", "high"])),
    may("web_search_options", Kind::Object),
];

/// Checks a body that was read, of `size` bytes, by the strictest rules.
pub fn check(body: &Value, size: usize) -> Result<(), Refusal> {
    check_with(body, size, &Rules::openai())
}

/// Reads and checks a body.
pub fn check_bytes(body: &[u8], rules: &Rules) -> Result<Value, Refusal> {
    check_size(body.len(), rules.max_bytes)?;
    let value = parse(body).map_err(|_| no_json())?;
    check_with(&value, body.len(), rules)?;
    Ok(value)
}

/// Checks a body by the given rules.
pub fn check_with(body: &Value, size: usize, rules: &Rules) -> Result<(), Refusal> {
    check_size(size, rules.max_bytes)?;
    if body.get("model").is_none() {
        return Err(Refusal::invalid("you must provide a model parameter"));
    }
    let body = object(&OpenAi, "", body, &[&SHARED, OWN].concat())?;
    length("model", text(body, "model"), 1, 256)?;
    metadata(body)?;
    for (key, min, max) in [
        ("temperature", 0.0, 2.0),
        ("top_p", 0.0, 1.0),
        ("frequency_penalty", -2.0, 2.0),
        ("presence_penalty", -2.0, 2.0),
        ("n", 1.0, 128.0),
        ("max_tokens", 1.0, f64::MAX),
        ("max_completion_tokens", 1.0, f64::MAX),
        ("top_logprobs", 0.0, 20.0),
    ] {
        range(body, key, min, max)?;
    }
    only_with(body)?;
    if let Some(options) = body.get("stream_options").filter(|options| !options.is_null()) {
        let fields = [may("include_usage", Kind::Bool), may("include_obfuscation", Kind::Bool)];
        object(&OpenAi, "stream_options", options, &fields)?;
    }
    if let Some(format) = body.get("response_format") {
        check_format("response_format", format, Some("json_schema"))?;
    }
    tools::check(body)?;
    messages(list(body, "messages"), rules)
}

/// The calls of the last assistant message, and which have their result.
#[derive(Default)]
pub(crate) struct Group<'a> {
    /// Their ids.
    pub(crate) calls: Vec<&'a str>,
    answered: HashSet<&'a str>,
}

impl<'a> Group<'a> {
    /// A message that is no result, or the end: every call must have its result by now.
    pub(crate) fn close(&mut self, next: usize) -> Result<(), Refusal> {
        let open: Vec<_> = self.calls.iter().filter(|id| !self.answered.contains(*id)).copied().collect();
        if !open.is_empty() {
            return Err(Refusal::invalid(format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                open.join(", ")
            ))
            .param(format!("messages.[{next}].role")));
        }
        *self = Self::default();
        Ok(())
    }

    pub(crate) fn answer(&mut self, at: usize, id: &'a str) -> Result<(), Refusal> {
        if !self.calls.contains(&id) {
            let words = if self.calls.is_empty() {
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                 'tool_calls'."
                    .to_owned()
            } else {
                format!(
                    "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous message."
                )
            };
            return Err(Refusal::invalid(words).param(format!("messages.[{at}].role")));
        }
        if !self.answered.insert(id) {
            return Err(duplicate(at, id));
        }
        Ok(())
    }
}

fn duplicate(at: usize, id: &str) -> Refusal {
    Refusal::invalid(format!("Duplicate value for 'tool_call_id' of '{id}' in message[{at}]"))
        .param(format!("messages.[{at}].tool_call_id"))
}

fn messages(messages: &[Value], rules: &Rules) -> Result<(), Refusal> {
    if messages.is_empty() {
        return Err(empty_array("messages"));
    }
    if messages.len() > 100_000 {
        return Err(long_array("messages", 100_000, messages.len()));
    }
    let mut group = Group::default();
    for (at, message) in messages.iter().enumerate() {
        let path = format!("messages[{at}]");
        let role = message.get("role").ok_or_else(|| OpenAi.missing(&path, "role"));
        let role = if message.is_object() { role?.as_str().unwrap_or_default() } else { "" };
        if role == "tool" {
            let message = tool(at, &path, message, rules)?;
            group.answer(at, text(message, "tool_call_id"))?;
            continue;
        }
        let own = match role {
            "assistant" => {
                let message = assistant(&path, message, rules)?;
                list(message, "tool_calls").iter().filter_map(|call| call.get("id")?.as_str()).collect()
            }
            "function" => {
                let fields =
                    [must("role", Kind::Str), must_null("content", Kind::Str), must("name", Kind::Str)];
                object(&OpenAi, &path, message, &fields)?;
                tool_name(&format!("{path}.name"), message["name"].as_str().unwrap_or_default())?;
                Vec::new()
            }
            _ => {
                let fields = [
                    must("role", Kind::Word(ROLES)),
                    must_null("content", Kind::StrOrArray),
                    may("name", Kind::Str),
                ];
                let object = object(&OpenAi, &path, message, &fields)?;
                name(&path, object)?;
                content::check(at, role, object, rules)?;
                Vec::new()
            }
        };
        group.close(at)?;
        group.calls = own;
    }
    group.close(messages.len())?;
    if rules.strict { answered(messages, 1) } else { Ok(()) }
}

/// OpenAI answers whoever spoke last; servers of the same API go on with an answer, but not with two of them.
pub(crate) fn answered(messages: &[Value], most: usize) -> Result<(), Refusal> {
    let last = messages.iter().rev().take_while(|message| message["role"] == "assistant").count();
    if last <= most {
        return Ok(());
    }
    Err(Refusal::invalid(match most {
        0 => "Assistant response prefill is incompatible with enable_thinking.",
        _ => "Cannot have 2 or more assistant messages at the end of the list.",
    }))
}

fn tool<'a>(
    at: usize,
    path: &str,
    message: &'a Value,
    rules: &Rules,
) -> Result<&'a Map<String, Value>, Refusal> {
    if message.get("tool_call_id").is_none() {
        return Err(Refusal::invalid(
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
        )
        .param(format!("messages.[{at}].tool_call_id")));
    }
    let fields =
        [must("role", Kind::Str), must_null("content", Kind::StrOrArray), must("tool_call_id", Kind::Str)];
    let message = object(&OpenAi, path, message, &fields)?;
    length(&format!("{path}.tool_call_id"), text(message, "tool_call_id"), 1, 40)?;
    content::check(at, "tool", message, rules)?;
    Ok(message)
}

fn assistant<'a>(path: &str, message: &'a Value, rules: &Rules) -> Result<&'a Map<String, Value>, Refusal> {
    let fields = [
        must("role", Kind::Str),
        null("audio", Kind::Object),
        null("content", Kind::StrOrArray),
        null("function_call", Kind::Object),
        may("name", Kind::Str),
        null("refusal", Kind::Str),
        may("tool_calls", Kind::Array),
    ];
    let object_ = object(&OpenAi, path, message, &fields)?;
    name(path, object_)?;
    let given = |key: &str| object_.get(key).is_some_and(|value| !value.is_null());
    if given("audio") {
        object(&OpenAi, &format!("{path}.audio"), &object_["audio"], &[must("id", Kind::Str)])?;
    }
    if given("function_call") {
        let fields = [must("arguments", Kind::Str), must("name", Kind::Str)];
        let call = object(&OpenAi, &format!("{path}.function_call"), &object_["function_call"], &fields)?;
        tool_name(&format!("{path}.function_call.name"), text(call, "name"))?;
    }
    if given("tool_calls") {
        tools::calls(path, list(object_, "tool_calls"), rules)?;
    }
    let at = path.trim_start_matches("messages[").trim_end_matches(']').parse().unwrap_or_default();
    if given("content") {
        content::check(at, "assistant", object_, rules)?;
    } else if !["tool_calls", "function_call", "refusal", "audio"].into_iter().any(given) {
        return Err(content::null(at));
    }
    Ok(object_)
}

/// The name of a speaker.
pub(crate) fn name(path: &str, message: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(Value::String(name)) = message.get("name") else { return Ok(()) };
    let path = format!("{path}.name");
    length(&path, name, 1, 64)?;
    if name.chars().any(|c| c.is_whitespace() || ['<', '|', '\\', '/', '>'].contains(&c)) {
        return Err(crate::openai_words::pattern(&path, r"^[^\s<|\\/>]+$"));
    }
    Ok(())
}
