//! Chat completions: good requests are taken, and each rule refuses a bad one in OpenAI's words.

use super::bad::{bent, refuses, says, says_by};
use contextstore_providers::{Provider, Refusal, Rules, openai};
use serde_json::{Value, json};

const IT: Provider = Provider::OpenAi;
const PNG: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==";

fn body(messages: Value) -> Value {
    json!({"model": "gpt-5", "messages": messages})
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}})
}

fn with_calls() -> Value {
    body(json!([
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "Read both.", "name": "anna"},
        {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": "Done."},
    ]))
}

#[test]
fn good_requests_are_taken() {
    let custom = json!({"id": "c", "type": "custom", "custom": {"name": "patch", "input": "not { json"}});
    for good in [
        body(json!([{"role": "user", "content": ""}])),
        body(json!([{"role": "developer", "content": [{"type": "text", "text": "x\u{0}\u{2028}"}]}])),
        body(
            json!([{"role": "assistant", "content": "first"}, {"role": "assistant", "content": "again"}, {"role": "user", "content": "?"}]),
        ),
        body(json!([{"role": "assistant", "content": null, "refusal": "No."}])),
        body(json!([{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}])),
        body(json!([{"role": "assistant", "audio": {"id": "audio_1"}}])),
        body(json!([
            {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "x"}},
            {"role": "function", "name": "f", "content": null},
        ])),
        body(json!([
            {"role": "assistant", "tool_calls": [custom]},
            {"role": "tool", "tool_call_id": "c", "content": ""},
        ])),
        body(json!([{"role": "user", "content": [
            {"type": "text", "text": "", "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_id": "file-1"}},
        ]}])),
        // An id may be used again by a later group.
        body(json!([
            {"role": "assistant", "tool_calls": [call("a")]}, {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "assistant", "tool_calls": [call("a")]}, {"role": "tool", "tool_call_id": "a", "content": "2"},
        ])),
        json!({
            "model": "gpt-5", "messages": [{"role": "user", "content": "x"}], "stream": true,
            "stream_options": {"include_usage": true}, "temperature": 1, "tool_choice": "auto", "metadata": {"a": "b"},
            "tools": [
                {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}},
                {"type": "custom", "custom": {"name": "patch"}},
            ],
        }),
    ] {
        assert_eq!(says(IT, &good), None, "{good}");
    }
    assert_eq!(says(IT, &with_calls()), None);
}

#[test]
#[rustfmt::skip]
fn bodies_have_their_fields() {
    refuses(
        IT,
        &with_calls(),
        &[
            ("/model", None, "you must provide a model parameter"),
            ("/model", Some(json!("")), "Invalid 'model': empty string. Expected a string with minimum length 1, but got an empty string instead."),
            ("/messages", None, "Missing required parameter: 'messages'."),
            ("/messages", Some(json!([])), "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."),
            ("/messages", Some(json!("hi")), "Invalid type for 'messages': expected an array of objects, but got a string instead."),
            ("/system", Some(json!("x")), "Unrecognized request argument supplied: system"),
            ("/temperature", Some(json!(3)), "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead."),
            ("/temperature", Some(json!("hot")), "Invalid type for 'temperature': expected a decimal, but got a string instead."),
            ("/max_tokens", Some(json!(0)), "Invalid 'max_tokens': decimal below minimum value. Expected a value >= 1, but got 0 instead."),
            ("/max_tokens", Some(json!(1.5)), "Invalid type for 'max_tokens': expected an integer, but got a decimal instead."),
            ("/reasoning_effort", Some(json!("much")), "Invalid value: 'much'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'."),
            ("/stream_options", Some(json!({})), "The 'stream_options' parameter is only allowed when 'stream' is enabled."),
            ("/tool_choice", Some(json!("auto")), "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."),
            ("/parallel_tool_calls", Some(json!(true)), "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified."),
            ("/response_format", Some(json!({"type": "xml"})), "Invalid value: 'xml'. Supported values are: 'text', 'json_object', and 'json_schema'."),
            ("/response_format", Some(json!({"type": "json_schema"})), "Missing required parameter: 'response_format.json_schema'."),
            ("/response_format", Some(json!({"type": "json_schema", "json_schema": {"name": "a b"}})), "Invalid 'response_format.json_schema.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
            ("/metadata", Some(json!({"a": 1})), "Invalid type for 'metadata.a': expected a string, but got an integer instead."),
        ],
    );
    let many: serde_json::Map<_, _> = (0..17).map(|n| (n.to_string(), json!(""))).collect();
    let said = says(IT, &bent(&with_calls(), "/metadata", Some(many.into()))).unwrap();
    assert!(said.contains("at most 16 properties"), "{said}");
    let streamed = bent(&with_calls(), "/stream", Some(json!(true)));
    refuses(
        IT,
        &streamed,
        &[("/stream_options", Some(json!({"x": 1})), "Unknown parameter: 'stream_options.x'.")],
    );
}

#[test]
#[rustfmt::skip]
fn messages_have_their_fields() {
    refuses(
        IT,
        &with_calls(),
        &[
            ("/messages/1", Some(json!("hi")), "Invalid type for 'messages[1]': expected an object, but got a string instead."),
            ("/messages/1/role", None, "Missing required parameter: 'messages[1].role'."),
            ("/messages/1/role", Some(json!("human")), "Invalid value: 'human'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."),
            ("/messages/1/content", None, "Missing required parameter: 'messages[1].content'."),
            ("/messages/1/content", Some(json!(null)), "Invalid value for 'content': expected a string, got null."),
            ("/messages/1/content", Some(json!(3)), "Invalid type for 'messages[1].content': expected one of a string or array of objects, but got an integer instead."),
            ("/messages/1/content", Some(json!([])), "Invalid 'messages[1].content': empty array. Expected an array with minimum length 1, but got an empty array instead."),
            ("/messages/1/tool_name", Some(json!("x")), "Unknown parameter: 'messages[1].tool_name'."),
            ("/messages/2/reasoning_content", Some(json!("x")), "Unknown parameter: 'messages[2].reasoning_content'."),
            ("/messages/3/name", Some(json!("x")), "Unknown parameter: 'messages[3].name'."),
            ("/messages/1/name", Some(json!("")), "Invalid 'messages[1].name': empty string. Expected a string with minimum length 1, but got an empty string instead."),
            ("/messages/1/name", Some(json!("Anna B")), r"Invalid 'messages[1].name': string does not match pattern. Expected a string that matches the pattern '^[^\s<|\\/>]+$'."),
            ("/messages/1/name", Some(json!("n".repeat(65))), "Invalid 'messages[1].name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."),
            ("/messages/5/content", Some(json!(null)), "Invalid value for 'content': expected a string, got null."),
            ("/messages/5/content", None, "Invalid value for 'content': expected a string, got null."),
            ("/messages/3/content", Some(json!(null)), "Invalid value for 'content': expected a string, got null."),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn calls_are_followed_by_their_results() {
    let unanswered = |ids: &str| {
        format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {ids}"
        )
    };
    let user = json!({"role": "user", "content": "and?"});
    refuses(
        IT,
        &with_calls(),
        &[
            ("/messages/3", None, &unanswered("b")),
            ("/messages/3", Some(user), &unanswered("a, b")),
            ("/messages/2", None, "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."),
            ("/messages/3/tool_call_id", Some(json!("c")), "Invalid parameter: 'tool_call_id' of 'c' not found in 'tool_calls' of previous message."),
            ("/messages/3/tool_call_id", Some(json!("a")), "Duplicate value for 'tool_call_id' of 'a' in message[4]"),
            ("/messages/3/tool_call_id", None, "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."),
            ("/messages/3/tool_call_id", Some(json!("")), "Invalid 'messages[3].tool_call_id': empty string. Expected a string with minimum length 1, but got an empty string instead."),
            ("/messages/2/tool_calls", Some(json!([])), "Invalid 'messages[2].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead."),
            ("/messages/2/tool_calls", Some(json!(null)), "Invalid type for 'messages[2].tool_calls': expected an array of objects, but got null instead."),
            ("/messages/2/tool_calls/1/id", Some(json!("a")), "Duplicate value for 'tool_call_id' of 'a' in messages[2].tool_calls[1]"),
        ],
    );
    let many: Vec<Value> = (0..129).map(|at| call(&format!("c{at}"))).collect();
    let said = says(IT, &bent(&with_calls(), "/messages/2/tool_calls", Some(json!(many)))).unwrap();
    assert_eq!(said, "Invalid 'messages[2].tool_calls': array too long. Expected an array with maximum length 128, but got an array with length 129 instead.");
    // OpenAI does not mind; others of its kind do.
    let twice = bent(&with_calls(), "/messages/-", Some(json!({"role": "assistant", "content": "Really."})));
    assert_eq!(says(IT, &twice).unwrap(), "Cannot have 2 or more assistant messages at the end of the list.");
    assert_eq!(says_by(IT, &twice, &Rules { strict: false, ..Rules::openai() }), None);
    let open = body(json!([{"role": "assistant", "tool_calls": [call("a")]}]));
    assert_eq!(says(IT, &open).unwrap(), unanswered("a"));
}

#[test]
#[rustfmt::skip]
fn calls_have_their_fields() {
    let at = |rest: &str| format!("/messages/2/tool_calls/0{rest}");
    refuses(
        IT,
        &with_calls(),
        &[
            (&at("/id"), None, "Missing required parameter: 'messages[2].tool_calls[0].id'."),
            (&at("/id"), Some(json!("x".repeat(41))), "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 41 instead."),
            (&at("/type"), None, "Missing required parameter: 'messages[2].tool_calls[0].type'."),
            (&at("/type"), Some(json!("tool")), "Invalid value: 'tool'. Supported values are: 'function' and 'custom'."),
            (&at("/index"), Some(json!(0)), "Unknown parameter: 'messages[2].tool_calls[0].index'."),
            (&at("/function/name"), Some(json!("a.b")), "Invalid 'messages[2].tool_calls[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
            (&at("/function/name"), Some(json!("")), "Invalid 'messages[2].tool_calls[0].function.name': empty string. Expected a string with minimum length 1, but got an empty string instead."),
            (&at("/function/name"), Some(json!("n".repeat(65))), "Invalid 'messages[2].tool_calls[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."),
            (&at("/function/arguments"), Some(json!({})), "Invalid type for 'messages[2].tool_calls[0].function.arguments': expected a string, but got an object instead."),
            (&at("/function/arguments"), Some(json!("")), "Invalid 'messages[2].tool_calls[0].function.arguments': not the JSON of an object: EOF while parsing a value at line 1 column 0"),
            (&at("/function/arguments"), Some(json!("[1]")), "Invalid 'messages[2].tool_calls[0].function.arguments': not the JSON of an object: invalid type: sequence, expected a map at line 1 column 0"),
            (&at("/type"), Some(json!("custom")), "Missing required parameter: 'messages[2].tool_calls[0].custom'."),
        ],
    );
    // Only the strict rules read the arguments.
    let loose = Rules { strict: false, ..Rules::openai() };
    let odd = bent(&with_calls(), &at("/function/arguments"), Some(json!("")));
    assert_eq!(says_by(IT, &odd, &loose), None);
}

#[test]
#[rustfmt::skip]
fn parts_are_those_of_their_role() {
    let good = body(json!([
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "x"}]},
        {"role": "system", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}]},
    ]));
    let image = json!({"type": "image_url", "image_url": {"url": PNG}});
    let form = "Invalid 'messages[3].content[0].image_url.url'. Expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got";
    let url = "/messages/3/content/0/image_url/url";
    let part = |part: Value| Some(part);
    refuses(
        IT,
        &good,
        &[
            ("/messages/0/content/0", part(json!("x")), "Invalid type for 'messages[0].content[0]': expected an object, but got a string instead."),
            ("/messages/0/content/0/type", None, "Missing required parameter: 'messages[0].content[0].type'."),
            ("/messages/0/content/0/text", None, "Missing required parameter: 'messages[0].content[0].text'."),
            ("/messages/0/content/0/text", part(json!(null)), "Invalid type for 'messages[0].content[0].text': expected a string, but got null instead."),
            ("/messages/0/content/0/cache_control", part(json!({})), "Unknown parameter: 'messages[0].content[0].cache_control'."),
            ("/messages/0/content/0/type", part(json!("video_url")), "Invalid value: 'video_url'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'."),
            ("/messages/0/content/0", part(json!({"type": "refusal", "refusal": "x"})), "Invalid value: 'refusal'. Supported values are: 'text', 'image_url', 'input_audio', and 'file'."),
            ("/messages/0/content/0/prompt_cache_breakpoint", part(json!({"mode": "x"})), "Invalid value: 'x'. Supported values are: 'explicit'."),
            ("/messages/1/content/0", part(image.clone()), "Invalid 'messages[1]'. Image URLs are only allowed for messages with role 'user', but this message with role 'assistant' contains an image URL."),
            ("/messages/1/content/0", part(json!({"type": "input_audio"})), "Invalid value: 'input_audio'. Supported values are: 'text' and 'refusal'."),
            ("/messages/2/content/0", part(json!({"type": "refusal", "refusal": "x"})), "Invalid value: 'refusal'. Supported values are: 'text'."),
            ("/messages/3/content/0/image_url", part(json!(PNG)), "Invalid type for 'messages[3].content[0].image_url': expected an object, but got a string instead."),
            ("/messages/3/content/0/image_url/detail", part(json!("medium")), "Invalid value: 'medium'. Supported values are: 'auto', 'low', 'high', and 'original'."),
            (url, part(json!("file:///a.png")), &format!("{form} a value without the 'data:' prefix.")),
            (url, part(json!("data:image/tiff;base64,QUJD")), &format!("{form} unsupported MIME type 'image/tiff'.")),
            (url, part(json!("data:image/png;base64,")), &format!("{form} empty base64-encoded bytes.")),
            (url, part(json!("data:image/png;base64,a b")), &format!("{form} an invalid base64-encoded value.")),
            (url, part(json!("data:image/png,QUJD")), &format!("{form} an invalid base64-encoded value.")),
            (url, part(json!("data:image/png;base64,QUJD")), "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp']."),
            ("/messages/3/content/0", part(json!({"type": "input_audio", "input_audio": {"data": "!", "format": "wav"}})), "Invalid 'messages[3].content[0].input_audio.data'. Expected base64-encoded audio, but got an invalid value."),
            ("/messages/3/content/0", part(json!({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "ogg"}})), "Invalid value: 'ogg'. Supported values are: 'wav' and 'mp3'."),
            ("/messages/3/content/0", part(json!({"type": "file", "file": {}})), "Missing required parameter: 'messages[3].content[0].file.file_id'."),
            ("/messages/3/content/0", part(json!({"type": "file", "file": {"file_id": "a", "file_data": "b"}})), "Mutually exclusive parameters: 'messages[3].content[0].file'. Ensure you are only providing one of: 'file_id' or 'file_data'."),
            ("/messages/3/content/0", part(json!({"type": "file", "file": {"file_data": "QUJD"}})), "Invalid 'messages[3].content[0].file.file_data'. Expected a base64-encoded data URL with an application/pdf MIME type (e.g. 'data:application/pdf;base64,aGk='), but got an invalid value."),
        ],
    );
    let shown = bent(&with_calls(), "/messages/3/content", Some(json!([image])));
    assert!(says(IT, &shown).unwrap().contains("this message with role 'tool' contains an image URL"));
}

#[test]
#[rustfmt::skip]
fn tools_have_names_and_schemas() {
    let good = json!({
        "model": "m", "messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "function", "function": {"name": "read"}},
        "tools": [
            {"type": "function", "function": {"name": "read", "description": "x", "strict": null, "parameters": {"type": "object"}}},
            {"type": "custom", "custom": {"name": "patch"}},
        ],
    });
    let many: Value = (0..129).map(|_| good["tools"][0].clone()).collect();
    refuses(
        IT,
        &good,
        &[
            ("/tools", Some(json!([])), "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."),
            ("/tools", Some(many), "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 instead."),
            ("/tools/0/type", None, "Missing required parameter: 'tools[0].type'."),
            ("/tools/0/name", Some(json!("x")), "Unknown parameter: 'tools[0].name'."),
            ("/tools/0/function/name", Some(json!("a b")), "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
            ("/tools/0/function/input_schema", Some(json!({})), "Unknown parameter: 'tools[0].function.input_schema'."),
            ("/tools/0/function/parameters", Some(json!({"type": "string"})), "Invalid schema for function 'read': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'."),
            ("/tools/1/custom/name", None, "Missing required parameter: 'tools[1].custom.name'."),
            ("/tool_choice", Some(json!("any")), "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'."),
            ("/tool_choice/function/name", Some(json!("other")), "Tool choice 'other' not found in 'tools' parameter."),
            ("/tool_choice/type", Some(json!("x")), "Invalid value: 'x'. Supported values are: 'allowed_tools', 'function', and 'custom'."),
        ],
    );
    let none = json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": []});
    assert!(says(IT, &none).unwrap().starts_with("Invalid 'tools': empty array."));
}

#[test]
fn sizes_are_limited() {
    let good = with_calls();
    let rules = Rules { max_bytes: 100, ..Rules::openai() };
    let refusal = openai::check_with(&good, 101, &rules).unwrap_err();
    assert_eq!((refusal.status, refusal.code), (413, Some("request_too_large")));
    assert_eq!(refusal.message, "Request body too large: 101 bytes, the maximum is 100 bytes.");
    let rules = Rules { max_text: 5, ..Rules::openai() };
    assert_eq!(
        says_by(IT, &good, &rules).unwrap(),
        "Invalid 'messages[0].content': string too long. Expected a string with maximum length 5, but got a string with length 8 instead."
    );
}

#[test]
fn what_is_no_json_is_refused_and_errors_have_openais_form() {
    for bad in [&b"{"[..], br#"{"model":"a","model":"b","messages":[]}"#, br#"{"model":"\ud800"}"#] {
        let refusal = openai::check_bytes(bad, &Rules::openai()).unwrap_err();
        assert!(refusal.message.starts_with("We could not parse the JSON body of your request."));
    }
    let refusal = openai::check(&body(json!([{"role": "user"}])), 1).unwrap_err();
    assert_eq!(
        refusal.body(IT),
        json!({"error": {
            "message": "Missing required parameter: 'messages[0].content'.", "type": "invalid_request_error",
            "param": "messages[0].content", "code": "missing_required_parameter",
        }})
    );
    assert_eq!(
        refusal.to_string(),
        "400 Missing required parameter: 'messages[0].content'. (param messages[0].content)"
    );
    let Refusal { status, .. } = refusal;
    assert_eq!(status, 400);
}
