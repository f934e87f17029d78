//! What the model says, in the form of each provider: whole, or as a stream.

mod anthropic;
mod ollama;
mod openai;
mod responses;

use crate::{Provider, Refusal};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::fake::limits;
use crate::fake::script::{Call, Part, Script};
use crate::place;

/// What the model says.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The number of the request, for ids.
    pub(crate) number: u64,
    pub(crate) model: String,
    pub(crate) thinking: Option<String>,
    pub(crate) text: String,
    pub(crate) calls: Vec<Called>,
    /// The same, one after the other.
    pub(crate) steps: Vec<Step>,
    /// In OpenAI's words.
    pub(crate) finish: String,
    pub(crate) streamed: bool,
    /// Whether the stream is to end with the usage.
    pub(crate) usage_wanted: bool,
    pub(crate) input_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// What the model does next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Think(String),
    Say(String),
    /// Which of the calls.
    Call(usize),
}

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) custom: bool,
}

impl Called {
    /// The arguments as a value, where a provider writes them so.
    fn input(&self) -> Value {
        serde_json::from_str(&self.arguments).ok().filter(Value::is_object).unwrap_or_else(|| json!({}))
    }
}

impl Reply {
    /// The answer to a body; one that was too large to be read is `null` here and asks for a stream.
    pub(crate) fn new(number: u64, provider: Provider, body: &Value, bytes: usize, script: &Script) -> Self {
        let prefix = if provider == Provider::Anthropic { "toolu" } else { "call" };
        let called = |(index, call): (usize, &Call)| Called {
            id: call.id.clone().unwrap_or_else(|| format!("{prefix}_fake_{number}_{index}")),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            custom: call.custom,
        };
        let parts = script.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Thinking(_) | Part::Text(_) => None,
        });
        let calls: Vec<_> = script.tool_calls.iter().chain(parts).enumerate().map(called).collect();
        let told = script.text.clone().filter(|_| script.parts.is_empty());
        let mute = !calls.is_empty() || !script.parts.is_empty();
        let mut text = told.unwrap_or_else(|| if mute { String::new() } else { echo(body, bytes) });
        let mut thinking = script.thinking.clone();
        let mut steps: Vec<Step> = thinking.clone().map(Step::Think).into_iter().collect();
        steps.extend((!text.is_empty()).then(|| Step::Say(text.clone())));
        steps.extend((0..script.tool_calls.len()).map(Step::Call));
        let mut next = script.tool_calls.len();
        for part in &script.parts {
            steps.push(match part {
                Part::Thinking(more) => {
                    thinking.get_or_insert_default().push_str(more);
                    Step::Think(more.clone())
                }
                Part::Text(more) => {
                    text.push_str(more);
                    Step::Say(more.clone())
                }
                Part::ToolCall(_) => {
                    next += 1;
                    Step::Call(next - 1)
                }
            });
        }
        let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        let said = text.len() + calls.iter().map(|call| call.arguments.len()).sum::<usize>();
        let input_tokens = limits::tokens(bytes);
        Self {
            number,
            model: body["model"].as_str().unwrap_or("fake").to_owned(),
            thinking,
            text,
            calls,
            steps,
            finish: script.finish.clone().unwrap_or_else(|| finish.to_owned()),
            // Ollama streams unless it is told not to.
            streamed: body["stream"].as_bool().unwrap_or(provider == Provider::Ollama || body.is_null()),
            usage_wanted: body.is_null() || body["stream_options"]["include_usage"] == true,
            input_tokens,
            cached_tokens: script.cached_tokens.min(input_tokens),
            output_tokens: said as u64 / 4 + 1,
        }
    }

    /// What each step is to its neighbours.
    fn tags(&self) -> Vec<String> {
        let tag = |step: &Step| match step {
            Step::Think(_) => place::THOUGHT.to_owned(),
            Step::Say(text) => place::text(text),
            Step::Call(at) => {
                let call = &self.calls[*at];
                let input = if call.custom { json!(call.arguments) } else { call.input() };
                place::call(&call.name, &input)
            }
        };
        self.steps.iter().map(tag).collect()
    }

    /// The text in pieces, as a model's tokens come.
    fn pieces(text: &str) -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        letters.chunks(8).map(|piece| piece.iter().collect()).collect()
    }
}

/// Says again what was said last.
fn echo(body: &Value, bytes: usize) -> String {
    let messages = body["messages"].as_array().or_else(|| body["input"].as_array());
    let last = messages.and_then(|messages| messages.last()).unwrap_or(&body["input"]);
    let content = if last.is_object() { &last["content"] } else { last };
    let text =
        content.as_str().or_else(|| content.as_array()?.iter().rev().find_map(|part| part["text"].as_str()));
    match text {
        Some(text) => format!("Echo: {}", text.chars().take(60).collect::<String>()),
        None => format!("Got {bytes} bytes."),
    }
}

/// A whole answer.
pub(crate) fn whole(provider: Provider, reply: &Reply) -> Value {
    match provider {
        Provider::OpenAi | Provider::LmStudio => openai::whole(reply),
        Provider::OpenAiResponses => responses::whole(reply),
        Provider::Anthropic => anthropic::whole(reply),
        Provider::Ollama => ollama::whole(reply),
    }
}

/// The pieces of a stream.
pub(crate) fn stream(provider: Provider, reply: &Reply) -> Vec<Bytes> {
    match provider {
        Provider::OpenAi | Provider::LmStudio => openai::stream(reply),
        Provider::OpenAiResponses => {
            responses::stream(reply).into_iter().map(|event| named(&event)).collect()
        }
        Provider::Anthropic => anthropic::stream(reply).into_iter().map(|event| named(&event)).collect(),
        Provider::Ollama => {
            ollama::stream(reply).into_iter().map(|line| format!("{line}\n").into()).collect()
        }
    }
}

/// An event under its name.
fn named(event: &Value) -> Bytes {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()).into()
}

fn data(event: &Value) -> Bytes {
    format!("data: {event}\n\n").into()
}

/// A piece that is no JSON.
pub(crate) fn malformed(provider: Provider) -> Bytes {
    match provider {
        Provider::Ollama => Bytes::from_static(b"{\"model\":\n"),
        Provider::Anthropic => Bytes::from_static(b"event: content_block_delta\ndata: {\"type\":\n\n"),
        Provider::OpenAi | Provider::OpenAiResponses | Provider::LmStudio => {
            Bytes::from_static(b"data: {\"id\":\n\n")
        }
    }
}

/// A stream's last words when the provider fails in the middle of it.
pub(crate) fn failed(provider: Provider, script: &Script) -> Bytes {
    let kind = |usual: &str| script.error_type.clone().unwrap_or_else(|| usual.to_owned());
    let words = "The server had an error while processing your request. Sorry about that!";
    match provider {
        Provider::OpenAi | Provider::LmStudio => data(
            &json!({"error": {"message": words, "type": kind("server_error"), "param": null, "code": null}}),
        ),
        Provider::OpenAiResponses => named(&json!({"type": "error", "sequence_number": 99, "error": {
            "type": "error", "code": kind("server_error"), "message": words, "param": null,
        }})),
        Provider::Anthropic => named(
            &json!({"type": "error", "error": {"type": kind("overloaded_error"), "message": "Overloaded"}}),
        ),
        Provider::Ollama => format!("{}\n", json!({"error": "model runner has unexpectedly stopped"})).into(),
    }
}

/// The error that a script asks for.
pub(crate) fn failure(status: u16, script: &Script) -> Refusal {
    let (kind, words) = match status {
        400 => ("invalid_request_error", "Bad request."),
        401 => ("authentication_error", "Incorrect API key provided."),
        403 => ("permission_error", "Your account has no access to this model."),
        404 => ("not_found_error", "The model does not exist or you do not have access to it."),
        413 => ("request_too_large", "Request exceeds the maximum size"),
        429 => ("rate_limit_error", "Rate limit reached for requests. Please try again later."),
        503 => ("service_unavailable", "The engine is currently overloaded, please try again later."),
        529 => ("overloaded_error", "Overloaded"),
        _ => ("api_error", "The server had an error while processing your request."),
    };
    let message = script.message.clone().unwrap_or_else(|| words.to_owned());
    Refusal { status, kind, code: (status == 429).then_some("rate_limit_exceeded"), param: None, message }
}
