//! `POST /v1/responses`.

mod items;
mod order;
mod tools;

use serde_json::{Map, Value};

use crate::openai_words::{
    OpenAi, SHARED, empty_array, format as check_format, length, metadata, no_json, only_with, range,
    size as check_size,
};
use crate::refusal::Refusal;
use crate::shape::{Field, Kind, Voice as _, list, may, null, object, text};
use crate::{Rules, parse};

/// What the fake seals reasoning with; other encrypted content is foreign.
pub const ENCRYPTED: &str = "fake-openai-encrypted:";

const OWN: &[Field] = &[
    may("access_programs", Kind::Object),
    null("background", Kind::Bool),
    null("context_management", Kind::Array),
    null("conversation", Kind::StrOrObject),
    may("image", Kind::Object),
    null("include", Kind::Array),
    may("input", Kind::StrOrArray),
    null("instructions", Kind::Str),
    null("max_output_tokens", Kind::Int),
    null("max_tool_calls", Kind::Int),
    null("previous_response_id", Kind::Str),
    null("prompt", Kind::Object),
    null("reasoning", Kind::Object),
    null("service_tier", Kind::Word(&["auto", "default", "flex", "scale", "priority", "fast"])),
    may("text", Kind::Object),
    may("tool_choice", Kind::StrOrObject),
    may("tools", Kind::Array),
    null("truncation", Kind::Word(&["auto", "disabled"])),
];

const INCLUDABLE: &[&str] = &[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
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
    let body = object(&OpenAi, "", body, &[&SHARED, OWN].concat())?;
    length("model", text(body, "model"), 1, 256)?;
    metadata(body)?;
    for (key, min, max) in [
        ("temperature", 0.0, 2.0),
        ("top_p", 0.0, 1.0),
        ("max_output_tokens", 16.0, f64::MAX),
        ("max_tool_calls", 1.0, f64::MAX),
        ("top_logprobs", 0.0, 20.0),
    ] {
        range(body, key, min, max)?;
    }
    only_with(body)?;
    nested(body)?;
    tools::check(body)?;
    length("instructions", text(body, "instructions"), 0, rules.max_text)?;
    match body.get("input") {
        Some(Value::String(input)) => length("input", input, 0, rules.max_text),
        Some(Value::Array(list)) if list.is_empty() => Err(empty_array("input")),
        Some(Value::Array(list)) => {
            for (at, item) in list.iter().enumerate() {
                items::check(&format!("input[{at}]"), item, rules)?;
            }
            order::check(list, rules)
        }
        _ => Err(Refusal::invalid(
            "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.",
        )
        .code("missing_required_parameter")
        .param("input")),
    }
}

/// Objects among the parameters.
fn nested(body: &Map<String, Value>) -> Result<(), Refusal> {
    for (at, include) in list(body, "include").iter().enumerate() {
        let path = format!("include[{at}]");
        let word = include.as_str().ok_or_else(|| OpenAi.wrong(&path, Kind::Str, include))?;
        if !INCLUDABLE.contains(&word) {
            return Err(OpenAi.word(&path, INCLUDABLE, word));
        }
    }
    let given = |key: &str| body.get(key).filter(|value| !value.is_null());
    if let Some(options) = given("stream_options") {
        object(&OpenAi, "stream_options", options, &[may("include_obfuscation", Kind::Bool)])?;
    }
    if let Some(reasoning) = given("reasoning") {
        const SUMMARY: Kind = Kind::Word(&["auto", "concise", "detailed"]);
        let fields = [
            null("context", Kind::Word(&["auto", "current_turn", "all_turns"])),
            null("effort", Kind::Word(&["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
            null("generate_summary", SUMMARY),
            may("mode", Kind::Str),
            null("summary", SUMMARY),
        ];
        object(&OpenAi, "reasoning", reasoning, &fields)?;
    }
    if let Some(text) = given("text") {
        let fields = [may("format", Kind::Object), null("verbosity", Kind::Word(&["low", "medium", "high"]))];
        let text = object(&OpenAi, "text", text, &fields)?;
        if let Some(format) = text.get("format") {
            check_format("text.format", format, None)?;
        }
    }
    Ok(())
}
