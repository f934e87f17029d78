//! How the context of a task is kept small: what the call, the task and the server say, put together.
//!
//! [`Settings`] is what one of them says; everything in it may be left out. [`Policy`] is what holds then, with nothing left
//! out.

use serde::{Deserialize, Serialize};

use super::{LimitSource, Strategy};
use crate::model::Provider;

/// What somebody says about keeping contexts small.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// See `CompressionConfig` of the API.
    pub compression: CompressionSettings,
    /// See `PruneConfig`.
    pub prune: PruneSettings,
    /// See `WindowConfig`.
    pub window: WindowSettings,
    /// See `InheritanceConfig`.
    pub inheritance: InheritanceSettings,
}

/// The keys `compression.*`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each field is the key of its name")]
pub struct CompressionSettings {
    pub enabled: Option<bool>,
    pub auto: Option<bool>,
    pub strategy: Option<String>,
    pub threshold: Option<f64>,
    pub token_threshold: Option<u64>,
    pub keep_recent_messages: Option<u64>,
    pub min_messages: Option<u64>,
    pub complexity: Option<String>,
    pub preset: Option<String>,
    pub summarizer: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub summary_prompt: Option<String>,
    pub final_summary_prompt: Option<String>,
    pub summary_directives: Option<Vec<String>>,
    pub retain_prompt: Option<String>,
    pub retain_directives: Option<Vec<String>>,
    pub retain_last_turns: Option<u64>,
    pub structured: Option<bool>,
    pub keep_plan: Option<bool>,
    pub summary_tokens: Option<u64>,
}

/// The keys `prune.*`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each field is the key of its name")]
pub struct PruneSettings {
    pub target: Option<f64>,
    pub recency_weight: Option<f64>,
    pub role_weight: Option<f64>,
    pub content_weight: Option<f64>,
}

/// The keys `window.*`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each field is the key of its name")]
pub struct WindowSettings {
    pub messages: Option<u64>,
    pub tokens: Option<u64>,
}

/// The keys `inheritance.*`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each field is the key of its name")]
pub struct InheritanceSettings {
    pub enabled: Option<bool>,
    pub max_summary_tokens: Option<u64>,
}

/// How `prune` scores, as only the server says it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scoring {
    /// What a role counts: user, assistant, tool, system and developer, any other.
    pub roles: [f64; 5],
    /// Words that make a message count more, in lower case.
    pub keywords: Vec<String>,
    /// Characters below which a message counts less.
    pub short_length: u64,
    /// What the content of such a message is multiplied by.
    pub short_penalty: f64,
    /// Messages that are missing in one place before they are summarised rather than noted.
    pub min_gap_for_summary: u64,
    /// Characters of each message that a summary of a gap is made of.
    pub gap_message_chars: u64,
    /// Tokens of a summary of a gap.
    pub gap_max_tokens: u64,
    /// How freely the LLM writes it.
    pub gap_temperature: f64,
}

/// Who summarises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Summarizer {
    /// The LLM if there is one, else the built-in one.
    #[default]
    Auto,
    /// The LLM.
    Llm,
    /// The built-in one.
    Extractive,
}

/// How a context is kept small.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Whether it is, other than by Compress.
    pub enabled: bool,
    /// Whether that happens by itself.
    pub auto: bool,
    /// How.
    pub strategy: Strategy,
    /// Tokens that the model takes.
    pub limit: u64,
    /// Where that comes from.
    pub limit_source: LimitSource,
    /// Tokens at which it is time.
    pub threshold_tokens: u64,
    /// Messages at the end that `summarize` keeps.
    pub keep_recent_messages: u64,
    /// Messages that there must be to summarise.
    pub min_messages: u64,
    /// Who summarises.
    pub summarizer: Summarizer,
    /// The provider that summarises; none: nobody is configured.
    pub provider: Option<Provider>,
    /// The model that summarises; none: the provider's.
    pub model: Option<String>,
    /// What the summariser is asked, if not the built-in words.
    pub summary_prompt: Option<String>,
    /// The same at the end of a task.
    pub final_summary_prompt: Option<String>,
    /// Added to that.
    pub summary_directives: Vec<String>,
    /// What `compact` asks to be kept.
    pub retain_prompt: Option<String>,
    /// Added to that.
    pub retain_directives: Vec<String>,
    /// Turns at the end that `compact` keeps.
    pub retain_last_turns: u64,
    /// Whether summaries have fixed sections.
    pub structured: bool,
    /// Whether the newest plan stays in the view.
    pub keep_plan: bool,
    /// Most tokens of a summary; none: a third of what it stands for, at most a tenth of the limit.
    pub summary_tokens: Option<u64>,
    /// The share of the limit that `prune` leaves.
    pub prune_target: f64,
    /// What recency, role and content count with `prune`.
    pub prune_weights: [f64; 3],
    /// How it scores.
    pub scoring: Scoring,
    /// Messages that `window` keeps.
    pub window_messages: Option<u64>,
    /// Tokens that `window` keeps.
    pub window_tokens: Option<u64>,
    /// Whether a task takes over from an earlier one.
    pub inherits: bool,
    /// Most tokens of what it takes over.
    pub max_inherited_tokens: u64,
    /// Tokens that the view is to have afterwards, if a call says so.
    pub target_tokens: Option<u64>,
}
