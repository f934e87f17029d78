//! Calls that are made again with the same request_id.

use contextstore_proto::v1::{self as pb, ErrorReason};
use serde_json::json;

use super::{Heard, Scene};
use test_support::server::{DEADLINE, eventually};
use test_support::wire::{api, task, view, why};

fn named(request: pb::ChatRequest, id: &str) -> pb::ChatRequest {
    pb::ChatRequest { request_id: id.to_owned(), ..request }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_asked_for_once() {
    let mut scene = Scene::new(&[]).await;
    for id in ["turn-1".to_owned(), "x".repeat(128)] {
        scene.fake.reset();
        let ask = named(
            scene.ask_with(
                "anthropic",
                &[json!({"role":"user","content":"a"}), json!({"role":"user","content":"b"})],
            ),
            &id,
        );
        let first = scene.chat(ask.clone()).await;
        let before = scene.log().await.len();
        let second = scene.chat(ask.clone()).await;
        scene.server.restart().await;
        scene.api = api(&scene.server).await;
        let third = scene.chat(ask.clone()).await;
        for again in [second, third] {
            assert_eq!(again.started, first.started);
            let (done, told) = (first.whole(), again.whole());
            assert!(told.duplicate && !done.duplicate);
            assert_eq!(
                (told.seq, &told.message_json, &told.finish_reason),
                (done.seq, &done.message_json, &done.finish_reason)
            );
            assert!(again.text.is_empty(), "only the end is told again");
        }
        assert_eq!(scene.log().await.len(), before);
        assert_eq!(scene.fake.requests().len(), 1);
        // The same id for something else.
        let other = named(scene.ask("anthropic", "c"), &id);
        assert_eq!(why(&scene.api.chat(other).await.unwrap_err()).reason, ErrorReason::RequestIdReused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_broke_off_is_asked_for_again() {
    let mut scene = Scene::new(&[]).await;
    scene.fake.script(&json!({"text": "one two three four five six", "fault": "break_mid_stream"}));
    let ask = named(scene.ask("openai", "Count"), "turn");
    let first = scene.chat(ask.clone()).await;
    assert!(first.error.is_some() && !first.text.is_empty());
    let second = scene.chat(ask.clone()).await;
    assert_eq!(second.started.as_ref().unwrap().seqs, [1]);
    assert!(!second.whole().duplicate);
    assert_eq!(scene.log().await.len(), 3, "the input, what broke off, the answer");
    assert!(scene.chat(ask).await.whole().duplicate);
    assert_eq!(scene.verdicts(), ["ok", "ok"]);
}

/// The pieces of an answer that broke off leave the view before it is asked for again, also behind a compression and where
/// the call has no messages: the model is asked what it was asked first.
#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_an_answer_are_not_asked_about() {
    let mut scene = Scene::new(&[]).await;
    let sent = |scene: &Scene| {
        let number = scene.fake.requests().pop().unwrap()["number"].as_u64().unwrap();
        let body: serde_json::Value = serde_json::from_str(&scene.fake.body(number)).unwrap();
        body["messages"].to_string()
    };
    for (id, text) in [("turn-1", "Count to six"), ("turn-2", "")] {
        scene.fake.reset();
        let ask = named(scene.ask("openai", text), id);
        let broken = json!({"text": "one two three four five six", "fault": "break_mid_stream", "times": 3});
        scene.fake.script(&broken);
        scene.fake.script(&json!({"text": "one two three four five six"}));
        let first = scene.chat(ask.clone()).await;
        assert!(first.error.is_some() && !first.text.is_empty());
        let asked = sent(&scene);
        for _ in 0..2 {
            assert!(scene.chat(ask.clone()).await.error.is_some());
            assert_eq!(sent(&scene), asked, "{id}");
        }
        let last = scene.chat(ask.clone()).await;
        assert_eq!(sent(&scene), asked, "{id}");
        assert_eq!(last.text, "one two three four five six");
        let view = view(&mut scene.api, scene.work.current()).await;
        let answers = view.lines().filter(|line| line.contains("one two")).count();
        assert_eq!(answers, if id == "turn-1" { 1 } else { 2 }, "{view:#?}");
        assert!(scene.chat(ask).await.whole().duplicate);
    }
    // They are in the log.
    assert_eq!(scene.log().await.iter().filter(|line| line["extra"]["interrupted"] == true).count(), 6);
}

/// A client that was impatient gets the answer of the first call.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_call_waits_for_the_first() {
    let mut scene = Scene::new(&[]).await;
    scene.fake.script(&json!({"text": "slowly but surely, word by word", "fault": "wait_mid_stream"}));
    let ask = named(scene.ask("openai", "Hello"), "turn");
    let mut other = scene.api.clone();
    let again = ask.clone();
    let first =
        tokio::spawn(async move { Heard::listen(other.chat(again).await.unwrap().into_inner()).await });
    eventually(DEADLINE, async || (!scene.fake.requests().is_empty()).then_some(())).await;
    let mut other = scene.api.clone();
    let second =
        tokio::spawn(async move { Heard::listen(other.chat(ask).await.unwrap().into_inner()).await });
    // Calls that came after it are answered, and it is not.
    for _ in 0..20 {
        task(&mut scene.api, &scene.work).await;
    }
    assert!(!second.is_finished());
    scene.fake.go_on();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert!(!first.whole().duplicate && second.whole().duplicate);
    assert_eq!(first.whole().seq, second.whole().seq);
    assert_eq!(scene.fake.requests().len(), 1);
}
