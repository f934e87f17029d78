//! The door that sessions go through: a server of its own, with its public API, and what it is compared with.

use std::path::Path;

use contextstore_base::model::{NewMessage as Message, TokenCounter};
use contextstore_client::{Client, NewMessage, ReadCurrent, StartTask, Task, v1};
use contextstore_policy::context::count_tokens;
use futures_util::stream;
use tokio::runtime::Runtime;

use super::score::Way;
use super::server::Server;

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

    /// Appends messages to a task of its own with a window of so many tokens.
    pub(crate) fn append(&self, messages: &[String], window: u64) -> Appended<'_> {
        let task = self.runtime.block_on(self.start(window));
        let mut appended = Appended { door: self, task };
        appended.append(messages);
        appended
    }

    async fn start(&self, window: u64) -> Task {
        let compression = v1::CompressionConfig { auto: Some(false), ..Default::default() };
        let config = v1::TaskConfig {
            durability: v1::Durability::Process.into(),
            context_length: Some(window),
            compression: Some(compression),
            ..Default::default()
        };
        let start = StartTask { config, user: "bench".to_owned(), ..Default::default() };
        Box::pin(self.client.start_task(start)).await.unwrap()
    }

    /// Compresses a task, to its default size without a target; the error is why that did nothing.
    async fn compress(&self, task: &Task, strategy: &str, target: Option<u64>) -> Result<(), String> {
        let request = v1::CompressRequest {
            task_uuid: task.uuid().to_owned(),
            strategy: v1::CompressionStrategy::from_name(strategy).unwrap_or_default().into(),
            target_tokens: target,
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
        if done.compressed {
            Ok(())
        } else {
            Err(format!("{strategy} to {target:?}: {}", done.skip_reason().name()))
        }
    }
}

async fn read(task: &Task) -> Vec<String> {
    let mut current = task.current(ReadCurrent::default()).await.unwrap();
    let mut view = Vec::new();
    while let Some(chunk) = current.try_next().await.unwrap() {
        view.extend_from_slice(&chunk);
    }
    String::from_utf8(view).unwrap().lines().map(str::to_owned).collect()
}

/// Messages in a task.
pub(crate) struct Appended<'a> {
    door: &'a Door,
    task: Task,
}

impl Appended<'_> {
    pub(crate) fn append(&mut self, messages: &[String]) {
        let messages: Vec<NewMessage> = messages.iter().map(NewMessage::json).collect();
        self.door.runtime.block_on(async {
            let mut appended = self.task.append_many(stream::iter(messages)).await.unwrap();
            while appended.try_next().await.unwrap().is_some() {}
        });
    }

    pub(crate) fn compress(&self, way: Way, target: Option<u64>) -> Result<(), String> {
        self.door.runtime.block_on(self.door.compress(&self.task, way.as_str(), target))
    }

    /// Returns the view as JSON messages.
    pub(crate) fn read(&self) -> Vec<String> {
        self.door.runtime.block_on(read(&self.task))
    }

    /// Returns the view after it was brought down to so many tokens; afterwards the task is as before.
    pub(crate) fn view(&self, way: Way, target: u64) -> Vec<String> {
        if way == Way::DropOldest {
            return newest(&self.read(), target);
        }
        self.compress(way, Some(target)).unwrap();
        let view = self.read();
        let undo = v1::UndoCompactionRequest {
            task_uuid: self.task.uuid().to_owned(),
            lease_generation: self.task.lease_generation(),
            ..Default::default()
        };
        self.door.runtime.block_on(self.door.client.raw().undo_compaction(undo)).unwrap();
        view
    }
}

/// Tokens of messages, as a task counts them.
pub(crate) fn tokens(messages: &[String]) -> u64 {
    let count = |message: &String| count_tokens(TokenCounter::Fitted, &Message::from_json(message).unwrap());
    messages.iter().map(count).sum()
}

/// The system prompt and the newest messages that have room; no result without its call.
pub(crate) fn newest(messages: &[String], target: u64) -> Vec<String> {
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
