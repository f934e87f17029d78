//! What the Rust client does for an agent by itself, against a real server: leases that are kept, tasks by their keys,
//! appends that nobody waits for, tools that are recorded, servers of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use contextstore_client::{
    Client, ErrorReason, NewMessage, ReadMessages, Spawn, StartTask, Task, ToolResult, v1,
};
use futures_util::{TryStreamExt, stream};

use test_support::proxy::Proxy;
use test_support::server::{DEADLINE, TestServer, eventually};

async fn start(client: &Client) -> Task {
    client.start_task(StartTask::default()).await.unwrap()
}

/// The contents of all messages, as the log has them.
async fn said(task: &Task) -> Vec<String> {
    let messages = ReadMessages { kinds: vec!["message".to_owned()], ..Default::default() };
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

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_kept_until_the_task_is_let_go() {
    let server = TestServer::start_configured(&[("lease.ttl", "1s")]).await;
    let (client, other) = (server.client().await, server.client().await);
    let (task, dropped, paused) = (start(&client).await, start(&client).await, start(&client).await);
    let forked = task.fork(Default::default()).await.unwrap();
    paused.pause().await.unwrap();
    paused.resume().await.unwrap();
    let take_up = |uuid: &str| StartTask { task_uuid: Some(uuid.to_owned()), ..Default::default() };
    tokio::time::sleep(Duration::from_secs(3)).await;
    for held in [&task, &forked, &paused, &dropped] {
        let refused = other.start_task(take_up(held.uuid())).await.unwrap_err();
        assert_eq!(refused.reason(), Some(ErrorReason::LeaseHeld));
        assert!(held.lease_lost().is_none());
    }

    // A clone is as good as the first; without any, the lease is left to expire.
    let (uuid, clone) = (dropped.uuid().to_owned(), dropped.clone());
    drop(dropped);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(other.start_task(take_up(&uuid)).await.is_err());
    drop(clone);
    eventually(DEADLINE, || async { other.start_task(take_up(&uuid)).await.ok() }).await;

    // Whose task was taken is told, and what was ended is not taken for lost.
    let again = client.start_task(take_up(task.uuid())).await.unwrap();
    let lost = eventually(DEADLINE, || async { task.lease_lost() }).await;
    assert_eq!(lost.reason(), Some(ErrorReason::StaleLease));
    again.complete("done").await.unwrap();
    forked.delete().await.unwrap();
    assert_eq!(forked.lease_generation(), 0);
    tokio::time::sleep(Duration::from_secs(1)).await;
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
    let status = |task: Task| async move { task.get().await.unwrap().task.unwrap().status };
    let resumed = eventually(DEADLINE, || async { client.task_of(of_ann()).await.ok() }).await;
    assert_eq!((resumed.uuid(), status(resumed.clone()).await.as_str()), (made.as_str(), "running"));
    assert!(!resumed.is_new());
    resumed.append(NewMessage::user("go on")).await.unwrap();
}

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
    let left = task.take_not_appended();
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
        let taken = Arc::new(AtomicUsize::new(0));
        let appending = tokio::spawn({
            let (task, taken) = (task.clone(), Arc::clone(&taken));
            async move {
                for _ in 0..most * 2 {
                    task.append_later(NewMessage::user("x".repeat(bytes))).await.unwrap();
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        // The bytes of a message are a few more than those of its text.
        let full = || async { (taken.load(Ordering::SeqCst) >= most - 1).then_some(()) };
        eventually(DEADLINE, full).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(taken.load(Ordering::SeqCst) <= most, "{taken:?} of {bytes} bytes");
        proxy.hold(false);
        appending.await.unwrap();
        task.flush().await.unwrap().unwrap();
    }
}

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
    task.append(v1::Message { role: "assistant".to_owned(), tool_calls, ..Default::default() })
        .await
        .unwrap();

    let work = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok::<_, std::io::Error>("it says \"hi\"\n")
    };
    let done = task.tool("ask").arguments_json(r#"{"who":"ann"}"#).call_id("c1").run(work).await.unwrap();
    assert_eq!((done.tool_seq, done.message_seq, done.error), (1, Some(2), None));
    assert!(done.duration >= Duration::from_millis(20), "{:?}", done.duration);
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
    assert!(seen(0, "duration_ms").as_u64().unwrap() >= 20);
    assert_eq!((seen(1, "status"), seen(1, "error")), ("error".into(), "no such file".into()));
    assert_eq!((seen(2, "tool_name"), seen(2, "error")), ("make".into(), "exit code 2".into()));
    assert_eq!(seen(3, "message_seq"), 4);
    let said = said(&task).await;
    assert_eq!((said[1].as_str(), said[2].as_str()), ("it says \"hi\"\n", "Error: no such file"));
    assert!(said[3].starts_with("a long line of a log"), "{}", &said[3][..100]);
    assert_eq!(said.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_ones_own_ends_with_its_owner() {
    let spawn = || Spawn::default().binary(test_support::program("contextstore"));
    let alive = |pid: u32| std::path::Path::new(&format!("/proc/{pid}/stat")).exists();
    let server = spawn().start().await.unwrap();
    let (pid, data_dir, log) = (server.pid().unwrap(), server.data_dir().to_owned(), server.log());
    assert_eq!(server.client().server_info().await.unwrap().process_id, pid);
    start(server.client()).await.append(NewMessage::user("hi")).await.unwrap();
    assert!(data_dir.exists() && log.exists());
    // A stream on which nothing comes any more keeps nobody from ending.
    let task = start(server.client()).await;
    task.append_later(NewMessage::user("hi")).await.unwrap();
    task.flush().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    task.append_later(NewMessage::user("again")).await.unwrap();
    assert_eq!(task.flush().await.unwrap().unwrap().seq, 2);
    let begun = std::time::Instant::now();
    server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
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
    let again = StartTask { task_uuid: Some(held), ..StartTask::default() };
    server.client().start_task(again).await.unwrap().append(NewMessage::user("again")).await.unwrap();
    server.stop().await;

    let wrong = spawn().arg("--no-such-flag").start().await.unwrap_err().to_string();
    assert!(wrong.contains("--no-such-flag"), "{wrong}");
}
