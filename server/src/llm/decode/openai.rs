//! Chat completions: chunks with deltas. OpenAI's own, and what others make of them.

use std::collections::VecDeque;

use serde::Deserialize;

use super::{Broken, CallPiece, Decode, Event, Frame, Usage, new_call_id, parse, some};

#[derive(Debug, Default)]
pub(super) struct Chunks {
    calls: Vec<Slot>,
    finish: Option<String>,
    said_something: bool,
    done: bool,
}

/// A call as the provider counts it.
#[derive(Debug)]
struct Slot {
    index: Option<u64>,
    id: String,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<RawUsage>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Delta>,
    /// Of a whole answer.
    message: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    /// As DeepSeek, vLLM and LM Studio call it.
    reasoning_content: Option<String>,
    /// As OpenRouter and newer vLLM call it.
    reasoning: Option<String>,
    tool_calls: Option<Vec<Piece>>,
}

#[derive(Deserialize)]
struct Piece {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
    custom: Option<Custom>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Custom {
    name: Option<String>,
    input: Option<String>,
}

#[derive(Deserialize)]
struct RawUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Failure {
    Object {
        message: Option<String>,
        #[serde(rename = "type")]
        kind: Option<String>,
    },
    Text(String),
}

impl Decode for Chunks {
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken> {
        if frame.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        self.chunk(parse(frame)?, out)
    }

    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken> {
        let mut chunk: Chunk = parse(frame)?;
        let choices = chunk.choices.as_mut().filter(|choices| !choices.is_empty());
        let choices = choices.ok_or_else(|| Broken::Malformed("there are no choices".to_owned()))?;
        for choice in choices {
            choice.delta = choice.message.take();
            let calls = choice.delta.iter_mut().filter_map(|delta| delta.tool_calls.as_mut());
            for (at, call) in calls.flatten().enumerate() {
                call.index = Some(at as u64);
            }
        }
        self.done = true;
        self.chunk(chunk, out)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn end(&mut self, out: &mut VecDeque<Event>) -> bool {
        // Some leave out the one or the other.
        let finish = match self.finish.take() {
            Some(finish) => finish,
            None if self.done && self.said_something => "stop".to_owned(),
            None => return false,
        };
        // The word of those who knew only one call.
        let finish = if finish == "function_call" { "tool_calls".to_owned() } else { finish };
        out.push_back(Event::Finish(finish));
        true
    }
}

impl Chunks {
    fn chunk(&mut self, chunk: Chunk, out: &mut VecDeque<Event>) -> Result<(), Broken> {
        if let Some(error) = chunk.error {
            let (kind, message) = match error {
                Failure::Object { message, kind } => (kind, message),
                Failure::Text(text) => (None, Some(text)),
            };
            return Err(Broken::Said {
                kind: kind.unwrap_or_default(),
                message: message.unwrap_or_default(),
            });
        }
        // One answer is asked for.
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, out);
            }
            self.finish = some(choice.finish_reason).or(self.finish.take());
        }
        if let Some(usage) = chunk.usage {
            let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
            out.push_back(Event::Usage(Usage::with_cached(
                usage.prompt_tokens.unwrap_or(0),
                cached.unwrap_or(0),
                usage.completion_tokens.unwrap_or(0),
            )));
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta, out: &mut VecDeque<Event>) {
        let before = out.len();
        out.extend(some(delta.reasoning_content).or(some(delta.reasoning)).map(Event::Reasoning));
        out.extend(some(delta.content).map(Event::Text));
        out.extend(some(delta.refusal).map(Event::Refusal));
        for piece in delta.tool_calls.into_iter().flatten() {
            out.push_back(Event::ToolCall(self.piece(piece)));
        }
        self.said_something |= out.len() > before;
    }

    fn piece(&mut self, piece: Piece) -> CallPiece {
        let id = some(piece.id);
        let custom = piece.custom.is_some();
        let (name, arguments) = match (piece.function, piece.custom) {
            (_, Some(custom)) => (custom.name, custom.input),
            (Some(function), None) => (function.name, function.arguments),
            (None, None) => (None, None),
        };
        let arguments = arguments.unwrap_or_default();
        // Another id under the same number is another call: some number all calls 0, or not at all.
        let same = |slot: &Slot| id.as_ref().is_none_or(|id| *id == slot.id);
        let known = match piece.index {
            Some(index) => self.calls.iter().rposition(|slot| slot.index == Some(index) && same(slot)),
            None => self.calls.len().checked_sub(1).filter(|last| same(&self.calls[*last])),
        };
        if let Some(at) = known {
            return CallPiece { index: number(at), custom, arguments, ..CallPiece::default() };
        }
        let id = id.unwrap_or_else(new_call_id);
        self.calls.push(Slot { index: piece.index, id: id.clone() });
        let name = name.unwrap_or_default();
        CallPiece { index: number(self.calls.len() - 1), id, name, custom, arguments }
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
