//! `contextstore compress`: compresses the context of a task.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use contextstore_client::v1::compress_response::Progress;
use contextstore_client::{Compress as How, v1};
use serde::Serialize;

use super::Failure;
use super::facts::Pressure;
use super::overrides::Setting;
use super::target::{Access, Target};
use super::text::safe;
use crate::model::{InvalidField, StoreError, TaskId};

/// Compresses the context of an active task, whatever its pressure, and reports the result. The agent can continue to
/// work meanwhile. Progress is written to standard error.
#[derive(Debug, Args)]
pub(super) struct Compress {
    /// The task
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: TaskId,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    access: Access,
    /// The strategy; by default that of the task
    #[arg(long, value_enum)]
    strategy: Option<StrategyWord>,
    /// Most tokens of the view after the compression
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    target_tokens: Option<u64>,
    /// Overrides a setting for this compression, by its configuration key: `prune.target=0.5`, `window.messages=50`,
    /// `compression.keep_recent_messages=3`. Can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = Setting::parse)]
    settings: Vec<Setting>,
    /// The output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StrategyWord {
    Summarize,
    Compact,
    Prune,
    Window,
}

impl From<StrategyWord> for v1::CompressionStrategy {
    fn from(word: StrategyWord) -> Self {
        match word {
            StrategyWord::Summarize => Self::Summarize,
            StrategyWord::Compact => Self::Compact,
            StrategyWord::Prune => Self::Prune,
            StrategyWord::Window => Self::Window,
        }
    }
}

/// Output format of a command that changes a task.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Output {
    /// Text for people
    Text,
    /// One JSON object
    Json,
}

/// The result of a compression.
#[derive(Debug, Serialize)]
struct Done {
    compressed: bool,
    reason: String,
    strategy: String,
    emergency: bool,
    messages_before: u64,
    messages_after: u64,
    messages_removed: u64,
    tokens_before: u64,
    tokens_after: u64,
    tokens_removed: u64,
    summary_id: u64,
    summarizer: String,
    model: String,
    fallback_reason: String,
    generation: u64,
    duration_ms: u64,
    pressure: Pressure,
}

impl From<v1::CompressDone> for Done {
    fn from(done: v1::CompressDone) -> Self {
        let took = done.duration.unwrap_or_default();
        let millis = took.seconds.saturating_mul(1000).saturating_add(i64::from(took.nanos) / 1_000_000);
        let reason = match (done.skip_reason(), done.duplicate, done.target_missed.as_str()) {
            (v1::CompressSkipReason::Unspecified, true, _) => "duplicate".to_owned(),
            (v1::CompressSkipReason::Unspecified, false, "") => String::new(),
            (v1::CompressSkipReason::Unspecified, false, missed) => format!("target_missed: {missed}"),
            (reason, ..) => reason.name().to_owned(),
        };
        let author = done.summary_author();
        let summarizer =
            if author == v1::SummaryAuthor::Llm { done.provider().name() } else { author.name() };
        Self {
            compressed: done.compressed,
            reason,
            strategy: done.strategy().name().to_owned(),
            emergency: done.emergency,
            messages_before: done.messages_before,
            messages_after: done.messages_after,
            messages_removed: done.messages_removed,
            tokens_before: done.tokens_before,
            tokens_after: done.tokens_after,
            tokens_removed: done.tokens_removed,
            summary_id: done.summary_id,
            summarizer: summarizer.to_owned(),
            model: done.model,
            fallback_reason: done.fallback_reason,
            generation: done.generation,
            duration_ms: u64::try_from(millis).unwrap_or_default(),
            pressure: done.pressure.unwrap_or_default().into(),
        }
    }
}

impl Compress {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let (runtime, task) = self.target.held(&self.access, self.id)?;
        let mut how = How {
            strategy: self.strategy.map(v1::CompressionStrategy::from).unwrap_or_default(),
            target_tokens: self.target_tokens,
            ..How::default()
        };
        for setting in &self.settings {
            let invalid = |problem| StoreError::from(InvalidField::new("--set", problem));
            setting.put(&mut how).map_err(invalid)?;
        }
        let tell = |progress: Progress| {
            // Progress is optional, so a failed write is ignored.
            let _ = writeln!(io::stderr(), "{}", step(&progress));
        };
        let done = Done::from(runtime.block_on(task.compress_with(how, tell))?);
        match self.output {
            Output::Text => write_text(&done, out)?,
            Output::Json => {
                serde_json::to_writer(&mut *out, &done).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn step(progress: &Progress) -> String {
    let Progress { messages, tokens, summary_tokens, attempt, .. } = progress;
    let mut said = format!("{}: {messages} messages, {tokens} tokens", progress.stage().name());
    if *summary_tokens > 0 {
        said.push_str(&format!(", {summary_tokens} tokens of the summary"));
    }
    if *attempt > 1 {
        said.push_str(&format!(", try {attempt}"));
    }
    said
}

fn write_text(done: &Done, out: &mut dyn Write) -> io::Result<()> {
    if !done.compressed {
        let why = match done.reason.as_str() {
            "nothing" => "there are too few messages that may go",
            "not_worth_it" => "it would not get smaller",
            "incompressible" => "what may not go is too large alone",
            "within_target" => "it has no more tokens than that",
            "too_many_parts" => "what stays lies in too many pieces",
            other => other,
        };
        return writeln!(out, "nothing was compressed: {}", safe(why));
    }
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<10}{}", safe(value));
    let by = match (done.summarizer.as_str(), done.model.as_str()) {
        ("", _) => String::new(),
        (by, "") => format!(" by {by}, summary {}", done.summary_id),
        (by, model) => format!(" by {by} {model}, summary {}", done.summary_id),
    };
    let emergency = if done.emergency { ", in an emergency" } else { "" };
    line("did", &format!("{}{by}{emergency}", done.strategy))?;
    if !done.reason.is_empty() {
        line("but", &done.reason)?;
    }
    if !done.fallback_reason.is_empty() {
        line("instead", &format!("of the LLM: {}", done.fallback_reason))?;
    }
    let change = |before: u64, after: u64, removed: u64| format!("{before} → {after} ({removed} went)");
    line("messages", &change(done.messages_before, done.messages_after, done.messages_removed))?;
    line("tokens", &change(done.tokens_before, done.tokens_after, done.tokens_removed))?;
    line("pressure", &done.pressure.words())?;
    line("took", &format!("{} ms", done.duration_ms))
}
