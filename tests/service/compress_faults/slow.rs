//! A model that is slow, or hangs: nobody who is over the limit waits for it, whoever's it is; and what comes meanwhile
//! counts.

use std::time::{Duration, Instant};

use contextstore_proto::v1 as pb;
use pb::ErrorReason;
use serde_json::json;

use super::{KEY, by_itself, serve};
use test_support::fake_llm::FakeLlm;
use test_support::scene::{Scene, by_hand, compress, summarizer, user, words};
use test_support::server::{DEADLINE, eventually};
use test_support::wire::{Api, Work, all, api, holder, reason, start_as, task};

const HANGS: &str = "  max_at_once: 1\n  summary_timeout: 10m\n";

/// Waits until the view is another one.
async fn rewritten(api: &Api, work: &Work, since: u64) -> u64 {
    eventually(DEADLINE, async || {
        let found = task(&mut api.clone(), work).await.view_generation;
        (found > since).then_some(found)
    })
    .await
}

/// Appends until the context is as full as that.
async fn fill(scene: &mut Scene, ratio: f64) -> pb::Pressure {
    let (mut number, until) = (0, Instant::now() + DEADLINE);
    loop {
        assert!(Instant::now() < until, "the context does not get as full as {ratio}");
        number += 1;
        let told = scene.append(&user(&words(number))).await.pressure.unwrap();
        if told.ratio >= ratio {
            return told;
        }
    }
}

/// How many messages a request has.
async fn sent(scene: &mut Scene, tools: &str) -> usize {
    let request = pb::RenderContextRequest {
        model: "fake".to_owned(),
        tools_json: tools.to_owned(),
        ..scene.work.request("openai")
    };
    let chunks = all(scene.api.render_context(request).await).await.unwrap();
    let body: Vec<u8> = chunks.into_iter().flat_map(|chunk| chunk.data).collect();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    body["messages"].as_array().unwrap().len()
}

async fn summary(scene: &mut Scene) -> pb::Summary {
    let request = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
    scene.api.get_latest_summary(request).await.unwrap().into_inner().summary.unwrap()
}

/// The models of others hang; a context over its limit is compressed all the same, in the background, before it is sent,
/// and on demand.
#[tokio::test(flavor = "multi_thread")]
async fn an_emergency_does_not_wait_for_the_models_of_others() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    fake.script(&json!({"fault": "hang_before_headers", "times": 1_000_000}));
    let mut scene = Scene::with(serve(&fake, HANGS).await, by_itself()).await;
    // As many as may work at once, and more.
    for hanging in 1..=3 {
        let request = pb::StartTaskRequest { config: Some(by_itself()), ..Default::default() };
        scene.work = start_as(&mut scene.api, request).await;
        fill(&mut scene, 0.7).await;
        fake.wait("a question", |requests| requests.len() == hanging);
    }
    let request = pb::StartTaskRequest { config: Some(by_hand(2000)), ..Default::default() };
    scene.work = start_as(&mut scene.api, request).await;
    fill(&mut scene, 1.5).await;
    scene.update(by_itself()).await;
    let began = Instant::now();
    let messages = sent(&mut scene, "").await;
    assert!(messages < 40 && scene.pressure().await.ratio < 1.0, "{messages}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(summary(&mut scene).await.model, "extractive");
    // Without being sent, too.
    let since = scene.task().await.view_generation;
    let long = words(1).repeat(60);
    scene.append(&user(&long)).await;
    rewritten(&scene.api, &scene.work, since).await;
    assert_eq!(fake.requests().len(), 3);
}

/// Of many who would ask a model that hangs only a few do: the others do not wait for it in turn, and it is not asked by
/// those who come later.
#[tokio::test(flavor = "multi_thread")]
async fn not_everybody_waits_for_a_model_that_hangs() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    fake.script(&json!({"fault": "hang_before_headers", "times": 1_000_000}));
    let slow = "  auto: false\n  max_at_once: 1\n  summary_timeout: 2s\n  breaker:\n    failures: 3\n    pause: 1h\n    longest: 2h\n";
    let mut scene = Scene::with(serve(&fake, slow).await, by_hand(2000)).await;
    let mut works = Vec::new();
    for _ in 0..40 {
        let request = pb::StartTaskRequest { config: Some(by_hand(2000)), ..Default::default() };
        scene.work = start_as(&mut scene.api, request).await;
        fill(&mut scene, 0.5).await;
        works.push(scene.work.clone());
    }
    let mut compressions = Vec::new();
    for work in works {
        let mut api = scene.api.clone();
        compressions.push(tokio::spawn(async move {
            let request = pb::CompressRequest {
                task_uuid: work.uuid.clone(),
                lease_generation: work.lease,
                ..Default::default()
            };
            let told = all(api.compress(request).await).await.unwrap();
            told.into_iter().rev().find_map(|told| match told.event {
                Some(pb::compress_response::Event::Done(done)) => Some(done),
                Some(_) | None => None,
            })
        }));
    }
    for compression in compressions {
        let done = compression.await.unwrap().unwrap();
        assert!(done.compressed && !done.fallback_reason.is_empty(), "{done:?}");
    }
    // There are sixteen places for those who ask, and two of them may be taken again before the third failure.
    assert!(fake.requests().len() <= 18, "{}", fake.requests().len());
    assert_eq!(scene.pressure().await.breaker().name(), "open");
}

/// A model that hangs is not waited for any more once its own context is over the limit.
#[tokio::test(flavor = "multi_thread")]
async fn in_an_emergency_a_model_is_cut_off() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    fake.script(&json!({"fault": "hang_before_headers", "times": 1_000_000}));
    let mut scene = Scene::with(serve(&fake, HANGS).await, by_itself()).await;
    fill(&mut scene, 0.7).await;
    fake.wait("a question", |requests| requests.len() == 1);
    assert_eq!(scene.task().await.view_generation, 0);
    fill(&mut scene, 1.01).await;
    rewritten(&scene.api, &scene.work, 0).await;
    assert_eq!(summary(&mut scene).await.model, "extractive");
    // That is no failure of the model.
    assert_eq!(scene.pressure().await.breaker().name(), "closed");
    eventually(DEADLINE, async || scene.work_files().is_empty().then_some(())).await;
}

/// What comes while a model takes its time makes it due again, without anything more.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_meanwhile_counts() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let text = "<summary>Slowly but surely, all of it was looked at.</summary>";
    fake.script(&json!({"text": text, "fault": "wait_mid_stream"}));
    fake.script(&json!({"text": "<summary>And the rest.</summary>", "times": 10}));
    let early = pb::CompressionConfig { threshold: Some(0.3), min_messages: Some(2), ..Default::default() };
    let config = pb::TaskConfig { compression: Some(early), ..by_hand(2000) };
    let mut scene = Scene::with(serve(&fake, "").await, config).await;
    fill(&mut scene, 0.3).await;
    fake.wait("a question", |requests| requests.len() == 1);
    fill(&mut scene, 0.95).await;
    assert_eq!(scene.task().await.view_generation, 0, "the model did not wait");
    fake.go_on();
    // All that came is still there then; it takes a second compression to make room.
    rewritten(&scene.api, &scene.work, 0).await;
    eventually(DEADLINE, async || {
        let request = pb::GetContextUsageRequest { task_uuid: scene.work.uuid.clone(), ..Default::default() };
        let usage = scene.api.clone().get_context_usage(request).await.unwrap().into_inner();
        (!usage.pressure.unwrap().should_compress).then_some(())
    })
    .await;
}

/// The same where somebody asked for it.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_while_somebody_compresses_counts() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    fake.script(&json!({"text": "<summary>All of it was looked at.</summary>", "fault": "wait_mid_stream"}));
    fake.script(&json!({"text": "<summary>And the rest.</summary>", "times": 10}));
    let mut scene = Scene::with(serve(&fake, "").await, by_itself()).await;
    fill(&mut scene, 0.3).await;
    let asked = tokio::spawn({
        let (mut api, ask) = (scene.api.clone(), scene.ask(""));
        async move { compress(&mut api, ask).await.unwrap().0 }
    });
    fake.wait("a question", |requests| requests.len() == 1);
    fill(&mut scene, 0.95).await;
    assert_eq!(scene.task().await.view_generation, 0, "the model did not wait");
    fake.go_on();
    let done = asked.await.unwrap();
    assert!(done.compressed && done.pressure.as_ref().unwrap().should_compress, "{done:?}");
    rewritten(&scene.api, &scene.work, done.generation).await;
    assert!(!scene.pressure().await.should_compress);
}

/// An agent that takes its time does not keep a context over its limit.
#[tokio::test(flavor = "multi_thread")]
async fn an_emergency_takes_a_compaction_away() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let mut scene = Scene::with(serve(&fake, "  summarizer: extractive\n").await, by_itself()).await;
    fill(&mut scene, 0.65).await;
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    // Until then it is left alone.
    fill(&mut scene, 0.9).await;
    assert_eq!(scene.task().await.view_generation, 0);
    fill(&mut scene, 1.01).await;
    rewritten(&scene.api, &scene.work, 0).await;
    let late = scene.commit(&begun.token, "Too late.");
    assert_eq!(reason(scene.api.commit_compaction(late).await), ErrorReason::CompactionNotFound);
}

/// Of an agent that does not work on the task any more nothing is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn another_holder_does_not_wait_for_an_agent() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let mut scene =
        Scene::with(serve(&fake, "  auto: false\n  summarizer: extractive\n").await, by_hand(100_000)).await;
    scene.talk(21).await;
    scene.begin(scene.agent("")).await.unwrap();
    let (task_uuid, lease_generation) = (scene.work.uuid.clone(), scene.work.lease);
    let pause = pb::PauseTaskRequest { task_uuid: task_uuid.clone(), lease_generation, ..Default::default() };
    scene.api.pause_task(pause).await.unwrap();
    let resume = pb::ResumeTaskRequest { task_uuid, holder: holder("b"), ..Default::default() };
    scene.work.lease = scene.api.resume_task(resume).await.unwrap().into_inner().lease_generation;
    assert_eq!(scene.work_files(), [""; 0]);
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    assert!(scene.committed(scene.commit(&begun.token, "All is well.")).await.compressed);
}

/// Tools are sent beside the view, and count when it is decided whether it is to be compressed.
#[tokio::test(flavor = "multi_thread")]
async fn tools_count() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let mut scene = Scene::with(serve(&fake, "  summarizer: extractive\n").await, by_itself()).await;
    let tool = |number: u32| json!({"type": "function", "function": {"name": format!("tool_{number}"), "description": "d".repeat(700)}});
    let tools = json!((1..=4).map(tool).collect::<Vec<_>>()).to_string();
    let without = fill(&mut scene, 0.65).await;
    assert!(!without.should_compress, "{without:?}");
    let before = scene.lines().await.len();
    let messages = sent(&mut scene, &tools).await;
    assert!(messages < before, "{messages} of {before}");
    let request =
        pb::GetContextUsageRequest { task_uuid: scene.work.uuid.clone(), tools_json: tools.clone() };
    let usage = scene.api.get_context_usage(request).await.unwrap().into_inner();
    assert!(usage.tools_tokens > 600, "{usage:?}");
    let pressure = usage.pressure.unwrap();
    assert!(pressure.ratio < 0.7, "{pressure:?}");
    // They are sent with the next request as well, so appends count them, and make room for them.
    let told = scene.append(&user("Go on.")).await.pressure.unwrap();
    assert!(told.tokens > pressure.tokens, "{told:?} after {pressure:?}");
    let mut generation = scene.task().await.view_generation;
    for number in 1..=30 {
        if scene.append(&user(&words(number))).await.pressure.unwrap().should_compress {
            generation = rewritten(&scene.api, &scene.work, generation).await;
        }
    }
    let pressure = scene.pressure().await;
    assert!(generation > 1 && pressure.ratio < 0.8, "{generation}: {pressure:?}");
    assert!(pressure.tokens > usage.tools_tokens, "{pressure:?}");
}

/// Reports of what calls cost say of how many tools, and another server knows it too.
#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_report_count() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let mut scene = Scene::with(serve(&fake, "  summarizer: extractive\n").await, by_hand(2000)).await;
    let view = fill(&mut scene, 0.5).await.tokens;
    let usage = pb::RecordUsageRequest {
        task_uuid: scene.work.uuid.clone(),
        input_tokens: view + 500,
        tools_tokens: 500,
        lease_generation: scene.work.lease,
        ..Default::default()
    };
    let told = scene.api.record_usage(usage).await.unwrap().into_inner().pressure.unwrap();
    assert_eq!(told.tokens, view + 500);
    scene.kill_and_restart().await;
    let pressure = scene.pressure().await;
    assert_eq!((pressure.tokens, pressure.should_compress), (view + 500, true));
    let done = scene
        .compressed(pb::CompressRequest { target_tokens: Some(1200), ..scene.ask_keeping("summarize", 2) })
        .await;
    assert_eq!(done.tokens_before, view + 500);
    assert!(done.tokens_after <= 1200, "{done:?}");
    assert_eq!(done.tokens_after, scene.pressure().await.tokens);
}

/// One model of a provider that fails says nothing of another.
#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_is_of_one_model() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let server =
        serve(&fake, "  auto: false\n  breaker:\n    failures: 2\n    pause: 1h\n    longest: 2h\n").await;
    let mut scene = Scene::with(server, by_hand(100_000)).await;
    scene.talk(40).await;
    let ask = |model: &str, keep| {
        let overrides = pb::CompressionConfig {
            provider: pb::Provider::Openai.into(),
            model: model.to_owned(),
            keep_recent_messages: Some(keep),
            min_messages: Some(1),
            ..Default::default()
        };
        pb::CompressRequest { overrides: Some(overrides), ..scene.ask("summarize") }
    };
    let requests = [ask("bad", 35), ask("bad", 30), ask("bad", 25), ask("good", 20)];
    fake.script(&json!({"status": 503, "times": 2}));
    fake.script(&json!({"text": "<summary>All is well.</summary>"}));
    let mut told = Vec::new();
    for request in requests {
        let done = scene.compressed(request).await;
        told.push((summarizer(&done), done.fallback_reason.contains("not asked for a while")));
    }
    let by = |name, not_asked| (name, not_asked);
    assert_eq!(
        told,
        [by("extractive", false), by("extractive", false), by("extractive", true), by("openai", false)]
    );
    assert_eq!(fake.requests().len(), 3);
    // The task's own model is neither.
    assert_eq!(scene.pressure().await.breaker().name(), "closed");
}

/// A view that cannot be written is not made again with every message, at the price of a summary each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_compression_that_fails_is_not_tried_with_every_append() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    fake.script(&json!({"text": "<summary>All of it was looked at.</summary>", "times": 100}));
    let mut scene = Scene::with(serve(&fake, "").await, by_itself()).await;
    scene.append(&user("Begin.")).await;
    // Where the new view is to be written there is something else.
    let wall = scene.server.running(&scene.work.uuid).join("current.jsonl.next");
    std::fs::create_dir(&wall).unwrap();
    let failed = |scene: &Scene| scene.server.log().matches("a view could not be compressed").count();
    fill(&mut scene, 0.7).await;
    eventually(DEADLINE, async || (failed(&scene) == 1).then_some(())).await;
    for _ in 0..5 {
        let told = scene.append(&user("Go on.")).await.pressure.unwrap();
        assert!(told.should_compress, "{told:?}");
    }
    // Another task that is compressed after it shows that it was not.
    let own = scene.work.clone();
    let request = pb::StartTaskRequest { config: Some(by_itself()), ..Default::default() };
    scene.work = start_as(&mut scene.api, request).await;
    fill(&mut scene, 0.7).await;
    rewritten(&scene.api, &scene.work, 0).await;
    assert_eq!((failed(&scene), fake.requests().len()), (1, 2));
    // On demand it is, and it is not the caller's fault.
    scene.work = own;
    let refusal = scene.compress(scene.ask("")).await.unwrap_err();
    assert_ne!(refusal.code(), tonic::Code::InvalidArgument, "{refusal:?}");
    std::fs::remove_dir(&wall).unwrap();
    // It is tried again once enough has come.
    let until = Instant::now() + DEADLINE;
    while task(&mut scene.api, &scene.work).await.view_generation == 0 {
        assert!(Instant::now() < until, "it is not tried again");
        scene.append(&user(&words(1))).await;
    }
}

/// An agent's summary that could not be put in its place can be brought again, with the same token; twice at once is once.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_can_be_brought_again() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let mut scene = Scene::with(serve(&fake, "  auto: false\n").await, by_hand(100_000)).await;
    scene.talk(21).await;
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    let commit = pb::CommitCompactionRequest {
        request_id: "mine".to_owned(),
        ..scene.commit(&begun.token, "All of it is well.")
    };
    let wall = scene.server.running(&scene.work.uuid).join("current.jsonl.next");
    std::fs::create_dir(&wall).unwrap();
    scene.api.commit_compaction(commit.clone()).await.unwrap_err();
    std::fs::remove_dir(&wall).unwrap();
    let mut others = Vec::new();
    for _ in 0..4 {
        let (mut api, commit) = (api(&scene.server).await, commit.clone());
        others.push(tokio::spawn(async move { api.commit_compaction(commit).await }));
    }
    let mut duplicates = Vec::new();
    for other in others {
        let done = other.await.unwrap().unwrap().into_inner().done.unwrap();
        assert_eq!(done.generation, 1);
        duplicates.push(done.duplicate);
    }
    duplicates.sort();
    assert_eq!(duplicates, [false, true, true, true]);
}
