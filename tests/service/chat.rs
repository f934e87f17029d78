//! Chat against the strict fake of every provider, over real HTTP: what is said, what goes wrong, and what stays.

mod cut;
mod errors;
mod overflow;
mod repeat;
mod secrets;
mod secure;
mod talk;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use contextstore_proto::v1 as pb;
use pb::chat_response::Event;
use serde_json::{Value, json};
use tonic::{Status, Streaming};

use test_support::fake_llm::FakeLlm;
use test_support::server::TestServer;
use test_support::wire::{Api, Work, all, api, start};

pub(crate) const PROVIDERS: [&str; 5] = ["openai", "openai_responses", "anthropic", "ollama", "lmstudio"];
pub(crate) const KEY: &str = "sk-test-6f1c2a9e";

/// A tool, in the form of OpenAI's chat completions.
pub(crate) const TOOLS: &str = r#"[{"type":"function","function":{"name":"read","description":"Reads a file","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}]"#;

/// A server whose providers are all the fake, and a task.
pub(crate) struct Scene {
    pub(crate) fake: FakeLlm,
    pub(crate) server: TestServer,
    pub(crate) api: Api,
    pub(crate) work: Work,
    keys: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn new(more: &[(&str, &str)]) -> Self {
        Self::with_fake(FakeLlm::start_with(&["--key", KEY]), more).await
    }

    pub(crate) async fn with_fake(fake: FakeLlm, more: &[(&str, &str)]) -> Self {
        let keys = tempfile::tempdir().unwrap();
        let key = keys.path().join("key");
        fs::write(&key, format!("{KEY}\n")).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let mut settings = Vec::new();
        for provider in PROVIDERS {
            let version = match provider {
                "anthropic" | "ollama" => "",
                "lmstudio" => "/lmstudio/v1",
                _ => "/v1",
            };
            let of = |name: &str| format!("llm.providers.{provider}.{name}");
            settings.push((of("base_url"), format!("{}{version}", fake.url())));
            settings.push((of("api_key_file"), key.display().to_string()));
            settings.push((of("model"), "fake".to_owned()));
        }
        let settings: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let server = TestServer::start_configured(&[&settings, more].concat()).await;
        let mut api = api(&server).await;
        let work = start(&mut api).await;
        Self { fake, server, api, work, keys }
    }

    /// The file that holds the key.
    pub(crate) fn key_file(&self) -> PathBuf {
        self.keys.path().join("key")
    }

    /// A call that asks a provider after a user has said something.
    pub(crate) fn ask(&self, provider: &str, text: &str) -> pb::ChatRequest {
        let messages = if text.is_empty() { vec![] } else { vec![json!({"role": "user", "content": text})] };
        self.ask_with(provider, &messages)
    }

    pub(crate) fn ask_with(&self, provider: &str, messages: &[Value]) -> pb::ChatRequest {
        let new = |message: &Value| pb::NewMessage {
            body: Some(pb::new_message::Body::Json(message.to_string())),
            ..Default::default()
        };
        pb::ChatRequest {
            task_uuid: self.work.uuid.clone(),
            messages: messages.iter().map(new).collect(),
            provider: pb::Provider::from_name(provider).unwrap_or_default().into(),
            lease_generation: self.work.lease,
            ..Default::default()
        }
    }

    pub(crate) async fn chat(&mut self, request: pb::ChatRequest) -> Heard {
        match self.api.chat(request).await {
            Ok(answer) => Heard::listen(answer.into_inner()).await,
            Err(status) => Heard { error: Some(status), ..Heard::default() },
        }
    }

    /// The messages in the log.
    pub(crate) async fn log(&mut self) -> Vec<Value> {
        let request =
            pb::StreamMessagesRequest { kinds: vec![pb::RecordKind::Message.into()], ..self.work.messages() };
        let batches = all(self.api.stream_messages(request).await).await.unwrap();
        let lines = batches.into_iter().flat_map(|batch| batch.records);
        lines.map(|line| serde_json::from_slice(&line).unwrap()).collect()
    }

    /// Names of files that are only there while a request is being sent.
    pub(crate) fn request_files(&self) -> Vec<String> {
        let names = fs::read_dir(self.server.running(&self.work.uuid)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("request")).collect()
    }

    /// What the fake thought of the requests since it was last told to forget.
    pub(crate) fn verdicts(&self) -> Vec<String> {
        self.fake.requests().iter().map(|request| request["verdict"].as_str().unwrap().to_owned()).collect()
    }
}

/// What a call was told.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) started: Option<pb::ChatStarted>,
    pub(crate) text: String,
    pub(crate) pieces: usize,
    pub(crate) reasoning: String,
    /// Id, name, arguments.
    pub(crate) calls: Vec<(String, String, String)>,
    pub(crate) usage: Option<pb::ChatUsage>,
    pub(crate) done: Option<pb::ChatDone>,
    pub(crate) error: Option<Status>,
}

impl Heard {
    pub(crate) async fn listen(mut stream: Streaming<pb::ChatResponse>) -> Self {
        let mut heard = Self::default();
        loop {
            match stream.message().await {
                Ok(Some(piece)) => heard.take(piece),
                Ok(None) => return heard,
                Err(status) => {
                    heard.error = Some(status);
                    return heard;
                }
            }
        }
    }

    pub(crate) fn take(&mut self, piece: pb::ChatResponse) {
        assert!(self.done.is_none(), "something follows the end");
        match piece.event.unwrap() {
            Event::Started(started) => self.started = Some(started),
            Event::Text(text) => {
                self.pieces += 1;
                self.text.push_str(&text);
            }
            Event::Reasoning(text) => self.reasoning.push_str(&text),
            Event::ToolCall(piece) => {
                let at = piece.index as usize;
                if at == self.calls.len() {
                    self.calls.push(Default::default());
                }
                self.calls[at].0.push_str(&piece.id);
                self.calls[at].1.push_str(&piece.name);
                self.calls[at].2.push_str(&piece.arguments);
            }
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Done(done) => self.done = Some(done),
        }
    }

    /// The end of an answer that must be whole.
    pub(crate) fn whole(&self) -> &pb::ChatDone {
        self.done.as_ref().unwrap_or_else(|| panic!("{self:?}"))
    }
}
