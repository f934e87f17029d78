//! The settings of the gateway: providers, addresses, keys and time-outs.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::Provider;

/// Settings of the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmSettings {
    /// The provider for calls and tasks that name none.
    pub provider: Option<Provider>,
    /// Time-out for opening a connection.
    pub connect_timeout: Duration,
    /// Time-out from the last byte of the request to the first byte of the answer.
    pub first_byte_timeout: Duration,
    /// Time-out between two pieces of the answer.
    pub idle_timeout: Duration,
    /// Retries per request.
    pub retries: u32,
    /// Longest pause that a provider can ask for.
    pub max_retry_after: Duration,
    /// Indexed like [`Provider::ALL`].
    pub providers: [ProviderSettings; 5],
}

/// Settings of one provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    /// The URL in front of the API's path.
    pub base_url: String,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The file that holds the key. It takes precedence over the variable.
    pub api_key_file: Option<PathBuf>,
    /// The model for calls and tasks that name none.
    pub model: Option<String>,
    /// Limit of an answer, in tokens, for calls that set none.
    pub max_output_tokens: Option<u64>,
    /// Context length of the models, in tokens, for tasks that set none.
    pub context_length: Option<u64>,
    /// Time-out for a whole answer.
    pub timeout: Duration,
}

impl LlmSettings {
    /// Returns the settings of a provider.
    pub fn of(&self, provider: Provider) -> &ProviderSettings {
        &self.providers[provider as usize]
    }

    /// Returns empty settings, which the configuration then fills.
    pub fn blank() -> Self {
        let provider = ProviderSettings {
            base_url: String::new(),
            api_key_env: None,
            api_key_file: None,
            model: None,
            max_output_tokens: None,
            context_length: None,
            timeout: Duration::ZERO,
        };
        Self {
            provider: None,
            connect_timeout: Duration::ZERO,
            first_byte_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            retries: 0,
            max_retry_after: Duration::ZERO,
            providers: std::array::from_fn(|_| provider.clone()),
        }
    }
}
