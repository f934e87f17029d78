//! The tools that a model may call, and the calls that it made.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::Rules;
use crate::openai_words::{OpenAi, empty_array, length, long_array, schema, tool_name};
use crate::refusal::Refusal;
use crate::shape::{Kind, Voice as _, list, may, must, null, object, text};

/// Checks `tools` and `tool_choice` of a body.
pub(super) fn check(body: &Map<String, Value>) -> Result<(), Refusal> {
    if body.contains_key("tools") {
        let tools = list(body, "tools");
        if tools.is_empty() {
            return Err(empty_array("tools"));
        }
        if tools.len() > 128 {
            return Err(long_array("tools", 128, tools.len()));
        }
        for (index, value) in tools.iter().enumerate() {
            tool(&format!("tools[{index}]"), value)?;
        }
    }
    choice(body)
}

fn tool(path: &str, tool: &Value) -> Result<(), Refusal> {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "custom" {
        let tool = object(&OpenAi, path, tool, &[must("type", Kind::Str), must("custom", Kind::Object)])?;
        let path = format!("{path}.custom");
        let fields = [must("name", Kind::Str), may("description", Kind::Str), may("format", Kind::Object)];
        let custom = object(&OpenAi, &path, &tool["custom"], &fields)?;
        return tool_name(&format!("{path}.name"), text(custom, "name"));
    }
    let fields = [must("type", Kind::Word(&["function", "custom"])), must("function", Kind::Object)];
    let tool = object(&OpenAi, path, tool, &fields)?;
    let path = format!("{path}.function");
    let fields = [
        must("name", Kind::Str),
        may("description", Kind::Str),
        may("parameters", Kind::Object),
        null("strict", Kind::Bool),
    ];
    let function = object(&OpenAi, &path, &tool["function"], &fields)?;
    tool_name(&format!("{path}.name"), text(function, "name"))?;
    schema(&format!("{path}.parameters"), text(function, "name"), function.get("parameters"))
}

fn choice(body: &Map<String, Value>) -> Result<(), Refusal> {
    let (kind, name) = match body.get("tool_choice") {
        Some(Value::String(word)) if !["none", "auto", "required"].contains(&word.as_str()) => {
            return Err(OpenAi.word("tool_choice", &["none", "auto", "required"], word));
        }
        Some(Value::Object(choice)) => {
            let kind = text(choice, "type");
            match kind {
                "function" | "custom" => {
                    let fields = [must("type", Kind::Str), must(kind_of(kind), Kind::Object)];
                    object(&OpenAi, "tool_choice", &body["tool_choice"], &fields)?;
                    let path = format!("tool_choice.{kind}");
                    let named = object(&OpenAi, &path, &choice[kind], &[must("name", Kind::Str)])?;
                    (kind, text(named, "name"))
                }
                "allowed_tools" => return Ok(()),
                _ => {
                    let allowed = &["allowed_tools", "function", "custom"];
                    return Err(OpenAi.word("tool_choice.type", allowed, kind));
                }
            }
        }
        _ => return Ok(()),
    };
    let known = list(body, "tools").iter().any(|tool| tool[kind]["name"] == *name);
    if known {
        return Ok(());
    }
    Err(Refusal::invalid(format!("Tool choice '{name}' not found in 'tools' parameter."))
        .param("tool_choice"))
}

fn kind_of(kind: &str) -> &'static str {
    if kind == "custom" { "custom" } else { "function" }
}

/// Checks the calls of an assistant message.
pub(super) fn calls(path: &str, calls: &[Value], rules: &Rules) -> Result<(), Refusal> {
    let path = format!("{path}.tool_calls");
    if calls.is_empty() {
        return Err(empty_array(&path));
    }
    if calls.len() > 128 {
        return Err(long_array(&path, 128, calls.len()));
    }
    let mut ids = HashSet::new();
    for (index, call) in calls.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let kind = kind_of(call.get("type").and_then(Value::as_str).unwrap_or_default());
        let fields = [
            must("id", Kind::Str),
            must("type", Kind::Word(&["function", "custom"])),
            must(kind, Kind::Object),
        ];
        let call = object(&OpenAi, &path, call, &fields)?;
        let id = text(call, "id");
        length(&format!("{path}.id"), id, 1, 40)?;
        if !ids.insert(id) {
            return Err(Refusal::invalid(format!("Duplicate value for 'tool_call_id' of '{id}' in {path}"))
                .param(format!("{path}.id")));
        }
        let given = if kind == "custom" { "input" } else { "arguments" };
        let path = format!("{path}.{kind}");
        let function =
            object(&OpenAi, &path, &call[kind], &[must("name", Kind::Str), must(given, Kind::Str)])?;
        tool_name(&format!("{path}.name"), text(function, "name"))?;
        length(&format!("{path}.{given}"), text(function, given), 0, rules.max_text)?;
        if kind == "function" && rules.strict {
            arguments(&format!("{path}.arguments"), text(function, "arguments"))?;
        }
    }
    Ok(())
}

/// OpenAI takes any string; servers that put arguments into a template (vLLM, LM Studio, llama.cpp) read them.
pub(crate) fn arguments(path: &str, arguments: &str) -> Result<(), Refusal> {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => Ok(()),
        Err(err) => Err(Refusal::invalid(format!("Invalid '{path}': not the JSON of an object: {err}"))
            .code("invalid_value")
            .param(path)),
    }
}
