//! The body around the messages: parameters and tools.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Anthropic;
use crate::refusal::Refusal;
use crate::shape::{Field, Kind, Voice as _, is_name, list, may, must, null, object, text};

// `temperature`, `top_k` and `top_p` are not in the published types of the version 2026-10-21; that of 2023-06-01 has
// them.
const BODY: &[Field] = &[
    must("model", Kind::Str),
    must("messages", Kind::Array),
    must("max_tokens", Kind::Int),
    null("cache_control", Kind::Object),
    null("container", Kind::StrOrObject),
    null("diagnostics", Kind::Object),
    null("inference_geo", Kind::Str),
    may("metadata", Kind::Object),
    may("output_config", Kind::Object),
    may("service_tier", Kind::Word(&["auto", "standard_only"])),
    null("speed", Kind::Word(&["standard", "fast"])),
    may("stop_sequences", Kind::Array),
    may("stream", Kind::Bool),
    may("system", Kind::StrOrArray),
    may("temperature", Kind::Num),
    may("thinking", Kind::Object),
    may("tool_choice", Kind::Object),
    may("tools", Kind::Array),
    may("top_k", Kind::Int),
    may("top_p", Kind::Num),
    may("user_profile_id", Kind::Str),
    may("workspace_id", Kind::Str),
];

/// A mark for the prompt cache.
pub(super) const MARK: Field = null("cache_control", Kind::Object);

/// Checks everything but the system prompt and the messages.
pub(super) fn check(body: &Value) -> Result<&Map<String, Value>, Refusal> {
    let body = object(&Anthropic, "", body, BODY)?;
    if text(body, "model").is_empty() {
        return Err(Refusal::invalid("model: String should have at least 1 character"));
    }
    mark("", body)?;
    at_least(body, "max_tokens", 1, "max_tokens")?;
    for key in ["temperature", "top_p"] {
        let got = body.get(key).and_then(Value::as_f64).unwrap_or_default();
        if !(0.0..=1.0).contains(&got) {
            return Err(Refusal::invalid(format!("{key}: range: 0..1")));
        }
    }
    at_least(body, "top_k", 0, "top_k")?;
    for (index, stop) in list(body, "stop_sequences").iter().enumerate() {
        let path = format!("stop_sequences.{index}");
        let stop = stop.as_str().ok_or_else(|| Anthropic.wrong(&path, Kind::Str, stop))?;
        if stop.trim().is_empty() {
            return Err(Refusal::invalid("stop_sequences: each stop sequence must contain non-whitespace"));
        }
    }
    if let Some(metadata) = body.get("metadata") {
        object(&Anthropic, "metadata", metadata, &[null("user_id", Kind::Str)])?;
    }
    if let Some(config) = body.get("output_config") {
        let effort = Kind::Word(&["low", "medium", "high", "xhigh", "max"]);
        let fields = [null("effort", effort), null("format", Kind::Object)];
        let config = object(&Anthropic, "output_config", config, &fields)?;
        if let Some(format) = config.get("format").filter(|format| !format.is_null()) {
            let fields = [must("type", Kind::Word(&["json_schema"])), must("schema", Kind::Object)];
            object(&Anthropic, "output_config.format", format, &fields)?;
        }
    }
    tools(body)?;
    choice(body)?;
    thinking(body)?;
    Ok(body)
}

fn at_least(body: &Map<String, Value>, key: &str, min: i64, path: &str) -> Result<(), Refusal> {
    match body.get(key).and_then(Value::as_i64) {
        Some(got) if got < min => {
            Err(Refusal::invalid(format!("{path}: Input should be greater than or equal to {min}")))
        }
        _ => Ok(()),
    }
}

/// The mark for the prompt cache of a block, where it has one.
pub(super) fn mark(at: &str, block: &Map<String, Value>) -> Result<(), Refusal> {
    match block.get("cache_control") {
        Some(mark) if !mark.is_null() => {
            let fields = [must("type", Kind::Word(&["ephemeral"])), may("ttl", Kind::Word(&["5m", "1h"]))];
            object(&Anthropic, &Anthropic.key(at, "cache_control"), mark, &fields).map(drop)
        }
        _ => Ok(()),
    }
}

fn tools(body: &Map<String, Value>) -> Result<(), Refusal> {
    let mut names = HashSet::new();
    for (index, tool) in list(body, "tools").iter().enumerate() {
        let kind = tool.get("type").and_then(Value::as_str).unwrap_or("custom");
        if kind != "custom" {
            return Err(Refusal::invalid(format!(
                "tools.{index}: Input tag '{kind}' found using 'type' does not match any of the expected tags: \
                 'custom'"
            )));
        }
        let path = format!("tools.{index}.custom");
        let fields = [
            must("name", Kind::Str),
            must("input_schema", Kind::Object),
            may("allowed_callers", Kind::Array),
            MARK,
            may("defer_loading", Kind::Bool),
            may("description", Kind::Str),
            null("eager_input_streaming", Kind::Bool),
            may("input_examples", Kind::Array),
            may("strict", Kind::Bool),
            null("type", Kind::Str),
        ];
        let tool = object(&Anthropic, &path, tool, &fields)?;
        mark(&path, tool)?;
        tool_name(&format!("{path}.name"), text(tool, "name"))?;
        if !names.insert(text(tool, "name")) {
            return Err(Refusal::invalid("tools: Tool names must be unique."));
        }
        schema(&format!("{path}.input_schema"), &tool["input_schema"])?;
    }
    Ok(())
}

/// The name of a tool: 1 to 128 letters, digits, `_` and `-`.
pub(super) fn tool_name(path: &str, name: &str) -> Result<(), Refusal> {
    if is_name(name, 128) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{path}: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")))
}

fn schema(path: &str, schema: &Value) -> Result<(), Refusal> {
    match schema.get("type") {
        None => return Err(Anthropic.missing(path, "type")),
        Some(kind) if kind != "object" => {
            return Err(Anthropic.word(&format!("{path}.type"), &["object"], ""));
        }
        Some(_) => {}
    }
    if ["oneOf", "allOf", "anyOf"].iter().any(|key| schema.get(key).is_some()) {
        return Err(Refusal::invalid(format!(
            "{path}: input_schema does not support oneOf, allOf, or anyOf at the top level"
        )));
    }
    if schema.get("properties").is_some_and(|properties| !properties.is_object() && !properties.is_null()) {
        return Err(Anthropic.wrong(&format!("{path}.properties"), Kind::Object, &Value::Null));
    }
    Ok(())
}

fn choice(body: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(choice) = body.get("tool_choice") else { return Ok(()) };
    if list(body, "tools").is_empty() {
        return Err(Refusal::invalid("tool_choice may only be specified while providing tools"));
    }
    let kind = choice.get("type").ok_or_else(|| Anthropic.missing("tool_choice", "type"))?;
    let kind = kind.as_str().unwrap_or_default();
    let tag = must("type", Kind::Str);
    let parallel = may("disable_parallel_tool_use", Kind::Bool);
    let path = format!("tool_choice.{kind}");
    match kind {
        "auto" | "any" => object(&Anthropic, &path, choice, &[tag, parallel])?,
        "none" => object(&Anthropic, &path, choice, &[tag])?,
        "tool" => object(&Anthropic, &path, choice, &[tag, must("name", Kind::Str), parallel])?,
        _ => {
            return Err(Refusal::invalid(format!(
                "tool_choice: Input tag '{kind}' found using 'type' does not match any of the expected tags: \
                 'any', 'auto', 'none', 'tool'"
            )));
        }
    };
    let name = choice.get("name").and_then(Value::as_str);
    if name.is_some_and(|name| list(body, "tools").iter().all(|tool| tool["name"] != name)) {
        return Err(Refusal::invalid(format!(
            "Tool '{}' not found in provided tools",
            name.unwrap_or_default()
        )));
    }
    if is_thinking(body) && ["any", "tool"].contains(&kind) {
        return Err(Refusal::invalid("Thinking may not be enabled when tool_choice forces tool use."));
    }
    Ok(())
}

/// Whether the model is told to think by a budget.
pub(super) fn is_thinking(body: &Map<String, Value>) -> bool {
    body.get("thinking").is_some_and(|thinking| thinking["type"] == "enabled")
}

fn thinking(body: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(thinking) = body.get("thinking") else { return Ok(()) };
    let kind = thinking.get("type").ok_or_else(|| Anthropic.missing("thinking", "type"))?;
    let kind = kind.as_str().unwrap_or_default();
    let tag = must("type", Kind::Str);
    let display = null("display", Kind::Word(&["summarized", "omitted"]));
    let path = format!("thinking.{kind}");
    let thinking = match kind {
        "enabled" => object(&Anthropic, &path, thinking, &[tag, must("budget_tokens", Kind::Int), display])?,
        "adaptive" => object(&Anthropic, &path, thinking, &[tag, display])?,
        "disabled" | "between_tools" => object(&Anthropic, &path, thinking, &[tag])?,
        _ => {
            return Err(Refusal::invalid(format!(
                "thinking: Input tag '{kind}' found using 'type' does not match any of the expected tags: \
                 'adaptive', 'between_tools', 'disabled', 'enabled'"
            )));
        }
    };
    if kind != "enabled" {
        return Ok(());
    }
    at_least(thinking, "budget_tokens", 1024, "thinking.enabled.budget_tokens")?;
    if body["max_tokens"].as_i64() <= thinking["budget_tokens"].as_i64() {
        return Err(Refusal::invalid("`max_tokens` must be greater than `thinking.budget_tokens`."));
    }
    if body.get("temperature").is_some_and(|temperature| temperature.as_f64() != Some(1.0)) {
        return Err(Refusal::invalid("`temperature` may only be set to 1 when thinking is enabled."));
    }
    Ok(())
}
