//! Providers that refuse, fail or say nothing: what the caller is told, and what is tried again.

use std::time::{Duration, Instant};

use contextstore_proto::v1::{self as pb, ErrorReason};
use serde_json::json;

use super::{Heard, PROVIDERS, Scene};
use test_support::server::TestServer;
use test_support::wire::{api, start, why};

fn reason(heard: &Heard) -> ErrorReason {
    why(heard.error.as_ref().unwrap_or_else(|| panic!("{heard:?}"))).reason
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_busy_is_asked_again_when_it_wants() {
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[]).await;
        scene.fake.script(&json!({"status": 429, "retry_after": "1"}));
        let begun = Instant::now();
        scene.chat(scene.ask(provider, "Hello")).await.whole();
        assert!(begun.elapsed() >= Duration::from_secs(1), "{provider}: {:?}", begun.elapsed());
        assert_eq!(scene.fake.requests().len(), 2, "{provider}");
        scene.fake.script(&json!({"status": 529, "times": 1}));
        scene.fake.script(&json!({"status": 503, "times": 1}));
        scene.chat(scene.ask(provider, "Hello")).await.whole();
        assert_eq!(scene.fake.requests().len(), 5, "{provider}");
        scene.fake.script(&json!({"fault": "close_mid_request"}));
        scene.chat(scene.ask(provider, "Hello")).await.whole();
        // What was sent is the same each time.
        let requests = scene.fake.requests();
        assert_eq!(requests[2]["blake3"], requests[4]["blake3"], "{provider}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_stays_busy_is_given_up() {
    let mut scene = Scene::new(&[("llm.retries", "1"), ("llm.max_retry_after", "2s")]).await;
    scene.fake.script(&json!({"status": 500, "times": 2, "message": "out of order"}));
    let heard = scene.chat(scene.ask("openai", "Hello")).await;
    let told = why(heard.error.as_ref().unwrap());
    assert_eq!(told.reason, ErrorReason::ProviderFailed);
    assert!(told.words.contains("500") && told.words.contains("out of order"), "{}", told.words);
    assert_eq!(scene.fake.requests().len(), 2);
    // One that asks for more than is allowed is not waited for; the caller is told for how long.
    scene.fake.script(&json!({"status": 429, "retry_after": "3600"}));
    let heard = scene.chat(scene.ask("openai", "Hello")).await;
    let told = why(heard.error.as_ref().unwrap());
    assert_eq!((told.reason, told.pause), (ErrorReason::ProviderFailed, Some(Duration::from_secs(3600))));
    assert_eq!(scene.fake.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_words_of_a_refusal_reach_the_caller() {
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[]).await;
        let words = "messages.0: text content blocks must be non-empty";
        scene.fake.script(&json!({"status": 400, "message": words}));
        let heard = scene.chat(scene.ask(provider, "Hello")).await;
        let told = why(heard.error.as_ref().unwrap());
        assert_eq!(told.reason, ErrorReason::ProviderRefused, "{provider}");
        assert!(told.words.contains(words), "{}", told.words);
        assert_eq!(told.data["status"], "400");
        assert_eq!(told.data["message"], words);
        assert_eq!(scene.fake.requests().len(), 1, "a refusal is not asked for twice");
        // What was said to it is in the log, and it can be asked again.
        assert_eq!(scene.log().await.len(), 1);
        scene.chat(scene.ask(provider, "")).await.whole();
        assert_eq!(scene.request_files(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_says_nothing_is_not_waited_for() {
    let mut scene = Scene::new(&[("llm.retries", "0"), ("llm.first_byte_timeout", "300ms")]).await;
    scene.fake.script(&json!({"fault": "hang_before_headers"}));
    let heard = scene.chat(scene.ask("openai", "Hello")).await;
    assert_eq!(reason(&heard), ErrorReason::ProviderFailed);
    assert!(heard.error.as_ref().unwrap().message().contains("300ms"), "{heard:?}");
    assert_eq!(scene.log().await.len(), 1, "nothing was said");
    // One that never stops is not waited for either.
    let mut scene = Scene::new(&[("llm.retries", "0"), ("llm.providers.anthropic.timeout", "3s")]).await;
    scene.fake.script(&json!({"text": "and so on ".repeat(10_000), "delay_ms": 50}));
    let heard = scene.chat(scene.ask("anthropic", "Hello")).await;
    assert_eq!(reason(&heard), ErrorReason::ProviderFailed);
    assert!(heard.error.as_ref().unwrap().message().contains("longer than 3s"), "{heard:?}");
    assert_eq!(scene.log().await.last().unwrap()["extra"]["interrupted"], true);
    scene.chat(scene.ask("anthropic", "Go on")).await.whole();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_configured_is_named_before_anything_happens() {
    let server = TestServer::start_configured(&[("llm.providers.openai.api_key_file", "/nowhere/key")]).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    for (provider, model, missing) in [
        ("", "", "llm.provider"),
        ("openai", "m", "/nowhere/key"),
        ("anthropic", "m", "ANTHROPIC_API_KEY is not set"),
        ("ollama", "", "llm.providers.ollama.model"),
    ] {
        let new = pb::NewMessage {
            body: Some(pb::new_message::Body::Json(r#"{"role":"user","content":"x"}"#.to_owned())),
            ..Default::default()
        };
        let request = pb::ChatRequest {
            task_uuid: work.uuid.clone(),
            lease_generation: work.lease,
            provider: pb::Provider::from_name(provider).unwrap_or_default().into(),
            model: model.to_owned(),
            messages: vec![new],
            ..Default::default()
        };
        let told = why(&api.chat(request).await.unwrap_err());
        assert_eq!(told.reason, ErrorReason::ProviderNotConfigured, "{provider}");
        assert!(told.words.contains(missing), "{}", told.words);
    }
    assert_eq!(test_support::wire::task(&mut api, &work).await.last_seq, 0, "nothing was appended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_wrong_changes_nothing() {
    let mut scene = Scene::new(&[]).await;
    let good = json!({"role": "user", "content": "good"});
    let bad = json!({"role": "robot", "content": "bad"});
    let ask = scene.ask_with("openai", &[good.clone(), bad]);
    let told = why(&scene.api.chat(ask).await.unwrap_err());
    assert_eq!(told.fields, ["messages[1].json.role"]);
    for (request, field) in [
        (pb::ChatRequest { provider: 99, ..scene.ask("", "x") }, "provider"),
        (pb::ChatRequest { params_json: "[]".to_owned(), ..scene.ask("openai", "x") }, "params_json"),
        (
            pb::ChatRequest { params_json: r#"{"stream":false}"#.to_owned(), ..scene.ask("openai", "x") },
            "params_json",
        ),
        (
            pb::ChatRequest { params_json: r#"{"messages":[]}"#.to_owned(), ..scene.ask("openai", "x") },
            "params_json",
        ),
        (pb::ChatRequest { tools_json: "{}".to_owned(), ..scene.ask("openai", "x") }, "tools_json"),
    ] {
        let told = why(&scene.api.chat(request).await.unwrap_err());
        assert_eq!(told.fields, [field], "{}", told.words);
    }
    let stale = pb::ChatRequest { lease_generation: 9, ..scene.ask("openai", "") };
    assert_eq!(why(&scene.api.chat(stale).await.unwrap_err()).reason, ErrorReason::StaleLease);
    assert_eq!(scene.log().await.len(), 0);
    assert!(scene.fake.requests().is_empty());
}

/// A provider that gives up before it has said anything is asked again, unless it would say the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_stream_says_at_once_is_asked_for_again_only_if_it_may_pass() {
    for provider in ["openai", "openai_responses", "anthropic", "lmstudio"] {
        let mut scene = Scene::new(&[("llm.retries", "2")]).await;
        let fault = |kind: &str| json!({"fault": "error_mid_stream", "after": 0, "error_type": kind});
        scene.fake.script(&fault("overloaded_error"));
        scene.chat(scene.ask(provider, "Hello")).await.whole();
        assert_eq!(scene.fake.requests().len(), 2, "{provider}");
        for kind in ["invalid_request_error", "context_length_exceeded", "insufficient_quota"] {
            scene.fake.reset();
            scene.fake.script(&fault(kind));
            let heard = scene.chat(scene.ask(provider, "Hello")).await;
            // An error means the same wherever it comes.
            assert_eq!(reason(&heard), ErrorReason::ProviderRefused, "{provider} {kind}");
            assert!(heard.error.as_ref().unwrap().message().contains(kind), "{heard:?}");
            assert_eq!(scene.fake.requests().len(), 1, "{provider} {kind}: it was asked again");
        }
    }
}

/// A server that does not stream is understood, and so is one that says what is wrong with a status that is fine.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_stream_is_an_answer() {
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[("llm.retries", "1")]).await;
        let call = json!({"name": "read", "arguments": "{\"path\":\"a\"}"});
        scene
            .fake
            .script(&json!({"whole": true, "thinking": "Hm.", "text": "I look.", "tool_calls": [call]}));
        let ask = pb::ChatRequest { tools_json: super::TOOLS.to_owned(), ..scene.ask(provider, "Hello") };
        let heard = scene.chat(ask).await;
        assert_eq!(heard.whole().finish_reason, "tool_calls", "{provider}");
        assert_eq!((heard.text.as_str(), heard.reasoning.as_str()), ("I look.", "Hm."), "{provider}");
        let (_, name, arguments) = &heard.calls[0];
        let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
        assert_eq!((name.as_str(), arguments), ("read", json!({"path": "a"})), "{provider}");
        assert!(heard.usage.unwrap().input_tokens > 0, "{provider}");
        assert_eq!(scene.fake.requests().len(), 1, "{provider}: it was asked again");
        // The next request has all of it, and is valid.
        let result = json!({"role": "tool", "tool_call_id": heard.calls[0].0, "content": "x"});
        let ask =
            pb::ChatRequest { tools_json: super::TOOLS.to_owned(), ..scene.ask_with(provider, &[result]) };
        scene.chat(ask).await.whole();
        assert_eq!(scene.verdicts(), ["ok", "ok"], "{provider}");

        scene.fake.reset();
        scene.fake.script(&json!({"status": 200, "message": "the model is not loaded", "times": 2}));
        let heard = scene.chat(scene.ask(provider, "Hello")).await;
        let told = why(heard.error.as_ref().unwrap());
        assert_eq!(told.reason, ErrorReason::ProviderFailed, "{provider}");
        assert!(told.words.contains("the model is not loaded"), "{provider}: {}", told.words);
        assert_eq!(scene.fake.requests().len(), 2, "{provider}");
    }
}

/// A connection that breaks behind the end of the answer takes nothing of it away.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_drops_behind_the_end_of_an_answer_costs_nothing() {
    for (provider, pieces) in [("openai", 3), ("lmstudio", 3), ("anthropic", 6)] {
        for fault in ["break_mid_stream", "end_early"] {
            let mut scene = Scene::new(&[("llm.retries", "0")]).await;
            scene.fake.script(&json!({"text": "Hi there", "fault": fault, "after": pieces}));
            let heard = scene.chat(scene.ask(provider, "Hello")).await;
            assert_eq!(heard.whole().finish_reason, "stop", "{provider} {fault}");
            assert_eq!(heard.text, "Hi there", "{provider} {fault}");
            assert_eq!(scene.fake.requests().len(), 1);
            assert!(scene.log().await.last().unwrap()["extra"]["interrupted"].is_null(), "{provider}");
        }
    }
}
