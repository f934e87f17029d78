//! Stopping: a server that is told to stop says so, lets calls end, closes its store in order, and is gone in time.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use contextstore_client::tonic::Streaming;
use contextstore_client::tonic::transport::{Channel, Endpoint};
use contextstore_client::{NewMessage, RawClient, StartTask, v1};
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::{doctor, once, reason, serve, start_task};
use test_support::wire::new_fields;

const TASK: &str = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10";

/// Longer than any test waits: whoever has to wait for it fails.
const LONG_DRAIN: &str = "server:\n  drain: 1h\n";

/// Somebody who wants to know whether the server serves.
async fn watch_health(server: &TestServer) -> Streaming<HealthCheckResponse> {
    let address = server.tcp_address().replace("tcp:", "http://");
    let channel: Channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let request = HealthCheckRequest { service: "contextstore.v1.ContextStore".to_owned() };
    let mut watching = HealthClient::new(channel).watch(request).await.unwrap().into_inner();
    assert_eq!(watching.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    watching
}

async fn append(raw: &mut RawClient, lease_generation: u64, text: String) -> u64 {
    let message = v1::Message { role: v1::Role::User.into(), content: text, ..Default::default() };
    let request = v1::AppendMessageRequest {
        task_uuid: TASK.to_owned(),
        message: Some(new_fields(message)),
        lease_generation,
    };
    raw.append_message(request).await.unwrap().into_inner().seq
}

/// A task whose view is larger than what a connection holds, so that who does not read it holds up its stream.
async fn large_task(raw: &mut RawClient) -> u64 {
    let lease = start_task(raw, TASK, "process").await;
    for _ in 0..24 {
        append(raw, lease, "x".repeat(1 << 20)).await;
    }
    lease
}

/// One who has begun to read, and does not go on.
async fn stalled_reader(server: &TestServer) -> Streaming<v1::StreamCurrentResponse> {
    let mut raw = once(server).await.raw();
    let request = v1::StreamCurrentRequest { task_uuid: TASK.to_owned(), ..Default::default() };
    let mut chunks = raw.stream_current(request).await.unwrap().into_inner();
    assert!(!chunks.message().await.unwrap().unwrap().data.is_empty());
    chunks
}

/// A signal counts as another one when a second has passed.
async fn signal_until_it_ends(server: &mut TestServer, signal: Signal) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Ok(status) = timeout(Duration::from_millis(1200), server.ended()).await {
            return status;
        }
        assert!(begun.elapsed() < DEADLINE, "{}", server.log());
        server.signal(signal);
    }
}

/// It was an orderly stop: the next start has nothing to do, and nothing is wrong.
async fn was_orderly(server: &mut TestServer) {
    assert_eq!(doctor(&server.data_dir()), None);
    assert!(!server.socket().exists() && !server.data_dir().join("addresses").exists());
    let said = server.log().len();
    server.restart().await;
    let log = server.log();
    assert!(!log[said..].contains("recovered"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_is_told_and_nobody_is_waited_for() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = serve(LONG_DRAIN).await;
        let client = once(&server).await;
        let mut raw = client.raw();
        let lease = start_task(&mut raw, TASK, "").await;
        append(&mut raw, lease, "hello".to_owned()).await;

        let mut health = watch_health(&server).await;
        let follow =
            v1::StreamMessagesRequest { task_uuid: TASK.to_owned(), follow: true, ..Default::default() };
        let mut follower = raw.stream_messages(follow).await.unwrap().into_inner();
        follower.message().await.unwrap().unwrap();
        let watch = v1::WatchTaskRequest { task_uuid: TASK.to_owned(), ..Default::default() };
        let mut watcher = raw.watch_task(watch).await.unwrap().into_inner();
        let (requests, stream) = mpsc::channel(4);
        requests.send(as_one_of_many(lease, "one")).await.unwrap();
        let mut answers = raw.append_messages(ReceiverStream::new(stream)).await.unwrap().into_inner();
        assert_eq!(answers.message().await.unwrap().unwrap().responses[0].seq, 2);
        watcher.message().await.unwrap().unwrap();
        // Those who never say a word are not waited for either.
        let _silent = TcpStream::connect(server.tcp_address().trim_start_matches("tcp:")).unwrap();
        let _silent_too = UnixStream::connect(server.socket()).unwrap();

        server.signal(signal);
        let told = timeout(DEADLINE, health.message()).await.unwrap().unwrap().unwrap();
        assert_eq!(told.status(), ServingStatus::NotServing);
        assert!(matches!(health.message().await, Ok(None) | Err(_)));
        let ends = async {
            let follower = loop {
                match follower.message().await {
                    Ok(records) => assert!(records.is_some(), "it ended without a word"),
                    Err(status) => break status,
                }
            };
            (follower, watcher.message().await.unwrap_err(), answers.message().await.unwrap_err())
        };
        let (follower, watcher, answers) = timeout(DEADLINE, ends).await.unwrap();
        for status in [follower, watcher, answers] {
            assert_eq!(reason(&status), "ERROR_REASON_STOPPING", "{status:?}");
        }
        assert_eq!(server.ended().await.code(), Some(0), "{signal:?}");
        was_orderly(&mut server).await;
    }
}

fn as_one_of_many(lease_generation: u64, text: &str) -> v1::AppendMessagesRequest {
    let message = v1::Message { role: v1::Role::User.into(), content: text.to_owned(), ..Default::default() };
    v1::AppendMessagesRequest {
        task_uuid: TASK.to_owned(),
        messages: vec![new_fields(message)],
        lease_generation,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_reader_holds_up_the_stop_no_longer_than_the_drain() {
    let mut server = serve("server:\n  drain: 2s\n").await;
    large_task(&mut once(&server).await.raw()).await;
    let _stalled = stalled_reader(&server).await;
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await.code(), Some(0));
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2), "the reader was not given its time: {took:?}");
    was_orderly(&mut server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_reads_comes_to_its_end() {
    let mut server = serve(LONG_DRAIN).await;
    large_task(&mut once(&server).await.raw()).await;
    let mut chunks = stalled_reader(&server).await;
    server.signal(Signal::TERM);
    let mut last = None;
    while let Some(chunk) = chunks.message().await.unwrap() {
        last = Some((chunk.offset + chunk.data.len() as u64, chunk.total_bytes));
    }
    let (end, total) = last.unwrap();
    assert_eq!(end, total);
    assert_eq!(server.ended().await.code(), Some(0));
    was_orderly(&mut server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let mut server = serve(LONG_DRAIN).await;
        let mut raw = once(&server).await.raw();
        large_task(&mut raw).await;
        let _stalled = stalled_reader(&server).await;
        let mut health = watch_health(&server).await;
        server.signal(Signal::TERM);
        assert_eq!(health.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        // Said twice at once, it is said once.
        server.signal(second);
        let status = signal_until_it_ends(&mut server, second).await;
        assert!(!status.success(), "{status}");
        // Nothing is lost by it.
        server.restart().await;
        let task = once(&server).await.task(TASK);
        assert_eq!(task.get().await.unwrap().task.unwrap().last_seq, 24);
        assert!(server.terminate().await.success());
        assert_eq!(doctor(&server.data_dir()), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_does_not_wait_for_a_catalog_that_is_locked() {
    let mut server = serve("catalog:\n  busy_timeout: 1h\n").await;
    let task = once(&server).await.start_task(StartTask::default()).await.unwrap();
    task.append(NewMessage::user("hello")).await.unwrap();
    let catalog = rusqlite::Connection::open(server.data_dir().join("tasks.db")).unwrap();
    catalog.busy_timeout(DEADLINE).unwrap();
    catalog.execute_batch("BEGIN EXCLUSIVE").unwrap();
    task.append(NewMessage::user("once more")).await.unwrap();
    server.signal(Signal::TERM);
    // Its calls have ended, and it is closing the store.
    let addresses = server.data_dir().join("addresses");
    eventually(DEADLINE, || async { (!addresses.exists()).then_some(()) }).await;
    let status = signal_until_it_ends(&mut server, Signal::TERM).await;
    assert!(!status.success(), "{status}");
    drop(catalog);
    server.restart().await;
    assert_eq!(once(&server).await.task(task.uuid()).get().await.unwrap().task.unwrap().last_seq, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_orderly_stop_the_next_start_is_quick() {
    let mut server = TestServer::start().await;
    let client = once(&server).await;
    for _ in 0..200 {
        let task = client.start_task(StartTask::default()).await.unwrap();
        task.append(NewMessage::user("hello")).await.unwrap();
    }
    assert!(server.terminate().await.success());
    was_orderly(&mut server).await;
    // What is found after a kill shows that this could have found something.
    server.kill();
    let said = server.log().len();
    std::fs::create_dir(server.data_dir().join(".tmp").join(TASK)).unwrap();
    server.restart().await;
    assert!(server.log()[said..].contains("recovered"));
}

#[tokio::test]
async fn stop_with_stdin_stops_the_server_in_order_when_its_standard_input_ends() {
    let mut server = TestServer::start_with(&["--stop-with-stdin"]).await;
    let mut raw = once(&server).await.raw();
    let lease = start_task(&mut raw, TASK, "process").await;
    append(&mut raw, lease, "kept".to_owned()).await;
    server.close_stdin();
    assert!(server.ended().await.success(), "{}", server.log());
    was_orderly(&mut server).await;

    let mut server = TestServer::start().await;
    server.close_stdin();
    once(&server).await.server_info().await.unwrap();
}

#[tokio::test]
async fn stop_when_idle_stops_the_server_in_order_once_the_last_client_has_gone() {
    let idle = ["--stop-when-idle", "1h", "--stop-when-idle", "3s"];
    let mut server = TestServer::start_with(&idle).await;
    let over_tcp = TcpStream::connect(server.tcp_address().strip_prefix("tcp:").unwrap()).unwrap();
    let mut raw = once(&server).await.raw();
    let lease = start_task(&mut raw, TASK, "process").await;
    // A server without clients ends later than this one would, if it did not count its clients.
    let mut without_clients = TestServer::start_with(&idle).await;
    assert!(without_clients.ended().await.success(), "{}", without_clients.log());
    append(&mut raw, lease, "kept".to_owned()).await;
    drop(raw);
    drop(over_tcp);
    assert!(server.ended().await.success(), "{}", server.log());
    assert!(server.log().contains("no client is connected"), "{}", server.log());
    was_orderly(&mut server).await;
}
