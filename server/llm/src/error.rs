//! Errors of the gateway. They quote the provider's message where there is one, and never contain a key.

use std::time::Duration;

use serde_json::Value;

use super::error_class::ErrorClass;
use crate::model::Provider;

/// Bytes of a provider's message that are kept.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The reason why a request has no answer, or only a part of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// The configuration lacks something that this provider needs.
    #[error("{provider} cannot be asked: {problem}", provider = .provider.as_str())]
    NotConfigured {
        /// The provider.
        provider: Provider,
        /// The missing setting, with its configuration key.
        problem: String,
    },
    /// The provider refuses the request and would refuse it again.
    #[error("{provider} refused the request with {status}{}: {message}", in_brackets(.kind), provider = .provider.as_str())]
    Refused {
        /// The provider.
        provider: Provider,
        /// The HTTP status.
        status: u16,
        /// The provider's error code or type.
        kind: String,
        /// The provider's message.
        message: String,
        /// The class of the error.
        class: ErrorClass,
    },
    /// The request failed in a way that can pass.
    #[error("{provider} failed: {problem}", provider = .provider.as_str())]
    Failed {
        /// The provider.
        provider: Provider,
        /// The problem.
        problem: String,
        /// The pause that the provider asks for.
        retry_after: Option<Duration>,
    },
}

impl LlmError {
    /// Returns the class of a refusal, or `None` for other errors.
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Refused { class, .. } => Some(*class),
            Self::NotConfigured { .. } | Self::Failed { .. } => None,
        }
    }

    /// Returns true if the provider could accept a shorter request.
    pub fn is_overflow(&self) -> bool {
        matches!(self.class(), Some(ErrorClass::Overflow(_)))
    }
}

fn in_brackets(kind: &str) -> String {
    if kind.is_empty() { String::new() } else { format!(" ({kind})") }
}

/// An error in a provider's format: as the response body, or as an event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ErrorBody {
    /// The HTTP status, if the error code is a number.
    pub(super) status: Option<u16>,
    /// The error code, or the error type if there is no textual code.
    pub(super) kind: String,
    /// The message.
    pub(super) message: String,
}

impl ErrorBody {
    /// Reads the formats of all providers: `{"error":{"code","type","message"}}`, `{"error":"…"}`,
    /// `{"response":{"error":{…}}}`, `{"message":"…"}`, `{"detail":…}`, also in an array. Any other body becomes the
    /// message.
    pub(super) fn read(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            return Self { message: text.to_owned(), ..Self::default() };
        };
        let value = value.get(0).unwrap_or(&value);
        let within = |value: &Value| value.get("error").filter(|error| !error.is_null()).cloned();
        let inner = within(value).or_else(|| within(value.get("response")?));
        let error = inner.as_ref().unwrap_or(value);
        let number = error.get("code").and_then(as_number);
        let status =
            number.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
        let kind = word(error, &["code", "type", "status", "__type"]);
        let kind = kind.or_else(|| word(value, &["error_type"])).unwrap_or_default();
        let message = error.as_str().map(str::to_owned).or_else(|| word(error, &["message", "detail"]));
        let mut message = message.unwrap_or_else(|| text.to_owned());
        // A proxy can wrap the provider's own error.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            message = format!("{message}: {raw}");
        }
        // llama.cpp states its limits in fields beside the message.
        if let Some(limit) = error.get("n_ctx").filter(|_| !message.contains("tokens)")) {
            message = format!("{message} (n_ctx {limit})");
        }
        Self { status, kind, message }
    }
}

/// Returns a number, also from text.
fn as_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns the first of some fields that holds text.
fn word(value: &Value, names: &[&str]) -> Option<String> {
    let words = names.iter().filter_map(|name| value.get(name)?.as_str());
    let is_status = |word: &str| word.parse::<u16>().is_ok_and(|number| (400..600).contains(&number));
    words.filter(|word| !word.is_empty() && *word != "error" && !is_status(word)).map(str::to_owned).next()
}

/// Returns a provider's message for logs and errors: bounded, on one line, and without the key.
pub(super) fn quoted(text: &str, key: Option<&str>) -> String {
    let mut text = text.to_owned();
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        text = text.replace(key, "[key]");
    }
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.len() <= MAX_MESSAGE_BYTES {
        return text;
    }
    format!("{} …", &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_every_provider_are_found() {
        for (body, kind, message) in [
            (
                r#"{"error":{"message":"no","type":"invalid_request_error","code":null}}"#,
                "invalid_request_error",
                "no",
            ),
            (
                r#"{"error":{"message":"no","type":"t","code":"insufficient_quota"}}"#,
                "insufficient_quota",
                "no",
            ),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "overloaded_error",
                "Overloaded",
            ),
            (r#"{"error":"model 'x' not found"}"#, "", "model 'x' not found"),
            (
                r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#,
                "BadRequestError",
                "too long",
            ),
            (r#"{"detail":"Not Found"}"#, "", "Not Found"),
            ("<html>Bad Gateway</html>\n", "", "<html>Bad Gateway</html>"),
            ("", "", ""),
            ("[1]", "", "[1]"),
        ] {
            let said = ErrorBody::read(body.as_bytes());
            assert_eq!((said.kind.as_str(), said.message.as_str()), (kind, message), "{body}");
        }
    }

    #[test]
    fn what_is_told_has_no_key_and_an_end() {
        assert_eq!(quoted("Incorrect API key: sk-1\nsee", Some("sk-1")), "Incorrect API key: [key] see");
        let long = quoted(&"é".repeat(5000), None);
        assert!(long.len() <= MAX_MESSAGE_BYTES + 4 && long.ends_with(" …"));
    }
}
