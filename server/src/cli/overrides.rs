//! `--set KEY=VALUE`: overrides of settings for one compression, by configuration key. The server validates the
//! values.

use std::fmt::Display;
use std::str::FromStr;

use contextstore_client::{Compress, Named, v1};

/// One override.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    key: String,
    value: String,
}

impl Setting {
    /// Parses `KEY=VALUE`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("is not KEY=VALUE")?;
        let setting = Self { key: key.trim().to_owned(), value: value.trim().to_owned() };
        setting.put(&mut Compress::default())?;
        Ok(setting)
    }

    /// Adds the override. Each override of a list adds an item.
    pub(super) fn put(&self, how: &mut Compress) -> Result<(), String> {
        let value = self.value.as_str();
        let known = match self.key.split_once('.') {
            Some(("compression", name)) => {
                compression(how.overrides.get_or_insert_with(Default::default), name, value)?
            }
            Some(("prune", name)) => prune(how.prune.get_or_insert_with(Default::default), name, value)?,
            Some(("window", name)) => window(how.window.get_or_insert_with(Default::default), name, value)?,
            Some(_) | None => false,
        };
        let unknown = || {
            let key = &self.key;
            format!(
                "`{key}` is no key of compression, prune or window that one call can set; see docs/CONFIG.md"
            )
        };
        known.then_some(()).ok_or_else(unknown)
    }
}

/// Returns false for an unknown key.
fn compression(config: &mut v1::CompressionConfig, name: &str, value: &str) -> Result<bool, String> {
    let text = || value.to_owned();
    match name {
        "complexity" => config.complexity = named::<v1::TaskComplexity>(value)?,
        "keep_plan" => config.keep_plan = read(value)?,
        "keep_recent_messages" => config.keep_recent_messages = read(value)?,
        "min_messages" => config.min_messages = read(value)?,
        "model" => config.model = text(),
        "preset" => config.preset = named::<v1::CompressionPreset>(value)?,
        "provider" => config.provider = named::<v1::Provider>(value)?,
        "retain_directives" => config.retain_directives.push(text()),
        "retain_last_turns" => config.retain_last_turns = read(value)?,
        "retain_prompt" => config.retain_prompt = text(),
        "structured" => config.structured = read(value)?,
        "summarizer" => config.summarizer = named::<v1::Summarizer>(value)?,
        "summary_directives" => config.summary_directives.push(text()),
        "summary_prompt" => config.summary_prompt = text(),
        "summary_tokens" => config.summary_tokens = read(value)?,
        "threshold" => config.threshold = read(value)?,
        "token_threshold" => config.token_threshold = read(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn prune(config: &mut v1::PruneConfig, name: &str, value: &str) -> Result<bool, String> {
    match name {
        "target" => config.target = read(value)?,
        "weights.content" => config.content_weight = read(value)?,
        "weights.recency" => config.recency_weight = read(value)?,
        "weights.role" => config.role_weight = read(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn window(config: &mut v1::WindowConfig, name: &str, value: &str) -> Result<bool, String> {
    match name {
        "messages" => config.messages = read(value)?,
        "tokens" => config.tokens = read(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The value with a short name, as a field carries it.
fn named<E: Named>(name: &str) -> Result<i32, String> {
    let found = E::ALL.iter().find(|value| value.name() == name).map(|value| (*value).into());
    let names = || E::ALL.iter().map(|value| value.name()).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("{name:?}: allowed are {}", names()))
}

fn read<T: FromStr<Err: Display>>(value: &str) -> Result<Option<T>, String> {
    value.parse().map(Some).map_err(|error| format!("{value:?}: {error}"))
}
