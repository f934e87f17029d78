//! What the Rust client does for an agent by itself, against a real server: leases that are kept, tasks by their keys.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests look at the disk as it is")]

#[path = "support/server.rs"]
mod server;

use std::time::Duration;

use contextstore_client::{Client, ErrorReason, NewMessage, StartTask, Task, v1};

use server::{DEADLINE, TestServer, eventually};

async fn start(client: &Client) -> Task {
    client.start_task(StartTask::default()).await.unwrap()
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
