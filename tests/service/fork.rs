//! Forks: another task out of the first messages of one, which stands alone from then on.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use tonic::{Response, Status};
use uuid::Uuid;

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service;
use test_support::wire::{
    Api, Appending, Work, all, api, files, holder, reason, refused, say, start, task, view,
};

fn fork(work: &Work, at_seq: u64) -> pb::ForkTaskRequest {
    pb::ForkTaskRequest {
        task_uuid: work.uuid.clone(),
        at_seq,
        holder: holder("b"),
        ..pb::ForkTaskRequest::default()
    }
}

fn work(answer: Result<Response<pb::ForkTaskResponse>, Status>) -> Work {
    let forked = answer.unwrap().into_inner();
    assert!(forked.lease_ttl.is_some());
    Work { uuid: forked.task.unwrap().uuid, lease: forked.lease_generation }
}

async fn tool(api: &mut Api, work: &Work, name: &str) -> pb::RecordToolCallResponse {
    let request = pb::RecordToolCallRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        tool_name: name.to_owned(),
        status: pb::ToolCallStatus::Success.into(),
        request_id: format!("tool-{name}"),
        ..Default::default()
    };
    api.record_tool_call(request).await.unwrap().into_inner()
}

async fn plan(api: &mut Api, work: &Work, text: &str) {
    let request = pb::AppendPlanRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        plan_type: "initial".to_owned(),
        plan_content_json: serde_json::json!(text).to_string(),
        ..Default::default()
    };
    api.append_plan(request).await.unwrap();
}

/// A task with everything in it: 1 system, 2 user, 3 calls, 4 and 5 results, a view taken back to 2, 6 to 9.
async fn history(api: &mut Api) -> Work {
    let work = start(api).await;
    let calls = r#"[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}},
        {"id":"c2","type":"function","function":{"name":"cat","arguments":"{}"}}]"#;
    for message in [
        r#"{"role":"system","content":"You are a clerk."}"#.to_owned(),
        r#"{"role":"user","content":"Look around.","mood":"curious"}"#.to_owned(),
        format!(r#"{{"role":"assistant","content":null,"tool_calls":{calls}}}"#),
        r#"{"role":"tool","tool_call_id":"c1","content":"a b c"}"#.to_owned(),
        r#"{"role":"tool","tool_call_id":"c2","content":"日本語"}"#.to_owned(),
    ] {
        api.append_message(work.json(message)).await.unwrap();
    }
    tool(api, &work, "ls").await;
    plan(api, &work, "first this").await;
    api.rewind_task(work.rewind(2)).await.unwrap();
    for number in 6..=9 {
        let named = work.say(&format!("message {number}")).named(format!("said-{number}"));
        api.append_message(named).await.unwrap();
    }
    let pin = pb::PinMessageRequest {
        task_uuid: work.uuid.clone(),
        seq: 7,
        lease_generation: work.lease,
        ..Default::default()
    };
    api.pin_message(pin).await.unwrap();
    tool(api, &work, "cat").await;
    plan(api, &work, "then that").await;
    work
}

async fn records(api: &mut Api, work: &Work) -> (usize, usize) {
    let tools =
        pb::StreamToolCallsRequest { task_uuid: work.uuid.clone(), ..pb::StreamToolCallsRequest::default() };
    let plans = pb::StreamPlansRequest { task_uuid: work.uuid.clone(), ..pb::StreamPlansRequest::default() };
    let tools: Vec<_> = all(api.stream_tool_calls(tools).await).await.unwrap();
    let plans: Vec<_> = all(api.stream_plans(plans).await).await.unwrap();
    (tools.iter().map(|some| some.records.len()).sum(), plans.iter().map(|some| some.records.len()).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_sees_what_the_task_saw_then_and_stands_alone() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let source = history(&mut client).await;
    let mut forks = BTreeMap::new();
    for seq in 1..=9 {
        let forked = work(client.fork_task(fork(&source, seq)).await);
        let then = pb::StreamCurrentRequest { as_of_seq: seq, ..source.current() };
        let expected = view(&mut client, then).await;
        assert_eq!(view(&mut client, forked.current()).await, expected, "at {seq}");
        let known = if seq < 5 {
            (0, 0)
        } else if seq < 9 {
            (1, 1)
        } else {
            (2, 2)
        };
        assert_eq!(records(&mut client, &forked).await, known, "at {seq}");
        let told = task(&mut client, &forked).await;
        assert_eq!((told.status().name(), told.statistics.unwrap().total_messages), ("running", seq));
        let message = pb::GetMessageRequest { task_uuid: forked.uuid.clone(), seq: 7 };
        if seq >= 7 {
            // It was pinned after message 9.
            assert_eq!(client.get_message(message).await.unwrap().into_inner().pinned, seq == 9);
        }
        forks.insert(seq, (forked, expected));
    }
    // Everything, also what belongs to no message yet.
    let whole = work(client.fork_task(fork(&source, 0)).await);
    let now = view(&mut client, source.current()).await;
    assert_eq!(view(&mut client, whole.current()).await, now);

    // Nobody is touched by what another one does.
    let before = files(&server.running(&source.uuid));
    for (seq, (forked, view_then)) in &mut forks {
        assert_eq!(say(&mut client, forked, "another way").await, *seq + 1);
        // A call that was open is answered where the view goes on.
        let now = view(&mut client, forked.current()).await;
        assert!(now.starts_with(view_then.as_str()) && now.ends_with("another way\"}\n"), "at {seq}: {now}");
        *view_then = now;
    }
    assert_eq!(files(&server.running(&source.uuid)), before);
    client
        .delete_task(pb::DeleteTaskRequest {
            task_uuid: source.uuid.clone(),
            lease_generation: source.lease,
            ..Default::default()
        })
        .await
        .unwrap();
    server.kill();
    server.restart().await;
    let mut client = api(&server).await;
    for (forked, expected) in forks.values() {
        assert_eq!(view(&mut client, forked.current()).await, *expected);
        say(&mut client, forked, "and so on").await;
    }
    server.terminate().await;
    assert_eq!(service::doctor(&server.data_dir()), None);
    assert_eq!(service::oracle(&server.data_dir()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_told_the_same() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let source = history(&mut client).await;
    let uuid = Uuid::now_v7().to_string();
    let named = |at_seq| pb::ForkTaskRequest {
        new_task_uuid: uuid.clone(),
        request_id: "fork-1".to_owned(),
        ..fork(&source, at_seq)
    };
    let first = work(client.fork_task(named(6)).await);
    assert_eq!(first.uuid, uuid);
    for restart in [false, true] {
        if restart {
            server.kill();
            server.restart().await;
            client = api(&server).await;
        }
        let again = work(client.fork_task(named(6)).await);
        assert_eq!((again.uuid, again.lease), (first.uuid.clone(), first.lease));
        assert_eq!(reason(client.fork_task(named(5)).await), ErrorReason::RequestIdReused);
        let nameless = pb::ForkTaskRequest { request_id: String::new(), ..named(6) };
        assert_eq!(reason(client.fork_task(nameless).await), ErrorReason::TaskExists);
        let other = pb::ForkTaskRequest { request_id: "fork-2".to_owned(), ..named(6) };
        assert_eq!(reason(client.fork_task(other).await), ErrorReason::TaskExists);
    }
    assert_eq!(task(&mut client, &first).await.statistics.unwrap().total_messages, 6);
    say(&mut client, &first, "it is written under").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_ids_of_the_task_mean_nothing_in_its_fork() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let source = history(&mut client).await;
    let forked = work(client.fork_task(fork(&source, 0)).await);
    let named = |work: &Work, text: &str| work.say(text).named("said-9");
    let told = client.append_message(named(&forked, "something else")).await.unwrap().into_inner();
    assert_eq!((told.seq, told.duplicate), (10, false));
    let told = tool(&mut client, &forked, "ls").await;
    assert_eq!((told.seq, told.duplicate), (3, false));
    // Also not after its logs were read again, while its own are known.
    server.kill();
    server.restart().await;
    let mut client = api(&server).await;
    let told = client.append_message(named(&forked, "something else")).await.unwrap().into_inner();
    assert_eq!((told.seq, told.duplicate), (10, true));
    assert!(tool(&mut client, &forked, "ls").await.duplicate);
    let told = tool(&mut client, &forked, "cat").await;
    assert_eq!((told.seq, told.duplicate), (4, false));
    assert!(tool(&mut client, &source, "cat").await.duplicate);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_can_be_forked_whatever_its_status() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    for end in ["paused", "completed", "failed"] {
        let source = history(&mut client).await;
        let (task_uuid, lease_generation) = (source.uuid.clone(), source.lease);
        let final_summary = "all that was said".to_owned();
        match end {
            "paused" => {
                let request = pb::PauseTaskRequest { task_uuid, lease_generation, ..Default::default() };
                client.pause_task(request).await.map(drop).unwrap();
            }
            "completed" => {
                let request = pb::CompleteTaskRequest {
                    task_uuid,
                    lease_generation,
                    final_summary,
                    ..Default::default()
                };
                client.complete_task(request).await.map(drop).unwrap();
            }
            _ => {
                let error_message = "it broke".to_owned();
                let request = pb::FailTaskRequest {
                    task_uuid,
                    lease_generation,
                    final_summary,
                    error_message,
                    ..Default::default()
                };
                client.fail_task(request).await.map(drop).unwrap();
            }
        }
        let forked = work(client.fork_task(fork(&source, 0)).await);
        for _ in 0..2 {
            let told = task(&mut client, &forked).await;
            assert_eq!((told.status().name(), told.error_message.as_str()), ("running", ""));
            assert_eq!((told.final_summary.as_str(), told.complete_time), ("", None));
            assert_eq!(told.lease.unwrap().generation, forked.lease);
            assert_eq!(task(&mut client, &source).await.status().name(), end);
            server.kill();
            server.restart().await;
            client = api(&server).await;
        }
        say(&mut client, &forked, "it goes on").await;
    }
    server.terminate().await;
    assert_eq!(service::doctor(&server.data_dir()), None);
    assert_eq!(service::oracle(&server.data_dir()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_forked_is_refused() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let source = history(&mut client).await;
    let why = refused(client.fork_task(fork(&source, 10)).await);
    assert_eq!((why.reason, why.data["last_seq"].as_str()), (ErrorReason::MessageNotFound, "9"));
    let bad = pb::ForkTaskRequest { new_task_uuid: "seven".to_owned(), ..fork(&source, 0) };
    assert_eq!(refused(client.fork_task(bad).await).fields, ["new_task_uuid"]);
    let bad = pb::ForkTaskRequest { holder: None, ..fork(&source, 0) };
    assert_eq!(refused(client.fork_task(bad).await).fields, ["holder"]);
    let nobody = Work::nobody("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10");
    assert_eq!(reason(client.fork_task(fork(&nobody, 0)).await), ErrorReason::TaskNotFound);
    let onto_itself = pb::ForkTaskRequest { new_task_uuid: source.uuid.clone(), ..fork(&source, 0) };
    assert_eq!(reason(client.fork_task(onto_itself).await), ErrorReason::TaskExists);
    let tasks = || fs::read_dir(server.data_dir().join("running")).unwrap().count();
    assert_eq!(tasks(), 1);

    // A task that is damaged is nothing to go on from.
    server.terminate().await;
    let log = server.running(&source.uuid).join("messages.jsonl");
    let mut bytes = fs::read(&log).unwrap();
    bytes[300] ^= 1;
    fs::write(&log, bytes).unwrap();
    fs::remove_file(server.running(&source.uuid).join("checkpoint.json")).unwrap();
    server.restart().await;
    let mut client = api(&server).await;
    assert_eq!(reason(client.fork_task(fork(&source, 1)).await), ErrorReason::Quarantined);
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_of_tools_are_there_in_both() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let source = history(&mut client).await;
    let outputs = server.running(&source.uuid).join("outputs");
    fs::create_dir_all(outputs.join("deeper")).unwrap();
    fs::write(outputs.join("one"), "all of it").unwrap();
    fs::write(outputs.join("deeper/two"), "and that").unwrap();
    let forked = work(client.fork_task(fork(&source, 2)).await);
    fs::remove_dir_all(&outputs).unwrap();
    let theirs = server.running(&forked.uuid).join("outputs");
    assert_eq!(fs::read_to_string(theirs.join("one")).unwrap(), "all of it");
    assert_eq!(fs::read_to_string(theirs.join("deeper/two")).unwrap(), "and that");
    server.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_leaves_whole_forks_or_none() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let source = history(&mut client).await;
    for _ in 0..40 {
        say(&mut client, &source, &"x".repeat(100_000)).await;
    }
    let expected = view(&mut client, source.current()).await;
    for cycle in 0..test_support::sized(2, 6) {
        let request = fork(&source, 0);
        let count = Arc::new(AtomicU64::new(0));
        let forks: Vec<_> = (0..4)
            .map(|_| {
                let (mut client, request, count) = (client.clone(), request.clone(), Arc::clone(&count));
                tokio::spawn(async move {
                    let mut made = Vec::new();
                    while let Ok(forked) = client.fork_task(request.clone()).await {
                        made.push(forked.into_inner().task.unwrap().uuid);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    made
                })
            })
            .collect();
        // Dies in the middle of the next ones.
        let making = server.data_dir().join(".tmp");
        eventually(DEADLINE, async || {
            let under_way = fs::read_dir(&making).unwrap().next().is_some();
            (under_way && count.load(Ordering::Relaxed) >= 3 * cycle).then_some(())
        })
        .await;
        server.kill();
        let mut told = Vec::new();
        for forks in forks {
            told.extend(forks.await.unwrap());
        }
        server.restart().await;
        client = api(&server).await;
        assert_eq!(fs::read_dir(server.data_dir().join(".tmp")).unwrap().count(), 0);
        let there: Vec<String> = fs::read_dir(server.data_dir().join("running"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|uuid| *uuid != source.uuid)
            .collect();
        assert!(told.iter().all(|uuid| there.contains(uuid)), "{told:?} {there:?}");
        for uuid in there {
            let forked = Work::nobody(&uuid);
            assert_eq!(view(&mut client, forked.current()).await, expected);
            let task_uuid = uuid;
            let lease_generation = task(&mut client, &forked).await.lease.unwrap().generation;
            let delete = pb::DeleteTaskRequest { task_uuid, lease_generation, ..Default::default() };
            client.delete_task(delete).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_fork_needs_little_memory() {
    let server = TestServer::start_configured(&[("durability", "process")]).await;
    let mut client = api(&server).await;
    let source = start(&mut client).await;
    for _ in 0..96 {
        say(&mut client, &source, &"x".repeat(1 << 20)).await;
    }
    let before = server.rss();
    let forked = work(client.fork_task(fork(&source, 0)).await);
    let more = server.rss().saturating_sub(before);
    assert!(more < 24 << 20, "a fork of 96 MiB took {more} bytes");
    assert_eq!(task(&mut client, &forked).await.statistics.unwrap().total_messages, 96);
}
