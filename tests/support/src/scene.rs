//! A conversation that is to be compressed: a server with one task, what is said in it, and what its view is made of.

use std::fs;

use contextstore_proto::v1 as pb;
use pb::begin_compaction_response::{Begun, Event as BegunEvent};
use pb::compress_response::{Event, Progress};
use serde_json::{Value, json};
use tonic::Status;

use crate::server::TestServer;
use crate::wire::{Api, Work, all, api, start_as, task, view};

/// A task, and the server it is on, unless that is somebody else's.
pub struct Scene<S = TestServer> {
    pub server: S,
    pub api: Api,
    pub work: Work,
}

/// How a task is compressed if nothing else is said: when it is asked for, and counted by length alone. Outputs stay as they
/// are until then.
pub fn by_hand(context_length: u64) -> pb::TaskConfig {
    let compression = pb::CompressionConfig { auto: Some(false), ..Default::default() };
    let outputs = pb::OutputsConfig { enabled: Some(false), ..Default::default() };
    pb::TaskConfig {
        outputs: Some(outputs),
        context_length: Some(context_length),
        token_counter: pb::TokenCounter::Heuristic.into(),
        compression: Some(compression),
        ..Default::default()
    }
}

/// What somebody says at some point: about 40 tokens, no two the same.
pub fn words(number: u64) -> String {
    let file = format!("src/part{number}.rs");
    format!(
        "Step {number}: please look at {file}, which must not exceed {} lines; then run `make part{number}` and \
         tell me what is left of it, so that we can go on with the next one.",
        number * 10
    )
}

pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// An assistant that calls tools, by the ids of the calls.
pub fn calls(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}});
    json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

pub fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

impl Scene {
    /// A task that takes so many tokens and is compressed by hand.
    pub async fn new(context_length: u64) -> Self {
        Self::with(TestServer::start().await, by_hand(context_length)).await
    }

    pub async fn with(server: TestServer, config: pb::TaskConfig) -> Self {
        let mut api = api(&server).await;
        let request = pb::StartTaskRequest { config: Some(config), ..Default::default() };
        let work = start_as(&mut api, request).await;
        Self { server, api, work }
    }

    /// Starts the server again after it was killed, and works on.
    pub async fn kill_and_restart(&mut self) {
        self.server.kill();
        self.server.restart().await;
        self.api = api(&self.server).await;
    }

    /// Files of the task that are only there while something is going on.
    pub fn work_files(&self) -> Vec<String> {
        let names = fs::read_dir(self.server.running(&self.work.uuid)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let passing = ["to_summarize", "unsummarized", "summary_request", "request"];
        let is_passing =
            |name: &String| passing.iter().any(|start| name.starts_with(start)) || name.ends_with(".next");
        let mut found: Vec<String> = names.filter(is_passing).collect();
        found.sort();
        found
    }
}

impl Scene<()> {
    /// A task of a server that is somebody else's.
    pub fn on(api: Api, work: Work) -> Self {
        Self { server: (), api, work }
    }
}

impl<S> Scene<S> {
    pub async fn append(&mut self, message: &Value) -> pb::AppendMessageResponse {
        self.api.append_message(self.work.json(message.to_string())).await.unwrap().into_inner()
    }

    pub async fn append_all(&mut self, messages: &[Value]) {
        for message in messages {
            self.append(message).await;
        }
    }

    /// A system prompt, and then users and assistants in turn, so many messages in all.
    pub async fn talk(&mut self, messages: u64) {
        self.append(&json!({"role": "system", "content": "Be brief."})).await;
        for number in 2..=messages {
            let text = words(number);
            let message = if number % 2 == 0 { user(&text) } else { assistant(&text) };
            self.append(&message).await;
        }
    }

    pub async fn pin(&mut self, seq: u64) {
        let request = pb::PinMessageRequest {
            task_uuid: self.work.uuid.clone(),
            seq,
            lease_generation: self.work.lease,
            ..Default::default()
        };
        self.api.pin_message(request).await.unwrap();
    }

    /// Gives the task other settings.
    pub async fn update(&mut self, config: pb::TaskConfig) {
        let request = pb::UpdateTaskRequest {
            task_uuid: self.work.uuid.clone(),
            config: Some(config),
            lease_generation: self.work.lease,
            ..Default::default()
        };
        self.api.update_task(request).await.unwrap();
    }

    /// The lines of the view.
    pub async fn lines(&mut self) -> Vec<String> {
        let whole = view(&mut self.api, self.work.current()).await;
        whole.lines().map(str::to_owned).collect()
    }

    pub async fn task(&mut self) -> pb::Task {
        task(&mut self.api, &self.work).await
    }

    pub async fn pressure(&mut self) -> pb::Pressure {
        let request = pb::GetContextUsageRequest { task_uuid: self.work.uuid.clone(), ..Default::default() };
        self.api.get_context_usage(request).await.unwrap().into_inner().pressure.unwrap()
    }

    /// Lines of the log's messages.
    pub async fn log(&mut self) -> Vec<Value> {
        let request =
            pb::StreamMessagesRequest { kinds: vec![pb::RecordKind::Message.into()], ..self.work.messages() };
        let batches = all(self.api.stream_messages(request).await).await.unwrap();
        let records = batches.into_iter().flat_map(|batch| batch.records);
        records.map(|line| serde_json::from_slice(&line).unwrap()).collect()
    }

    /// A call of Compress.
    pub fn ask(&self, strategy: &str) -> pb::CompressRequest {
        pb::CompressRequest {
            task_uuid: self.work.uuid.clone(),
            strategy: self::strategy(strategy),
            lease_generation: self.work.lease,
            ..Default::default()
        }
    }

    /// The same with how many messages stay.
    pub fn ask_keeping(&self, strategy: &str, recent: u32) -> pb::CompressRequest {
        let overrides = pb::CompressionConfig { keep_recent_messages: Some(recent), ..Default::default() };
        pb::CompressRequest { overrides: Some(overrides), ..self.ask(strategy) }
    }

    /// Compresses, and answers what it did and how far it was told to be.
    pub async fn compress(
        &mut self,
        request: pb::CompressRequest,
    ) -> Result<(pb::CompressDone, Vec<Progress>), Status> {
        compress(&mut self.api, request).await
    }

    /// The same of a call that must do something.
    pub async fn compressed(&mut self, request: pb::CompressRequest) -> pb::CompressDone {
        let (done, _) = self.compress(request).await.unwrap();
        assert!(done.compressed, "{done:?}");
        done
    }

    pub async fn undo(&mut self) -> Result<pb::UndoCompactionResponse, Status> {
        let request = pb::UndoCompactionRequest {
            task_uuid: self.work.uuid.clone(),
            lease_generation: self.work.lease,
            ..Default::default()
        };
        self.api.undo_compaction(request).await.map(tonic::Response::into_inner)
    }

    /// A call of BeginCompaction.
    pub fn agent(&self, strategy: &str) -> pb::BeginCompactionRequest {
        pb::BeginCompactionRequest {
            task_uuid: self.work.uuid.clone(),
            strategy: self::strategy(strategy),
            lease_generation: self.work.lease,
            ..Default::default()
        }
    }

    /// Asks for what to summarise: what has to be known, and the messages.
    pub async fn begin(
        &mut self,
        request: pb::BeginCompactionRequest,
    ) -> Result<(Begun, Vec<Value>), Status> {
        let (mut begun, mut data) = (None, Vec::new());
        for response in all(self.api.begin_compaction(request).await).await? {
            match response.event.unwrap() {
                BegunEvent::Begun(told) => assert!(begun.replace(told).is_none()),
                BegunEvent::Data(bytes) => data.extend_from_slice(&bytes),
            }
        }
        let text = String::from_utf8(data).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Ok((begun.unwrap(), lines))
    }

    /// A call of CommitCompaction.
    pub fn commit(&self, token: &str, summary: &str) -> pb::CommitCompactionRequest {
        pb::CommitCompactionRequest {
            task_uuid: self.work.uuid.clone(),
            token: token.to_owned(),
            summary: summary.to_owned(),
            lease_generation: self.work.lease,
            ..Default::default()
        }
    }

    pub async fn committed(&mut self, request: pb::CommitCompactionRequest) -> pb::CompressDone {
        self.api.commit_compaction(request).await.unwrap().into_inner().done.unwrap()
    }

    pub fn abort(&self, token: &str) -> pb::AbortCompactionRequest {
        pb::AbortCompactionRequest {
            task_uuid: self.work.uuid.clone(),
            token: token.to_owned(),
            lease_generation: self.work.lease,
        }
    }
}

/// Compresses, and answers what it did and how far it was told to be.
pub async fn compress(
    api: &mut Api,
    request: pb::CompressRequest,
) -> Result<(pb::CompressDone, Vec<Progress>), Status> {
    let (mut done, mut steps) = (None, Vec::new());
    for response in all(api.compress(request).await).await? {
        assert!(done.is_none(), "something follows the end");
        match response.event.unwrap() {
            Event::Progress(step) => steps.push(step),
            Event::Done(told) => done = Some(told),
        }
    }
    Ok((done.unwrap(), steps))
}

/// The text of a line of the view.
pub fn content(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap();
    line["content"].as_str().unwrap_or_default().to_owned()
}

/// Who wrote the summary of a compression, by a short name: `extractive`, `agent`, or the provider of the LLM.
pub fn summarizer(done: &pb::CompressDone) -> &'static str {
    match done.summary_author() {
        pb::SummaryAuthor::Llm => done.provider().name(),
        author @ (pb::SummaryAuthor::Unspecified
        | pb::SummaryAuthor::Extractive
        | pb::SummaryAuthor::Agent) => author.name(),
    }
}

/// A strategy by its short name; empty: unspecified.
pub fn strategy(name: &str) -> i32 {
    if name.is_empty() { 0 } else { pb::CompressionStrategy::from_name(name).unwrap().into() }
}
