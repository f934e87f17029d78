//! Decodes the answers of all providers into the same events: one decoder per answer format.

mod anthropic;
mod calls;
mod ollama;
mod openai;
mod responses;

use std::collections::VecDeque;

use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use super::error::ErrorBody;
use super::frames::{Frame, Framing};
use crate::model::Provider;

/// An event of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEvent {
    /// A piece of text.
    Text(String),
    /// A piece of reasoning.
    Reasoning(String),
    /// A piece of a refusal.
    Refusal(String),
    /// A piece of a tool call.
    ToolCall(ToolCallDelta),
    /// The usage so far; the last event counts.
    Usage(Usage),
    /// A JSON item that only its provider understands and that returns to it unchanged.
    Opaque(String),
    /// The end of a complete answer, with the reason.
    Finish(String),
}

impl AnswerEvent {
    /// Returns the approximate number of bytes that the event adds to the message in the log.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::Refusal(text) => in_json(text),
            Self::ToolCall(ToolCallDelta { id, name, arguments, .. }) => {
                let begins = if id.is_empty() { 0 } else { 96 };
                begins + in_json(id) + in_json(name) + in_json(arguments)
            }
            Self::Opaque(item) => item.len(),
            Self::Usage(_) | Self::Finish(_) => 0,
        }
    }
}

/// Returns the length of a text as a JSON string.
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
pub struct ToolCallDelta {
    /// The index of the call in the answer.
    pub index: u32,
    /// The id of the call, in its first piece.
    pub id: String,
    /// The name of the tool, in the first piece.
    pub name: String,
    /// True if the arguments are free text instead of JSON.
    pub custom: bool,
    /// A piece of the arguments.
    pub arguments: String,
}

/// Tokens of one request. The four counts are disjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input tokens outside of any cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens that the provider wrote to its cache.
    pub cache_creation: u64,
    /// Input tokens that the provider read from its cache.
    pub cache_read: u64,
}

impl Usage {
    /// Converts OpenAI's counts, whose input includes the cached tokens.
    fn with_cached(input: u64, cached: u64, output: u64) -> Self {
        Self { input: input.saturating_sub(cached), output, cache_creation: 0, cache_read: cached }
    }
}

/// The reason why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// The provider reports an error.
    Error(ErrorBody),
    /// The answer does not have the provider's format.
    Malformed(String),
}

impl DecodeError {
    /// Reads the error in a frame.
    fn error(frame: &Frame) -> Self {
        Self::Error(ErrorBody::read(frame.data.as_bytes()))
    }
}

/// Decodes frames into events.
pub(super) trait Decode: Send + Sync {
    /// Decodes a frame of a stream.
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError>;
    /// Decodes a complete answer, from a provider that ignored the request for a stream.
    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError>;
    /// Returns true after the provider's end marker.
    fn is_done(&self) -> bool;
    /// Ends the stream: adds the last events, or returns false if the answer is incomplete.
    fn end(&mut self, out: &mut VecDeque<AnswerEvent>) -> bool;
}

/// Returns the framing and the decoder for a provider.
pub(super) fn decoder(provider: Provider) -> (Framing, Box<dyn Decode>) {
    match provider {
        Provider::OpenAi | Provider::LmStudio => (Framing::Sse, Box::<openai::OpenAiDecoder>::default()),
        Provider::OpenAiResponses => (Framing::Sse, Box::<responses::ResponsesDecoder>::default()),
        Provider::Anthropic => (Framing::Sse, Box::<anthropic::AnthropicDecoder>::default()),
        Provider::Ollama => (Framing::Lines, Box::<ollama::OllamaDecoder>::default()),
    }
}

/// Decodes a frame: of a stream, a complete answer, or an error.
pub(super) fn take(
    decode: &mut dyn Decode,
    frame: &Frame,
    out: &mut VecDeque<AnswerEvent>,
) -> Result<(), DecodeError> {
    if !frame.whole {
        return decode.take(frame, out);
    }
    let body: serde_json::Value = parse(frame)?;
    let is_error = |name: &str| body.get(name).and_then(serde_json::Value::as_str) == Some("error");
    let has_error = body.get("error").is_some_and(|error| !error.is_null());
    if has_error || is_error("object") || is_error("type") {
        return Err(DecodeError::error(frame));
    }
    decode.whole(frame, out)
}

fn parse<'a, T: Deserialize<'a>>(frame: &'a Frame) -> Result<T, DecodeError> {
    serde_json::from_str(&frame.data).map_err(|error| DecodeError::Malformed(error.to_string()))
}

/// Returns an id for a call without one.
fn new_call_id() -> String {
    format!("call_{}", Uuid::new_v4().simple())
}

/// Reads a token count, which some providers write as a decimal.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, rounded down")]
fn tokens<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(value)?;
    Ok(number.and_then(|number| number.as_u64().or_else(|| Some(number.as_f64()?.max(0.0) as u64))))
}

/// The content of a message: text, or parts of text.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnswerContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
struct ContentPart {
    text: Option<String>,
    thinking: Option<Box<AnswerContent>>,
}

impl AnswerContent {
    /// Returns the text and the reasoning.
    fn split(self) -> (String, String) {
        let parts = match self {
            Self::Text(text) => return (text, String::new()),
            Self::Parts(parts) => parts,
        };
        let (mut text, mut thoughts) = (String::new(), String::new());
        for part in parts {
            text.push_str(&part.text.unwrap_or_default());
            thoughts.push_str(&part.thinking.map(|inner| inner.split().0).unwrap_or_default());
        }
        (text, thoughts)
    }
}

/// Returns a text unless it is empty.
fn some(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
