//! Contexts that a model does not take: the limit of the one that is asked counts, and a refusal teaches.

use contextstore_proto::v1::{self as pb, ErrorReason};
use serde_json::{Value, json};

use super::{PROVIDERS, Scene};
use test_support::wire::{all, start_as, task, why};

/// What a model takes that refuses more.
const TAKES: u64 = 6_000;
const MESSAGES: u64 = 200;

/// Whether a provider states what it takes when it refuses more.
fn states_its_limit(provider: &str) -> bool {
    matches!(provider, "openai" | "anthropic" | "lmstudio")
}

/// Compressed by itself, if nothing else is said, and counted by length alone.
fn by_itself(config: pb::TaskConfig) -> pb::TaskConfig {
    let compression = pb::CompressionConfig { auto: Some(true), ..Default::default() };
    let compression = config.compression.or(Some(compression));
    pb::TaskConfig { token_counter: pb::TokenCounter::Heuristic.into(), compression, ..config }
}

/// A task with about 9 000 tokens in it, more than a model takes and less than the server knows of.
async fn long_talk(scene: &mut Scene, config: pb::TaskConfig) {
    let request = pb::StartTaskRequest { config: Some(by_itself(config)), ..Default::default() };
    scene.work = start_as(&mut scene.api, request).await;
    for number in 0..MESSAGES {
        let text = format!("Step {number}: look at src/part{number}.rs. {}", "It is long. ".repeat(12));
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        let message = json!({"role": role, "content": text}).to_string();
        scene.api.append_message(scene.work.json(message)).await.unwrap();
    }
}

async fn pressure(scene: &mut Scene) -> pb::Pressure {
    let request = pb::GetContextUsageRequest { task_uuid: scene.work.uuid.clone(), ..Default::default() };
    scene.api.get_context_usage(request).await.unwrap().into_inner().pressure.unwrap()
}

fn knows_much() -> pb::TaskConfig {
    pb::TaskConfig { context_length: Some(100_000), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_refused_as_too_long_is_compressed_and_sent_once_more() {
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[]).await;
        long_talk(&mut scene, knows_much()).await;
        let before = pressure(&mut scene).await;
        assert!(before.tokens > TAKES && before.limit_source().name() == "task", "{before:?}");
        scene.fake.script(&json!({"takes": TAKES, "times": 9}));
        let heard = scene.chat(scene.ask(provider, "And now?")).await;
        heard.whole();
        let requests = scene.fake.requests();
        let bytes: Vec<u64> = requests.iter().map(|request| request["bytes"].as_u64().unwrap()).collect();
        assert!((2..=3).contains(&bytes.len()) && bytes[1] < bytes[0] / 4 * 3, "{provider}: {bytes:?}");
        let after = pressure(&mut scene).await;
        assert_eq!(after.limit_source().name(), "provider", "{provider}");
        assert!(after.tokens <= after.limit, "{provider}: {after:?}");
        if states_its_limit(provider) {
            assert_eq!(after.limit, TAKES, "{provider}");
        } else {
            assert!(after.limit < before.tokens, "{provider}: {after:?}");
        }
        // What went from the view is in the log, and what was asked is there once.
        let log = scene.log().await;
        assert_eq!(log.len() as u64, MESSAGES + 2, "{provider}");
        assert_eq!(log[log.len() - 2]["content"], "And now?");
        assert_eq!(scene.request_files(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_made_smaller_twice_and_not_again() {
    let mut scene = Scene::new(&[]).await;
    long_talk(&mut scene, knows_much()).await;
    let words =
        "This model's maximum context length is 6000 tokens. However, your messages resulted in 9123 tokens.";
    scene.fake.script(&json!({"status": 400, "message": words, "times": 9}));
    let heard = scene.chat(scene.ask("openai", "And now?")).await;
    assert_eq!(why(heard.error.as_ref().unwrap()).reason, ErrorReason::ProviderRefused);
    assert!((2..=3).contains(&scene.fake.requests().len()));
    // A refusal for another reason is told at once.
    scene.fake.reset();
    scene.fake.script(&json!({"status": 400, "message": "no such tool"}));
    let heard = scene.chat(scene.ask("openai", "")).await;
    assert!(why(heard.error.as_ref().unwrap()).words.contains("no such tool"));
    assert_eq!(scene.fake.requests().len(), 1);
}

/// A file with so many bytes of which no page can be seen: it is counted as one page, whatever it takes.
fn packed_pdf(bytes: usize) -> Value {
    let data = format!("%PDF-1.7\n{}", "x".repeat(bytes));
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, data);
    json!({"type": "file", "file": {"filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{data}")}})
}

/// A limit that is above what is counted says that the count is wrong. Files go first, and nothing else if that is enough.
#[tokio::test(flavor = "multi_thread")]
async fn files_go_before_words_and_the_limit_stays_what_the_model_states() {
    for provider in ["openai", "anthropic"] {
        let mut scene = Scene::new(&[]).await;
        let request = pb::StartTaskRequest { config: Some(by_itself(knows_much())), ..Default::default() };
        scene.work = start_as(&mut scene.api, request).await;
        let file = json!([{"type": "text", "text": "Read this."}, packed_pdf(100_000)]);
        for (role, content) in [("user", file), ("assistant", json!("I have read it."))] {
            let message = json!({"role": role, "content": content}).to_string();
            scene.api.append_message(scene.work.json(message)).await.unwrap();
        }
        for number in 0..40 {
            let text = format!("Step {number}: {}", "It is long. ".repeat(12));
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            let message = json!({"role": role, "content": text}).to_string();
            scene.api.append_message(scene.work.json(message)).await.unwrap();
        }
        let before = pressure(&mut scene).await;
        assert!(before.tokens < 6000, "{before:?}");
        scene.fake.script(&json!({"takes": 20_000, "times": 9}));
        scene.chat(scene.ask(provider, "What does the file say?")).await.whole();
        let requests = scene.fake.requests();
        assert_eq!(requests.len(), 2, "{provider}");
        let body = scene.fake.body(requests[1]["number"].as_u64().unwrap());
        assert!(body.contains("What does the file say?") && body.contains("Step 0:"), "{provider}: {body}");
        assert!(body.contains("file left out") && !body.contains("JVBER"), "{provider}: {body}");
        let after = pressure(&mut scene).await;
        assert_eq!((after.limit, after.limit_source().name()), (20_000, "provider"), "{provider}");
        assert!(after.tokens < after.limit / 2, "{provider}: {after:?}");
    }
}

/// What cannot be shed is counted as the model counts it, and refusals do not lower the limit that it states.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_above_the_count_corrects_the_count() {
    let mut scene = Scene::new(&[]).await;
    long_talk(&mut scene, knows_much()).await;
    let before = pressure(&mut scene).await;
    let message = "prompt is too long: 40000 tokens > 30000 maximum";
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    scene.fake.script(&json!({"status": 400, "body": body, "times": 3}));
    let heard = scene.chat(scene.ask("anthropic", "And now?")).await;
    assert_eq!(why(heard.error.as_ref().unwrap()).reason, ErrorReason::ProviderRefused);
    let after = pressure(&mut scene).await;
    assert_eq!(after.limit, 30_000, "{after:?}");
    let last = scene.fake.requests().last().unwrap()["number"].as_u64().unwrap();
    assert!(scene.fake.body(last).contains("And now?"));
    // A context that is larger and is taken all the same takes the limit back.
    scene.fake.reset();
    scene.chat(scene.ask("anthropic", "")).await.whole();
    let report = pb::RecordUsageRequest {
        task_uuid: scene.work.uuid.clone(),
        lease_generation: scene.work.lease,
        input_tokens: 60_000,
        ..Default::default()
    };
    scene.api.record_usage(report).await.unwrap();
    let taken = pressure(&mut scene).await;
    assert_eq!((taken.limit, taken.limit_source().name()), (before.limit, "task"), "{taken:?}");
}

/// A refusal of so long an answer is no refusal of the context.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_gives_shorter_answers_is_asked_for_less() {
    let params = |provider: &str| match provider {
        "openai" => (r#"{"max_completion_tokens":20000}"#, "max_completion_tokens"),
        "openai_responses" => (r#"{"max_output_tokens":20000}"#, "max_output_tokens"),
        "anthropic" | "lmstudio" => (r#"{"max_tokens":20000}"#, "max_tokens"),
        _ => (r#"{"options":{"num_predict":20000}}"#, "num_predict"),
    };
    for provider in PROVIDERS {
        let mut scene = Scene::new(&[]).await;
        long_talk(&mut scene, knows_much()).await;
        let before = pressure(&mut scene).await;
        let (params_json, name) = params(provider);
        let ask = |text: &str, scene: &Scene| pb::ChatRequest {
            params_json: params_json.to_owned(),
            ..scene.ask(provider, text)
        };
        let asked_for = |scene: &Scene| {
            let requests = scene.fake.requests();
            let body = scene.fake.body(requests.last().unwrap()["number"].as_u64().unwrap());
            let body: Value = serde_json::from_str(&body).unwrap();
            body[name].as_u64().or_else(|| body["options"][name].as_u64()).unwrap()
        };
        scene.fake.script(&json!({"answers": 8192, "times": 2}));
        let request = ask("And now?", &scene);
        scene.chat(request).await.whole();
        assert_eq!((scene.fake.requests().len(), asked_for(&scene)), (2, 8192), "{provider}");
        if provider == "anthropic" {
            scene.fake.reset();
            scene.fake.script(&json!({"takes": 25_000, "times": 2}));
            let request = ask("", &scene);
            scene.chat(request).await.whole();
            assert_eq!(scene.fake.requests().len(), 2, "{provider}");
            assert!((9_000..20_000).contains(&asked_for(&scene)), "{}", asked_for(&scene));
        }
        let after = pressure(&mut scene).await;
        assert_eq!((after.limit, after.limit_source), (before.limit, before.limit_source), "{provider}");
        assert_eq!(task(&mut scene.api, &scene.work).await.view_generation, 0, "{provider}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_compressed_by_itself_a_refusal_is_told() {
    let mut scene = Scene::new(&[]).await;
    let compression = pb::CompressionConfig { auto: Some(false), ..Default::default() };
    long_talk(&mut scene, pb::TaskConfig { compression: Some(compression), ..knows_much() }).await;
    scene.fake.script(&json!({"takes": TAKES}));
    let heard = scene.chat(scene.ask("openai", "And now?")).await;
    assert_eq!(why(heard.error.as_ref().unwrap()).reason, ErrorReason::ProviderRefused);
    assert_eq!(scene.fake.requests().len(), 1);
    let told = pressure(&mut scene).await;
    assert!(told.limit == TAKES && told.should_compress, "{told:?}");
    assert_eq!(task(&mut scene.api, &scene.work).await.view_generation, 0);
}

/// The provider that the task names takes much, the one that is asked takes little.
#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_the_model_that_is_asked_counts() {
    let limits =
        [("llm.providers.openai.context_length", "100000"), ("llm.providers.ollama.context_length", "6000")];
    let named = || pb::TaskConfig { llm_provider: "openai".to_owned(), ..Default::default() };
    let mut scene = Scene::new(&limits).await;
    long_talk(&mut scene, named()).await;
    scene.chat(scene.ask("openai", "And now?")).await.whole();
    assert_eq!(task(&mut scene.api, &scene.work).await.view_generation, 0);
    scene.chat(scene.ask("ollama", "And now?")).await.whole();
    assert!(task(&mut scene.api, &scene.work).await.view_generation > 0);
    let requests = scene.fake.requests();
    assert_eq!(requests.len(), 2, "it was not refused first");
    let body: Value =
        serde_json::from_str(&scene.fake.body(requests[1]["number"].as_u64().unwrap())).unwrap();
    // Without it a model of Ollama takes a few thousand tokens, and forgets the rest without a word.
    assert_eq!(body["options"]["num_ctx"], 6000);
    assert!(pressure(&mut scene).await.limit == TAKES);

    // The same for agents that send requests themselves.
    long_talk(&mut scene, named()).await;
    let rendered = async |scene: &mut Scene, provider: &str| {
        let request = pb::RenderContextRequest { model: "fake".to_owned(), ..scene.work.request(provider) };
        let pieces = all(scene.api.render_context(request).await).await.unwrap();
        pieces.iter().map(|piece| piece.data.len()).sum::<usize>()
    };
    let whole = rendered(&mut scene, "openai").await;
    let smaller = rendered(&mut scene, "ollama").await;
    assert!(smaller < whole / 4 * 3, "{smaller} of {whole} bytes");
}

/// A view may get too large without a new message: by an undo, or by another model.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_got_too_large_is_compressed_before_it_is_sent() {
    let mut scene = Scene::new(&[]).await;
    long_talk(&mut scene, knows_much()).await;
    let compress = pb::CompressRequest {
        task_uuid: scene.work.uuid.clone(),
        lease_generation: scene.work.lease,
        target_tokens: Some(3_000),
        ..Default::default()
    };
    all(scene.api.compress(compress).await).await.unwrap();
    let update = pb::UpdateTaskRequest {
        task_uuid: scene.work.uuid.clone(),
        lease_generation: scene.work.lease,
        config: Some(by_itself(pb::TaskConfig { context_length: Some(TAKES), ..Default::default() })),
        ..Default::default()
    };
    scene.api.update_task(update).await.unwrap();
    let undo = pb::UndoCompactionRequest {
        task_uuid: scene.work.uuid.clone(),
        lease_generation: scene.work.lease,
        ..Default::default()
    };
    scene.api.undo_compaction(undo).await.unwrap();
    assert!(pressure(&mut scene).await.tokens > TAKES);
    scene.fake.reset();
    scene.chat(scene.ask("openai", "")).await.whole();
    assert_eq!(scene.fake.requests().len(), 1);
    let after = pressure(&mut scene).await;
    assert!(after.tokens <= TAKES, "{after:?}");
}

/// What some say of tokens is about requests, not about the context.
#[tokio::test(flavor = "multi_thread")]
async fn a_throttle_does_not_touch_the_context() {
    let too_long = json!({"error": {"message": "the maximum context length of 131072 tokens is exceeded"}});
    let too_many = json!({"message": "Too many tokens, please wait before trying again."});
    for (provider, status, body) in [("anthropic", 429, too_many), ("lmstudio", 503, too_long)] {
        let mut scene = Scene::new(&[("llm.retries", "1")]).await;
        long_talk(&mut scene, knows_much()).await;
        scene.fake.script(&json!({"status": status, "body": body, "times": 2}));
        let heard = scene.chat(scene.ask(provider, "And now?")).await;
        assert_eq!(why(heard.error.as_ref().unwrap()).reason, ErrorReason::ProviderFailed, "{provider}");
        assert_eq!(scene.fake.requests().len(), 2, "{provider}");
        assert_eq!(task(&mut scene.api, &scene.work).await.view_generation, 0, "{provider}");
        assert_eq!(pressure(&mut scene).await.limit, 100_000, "{provider}");
    }
}
