//! How many may come at once: connections, calls on each, readers, open tasks.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::{Api, Work, all, api, channel, reason, refused, say, start, task};

/// The value of one of the SETTINGS that a server begins a connection with.
fn setting(server: &TestServer, wanted: u16) -> Option<u32> {
    let mut socket = UnixStream::connect(server.socket()).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").unwrap();
    let mut head = [0; 9];
    socket.read_exact(&mut head).unwrap();
    assert_eq!(head[3], 4, "the first frame must be SETTINGS");
    let mut body = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    socket.read_exact(&mut body).unwrap();
    body.chunks(6)
        .find(|entry| u16::from_be_bytes([entry[0], entry[1]]) == wanted)
        .map(|entry| u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))
}

const MAX_CONCURRENT_STREAMS: u16 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn calls_on_one_connection_are_bounded() {
    assert_eq!(setting(&TestServer::start().await, MAX_CONCURRENT_STREAMS), Some(256));
    let server = TestServer::start_configured(&[("limits.streams_per_connection", "3")]).await;
    assert_eq!(setting(&server, MAX_CONCURRENT_STREAMS), Some(3));
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    let mut watching = Vec::new();
    for _ in 0..3 {
        watching.push(client.watch_task(work.watch("")).await.unwrap());
    }
    // The fourth waits for its turn; on another connection it does not.
    let mut waiting = client.clone();
    let get = work.get();
    let fourth = tokio::spawn(async move { waiting.get_task(get).await });
    for _ in 0..20 {
        task(&mut api(&server).await, &work).await;
    }
    assert!(!fourth.is_finished());
    watching.pop();
    timeout(DEADLINE, fourth).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_over_the_limit_are_told_so() {
    let server = TestServer::start_configured(&[("limits.connections", "2")]).await;
    let info = pb::GetServerInfoRequest {};
    // Whoever made sure that the server is ready may not have gone yet.
    let comes_in = |channel: Channel| async move {
        eventually(DEADLINE, || async { Api::new(channel.clone()).get_server_info(info).await.ok() }).await;
        Api::new(channel)
    };
    let mut first = comes_in(channel(&server.socket()).await).await;
    let mut second = comes_in(channel(&server.socket()).await).await;
    let third = channel(&server.socket()).await;
    for _ in 0..3 {
        let why = refused(Api::new(third.clone()).get_server_info(info).await);
        assert_eq!((why.reason, why.data["what"].as_str()), (ErrorReason::Overloaded, "connections"));
        assert_eq!((why.data["limit"].as_str(), why.pause.is_some()), ("2", true));
    }
    // Whether the server lives can be asked all the same, and those who came first are not harmed.
    let check = HealthCheckRequest { service: String::new() };
    HealthClient::new(third.clone()).check(check).await.unwrap();
    first.get_server_info(info).await.unwrap();
    second.get_server_info(info).await.unwrap();
    // When one has gone there is a place for the one that stayed and tries again, and for no other.
    drop(first);
    let mut third = comes_in(third).await;
    assert_eq!(reason(api(&server).await.get_server_info(info).await), ErrorReason::Overloaded);
    second.get_server_info(info).await.unwrap();
    third.get_server_info(info).await.unwrap();
    drop((second, third));
    comes_in(channel(&server.socket()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_are_bounded() {
    let server = TestServer::start_configured(&[("limits.read_streams", "4")]).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    say(&mut api, &work, "one").await;
    let follow = pb::StreamMessagesRequest { follow: true, ..work.messages() };
    let watching =
        [api.watch_task(work.watch("")).await.unwrap(), api.watch_task(work.watch("")).await.unwrap()];
    let following = [
        api.stream_messages(follow.clone()).await.unwrap(),
        api.stream_messages(follow.clone()).await.unwrap(),
    ];
    let task_uuid = || work.uuid.clone();
    let answers = [
        refused(all(api.stream_current(work.current()).await).await),
        refused(all(api.stream_messages(work.messages()).await).await),
        refused(all(api.watch_task(work.watch("")).await).await),
        refused(
            all(api
                .stream_plans(pb::StreamPlansRequest { task_uuid: task_uuid(), ..Default::default() })
                .await)
            .await,
        ),
        refused(
            all(api
                .stream_tool_calls(pb::StreamToolCallsRequest {
                    task_uuid: task_uuid(),
                    ..Default::default()
                })
                .await)
            .await,
        ),
        refused(
            all(api
                .stream_summaries(pb::StreamSummariesRequest { task_uuid: task_uuid(), ..Default::default() })
                .await)
            .await,
        ),
    ];
    for why in answers {
        assert_eq!((why.reason, why.data["limit"].as_str()), (ErrorReason::Overloaded, "4"));
        assert!(why.pause.is_some());
    }
    // Other calls go on.
    say(&mut api, &work, "two").await;
    task(&mut api, &work).await;
    drop(watching);
    drop(following);
    let read = || async { all(api.clone().stream_current(work.current()).await).await.ok() };
    eventually(DEADLINE, read).await;
    // A call that is refused for another reason takes no place.
    for _ in 0..10 {
        let gone = Work::nobody("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10");
        assert_eq!(reason(all(api.stream_current(gone.current()).await).await), ErrorReason::TaskNotFound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_tasks_are_bounded() {
    let own = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let config = own.path().join("config.yaml");
    std::fs::write(&config, "durability: process\nlimits: {open_tasks: 16}\n").unwrap();
    let mut server = TestServer::start_in(own, &["--config", config.to_str().unwrap()]).await;
    let mut client = api(&server).await;
    let before = server.open_fds();
    // Each takes up to seven; others come and go.
    let bound = before + 16 * 7 + 16;
    let mut works = Vec::new();
    for _ in 0..test_support::sized(100, 1000) {
        let work = start(&mut client).await;
        say(&mut client, &work, "hello").await;
        let open = server.open_fds();
        assert!(open <= bound, "{open} files are open with {} tasks; {bound} are expected", works.len());
        works.push(work);
    }
    for round in 0..2 {
        for work in works.iter().rev() {
            assert_eq!(task(&mut client, work).await.last_seq, 1);
        }
        let open = server.open_fds();
        assert!(open <= bound, "{open} files are open in round {round}; {bound} are expected");
        if round == 0 {
            server.restart().await;
            client = api(&server).await;
        }
    }
}
