//! Readers that stand still: their streams are closed, and if they take no notice, so are their connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contextstore_client::tonic::transport::Endpoint;
use contextstore_client::tonic::{Code, Request};
use contextstore_client::v1::context_store_client::ContextStoreClient;
use contextstore_client::{NewMessage, StartTask, v1};
use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;

use super::wire::Wire;
use super::{Footprint, MIB, TASK, current, large_task, one_of_many, still_serves};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::{metric, moment, once, reason, serve};

/// Nobody is asked whether it lives, so that it is the standing still that ends it.
const NO_QUESTIONS: &str = "limits:\n  read_idle: 1s\nserver:\n  keepalive_interval: 1h\n";

async fn connections(server: &TestServer, count: usize) {
    let all = || async { (metric(server, "contextstore_connections") == count as f64).then_some(()) };
    eventually(DEADLINE, all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stands_still_is_told_so() {
    let server = serve("limits:\n  read_idle: 3s\n").await;
    let lease = large_task(&mut once(&server).await.raw()).await;
    let client = once(&server).await;
    let mut raw = client.raw();
    let mut chunks = raw.stream_current(current()).await.unwrap().into_inner();
    chunks.message().await.unwrap().unwrap();
    let stalled = || async { (metric(&server, "contextstore_stalled_readers_total") > 0.0).then_some(()) };
    eventually(DEADLINE, stalled).await;
    // It gets what was under way, and then the reason.
    let status = loop {
        match chunks.message().await {
            Ok(chunk) => assert!(chunk.is_some(), "it ended as if that were all"),
            Err(status) => break status,
        }
    };
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Aborted, "ERROR_REASON_STALLED"));
    // It took notice, so the connection is as good as before.
    let request = v1::RenewLeaseRequest { task_uuid: TASK.to_owned(), lease_generation: lease };
    raw.renew_lease(request).await.unwrap();

    // One that is slow is another matter, and so is one that waits for something to happen.
    let follow = v1::StreamMessagesRequest { task_uuid: TASK.to_owned(), follow: true, ..Default::default() };
    let mut follower = raw.stream_messages(follow).await.unwrap().into_inner();
    let mut records = 0;
    while records < 98 {
        records += follower.message().await.unwrap().unwrap().records.len();
    }
    let mut slow = raw.stream_current(v1::StreamCurrentRequest { chunk_bytes: 512 << 10, ..current() }).await;
    let slow = slow.as_mut().unwrap().get_mut();
    slow.message().await.unwrap().unwrap();
    // Another that has begun after it and stands still shows when so much time has passed.
    let mut raw = once(&server).await.raw();
    let mut standing = raw.stream_current(current()).await.unwrap().into_inner();
    standing.message().await.unwrap().unwrap();
    let mut pace = tokio::time::interval(Duration::from_millis(250));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while metric(&server, "contextstore_stalled_readers_total") < 2.0 {
        pace.tick().await;
        slow.message().await.unwrap().unwrap();
    }
    slow.message().await.unwrap().unwrap();
    assert_eq!(metric(&server, "contextstore_stalled_readers_total"), 2.0);
    assert!(tokio::time::timeout(Duration::from_millis(1), follower.message()).await.is_err());
}

/// Connections that have begun to read and stand still, with a window of so many bytes.
fn standing(server: &TestServer, method: &str, request: &impl prost::Message, window: u32) -> Vec<Wire> {
    let stand = |mut wire: Wire| {
        wire.hello(window);
        wire.call(1, method, &server.token());
        wire.message(1, request, true).unwrap();
        wire.answered();
        wire
    };
    (0..10).flat_map(|_| [Wire::tcp(server.tcp_address()), Wire::unix(&server.socket())]).map(stand).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_no_notice_is_cut_off() {
    const SMALL: &str = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f11";
    // With and without a question on its way that does not go through either.
    let questions =
        "limits:\n  read_idle: 1s\nserver:\n  keepalive_interval: 100ms\n  keepalive_timeout: 1h\n";
    for settings in [NO_QUESTIONS, questions] {
        let server = serve(settings).await;
        let client = server.client().await;
        let lease = large_task(&mut client.raw()).await;
        let small = client.start_task(StartTask { task_uuid: Some(SMALL.to_owned()), ..Default::default() });
        let small = small.await.unwrap();
        still_serves(&server, lease).await;
        let before = Footprint::at_rest(&server).await;
        let follow =
            v1::StreamMessagesRequest { task_uuid: SMALL.to_owned(), follow: true, ..Default::default() };
        // It is the window of the stream that is full, or it is the socket; or there was only little to take.
        for mut readers in [
            standing(&server, "StreamCurrent", &current(), 65_535),
            standing(&server, "StreamCurrent", &current(), 1 << 30),
            standing(&server, "StreamMessages", &follow, 10),
        ] {
            // It is about those who are offered something.
            for _ in 0..3 {
                small.append(NewMessage::user("hello")).await.unwrap();
            }
            connections(&server, 1).await;
            for reader in &mut readers {
                assert!(reader.is_ended_within(DEADLINE));
            }
        }
        before.returns(&server, 24 * MIB).await;
        still_serves(&server, lease).await;
    }
}

/// One who sends messages until it is cut off, and takes no answers. Counts them.
async fn send_without_end(server: &TestServer, lease: u64, sent: &AtomicU64) {
    let address = server.tcp_address().replace("tcp:", "http://");
    // Not one whole answer can be sent to it.
    let channel = Endpoint::from_shared(address).unwrap().initial_stream_window_size(1);
    let mut client = ContextStoreClient::new(channel.connect().await.unwrap());
    let (requests, rest) = mpsc::channel(1);
    let mut call = Request::new(ReceiverStream::new(rest));
    let token = format!("Bearer {}", server.token());
    call.metadata_mut().insert("authorization", token.parse().unwrap());
    let answers = client.append_messages(call).await.unwrap();
    let text = "x".repeat(8 << 10);
    let sending = async {
        while requests.send(one_of_many(lease, text.clone())).await.is_ok() {
            assert!(sent.fetch_add(1, Ordering::Relaxed) < 10_000, "everything is taken");
        }
    };
    assert!(tokio::time::timeout(DEADLINE, sending).await.is_ok(), "it is not cut off");
    drop(answers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_takes_no_answers_is_slowed_down_and_then_cut_off() {
    let sent = || [const { AtomicU64::new(0) }; 3];
    let count = |sent: &[AtomicU64; 3]| sent.each_ref().map(|sent| sent.load(Ordering::Relaxed));
    // As long as nobody is cut off, a thousand wait for their answers.
    let patient = serve("limits:\n  read_idle: 1h\nserver:\n  keepalive_interval: 1h\n").await;
    let lease = large_task(&mut once(&patient).await.raw()).await;
    let taken = sent();
    let enough = || async { count(&taken).iter().all(|sent| *sent >= 1024).then_some(()) };
    tokio::select! {
        _ = join_all(taken.iter().map(|sent| send_without_end(&patient, lease, sent))) => panic!("{taken:?}"),
        () = eventually(DEADLINE, enough) => {}
    }

    let server = serve("limits:\n  read_idle: 3s\nserver:\n  keepalive_interval: 1h\n").await;
    let lease = large_task(&mut once(&server).await.raw()).await;
    still_serves(&server, lease).await;
    let before = Footprint::at_rest(&server).await;
    let taken = sent();
    join_all(taken.iter().map(|sent| send_without_end(&server, lease, sent))).await;
    println!("before they were stopped, they had sent {taken:?}");
    // Those that have no place among the thousand are on the way.
    assert!(count(&taken).iter().all(|sent| *sent < 2048), "{taken:?}");
    connections(&server, 0).await;
    before.returns(&server, 64 * MIB).await;
    still_serves(&server, lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_sends_more_than_it_may_gains_nothing() {
    let server = serve(NO_QUESTIONS).await;
    let lease = large_task(&mut once(&server).await.raw()).await;
    still_serves(&server, lease).await;
    let before = Footprint::at_rest(&server).await;
    let (address, token) = (server.tcp_address().to_owned(), server.token());
    let flood = tokio::task::spawn_blocking(move || {
        let mut wire = Wire::tcp(&address);
        wire.hello(0);
        wire.call(1, "AppendMessages", &token);
        wire.give_up_after(Duration::from_secs(2));
        let text = "x".repeat(8 << 10);
        // No heed is paid to how much the server is ready to take.
        let mut sent = 0;
        while sent < 16_384 && wire.message(1, &one_of_many(lease, text.clone()), false).is_ok() {
            sent += 1;
        }
        wire
    });
    let mut most = 0;
    while !flood.is_finished() {
        most = most.max(server.rss());
        moment().await;
    }
    drop(flood.await.unwrap());
    println!("at most {:.1} MiB more", most.saturating_sub(before.rss) as f64 / MIB as f64);
    assert!(most < before.rss + 48 * MIB, "{most} bytes, {} before", before.rss);
    before.returns(&server, 48 * MIB).await;
    still_serves(&server, lease).await;
}
