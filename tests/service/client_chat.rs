//! Chat and StreamRequest through the Rust client, with a real server and the strict fake of the providers.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use contextstore_client::{
    Chat, ChatEvent, Error, ErrorReason, Items, NewMessage, RenderRequest, StartTask, Task, v1,
};
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;

use test_support::fake_llm::FakeLlm;
use test_support::server::{DEADLINE, TestServer, eventually};

const PROVIDERS: [&str; 5] = ["openai", "openai_responses", "anthropic", "ollama", "lmstudio"];
const LONG: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen";

/// A server whose providers are all the fake, and a task. The key is in a folder of its own.
async fn scene() -> (FakeLlm, TestServer, Task, TempDir) {
    let fake = FakeLlm::start();
    let own = tempfile::tempdir().unwrap();
    let key = own.path().join("key");
    fs::write(&key, "sk-test").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let mut keys = vec![("llm.retries".to_owned(), "0".to_owned())];
    for provider in PROVIDERS {
        let version = match provider {
            "anthropic" | "ollama" => "",
            "lmstudio" => "/lmstudio/v1",
            _ => "/v1",
        };
        let of = |name: &str| format!("llm.providers.{provider}.{name}");
        keys.push((of("base_url"), format!("{}{version}", fake.url())));
        keys.push((of("api_key_file"), key.display().to_string()));
        keys.push((of("model"), "fake".to_owned()));
    }
    let keys: Vec<_> = keys.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let server = TestServer::start_configured(&keys).await;
    let task = server.client().await.start_task(StartTask::default()).await.unwrap();
    (fake, server, task, own)
}

fn ask(provider: &str, messages: impl IntoIterator<Item = NewMessage>) -> Chat {
    Chat {
        messages: messages.into_iter().collect(),
        provider: v1::Provider::from_name(provider).unwrap_or_default(),
        tools_json: json!([{"type": "function", "function": {
            "name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        }}])
        .to_string(),
        ..Chat::default()
    }
}

#[derive(Debug, Default)]
struct Heard {
    started: Option<v1::ChatStarted>,
    text: String,
    usage: Option<v1::ChatUsage>,
    done: Option<v1::ChatDone>,
    error: Option<Error>,
}

async fn listen(mut answer: Items<ChatEvent>) -> Heard {
    let mut heard = Heard::default();
    loop {
        match answer.try_next().await {
            Ok(Some(ChatEvent::Started(started))) => heard.started = Some(started),
            Ok(Some(ChatEvent::Text(text))) => heard.text.push_str(&text),
            Ok(Some(ChatEvent::Usage(usage))) => heard.usage = Some(usage),
            Ok(Some(ChatEvent::Done(done))) => heard.done = Some(done),
            Ok(Some(_)) => {}
            Ok(None) => return heard,
            Err(error) => {
                heard.error = Some(error);
                assert!(answer.try_next().await.unwrap().is_none());
                return heard;
            }
        }
    }
}

// feature: chat
#[tokio::test(flavor = "multi_thread")]
async fn turns_of_every_provider_with_tools() {
    let (fake, _server, task, _key) = scene().await;
    for provider in PROVIDERS {
        fake.reset();
        fake.script(&json!({"tool_calls": [{"name": "read", "arguments": "{\"path\":\"a\"}"}]}));
        let heard = listen(task.chat(ask(provider, [NewMessage::user("Read a").pinned()]))).await;
        let started = heard.started.unwrap();
        assert_eq!((started.provider().name(), started.model.as_str()), (provider, "fake"));
        assert!(task.message(started.seqs[0]).await.unwrap().pinned);
        assert!(heard.usage.unwrap().input_tokens > 0);
        let done = heard.done.unwrap();
        assert_eq!(done.finish_reason, "tool_calls");
        let message: Value = serde_json::from_str(&done.message_json).unwrap();
        let id = message["tool_calls"][0]["id"].as_str().unwrap();
        let heard = listen(task.chat(ask(provider, [NewMessage::tool(id, "the text of a")]))).await;
        assert_eq!(heard.done.unwrap().seq, done.seq + 2);
        let verdicts: Vec<Value> = fake.requests().iter().map(|got| got["verdict"].clone()).collect();
        assert_eq!(verdicts, ["ok", "ok"], "{provider}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_turn_again_is_told_and_not_asked() {
    let (fake, mut server, task, _key) = scene().await;
    let turn = task.with_request_id("turn");
    server.kill();
    // Nothing has come yet, so it waits for the server, and asks once.
    let first = tokio::spawn(listen(turn.chat(ask("openai", [NewMessage::user("Hello")]))));
    server.restart().await;
    let first = first.await.unwrap();
    assert_eq!(first.text, "Echo: Hello", "{first:?}");
    let again = listen(turn.chat(ask("openai", [NewMessage::user("Hello")]))).await;
    assert_eq!(again.text, "");
    let done = again.done.unwrap();
    assert_eq!((done.seq, done.duplicate), (2, true));
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_is_cancelled_and_what_breaks_is_told_once() {
    let (fake, _server, task, _key) = scene().await;
    fake.script(&json!({"text": LONG, "fault": "hang_mid_stream"}));
    let mut answer = task.chat(ask("openai", [NewMessage::user("Count")]));
    while !matches!(answer.try_next().await.unwrap().unwrap(), ChatEvent::Text(_)) {}
    drop(answer);
    eventually(DEADLINE, async || (fake.requests()[0]["answer"] == "gone").then_some(())).await;

    fake.reset();
    fake.script(&json!({"text": LONG, "fault": "break_mid_stream"}));
    let heard = listen(task.chat(ask("openai", [NewMessage::user("Count")]))).await;
    assert_eq!(heard.error.unwrap().reason(), Some(ErrorReason::ProviderFailed));
    assert!(!heard.text.is_empty() && LONG.starts_with(&heard.text));
    assert_eq!(fake.requests().len(), 1);
    let heard = listen(task.chat(Chat { params_json: "[]".to_owned(), ..Chat::default() })).await;
    assert_eq!(heard.error.unwrap().fields()[0].field, "params_json");
}

// feature: request-body
#[tokio::test(flavor = "multi_thread")]
async fn the_body_of_a_request() {
    let (_fake, _server, task, _key) = scene().await;
    task.append(NewMessage::system("Be brief.")).await.unwrap();
    task.append(NewMessage::user("x".repeat(300_000))).await.unwrap();
    let render = RenderRequest {
        provider: v1::Provider::Anthropic,
        model: "m".to_owned(),
        params_json: r#"{"max_tokens":10}"#.to_owned(),
        ..RenderRequest::default()
    };
    let chunks: Vec<Bytes> = task.request(render.clone()).try_collect().await.unwrap();
    assert!(chunks.len() > 1);
    let body: Value = serde_json::from_slice(&chunks.concat()).unwrap();
    assert_eq!((&body["model"], &body["max_tokens"]), (&json!("m"), &json!(10)));
    assert_eq!(body["messages"][0]["role"], "user");
    let refused = task.request(RenderRequest { max_bytes: 1000, ..render }).try_next().await.unwrap_err();
    assert_eq!(refused.reason(), Some(ErrorReason::RequestTooLarge));
}

// feature: usage
#[tokio::test(flavor = "multi_thread")]
async fn how_full_the_context_is() {
    let (_fake, _server, task, _key) = scene().await;
    let appended = task.append(NewMessage::user("Hello")).await.unwrap();
    let usage = task.context_usage("").await.unwrap();
    assert_eq!((usage.messages, usage.tools_tokens, usage.pressure), (1, 0, appended.pressure));
    let with_tools = task.context_usage(ask("", []).tools_json).await.unwrap();
    assert!(with_tools.tools_tokens > 0);
}
