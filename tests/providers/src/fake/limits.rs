//! What the model of a script takes at most: a request with more is refused in the provider's own form and words.

use serde_json::Value;

use crate::fake::script::Script;
use crate::{Provider, Refusal};

/// The tokens of a body, as the fake charges them.
pub(crate) fn tokens(bytes: usize) -> u64 {
    bytes as u64 / 4 + 1
}

/// Refuses a body of more tokens than the model takes, and one that asks for more than it answers.
pub(crate) fn check(provider: Provider, body: &Value, bytes: usize, script: &Script) -> Result<(), Refusal> {
    let (sent, asked) = (tokens(bytes), asked(body));
    if let Some(most) = script.answers.filter(|most| asked > *most) {
        return Err(too_long_an_answer(provider, asked, most));
    }
    match script.takes {
        Some(takes) if sent > takes => Err(too_long(provider, sent, takes)),
        Some(takes) if provider == Provider::Anthropic && sent + asked > takes => {
            Err(Refusal::invalid(format!(
                "input length and `max_tokens` exceed context limit: {sent} + {asked} > {takes}, decrease input length or \
                 `max_tokens` and try again"
            )))
        }
        _ => Ok(()),
    }
}

/// Tokens of an answer that a body asks for.
fn asked(body: &Value) -> u64 {
    let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let asked = names.iter().find_map(|name| body[name].as_u64());
    asked.or_else(|| body["options"]["num_predict"].as_u64()).unwrap_or(0)
}

fn too_long(provider: Provider, sent: u64, takes: u64) -> Refusal {
    match provider {
        Provider::OpenAi => Refusal::invalid(format!(
            "This model's maximum context length is {takes} tokens. However, your messages resulted in {sent} tokens. \
             Please reduce the length of the messages."
        ))
        .code("context_length_exceeded")
        .param("messages"),
        Provider::OpenAiResponses => Refusal::invalid(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        )
        .code("context_length_exceeded")
        .param("input"),
        Provider::Anthropic => {
            Refusal::invalid(format!("prompt is too long: {sent} tokens > {takes} maximum"))
        }
        Provider::Ollama => Refusal::invalid("the input length exceeds the context length"),
        Provider::LmStudio => Refusal::invalid(format!(
            "Trying to keep the first {sent} tokens when context the overflows. However, the model is loaded with \
             context length of only {takes} tokens, which is not enough. Try to load the model with a larger context \
             length, or provide a shorter input"
        )),
    }
}

fn too_long_an_answer(provider: Provider, asked: u64, most: u64) -> Refusal {
    match provider {
        Provider::OpenAi | Provider::LmStudio | Provider::Ollama => Refusal::invalid(format!(
            "max_tokens is too large: {asked}. This model supports at most {most} completion tokens, whereas you \
             provided {asked}."
        ))
        .param("max_tokens"),
        Provider::OpenAiResponses => Refusal::invalid(format!(
            "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= {most}, but got {asked} \
             instead."
        ))
        .code("integer_above_max_value")
        .param("max_output_tokens"),
        Provider::Anthropic => Refusal::invalid(format!(
            "max_tokens: {asked} > {most}, which is the maximum allowed number of output tokens for fake"
        )),
    }
}
