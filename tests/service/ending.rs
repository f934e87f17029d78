//! Final summaries: a task that ends is summed up, by a model or without one, and always ends.

use std::fs;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use serde_json::json;

use test_support::fake_llm::FakeLlm;
use test_support::server::{DEADLINE, TestServer};
use test_support::service;
use test_support::wire::{Api, Work, all, api, holder, outlived, reason, say, start, start_as, task};

fn complete(work: &Work) -> pb::CompleteTaskRequest {
    pb::CompleteTaskRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        request_id: "end".to_owned(),
        ..Default::default()
    }
}

/// A task in which something was said.
async fn talk(api: &mut Api) -> Work {
    let work = start(api).await;
    for message in [
        json!({"role": "system", "content": "You are a clerk with a secret recipe."}),
        json!({"role": "user", "content": "Fix the cart in src/cart.rs. You must never change the file config/prod.yaml."}),
        json!({"role": "assistant", "content": "I decided to use integers for prices. Error E4711 is gone."}),
    ] {
        api.append_message(work.json(message.to_string())).await.unwrap();
    }
    work
}

/// A server that has summaries made by the fake.
async fn asking(fake: &FakeLlm, more: &[(&str, &str)]) -> TestServer {
    let url = fake.url();
    let keys = [
        ("llm.providers.ollama.base_url", url.as_str()),
        ("llm.providers.ollama.model", "fake"),
        ("compression.summarizer", "llm"),
        ("llm.provider", "ollama"),
    ];
    TestServer::start_configured(&[&keys, more].concat()).await
}

fn in_file(server: &TestServer, work: &Work) -> Option<String> {
    fs::read_to_string(server.data_dir().join("completed").join(&work.uuid).join("final_summary.txt")).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ends_is_summed_up_without_a_model() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = talk(&mut client).await;
    client.complete_task(complete(&work)).await.unwrap();
    let told = task(&mut client, &work).await;
    assert_eq!(told.status().name(), "completed");
    let summary = told.final_summary;
    for fact in ["src/cart.rs", "must never change the file config/prod.yaml", "E4711"] {
        assert!(summary.contains(fact), "{fact}: {summary}");
    }
    assert!(!summary.contains("secret recipe"), "the prompt is not what happened: {summary}");
    assert_eq!(in_file(&server, &work), Some(format!("{summary}\n")));

    // A retry changes nothing, also later; another call comes too late.
    for restart in [false, true] {
        if restart {
            server.kill();
            server.restart().await;
            client = api(&server).await;
        }
        client.complete_task(complete(&work)).await.unwrap();
        assert_eq!(task(&mut client, &work).await.final_summary, summary);
        let given = pb::CompleteTaskRequest { final_summary: "mine".to_owned(), ..complete(&work) };
        assert_eq!(reason(client.complete_task(given).await), ErrorReason::RequestIdReused);
        let other = pb::CompleteTaskRequest { request_id: "again".to_owned(), ..complete(&work) };
        assert_eq!(reason(client.complete_task(other).await), ErrorReason::WrongStatus);
    }

    // One that failed is too; what the caller says is not changed, and nothing gives nothing.
    let failed = talk(&mut client).await;
    let fail = pb::FailTaskRequest {
        task_uuid: failed.uuid.clone(),
        lease_generation: failed.lease,
        error_message: "it broke".to_owned(),
        ..Default::default()
    };
    client.fail_task(fail).await.unwrap();
    let told = task(&mut client, &failed).await;
    assert_eq!((told.status().name(), told.error_message.as_str()), ("failed", "it broke"));
    assert!(told.final_summary.contains("src/cart.rs"));
    let given = talk(&mut client).await;
    let request = pb::CompleteTaskRequest { final_summary: "My words.".to_owned(), ..complete(&given) };
    client.complete_task(request).await.unwrap();
    assert_eq!(task(&mut client, &given).await.final_summary, "My words.");
    let empty = start(&mut client).await;
    client.complete_task(complete(&empty)).await.unwrap();
    assert_eq!(task(&mut client, &empty).await.final_summary, "");
    assert_eq!(in_file(&server, &empty), None);

    // Paused tasks have no lease, and end as well.
    let paused = talk(&mut client).await;
    let pause = pb::PauseTaskRequest {
        task_uuid: paused.uuid.clone(),
        lease_generation: paused.lease,
        ..Default::default()
    };
    client.pause_task(pause).await.unwrap();
    client.complete_task(complete(&Work { lease: 0, ..paused.clone() })).await.unwrap();
    assert!(task(&mut client, &paused).await.final_summary.contains("src/cart.rs"));
    server.terminate().await;
    assert_eq!(service::doctor(&server.data_dir()), None);
    assert_eq!(service::oracle(&server.data_dir()), None);
}

/// Spaces are no summary: one is made.
#[tokio::test(flavor = "multi_thread")]
async fn a_blank_summary_is_none() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    for blank in [" ", "\n\t ", "\u{3000}"] {
        let work = talk(&mut client).await;
        let request = pb::CompleteTaskRequest { final_summary: blank.to_owned(), ..complete(&work) };
        client.complete_task(request).await.unwrap();
        assert!(task(&mut client, &work).await.final_summary.contains("src/cart.rs"));
        let failed = talk(&mut client).await;
        let request = pb::FailTaskRequest {
            task_uuid: failed.uuid.clone(),
            lease_generation: failed.lease,
            final_summary: blank.to_owned(),
            ..Default::default()
        };
        client.fail_task(request).await.unwrap();
        assert!(task(&mut client, &failed).await.final_summary.contains("src/cart.rs"));
        for ended in [work, failed] {
            let request = pb::GetInheritanceContextRequest { task_uuid: ended.uuid, max_summary_tokens: 0 };
            let text = client.get_inheritance_context(request).await.unwrap().into_inner().text;
            assert!(text.contains("src/cart.rs"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_asked_once() {
    let fake = FakeLlm::start();
    let mut server = asking(&fake, &[("compression.final_summary_prompt", "Say how it ended.")]).await;
    let mut client = api(&server).await;
    let work = talk(&mut client).await;
    fake.script(&json!({"text": "<summary>The cart was fixed, says the model.</summary>"}));
    client.complete_task(complete(&work)).await.unwrap();
    assert_eq!(task(&mut client, &work).await.final_summary, "The cart was fixed, says the model.");
    client.complete_task(complete(&work)).await.unwrap();
    server.kill();
    server.restart().await;
    let mut client = api(&server).await;
    client.complete_task(complete(&work)).await.unwrap();
    assert_eq!(fake.requests().len(), 1);
    let asked = fake.body(1);
    assert!(asked.contains("Say how it ended.") && asked.contains("E4711"), "{asked}");

    // After a bad end nobody is asked.
    let failed = talk(&mut client).await;
    let fail = pb::FailTaskRequest {
        task_uuid: failed.uuid.clone(),
        lease_generation: failed.lease,
        ..Default::default()
    };
    client.fail_task(fail).await.unwrap();
    assert!(task(&mut client, &failed).await.final_summary.contains("E4711"));
    assert_eq!(fake.requests().len(), 1);
    // Nor for a call that is refused.
    let other = talk(&mut client).await;
    let stale = pb::CompleteTaskRequest { lease_generation: other.lease + 1, ..complete(&other) };
    assert_eq!(reason(client.complete_task(stale).await), ErrorReason::StaleLease);
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_failure_of_a_model_keeps_a_task_from_ending() {
    let fake = FakeLlm::start();
    // Each of them is asked.
    let keys = [
        ("compression.summary_timeout", "2s"),
        ("llm.retries", "0"),
        ("compression.breaker.failures", "100"),
    ];
    let server = asking(&fake, &keys).await;
    let mut client = api(&server).await;
    for script in [
        json!({"status": 500, "message": "down"}),
        json!({"status": 400, "message": "prompt is too long: 9999 tokens > 100 maximum"}),
        json!({"fault": "hang_before_headers"}),
        json!({"fault": "break_mid_stream", "text": "<summary>half of it"}),
        json!({"fault": "malformed_chunk", "text": "<summary>garbage</summary>"}),
        json!({"text": "  "}),
        json!({"text": "<summary>".to_owned() + &"far too long ".repeat(20_000)}),
    ] {
        fake.reset();
        let mut often = script.clone();
        often["times"] = json!(20);
        fake.script(&often);
        let work = talk(&mut client).await;
        let ended = tokio::time::timeout(DEADLINE, client.complete_task(complete(&work))).await;
        ended.unwrap_or_else(|_| panic!("{script}: it does not end")).unwrap();
        assert!(!fake.requests().is_empty(), "{script} was not asked for");
        let told = task(&mut client, &work).await;
        assert_eq!(told.status().name(), "completed");
        assert!(told.final_summary.contains("src/cart.rs"), "{script}: {}", told.final_summary);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_finds_it_done() {
    let fake = FakeLlm::start();
    let server = asking(&fake, &[("lease.ttl", "2s")]).await;
    let mut client = api(&server).await;
    let work = talk(&mut client).await;
    // Slower than the caller is patient, and than the lease lives.
    fake.script(&json!({"text": "<summary>Slowly, it was done.</summary>", "fault": "wait_mid_stream"}));
    let ask = || {
        let (mut client, request) = (client.clone(), complete(&work));
        tokio::spawn(async move { client.complete_task(request).await })
    };
    let impatient = ask();
    fake.wait("the question", |requests| requests.len() == 1);
    impatient.abort();
    assert!(impatient.await.unwrap_err().is_cancelled());
    outlived(&client, &work).await;
    let again = ask();
    for _ in 0..20 {
        assert_eq!(task(&mut client.clone(), &work).await.status().name(), "running");
    }
    assert!(!again.is_finished());
    fake.go_on();
    again.await.unwrap().unwrap();
    assert_eq!(task(&mut client, &work).await.final_summary, "Slowly, it was done.");
    assert_eq!(fake.requests().len(), 1);

    // Whoever lost the task meanwhile does not end it.
    let work = talk(&mut client).await;
    fake.script(&json!({"text": "<summary>Too late.</summary>", "fault": "wait_mid_stream"}));
    let mut other = client.clone();
    let ending = tokio::spawn({
        let request = complete(&work);
        async move { other.complete_task(request).await }
    });
    fake.wait("the question", |requests| requests.len() == 2);
    let again =
        pb::StartTaskRequest { task_uuid: work.uuid.clone(), holder: holder("a"), ..Default::default() };
    let lease = client.start_task(again).await.unwrap().into_inner().lease_generation;
    fake.go_on();
    assert_eq!(reason(ending.await.unwrap()), ErrorReason::StaleLease);
    assert_eq!(task(&mut client, &work).await.status().name(), "running");
    say(&mut client, &Work { lease, ..work }, "it goes on").await;
}

/// Nobody takes a task over while it is being ended, be it that the view is made smaller first.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_ending_is_held() {
    let fake = FakeLlm::start();
    let server = asking(&fake, &[("lease.ttl", "2s"), ("compression.auto", "true")]).await;
    let mut client = api(&server).await;
    let config = pb::TaskConfig { context_length: Some(2000), ..Default::default() };
    let request = pb::StartTaskRequest { config: Some(config), holder: holder("a"), ..Default::default() };
    let work = start_as(&mut client, request.clone()).await;
    let text = "<summary>Slowly, it was all looked at, one word after the other.</summary>";
    fake.script(&json!({"text": text, "fault": "wait_mid_stream"}));
    let mut number = 0;
    while fake.requests().is_empty() {
        // Less than would be too much, and less each time.
        number += 1;
        let text = format!(
            "Step {number} of many. {}",
            if number < 17 { "word ".repeat(80) } else { String::new() }
        );
        say(&mut client, &work, &text).await;
    }
    let mut other = client.clone();
    let ending = tokio::spawn({
        let request = complete(&work);
        async move { other.complete_task(request).await }
    });
    let taking = pb::StartTaskRequest { task_uuid: work.uuid.clone(), holder: holder("b"), ..request };
    outlived(&client, &work).await;
    assert_eq!(reason(client.start_task(taking.clone()).await), ErrorReason::LeaseHeld);
    assert!(!ending.is_finished(), "the model did not wait");
    fake.go_on();
    while !ending.is_finished() {
        let why = reason(client.start_task(taking.clone()).await);
        assert!(matches!(why, ErrorReason::LeaseHeld | ErrorReason::TaskExists), "{why:?}");
    }
    ending.await.unwrap().unwrap();
    assert_eq!(task(&mut client, &work).await.status().name(), "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_folded_from_the_summary_so_far_and_what_came_after() {
    let fake = FakeLlm::start();
    let server = asking(&fake, &[]).await;
    let mut client = api(&server).await;
    let work = talk(&mut client).await;
    for number in 1..=40 {
        say(&mut client, &work, &format!("Step {number} of many, with some words to it.")).await;
    }
    fake.script(&json!({"text": "<summary>Prices are integers now.</summary>"}));
    let compress = pb::CompressRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        ..Default::default()
    };
    all(client.compress(compress).await).await.unwrap();
    say(&mut client, &work, "The last word is banana.").await;
    fake.script(&json!({"text": "<summary>All of it.</summary>"}));
    client.complete_task(complete(&work)).await.unwrap();
    assert_eq!(task(&mut client, &work).await.final_summary, "All of it.");
    assert_eq!(fake.requests().len(), 2);
    let asked = fake.body(2);
    assert!(asked.contains("Prices are integers now.") && asked.contains("banana"), "{asked}");
    assert!(!asked.contains("Step 7 of many"), "what was summarised is not read again: {asked}");
}

/// What was taken over is told to a model as what is known so far, without our own words around it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_over_is_told_as_a_summary_so_far() {
    let fake = FakeLlm::start();
    let server = asking(&fake, &[]).await;
    let mut client = api(&server).await;
    let key = pb::TaskKey { task_type: "issue".to_owned(), task_id: "7".to_owned(), ..Default::default() };
    let request = pb::StartTaskRequest { key: Some(key), holder: holder("a"), ..Default::default() };
    let first = start_as(&mut client, request.clone()).await;
    let plan = pb::AppendPlanRequest {
        task_uuid: first.uuid.clone(),
        lease_generation: first.lease,
        plan_type: "initial".to_owned(),
        plan_content_json: json!("archive invoices_2019").to_string(),
        ..Default::default()
    };
    client.append_plan(plan).await.unwrap();
    let known = "## Goal\n- Prices are integers now.";
    let given = pb::CompleteTaskRequest { final_summary: known.to_owned(), ..complete(&first) };
    client.complete_task(given).await.unwrap();
    let second = start_as(&mut client, request).await;
    say(&mut client, &second, "The last word is banana.").await;
    fake.script(&json!({"text": "<summary>All of it.</summary>"}));
    client.complete_task(complete(&second)).await.unwrap();
    let asked = fake.body(1);
    let before = asked.split("-previous>").nth(3).unwrap();
    assert!(
        before.contains("Prices are integers now.") && before.contains("archive invoices_2019"),
        "{before}"
    );
    assert!(asked.contains("banana") && !before.contains("banana"), "{asked}");
    for words in ["Context from previous task", "a record of earlier work", "How to go on"] {
        assert!(!asked.contains(words), "{words}: {asked}");
    }
}
