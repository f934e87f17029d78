//! What a provider answers to a request that it does not take, in its own form and words.

use std::fmt;

use serde_json::{Value, json};

use crate::Provider;

/// A request refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The provider's `error.type`; empty for Ollama, which has none.
    pub kind: &'static str,
    /// The provider's `error.code`.
    pub code: Option<&'static str>,
    /// The provider's `error.param`.
    pub param: Option<String>,
    /// The provider's words.
    pub message: String,
}

impl Refusal {
    /// A refusal of a request that is wrong in itself.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, kind: "invalid_request_error", code: None, param: None, message: message.into() }
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    pub(crate) fn status(self, status: u16, kind: &'static str) -> Self {
        Self { status, kind, ..self }
    }

    /// The body of the answer, as the provider writes it.
    pub fn body(&self, provider: Provider) -> Value {
        match provider {
            Provider::OpenAi | Provider::OpenAiResponses | Provider::LmStudio => json!({"error": {
                "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
            }}),
            Provider::Anthropic => json!({
                "type": "error",
                "error": {"type": self.kind, "message": self.message},
                "request_id": "req_fake",
            }),
            Provider::Ollama => json!({"error": self.message}),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.message)?;
        if let Some(param) = &self.param {
            write!(f, " (param {param})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
