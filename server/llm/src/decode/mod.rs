//! What providers say, in words that are the same for all of them: one decoder for each form of answer.

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

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEvent {
    /// More text.
    Text(String),
    /// More of what the model thinks.
    Reasoning(String),
    /// More of why it does not answer.
    Refusal(String),
    /// More of a tool call.
    ToolCall(ToolCallDelta),
    /// What it cost, as far as that is known; the last one counts.
    Usage(Usage),
    /// Something that only its provider understands, and wants back as it is: JSON.
    Opaque(String),
    /// The answer is whole: why the model stopped.
    Finish(String),
}

impl AnswerEvent {
    /// About as many bytes as it adds to a message in the log.
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
pub struct ToolCallDelta {
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
pub(super) enum DecodeError {
    /// The provider says that it failed, or that it refuses.
    Error(ErrorBody),
    /// What it sent is not in its own form.
    Malformed(String),
}

impl DecodeError {
    /// An error that stands in a frame.
    fn error(frame: &Frame) -> Self {
        Self::Error(ErrorBody::read(frame.data.as_bytes()))
    }
}

/// Makes events of frames.
pub(super) trait Decode: Send + Sync {
    /// Takes a frame in.
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError>;
    /// Takes a whole answer in, which came though a stream was asked for.
    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError>;
    /// Whether the provider said that nothing follows.
    fn is_done(&self) -> bool;
    /// The stream has ended: tells the rest, or answers false if the answer is not whole.
    fn end(&mut self, out: &mut VecDeque<AnswerEvent>) -> bool;
}

/// How a provider's answer is read.
pub(super) fn decoder(provider: Provider) -> (Framing, Box<dyn Decode>) {
    match provider {
        Provider::OpenAi | Provider::LmStudio => (Framing::Sse, Box::<openai::OpenAiDecoder>::default()),
        Provider::OpenAiResponses => (Framing::Sse, Box::<responses::ResponsesDecoder>::default()),
        Provider::Anthropic => (Framing::Sse, Box::<anthropic::AnthropicDecoder>::default()),
        Provider::Ollama => (Framing::Lines, Box::<ollama::OllamaDecoder>::default()),
    }
}

/// Takes a frame in, whatever it is.
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

/// An id for a call that came without one.
fn new_call_id() -> String {
    format!("call_{}", Uuid::new_v4().simple())
}

/// A count of tokens, which some write with a point.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, rounded down")]
fn tokens<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(value)?;
    Ok(number.and_then(|number| number.as_u64().or_else(|| Some(number.as_f64()?.max(0.0) as u64))))
}

/// Text, or parts of text, as some write the content of a message.
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
    /// What it says, and what it thinks.
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

/// Text that says something.
fn some(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
