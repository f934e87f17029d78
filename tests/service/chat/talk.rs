//! Turns that go well, with every provider.

use contextstore_proto::v1::{self as pb, ErrorReason};
use serde_json::{Value, json};

use super::{PROVIDERS, Scene, TOOLS};
use test_support::server::{DEADLINE, eventually};
use test_support::wire::{Work, outlived, reason, say, start_as, task};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_streamed_appended_and_counted() {
    let mut scene = Scene::new(&[]).await;
    for (turn, provider) in PROVIDERS.into_iter().enumerate() {
        scene.fake.reset();
        scene
            .fake
            .script(&json!({"text": "It is raining in 東京 today, bring an umbrella.", "cached_tokens": 3}));
        let before = task(&mut scene.api, &scene.work).await;
        let system = json!({"role": "system", "content": "Be brief."});
        let user = json!({"role": "user", "content": format!("Weather? {provider}")});
        let messages = if turn == 0 { vec![system, user] } else { vec![user] };
        let heard = scene.chat(scene.ask_with(provider, &messages)).await;
        let done = heard.whole().clone();
        let started = heard.started.as_ref().unwrap();
        assert_eq!((started.provider().name(), started.model.as_str()), (provider, "fake"));
        assert_eq!(*started.seqs.last().unwrap() + 1, done.seq);
        assert_eq!(heard.text, "It is raining in 東京 today, bring an umbrella.");
        assert!(heard.pieces > 1, "it did not come in pieces");
        assert_eq!((done.finish_reason.as_str(), done.duplicate), ("stop", false));
        let message: Value = serde_json::from_str(&done.message_json).unwrap();
        assert_eq!(message, json!({"role": "assistant", "content": heard.text}));
        let usage = heard.usage.unwrap();
        assert!(usage.input_tokens > 0 && usage.output_tokens > 0, "{usage:?}");
        let cached = if provider == "ollama" { 0 } else { 3 };
        assert_eq!(usage.cache_read_tokens, cached, "{provider}");

        let log = scene.log().await;
        let last = log.last().unwrap();
        assert_eq!((&last["seq"], &last["content"]), (&json!(done.seq), &json!(heard.text)));
        let after = task(&mut scene.api, &scene.work).await;
        let (before, after) = (before.statistics.unwrap(), after.statistics.unwrap());
        assert_eq!(after.llm_call_count, before.llm_call_count + 1);
        let charged = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens;
        assert_eq!(after.total_tokens, before.total_tokens + charged);

        let requests = scene.fake.requests();
        assert_eq!(scene.verdicts(), ["ok"], "{provider}: {requests:?}");
        let length = requests[0]["headers"]["content-length"].as_str().unwrap();
        assert_eq!(length, requests[0]["bytes"].to_string(), "{provider}");
        assert_eq!(scene.request_files(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_calls_go_out_and_their_results_come_back() {
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[]).await;
        let call = |path: &str| json!({"name": "read", "arguments": json!({"path": path}).to_string()});
        scene.fake.script(&json!({"tool_calls": [call("a"), call("b")]}));
        let ask = pb::ChatRequest { tools_json: TOOLS.to_owned(), ..scene.ask(provider, "Compare a and b") };
        let heard = scene.chat(ask).await;
        let done = heard.whole().clone();
        assert_eq!(done.finish_reason, "tool_calls", "{provider}");
        let arguments: Vec<Value> =
            heard.calls.iter().map(|(_, _, arguments)| serde_json::from_str(arguments).unwrap()).collect();
        assert_eq!(arguments, [json!({"path": "a"}), json!({"path": "b"})], "{provider}");
        assert!(heard.calls.iter().all(|(id, name, _)| !id.is_empty() && name == "read"));
        let message: Value = serde_json::from_str(&done.message_json).unwrap();
        let ids: Vec<&str> = message["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| call["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, heard.calls.iter().map(|(id, _, _)| id.as_str()).collect::<Vec<_>>());

        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "the same"});
        let results: Vec<Value> = ids.iter().map(|id| result(id)).collect();
        let ask = pb::ChatRequest { tools_json: TOOLS.to_owned(), ..scene.ask_with(provider, &results) };
        let heard = scene.chat(ask).await;
        assert_eq!(heard.whole().finish_reason, "stop", "{provider}: {:?}", scene.verdicts());
        assert_eq!(scene.verdicts(), ["ok", "ok"], "{provider}");
    }
}

/// What only the provider understands goes back to it as it was, and to nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn thoughts_go_back_to_the_provider_they_came_from() {
    for (provider, mark) in [("anthropic", "\"signature\""), ("openai_responses", "\"encrypted_content\"")] {
        let mut scene = Scene::new(&[]).await;
        scene.fake.script(&json!({
            "thinking": "Where is \"it\"? Perhaps… in 東京.",
            "tool_calls": [{"name": "read", "arguments": "{\"path\":\"a\"}"}],
        }));
        let params = if provider == "anthropic" {
            r#"{"max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2000}}"#
        } else {
            r#"{"reasoning":{"effort":"low"}}"#
        };
        let with = |request: pb::ChatRequest| pb::ChatRequest {
            tools_json: TOOLS.to_owned(),
            params_json: params.to_owned(),
            ..request
        };
        let heard = scene.chat(with(scene.ask(provider, "Think"))).await;
        let id = heard.calls[0].0.clone();
        assert!(!heard.reasoning.is_empty(), "{heard:?}");
        let result = json!({"role": "tool", "tool_call_id": id, "content": "nothing"});
        let heard = scene.chat(with(scene.ask_with(provider, &[result]))).await;
        heard.whole();
        assert_eq!(scene.verdicts(), ["ok", "ok"], "{provider}");
        let requests = scene.fake.requests();
        let sent = scene.fake.body(requests[1]["number"].as_u64().unwrap());
        assert!(sent.contains(mark), "{sent}");

        let heard = scene.chat(scene.ask("openai", "And you?")).await;
        heard.whole();
        let requests = scene.fake.requests();
        let sent = scene.fake.body(requests[2]["number"].as_u64().unwrap());
        assert!(!sent.contains(mark), "{sent}");
    }
}

/// Chat says how much of what was charged the tools were.
#[tokio::test(flavor = "multi_thread")]
async fn the_tools_of_a_turn_are_counted() {
    let mut scene = Scene::new(&[]).await;
    scene.chat(with_tools(scene.ask("openai", "Hello"))).await.whole();
    scene.chat(scene.ask("openai", "Hello")).await.whole();
    let request =
        pb::GetContextUsageRequest { task_uuid: scene.work.uuid.clone(), tools_json: TOOLS.to_owned() };
    let counted = scene.api.get_context_usage(request).await.unwrap().into_inner().tools_tokens;
    let log = std::fs::read_to_string(scene.server.running(&scene.work.uuid).join("messages.jsonl")).unwrap();
    let usages: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["event"] == "usage")
        .map(|line| line["tools_tokens"].clone())
        .collect();
    assert_eq!(usages, [json!(counted), Value::Null]);
    assert!(counted > 0);
}

/// A model that thinks between its calls finds its thoughts where they were: the fake seals their places.
#[tokio::test(flavor = "multi_thread")]
async fn thoughts_between_calls_go_back_between_them() {
    for (provider, params) in [
        ("anthropic", r#"{"max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2000}}"#),
        ("openai_responses", r#"{"reasoning":{"effort":"low"}}"#),
    ] {
        let mut scene = Scene::new(&[]).await;
        let call = |path: &str| {
            let arguments = json!({"path": path}).to_string();
            json!({"tool_call": {"name": "read", "arguments": arguments}})
        };
        scene.fake.script(&json!({"parts": [
            {"thinking": "First a."}, {"text": "I look at 「a」. "}, call("a"), {"thinking": ""},
            {"text": "Now b."}, call("b"), {"thinking": "And c."}, call("c"),
        ]}));
        let with = |request: pb::ChatRequest| pb::ChatRequest {
            tools_json: TOOLS.to_owned(),
            params_json: params.to_owned(),
            ..request
        };
        let heard = scene.chat(with(scene.ask(provider, "Compare"))).await;
        assert_eq!(heard.text, "I look at 「a」. Now b.", "{provider}");
        let log = scene.log().await;
        assert_eq!(
            log[1]["extra"]["reasoning_order"],
            json!(["thought", 15, "call", "thought", 6, "call", "thought", "call"]),
            "{provider}: {}",
            log[1]
        );
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
        let results: Vec<Value> = heard.calls.iter().map(|(id, _, _)| result(id)).collect();
        assert_eq!(results.len(), 3);
        scene.chat(with(scene.ask_with(provider, &results))).await.whole();
        assert_eq!(scene.verdicts(), ["ok", "ok"], "{provider}");
        // Others get the text and the calls.
        scene.chat(with_tools(scene.ask("openai", "And you?"))).await.whole();
        assert_eq!(scene.verdicts().last().unwrap(), "ok");
    }
}

fn with_tools(request: pb::ChatRequest) -> pb::ChatRequest {
    pb::ChatRequest { tools_json: TOOLS.to_owned(), ..request }
}

/// Who and what is asked: the call says, else the task, else the server.
#[tokio::test(flavor = "multi_thread")]
async fn the_task_and_the_server_say_who_is_asked_if_the_call_does_not() {
    let mut scene = Scene::new(&[("llm.provider", "ollama")]).await;
    let heard = scene.chat(scene.ask("", "Hello")).await;
    let started = heard.started.unwrap();
    assert_eq!((started.provider().name(), started.model.as_str()), ("ollama", "fake"));
    let config = pb::TaskConfig {
        llm_provider: "anthropic".to_owned(),
        model: "of-the-task".to_owned(),
        ..Default::default()
    };
    let request = pb::StartTaskRequest { config: Some(config), ..Default::default() };
    scene.work = start_as(&mut scene.api, request).await;
    let heard = scene.chat(scene.ask("", "Hello")).await;
    let started = heard.started.unwrap();
    assert_eq!((started.provider().name(), started.model.as_str()), ("anthropic", "of-the-task"));
    let ask = pb::ChatRequest { model: "of-the-call".to_owned(), ..scene.ask("openai", "") };
    let heard = scene.chat(ask).await;
    let started = heard.started.unwrap();
    assert_eq!((started.provider().name(), started.model.as_str()), ("openai", "of-the-call"));
}

/// One connection does for one turn after the other.
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_used_again() {
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[]).await;
        for _ in 0..3 {
            let ask = scene.ask(provider, "Hello");
            scene.chat(ask).await.whole();
        }
        let requests = scene.fake.requests();
        let ports: Vec<&Value> = requests.iter().map(|request| &request["peer_port"]).collect();
        assert!(ports.iter().all(|port| *port == ports[0]), "{provider}: {ports:?}");
    }
}

/// A model that takes its time holds up nobody, and costs its caller neither the task nor the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_answer_holds_up_nobody() {
    let mut scene = Scene::new(&[("lease.ttl", "2s")]).await;
    scene.fake.script(&json!({"text": "slowly ".repeat(30), "fault": "wait_mid_stream"}));
    let ask = scene.ask("openai", "Take your time");
    let mut api = scene.api.clone();
    let slow =
        tokio::spawn(async move { super::Heard::listen(api.chat(ask).await.unwrap().into_inner()).await });
    eventually(DEADLINE, async || (!scene.fake.requests().is_empty()).then_some(())).await;
    outlived(&scene.api, &scene.work).await;
    // One that has no lease gets in as soon as nobody holds the task.
    let nobody = Work { lease: 0, ..scene.work.clone() };
    assert_eq!(reason(scene.api.append_message(nobody.say("mine")).await), ErrorReason::LeaseHeld);
    assert!(!slow.is_finished(), "the model did not wait");
    scene.fake.go_on();
    let heard = slow.await.unwrap();
    heard.whole();
    say(&mut scene.api, &scene.work, "still mine").await;
}

/// Appends of others go on meanwhile, and stand where they came.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_appended_meanwhile_stands_before_the_answer() {
    let mut scene = Scene::new(&[]).await;
    scene.fake.script(&json!({"text": "at last", "fault": "wait_mid_stream"}));
    let ask = scene.ask("openai", "Take your time");
    let mut api = scene.api.clone();
    let slow =
        tokio::spawn(async move { super::Heard::listen(api.chat(ask).await.unwrap().into_inner()).await });
    eventually(DEADLINE, async || (!scene.fake.requests().is_empty()).then_some(())).await;
    let seq = say(&mut scene.api, &scene.work, "by the way").await;
    scene.fake.go_on();
    let heard = slow.await.unwrap();
    assert_eq!(heard.whole().seq, seq + 1);
    let heard = scene.chat(scene.ask("anthropic", "Go on")).await;
    heard.whole();
    assert_eq!(scene.verdicts(), ["ok", "ok"]);
}

/// Images that leave no room for the tools are left out, and the model is asked all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_the_budget_of_its_task_is_made_to_fit() {
    const BUDGET: u64 = 1 << 20;
    let mut scene = Scene::new(&[]).await;
    let compression = pb::CompressionConfig { max_request_bytes: Some(BUDGET), ..Default::default() };
    let config = pb::TaskConfig { compression: Some(compression), ..Default::default() };
    let request = pb::StartTaskRequest { config: Some(config), ..Default::default() };
    scene.work = start_as(&mut scene.api, request).await;
    let url = format!("data:image/png;base64,iVBORw0KGgoAAAANSUhE{}", "AAAA".repeat(50 << 10));
    let image = json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]});
    for _ in 0..4 {
        scene.chat(scene.ask_with("openai", std::slice::from_ref(&image))).await.whole();
    }
    let tools =
        json!([{"type": "function", "function": {"name": "f", "description": "d".repeat(400 << 10)}}]);
    let ask = pb::ChatRequest { tools_json: tools.to_string(), ..scene.ask("openai", "And now?") };
    scene.chat(ask).await.whole();
    let last = scene.fake.requests().pop().unwrap();
    let bytes = last["bytes"].as_u64().unwrap();
    assert!(bytes <= BUDGET && bytes > BUDGET / 2, "{bytes} bytes");
    assert_eq!(last["verdict"], "ok");
    // What cannot be made to fit is refused, with both figures.
    let tools = json!([{"type": "function", "function": {"name": "f", "description": "d".repeat(2 << 20)}}]);
    let ask = pb::ChatRequest { tools_json: tools.to_string(), ..scene.ask("openai", "And now?") };
    let heard = scene.chat(ask).await;
    let told = test_support::wire::why(heard.error.as_ref().unwrap());
    assert_eq!(told.reason, pb::ErrorReason::RequestTooLarge);
    assert_eq!(scene.request_files(), [""; 0]);
}
