//! Values that a server refuses or repairs, and servers of other versions, as the Rust client sees them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use contextstore_client::tonic::body::Body;
use contextstore_client::tonic::server::NamedService;
use contextstore_client::{ChatEvent, Client, Error, ErrorReason, NewMessage, StartTask, Task, v1};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tower::Service;

use test_support::server::TestServer;

const TASK: &str = "018f6b2e-5c1a-7d3e-9a41-000000000001";

async fn start(client: &Client) -> Task {
    client.start_task(StartTask::default()).await.unwrap()
}

// feature: too-large
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_refused_alike_whatever_its_size() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    for mebibytes in [17, 40] {
        let large = || NewMessage::user("x".repeat(mebibytes << 20));
        let refused = |error: &Error| {
            assert_eq!(error.reason(), Some(ErrorReason::TooLarge), "{mebibytes} MiB: {error}");
            assert_eq!(error.metadata("limit"), Some("16777216"), "{mebibytes} MiB");
            assert!(
                error.to_string().contains("bytes; at most 16777216 are allowed (limits.message_bytes)"),
                "{error}"
            );
        };
        let now = task.append(large()).await.unwrap_err();
        let later = task.append_later(large()).await.unwrap_err();
        for error in [&now, &later] {
            refused(error);
            assert_eq!(error.not_appended().len(), 1);
        }
        let before = task.get().await.unwrap().task.unwrap().last_seq;
        let messages = [NewMessage::user("before"), large(), NewMessage::user("behind")];
        let mut added = task.append_many(stream::iter(messages)).await.unwrap();
        assert_eq!(added.try_next().await.unwrap().unwrap().seq, before + 1);
        let many = added.try_next().await.unwrap_err();
        refused(&many);
        assert_eq!((many.index(), many.not_appended().len()), (Some(1), 1));
        refused(&task.append_plan("plan", format!("\"{}\"", "x".repeat(mebibytes << 20))).await.unwrap_err());
        // The client works on.
        assert_eq!(task.append(NewMessage::user("next")).await.unwrap().seq, before + 2);
    }
}

// feature: nan-refused
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_number_is_refused_by_its_field() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    for number in ["NaN", "Infinity", "-Infinity"] {
        let message = format!(r#"{{"role":"user","content":"hi","score":{number}}}"#);
        let refused = task.append(NewMessage::json(message)).await.unwrap_err();
        assert_eq!(refused.reason(), Some(ErrorReason::InvalidField), "{number}: {refused}");
        assert_eq!(refused.fields()[0].field, "message.json", "{refused}");
        let refused = task.append_plan("plan", number).await.unwrap_err();
        assert_eq!(refused.fields()[0].field, "plan_content_json", "{refused}");
    }
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let compression = v1::CompressionConfig { threshold: Some(number), ..Default::default() };
        let config = v1::TaskConfig { compression: Some(compression), ..Default::default() };
        let refused = task.update(config).await.unwrap_err();
        assert_eq!(refused.reason(), Some(ErrorReason::InvalidField), "{number}: {refused}");
        assert!(refused.fields()[0].field.ends_with("threshold"), "{:?}", refused.fields());
    }
    assert_eq!(task.get().await.unwrap().task.unwrap().last_seq, 0);
}

// feature: lone-surrogates
#[tokio::test(flavor = "multi_thread")]
async fn half_a_character_becomes_a_replacement() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    task.append(NewMessage::json(r#"{"role":"user","content":"a\ud800b"}"#)).await.unwrap();
    let lines = task.current(Default::default()).await.unwrap().lines();
    let lines: Vec<Bytes> = lines.try_collect().await.unwrap();
    let line: serde_json::Value = serde_json::from_slice(&lines[0]).unwrap();
    assert_eq!(line["content"], "a\u{fffd}b");
}

/// A server of another version: it says which, appends nothing, and answers what a test wants.
#[derive(Clone)]
struct Other {
    version: &'static str,
    answer: fn(&str) -> Option<Response<Body>>,
}

impl NamedService for Other {
    const NAME: &'static str = "contextstore.v1.ContextStore";
}

impl Service<Request<Body>> for Other {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { version, answer } = *self;
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
            let info = || {
                let mut info =
                    v1::GetServerInfoResponse { version: version.to_owned(), ..Default::default() }
                        .encode_to_vec();
                // A field that only a newer client knows: number 999, a text.
                prost::encoding::string::encode(999, &"telepathy".to_owned(), &mut info);
                messages(&[info])
            };
            let known = if method == "GetServerInfo" { Some(info()) } else { answer(&method) };
            Ok(known.unwrap_or_else(|| refusal("12", HeaderMap::new())))
        })
    }
}

fn messages(messages: &[Vec<u8>]) -> Response<Body> {
    let mut framed = BytesMut::new();
    for message in messages {
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.len()).unwrap());
        framed.put_slice(message);
    }
    let trailers = async {
        Some(Ok(HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))])))
    };
    let body = Full::new(framed.freeze()).with_trailers(trailers);
    let mut answer = Response::new(Body::new(body));
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    answer
}

fn refusal(code: &'static str, headers: HeaderMap) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.headers_mut() = headers;
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    answer.headers_mut().insert("grpc-status", HeaderValue::from_static(code));
    answer
}

/// A client of a server of another version. The server goes with the folder.
async fn client_of(other: Other) -> (tempfile::TempDir, Client) {
    let root = tempfile::tempdir().unwrap();
    let socket = root.path().join("s");
    let listener = UnixListenerStream::new(UnixListener::bind(&socket).unwrap());
    tokio::spawn(tonic::transport::Server::builder().add_service(other).serve_with_incoming(listener));
    let client = Client::builder().socket(socket).connect().await.unwrap();
    (root, client)
}

// feature: older-server
#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_the_server_does_not_have_is_named() {
    let (_root, client) = client_of(Other { version: "0.0.9", answer: |_| None }).await;
    let task = client.task(TASK);
    let unsupported = |error: Error, wanted: &str| {
        let Error::UnsupportedByServer { method, server_version } = &error else { panic!("{error:?}") };
        assert_eq!((method.as_str(), server_version.as_str()), (wanted, "0.0.9"));
        assert!(
            error.to_string().contains("it is contextstore 0.0.9")
                && error.to_string().ends_with("upgrade the server")
        );
        assert!(!error.is_transient());
    };
    unsupported(task.pin(1).await.unwrap_err(), "contextstore.v1.ContextStore/PinMessage");
    unsupported(
        task.compress(Default::default()).await.unwrap_err(),
        "contextstore.v1.ContextStore/Compress",
    );
    unsupported(
        task.messages(Default::default()).try_next().await.unwrap_err(),
        "contextstore.v1.ContextStore/StreamMessages",
    );
    unsupported(task.watch("").try_next().await.unwrap_err(), "contextstore.v1.ContextStore/WatchTask");
    task.append_later(NewMessage::user("hi")).await.unwrap();
    let failed = task.flush().await.unwrap_err();
    assert_eq!(failed.not_appended().len(), 1);
    unsupported(failed.cause().clone(), "contextstore.v1.ContextStore/AppendMessages");
    // A whole service that it does not have.
    let refused = task.outputs().put(Default::default(), "x").await.unwrap_err();
    unsupported(refused, "contextstore.v1.ToolOutputs/PutToolOutput");
}

fn newer(method: &str) -> Option<Response<Body>> {
    match method {
        "PinMessage" => {
            let metadata = std::collections::HashMap::from([("colour".to_owned(), "blue".to_owned())]);
            let details =
                tonic_types::ErrorDetails::with_error_info("ERROR_REASON_TOO_BLUE", "contextstore", metadata);
            let status = <tonic::Status as tonic_types::StatusExt>::with_error_details(
                tonic::Code::FailedPrecondition,
                "it is too blue",
                details,
            );
            Some(status.into_http())
        }
        "Chat" => {
            // An event that only a newer client knows, and then one that this one knows.
            let mut unknown = Vec::new();
            prost::encoding::string::encode(99, &"hum".to_owned(), &mut unknown);
            let text = v1::ChatResponse { event: Some(ChatEvent::Text("hi".to_owned())) }.encode_to_vec();
            Some(messages(&[unknown, text]))
        }
        "WatchTask" => {
            let mut unknown = Vec::new();
            prost::encoding::string::encode(99, &"hum".to_owned(), &mut unknown);
            Some(messages(&[unknown]))
        }
        _ => None,
    }
}

// feature: newer-server
#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_newer_server_knows_breaks_nothing() {
    let (_root, client) = client_of(Other { version: "9.0.0", answer: newer }).await;
    assert_eq!(client.server_info().await.unwrap().version, "9.0.0");
    let task = client.task(TASK);
    let refused = task.pin(1).await.unwrap_err();
    assert_eq!((refused.code(), refused.reason()), (tonic::Code::FailedPrecondition, None));
    assert_eq!((refused.to_string().as_str(), refused.metadata("colour")), ("it is too blue", Some("blue")));
    assert_eq!(refused.refusal().unwrap().reason_name, "ERROR_REASON_TOO_BLUE");
    let events: Vec<_> = task.chat(Default::default()).collect().await;
    assert!(matches!(&events[..], [Ok(ChatEvent::Text(text))] if text == "hi"), "{events:?}");
    assert!(task.watch("").try_next().await.unwrap().unwrap().event.is_none());
}
