//! One client at a time works on a task.

use std::time::{Duration, Instant};

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use prost_types::Timestamp;

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::moment;
use test_support::wire::{Api, Work, api, holder, reason, refused, say, start, start_as, task};

/// Time to see a lease alive on a busy machine, and not long to wait until it is dead.
const SHORT: [(&str, &str); 1] = [("lease.ttl", "3s")];

fn take(work: &Work, instance: &str) -> pb::StartTaskRequest {
    pb::StartTaskRequest { task_uuid: work.uuid.clone(), holder: holder(instance), ..Default::default() }
}

fn renew(work: &Work) -> pb::RenewLeaseRequest {
    pb::RenewLeaseRequest { task_uuid: work.uuid.clone(), lease_generation: work.lease }
}

fn micros(time: Option<Timestamp>) -> i64 {
    let time = time.unwrap();
    time.seconds * 1_000_000 + i64::from(time.nanos) / 1000
}

/// A lease was not renewed since: some time later it still says so. What it says is reckoned from two clocks, so a busy
/// machine may be a little off at times.
async fn is_still(api: &Api, work: &Work, renewed: i64) {
    let begun = Instant::now();
    eventually(DEADLINE, || async {
        let told = micros(lease(&mut api.clone(), work).await.renew_time);
        (begun.elapsed() >= Duration::from_millis(50) && (told - renewed).abs() < 10_000).then_some(())
    })
    .await;
}

async fn lease(api: &mut Api, work: &Work) -> pb::Lease {
    task(api, work).await.lease.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_instance_gets_a_new_generation_at_once() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    let before = lease(&mut client, &work).await;
    assert_eq!((before.generation, before.holder), (1, holder("a")));
    // Also when the sidecar was restarted meanwhile.
    for generation in 2..5 {
        if generation == 3 {
            server.restart().await;
            client = api(&server).await;
        } else if generation == 4 {
            server.kill();
            server.restart().await;
            client = api(&server).await;
        }
        let taken = client.start_task(take(&work, "a")).await.unwrap().into_inner();
        assert_eq!((taken.lease_generation, taken.created), (generation, false));
        // Its older self is out of date from then on, for every call.
        let older = Work { lease: generation - 1, ..work.clone() };
        let why = refused(client.append_message(older.say("late")).await);
        assert_eq!(why.reason, ErrorReason::StaleLease);
        assert_eq!(why.data["lease_generation"], generation.to_string());
        assert_eq!(why.data["given"], (generation - 1).to_string());
        assert_eq!(reason(client.renew_lease(renew(&older)).await), ErrorReason::StaleLease);
    }
    let newest = Work { lease: 4, ..work };
    assert_eq!(say(&mut client, &newest, "here").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_instance_is_told_who_holds_the_task() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let held = pb::Holder { instance_id: "first".to_owned(), process_id: 4711, hostname: "höst".to_owned() };
    let work = start_as(&mut api, pb::StartTaskRequest { holder: Some(held), ..Default::default() }).await;
    let nobody = Work { lease: 0, ..work.clone() };
    let delete = pb::DeleteTaskRequest { task_uuid: work.uuid.clone(), ..Default::default() };
    let pause = pb::PauseTaskRequest { task_uuid: work.uuid.clone(), ..Default::default() };
    for why in [
        refused(api.start_task(take(&work, "second")).await),
        refused(api.append_message(nobody.say("me too")).await),
        refused(api.rewind_task(nobody.rewind(1)).await),
        refused(api.pause_task(pause).await),
        refused(api.delete_task(delete).await),
    ] {
        assert_eq!(why.reason, ErrorReason::LeaseHeld);
        let data: Vec<&str> = ["instance_id", "process_id", "hostname", "lease_generation", "task_uuid"]
            .iter()
            .map(|name| why.data[*name].as_str())
            .collect();
        assert_eq!(data, ["first", "4711", "höst", "1", &work.uuid]);
        assert!(why.words.contains("first"), "{}", why.words);
    }
    assert_eq!(task(&mut api, &work).await.last_seq, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_expired_is_taken_over() {
    let server = TestServer::start_configured(&SHORT).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    assert_eq!(reason(api.start_task(take(&work, "b")).await), ErrorReason::LeaseHeld);
    let taken = eventually(DEADLINE, || {
        let mut api = api.clone();
        let take = take(&work, "b");
        async move {
            match api.start_task(take).await {
                Ok(taken) => Some(taken.into_inner()),
                Err(status) => {
                    assert_eq!(test_support::wire::why(&status).reason, ErrorReason::LeaseHeld);
                    None
                }
            }
        }
    })
    .await;
    assert_eq!((taken.lease_generation, taken.created), (2, false));
    let found = task(&mut api, &work).await;
    assert_eq!(found.lease.unwrap().holder, holder("b"));
    // The old holder finds out at its next call, and cannot get in by the back door either.
    assert_eq!(reason(api.append_message(work.say("late")).await), ErrorReason::StaleLease);
    let back = pb::StartTaskRequest { lease_generation: work.lease, ..take(&work, "a") };
    let why = refused(api.start_task(back).await);
    assert_eq!((why.reason, why.data["lease_generation"].as_str()), (ErrorReason::StaleLease, "2"));
    let now = Work { lease: 2, ..work };
    assert_eq!(say(&mut api, &now, "mine").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_and_changes_keep_a_lease_alive() {
    let server = TestServer::start_configured(&SHORT).await;
    let mut api = api(&server).await;
    let (renewed, written) = (start(&mut api).await, start(&mut api).await);
    // One that is left alone shows how long a lease lives that began after theirs.
    let left = start(&mut api).await;
    let mut over = false;
    while !over {
        over = api.start_task(take(&left, "b")).await.is_ok();
        let lives = api.renew_lease(renew(&renewed)).await.unwrap().into_inner().lease_ttl.unwrap();
        assert_eq!(lives.seconds, 3);
        say(&mut api, &written, "still here").await;
        for work in [&renewed, &written] {
            assert_eq!(reason(api.start_task(take(work, "b")).await), ErrorReason::LeaseHeld);
        }
        moment().await;
    }
    // One that has expired is still its holder's, as long as nobody else took the task.
    let expired = || async {
        let nobody = Work { lease: 0, ..renewed.clone() };
        api.clone().append_message(nobody.say("free for all")).await.ok()
    };
    eventually(DEADLINE, expired).await;
    assert_eq!(say(&mut api, &renewed, "back again").await, 2);
    assert_eq!(reason(api.start_task(take(&renewed, "b")).await), ErrorReason::LeaseHeld);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_grants_one_fresh_time_to_live() {
    let mut server = TestServer::start_configured(&SHORT).await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    let expired = || async {
        let nobody = Work { lease: 0, ..work.clone() };
        client.clone().append_message(nobody.say("anybody?")).await.ok()
    };
    eventually(DEADLINE, expired).await;
    server.kill();
    server.restart().await;
    client = api(&server).await;
    assert_eq!(reason(client.start_task(take(&work, "b")).await), ErrorReason::LeaseHeld);
    client.renew_lease(renew(&work)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_times_of_a_lease_are_told() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let first = lease(&mut api, &work).await;
    let (acquired, renewed) = (micros(first.acquire_time), micros(first.renew_time));
    assert!(acquired <= renewed);
    assert_eq!(micros(first.expire_time) - renewed, 30_000_000);
    // Reading renews nothing; a renewal and an accepted change do, a refused one does not.
    is_still(&api, &work, renewed).await;
    let mut last = renewed;
    for change in ["renew", "append"] {
        let later = || {
            let (mut api, work) = (api.clone(), work.clone());
            async move {
                match change {
                    "renew" => drop(api.renew_lease(renew(&work)).await.unwrap()),
                    _ => drop(say(&mut api, &work, "hi").await),
                }
                let now = lease(&mut api, &work).await;
                (micros(now.renew_time) >= last + 20_000).then_some(now)
            }
        };
        let now = eventually(DEADLINE, later).await;
        assert_eq!(micros(now.acquire_time), acquired);
        assert_eq!(micros(now.expire_time) - micros(now.renew_time), 30_000_000);
        last = micros(now.renew_time);
    }
    let stale = Work { lease: 9, ..work.clone() };
    assert_eq!(reason(api.append_message(stale.say("no")).await), ErrorReason::StaleLease);
    is_still(&api, &work, last).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_had_a_lease_is_refused_if_there_was_another_since() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    // Of the newest generation, and of none, it is given.
    for had in [0, 2] {
        let again = pb::StartTaskRequest { lease_generation: had, ..take(&work, "a") };
        api.start_task(again).await.unwrap();
    }
    let old = pb::StartTaskRequest { lease_generation: 1, ..take(&work, "a") };
    let why = refused(api.start_task(old).await);
    assert_eq!((why.reason, why.data["lease_generation"].as_str()), (ErrorReason::StaleLease, "3"));

    let pause = |lease_generation| pb::PauseTaskRequest {
        task_uuid: work.uuid.clone(),
        lease_generation,
        ..Default::default()
    };
    let resume = |lease_generation| pb::ResumeTaskRequest {
        task_uuid: work.uuid.clone(),
        holder: holder("b"),
        lease_generation,
        ..Default::default()
    };
    api.pause_task(pause(3)).await.unwrap();
    let why = refused(api.resume_task(resume(2)).await);
    assert_eq!((why.reason, why.data["lease_generation"].as_str()), (ErrorReason::StaleLease, "3"));
    assert_eq!(api.resume_task(resume(3)).await.unwrap().into_inner().lease_generation, 4);
    api.pause_task(pause(4)).await.unwrap();
    assert_eq!(api.resume_task(resume(0)).await.unwrap().into_inner().lease_generation, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_required() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    assert_eq!(refused(api.start_task(pb::StartTaskRequest::default()).await).fields, ["holder"]);
    let nameless = pb::StartTaskRequest { holder: holder(""), ..Default::default() };
    assert_eq!(refused(api.start_task(nameless).await).fields, ["holder.instance_id"]);
    let work = start(&mut api).await;
    let resume = pb::ResumeTaskRequest { task_uuid: work.uuid.clone(), ..Default::default() };
    assert_eq!(refused(api.resume_task(resume).await).fields, ["holder"]);
}
