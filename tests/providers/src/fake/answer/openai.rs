//! Chat completions. What the model thinks stands in `reasoning_content`, as compatible servers have it.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Called, Reply, data};

fn usage(reply: &Reply) -> Value {
    json!({
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    })
}

fn call(call: &Called) -> Value {
    if call.custom {
        return json!({"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}});
    }
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

pub(super) fn whole(reply: &Reply) -> Value {
    let content = if reply.text.is_empty() { Value::Null } else { json!(reply.text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
    if let Some(thinking) = &reply.thinking {
        message["reasoning_content"] = json!(thinking);
    }
    if !reply.calls.is_empty() {
        message["tool_calls"] = reply.calls.iter().map(call).collect();
    }
    json!({
        "id": format!("chatcmpl-fake{}", reply.number),
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reply.finish}],
        "usage": usage(reply),
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    })
}

pub(super) fn stream(reply: &Reply) -> Vec<Bytes> {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": format!("chatcmpl-fake{}", reply.number),
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": reply.model,
            "service_tier": "default",
            "system_fingerprint": "fp_fake",
            "choices": choices,
        });
        if reply.usage_wanted {
            chunk["usage"] = usage;
        }
        data(&chunk)
    };
    let delta = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        chunk(json!([choice]), Value::Null)
    };
    let mut pieces = vec![delta(json!({"role": "assistant", "content": "", "refusal": null}), Value::Null)];
    for piece in Reply::pieces(reply.thinking.as_deref().unwrap_or_default()) {
        pieces.push(delta(json!({"reasoning_content": piece}), Value::Null));
    }
    for piece in Reply::pieces(&reply.text) {
        pieces.push(delta(json!({"content": piece}), Value::Null));
    }
    for (index, called) in reply.calls.iter().enumerate() {
        let (kind, key) = if called.custom { ("custom", "input") } else { ("function", "arguments") };
        let mut first = call(called);
        first[kind][key] = json!("");
        first["index"] = json!(index);
        pieces.push(delta(json!({"tool_calls": [first]}), Value::Null));
        for piece in Reply::pieces(&called.arguments) {
            pieces.push(delta(json!({"tool_calls": [{"index": index, kind: {key: piece}}]}), Value::Null));
        }
    }
    pieces.push(delta(json!({}), json!(reply.finish)));
    if reply.usage_wanted {
        pieces.push(chunk(json!([]), usage(reply)));
    }
    pieces.push(Bytes::from_static(b"data: [DONE]\n\n"));
    pieces
}
