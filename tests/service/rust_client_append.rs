//! What is handed to the Rust client is in the log once and in order, or reported: with calls that are cancelled, clients that
//! are closed, runtimes that end, sources that fail, and many that use a task at once.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contextstore_client::{Client, Error, ErrorReason, NewMessage, ReadMessages, StartTask, Task, v1};
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use serde_json::Value;

use test_support::proxy::Proxy;
use test_support::server::{DEADLINE, TestServer, eventually};

async fn start(client: &Client) -> Task {
    client.start_task(StartTask::default()).await.unwrap()
}

/// The messages of the log.
async fn log(server: &TestServer, task_uuid: &str) -> Vec<Value> {
    let read = ReadMessages { kinds: vec![v1::RecordKind::Message], ..Default::default() };
    let lines = server.client().await.task(task_uuid).messages(read);
    lines.map_ok(|line| serde_json::from_slice(&line).unwrap()).try_collect().await.unwrap()
}

async fn contents(server: &TestServer, task_uuid: &str) -> Vec<String> {
    let content = |line: &Value| line["content"].as_str().unwrap().to_owned();
    log(server, task_uuid).await.iter().map(content).collect()
}

fn numbered(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("message {number}")).collect()
}

async fn append_later(task: &Task, numbers: std::ops::Range<u32>) {
    for message in numbered(numbers) {
        task.append_later(NewMessage::user(message)).await.unwrap();
    }
}

// feature: append-later-survives-cancel
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_loses_nothing() {
    let server = TestServer::start().await;
    let proxy = Proxy::new(&server.socket());
    let task = start(&proxy.builder().connect().await.unwrap()).await;
    proxy.hold(true);
    append_later(&task, 0..300).await;
    // Nothing is answered, so whatever waits is cancelled.
    assert!(task.flush().now_or_never().is_none());
    assert!(task.get().now_or_never().is_none());
    assert!(task.append(NewMessage::user("cancelled")).now_or_never().is_none());
    assert!(tokio::time::timeout(Duration::from_millis(50), task.flush()).await.is_err());
    proxy.hold(false);
    assert_eq!(task.flush().await.unwrap().unwrap().seq, 300);
    assert_eq!(contents(&server, task.uuid()).await, numbered(0..300));
}

// feature: append-later-survives-close
#[tokio::test(flavor = "multi_thread")]
async fn closing_a_client_saves_what_was_handed_over() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let (kept, dropped) = (start(&client).await, start(&client).await);
    append_later(&kept, 0..400).await;
    append_later(&dropped, 0..400).await;
    let uuids = [kept.uuid().to_owned(), dropped.uuid().to_owned()];
    drop(dropped);
    client.close().await.unwrap();
    for uuid in uuids {
        assert_eq!(contents(&server, &uuid).await, numbered(0..400));
    }
    // A client that was closed works on.
    append_later(&kept, 400..401).await;
    assert_eq!(kept.flush().await.unwrap().unwrap().seq, 401);
}

// feature: resend-not-appended
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_appended_can_be_appended_again_once() {
    let server = TestServer::start().await;
    let proxy = Proxy::new(&server.socket());
    let builder = proxy.builder().close_timeout(Duration::from_millis(100)).instance_id("agent");
    let client = builder.connect().await.unwrap();
    let task = start(&client).await;
    task.append(NewMessage::user("message 0")).await.unwrap();
    append_later(&task, 1..2).await;
    task.flush().await.unwrap();
    // Answers are held back: the messages are in the log, but nobody knows.
    proxy.hold(true);
    for message in numbered(2..400) {
        task.append_later(NewMessage::user(message).pinned().output_ref("out-1")).await.unwrap();
    }
    eventually(DEADLINE, || async { (log(&server, task.uuid()).await.len() == 400).then_some(()) }).await;
    let closed = client.close().await.unwrap_err();
    assert_eq!(closed.not_appended().len(), 398, "{closed}");
    assert!(closed.to_string().contains("(398 messages were not appended)"), "{closed}");
    assert!(matches!(closed.cause(), Error::Deadline { .. }), "{closed:?}");
    drop(task);

    // They are sent again by another client, as they are.
    let client = server.builder().instance_id("agent").connect().await.unwrap();
    let uuid = closed.not_appended()[0].task_uuid().unwrap().to_owned();
    let take_up = StartTask { task_uuid: Some(uuid.clone()), ..Default::default() };
    let task = client.start_task(take_up).await.unwrap();
    for message in closed.not_appended() {
        task.append_later(message.clone()).await.unwrap();
    }
    task.flush().await.unwrap().unwrap();
    assert_eq!(contents(&server, &uuid).await, numbered(0..400));
    let log = log(&server, &uuid).await;
    assert!(log[2..].iter().all(|line| line["output_ref"] == "out-1"), "{}", log[2]);
    assert!(task.message(400).await.unwrap().pinned && !task.message(1).await.unwrap().pinned);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_failing_call_was_given_is_reported_last() {
    let mut server = TestServer::start().await;
    let none = contextstore_client::RetryPolicy::none();
    let client = server.builder().retry(none).connect().await.unwrap();
    let task = start(&client).await;
    server.kill();
    // Alone, and behind one that was handed over before it.
    let alone = task.append(NewMessage::user("message 0")).await.unwrap_err();
    append_later(&task, 1..2).await;
    let behind = task.append(NewMessage::user("message 2")).await.unwrap_err();
    // As soon as it is known, also without waiting.
    let mut handed_over = 3;
    let later = loop {
        let message = NewMessage::user(format!("message {handed_over}"));
        handed_over += 1;
        if let Err(error) = task.append_later(message).await {
            break error;
        }
    };
    server.launch();
    client.wait_until_ready(DEADLINE).await.unwrap();
    for (error, numbers) in [(alone, 0..1), (behind, 1..3), (later, 3..handed_over)] {
        assert!(matches!(error.cause(), Error::Connection { .. }), "{error:?}");
        assert_eq!(error.not_appended().len(), numbers.len(), "{error}");
        for message in [error.not_appended(), error.not_appended()].concat() {
            assert_eq!(message.task_uuid(), Some(task.uuid()));
            task.append(message).await.unwrap();
        }
        assert_eq!(contents(&server, task.uuid()).await, numbered(0..numbers.end));
    }
}

// feature: append-many
#[tokio::test(flavor = "multi_thread")]
async fn many_messages_end_at_the_first_that_is_refused() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    let messages =
        [NewMessage::user("a"), NewMessage::json("{}"), NewMessage::user("b"), NewMessage::user("c")];
    let mut added = task.append_many(stream::iter(messages)).await.unwrap();
    assert_eq!(added.try_next().await.unwrap().unwrap().seq, 1);
    let refused = added.try_next().await.unwrap_err();
    assert_eq!((refused.reason(), refused.index()), (Some(ErrorReason::InvalidField), Some(1)));
    assert_eq!(refused.not_appended().len(), 3, "{refused}");
    for message in &refused.not_appended()[1..] {
        task.append(message.clone()).await.unwrap();
    }
    assert_eq!(contents(&server, task.uuid()).await, ["a", "b", "c"]);
}

// feature: append-many-source-fails
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_before_a_source_fails_is_appended() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    let messages = numbered(0..1300).into_iter().map(|message| Ok(NewMessage::user(message)));
    let broken = stream::once(async { Err(io::Error::other("the file ended early")) });
    // Nothing comes behind an error: it is the end.
    let source = stream::iter(messages).chain(broken).chain(stream::pending());
    let added = task.try_append_many(source).await.unwrap();
    let answers: Vec<_> = added.collect().await;
    let (failed, acknowledged) = answers.split_last().unwrap();
    let seqs: Vec<_> = acknowledged.iter().map(|added| added.as_ref().unwrap().seq).collect();
    assert_eq!(seqs, (1..=1300).collect::<Vec<_>>());
    let failed = failed.as_ref().unwrap_err();
    assert_eq!(failed.index(), Some(1300));
    assert_eq!(failed.to_string(), "message 1300: the source failed: the file ended early");
    assert_eq!(contents(&server, task.uuid()).await, numbered(0..1300));
}

// feature: concurrent-use
#[tokio::test(flavor = "multi_thread")]
async fn many_use_a_task_at_once() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    let worker = |name: usize| {
        let task = task.clone();
        async move {
            for round in 0..25 {
                task.append_later(NewMessage::user(format!("{name} {}", 4 * round))).await.unwrap();
                task.append_later(NewMessage::user(format!("{name} {}", 4 * round + 1))).await.unwrap();
                task.append(NewMessage::user(format!("{name} {}", 4 * round + 2))).await.unwrap();
                task.append_later(NewMessage::user(format!("{name} {}", 4 * round + 3))).await.unwrap();
                task.flush().await.unwrap();
                let done = async { Ok::<_, io::Error>("done") };
                task.tool("work").run(done).await.unwrap();
            }
        }
    };
    let workers: Vec<_> = (0..8).map(|name| tokio::spawn(worker(name))).collect();
    join_all(workers).await.into_iter().for_each(Result::unwrap);
    let all = contents(&server, task.uuid()).await;
    assert_eq!(all.len(), 800);
    for name in 0..8 {
        let own = all.iter().filter_map(|text| text.strip_prefix(&format!("{name} ")));
        let own: Vec<usize> = own.map(|number| number.parse().unwrap()).collect();
        assert_eq!(own, (0..100).collect::<Vec<_>>());
    }
    assert_eq!(task.tool_calls(Default::default()).try_collect::<Vec<_>>().await.unwrap().len(), 200);
}

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a program to its end on a runtime of its own; answers what it logged.
fn program<F: Future<Output = ()>>(main: impl FnOnce() -> F + Send + 'static) -> String {
    let said = Said::default();
    let writer = said.clone();
    let run = move || {
        let logged = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(logged, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(main());
        });
    };
    std::thread::spawn(run).join().unwrap();
    String::from_utf8(said.0.lock().unwrap().clone()).unwrap()
}

// feature: append-later-at-exit
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_has_saved_its_messages_or_says_how_many_are_lost() {
    let server = TestServer::start().await;
    for closes in [true, false] {
        let task = start(&server.client().await).await;
        let (builder, uuid, lease) = (server.builder(), task.uuid().to_owned(), task.lease_generation());
        let said = tokio::task::spawn_blocking(move || {
            program(move || async move {
                let client = builder.connect().await.unwrap();
                append_later(&client.task_under(uuid, lease), 0..400).await;
                if closes {
                    client.close().await.unwrap();
                }
            })
        });
        let said = said.await.unwrap();
        let saved = contents(&server, task.uuid()).await;
        assert_eq!(saved, numbered(0..u32::try_from(saved.len()).unwrap()));
        if closes {
            assert_eq!((saved.len(), said.as_str()), (400, ""));
            continue;
        }
        let count = said.split("count=").nth(1).and_then(|rest| rest.split(' ').next());
        let lost: usize = count.unwrap_or_else(|| panic!("no count: {said:?}")).parse().unwrap();
        assert!(said.contains("WARN") && said.contains("messages were not appended"), "{said}");
        assert!(lost > 0 && saved.len() + lost >= 400, "{} and {lost}", saved.len());
    }
}

/// A handle that outlives the runtime of its client keeps its messages.
#[tokio::test(flavor = "multi_thread")]
async fn messages_outlive_the_runtime_that_was_to_send_them() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    let (builder, uuid, lease) = (server.builder(), task.uuid().to_owned(), task.lease_generation());
    let handed_over = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let task = builder.connect().await.unwrap().task_under(uuid, lease);
            append_later(&task, 0..100).await;
            task
        })
    });
    let handed_over = handed_over.join().unwrap();
    let left = match handed_over.flush().await {
        Ok(_) => Vec::new(),
        Err(error) => error.not_appended().to_vec(),
    };
    for message in left {
        task.append_later(message).await.unwrap();
    }
    task.flush().await.unwrap();
    assert_eq!(contents(&server, task.uuid()).await, numbered(0..100));
}
