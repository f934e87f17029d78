//! Messages: good requests are taken, and each rule refuses a bad one in Anthropic's words.

use super::bad::{bent, refuses, says, says_by};
use contextstore_providers::{Provider, Rules, anthropic, place};
use serde_json::{Value, json};

const IT: Provider = Provider::Anthropic;
const PNG: &str = "iVBORw0KGgoAAAANSUhEUg==";

fn tools() -> Value {
    json!([{"name": "read", "input_schema": {"type": "object", "properties": {}}}])
}

fn body(messages: Value) -> Value {
    json!({"model": "claude-sonnet-4-5", "max_tokens": 4096, "messages": messages, "tools": tools()})
}

fn thought(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": anthropic::sign(text)})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": "a"}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
}

fn with_calls() -> Value {
    body(json!([
        {"role": "user", "content": "Read both."},
        {"role": "assistant", "content": [thought("Hm."), {"type": "text", "text": "Yes"}, call("a"), call("b")]},
        {"role": "user", "content": [result("b"), result("a"), {"type": "text", "text": "And?"}]},
    ]))
}

fn with_image() -> Value {
    let source = json!({"type": "base64", "media_type": "image/png", "data": PNG});
    body(json!([{"role": "user", "content": [{"type": "image", "source": source}]}]))
}

#[test]
fn good_requests_are_taken() {
    let redacted = json!({"type": "redacted_thinking", "data": format!("{}x", anthropic::REDACTED)});
    for good in [
        with_calls(),
        with_image(),
        body(json!([{"role": "user", "content": "x\u{0}\u{2028}"}])),
        body(json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "{"}])),
        body(json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}])),
        body(json!([
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [redacted, call("a")]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": [
                {"type": "text", "text": "no", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            ]}]},
        ])),
        body(json!([
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [call("a")]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": ""}]},
            {"role": "assistant", "content": [call("b")]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b"}]},
        ])),
        body(json!([{"role": "user", "content": [
            {"type": "document", "title": "a", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
        ]}])),
        json!({
            "model": "claude-opus-4-7", "max_tokens": 2000, "stream": true, "system": [{"type": "text", "text": "Be good."}],
            "messages": [{"role": "user", "content": "x"}], "tools": tools(), "tool_choice": {"type": "auto"},
            "thinking": {"type": "enabled", "budget_tokens": 1024}, "metadata": {"user_id": "u"},
        }),
    ] {
        assert_eq!(says(IT, &good), None, "{good}");
    }
}

#[test]
#[rustfmt::skip]
fn bodies_have_their_fields() {
    refuses(IT, &with_calls(), &[
        ("/model", None, "model: Field required"),
        ("/model", Some(json!("")), "model: String should have at least 1 character"),
        ("/max_tokens", None, "max_tokens: Field required"),
        ("/max_tokens", Some(json!(0)), "max_tokens: Input should be greater than or equal to 1"),
        ("/max_tokens", Some(json!("9")), "max_tokens: Input should be a valid integer"),
        ("/messages", None, "messages: Field required"),
        ("/messages", Some(json!([])), "messages: at least one message is required"),
        ("/messages", Some(json!({})), "messages: Input should be a valid list"),
        ("/stop", Some(json!("x")), "stop: Extra inputs are not permitted"),
        ("/temperature", Some(json!(1.5)), "temperature: range: 0..1"),
        ("/top_k", Some(json!(-1)), "top_k: Input should be greater than or equal to 0"),
        ("/stop_sequences", Some(json!([" "])), "stop_sequences: each stop sequence must contain non-whitespace"),
        ("/stop_sequences", Some(json!([1])), "stop_sequences.0: Input should be a valid string"),
        ("/service_tier", Some(json!("x")), "service_tier: Input should be 'auto' or 'standard_only'"),
        ("/metadata", Some(json!({"a": "b"})), "metadata.a: Extra inputs are not permitted"),
        ("/output_config", Some(json!({"effort": "all"})), "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"),
        ("/output_config", Some(json!({"format": {"type": "json_schema"}})), "output_config.format.schema: Field required"),
        ("/system", Some(json!([{"type": "text", "text": ""}])), "system: text content blocks must be non-empty"),
        ("/system", Some(json!([{"type": "image"}])), "system.0.type: Input should be 'text'"),
        ("/system", Some(json!(1)), "system: Input should be a valid string"),
        ("/cache_control", Some(json!({"type": "x"})), "cache_control.type: Input should be 'ephemeral'"),
    ]);
}

#[test]
#[rustfmt::skip]
fn messages_have_their_fields() {
    let empty = "messages.0: all messages must have non-empty content except for the optional final assistant message";
    refuses(IT, &with_calls(), &[
        ("/messages/0", Some(json!("x")), "messages.0: Input should be a valid dictionary"),
        ("/messages/0/role", None, "messages.0.role: Field required"),
        ("/messages/0/role", Some(json!("tool")), "messages.0.role: Input should be 'user' or 'assistant'"),
        ("/messages/0/role", Some(json!("system")), "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \"system\" as an input message role."),
        ("/messages/0/content", None, "messages.0.content: Field required"),
        ("/messages/0/content", Some(json!(null)), "messages.0.content: Input should be a valid string"),
        ("/messages/0/content", Some(json!("")), empty),
        ("/messages/0/content", Some(json!([])), empty),
        ("/messages/0/content", Some(json!(" \n")), "messages: text content blocks must contain non-whitespace text"),
        ("/messages/0/content", Some(json!([{"type": "text", "text": ""}])), "messages: text content blocks must be non-empty"),
        ("/messages/0/name", Some(json!("anna")), "messages.0.name: Extra inputs are not permitted"),
        ("/messages/0", None, "messages: first message must use the \"user\" role"),
    ]);
}

#[test]
#[rustfmt::skip]
fn blocks_have_their_fields() {
    let at = |rest: &str| format!("/messages/1/content/{rest}");
    refuses(IT, &with_calls(), &[
        (&at("1"), Some(json!("x")), "messages.1.content.1: Input should be a valid dictionary"),
        (&at("1/type"), None, "messages.1.content.1.type: Field required"),
        (&at("1/type"), Some(json!("audio")), "messages.1.content.1: Input tag 'audio' found using 'type' does not match any of the expected tags: 'document', 'image', 'redacted_thinking', 'search_result', 'text', 'thinking', 'tool_result', 'tool_use'"),
        (&at("1/text"), None, "messages.1.content.1.text.text: Field required"),
        (&at("1/text"), Some(json!(1)), "messages.1.content.1.text.text: Input should be a valid string"),
        (&at("1/x"), Some(json!(1)), "messages.1.content.1.text.x: Extra inputs are not permitted"),
        (&at("1/cache_control"), Some(json!({"type": "ephemeral", "ttl": "1d"})), "messages.1.content.1.text.cache_control.ttl: Input should be '5m' or '1h'"),
        (&at("2/id"), Some(json!("a.b:0")), "messages.1.content.2.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
        (&at("2/id"), Some(json!("")), "messages.1.content.2.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
        (&at("2/name"), Some(json!("a.b")), "messages.1.content.2.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
        (&at("2/name"), Some(json!("n".repeat(129))), "messages.1.content.2.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
        (&at("2/input"), Some(json!("{}")), "messages.1.content.2.tool_use.input: Input should be a valid dictionary"),
        (&at("2/input"), Some(json!([])), "messages.1.content.2.tool_use.input: Input should be a valid dictionary"),
        ("/messages/2/content/0/name", Some(json!("x")), "messages.2.content.0.tool_result.name: Extra inputs are not permitted"),
        ("/messages/2/content/0/is_error", Some(json!("no")), "messages.2.content.0.tool_result.is_error: Input should be a valid boolean"),
        ("/messages/2/content/0/content", Some(json!(null)), "messages.2.content.0.tool_result.content: Input should be a valid string"),
        ("/messages/2/content/0/content", Some(json!([{"type": "text", "text": ""}])), "messages: text content blocks must be non-empty"),
        ("/messages/2/content/0/content", Some(json!([{"type": "tool_use"}])), "messages.2.content.0.tool_result.content.0: Input tag 'tool_use' found using 'type' does not match any of the expected tags: 'document', 'image', 'search_result', 'text'"),
        ("/messages/0/content", Some(json!([call("z")])), "messages.0: `tool_use` blocks can only be in `assistant` messages"),
        ("/messages/0/content", Some(json!([thought("z")])), "messages.0: `thinking` blocks can only be in `assistant` messages"),
        (&at("1"), Some(result("z")), "messages.1: `tool_result` blocks can only be in `user` messages"),
        (&at("1"), Some(with_image()["messages"][0]["content"][0].clone()), "messages.1.content.1: `image` blocks are not permitted in `assistant` messages"),
    ]);
    let shown = json!([{"type": "image", "source": {"type": "url", "url": "https://example.org"}}]);
    let failed = bent(&with_calls(), "/messages/2/content/0/is_error", Some(json!(true)));
    assert_eq!(
        says(IT, &bent(&failed, "/messages/2/content/0/content", Some(shown))).unwrap(),
        "messages.2.content.0: all content must be type \"text\" if \"is_error\" is true"
    );
}

#[test]
#[rustfmt::skip]
fn calls_are_followed_by_their_results() {
    let unanswered = |ids: &str| format!(
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    );
    refuses(IT, &with_calls(), &[
        ("/messages/2/content/0", None, &unanswered("b")),
        ("/messages/2", None, &unanswered("a, b")),
        ("/messages/2/content", Some(json!("later")), &unanswered("a, b")),
        ("/messages/1/content", Some(json!("no calls")), "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: b. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."),
        ("/messages/2/content/2", Some(result("a")), "messages.2.content.2: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a"),
        ("/messages/2/content", Some(json!([{"type": "text", "text": "x"}, result("a"), result("b")])), "messages.2: Messages following `tool_use` blocks must begin with a matching number of `tool_result` blocks"),
        ("/messages/1/content/3/id", Some(json!("a")), "messages: `tool_use` ids must be unique"),
        ("/messages/-", Some(json!({"role": "assistant", "content": [call("a")]})), "messages: `tool_use` ids must be unique"),
        ("/tools", None, "Requests which include `tool_use` or `tool_result` blocks must define tools"),
        ("/tools", Some(json!([])), "Requests which include `tool_use` or `tool_result` blocks must define tools"),
    ]);
}

#[test]
#[rustfmt::skip]
fn roles_alternate_where_rules_are_strict() {
    let twice = body(json!([{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]));
    assert_eq!(
        says(IT, &twice).unwrap(),
        "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"user\" roles in a row"
    );
    let loose = Rules { strict: false, ..Rules::anthropic() };
    assert_eq!(says_by(IT, &twice, &loose), None);
    // Joined by the API, results may come in two messages.
    let split = body(json!([
        {"role": "user", "content": "x"}, {"role": "assistant", "content": [call("a"), call("b")]},
        {"role": "user", "content": [result("a")]}, {"role": "user", "content": [result("b")]},
    ]));
    assert_eq!(says_by(IT, &split, &loose), None);
}

/// A signature can bind a thought to what stands beside it; one whose text was left out is whole too.
#[test]
fn thinking_stays_in_its_place() {
    let thought = |text: &str, before: &str, behind: &str| {
        let signature = place::sealed(&anthropic::sign(text), before, behind);
        json!({"type": "thinking", "thinking": text, "signature": signature})
    };
    let call = |path: &str| json!({"type": "tool_use", "id": path, "name": "read", "input": {"path": path}});
    let of_call = |path: &str| place::call("read", &json!({"path": path}));
    let first = thought("", "", &place::text("Both."));
    let second = thought("b?", &of_call("a"), &of_call("b"));
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
    let body = |blocks: Value| {
        let messages = json!([
            {"role": "user", "content": "Read both."},
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [result("a"), result("b")]},
        ]);
        let tools = json!([{"name": "read", "input_schema": {"type": "object"}}]);
        json!({"model": "claude-opus-5", "max_tokens": 10, "tools": tools, "messages": messages})
    };
    let text = json!({"type": "text", "text": "Both."});
    assert_eq!(says(IT, &body(json!([first, text, call("a"), second, call("b")]))), None);
    let moved = |at: usize| {
        format!(
            "messages.1.content.{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message \
             cannot be modified. These blocks must remain as they were in the original response."
        )
    };
    for (wrong, at) in [
        (json!([first, second, text, call("a"), call("b")]), 0),
        (json!([second, first, text, call("a"), call("b")]), 0),
        (json!([first, text, second, call("a"), call("b")]), 2),
        (json!([first, text, call("b"), second, call("a")]), 3),
    ] {
        assert_eq!(says(IT, &body(wrong)).unwrap(), moved(at));
    }
}

#[test]
#[rustfmt::skip]
fn thinking_is_whole_and_its_own() {
    refuses(IT, &with_calls(), &[
        ("/messages/1/content/0/signature", Some(json!("EuYBCkQYAiJA")), "messages.1.content.0: Invalid `signature` in `thinking` block"),
        ("/messages/1/content/0/thinking", Some(json!("Changed.")), "messages.1.content.0: Invalid `signature` in `thinking` block"),
        ("/messages/1/content/0/signature", None, "messages.1.content.0.thinking.signature: Field required"),
        ("/messages/1/content/0/thinking", Some(json!(" ")), "messages.1.content.0.thinking: each thinking block must contain thinking"),
        ("/messages/1/content/0", Some(json!({"type": "redacted_thinking", "data": "EuYB"})), "messages.1.content.0: Invalid `data` in `redacted_thinking` block"),
        ("/messages/1/content", Some(json!([{"type": "text", "text": "x"}, thought("y")])), "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: b. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."),
        ("/thinking", Some(json!({"type": "enabled"})), "thinking.enabled.budget_tokens: Field required"),
        ("/thinking", Some(json!({"type": "enabled", "budget_tokens": 1000})), "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"),
        ("/thinking", Some(json!({"type": "enabled", "budget_tokens": 4096})), "`max_tokens` must be greater than `thinking.budget_tokens`."),
        ("/thinking", Some(json!({"type": "on"})), "thinking: Input tag 'on' found using 'type' does not match any of the expected tags: 'adaptive', 'between_tools', 'disabled', 'enabled'"),
    ]);
    let last = body(json!([
        {"role": "user", "content": "x"}, {"role": "assistant", "content": [thought("y")]}, {"role": "user", "content": "z"},
    ]));
    assert_eq!(says(IT, &last).unwrap(), "messages.1: The final block in an assistant message cannot be `thinking`.");

    // An open loop of calls begins with a thought if thinking is on; a finished one need not.
    let on = |body: &Value| bent(body, "/thinking", Some(json!({"type": "enabled", "budget_tokens": 1024})));
    let open = bent(&with_calls(), "/messages/2/content/2", None);
    assert_eq!(says(IT, &on(&open)), None);
    let thoughtless = bent(&open, "/messages/1/content/0", None);
    assert_eq!(says(IT, &thoughtless), None);
    let said = says(IT, &on(&thoughtless)).unwrap();
    assert!(said.starts_with("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."), "{said}");
    let finished = bent(&with_calls(), "/messages/1/content/0", None);
    assert_eq!(says(IT, &on(&finished)), None);
    refuses(IT, &on(&open), &[
        ("/temperature", Some(json!(0.5)), "`temperature` may only be set to 1 when thinking is enabled."),
        ("/tool_choice", Some(json!({"type": "any"})), "Thinking may not be enabled when tool_choice forces tool use."),
    ]);
}

#[test]
#[rustfmt::skip]
fn images_and_documents_are_what_they_say() {
    let at = |rest: &str| format!("/messages/0/content/0/source/{rest}");
    let path = "messages.0.content.0.image.source";
    let large = format!("{PNG}{}", "A".repeat(5 * 1024 * 1024)).replace("==", "AA");
    refuses(IT, &with_image(), &[
        (&at("media_type"), Some(json!("image/tiff")), &format!("{path}.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'")),
        (&at("media_type"), Some(json!("image/jpeg")), &format!("{path}.base64.data: The image was specified using the image/jpeg media type, but the image appears to be a image/png image")),
        (&at("media_type"), None, &format!("{path}.base64.media_type: Field required")),
        (&at("data"), Some(json!("")), &format!("{path}.base64: image cannot be empty")),
        (&at("data"), Some(json!("a b")), &format!("{path}.base64.data: Invalid base64 data")),
        (&at("data"), Some(json!(format!("data:image/png;base64,{PNG}"))), &format!("{path}.base64.data: Invalid base64 data")),
        (&at("data"), Some(json!("QUJD")), "Could not process image"),
        (&at("data"), Some(json!(large)), &format!("{path}.base64: image exceeds 5 MB maximum: 5242904 bytes > 5242880 bytes")),
        (&at("type"), Some(json!("x")), &format!("{path}: Input tag 'x' found using 'type' does not match any of the expected tags: 'base64', 'file', 'url'")),
        (&at("url"), Some(json!("x")), &format!("{path}.base64.url: Extra inputs are not permitted")),
        ("/messages/0/content/0/source", Some(json!({"type": "url", "url": "http://example.org/a.png"})), &format!("{path}.url.url: Only HTTPS URLs are supported.")),
        ("/messages/0/content/0/detail", Some(json!("low")), "messages.0.content.0.image.detail: Extra inputs are not permitted"),
    ]);
    for (source, words) in [
        (json!({"type": "base64", "media_type": "text/html", "data": "QUJD"}), "base64.media_type: Input should be 'application/pdf'"),
        (json!({"type": "base64", "media_type": "application/pdf", "data": "!"}), "base64.data: Invalid base64 data"),
        (json!({"type": "base64", "media_type": "application/pdf", "data": "QUJD"}), "base64.data: The PDF specified was not valid."),
        (json!({"type": "text", "media_type": "text/html", "data": "x"}), "text.media_type: Input should be 'text/plain'"),
        (json!({"type": "text", "media_type": "text/plain", "data": ""}), "text.data: document text cannot be empty"),
    ] {
        let document = body(json!([{"role": "user", "content": [{"type": "document", "source": source}]}]));
        assert_eq!(says(IT, &document).unwrap(), format!("messages.0.content.0.document.source.{words}"));
    }
}

#[test]
#[rustfmt::skip]
fn tools_have_names_and_schemas() {
    refuses(IT, &with_calls(), &[
        ("/tools/0/name", Some(json!("a b")), "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
        ("/tools/0/name", None, "tools.0.custom.name: Field required"),
        ("/tools/0/input_schema", None, "tools.0.custom.input_schema: Field required"),
        ("/tools/0/input_schema", Some(json!({})), "tools.0.custom.input_schema.type: Field required"),
        ("/tools/0/input_schema", Some(json!({"type": "string"})), "tools.0.custom.input_schema.type: Input should be 'object'"),
        ("/tools/0/input_schema", Some(json!({"type": "object", "anyOf": []})), "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"),
        ("/tools/0/input_schema", Some(json!({"type": "object", "properties": []})), "tools.0.custom.input_schema.properties: Input should be a valid dictionary"),
        ("/tools/0/parameters", Some(json!({})), "tools.0.custom.parameters: Extra inputs are not permitted"),
        ("/tools/0/type", Some(json!("function")), "tools.0: Input tag 'function' found using 'type' does not match any of the expected tags: 'custom'"),
        ("/tools/-", Some(tools()[0].clone()), "tools: Tool names must be unique."),
        ("/tool_choice", Some(json!("auto")), "tool_choice: Input should be a valid dictionary"),
        ("/tool_choice", Some(json!({"type": "function"})), "tool_choice: Input tag 'function' found using 'type' does not match any of the expected tags: 'any', 'auto', 'none', 'tool'"),
        ("/tool_choice", Some(json!({"type": "tool", "name": "other"})), "Tool 'other' not found in provided tools"),
        ("/tool_choice", Some(json!({"type": "none", "x": 1})), "tool_choice.none.x: Extra inputs are not permitted"),
    ]);
    let none = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "auto"}});
    assert_eq!(says(IT, &none).unwrap(), "tool_choice may only be specified while providing tools");
}

#[test]
#[rustfmt::skip]
fn the_end_is_what_the_model_takes() {
    let ends = |model: &str, text: &str| json!({"model": model, "max_tokens": 1, "messages": [
        {"role": "user", "content": "x"}, {"role": "assistant", "content": text},
    ]});
    assert_eq!(says(IT, &ends("claude-haiku-4-5", "Yes,")), None);
    assert_eq!(says(IT, &ends("claude-haiku-4-5", "Yes, ")).unwrap(), "messages: final assistant content cannot end with trailing whitespace");
    assert_eq!(
        says(IT, &ends("claude-opus-4-7", "Yes,")).unwrap(),
        "This model does not support assistant message prefill. The conversation must end with a user message."
    );
}

#[test]
fn sizes_and_marks_are_limited() {
    let refusal = anthropic::check(&with_calls(), 32 * 1024 * 1024 + 1).unwrap_err();
    assert_eq!((refusal.status, refusal.kind), (413, "request_too_large"));
    assert_eq!(refusal.message, "Request exceeds the maximum size");
    let block = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let marked = |count| {
        let blocks: Value = (0..count).map(|_| block.clone()).collect();
        body(json!([{"role": "user", "content": blocks}]))
    };
    assert_eq!(says(IT, &marked(4)), None);
    assert_eq!(
        says(IT, &marked(5)).unwrap(),
        "A maximum of 4 blocks with cache_control may be provided. Found 5."
    );
}

#[test]
fn what_is_no_json_is_refused_and_errors_have_anthropics_form() {
    let refusal = anthropic::check_bytes(br#"{"model":"\ud800"}"#, &Rules::anthropic()).unwrap_err();
    assert!(refusal.message.starts_with("The request body is not valid JSON: "), "{refusal}");
    let refusal = anthropic::check(&json!({}), 2).unwrap_err();
    let said = json!({"type": "error", "request_id": "req_fake",
        "error": {"type": "invalid_request_error", "message": "model: Field required"}});
    assert_eq!(refusal.body(IT), said);
}
