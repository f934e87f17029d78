//! Compression that nobody asks for: when it comes, when it does not, and that it does not come again and again.

use contextstore_proto::v1 as pb;
use serde_json::json;

use test_support::scene::{Scene, by_hand, content, user, words};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service;
use test_support::wire::{Api, Work, say, start_as, task};

/// A task that is compressed by itself when it has 700 tokens.
fn by_itself(context_length: u64) -> pb::TaskConfig {
    let config = by_hand(context_length);
    let compression =
        pb::CompressionConfig { auto: Some(true), min_messages: Some(2), ..config.compression.unwrap() };
    pb::TaskConfig { compression: Some(compression), ..by_hand(context_length) }
}

/// Waits until the view is another one, and answers its generation.
async fn rewritten(api: &Api, work: &Work, since: u64) -> u64 {
    eventually(DEADLINE, async || {
        let generation = task(&mut api.clone(), work).await.view_generation;
        (generation > since).then_some(generation)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_grows_is_compressed_in_time() {
    let mut scene = Scene::with(TestServer::start().await, by_itself(1000)).await;
    scene.append(&json!({"role": "system", "content": "Be brief."})).await;
    let mut generation = 0;
    for number in 2..=100 {
        let told = scene.append(&user(&words(number))).await.pressure.unwrap();
        if told.should_compress {
            generation = rewritten(&scene.api, &scene.work, generation).await;
            let pressure = scene.pressure().await;
            assert!(!pressure.should_compress && !pressure.incompressible, "{pressure:?}");
            assert_eq!(pressure.stage().name(), "normal");
        }
    }
    // Each of them made room for several messages.
    assert!((5..=33).contains(&generation), "{generation}");
    assert_eq!(scene.log().await.len(), 100);
    let lines = scene.lines().await;
    assert!(content(&lines[0]) == "Be brief." && content(&lines[1]).starts_with("[Summary of messages 2–"));
    eventually(DEADLINE, async || scene.work_files().is_empty().then_some(())).await;
}

/// What the provider charged tells that there is more than was counted.
#[tokio::test(flavor = "multi_thread")]
async fn usage_that_is_reported_counts() {
    let mut scene = Scene::with(TestServer::start().await, by_itself(1400)).await;
    scene.talk(20).await;
    let before = scene.pressure().await;
    assert!(!before.should_compress, "{before:?}");
    let usage = pb::RecordUsageRequest {
        task_uuid: scene.work.uuid.clone(),
        input_tokens: before.tokens * 2,
        output_tokens: 10,
        lease_generation: scene.work.lease,
        ..Default::default()
    };
    let told = scene.api.record_usage(usage).await.unwrap().into_inner().pressure.unwrap();
    assert!(told.should_compress, "{told:?}");
    rewritten(&scene.api, &scene.work, 0).await;
    assert!(!scene.pressure().await.should_compress);
}

/// One report that the context is nearly full is enough, also for a server that was started since.
#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_reported_to_be_nearly_full_is_compressed_at_once() {
    for strategy in ["summarize", "compact", "prune", "window"] {
        let config = pb::TaskConfig {
            compression: Some(pb::CompressionConfig {
                strategy: pb::CompressionStrategy::from_name(strategy).unwrap_or_default().into(),
                auto: Some(false),
                ..Default::default()
            }),
            ..by_hand(3000)
        };
        let mut scene = Scene::with(TestServer::start().await, config.clone()).await;
        scene.talk(40).await;
        let before = scene.pressure().await;
        assert!(before.ratio < 0.6, "{strategy}: {before:?}");
        let report = |scene: &Scene, input_tokens| pb::RecordUsageRequest {
            task_uuid: scene.work.uuid.clone(),
            input_tokens,
            lease_generation: scene.work.lease,
            ..Default::default()
        };
        let charged = before.tokens * 17 / 10;
        let told = scene.api.record_usage(report(&scene, charged)).await.unwrap().into_inner();
        assert_eq!(told.pressure.unwrap().tokens, charged, "{strategy}");
        let told = scene.append(&user(&words(41))).await;
        let now = told.pressure.unwrap();
        assert!(now.tokens >= charged + told.tokens && now.should_compress, "{strategy}: {now:?}");
        scene.kill_and_restart().await;
        assert_eq!(scene.pressure().await.tokens, now.tokens, "{strategy}");
        assert_eq!(scene.task().await.view_generation, 0);

        // It is what the view is measured by, and of the new one nothing is reported yet.
        let compression = pb::CompressionConfig { auto: Some(true), ..config.compression.clone().unwrap() };
        scene.update(pb::TaskConfig { compression: Some(compression), ..config }).await;
        scene.api.record_usage(report(&scene, now.tokens)).await.unwrap();
        rewritten(&scene.api, &scene.work, 0).await;
        let after = scene.pressure().await;
        assert!(!after.should_compress && after.tokens < now.tokens, "{strategy}: {after:?}");
        // However far it is from what is counted, the provider has the last word.
        let told = scene.api.record_usage(report(&scene, 50 * before.tokens)).await.unwrap().into_inner();
        assert_eq!(told.pressure.unwrap().tokens, 50 * before.tokens, "{strategy}");
    }
}

/// Streams of appends are looked at too.
#[tokio::test(flavor = "multi_thread")]
async fn streams_of_appends_are_compressed() {
    let mut scene = Scene::with(TestServer::start().await, by_itself(1000)).await;
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let mut answers = {
        let (mut api, stream) = (scene.api.clone(), tokio_stream::wrappers::ReceiverStream::new(receiver));
        let opened = tokio::spawn(async move { api.append_messages(stream).await.unwrap().into_inner() });
        sender.send(next(&scene.work, 1)).await.unwrap();
        opened.await.unwrap()
    };
    let mut generation = 0;
    let mut number = 1;
    while generation < 3 {
        let answer = answers.message().await.unwrap().unwrap();
        if answer.responses[0].pressure.is_some_and(|pressure| pressure.should_compress) {
            generation = rewritten(&scene.api, &scene.work, generation).await;
        }
        number += 1;
        sender.send(next(&scene.work, number)).await.unwrap();
    }
    assert!(!scene.pressure().await.incompressible);
}

fn next(work: &Work, number: u64) -> pb::AppendMessagesRequest {
    let message = user(&words(number)).to_string();
    test_support::wire::piped(work.json(message))
}

/// Tasks that are not to be compressed by themselves are not, though others are; on demand they are.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_only_reported_where_nothing_else_is_wanted() {
    let server = TestServer::start_configured(&[("compression.max_at_once", "1")]).await;
    let mut scene = Scene::with(server, by_itself(1000)).await;
    for compression in [
        pb::CompressionConfig { enabled: Some(false), ..Default::default() },
        pb::CompressionConfig { auto: Some(false), ..Default::default() },
    ] {
        let config = pb::TaskConfig { compression: Some(compression), ..by_hand(1000) };
        let request = pb::StartTaskRequest { config: Some(config), ..Default::default() };
        let left_alone = start_as(&mut scene.api, request).await;
        for number in 1..=40 {
            say(&mut scene.api, &left_alone, &words(number)).await;
        }
        // They are compressed one after the other: one that comes later is done, so this one would be.
        let generation = scene.task().await.view_generation;
        while !scene.append(&user(&words(1))).await.pressure.unwrap().should_compress {}
        rewritten(&scene.api, &scene.work, generation).await;

        let theirs = std::mem::replace(&mut scene.work, left_alone);
        let pressure = scene.pressure().await;
        assert!(pressure.should_compress && pressure.stage().name() == "emergency", "{pressure:?}");
        assert_eq!(scene.task().await.view_generation, 0);
        let done = scene.compressed(scene.ask("")).await;
        assert!(done.emergency, "{done:?}");
        assert!(!scene.pressure().await.should_compress);
        scene.work = theirs;
    }
}

/// What cannot be made smaller is tried once, and not again until there is more.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_cannot_shrink_is_not_tried_again_and_again() {
    let server =
        TestServer::start_configured(&[("log.level", "debug"), ("compression.max_at_once", "1")]).await;
    let mut scene = Scene::with(server, by_itself(1000)).await;
    scene.append(&json!({"role": "system", "content": "Always be careful. ".repeat(150)})).await;
    let tries = |scene: &Scene| {
        let log = scene.server.log();
        log.lines()
            .filter(|line| line.contains("a view was not compressed") && line.contains("incompressible"))
            .count()
    };
    eventually(DEADLINE, async || (tries(&scene) == 1).then_some(())).await;
    assert!(scene.pressure().await.incompressible);
    // Small messages do not make it worth another try; a tenth of the limit does.
    let (mut rounds, mut appended) = (0, 0);
    while tries(&scene) == 1 && rounds < 100 {
        let told = scene.append(&user("Go on.")).await.pressure.unwrap();
        assert!(told.should_compress && told.incompressible, "{told:?}");
        appended = told.tokens;
        rounds += 1;
    }
    assert!((5..100).contains(&rounds), "{rounds}, {appended}");
    assert_eq!(scene.task().await.view_generation, 0);
}

/// A threshold that every view passes does not have each message compressed.
#[tokio::test(flavor = "multi_thread")]
async fn a_tiny_threshold_compresses_once_in_a_while() {
    let compression = pb::CompressionConfig {
        auto: Some(true),
        token_threshold: Some(4),
        min_messages: Some(1),
        keep_recent_messages: Some(0),
        ..Default::default()
    };
    let config = pb::TaskConfig { compression: Some(compression), ..by_hand(128_000) };
    let mut scene = Scene::with(TestServer::start().await, config).await;
    let mut tokens = 0;
    for number in 1..=80 {
        tokens += scene.append(&user(&words(number))).await.tokens;
    }
    let generation = rewritten(&scene.api, &scene.work, 0).await;
    assert!(generation <= tokens / 500, "{generation} times in {tokens} tokens");
}

/// Where the system prompt alone passes the threshold, the limit of the model gives a summary its room.
#[tokio::test(flavor = "multi_thread")]
async fn a_threshold_below_the_system_prompt_does_not_wipe_the_history() {
    let compression =
        pb::CompressionConfig { auto: Some(true), token_threshold: Some(2000), ..Default::default() };
    let config = pb::TaskConfig { compression: Some(compression), ..by_hand(128_000) };
    let mut scene = Scene::with(TestServer::start().await, config).await;
    scene.append(&json!({"role": "system", "content": "Always be careful. ".repeat(550)})).await;
    let mut number = 0;
    while scene.task().await.view_generation == 0 {
        number += 1;
        assert!(number < 400, "it is never compressed");
        let told = scene.append(&user(&words(number))).await.pressure.unwrap();
        assert!(told.should_compress, "{told:?}");
    }
    let request = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
    let latest = scene.api.get_latest_summary(request).await.unwrap().into_inner().summary.unwrap();
    assert!(latest.summary_tokens > 1000, "{latest:?}");
    assert!(latest.original_tokens - latest.summary_tokens > 3500, "{latest:?}");
    let pressure = scene.pressure().await;
    assert!(pressure.incompressible && pressure.ratio < 0.1, "{pressure:?}");
    // Nor is it compressed again for little.
    let first = number;
    while scene.task().await.view_generation == 1 {
        number += 1;
        assert!(number < 800, "it is never compressed again");
        scene.append(&user(&words(number))).await;
    }
    assert!(number - first > 40, "{first}, {number}");
}

/// What was taken back stays for a while, unless the context is over its limit.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_holds_it_up() {
    let server = TestServer::start_configured(&[("compression.max_at_once", "1")]).await;
    let mut scene = Scene::with(server, by_itself(2000)).await;
    let mut number = 0;
    while !scene.append(&user(&words(number))).await.pressure.unwrap().should_compress {
        number += 1;
    }
    rewritten(&scene.api, &scene.work, 0).await;
    let undone = scene.undo().await.unwrap();
    let held = undone.pressure.unwrap();
    assert!(held.should_compress, "{held:?}");
    // Less than a tenth of the limit does not bring it back.
    let told = scene.append(&user(&words(1))).await.pressure.unwrap();
    assert!(told.should_compress && told.tokens < held.tokens + 200, "{told:?}");
    let other = start_as(
        &mut scene.api,
        pb::StartTaskRequest { config: Some(by_itself(1000)), ..Default::default() },
    )
    .await;
    for number in 1..=25 {
        say(&mut scene.api, &other, &words(number)).await;
    }
    rewritten(&scene.api, &other, 0).await;
    assert_eq!(scene.task().await.view_generation, undone.generation);
    for number in 1..=5 {
        scene.append(&user(&words(number))).await;
    }
    rewritten(&scene.api, &scene.work, undone.generation).await;
}

/// What is counted has its names.
#[tokio::test(flavor = "multi_thread")]
async fn compressions_are_counted() {
    let mut scene = Scene::with(service::serve("").await, by_hand(100_000)).await;
    scene.talk(21).await;
    scene.compressed(scene.ask("summarize")).await;
    let metric = |name: &str| service::metric(&scene.server, name);
    assert!(metric("context_compression_duration_seconds_count{strategy=\"summarize\"}") >= 1.0);
    assert!(metric("context_summaries_total{task_source=\"none\"}") >= 1.0);
    assert!(metric("context_compression_failures_total{reason=\"store\"}") < 1.0);
}
