//! How large a request may be, and how much of requests may be in flight.

use bytes::Bytes;
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use http_body::Frame;
use http_body_util::StreamBody;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::{Code, Status};

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::{
    api, channel, collect, exchange, framed, raw, raw_body, refused, say, start, task, why,
};

const APPEND: &str = "/contextstore.v1.ContextStore/AppendMessage";
const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_as_large_as_the_limit_says() {
    for (limit, configured) in [(16 * MIB, None), (64 << 10, Some("64KiB")), (2 * MIB, Some("2MiB"))] {
        let keys: Vec<(&str, &str)> =
            configured.iter().map(|value| ("limits.message_bytes", *value)).collect();
        let server = TestServer::start_configured(&keys).await;
        let mut api = api(&server).await;
        let work = start(&mut api).await;
        // What is counted is what stands in the log behind the envelope: here `,"content":"…"`.
        let around = r#","content":"""#.len() as u64;
        let text = |bytes: u64| "x".repeat(usize::try_from(bytes - around).unwrap());
        assert_eq!(say(&mut api, &work, &text(limit)).await, 1);
        let why = refused(api.append_message(work.say(&text(limit + 1))).await);
        assert_eq!((why.reason, &why.data["limit"]), (ErrorReason::TooLarge, &limit.to_string()));
        assert!(why.words.contains(&limit.to_string()), "{}", why.words);
        // What is larger by far is not even read.
        let why = refused(api.append_message(work.say(&text(limit + MIB + 100))).await);
        assert_eq!((why.reason, &why.data["limit"]), (ErrorReason::TooLarge, &limit.to_string()));
        assert!(why.data["size"].parse::<u64>().unwrap() > limit + MIB);
        assert!(why.words.contains("limits.message_bytes"), "{}", why.words);
        // In a stream too, behind what went before.
        let requests = [work.say("two"), work.say(&text(limit + MIB + 100)), work.say("never")];
        let requests = requests.map(test_support::wire::piped);
        let mut acks = api.append_messages(tokio_stream::iter(requests)).await.unwrap().into_inner();
        assert_eq!(acks.message().await.unwrap().unwrap().responses[0].seq, 2);
        assert_eq!(test_support::wire::why(&acks.message().await.unwrap_err()).reason, ErrorReason::TooLarge);
        assert_eq!(task(&mut api, &work).await.last_seq, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_before_it_is_read() {
    let server = TestServer::start().await;
    let channel = channel(&server.socket()).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    say(&mut api, &work, "warm").await;
    let before = server.rss();
    let mut most = before;
    for _ in 0..8 {
        // It says that it is 1 GiB, and would send it.
        let mut head = vec![0];
        head.extend((1_u32 << 30).to_be_bytes());
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let frames = std::iter::once(head.into()).chain(std::iter::repeat_n(piece, 1 << 10)).collect();
        let answer = raw(&channel, APPEND, &[], frames).await.unwrap();
        let status = Status::from_header_map(answer.headers()).unwrap();
        assert_eq!(why(&status).data["size"], (1_u64 << 30).to_string());
        most = most.max(server.rss());
    }
    assert!(most < before + 48 * MIB, "{} MiB more", (most - before) / MIB);
    assert_eq!(say(&mut api, &work, "on").await, 2);
}

/// A call that has sent a part of its message and waits.
struct Half {
    send: mpsc::Sender<Result<Frame<Bytes>, Status>>,
    rest: Bytes,
    answer: tokio::task::JoinHandle<http::Response<Body>>,
}

impl Half {
    async fn begin(channel: &tonic::transport::Channel, message: &pb::AppendMessageRequest) -> Self {
        let whole = framed(&message.encode_to_vec());
        let (send, receive) = mpsc::channel(1);
        let body = Body::new(StreamBody::new(ReceiverStream::new(receive)));
        let channel = channel.clone();
        let answer = tokio::spawn(async move { raw_body(&channel, APPEND, &[], body).await.unwrap() });
        let half = whole.len() / 2;
        // Whoever is refused at once takes no more.
        let _ = send.send(Ok(Frame::data(whole.slice(..half)))).await;
        Self { send, rest: whole.slice(half..), answer }
    }

    async fn end(self) -> test_support::wire::Answer {
        let _ = self.send.send(Ok(Frame::data(self.rest))).await;
        drop(self.send);
        collect(self.answer.await.unwrap()).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_in_flight_are_bounded() {
    let keys = [("limits.message_bytes", "1MiB"), ("limits.bytes_in_flight", "4MiB")];
    let server = TestServer::start_configured(&keys).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let large = work.say(&"x".repeat(1_000_000));
    // Each on a connection of its own, so that only this limit is met. Eight halves leave no room for one more, once they
    // have come in; if it was there before one of them, all begin again.
    let crowd = || async {
        let mut waiting = Vec::new();
        for _ in 0..8 {
            waiting.push(Half::begin(&channel(&server.socket()).await, &large).await);
        }
        let more = Half::begin(&channel(&server.socket()).await, &large).await.end().await;
        if more.code != Code::Ok && waiting.iter().all(|half| !half.answer.is_finished()) {
            return Some((waiting, more.status));
        }
        for half in waiting {
            half.end().await;
        }
        None
    };
    let (waiting, status) = eventually(DEADLINE, crowd).await;
    let why = why(&status);
    assert_eq!((why.reason, why.data["what"].as_str()), (ErrorReason::Overloaded, "bytes in flight"));
    assert_eq!(why.data["limit"], (4 * MIB).to_string());
    // Small calls go on, and those that wait are not harmed.
    say(&mut api, &work, "small").await;
    for half in waiting {
        // Their other halves have to find room too.
        assert!(matches!(half.end().await.code, Code::Ok | Code::ResourceExhausted));
    }
    // What was given back can be had again.
    for _ in 0..10 {
        let path = "/contextstore.v1.ContextStore/AppendMessage";
        let frames = vec![framed(&large.encode_to_vec())];
        let answer = exchange(&channel(&server.socket()).await, path, &[], frames).await.unwrap();
        assert_eq!(answer.code, Code::Ok, "{:?}", answer.status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_gives_back_what_it_took() {
    let keys = [("limits.message_bytes", "1MiB"), ("limits.bytes_in_flight", "2MiB")];
    let server = TestServer::start_configured(&keys).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let large = work.say(&"x".repeat(1_000_000));
    for _ in 0..20 {
        let channel = channel(&server.socket()).await;
        let half = Half::begin(&channel, &large).await;
        half.answer.abort();
    }
    let fits = || async { api.clone().append_message(large.clone()).await.ok() };
    assert_eq!(eventually(DEADLINE, fits).await.into_inner().seq, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_request_is_refused_cleanly() {
    let server = TestServer::start().await;
    let channel = channel(&server.socket()).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    // What gzip makes of anything: it is not looked at.
    let mut frame = vec![1];
    let zipped = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    frame.extend((zipped.len() as u32).to_be_bytes());
    frame.extend(zipped);
    for encoding in ["gzip", "deflate", "zstd", "xyzzy"] {
        let answer =
            exchange(&channel, APPEND, &[("grpc-encoding", encoding)], vec![frame.clone().into()]).await;
        let answer = answer.unwrap();
        assert_eq!((answer.code, answer.messages.len()), (Code::Unimplemented, 0), "{:?}", answer.status);
        assert!(answer.status.message().contains(encoding), "{:?}", answer.status);
    }
    // One that could take a compressed answer gets it as it is.
    let get = framed(&work.get().encode_to_vec());
    let path = "/contextstore.v1.ContextStore/GetTask";
    let answer =
        exchange(&channel, path, &[("grpc-accept-encoding", "gzip,identity")], vec![get]).await.unwrap();
    assert_eq!((answer.code, answer.messages.len()), (Code::Ok, 1));
    assert_eq!(say(&mut api, &work, "on").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_without_measure_harm_nobody_else() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    for size in [20_000, 1 << 20] {
        let value = "x".repeat(size);
        let channel = channel(&server.socket()).await;
        let get = framed(&work.get().encode_to_vec());
        let path = "/contextstore.v1.ContextStore/GetTask";
        let answer = exchange(&channel, path, &[("x-large", &value)], vec![get]).await;
        assert!(answer.is_err() || answer.unwrap().code != Code::Ok, "{size} bytes of headers were taken");
    }
    assert_eq!(say(&mut api, &work, "on").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_small_on_the_wire_and_large_in_memory_are_refused_at_once() {
    let server = TestServer::start().await;
    let channel = channel(&server.socket()).await;
    let before = server.rss();
    // Field 2, an empty message; field 2, a message with field 1, the fields with field 5, an empty call.
    let messages = [0x12, 0].repeat(6 << 20);
    let inside = |key: u8, bytes: Vec<u8>| {
        let mut all = vec![key];
        prost::encoding::encode_varint(bytes.len() as u64, &mut all);
        all.extend(bytes);
        all
    };
    let nested = inside(0x12, inside(0x0a, [0x2a, 0].repeat(6 << 20)));
    for (method, bytes, field) in [
        ("AppendMessages", &messages, "messages"),
        ("AppendMessages", &nested, "messages.fields.tool_calls"),
        ("AppendMessage", &nested, "message.fields.tool_calls"),
    ] {
        let path = format!("/contextstore.v1.ContextStore/{method}");
        let answer = exchange(&channel, &path, &[], vec![framed(bytes)]).await;
        let why = why(&answer.unwrap().status);
        assert_eq!((why.reason, why.fields), (ErrorReason::InvalidField, vec![field.to_owned()]));
        assert!(why.words.contains("has more than"), "{}", why.words);
    }
    // Decoded, they would take gigabytes; what was read takes what it has on the wire.
    let more = server.rss().saturating_sub(before);
    assert!(more < 128 * MIB, "{more} bytes more");
}
