//! The LLM gateway: sends a prepared request body to a provider and streams the answer as events.
//!
//! Chats and summaries use the same gateway. The events are the same for every provider. The gateway knows no tasks
//! and writes no files.

mod answer;
mod body;
mod decode;
mod error;
mod error_class;
mod frames;
mod key;
mod message;
mod params;
mod settings;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use reqwest::Client;

pub use answer::Answer;
pub use body::Payload;
pub use decode::{AnswerEvent, ToolCallDelta, Usage};
pub use error::LlmError;
pub use error_class::ErrorClass;
pub use message::AnswerMessage;
pub use params::{answer_tokens, thinks, with_answer};
pub use settings::{LlmSettings, ProviderSettings};

use contextstore_base::{infra, model};
use key::ApiKey;
use model::{InvalidField, Provider};

/// Time that an idle connection stays open.
const KEPT_ALIVE: Duration = Duration::from_secs(90);
/// Version of Anthropic's API.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Sends requests to the configured providers.
#[derive(Debug)]
pub struct Gateway {
    config: LlmSettings,
    /// One HTTP client per provider, created on first use.
    clients: [OnceLock<Result<Client, String>>; 5],
}

/// A request that is ready to be sent.
#[derive(Debug, Clone)]
pub struct LlmRequest {
    /// The provider that receives the request.
    pub provider: Provider,
    /// The request body.
    pub payload: Payload,
}

impl Gateway {
    /// Returns a gateway. It opens no connection yet.
    pub fn new(config: LlmSettings) -> Arc<Self> {
        Arc::new(Self { config, clients: std::array::from_fn(|_| OnceLock::new()) })
    }

    /// Returns the provider for calls and tasks that name none.
    pub fn default_provider(&self) -> Option<Provider> {
        self.config.provider
    }

    /// Returns the configured model of a provider, for calls and tasks that name none.
    pub fn default_model(&self, provider: Provider) -> Option<&str> {
        self.config.of(provider).model.as_deref()
    }

    /// Returns the configured context length of a provider's models, in tokens.
    pub fn context_length(&self, provider: Provider) -> Option<u64> {
        self.config.of(provider).context_length
    }

    /// Returns the configured limit of a provider's answers, in tokens.
    pub fn max_output_tokens(&self, provider: Provider) -> Option<u64> {
        self.config.of(provider).max_output_tokens
    }

    /// Checks that the configuration has what a request to this provider and model needs.
    pub fn check(&self, provider: Provider, model: Option<&str>) -> Result<(), LlmError> {
        if model.is_none() {
            let problem = format!(
                "no model is named, in the call, in the task's configuration, or as llm.providers.{}.model",
                provider.as_str()
            );
            return Err(LlmError::NotConfigured { provider, problem });
        }
        self.key(provider)?;
        self.client(provider).map(drop)
    }

    /// Returns the parameters of a request, completed with those that streaming and the configuration add.
    pub fn params(
        &self,
        provider: Provider,
        model: &str,
        params_json: &str,
        window: u64,
    ) -> Result<String, InvalidField> {
        params::complete(provider, self.config.of(provider), model, params_json, window)
    }

    /// Returns the answer to a request. The request is sent when the first event is read.
    pub fn send(self: &Arc<Self>, request: LlmRequest) -> Answer {
        Answer::new(Arc::clone(self), request)
    }

    fn key(&self, provider: Provider) -> Result<Option<ApiKey>, LlmError> {
        let path = format!("llm.providers.{}", provider.as_str());
        let wrong = |problem| LlmError::NotConfigured { provider, problem: format!("{path}: {problem}") };
        ApiKey::read(self.config.of(provider)).map_err(wrong)
    }

    fn client(&self, provider: Provider) -> Result<&Client, LlmError> {
        let made = self.clients[provider as usize].get_or_init(|| self.make_client(provider));
        made.as_ref().map_err(|problem| LlmError::NotConfigured { provider, problem: problem.clone() })
    }

    fn make_client(&self, provider: Provider) -> Result<Client, String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url: http::Uri = self.config.of(provider).base_url.parse().unwrap_or_default();
        let mut builder = Client::builder()
            .user_agent(concat!("contextstore/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.config.connect_timeout)
            .pool_idle_timeout(KEPT_ALIVE)
            .tcp_nodelay(true)
            // A redirect would send the key and the context to another address.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        if url.scheme_str() == Some("http") {
            // A machine without root certificates can still use providers over plain HTTP.
            builder = builder.tls_certs_only([]);
        }
        builder.build().map_err(|error| format!("no client can be made: {}", crate::model::in_full(&error)))
    }
}

fn is_loopback(url: &http::Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns the URL of a provider's endpoint.
fn endpoint(provider: Provider, config: &ProviderSettings) -> String {
    let base = &config.base_url;
    match provider {
        Provider::OpenAi | Provider::LmStudio => format!("{base}/chat/completions"),
        Provider::OpenAiResponses => format!("{base}/responses"),
        // The official packages accept the base URL with or without the version.
        Provider::Anthropic => format!("{}/v1/messages", base.trim_end_matches("/v1")),
        Provider::Ollama => format!("{}/api/chat", base.trim_end_matches("/api")),
    }
}

/// Returns the headers that a provider requires.
fn headers(provider: Provider, key: Option<&ApiKey>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = match provider {
        Provider::Ollama => "application/x-ndjson",
        Provider::OpenAi | Provider::OpenAiResponses | Provider::Anthropic | Provider::LmStudio => {
            "text/event-stream"
        }
    };
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    if provider == Provider::Anthropic {
        headers.insert("anthropic-version", ANTHROPIC_VERSION);
        headers
            .extend(key.and_then(|key| Some((http::HeaderName::from_static("x-api-key"), key.header("")?))));
    } else {
        headers.extend(key.and_then(|key| Some((header::AUTHORIZATION, key.header("Bearer ")?))));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_not_for_this_machine() {
        for (url, is) in [
            ("http://127.0.0.1:11434", true),
            ("http://[::1]:1/v1", true),
            ("http://localhost/v1", true),
            ("https://api.openai.com/v1", false),
            ("http://10.0.0.1:8000", false),
        ] {
            assert_eq!(is_loopback(&url.parse().unwrap()), is, "{url}");
        }
    }
}
