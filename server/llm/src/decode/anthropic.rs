//! The Messages API: events about content blocks.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    AnswerEvent, Decode, DecodeError, Frame, ToolCallDelta, Usage, new_call_id, parse, some, tokens,
};

#[derive(Debug, Default)]
pub(super) struct AnthropicDecoder {
    usage: Usage,
    calls: u32,
    /// The open block. Blocks never overlap.
    block: Option<OpenBlock>,
    finish: Option<String>,
    done: bool,
}

#[derive(Debug)]
enum OpenBlock {
    ThinkingBlock { thinking: String, signature: String },
    Call { index: u32, has_arguments: bool },
    Other,
}

#[derive(Deserialize)]
struct AnthropicEvent<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<AnthropicMessage>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    delta: Option<AnthropicDelta>,
    usage: Option<AnthropicUsage>,
}

/// A complete answer.
#[derive(Deserialize)]
struct AnthropicAnswer<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
    stop_reason: Option<String>,
    usage: Option<AnthropicUsage>,
}

/// The input of a tool call in a complete answer.
#[derive(Deserialize)]
struct ToolUse<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

fn parsed<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, DecodeError> {
    serde_json::from_str(json).map_err(|error| DecodeError::Malformed(error.to_string()))
}

#[derive(Deserialize)]
struct AnthropicMessage {
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
struct AnthropicUsage {
    #[serde(default, deserialize_with = "tokens")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    cache_read_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct AnthropicBlock {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct AnthropicDelta {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

/// A thinking block as it returns to the provider.
#[derive(Serialize)]
struct ThinkingBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    thinking: &'a str,
    signature: &'a str,
}

impl Decode for AnthropicDecoder {
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        let raw: AnthropicEvent<'_> = parse(frame)?;
        match raw.kind.as_deref().unwrap_or(&frame.name) {
            "message_start" => self.count(raw.message.and_then(|message| message.usage), out),
            "content_block_start" => {
                if let Some(block) = raw.content_block {
                    self.begin(block.get(), out)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = raw.delta {
                    self.delta(delta, out);
                }
            }
            "content_block_stop" => self.end_block(out)?,
            "message_delta" => {
                self.finish = raw.delta.and_then(|delta| some(delta.stop_reason)).or(self.finish.take());
                self.count(raw.usage, out);
            }
            "message_stop" => self.done = true,
            "error" => return Err(DecodeError::error(frame)),
            // `ping`, and events of newer API versions.
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        let whole: AnthropicAnswer<'_> = parse(frame)?;
        for raw in whole.content {
            self.begin(raw.get(), out)?;
            if let Some(OpenBlock::Call { index, has_arguments }) = &mut self.block
                && let Some(input) = parsed::<ToolUse<'_>>(raw.get())?.input
            {
                *has_arguments = true;
                let arguments = input.get().to_owned();
                out.push_back(AnswerEvent::ToolCall(ToolCallDelta {
                    index: *index,
                    arguments,
                    ..ToolCallDelta::default()
                }));
            }
            self.end_block(out)?;
        }
        self.count(whole.usage, out);
        self.finish = some(whole.stop_reason);
        self.done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn end(&mut self, out: &mut VecDeque<AnswerEvent>) -> bool {
        let Some(reason) = self.finish.take() else { return false };
        let word = match reason.as_str() {
            "end_turn" | "stop_sequence" => "stop",
            "tool_use" => "tool_calls",
            "max_tokens" | "model_context_window_exceeded" => "length",
            "refusal" => "content_filter",
            other => other,
        };
        out.push_back(AnswerEvent::Finish(word.to_owned()));
        true
    }
}

impl AnthropicDecoder {
    /// Takes the cumulative counts of an event. Absent counts stay as they were.
    fn count(&mut self, usage: Option<AnthropicUsage>, out: &mut VecDeque<AnswerEvent>) {
        let Some(raw) = usage else { return };
        let Usage { input, output, cache_creation, cache_read } = self.usage;
        self.usage = Usage {
            input: raw.input_tokens.unwrap_or(input),
            output: raw.output_tokens.unwrap_or(output),
            cache_creation: raw.cache_creation_input_tokens.unwrap_or(cache_creation),
            cache_read: raw.cache_read_input_tokens.unwrap_or(cache_read),
        };
        out.push_back(AnswerEvent::Usage(self.usage));
    }

    fn begin(&mut self, raw: &str, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        let block: AnthropicBlock = parsed(raw)?;
        self.block = Some(match block.kind.as_deref().unwrap_or_default() {
            "thinking" => {
                let (thinking, signature) =
                    (block.thinking.unwrap_or_default(), block.signature.unwrap_or_default());
                if !thinking.is_empty() {
                    out.push_back(AnswerEvent::Reasoning(thinking.clone()));
                }
                OpenBlock::ThinkingBlock { thinking, signature }
            }
            "redacted_thinking" => {
                out.push_back(AnswerEvent::Opaque(raw.to_owned()));
                OpenBlock::Other
            }
            "tool_use" => {
                let index = self.calls;
                self.calls += 1;
                out.push_back(AnswerEvent::ToolCall(ToolCallDelta {
                    index,
                    id: some(block.id).unwrap_or_else(new_call_id),
                    name: block.name.unwrap_or_default(),
                    custom: false,
                    arguments: String::new(),
                }));
                OpenBlock::Call { index, has_arguments: false }
            }
            _ => {
                out.extend(some(block.text).map(AnswerEvent::Text));
                OpenBlock::Other
            }
        });
        Ok(())
    }

    fn delta(&mut self, delta: AnthropicDelta, out: &mut VecDeque<AnswerEvent>) {
        match &mut self.block {
            Some(OpenBlock::ThinkingBlock { thinking, signature }) => {
                signature.push_str(&delta.signature.unwrap_or_default());
                if let Some(more) = some(delta.thinking) {
                    thinking.push_str(&more);
                    out.push_back(AnswerEvent::Reasoning(more));
                }
            }
            Some(OpenBlock::Call { index, has_arguments }) => {
                if let Some(arguments) = some(delta.partial_json) {
                    *has_arguments = true;
                    let piece = ToolCallDelta { index: *index, arguments, ..ToolCallDelta::default() };
                    out.push_back(AnswerEvent::ToolCall(piece));
                }
            }
            Some(OpenBlock::Other) | None => out.extend(some(delta.text).map(AnswerEvent::Text)),
        }
    }

    fn end_block(&mut self, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        match self.block.take() {
            // The provider refuses thinking blocks without a signature.
            Some(OpenBlock::ThinkingBlock { thinking, signature }) if !signature.is_empty() => {
                let block = ThinkingBlock { kind: "thinking", thinking: &thinking, signature: &signature };
                let json = serde_json::to_string(&block)
                    .map_err(|error| DecodeError::Malformed(error.to_string()))?;
                out.push_back(AnswerEvent::Opaque(json));
            }
            // A tool without parameters is called with an empty object.
            Some(OpenBlock::Call { index, has_arguments: false }) => {
                let piece = ToolCallDelta { index, arguments: "{}".to_owned(), ..ToolCallDelta::default() };
                out.push_back(AnswerEvent::ToolCall(piece));
            }
            Some(OpenBlock::ThinkingBlock { .. } | OpenBlock::Call { .. } | OpenBlock::Other) | None => {}
        }
        Ok(())
    }
}
