//! How full a context is, and whether it is time to compress it. Constant time: totals in, words out.

use serde_json::Value;

use crate::model::{InvalidField, Provider, TaskConfig};

/// How contexts are kept small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Older messages become a summary.
    #[default]
    Summarize,
    /// All but what is to be retained becomes a summary.
    Compact,
    /// The least important messages go.
    Prune,
    /// Only the newest messages stay.
    Window,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Summarize, Self::Compact, Self::Prune, Self::Window];

    /// The word used in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Summarize => "summarize",
            Self::Compact => "compact",
            Self::Prune => "prune",
            Self::Window => "window",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        let found = Self::ALL.into_iter().find(|strategy| strategy.as_str() == text);
        found.ok_or_else(|| {
            InvalidField::new("config.compression.strategy", "is not summarize, compact, prune or window")
        })
    }

    fn threshold(self) -> f64 {
        match self {
            Self::Summarize | Self::Window => 0.7,
            Self::Compact | Self::Prune => 0.8,
        }
    }
}

/// The server's own settings, for tasks that say nothing else.
#[derive(Debug, Clone, Default)]
pub struct CompressionPolicy {
    /// How.
    pub strategy: Strategy,
    /// The share of the limit at which it is time; none: the strategy's own.
    pub threshold: Option<f64>,
    /// Tokens at which it is time; wins over the share.
    pub token_threshold: Option<u64>,
    /// Bytes that a request to a provider may have; 0: no limit.
    pub max_request_bytes: u64,
    /// Who is asked for tasks that do not say.
    pub provider: Option<Provider>,
    /// Tokens that the models of a provider take, by its place in [`Provider::ALL`].
    pub context_lengths: [Option<u64>; 5],
}

impl CompressionPolicy {
    /// The bytes that a request for a task may have; none: no limit.
    pub fn request_budget(&self, config: &TaskConfig) -> Option<u64> {
        let own = config.other.get("compression").and_then(|own| own.get("max_request_bytes"));
        Some(own.and_then(Value::as_u64).unwrap_or(self.max_request_bytes)).filter(|bytes| *bytes > 0)
    }
}

impl CompressionPolicy {
    /// The limit of a task that names none.
    fn limit(&self, provider: &str) -> (u64, LimitSource) {
        let asked = if provider.is_empty() { self.provider } else { Provider::parse(provider) };
        let word = asked.map_or(provider, |provider| provider.as_str());
        let length = asked.and_then(|provider| self.context_lengths[provider as usize]);
        length.map_or((usual_limit(word), LimitSource::Default), |length| (length, LimitSource::Server))
    }
}

/// Where the limit of a context comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The task's configuration.
    Task,
    /// The server's configuration of the provider.
    Server,
    /// A guess by provider.
    Default,
}

impl LimitSource {
    /// The word that callers are told.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Server => "server",
            Self::Default => "default",
        }
    }
}

/// How urgent it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Below 60 % of the limit.
    Normal,
    /// Below 80 %.
    Warn,
    /// Below 90 %.
    Prune,
    /// Up to the limit.
    Aggressive,
    /// Over it.
    Emergency,
}

impl Stage {
    /// The word that callers are told.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Warn => "WARN",
            Self::Prune => "PRUNE",
            Self::Aggressive => "AGGRESSIVE",
            Self::Emergency => "EMERGENCY",
        }
    }

    fn of(ratio: f64) -> Self {
        match ratio {
            ratio if ratio < 0.6 => Self::Normal,
            ratio if ratio < 0.8 => Self::Warn,
            ratio if ratio < 0.9 => Self::Prune,
            ratio if ratio <= 1.0 => Self::Aggressive,
            _ => Self::Emergency,
        }
    }
}

/// How full a context is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// Tokens of the view.
    pub tokens: u64,
    /// Tokens the model takes.
    pub limit: u64,
    /// Where that comes from.
    pub source: LimitSource,
    /// The one divided by the other.
    pub ratio: f64,
    /// How urgent it is.
    pub stage: Stage,
    /// Whether the threshold is reached.
    pub should_compress: bool,
}

impl Pressure {
    /// Of a view of so many tokens.
    pub fn of(tokens: u64, config: &TaskConfig, policy: &CompressionPolicy) -> Self {
        let own = config.other.get("compression");
        let own = |key: &str| own.and_then(|compression| compression.get(key));
        let (limit, source) = match config.context_length.filter(|limit| *limit > 0) {
            Some(limit) => (limit, LimitSource::Task),
            None => policy.limit(&config.llm_provider),
        };
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits than an f64 has")]
        let ratio = tokens as f64 / limit as f64;
        let strategy = own("strategy").and_then(Value::as_str).and_then(|text| Strategy::parse(text).ok());
        let own_share = own("threshold").and_then(Value::as_f64);
        let share = own_share
            .or_else(|| strategy.is_none().then_some(policy.threshold).flatten())
            .unwrap_or_else(|| strategy.unwrap_or(policy.strategy).threshold());
        // What the task says wins over what the server says, whichever of the two forms it has.
        let fixed = own("token_threshold").and_then(Value::as_u64);
        let fixed = fixed.or(policy.token_threshold.filter(|_| own_share.is_none()));
        let should_compress = fixed.map_or(ratio >= share, |fixed| tokens >= fixed);
        Self { tokens, limit, source, ratio, stage: Stage::of(ratio), should_compress }
    }
}

/// What models of a provider usually take.
fn usual_limit(provider: &str) -> u64 {
    match provider {
        "anthropic" => 200_000,
        "ollama" | "lmstudio" => 32_768,
        _ => 128_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: &str) -> TaskConfig {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_limit_is_the_tasks_or_the_servers_or_a_guess() {
        let mut policy = CompressionPolicy::default();
        let limit = |policy: &CompressionPolicy, json: &str| {
            let pressure = Pressure::of(1, &config(json), policy);
            (pressure.limit, pressure.source.as_str())
        };
        assert_eq!(limit(&policy, r#"{"llm_provider":"ollama"}"#), (32_768, "default"));
        policy.context_lengths[Provider::Ollama as usize] = Some(8192);
        assert_eq!(limit(&policy, r#"{"llm_provider":"ollama"}"#), (8192, "server"));
        assert_eq!(limit(&policy, r#"{"llm_provider":"ollama","context_length":5}"#), (5, "task"));
        assert_eq!(limit(&policy, "{}"), (128_000, "default"));
        policy.provider = Some(Provider::Ollama);
        assert_eq!(limit(&policy, "{}"), (8192, "server"));
        assert_eq!(limit(&policy, r#"{"llm_provider":"another"}"#), (128_000, "default"));
    }

    #[test]
    fn stages_are_as_the_table_says() {
        let config = config(r#"{"context_length":1000}"#);
        for (tokens, stage) in [
            (0, Stage::Normal),
            (599, Stage::Normal),
            (600, Stage::Warn),
            (800, Stage::Prune),
            (900, Stage::Aggressive),
            (1000, Stage::Aggressive),
            (1001, Stage::Emergency),
        ] {
            assert_eq!(Pressure::of(tokens, &config, &CompressionPolicy::default()).stage, stage, "{tokens}");
        }
    }

    #[test]
    fn the_task_wins_over_the_server_and_tokens_over_shares() {
        let server = CompressionPolicy { threshold: Some(0.5), ..CompressionPolicy::default() };
        let due = |json: &str, tokens, server: &CompressionPolicy| {
            Pressure::of(tokens, &config(json), server).should_compress
        };
        let plain = r#"{"context_length":1000}"#;
        assert!(
            !due(plain, 699, &CompressionPolicy::default()) && due(plain, 700, &CompressionPolicy::default())
        );
        assert!(!due(plain, 499, &server) && due(plain, 500, &server));
        let prune = r#"{"context_length":1000,"compression":{"strategy":"prune"}}"#;
        assert!(!due(prune, 799, &server) && due(prune, 800, &server));
        let share = r#"{"context_length":1000,"compression":{"threshold":0.9}}"#;
        let fixed = CompressionPolicy { token_threshold: Some(10), ..server };
        assert!(!due(share, 899, &fixed) && due(share, 900, &fixed));
        let tokens = r#"{"context_length":1000,"compression":{"threshold":0.1,"token_threshold":300}}"#;
        assert!(!due(tokens, 299, &server) && due(tokens, 300, &server));
    }

    #[test]
    fn the_limit_is_guessed_by_provider() {
        for (provider, limit) in
            [("openai", 128_000), ("anthropic", 200_000), ("ollama", 32_768), ("", 128_000)]
        {
            let config = TaskConfig { llm_provider: provider.to_owned(), ..TaskConfig::default() };
            let pressure = Pressure::of(1, &config, &CompressionPolicy::default());
            assert_eq!((pressure.limit, pressure.source), (limit, LimitSource::Default));
        }
    }
}
