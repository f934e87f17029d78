//! Ollama's chat: one object, or a line for every piece.

use serde_json::{Value, json};

use super::Reply;

fn line(reply: &Reply, message: Value) -> Value {
    json!({"model": reply.model, "created_at": "2024-01-01T00:00:00Z", "message": message, "done": false})
}

fn calls(reply: &Reply) -> Value {
    reply
        .calls
        .iter()
        .map(|call| json!({"function": {"name": call.name, "arguments": call.input()}}))
        .collect()
}

fn finished(reply: &Reply, mut line: Value) -> Value {
    // Ollama has no word of its own for calls.
    let reason = if reply.finish == "tool_calls" { "stop" } else { &reply.finish };
    let end = json!({
        "done": true, "done_reason": reason, "total_duration": 5_000_000, "load_duration": 1_000_000,
        "prompt_eval_count": reply.input_tokens, "prompt_eval_duration": 2_000_000,
        "eval_count": reply.output_tokens, "eval_duration": 2_000_000,
    });
    if let (Some(line), Value::Object(end)) = (line.as_object_mut(), end) {
        line.extend(end);
    }
    line
}

pub(super) fn whole(reply: &Reply) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if let Some(thinking) = &reply.thinking {
        message["thinking"] = json!(thinking);
    }
    if !reply.calls.is_empty() {
        message["tool_calls"] = calls(reply);
    }
    finished(reply, line(reply, message))
}

pub(super) fn stream(reply: &Reply) -> Vec<Value> {
    let mut lines = Vec::new();
    for piece in Reply::pieces(reply.thinking.as_deref().unwrap_or_default()) {
        lines.push(line(reply, json!({"role": "assistant", "content": "", "thinking": piece})));
    }
    for piece in Reply::pieces(&reply.text) {
        lines.push(line(reply, json!({"role": "assistant", "content": piece})));
    }
    if !reply.calls.is_empty() {
        lines.push(line(reply, json!({"role": "assistant", "content": "", "tool_calls": calls(reply)})));
    }
    lines.push(finished(reply, line(reply, json!({"role": "assistant", "content": ""}))));
    lines
}
