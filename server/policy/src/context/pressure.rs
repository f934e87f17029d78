//! How full a context is, and whether it is time to compress it. Constant time: totals in, words out.

use super::Policy;
use crate::model::InvalidField;

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

    pub(super) fn threshold(self) -> f64 {
        match self {
            Self::Summarize | Self::Window => 0.7,
            Self::Compact | Self::Prune => 0.8,
        }
    }
}

/// Where the limit of a context comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The task's configuration.
    Task,
    /// The server's configuration.
    Server,
    /// What is well known of the model.
    Model,
    /// A guess by provider.
    Default,
    /// The provider refused more.
    Provider,
}

impl LimitSource {
    /// The word that callers are told.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Server => "server",
            Self::Model => "model",
            Self::Default => "default",
            Self::Provider => "provider",
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
    /// Whether it is to be compressed now, without being asked.
    pub due: bool,
    /// Whether what has to stay is too large by itself, as the last try has found.
    pub over: bool,
    /// If a model summarises: whether it is not asked for now, as it failed too often.
    pub breaker_open: Option<bool>,
}

impl Pressure {
    /// Of a view of so many tokens.
    pub fn of(tokens: u64, policy: &Policy) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits than an f64 has")]
        let ratio = tokens as f64 / policy.limit as f64;
        Self {
            tokens,
            limit: policy.limit,
            source: policy.limit_source,
            ratio,
            stage: Stage::of(ratio),
            should_compress: tokens >= policy.threshold_tokens,
            due: false,
            over: false,
            breaker_open: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ServerPolicy;

    #[test]
    fn stages_are_as_the_table_says() {
        let config = serde_json::from_str(r#"{"context_length":1000}"#).unwrap();
        let policy = Policy::resolve(None, &config, &ServerPolicy::default());
        for (tokens, stage) in [
            (0, Stage::Normal),
            (599, Stage::Normal),
            (600, Stage::Warn),
            (800, Stage::Prune),
            (900, Stage::Aggressive),
            (1000, Stage::Aggressive),
            (1001, Stage::Emergency),
        ] {
            assert_eq!(Pressure::of(tokens, &policy).stage, stage, "{tokens}");
        }
    }
}
