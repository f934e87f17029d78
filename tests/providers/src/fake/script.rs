//! What the fake is told to do: scripts for requests to come.

use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

/// What happens to the next requests. Everything may be left out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Script {
    /// For how many requests; nothing is one.
    pub(crate) times: Option<u32>,
    /// Only for requests to this path.
    pub(crate) path: Option<String>,
    /// What the model says; without it, an echo.
    pub(crate) text: Option<String>,
    /// What the model thinks first.
    pub(crate) thinking: Option<String>,
    /// The tools it calls.
    pub(crate) tool_calls: Vec<Call>,
    /// What it thinks, says and calls, one after the other, instead of `thinking`, `text` and `tool_calls`.
    pub(crate) parts: Vec<Part>,
    /// Why it stops, in OpenAI's words: `stop`, `tool_calls`, `length`, `content_filter`.
    pub(crate) finish: Option<String>,
    /// Input tokens that a cache had.
    pub(crate) cached_tokens: u64,
    /// An error with this status instead of an answer.
    pub(crate) status: Option<u16>,
    /// The words of the error.
    pub(crate) message: Option<String>,
    /// The body of the error as it is, in place of one of the provider's form.
    pub(crate) body: Option<serde_json::Value>,
    /// Tokens that the model takes; a request of more is refused.
    pub(crate) takes: Option<u64>,
    /// Tokens that an answer of the model may have; a request for more is refused.
    pub(crate) answers: Option<u64>,
    /// The header `Retry-After` of the error.
    pub(crate) retry_after: Option<String>,
    /// All pieces of the answer come as one.
    pub(crate) together: bool,
    /// The word for what went wrong in a stream, where the provider has one.
    pub(crate) error_type: Option<String>,
    /// The answer comes whole, though a stream was asked for.
    pub(crate) whole: bool,
    /// Milliseconds before each piece of a stream.
    pub(crate) delay_ms: u64,
    /// What goes wrong.
    pub(crate) fault: Option<Fault>,
    /// After so many pieces of the answer, or bytes of the request; nothing is half of the answer, or 1 byte.
    pub(crate) after: Option<usize>,
}

/// What a model does next: `{"thinking":"…"}` (empty: only signed), `{"text":"…"}` or `{"tool_call":{…}}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Thinking(String),
    Text(String),
    ToolCall(Call),
}

/// A call of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    /// Its id; without it, one of its own.
    pub(crate) id: Option<String>,
    /// The tool.
    pub(crate) name: String,
    /// The arguments as the model wrote them.
    pub(crate) arguments: String,
    /// Whether it is a custom tool, as OpenAI has them.
    #[serde(default)]
    pub(crate) custom: bool,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    /// The request is read, and nothing comes.
    HangBeforeHeaders,
    /// The answer stops and the connection stays.
    HangMidStream,
    /// The answer stops until the fake is told to go on.
    WaitMidStream,
    /// The connection breaks in the answer.
    BreakMidStream,
    /// The answer ends as if it were whole.
    EndEarly,
    /// A piece is no JSON.
    MalformedChunk,
    /// The provider says in the stream that it failed.
    ErrorMidStream,
    /// The connection breaks while the request is sent.
    CloseMidRequest,
}

/// The scripts that wait.
#[derive(Debug, Default)]
pub(crate) struct Scripts(Mutex<Vec<Script>>);

impl Scripts {
    pub(crate) fn add(&self, script: Script) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(script);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The script for a request: the oldest one that is for its path.
    pub(crate) fn take(&self, path: &str) -> Script {
        let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_for = |script: &Script| script.path.as_deref().is_none_or(|only| only == path);
        let Some(at) = scripts.iter().position(is_for) else { return Script::default() };
        let times = scripts[at].times.unwrap_or(1);
        if times <= 1 {
            return scripts.remove(at);
        }
        scripts[at].times = Some(times - 1);
        scripts[at].clone()
    }
}
