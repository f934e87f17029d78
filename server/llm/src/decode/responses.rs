//! The Responses API: events about output items.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::{PartialCall, ToolCalls};
use super::{AnswerEvent, Decode, DecodeError, Frame, Usage, parse, some, tokens};

#[derive(Debug, Default)]
pub(super) struct ResponsesDecoder {
    calls: ToolCalls,
    finish: Option<String>,
    done: bool,
}

#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    delta: Option<String>,
    output_index: Option<u64>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    response: Option<ResponsesBody>,
}

#[derive(Deserialize)]
struct ResponsesItem {
    #[serde(rename = "type")]
    kind: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    input: Option<String>,
}

#[derive(Deserialize)]
struct ResponsesBody {
    usage: Option<ResponsesUsage>,
    incomplete_details: Option<IncompleteDetails>,
}

/// The fields of a complete answer that [`ResponsesBody`] lacks.
#[derive(Deserialize)]
struct ResponsesAnswer<'a> {
    status: Option<String>,
    #[serde(borrow)]
    output: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResponsesOutput {
    #[serde(rename = "type")]
    kind: Option<String>,
    summary: Option<Vec<ResponsesPart>>,
    content: Option<Vec<ResponsesPart>>,
}

#[derive(Deserialize)]
struct ResponsesPart {
    text: Option<String>,
    refusal: Option<String>,
}

fn parse_item<'a, T: Deserialize<'a>>(raw: &'a str) -> Result<T, DecodeError> {
    serde_json::from_str(raw).map_err(|error| DecodeError::Malformed(error.to_string()))
}

#[derive(Deserialize)]
struct ResponsesUsage {
    #[serde(default, deserialize_with = "tokens")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    output_tokens: Option<u64>,
    input_tokens_details: Option<ResponsesUsageDetails>,
}

#[derive(Deserialize)]
struct ResponsesUsageDetails {
    #[serde(default, deserialize_with = "tokens")]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

impl Decode for ResponsesDecoder {
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        if frame.data.trim() == "[DONE]" {
            return Ok(());
        }
        let raw: ResponsesEvent<'_> = parse(frame)?;
        let kind = raw.kind.as_deref().unwrap_or(&frame.name);
        let index = raw.output_index.unwrap_or(0);
        match kind {
            "response.output_text.delta" => out.extend(some(raw.delta).map(AnswerEvent::Text)),
            "response.refusal.delta" => out.extend(some(raw.delta).map(AnswerEvent::Refusal)),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                out.extend(some(raw.delta).map(AnswerEvent::Reasoning));
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.arguments(index, &raw.delta.unwrap_or_default(), out);
            }
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(item) = raw.item {
                    self.item(index, item.get(), kind.ends_with("done"), out)?;
                }
            }
            "response.completed" | "response.incomplete" => {
                self.complete(raw.response, kind == "response.incomplete", out);
            }
            "response.failed" | "error" => return Err(DecodeError::error(frame)),
            // Starts and ends of parts, and events of newer API versions.
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<AnswerEvent>) -> Result<(), DecodeError> {
        let whole: ResponsesAnswer<'_> = parse(frame)?;
        for (index, raw) in whole.output.iter().enumerate() {
            let item: ResponsesOutput = parse_item(raw.get())?;
            let thoughts = item.summary.into_iter().flatten().filter_map(|part| some(part.text));
            out.extend(thoughts.map(AnswerEvent::Reasoning));
            // Only messages have content here. Reasoning is read from its summary.
            if item.kind.as_deref() == Some("message") {
                for part in item.content.into_iter().flatten() {
                    out.extend(some(part.text).map(AnswerEvent::Text));
                    out.extend(some(part.refusal).map(AnswerEvent::Refusal));
                }
            }
            self.item(index as u64, raw.get(), true, out)?;
        }
        match whole.status.as_deref() {
            // The answer is not complete yet.
            Some("queued" | "in_progress") => {}
            status => self.complete(Some(parse(frame)?), status == Some("incomplete"), out),
        }
        Ok(())
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

impl ResponsesDecoder {
    fn complete(
        &mut self,
        response: Option<ResponsesBody>,
        incomplete: bool,
        out: &mut VecDeque<AnswerEvent>,
    ) {
        self.done = true;
        self.calls.pass_on(true, out);
        let details = response.as_ref().and_then(|response| response.incomplete_details.as_ref());
        self.finish = Some(match details.and_then(|details| details.reason.as_deref()) {
            Some("max_output_tokens") => "length".to_owned(),
            Some(other) => other.to_owned(),
            None if incomplete => "incomplete".to_owned(),
            None if self.calls.is_empty() => "stop".to_owned(),
            None => "tool_calls".to_owned(),
        });
        if let Some(usage) = response.and_then(|response| response.usage) {
            let cached = usage.input_tokens_details.and_then(|details| details.cached_tokens);
            out.push_back(AnswerEvent::Usage(Usage::with_cached(
                usage.input_tokens.unwrap_or(0),
                cached.unwrap_or(0),
                usage.output_tokens.unwrap_or(0),
            )));
        }
    }

    fn item(
        &mut self,
        index: u64,
        raw: &str,
        done: bool,
        out: &mut VecDeque<AnswerEvent>,
    ) -> Result<(), DecodeError> {
        let item: ResponsesItem = parse_item(raw)?;
        let kind = item.kind.as_deref().unwrap_or_default();
        match kind {
            // Only the complete item has the encrypted content.
            "reasoning" if done => out.push_back(AnswerEvent::Opaque(raw.to_owned())),
            "function_call" | "custom_tool_call" => {
                let call = self.call(index);
                call.custom = kind == "custom_tool_call";
                call.id = call.id.take().or(some(item.call_id));
                call.name = call.name.take().or(some(item.name));
                // Some servers send the arguments only here.
                let whole = item.arguments.or(item.input).unwrap_or_default();
                if done && whole.len() > call.arguments.len() {
                    call.arguments = whole;
                }
                call.done = done;
                self.calls.pass_on(false, out);
            }
            // Messages arrive as deltas.
            _ => {}
        }
        Ok(())
    }

    fn arguments(&mut self, index: u64, more: &str, out: &mut VecDeque<AnswerEvent>) {
        self.call(index).arguments.push_str(more);
        self.calls.pass_on(false, out);
    }

    /// Returns the call of an output index, which starts with its first event.
    fn call(&mut self, index: u64) -> &mut PartialCall {
        self.calls.find(Some(index), |call, _| call.number == Some(index))
    }
}
