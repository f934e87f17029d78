//! The Rust client against a real server: every call, and what it does when connections break.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use contextstore_client::tonic::Code;
use contextstore_client::{
    Client, Error, ErrorReason, Health, Items, NewMessage, ReadCurrent, ReadMessages, ReadRecords,
    RetryPolicy, StartTask, Statistics, Task, TaskQuery, ToolCall, Usage, v1,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use test_support::proxy::Proxy;
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::{Work, outlived};

async fn start(client: &Client) -> Task {
    client.start_task(StartTask::default()).await.unwrap()
}

fn parse(record: &[u8]) -> Value {
    serde_json::from_slice(record).unwrap()
}

async fn records(items: Items<Bytes>) -> Vec<Value> {
    items.map_ok(|record| parse(&record)).try_collect().await.unwrap()
}

async fn view(task: &Task) -> String {
    let current = task.current(ReadCurrent::default()).await.unwrap();
    let total = current.total_bytes();
    let chunks: Vec<Bytes> = current.try_collect().await.unwrap();
    let all = chunks.concat();
    assert_eq!(all.len() as u64, total);
    String::from_utf8(all).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_found_by_socket_port_and_directory() {
    let server = TestServer::start().await;
    let socket = format!("unix:{}", server.socket().display());
    for client in [server.client().await, server.tcp_client().await, Client::connect(&socket).await.unwrap()]
    {
        assert_eq!(client.health().await.unwrap(), Health::Serving);
        let info = client.server_info().await.unwrap();
        assert_eq!((info.version.as_str(), info.process_id), (env!("CARGO_PKG_VERSION"), server.pid()));
        start(&client).await.append(NewMessage::user("hi")).await.unwrap();
    }
    // Health is for everybody, all else is not.
    for builder in [Client::builder(), Client::builder().token("wrong")] {
        let client = builder.address(server.tcp_address()).connect().await.unwrap();
        assert_eq!(client.health().await.unwrap(), Health::Serving);
        let refused = client.server_info().await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.reason()),
            (Code::Unauthenticated, Some(ErrorReason::Unauthenticated))
        );
    }
    // Without the usual socket, the server has written down where it is: here at the port, as the socket is gone.
    fs::rename(server.socket(), server.data_dir().join("other.sock")).unwrap();
    let addresses = server.data_dir().join("addresses");
    fs::write(&addresses, format!("{}\n", server.tcp_address())).unwrap();
    let client = server.client().await;
    assert_eq!(client.address().to_string(), server.tcp_address());
    start(&client).await;
    let other = format!("unix:{}", server.data_dir().join("other.sock").display());
    fs::write(&addresses, format!("{}\n{other}\n", server.tcp_address())).unwrap();
    let client = server.client().await;
    assert_eq!(client.address().to_string(), other);
    start(&client).await;

    let nobody = Client::connect("unix:/gone/s").await.unwrap_err();
    let words = "no connection to unix:/gone/s: No such file or directory (os error 2). Nothing listens there; \
                 `contextstore serve --data-dir /gone` starts a server";
    assert_eq!(nobody.to_string(), words);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_waits_for_a_server_that_comes_later() {
    let root = tempfile::tempdir().unwrap();
    let client = Client::builder().data_dir(root.path().join("data")).connect_lazy().unwrap();
    let early = client.wait_until_ready(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(early.code(), Code::Unavailable, "{early}");
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.wait_until_ready(DEADLINE).await }
    });
    let _server = TestServer::start_in(root, &[]).await;
    waiting.await.unwrap().unwrap();
    start(&client).await;
}

// features: append, pins, rewind, plans, tool-calls
#[tokio::test(flavor = "multi_thread")]
async fn a_task_from_start_to_end() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let key =
        v1::TaskKey { task_source: "github".to_owned(), task_id: "17".to_owned(), ..Default::default() };
    let config = v1::TaskConfig { context_length: Some(1000), ..Default::default() };
    let begin = StartTask { key: key.clone(), user: "ann".to_owned(), config, ..Default::default() };
    let task = client.start_task(begin).await.unwrap();
    assert!(task.is_new());
    assert_eq!(task.lease_generation(), 1);

    assert_eq!(task.append(NewMessage::system("Be brief.").pinned()).await.unwrap().seq, 1);
    let added =
        task.append(NewMessage::json(r#"{"role":"user","content":"Why?","mood":"curious"}"#)).await.unwrap();
    assert_eq!((added.seq, added.duplicate), (2, false));
    assert_eq!(added.pressure.unwrap().limit, 1000);
    let call = v1::ToolCall {
        id: "c1".to_owned(),
        name: "ls".to_owned(),
        arguments: "{}".to_owned(),
        ..Default::default()
    };
    let calls =
        v1::Message { role: v1::Role::Assistant.into(), tool_calls: vec![call], ..Default::default() };
    task.append(calls).await.unwrap();
    task.append(NewMessage::tool("c1", "a b c")).await.unwrap();
    task.append(NewMessage::assistant("Because.")).await.unwrap();

    let record = task.message(2).await.unwrap();
    assert_eq!(parse(&record.record)["extra"]["mood"], "curious");
    task.pin(2).await.unwrap();
    assert!(task.message(2).await.unwrap().pinned);
    task.unpin(2).await.unwrap();
    assert!(!task.message(2).await.unwrap().pinned);

    let lines: Vec<Bytes> =
        task.current(ReadCurrent::default()).await.unwrap().lines().try_collect().await.unwrap();
    let lines: Vec<_> = lines.iter().map(|line| parse(line)).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[4], json!({"role": "assistant", "content": "Because."}));
    let early = ReadCurrent { as_of_seq: 2, chunk_bytes: 7 };
    let early: Vec<Bytes> = task.current(early).await.unwrap().try_collect().await.unwrap();
    assert!(early.iter().all(|chunk| chunk.len() <= 7));
    assert_eq!(early.concat().iter().filter(|byte| **byte == b'\n').count(), 2);

    let only =
        ReadMessages { from_seq: 2, to_seq: 4, kinds: vec![v1::RecordKind::Message], ..Default::default() };
    let seqs: Vec<_> = records(task.messages(only)).await.iter().map(|line| line["seq"].clone()).collect();
    assert_eq!(seqs, [2, 3, 4]);

    let done =
        ToolCall { tool_name: "ls".to_owned(), result_json: r#""a b c""#.to_owned(), ..Default::default() };
    assert_eq!(task.record_tool_call(done).await.unwrap().seq, 1);
    let broken = ToolCall {
        tool_name: "rm".to_owned(),
        error: Some("no".to_owned()),
        duration: Some(Duration::from_millis(1500)),
        message_seq: Some(4),
        ..Default::default()
    };
    assert_eq!(task.record_tool_call(broken).await.unwrap().seq, 2);
    let calls = records(task.tool_calls(ReadRecords::default())).await;
    assert_eq!(
        (&calls[0]["status"], &calls[1]["status"], &calls[1]["duration_ms"]),
        (&json!("success"), &json!("error"), &json!(1500))
    );
    assert_eq!(records(task.tool_calls(ReadRecords { from: 2, ..Default::default() })).await.len(), 1);

    assert!(task.latest_plan().await.unwrap().is_none());
    task.append_plan("initial", r#"["look"]"#).await.unwrap();
    assert_eq!(task.append_plan("revision", r#"["look","fix"]"#).await.unwrap().id, 2);
    let plan = task.latest_plan().await.unwrap().unwrap();
    assert_eq!((plan.id, plan.plan_type.as_str()), (2, "revision"));
    assert_eq!(records(task.plans(ReadRecords { limit: 1, ..Default::default() })).await[0]["id"], 1);
    assert!(task.latest_summary().await.unwrap().is_none());
    assert_eq!(records(task.summaries(0)).await, [Value::Null; 0]);

    let usage = Usage {
        input_tokens: 10,
        output_tokens: 5,
        cache_creation_tokens: 2,
        cache_read_tokens: 3,
        tools_tokens: 0,
    };
    assert_eq!(task.record_usage(usage).await.unwrap().limit, 1000);
    let add = Statistics { llm_calls: 2, tokens: 80, ..Default::default() };
    let counts = task.update_statistics(add).await.unwrap();
    assert_eq!((counts.llm_call_count, counts.total_tokens, counts.total_tool_calls), (3, 100, 2));

    let rewound = task.rewind(2).await.unwrap();
    assert_eq!(rewound.generation, 1);
    assert_eq!(view(&task).await.lines().count(), 2);
    let config = v1::TaskConfig { model: "m".to_owned(), ..Default::default() };
    assert_eq!(task.update(config).await.unwrap().config.unwrap().model, "m");

    assert_eq!(task.pause().await.unwrap().status().name(), "paused");
    assert_eq!(task.lease_generation(), 0);
    let refused = task.append(NewMessage::user("still there?")).await.unwrap_err();
    assert_eq!(refused.reason(), Some(ErrorReason::WrongStatus));
    assert_eq!(task.resume().await.unwrap().status().name(), "running");
    assert_eq!(task.lease_generation(), 2);
    assert!(task.renew_lease().await.unwrap() > Duration::ZERO);
    task.append(NewMessage::user("Go on.")).await.unwrap();
    assert_eq!(task.complete("It was asked why.").await.unwrap().status().name(), "completed");
    let ended = task.get().await.unwrap().task.unwrap();
    assert_eq!((ended.key, ended.user.as_str()), (Some(key), "ann"));
    assert_eq!(ended.final_summary, "It was asked why.");

    let paused = start(&client).await;
    paused.pause().await.unwrap();
    assert_eq!(paused.complete("").await.unwrap().status().name(), "completed");
    let other = start(&client).await;
    assert_eq!(other.fail("It broke.", "").await.unwrap().error_message, "It broke.");
    other.delete().await.unwrap();
    assert_eq!(other.get().await.unwrap_err().reason(), Some(ErrorReason::TaskNotFound));
    assert_eq!(other.delete().await.unwrap_err().reason(), Some(ErrorReason::TaskNotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_why() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let bad = client.get_task("17").await.unwrap_err();
    assert_eq!((bad.code(), bad.reason()), (Code::InvalidArgument, Some(ErrorReason::InvalidField)));
    assert_eq!(bad.fields().len(), 1);
    assert_eq!(bad.fields()[0].field, "task_uuid");
    assert!(bad.to_string().contains("task_uuid is not a UUID"), "{bad}");

    let task = start(&client).await;
    let missing = task.message(9).await.unwrap_err();
    assert_eq!(missing.reason(), Some(ErrorReason::MessageNotFound));

    // Somebody else is told who holds it.
    let other = server.client().await;
    let held = other.task(task.uuid()).append(NewMessage::user("me too")).await.unwrap_err();
    assert_eq!((held.code(), held.reason()), (Code::Aborted, Some(ErrorReason::LeaseHeld)));
    assert!(held.to_string().contains(client.instance_id()), "{held}");
    // The same client gets it at once, and its older handle is out of date.
    let again =
        client.start_task(StartTask { task_uuid: Some(task.uuid().to_owned()), ..Default::default() });
    let again = again.await.unwrap();
    assert!(!again.is_new());
    let stale = task.append(NewMessage::user("old")).await.unwrap_err();
    assert_eq!(stale.reason(), Some(ErrorReason::StaleLease));
    again.append(NewMessage::user("new")).await.unwrap();

    // A name is for one call.
    let named = again.with_request_id("step-1");
    assert!(!named.append(NewMessage::user("once")).await.unwrap().duplicate);
    assert!(named.append(NewMessage::user("once")).await.unwrap().duplicate);
    let reused = named.append(NewMessage::user("other")).await.unwrap_err();
    assert_eq!(reused.reason(), Some(ErrorReason::RequestIdReused));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_come_page_by_page() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let mut made = Vec::new();
    for number in 0..7 {
        let user = if number % 2 == 0 { "even" } else { "odd" };
        let task =
            client.start_task(StartTask { user: user.to_owned(), ..Default::default() }).await.unwrap();
        made.push(task.uuid().to_owned());
    }
    let query = |user: &str| TaskQuery {
        filter: v1::TaskFilter { user: user.to_owned(), ..Default::default() },
        order: v1::TaskOrder::CreatedAsc,
        page_size: 2,
    };
    let listed = |user| client.tasks(query(user)).map_ok(|task| task.uuid).try_collect::<Vec<_>>();
    // The catalog may be behind by a second.
    eventually(DEADLINE, || async { (listed("").await.unwrap() == made).then_some(()) }).await;
    assert_eq!(listed("odd").await.unwrap(), [&*made[1], &*made[3], &*made[5]]);
    let page = client.list_tasks(&query(""), "").await.unwrap();
    assert_eq!(page.tasks.len(), 2);
    let next = client.list_tasks(&query(""), page.next_page_token).await.unwrap();
    assert_eq!(next.tasks[0].uuid, made[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_messages_is_acknowledged_in_order() {
    let server = TestServer::start().await;
    let client = server.tcp_client().await;
    let task = start(&client).await;
    let messages = (0..3000).map(|number| NewMessage::user(format!("message {number}")));
    let acks = task.append_many(stream::iter(messages)).await.unwrap();
    let seqs: Vec<_> = acks.map_ok(|ack| ack.seq).try_collect().await.unwrap();
    assert_eq!(seqs, (1..=3000).collect::<Vec<_>>());

    // Acknowledgements come while the stream is open.
    let (send, receive) = tokio::sync::mpsc::channel(1);
    let requests = stream::unfold(receive, |mut receive| async { Some((receive.recv().await?, receive)) });
    let mut acks = task.append_many(requests).await.unwrap();
    for seq in 3001..3010 {
        send.send(NewMessage::user("one more")).await.unwrap();
        assert_eq!(acks.try_next().await.unwrap().unwrap().seq, seq);
    }
    drop(send);
    assert!(acks.try_next().await.unwrap().is_none());

    // The first failure ends it, and nothing behind it is appended.
    let messages = [NewMessage::user("good"), NewMessage::json("{}"), NewMessage::user("not this")];
    let mut acks = task.append_many(stream::iter(messages)).await.unwrap();
    assert_eq!(acks.try_next().await.unwrap().unwrap().seq, 3010);
    assert_eq!(acks.try_next().await.unwrap_err().reason(), Some(ErrorReason::InvalidField));
    assert!(acks.try_next().await.unwrap().is_none());
    assert_eq!(task.get().await.unwrap().task.unwrap().last_seq, 3010);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_answers_are_lost_can_be_sent_again() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let task = start(&client).await;
    let taken = Arc::new(AtomicU64::new(0));
    let messages = || {
        let taken = Arc::clone(&taken);
        let message =
            |number| NewMessage::user(format!("message {number}")).request_id(format!("step-{number}"));
        stream::iter((1..=2000).map(message).inspect(move |_| {
            taken.fetch_add(1, Ordering::SeqCst);
        }))
    };
    let appended = |least| {
        let task = task.clone();
        let last = move || {
            let task = task.clone();
            async move { Some(task.get().await.unwrap().task.unwrap().last_seq).filter(|last| *last >= least) }
        };
        eventually(DEADLINE, last)
    };
    // More than the server remembers must not be under way, whatever the caller does.
    let mut acks = task.append_many(messages()).await.unwrap();
    assert_eq!(appended(512).await, 512);
    assert_eq!(acks.try_next().await.unwrap().unwrap().seq, 1);
    assert_eq!(appended(513).await, 513);
    assert_eq!(taken.load(Ordering::SeqCst), 513);
    drop(acks);

    let acks = task.append_many(messages().skip(1)).await.unwrap();
    let seqs: Vec<_> = acks.map_ok(|ack| ack.seq).try_collect().await.unwrap();
    assert_eq!(seqs, (2..=2000).collect::<Vec<_>>());
    assert_eq!(view(&task).await.lines().count(), 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_is_lost_is_made_once() {
    let server = TestServer::start().await;
    let proxy = Proxy::new(&server.socket());
    let client = proxy.builder().connect().await.unwrap();
    let task = start(&client).await;
    let mut lost = 0;
    for number in 1..=40 {
        // The answer is held back until the server has surely made it, and then lost.
        proxy.hold(true);
        let appending = tokio::spawn({
            let task = task.clone();
            async move { task.append(NewMessage::user(format!("message {number}"))).await }
        });
        let log = server.running(task.uuid()).join("messages.jsonl");
        let written = || async {
            let text = fs::read_to_string(&log).unwrap();
            text.contains(&format!("\"message {number}\"")).then_some(())
        };
        eventually(DEADLINE, written).await;
        proxy.cut();
        proxy.hold(false);
        let added = appending.await.unwrap().unwrap();
        assert_eq!(added.seq, number);
        lost += u32::from(added.duplicate);
    }
    assert_eq!(lost, 40, "not every answer was lost: the test does not do what it should");
    assert_eq!(task.get().await.unwrap().task.unwrap().last_seq, 40);

    // Of a task that an earlier try has removed nothing is left to say so.
    proxy.hold(true);
    let directory = server.running(task.uuid());
    let deleting = tokio::spawn(async move { task.delete().await });
    eventually(DEADLINE, || async { (!directory.exists()).then_some(()) }).await;
    proxy.cut();
    proxy.hold(false);
    deleting.await.unwrap().unwrap();
}

// feature: stream-current
#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_read_whole_though_the_connection_breaks() {
    let server = TestServer::start().await;
    let direct = server.client().await;
    let task = start(&direct).await;
    let messages = (0..200).map(|number| NewMessage::user(format!("{number} {}", "x".repeat(5000))));
    let acks: Vec<_> = task.append_many(stream::iter(messages)).await.unwrap().try_collect().await.unwrap();
    assert_eq!(acks.len(), 200);
    let expected = view(&task).await;

    let proxy = Proxy::new(&server.socket());
    proxy.break_after(100_000);
    let client = proxy.builder().connect().await.unwrap();
    let through = client.task(task.uuid());
    let mut current = through.current(ReadCurrent { chunk_bytes: 16 << 10, as_of_seq: 0 }).await.unwrap();
    let mut read = Vec::new();
    while let Some(chunk) = current.try_next().await.unwrap() {
        read.extend_from_slice(&chunk);
        // One snapshot: what comes in meanwhile is not in it, whenever the connection breaks.
        task.append(NewMessage::user("meanwhile")).await.unwrap();
    }
    assert_eq!(read.len() as u64, current.total_bytes());
    assert!(read == expected.as_bytes(), "the bytes are not those of the view");
    assert!(proxy.connections() >= 10, "{} connections: it never broke", proxy.connections());

    // A view that was rewritten cannot be gone on with.
    let mut current = through.current(ReadCurrent { chunk_bytes: 16 << 10, as_of_seq: 0 }).await.unwrap();
    current.try_next().await.unwrap().unwrap();
    task.rewind(100).await.unwrap();
    let stale = loop {
        match current.try_next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it never broke"),
            Err(error) => break error,
        }
    };
    assert_eq!(stale.reason(), Some(ErrorReason::StaleView));
}

// feature: stream-history
#[tokio::test(flavor = "multi_thread")]
async fn histories_are_read_whole_though_the_connection_breaks() {
    let server = TestServer::start().await;
    let direct = server.client().await;
    let task = start(&direct).await;
    for number in 0..100 {
        task.append(NewMessage::user(format!("{number} {}", "x".repeat(10_000)))).await.unwrap();
        // Several events stand behind the same message.
        for _ in 0..number % 3 {
            task.update_statistics(Statistics { tokens: 1, ..Default::default() }).await.unwrap();
        }
    }
    let proxy = Proxy::new(&server.socket());
    let client = proxy.builder().connect().await.unwrap();
    let through = client.task(task.uuid());
    let reads = [
        ReadMessages::default(),
        ReadMessages { from_seq: 7, to_seq: 93, ..Default::default() },
        ReadMessages { from_seq: 1, limit: 77, ..Default::default() },
        ReadMessages { kinds: vec![v1::RecordKind::Statistics], ..Default::default() },
    ];
    for read in reads {
        proxy.break_after(u64::MAX);
        proxy.cut();
        let expected: Vec<Bytes> = through.messages(read.clone()).try_collect().await.unwrap();
        // A batch has 256 KiB.
        proxy.break_after(700_000);
        proxy.cut();
        let before = proxy.connections();
        // Taken slowly, so that the connection breaks between records.
        let mut found = Vec::new();
        let mut items = through.messages(read.clone());
        while let Some(record) = items.try_next().await.unwrap() {
            found.push(record);
            if found.len() % 20 == 10 {
                proxy.cut();
            }
        }
        assert!(found == expected, "{read:?}: {} records, not {}", found.len(), expected.len());
        assert!(proxy.connections() > before, "{read:?}: it never broke");
    }
}

// feature: watch
#[tokio::test(flavor = "multi_thread")]
async fn followers_and_watchers_go_on_behind_a_restart() {
    let mut server = TestServer::start().await;
    let retry = RetryPolicy { attempts: 50, ..Default::default() };
    let client = server.builder().retry(retry).timeout(DEADLINE).connect().await.unwrap();
    let task = start(&client).await;
    let follow = ReadMessages { follow: true, kinds: vec![v1::RecordKind::Message], ..Default::default() };
    let mut follower = task.messages(follow);
    // A watcher without a token sees what comes after the server has taken it up.
    let mut watcher = task.watch("");
    let first = tokio::spawn(async move { watcher.try_next().await.map(|_| watcher) });
    eventually(DEADLINE, || async {
        task.append(NewMessage::user("before")).await.unwrap();
        first.is_finished().then_some(())
    })
    .await;
    let mut watcher = first.await.unwrap().unwrap();

    for round in 0..4 {
        if round % 2 == 0 {
            server.kill();
        } else {
            assert!(server.terminate().await.success());
        }
        server.restart().await;
        let added = task.append(NewMessage::user(format!("round {round}"))).await.unwrap();
        let text = format!("round {round}");
        loop {
            let record = parse(&follower.try_next().await.unwrap().unwrap());
            if record["content"] == text {
                assert_eq!(record["seq"], added.seq);
                break;
            }
        }
        loop {
            let event = watcher.try_next().await.unwrap().unwrap();
            if let Some(v1::watch_task_response::Event::MessageAppended(appended)) = event.event
                && appended.seq == added.seq
            {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_has_seen_nothing_yet_misses_nothing() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    for round in 1..=5 {
        let proxy = Proxy::new(&server.socket());
        let client = proxy.builder().connect().await.unwrap();
        client.health().await.unwrap();
        let before = proxy.passed();
        let mut watcher = client.task(task.uuid()).watch("");
        let first = tokio::spawn(async move { watcher.try_next().await });
        // The server has answered, and what comes behind that has arrived: so the watch has begun.
        eventually(DEADLINE, || async { (proxy.passed() > before).then_some(()) }).await;
        client.health().await.unwrap();
        client.health().await.unwrap();
        proxy.cut();
        task.append(NewMessage::user("between two connections")).await.unwrap();
        let event = tokio::time::timeout(DEADLINE, first).await.unwrap().unwrap().unwrap().unwrap().event;
        let Some(v1::watch_task_response::Event::MessageAppended(appended)) = event else {
            panic!("{event:?}")
        };
        assert_eq!(appended.seq, round);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_after_a_restart_with_its_lease() {
    let mut server = TestServer::start().await;
    let client = server.client().await;
    let task = start(&client).await;
    for round in 1..=3 {
        assert_eq!(task.append(NewMessage::user("before")).await.unwrap().seq, round);
        server.kill();
        server.restart().await;
    }
    task.complete("").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_outlives_its_deadline() {
    let server = TestServer::start().await;
    let proxy = Proxy::new(&server.socket());
    let timeout = Duration::from_millis(300);
    let client = proxy.builder().timeout(timeout).connect_lazy().unwrap();
    let task = client.task(start(&server.client().await).await.uuid());
    client.wait_until_ready(DEADLINE).await.unwrap();
    proxy.hold(true);
    let calls = async {
        let late = task.append(NewMessage::user("hello?")).await.unwrap_err();
        assert!(matches!(late.cause(), Error::Deadline { after } if *after == timeout), "{late:?}");
        assert_eq!(late.code(), Code::DeadlineExceeded);
        let late = task.current(ReadCurrent::default()).await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded);
        let late = client.health().await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded);
        let late = client.wait_until_ready(timeout).await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded);
    };
    tokio::time::timeout(DEADLINE, calls).await.expect("a call does not end");
    proxy.hold(false);
    client.wait_until_ready(DEADLINE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_end() {
    let mut server = TestServer::start().await;
    let retry = RetryPolicy { attempts: 3, first_pause: Duration::from_millis(10), ..Default::default() };
    let client = server.builder().retry(retry).connect().await.unwrap();
    server.kill();
    let gone = client.server_info().await.unwrap_err();
    assert!(matches!(gone, Error::Connection { .. }), "{gone:?}");
    let gone = client.task("018f6b2e-5c1a-7d3e-9a41-000000000001").messages(Default::default()).next().await;
    assert!(matches!(gone, Some(Err(Error::Connection { .. }))), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_kept_alive_until_it_is_lost() {
    let server = TestServer::start_configured(&[("lease.ttl", "2s")]).await;
    let client = server.builder().renew_leases(false).connect().await.unwrap();
    let other = server.client().await;
    let task = start(&client).await;
    let mut alive = task.keep_alive();
    let (raw, work) = (test_support::wire::api(&server).await, Work::nobody(task.uuid()));
    let take_up = || StartTask { task_uuid: Some(task.uuid().to_owned()), ..Default::default() };
    tokio::select! {
        lost = alive.lost() => panic!("{lost:?}"),
        () = outlived(&raw, &work) => {}
    }
    let held = other.start_task(take_up()).await.unwrap_err();
    assert_eq!(held.reason(), Some(ErrorReason::LeaseHeld));

    // Without it, anybody can have the task after a while.
    drop(alive);
    let taken = || async { other.start_task(take_up()).await.ok() };
    eventually(DEADLINE, taken).await;
    let ended = tokio::time::timeout(DEADLINE, task.keep_alive().lost()).await.unwrap();
    assert_eq!(ended.reason(), Some(ErrorReason::StaleLease), "{ended:?}");
    assert!(task.lease_lost().is_none(), "nothing was renewed by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_kept_alive_while_the_server_is_away() {
    // Time for a server on a busy machine to come back.
    let mut server = TestServer::start_configured(&[("lease.ttl", "5s")]).await;
    let proxy = Proxy::new(&server.socket());
    let client = proxy.builder().renew_leases(false).connect().await.unwrap();
    let task = start(&client).await;
    let mut alive = task.keep_alive();
    let away = async {
        server.kill();
        // Somebody who wants to renew it finds nobody.
        let before = proxy.connections();
        eventually(DEADLINE, || async { (proxy.connections() > before).then_some(()) }).await;
        server.restart().await;
        outlived(&test_support::wire::api(&server).await, &Work::nobody(task.uuid())).await;
    };
    tokio::select! {
        lost = alive.lost() => panic!("{lost:?}"),
        () = away => {}
    }
    task.append(NewMessage::user("still mine")).await.unwrap();

    server.kill();
    let gone = tokio::time::timeout(DEADLINE, alive.lost()).await.unwrap();
    assert!(matches!(gone, Error::Connection { .. }), "{gone:?}");
}
