//! What is told of tasks and of the server: statistics, listings, counters.

use contextstore_proto::v1 as pb;
use prost_types::Timestamp;

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::{Api, Appending, Work, all, api, files, refused, say, start, start_as, task};

/// Bytes of all files below a directory.
fn bytes_below(dir: &std::path::Path) -> u64 {
    files(dir).values().map(|bytes| bytes.len() as u64).sum()
}

async fn statistics(api: &mut Api, work: &Work) -> pb::TaskStatistics {
    task(api, work).await.statistics.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_count_what_is_there() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    let empty = statistics(&mut client, &work).await;
    assert_eq!(pb::TaskStatistics { bytes_on_disk: empty.bytes_on_disk, ..Default::default() }, empty);
    let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
    let mut tokens = 0;
    for number in 0..5 {
        let request = work.say(&"word ".repeat(number + 1));
        let request = if number == 0 { request.pinned() } else { request };
        tokens += client.append_message(request).await.unwrap().into_inner().tokens;
    }
    client.rewind_task(work.rewind(2)).await.unwrap();
    for status in ["success", "error", "success"] {
        let call = pb::RecordToolCallRequest {
            task_uuid: task_uuid.clone(),
            tool_name: "ls".to_owned(),
            status: pb::ToolCallStatus::from_name(status).unwrap().into(),
            lease_generation,
            ..Default::default()
        };
        client.record_tool_call(call).await.unwrap();
    }
    let plan = pb::AppendPlanRequest {
        task_uuid: task_uuid.clone(),
        plan_content_json: "[]".to_owned(),
        lease_generation,
        ..Default::default()
    };
    client.append_plan(plan).await.unwrap();
    let usage = pb::RecordUsageRequest {
        task_uuid: task_uuid.clone(),
        input_tokens: 1,
        output_tokens: 20,
        cache_creation_tokens: 300,
        cache_read_tokens: 4000,
        lease_generation,
        ..Default::default()
    };
    let pressure = client.record_usage(usage).await.unwrap().into_inner().pressure.unwrap();
    let more = pb::UpdateStatisticsRequest {
        task_uuid: task_uuid.clone(),
        llm_calls: 2,
        tool_calls: 3,
        tokens: 10_000,
        compressions: 4,
        lease_generation,
        ..Default::default()
    };
    let told = client.update_statistics(more).await.unwrap().into_inner().statistics.unwrap();
    let found = statistics(&mut client, &work).await;
    assert_eq!(told, found);
    // What the provider has read counts, however little was counted of it.
    assert_eq!(pressure.tokens, 1 + 300 + 4000);
    let expected = pb::TaskStatistics {
        total_messages: 5,
        message_tokens: tokens,
        view_messages: 2,
        view_tokens: found.view_tokens,
        view_bytes: std::fs::metadata(server.running(&work.uuid).join("current.jsonl")).unwrap().len(),
        llm_call_count: 3,
        total_tokens: 14_321,
        tool_call_count: 6,
        total_tool_calls: 3,
        tool_success_count: 2,
        compression_count: 4,
        total_summaries: 0,
        total_plans: 1,
        pinned_messages: 1,
        bytes_on_disk: bytes_below(&server.running(&work.uuid)),
    };
    assert_eq!(found, expected);
    assert!(0 < found.view_tokens && found.view_tokens < tokens);
    // The same after a crash, but for what is on disk.
    server.kill();
    server.restart().await;
    client = api(&server).await;
    let found = statistics(&mut client, &work).await;
    assert_eq!(pb::TaskStatistics { bytes_on_disk: expected.bytes_on_disk, ..found }, expected);
    assert_eq!(found.bytes_on_disk, bytes_below(&server.running(&work.uuid)));
    let complete =
        pb::CompleteTaskRequest { task_uuid: task_uuid.clone(), lease_generation, ..Default::default() };
    client.complete_task(complete).await.unwrap();
    let dir = server.data_dir().join("completed").join(&work.uuid);
    assert_eq!(statistics(&mut client, &work).await.bytes_on_disk, bytes_below(&dir));
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_never_turn_over() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let config = pb::TaskConfig { durability: pb::Durability::Process.into(), ..Default::default() };
    let work = start_as(&mut api, pb::StartTaskRequest { config: Some(config), ..Default::default() }).await;
    const MOST: u64 = (1 << 53) - 1;
    let most = pb::UpdateStatisticsRequest {
        task_uuid: work.uuid.clone(),
        llm_calls: MOST,
        tool_calls: MOST,
        tokens: MOST,
        compressions: MOST,
        lease_generation: work.lease,
        ..Default::default()
    };
    let mut before = pb::TaskStatistics::default();
    for round in 0..2100_u64 {
        let told = api.update_statistics(most.clone()).await.unwrap().into_inner().statistics.unwrap();
        assert_eq!(told.total_tokens, MOST.saturating_mul(round + 1));
        assert!(
            told.llm_call_count >= before.llm_call_count && told.tool_call_count >= before.tool_call_count
        );
        before = told;
    }
    assert_eq!(before.total_tokens, u64::MAX);
    // The catalog takes it as well.
    let listed = api.list_tasks(pb::ListTasksRequest::default()).await.unwrap().into_inner().tasks;
    assert!(listed[0].statistics.unwrap().total_tokens >= i64::MAX as u64);
    for field in ["llm_calls", "tool_calls", "tokens", "compressions"] {
        let mut over = pb::UpdateStatisticsRequest { lease_generation: work.lease, ..Default::default() };
        over.task_uuid.clone_from(&work.uuid);
        match field {
            "llm_calls" => over.llm_calls = MOST + 1,
            "tool_calls" => over.tool_calls = MOST + 1,
            "tokens" => over.tokens = MOST + 1,
            _ => over.compressions = MOST + 1,
        }
        assert_eq!(refused(api.update_statistics(over).await).fields, [field]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_says_what_it_is_and_takes() {
    let keys = [
        ("durability", "each"),
        ("lease.ttl", "90s"),
        ("limits.message_bytes", "1MiB"),
        ("limits.connections", "9"),
        ("limits.task_bytes", "5MiB"),
        ("limits.read_idle", "1500ms"),
    ];
    let server = TestServer::start_configured(&keys).await;
    let info = api(&server).await.get_server_info(pb::GetServerInfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.version.as_str(), info.format_version), (env!("CARGO_PKG_VERSION"), 1));
    assert_eq!((info.durability().name(), info.lease_ttl.unwrap().seconds), ("each", 90));
    assert_eq!(
        (info.data_dir.as_str(), info.process_id),
        (server.data_dir().to_str().unwrap(), server.pid())
    );
    assert_eq!(info.read_only_reason, "");
    for feature in ["watch", "pipelined_append"] {
        assert!(info.features.iter().any(|known| known == feature));
    }
    let limits = info.limits.unwrap();
    assert_eq!((limits.message_bytes, limits.connections, limits.task_bytes), (1 << 20, 9, 5 << 20));
    assert_eq!((limits.bytes_in_flight, limits.streams_per_connection), (256 << 20, 256));
    assert_eq!((limits.read_streams, limits.chunk_bytes, limits.store_bytes), (512, 4 << 20, 0));
    let idle = limits.read_idle.unwrap();
    assert_eq!((idle.seconds, idle.nanos), (1, 500_000_000));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    assert!((now - info.start_time.unwrap().seconds).abs() < 60);
}

fn micros(time: Timestamp) -> i64 {
    time.seconds * 1_000_000 + i64::from(time.nanos) / 1000
}

/// Five tasks, made one after the other, each with what it is to be found by.
async fn five(api: &mut Api) -> Vec<pb::Task> {
    let mut made = Vec::new();
    for number in 0..5 {
        let odd = number % 2 == 1;
        let key = pb::TaskKey {
            task_source: if odd { "github" } else { "gitlab" }.to_owned(),
            owner: format!("owner {number}"),
            repo: "r%_'\"".to_owned(),
            task_type: "issue".to_owned(),
            task_id: number.to_string(),
        };
        let request = pb::StartTaskRequest {
            key: Some(key),
            user: if number < 2 { "ann" } else { "bob" }.to_owned(),
            config: Some(pb::TaskConfig {
                model: "m".to_owned(),
                llm_provider: "openai".to_owned(),
                context_length: Some(7),
                durability: pb::Durability::Each.into(),
                extra_json: r#"{"x":1}"#.to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let work = start_as(api, request).await;
        say(api, &work, "hello").await;
        made.push(task(api, &work).await);
    }
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_listed_by_what_they_are() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let made = five(&mut api).await;
    let uuid = |at: usize| made[at].uuid.clone();
    let whose = |at: usize| (uuid(at), 1);
    let (task_uuid, lease_generation) = whose(1);
    api.pause_task(pb::PauseTaskRequest { task_uuid, lease_generation, ..Default::default() }).await.unwrap();
    let (task_uuid, lease_generation) = whose(2);
    api.complete_task(pb::CompleteTaskRequest { task_uuid, lease_generation, ..Default::default() })
        .await
        .unwrap();
    let (task_uuid, lease_generation) = whose(3);
    let fail = pb::FailTaskRequest {
        task_uuid,
        error_message: "broke".to_owned(),
        final_summary: "s".to_owned(),
        lease_generation,
        ..Default::default()
    };
    api.fail_task(fail).await.unwrap();
    async fn listed(api: &mut Api, filter: pb::TaskFilter) -> Vec<String> {
        let request = pb::ListTasksRequest {
            filter: Some(filter),
            order: pb::TaskOrder::CreatedAsc.into(),
            ..Default::default()
        };
        let tasks = api.list_tasks(request).await.unwrap().into_inner().tasks;
        tasks.into_iter().map(|task| task.uuid).collect()
    }
    let statuses = |words: &[&str]| pb::TaskFilter {
        statuses: words.iter().map(|word| pb::TaskStatus::from_name(word).unwrap().into()).collect(),
        ..Default::default()
    };
    // The catalog may be behind by a second.
    eventually(DEADLINE, || {
        let mut api = api.clone();
        let failed = statuses(&["failed"]);
        async move { (listed(&mut api, failed).await.len() == 1).then_some(()) }
    })
    .await;
    let text = str::to_owned;
    let at = |index: usize| made[index].create_time;
    let none = pb::TaskFilter::default;
    for (filter, expected) in [
        (none(), vec![0, 1, 2, 3, 4]),
        (statuses(&["running"]), vec![0, 4]),
        (statuses(&["paused", "failed"]), vec![1, 3]),
        (statuses(&["completed", "completed"]), vec![2]),
        (pb::TaskFilter { task_source: text("github"), ..none() }, vec![1, 3]),
        (pb::TaskFilter { task_source: text("git%"), ..none() }, vec![]),
        (pb::TaskFilter { owner: text("owner 4"), ..none() }, vec![4]),
        (pb::TaskFilter { repo: text("r%_'\""), ..none() }, vec![0, 1, 2, 3, 4]),
        (pb::TaskFilter { repo: text("R%_'\""), ..none() }, vec![]),
        (pb::TaskFilter { task_type: text("issue"), task_id: text("2"), ..none() }, vec![2]),
        (pb::TaskFilter { user: text("ann"), ..none() }, vec![0, 1]),
        (pb::TaskFilter { user: text("ann"), ..statuses(&["paused"]) }, vec![1]),
        (pb::TaskFilter { created_from: at(2), ..none() }, vec![2, 3, 4]),
        (pb::TaskFilter { created_before: at(2), ..none() }, vec![0, 1]),
        (pb::TaskFilter { created_from: at(1), created_before: at(4), ..none() }, vec![1, 2, 3]),
        (
            pb::TaskFilter { created_from: Some(Timestamp { seconds: 253_402_300_799, nanos: 0 }), ..none() },
            vec![],
        ),
    ] {
        let said = format!("{filter:?}");
        let expected: Vec<String> = expected.into_iter().map(uuid).collect();
        assert_eq!(listed(&mut api, filter).await, expected, "{said}");
    }

    // What a listing leaves out, and what it says.
    let request = pb::ListTasksRequest { filter: Some(statuses(&["failed"])), ..Default::default() };
    let failed = api.list_tasks(request).await.unwrap().into_inner().tasks.remove(0);
    let whole = task(&mut api, &Work { uuid: uuid(3), lease: 0 }).await;
    let expected = pb::Task {
        lease: None,
        lease_generation: 0,
        has_plan: false,
        view_generation: 0,
        last_seq: 0,
        final_summary: String::new(),
        directory: String::new(),
        config: Some(pb::TaskConfig {
            model: "m".to_owned(),
            llm_provider: "openai".to_owned(),
            context_length: Some(7),
            ..Default::default()
        }),
        statistics: Some(pb::TaskStatistics { total_messages: 1, ..Default::default() }),
        ..whole
    };
    assert_eq!(failed, expected);
    assert_eq!((failed.error_message.as_str(), failed.status().name()), ("broke", "failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_repeat_nor_lose_a_task() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let made = five(&mut api).await;
    // Touched in another order than they were made.
    for at in [3, 0, 4, 1, 2] {
        say(&mut api, &Work { uuid: made[at].uuid.clone(), lease: 1 }, "touched").await;
    }
    for (order, expected) in [
        ("", [4, 3, 2, 1, 0]),
        ("created_desc", [4, 3, 2, 1, 0]),
        ("created_asc", [0, 1, 2, 3, 4]),
        ("updated_desc", [2, 1, 4, 0, 3]),
        ("updated_asc", [3, 0, 4, 1, 2]),
    ] {
        let expected: Vec<&str> = expected.iter().map(|at| made[*at].uuid.as_str()).collect();
        for page_size in [1, 2, 5, 1000, 0] {
            let ask = |page_token: String| pb::ListTasksRequest {
                order: pb::TaskOrder::from_name(order).unwrap_or_default().into(),
                page_size,
                page_token,
                ..Default::default()
            };
            let found = eventually(DEADLINE, || {
                let mut api = api.clone();
                let expected = &expected;
                async move {
                    let mut found: Vec<pb::Task> = Vec::new();
                    let mut token = String::new();
                    loop {
                        let page = api.list_tasks(ask(token)).await.unwrap().into_inner();
                        assert!(page.tasks.len() <= page_size.max(1) as usize || page_size == 0);
                        found.extend(page.tasks);
                        token = page.next_page_token;
                        if token.is_empty() {
                            break;
                        }
                    }
                    found.iter().map(|task| &*task.uuid).eq(expected.iter().copied()).then_some(found)
                }
            })
            .await;
            let times: Vec<i64> = found.iter().map(|task| micros(task.update_time.unwrap())).collect();
            if order == "updated_asc" {
                assert!(times.is_sorted());
            }
        }
    }
    let first = pb::ListTasksRequest { page_size: 2, ..Default::default() };
    let token = api.list_tasks(first).await.unwrap().into_inner().next_page_token;
    let ask = |order, page_size, page_token: &str| pb::ListTasksRequest {
        order,
        page_size,
        page_token: page_token.to_owned(),
        ..Default::default()
    };
    for (request, field) in [
        (ask(pb::TaskOrder::CreatedAsc.into(), 2, &token), "page_token"),
        (ask(0, 2, "made up"), "page_token"),
        (ask(0, 2, &token[1..]), "page_token"),
        (ask(0, 1001, ""), "page_size"),
        (ask(99, 0, ""), "order"),
    ] {
        assert_eq!(refused(api.list_tasks(request).await).fields, [field]);
    }
    let gossip = pb::TaskFilter { statuses: vec![99], ..Default::default() };
    let request = pb::ListTasksRequest { filter: Some(gossip), ..Default::default() };
    assert_eq!(refused(api.list_tasks(request).await).fields, ["filter.statuses"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_tasks_is_one_that_every_client_takes() {
    let server = TestServer::start().await;
    let mut api = Api::new(test_support::wire::channel(&server.socket()).await);
    for _ in 0..9 {
        let work = start(&mut api).await;
        let fail = pb::FailTaskRequest {
            task_uuid: work.uuid,
            error_message: "e".repeat(1 << 20),
            lease_generation: 1,
            ..Default::default()
        };
        api.fail_task(fail).await.unwrap();
    }
    // gRPC's own limit for an answer is 4 MiB; whoever did not raise it must be able to go through all pages.
    let (mut found, mut token) = (0, String::new());
    loop {
        let request = pb::ListTasksRequest { page_token: token, ..Default::default() };
        let page = api.list_tasks(request).await.unwrap().into_inner();
        assert!(!page.tasks.is_empty());
        found += page.tasks.len();
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(found, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_task_is_answered_whole() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let most = "x".repeat(1 << 20);
    let work = start(&mut api).await;
    let fail = |error_message: String, final_summary: String| pb::FailTaskRequest {
        task_uuid: work.uuid.clone(),
        error_message,
        final_summary,
        lease_generation: 1,
        ..Default::default()
    };
    let over = format!("{most}x");
    assert_eq!(refused(api.fail_task(fail(over.clone(), String::new())).await).fields, ["error_message"]);
    assert_eq!(refused(api.fail_task(fail(String::new(), over)).await).fields, ["final_summary"]);
    api.fail_task(fail(most.clone(), most.clone())).await.unwrap();
    let found = task(&mut api, &work).await;
    assert!(found.error_message == most && found.final_summary == most);
    let lines = all(api.stream_messages(work.messages()).await).await.unwrap();
    assert_eq!(lines.iter().map(|batch| batch.records.len()).sum::<usize>(), 3);
}
