//! Chat completions: chunks with deltas. OpenAI's own, and what others make of them.

use std::collections::VecDeque;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::calls::{Call, Calls};
use super::{Broken, Content, Decode, Event, Frame, Usage, parse, some, tokens};

#[derive(Debug, Default)]
pub(super) struct Chunks {
    calls: Calls,
    finish: Option<String>,
    said_something: bool,
    done: bool,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<RawUsage>,
    error: Option<IgnoredAny>,
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
    content: Option<Content>,
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
    #[serde(default, deserialize_with = "tokens")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default, deserialize_with = "tokens")]
    cached_tokens: Option<u64>,
}

impl Decode for Chunks {
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken> {
        if frame.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk = parse(frame)?;
        if chunk.error.is_some() {
            return Err(Broken::error(frame));
        }
        self.chunk(chunk, out);
        Ok(())
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
        self.chunk(chunk, out);
        Ok(())
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
        self.calls.pass_on(true, out);
        // The word of those who knew only one call.
        let finish = if finish == "function_call" { "tool_calls".to_owned() } else { finish };
        out.push_back(Event::Finish(finish));
        true
    }
}

impl Chunks {
    fn chunk(&mut self, chunk: Chunk, out: &mut VecDeque<Event>) {
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
    }

    fn delta(&mut self, delta: Delta, out: &mut VecDeque<Event>) {
        let before = out.len();
        let (text, thoughts) = delta.content.map_or_else(Default::default, Content::split);
        let reasoning = some(delta.reasoning_content).or(some(delta.reasoning)).or(some(Some(thoughts)));
        out.extend(reasoning.map(Event::Reasoning));
        out.extend(some(Some(text)).map(Event::Text));
        out.extend(some(delta.refusal).map(Event::Refusal));
        for piece in delta.tool_calls.into_iter().flatten() {
            self.piece(piece, out);
        }
        self.said_something |= out.len() > before || !self.calls.is_empty();
    }

    fn piece(&mut self, piece: Piece, out: &mut VecDeque<Event>) {
        let id = some(piece.id);
        let custom = piece.custom.is_some();
        let (name, arguments) = match (piece.function, piece.custom) {
            (_, Some(custom)) => (custom.name, custom.input),
            (Some(function), None) => (function.name, function.arguments),
            (None, None) => (None, None),
        };
        // Another id under the same number is another call: some number all calls 0, or not at all.
        let same = |call: &Call| id.is_none() || call.id.is_none() || call.id == id;
        let is = |call: &Call, is_last: bool| match piece.index {
            Some(index) => call.number == Some(index) && same(call),
            None => is_last && same(call),
        };
        let call = self.calls.find(piece.index, is);
        call.id = call.id.take().or(id);
        call.name = call.name.take().or(some(name));
        call.custom |= custom;
        call.arguments.push_str(&arguments.unwrap_or_default());
        self.calls.pass_on(false, out);
    }
}
