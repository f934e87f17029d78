//! Streams that go on with what happens later: a followed history, and WatchTask.

use std::fs;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use contextstore_proto::v1::watch_task_response::Event;
use serde_json::Value;
use tokio::time::timeout;
use tonic::Streaming;

use test_support::server::{DEADLINE, TestServer};
use test_support::wire::{Work, all, api, holder, piped, reason, refused, say, start, start_as, task, why};

/// Nothing happens to a context without being asked.
const STILL: (&str, &str) = ("compression.auto", "false");

type Told = Streaming<pb::WatchTaskResponse>;

fn following(work: &Work) -> pb::StreamMessagesRequest {
    pb::StreamMessagesRequest { follow: true, ..work.messages() }
}

async fn next(stream: &mut Told) -> pb::WatchTaskResponse {
    timeout(DEADLINE, stream.message()).await.unwrap().unwrap().unwrap()
}

async fn next_event(stream: &mut Told) -> Event {
    next(stream).await.event.unwrap()
}

/// The next records of a history: the seq of a message, the name of an event.
async fn names(stream: &mut Streaming<pb::StreamMessagesResponse>, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    while names.len() < count {
        let batch = timeout(DEADLINE, stream.message()).await.unwrap().unwrap().unwrap();
        for record in &batch.records {
            let record: Value = serde_json::from_slice(record).unwrap();
            names.push(record["event"].as_str().map_or(record["seq"].to_string(), str::to_owned));
        }
    }
    names
}

fn appended(seq: u64) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::MessageAppended(told) if told.seq == seq)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_followed_history_goes_on_with_what_is_appended() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    say(&mut api, &work, "one").await;
    let mut whole = api.stream_messages(following(&work)).await.unwrap().into_inner();
    let request = pb::StreamMessagesRequest {
        from_seq: 2,
        kinds: vec![pb::RecordKind::Message.into()],
        ..following(&work)
    };
    let mut later = api.stream_messages(request).await.unwrap().into_inner();
    let request = pb::StreamMessagesRequest { limit: 4, ..following(&work) };
    let mut limited = api.stream_messages(request).await.unwrap().into_inner();
    assert_eq!(names(&mut whole, 3).await, ["started", "lease", "1"]);
    for seq in 2..=5 {
        say(&mut api, &work, "more").await;
        assert_eq!(names(&mut whole, 1).await, [seq.to_string()]);
        assert_eq!(names(&mut later, 1).await, [seq.to_string()]);
    }
    api.rewind_task(work.rewind(1)).await.unwrap();
    assert_eq!(names(&mut whole, 1).await, ["rewrite"]);
    // With a limit it ends when there were so many.
    assert_eq!(names(&mut limited, 4).await, ["started", "lease", "1", "2"]);
    assert!(timeout(DEADLINE, limited.message()).await.unwrap().unwrap().is_none());

    // A status is a record like any other, and the move of the directory disturbs nobody.
    let pause =
        pb::PauseTaskRequest { task_uuid: work.uuid.clone(), lease_generation: 1, ..Default::default() };
    api.pause_task(pause).await.unwrap();
    let resume =
        pb::ResumeTaskRequest { task_uuid: work.uuid.clone(), holder: holder("b"), ..Default::default() };
    api.resume_task(resume).await.unwrap();
    assert_eq!(names(&mut whole, 2).await, ["status", "lease"]);
    say(&mut api, &Work { lease: 2, ..work.clone() }, "six").await;
    assert_eq!(names(&mut whole, 1).await, ["6"]);
    assert_eq!(names(&mut later, 1).await, ["6"]);
    // From a message that is not there yet it waits.
    let request = pb::StreamMessagesRequest { from_seq: 8, ..following(&work) };
    let mut ahead = api.stream_messages(request).await.unwrap().into_inner();
    for _ in 7..=8 {
        say(&mut api, &Work { lease: 2, ..work.clone() }, "more").await;
    }
    assert_eq!(names(&mut ahead, 1).await, ["8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_follow_are_told_that_the_server_stops() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    let mut history = client.stream_messages(following(&work)).await.unwrap().into_inner();
    let mut watched = client.watch_task(work.watch("")).await.unwrap().into_inner();
    assert_eq!(names(&mut history, 2).await, ["started", "lease"]);
    let status = server.terminate().await;
    assert!(status.success());
    for status in [
        timeout(DEADLINE, history.message()).await.unwrap().unwrap_err(),
        timeout(DEADLINE, watched.message()).await.unwrap().unwrap_err(),
    ] {
        assert_eq!(why(&status).reason, ErrorReason::Stopping);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_follow_are_told_that_the_task_is_gone() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let mut history = api.stream_messages(following(&work)).await.unwrap().into_inner();
    let mut watched = api.watch_task(work.watch("")).await.unwrap().into_inner();
    assert_eq!(names(&mut history, 2).await, ["started", "lease"]);
    let delete =
        pb::DeleteTaskRequest { task_uuid: work.uuid.clone(), lease_generation: 1, ..Default::default() };
    api.delete_task(delete).await.unwrap();
    for status in [
        timeout(DEADLINE, history.message()).await.unwrap().unwrap_err(),
        timeout(DEADLINE, watched.message()).await.unwrap().unwrap_err(),
    ] {
        assert_eq!(why(&status).reason, ErrorReason::TaskNotFound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_is_told_of_everything_as_it_happens() {
    let server = TestServer::start_configured(&[("lease.ttl", "300ms")]).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    say(&mut api, &work, "before").await;
    let mut stream = api.watch_task(work.watch("")).await.unwrap().into_inner();
    let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);

    let sent = api.append_message(work.json(r#"{"role":"assistant","content":"hello"}"#)).await.unwrap();
    let sent = sent.into_inner();
    let told = next(&mut stream).await;
    assert!(told.time.unwrap().seconds > 1_700_000_000);
    let Event::MessageAppended(message) = told.event.unwrap() else { panic!() };
    assert_eq!((message.seq, message.role().name(), message.tokens), (2, "assistant", sent.tokens));

    api.rewind_task(work.rewind(1)).await.unwrap();
    let Event::ViewRewritten(rewrite) = next_event(&mut stream).await else { panic!() };
    assert_eq!((rewrite.generation, rewrite.kind().name(), rewrite.last_seq), (1, "rewind", 2));

    for (status, expected) in [("", "success"), ("error", "error")] {
        let call = pb::RecordToolCallRequest {
            task_uuid: task_uuid.clone(),
            tool_name: "a \"tool\"".to_owned(),
            status: pb::ToolCallStatus::from_name(status).unwrap_or_default().into(),
            lease_generation,
            ..Default::default()
        };
        let seq = api.record_tool_call(call).await.unwrap().into_inner().seq;
        let Event::ToolCallRecorded(call) = next_event(&mut stream).await else { panic!() };
        assert_eq!((call.seq, call.tool_name.as_str(), call.status().name()), (seq, "a \"tool\"", expected));
    }
    for plan_type in ["initial", ""] {
        let plan = pb::AppendPlanRequest {
            task_uuid: task_uuid.clone(),
            plan_type: plan_type.to_owned(),
            // Not taken for a tool call, whatever it holds.
            plan_content_json: r#"{"tool_name":"x"}"#.to_owned(),
            lease_generation,
            ..Default::default()
        };
        let id = api.append_plan(plan).await.unwrap().into_inner().id;
        let Event::PlanAppended(plan) = next_event(&mut stream).await else { panic!() };
        assert_eq!((plan.id, plan.plan_type.as_str()), (id, plan_type));
    }

    // Of what is no event for watchers nothing is said: the next thing is the change of status.
    let pin = pb::PinMessageRequest {
        task_uuid: task_uuid.clone(),
        seq: 1,
        lease_generation,
        ..Default::default()
    };
    api.pin_message(pin).await.unwrap();
    let pause = pb::PauseTaskRequest { task_uuid: task_uuid.clone(), lease_generation, ..Default::default() };
    api.pause_task(pause).await.unwrap();
    let status = |event| match event {
        Event::StatusChanged(told) => {
            (told.status().name().to_owned(), told.error_message, told.lease_generation)
        }
        other => panic!("{other:?}"),
    };
    let text = |status: &str, error: &str, lease| (status.to_owned(), error.to_owned(), lease);
    assert_eq!(status(next_event(&mut stream).await), text("paused", "", 0));
    let resume =
        pb::ResumeTaskRequest { task_uuid: task_uuid.clone(), holder: holder("b"), ..Default::default() };
    api.resume_task(resume).await.unwrap();
    assert_eq!(status(next_event(&mut stream).await), text("running", "", 2));
    // Taken over.
    let take =
        pb::StartTaskRequest { task_uuid: task_uuid.clone(), holder: holder("c"), ..Default::default() };
    test_support::server::eventually(DEADLINE, || {
        let (mut api, take) = (api.clone(), take.clone());
        async move { api.start_task(take).await.ok() }
    })
    .await;
    assert_eq!(status(next_event(&mut stream).await), text("running", "", 3));
    let fail = pb::FailTaskRequest {
        task_uuid: task_uuid.clone(),
        error_message: "so it goes".to_owned(),
        lease_generation: 3,
        ..Default::default()
    };
    api.fail_task(fail).await.unwrap();
    assert_eq!(status(next_event(&mut stream).await), text("failed", "so it goes", 0));

    let other = start(&mut api).await;
    let mut stream = api.watch_task(other.watch("")).await.unwrap().into_inner();
    let complete =
        pb::CompleteTaskRequest { task_uuid: other.uuid, lease_generation: 1, ..Default::default() };
    api.complete_task(complete).await.unwrap();
    assert_eq!(status(next_event(&mut stream).await), text("completed", "", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missed_between_two_watches() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    let mut stream = client.watch_task(work.watch("")).await.unwrap().into_inner();
    let mut tokens = Vec::new();
    for seq in 1..=5 {
        say(&mut client, &work, "hello").await;
        let told = next(&mut stream).await;
        assert!(appended(seq)(&told.event.unwrap()));
        tokens.push(told.resume_token);
    }
    let plan = pb::AppendPlanRequest {
        task_uuid: work.uuid.clone(),
        plan_content_json: "1".to_owned(),
        lease_generation: work.lease,
        ..Default::default()
    };
    client.append_plan(plan).await.unwrap();
    let with_plan = next(&mut stream).await.resume_token;
    for orderly in [false, true] {
        if orderly {
            server.restart().await;
        } else {
            server.kill();
            server.restart().await;
        }
        client = api(&server).await;
        let seq = say(&mut client, &work, "while nobody watched").await;
        for (at, token) in tokens.iter().enumerate() {
            let mut stream = client.watch_task(work.watch(token)).await.unwrap().into_inner();
            for expected in at as u64 + 2..=seq {
                assert!(appended(expected)(&next_event(&mut stream).await), "behind {token}");
            }
            assert!(matches!(next_event(&mut stream).await, Event::PlanAppended(plan) if plan.id == 1));
        }
        let mut stream = client.watch_task(work.watch(&with_plan)).await.unwrap().into_inner();
        for expected in 6..=seq {
            assert!(appended(expected)(&next_event(&mut stream).await));
        }
        // From now on, which is later than all of it; where that is, is told before anything happens.
        let begun = client.watch_task(work.watch("")).await.unwrap();
        let token = begun.metadata().get("resume-token").unwrap().to_str().unwrap().to_owned();
        let seq = say(&mut client, &work, "now").await;
        assert!(appended(seq)(&next_event(&mut begun.into_inner()).await));
        let again = client.watch_task(work.watch(&token)).await.unwrap();
        assert_eq!(again.metadata().get("resume-token").unwrap(), token.as_str());
        assert!(appended(seq)(&next_event(&mut again.into_inner()).await));
        // From the very beginning.
        let mut stream = client.watch_task(work.watch("v1.0.0.0")).await.unwrap().into_inner();
        assert!(
            matches!(next_event(&mut stream).await, Event::StatusChanged(told) if told.lease_generation == 1)
        );
        assert!(appended(1)(&next_event(&mut stream).await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_comes_back_late_misses_nothing() {
    let server = TestServer::start_configured(&[("limits.message_bytes", "2MiB"), STILL]).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    for _ in 0..17 {
        say(&mut api, &work, &"x".repeat(1 << 20)).await;
    }
    let mut stream = api.watch_task(work.watch("v1.0.0.0")).await.unwrap().into_inner();
    assert!(matches!(next_event(&mut stream).await, Event::StatusChanged(_)));
    for seq in 1..=17 {
        assert!(appended(seq)(&next_event(&mut stream).await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_does_not_read_lags() {
    let server = TestServer::start_configured(&[("limits.message_bytes", "1MiB"), STILL]).await;
    let mut client = api(&server).await;
    let config = pb::TaskConfig { durability: pb::Durability::Process.into(), ..Default::default() };
    let work =
        start_as(&mut client, pb::StartTaskRequest { config: Some(config), ..Default::default() }).await;
    let mut slow = test_support::wire::narrow(&server).await;
    let mut stream = slow.watch_task(work.watch("")).await.unwrap().into_inner();
    const MESSAGES: u64 = 3000;
    let text = "x".repeat(16_000);
    let messages = (0..MESSAGES).map({
        let work = work.clone();
        move |_| piped(work.say(&text))
    });
    assert_eq!(all(client.append_messages(tokio_stream::iter(messages)).await).await.unwrap().len(), 3000);
    let mut expected = 1;
    let skipped = loop {
        match next_event(&mut stream).await {
            Event::MessageAppended(told) => {
                assert_eq!(told.seq, expected);
                expected += 1;
            }
            Event::Lagged(lagged) => break lagged.skipped_bytes,
            other => panic!("{other:?}"),
        }
    };
    assert!(expected > 1 && skipped > 16 << 20, "{skipped} behind {expected}");
    let seq = say(&mut client, &work, "at present").await;
    assert_eq!(seq, MESSAGES + 1);
    assert!(appended(seq)(&next_event(&mut stream).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_log_that_was_cut_is_told_as_lagging() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    let mut stream = client.watch_task(work.watch("")).await.unwrap().into_inner();
    for _ in 0..3 {
        say(&mut client, &work, "hello").await;
    }
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(next(&mut stream).await.resume_token);
    }
    // The last message is lost, as a power cut would lose one that was not synced.
    server.kill();
    let log = server.running(&work.uuid).join("messages.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let cut = text.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&log, &text[..cut]).unwrap();
    server.restart().await;
    client = api(&server).await;
    assert_eq!(task(&mut client, &work).await.last_seq, 2);
    let lagged = |event: &Event| matches!(event, Event::Lagged(_));
    let mut stream = client.watch_task(work.watch(&tokens[2])).await.unwrap().into_inner();
    assert!(lagged(&next_event(&mut stream).await));
    // Also when the log has grown beyond the place since.
    for text in ["another and longer third message", "fourth"] {
        say(&mut client, &work, text).await;
    }
    let mut again = client.watch_task(work.watch(&tokens[2])).await.unwrap().into_inner();
    assert!(lagged(&next_event(&mut again).await));
    let seq = say(&mut client, &work, "fifth").await;
    assert!(appended(seq)(&next_event(&mut again).await));
    // Whoever was told before has missed nothing since.
    for expected in 3..=seq {
        assert!(appended(expected)(&next_event(&mut stream).await));
    }
    // One of a place that is still there goes on as if nothing had been.
    let mut stream = client.watch_task(work.watch(&tokens[1])).await.unwrap().into_inner();
    assert!(appended(3)(&next_event(&mut stream).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_token_is_refused() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    for token in
        ["made up", "v1", "v1.1.2", "v1.1.2.3.4", "v2.0.0.0", "v1.-1.0.0", "v1.0.0.18446744073709551616"]
    {
        let why = refused(all(api.watch_task(work.watch(token)).await).await);
        assert_eq!(
            (why.reason, why.fields),
            (ErrorReason::InvalidField, vec!["resume_token".to_owned()]),
            "{token}"
        );
    }
    let gone = Work { uuid: "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10".to_owned(), lease: 0 };
    assert_eq!(reason(all(api.watch_task(gone.watch("v1.0.0.0")).await).await), ErrorReason::TaskNotFound);
}
