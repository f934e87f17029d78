//! A model that summarises and fails, for long: it is asked less and less, that is told everywhere, and agents work on. And
//! one that is slow: what may come in between, and what is left when the server dies meanwhile. What becomes of each single
//! failure is in compress_llm.rs.

mod slow;

use std::fs;
use std::path::Path;

use contextstore_proto::v1 as pb;
use pb::ErrorReason;
use serde_json::json;

use test_support::fake_llm::FakeLlm;
use test_support::scene::{Scene, by_hand, compress, content, summarizer, user, words};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::metric;
use test_support::wire::{api, files, reason, task};
use test_support::{scene, service};

const KEY: &str = "sk-test-5d20e7c1";

/// A server that asks the fake for summaries, with more settings.
async fn serve(fake: &FakeLlm, compression: &str) -> TestServer {
    let root = tempfile::tempdir().unwrap();
    let key = root.path().join("key");
    fs::write(&key, KEY).unwrap();
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let settings = format!(
        "log:\n  level: debug\nllm:\n  provider: openai\n  retries: 0\n  providers:\n    openai:\n      base_url: {}/v1\n      \
         api_key_file: {}\n      model: fake\ncompression:\n{compression}",
        fake.url(),
        key.display()
    );
    service::serve_in(root, &settings).await
}

/// A task of 2000 tokens that is compressed by itself.
fn by_itself() -> pb::TaskConfig {
    let compression = pb::CompressionConfig { min_messages: Some(2), ..Default::default() };
    pb::TaskConfig { compression: Some(compression), ..by_hand(2000) }
}

fn show(server: &TestServer, uuid: &str) -> String {
    let socket = format!("unix:{}", server.socket().display());
    let (code, out, err) = TestServer::run(&["show", uuid, "--address", &socket], &[]);
    assert_eq!(code, 0, "{err}");
    out
}

/// With the model down for many compressions, an agent does not notice; everybody who looks does.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_down_is_left_alone_and_agents_work_on() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    fake.script(&json!({"status": 503, "times": 1_000_000}));
    let server = serve(&fake, "  breaker:\n    failures: 3\n    pause: 1h\n    longest: 2h\n").await;
    let mut scene = Scene::with(server, by_itself()).await;
    assert_eq!(scene.pressure().await.breaker().name(), "closed");
    let (mut generation, mut number) = (0, 0);
    while generation < 20 {
        number += 1;
        let told = scene.append(&user(&words(number))).await.pressure.unwrap();
        assert!(told.ratio < 1.0, "{told:?}");
        if told.should_compress {
            let (api, work) = (scene.api.clone(), scene.work.clone());
            generation = eventually(DEADLINE, async || {
                let found = task(&mut api.clone(), &work).await.view_generation;
                (found > generation).then_some(found)
            })
            .await;
            assert!(!scene.pressure().await.should_compress);
        }
    }
    // It was asked three times, and no more.
    assert_eq!(fake.requests().len(), 3);
    assert_eq!(scene.log().await.len() as u64, number);
    let pressure = scene.pressure().await;
    assert_eq!(pressure.breaker().name(), "open");
    let (done, steps) = scene.compress(scene.ask_keeping("summarize", 1)).await.unwrap();
    assert!(done.compressed && summarizer(&done) == "extractive", "{done:?}");
    assert!(done.fallback_reason.contains("not asked for a while"), "{done:?}");
    assert_eq!(done.pressure.unwrap().breaker().name(), "open");
    assert!(steps.iter().any(|step| step.attempt == 3), "{steps:?}");
    eventually(DEADLINE, async || {
        (metric(&scene.server, "contextstore_breaker_open{provider=\"openai\"}") > 0.5).then_some(())
    })
    .await;
    let failures = metric(&scene.server, "context_compression_failures_total{reason=\"summarizer\"}");
    assert!(failures >= 3.0, "{failures}");
    let shown = show(&scene.server, &scene.work.uuid);
    assert!(shown.lines().any(|line| line.contains("breaker") && line.contains("open")), "{shown}");
    // Who summarises without a model is not told of one.
    let overrides =
        pb::CompressionConfig { summarizer: pb::Summarizer::Extractive.into(), ..Default::default() };
    let request = pb::CompressRequest { overrides: Some(overrides), ..scene.ask("summarize") };
    let (done, _) = scene.compress(request).await.unwrap();
    assert_eq!(done.fallback_reason, "");
    assert_nothing_tells_the_key(&scene.server);
}

/// After a while it is asked again, and if it is well again all is.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_back_is_asked_again() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    fake.script(&json!({"status": 503, "times": 2}));
    let server = serve(&fake, "  breaker:\n    failures: 2\n    pause: 300ms\n").await;
    let mut scene = Scene::with(server, by_hand(100_000)).await;
    scene.talk(40).await;
    for keep in [30, 25] {
        scene.compressed(scene.ask_keeping("summarize", keep)).await;
    }
    eventually(DEADLINE, async || {
        let request = pb::GetContextUsageRequest { task_uuid: scene.work.uuid.clone(), ..Default::default() };
        let usage = scene.api.clone().get_context_usage(request).await.unwrap().into_inner();
        (usage.pressure.unwrap().breaker().name() == "closed").then_some(())
    })
    .await;
    fake.script(&json!({"text": "<summary>All is well again.</summary>"}));
    let done = scene.compressed(scene.ask_keeping("summarize", 5)).await;
    assert_eq!((summarizer(&done), done.fallback_reason.as_str()), ("openai", ""));
    eventually(DEADLINE, async || {
        (metric(&scene.server, "contextstore_breaker_open{provider=\"openai\"}") < 0.5).then_some(())
    })
    .await;
}

/// The key is nowhere: not in what the server says, not in what it keeps.
fn assert_nothing_tells_the_key(server: &TestServer) {
    assert!(!server.log().contains(KEY));
    for (path, bytes) in files(&server.data_dir().join("running")) {
        let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!found, "{} has the key", path.display());
    }
}

/// Over its limit there is no time to ask anybody.
#[tokio::test(flavor = "multi_thread")]
async fn in_an_emergency_no_model_is_asked() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let server = serve(&fake, "  auto: false\n").await;
    let mut scene = Scene::with(server, by_hand(500)).await;
    scene.talk(30).await;
    let done = scene.compressed(scene.ask("")).await;
    assert!(done.emergency && summarizer(&done) == "extractive", "{done:?}");
    assert!(done.fallback_reason.contains("over its limit"), "{done:?}");
    assert!(fake.requests().is_empty());
    // That is no failure of the model.
    assert_eq!(scene.pressure().await.breaker().name(), "closed");
}

/// While a model takes its time: no second compression, appends go on and are kept, and an undo makes the summary worthless.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_come_while_a_model_takes_its_time() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let server = serve(&fake, "  auto: false\n").await;
    let mut scene = Scene::with(server, by_hand(100_000)).await;
    scene.talk(40).await;
    for interfere in [false, true] {
        let text = format!("<summary>Slowly but surely, {interfere}, it was all looked at.</summary>");
        if interfere {
            let window = pb::WindowConfig { messages: Some(30), ..Default::default() };
            scene.compressed(pb::CompressRequest { window: Some(window), ..scene.ask("window") }).await;
        }
        let before = scene.lines().await;
        fake.reset();
        fake.script(&json!({"text": text, "fault": "wait_mid_stream"}));
        let (mut other, request) = (api(&scene.server).await, scene.ask_keeping("summarize", 5));
        let compressing = tokio::spawn(async move { compress(&mut other, request).await });
        fake.wait("a question", |requests| !requests.is_empty());
        assert_eq!(reason(scene.compress(scene.ask("")).await), ErrorReason::RewriteInFlight);
        assert_eq!(reason(scene.begin(scene.agent("")).await), ErrorReason::RewriteInFlight);
        scene.append(&user("meanwhile")).await;
        if interfere {
            scene.undo().await.unwrap();
            fake.go_on();
            assert_eq!(reason(compressing.await.unwrap()), ErrorReason::StaleView);
            assert!(!scene.lines().await.iter().any(|line| content(line).contains("surely, true")));
        } else {
            scene.pin(9).await;
            fake.go_on();
            let (done, steps) = compressing.await.unwrap().unwrap();
            assert_eq!((summarizer(&done), done.model.as_str()), ("openai", "fake"));
            // How much of the summary is there is told while it comes.
            assert!(steps.iter().filter(|step| step.summary_tokens > 0).count() > 2, "{steps:?}");
            let after = scene.lines().await;
            // What was pinned meanwhile stays.
            assert_eq!(content(&after[1]), words(9));
            assert_eq!(after[3..after.len() - 1], before[before.len() - 5..]);
            assert_eq!(content(after.last().unwrap()), "meanwhile");
            for number in 50..90 {
                scene.append(&user(&words(number))).await;
            }
        }
        assert_eq!(scene.work_files(), [""; 0]);
    }
}

/// A server that dies while a model is asked leaves the view as it was, and nothing lying around.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_meanwhile_leaves_nothing_behind() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let server = serve(&fake, "  auto: false\n").await;
    let mut scene = Scene::with(server, by_hand(100_000)).await;
    scene.talk(40).await;
    let before = scene.lines().await;
    for is_killed in [true, false] {
        fake.reset();
        fake.script(&json!({"fault": "hang_before_headers"}));
        let (mut other, request) = (api(&scene.server).await, scene.ask(""));
        let compressing = tokio::spawn(async move { compress(&mut other, request).await });
        fake.wait("a question", |requests| !requests.is_empty());
        let there = scene.work_files();
        for name in ["summary_request.json", "to_summarize.jsonl", "unsummarized.jsonl"] {
            assert!(there.iter().any(|found| found == name), "{there:?}");
        }
        assert!(is_private(&scene.server.running(&scene.work.uuid).join("summary_request.json")));
        if is_killed {
            scene.kill_and_restart().await;
        } else {
            scene.server.restart().await;
            scene.api = api(&scene.server).await;
        }
        compressing.await.unwrap().unwrap_err();
        assert_eq!(scene.lines().await, before);
        assert_eq!(scene.work_files(), [""; 0]);
    }
    assert_nothing_tells_the_key(&scene.server);
}

fn is_private(path: &Path) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o077 == 0
}

/// A model that writes more than it was asked for does not make the view larger than it was to be.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_summary_keeps_to_what_was_asked_for() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let server = serve(&fake, "  auto: false\n").await;
    let mut scene = Scene::with(server, by_hand(100_000)).await;
    scene.talk(80).await;
    // One and a half times what there is room for.
    fake.script(&json!({"text": format!("<summary>{}</summary>", "word ".repeat(900)), "times": 2}));
    let request = pb::CompressRequest { target_tokens: Some(1000), ..scene.ask("summarize") };
    let done = scene.compressed(request).await;
    assert!(done.tokens_after <= 1000, "{done:?}");
}

/// Only gaps that get a summary are asked for.
#[tokio::test(flavor = "multi_thread")]
async fn short_gaps_are_not_asked_for() {
    let fake = FakeLlm::start_with(&["--key", KEY]);
    let server = serve(&fake, "  auto: false\n").await;
    let mut scene = Scene::with(server, by_hand(4000)).await;
    scene.talk(20).await;
    let mut number = 21;
    while scene.pressure().await.ratio < 0.93 {
        let text = words(number);
        let message = if number % 2 == 0 { user(&text) } else { scene::assistant(&text) };
        scene.append(&message).await;
        number += 1;
    }
    fake.script(&json!({"text": r#"{"gaps":[{"gap":1,"summary":"All parts were looked at."}]}"#}));
    let done = scene.compressed(scene.ask("prune")).await;
    assert_eq!(summarizer(&done), "openai", "{done:?}");
    let lines = scene.lines().await;
    let gaps: Vec<String> =
        lines.iter().map(|line| content(line)).filter(|text| text.contains("omitted")).collect();
    let is_long = |text: &String| text[1..].split(' ').next().unwrap().parse::<u64>().unwrap() >= 5;
    let long: Vec<&String> = gaps.iter().filter(|text| is_long(text)).collect();
    assert!(!long.is_empty() && long.len() < gaps.len(), "{gaps:?}");
    assert!(long[0].ends_with("]\nAll parts were looked at."), "{gaps:?}");
    let asked = fake.body(fake.requests().last().unwrap()["number"].as_u64().unwrap());
    assert_eq!(asked.matches("[gap ").count(), long.len(), "{asked}");
}
