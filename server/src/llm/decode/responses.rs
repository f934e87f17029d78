//! The Responses API: events about items of the output.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Broken, CallPiece, Decode, Event, Frame, Usage, new_call_id, parse, some};

#[derive(Debug, Default)]
pub(super) struct Events {
    calls: Vec<Call>,
    finish: Option<String>,
    done: bool,
}

/// A call with what was told of it.
#[derive(Debug)]
struct Call {
    output_index: u64,
    custom: bool,
    told: usize,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    delta: Option<String>,
    output_index: Option<u64>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    response: Option<Response>,
    // Of `error`.
    code: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    input: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    usage: Option<RawUsage>,
    error: Option<Failure>,
    incomplete_details: Option<Incomplete>,
}

/// A whole answer, beside what [`Response`] has of it.
#[derive(Deserialize)]
struct Whole<'a> {
    status: Option<String>,
    #[serde(borrow)]
    output: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct WholeItem {
    #[serde(rename = "type")]
    kind: Option<String>,
    summary: Option<Vec<Part>>,
    content: Option<Vec<Part>>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    refusal: Option<String>,
}

fn parse_item<'a, T: Deserialize<'a>>(raw: &'a str) -> Result<T, Broken> {
    serde_json::from_str(raw).map_err(|error| Broken::Malformed(error.to_string()))
}

#[derive(Deserialize)]
struct RawUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Failure {
    code: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

impl Decode for Events {
    fn take(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken> {
        if frame.data.trim() == "[DONE]" {
            return Ok(());
        }
        let raw: Raw<'_> = parse(frame)?;
        let kind = raw.kind.as_deref().unwrap_or(&frame.name);
        let index = raw.output_index.unwrap_or(0);
        match kind {
            "response.output_text.delta" => out.extend(some(raw.delta).map(Event::Text)),
            "response.refusal.delta" => out.extend(some(raw.delta).map(Event::Refusal)),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                out.extend(some(raw.delta).map(Event::Reasoning));
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.arguments(index, raw.delta.unwrap_or_default(), out);
            }
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(item) = raw.item {
                    self.item(index, item.get(), kind.ends_with("done"), out)?;
                }
            }
            "response.completed" | "response.incomplete" => {
                self.complete(raw.response, kind == "response.incomplete", out);
            }
            "response.failed" => {
                let error = raw.response.and_then(|response| response.error);
                let (kind, message) = error.map_or((None, None), |error| (error.code, error.message));
                return Err(said(kind, message));
            }
            "error" => return Err(said(raw.code, raw.message)),
            // Begins and ends of parts, and what is new.
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Broken> {
        let whole: Whole<'_> = parse(frame)?;
        for (index, raw) in whole.output.iter().enumerate() {
            let item: WholeItem = parse_item(raw.get())?;
            let thoughts = item.summary.into_iter().flatten().filter_map(|part| some(part.text));
            out.extend(thoughts.map(Event::Reasoning));
            // Of a message; what stands in reasoning is told by its summary.
            if item.kind.as_deref() == Some("message") {
                for part in item.content.into_iter().flatten() {
                    out.extend(some(part.text).map(Event::Text));
                    out.extend(some(part.refusal).map(Event::Refusal));
                }
            }
            self.item(index as u64, raw.get(), true, out)?;
        }
        match whole.status.as_deref() {
            // It is not an answer yet.
            Some("queued" | "in_progress") => {}
            status => self.complete(Some(parse(frame)?), status == Some("incomplete"), out),
        }
        Ok(())
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

fn said(kind: Option<String>, message: Option<String>) -> Broken {
    Broken::Said { kind: kind.unwrap_or_default(), message: message.unwrap_or_default() }
}

impl Events {
    fn complete(&mut self, response: Option<Response>, incomplete: bool, out: &mut VecDeque<Event>) {
        self.done = true;
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
            out.push_back(Event::Usage(Usage::with_cached(
                usage.input_tokens.unwrap_or(0),
                cached.unwrap_or(0),
                usage.output_tokens.unwrap_or(0),
            )));
        }
    }

    fn item(&mut self, index: u64, raw: &str, done: bool, out: &mut VecDeque<Event>) -> Result<(), Broken> {
        let item: Item = parse_item(raw)?;
        let kind = item.kind.as_deref().unwrap_or_default();
        match kind {
            // With its encrypted content, which only comes at the end.
            "reasoning" if done => out.push_back(Event::Opaque(raw.to_owned())),
            "function_call" | "custom_tool_call" => {
                let custom = kind == "custom_tool_call";
                if !self.calls.iter().any(|call| call.output_index == index) {
                    self.calls.push(Call { output_index: index, custom, told: 0 });
                    out.push_back(Event::ToolCall(CallPiece {
                        index: number(self.calls.len() - 1),
                        id: some(item.call_id).unwrap_or_else(new_call_id),
                        name: item.name.unwrap_or_default(),
                        custom,
                        arguments: String::new(),
                    }));
                }
                // Some tell the arguments only here.
                let whole = item.arguments.or(item.input).unwrap_or_default();
                let told = self.calls.iter().find(|call| call.output_index == index);
                let told = told.map_or(0, |call| call.told);
                if done && let Some(rest) = whole.get(told..).filter(|rest| !rest.is_empty()) {
                    self.arguments(index, rest.to_owned(), out);
                }
            }
            // Messages come as deltas.
            _ => {}
        }
        Ok(())
    }

    fn arguments(&mut self, index: u64, arguments: String, out: &mut VecDeque<Event>) {
        let Some(at) = self.calls.iter().position(|call| call.output_index == index) else { return };
        let call = &mut self.calls[at];
        call.told += arguments.len();
        let (index, custom) = (number(at), call.custom);
        out.push_back(Event::ToolCall(CallPiece { index, custom, arguments, ..CallPiece::default() }));
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
