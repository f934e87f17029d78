//! Whoever may not call takes no room from those who may, and nobody has room set aside for what never comes.

use std::io::Write;

use contextstore_client::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::wire::Wire;
use super::{MIB, TASK, message, one_of_many};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::{metric, once, serve, start_task};

/// More than may be connected at once, with the spare ones.
const CROWD: usize = 100;
const SETTINGS: &str = "limits:\n  connections: 20\n";

async fn appends(server: &TestServer, lease: u64, bytes: usize) {
    let request = v1::AppendMessageRequest {
        task_uuid: TASK.to_owned(),
        message: Some(v1::NewMessage {
            body: Some(v1::new_message::Body::Fields(message("x".repeat(bytes)))),
            ..Default::default()
        }),
        lease_generation: lease,
    };
    once(server).await.raw().append_message(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_keep_nobody_out() {
    let server = serve(SETTINGS).await;
    let tcp = || server.builder().address(server.tcp_address()).connect_lazy().unwrap().raw();
    let lease = start_task(&mut tcp(), TASK, "process").await;
    let mut crowd = Vec::new();
    for round in 0..3 {
        for _ in 0..CROWD {
            let mut wire = Wire::tcp(server.tcp_address());
            // One that was shown out already does not hear it.
            if round > 0 {
                let _ = wire.write_all(super::wire::PREFACE);
            }
            crowd.push(wire);
        }
        let renew = v1::RenewLeaseRequest { task_uuid: TASK.to_owned(), lease_generation: lease };
        tokio::time::timeout(DEADLINE, tcp().renew_lease(renew)).await.unwrap().unwrap();
    }
    // Who does not show in time that it may call has to go.
    let mut last = crowd.pop().unwrap();
    assert!(last.is_ended_within(DEADLINE));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_a_connection_has_few_calls() {
    let server = serve("").await;
    let channel = tonic::transport::Endpoint::from_shared(server.tcp_address().replace("tcp:", "http://"))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut watching = Vec::new();
    let mut refused = 0;
    for _ in 0..20 {
        match HealthClient::new(channel.clone()).watch(HealthCheckRequest::default()).await {
            Ok(watch) => watching.push(watch),
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                refused += 1;
            }
        }
    }
    assert_eq!((watching.len(), refused), (4, 16));
    drop(watching);
    // Those that have ended do not count.
    eventually(DEADLINE, || async {
        HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_wait_hold_no_bytes() {
    let server = serve("limits:\n  bytes_in_flight: 32MiB\n").await;
    let lease = start_task(&mut once(&server).await.raw(), TASK, "process").await;
    let mut waiting = Vec::new();
    for _ in 0..40 {
        let (requests, sent) = mpsc::channel(1);
        requests.send(one_of_many(lease, "x".repeat(MIB as usize))).await.unwrap();
        let mut raw = once(&server).await.raw();
        let mut answers = raw.append_messages(ReceiverStream::new(sent)).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap();
        waiting.push((requests, answers));
    }
    eventually(DEADLINE, || async {
        (metric(&server, "contextstore_request_bytes_in_flight") < 1000.0).then_some(())
    })
    .await;
    appends(&server, lease, 12 << 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_announced_and_never_comes_keeps_nobody_out() {
    let server = serve("limits:\n  bytes_in_flight: 32MiB\n").await;
    let lease = start_task(&mut once(&server).await.raw(), TASK, "process").await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut wire = Wire::unix(&server.socket());
        wire.hello(65_535);
        wire.call(1, "AppendMessage", "");
        // A frame of data for stream 1: a message of 16 MiB begins.
        wire.write_all(&[0, 0, 8, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 2, 3]).unwrap();
        silent.push(wire);
    }
    tokio::time::timeout(DEADLINE, appends(&server, lease, 12 << 20)).await.unwrap();
}

/// A client that is refused for want of room hears why, with its request on the way.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_refused_for_want_of_room_is_told_so() {
    let server = serve("limits:\n  bytes_in_flight: 17MiB\n").await;
    let lease = start_task(&mut once(&server).await.raw(), TASK, "process").await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let mut raw = once(&server).await.raw();
        let request = v1::AppendMessageRequest {
            task_uuid: TASK.to_owned(),
            message: Some(v1::NewMessage {
                body: Some(v1::new_message::Body::Fields(message("x".repeat(8 << 20)))),
                ..Default::default()
            }),
            lease_generation: lease,
        };
        calls.spawn(async move { raw.append_message(request).await });
    }
    let mut refused = 0;
    while let Some(call) = calls.join_next().await {
        if let Err(status) = call.unwrap() {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
            assert!(!status.details().is_empty(), "{status:?}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    // There is room again.
    appends(&server, lease, 8 << 20).await;
}
