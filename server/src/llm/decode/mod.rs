//! What providers say, in words that are the same for all of them: one decoder for each form of answer.

mod anthropic;
mod ollama;
mod openai;
mod responses;

use std::collections::VecDeque;

use serde::Deserialize;
use uuid::Uuid;

use super::error::Said;
use super::frames::{Frame, Framing};
use crate::model::Provider;

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// More text.
    Text(String),
    /// More of what the model thinks.
    Reasoning(String),
    /// More of why it does not answer.
    Refusal(String),
    /// More of a tool call.
    ToolCall(CallPiece),
    /// What it cost, as far as that is known; the last one counts.
    Usage(Usage),
    /// Something that only its provider understands, and wants back as it is: JSON.
    Opaque(String),
    /// The answer is whole: why the model stopped.
    Finish(String),
}

impl Event {
    /// About as many bytes as it adds to a message in the log.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::Refusal(text) => in_json(text),
            Self::ToolCall(CallPiece { id, name, arguments, .. }) => {
                let begins = if id.is_empty() { 0 } else { 96 };
                begins + in_json(id) + in_json(name) + in_json(arguments)
            }
            Self::Opaque(item) => item.len(),
            Self::Usage(_) | Self::Finish(_) => 0,
        }
    }
}

/// Bytes of a text in JSON.
fn in_json(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// A piece of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallPiece {
    /// Which call of the answer, from 0.
    pub index: u32,
    /// With the first piece: its id.
    pub id: String,
    /// With the first piece: the tool.
    pub name: String,
    /// Whether it is a call with free text, rather than with JSON.
    pub custom: bool,
    /// More of its arguments.
    pub arguments: String,
}

/// Tokens of one request. The four are disjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input that no cache had.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input that a cache took in.
    pub cache_creation: u64,
    /// Input that a cache had.
    pub cache_read: u64,
}

impl Usage {
    /// As OpenAI counts: its input has what the cache had in it.
    fn with_cached(input: u64, cached: u64, output: u64) -> Self {
        Self { input: input.saturating_sub(cached), output, cache_creation: 0, cache_read: cached }
    }
}

/// Why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Broken {
    /// The provider says that it failed.
    Said {
        /// Its word for it.
        kind: String,
        /// Its words.
        message: String,
    },
    /// The provider answers with an error, though its status says otherwise.
    Refused {
        /// The status that it means, where it says so.
        status: Option<u16>,
        /// Its word for it.
        kind: String,
        /// Its words.
        message: String,
    },
    /// What it sent is not in its own form.
    Malformed(String),
}

/// Makes events of frames.
pub(super) trait Decode: Send + Sync {
    /// Takes a frame in.
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken>;
    /// Takes a whole answer in, which came though a stream was asked for.
    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken>;
    /// Whether the provider said that nothing follows.
    fn is_done(&self) -> bool;
    /// The stream has ended: tells the rest, or answers false if the answer is not whole.
    fn end(&mut self, out: &mut VecDeque<Event>) -> bool;
}

/// How a provider's answer is read.
pub(super) fn decoder(provider: Provider) -> (Framing, Box<dyn Decode>) {
    match provider {
        Provider::OpenAi | Provider::LmStudio => (Framing::Sse, Box::<openai::Chunks>::default()),
        Provider::OpenAiResponses => (Framing::Sse, Box::<responses::Events>::default()),
        Provider::Anthropic => (Framing::Sse, Box::<anthropic::Events>::default()),
        Provider::Ollama => (Framing::Lines, Box::<ollama::Lines>::default()),
    }
}

/// Takes a frame in, whatever it is.
pub(super) fn take(decode: &mut dyn Decode, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken> {
    if !frame.whole {
        return decode.take(frame, out);
    }
    let body: serde_json::Value = parse(frame)?;
    let is_error = |name: &str| body.get(name).and_then(serde_json::Value::as_str) == Some("error");
    let inner = body.get("error").filter(|error| !error.is_null());
    if inner.is_none() && !is_error("object") && !is_error("type") {
        return decode.whole(frame, out);
    }
    let code = inner.unwrap_or(&body).get("code").and_then(serde_json::Value::as_u64);
    let status = code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
    let said = Said::read(frame.data.as_bytes());
    Err(Broken::Refused { status, kind: said.kind, message: said.message })
}

fn parse<'a, T: Deserialize<'a>>(frame: &'a Frame) -> Result<T, Broken> {
    serde_json::from_str(&frame.data).map_err(|error| Broken::Malformed(error.to_string()))
}

/// An id for a call that came without one.
fn new_call_id() -> String {
    format!("call_{}", Uuid::new_v4().simple())
}

/// Text that says something.
fn some(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
