//! Pure policy about contexts: how many tokens a message has, how full a context is, what a summary of
//! messages keeps ([`extract`]). No I/O.

mod exact;
pub mod extract;
pub mod fitted;
mod policy;
mod pressure;
mod strategy;
mod text;
mod tokens;

pub use exact::is_ready;
pub use policy::{
    CompressionSettings, InheritanceSettings, Policy, PruneSettings, Scoring, Settings, Summarizer,
    WindowSettings,
};
pub use pressure::{CompressionPolicy, LimitSource, Pressure, Stage, Strategy};
pub use strategy::{Choice, Choose, Gone, Group, Keywords, Whole, chooser};
pub use text::plain_text;
pub use tokens::{IMAGE_TOKENS, count_json, count_text, count_tokens};
