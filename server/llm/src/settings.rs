//! The settings of the gateway: providers, addresses, keys and time-outs.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::Provider;

/// Who is asked, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmSettings {
    /// Who is asked if neither the call nor the task says.
    pub provider: Option<Provider>,
    /// For making a connection.
    pub connect_timeout: Duration,
    /// From the last byte of the request to the first of the answer.
    pub first_byte_timeout: Duration,
    /// Between two pieces of the answer.
    pub idle_timeout: Duration,
    /// How often a request is sent again.
    pub retries: u32,
    /// The longest pause that a provider may ask for.
    pub max_retry_after: Duration,
    /// By the place of the provider in [`Provider::ALL`].
    pub providers: [ProviderSettings; 5],
}

/// One provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    /// What comes before the path of the API.
    pub base_url: String,
    /// The variable of the environment that holds the key.
    pub api_key_env: Option<String>,
    /// The file that holds the key; wins over the variable.
    pub api_key_file: Option<PathBuf>,
    /// The model that is asked if neither the call nor the task says.
    pub model: Option<String>,
    /// Most tokens of an answer, if the call does not say.
    pub max_output_tokens: Option<u64>,
    /// Tokens that the model takes, for tasks that do not say.
    pub context_length: Option<u64>,
    /// For one answer, with everything.
    pub timeout: Duration,
}

impl LlmSettings {
    /// What is configured of a provider.
    pub fn of(&self, provider: Provider) -> &ProviderSettings {
        &self.providers[provider as usize]
    }

    /// Before anything is read.
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
