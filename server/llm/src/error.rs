//! Why a provider gave no answer. The words are the provider's own where it has some; no key is ever among them.

use std::time::Duration;

use serde_json::Value;

use super::verdict::ErrorClass;
use crate::model::Provider;

/// Most bytes that are kept of what a provider says.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Why there is no answer, or only a part of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// The server was not told what it needs to ask this provider.
    #[error("{provider} cannot be asked: {problem}", provider = .provider.as_str())]
    NotConfigured {
        /// Who.
        provider: Provider,
        /// What is missing, with the key of the configuration.
        problem: String,
    },
    /// The provider does not take the request; the same one would be refused again.
    #[error("{provider} refused the request with {status}{}: {message}", in_brackets(.kind), provider = .provider.as_str())]
    Refused {
        /// Who.
        provider: Provider,
        /// The status of HTTP.
        status: u16,
        /// The provider's word for it.
        kind: String,
        /// The provider's words.
        message: String,
        /// What they mean.
        verdict: ErrorClass,
    },
    /// It failed in a way that may pass.
    #[error("{provider} failed: {problem}", provider = .provider.as_str())]
    Failed {
        /// Who.
        provider: Provider,
        /// What happened.
        problem: String,
        /// The pause that the provider asks for.
        retry_after: Option<Duration>,
    },
}

impl LlmError {
    /// What a refusal means; none if nothing was refused.
    pub fn verdict(&self) -> Option<ErrorClass> {
        match self {
            Self::Refused { verdict, .. } => Some(*verdict),
            Self::NotConfigured { .. } | Self::Failed { .. } => None,
        }
    }

    /// Whether a shorter request might be taken.
    pub fn is_overflow(&self) -> bool {
        matches!(self.verdict(), Some(ErrorClass::Overflow(_)))
    }
}

fn in_brackets(kind: &str) -> String {
    if kind.is_empty() { String::new() } else { format!(" ({kind})") }
}

/// An error as a provider writes it, wherever it comes: as the answer, or as an event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ErrorBody {
    /// The status that it means, where its code is a number.
    pub(super) status: Option<u16>,
    /// Its code, or its type if that is no word.
    pub(super) kind: String,
    /// Its words.
    pub(super) message: String,
}

impl ErrorBody {
    /// Reads the forms that providers have for it: `{"error":{"code","type","message"}}`, `{"error":"…"}`,
    /// `{"response":{"error":{…}}}`, `{"message":"…"}`, `{"detail":…}`, also in an array; anything else is told as it is.
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
        // Who stands before the provider may have wrapped what that says.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            message = format!("{message}: {raw}");
        }
        // llama.cpp states what it takes beside its words.
        if let Some(limit) = error.get("n_ctx").filter(|_| !message.contains("tokens)")) {
            message = format!("{message} (n_ctx {limit})");
        }
        Self { status, kind, message }
    }
}

/// A number, also as text.
fn as_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The first of some fields that has a word in it.
fn word(value: &Value, names: &[&str]) -> Option<String> {
    let words = names.iter().filter_map(|name| value.get(name)?.as_str());
    let is_status = |word: &str| word.parse::<u16>().is_ok_and(|number| (400..600).contains(&number));
    words.filter(|word| !word.is_empty() && *word != "error" && !is_status(word)).map(str::to_owned).next()
}

/// A provider's words as they may be told: of bounded length, on one line, and without the key.
pub(super) fn told(text: &str, key: Option<&str>) -> String {
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
        assert_eq!(told("Incorrect API key: sk-1\nsee", Some("sk-1")), "Incorrect API key: [key] see");
        let long = told(&"é".repeat(5000), None);
        assert!(long.len() <= MAX_MESSAGE_BYTES + 4 && long.ends_with(" …"));
    }
}
