//! Everything at once: appends, pins, readers, trims, forks, compressions by a slow model, by agents and by themselves, undos
//! and rewinds, on a server that is killed again and again. Nothing that was acknowledged is lost, what is pinned stays in
//! the view, nothing loops, and a slow summary gets its place in the end.
//!
//! `make test-long` runs it for 5 minutes instead of 10 seconds; `CONTEXTSTORE_SECONDS=n` sets the time, `CONTEXTSTORE_SEED=n`
//! makes a run alike.

mod actors;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use contextstore_proto::v1 as pb;
use fastrand::Rng;
use serde_json::{Value, json};

use actors::{Actor, Notes, image, reader, unsettled};
use test_support::fake_llm::FakeLlm;
use test_support::scene::{Scene, by_hand, user, words};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::{doctor, oracle};
use test_support::wire::{self, all, api, start_as, view};
use test_support::{number, sized};

const TASKS: usize = 3;
/// Tokens that the model takes.
const LIMIT: u64 = 6000;

/// A server that asks a slow model for summaries, which is slow by what its script says.
async fn slow(how: (&str, Value)) -> (FakeLlm, tempfile::NamedTempFile, TestServer) {
    let key = tempfile::NamedTempFile::new().unwrap();
    fs::write(key.path(), "sk-any").unwrap();
    let fake = FakeLlm::start();
    let text = "<summary>The work goes on as it was asked for; nothing is decided yet.</summary>";
    fake.script(&json!({"text": text, how.0: how.1, "times": u32::MAX}));
    let url = format!("{}/v1", fake.url());
    let keys = [
        ("compression.auto", "true"),
        ("llm.provider", "openai"),
        ("llm.providers.openai.api_key_file", key.path().to_str().unwrap()),
        ("llm.providers.openai.base_url", &*url),
        ("llm.providers.openai.model", "fake"),
    ];
    let server = TestServer::start_configured(&keys).await;
    (fake, key, server)
}

/// A task that is compressed by itself, and whose images are trimmed.
fn config() -> pb::TaskConfig {
    let compression = pb::CompressionConfig { max_request_bytes: Some(200_000), ..Default::default() };
    pb::TaskConfig { compression: Some(compression), ..by_hand(LIMIT) }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nothing_loops_whatever_comes_together() {
    let time = Duration::from_secs(number("CONTEXTSTORE_SECONDS").unwrap_or(sized(10, 300)));
    let seed = number("CONTEXTSTORE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("CONTEXTSTORE_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let (fake, _key, mut server) = slow(("delay_ms", json!(60))).await;
    let stop = Arc::new(AtomicBool::new(false));
    let (mut actors, mut notes) = (Vec::new(), Vec::new());
    for number in 0..TASKS {
        let mut api = api(&server).await;
        let request = pb::StartTaskRequest { config: Some(config()), ..Default::default() };
        let work = start_as(&mut api, request).await;
        let told = Arc::new(Notes::new(work.clone()));
        let actor = |kind: u64| {
            let rng = Rng::with_seed(seed ^ (number as u64 * 16 + kind));
            Actor::new(api.clone(), Arc::clone(&told), rng, Arc::clone(&stop))
        };
        actors.push(tokio::spawn(actor(0).append("a")));
        actors.push(tokio::spawn(actor(1).append("b")));
        actors.push(tokio::spawn(actor(2).compress()));
        actors.push(tokio::spawn(actor(3).take_back()));
        actors.push(tokio::spawn(reader(actor(4))));
        actors.push(tokio::spawn(actor(5).pin()));
        notes.push(told);
    }
    let (end, mut kills) = (Instant::now() + time, 0);
    while Instant::now() < end {
        let pause = Duration::from_millis(rng.u64(300..4000));
        tokio::time::sleep(pause.min(end.saturating_duration_since(Instant::now()))).await;
        server.kill();
        kills += 1;
        server.restart().await;
    }
    stop.store(true, Ordering::Relaxed);
    for actor in actors {
        actor.await.unwrap();
    }
    let mut client = api(&server).await;
    let mut published = 0;
    for task in &notes {
        published += check(&mut client, task, kills).await;
    }
    assert!(published > 0 && !fake.requests().is_empty(), "nothing was compressed");
    // A view that a crash took away is made again when it is first asked for.
    let forks = pb::ListTasksRequest { page_size: 1000, ..Default::default() };
    for fork in client.list_tasks(forks).await.unwrap().into_inner().tasks {
        let summaries = pb::StreamSummariesRequest { task_uuid: fork.uuid.clone(), ..Default::default() };
        all(client.stream_summaries(summaries).await).await.unwrap();
        let request = pb::StreamCurrentRequest { task_uuid: fork.uuid, ..Default::default() };
        assert_ne!(view(&mut client, request).await, "", "a fork is empty");
    }
    assert!(server.terminate().await.success());
    for task in &notes {
        assert_eq!(unsettled(&server, &task.work), [""; 0]);
    }
    assert_eq!(doctor(&server.data_dir()), None);
    assert_eq!(oracle(&server.data_dir()), None);
}

/// What is in a message that nothing else has.
fn mark_of(message: &Value) -> String {
    let parts = message["content"].as_array().and_then(|parts| parts.last());
    let text = parts.map_or(&message["content"], |part| &part["text"]).as_str().unwrap_or_default();
    // A result that came too late for its call is shown as text.
    let late = text.strip_prefix("[Tool: ").and_then(|rest| rest.split_once("] "));
    let text = late.map_or(text, |(_, text)| text);
    text.split_inclusive('>').next().unwrap_or_default().to_owned()
}

/// Everything that was acknowledged is in the log, once, and the view was not rewritten without need. Answers how often it
/// was compressed.
async fn check(api: &mut wire::Api, notes: &Notes, kills: u64) -> u64 {
    let request = pb::StreamMessagesRequest {
        kinds: vec![pb::RecordKind::Message.into(), pb::RecordKind::Rewrite.into()],
        ..notes.work.messages()
    };
    let batches = all(api.stream_messages(request).await).await.unwrap();
    let lines: Vec<Value> = batches
        .into_iter()
        .flat_map(|batch| batch.records)
        .map(|line| serde_json::from_slice(&line).unwrap())
        .collect();
    let (messages, rewrites): (Vec<&Value>, Vec<&Value>) =
        lines.iter().partition(|line| line["role"].is_string());
    let acknowledged = notes.acknowledged.lock().unwrap().clone();
    let marks: Vec<String> = messages.iter().map(|message| mark_of(message)).collect();
    let mut copies: HashMap<&str, u64> = HashMap::new();
    marks.iter().for_each(|mark| *copies.entry(mark).or_default() += 1);
    for (seq, mark) in &acknowledged {
        assert_eq!(&marks[usize::try_from(*seq).unwrap() - 1], mark, "message {seq}");
        assert_eq!(copies[&**mark], 1, "{mark} is there more than once");
    }
    let count = |is: &dyn Fn(&Value) -> bool| rewrites.iter().filter(|line| is(line)).count() as u64;
    let by_itself = count(&|line| line["reason"] == "automatic");
    let asked = count(&|line| line["reason"] == "asked for");
    let back = count(&|line| line["strategy"] == "undo" || line["strategy"] == "rewind");
    let tokens = notes.tokens.load(Ordering::Relaxed);
    println!(
        "{} messages of {tokens} tokens, {kills} kills; compressed {by_itself} times by itself, {asked} times when asked \
         for; taken back {back} times, {} rewrites in all",
        acknowledged.len(),
        rewrites.len()
    );
    // Each time there was something new, or somebody had taken something back, or all was forgotten.
    assert!(by_itself <= tokens * 3 / LIMIT + back + kills + 5, "it loops");
    let current = view(api, notes.work.current()).await;
    let shown: HashSet<String> =
        current.lines().map(|line| mark_of(&serde_json::from_str(line).unwrap())).collect();
    let pins = notes.pins.read().await.lock().unwrap().clone();
    let gone: Vec<&String> = pins.values().filter(|mark| !shown.contains(*mark)).collect();
    assert!(gone.is_empty(), "{gone:?} of {pins:?} are pinned and not in the view: {current}");
    by_itself + asked
}

/// A summary that takes long is put in its place although messages come and images are trimmed all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_summary_is_published_in_the_end() {
    let (fake, _key, server) = slow(("fault", json!("wait_mid_stream"))).await;
    // It is never over its limit: then nobody would wait for the model.
    let mut config = config();
    config.context_length = Some(100 * LIMIT);
    config.compression.as_mut().unwrap().token_threshold = Some(LIMIT / 2);
    let mut scene = Scene::with(server, config).await;
    while !scene.append(&user(&words(1))).await.pressure.unwrap().should_compress {}
    fake.wait("a question", |requests| !requests.is_empty());
    let mut appended = 0;
    let trimmed = async |scene: &mut Scene| {
        let request = pb::StreamMessagesRequest {
            kinds: vec![pb::RecordKind::Rewrite.into()],
            ..scene.work.messages()
        };
        let batches = all(scene.api.stream_messages(request).await).await.unwrap();
        let lines = batches.into_iter().flat_map(|batch| batch.records);
        lines
            .map(|line| serde_json::from_slice::<Value>(&line).unwrap()["strategy"].clone())
            .collect::<Vec<_>>()
    };
    let (end, mut trims) = (Instant::now() + DEADLINE, 0);
    let rewrites = loop {
        scene.append_all(&[image(appended), test_support::scene::assistant("An image.")]).await;
        appended += 1;
        let rewrites = trimmed(&mut scene).await;
        if rewrites.iter().any(|strategy| strategy == "summarize") {
            break rewrites;
        }
        // Each answer takes until something was trimmed once more.
        if rewrites.len() > trims {
            trims = rewrites.len();
            fake.go_on();
        }
        assert!(Instant::now() < end, "there is no summary after {appended} images: {rewrites:?}");
    };
    assert_eq!(rewrites[0], "trim", "{rewrites:?} after {appended} images");
    let latest = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
    let latest = scene.api.get_latest_summary(latest).await.unwrap().into_inner().summary.unwrap();
    assert_eq!(latest.model, "fake", "{latest:?}");
    // The next compression may have begun, and waits for its answer.
    eventually(DEADLINE, async || {
        fake.go_on();
        scene.work_files().is_empty().then_some(())
    })
    .await;
}
