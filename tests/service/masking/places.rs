//! Every door that a text can come in by, and then a search of everything that a server has written.

use std::fmt::Write as _;
use std::fs;

use bytes::Bytes;
use contextstore_client::{Chat, Commit, Compress, NewMessage, PutOutput, StartTask, Task, ToolCall, v1};
use futures_util::TryStreamExt;
use serde_json::{Value, json};

use super::Hound;
use super::corpus::{Positive, negatives, positives};
use test_support::fake_llm::FakeLlm;
use test_support::server::TestServer;
use test_support::wire::files;

const SEED: u64 = 11;

/// A server that says all it can, with a fake provider.
struct Scene {
    fake: FakeLlm,
    server: TestServer,
    corpus: Vec<Positive>,
    _keys: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Self {
        let fake = FakeLlm::start();
        let keys = tempfile::tempdir().unwrap();
        let key = keys.path().join("key");
        fs::write(&key, "test").unwrap();
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let (url, key) = (format!("{}/v1", fake.url()), key.display().to_string());
        let server = TestServer::start_configured(&[
            // All that is ours: those of h2 are many, and have no words of callers.
            ("log.level", "info,contextstore=debug,tonic=debug,hyper=debug"),
            ("durability", "process"),
            ("llm.retries", "0"),
            ("llm.providers.openai.base_url", &url),
            ("llm.providers.openai.api_key_file", &key),
            ("llm.providers.openai.model", "fake"),
        ])
        .await;
        // Of every kind two, at push size.
        let mut corpus = positives(SEED);
        corpus.truncate(test_support::sized(corpus.len() / 3, corpus.len()));
        Self { fake, server, corpus, _keys: keys }
    }

    /// All secrets, a line each.
    fn text(&self) -> String {
        self.corpus.iter().map(|positive| format!("{}\n", positive.line)).collect()
    }

    fn lines(&self) -> Vec<&str> {
        self.corpus.iter().map(|positive| positive.line.as_str()).collect()
    }

    async fn task(&self, config: v1::TaskConfig, system_message: &str) -> Task {
        let client = self.server.client().await;
        let compression = Some(v1::CompressionConfig { auto: Some(false), ..Default::default() });
        let config = v1::TaskConfig { compression, context_length: Some(1_000_000), ..config };
        let start = StartTask { config, system_message: system_message.to_owned(), ..Default::default() };
        client.start_task(start).await.unwrap()
    }

    /// Ends the server, and looks for secrets in every file and in its log.
    async fn search(mut self) {
        let hound = Hound::new(self.corpus.iter().map(|positive| positive.secret.as_str()));
        assert!(self.server.terminate().await.success());
        let all = files(&self.server.data_dir());
        assert!(all.len() >= 5, "{:?}", all.keys());
        for (path, bytes) in all {
            let found = hound.finds(&bytes);
            assert!(found.is_none(), "{} has {found:?}", path.display());
        }
        let found = hound.finds(self.server.log().as_bytes());
        assert!(found.is_none(), "the log has {found:?}");
    }
}

/// JSON text in which every letter and digit is an escape.
fn escaped(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '/' || c == '-' || c == '_' {
            write!(out, "\\u{:04x}", u32::from(c)).unwrap();
        } else {
            let quoted = Value::from(c.to_string()).to_string();
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
    out.push('"');
    out
}

fn counted(masked: &[v1::MaskedSecrets]) -> u64 {
    masked.iter().map(|masked| masked.count).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages() {
    let scene = Scene::new().await;
    let task = scene.task(v1::TaskConfig::default(), &scene.text()).await;
    for Positive { line, rule, .. } in &scene.corpus {
        let told = task.append(NewMessage::user(line.clone())).await.unwrap();
        assert!(told.masked.iter().any(|masked| masked.rule == *rule), "{rule}: {line}: {:?}", told.masked);
    }
    let many: Vec<_> = scene.lines().into_iter().map(NewMessage::assistant).collect();
    let sent = many.len();
    let told = task.append_many(futures_util::stream::iter(many)).await.unwrap();
    let told: Vec<_> = told.try_collect().await.unwrap();
    assert_eq!(told.iter().filter(|told| !told.masked.is_empty()).count(), sent);
    // In parts, in what is not known, in calls of tools with arguments that are JSON or only meant to be, and escaped.
    let arguments = |line: &str| json!({"command": ["echo", line], "password": "hunter2hunter2"}).to_string();
    for line in scene.lines().into_iter().step_by(6) {
        let broken = format!("{{\"command\": \"{line}");
        let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "sh", "arguments": arguments}});
        let hidden = format!("{{\"command\":{}}}", escaped(line));
        for message in [
            json!({"role": "user", "content": [{"type": "text", "text": line}, {"type": "input_text", "text": line}]}),
            json!({"role": "assistant", "content": "", "refusal": line, "reasoning": {"summary": [line]}}),
            json!({"role": "assistant", "content": null, "tool_calls": [call("a", &arguments(line)), call("b", &broken), call("c", &hidden)]}),
            json!({"role": "tool", "tool_call_id": "a", "content": line}),
            json!({"role": "tool", "tool_call_id": "b", "content": hidden}),
            json!({"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": line}]}),
        ] {
            let told = task.append(NewMessage::json(message.to_string())).await.unwrap();
            assert!(!told.masked.is_empty(), "{message}");
        }
        let text = format!("{{\"role\":\"user\",\"content\":{}}}", escaped(line));
        assert!(!task.append(NewMessage::json(text)).await.unwrap().masked.is_empty());
    }
    let body = task.request(contextstore_client::RenderRequest {
        provider: v1::Provider::Openai,
        model: "fake".to_owned(),
        ..Default::default()
    });
    let body: Vec<_> = body.try_collect().await.unwrap();
    let hound = Hound::new(scene.corpus.iter().map(|positive| positive.secret.as_str()));
    assert_eq!(hound.finds(&body.concat()), None);
    let sent: Value = serde_json::from_slice(&body.concat()).unwrap();
    // Arguments are JSON still.
    let calls =
        sent["messages"].as_array().unwrap().iter().filter_map(|message| message["tool_calls"].as_array());
    for call in calls.flatten().filter(|call| call["id"] != "b") {
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments["password"].is_null() || arguments["password"] == "[PASSWORD]", "{arguments}");
    }
    scene.search().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_endings_and_configurations() {
    let scene = Scene::new().await;
    let lines = scene.lines();
    for (number, some) in lines.chunks(lines.len().div_ceil(8)).enumerate() {
        let text = some.join("\n");
        let extra = json!({"notes": some.iter().filter(|line| line.len() < 1000).collect::<Vec<_>>(), "password": "hunter2hunter2"});
        let config = v1::TaskConfig { extra_json: extra.to_string(), ..Default::default() };
        let task = scene.task(config.clone(), "").await;
        assert!(task.get().await.unwrap().task.unwrap().config.unwrap().extra_json.contains("[PASSWORD]"));
        let compression = Some(v1::CompressionConfig { auto: Some(false), ..Default::default() });
        task.update(v1::TaskConfig { compression, ..config }).await.unwrap();
        let hidden: Vec<String> = some.iter().map(|line| escaped(line)).collect();
        let hidden = format!("[{}]", hidden.join(","));
        for (arguments, result) in [
            (json!(some).to_string(), json!({"out": some, "text": text}).to_string()),
            (hidden.clone(), hidden.clone()),
        ] {
            let call = ToolCall {
                tool_name: "sh".to_owned(),
                arguments_json: arguments,
                result_json: result,
                error: Some(text.clone()),
                ..Default::default()
            };
            let told = task.record_tool_call(call).await.unwrap();
            assert!(counted(&told.masked) >= 3 * some.len() as u64, "{:?}", told.masked);
        }
        let told =
            task.append_plan("initial", json!({"steps": some, "all": text}).to_string()).await.unwrap();
        assert!(counted(&told.masked) >= 2 * some.len() as u64);
        let ended = if number % 2 == 0 {
            task.complete(text.clone()).await.unwrap()
        } else {
            task.fail(text.clone(), text.clone()).await.unwrap()
        };
        assert_eq!(ended.error_message.is_empty(), number % 2 == 0);
    }
    scene.search().await;
}

/// However an output is cut on its way, nothing of a secret is kept.
#[tokio::test(flavor = "multi_thread")]
async fn outputs_in_pieces() {
    let scene = Scene::new().await;
    let task = scene.task(v1::TaskConfig::default(), "").await;
    let text = scene.text();
    for (seed, most) in [1, 16, 700, 9_000, 200_000].into_iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let (mut pieces, mut rest) = (Vec::new(), text.as_bytes());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(random.usize(1..=most).min(rest.len()));
            pieces.push(Bytes::copy_from_slice(piece));
            rest = after;
        }
        // Most of it at once, or there would be a hundred thousand messages of one byte.
        let joined = pieces.split_off(pieces.len().min(5_000)).concat();
        pieces.push(Bytes::from(joined));
        let put = PutOutput {
            tool_name: "sh".to_owned(),
            tool_call_id: format!("c{seed}"),
            media_type: "text/plain".to_owned(),
            append: true,
            ..Default::default()
        };
        let told = task.outputs().put_stream(put, futures_util::stream::iter(pieces)).await.unwrap();
        assert!(counted(&told.masked) >= scene.corpus.len() as u64, "{:?}", told.masked);
    }
    scene.search().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn summaries_and_answers_of_models() {
    let scene = Scene::new().await;
    let text = scene.text();
    let task = scene.task(v1::TaskConfig::default(), "").await;
    for day in 0..30 {
        let said = format!("Day {day}: see src/day_{day}.rs. {}", "It rained again. ".repeat(400));
        task.append(NewMessage::user(said)).await.unwrap();
    }
    let how = Compress { strategy: v1::CompressionStrategy::Compact, ..Default::default() };
    let mut compaction = task.begin_compaction(how).await.unwrap();
    while compaction.next_message().await.unwrap().is_some() {}
    let some = scene.lines().into_iter().step_by(24).collect::<Vec<_>>().join("\n");
    let rest = scene.lines().into_iter().skip(1).step_by(24).collect::<Vec<_>>().join("\n");
    let commit = Commit { summary: format!("It rained.\n{some}"), retain: rest, ..Default::default() };
    let done = compaction.commit(commit).await.unwrap();
    assert!(done.compressed, "{done:?}");

    // A model may say what it should not; an error of its provider may repeat what was sent.
    for line in scene.lines().into_iter().step_by(12) {
        scene.fake.script(&json!({"text": format!("Here: {line}")}));
        let ask = Chat {
            messages: vec![NewMessage::user("Go on.")],
            provider: v1::Provider::Openai,
            ..Default::default()
        };
        let heard: Vec<_> = task.chat(ask).try_collect().await.unwrap();
        assert!(!heard.is_empty());
    }
    scene
        .fake
        .script(&json!({"status": 400, "message": text.lines().take(60).collect::<Vec<_>>().join(" ")}));
    let ask = Chat {
        messages: vec![NewMessage::user("Go on.")],
        provider: v1::Provider::Openai,
        ..Default::default()
    };
    assert!(task.chat(ask).try_collect::<Vec<_>>().await.is_err());
    scene.search().await;
}

/// What is clean or opaque stays as it came, escape by escape.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_is_changed() {
    let scene = Scene::new().await;
    let task = scene.task(v1::TaskConfig::default(), "").await;
    let token = scene.corpus[0].clone();
    assert_eq!(token.rule, "github_token");
    let opaque = format!(
        r#"[{{"type":"thinking","thinking":"t","signature":"x ghp_{0}"}},{{"type":"image_url","image_url":{{"url":"data:image/png;base64,iVBO/AKIAIOSFODNN7ABCDEFG/{0}"}}}},{{"type":"input_audio","input_audio":{{"data":"UklG/AKIAIOSFODNN7ABCDEFG/{0}{0}","format":"wav"}}}},{{"type":"tool_use","id":"ghp_{0}","name":"f","input":{{}}}}]"#,
        token.secret
    );
    let body = format!(r#"{{"role":"assistant","content":{opaque},"x_id":"ghp_{}"}}"#, token.secret);
    let told = task.append(NewMessage::json(body)).await.unwrap();
    assert_eq!(told.masked, []);
    let clean: Vec<String> = negatives(SEED);
    for line in &clean {
        let told = task.append(NewMessage::user(line.clone())).await.unwrap();
        assert_eq!(told.masked, [], "{line}");
    }
    let spelled = r#"{"role":"user","content":"caf\u00e9 \u0041 https:\/\/x \ud83d\ude00 task-force"}"#;
    task.append(NewMessage::json(spelled)).await.unwrap();
    let log = fs::read_to_string(scene.server.running(task.uuid()).join("messages.jsonl")).unwrap();
    assert!(
        log.contains(&opaque)
            && log.contains(r#""content":"caf\u00e9 \u0041 https:\/\/x \ud83d\ude00 task-force""#)
    );
    for line in clean {
        assert!(log.contains(&Value::from(line.as_str()).to_string()), "{line}");
    }
}

/// A call that is repeated is known by what was written of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_is_still_the_same() {
    let mut scene = Scene::new().await;
    let line = scene.corpus[0].line.clone();
    let first = scene.task(v1::TaskConfig::default(), "").await;
    let uuid = first.uuid().to_owned();
    let call = ToolCall {
        tool_name: "sh".to_owned(),
        arguments_json: json!([line]).to_string(),
        ..Default::default()
    };
    for round in 0..2 {
        let client = scene.server.client().await;
        let task = client.task_under(uuid.clone(), first.lease_generation());
        let message = NewMessage::user(line.clone()).request_id("m-1");
        let told = task.append(message).await.unwrap();
        assert_eq!((told.seq, told.duplicate, told.masked.len()), (1, round > 0, 1));
        let told = task.with_request_id("t-1").record_tool_call(call.clone()).await.unwrap();
        assert_eq!((told.seq, told.duplicate, told.masked.len()), (1, round > 0, 1));
        let told = task.with_request_id("p-1").append_plan("initial", json!(line).to_string()).await.unwrap();
        assert_eq!((told.id, told.duplicate, told.masked.len()), (1, round > 0, 1));
        scene.server.restart().await;
    }
    let client = scene.server.client().await;
    let task = client.task_under(uuid.clone(), first.lease_generation());
    for _ in 0..2 {
        task.with_request_id("f-1").fail(line.clone(), line.clone()).await.unwrap();
    }
    scene.search().await;
}

/// Deeply nested JSON in a text costs neither the stack nor much time, whatever door it comes in by.
#[tokio::test(flavor = "multi_thread")]
async fn json_of_any_depth_inside_a_text() {
    // In a release 4 600 were enough to overflow a stack.
    let depth = test_support::sized(20_000, 100_000);
    let scene = Scene::new().await;
    let secret = scene.corpus[0].secret.clone();
    let inner = format!("{{\"password\":\"hunter2hunter2\",\"token\":\"{}\"}}", scene.corpus[0].line);
    let deep = format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
    let extra = json!({"deep": deep}).to_string();
    // A configuration has at most 64 KiB.
    let less = &deep[depth * 3 / 4..deep.len() - depth * 3 / 4];
    let config = v1::TaskConfig { extra_json: json!({"deep": less}).to_string(), ..Default::default() };
    let task = scene.task(config, &deep).await;
    let call = json!({"id": "a", "type": "function", "function": {"name": "sh", "arguments": deep}});
    for message in [
        json!({"role": "user", "content": deep}),
        json!({"role": "user", "content": [{"type": "text", "text": deep}]}),
        json!({"role": "user", "content": "", "x": {"y": [deep]}}),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "a", "content": deep}),
    ] {
        let told = task.append(NewMessage::json(message.to_string())).await.unwrap();
        assert!(counted(&told.masked) >= 2, "{:?}", told.masked);
    }
    let call = ToolCall {
        tool_name: "sh".to_owned(),
        arguments_json: extra.clone(),
        result_json: extra.clone(),
        error: Some(deep.clone()),
        ..Default::default()
    };
    assert!(counted(&task.record_tool_call(call).await.unwrap().masked) >= 3);
    assert!(counted(&task.append_plan("initial", extra.clone()).await.unwrap().masked) >= 2);
    let put = PutOutput {
        tool_name: "sh".to_owned(),
        tool_call_id: "b".to_owned(),
        append: true,
        ..Default::default()
    };
    let put = task.outputs().put(put, deep.clone()).await.unwrap();
    assert!(counted(&put.masked) >= 1);
    scene.fake.script(&json!({"text": deep}));
    let ask = Chat {
        messages: vec![NewMessage::user(deep.clone())],
        provider: v1::Provider::Openai,
        ..Default::default()
    };
    task.chat(ask).try_collect::<Vec<_>>().await.unwrap();
    task.complete(deep).await.unwrap();
    assert_ne!(secret, "");
    scene.search().await;
}
