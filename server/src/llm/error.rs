//! Why a provider gave no answer. The words are the provider's own where it has some; no key is ever among them.

use std::time::Duration;

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

/// How providers say that a request has more tokens or bytes than a model takes, in lower case.
const TOO_LONG: [&str; 16] = [
    "context_length_exceeded",
    "maximum context length",
    "context length",
    "context window",
    "context limit",
    "context size",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input too long",
    "too many tokens",
    "too many input tokens",
    "request too large",
    "request_too_large",
    "exceeds the maximum size",
    "string too long",
];

/// What stands before the limit where a refusal names it; what has to follow first, if anything.
const TOLD_LIMITS: [(&str, &str); 8] = [
    ("context length is", ""),
    ("context length of only", ""),
    ("context length of", ""),
    ("context size (", ""),
    ("context window of", ""),
    // `199000 + 8000 > 200000`
    ("exceed context limit:", ">"),
    ("n_ctx\":", ""),
    ("tokens >", ""),
];

impl LlmError {
    /// What the model takes, if a refusal of a context that is too long says it.
    pub fn told_limit(&self) -> Option<u64> {
        let words = match self {
            Self::NotConfigured { .. } => return None,
            Self::Refused { message, .. } => message,
            Self::Failed { problem, .. } => problem,
        }
        .to_lowercase();
        TOLD_LIMITS.iter().find_map(|(before, then)| {
            let behind = &words[words.find(before)? + before.len()..];
            let behind = &behind[behind.find(then)? + then.len()..];
            let digits = behind.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',');
            digits.filter(char::is_ascii_digit).collect::<String>().parse().ok().filter(|limit| *limit > 0)
        })
    }

    /// Whether a shorter request might be taken.
    pub fn is_overflow(&self) -> bool {
        let says = |words: &str| {
            let words = words.to_lowercase();
            TOO_LONG.iter().any(|sign| words.contains(sign))
        };
        match self {
            Self::NotConfigured { .. } => false,
            Self::Refused { status: 413, .. } => true,
            Self::Refused { kind, message, .. } => says(kind) || says(message),
            // Some take the request, and say so where the answer should be.
            Self::Failed { problem, .. } => says(problem),
        }
    }
}

fn in_brackets(kind: &str) -> String {
    if kind.is_empty() { String::new() } else { format!(" ({kind})") }
}

/// What a provider says, in the body of an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Said {
    pub(super) kind: String,
    pub(super) message: String,
}

impl Said {
    /// Reads the forms that providers have for it: `{"error":{"type","message"}}`, `{"error":"…"}`,
    /// `{"message":"…"}`, `{"detail":…}`; anything else is told as it is.
    pub(super) fn read(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else {
            return Self { kind: String::new(), message: text.trim().to_owned() };
        };
        let word = |value: &serde_json::Value, names: &[&str]| {
            names.iter().find_map(|name| value.get(name)?.as_str().map(str::to_owned)).unwrap_or_default()
        };
        let error = value.get("error").unwrap_or(&value);
        let message = match error {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Object(_) => word(error, &["message", "detail"]),
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::Array(_) => String::new(),
        };
        let message = if message.is_empty() { text.trim().to_owned() } else { message };
        Self { kind: word(error, &["code", "type"]), message }
    }
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

    fn refused(status: u16, kind: &str, message: &str) -> LlmError {
        let (kind, message) = (kind.to_owned(), message.to_owned());
        LlmError::Refused { provider: Provider::OpenAi, status, kind, message }
    }

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
            let said = Said::read(body.as_bytes());
            assert_eq!((said.kind.as_str(), said.message.as_str()), (kind, message), "{body}");
        }
    }

    #[test]
    fn a_request_that_is_too_long_is_known_by_the_words() {
        for (status, kind, message) in [
            (
                400,
                "context_length_exceeded",
                "This model's maximum context length is 128000 tokens. However, …",
            ),
            (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
            (400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 3"),
            (413, "", ""),
            (400, "BadRequestError", "Please reduce the length of the input; the context window is full"),
            (400, "exceed_context_size_error", "the request exceeds the available context size"),
        ] {
            assert!(refused(status, kind, message).is_overflow(), "{message}");
        }
        for (status, kind, message) in [
            (400, "invalid_request_error", "max_tokens is too large: 20000"),
            (401, "authentication_error", "Incorrect API key provided."),
            (404, "", "model 'x' not found"),
        ] {
            assert!(!refused(status, kind, message).is_overflow(), "{message}");
        }
        let failed = |problem: &str| LlmError::Failed {
            provider: Provider::LmStudio,
            problem: problem.to_owned(),
            retry_after: None,
        };
        assert!(failed("it gave up (context_length_exceeded): too much").is_overflow());
        assert!(!failed("it cannot be reached: connection refused").is_overflow());
    }

    #[test]
    fn the_limit_is_read_where_a_refusal_names_it() {
        let told = |message: &str| refused(400, "", message).told_limit();
        let openai =
            "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens";
        assert_eq!(told(openai), Some(8192));
        assert_eq!(told("prompt is too long: 208310 tokens > 200,000 maximum"), Some(200_000));
        assert_eq!(told("the request exceeds the available context size (4096 tokens)"), Some(4096));
        assert_eq!(told("the prompt exceeds a context length of only 2048 tokens"), Some(2048));
        let with_answer =
            "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000, decrease input";
        assert_eq!(told(with_answer), Some(200_000));
        assert_eq!(told("input length and `max_tokens` exceed context limit: 199000"), None);
        assert_eq!(told("Please reduce the length of the input"), None);
    }

    #[test]
    fn what_is_told_has_no_key_and_an_end() {
        assert_eq!(told("Incorrect API key: sk-1\nsee", Some("sk-1")), "Incorrect API key: [key] see");
        let long = told(&"é".repeat(5000), None);
        assert!(long.len() <= MAX_MESSAGE_BYTES + 4 && long.ends_with(" …"));
    }
}
