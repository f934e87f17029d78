//! Messages: thinking with its signature, text, calls.

use crate::anthropic::sign;
use crate::place;
use serde_json::{Value, json};

use super::{Reply, Step};

fn stop_reason(finish: &str) -> &str {
    match finish {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "refusal",
        other => other,
    }
}

fn usage(reply: &Reply, output: u64) -> Value {
    json!({
        "input_tokens": reply.input_tokens - reply.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.cached_tokens,
        "output_tokens": output,
        "service_tier": "standard",
    })
}

fn blocks(reply: &Reply) -> Vec<Value> {
    let tags = reply.tags();
    let block = |(at, step): (usize, &Step)| match step {
        Step::Think(thinking) => {
            let (before, behind) = place::neighbours(&tags, at);
            let signature = place::sealed(&sign(thinking), before, behind);
            json!({"type": "thinking", "thinking": thinking, "signature": signature})
        }
        Step::Say(text) => json!({"type": "text", "text": text}),
        Step::Call(call) => {
            let call = &reply.calls[*call];
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input()})
        }
    };
    reply.steps.iter().enumerate().map(block).collect()
}

fn message(reply: &Reply, content: Vec<Value>, stop: Value, output: u64) -> Value {
    json!({
        "id": format!("msg_fake{}", reply.number),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": usage(reply, output),
    })
}

pub(super) fn whole(reply: &Reply) -> Value {
    message(reply, blocks(reply), json!(stop_reason(&reply.finish)), reply.output_tokens)
}

pub(super) fn stream(reply: &Reply) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": message(reply, Vec::new(), Value::Null, 1)}),
        json!({"type": "ping"}),
    ];
    let mut calls = reply.calls.iter();
    for (index, block) in blocks(reply).into_iter().enumerate() {
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let (empty, deltas): (Value, Vec<Value>) = match block["type"].as_str().unwrap_or_default() {
            "thinking" => {
                let thinking = block["thinking"].as_str().unwrap_or_default();
                let thoughts = Reply::pieces(thinking);
                let thoughts =
                    thoughts.iter().map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
                let signature = json!({"type": "signature_delta", "signature": block["signature"]});
                let empty = json!({"type": "thinking", "thinking": "", "signature": ""});
                (empty, thoughts.chain([signature]).collect())
            }
            "text" => {
                let pieces = Reply::pieces(block["text"].as_str().unwrap_or_default());
                let texts = pieces.iter().map(|piece| json!({"type": "text_delta", "text": piece}));
                (json!({"type": "text", "text": ""}), texts.collect())
            }
            _ => {
                // As the model wrote them, which may be no JSON at all.
                let arguments = calls.next().map(|call| call.arguments.as_str()).unwrap_or_default();
                let pieces = Reply::pieces(arguments);
                let inputs =
                    pieces.iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
                let mut empty = block.clone();
                empty["input"] = json!({});
                (empty, inputs.collect())
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(&reply.finish), "stop_sequence": null},
        "usage": {"output_tokens": reply.output_tokens},
    }));
    events.push(json!({"type": "message_stop"}));
    events
}
