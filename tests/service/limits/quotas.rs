//! How much may be on disk.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;

use test_support::server::TestServer;
use test_support::wire::{Api, Work, all, api, files, refused, say, start, task, view};

const KIB: u64 = 1 << 10;

fn delete(work: &Work) -> pb::DeleteTaskRequest {
    pb::DeleteTaskRequest { task_uuid: work.uuid.clone(), lease_generation: work.lease, ..Default::default() }
}

/// Nothing happens to a context without being asked.
const STILL: (&str, &str) = ("compression.auto", "false");

/// Appends until it is refused; answers how many there are then.
async fn fill(api: &mut Api, work: &Work, quota: &str, limit: u64) -> u64 {
    let text = "x".repeat(4000);
    let mut last = task(api, work).await.last_seq;
    loop {
        match api.append_message(work.say(&text)).await {
            Ok(told) => last = told.into_inner().seq,
            Err(status) => {
                let why = test_support::wire::why(&status);
                assert_eq!((why.reason, why.data["quota"].as_str()), (ErrorReason::QuotaExceeded, quota));
                assert_eq!(why.data["limit"], limit.to_string());
                assert!(why.data["used"].parse::<u64>().unwrap() <= limit);
                return last;
            }
        }
        assert!(last < 1000, "there is no limit");
    }
}

async fn reads_go_on(api: &mut Api, work: &Work, messages: u64) {
    assert_eq!(task(api, work).await.last_seq, messages);
    assert_eq!(view(api, work.current()).await.lines().count() as u64, messages);
    all(api.stream_messages(work.messages()).await).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_takes_no_more_than_its_quota() {
    let server = TestServer::start_configured(&[("limits.task_bytes", "200KiB"), STILL]).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let last = fill(&mut api, &work, "limits.task_bytes", 200 * KIB).await;
    let bytes = task(&mut api, &work).await.statistics.unwrap().bytes_on_disk;
    // It is what is on disk that counts; a few small files are not worth counting.
    assert!((150 * KIB..=210 * KIB).contains(&bytes), "{bytes} bytes after {last} messages");
    reads_go_on(&mut api, &work, last).await;
    // Nothing else gets in that would make it larger.
    let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
    let plan = pb::AppendPlanRequest {
        task_uuid: task_uuid.clone(),
        plan_content_json: format!("\"{}\"", "x".repeat(200_000)),
        lease_generation,
        ..Default::default()
    };
    assert_eq!(refused(api.append_plan(plan).await).reason, ErrorReason::QuotaExceeded);
    let call = pb::RecordToolCallRequest {
        task_uuid: task_uuid.clone(),
        tool_name: "ls".to_owned(),
        result_json: format!("\"{}\"", "x".repeat(200_000)),
        lease_generation,
        ..Default::default()
    };
    assert_eq!(refused(api.record_tool_call(call).await).reason, ErrorReason::QuotaExceeded);
    // Other tasks are not concerned, and a full one can still be ended and removed.
    let other = start(&mut api).await;
    assert_eq!(say(&mut api, &other, "fine").await, 1);
    let complete = pb::CompleteTaskRequest {
        task_uuid,
        final_summary: "it was full".to_owned(),
        lease_generation,
        ..Default::default()
    };
    api.complete_task(complete).await.unwrap();
    api.delete_task(delete(&work)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_tasks_together_take_no_more_than_theirs() {
    let mut server = TestServer::start_configured(&[("limits.store_bytes", "300KiB"), STILL]).await;
    let mut client = api(&server).await;
    let (first, second) = (start(&mut client).await, start(&mut client).await);
    for _ in 0..10 {
        say(&mut client, &first, &"x".repeat(4000)).await;
    }
    let last = fill(&mut client, &second, "limits.store_bytes", 300 * KIB).await;
    for folder in ["running", "paused", "completed"] {
        let bytes: usize = files(&server.data_dir().join(folder)).values().map(Vec::len).sum();
        assert!(bytes as u64 <= 330 * KIB, "{bytes} bytes in {folder}");
    }
    reads_go_on(&mut client, &second, last).await;
    reads_go_on(&mut client, &first, 10).await;
    // It is known at once after a restart.
    server.restart().await;
    client = api(&server).await;
    let text = "x".repeat(100_000);
    let why = refused(client.append_message(second.say(&text)).await);
    assert_eq!(why.reason, ErrorReason::QuotaExceeded);
    let large = pb::StartTaskRequest {
        holder: test_support::wire::holder("a"),
        config: Some(pb::TaskConfig {
            extra_json: format!("{{\"x\":\"{}\"}}", "x".repeat(60_000)),
            ..Default::default()
        }),
        ..Default::default()
    };
    assert_eq!(refused(client.start_task(large).await).reason, ErrorReason::QuotaExceeded);
    reads_go_on(&mut client, &second, last).await;
    // What is removed makes room at once.
    client.delete_task(delete(&second)).await.unwrap();
    assert_eq!(say(&mut client, &first, &text).await, 11);
}
