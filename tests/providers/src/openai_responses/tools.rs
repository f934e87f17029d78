//! Tools in the flat form of this API.

use serde_json::{Map, Value};

use crate::openai_words::{OpenAi, long_array, schema, tool_name};
use crate::refusal::Refusal;
use crate::shape::{Kind, Voice as _, list, may, must, must_null, null, object, text};

/// Checks `tools` and `tool_choice` of a body.
pub(super) fn check(body: &Map<String, Value>) -> Result<(), Refusal> {
    let tools = list(body, "tools");
    if tools.len() > 128 {
        return Err(long_array("tools", 128, tools.len()));
    }
    for (index, value) in tools.iter().enumerate() {
        tool(&format!("tools[{index}]"), value)?;
    }
    choice(body)
}

fn tool(path: &str, tool: &Value) -> Result<(), Refusal> {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
    let tool = if kind == "custom" {
        let fields = [
            must("type", Kind::Str),
            must("name", Kind::Str),
            null("allowed_callers", Kind::Array),
            may("async", Kind::Bool),
            may("defer_loading", Kind::Bool),
            may("description", Kind::Str),
            may("format", Kind::Object),
        ];
        object(&OpenAi, path, tool, &fields)?
    } else {
        let fields = [
            must("type", Kind::Word(&["function", "custom"])),
            must("name", Kind::Str),
            must_null("parameters", Kind::Object),
            must_null("strict", Kind::Bool),
            null("allowed_callers", Kind::Array),
            may("async", Kind::Bool),
            may("defer_loading", Kind::Bool),
            null("description", Kind::Str),
            null("output_schema", Kind::Object),
        ];
        object(&OpenAi, path, tool, &fields)?
    };
    tool_name(&format!("{path}.name"), text(tool, "name"))?;
    schema(&format!("{path}.parameters"), text(tool, "name"), tool.get("parameters"))
}

fn choice(body: &Map<String, Value>) -> Result<(), Refusal> {
    match body.get("tool_choice") {
        Some(Value::String(word)) if !["none", "auto", "required"].contains(&word.as_str()) => {
            Err(OpenAi.word("tool_choice", &["none", "auto", "required"], word))
        }
        Some(Value::Object(choice)) if ["function", "custom"].contains(&text(choice, "type")) => {
            let fields = [must("type", Kind::Str), must("name", Kind::Str)];
            object(&OpenAi, "tool_choice", &body["tool_choice"], &fields)?;
            let (kind, name) = (text(choice, "type"), text(choice, "name"));
            if list(body, "tools").iter().any(|tool| tool["type"] == kind && tool["name"] == name) {
                return Ok(());
            }
            Err(Refusal::invalid(format!("Tool choice '{name}' not found in 'tools' parameter."))
                .param("tool_choice"))
        }
        _ => Ok(()),
    }
}
