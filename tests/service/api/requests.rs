//! Bodies of requests to providers, over the wire: what a task holds, as it would be sent.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use serde_json::{Value, json};

use test_support::server::TestServer;
use test_support::wire::{Api, Work, all, api, reason, refused, say, start};

async fn bytes(api: &mut Api, asked: pb::RenderContextRequest) -> Vec<u8> {
    let pieces = all(api.render_context(asked).await).await.unwrap();
    assert!(pieces.iter().all(|piece| (1..=256 << 10).contains(&piece.data.len())));
    pieces.iter().flat_map(|piece| piece.data.to_vec()).collect()
}

async fn body(api: &mut Api, asked: pb::RenderContextRequest) -> Value {
    serde_json::from_slice(&bytes(api, asked).await).unwrap()
}

/// Appends a message as an SDK made it.
async fn append(api: &mut Api, work: &Work, message: Value) {
    api.append_message(work.json(message.to_string())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_has_all_that_a_provider_wants() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    append(&mut api, &work, json!({"role": "system", "content": "Be brief."})).await;
    say(&mut api, &work, "Read a.").await;
    let call = json!({"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let thought = json!([{"type": "thinking", "thinking": "t", "signature": "s"}]);
    let said =
        json!({"role": "assistant", "content": null, "tool_calls": [call], "thinking_blocks": thought});
    append(&mut api, &work, said).await;

    let tools = json!([{"type": "function", "function": {"name": "read"}}]).to_string();
    let asked = |provider| pb::RenderContextRequest {
        params_json: r#"{"max_tokens":5}"#.to_owned(),
        tools_json: tools.clone(),
        ..work.request(provider)
    };
    let result = "[no result: the call was interrupted]";
    let found = body(&mut api, asked("openai")).await;
    assert_eq!(found["messages"][3], json!({"role": "tool", "tool_call_id": "c", "content": result}));
    let found = body(&mut api, asked("anthropic")).await;
    assert_eq!(
        found,
        json!({
            "model": "m",
            "max_tokens": 5,
            "tools": [{"name": "read", "input_schema": {"type": "object", "properties": {}}}],
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Read a."}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "tool_use", "id": "c", "name": "read", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": result}]},
                ]},
            ],
        })
    );
    assert_eq!(body(&mut api, asked("openai_responses")).await["instructions"], "Be brief.");
    assert_eq!(body(&mut api, asked("ollama")).await["messages"][3]["tool_name"], "read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_extends_the_last_one_until_the_view_is_rewritten() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let mut last = Vec::new();
    for number in 0..5 {
        say(&mut api, &work, &format!("{number} {}", "long ".repeat(100_000))).await;
        let whole = bytes(&mut api, work.request("openai")).await;
        let stem = last.len() - last.len().min(2);
        assert!(whole.starts_with(&last[..stem]), "message {number}");
        last = whole;
    }
    api.rewind_task(work.rewind(1)).await.unwrap();
    assert_eq!(body(&mut api, work.request("openai")).await["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_given_comes_from_the_task() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let config = pb::TaskConfig {
        model: "the task's".to_owned(),
        compression: Some(pb::CompressionConfig { max_request_bytes: Some(200), ..Default::default() }),
        ..Default::default()
    };
    let request = pb::StartTaskRequest { config: Some(config), ..Default::default() };
    let work = test_support::wire::start_as(&mut api, request).await;
    let unnamed = pb::RenderContextRequest { model: String::new(), ..work.request("openai") };
    assert_eq!(body(&mut api, unnamed.clone()).await["model"], "the task's");
    say(&mut api, &work, &"x".repeat(200)).await;
    assert_eq!(reason(api.render_context(unnamed.clone()).await), ErrorReason::RequestTooLarge);
    let more = pb::RenderContextRequest { max_bytes: 1000, ..unnamed };
    assert_eq!(body(&mut api, more).await["model"], "the task's");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_rendered_is_named() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let base = || work.request("openai");
    for (asked, field) in [
        (pb::RenderContextRequest { provider: 0, ..base() }, "provider"),
        (pb::RenderContextRequest { provider: 99, ..base() }, "provider"),
        (pb::RenderContextRequest { model: String::new(), ..base() }, "model"),
        (pb::RenderContextRequest { params_json: "[]".to_owned(), ..base() }, "params_json"),
        (pb::RenderContextRequest { params_json: r#"{"messages":[]}"#.to_owned(), ..base() }, "params_json"),
        (pb::RenderContextRequest { tools_json: "{}".to_owned(), ..base() }, "tools_json"),
        (pb::RenderContextRequest { task_uuid: "17".to_owned(), ..base() }, "task_uuid"),
    ] {
        assert_eq!(refused(api.render_context(asked).await).fields, [field]);
    }
    let gone = Work::nobody("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10");
    assert_eq!(reason(api.render_context(gone.request("openai")).await), ErrorReason::TaskNotFound);
}

/// Half a character in a tool's output must not stop an agent.
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_surrogate_is_taken_as_a_replacement_character() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let message = r#"{"role":"user","content":"a\ud800b","x":"\udc00"}"#.to_owned();
    api.append_message(work.json(message)).await.unwrap();
    assert_eq!(body(&mut api, work.request("openai")).await["messages"][0]["content"], "a\u{fffd}b");
    for refused_one in
        ["[]", r#"{"role":"user","content":"a","content":"b"}"#, r#"{"role":"robot","content":""}"#]
    {
        let found = refused(api.append_message(work.json(refused_one.to_owned())).await);
        assert_eq!(found.reason, ErrorReason::InvalidField, "{refused_one}");
    }
}
