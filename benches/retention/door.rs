//! The door that sessions go through: a server of its own, with its public API, and what it is compared with.

use std::path::Path;

use contextstore::context::count_tokens;
use contextstore::model::{NewMessage as Message, TokenCounter};
use contextstore_client::{Client, NewMessage, ReadCurrent, StartTask, Task, v1};
use futures_util::stream;
use tokio::runtime::Runtime;

use super::score::Way;
use super::server::Server;
use super::session::Session;

/// A running server.
pub(crate) struct Door {
    runtime: Runtime,
    client: Client,
    _server: Server,
}

impl Door {
    pub(crate) fn open(binary: &Path, place: &Path) -> Self {
        let server = Server::start(binary, &place.join("data"));
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(server.client());
        Self { runtime, client, _server: server }
    }

    /// Appends a session to a task of its own.
    pub(crate) fn append(&self, session: &Session) -> Appended<'_> {
        self.runtime.block_on(async {
            let task = self.start().await;
            append(&task, &session.messages).await;
            Appended { door: self, task, messages: session.messages.clone() }
        })
    }

    async fn start(&self) -> Task {
        let compression = v1::CompressionConfig { auto: Some(false), ..Default::default() };
        let config = v1::TaskConfig {
            durability: "process".to_owned(),
            context_length: Some(1_000_000),
            compression: Some(compression),
            ..Default::default()
        };
        let start = StartTask { config, user: "bench".to_owned(), ..Default::default() };
        Box::pin(self.client.start_task(start)).await.unwrap()
    }

    /// Compresses a task; answers whether that did anything, and else why not.
    async fn compress(&self, task: &Task, strategy: &str, target: u64) -> Result<(), String> {
        let request = v1::CompressRequest {
            task_uuid: task.uuid().to_owned(),
            strategy: strategy.to_owned(),
            target_tokens: Some(target),
            lease_generation: task.lease_generation(),
            ..Default::default()
        };
        let mut progress = self.client.raw().compress(request).await.unwrap().into_inner();
        let mut done = None;
        while let Some(response) = progress.message().await.unwrap() {
            if let Some(v1::compress_response::Event::Done(last)) = response.event {
                done = Some(last);
            }
        }
        let done = done.unwrap();
        if done.compressed { Ok(()) } else { Err(format!("{strategy} to {target}: {}", done.reason)) }
    }
}

async fn append(task: &Task, messages: &[String]) {
    let messages: Vec<NewMessage> = messages.iter().map(NewMessage::json).collect();
    let mut appended = task.append_many(stream::iter(messages)).await.unwrap();
    while appended.try_next().await.unwrap().is_some() {}
}

async fn read(task: &Task) -> Vec<String> {
    let mut current = task.current(ReadCurrent::default()).await.unwrap();
    let mut view = Vec::new();
    while let Some(chunk) = current.try_next().await.unwrap() {
        view.extend_from_slice(&chunk);
    }
    String::from_utf8(view).unwrap().lines().map(str::to_owned).collect()
}

/// A session in a task.
pub(crate) struct Appended<'a> {
    door: &'a Door,
    task: Task,
    messages: Vec<String>,
}

impl Appended<'_> {
    /// What it is after it was brought down to so many tokens, as JSON messages. Afterwards it is as before.
    pub(crate) fn view(&self, way: Way, target: u64) -> Vec<String> {
        match way {
            Way::Extractive => self.compressed("summarize", target),
            Way::Rounds => self.in_rounds(target),
            Way::Prune => self.compressed("prune", target),
            Way::Window => self.compressed("window", target),
            Way::DropOldest => newest(&self.messages, target),
        }
    }

    fn compressed(&self, strategy: &str, target: u64) -> Vec<String> {
        let Self { door, task, .. } = self;
        door.runtime.block_on(async {
            door.compress(task, strategy, target).await.unwrap();
            let view = read(task).await;
            let undo = v1::UndoCompactionRequest {
                task_uuid: task.uuid().to_owned(),
                lease_generation: task.lease_generation(),
                ..Default::default()
            };
            door.client.raw().undo_compaction(undo).await.unwrap();
            view
        })
    }

    /// In another task, to the same size after each third.
    fn in_rounds(&self, target: u64) -> Vec<String> {
        self.door.runtime.block_on(async {
            let task = self.door.start().await;
            let thirds = self.messages.chunks(self.messages.len().div_ceil(3));
            let last = thirds.len() - 1;
            for (at, third) in thirds.enumerate() {
                append(&task, third).await;
                let compressed = self.door.compress(&task, "summarize", target).await;
                // A third may be small enough.
                assert!(at < last || compressed.is_ok(), "{compressed:?}");
            }
            read(&task).await
        })
    }
}

/// Tokens of messages, as a task counts them.
pub(crate) fn tokens(messages: &[String]) -> u64 {
    let count = |message: &String| count_tokens(TokenCounter::Fitted, &Message::from_json(message).unwrap());
    messages.iter().map(count).sum()
}

/// The system prompt and the newest messages that have room; no result without its call.
fn newest(messages: &[String], target: u64) -> Vec<String> {
    let mut left = target.saturating_sub(tokens(&messages[..1]));
    let mut start = messages.len();
    while start > 1 {
        let cost = tokens(&messages[start - 1..start]);
        if cost > left {
            break;
        }
        left -= cost;
        start -= 1;
    }
    let is_result = |message: &String| message.contains("\"role\":\"tool\"");
    while messages.get(start).is_some_and(is_result) {
        start += 1;
    }
    messages[..1].iter().chain(&messages[start..]).cloned().collect()
}
