//! What the Rust client does for an agent by itself, against a real server: leases that are kept, tasks by their keys,
//! appends that nobody waits for, tools that are recorded, servers of its own.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use contextstore_client::{
    Client, ErrorReason, NewMessage, ReadMessages, Spawn, StartTask, Task, ToolResult, v1,
};
use futures_util::future::join_all;
use futures_util::{FutureExt, TryStreamExt, stream};

use test_support::proxy::Proxy;
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::metric_by_log;

/// How long a lease lives where its end is waited for.
const TTL: Duration = Duration::from_secs(2);

async fn start(client: &Client) -> Task {
    client.start_task(StartTask::default()).await.unwrap()
}

/// The contents of all messages, as the log has them.
async fn said(task: &Task) -> Vec<String> {
    let messages = ReadMessages { kinds: vec![v1::RecordKind::Message], ..Default::default() };
    let lines: Vec<Bytes> = task.messages(messages).try_collect().await.unwrap();
    let content = |line: &Bytes| -> String {
        let line: serde_json::Value = serde_json::from_slice(line).unwrap();
        line["content"].as_str().unwrap_or_default().to_owned()
    };
    lines.iter().map(content).collect()
}

fn numbered(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("message {number}")).collect()
}

fn take_up(uuid: &str) -> StartTask {
    StartTask { task_uuid: Some(uuid.to_owned()), ..Default::default() }
}

/// When the lease of a task was last renewed, by the server's clock. To look renews nothing.
async fn renewed(client: &Client, uuid: &str) -> Duration {
    let lease = client.task(uuid).get().await.unwrap().task.unwrap().lease.unwrap();
    let time = lease.renew_time.unwrap();
    Duration::new(time.seconds.try_into().unwrap(), time.nanos.try_into().unwrap())
}

/// A lease is renewed for longer than it would live, and then nobody else gets it.
async fn is_kept(other: &Client, uuid: &str) {
    let since = renewed(other, uuid).await;
    let outlived = || async { (renewed(other, uuid).await > since + TTL).then_some(()) };
    eventually(DEADLINE, outlived).await;
    let refused = other.start_task(take_up(uuid)).await.unwrap_err();
    assert_eq!(refused.reason(), Some(ErrorReason::LeaseHeld));
}

// features: leases-renewed, lease-lost
#[tokio::test(flavor = "multi_thread")]
async fn leases_are_kept_until_the_task_is_let_go() {
    let server = TestServer::start_configured(&[("lease.ttl", "2s")]).await;
    let (client, other) = (server.client().await, server.client().await);
    let (task, dropped, paused) = (start(&client).await, start(&client).await, start(&client).await);
    let forked = task.fork(Default::default()).await.unwrap();
    paused.pause().await.unwrap();
    paused.resume().await.unwrap();
    let all = [&task, &forked, &paused, &dropped];
    join_all(all.map(|held| is_kept(&other, held.uuid()))).await;
    assert!(all.iter().all(|held| held.lease_lost().is_none()));

    // A clone is as good as the first; without any, the lease is left to expire.
    let (uuid, clone) = (dropped.uuid().to_owned(), dropped.clone());
    drop(dropped);
    is_kept(&other, &uuid).await;
    drop(clone);
    eventually(DEADLINE, || async { other.start_task(take_up(&uuid)).await.ok() }).await;

    // Whose task was taken is told, and what was ended is not taken for lost.
    let again = client.start_task(take_up(task.uuid())).await.unwrap();
    let lost = eventually(DEADLINE, || async { task.lease_lost() }).await;
    assert_eq!(lost.reason(), Some(ErrorReason::StaleLease));
    again.complete("done").await.unwrap();
    forked.delete().await.unwrap();
    assert_eq!(forked.lease_generation(), 0);
    // Another lease of the same client is renewed again and again, so theirs would have been too.
    is_kept(&other, paused.uuid()).await;
    assert!(again.lease_lost().is_none() && forked.lease_lost().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_comes_back_under_its_name_has_its_tasks() {
    let server = TestServer::start().await;
    let agent = || server.builder().instance_id("agent-7");
    let client = agent().connect().await.unwrap();
    assert_eq!(client.instance_id(), "agent-7");
    let task = start(&client).await;
    task.append(NewMessage::user("hi")).await.unwrap();
    let again = agent().connect().await.unwrap();
    let take_up = || StartTask { task_uuid: Some(task.uuid().to_owned()), ..Default::default() };
    let held = server.client().await.start_task(take_up()).await.unwrap_err();
    assert_eq!(held.reason(), Some(ErrorReason::LeaseHeld));
    assert!(held.to_string().contains("agent-7"), "{held}");
    let taken = again.start_task(take_up()).await.unwrap();
    assert!(!taken.is_new());
    taken.append(NewMessage::user("again")).await.unwrap();
}

// feature: tasks-by-key
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_found_by_its_key() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let key =
        v1::TaskKey { task_source: "github".to_owned(), task_id: "17".to_owned(), ..Default::default() };
    let of_ann = || StartTask { user: "ann".to_owned(), ..key.clone().into() };
    let first = client.task_of(of_ann()).await.unwrap();
    assert!(first.is_new());
    // The list of tasks is behind by a second at most.
    let again = eventually(DEADLINE, || async {
        let again = client.task_of(of_ann()).await.unwrap();
        (!again.is_new()).then_some(again)
    });
    let again = again.await;
    let made = again.uuid().to_owned();

    // Another user, and a key of which this one's is a part, are others.
    let others = client.task_of(key.clone()).await.unwrap();
    assert!(others.is_new());
    let longer = v1::TaskKey { repo: "hello".to_owned(), ..key.clone() };
    assert!(client.task_of(StartTask { user: "ann".to_owned(), ..longer.into() }).await.unwrap().is_new());
    assert!(client.task_of("17").await.unwrap().is_new());

    let held = server.client().await.task_of(of_ann()).await.unwrap_err();
    assert_eq!(held.reason(), Some(ErrorReason::LeaseHeld));

    // One that was put aside is gone on with.
    again.pause().await.unwrap();
    let status = |task: Task| async move { task.get().await.unwrap().task.unwrap().status().name() };
    let resumed = eventually(DEADLINE, || async { client.task_of(of_ann()).await.ok() }).await;
    assert_eq!((resumed.uuid(), status(resumed.clone()).await), (made.as_str(), "running"));
    assert!(!resumed.is_new());
    resumed.append(NewMessage::user("go on")).await.unwrap();
}

// feature: append-later
#[tokio::test(flavor = "multi_thread")]
async fn appends_that_nobody_waits_for_are_there_for_what_comes_next() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    for message in numbered(0..2000) {
        task.append_later(NewMessage::user(message)).await.unwrap();
    }
    // A read of a clone is as good as a flush.
    assert_eq!(said(&task.clone()).await, numbered(0..2000));
    assert!(task.flush().await.unwrap().is_none());
    task.append_later(NewMessage::user("message 2000")).await.unwrap();
    assert_eq!(task.append(NewMessage::user("message 2001")).await.unwrap().seq, 2002);
    task.append_later(NewMessage::user("message 2002")).await.unwrap();
    assert_eq!(task.flush().await.unwrap().unwrap().seq, 2003);

    // What is refused is told by what comes next, and nothing behind it is appended.
    task.append_later(NewMessage::user("message 2003")).await.unwrap();
    task.append_later(NewMessage::json("{}").request_id("bad")).await.unwrap();
    let refused = match task.append_later(NewMessage::user("not this").request_id("good")).await {
        Ok(()) => task.get().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(refused.reason(), Some(ErrorReason::InvalidField), "{refused:?}");
    assert_eq!(task.get().await.unwrap().task.unwrap().last_seq, 2004);
    let left = refused.not_appended().to_vec();
    assert_eq!(left.len(), 2);
    let good = left.into_iter().next_back().unwrap();
    assert!(!task.append(good.clone()).await.unwrap().duplicate);
    assert!(task.append(good).await.unwrap().duplicate, "it has kept its name");

    // A task ends behind all of it.
    task.append_later(NewMessage::user("the last")).await.unwrap();
    task.complete("done").await.unwrap();
    let all = said(&task).await;
    assert_eq!((all.len(), all[2005].as_str()), (2006, "the last"));
    task.append_later(NewMessage::user("too late")).await.unwrap();
    assert_eq!(task.flush().await.unwrap_err().reason(), Some(ErrorReason::WrongStatus));
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_go_on_when_the_connection_breaks() {
    let server = TestServer::start().await;
    let proxy = Proxy::new(&server.socket());
    let client = proxy.builder().connect().await.unwrap();
    let (later, many) = (start(&client).await, start(&client).await);
    proxy.break_after(10_000);
    proxy.cut();
    for message in numbered(0..3000) {
        later.append_later(NewMessage::user(message)).await.unwrap();
    }
    assert_eq!(later.flush().await.unwrap().unwrap().seq, 3000);
    let messages = numbered(0..3000).into_iter().map(NewMessage::user);
    let acks = many.append_many(stream::iter(messages)).await.unwrap();
    let seqs: Vec<_> = acks.map_ok(|ack| ack.seq).try_collect().await.unwrap();
    assert_eq!(seqs, (1..=3000).collect::<Vec<_>>());
    assert!(proxy.connections() >= 10, "{} connections: it never broke", proxy.connections());

    let direct = server.client().await;
    for task in [later, many] {
        assert_eq!(said(&direct.task(task.uuid())).await, numbered(0..3000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_that_nobody_waits_for_are_bounded() {
    let server = TestServer::start().await;
    let proxy = Proxy::new(&server.socket());
    let task = start(&proxy.builder().connect().await.unwrap()).await;
    for (bytes, most) in [(1 << 20, 8), (10, 512)] {
        proxy.hold(true);
        let taken = AtomicUsize::new(0);
        let mut appending = pin!(tokio::task::unconstrained(async {
            for _ in 0..most * 2 {
                task.append_later(NewMessage::user("x".repeat(bytes))).await.unwrap();
                taken.fetch_add(1, Ordering::SeqCst);
            }
        }));
        // Nothing is answered, so what it waits for when it is first left is room, and there will be none.
        assert!(appending.as_mut().now_or_never().is_none(), "everything is taken");
        // The bytes of a message are a few more than those of its text.
        let full = taken.load(Ordering::SeqCst);
        assert!((most - 1..=most).contains(&full), "{full} of {bytes} bytes");
        proxy.hold(false);
        appending.await;
        task.flush().await.unwrap().unwrap();
    }
}

// feature: tool-wrapper
#[tokio::test(flavor = "multi_thread")]
async fn tools_are_timed_and_recorded() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    let call = |id: &str| v1::ToolCall {
        id: id.to_owned(),
        name: "t".to_owned(),
        arguments: "{}".to_owned(),
        ..Default::default()
    };
    let tool_calls = ["c1", "c2", "c3", "c4"].map(call).to_vec();
    task.append(v1::Message { role: v1::Role::Assistant.into(), tool_calls, ..Default::default() })
        .await
        .unwrap();

    let mut worked = Duration::ZERO;
    let work = async {
        // Long enough that it is some milliseconds.
        let begun = Instant::now();
        while worked < Duration::from_millis(5) {
            task.get().await.unwrap();
            worked = begun.elapsed();
        }
        Ok::<_, std::io::Error>("it says \"hi\"\n")
    };
    let done = task.tool("ask").arguments_json(r#"{"who":"ann"}"#).call_id("c1").run(work).await.unwrap();
    assert_eq!((done.tool_seq, done.message_seq, done.error), (1, Some(2), None));
    assert!(done.duration >= worked, "{:?}, not {worked:?}", done.duration);
    let failing = async { Err::<String, _>(std::io::Error::other("no such file")) };
    let failed = task.tool("read").call_id("c2").run(failing).await.unwrap();
    assert_eq!((failed.message_seq, failed.error.as_deref()), (Some(3), Some("no such file")));
    let large = "a long line of a log\n".repeat(50_000);
    let kept = task.tool("make").call_id("c3").fail_with("exit code 2", large.into_bytes()).await.unwrap();
    assert_eq!((kept.tool_seq, kept.message_seq), (3, Some(4)));
    assert!(kept.output.unwrap().truncated);
    let counted =
        task.tool("count").message_seq(4).finish(ToolResult::Json("[1,2]".to_owned())).await.unwrap();
    assert_eq!(counted.message_seq, None);
    // A named call is made once, though it is two.
    let named = task.with_request_id("step-9");
    for _ in 0..2 {
        let once = named.tool("once").call_id("c4").fail("busy").await;
        // How long it took is another each time, and so is the call.
        if let Err(error) = once {
            assert_eq!(error.reason(), Some(ErrorReason::RequestIdReused));
        }
    }

    let lines: Vec<Bytes> = task.tool_calls(Default::default()).try_collect().await.unwrap();
    let lines: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
    let seen = |at: usize, field: &str| lines[at][field].clone();
    assert_eq!(
        (lines.len(), seen(0, "status"), seen(0, "result")),
        (5, "success".into(), "it says \"hi\"\n".into())
    );
    assert_eq!(u128::from(seen(0, "duration_ms").as_u64().unwrap()), done.duration.as_millis());
    assert_eq!((seen(1, "status"), seen(1, "error")), ("error".into(), "no such file".into()));
    assert_eq!((seen(2, "tool_name"), seen(2, "error")), ("make".into(), "exit code 2".into()));
    assert_eq!(seen(3, "message_seq"), 4);
    let said = said(&task).await;
    assert_eq!((said[1].as_str(), said[2].as_str()), ("it says \"hi\"\n", "Error: no such file"));
    assert!(said[3].starts_with("a long line of a log"), "{}", &said[3][..100]);
    assert_eq!(said.len(), 5);
}

// feature: spawn
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_ones_own_ends_with_its_owner() {
    let spawn = || Spawn::default().binary(test_support::program("contextstore"));
    let alive = |pid: u32| std::path::Path::new(&format!("/proc/{pid}/stat")).exists();
    let server = spawn().start().await.unwrap();
    let (pid, data_dir, log) = (server.pid().unwrap(), server.data_dir().to_owned(), server.log());
    assert_eq!(server.client().server_info().await.unwrap().process_id, pid);
    start(server.client()).await.append(NewMessage::user("hi")).await.unwrap();
    assert!(data_dir.exists() && log.exists());
    server.stop().await.unwrap();
    assert!(!alive(pid) && !data_dir.exists() && !log.exists());

    // A directory that was given stays, and what is in it; also if the server is only dropped.
    let root = tempfile::tempdir().unwrap();
    let there = root.path().join("a".repeat(90)).join("data");
    let in_there = || spawn().data_dir(&there).env("CONTEXTSTORE_LEASE__TTL", "7s");
    let server = in_there().client(Client::builder().instance_id("me")).start().await.unwrap();
    assert_eq!(server.client().instance_id(), "me");
    assert_eq!(server.client().server_info().await.unwrap().lease_ttl.unwrap().seconds, 7);
    let task = start(server.client()).await;
    task.append(NewMessage::user("hi")).await.unwrap();
    let taken = in_there().start().await.unwrap_err().to_string();
    assert!(taken.contains("no server could be started: it ended at once (exit code"), "{taken}");
    let pid = server.pid().unwrap();
    drop(server);
    assert!(!alive(pid) && there.exists());
    let server = in_there().start().await.unwrap();
    assert_eq!(said(&server.client().task(task.uuid())).await, ["hi"]);
    let held = start(server.client()).await.uuid().to_owned();
    drop(server);
    // The program that held it is gone, as its server is: the next one need not wait for the lease.
    let server = in_there().start().await.unwrap();
    server
        .client()
        .start_task(take_up(&held))
        .await
        .unwrap()
        .append(NewMessage::user("again"))
        .await
        .unwrap();
    server.stop().await.unwrap();

    let wrong = spawn().arg("--no-such-flag").start().await.unwrap_err().to_string();
    assert!(wrong.contains("--no-such-flag"), "{wrong}");
}

/// A stream on which nothing comes any more ends by itself and keeps no server from ending.
#[tokio::test(flavor = "multi_thread")]
async fn appends_that_have_come_to_an_end_hold_up_nobody() {
    let root = tempfile::tempdir().unwrap();
    let data_dir = root.path().join("data");
    let spawn = Spawn::default()
        .binary(test_support::program("contextstore"))
        .data_dir(&data_dir)
        .env("CONTEXTSTORE_ADMIN_LISTEN", "127.0.0.1:0")
        // Longer than the stop may take: a server that waits for a call is killed, and leaves its addresses behind.
        .env("CONTEXTSTORE_SERVER__DRAIN", "1h");
    let server = spawn.start().await.unwrap();
    let task = start(server.client()).await;
    task.append_later(NewMessage::user("hi")).await.unwrap();
    task.flush().await.unwrap().unwrap();
    let ended = || {
        let log = std::fs::read_to_string(server.log()).unwrap();
        let calls = r#"contextstore_grpc_requests_total{service="contextstore.v1.ContextStore",method="AppendMessages",code="OK"}"#;
        metric_by_log(&log, calls)
    };
    eventually(DEADLINE, || async { (ended() == 1.0).then_some(()) }).await;
    task.append_later(NewMessage::user("again")).await.unwrap();
    assert_eq!(task.flush().await.unwrap().unwrap().seq, 2);
    assert!(data_dir.join("addresses").exists());
    server.stop().await.unwrap();
    assert!(!data_dir.join("addresses").exists(), "it was killed");
}
