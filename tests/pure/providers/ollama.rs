//! Ollama's chat: good requests are taken, and each rule refuses a bad one in Ollama's words.

use super::bad::{bent, refuses, says, says_by};
use contextstore_providers::{Provider, Rules, ollama};
use serde_json::{Value, json};

const IT: Provider = Provider::Ollama;
const PNG: &str = "iVBORw0KGgoAAAANSUhEUg==";

fn body(messages: Value) -> Value {
    json!({"model": "qwen3", "messages": messages})
}

fn with_calls() -> Value {
    body(json!([
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "Read both.", "images": [PNG]},
        {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
            {"function": {"name": "read", "arguments": {"path": "a"}}},
            {"function": {"name": "list", "arguments": {}}},
        ]},
        {"role": "tool", "tool_name": "list", "content": "ok"},
        {"role": "tool", "tool_name": "read", "content": ""},
    ]))
}

#[test]
fn good_requests_are_taken() {
    for good in [
        with_calls(),
        body(
            json!([{"role": "assistant", "content": "x\u{0}\u{2028}"}, {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}]),
        ),
        body(json!([{"role": "user"}])),
        json!({
            "model": "m", "messages": [{"role": "user", "content": "x"}], "stream": false, "think": "high", "format": "json",
            "options": {"temperature": 0.5, "num_ctx": 4096, "stop": ["x"]}, "keep_alive": "5m",
            "tools": [{"type": "function", "function": {"name": "read", "description": "d", "parameters": {"type": "object"}}}],
        }),
    ] {
        assert_eq!(says(IT, &good), None, "{good}");
    }
}

#[test]
#[rustfmt::skip]
fn bodies_have_their_fields() {
    refuses(IT, &with_calls(), &[
        ("/model", None, "model is required"),
        ("/model", Some(json!("")), "model is required"),
        ("/messages", Some(json!([])), "messages is required"),
        ("/messages", Some(json!("x")), "json: cannot unmarshal string into Go struct field ChatRequest.messages of type []api.Message"),
        ("/system", Some(json!("x")), "json: unknown field \"system\""),
        ("/stream", Some(json!("yes")), "json: cannot unmarshal string into Go struct field ChatRequest.stream of type bool"),
        ("/think", Some(json!("much")), "invalid think value: \"much\" (must be \"high\", \"medium\", \"low\", true, or false)"),
        ("/format", Some(json!("xml")), "invalid format: \"xml\"; expected \"json\" or a valid JSON Schema object"),
        ("/options", Some(json!([])), "json: cannot unmarshal array into Go struct field ChatRequest.options of type map[string]interface {}"),
        ("/options", Some(json!({"temperature": "hot"})), "option \"temperature\" must be of type float32"),
        ("/options", Some(json!({"num_ctx": 1.5})), "option \"num_ctx\" must be of type integer"),
        ("/options", Some(json!({"max_tokens": 5})), "invalid option provided: max_tokens"),
        ("/tools", Some(json!([{"type": "function"}])), "tools.function is required"),
        ("/tools", Some(json!([{"type": "custom", "function": {"name": "x"}}])), "invalid tools.type: \"custom\" (must be one of function)"),
        ("/tools", Some(json!([{"type": "function", "function": {"name": ""}}])), "tools.function.name is required"),
    ]);
}

#[test]
#[rustfmt::skip]
fn messages_have_their_fields() {
    refuses(IT, &with_calls(), &[
        ("/messages/0/role", None, "messages.role is required"),
        ("/messages/0/role", Some(json!("developer")), "invalid role: developer, must be one of [\"system\", \"user\", \"assistant\", \"tool\"]"),
        ("/messages/0/content", Some(json!([])), "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"),
        ("/messages/0/name", Some(json!("x")), "json: unknown field \"name\""),
        ("/messages/1/images", Some(json!(PNG)), "json: cannot unmarshal string into Go struct field ChatRequest.messages.images of type []api.ImageData"),
        ("/messages/1/images/0", Some(json!(format!("data:image/png;base64,{PNG}"))), "illegal base64 data at input byte 4"),
        ("/messages/1/images/0", Some(json!("QUJD")), "Failed to load image or audio file"),
        ("/messages/1/images/0", Some(json!(1)), "json: cannot unmarshal number into Go struct field ChatRequest.messages.images of type string"),
        ("/messages/2/tool_calls/0/function/arguments", Some(json!("{}")), "json: cannot unmarshal string into Go struct field ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments"),
        ("/messages/2/tool_calls/0/function/arguments", None, "messages.tool_calls.function.arguments is required"),
        ("/messages/2/tool_calls/0/function/name", Some(json!("")), "messages.tool_calls.function.name is required"),
        ("/messages/2/tool_calls/0/type", Some(json!("function")), "json: unknown field \"type\""),
        ("/messages/1/tool_calls", Some(json!([{"function": {"name": "x", "arguments": {}}}])), "messages with role \"user\" cannot have tool_calls"),
    ]);
}

#[test]
#[rustfmt::skip]
fn calls_have_their_results() {
    refuses(IT, &with_calls(), &[
        ("/messages/3", None, "messages.4: no tool result for list"),
        ("/messages/3/tool_name", Some(json!("other")), "messages.3: tool result for \"other\", which was not called"),
        ("/messages/3/tool_name", Some(json!("read")), "messages.4: tool result for \"read\", which was not called"),
        ("/messages/2", None, "messages.2: tool result for \"list\", which was not called"),
        ("/messages/3", Some(json!({"role": "user", "content": "x"})), "messages.3: no tool result for read, list"),
    ]);
}

#[test]
fn ollama_itself_passes_over_much() {
    let loose = Rules { strict: false, ..Rules::ollama() };
    for (at, value) in [
        ("/system", Some(json!("x"))),
        ("/messages/0/role", Some(json!("developer"))),
        ("/messages/0/name", Some(json!("x"))),
        ("/messages/2", None),
        ("/messages/2/tool_calls/0/type", Some(json!("function"))),
    ] {
        assert_eq!(says_by(IT, &bent(&with_calls(), at, value), &loose), None, "{at}");
    }
    let text = bent(&with_calls(), "/messages/2/tool_calls/0/function/arguments", Some(json!("{}")));
    assert!(says_by(IT, &text, &loose).unwrap().contains("ToolCallFunctionArguments"));
}

#[test]
fn what_is_no_json_is_refused_and_errors_have_ollamas_form() {
    let said = |bytes: &[u8]| ollama::check_bytes(bytes, &Rules::ollama()).unwrap_err();
    assert_eq!(said(b"").message, "missing request body");
    assert_eq!(said(b"{").status, 400);
    assert_eq!(said(b"{}").body(IT), json!({"error": "model is required"}));
    let small = Rules { max_bytes: 3, ..Rules::ollama() };
    assert_eq!(ollama::check_with(&with_calls(), 4, &small).unwrap_err().status, 413);
}
