//! Chat completions of others than OpenAI: what one of them refuses is refused, though OpenAI takes it.

use super::bad::{bent, refuses, says};
use contextstore_providers::{Provider, Refusal, lmstudio};
use serde_json::{Value, json};

const IT: Provider = Provider::LmStudio;
const PNG: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==";

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}})
}

fn with_calls() -> Value {
    json!({
        "model": "qwen3", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 5,
        "tools": [{"type": "function", "function": {
            "name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}},
        }}],
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "name": "anna", "content": [
                {"type": "text", "text": "Read both."},
                {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
            ]},
            {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "tool_call_id": "b", "content": "two"},
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "user", "content": "And?"},
        ],
    })
}

#[test]
#[rustfmt::skip]
fn each_rule_refuses_a_bad_request() {
    let wav = json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}});
    let pdf = json!({"type": "file", "file": {"file_id": "file-1"}});
    let open = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: a";
    refuses(
        IT,
        &with_calls(),
        &[
            ("/model", None, "Missing required parameter: 'model'."),
            ("/messages", Some(json!([])), "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."),
            ("/max_completion_tokens", Some(json!(3)), "Unrecognized request argument supplied: max_completion_tokens"),
            ("/temperature", Some(json!(3)), "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead."),
            ("/messages/0/role", Some(json!("developer")), "Invalid value: 'developer'. Supported values are: 'user', 'assistant', 'system', and 'tool'."),
            ("/messages/0/content", Some(json!([{"type": "text", "text": "x"}])), "Invalid type for 'messages[0].content': expected a string, but got an array instead."),
            ("/messages/2/content", Some(json!(null)), "Invalid type for 'messages[2].content': expected a string, but got null instead."),
            ("/messages/2/refusal", Some(json!("No.")), "Unknown parameter: 'messages[2].refusal'."),
            ("/messages/4/content", Some(json!([])), "Invalid type for 'messages[4].content': expected a string, but got an array instead."),
            ("/messages/1/content", Some(json!([])), "Invalid 'messages[1].content': empty array. Expected an array with minimum length 1, but got an empty array instead."),
            ("/messages/1/content/0", Some(wav), "Invalid value: 'input_audio'. Supported values are: 'text' and 'image_url'."),
            ("/messages/1/content/0", Some(pdf), "Invalid value: 'file'. Supported values are: 'text' and 'image_url'."),
            ("/messages/1/content/1/image_url/url", Some(json!("https://example.org/a.png")), "Invalid 'messages[1].content[1].image_url.url'. 'url' field must be a base64 encoded image."),
            ("/messages/1/content/1/image_url/url", Some(json!("data:image/png;base64,aGVsbG8=")), "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp']."),
            ("/messages/2/tool_calls/0", Some(json!({"id": "a", "type": "custom", "custom": {"name": "patch", "input": ""}})), "Invalid value: 'custom'. Supported values are: 'function'."),
            ("/messages/2/tool_calls/0/function/arguments", Some(json!("")), "Invalid 'messages[2].tool_calls[0].function.arguments': not the JSON of an object: EOF while parsing a value at line 1 column 0"),
            ("/messages/2/tool_calls/1/id", Some(json!("a")), "Duplicate value for 'tool_call_id' of 'a' in messages[2].tool_calls[1]"),
            ("/messages/4", None, open),
            ("/messages/3/tool_call_id", Some(json!("c")), "Invalid parameter: 'tool_call_id' of 'c' not found in 'tool_calls' of previous message."),
            ("/tools/0", Some(json!({"type": "custom", "custom": {"name": "patch"}})), "Invalid value: 'custom'. Supported values are: 'function'."),
            ("/tools/0/function/strict", Some(json!(true)), "Unknown parameter: 'tools[0].function.strict'."),
            ("/tools/0/function/parameters", None, "Missing required parameter: 'tools[0].function.parameters'."),
            ("/tools/0/function/parameters/type", Some(json!("array")), "Invalid schema for function 'read': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'."),
        ],
    );
    let last = bent(&with_calls(), "/messages/-", Some(json!({"role": "assistant", "content": "Done"})));
    assert_eq!(says(IT, &last).unwrap(), "Assistant response prefill is incompatible with enable_thinking.");
    let named = bent(&with_calls(), "/messages/1/name", Some(json!("Anna B")));
    assert!(says(IT, &named).unwrap().contains("does not match pattern"));
}

#[test]
fn its_refusals_have_the_form_of_openai() {
    let refusal: Refusal = lmstudio::check(&json!({"model": "m", "messages": []}), 1).unwrap_err();
    assert_eq!(refusal.body(IT)["error"]["type"], "invalid_request_error");
}
