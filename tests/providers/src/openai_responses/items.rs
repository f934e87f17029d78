//! The items of the input, one by one.

use serde_json::{Map, Value};

use super::ENCRYPTED;
use crate::Rules;
use crate::openai_words::{OpenAi, breakpoint, empty_array, file, image_url, length, tool_name};
use crate::refusal::Refusal;
use crate::shape::{Field, Kind, Voice as _, list, may, must, must_null, null, object, text};

const TYPES: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
    "compaction",
    "item_reference",
];

const STATUS: Field = may("status", Kind::Word(&["in_progress", "completed", "incomplete"]));
const TAG: Field = must("type", Kind::Str);

/// The type of an item: a message may leave it out.
pub(super) fn kind(item: &Value) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or("message")
}

/// Checks an item.
pub(super) fn check(path: &str, item: &Value, rules: &Rules) -> Result<(), Refusal> {
    if !item.is_object() {
        return Err(OpenAi.wrong(path, Kind::Object, item));
    }
    if item.get("type").is_none() && item.get("role").is_none() {
        return Err(OpenAi.missing(path, "type"));
    }
    match kind(item) {
        "message" => message(path, item, rules),
        "function_call" => {
            let fields = [
                TAG,
                must("call_id", Kind::Str),
                must("name", Kind::Str),
                must("arguments", Kind::Str),
                may("async", Kind::Bool),
                null("caller", Kind::Object),
                may("id", Kind::Str),
                may("namespace", Kind::Str),
                STATUS,
            ];
            let item = object(&OpenAi, path, item, &fields)?;
            call(path, item, "fc", "arguments", rules)
        }
        "custom_tool_call" => {
            let fields = [
                TAG,
                must("call_id", Kind::Str),
                must("name", Kind::Str),
                must("input", Kind::Str),
                may("async", Kind::Bool),
                null("caller", Kind::Object),
                may("id", Kind::Str),
                may("namespace", Kind::Str),
            ];
            let item = object(&OpenAi, path, item, &fields)?;
            call(path, item, "ctc", "input", rules)
        }
        kind @ ("function_call_output" | "custom_tool_call_output") => {
            let mut fields = vec![
                TAG,
                must("call_id", Kind::Str),
                must("output", Kind::StrOrArray),
                null("caller", Kind::Object),
                null("id", Kind::Str),
            ];
            if kind == "function_call_output" {
                fields.extend([STATUS, null("name", Kind::Str), null("namespace", Kind::Str)]);
            }
            let item = object(&OpenAi, path, item, &fields)?;
            length(&format!("{path}.call_id"), text(item, "call_id"), 1, 64)?;
            content(&format!("{path}.output"), &item["output"], INPUT, rules)
        }
        "reasoning" => reasoning(path, item),
        "compaction" => {
            let fields = [TAG, must("encrypted_content", Kind::Str), null("id", Kind::Str)];
            let item = object(&OpenAi, path, item, &fields)?;
            sealed(text(item, "id"), text(item, "encrypted_content"))
        }
        "item_reference" => {
            let item = object(&OpenAi, path, item, &[null("type", Kind::Str), must("id", Kind::Str)])?;
            Err(not_found(text(item, "id")))
        }
        other => Err(OpenAi.word(&format!("{path}.type"), TYPES, other)),
    }
}

fn call(
    path: &str,
    item: &Map<String, Value>,
    prefix: &str,
    given: &str,
    rules: &Rules,
) -> Result<(), Refusal> {
    length(&format!("{path}.call_id"), text(item, "call_id"), 1, 64)?;
    id(path, item, prefix)?;
    tool_name(&format!("{path}.name"), text(item, "name"))?;
    length(&format!("{path}.{given}"), text(item, given), 0, rules.max_text)
}

/// The id of an item begins with what it is.
fn id(path: &str, item: &Map<String, Value>, prefix: &str) -> Result<(), Refusal> {
    let Some(Value::String(id)) = item.get("id") else { return Ok(()) };
    let path = format!("{path}.id");
    length(&path, id, 1, 64)?;
    if id.starts_with(prefix) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("Invalid '{path}': '{id}'. Expected an ID that begins with '{prefix}'."))
        .code("invalid_value")
        .param(path))
}

fn message(path: &str, item: &Value, rules: &Rules) -> Result<(), Refusal> {
    let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
    let parts = item.get("content").is_some_and(Value::is_array);
    let mut fields = vec![
        may("type", Kind::Str),
        must("role", Kind::Word(&["assistant", "system", "developer", "user"])),
        must("content", Kind::StrOrArray),
    ];
    if role == "assistant" {
        fields.push(null("phase", Kind::Word(&["commentary", "final_answer"])));
        // The published types know an assistant's parts only in a message as the API gave it.
        fields.push(if parts && rules.strict { must("id", Kind::Str) } else { may("id", Kind::Str) });
        fields.push(if parts && rules.strict { must("status", Kind::Str) } else { STATUS });
    } else if parts {
        fields.push(STATUS);
    }
    let item = object(&OpenAi, path, item, &fields)?;
    id(path, item, "msg")?;
    let allowed = if role == "assistant" { OUTPUT } else { INPUT };
    content(&format!("{path}.content"), &item["content"], allowed, rules)
}

const INPUT: &[&str] = &["input_text", "input_image", "input_file"];
const OUTPUT: &[&str] = &["output_text", "refusal"];

fn content(path: &str, content: &Value, allowed: &[&str], rules: &Rules) -> Result<(), Refusal> {
    let Some(parts) = content.as_array() else {
        return length(path, content.as_str().unwrap_or_default(), 0, rules.max_text);
    };
    if parts.is_empty() {
        return Err(empty_array(path));
    }
    for (index, value) in parts.iter().enumerate() {
        part(&format!("{path}[{index}]"), value, allowed, rules)?;
    }
    Ok(())
}

fn part(path: &str, part: &Value, allowed: &[&str], rules: &Rules) -> Result<(), Refusal> {
    let object_ = part.as_object().ok_or_else(|| OpenAi.wrong(path, Kind::Object, part))?;
    if !object_.contains_key("type") {
        return Err(OpenAi.missing(path, "type"));
    }
    let kind = text(object_, "type");
    if !allowed.contains(&kind) {
        return Err(OpenAi.word(&format!("{path}.type"), allowed, kind));
    }
    let mark = null("prompt_cache_breakpoint", Kind::Object);
    breakpoint(path, object_)?;
    match kind {
        "input_text" => {
            let part = object(&OpenAi, path, part, &[TAG, must("text", Kind::Str), mark])?;
            length(&format!("{path}.text"), text(part, "text"), 0, rules.max_text)
        }
        "output_text" => {
            let fields = [
                TAG,
                must("text", Kind::Str),
                must("annotations", Kind::Array),
                may("logprobs", Kind::Array),
            ];
            let part = object(&OpenAi, path, part, &fields)?;
            length(&format!("{path}.text"), text(part, "text"), 0, rules.max_text)
        }
        "refusal" => object(&OpenAi, path, part, &[TAG, must("refusal", Kind::Str)]).map(drop),
        "input_image" => {
            let detail = Kind::Word(&["low", "high", "auto", "original"]);
            let fields = [
                TAG,
                // The published types ask for it in messages, the API does not.
                if rules.strict { must_null("detail", detail) } else { null("detail", detail) },
                null("file_id", Kind::Str),
                null("image_url", Kind::Str),
                mark,
            ];
            let part = object(&OpenAi, path, part, &fields)?;
            match (part.get("image_url"), part.get("file_id")) {
                (Some(Value::String(url)), _) => image_url(&format!("{path}.image_url"), url),
                (_, Some(Value::String(_))) => Ok(()),
                _ => Err(OpenAi.missing(path, "image_url")),
            }
        }
        _ => {
            let fields = [
                TAG,
                may("detail", Kind::Word(&["auto", "low", "high"])),
                may("file_data", Kind::Str),
                null("file_id", Kind::Str),
                may("file_url", Kind::Str),
                may("filename", Kind::Str),
                mark,
            ];
            file(path, object(&OpenAi, path, part, &fields)?)
        }
    }
}

fn reasoning(path: &str, item: &Value) -> Result<(), Refusal> {
    let fields = [
        TAG,
        must("id", Kind::Str),
        must("summary", Kind::Array),
        may("content", Kind::Array),
        null("encrypted_content", Kind::Str),
        STATUS,
    ];
    let item = object(&OpenAi, path, item, &fields)?;
    id(path, item, "rs")?;
    for (key, tag) in [("summary", &["summary_text"]), ("content", &["reasoning_text"])] {
        for (index, value) in list(item, key).iter().enumerate() {
            let fields = [must("type", Kind::Word(tag)), must("text", Kind::Str)];
            object(&OpenAi, &format!("{path}.{key}[{index}]"), value, &fields)?;
        }
    }
    match item.get("encrypted_content") {
        Some(Value::String(content)) => sealed(text(item, "id"), content),
        _ => Err(not_found(text(item, "id"))),
    }
}

fn sealed(id: &str, content: &str) -> Result<(), Refusal> {
    if content.starts_with(ENCRYPTED) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("The encrypted content for item {id} could not be verified."))
        .code("invalid_encrypted_content"))
}

/// Nothing is kept between requests.
fn not_found(id: &str) -> Refusal {
    Refusal::invalid(format!(
        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with \
         `store` set to true, or remove this item from your input."
    ))
    .status(404, "invalid_request_error")
    .param("input")
}
