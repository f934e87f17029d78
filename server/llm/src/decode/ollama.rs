//! Ollama's API: one JSON object per line.

use std::collections::VecDeque;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{
    AnswerEvent, Decode, DecodeError, Frame, ToolCallDelta, Usage, new_call_id, parse, some, tokens,
};

#[derive(Debug, Default)]
pub(super) struct OllamaDecoder {
    calls: u32,
    finish: Option<String>,
    done: bool,
}

#[derive(Deserialize)]
struct OllamaLine<'a> {
    #[serde(borrow)]
    message: Option<OllamaMessage<'a>>,
    done: Option<bool>,
    done_reason: Option<String>,
    #[serde(default, deserialize_with = "tokens")]
    prompt_eval_count: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    eval_count: Option<u64>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct OllamaMessage<'a> {
    content: Option<String>,
    thinking: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<OllamaCall<'a>>>,
}

#[derive(Deserialize)]
struct OllamaCall<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Option<OllamaFunction<'a>>,
}

#[derive(Deserialize)]
struct OllamaFunction<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Decode for OllamaDecoder {
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        let raw: OllamaLine<'_> = parse(frame)?;
        if raw.error.is_some() {
            return Err(DecodeError::error(frame));
        }
        if let Some(message) = raw.message {
            out.extend(some(message.thinking).map(AnswerEvent::Reasoning));
            out.extend(some(message.content).map(AnswerEvent::Text));
            for call in message.tool_calls.into_iter().flatten() {
                let (name, arguments) =
                    call.function.map_or((None, None), |function| (function.name, function.arguments));
                out.push_back(AnswerEvent::ToolCall(ToolCallDelta {
                    index: self.calls,
                    id: some(call.id).unwrap_or_else(new_call_id),
                    name: name.unwrap_or_default(),
                    custom: false,
                    arguments: arguments.map_or("{}", RawValue::get).to_owned(),
                }));
                self.calls += 1;
            }
        }
        if raw.done == Some(true) {
            self.done = true;
            let reason = some(raw.done_reason).unwrap_or_else(|| "stop".to_owned());
            let called = self.calls > 0 && reason == "stop";
            self.finish = Some(if called { "tool_calls".to_owned() } else { reason });
            out.push_back(AnswerEvent::Usage(Usage {
                input: raw.prompt_eval_count.unwrap_or(0),
                output: raw.eval_count.unwrap_or(0),
                cache_creation: 0,
                cache_read: 0,
            }));
        }
        Ok(())
    }

    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        self.take(frame, out)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn end(&mut self, out: &mut VecDeque<AnswerEvent>) -> bool {
        match self.finish.take() {
            Some(finish) => {
                out.push_back(AnswerEvent::Finish(finish));
                true
            }
            None => false,
        }
    }
}
