//! How contexts are kept small, on the wire ⇄ as it is stored with a task. Each field is looked at by itself: what they
//! mean together is the policy's.

use std::ops::RangeInclusive;

use contextstore_proto::v1::{CompressionPreset, CompressionStrategy, Provider, Summarizer, TaskComplexity};
use contextstore_proto::{Named, v1 as pb};
use serde_json::{Map, Value};

use super::convert::{Parsed, from_one, number, some};
use super::enums;
use crate::context::limits::{
    LINE_LENGTH, MAX_DIRECTIVE_BYTES, MAX_DIRECTIVES, MAX_MESSAGES, MAX_PROMPT_BYTES, MAX_TOOL_BYTES,
    MAX_TOOLS, MAX_TURNS, VIEW_BYTES,
};
use crate::context::{
    CompressionSettings, InheritanceSettings, LEAST_INHERITED_TOKENS, OutputsSettings, PruneSettings,
    Settings, WindowSettings,
};
use crate::model::{InvalidField, TaskConfig, plain_text};

/// What a call says of its own.
pub(super) fn of_call(
    overrides: Option<&pb::CompressionConfig>,
    prune: Option<&pb::PruneConfig>,
    window: Option<&pb::WindowConfig>,
) -> Parsed<Settings> {
    Ok(Settings {
        compression: within("overrides", overrides, |wire| {
            not_of_a_call(wire)?;
            compression(wire)
        })?,
        prune: within("prune", prune, self::prune)?,
        window: within("window", window, self::window)?,
        ..Settings::default()
    })
}

/// Refuses what a call that compresses could say in vain.
fn not_of_a_call(wire: &pb::CompressionConfig) -> Parsed<()> {
    let vain = [
        ("enabled", wire.enabled.is_some()),
        ("auto", wire.auto.is_some()),
        ("max_request_bytes", wire.max_request_bytes.is_some()),
    ];
    match vain.into_iter().find(|(_, is_set)| *is_set) {
        Some((field, _)) => Err(InvalidField::new(field, "changes nothing for one call; configure the task")),
        None => Ok(()),
    }
}

/// What a task says.
pub(super) fn of_config(config: &pb::TaskConfig) -> Parsed<Settings> {
    Ok(Settings {
        compression: within("config.compression", config.compression.as_ref(), compression)?,
        prune: within("config.prune", config.prune.as_ref(), prune)?,
        window: within("config.window", config.window.as_ref(), window)?,
        inheritance: within("config.inheritance", config.inheritance.as_ref(), inheritance)?,
        outputs: within("config.outputs", config.outputs.as_ref(), outputs)?,
    })
}

fn within<W, S: Default>(outer: &str, wire: Option<&W>, parse: impl Fn(&W) -> Parsed<S>) -> Parsed<S> {
    wire.map_or(Ok(S::default()), parse).map_err(|invalid| invalid.within(outer))
}

fn compression(wire: &pb::CompressionConfig) -> Parsed<CompressionSettings> {
    plain_text("model", &wire.model)?;
    Ok(CompressionSettings {
        enabled: wire.enabled,
        auto: wire.auto,
        strategy: word::<CompressionStrategy>("strategy", wire.strategy)?,
        threshold: wire.threshold.map(|value| share("threshold", value)).transpose()?,
        token_threshold: tokens("token_threshold", wire.token_threshold)?,
        max_request_bytes: wire
            .max_request_bytes
            .map(|bytes| number("max_request_bytes", bytes))
            .transpose()?,
        keep_recent_messages: count("keep_recent_messages", wire.keep_recent_messages, 0, MAX_MESSAGES)?,
        min_messages: count("min_messages", wire.min_messages, 1, MAX_MESSAGES)?,
        complexity: word::<TaskComplexity>("complexity", wire.complexity)?,
        preset: word::<CompressionPreset>("preset", wire.preset)?,
        summarizer: word::<Summarizer>("summarizer", wire.summarizer)?,
        provider: word::<Provider>("provider", wire.provider)?,
        model: some(wire.model.clone()),
        summary_prompt: prompt("summary_prompt", &wire.summary_prompt)?,
        final_summary_prompt: prompt("final_summary_prompt", &wire.final_summary_prompt)?,
        summary_directives: directives("summary_directives", &wire.summary_directives)?,
        retain_prompt: prompt("retain_prompt", &wire.retain_prompt)?,
        retain_directives: directives("retain_directives", &wire.retain_directives)?,
        retain_last_turns: count("retain_last_turns", wire.retain_last_turns, 0, MAX_TURNS)?,
        structured: wire.structured,
        keep_plan: wire.keep_plan,
        summary_tokens: tokens("summary_tokens", wire.summary_tokens)?,
    })
}

fn prune(wire: &pb::PruneConfig) -> Parsed<PruneSettings> {
    let weight = |field, value: Option<f64>| value.map(|value| self::weight(field, value)).transpose();
    Ok(PruneSettings {
        target: wire.target.map(|value| share("target", value)).transpose()?,
        recency_weight: weight("recency_weight", wire.recency_weight)?,
        role_weight: weight("role_weight", wire.role_weight)?,
        content_weight: weight("content_weight", wire.content_weight)?,
    })
}

fn window(wire: &pb::WindowConfig) -> Parsed<WindowSettings> {
    Ok(WindowSettings {
        messages: count("messages", wire.messages, 1, MAX_MESSAGES)?,
        tokens: tokens("tokens", wire.tokens)?,
    })
}

fn inheritance(wire: &pb::InheritanceConfig) -> Parsed<InheritanceSettings> {
    let most = tokens("max_summary_tokens", wire.max_summary_tokens)?;
    if let Some(few) = most.filter(|most| *most < LEAST_INHERITED_TOKENS) {
        let problem = format!("is {few}; it must be at least {LEAST_INHERITED_TOKENS}");
        return Err(InvalidField::new("max_summary_tokens", problem));
    }
    Ok(InheritanceSettings { enabled: wire.enabled, max_summary_tokens: most })
}

fn outputs(wire: &pb::OutputsConfig) -> Parsed<OutputsSettings> {
    let max_message_bytes = ranged("max_message_bytes", wire.max_message_bytes, &VIEW_BYTES)?;
    let half = max_message_bytes.unwrap_or(*VIEW_BYTES.end()) / 2;
    Ok(OutputsSettings {
        enabled: wire.enabled,
        budget_tokens: tokens("budget_tokens", wire.budget_tokens)?,
        max_message_bytes,
        max_line_length: ranged("max_line_length", wire.max_line_length.map(u64::from), &LINE_LENGTH)?,
        tail_bytes: ranged("tail_bytes", wire.tail_bytes, &(0..=half))?,
        protected_tools: texts("protected_tools", &wire.protected_tools, MAX_TOOLS, MAX_TOOL_BYTES)?,
    })
}

/// The short name of a value, as it is stored.
fn word<E: Named>(field: &'static str, number: i32) -> Parsed<Option<String>> {
    Ok(some(enums::wire::<E>(field, number)?.name().to_owned()))
}

/// The number of a value whose short name is stored. What nobody knows counts as not configured.
fn value<E: Named>(stored: Option<String>) -> i32 {
    let found = stored.and_then(|name| E::ALL.iter().copied().find(|value| value.name() == name));
    found.unwrap_or_default().into()
}

fn share(field: &'static str, share: f64) -> Parsed<f64> {
    if share > 0.0 && share <= 1.0 {
        return Ok(share);
    }
    Err(InvalidField::new(field, format!("is {share}; it must be over 0 and at most 1")))
}

fn weight(field: &'static str, weight: f64) -> Parsed<f64> {
    if (0.0..=1.0).contains(&weight) && weight.is_sign_positive() {
        return Ok(weight);
    }
    Err(InvalidField::new(field, format!("is {weight}; it must be from 0 to 1")))
}

fn tokens(field: &'static str, tokens: Option<u64>) -> Parsed<Option<u64>> {
    tokens.map(|tokens| from_one(field, number(field, tokens)?)).transpose()
}

fn count(field: &'static str, count: Option<u32>, least: u64, most: u64) -> Parsed<Option<u64>> {
    ranged(field, count.map(u64::from), &(least..=most))
}

fn ranged(field: &'static str, value: Option<u64>, range: &RangeInclusive<u64>) -> Parsed<Option<u64>> {
    let within = |value: u64| {
        let (least, most) = (range.start(), range.end());
        let wrong = || InvalidField::new(field, format!("is {value}; it must be from {least} to {most}"));
        range.contains(&value).then_some(value).ok_or_else(wrong)
    };
    value.map(within).transpose()
}

fn prompt(field: &'static str, text: &str) -> Parsed<Option<String>> {
    fits(field, text, MAX_PROMPT_BYTES)?;
    Ok(some(text.to_owned()))
}

fn directives(field: &'static str, list: &[String]) -> Parsed<Option<Vec<String>>> {
    texts(field, list, MAX_DIRECTIVES, MAX_DIRECTIVE_BYTES)
}

fn texts(field: &'static str, list: &[String], most: usize, each: usize) -> Parsed<Option<Vec<String>>> {
    if list.len() > most {
        let problem = format!("has {} elements; at most {most} are allowed", list.len());
        return Err(InvalidField::new(field, problem));
    }
    for (at, text) in list.iter().enumerate() {
        let inside = |invalid: InvalidField| InvalidField {
            field: format!("{field}[{at}]").into(),
            problem: invalid.problem,
        };
        fits(field, text, each).map_err(inside)?;
        if text.trim().is_empty() {
            return Err(inside(InvalidField::new(field, "is empty")));
        }
    }
    Ok((!list.is_empty()).then(|| list.to_vec()))
}

fn fits(field: &'static str, text: &str, most: usize) -> Parsed<()> {
    if text.len() > most {
        return Err(InvalidField::new(
            field,
            format!("has {} bytes; at most {most} are allowed", text.len()),
        ));
    }
    Ok(())
}

/// What a task says, for the wire. What has a field of its own there is taken out of `other`.
pub(super) fn told(config: &TaskConfig, other: &mut Map<String, Value>) -> pb::TaskConfig {
    // What is no object was put there before the key had a meaning.
    let keys = Settings::KEYS.map(|key| other.get(key).is_some_and(Value::is_object));
    let Settings { compression, prune, window, inheritance, outputs } = Settings::of(config);
    for (key, has) in Settings::KEYS.into_iter().zip(keys) {
        if has {
            other.remove(key);
        }
    }
    let [has_compression, has_prune, has_window, has_inheritance, has_outputs] = keys;
    pb::TaskConfig {
        compression: has_compression.then(|| compression_told(compression)),
        prune: has_prune.then_some(pb::PruneConfig {
            target: prune.target,
            recency_weight: prune.recency_weight,
            role_weight: prune.role_weight,
            content_weight: prune.content_weight,
        }),
        window: has_window
            .then_some(pb::WindowConfig { messages: window.messages.map(small), tokens: window.tokens }),
        inheritance: has_inheritance.then_some(pb::InheritanceConfig {
            enabled: inheritance.enabled,
            max_summary_tokens: inheritance.max_summary_tokens,
        }),
        outputs: has_outputs.then_some(pb::OutputsConfig {
            enabled: outputs.enabled,
            budget_tokens: outputs.budget_tokens,
            max_message_bytes: outputs.max_message_bytes,
            max_line_length: outputs.max_line_length.map(small),
            tail_bytes: outputs.tail_bytes,
            protected_tools: outputs.protected_tools.unwrap_or_default(),
        }),
        ..pb::TaskConfig::default()
    }
}

fn compression_told(said: CompressionSettings) -> pb::CompressionConfig {
    pb::CompressionConfig {
        auto: said.auto,
        strategy: value::<CompressionStrategy>(said.strategy),
        threshold: said.threshold,
        token_threshold: said.token_threshold,
        max_request_bytes: said.max_request_bytes,
        enabled: said.enabled,
        keep_recent_messages: said.keep_recent_messages.map(small),
        min_messages: said.min_messages.map(small),
        complexity: value::<TaskComplexity>(said.complexity),
        preset: value::<CompressionPreset>(said.preset),
        summarizer: value::<Summarizer>(said.summarizer),
        provider: value::<Provider>(said.provider),
        model: said.model.unwrap_or_default(),
        summary_prompt: said.summary_prompt.unwrap_or_default(),
        final_summary_prompt: said.final_summary_prompt.unwrap_or_default(),
        summary_directives: said.summary_directives.unwrap_or_default(),
        retain_prompt: said.retain_prompt.unwrap_or_default(),
        retain_directives: said.retain_directives.unwrap_or_default(),
        retain_last_turns: said.retain_last_turns.map(small),
        structured: said.structured,
        keep_plan: said.keep_plan,
        summary_tokens: said.summary_tokens,
    }
}

/// What came from the wire fits it.
fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
