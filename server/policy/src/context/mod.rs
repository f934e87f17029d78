//! Pure policy about contexts: how many tokens a message has, how full a context is, which
//! groups of messages stay. No I/O.

mod attempt;
mod breaker;
mod exact;
pub mod fitted;
mod inherit;
mod models;
mod outputs;
mod policy;
mod pressure;
mod settings;
mod strategy;
mod task_policy;
mod text;
mod tokens;
mod words;

pub use attempt::{CompressionAttempt, LogTokens};
pub use breaker::{BreakerConfig, Breakers, Leave};
pub use exact::is_ready;
pub use inherit::{Earlier, Failure, Inheritance, LEAST_INHERITED_TOKENS, Left, Legacy, with_kept};
pub use outputs::OutputPolicy;
pub use policy::{Asked, Policy, Scoring, ServerPolicy};
pub use pressure::{LimitSource, Pressure, Stage, Strategy};
pub use settings::{
    CompressionSettings, InheritanceSettings, OutputsSettings, PruneSettings, Settings, WindowSettings,
    limits,
};
pub use strategy::{Choice, Choose, Gone, Group, Keywords, NOTE, Rank, Staying, Whole, chooser};
pub use task_policy::{ContextPolicy, OutputScan};
pub use text::plain_text;
pub use tokens::{IMAGE_TOKENS, count_json, count_text, count_tokens};
pub use words::{Complexity, Preset, Summarizer};
