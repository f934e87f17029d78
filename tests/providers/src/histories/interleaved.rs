//! Answers in which thoughts, text and calls alternate, as models that think between calls give them.
//!
//! Each thought is sealed with what stands beside it, and `reasoning_order` says how all follow each other:
//! `"thought"`, `"call"`, and numbers of characters of the content.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::pieces::TOOLS;
use crate::{anthropic, openai_responses, place};

enum Step {
    Thought,
    Text(String),
    Call(Value),
}

fn steps(rng: &mut Rng, with_calls: bool) -> Vec<Step> {
    let text = |rng: &mut Rng| Step::Text(format!("Let me look — 見る {}. ", rng.u16(..)));
    let call = |rng: &mut Rng| {
        let arguments = json!({"path": format!("src/{}.rs", rng.u16(..))}).to_string();
        let function = json!({"name": TOOLS[rng.usize(..TOOLS.len())], "arguments": arguments});
        Step::Call(
            json!({"id": format!("call_{:024x}", rng.u64(..)), "type": "function", "function": function}),
        )
    };
    let mut steps = vec![Step::Thought];
    for _ in 0..rng.usize(1..7) {
        let follows_text = matches!(steps.last(), Some(Step::Text(_)));
        let next = match rng.u8(..4) {
            0 | 1 => Step::Thought,
            // Texts that follow each other would be one.
            2 if !follows_text => text(rng),
            _ if with_calls => call(rng),
            _ => Step::Thought,
        };
        steps.push(next);
    }
    // Something follows every thought.
    steps.push(if with_calls { call(rng) } else { text(rng) });
    if !with_calls && matches!(steps.as_slice(), [.., Step::Text(_), Step::Text(_)]) {
        steps.pop();
    }
    steps
}

/// An assistant message, and the ids of its calls.
pub(super) fn message(rng: &mut Rng, with_calls: bool) -> (Map<String, Value>, Vec<String>) {
    let steps = steps(rng, with_calls);
    let of_call = |call: &Value| {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let input = serde_json::from_str(arguments).unwrap_or_default();
        place::call(call["function"]["name"].as_str().unwrap_or_default(), &input)
    };
    let tag = |step: &Step| match step {
        Step::Thought => place::THOUGHT.to_owned(),
        Step::Text(text) => place::text(text),
        Step::Call(call) => of_call(call),
    };
    let tags: Vec<String> = steps.iter().map(tag).collect();
    let of_anthropic = rng.bool();
    let (mut thoughts, mut order, mut content) = (Vec::new(), Vec::new(), String::new());
    let mut calls = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        match step {
            Step::Thought => {
                let (before, behind) = place::neighbours(&tags, at);
                thoughts.push(if of_anthropic {
                    block(rng, before, behind)
                } else {
                    let seal = format!("{}{:x}", openai_responses::ENCRYPTED, rng.u32(..));
                    let sealed = place::sealed(&seal, before, behind);
                    let id = format!("rs_{:032x}", rng.u128(..));
                    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": sealed})
                });
                order.push(json!("thought"));
            }
            Step::Text(text) => {
                order.push(json!(text.chars().count()));
                content.push_str(&text);
            }
            Step::Call(call) => {
                order.push(json!("call"));
                calls.push(call);
            }
        }
    }
    let mut message = Map::from_iter([
        ("role".to_owned(), json!("assistant")),
        ("content".to_owned(), if content.is_empty() { Value::Null } else { json!(content) }),
    ]);
    let ids = calls.iter().filter_map(|call| call["id"].as_str().map(str::to_owned)).collect();
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    let name = if of_anthropic { "thinking_blocks" } else { "reasoning_items" };
    message.insert(name.to_owned(), Value::Array(thoughts));
    message.insert("reasoning_order".to_owned(), Value::Array(order));
    (message, ids)
}

/// A block of Anthropic's: a thought, one whose text was left out, or a redacted one.
fn block(rng: &mut Rng, before: &str, behind: &str) -> Value {
    let thought = match rng.u8(..4) {
        0 => {
            let seal = format!("{}{:x}", anthropic::REDACTED, rng.u32(..));
            return json!({"type": "redacted_thinking", "data": place::sealed(&seal, before, behind)});
        }
        1 => String::new(),
        _ => format!("Perhaps {}.", rng.u16(..)),
    };
    let signature = place::sealed(&anthropic::sign(&thought), before, behind);
    json!({"type": "thinking", "thinking": thought, "signature": signature})
}
