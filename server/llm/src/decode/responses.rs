//! The Responses API: events about items of the output.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::{Call, Calls};
use super::{Broken, Decode, Event, Frame, Usage, parse, some, tokens};

#[derive(Debug, Default)]
pub(super) struct Events {
    calls: Calls,
    finish: Option<String>,
    done: bool,
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
    #[serde(default, deserialize_with = "tokens")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tokens")]
    output_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default, deserialize_with = "tokens")]
    cached_tokens: Option<u64>,
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
            "response.failed" | "error" => return Err(Broken::error(frame)),
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

impl Events {
    fn complete(&mut self, response: Option<Response>, incomplete: bool, out: &mut VecDeque<Event>) {
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
                let call = self.call(index);
                call.custom = kind == "custom_tool_call";
                call.id = call.id.take().or(some(item.call_id));
                call.name = call.name.take().or(some(item.name));
                // Some tell the arguments only here.
                let whole = item.arguments.or(item.input).unwrap_or_default();
                if done && whole.len() > call.arguments.len() {
                    call.arguments = whole;
                }
                call.done = done;
                self.calls.pass_on(false, out);
            }
            // Messages come as deltas.
            _ => {}
        }
        Ok(())
    }

    fn arguments(&mut self, index: u64, more: &str, out: &mut VecDeque<Event>) {
        self.call(index).arguments.push_str(more);
        self.calls.pass_on(false, out);
    }

    /// A call, which begins with whatever is said of it first.
    fn call(&mut self, index: u64) -> &mut Call {
        self.calls.find(Some(index), |call, _| call.number == Some(index))
    }
}
