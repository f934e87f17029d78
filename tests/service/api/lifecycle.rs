//! Tasks are made, configured, put aside, ended and removed.

use std::fs;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;

use test_support::server::TestServer;
use test_support::wire::{Api, Work, api, holder, reason, refused, say, start, start_as, task, view};

fn key() -> pb::TaskKey {
    pb::TaskKey {
        task_source: "github".to_owned(),
        owner: "ann".to_owned(),
        repo: "tools".to_owned(),
        task_type: "issue".to_owned(),
        task_id: "17".to_owned(),
    }
}

fn config() -> pb::TaskConfig {
    pb::TaskConfig {
        token_counter: pb::TokenCounter::Heuristic.into(),
        llm_provider: "anthropic".to_owned(),
        model: "large".to_owned(),
        context_length: Some(200_000),
        durability: pb::Durability::Each.into(),
        compression: Some(pb::CompressionConfig {
            auto: Some(false),
            strategy: pb::CompressionStrategy::Prune.into(),
            threshold: Some(0.5),
            token_threshold: Some(1000),
            max_request_bytes: Some(5000),
            enabled: Some(true),
            keep_recent_messages: Some(6),
            min_messages: Some(7),
            complexity: pb::TaskComplexity::Simple.into(),
            preset: pb::CompressionPreset::Balanced.into(),
            summarizer: pb::Summarizer::Extractive.into(),
            provider: pb::Provider::Ollama.into(),
            model: "small".to_owned(),
            summary_prompt: "Sum it up".to_owned(),
            final_summary_prompt: "The end".to_owned(),
            summary_directives: vec!["one".to_owned(), "two".to_owned()],
            retain_prompt: "Keep".to_owned(),
            retain_directives: vec!["three".to_owned()],
            retain_last_turns: Some(2),
            structured: Some(true),
            keep_plan: Some(true),
            summary_tokens: Some(900),
        }),
        prune: Some(pb::PruneConfig {
            target: Some(0.5),
            recency_weight: Some(0.0),
            role_weight: Some(1.0),
            content_weight: Some(0.25),
        }),
        window: Some(pb::WindowConfig { messages: Some(10), tokens: Some(11) }),
        inheritance: Some(pb::InheritanceConfig { enabled: Some(false), max_summary_tokens: Some(1200) }),
        outputs: Some(pb::OutputsConfig {
            enabled: Some(false),
            budget_tokens: Some(30_000),
            max_message_bytes: Some(4096),
            max_line_length: Some(500),
            tail_bytes: Some(2048),
            protected_tools: vec!["plan".to_owned()],
        }),
        extra_json: r#"{"own":[1,2],"temperature":0.1}"#.to_owned(),
    }
}

fn pause(work: &Work) -> pb::PauseTaskRequest {
    pb::PauseTaskRequest { task_uuid: work.uuid.clone(), lease_generation: work.lease, ..Default::default() }
}

fn resume(work: &Work, instance: &str) -> pb::ResumeTaskRequest {
    pb::ResumeTaskRequest { task_uuid: work.uuid.clone(), holder: holder(instance), ..Default::default() }
}

fn complete(work: &Work, summary: &str) -> pb::CompleteTaskRequest {
    pb::CompleteTaskRequest {
        task_uuid: work.uuid.clone(),
        final_summary: summary.to_owned(),
        lease_generation: work.lease,
        ..Default::default()
    }
}

fn fail(work: &Work, error: &str, summary: &str) -> pb::FailTaskRequest {
    pb::FailTaskRequest {
        task_uuid: work.uuid.clone(),
        error_message: error.to_owned(),
        final_summary: summary.to_owned(),
        lease_generation: work.lease,
        ..Default::default()
    }
}

fn delete(work: &Work) -> pb::DeleteTaskRequest {
    pb::DeleteTaskRequest { task_uuid: work.uuid.clone(), lease_generation: work.lease, ..Default::default() }
}

/// A task in a status, with a message in it.
async fn in_status(api: &mut Api, status: &str) -> Work {
    let work = start(api).await;
    say(api, &work, "hello").await;
    match status {
        "running" => {}
        "paused" => drop(api.pause_task(pause(&work)).await.unwrap()),
        "completed" => drop(api.complete_task(complete(&work, "done")).await.unwrap()),
        _ => drop(api.fail_task(fail(&work, "broken", "")).await.unwrap()),
    }
    // Nobody holds one that does not run.
    let lease = if status == "running" { work.lease } else { 0 };
    assert_eq!(task(api, &work).await.status().name(), status);
    Work { lease, ..work }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_made_with_what_was_asked_for() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let request = pb::StartTaskRequest {
        key: Some(key()),
        user: "zoe".to_owned(),
        config: Some(config()),
        holder: holder("a"),
        ..Default::default()
    };
    let made = api.start_task(request.clone()).await.unwrap().into_inner();
    assert!(made.created);
    assert_eq!(made.lease_generation, 1);
    assert_eq!(made.lease_ttl.unwrap().seconds, 30);
    let answered = made.task.unwrap();
    // A UUIDv7, in the usual form.
    assert_eq!((answered.uuid.len(), &answered.uuid[14..15]), (36, "7"));
    let work = Work { uuid: answered.uuid.clone(), lease: 1 };
    let found = task(&mut api, &work).await;
    for task in [&answered, &found] {
        assert_eq!((task.key.as_ref(), task.user.as_str()), (Some(&key()), "zoe"));
        assert_eq!((task.status().name(), task.health().name()), ("running", "ok"));
        assert_eq!(task.config, Some(config()));
        assert_eq!(task.directory, format!("running/{}", work.uuid));
        assert_eq!((task.lease_generation, task.view_generation, task.last_seq), (1, 0, 0));
        assert_eq!((task.process_id, task.hostname.as_str()), (7, "here"));
        assert!(!task.has_plan && task.complete_time.is_none() && task.create_time.is_some());
    }
    assert!(server.data_dir().join(&found.directory).join("messages.jsonl").exists());

    // Without an id a retry makes another.
    let other = api.start_task(request).await.unwrap().into_inner();
    assert!(other.created && other.task.unwrap().uuid != work.uuid);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_taken_as_it_is_given() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    // Any UUID in either case, of any version; it is answered in lower case.
    let uuid = "A3BB189E-8BF9-4888-9912-ACE4E6543002";
    let work =
        start_as(&mut api, pb::StartTaskRequest { task_uuid: uuid.to_owned(), ..Default::default() }).await;
    assert_eq!(work.uuid, uuid.to_lowercase());
    assert_eq!(say(&mut api, &work, "one").await, 1);
    let shouted = Work { uuid: uuid.to_owned(), ..work.clone() };
    assert_eq!(say(&mut api, &shouted, "two").await, 2);
    assert!(server.running(&work.uuid).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn taking_a_task_up_changes_nothing_of_it() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let request = pb::StartTaskRequest {
        key: Some(key()),
        user: "zoe".to_owned(),
        config: Some(config()),
        ..Default::default()
    };
    let work = start_as(&mut api, request).await;
    say(&mut api, &work, "hello").await;
    let again = pb::StartTaskRequest {
        task_uuid: work.uuid.clone(),
        key: Some(pb::TaskKey { owner: "bob".to_owned(), ..Default::default() }),
        user: "bob".to_owned(),
        config: Some(pb::TaskConfig { model: "small".to_owned(), ..Default::default() }),
        holder: Some(pb::Holder { process_id: 9, hostname: "there".to_owned(), ..holder("a").unwrap() }),
        ..Default::default()
    };
    let taken = api.start_task(again).await.unwrap().into_inner();
    assert!(!taken.created);
    assert_eq!(taken.lease_generation, 2);
    let found = taken.task.unwrap();
    assert_eq!((found.key, found.user.as_str()), (Some(key()), "zoe"));
    assert_eq!((found.config, found.last_seq), (Some(config()), 1));
    assert_eq!((found.process_id, found.hostname.as_str()), (9, "there"));
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_and_answers_follow_the_status() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    say(&mut client, &work, "hello").await;

    let paused = client.pause_task(pause(&work)).await.unwrap().into_inner().task.unwrap();
    assert_eq!((paused.status().name(), paused.directory), ("paused", format!("paused/{}", work.uuid)));
    assert!(paused.lease.is_none() && paused.lease_generation == 1);
    assert!(
        server.data_dir().join("paused").join(&work.uuid).exists() && !server.running(&work.uuid).exists()
    );
    assert_eq!(view(&mut client, work.current()).await.lines().count(), 1);

    let resumed = client.resume_task(resume(&work, "b")).await.unwrap().into_inner();
    assert_eq!((resumed.lease_generation, resumed.lease_ttl.unwrap().seconds), (2, 30));
    let task_now = resumed.task.unwrap();
    assert_eq!((task_now.status().name(), task_now.directory), ("running", format!("running/{}", work.uuid)));
    assert_eq!(task_now.lease.unwrap().holder, holder("b"));
    let work = Work { lease: 2, ..work };
    assert_eq!(say(&mut client, &work, "on").await, 2);

    let ended = client.complete_task(complete(&work, "all is well\nreally")).await.unwrap();
    let ended = ended.into_inner().task.unwrap();
    assert_eq!((ended.status().name(), ended.directory), ("completed", format!("completed/{}", work.uuid)));
    assert!(ended.complete_time.is_some() && ended.lease.is_none());
    let dir = server.data_dir().join("completed").join(&work.uuid);
    assert_eq!(fs::read_to_string(dir.join("final_summary.txt")).unwrap(), "all is well\nreally\n");

    // A paused task can be ended too, by whoever comes: nobody holds it.
    let other = in_status(&mut client, "paused").await;
    let failed = client.fail_task(fail(&other, "no luck", "tried")).await.unwrap().into_inner().task.unwrap();
    assert_eq!((failed.status().name(), failed.error_message.as_str()), ("failed", "no luck"));
    assert_eq!(failed.directory, format!("completed/{}", other.uuid));

    for _ in 0..2 {
        let found = task(&mut client, &work).await;
        assert_eq!(
            (found.status().name(), found.final_summary.as_str()),
            ("completed", "all is well\nreally")
        );
        assert_eq!(found.last_seq, 2);
        let found = task(&mut client, &other).await;
        assert_eq!((found.final_summary.as_str(), found.error_message.as_str()), ("tried", "no luck"));
        assert_eq!(view(&mut client, other.current()).await.lines().count(), 1);
        server.restart().await;
        client = api(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_refused_in_the_status_that_does_not_allow_it() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    for status in ["running", "paused", "completed", "failed"] {
        let work = in_status(&mut api, status).await;
        let other = in_status(&mut api, status).await;
        let (runs, ended) = (status == "running", matches!(status, "completed" | "failed"));
        let mut calls: Vec<(&str, bool, Result<(), tonic::Status>)> = Vec::new();
        macro_rules! call {
            ($method:ident, $fine:expr, $request:expr) => {
                let answer = api.$method($request).await.map(drop);
                calls.push((stringify!($method), $fine, answer));
            };
        }
        let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
        let with = |_: ()| (task_uuid.clone(), lease_generation);
        call!(append_message, runs, work.say("more"));
        let (task_uuid, lease_generation) = with(());
        call!(
            pin_message,
            runs,
            pb::PinMessageRequest { task_uuid, lease_generation, seq: 1, ..Default::default() }
        );
        let (task_uuid, lease_generation) = with(());
        call!(
            unpin_message,
            runs,
            pb::UnpinMessageRequest { task_uuid, lease_generation, seq: 1, ..Default::default() }
        );
        call!(rewind_task, runs, work.rewind(1));
        let (task_uuid, lease_generation) = with(());
        call!(
            record_tool_call,
            runs,
            pb::RecordToolCallRequest {
                task_uuid,
                lease_generation,
                tool_name: "ls".to_owned(),
                ..Default::default()
            }
        );
        let (task_uuid, lease_generation) = with(());
        call!(
            append_plan,
            runs,
            pb::AppendPlanRequest {
                task_uuid,
                lease_generation,
                plan_content_json: "[]".to_owned(),
                ..Default::default()
            }
        );
        let (task_uuid, lease_generation) = with(());
        call!(
            record_usage,
            runs,
            pb::RecordUsageRequest { task_uuid, lease_generation, ..Default::default() }
        );
        let (task_uuid, lease_generation) = with(());
        call!(
            update_statistics,
            runs,
            pb::UpdateStatisticsRequest { task_uuid, lease_generation, ..Default::default() }
        );
        let (task_uuid, lease_generation) = with(());
        call!(
            update_task,
            runs,
            pb::UpdateTaskRequest {
                task_uuid,
                lease_generation,
                config: Some(config()),
                ..Default::default()
            }
        );
        call!(resume_task, status == "paused", resume(&other, "a"));
        call!(pause_task, runs, pause(&work));
        // By now one that ran is paused.
        let now = Work { lease: 0, ..work.clone() };
        call!(complete_task, !ended, complete(&now, ""));
        let last = in_status(&mut api, status).await;
        call!(fail_task, !ended, fail(&last, "", ""));
        for (method, fine, answer) in calls {
            if fine {
                assert!(answer.is_ok(), "{method} on a {status} task: {answer:?}");
            } else {
                let why = refused(answer);
                assert_eq!(why.reason, ErrorReason::WrongStatus, "{method} on a {status} task");
                assert!(status == "running" || why.data["status"] == status, "{method}: {why:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_does_not_run_cannot_be_started() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    for status in ["paused", "completed", "failed"] {
        let work = in_status(&mut api, status).await;
        let again =
            pb::StartTaskRequest { task_uuid: work.uuid.clone(), holder: holder("a"), ..Default::default() };
        let why = refused(api.start_task(again).await);
        assert_eq!((why.reason, &why.data["task_uuid"]), (ErrorReason::TaskExists, &work.uuid), "{status}");
        assert_eq!(task(&mut api, &work).await.status().name(), status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_replaced_as_a_whole() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work =
        start_as(&mut client, pb::StartTaskRequest { config: Some(config()), ..Default::default() }).await;
    let new = pb::TaskConfig { model: "small".to_owned(), context_length: Some(10), ..Default::default() };
    let update = pb::UpdateTaskRequest {
        task_uuid: work.uuid.clone(),
        config: Some(new.clone()),
        lease_generation: work.lease,
        ..Default::default()
    };
    let updated = client.update_task(update.clone()).await.unwrap().into_inner().task.unwrap();
    assert_eq!(updated.config.as_ref(), Some(&new));
    let told = client.append_message(work.say("a text of some length")).await.unwrap().into_inner();
    let pressure = told.pressure.unwrap();
    assert_eq!((pressure.limit, pressure.limit_source().name()), (10, "task"));
    server.restart().await;
    client = api(&server).await;
    assert_eq!(task(&mut client, &work).await.config, Some(new));
    let none = pb::UpdateTaskRequest { config: None, ..update.clone() };
    assert_eq!(refused(client.update_task(none).await).fields, ["config"]);
    // What would not be kept as it is, is refused.
    for (extra_json, fine) in [
        (r#"{"n":18446744073709551615,"m":-9223372036854775808,"x":0.1}"#, true),
        (r#"{"n":123456789012345678901234567890}"#, false),
        (r#"{"model":"twice"}"#, false),
    ] {
        let config = pb::TaskConfig { extra_json: extra_json.to_owned(), ..Default::default() };
        let answer =
            client.update_task(pb::UpdateTaskRequest { config: Some(config), ..update.clone() }).await;
        if fine {
            let kept = answer.unwrap().into_inner().task.unwrap().config.unwrap().extra_json;
            let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(json(&kept), json(extra_json));
        } else {
            assert_eq!(refused(answer).fields, ["config.extra_json"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_removed_whatever_its_status() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let mut gone = Vec::new();
    for status in ["running", "paused", "completed", "failed"] {
        let work = in_status(&mut client, status).await;
        let dir = server.data_dir().join(task(&mut client, &work).await.directory);
        client.delete_task(delete(&work)).await.unwrap();
        assert!(!dir.exists());
        assert_eq!(reason(client.delete_task(delete(&work)).await), ErrorReason::TaskNotFound);
        gone.push(work);
    }
    for _ in 0..2 {
        for work in &gone {
            assert_eq!(reason(client.get_task(work.get()).await), ErrorReason::TaskNotFound);
        }
        let listed = client.list_tasks(pb::ListTasksRequest::default()).await.unwrap().into_inner();
        assert_eq!(listed.tasks, []);
        server.restart().await;
        client = api(&server).await;
    }
    // The name is free again.
    let again = pb::StartTaskRequest { task_uuid: gone[0].uuid.clone(), ..Default::default() };
    let again = start_as(&mut client, again).await;
    assert!(gone.iter().all(|work| again.lease > work.lease));
    assert_eq!(say(&mut client, &again, "new").await, 1);
    // But nobody who had the old one is given it by mistake.
    let had = pb::StartTaskRequest {
        task_uuid: gone[1].uuid.clone(),
        holder: holder("a"),
        lease_generation: 1,
        ..Default::default()
    };
    assert_eq!(reason(client.start_task(had).await), ErrorReason::TaskNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_to_its_end_when_the_task_is_removed() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let text = "x".repeat(1 << 20);
    for _ in 0..12 {
        say(&mut api, &work, &text).await;
    }
    let small = pb::StreamCurrentRequest { chunk_bytes: 1 << 16, ..work.current() };
    let mut current = api.stream_current(small).await.unwrap().into_inner();
    let mut messages = api.stream_messages(work.messages()).await.unwrap().into_inner();
    let first = current.message().await.unwrap().unwrap();
    let mut lines = messages.message().await.unwrap().unwrap().records.len();
    api.delete_task(delete(&work)).await.unwrap();
    let mut read = first.data.len() as u64;
    while let Some(chunk) = current.message().await.unwrap() {
        assert_eq!(chunk.offset, read);
        read += chunk.data.len() as u64;
    }
    assert_eq!(read, first.total_bytes);
    while let Some(batch) = messages.message().await.unwrap() {
        lines += batch.records.len();
    }
    // The two events of the start, and the messages.
    assert_eq!(lines, 14);
}
