//! Ollama's own API: one JSON object a line.

use std::collections::VecDeque;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Broken, CallPiece, Decode, Event, Frame, Usage, new_call_id, parse, some, tokens};

#[derive(Debug, Default)]
pub(super) struct Lines {
    calls: u32,
    finish: Option<String>,
    done: bool,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    done: Option<bool>,
    done_reason: Option<String>,
    #[serde(default, deserialize_with = "tokens")]
    prompt_eval_count: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    eval_count: Option<u64>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Message<'a> {
    content: Option<String>,
    thinking: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Decode for Lines {
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken> {
        let raw: Raw<'_> = parse(frame)?;
        if raw.error.is_some() {
            return Err(Broken::error(frame));
        }
        if let Some(message) = raw.message {
            out.extend(some(message.thinking).map(Event::Reasoning));
            out.extend(some(message.content).map(Event::Text));
            for call in message.tool_calls.into_iter().flatten() {
                let (name, arguments) =
                    call.function.map_or((None, None), |function| (function.name, function.arguments));
                out.push_back(Event::ToolCall(CallPiece {
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
            out.push_back(Event::Usage(Usage {
                input: raw.prompt_eval_count.unwrap_or(0),
                output: raw.eval_count.unwrap_or(0),
                cache_creation: 0,
                cache_read: 0,
            }));
        }
        Ok(())
    }

    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken> {
        self.take(frame, out)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn end(&mut self, out: &mut VecDeque<Event>) -> bool {
        match self.finish.take() {
            Some(finish) => {
                out.push_back(Event::Finish(finish));
                true
            }
            None => false,
        }
    }
}
