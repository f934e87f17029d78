//! What the model sees: the view in chunks, at earlier times, and taken back.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;

use test_support::server::TestServer;
use test_support::wire::{Api, Work, all, api, reason, refused, say, start, task, view};

/// A task with so many messages.
async fn talk(api: &mut Api, messages: u64) -> Work {
    let work = start(api).await;
    for number in 1..=messages {
        say(api, &work, &format!("message {number}")).await;
    }
    work
}

fn lines(from: u64, to: u64) -> String {
    (from..=to).map(|number| format!("{{\"role\":\"user\",\"content\":\"message {number}\"}}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_view_is_one_response_without_data() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let empty = [pb::StreamCurrentResponse::default()];
    assert_eq!(all(api.stream_current(work.current()).await).await.unwrap(), empty);
    // And so is what is left when all of it has been read.
    let work = talk(&mut api, 3).await;
    let end = lines(1, 3).len() as u64;
    let rest = all(api
        .stream_current(pb::StreamCurrentRequest { offset: end, generation: Some(0), ..work.current() })
        .await)
    .await;
    let nothing = pb::StreamCurrentResponse { offset: end, total_bytes: end, ..Default::default() };
    assert_eq!(rest.unwrap(), [nothing]);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_as_large_as_asked_for() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = talk(&mut api, 20).await;
    let whole = lines(1, 20);
    for chunk_bytes in [1, 7, 100, 1 << 20, 4 << 20] {
        let request = pb::StreamCurrentRequest { chunk_bytes, ..work.current() };
        let chunks = all(api.stream_current(request).await).await.unwrap();
        let (last, before) = chunks.split_last().unwrap();
        assert!(before.iter().all(|chunk| chunk.data.len() == chunk_bytes as usize));
        assert!((1..=chunk_bytes as usize).contains(&last.data.len()));
        let mut read = String::new();
        for chunk in &chunks {
            assert_eq!((chunk.offset, chunk.total_bytes), (read.len() as u64, whole.len() as u64));
            assert_eq!(chunk.generation, 0);
            read.push_str(std::str::from_utf8(&chunk.data).unwrap());
        }
        assert_eq!(read, whole);
    }
    let request = pb::StreamCurrentRequest { chunk_bytes: (4 << 20) + 1, ..work.current() };
    assert_eq!(refused(api.stream_current(request).await).fields, ["chunk_bytes"]);
    // 256 KiB if nothing is said.
    for _ in 0..3 {
        say(&mut api, &work, &"x".repeat(200_000)).await;
    }
    let chunks = all(api.stream_current(work.current()).await).await.unwrap();
    assert_eq!(chunks[0].data.len(), 256 << 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_read_goes_on_where_it_was() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = talk(&mut api, 20).await;
    let whole = lines(1, 20);
    for offset in [0, 1, 40, whole.len() - 1] {
        let request =
            pb::StreamCurrentRequest { offset: offset as u64, generation: Some(0), ..work.current() };
        assert_eq!(view(&mut api, request).await, whole[offset..]);
    }
    let behind =
        pb::StreamCurrentRequest { offset: whole.len() as u64 + 1, generation: Some(0), ..work.current() };
    assert_eq!(refused(api.stream_current(behind).await).fields, ["offset"]);
    let of_any = pb::StreamCurrentRequest { offset: 1, ..work.current() };
    assert_eq!(refused(api.stream_current(of_any).await).fields, ["generation"]);

    // A number that was left out would empty the view.
    assert_eq!(refused(api.rewind_task(work.rewind(0)).await).fields, ["seq"]);
    assert_eq!(view(&mut api, work.current()).await, whole);

    // A view that was rewritten cannot be gone on with; the newest generation is named.
    assert_eq!(api.rewind_task(work.rewind(5)).await.unwrap().into_inner().generation, 1);
    for (generation, offset, found) in [
        (None, 0, Some(lines(1, 5))),
        (Some(1), 0, Some(lines(1, 5))),
        (Some(1), 40, Some(lines(1, 5)[40..].to_owned())),
        (Some(0), 0, None),
        (Some(0), 40, None),
        (Some(2), 0, None),
        (Some(2), 40, None),
    ] {
        let request = pb::StreamCurrentRequest { generation, offset, ..work.current() };
        match found {
            Some(found) => assert_eq!(view(&mut api, request).await, found),
            None => {
                let why = refused(api.stream_current(request).await);
                assert_eq!((why.reason, why.data["generation"].as_str()), (ErrorReason::StaleView, "1"));
                assert_eq!(why.data["given"], generation.unwrap().to_string());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_one_snapshot() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    for _ in 0..10 {
        say(&mut api, &work, &"x".repeat(1 << 20)).await;
    }
    let before = task(&mut api, &work).await.statistics.unwrap().view_bytes;
    let small = pb::StreamCurrentRequest { chunk_bytes: 1 << 16, ..work.current() };
    let mut stream = api.stream_current(small).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.total_bytes, before);
    say(&mut api, &work, "later").await;
    api.rewind_task(work.rewind(1)).await.unwrap();
    say(&mut api, &work, "later still").await;
    let mut read = first.data.len() as u64;
    while let Some(chunk) = stream.message().await.unwrap() {
        assert_eq!((chunk.generation, chunk.offset, chunk.total_bytes), (0, read, before));
        assert!(!chunk.data.windows(5).any(|bytes| bytes == b"later"));
        read += chunk.data.len() as u64;
    }
    assert_eq!(read, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_as_it_was_after_a_message() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = talk(&mut client, 6).await;
    client.rewind_task(work.rewind(3)).await.unwrap();
    for number in 7..=8 {
        say(&mut client, &work, &format!("message {number}")).await;
    }
    let as_of = |as_of_seq| pb::StreamCurrentRequest { as_of_seq, ..work.current() };
    for _ in 0..2 {
        // The rewind came after message 6: the view after it is the one that was rewound.
        for (seq, expected, generation) in [
            (0, lines(1, 3) + &lines(7, 8), 1),
            (1, lines(1, 1), 0),
            (5, lines(1, 5), 0),
            (6, lines(1, 3), 1),
            (7, lines(1, 3) + &lines(7, 7), 1),
            (8, lines(1, 3) + &lines(7, 8), 1),
        ] {
            let chunks = all(client.stream_current(as_of(seq)).await).await.unwrap();
            assert_eq!(chunks[0].generation, generation, "after {seq}");
            assert_eq!(chunks[0].total_bytes, expected.len() as u64, "after {seq}");
            assert_eq!(view(&mut client, as_of(seq)).await, expected, "after {seq}");
        }
        let middle = pb::StreamCurrentRequest { offset: 10, generation: Some(0), chunk_bytes: 5, ..as_of(5) };
        assert_eq!(view(&mut client, middle).await, lines(1, 5)[10..]);
        let why = refused(client.stream_current(as_of(9)).await);
        assert_eq!((why.reason, why.data["last_seq"].as_str()), (ErrorReason::MessageNotFound, "8"));
        server.kill();
        server.restart().await;
        client = api(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_takes_the_view_back_and_keeps_the_log() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = talk(&mut client, 6).await;
    let told = client.rewind_task(work.rewind(4)).await.unwrap().into_inner();
    let found = task(&mut client, &work).await;
    let statistics = found.statistics.unwrap();
    assert_eq!((told.generation, found.view_generation, found.last_seq), (1, 1, 6));
    assert_eq!((statistics.view_messages, statistics.total_messages), (4, 6));
    assert_eq!(told.pressure.unwrap().tokens, statistics.view_tokens);
    assert_eq!(view(&mut client, work.current()).await, lines(1, 4));
    // The next message gets the next number; going back further, and forward again, works too.
    assert_eq!(say(&mut client, &work, "message 7").await, 7);
    assert_eq!(view(&mut client, work.current()).await, lines(1, 4) + &lines(7, 7));
    assert_eq!(client.rewind_task(work.rewind(1)).await.unwrap().into_inner().generation, 2);
    assert_eq!(client.rewind_task(work.rewind(5)).await.unwrap().into_inner().generation, 3);
    let last = lines(1, 5);
    assert_eq!(view(&mut client, work.current()).await, last);
    server.kill();
    server.restart().await;
    client = api(&server).await;
    assert_eq!(view(&mut client, work.current()).await, last);
    assert_eq!(task(&mut client, &work).await.view_generation, 3);
    for seq in [8, 1 << 40] {
        let why = refused(client.rewind_task(work.rewind(seq)).await);
        assert_eq!((why.reason, why.data["last_seq"].as_str()), (ErrorReason::MessageNotFound, "7"));
    }
    // What is not set must not empty the view.
    let why = refused(client.rewind_task(work.rewind(0)).await);
    assert_eq!((why.reason, why.data["field"].as_str()), (ErrorReason::InvalidField, "seq"));
    assert_eq!(view(&mut client, work.current()).await, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_of_a_task_that_is_not_there() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let nobody = Work { uuid: "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10".to_owned(), lease: 1 };
    let task_uuid = || nobody.uuid.clone();
    let reasons = [
        reason(api.get_task(nobody.get()).await),
        reason(api.append_message(nobody.say("?")).await),
        reason(api.rewind_task(nobody.rewind(1)).await),
        reason(api.get_message(pb::GetMessageRequest { task_uuid: task_uuid(), seq: 1 }).await),
        reason(all(api.stream_current(nobody.current()).await).await),
        reason(all(api.stream_messages(nobody.messages()).await).await),
        reason(
            all(api.stream_messages(pb::StreamMessagesRequest { follow: true, ..nobody.messages() }).await)
                .await,
        ),
        reason(all(api.watch_task(nobody.watch("")).await).await),
        reason(
            all(api
                .stream_tool_calls(pb::StreamToolCallsRequest {
                    task_uuid: task_uuid(),
                    ..Default::default()
                })
                .await)
            .await,
        ),
        reason(
            all(api
                .stream_plans(pb::StreamPlansRequest { task_uuid: task_uuid(), ..Default::default() })
                .await)
            .await,
        ),
        reason(
            all(api
                .stream_summaries(pb::StreamSummariesRequest { task_uuid: task_uuid(), ..Default::default() })
                .await)
            .await,
        ),
        reason(api.get_latest_plan(pb::GetLatestPlanRequest { task_uuid: task_uuid() }).await),
        reason(api.get_latest_summary(pb::GetLatestSummaryRequest { task_uuid: task_uuid() }).await),
        reason(api.renew_lease(pb::RenewLeaseRequest { task_uuid: task_uuid(), lease_generation: 1 }).await),
    ];
    assert_eq!(reasons, [ErrorReason::TaskNotFound; 14]);
}
