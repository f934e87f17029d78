//! What becomes of what, provider by provider: bodies written out by hand.

use contextstore_base::model::StoreError;
use contextstore_policy::render::{Provider, RenderOptions, measure};
use serde_json::{Value, json};

use super::view::{View, options};

const TOOLS: &str = r#"[{"type":"function","function":{"name":"read","description":"Reads.","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}},{"type":"custom","custom":{"name":"patch","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}}}]"#;
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn history() -> Vec<String> {
    [
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "developer", "content": [{"type": "text", "text": "Very."}]}),
        json!({"role": "user", "name": "Ann B", "content": [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}},
        ]}),
        json!({
            "role": "assistant", "content": null, "reasoning_content": "hm", "thinking": "hm",
            "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "s"}],
            "reasoning_items": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}],
            "tool_calls": [
                {"id": "a.b", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"x\"}"}},
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"half"}},
                {"id": "d", "type": "custom", "custom": {"name": "patch", "input": "+x"}},
            ],
        }),
        json!({"role": "tool", "tool_call_id": "a.b", "content": "file"}),
        json!({"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}}]}),
    ]
    .iter()
    .map(Value::to_string)
    .collect()
}

fn rendered(provider: Provider, params: &str, tools: &str) -> Value {
    serde_json::from_slice(&View::of(&history()).render(options(provider, params, tools))).unwrap()
}

const MISSING: &str = "[no result: the call was interrupted]";

#[test]
fn openai() {
    let body = rendered(Provider::OpenAi, r#"{"temperature":0.5}"#, TOOLS);
    let raw = r#"{"_raw":"{\"path\": \"half"}"#;
    assert_eq!(
        body,
        json!({"model": "claude-opus-5", "temperature": 0.5, "tools": serde_json::from_str::<Value>(TOOLS).unwrap(), "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Very."},
            {"role": "user", "name": "Ann_B", "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a.b", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"x\"}"}},
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": raw}},
                {"id": "d", "type": "custom", "custom": {"name": "patch", "input": "+x"}},
            ]},
            {"role": "tool", "tool_call_id": "a.b", "content": "file"},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": format!("[image omitted: image/png, {} bytes]", PNG.len() / 4 * 3)}]},
            {"role": "tool", "tool_call_id": "d", "content": MISSING},
        ]})
    );
}

#[test]
fn responses() {
    let body = rendered(Provider::OpenAiResponses, "", TOOLS);
    let image =
        json!({"type": "input_image", "detail": "auto", "image_url": format!("data:image/png;base64,{PNG}")});
    assert_eq!(
        body,
        json!({"model": "claude-opus-5", "instructions": "Be brief.\n\nVery.",
        "tools": [
            {"type": "function", "name": "read", "description": "Reads.", "strict": false,
             "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
            {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
        ],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Look:"}, image]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
            {"type": "function_call", "call_id": "call_4_0", "name": "read", "arguments": "{\"path\": \"x\"}"},
            {"type": "function_call", "call_id": "c", "name": "read", "arguments": r#"{"_raw":"{\"path\": \"half"}"#},
            {"type": "custom_tool_call", "call_id": "d", "name": "patch", "input": "+x"},
            {"type": "function_call_output", "call_id": "call_4_0", "output": "file"},
            {"type": "function_call_output", "call_id": "c", "output": [image]},
            {"type": "custom_tool_call_output", "call_id": "d", "output": MISSING},
        ]})
    );
}

#[test]
fn anthropic() {
    let body = rendered(Provider::Anthropic, r#"{"max_tokens":9}"#, TOOLS);
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
    assert_eq!(
        body,
        json!({"model": "claude-opus-5", "max_tokens": 9,
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Very."}],
        "tools": [
            {"name": "read", "description": "Reads.", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}},
            {"name": "patch", "input_schema": {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "tool_use", "id": "call_4_0", "name": "read", "input": {"path": "x"}},
                {"type": "tool_use", "id": "c", "name": "read", "input": {"_raw": "{\"path\": \"half"}},
                {"type": "tool_use", "id": "d", "name": "patch", "input": {"input": "+x"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_4_0", "content": [{"type": "text", "text": "file"}]},
                {"type": "tool_result", "tool_use_id": "c", "content": [image]},
                {"type": "tool_result", "tool_use_id": "d", "content": [{"type": "text", "text": MISSING}]},
            ]},
        ]})
    );
}

/// What a model may think comes on top of what it may say, where nobody says how much that is.
#[test]
fn anthropic_is_told_how_much_it_may_say() {
    let told = |params: &str| rendered(Provider::Anthropic, params, "")["max_tokens"].clone();
    assert_eq!(told(""), 4096);
    assert_eq!(told(r#"{"thinking":{"type":"enabled","budget_tokens":2000}}"#), 6096);
    assert_eq!(told(r#"{"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":2000}}"#), 9000);
    assert_eq!(told(r#"{"thinking":{"type":"adaptive"}}"#), 4096);
    assert_eq!(told(r#"{"thinking":null}"#), 4096);
}

/// Tool blocks need tools; without them they are text, and the model may go on from it.
#[test]
fn anthropic_without_tools() {
    let body = rendered(Provider::Anthropic, "", "");
    assert_eq!(body["max_tokens"], 4096);
    let texts = |at: usize| -> Vec<String> {
        let blocks = body["messages"][at]["content"].as_array().unwrap();
        blocks.iter().map(|block| block["text"].as_str().unwrap_or("-").to_owned()).collect()
    };
    assert_eq!(
        texts(1),
        [
            "-",
            r#"[Tool call: read] {"path": "x"}"#,
            r#"[Tool call: read] {"path": "half"#,
            "[Tool call: patch] +x"
        ]
    );
    assert_eq!(texts(2), ["[Tool: read] file", "[Tool: read]", "-", &format!("[Tool: patch] {MISSING}")]);
}

#[test]
fn ollama() {
    let body = rendered(Provider::Ollama, r#"{"options":{"num_ctx":8192}}"#, "");
    assert_eq!(
        body,
        json!({"model": "claude-opus-5", "options": {"num_ctx": 8192}, "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Very."},
            {"role": "user", "content": "Look:", "images": [PNG]},
            {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
                {"function": {"name": "read", "arguments": {"path": "x"}}},
                {"function": {"name": "read", "arguments": {"_raw": "{\"path\": \"half"}}},
                {"function": {"name": "patch", "arguments": {"input": "+x"}}},
            ]},
            {"role": "tool", "content": "file", "tool_name": "read"},
            {"role": "tool", "content": "", "tool_name": "read", "images": [PNG]},
            {"role": "tool", "content": MISSING, "tool_name": "patch"},
        ]})
    );
}

/// Thoughts stand where they stood; where that is not known, in front.
#[test]
fn thoughts_go_back_to_their_places() {
    let call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let thought = |text: &str| json!({"type": "thinking", "thinking": text, "signature": "s"});
    let item = |id: &str| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "e"});
    let said = |order: Value| {
        let messages = [
            json!({"role": "user", "content": "Go"}),
            json!({
                "role": "assistant", "content": "aé→b", "tool_calls": [call("1"), call("2")],
                "thinking_blocks": [thought("x"), thought(""), thought("z")],
                "reasoning_items": [item("rs_1"), item("rs_2"), item("rs_3")],
                "reasoning_order": order,
            }),
        ];
        View::of(&messages.map(|message| message.to_string()))
    };
    let blocks = |view: &View| -> Vec<String> {
        let body: Value =
            serde_json::from_slice(&view.render(options(Provider::Anthropic, "", TOOLS))).unwrap();
        let word = |block: &Value| match block["type"].as_str().unwrap() {
            "thinking" => format!("({})", block["thinking"].as_str().unwrap()),
            "text" => block["text"].as_str().unwrap().to_owned(),
            _ => format!("call {}", block["id"].as_str().unwrap()),
        };
        body["messages"][1]["content"].as_array().unwrap().iter().map(word).collect()
    };
    let items = |view: &View| -> Vec<String> {
        let body: Value =
            serde_json::from_slice(&view.render(options(Provider::OpenAiResponses, "", TOOLS))).unwrap();
        let word = |item: &Value| match item["type"].as_str().unwrap_or("message") {
            "reasoning" => item["id"].as_str().unwrap().to_owned(),
            "message" => item["content"].as_str().unwrap().to_owned(),
            "function_call" => format!("call {}", item["call_id"].as_str().unwrap()),
            _ => "output".to_owned(),
        };
        body["input"].as_array().unwrap()[1..].iter().map(word).collect()
    };
    let known = said(json!(["thought", 3, "call", "thought", 1, "thought", "call"]));
    assert_eq!(blocks(&known), ["(x)", "aé→", "call 1", "()", "b", "(z)", "call 2"]);
    let outputs = ["output", "output"];
    let expected = ["rs_1", "aé→", "call 1", "rs_2", "b", "rs_3", "call 2"];
    assert_eq!(items(&known), [&expected[..], &outputs].concat());
    for other in [
        json!(null),
        json!([]),
        json!(["thought", 3, "call", "thought", 1, "thought"]),
        json!(["thought", 2, "call", "thought", 1, "thought", "call"]),
        json!(["thought", 9, "call", "thought", 1, "thought", "call"]),
        json!(["thought", 4, "call", "thought", "thought", "thought", "call"]),
        json!(["thought", 4, "call", "thought", -0.5, "thought", "call"]),
    ] {
        let unknown = said(other.clone());
        assert_eq!(blocks(&unknown), ["(x)", "()", "(z)", "aé→b", "call 1", "call 2"], "{other}");
        let expected = ["rs_1", "rs_2", "rs_3", "aé→b", "call 1", "call 2"];
        assert_eq!(items(&unknown), [&expected[..], &outputs].concat(), "{other}");
    }
    // Others get one text and all calls.
    let body: Value = serde_json::from_slice(&known.render(options(Provider::OpenAi, "", TOOLS))).unwrap();
    assert_eq!(body["messages"][1]["content"], "aé→b");
    // A thought that nothing follows is not sent.
    let last = said(json!(["thought", 3, "call", "call", "thought", 1, "thought"]));
    assert_eq!(blocks(&last), ["(x)", "aé→", "call 1", "call 2", "()", "b"]);
}

/// OpenAI takes 128 calls in a message: more become several messages, each with its results, in whatever order they came.
#[test]
fn many_calls_become_several_messages() {
    let call = |at: usize| json!({"id": format!("c{at}"), "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let result = |at: usize, text: &str| {
        json!({"role": "tool", "tool_call_id": format!("c{at}"), "content": text}).to_string()
    };
    let asks = json!({"role": "assistant", "content": "All of them.", "tool_calls": (0..300).map(call).collect::<Vec<_>>()}).to_string();
    let shape = |provider: Provider, view: &View| -> Vec<String> {
        let body: Value = serde_json::from_slice(&view.render(options(provider, "", TOOLS))).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let mut found: Vec<String> = Vec::new();
        for message in messages {
            let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
            let content = message["content"].as_str().unwrap_or("-");
            let word = match message["role"].as_str().unwrap() {
                "assistant" => format!("{content} {calls}"),
                "tool" if content == MISSING => "missing".to_owned(),
                "tool" => "result".to_owned(),
                other => other.to_owned(),
            };
            match found.last_mut().filter(|last| last.starts_with(&format!("{word} x"))) {
                Some(last) => {
                    let times: usize = last.rsplit('x').next().unwrap().parse().unwrap();
                    *last = format!("{word} x{}", times + 1);
                }
                None => found.push(format!("{word} x1")),
            }
        }
        found
    };
    let mut forward: Vec<String> = vec![asks.clone()];
    forward.extend((0..300).map(|at| result(at, "ok")));
    let mut backward: Vec<String> = vec![asks.clone()];
    backward.extend((0..300).rev().map(|at| result(at, "ok")));
    let expected = ["All of them. 128 x1", "result x128", "- 128 x1", "result x128", "- 44 x1", "result x44"];
    for messages in [&forward, &backward] {
        assert_eq!(shape(Provider::OpenAi, &View::of(messages)), expected);
    }
    assert_eq!(shape(Provider::LmStudio, &View::of(&forward)), ["All of them. 300 x1", "result x300"]);
    // One that is missing in the middle, and one that is open at the end.
    let some: Vec<String> = forward
        .iter()
        .enumerate()
        .filter(|(at, _)| ![6, 300].contains(at))
        .map(|(_, message)| message.clone())
        .collect();
    assert_eq!(
        shape(Provider::OpenAi, &View::of(&some)),
        [
            "All of them. 128 x1",
            "result x127",
            "missing x1",
            "- 128 x1",
            "result x128",
            "- 44 x1",
            "result x43",
            "missing x1"
        ]
    );
    // What is kept for later has a limit: then nobody waits for the first ones any more.
    let large = "x".repeat(3 << 20);
    let mut late = vec![asks];
    late.extend([result(1, "ok"), result(200, &large), result(201, &large), result(0, "late")]);
    assert_eq!(
        shape(Provider::OpenAi, &View::of(&late)),
        [
            "All of them. 128 x1",
            "result x1",
            "missing x127",
            "- 128 x1",
            "result x2",
            "missing x126",
            "- 44 x1",
            "missing x44",
            "user x1"
        ]
    );
}

/// Others that speak like OpenAI: one text, no role of their own for developers, and functions only.
#[test]
fn lmstudio() {
    let body = rendered(Provider::LmStudio, r#"{"temperature":0.5}"#, TOOLS);
    let raw = r#"{"_raw":"{\"path\": \"half"}"#;
    let note = format!("[image omitted: image/png, {} bytes]", PNG.len() / 4 * 3);
    assert_eq!(
        body,
        json!({"model": "claude-opus-5", "temperature": 0.5, "tools": [
            {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}},
            {"type": "function", "function": {"name": "patch", "parameters": {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}}},
        ], "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Very."},
            {"role": "user", "name": "Ann_B", "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}},
            ]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "a.b", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"x\"}"}},
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": raw}},
                {"id": "d", "type": "function", "function": {"name": "patch", "arguments": "{\"input\":\"+x\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "a.b", "content": "file"},
            {"role": "tool", "tool_call_id": "c", "content": note},
            {"role": "tool", "tool_call_id": "d", "content": MISSING},
        ]})
    );
    let odd = [json!({"role": "user", "content": [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRiQAAABXQVZF", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]})
    .to_string()];
    let body: Value =
        serde_json::from_slice(&View::of(&odd).render(options(Provider::LmStudio, "", ""))).unwrap();
    assert_eq!(
        body["messages"][0]["content"],
        "a\n[image: https://example.org/a.png]\n[audio omitted: wav, 12 bytes]\n[file omitted: file-1]"
    );
}

#[test]
fn a_view_without_anything_still_asks_for_something() {
    for provider in Provider::ALL {
        let body = View::default().render(options(provider, "", ""));
        assert!(String::from_utf8(body).unwrap().contains("Continue."), "{}", provider.as_str());
    }
}

/// Two answers at the end, as interrupted turns leave them: the user is made to ask for more, and goes when somebody does.
#[test]
fn a_model_that_spoke_last_is_asked_to_go_on() {
    let user = |text: &str| json!({"role": "user", "content": text}).to_string();
    let said = |text: &str| json!({"role": "assistant", "content": text, "interrupted": true}).to_string();
    let mut view = View::of(&[user("Go"), said("I b"), said("I begin a")]);
    let more = View::of(&[user("Go"), said("I b"), said("I begin a"), user("And?")]);
    for provider in [Provider::OpenAi, Provider::LmStudio, Provider::Ollama, Provider::Anthropic] {
        let body: Value = serde_json::from_slice(&view.render(options(provider, "", ""))).unwrap();
        let last = body["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["role"], "user", "{}", provider.as_str());
        assert!(last["content"].to_string().contains("Continue."), "{last}");
        let body = String::from_utf8(more.render(options(provider, "", ""))).unwrap();
        assert!(!body.contains("Continue."), "{body}");
    }
    view.append(&user("And?"));
    assert_eq!(
        view.render(options(Provider::OpenAi, "", "")),
        more.render(options(Provider::OpenAi, "", ""))
    );
}

#[test]
fn what_a_request_may_not_have_is_named() {
    let long = format!("[{}]", [r#"{"type":"function","function":{"name":"f"}}"#; 129].join(","));
    for (model, params, tools, field) in [
        ("", "", "", "model"),
        ("a\nb", "", "", "model"),
        ("m", "[]", "", "params_json"),
        ("m", "{", "", "params_json"),
        ("m", r#"{"a":1,"a":2}"#, "", "params_json"),
        ("m", r#"{"messages":[]}"#, "", "params_json"),
        ("m", r#"{"too\u006cs":[]}"#, "", "params_json"),
        ("m", r#"{"system":""}"#, "", "params_json"),
        ("m", "", "{}", "tools_json"),
        ("m", "", "[1]", "tools_json"),
        ("m", "", r#"[{"type":"web_search"}]"#, "tools_json"),
        ("m", "", r#"[{"type":"function"}]"#, "tools_json"),
        ("m", "", r#"[{"type":"function","function":{"name":"a b"}}]"#, "tools_json"),
        ("m", "", r#"[{"type":"function","function":{"name":"f","x":1}}]"#, "tools_json"),
        ("m", "", r#"[{"type":"function","function":{"name":"f","parameters":[]}}]"#, "tools_json"),
        (
            "m",
            "",
            r#"[{"type":"function","function":{"name":"f","parameters":{"type":"array"}}}]"#,
            "tools_json",
        ),
        (
            "m",
            "",
            r#"[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"f"}}]"#,
            "tools_json",
        ),
        ("m", "", &long, "tools_json"),
    ] {
        let found = RenderOptions::new(Provider::OpenAi, model, params, tools, 0).unwrap_err();
        assert_eq!(found.field, field, "{params} {tools}");
    }
}

#[test]
fn a_body_over_the_limit_is_refused_with_the_limit() {
    let view = View::of(&history());
    for provider in Provider::ALL {
        let limited = |max| RenderOptions::new(provider, "m", "", "", max).unwrap();
        let size = view.render(limited(0)).len() as u64;
        assert_eq!(measure(limited(size), view.source()).unwrap(), size);
        let refused = measure(limited(size - 1), view.source());
        assert!(matches!(refused, Err(StoreError::RequestTooLarge { limit, .. }) if limit == size - 1));
    }
}
