//! Pipelined appends, and what calls leave behind that were cancelled.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use prost::Message;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::trace::Sabotage;
use test_support::wire::{Api, Appending, Work, all, api, piped, reason, say, start, start_as, task, why};

/// So many messages in each request, all of one task.
fn together(requests: Vec<pb::AppendMessageRequest>, count: usize) -> Vec<pb::AppendMessagesRequest> {
    let batch = |batch: &[pb::AppendMessageRequest]| {
        let messages = batch.iter().filter_map(|request| request.message.clone()).collect();
        pb::AppendMessagesRequest { messages, ..piped(batch[0].clone()) }
    };
    requests.chunks(count).map(batch).collect()
}

/// The numbers of all messages that a response acknowledges.
fn seqs(ack: &pb::AppendMessagesResponse) -> Vec<u64> {
    ack.responses.iter().map(|response| response.seq).collect()
}

/// The contents of a task's messages, as they stand in its log.
fn contents(server: &TestServer, work: &Work) -> Vec<String> {
    let log = fs::read_to_string(server.running(&work.uuid).join("messages.jsonl")).unwrap();
    // The last line may be being written.
    let whole = log.rfind('\n').map_or(0, |end| end + 1);
    let lines = log[..whole].lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| Some(line.get("content")?.as_str().unwrap().to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_come_in_the_order_of_requests_of_several_tasks() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let tasks = [start(&mut api).await, start(&mut api).await, start(&mut api).await];
    let requests: Vec<_> =
        (0..300).map(|number| piped(tasks[number % 3].say(&format!("message {number}")))).collect();
    let acks = all(api.append_messages(tokio_stream::iter(requests)).await).await.unwrap();
    let seqs: Vec<u64> = acks.iter().map(|ack| ack.responses[0].seq).collect();
    assert_eq!(seqs, (0..300).map(|number| number / 3 + 1).collect::<Vec<_>>());
    for (at, work) in tasks.iter().enumerate() {
        let expected: Vec<_> = (0..100).map(|number| format!("message {}", number * 3 + at)).collect();
        assert_eq!(contents(&server, work), expected);
    }
    let last = acks.last().unwrap();
    assert!(!last.responses[0].duplicate && last.responses[0].tokens > 0);
    assert_eq!(
        last.responses[0].pressure.as_ref().unwrap().tokens,
        task(&mut api, &tasks[2]).await.statistics.unwrap().view_tokens
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_come_together_are_answered_together() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let requests: Vec<_> = (0..3000)
        .map(|number| work.say(&format!("message {number}")).named(format!("call-{number}")))
        .collect();
    let sent = together(requests.clone(), 1024);
    let acks = all(api.append_messages(tokio_stream::iter(sent)).await).await.unwrap();
    assert_eq!(acks.iter().map(|ack| ack.responses.len()).collect::<Vec<_>>(), [1024, 1024, 952]);
    assert_eq!(acks.iter().flat_map(seqs).collect::<Vec<_>>(), (1..=3000).collect::<Vec<_>>());
    assert!(acks.iter().flat_map(|ack| &ack.responses).all(|one| one.tokens > 0 && one.pressure.is_some()));
    assert_eq!(contents(&server, &work)[2999], "message 2999");
    // Sent again in other company, nothing changes.
    let again = together(requests[2500..].to_vec(), 3);
    let acks = all(api.append_messages(tokio_stream::iter(again)).await).await.unwrap();
    assert_eq!(acks.iter().flat_map(seqs).collect::<Vec<_>>(), (2501..=3000).collect::<Vec<_>>());
    assert!(acks.iter().flat_map(|ack| &ack.responses).all(|one| one.duplicate));
    assert_eq!(task(&mut api, &work).await.last_seq, 3000);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_messages_that_come_together_those_before_a_failure_are_answered() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    // With the wrong one in the middle of a request, as its first, as its last; all at once.
    for count in [1, 7, 20, 21, 40] {
        let work = start(&mut api).await;
        let mut requests: Vec<_> = (0..40).map(|number| work.say(&format!("{number}"))).collect();
        requests[3] = requests[3].clone().named("used");
        requests[20] = requests[20].clone().named("used");
        let sent = together(requests, count);
        let mut acks = api.append_messages(tokio_stream::iter(sent)).await.unwrap().into_inner();
        let mut told = Vec::new();
        while told.len() < 20 {
            told.extend(seqs(&acks.message().await.unwrap().unwrap()));
        }
        assert_eq!(told, (1..=20).collect::<Vec<_>>(), "{count} together");
        let failed = why(&acks.message().await.unwrap_err()).reason;
        assert_eq!(failed, ErrorReason::RequestIdReused, "{count} together");
        assert_eq!(task(&mut api, &work).await.last_seq, 20, "{count} together");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_come_together_are_refused_together() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let many = vec![work.say("one of many"); 1025];
    let wrong = vec![work.say("fine"), work.say("fine too"), work.json(r#"{"role":"nobody"}"#)];
    let large = vec![work.say(&"x".repeat(9 << 20)); 2];
    for (requests, reason, field, words) in [
        (many, ErrorReason::InvalidField, Some("messages"), "has more than 1024 elements"),
        (wrong, ErrorReason::InvalidField, Some("messages[2].json.role"), "system, developer, user"),
        (large, ErrorReason::TooLarge, None, "at most 16777216 are allowed"),
    ] {
        let sent = together(requests, usize::MAX);
        let mut acks = api.append_messages(tokio_stream::iter(sent)).await.unwrap().into_inner();
        let refused = why(&acks.message().await.unwrap_err());
        assert_eq!(refused.reason, reason);
        assert_eq!(refused.fields.first().map(String::as_str), field);
        assert!(refused.words.contains(words), "{}", refused.words);
        assert_eq!(task(&mut api, &work).await.last_seq, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_acknowledged_while_the_stream_is_open() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let (send, receive) = mpsc::channel(1);
    let mut acks = api.append_messages(ReceiverStream::new(receive)).await.unwrap().into_inner();
    for seq in 1..=20 {
        send.send(piped(work.say("one more"))).await.unwrap();
        assert_eq!(timeout(DEADLINE, acks.message()).await.unwrap().unwrap().unwrap().responses[0].seq, seq);
        // It is durable and to be seen by then.
        assert_eq!(task(&mut api, &work).await.last_seq, seq);
    }
    drop(send);
    assert!(acks.message().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_failure_ends_it_behind_what_went_before() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    for (bad, expected) in [
        ("field", ErrorReason::InvalidField),
        ("lease", ErrorReason::StaleLease),
        ("task", ErrorReason::TaskNotFound),
        ("reused", ErrorReason::RequestIdReused),
        ("uuid", ErrorReason::InvalidField),
    ] {
        let (work, other) = (start(&mut api).await, start(&mut api).await);
        let mut requests: Vec<_> = (0..40).map(|number| work.say(&format!("{number}"))).collect();
        requests[3] = requests[3].clone().named("used");
        let wrong = &mut requests[20];
        match bad {
            "field" => *wrong = work.json("{}"),
            "lease" => wrong.lease_generation = 7,
            "task" => wrong.task_uuid = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10".to_owned(),
            "uuid" => wrong.task_uuid = "../../etc/passwd".to_owned(),
            _ => *wrong = wrong.clone().named("used"),
        }
        requests.push(other.say("behind"));
        let mut acks = api
            .append_messages(tokio_stream::iter(requests.into_iter().map(piped)))
            .await
            .unwrap()
            .into_inner();
        for seq in 1..=20 {
            assert_eq!(acks.message().await.unwrap().unwrap().responses[0].seq, seq, "{bad}");
        }
        assert_eq!(why(&acks.message().await.unwrap_err()).reason, expected, "{bad}");
        let told = (0..20).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!(contents(&server, &work), told, "{bad}");
        assert_eq!(contents(&server, &other), [""; 0], "{bad}");
        // It goes on in a new stream.
        assert_eq!(say(&mut api, &work, "next").await, 21);
    }
}

/// Returns when a task has not grown for a while; answers its last message.
async fn comes_to_rest(api: &Api, work: &Work) -> u64 {
    const WHILE: Duration = Duration::from_millis(400);
    let (mut last, mut since) = (0, Instant::now());
    let mut api = api.clone();
    let end = Instant::now() + DEADLINE;
    while last == 0 || since.elapsed() < WHILE {
        let now = task(&mut api, work).await.last_seq;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        assert!(Instant::now() < end, "it grows and grows: {last}");
    }
    last
}

/// There is always one more to sync, and so never a pause in what is answered: the first is acknowledged all the same, long
/// before the last is synced.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_durable_is_acknowledged_while_more_is_synced() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let config = pb::TaskConfig { durability: pb::Durability::Each.into(), ..Default::default() };
    let work = start_as(&mut api, pb::StartTaskRequest { config: Some(config), ..Default::default() }).await;
    let log = server.running(&work.uuid).join("messages.jsonl");
    let _slow = Sabotage::begin(server.pid(), "fdatasync:delay_enter=50000", Some(&log));
    const MESSAGES: usize = 40;
    let requests: Vec<_> =
        (0..MESSAGES).map(|number| piped(work.say(&format!("message {number}")))).collect();
    let mut acks = api.append_messages(tokio_stream::iter(requests)).await.unwrap().into_inner();
    let (arrived, mut arrivals) = mpsc::channel(MESSAGES);
    let reading = tokio::spawn(async move {
        while let Some(ack) = acks.message().await.unwrap() {
            arrived.send(ack.responses[0].seq).await.unwrap();
        }
    });
    assert_eq!(arrivals.recv().await, Some(1));
    // A call there and back is shorter than all those syncs.
    task(&mut api, &work).await;
    assert!(arrivals.len() < MESSAGES - 1, "the first response came with the last");
    for seq in 2..=MESSAGES as u64 {
        assert_eq!(arrivals.recv().await, Some(seq));
    }
    reading.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_slowed_down_not_failed() {
    let server = TestServer::start().await;
    let mut api = test_support::wire::narrow(&server).await;
    let work = start(&mut api).await;
    let (send, receive) = mpsc::channel(1);
    let mut acks = api.append_messages(ReceiverStream::new(receive)).await.unwrap().into_inner();
    const MESSAGES: u64 = 6000;
    let text = "x".repeat(1000);
    let sending = tokio::spawn({
        let work = work.clone();
        async move {
            for _ in 0..MESSAGES {
                send.send(piped(work.say(&text))).await.unwrap();
            }
        }
    });
    let taken = comes_to_rest(&api, &work).await;
    assert!(!sending.is_finished(), "all were taken: {taken}");
    for seq in 1..=MESSAGES {
        assert_eq!(acks.message().await.unwrap().unwrap().responses[0].seq, seq);
    }
    assert!(acks.message().await.unwrap().is_none());
    sending.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn small_messages_that_come_one_by_one_are_not_taken_for_an_attack() {
    let server = TestServer::start().await;
    let channel = test_support::wire::narrow_channel(&server).await;
    let mut api = Api::new(channel.clone());
    let work = start(&mut api).await;
    // Some clients send each message in a frame of its own; the smallest message there can be.
    let message = piped(work.json(r#"{"role":"user","content":""}"#)).encode_to_vec();
    assert!(message.len() < 80);
    const MESSAGES: usize = 20_000;
    let frames = vec![test_support::wire::framed(&message); MESSAGES];
    let path = "/contextstore.v1.ContextStore/AppendMessages";
    let answer = test_support::wire::raw(&channel, path, &[], frames).await.unwrap();
    // Nothing is read until nothing more is taken: by then the server has as many as it takes in advance.
    let taken = comes_to_rest(&api, &work).await;
    assert!(taken < MESSAGES as u64, "all were taken");
    let answer = test_support::wire::collect(answer).await.unwrap();
    assert_eq!((answer.code, answer.messages.len()), (Code::Ok, MESSAGES));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_stream_does_not_hold_up_a_server_that_stops() {
    // Calls may go on for an hour; this one has nothing to go on with.
    let mut server = TestServer::start_configured(&[("server.drain", "1h")]).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let (send, receive) = mpsc::channel(1);
    let mut acks = api.append_messages(ReceiverStream::new(receive)).await.unwrap().into_inner();
    send.send(piped(work.say("one"))).await.unwrap();
    assert_eq!(acks.message().await.unwrap().unwrap().responses[0].seq, 1);
    assert!(server.terminate().await.success());
    assert_eq!(why(&acks.message().await.unwrap_err()).reason, ErrorReason::Stopping);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_was_cancelled_happened_wholly_or_not_at_all() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut cancelled, mut done_before) = (0, 0);
    // How long one takes that is not cancelled, here and now.
    let mut usual = Duration::ZERO;
    // A busy machine cancels fewer of them in time.
    let mut number = 0;
    while number < 300 || (number < 3_000 && (cancelled <= 30 || done_before == 0)) {
        let text = format!("message {number} {}", "x".repeat(random.usize(0..20_000)));
        let request = work.say(&text).named(format!("r{number}"));
        let wait = usual.mul_f64(random.f64() * 1.5);
        let first = timeout(wait, api.append_message(request.clone())).await;
        cancelled += u32::from(first.is_err());
        let begun = Instant::now();
        let again = api.append_message(request).await.unwrap().into_inner();
        if !again.duplicate {
            usual = begun.elapsed();
        }
        assert_eq!(again.seq, number + 1, "seed {seed}");
        assert!(again.duplicate || first.is_err(), "seed {seed}");
        done_before += u32::from(first.is_err() && again.duplicate);
        number += 1;
    }
    assert_eq!(contents(&server, &work).len() as u64, number, "seed {seed}");
    assert!(cancelled > 30, "only {cancelled} were cancelled");
    assert!(done_before > 0, "none of {cancelled} had happened");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_cancelled_leaves_messages_up_to_some_point() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    const MESSAGES: usize = 400;
    let mut left = BTreeSet::new();
    let mut rounds = 0..200;
    // A busy machine comes to the same point again and again.
    while rounds.start < 12 || left.len() <= 2 {
        let round = rounds.next().expect("all were cancelled at the same points");
        let work = start(&mut api).await;
        let requests: Vec<_> = (0..MESSAGES)
            .map(|number| {
                let text = format!("{number}");
                piped(work.say(&text).named(format!("r{number}")))
            })
            .collect();
        // At any time; or at some answer, which a slow machine comes to as well.
        let wait = if round % 2 == 0 { Duration::from_micros(random.u64(0..60_000)) } else { DEADLINE };
        let read_first = random.usize(0..MESSAGES);
        let mut told = 0;
        let _ = timeout(wait, async {
            let answer = api.append_messages(tokio_stream::iter(requests.clone())).await;
            let mut acks = answer.unwrap().into_inner();
            while told < read_first && acks.message().await.unwrap().is_some() {
                told += 1;
            }
        })
        .await;
        // Whatever point it is, it is a point, and behind all that was told.
        let seen = contents(&server, &work);
        assert!(seen.len() >= told, "seed {seed}");
        assert!(seen.iter().enumerate().all(|(at, text)| *text == at.to_string()), "seed {seed}");
        left.insert(seen.len());
        let acks = all(api.append_messages(tokio_stream::iter(requests)).await).await.unwrap();
        assert!(acks.iter().map(|ack| ack.responses[0].seq).eq(1..=MESSAGES as u64), "seed {seed}");
        assert!(acks.iter().take(told).all(|ack| ack.responses[0].duplicate), "seed {seed}");
        let expected: Vec<_> = (0..MESSAGES).map(|number| number.to_string()).collect();
        assert_eq!(contents(&server, &work), expected, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_reads_leave_nothing_behind() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    for _ in 0..8 {
        say(&mut api, &work, &"x".repeat(1 << 20)).await;
    }
    let seq = task(&mut api, &work).await.last_seq;
    let open = server.open_fds();
    for round in 0..60 {
        let request = pb::StreamCurrentRequest {
            chunk_bytes: 1 << 16,
            as_of_seq: if round % 2 == 0 { 0 } else { seq - 1 },
            ..work.current()
        };
        let mut current = api.stream_current(request).await.unwrap().into_inner();
        let mut followed = api
            .stream_messages(pb::StreamMessagesRequest { follow: true, ..work.messages() })
            .await
            .unwrap()
            .into_inner();
        current.message().await.unwrap().unwrap();
        followed.message().await.unwrap().unwrap();
    }
    let settled = || async { (server.open_fds() <= open).then_some(()) };
    eventually(DEADLINE, settled).await;
    let gone = Work { uuid: "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10".to_owned(), lease: 0 };
    assert_eq!(reason(api.get_task(gone.get()).await), ErrorReason::TaskNotFound);
}
