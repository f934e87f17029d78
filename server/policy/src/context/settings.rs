//! What one of those who are asked says about keeping contexts small: a call, a task or the server. Everything may be
//! left out; [`super::Policy`] puts them together.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::TaskConfig;

/// What values may be at most, wherever they come from.
pub mod limits {
    use std::ops::RangeInclusive;

    /// Bytes of a prompt.
    pub const MAX_PROMPT_BYTES: usize = 16 << 10;
    /// Directives of one kind.
    pub const MAX_DIRECTIVES: usize = 64;
    /// Bytes of a directive.
    pub const MAX_DIRECTIVE_BYTES: usize = 1 << 10;
    /// Messages, and tokens of what is taken over.
    pub const MAX_MESSAGES: u64 = 1_000_000;
    /// Turns.
    pub const MAX_TURNS: u64 = 1000;
    /// Bytes that the view of an output may be limited to.
    pub const VIEW_BYTES: RangeInclusive<u64> = (1 << 10)..=(1 << 20);
    /// Characters that a line of it may be limited to.
    pub const LINE_LENGTH: RangeInclusive<u64> = 40..=1_000_000;
    /// Tools that are named.
    pub const MAX_TOOLS: usize = 64;
    /// Bytes of the name of a tool.
    pub const MAX_TOOL_BYTES: usize = 1 << 10;
}

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
    /// See `OutputsConfig`.
    pub outputs: OutputsSettings,
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
    pub max_request_bytes: Option<u64>,
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

/// The keys `outputs.*`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each field is the key of its name")]
pub struct OutputsSettings {
    pub enabled: Option<bool>,
    pub budget_tokens: Option<u64>,
    pub max_message_bytes: Option<u64>,
    pub max_line_length: Option<u64>,
    pub tail_bytes: Option<u64>,
    pub protected_tools: Option<Vec<String>>,
}

impl Settings {
    /// The keys of a task's configuration that hold them.
    pub const KEYS: [&str; 5] = ["compression", "prune", "window", "inheritance", "outputs"];

    /// What a task says. It was looked through on its way in; what nobody understands (any more) is passed over.
    pub fn of(config: &TaskConfig) -> Self {
        let [compression, prune, window, inheritance, outputs] = Self::KEYS.map(|key| config.other.get(key));
        Self {
            compression: section(compression),
            prune: section(prune),
            window: section(window),
            inheritance: section(inheritance),
            outputs: section(outputs),
        }
    }

    /// The same for a task's configuration: the keys with something to say.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut all = serde_json::to_value(self).unwrap_or_default();
        without_nulls(&mut all);
        let Value::Object(mut all) = all else { return Map::new() };
        all.retain(|_, section| section.as_object().is_some_and(|section| !section.is_empty()));
        all
    }
}

fn section<T: DeserializeOwned + Default>(value: Option<&Value>) -> T {
    let Some(Value::Object(map)) = value else { return T::default() };
    let read = |map: Map<String, Value>| serde_json::from_value::<T>(map.into());
    read(map.clone()).unwrap_or_else(|_| {
        // One wrong value must not take the others with it.
        let alone = |(key, value): &(&String, &Value)| {
            read(Map::from_iter([((*key).clone(), (*value).clone())])).is_ok()
        };
        let right = map.iter().filter(alone).map(|(key, value)| (key.clone(), value.clone()));
        read(right.collect()).unwrap_or_default()
    })
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(without_nulls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_says_is_read_back_and_what_is_wrong_is_passed_over() {
        let mut said = Settings::default();
        said.compression.keep_recent_messages = Some(7);
        said.compression.summary_directives = Some(vec!["one".to_owned()]);
        said.window.tokens = Some(9);
        let other = said.to_json();
        assert_eq!(other.keys().collect::<Vec<_>>(), ["compression", "window"]);
        assert_eq!(Settings::of(&TaskConfig { other, ..TaskConfig::default() }), said);

        let odd =
            r#"{"compression":{"auto":"no","threshold":0.5,"later":1},"prune":7,"window":{"tokens":-1}}"#;
        let read = Settings::of(&serde_json::from_str(odd).unwrap());
        let compression = CompressionSettings { threshold: Some(0.5), ..CompressionSettings::default() };
        assert_eq!(read, Settings { compression, ..Settings::default() });
        assert!(Settings::default().to_json().is_empty());
    }
}
