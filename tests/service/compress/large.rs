//! What hardly fits into a record of the log: it is cut before anything is asked or written, and told if it cannot be.

use contextstore_proto::v1 as pb;
use pb::ErrorReason;
use serde_json::Value;
use tokio_stream::wrappers::ReceiverStream;

use test_support::scene::{Scene, calls, result, user, words};
use test_support::wire::refused;

/// Appends many messages, some of them pinned.
async fn append_many(scene: &mut Scene, messages: &[(Value, bool)]) {
    let (sender, receiver) = tokio::sync::mpsc::channel(64);
    for batch in messages.chunks(1000) {
        let messages = batch.iter().map(|(message, pinned)| {
            let body = Some(pb::new_message::Body::Json(message.to_string()));
            pb::NewMessage { body, pinned: *pinned, ..Default::default() }
        });
        let request = pb::AppendMessagesRequest {
            task_uuid: scene.work.uuid.clone(),
            lease_generation: scene.work.lease,
            messages: messages.collect(),
        };
        sender.send(request).await.unwrap();
    }
    drop(sender);
    let mut answers = scene.api.append_messages(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
}

/// Control characters take six times their bytes where they are written down.
#[tokio::test(flavor = "multi_thread")]
async fn contents_that_grow_when_they_are_written_are_cut_all_the_same() {
    let mut scene = Scene::new(400_000).await;
    for number in 0..16 {
        scene.append(&user(&format!("{} {}", words(number), "y".repeat(20_000)))).await;
    }
    for _ in 0..7 {
        scene.append(&user(&"\u{1b}".repeat(165_000))).await;
    }
    let done = scene.compressed(scene.ask_keeping("summarize", 12)).await;
    assert!(done.tokens_after < done.tokens_before, "{done:?}");
    assert_eq!(scene.lines().await.len() as u64, done.messages_after);
    // A summary of such messages, too.
    let done = scene.compressed(scene.ask_keeping("summarize", 1)).await;
    assert!(done.tokens_after < 250_000, "{done:?}");
}

/// Pinned messages that lie apart are a part each, and so are outputs that are trimmed. If there are too many, nothing is
/// done, which is told before anybody summarises.
#[tokio::test(flavor = "multi_thread")]
async fn more_parts_than_can_be_written_are_told() {
    let mut scene = Scene::new(1_000_000).await;
    let message = |number: u64| (user(&format!("{number} of many")), number.is_multiple_of(2));
    let mut messages: Vec<_> = (0..2 * 3000).map(message).collect();
    for number in 0..1100 {
        let id = format!("call-{number}");
        messages.push((calls(&[&id]), false));
        messages.push((result(&id, &words(number).repeat(4)), false));
    }
    append_many(&mut scene, &messages).await;
    let request =
        pb::CompressRequest { target_tokens: Some(140_000), ..scene.ask_keeping("summarize", 2200) };
    let (done, _) = scene.compress(request.clone()).await.unwrap();
    assert_eq!((done.compressed, done.skip_reason().name()), (false, "too_many_parts"), "{done:?}");
    let (overrides, target_tokens) = (request.overrides, request.target_tokens);
    let agent = pb::BeginCompactionRequest { overrides, target_tokens, ..scene.agent("") };
    let why = refused(scene.begin(agent).await);
    assert_eq!((why.reason, why.data["cause"].as_str()), (ErrorReason::NothingToSummarize, "too_many_parts"));
    // With fewer of them it is no matter.
    scene.compressed(scene.ask("summarize")).await;
}
