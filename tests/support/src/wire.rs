//! The generated client on a channel of its own, and refusals, each checked against `error_reason.proto`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use contextstore_proto::v1::context_store_client::ContextStoreClient;
use contextstore_proto::v1::new_message::Body as MessageBody;
use http_body::Frame;
use http_body_util::BodyExt;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status, Streaming};
use tonic_types::StatusExt;
use tower::{Service, ServiceExt};

use crate::server::{DEADLINE, TestServer, eventually};

/// Calls by their generated names.
pub type Api = ContextStoreClient<Channel>;

const REASONS: &str = include_str!("../../../proto/contextstore/v1/error_reason.proto");

/// A connection of its own to a server's socket.
pub async fn channel(socket: &Path) -> Channel {
    endpoint(socket).connect().await.unwrap()
}

/// The same, to be made as one likes.
pub fn endpoint(socket: &Path) -> Endpoint {
    Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap()
}

/// Calls on a connection of their own.
pub async fn api(server: &TestServer) -> Api {
    Api::new(channel(&server.socket()).await).max_decoding_message_size(usize::MAX)
}

/// Waits until the lease of a task is renewed when it would be over without any renewal from now on.
pub async fn outlived(api: &Api, work: &Work) {
    let micros = |time: Option<prost_types::Timestamp>| {
        let time = time.unwrap();
        time.seconds * 1_000_000 + i64::from(time.nanos) / 1000
    };
    let end = micros(task(&mut api.clone(), work).await.lease.unwrap().expire_time);
    eventually(DEADLINE, || async {
        let lease = task(&mut api.clone(), work).await.lease.unwrap();
        (micros(lease.renew_time) > end).then_some(())
    })
    .await;
}

/// Calls on a connection that takes little in advance.
pub async fn narrow(server: &TestServer) -> Api {
    Api::new(narrow_channel(server).await)
}

/// The same, for calls of any form. The connection itself is wide: of one that is not, HTTP/2 libraries take
/// many small answers for an attack.
pub async fn narrow_channel(server: &TestServer) -> Channel {
    let endpoint = endpoint(&server.socket());
    let narrow = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(64 << 20);
    narrow.connect().await.unwrap()
}

/// A message with its length in front.
pub fn framed(message: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    frame.into()
}

/// The body of a request, frame by frame as it is to go over the wire.
struct Frames(VecDeque<Bytes>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.pop_front().map(|frame| Ok(Frame::data(frame))))
    }
}

/// Makes a call with any path, headers and bytes.
pub async fn raw(
    channel: &Channel,
    path: &str,
    headers: &[(&str, &str)],
    frames: Vec<Bytes>,
) -> Result<http::Response<Body>, String> {
    raw_body(channel, path, headers, Body::new(Frames(frames.into()))).await
}

/// The same with a body that comes as it likes.
pub async fn raw_body(
    channel: &Channel,
    path: &str,
    headers: &[(&str, &str)],
    body: Body,
) -> Result<http::Response<Body>, String> {
    let mut request = http::Request::post(path).header("te", "trailers");
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/grpc");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body).map_err(|error| error.to_string())?;
    let mut channel = channel.clone();
    let ready = channel.ready().await.map_err(|error| format!("{error:?}"))?;
    ready.call(request).await.map_err(|error| format!("{error:?}"))
}

/// All that a call answered.
#[derive(Debug)]
pub struct Answer {
    pub http: u16,
    pub code: Code,
    pub status: Status,
    pub messages: Vec<Bytes>,
}

/// Reads an answer to its end.
pub async fn collect(response: http::Response<Body>) -> Result<Answer, String> {
    let http = response.status().as_u16();
    let early = Status::from_header_map(response.headers());
    let body = response.into_body().collect().await.map_err(|error| format!("{error:?}"))?;
    let late = body.trailers().and_then(Status::from_header_map);
    let status = early.or(late).ok_or_else(|| format!("HTTP {http} without a gRPC status"))?;
    let mut bytes = body.to_bytes();
    let mut messages = Vec::new();
    while bytes.len() >= 5 {
        let len = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize;
        messages.push(bytes.slice(5..5 + len));
        bytes = bytes.slice(5 + len..);
    }
    Ok(Answer { http, code: status.code(), status, messages })
}

/// Makes a call with any path, headers and bytes, and reads its answer.
pub async fn exchange(
    channel: &Channel,
    path: &str,
    headers: &[(&str, &str)],
    frames: Vec<Bytes>,
) -> Result<Answer, String> {
    collect(raw(channel, path, headers, frames).await?).await
}

/// A task that somebody works on.
#[derive(Debug, Clone)]
pub struct Work {
    pub uuid: String,
    pub lease: u64,
}

/// Somebody who works on tasks.
pub fn holder(instance_id: &str) -> Option<pb::Holder> {
    Some(pb::Holder { instance_id: instance_id.to_owned(), process_id: 7, hostname: "here".to_owned() })
}

/// Starts a task for the instance `a`.
pub async fn start(api: &mut Api) -> Work {
    start_as(api, pb::StartTaskRequest::default()).await
}

/// Starts a task as it is asked for; without a holder, for the instance `a`.
pub async fn start_as(api: &mut Api, request: pb::StartTaskRequest) -> Work {
    let holder = request.holder.clone().or_else(|| holder("a"));
    let started = api.start_task(pb::StartTaskRequest { holder, ..request }).await.unwrap().into_inner();
    Work { uuid: started.task.unwrap().uuid, lease: started.lease_generation }
}

/// A whole OpenAI message to append.
pub fn new_json(message: impl Into<String>) -> pb::NewMessage {
    pb::NewMessage { body: Some(MessageBody::Json(message.into())), ..Default::default() }
}

/// A message to append by its fields.
pub fn new_fields(fields: pb::Message) -> pb::NewMessage {
    pb::NewMessage { body: Some(MessageBody::Fields(fields)), ..Default::default() }
}

impl Work {
    /// A task that need not be there.
    pub fn nobody(uuid: &str) -> Self {
        Self { uuid: uuid.to_owned(), lease: 0 }
    }

    /// Appends a whole OpenAI message.
    pub fn json(&self, message: impl Into<String>) -> pb::AppendMessageRequest {
        pb::AppendMessageRequest {
            task_uuid: self.uuid.clone(),
            message: Some(new_json(message)),
            lease_generation: self.lease,
        }
    }

    /// Appends a message by its fields.
    pub fn fields(&self, fields: pb::Message) -> pb::AppendMessageRequest {
        pb::AppendMessageRequest { message: Some(new_fields(fields)), ..self.json("") }
    }

    /// Appends what a user says.
    pub fn say(&self, text: &str) -> pb::AppendMessageRequest {
        self.json(serde_json::json!({"role": "user", "content": text}).to_string())
    }

    /// Asks for the task.
    pub fn get(&self) -> pb::GetTaskRequest {
        pb::GetTaskRequest { task_uuid: self.uuid.clone() }
    }

    /// Asks for its view.
    pub fn current(&self) -> pb::StreamCurrentRequest {
        pb::StreamCurrentRequest { task_uuid: self.uuid.clone(), ..Default::default() }
    }

    /// Asks for the body of a request.
    pub fn request(&self, provider: &str) -> pb::RenderContextRequest {
        let provider = pb::Provider::from_name(provider).unwrap_or_default().into();
        let task_uuid = self.uuid.clone();
        pb::RenderContextRequest { task_uuid, provider, model: "m".to_owned(), ..Default::default() }
    }

    /// Asks for its history.
    pub fn messages(&self) -> pb::StreamMessagesRequest {
        pb::StreamMessagesRequest { task_uuid: self.uuid.clone(), ..Default::default() }
    }

    /// Asks for what happens to it.
    pub fn watch(&self, resume_token: &str) -> pb::WatchTaskRequest {
        pb::WatchTaskRequest { task_uuid: self.uuid.clone(), resume_token: resume_token.to_owned() }
    }

    /// Asks to take its view back.
    pub fn rewind(&self, seq: u64) -> pb::RewindTaskRequest {
        pb::RewindTaskRequest {
            task_uuid: self.uuid.clone(),
            seq,
            lease_generation: self.lease,
            ..Default::default()
        }
    }
}

/// Appends a text; answers its number.
pub async fn say(api: &mut Api, work: &Work, text: &str) -> u64 {
    api.append_message(work.say(text)).await.unwrap().into_inner().seq
}

/// The task as it is now.
pub async fn task(api: &mut Api, work: &Work) -> pb::Task {
    api.get_task(work.get()).await.unwrap().into_inner().task.unwrap()
}

/// The whole view.
pub async fn view(api: &mut Api, request: pb::StreamCurrentRequest) -> String {
    let chunks = all(api.stream_current(request).await).await.unwrap();
    String::from_utf8(chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect()).unwrap()
}

/// All of a stream, or what ended it.
pub async fn all<T>(answer: Result<Response<Streaming<T>>, Status>) -> Result<Vec<T>, Status> {
    let mut stream = answer?.into_inner();
    let mut found = Vec::new();
    while let Some(one) = stream.message().await? {
        found.push(one);
    }
    Ok(found)
}

/// What a refusal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    pub reason: ErrorReason,
    pub words: String,
    pub data: BTreeMap<String, String>,
    /// The fields that it names.
    pub fields: Vec<String>,
    pub pause: Option<Duration>,
}

/// Takes a refusal apart. Code and retry must be what the reason's comment says, and nothing may be missing.
pub fn why(status: &Status) -> Why {
    let details = status.get_error_details();
    let Some(info) = details.error_info() else { panic!("it has no ErrorInfo: {status:?}") };
    assert_eq!(info.domain, "contextstore");
    let reason = ErrorReason::from_str_name(&info.reason)
        .unwrap_or_else(|| panic!("{} is no reason of the protocol", info.reason));
    let (code, retry) = documented(reason);
    assert_eq!(status.code(), code, "{status:?}");
    let pause = details.retry_info().and_then(|retry| retry.retry_delay);
    // A server that has just started tells callers with another token to read it again.
    if reason != ErrorReason::Unauthenticated {
        assert_eq!(pause.is_some(), retry, "{status:?}: a retry should be told {retry}");
    }
    assert!(pause.is_none_or(|pause| !pause.is_zero()), "{status:?}");
    assert!(status.message().contains(' '), "{status:?} has no words");
    let violations = details.bad_request().map(|bad| bad.field_violations.clone()).unwrap_or_default();
    let fields: Vec<String> = violations.iter().map(|violation| violation.field.clone()).collect();
    if reason == ErrorReason::InvalidField {
        assert_eq!(fields.first(), info.metadata.get("field"), "{status:?}");
        assert_eq!(fields.len(), 1, "{status:?}");
    } else {
        assert!(fields.is_empty() || reason == ErrorReason::Malformed, "{status:?}");
    }
    assert!(violations.iter().all(|violation| !violation.description.is_empty()), "{status:?}");
    let data = info.metadata.clone().into_iter().collect();
    Why { reason, words: status.message().to_owned(), data, fields, pause }
}

/// The same of a call that must have been refused.
pub fn refused<T: Debug>(answer: Result<T, Status>) -> Why {
    why(&answer.unwrap_err())
}

/// The reason of a call that must have been refused.
pub fn reason<T: Debug>(answer: Result<T, Status>) -> ErrorReason {
    refused(answer).reason
}

/// The code of a reason, and whether a retry helps, as its comment says.
pub fn documented(reason: ErrorReason) -> (Code, bool) {
    let (before, _) = REASONS.split_once(&format!("  {} = ", reason.as_str_name())).unwrap();
    let comment = before.rsplit("\n\n").next().unwrap();
    let word = |start: &str| {
        let (_, rest) = comment.split_once(start).unwrap();
        rest.split(['.', ';', '\n']).next().unwrap().to_owned()
    };
    let code = word("Code: ");
    let code = (0..=16).map(Code::from).find(|known| name_of(*known) == code).unwrap();
    (code, word("Retry: ") == "yes")
}

/// `NotFound` → `NOT_FOUND`
fn name_of(code: Code) -> String {
    let mut name = String::new();
    for c in format!("{code:?}").chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

/// Every file below a directory with its bytes.
pub fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(path);
            } else {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Changes to the message of an append.
pub trait Appending {
    /// Gives the append a name.
    fn named(self, request_id: impl Into<String>) -> Self;

    /// Pins the message.
    fn pinned(self) -> Self;

    /// Names the output that the message shows a part of.
    fn output_ref(self, output_ref: impl Into<String>) -> Self;
}

impl Appending for pb::NewMessage {
    fn named(self, request_id: impl Into<String>) -> Self {
        Self { request_id: request_id.into(), ..self }
    }

    fn pinned(self) -> Self {
        Self { pinned: true, ..self }
    }

    fn output_ref(self, output_ref: impl Into<String>) -> Self {
        Self { output_ref: output_ref.into(), ..self }
    }
}

impl Appending for pb::AppendMessageRequest {
    fn named(self, request_id: impl Into<String>) -> Self {
        Self { message: self.message.map(|message| message.named(request_id)), ..self }
    }

    fn pinned(self) -> Self {
        Self { message: self.message.map(Appending::pinned), ..self }
    }

    fn output_ref(self, output_ref: impl Into<String>) -> Self {
        Self { message: self.message.map(|message| message.output_ref(output_ref)), ..self }
    }
}

/// What a new task inherits: `AUTO`, `NEVER`, or the id of a task.
pub fn inherit(word: &str) -> Option<pb::start_task_request::Inherit> {
    use pb::start_task_request::Inherit;
    match pb::InheritMode::from_name(&word.to_lowercase()) {
        Some(mode) => Some(Inherit::InheritMode(mode.into())),
        None => Some(Inherit::InheritFrom(word.to_owned())),
    }
}

/// What AppendMessages takes.
pub fn piped(request: pb::AppendMessageRequest) -> pb::AppendMessagesRequest {
    let pb::AppendMessageRequest { task_uuid, message, lease_generation } = request;
    pb::AppendMessagesRequest { task_uuid, messages: message.into_iter().collect(), lease_generation }
}
