//! Classifies the errors of providers by status, code and message.
//!
//! The code counts most, then the status, then the message. Numbers are read only from messages about the tokens of
//! the context or of the answer.

use crate::model::Overflow;

/// Fewest tokens that an answer needs. If the context leaves less, the context is too long.
const LEAST_ANSWER: u64 = 1024;
/// Smaller numbers are not context lengths.
const LEAST_LIMIT: u64 = 256;

/// The class of an error, which decides what the server does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The context exceeds the model's limit. A shorter context can succeed.
    Overflow(Overflow),
    /// The requested answer is too long. One of at most `most` tokens can succeed.
    LongAnswer {
        /// The longest answer, in tokens, if the error states it.
        most: Option<u64>,
    },
    /// The provider limits the request rate.
    Throttled,
    /// The provider would refuse the same request again.
    Refused,
    /// The provider failed in a way that can pass.
    Failed,
}

/// Error codes for a context that is too long.
const OVERFLOW_CODES: [&str; 6] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "request_too_large",
    "string_above_max_length",
    // Z.AI.
    "1261",
];

/// Error codes that no retry helps against, whatever the status is.
const FINAL_CODES: [&str; 2] = ["insufficient_quota", "billing_hard_limit_reached"];

/// Error codes of invalid requests, for errors without an HTTP status.
const REFUSAL_CODES: [&str; 2] = ["invalid_request_error", "badrequesterror"];

/// Parts of error codes that mean throttling.
const THROTTLE_CODES: [&str; 5] =
    ["rate_limit", "throttl", "overloaded", "too_many_requests", "resource_exhausted"];

/// Phrases for a request with more tokens or bytes than the model accepts, in lower case.
const OVERFLOW_WORDS: [&str; 23] = [
    "n_ctx",
    "maximum context length",
    "context length",
    "context window",
    "context limit",
    "context size",
    "context_length_exceeded",
    "prompt is too long",
    "prompt too long",
    "prompt length",
    "prompt exceeds max length",
    "prompt token count",
    "input is too long",
    "input too long",
    "input token count",
    "too many input tokens",
    "`inputs` must have less than",
    "`inputs` tokens",
    "input length should be",
    "model token limit",
    "request too large",
    "exceeds the maximum size",
    "string too long",
];

/// Phrases in front of a context length, each with a phrase that must come between, if any.
const LIMITS: [(&str, &str); 18] = [
    ("context length is", ""),
    ("context length of only", ""),
    ("context length of", ""),
    // `199000 + 8000 > 200000`
    ("context limit:", ">"),
    ("context size (", ""),
    ("context size of", ""),
    ("context window of", ""),
    ("prompt length is", ""),
    ("tokens allowed", ""),
    ("only supports up to", ""),
    ("must have less than", ""),
    ("must be <=", ""),
    ("token limit:", ""),
    ("exceeds the limit of", ""),
    ("input length should be [1,", ""),
    ("n_ctx", ""),
    ("tokens >", ""),
    ("too large for model with", ""),
];

/// Phrases in front of the number of tokens that were sent.
const SENT: [&str; 15] = [
    "context limit:",
    "resulted in",
    "request contains",
    "request has",
    "prompt is too long:",
    "token count of",
    "token count is",
    "token count (",
    "given:",
    "contains at least",
    "prompt contains",
    "requested:",
    "request (",
    "keep the first",
    "n_prompt_tokens",
];

/// Phrases in front of the sum of context and answer.
const TOGETHER: [&str; 2] = ["requested about", "you requested"];

/// Phrases behind the requested length of the answer.
const ANSWER: [&str; 5] =
    [" in the completion", " for the completion", " in the output", " output tokens", " `max_new_tokens`"];

/// Phrases in front of the longest answer.
const MOST_BEFORE: [&str; 7] = [
    "supports at most",
    "expected a value <=",
    "maximum output tokens",
    "must be less than or equal to",
    "exceeds the model limit of",
    "range of max_tokens is [1,",
    "maximum number of output tokens is",
];

/// Phrases behind the longest answer.
const MOST_BEHIND: [&str; 1] = [", which is the maximum allowed number of output tokens"];

/// Names of the parameter for the length of the answer, in lower case.
const ANSWER_NAMES: [&str; 8] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxoutputtokens",
    "max_new_tokens",
    "num_predict",
    "maximum tokens you requested",
    "maximum output tokens",
];

/// Classifies an error. `kind` is the provider's error code, or the type if there is no code.
pub(super) fn classify(status: Option<u16>, kind: &str, message: &str) -> ErrorClass {
    let (kind, words) = (kind.to_lowercase(), message.to_lowercase());
    if OVERFLOW_CODES.contains(&kind.as_str()) {
        return too_long(&words).unwrap_or(ErrorClass::Overflow(overflow(&words)));
    }
    if FINAL_CODES.contains(&kind.as_str()) {
        return ErrorClass::Refused;
    }
    if status == Some(413) {
        return ErrorClass::Overflow(overflow(&words));
    }
    if matches!(status, Some(429 | 503 | 529)) || THROTTLE_CODES.iter().any(|code| kind.contains(code)) {
        return ErrorClass::Throttled;
    }
    if let Some(class) = too_long(&words) {
        return class;
    }
    match status {
        Some(408 | 409 | 425 | 500..=599) => ErrorClass::Failed,
        None if !REFUSAL_CODES.contains(&kind.as_str()) => ErrorClass::Failed,
        Some(_) | None => ErrorClass::Refused,
    }
}

/// Classifies a message about the length of the context or of the answer; `None` for other messages.
fn too_long(words: &str) -> Option<ErrorClass> {
    let names_answer = ANSWER_NAMES.iter().any(|name| words.contains(name));
    let figures = overflow(words);
    let asks = names_answer || ANSWER.iter().any(|behind| number_behind(words, behind).is_some());
    if let (Some(limit), Some(sent), true) = (figures.limit, figures.sent, asks) {
        let left = limit.saturating_sub(sent);
        return Some(if left >= LEAST_ANSWER {
            ErrorClass::LongAnswer { most: Some(left) }
        } else {
            ErrorClass::Overflow(figures)
        });
    }
    let most = MOST_BEFORE.iter().find_map(|before| number(words, before, ""));
    let most = most.or_else(|| MOST_BEHIND.iter().find_map(|behind| number_behind(words, behind)));
    if let Some(most) = most.filter(|_| names_answer) {
        return Some(ErrorClass::LongAnswer { most: Some(most) });
    }
    if OVERFLOW_WORDS.iter().any(|sign| words.contains(sign)) {
        return Some(ErrorClass::Overflow(figures));
    }
    let is_much = ["too large", "too high", "exceed"].iter().any(|sign| words.contains(sign));
    (names_answer && is_much).then_some(ErrorClass::LongAnswer { most: None })
}

/// Reads the token counts out of a message.
fn overflow(words: &str) -> Overflow {
    let limit = LIMITS.iter().find_map(|(before, then)| number(words, before, then));
    let limit = limit.or_else(|| number_behind(words, " maximum context length"));
    let limit = limit.filter(|limit| *limit >= LEAST_LIMIT);
    let answer = || ANSWER.iter().find_map(|behind| number_behind(words, behind)).unwrap_or(0);
    let together = || TOGETHER.iter().find_map(|before| number(words, before, ""));
    let sent = SENT.iter().find_map(|before| number(words, before, ""));
    let sent = sent.or_else(|| together().map(|all| all.saturating_sub(answer())));
    Overflow { limit, sent: sent.filter(|sent| *sent > 0) }
}

/// Returns the number behind a phrase, and behind a second phrase that must come between.
fn number(words: &str, before: &str, then: &str) -> Option<u64> {
    let behind = &words[words.find(before)? + before.len()..];
    let behind = &behind[behind.find(then)? + then.len()..];
    let behind = behind.trim_start_matches([' ', '(', ':', '"', '\'', '`', '=']);
    let digits = behind.chars().take_while(|c| c.is_ascii_digit() || *c == ',');
    digits.filter(char::is_ascii_digit).collect::<String>().parse().ok().filter(|number| *number > 0)
}

/// Returns the number right before a phrase.
fn number_behind(words: &str, behind: &str) -> Option<u64> {
    let before = &words[..words.find(behind)?];
    let digits = before.rsplit(|c: char| !c.is_ascii_digit() && c != ',').next()?;
    digits.chars().filter(char::is_ascii_digit).collect::<String>().parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests;
