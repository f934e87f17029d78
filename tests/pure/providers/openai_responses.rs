//! Responses: good requests are taken, and each rule refuses a bad one in OpenAI's words.

use super::bad::{bent, refuses, says, says_by};
use contextstore_providers::{Provider, Rules, openai_responses, place};
use serde_json::{Value, json};

const IT: Provider = Provider::OpenAiResponses;
const PNG: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==";

fn body(input: Value) -> Value {
    json!({"model": "gpt-5", "input": input, "instructions": "Be good.", "store": false})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "read", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "ok"})
}

fn reasoning(id: &str) -> Value {
    let sealed = format!("{}x", openai_responses::ENCRYPTED);
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": sealed})
}

fn with_calls() -> Value {
    body(json!([
        {"role": "user", "content": "Read both."},
        reasoning("rs_1"),
        call("a"),
        call("b"),
        output("b"),
        output("a"),
        {"type": "message", "role": "assistant", "content": "Done."},
        {"role": "user", "content": [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": PNG, "detail": "auto"}]},
    ]))
}

#[test]
fn good_requests_are_taken() {
    for good in [
        with_calls(),
        body(json!("plain")),
        body(json!([{"role": "developer", "content": "x\u{0}\u{2028}"}, {"role": "system", "content": ""}])),
        body(
            json!([{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
                {"type": "output_text", "text": "x", "annotations": []}, {"type": "refusal", "refusal": "No."},
            ]}]),
        ),
        body(json!([
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "not { json"},
            {"type": "custom_tool_call_output", "id": "ctco_1", "call_id": "c", "output": [{"type": "input_text", "text": "ok"}]},
        ])),
        body(json!([call("a"), output("a"), call("a"), output("a")])),
        body(
            json!([{"type": "compaction", "encrypted_content": format!("{}y", openai_responses::ENCRYPTED)}]),
        ),
        body(json!([{"role": "user", "content": [
            {"type": "input_file", "file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"},
            {"type": "input_file", "file_url": "https://example.org/a.pdf"},
            {"type": "input_image", "file_id": "file-1", "detail": "low"},
        ]}])),
        json!({
            "model": "gpt-5", "input": "x", "stream": true, "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "low"}, "tool_choice": "auto",
            "tools": [
                {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": false},
                {"type": "custom", "name": "patch"},
            ],
        }),
    ] {
        assert_eq!(says(IT, &good), None, "{good}");
    }
}

#[test]
#[rustfmt::skip]
fn bodies_have_their_fields() {
    refuses(IT, &with_calls(), &[
        ("/model", None, "Missing required parameter: 'model'."),
        ("/input", None, "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided."),
        ("/input", Some(json!([])), "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead."),
        ("/input", Some(json!(3)), "Invalid type for 'input': expected one of a string or array of objects, but got an integer instead."),
        ("/messages", Some(json!([])), "Unrecognized request argument supplied: messages"),
        ("/max_tokens", Some(json!(5)), "Unrecognized request argument supplied: max_tokens"),
        ("/max_output_tokens", Some(json!(5)), "Invalid 'max_output_tokens': decimal below minimum value. Expected a value >= 16, but got 5 instead."),
        ("/instructions", Some(json!([])), "Invalid type for 'instructions': expected a string, but got an array instead."),
        ("/reasoning", Some(json!({"effort": "x"})), "Invalid value: 'x'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'."),
        ("/reasoning", Some(json!({"tokens": 1})), "Unknown parameter: 'reasoning.tokens'."),
        ("/text", Some(json!({"x": 1})), "Unknown parameter: 'text.x'."),
        ("/text", Some(json!({"format": {"type": "json_schema", "name": "a"}})), "Missing required parameter: 'text.format.schema'."),
        ("/truncation", Some(json!("off")), "Invalid value: 'off'. Supported values are: 'auto' and 'disabled'."),
        ("/stream_options", Some(json!({})), "The 'stream_options' parameter is only allowed when 'stream' is enabled."),
        ("/include", Some(json!([1])), "Invalid type for 'include[0]': expected a string, but got an integer instead."),
    ]);
    let said = says(IT, &bent(&with_calls(), "/include", Some(json!(["x"])))).unwrap();
    assert!(said.starts_with("Invalid value: 'x'. Supported values are: 'file_search_call.results', "), "{said}");
    let usage = bent(&bent(&with_calls(), "/stream", Some(json!(true))), "/stream_options", Some(json!({"include_usage": true})));
    assert_eq!(says(IT, &usage).unwrap(), "Unknown parameter: 'stream_options.include_usage'.");
}

#[test]
#[rustfmt::skip]
fn items_have_their_fields() {
    refuses(IT, &with_calls(), &[
        ("/input/0", Some(json!("x")), "Invalid type for 'input[0]': expected an object, but got a string instead."),
        ("/input/0", Some(json!({})), "Missing required parameter: 'input[0].type'."),
        ("/input/0/type", Some(json!("x")), "Invalid value: 'x'. Supported values are: 'message', 'function_call', 'function_call_output', 'custom_tool_call', 'custom_tool_call_output', 'reasoning', 'compaction', and 'item_reference'."),
        ("/input/0/role", Some(json!("tool")), "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'."),
        ("/input/0/content", Some(json!(null)), "Invalid type for 'input[0].content': expected one of a string or array of objects, but got null instead."),
        ("/input/0/content", Some(json!([])), "Invalid 'input[0].content': empty array. Expected an array with minimum length 1, but got an empty array instead."),
        ("/input/0/name", Some(json!("anna")), "Unknown parameter: 'input[0].name'."),
        ("/input/6/tool_calls", Some(json!([])), "Unknown parameter: 'input[6].tool_calls'."),
        ("/input/0/content", Some(json!([{"type": "text", "text": "x"}])), "Invalid value: 'text'. Supported values are: 'input_text', 'input_image', and 'input_file'."),
        ("/input/6", Some(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": []}]})), "Missing required parameter: 'input[6].id'."),
        ("/input/6", Some(json!({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [{"type": "input_text", "text": "x"}]})), "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'."),
        ("/input/6", Some(json!({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [{"type": "output_text", "text": "x"}]})), "Missing required parameter: 'input[6].content[0].annotations'."),
        ("/input/6/id", Some(json!("rs_1")), "Invalid 'input[6].id': 'rs_1'. Expected an ID that begins with 'msg'."),
        ("/input/7/content/1/image_url", None, "Missing required parameter: 'input[7].content[1].image_url'."),
        ("/input/7/content/1/image_url", Some(json!({"url": PNG})), "Invalid type for 'input[7].content[1].image_url': expected a string, but got an object instead."),
        ("/input/7/content/1/image_url", Some(json!("data:image/png;base64,")), "Invalid 'input[7].content[1].image_url'. Expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got empty base64-encoded bytes."),
        ("/input/7/content/1/detail", None, "Missing required parameter: 'input[7].content[1].detail'."),
        ("/input/7/content/0/text", Some(json!(null)), "Invalid type for 'input[7].content[0].text': expected a string, but got null instead."),
        ("/input/7/content/0", Some(json!({"type": "input_file"})), "Missing required parameter: 'input[7].content[0].file_id'."),
        ("/input/7/content/0", Some(json!({"type": "input_file", "file_url": "x"})), "Invalid 'input[7].content[0].file_url'. Expected a valid URL."),
        ("/input/2/call_id", Some(json!("x".repeat(65))), "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."),
        ("/input/2/call_id", Some(json!("")), "Invalid 'input[2].call_id': empty string. Expected a string with minimum length 1, but got an empty string instead."),
        ("/input/2/name", Some(json!("a.b")), "Invalid 'input[2].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
        ("/input/2/arguments", Some(json!({})), "Invalid type for 'input[2].arguments': expected a string, but got an object instead."),
        ("/input/2/id", Some(json!("call_1")), "Invalid 'input[2].id': 'call_1'. Expected an ID that begins with 'fc'."),
        ("/input/4/output", Some(json!(null)), "Invalid type for 'input[4].output': expected one of a string or array of objects, but got null instead."),
        ("/input/4/content", Some(json!("x")), "Unknown parameter: 'input[4].content'."),
        ("/input/-", Some(json!({"type": "item_reference", "id": "msg_9"})), "Item with id 'msg_9' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."),
    ]);
}

#[test]
#[rustfmt::skip]
fn calls_have_their_outputs() {
    let user = json!({"role": "user", "content": "and?"});
    refuses(IT, &with_calls(), &[
        ("/input/4", None, "No tool output found for function call b."),
        ("/input/4", Some(user), "No tool output found for function call a."),
        ("/input/2", None, "No tool call found for function call output with call_id a."),
        ("/input/4/call_id", Some(json!("c")), "No tool call found for function call output with call_id c."),
        ("/input/4/call_id", Some(json!("a")), "No tool call found for function call output with call_id a."),
        ("/input/4/type", Some(json!("custom_tool_call_output")), "No tool call found for custom tool call output with call_id b."),
        ("/input/3/call_id", Some(json!("a")), "Duplicate tool call found with call_id a."),
        ("/input/-", Some(call("z")), "No tool output found for function call z."),
        ("/input/-", Some(json!({"type": "custom_tool_call", "call_id": "z", "name": "f", "input": ""})), "No tool output found for custom tool call z."),
    ]);
    let apart = body(json!([call("a"), {"role": "user", "content": "x"}, output("a")]));
    assert_eq!(says(IT, &apart).unwrap(), "No tool output found for function call a.");
    let loose = Rules { strict: false, ..Rules::openai() };
    assert_eq!(says_by(IT, &apart, &loose), None);
}

/// What is sealed can say what stands beside it.
#[test]
fn reasoning_stays_between_the_calls_that_it_stood_between() {
    let seal = format!("{}x", openai_responses::ENCRYPTED);
    let item = |id: &str, before: &str, behind: &str| {
        let sealed = place::sealed(&seal, before, behind);
        json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": sealed})
    };
    let of_call = place::call("read", &json!({}));
    let said = json!({"role": "assistant", "content": "Both."});
    let first = item("rs_1", "", &place::text("Both."));
    let second = item("rs_2", &of_call, &of_call);
    let outputs = [output("a"), output("b")];
    let body = |items: &[&Value]| {
        let items: Vec<Value> = items.iter().map(|item| (*item).clone()).chain(outputs.clone()).collect();
        body(json!(items))
    };
    let (a, b) = (call("a"), call("b"));
    assert_eq!(says(IT, &body(&[&first, &said, &a, &second, &b])), None);
    for (wrong, id) in [
        (&body(&[&first, &second, &said, &a, &b]), "rs_1"),
        (&body(&[&second, &first, &said, &a, &b]), "rs_2"),
        (&body(&[&first, &said, &second, &a, &b]), "rs_2"),
    ] {
        let words =
            format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
        assert_eq!(says(IT, wrong).unwrap(), words);
    }
    // The model may speak between its calls, but nobody else may.
    assert_eq!(says(IT, &body(&[&a, &said, &b])), None);
    let user = json!({"role": "user", "content": "Well?"});
    assert_eq!(says(IT, &body(&[&a, &user, &b])).unwrap(), "No tool output found for function call a.");
}

#[test]
#[rustfmt::skip]
fn reasoning_is_its_own_and_in_its_place() {
    refuses(IT, &with_calls(), &[
        ("/input/1/encrypted_content", Some(json!("gAAAAABo")), "The encrypted content for item rs_1 could not be verified."),
        ("/input/1/encrypted_content", None, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."),
        ("/input/1/summary", None, "Missing required parameter: 'input[1].summary'."),
        ("/input/1/summary", Some(json!([{"type": "x", "text": "y"}])), "Invalid value: 'x'. Supported values are: 'summary_text'."),
        ("/input/1/id", Some(json!("r")), "Invalid 'input[1].id': 'r'. Expected an ID that begins with 'rs'."),
        ("/input/1/thinking", Some(json!("x")), "Unknown parameter: 'input[1].thinking'."),
        ("/input/-", Some(reasoning("rs_2")), "Item 'rs_2' of type 'reasoning' was provided without its required following item."),
        ("/input/6", Some(reasoning("rs_2")), "Item 'rs_2' of type 'reasoning' was provided without its required following item."),
        ("/input/-", Some(reasoning("rs_1")), "Duplicate item found with id rs_1. Remove duplicate items from your input and try again."),
        ("/input/-", Some(json!({"type": "compaction", "encrypted_content": "gAAA", "id": "cmp_1"})), "The encrypted content for item cmp_1 could not be verified."),
    ]);
    let refusal = openai_responses::check(&bent(&with_calls(), "/input/1/encrypted_content", Some(json!("x"))), 1).unwrap_err();
    assert_eq!((refusal.status, refusal.code), (400, Some("invalid_encrypted_content")));
}

#[test]
#[rustfmt::skip]
fn tools_are_flat() {
    let mut good = with_calls();
    good["tools"] = json!([{"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": null}]);
    refuses(IT, &good, &[
        ("/tools/0", Some(json!({"type": "function", "function": {"name": "read"}})), "Missing required parameter: 'tools[0].name'."),
        ("/tools/0/strict", None, "Missing required parameter: 'tools[0].strict'."),
        ("/tools/0/type", Some(json!("tool")), "Invalid value: 'tool'. Supported values are: 'function' and 'custom'."),
        ("/tools/0/name", Some(json!("a b")), "Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
        ("/tools/0/parameters", Some(json!({"type": "array"})), "Invalid schema for function 'read': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'."),
        ("/tool_choice", Some(json!("any")), "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'."),
        ("/tool_choice", Some(json!({"type": "function", "name": "x"})), "Tool choice 'x' not found in 'tools' parameter."),
        ("/tool_choice", Some(json!({"type": "function", "function": {"name": "read"}})), "Missing required parameter: 'tool_choice.name'."),
    ]);
}

#[test]
fn sizes_are_limited_and_json_is_needed() {
    let rules = Rules { max_text: 5, ..Rules::openai() };
    let said = says_by(IT, &with_calls(), &rules).unwrap();
    assert!(said.starts_with("Invalid 'instructions': string too long."), "{said}");
    let small = Rules { max_bytes: 10, ..Rules::openai() };
    assert_eq!(openai_responses::check_with(&with_calls(), 11, &small).unwrap_err().status, 413);
    let refusal = openai_responses::check_bytes(b"x", &Rules::openai()).unwrap_err();
    assert!(refusal.message.starts_with("We could not parse the JSON body"), "{refusal}");
}
