//! How tokens are counted: the counter of a task, tools, calibration by reported usage.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use serde_json::json;

use test_support::server::TestServer;
use test_support::wire::{Api, Work, api, refused, start, start_as};

const TOOLS: &str = r#"[{"type":"function","function":{"name":"read_file","description":"Reads a file.","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}]"#;

async fn usage(api: &mut Api, work: &Work, tools_json: &str) -> pb::GetContextUsageResponse {
    let request =
        pb::GetContextUsageRequest { task_uuid: work.uuid.clone(), tools_json: tools_json.to_owned() };
    api.get_context_usage(request).await.unwrap().into_inner()
}

async fn append(api: &mut Api, work: &Work, text: &str) -> pb::AppendMessageResponse {
    api.append_message(work.say(text)).await.unwrap().into_inner()
}

fn config(token_counter: &str) -> Option<pb::TaskConfig> {
    let token_counter = pb::TokenCounter::from_name(token_counter).unwrap_or_default().into();
    Some(pb::TaskConfig { token_counter, context_length: Some(100_000), ..Default::default() })
}

fn report(work: &Work, input_tokens: u64, cache_read_tokens: u64) -> pb::RecordUsageRequest {
    pb::RecordUsageRequest {
        task_uuid: work.uuid.clone(),
        input_tokens,
        cache_read_tokens,
        lease_generation: work.lease,
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_has_the_counter_that_it_asks_for() {
    let server = TestServer::start_configured(&[("tokens.counter", "heuristic")]).await;
    let mut api = api(&server).await;
    let text = "日本語のテキスト and some English, with `code()`.";
    // The server's own where a task says nothing. What is around a message is 4 with each of them.
    for (word, counter, tokens) in [
        ("", "heuristic", 15),
        ("heuristic", "heuristic", 15),
        ("o200k", "o200k", 19),
        ("cl100k", "cl100k", 21),
    ] {
        let request = pb::StartTaskRequest { config: config(word), ..Default::default() };
        let work = start_as(&mut api, request).await;
        assert_eq!(append(&mut api, &work, text).await.tokens, tokens, "{word}");
        let told = usage(&mut api, &work, "").await;
        assert_eq!(
            (told.token_counter().name(), told.counted_tokens, told.tools_tokens),
            (counter, tokens, 0)
        );
        assert_eq!((told.messages, told.calibration), (1, 1.0));
        let info = api.get_task(work.get()).await.unwrap().into_inner();
        assert_eq!(info.task.unwrap().config.unwrap().token_counter().name(), word);
        assert_eq!(info.pressure, told.pressure);
    }
    for field in ["config.token_counter", "config.extra_json"] {
        let mut config = config("o200k").unwrap();
        match field {
            "config.token_counter" => config.token_counter = 9,
            _ => config.extra_json = r#"{"token_counter":"o200k"}"#.to_owned(),
        }
        let request = pb::StartTaskRequest {
            holder: test_support::wire::holder("a"),
            config: Some(config),
            ..Default::default()
        };
        let why = refused(api.start_task(request).await);
        assert_eq!((why.reason, why.fields), (ErrorReason::InvalidField, vec![field.to_owned()]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_counter_is_for_messages_that_come_later() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let request = pb::StartTaskRequest { config: config("heuristic"), ..Default::default() };
    let work = start_as(&mut client, request).await;
    let text = "word ".repeat(100);
    let first = append(&mut client, &work, &text).await.tokens;
    let update = pb::UpdateTaskRequest {
        task_uuid: work.uuid.clone(),
        config: config("o200k"),
        lease_generation: work.lease,
        ..Default::default()
    };
    client.update_task(update).await.unwrap();
    let told = usage(&mut client, &work, "").await;
    assert_eq!((told.counted_tokens, told.token_counter().name()), (first, "o200k"));
    let second = append(&mut client, &work, &text).await.tokens;
    assert_ne!(first, second);
    // As it is after a restart.
    server.kill();
    server.restart().await;
    client = api(&server).await;
    let told = usage(&mut client, &work, "").await;
    assert_eq!((told.counted_tokens, told.token_counter().name()), (first + second, "o200k"));
    assert_eq!(append(&mut client, &work, &text).await.tokens, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_count_when_they_are_given() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let before = append(&mut api, &work, "hello").await.pressure.unwrap();
    let told = usage(&mut api, &work, TOOLS).await;
    assert!((30..60).contains(&told.tools_tokens), "{told:?}");
    assert_eq!(told.counted_tokens, before.tokens);
    assert_eq!(told.pressure.unwrap().tokens, before.tokens + told.tools_tokens);
    assert_eq!(told.view_bytes, r#"{"role":"user","content":"hello"}"#.len() as u64 + 1);
    // They are not remembered.
    assert_eq!(usage(&mut api, &work, "").await.pressure.unwrap(), before);
    for bad in ["{}", "[", "\"x\""] {
        let request = pb::GetContextUsageRequest { task_uuid: work.uuid.clone(), tools_json: bad.to_owned() };
        let why = refused(api.get_context_usage(request).await);
        assert_eq!((why.reason, why.fields), (ErrorReason::InvalidField, vec!["tools_json".to_owned()]));
    }
    let nobody = pb::GetContextUsageRequest {
        task_uuid: "00000000-0000-4000-8000-000000000000".to_owned(),
        ..Default::default()
    };
    assert_eq!(refused(api.get_context_usage(nobody).await).reason, ErrorReason::TaskNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn reported_usage_calibrates_what_callers_are_told() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    // Too little to learn from.
    append(&mut client, &work, "hello").await;
    client.record_usage(report(&work, 900, 0)).await.unwrap();
    assert_eq!(usage(&mut client, &work, "").await.calibration, 1.0);
    append(&mut client, &work, &"some more words ".repeat(200)).await;
    let counted = usage(&mut client, &work, "").await.counted_tokens;
    assert!(counted > 400);
    // What came out of a cache was read too; the answer to the call was not.
    let answer = work
        .json(r#"{"role":"assistant","content":"An answer of some length, that was no input of the call."}"#);
    let answer = client.append_message(answer).await.unwrap().into_inner().tokens;
    let told = client.record_usage(report(&work, counted / 10, counted)).await.unwrap().into_inner();
    let now = usage(&mut client, &work, TOOLS).await;
    let factor = (counted / 10 + counted) as f64 / counted as f64;
    assert!((now.calibration - factor).abs() < 1e-5, "{} is not {factor}", now.calibration);
    assert_eq!(now.counted_tokens, counted + answer);
    let calibrated = |tokens: u64| (tokens as f64 * now.calibration + 1e-6) as u64;
    assert_eq!(told.pressure.unwrap().tokens, calibrated(counted + answer));
    assert_eq!(now.pressure.unwrap().tokens, calibrated(counted + answer + now.tools_tokens));
    let got = client.get_task(work.get()).await.unwrap().into_inner();
    assert_eq!(got.pressure.unwrap().tokens, calibrated(counted + answer));
    assert_eq!(got.task.unwrap().statistics.unwrap().view_tokens, counted + answer);
    // It is what the log says, whatever becomes of the server and of all that is made from the log.
    server.kill();
    let dir = server.running(&work.uuid);
    for name in ["checkpoint.json", "current.jsonl"] {
        let _ = std::fs::remove_file(dir.join(name));
    }
    server.restart().await;
    client = api(&server).await;
    assert_eq!(usage(&mut client, &work, TOOLS).await, now);
    // Nonsense moves it by one bounded step each time, and never far.
    let mut last = now.calibration;
    for _ in 0..6 {
        client.record_usage(report(&work, 1 << 40, 0)).await.unwrap();
        let factor = usage(&mut client, &work, "").await.calibration;
        assert!(factor <= last * 1.25 + 1e-6 && factor <= 2.0, "{last} → {factor}");
        last = factor;
    }
    assert_eq!(last, 2.0);
    // What the provider says of the view is believed all the same, with what came since.
    let more = append(&mut client, &work, "more").await;
    assert_eq!(more.pressure.unwrap().tokens, (1 << 40) + 2 * (answer + more.tokens));
}

/// The provider has the last word on what it read, however far that is from what was counted here.
#[tokio::test(flavor = "multi_thread")]
async fn the_pressure_is_never_less_than_what_the_provider_reported() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    let config = pb::TaskConfig {
        context_length: Some(200_000),
        compression: Some(pb::CompressionConfig { auto: Some(false), ..Default::default() }),
        ..Default::default()
    };
    let work =
        start_as(&mut client, pb::StartTaskRequest { config: Some(config), ..Default::default() }).await;
    append(&mut client, &work, &"some more words ".repeat(2000)).await;
    let counted = usage(&mut client, &work, "").await.counted_tokens;
    assert!(counted < 20_000);
    let told = client.record_usage(report(&work, 195_000, 0)).await.unwrap().into_inner().pressure.unwrap();
    assert_eq!((told.tokens, told.stage().name(), told.should_compress), (195_000, "aggressive", true));
    // A report of what no cache had says nothing of the view.
    for _ in 0..5 {
        client.record_usage(report(&work, 40, 0)).await.unwrap();
    }
    let now = usage(&mut client, &work, "").await;
    assert_eq!((now.pressure.unwrap().tokens, now.calibration), (195_000, 1.25));
    let fresh = start(&mut client).await;
    append(&mut client, &fresh, &"some more words ".repeat(200)).await;
    let counted = usage(&mut client, &fresh, "").await.counted_tokens;
    for _ in 0..5 {
        client.record_usage(report(&fresh, 40, 0)).await.unwrap();
    }
    assert_eq!(usage(&mut client, &fresh, "").await.pressure.unwrap().tokens, counted);
    for _ in 0..5 {
        client.record_usage(report(&fresh, counted / 2, 0)).await.unwrap();
    }
    assert_eq!(usage(&mut client, &fresh, "").await.calibration, 0.8);
}

/// What tools took is not taken for messages: with them counted, what was charged is what was expected.
#[tokio::test(flavor = "multi_thread")]
async fn tools_that_were_sent_do_not_count_as_messages() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    let (blind, seeing) = (start(&mut client).await, start(&mut client).await);
    let tool = |at: usize| {
        let words = "Does something that takes many words to say. ".repeat(10);
        json!({"type": "function", "function": {"name": format!("f{at}"), "description": words}})
    };
    let tools = json!((0..20).map(tool).collect::<Vec<_>>()).to_string();
    for work in [&blind, &seeing] {
        append(&mut client, work, &"some more words ".repeat(200)).await;
        let counted = usage(&mut client, work, &tools).await;
        assert!(counted.tools_tokens > counted.counted_tokens);
        let charged = counted.counted_tokens + counted.tools_tokens;
        let tools_tokens = if work.uuid == seeing.uuid { counted.tools_tokens } else { 0 };
        let report = pb::RecordUsageRequest { tools_tokens, ..report(work, charged, 0) };
        client.record_usage(report).await.unwrap();
    }
    assert_eq!(usage(&mut client, &seeing, "").await.calibration, 1.0);
    assert_eq!(usage(&mut client, &blind, "").await.calibration, 1.25);
    let log = std::fs::read_to_string(server.running(&seeing.uuid).join("messages.jsonl")).unwrap();
    assert!(log.contains("\"tools_tokens\":"), "{log}");
    let log = std::fs::read_to_string(server.running(&blind.uuid).join("messages.jsonl")).unwrap();
    assert!(!log.contains("tools_tokens"), "{log}");
    let far = pb::RecordUsageRequest { tools_tokens: u64::MAX, ..report(&seeing, 1, 0) };
    assert_eq!(refused(client.record_usage(far).await).reason, ErrorReason::InvalidField);
}
