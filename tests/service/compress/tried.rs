//! What a try to compress that brought nothing leaves behind: the next one waits for more, unless it is by other settings.

use contextstore_proto::v1 as pb;
use serde_json::json;

use test_support::scene::{Scene, by_hand, content, result, user, words};
use test_support::server::TestServer;
use test_support::service::reason;
use test_support::wire::all;

const LIMIT: u64 = 1000;

/// A task that has to have so many messages to be summarised.
fn config(auto: bool, min_messages: u32) -> pb::TaskConfig {
    let compression = pb::CompressionConfig {
        auto: Some(auto),
        min_messages: Some(min_messages),
        keep_recent_messages: Some(3),
        ..Default::default()
    };
    pb::TaskConfig { compression: Some(compression), ..by_hand(LIMIT) }
}

/// How full the context is when it is sent; over its limit it is not.
async fn sent(scene: &mut Scene) -> pb::Pressure {
    let sent = all(scene.api.render_context(scene.work.request("openai")).await).await;
    let pressure = scene.pressure().await;
    match sent {
        Ok(_) => assert!(pressure.tokens <= pressure.limit, "{pressure:?}"),
        Err(refused) => {
            assert_eq!(reason(&refused), "ERROR_REASON_REQUEST_TOO_LARGE");
            let figures = format!("has {} tokens; at most {} are allowed", pressure.tokens, pressure.limit);
            assert!(refused.message().contains(&figures), "{refused:?}");
        }
    }
    pressure
}

/// Compress with settings of its own that does nothing, or too little, does not keep a context over its limit from being
/// made smaller before it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_other_settings_postpones_nothing() {
    for window in [1000, 36] {
        let mut scene = Scene::with(TestServer::start().await, config(false, 5)).await;
        scene.talk(40).await;
        scene.update(config(true, 5)).await;
        let window = Some(pb::WindowConfig { messages: Some(window), ..Default::default() });
        let request = pb::CompressRequest { window, target_tokens: Some(100_000), ..scene.ask("window") };
        let done = scene.compress(request).await.unwrap().0;
        let pressure = done.pressure.unwrap();
        assert!(pressure.tokens > LIMIT && !pressure.incompressible, "{pressure:?}");
        let pressure = sent(&mut scene).await;
        assert!(pressure.tokens < LIMIT && !pressure.incompressible, "{pressure:?}");
    }
}

/// What is too large for the goal of one call need not be too large for the model.
#[tokio::test(flavor = "multi_thread")]
async fn over_is_told_of_the_tasks_own_settings() {
    let mut scene = Scene::with(TestServer::start().await, config(false, 5)).await;
    scene.talk(26).await;
    let overrides = pb::CompressionConfig { min_messages: Some(1000), ..Default::default() };
    for (overrides, target_tokens) in [(Some(overrides), Some(4)), (None, Some(4))] {
        let request = pb::CompressRequest { overrides, target_tokens, ..scene.ask("summarize") };
        let pressure = scene.compress(request).await.unwrap().0.pressure.unwrap();
        assert!(!pressure.incompressible, "{pressure:?}");
        scene.talk(22).await;
        let pressure = scene.pressure().await;
        assert!(pressure.should_compress && !pressure.incompressible, "{pressure:?}");
    }
}

/// A configuration that takes the reason away is tried at once.
#[tokio::test(flavor = "multi_thread")]
async fn another_configuration_is_tried() {
    let mut scene = Scene::with(TestServer::start().await, config(true, 5)).await;
    scene.append(&json!({"role": "system", "content": "Always be careful. ".repeat(250)})).await;
    let over = sent(&mut scene).await;
    assert!(over.tokens > LIMIT && over.incompressible, "{over:?}");
    scene.update(pb::TaskConfig { context_length: Some(2 * LIMIT), ..config(true, 5) }).await;
    let pressure = sent(&mut scene).await;
    assert!(pressure.tokens < 2 * LIMIT, "{pressure:?}");
}

/// Too few messages are no reason to send none: over the limit, one is enough.
#[tokio::test(flavor = "multi_thread")]
async fn over_the_limit_one_message_is_enough() {
    const LIMIT: u64 = 32_768;
    let write = |id: &str, tokens: usize| {
        let text = format!("line of the file {id}\n").repeat(tokens / 5);
        let function = json!({"name": "write", "arguments": json!({"text": text}).to_string()});
        let call = json!({"id": id, "type": "function", "function": function});
        json!({"role": "assistant", "content": null, "tool_calls": [call]})
    };
    let compression = pb::CompressionConfig { auto: Some(true), ..Default::default() };
    let config = pb::TaskConfig { compression: Some(compression), ..by_hand(LIMIT) };
    let mut scene = Scene::with(TestServer::start().await, config).await;
    scene.append_all(&[user("Please write both files."), write("a", 18_000), result("a", "ok")]).await;
    scene.append_all(&[write("b", 18_000), result("b", "ok")]).await;
    let pressure = sent(&mut scene).await;
    assert!(pressure.tokens < LIMIT && !pressure.incompressible, "{pressure:?}");
    let lines = scene.lines().await;
    let asked = lines.iter().filter(|line| content(line) == "Please write both files.").count();
    assert_eq!(asked, 1, "{lines:.300?}");

    // Where nothing can go, that is said.
    scene.append_all(&[write("c", 60_000), result("c", "ok")]).await;
    let pressure = sent(&mut scene).await;
    assert!(pressure.tokens > LIMIT && pressure.incompressible, "{pressure:?}");
    let done = scene.compress(scene.ask("")).await.unwrap().0;
    assert_eq!((done.compressed, done.skip_reason().name()), (false, "incompressible"), "{done:?}");
}

/// What had to stay and need not any more can go.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_unpinned_is_tried() {
    let mut scene = Scene::with(TestServer::start().await, config(false, 1)).await;
    scene.append(&json!({"role": "system", "content": "Always be careful. ".repeat(175)})).await;
    let pinned = scene.append(&user(&words(1).repeat(5))).await.seq;
    scene.pin(pinned).await;
    scene.append_all(&vec![user("Go on."); 4]).await;
    scene.update(config(true, 1)).await;
    let over = sent(&mut scene).await;
    assert!(over.tokens > LIMIT, "{over:?}");
    let request = pb::UnpinMessageRequest {
        task_uuid: scene.work.uuid.clone(),
        seq: pinned,
        lease_generation: scene.work.lease,
        ..Default::default()
    };
    scene.api.unpin_message(request).await.unwrap();
    let pressure = sent(&mut scene).await;
    assert!(pressure.tokens < over.tokens, "{pressure:?}");
}
