//! `POST /lmstudio/v1/chat/completions`: chat completions of servers that speak like OpenAI (LM Studio, vLLM,
//! llama.cpp), with what any one of them refuses. Their words differ; here they are OpenAI's.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::openai::{Group, answered, arguments, name};
use crate::openai_words::{
    OpenAi, empty_array, image_url, length, no_json, only_with, range, schema, size as check_size, tool_name,
};
use crate::refusal::Refusal;
use crate::shape::{Field, Kind, list, may, must, null, object, text};
use crate::{Rules, parse};

const BODY: &[Field] = &[
    must("model", Kind::Str),
    must("messages", Kind::Array),
    null("frequency_penalty", Kind::Num),
    null("logit_bias", Kind::Object),
    null("max_tokens", Kind::Int),
    null("min_p", Kind::Num),
    null("presence_penalty", Kind::Num),
    null("reasoning_effort", Kind::Str),
    null("repeat_penalty", Kind::Num),
    may("response_format", Kind::Object),
    null("seed", Kind::Int),
    null("stop", Kind::StrOrArray),
    null("stream", Kind::Bool),
    null("stream_options", Kind::Object),
    null("temperature", Kind::Num),
    may("tool_choice", Kind::StrOrObject),
    may("tools", Kind::Array),
    null("top_k", Kind::Int),
    null("top_p", Kind::Num),
    may("ttl", Kind::Int),
];

/// Checks a body that was read, of `size` bytes, by the strictest rules.
pub fn check(body: &Value, size: usize) -> Result<(), Refusal> {
    check_with(body, size, &Rules::lmstudio())
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
    let body = object(&OpenAi, "", body, BODY)?;
    length("model", text(body, "model"), 1, 256)?;
    range(body, "temperature", 0.0, 2.0)?;
    range(body, "top_p", 0.0, 1.0)?;
    only_with(body)?;
    tools(body)?;
    messages(list(body, "messages"))
}

fn tools(body: &Map<String, Value>) -> Result<(), Refusal> {
    for (index, tool) in list(body, "tools").iter().enumerate() {
        let path = format!("tools[{index}]");
        let fields = [must("type", Kind::Word(&["function"])), must("function", Kind::Object)];
        let tool = object(&OpenAi, &path, tool, &fields)?;
        let path = format!("{path}.function");
        // The parameters are put into a template that reads them.
        let fields =
            [must("name", Kind::Str), may("description", Kind::Str), must("parameters", Kind::Object)];
        let function = object(&OpenAi, &path, &tool["function"], &fields)?;
        tool_name(&format!("{path}.name"), text(function, "name"))?;
        schema(&format!("{path}.parameters"), text(function, "name"), function.get("parameters"))?;
    }
    Ok(())
}

fn messages(messages: &[Value]) -> Result<(), Refusal> {
    if messages.is_empty() {
        return Err(empty_array("messages"));
    }
    let mut group = Group::default();
    for (at, message) in messages.iter().enumerate() {
        let path = format!("messages[{at}]");
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let mut fields = vec![must("role", Kind::Word(&["user", "assistant", "system", "tool"]))];
        fields.push(must("content", if role == "user" { Kind::StrOrArray } else { Kind::Str }));
        match role {
            "tool" => fields.push(must("tool_call_id", Kind::Str)),
            "assistant" => fields.extend([may("name", Kind::Str), may("tool_calls", Kind::Array)]),
            _ => fields.push(may("name", Kind::Str)),
        }
        let message = object(&OpenAi, &path, message, &fields)?;
        name(&path, message)?;
        if message["content"].is_array() {
            parts(&format!("{path}.content"), list(message, "content"))?;
        }
        if role == "tool" {
            group.answer(at, text(message, "tool_call_id"))?;
            continue;
        }
        group.close(at)?;
        if message.contains_key("tool_calls") {
            group.calls = calls(&format!("{path}.tool_calls"), list(message, "tool_calls"))?;
        }
    }
    group.close(messages.len())?;
    answered(messages, 0)
}

fn parts(path: &str, parts: &[Value]) -> Result<(), Refusal> {
    if parts.is_empty() {
        return Err(empty_array(path));
    }
    for (index, part) in parts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "image_url" {
            let fields = [must("type", Kind::Str), must("image_url", Kind::Object)];
            let part = object(&OpenAi, &path, part, &fields)?;
            let path = format!("{path}.image_url");
            let detail = may("detail", Kind::Word(&["auto", "low", "high"]));
            let image = object(&OpenAi, &path, &part["image_url"], &[must("url", Kind::Str), detail])?;
            let url = text(image, "url");
            if !url.starts_with("data:") {
                let words = format!("Invalid '{path}.url'. 'url' field must be a base64 encoded image.");
                return Err(Refusal::invalid(words).param(format!("{path}.url")));
            }
            image_url(&format!("{path}.url"), url)?;
            continue;
        }
        let fields = [must("type", Kind::Word(&["text", "image_url"])), must("text", Kind::Str)];
        object(&OpenAi, &path, part, &fields)?;
    }
    Ok(())
}

fn calls<'a>(path: &str, calls: &'a [Value]) -> Result<Vec<&'a str>, Refusal> {
    if calls.is_empty() {
        return Err(empty_array(path));
    }
    let mut ids = HashSet::new();
    let mut found = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let fields =
            [must("id", Kind::Str), must("type", Kind::Word(&["function"])), must("function", Kind::Object)];
        let call = object(&OpenAi, &path, call, &fields)?;
        let id = text(call, "id");
        length(&format!("{path}.id"), id, 1, 40)?;
        if !ids.insert(id) {
            let words = format!("Duplicate value for 'tool_call_id' of '{id}' in {path}");
            return Err(Refusal::invalid(words).param(format!("{path}.id")));
        }
        found.push(id);
        let path = format!("{path}.function");
        let fields = [must("name", Kind::Str), must("arguments", Kind::Str)];
        let function = object(&OpenAi, &path, &call["function"], &fields)?;
        tool_name(&format!("{path}.name"), text(function, "name"))?;
        arguments(&format!("{path}.arguments"), text(function, "arguments"))?;
    }
    Ok(found)
}
