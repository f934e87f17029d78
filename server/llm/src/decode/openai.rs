//! Chat completions of OpenAI and of compatible servers: chunks with deltas.

use std::collections::VecDeque;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::calls::{PartialCall, ToolCalls};
use super::{AnswerContent, AnswerEvent, Decode, DecodeError, Frame, Usage, parse, some, tokens};

#[derive(Debug, Default)]
pub(super) struct OpenAiDecoder {
    calls: ToolCalls,
    finish: Option<String>,
    said_something: bool,
    done: bool,
}

#[derive(Deserialize)]
struct OpenAiChunk {
    choices: Option<Vec<OpenAiChoice>>,
    usage: Option<OpenAiUsage>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct OpenAiChoice {
    index: Option<u64>,
    delta: Option<OpenAiDelta>,
    /// The message of a complete answer.
    message: Option<OpenAiDelta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiDelta {
    content: Option<AnswerContent>,
    refusal: Option<String>,
    /// The name that DeepSeek, vLLM and LM Studio use.
    reasoning_content: Option<String>,
    /// The name that OpenRouter and newer versions of vLLM use.
    reasoning: Option<String>,
    tool_calls: Option<Vec<OpenAiCall>>,
}

#[derive(Deserialize)]
struct OpenAiCall {
    index: Option<u64>,
    id: Option<String>,
    function: Option<OpenAiFunction>,
    custom: Option<OpenAiCustomCall>,
}

#[derive(Deserialize)]
struct OpenAiFunction {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiCustomCall {
    name: Option<String>,
    input: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiUsage {
    #[serde(default, deserialize_with = "tokens")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<OpenAiUsageDetails>,
}

#[derive(Deserialize)]
struct OpenAiUsageDetails {
    #[serde(default, deserialize_with = "tokens")]
    cached_tokens: Option<u64>,
}

impl Decode for OpenAiDecoder {
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        if frame.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: OpenAiChunk = parse(frame)?;
        if chunk.error.is_some() {
            return Err(DecodeError::error(frame));
        }
        self.chunk(chunk, out);
        Ok(())
    }

    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        let mut chunk: OpenAiChunk = parse(frame)?;
        let choices = chunk.choices.as_mut().filter(|choices| !choices.is_empty());
        let choices = choices.ok_or_else(|| DecodeError::Malformed("there are no choices".to_owned()))?;
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

    fn end(&mut self, out: &mut VecDeque<AnswerEvent>) -> bool {
        // Some servers send no finish reason, others no end marker.
        let finish = match self.finish.take() {
            Some(finish) => finish,
            None if self.done && self.said_something => "stop".to_owned(),
            None => return false,
        };
        self.calls.pass_on(true, out);
        // The name in the older API with one call per answer.
        let finish = if finish == "function_call" { "tool_calls".to_owned() } else { finish };
        out.push_back(AnswerEvent::Finish(finish));
        true
    }
}

impl OpenAiDecoder {
    fn chunk(&mut self, chunk: OpenAiChunk, out: &mut VecDeque<AnswerEvent>) {
        // The request asks for one choice.
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, out);
            }
            self.finish = some(choice.finish_reason).or(self.finish.take());
        }
        if let Some(usage) = chunk.usage {
            let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
            out.push_back(AnswerEvent::Usage(Usage::with_cached(
                usage.prompt_tokens.unwrap_or(0),
                cached.unwrap_or(0),
                usage.completion_tokens.unwrap_or(0),
            )));
        }
    }

    fn delta(&mut self, delta: OpenAiDelta, out: &mut VecDeque<AnswerEvent>) {
        let before = out.len();
        let (text, thoughts) = delta.content.map_or_else(Default::default, AnswerContent::split);
        let reasoning = some(delta.reasoning_content).or(some(delta.reasoning)).or(some(Some(thoughts)));
        out.extend(reasoning.map(AnswerEvent::Reasoning));
        out.extend(some(Some(text)).map(AnswerEvent::Text));
        out.extend(some(delta.refusal).map(AnswerEvent::Refusal));
        for piece in delta.tool_calls.into_iter().flatten() {
            self.piece(piece, out);
        }
        self.said_something |= out.len() > before || !self.calls.is_empty();
    }

    fn piece(&mut self, piece: OpenAiCall, out: &mut VecDeque<AnswerEvent>) {
        let id = some(piece.id);
        let custom = piece.custom.is_some();
        let (name, arguments) = match (piece.function, piece.custom) {
            (_, Some(custom)) => (custom.name, custom.input),
            (Some(function), None) => (function.name, function.arguments),
            (None, None) => (None, None),
        };
        // A new id under the same index is a new call: some servers give every call the index 0, or none.
        let same = |call: &PartialCall| id.is_none() || call.id.is_none() || call.id == id;
        let is = |call: &PartialCall, is_last: bool| match piece.index {
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
