//! The order of items: calls and their outputs, reasoning and what follows it.

use std::collections::HashSet;

use serde_json::Value;

use super::items::kind;
use crate::refusal::Refusal;
use crate::{Rules, place};

/// A call whose output has not come.
struct Open<'a> {
    id: &'a str,
    custom: bool,
}

fn no_output(call: &Open<'_>) -> Refusal {
    let what = if call.custom { "custom tool call" } else { "function call" };
    Refusal::invalid(format!("No tool output found for {what} {}.", call.id)).param("input")
}

/// Checks the items together.
pub(super) fn check(items: &[Value], rules: &Rules) -> Result<(), Refusal> {
    let mut ids = HashSet::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    // Whether some of the open calls have their output.
    let mut answered = false;
    let tags: Vec<String> = items.iter().map(tag).collect();
    for (at, item) in items.iter().enumerate() {
        if let Some(id) = item.get("id").and_then(Value::as_str)
            && !ids.insert(id)
        {
            return Err(Refusal::invalid(format!(
                "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
            ))
            .param("input"));
        }
        let call_id = item.get("call_id").and_then(Value::as_str).unwrap_or_default();
        match kind(item) {
            "function_call" | "custom_tool_call" => {
                if open.iter().any(|call| call.id == call_id) {
                    return Err(Refusal::invalid(format!(
                        "Duplicate tool call found with call_id {call_id}."
                    ))
                    .param("input"));
                }
                open.push(Open { id: call_id, custom: kind(item) == "custom_tool_call" });
            }
            kind @ ("function_call_output" | "custom_tool_call_output") => {
                answer(&mut open, call_id, kind == "custom_tool_call_output")?;
                answered = !open.is_empty();
            }
            "reasoning" => {
                after_reasoning(item, items.get(at + 1))?;
                in_place(item, at, &tags)?;
            }
            // A model may go on to speak between its calls.
            _ if item["role"] == "assistant" && !answered => {}
            // Outputs may stand anywhere behind their calls; compatible servers want them before anything else.
            _ if rules.strict => {
                if let Some(call) = open.first() {
                    return Err(no_output(call));
                }
            }
            _ => {}
        }
    }
    open.first().map_or(Ok(()), |call| Err(no_output(call)))
}

fn answer(open: &mut Vec<Open<'_>>, id: &str, custom: bool) -> Result<(), Refusal> {
    match open.iter().position(|call| call.id == id && call.custom == custom) {
        Some(at) => {
            open.remove(at);
            Ok(())
        }
        None => {
            let what = if custom { "custom tool call output" } else { "function call output" };
            Err(Refusal::invalid(format!("No tool call found for {what} with call_id {id}.")).param("input"))
        }
    }
}

/// What an item is to its neighbours.
fn tag(item: &Value) -> String {
    let name = item["name"].as_str().unwrap_or_default();
    match kind(item) {
        "reasoning" => place::THOUGHT.to_owned(),
        "function_call" => {
            let arguments = item["arguments"].as_str().unwrap_or_default();
            place::call(name, &serde_json::from_str(arguments).unwrap_or_default())
        }
        "custom_tool_call" => place::call(name, &item["input"]),
        _ => place::text(item["content"].as_str().unwrap_or_default()),
    }
}

/// Reasoning stands where it stood when it was sealed.
fn in_place(item: &Value, at: usize, tags: &[String]) -> Result<(), Refusal> {
    let sealed = item["encrypted_content"].as_str().unwrap_or_default();
    let Some(sealed) = place::opened(sealed).1 else { return Ok(()) };
    let before = at.checked_sub(1).and_then(|at| tags.get(at)).map(String::as_str);
    if place::fits(sealed, before, tags.get(at + 1).map(String::as_str)) {
        return Ok(());
    }
    Err(without_its_item(item))
}

fn without_its_item(item: &Value) -> Refusal {
    Refusal::invalid(format!(
        "Item '{}' of type 'reasoning' was provided without its required following item.",
        item["id"].as_str().unwrap_or_default()
    ))
    .param("input")
}

fn after_reasoning(item: &Value, next: Option<&Value>) -> Result<(), Refusal> {
    let follows = next.is_some_and(|next| match kind(next) {
        "reasoning" | "function_call" | "custom_tool_call" => true,
        "message" => next["role"] == "assistant",
        _ => false,
    });
    if follows {
        return Ok(());
    }
    Err(without_its_item(item))
}
