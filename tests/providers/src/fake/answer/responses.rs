//! Responses: items and the events of their making.

use crate::openai_responses::ENCRYPTED;
use crate::place;
use serde_json::{Value, json};

use super::{Called, Reply, Step};

/// The id of an item of its kind: the first one, and those that follow.
fn id(kind: &str, reply: &Reply, at: usize) -> String {
    if at == 0 { format!("{kind}_fake{}", reply.number) } else { format!("{kind}_fake{}_{at}", reply.number) }
}

fn reasoning(reply: &Reply, at: usize, thinking: &str) -> Value {
    let tags = reply.tags();
    let (before, behind) = place::neighbours(&tags, at);
    json!({
        "type": "reasoning",
        "id": id("rs", reply, at),
        "summary": [{"type": "summary_text", "text": thinking}],
        "encrypted_content": place::sealed(&format!("{ENCRYPTED}{}", reply.number), before, behind),
    })
}

fn message(id: &Value, text: &str, status: &str) -> Value {
    let content = if text.is_empty() {
        json!([])
    } else {
        json!([{"type": "output_text", "text": text, "annotations": [], "logprobs": []}])
    };
    json!({
        "type": "message", "id": id, "role": "assistant", "status": status,
        "content": content,
    })
}

fn call(reply: &Reply, index: usize, call: &Called, given: &str, status: &str) -> Value {
    let (kind, prefix, key) =
        if call.custom { ("custom_tool_call", "ctc", "input") } else { ("function_call", "fc", "arguments") };
    json!({
        "type": kind, "id": format!("{prefix}_fake{}_{index}", reply.number), "call_id": call.id,
        "name": call.name, key: given, "status": status,
    })
}

fn items(reply: &Reply) -> Vec<Value> {
    let item = |(at, step): (usize, &Step)| match step {
        Step::Think(thinking) => reasoning(reply, at, thinking),
        Step::Say(text) => message(&json!(id("msg", reply, at)), text, "completed"),
        Step::Call(index) => {
            let one = &reply.calls[*index];
            call(reply, *index, one, &one.arguments, "completed")
        }
    };
    reply.steps.iter().enumerate().map(item).collect()
}

fn response(reply: &Reply, done: bool) -> Value {
    let cut = match reply.finish.as_str() {
        "length" => json!({"reason": "max_output_tokens"}),
        "content_filter" => json!({"reason": "content_filter"}),
        _ => Value::Null,
    };
    let status = match (done, cut.is_null()) {
        (false, _) => "in_progress",
        (true, true) => "completed",
        (true, false) => "incomplete",
    };
    let usage = json!({
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    });
    json!({
        "id": format!("resp_fake{}", reply.number),
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": null,
        "incomplete_details": if done { cut } else { Value::Null },
        "instructions": null,
        "metadata": {},
        "model": reply.model,
        "output": if done { items(reply) } else { Vec::new() },
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": if done { usage } else { Value::Null },
    })
}

pub(super) fn whole(reply: &Reply) -> Value {
    response(reply, true)
}

pub(super) fn stream(reply: &Reply) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "response.created", "response": response(reply, false)}),
        json!({"type": "response.in_progress", "response": response(reply, false)}),
    ];
    for (at, item) in items(reply).into_iter().enumerate() {
        let (begun, inner) = making(at, &item);
        events.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun}));
        events.extend(inner);
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    let last = response(reply, true);
    let kind = format!("response.{}", last["status"].as_str().unwrap_or_default());
    events.push(json!({"type": kind, "response": last}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

/// An item as it begins, and what happens until it is done.
fn making(at: usize, item: &Value) -> (Value, Vec<Value>) {
    let id = &item["id"];
    let mut begun = item.clone();
    let mut events = Vec::new();
    match item["type"].as_str().unwrap_or_default() {
        "reasoning" => {
            begun["summary"] = json!([]);
            let text = item["summary"][0]["text"].as_str().unwrap_or_default();
            let event = |kind: &str, key: &str, value: Value| {
                json!({"type": format!("response.reasoning_summary_{kind}"), "item_id": id, "output_index": at,
                    "summary_index": 0, key: value})
            };
            let part = |text: &str| json!({"type": "summary_text", "text": text});
            events.push(event("part.added", "part", part("")));
            events.extend(Reply::pieces(text).iter().map(|piece| event("text.delta", "delta", json!(piece))));
            events.push(event("text.done", "text", json!(text)));
            events.push(event("part.done", "part", part(text)));
        }
        "message" => {
            begun = message(id, "", "in_progress");
            let said = item["content"][0]["text"].as_str().unwrap_or_default();
            let event = |kind: &str, key: &str, value: Value| {
                json!({"type": format!("response.{kind}"), "item_id": id, "output_index": at, "content_index": 0,
                    key: value, "logprobs": []})
            };
            let part =
                |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
            events.push(event("content_part.added", "part", part("")));
            let pieces = Reply::pieces(said);
            events.extend(pieces.iter().map(|piece| event("output_text.delta", "delta", json!(piece))));
            events.push(event("output_text.done", "text", json!(said)));
            events.push(event("content_part.done", "part", part(said)));
        }
        kind => {
            let (name, key) = if kind == "function_call" {
                ("function_call_arguments", "arguments")
            } else {
                ("custom_tool_call_input", "input")
            };
            begun[key] = json!("");
            begun["status"] = json!("in_progress");
            let event = |step: &str, key: &str, value: Value| json!({"type": format!("response.{name}.{step}"), "item_id": id, "output_index": at, key: value});
            let given = item[key].as_str().unwrap_or_default();
            events.extend(Reply::pieces(given).iter().map(|piece| event("delta", "delta", json!(piece))));
            events.push(event("done", key, json!(given)));
        }
    }
    (begun, events)
}
