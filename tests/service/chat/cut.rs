//! Answers that are not whole: what arrived stays, and the next request is valid.

use std::fs;
use std::time::Instant;

use contextstore_proto::v1::{self as pb, ErrorReason};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Heard, PROVIDERS, Scene, TOOLS};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::moment;
use test_support::wire::{api, start, why};

/// Enough text that something of it has arrived in the middle.
const LONG: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen";

#[tokio::test(flavor = "multi_thread")]
async fn what_arrived_before_a_break_stays_and_the_next_request_is_valid() {
    // Only one that hangs is to run out of time.
    let breaks: &[&str] = &["break_mid_stream", "end_early", "malformed_chunk", "error_mid_stream"];
    let kinds = [(breaks, "1h"), (&["hang_mid_stream"], "1s")];
    for (provider, (faults, time)) in PROVIDERS.into_iter().flat_map(|one| kinds.map(|kind| (one, kind))) {
        let mut scene = Scene::new(&[("llm.idle_timeout", time)]).await;
        for fault in faults {
            scene.fake.reset();
            scene.fake.script(&json!({"text": LONG, "fault": fault}));
            let heard = scene.chat(scene.ask(provider, "Count")).await;
            let status = heard.error.as_ref().unwrap_or_else(|| panic!("{provider} {fault}: {heard:?}"));
            assert_eq!(why(status).reason, ErrorReason::ProviderFailed, "{provider} {fault}");
            assert!(!heard.text.is_empty() && LONG.starts_with(&heard.text), "{provider} {fault}: {heard:?}");
            assert_eq!(
                scene.fake.requests().len(),
                1,
                "{provider} {fault}: what was told is not asked for again"
            );
            let log = scene.log().await;
            let last = log.last().unwrap();
            assert_eq!(
                (&last["role"], &last["content"]),
                (&json!("assistant"), &json!(heard.text)),
                "{fault}"
            );
            assert_eq!(last["extra"]["interrupted"], true, "{provider} {fault}");
            assert_eq!(scene.request_files(), [""; 0]);

            let heard = scene.chat(scene.ask(provider, "Go on")).await;
            heard.whole();
            assert_eq!(scene.verdicts()[1], "ok", "{provider} {fault}");
        }
    }
}

/// What comes in one piece with the error behind it was said, too: it is told, kept, and not asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn text_in_one_piece_with_an_error_is_not_lost() {
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[("llm.retries", "2")]).await;
        scene.fake.script(&json!({"text": LONG, "fault": "error_mid_stream", "together": true}));
        let heard = scene.chat(scene.ask(provider, "Count")).await;
        let status = heard.error.as_ref().unwrap_or_else(|| panic!("{provider}: {heard:?}"));
        assert_eq!(why(status).reason, ErrorReason::ProviderFailed, "{provider}");
        assert!(!heard.text.is_empty() && LONG.starts_with(&heard.text), "{provider}: {heard:?}");
        assert_eq!(scene.fake.requests().len(), 1, "{provider}: it was asked again");
        let log = scene.log().await;
        let last = log.last().unwrap();
        assert_eq!((&last["content"], &last["extra"]["interrupted"]), (&json!(heard.text), &json!(true)));
    }
}

/// Turns that break off one after the other leave several answers at the end; the model is asked to go on.
#[tokio::test(flavor = "multi_thread")]
async fn two_answers_that_broke_off_are_gone_on_with() {
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[("llm.retries", "0")]).await;
        for said in ["Count", ""] {
            scene.fake.script(&json!({"text": LONG, "fault": "break_mid_stream"}));
            let heard = scene.chat(scene.ask(provider, said)).await;
            assert!(heard.error.is_some() && !heard.text.is_empty(), "{provider}: {heard:?}");
        }
        let roles: Vec<Value> = scene.log().await.iter().map(|message| message["role"].clone()).collect();
        assert_eq!(roles, ["user", "assistant", "assistant"], "{provider}");
        scene.chat(scene.ask(provider, "")).await.whole();
        assert_eq!(scene.verdicts(), ["ok", "ok", "ok"], "{provider}");
    }
}

/// A call without its end is none; one that is whole gets a result in the next request.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_were_cut_off_do_not_stay() {
    for provider in PROVIDERS {
        let call = |path: &str| json!({"name": "read", "arguments": json!({"path": path}).to_string()});
        let path = "x".repeat(40);
        let mut scene = Scene::new(&[("llm.retries", "0")]).await;
        // Wherever it is cut.
        for after in 1.. {
            scene.work = start(&mut scene.api).await;
            scene.fake.reset();
            scene.fake.script(&json!({
                "tool_calls": [call(&path), call(&path)], "fault": "break_mid_stream", "after": after,
            }));
            let with = |request| pb::ChatRequest { tools_json: TOOLS.to_owned(), ..request };
            let heard = scene.chat(with(scene.ask(provider, "Read"))).await;
            if heard.done.is_some() {
                assert!(after > 1, "{provider}: nothing was cut off");
                break;
            }
            for message in scene.log().await {
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let arguments = call["function"]["arguments"].as_str().unwrap();
                    assert!(serde_json::from_str::<Value>(arguments).is_ok(), "{provider} {after}: {call}");
                }
            }
            scene.fake.reset();
            scene.chat(with(scene.ask(provider, "Go on"))).await.whole();
            assert_eq!(scene.verdicts(), ["ok"], "{provider} {after}");
        }
    }
}

/// Waits until the first piece of text has come.
async fn first_text(stream: &mut tonic::Streaming<pb::ChatResponse>) -> Heard {
    let mut heard = Heard::default();
    while heard.text.is_empty() {
        heard.take(stream.message().await.unwrap().unwrap());
    }
    heard
}

async fn interrupted(scene: &mut Scene) -> Value {
    let end = Instant::now() + DEADLINE;
    loop {
        let log = scene.log().await;
        if let Some(last) = log.last().filter(|last| last["extra"]["interrupted"] == true) {
            return last.clone();
        }
        assert!(Instant::now() < end, "nothing was recorded: {log:?}");
        moment().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_ends_the_request_and_keeps_what_arrived() {
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[]).await;
        scene.fake.script(&json!({"text": LONG, "fault": "hang_mid_stream"}));
        let ask = scene.ask(provider, "Count");
        let mut stream = scene.api.chat(ask).await.unwrap().into_inner();
        first_text(&mut stream).await;
        assert_eq!(scene.request_files(), ["request.json"], "{provider}");
        drop(stream);
        let last = interrupted(&mut scene).await;
        assert!(LONG.starts_with(last["content"].as_str().unwrap()), "{last}");
        // The connection is closed, so the provider stops too.
        eventually(DEADLINE, async || (scene.fake.requests()[0]["answer"] == "gone").then_some(())).await;
        assert_eq!(scene.request_files(), [""; 0]);
        scene.chat(scene.ask(provider, "Go on")).await.whole();
        assert_eq!(scene.verdicts()[1], "ok", "{provider}");
    }
}

/// The same before anything was said.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_early_leaves_only_what_it_said() {
    let mut scene = Scene::new(&[]).await;
    scene.fake.script(&json!({"fault": "hang_before_headers"}));
    let ask = scene.ask("openai", "Count");
    let stream = scene.api.chat(ask).await.unwrap().into_inner();
    eventually(DEADLINE, async || (!scene.fake.requests().is_empty()).then_some(())).await;
    drop(stream);
    eventually(DEADLINE, async || (scene.fake.requests()[0]["answer"] == "gone").then_some(())).await;
    eventually(DEADLINE, async || scene.request_files().is_empty().then_some(())).await;
    assert_eq!(scene.log().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_waits_and_then_keeps_what_arrived() {
    // Long enough for the first, and not for the second.
    for (drain, fault, whole) in [("1h", "wait_mid_stream", true), ("1s", "hang_mid_stream", false)] {
        let mut scene = Scene::new(&[("server.drain", drain)]).await;
        scene.fake.script(&json!({"text": LONG, "fault": fault}));
        let ask = scene.ask("anthropic", "Count");
        let mut stream = scene.api.chat(ask).await.unwrap().into_inner();
        first_text(&mut stream).await;
        let rest = tokio::spawn(Heard::listen(stream));
        scene.server.signal(Signal::TERM);
        eventually(DEADLINE, async || scene.server.log().contains("stopping").then_some(())).await;
        scene.fake.go_on();
        assert!(scene.server.ended().await.success());
        let heard = rest.await.unwrap();
        if whole {
            heard.whole();
        } else {
            assert!(heard.error.is_some(), "{heard:?}");
        }
        assert_eq!(scene.request_files(), [""; 0]);
        clean(&scene.server);
        scene.server.restart().await;
        scene.api = api(&scene.server).await;
        let last = scene.log().await.last().unwrap().clone();
        assert_eq!(
            (&last["role"], last["extra"]["interrupted"] == true),
            (&json!("assistant"), !whole),
            "{last}"
        );
        scene.chat(scene.ask("anthropic", "Go on")).await.whole();
        assert_eq!(scene.verdicts()[1], "ok");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_leaves_the_input_and_no_request() {
    for script in [json!({"fault": "hang_before_headers"}), json!({"text": LONG, "fault": "hang_mid_stream"})]
    {
        let mut scene = Scene::new(&[]).await;
        scene.fake.script(&script);
        let ask = pb::ChatRequest { request_id: "turn".to_owned(), ..scene.ask("openai", "Count") };
        let stream = scene.api.chat(ask.clone()).await.unwrap().into_inner();
        let heard = tokio::spawn(Heard::listen(stream));
        eventually(DEADLINE, async || (!scene.fake.requests().is_empty()).then_some(())).await;
        let path = scene.server.running(&scene.work.uuid).join("request.json");
        assert!(fs::read_to_string(&path).unwrap().contains("Count"));
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        scene.server.kill();
        assert!(heard.await.unwrap().error.is_some());
        let (code, words, _) = doctor(&scene.server);
        assert!(code != 0 && words.contains("request.json"), "{words}");

        scene.server.restart().await;
        scene.api = api(&scene.server).await;
        assert_eq!(scene.log().await[0]["content"], "Count");
        assert_eq!(scene.request_files(), [""; 0]);
        // The same call goes on where it was.
        scene.fake.reset();
        let heard = scene.chat(ask).await;
        assert_eq!(heard.started.as_ref().unwrap().seqs, [1]);
        assert_eq!((heard.whole().seq, heard.whole().duplicate), (2, false));
        assert_eq!(scene.verdicts(), ["ok"]);
        assert!(scene.server.terminate().await.success());
        clean(&scene.server);
    }
}

fn doctor(server: &TestServer) -> (i32, String, String) {
    TestServer::run(&["doctor", "--data-dir", server.data_dir().to_str().unwrap()], &[])
}

fn clean(server: &TestServer) {
    let (code, words, errors) = doctor(server);
    assert_eq!(code, 0, "{words}{errors}");
}
