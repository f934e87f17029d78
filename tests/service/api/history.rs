//! The logs as they stand on disk: messages with events, tool calls, plans, summaries.

use std::fs;

use contextstore_base::model::{
    Json, Literal, LiteralKind, Role, Segment, SummaryRecord, TaskConfig, TaskId, TaskKey,
};
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use contextstore_store::store::{Append, Caller, NewRewrite, StartTask, Store, StoreOptions};
use serde_json::{Value, json};

use test_support::server::TestServer;
use test_support::wire::{Api, Work, all, api, reason, refused, say, start, task, view};

/// Appends a little of everything.
async fn busy(api: &mut Api) -> Work {
    let work = start(api).await;
    let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
    say(api, &work, "one").await;
    say(api, &work, "two").await;
    let pin = pb::PinMessageRequest { task_uuid, seq: 1, lease_generation, ..Default::default() };
    api.pin_message(pin).await.unwrap();
    say(api, &work, "three").await;
    let usage = pb::RecordUsageRequest {
        task_uuid: work.uuid.clone(),
        input_tokens: 1,
        lease_generation,
        ..Default::default()
    };
    api.record_usage(usage).await.unwrap();
    api.rewind_task(work.rewind(2)).await.unwrap();
    say(api, &work, "four").await;
    let config = pb::UpdateTaskRequest {
        task_uuid: work.uuid.clone(),
        config: Some(pb::TaskConfig::default()),
        lease_generation,
        ..Default::default()
    };
    api.update_task(config).await.unwrap();
    let more = pb::UpdateStatisticsRequest {
        task_uuid: work.uuid.clone(),
        tokens: 5,
        lease_generation,
        ..Default::default()
    };
    api.update_statistics(more).await.unwrap();
    work
}

/// The names of what a request answers: the seq of a message, the name of an event.
async fn named(api: &mut Api, request: pb::StreamMessagesRequest) -> Vec<String> {
    let batches = all(api.stream_messages(request).await).await.unwrap();
    let name = |record: &Value| record["event"].as_str().map_or(record["seq"].to_string(), str::to_owned);
    batches
        .iter()
        .flat_map(|batch| &batch.records)
        .map(|record| name(&serde_json::from_slice(record).unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_is_the_log_byte_for_byte() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = busy(&mut api).await;
    let batches = all(api.stream_messages(work.messages()).await).await.unwrap();
    let records: Vec<_> = batches.iter().flat_map(|batch| &batch.records).collect();
    let read: Vec<u8> = records.iter().flat_map(|record| [record.as_ref(), b"\n"].concat()).collect();
    assert_eq!(read, fs::read(server.running(&work.uuid).join("messages.jsonl")).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_the_history_is_chosen_by_number_kind_and_limit() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = busy(&mut api).await;
    let whole = ["started", "lease", "1", "2", "pin", "3", "usage", "rewrite", "4", "config", "statistics"];
    let ask = |from_seq, to_seq, limit, kinds: &[&str]| pb::StreamMessagesRequest {
        from_seq,
        to_seq,
        limit,
        kinds: kinds.iter().map(|kind| pb::RecordKind::from_name(kind).map_or(99, Into::into)).collect(),
        ..work.messages()
    };
    for (request, expected) in [
        (ask(0, 0, 0, &[]), &whole[..]),
        (ask(1, 0, 0, &[]), &whole[2..]),
        (ask(2, 3, 0, &[]), &whole[3..8]),
        (ask(0, 1, 0, &[]), &whole[..3]),
        (ask(4, 4, 0, &[]), &whole[8..]),
        (ask(4, 100, 0, &[]), &whole[8..]),
        (ask(5, 0, 0, &[]), &[]),
        (ask(u64::MAX, u64::MAX, 0, &[]), &[]),
        (ask(0, 0, 1, &[]), &whole[..1]),
        (ask(2, 0, 3, &[]), &whole[3..6]),
        (ask(0, 0, u64::MAX, &[]), &whole[..]),
        (ask(0, 0, 0, &["message"]), &["1", "2", "3", "4"]),
        (ask(2, 3, 0, &["message"]), &["2", "3"]),
        (ask(0, 0, 2, &["message", "rewrite"]), &["1", "2"]),
        (ask(3, 0, 0, &["message", "rewrite"]), &["3", "rewrite", "4"]),
        (
            ask(0, 0, 0, &["started", "lease", "config", "statistics"]),
            &["started", "lease", "config", "statistics"],
        ),
        (ask(0, 0, 0, &["status", "forked", "erased"]), &[]),
        (ask(0, 0, 0, &["pin", "usage"]), &["pin", "usage"]),
    ] {
        let said = format!("{request:?}");
        assert_eq!(named(&mut api, request).await, expected, "{said}");
    }
    for (request, field) in [
        (ask(0, 0, 0, &["gossip"]), "kinds"),
        (ask(0, 0, 0, &["message", ""]), "kinds"),
        (ask(3, 2, 0, &[]), "to_seq"),
        (pb::StreamMessagesRequest { follow: true, ..ask(0, 2, 0, &[]) }, "to_seq"),
    ] {
        assert_eq!(refused(all(api.stream_messages(request).await).await).fields, [field]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_records_come_in_batches() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    for _ in 0..20 {
        say(&mut api, &work, &"x".repeat(100_000)).await;
    }
    let batches = all(api.stream_messages(work.messages()).await).await.unwrap();
    assert!(batches.len() >= 6, "{} batches", batches.len());
    for batch in &batches {
        let bytes: usize = batch.records.iter().map(|record| record.len()).sum();
        assert!(!batch.records.is_empty() && bytes <= 400_000, "{bytes} bytes");
    }
}

fn tool_call(work: &Work, tool_name: &str) -> pb::RecordToolCallRequest {
    pb::RecordToolCallRequest {
        task_uuid: work.uuid.clone(),
        tool_name: tool_name.to_owned(),
        lease_generation: work.lease,
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_calls_are_recorded_in_a_log_of_their_own() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    say(&mut api, &work, "one").await;
    let full = pb::RecordToolCallRequest {
        arguments_json: r#"{ "path": "/tmp", "n": 1.50 }"#.to_owned(),
        result_json: r#"["a", {"b": null}]"#.to_owned(),
        status: pb::ToolCallStatus::Success.into(),
        duration: Some(prost_types::Duration::default()),
        message_seq: Some(1),
        ..tool_call(&work, "ls")
    };
    let failed = pb::RecordToolCallRequest {
        output_ref: "out-7".to_owned(),
        status: pb::ToolCallStatus::Error.into(),
        error: "no such file".to_owned(),
        duration: Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }),
        ..tool_call(&work, "cat")
    };
    for (number, call) in [(1, full), (2, failed), (3, tool_call(&work, "pwd"))] {
        let told = api.record_tool_call(call).await.unwrap().into_inner();
        assert_eq!((told.seq, told.duplicate), (number, false));
    }
    let log = fs::read_to_string(server.running(&work.uuid).join("tools.jsonl")).unwrap();
    let behind = |line: &str| {
        let (_, rest) = line.split_once(",\"after\":1").unwrap();
        rest.rsplit_once(",\"crc\"").unwrap().0.to_owned()
    };
    let found: Vec<String> = log.lines().map(behind).collect();
    assert_eq!(
        found,
        [
            r#","tool_name":"ls","arguments":{"path":"/tmp","n":1.50},"result":["a",{"b":null}],"status":"success","duration_ms":0,"message_seq":1"#,
            r#","tool_name":"cat","output_ref":"out-7","status":"error","error":"no such file","duration_ms":1500"#,
            r#","tool_name":"pwd","status":"success""#,
        ]
    );
    let ask = |from_seq, to_seq, limit| pb::StreamToolCallsRequest {
        task_uuid: work.uuid.clone(),
        from_seq,
        to_seq,
        limit,
    };
    let lines: Vec<&str> = log.lines().collect();
    for (request, expected) in [
        (ask(0, 0, 0), &lines[..]),
        (ask(2, 0, 0), &lines[1..]),
        (ask(2, 2, 0), &lines[1..2]),
        (ask(0, 0, 2), &lines[..2]),
        (ask(4, 0, 0), &[]),
    ] {
        let batches = all(api.stream_tool_calls(request).await).await.unwrap();
        let records: Vec<_> = batches.iter().flat_map(|batch| &batch.records).collect();
        assert_eq!(records, expected);
    }
    assert_eq!(refused(all(api.stream_tool_calls(ask(3, 2, 0)).await).await).fields, ["to_seq"]);

    let both = pb::RecordToolCallRequest {
        result_json: "1".to_owned(),
        output_ref: "out-8".to_owned(),
        ..tool_call(&work, "x")
    };
    let cases = [
        (both, "output_ref"),
        (tool_call(&work, ""), "tool_name"),
        (tool_call(&work, &"n".repeat(1025)), "tool_name"),
        (pb::RecordToolCallRequest { status: 99, ..tool_call(&work, "x") }, "status"),
        (
            pb::RecordToolCallRequest { arguments_json: "{".to_owned(), ..tool_call(&work, "x") },
            "arguments_json",
        ),
        (pb::RecordToolCallRequest { result_json: "nul".to_owned(), ..tool_call(&work, "x") }, "result_json"),
        (
            pb::RecordToolCallRequest { output_ref: "../x y".to_owned(), ..tool_call(&work, "x") },
            "output_ref",
        ),
    ];
    for (request, field) in cases {
        assert_eq!(refused(api.record_tool_call(request).await).fields, [field]);
    }
    let statistics = task(&mut api, &work).await.statistics.unwrap();
    assert_eq!((statistics.total_tool_calls, statistics.tool_success_count), (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_kept_and_the_newest_is_found() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    let latest = pb::GetLatestPlanRequest { task_uuid: work.uuid.clone() };
    let why = refused(client.get_latest_plan(latest.clone()).await);
    assert_eq!((why.reason, &why.data["task_uuid"]), (ErrorReason::PlanNotFound, &work.uuid));
    assert!(!task(&mut client, &work).await.has_plan);
    let plan = |plan_type: &str, content: &str| pb::AppendPlanRequest {
        task_uuid: work.uuid.clone(),
        plan_type: plan_type.to_owned(),
        plan_content_json: content.to_owned(),
        lease_generation: work.lease,
        ..Default::default()
    };
    let contents = [r#"{ "steps": ["a", "b"], "n": 1.0 }"#, "\"text\"", "null", "[ ]"];
    for (id, content) in (1..).zip(contents) {
        let told = client.append_plan(plan("initial", content)).await.unwrap().into_inner();
        assert_eq!((told.id, told.duplicate), (id, false));
        let newest = client.get_latest_plan(latest.clone()).await.unwrap().into_inner();
        assert_eq!((newest.id, newest.plan_type.as_str()), (id, "initial"));
        assert_eq!(newest.plan_content_json, content.replace(' ', ""));
        assert!(newest.create_time.unwrap().seconds > 1_700_000_000);
    }
    server.kill();
    server.restart().await;
    client = api(&server).await;
    assert_eq!(client.get_latest_plan(latest.clone()).await.unwrap().into_inner().id, 4);
    let found = task(&mut client, &work).await;
    assert_eq!((found.has_plan, found.statistics.unwrap().total_plans), (true, 4));
    let ask = |from_id, to_id, limit| pb::StreamPlansRequest {
        task_uuid: work.uuid.clone(),
        from_id,
        to_id,
        limit,
    };
    let log = fs::read_to_string(server.running(&work.uuid).join("planning.jsonl")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    for (request, expected) in [
        (ask(0, 0, 0), &lines[..]),
        (ask(2, 3, 0), &lines[1..3]),
        (ask(2, 0, 1), &lines[1..2]),
        (ask(9, 9, 9), &[]),
    ] {
        let batches = all(client.stream_plans(request).await).await.unwrap();
        let records: Vec<_> = batches.iter().flat_map(|batch| &batch.records).collect();
        assert_eq!(records, expected);
    }
    assert_eq!(refused(all(client.stream_plans(ask(3, 2, 0)).await).await).fields, ["to_id"]);
    for (request, field) in [
        (plan("x", ""), "plan_content_json"),
        (plan("x", "{"), "plan_content_json"),
        (plan("x", r#"{"a":1,"a":2}"#), "plan_content_json"),
        (plan(&"x".repeat(1025), "1"), "plan_type"),
        (plan("a\u{1}", "1"), "plan_type"),
    ] {
        assert_eq!(refused(client.append_plan(request).await).fields, [field]);
    }
}

fn caller(lease_generation: u64) -> Caller {
    Caller { request_id: None, lease_generation }
}

/// A data directory with a task whose view was summarised twice. No call of this version does that.
fn summarised(data: &std::path::Path) -> TaskId {
    let (store, _) = Store::open(data, StoreOptions::default()).unwrap();
    let task = store
        .start_task(StartTask {
            id: None,
            key: TaskKey::default(),
            user: String::new(),
            config: TaskConfig::default(),
            holder: contextstore_base::model::Holder {
                instance_id: contextstore_base::model::InstanceId::parse("maker").unwrap(),
                process_id: 1,
                hostname: String::new(),
            },
            request_id: None,
        })
        .unwrap();
    for number in 1..=6 {
        let message = contextstore_base::model::NewMessage::text(Role::User, &format!("message {number}"));
        store.append(task.id, &Append { message, caller: caller(1) }).unwrap();
    }
    for (base, covers) in [(0, 2), (1, 4)] {
        let literal = Literal {
            role: Role::User,
            content: Json::text(&format!("summary up to {covers}")),
            kind: LiteralKind::Summary,
            tokens: 5,
            summary: None,
        };
        let record = SummaryRecord {
            id: 0,
            start_seq: 1,
            end_seq: covers,
            summary: format!("summary up to {covers}"),
            compressed_message_count: covers,
            original_tokens: covers * 10,
            summary_tokens: 5,
            tokens_saved: covers * 10 - 5,
            ratio: 5.0 / (covers * 10) as f64,
            strategy: "summarize".to_owned(),
            model: "extractive".to_owned(),
            timestamp: chrono::Utc::now(),
            sections: None,
        };
        let rewrite = NewRewrite {
            strategy: "summarize".to_owned(),
            base,
            covers,
            reason: "test".to_owned(),
            segments: vec![Segment::Literal(literal)],
            summaries: vec![record],
        };
        store.rewrite(task.id, &rewrite, &caller(1)).unwrap();
    }
    store.close().unwrap();
    task.id
}

#[tokio::test(flavor = "multi_thread")]
async fn summaries_are_found_and_stand_in_the_view() {
    let root = tempfile::tempdir().unwrap();
    let id = summarised(&root.path().join("data"));
    let server = TestServer::start_in(root, &[]).await;
    let mut api = api(&server).await;
    let work = Work { uuid: id.to_string(), lease: 1 };
    let latest = pb::GetLatestSummaryRequest { task_uuid: work.uuid.clone() };
    let found = api.get_latest_summary(latest).await.unwrap().into_inner().summary.unwrap();
    assert_eq!((found.id, found.start_seq, found.end_seq), (2, 1, 4));
    assert_eq!((found.summary.as_str(), found.compressed_message_count), ("summary up to 4", 4));
    assert_eq!((found.original_tokens, found.summary_tokens, found.tokens_saved), (40, 5, 35));
    assert_eq!(
        (found.strategy().name(), found.model.as_str(), found.ratio),
        ("summarize", "extractive", 0.125)
    );
    assert!(found.create_time.is_some());
    let statistics = task(&mut api, &work).await.statistics.unwrap();
    assert_eq!(
        (statistics.total_summaries, statistics.compression_count, statistics.view_messages),
        (2, 2, 3)
    );
    // Six messages of the same tokens, of which two are left, and the summary.
    assert_eq!(statistics.view_tokens, statistics.message_tokens / 3 + 5);
    let lines = view(&mut api, work.current()).await;
    assert_eq!(lines.lines().next(), Some(r#"{"role":"user","content":"summary up to 4"}"#));

    let on_disk = fs::read_to_string(server.running(&work.uuid).join("summaries.jsonl")).unwrap();
    let expected: Vec<&str> = on_disk.lines().collect();
    for (limit, expected) in [(0, &expected[..]), (1, &expected[..1]), (9, &expected[..])] {
        let ask = pb::StreamSummariesRequest { task_uuid: work.uuid.clone(), limit };
        let batches = all(api.stream_summaries(ask).await).await.unwrap();
        let records: Vec<_> = batches.iter().flat_map(|batch| &batch.records).collect();
        assert_eq!(records, expected);
        assert_eq!(serde_json::from_slice::<Value>(records[0]).unwrap()["end_seq"], json!(2));
    }

    let other = start(&mut api).await;
    let latest = pb::GetLatestSummaryRequest { task_uuid: other.uuid.clone() };
    assert_eq!(reason(api.get_latest_summary(latest).await), ErrorReason::SummaryNotFound);
    let none = pb::StreamSummariesRequest { task_uuid: other.uuid.clone(), limit: 0 };
    assert!(all(api.stream_summaries(none).await).await.unwrap().is_empty());
}
