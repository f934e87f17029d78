//! How the outputs of tools are shown in the view, and how many tokens they may have there together.

use super::limits::VIEW_BYTES;
use super::settings::OutputsSettings;

/// How the outputs of a task's tools are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputPolicy {
    /// Whether they are trimmed when they pass their budget.
    pub enabled: bool,
    /// Tokens that they may have in the view together.
    pub budget_tokens: u64,
    /// Largest view of one, in bytes.
    pub max_message_bytes: u64,
    /// Longest line of a view, in characters.
    pub max_line_length: u64,
    /// Bytes of a view that show the end; at most half of it.
    pub tail_bytes: u64,
    /// Tools whose outputs are never trimmed.
    pub protected_tools: Vec<String>,
}

impl OutputPolicy {
    /// What the nearest of those who say something says, the nearest first, for a model that takes so many tokens.
    pub(super) fn resolve(sources: &[&OutputsSettings], limit: u64) -> Self {
        let max_message_bytes = first(sources, |said| said.max_message_bytes)
            .map_or(50 << 10, |bytes| bytes.clamp(*VIEW_BYTES.start(), *VIEW_BYTES.end()));
        Self {
            enabled: first(sources, |said| said.enabled).unwrap_or(true),
            budget_tokens: first(sources, |said| said.budget_tokens)
                .unwrap_or_else(|| (limit / 4).clamp(20_000, 60_000).min(limit / 2)),
            max_message_bytes,
            max_line_length: first(sources, |said| said.max_line_length).unwrap_or(2000),
            tail_bytes: first(sources, |said| said.tail_bytes).unwrap_or(0).min(max_message_bytes / 2),
            protected_tools: first(sources, |said| said.protected_tools.clone()).unwrap_or_default(),
        }
    }

    /// Returns the tokens that a trim which nobody asked for has to save: a tenth of the budget.
    pub fn worth(&self) -> u64 {
        self.budget_tokens / 10
    }

    /// Whether the outputs of a tool are never trimmed.
    pub fn protects(&self, tool: &str) -> bool {
        self.protected_tools.iter().any(|protected| protected == tool)
    }
}

fn first<T>(sources: &[&OutputsSettings], get: impl Fn(&OutputsSettings) -> Option<T>) -> Option<T> {
    sources.iter().find_map(|said| get(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_a_quarter_of_the_limit_within_bounds() {
        for (limit, budget) in [
            (1_000, 500),
            (32_000, 16_000),
            (40_001, 20_000),
            (100_000, 25_000),
            (200_000, 50_000),
            (1_000_000, 60_000),
        ] {
            assert_eq!(OutputPolicy::resolve(&[], limit).budget_tokens, budget, "of {limit}");
        }
        let said = OutputsSettings { budget_tokens: Some(90_000), ..OutputsSettings::default() };
        assert_eq!(OutputPolicy::resolve(&[&said], 100_000).budget_tokens, 90_000);
    }

    #[test]
    fn the_nearest_wins_and_the_end_is_at_most_half_of_a_view() {
        let task = OutputsSettings {
            max_message_bytes: Some(4096),
            protected_tools: Some(vec!["plan".to_owned()]),
            ..OutputsSettings::default()
        };
        let server = OutputsSettings {
            enabled: Some(false),
            max_message_bytes: Some(8192),
            tail_bytes: Some(4000),
            protected_tools: Some(vec!["read".to_owned()]),
            ..OutputsSettings::default()
        };
        let policy = OutputPolicy::resolve(&[&task, &server], 1000);
        assert_eq!((policy.max_message_bytes, policy.tail_bytes), (4096, 2048));
        assert!(!policy.enabled && policy.protects("plan") && !policy.protects("read"));
        assert_eq!(policy.max_line_length, 2000);
    }
}
