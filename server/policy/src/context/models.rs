//! How many tokens models take: what the server's configuration says, what is published of well-known models, and what
//! is usual with a provider.
//!
//! The figures are what a model takes as input, as published by August 2026; of what needs a switch to be had, what there
//! is without it. A new model is at least as large as the one before it, so that the start of a name is enough; `models`
//! of the configuration is for everything else.

use super::{LimitSource, ServerPolicy};
use crate::model::{Provider, TaskConfig};

/// Starts of names, in lower case; the longest that fits counts.
const WELL_KNOWN: &[(&str, u64)] = &[
    ("chatgpt-4o", 128_000),
    ("codex-mini", 200_000),
    ("gpt-3.5", 16_385),
    ("gpt-4", 8192),
    ("gpt-4-0125", 128_000),
    ("gpt-4-1106", 128_000),
    ("gpt-4-32k", 32_768),
    ("gpt-4-turbo", 128_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4.5", 128_000),
    ("gpt-4o", 128_000),
    ("gpt-5", 272_000),
    ("gpt-5-chat", 128_000),
    ("gpt-5.1-chat", 128_000),
    ("gpt-5.2-chat", 128_000),
    ("gpt-5.3-chat", 128_000),
    ("gpt-5.4", 1_050_000),
    ("gpt-5.4-mini", 272_000),
    ("gpt-5.4-nano", 272_000),
    ("gpt-5.5", 1_050_000),
    ("gpt-5.6", 1_050_000),
    ("gpt-oss", 131_072),
    ("o1", 200_000),
    ("o1-mini", 128_000),
    ("o1-preview", 128_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("claude-", 200_000),
    ("claude-2", 100_000),
    ("claude-2.1", 200_000),
    ("claude-instant", 100_000),
    ("claude-fable-5", 1_000_000),
    ("claude-opus-4-6", 1_000_000),
    ("claude-opus-4-7", 1_000_000),
    ("claude-opus-4-8", 1_000_000),
    ("claude-opus-5", 1_000_000),
    ("claude-sonnet-4-6", 1_000_000),
    ("claude-sonnet-5", 1_000_000),
    ("gemini-", 1_048_576),
    ("gemini-1.0", 32_760),
    ("gemini-pro-vision", 16_384),
    ("gemini-2.5-computer-use", 128_000),
    ("gemini-3.1-flash-live", 131_072),
    ("gemini-robotics-er-1.6", 131_072),
    ("gemini-robotics-er-2", 131_072),
    ("gemma", 8192),
    ("gemma3", 131_072),
    ("gemma-3", 131_072),
    ("gemma3:270m", 32_768),
    ("gemma3:1b", 32_768),
    ("gemma-3-270m", 32_768),
    ("gemma-3-1b", 32_768),
    ("llama2", 4096),
    ("llama-2", 4096),
    ("llama3", 8192),
    ("llama-3", 8192),
    ("llama3.1", 131_072),
    ("llama-3.1", 131_072),
    ("llama3.2", 131_072),
    ("llama-3.2", 131_072),
    ("llama3.3", 131_072),
    ("llama-3.3", 131_072),
    ("llama4", 1_000_000),
    ("llama-4", 1_000_000),
    ("qwen", 32_768),
    ("qwen-coder", 1_000_000),
    ("qwen-flash", 997_952),
    ("qwen-plus", 129_024),
    ("qwen-turbo", 129_024),
    ("qwen3-coder", 262_144),
    ("qwen3-max", 258_048),
    ("qwen3-next", 262_144),
    ("qwen3.5-plus", 991_808),
    ("qwen3.7-max", 991_808),
    ("qwen3.7-plus", 991_808),
    ("mistral", 32_000),
    ("mistral-large-2407", 128_000),
    ("mistral-large-2411", 128_000),
    ("mistral-large-2512", 262_144),
    ("mistral-large-3", 262_144),
    ("mistral-large-latest", 262_144),
    ("mistral-medium-2505", 131_072),
    ("mistral-medium-2508", 131_072),
    ("mistral-medium-2604", 262_144),
    ("mistral-medium-3", 131_072),
    ("mistral-medium-3-5", 262_144),
    ("mistral-medium-latest", 262_144),
    ("mistral-nemo", 128_000),
    ("mistral-small-3", 131_072),
    ("mistral-small-latest", 131_072),
    ("open-mistral-nemo", 128_000),
    ("mixtral", 32_000),
    ("mixtral:8x22b", 64_000),
    ("mixtral-8x22b", 64_000),
    ("magistral", 40_000),
    ("ministral", 131_072),
    ("codestral", 32_000),
    ("codestral-2508", 256_000),
    ("devstral", 128_000),
    ("devstral-2512", 256_000),
    ("devstral-latest", 256_000),
    ("devstral-medium-latest", 256_000),
    ("devstral-small-latest", 256_000),
    ("pixtral", 128_000),
    ("deepseek", 65_536),
    ("deepseek-chat", 131_072),
    ("deepseek-reasoner", 131_072),
    ("deepseek-r1", 65_536),
    ("deepseek-v3.1", 131_072),
    ("deepseek-v3.2", 131_072),
    ("deepseek-v4", 1_000_000),
    ("grok-", 131_072),
    ("grok-4", 256_000),
    ("grok-4-fast", 2_000_000),
    ("grok-4-1-fast", 2_000_000),
    ("grok-4.20", 2_000_000),
    ("grok-4.3", 1_000_000),
    ("grok-4.5", 500_000),
    ("grok-code", 256_000),
    ("kimi-", 131_072),
    ("kimi-k2-0905", 262_144),
    ("kimi-k2-thinking", 262_144),
    ("kimi-k2-turbo", 262_144),
    ("kimi-k2.5", 262_144),
    ("kimi-k2.6", 262_144),
    ("glm-4", 128_000),
    ("glm-4.6", 200_000),
    ("glm-4.7", 200_000),
    ("glm-5", 200_000),
    ("command-r", 128_000),
    ("command-a", 256_000),
    ("phi3", 4096),
    ("phi-3", 4096),
    ("phi4", 16_384),
    ("phi-4", 16_384),
];

impl ServerPolicy {
    /// The limit of a task that names none: by the model table, by the configuration of the provider, by what is well
    /// known of the model, or a guess.
    pub(super) fn limit(&self, config: &TaskConfig) -> (u64, LimitSource) {
        let named = &config.llm_provider;
        let provider = if named.is_empty() { self.provider } else { Provider::parse(named) };
        self.limit_of(provider, Some(config.model.as_str()).filter(|model| !model.is_empty()))
    }

    /// The same of a model, or of the one that a provider is asked for if none is named.
    pub(super) fn limit_of(&self, provider: Option<Provider>, model: Option<&str>) -> (u64, LimitSource) {
        let usual = provider.and_then(|provider| self.provider_models[provider as usize].as_deref());
        let model = model.or(usual);
        let guess = usual_limit(provider);
        if let Some(tokens) = model.and_then(|model| listed(&self.models, model)) {
            return (tokens, LimitSource::Server);
        }
        if let Some(tokens) = provider.and_then(|provider| self.context_lengths[provider as usize]) {
            return (tokens, LimitSource::Server);
        }
        match model.and_then(well_known) {
            // How much of what a model could take has been set aside for it, only who runs it knows.
            Some(tokens) if is_local(provider) && tokens > guess => (guess, LimitSource::Default),
            Some(tokens) => (tokens, LimitSource::Model),
            None => (guess, LimitSource::Default),
        }
    }
}

/// What a table says of a model: under its name, or under the longest start of it that is written with `*`.
fn listed(table: &[(String, u64)], model: &str) -> Option<u64> {
    let exact = table.iter().find(|(name, _)| name == model);
    let begins = |name: &str| name.strip_suffix('*').is_some_and(|start| model.starts_with(start));
    let found =
        exact.or_else(|| table.iter().filter(|(name, _)| begins(name)).max_by_key(|(name, _)| name.len()));
    found.map(|(_, tokens)| *tokens)
}

/// What is published of a model. Names of whoever resells it are passed over: `vendor/name`, `ft:name:…`.
fn well_known(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let name = name.strip_prefix("ft:").unwrap_or(&name);
    let fits = WELL_KNOWN.iter().filter(|(start, _)| name.starts_with(start));
    fits.max_by_key(|(start, _)| start.len()).map(|(_, tokens)| *tokens)
}

fn is_local(provider: Option<Provider>) -> bool {
    matches!(provider, Some(Provider::Ollama | Provider::LmStudio))
}

/// What models of a provider usually take.
fn usual_limit(provider: Option<Provider>) -> u64 {
    match provider {
        Some(Provider::Anthropic) => 200_000,
        Some(Provider::Ollama | Provider::LmStudio) => 32_768,
        Some(Provider::OpenAi | Provider::OpenAiResponses) | None => 128_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(server: &ServerPolicy, provider: &str, model: &str) -> (u64, &'static str) {
        let config = TaskConfig {
            llm_provider: provider.to_owned(),
            model: model.to_owned(),
            ..TaskConfig::default()
        };
        let (tokens, source) = server.limit(&config);
        (tokens, source.as_str())
    }

    #[test]
    fn the_configuration_wins_over_what_is_well_known_and_that_over_a_guess() {
        let mut server = ServerPolicy::default();
        assert_eq!(limit(&server, "openai", "gpt-5-mini"), (272_000, "model"));
        assert_eq!(limit(&server, "openai", "nobody-knows"), (128_000, "default"));
        server.context_lengths[Provider::OpenAi as usize] = Some(9000);
        assert_eq!(limit(&server, "openai", "gpt-5-mini"), (9000, "server"));
        server.models =
            vec![("gpt-5*".to_owned(), 7000), ("gpt-5-m*".to_owned(), 6000), ("own".to_owned(), 5)];
        assert_eq!(limit(&server, "openai", "gpt-5-mini"), (6000, "server"));
        assert_eq!(limit(&server, "openai", "gpt-5.1"), (7000, "server"));
        assert_eq!(
            (limit(&server, "openai", "own"), limit(&server, "openai", "own2")),
            ((5, "server"), (9000, "server"))
        );
        server.models.push(("gpt-5-mini".to_owned(), 1));
        assert_eq!(limit(&server, "another", "gpt-5-mini"), (1, "server"));
    }

    #[test]
    fn a_task_without_a_model_has_the_one_of_its_provider() {
        let mut server = ServerPolicy { provider: Some(Provider::OpenAi), ..ServerPolicy::default() };
        server.provider_models[Provider::OpenAi as usize] = Some("gpt-4.1".to_owned());
        assert_eq!(limit(&server, "", ""), (1_047_576, "model"));
        assert_eq!(limit(&server, "anthropic", ""), (200_000, "default"));
    }

    #[test]
    fn well_known_models_are_told_by_the_longest_start() {
        for (model, tokens) in [
            ("gpt-4", 8192),
            ("gpt-4-0613", 8192),
            ("gpt-4o-mini", 128_000),
            ("ft:gpt-4.1-2025-04-14:me", 1_047_576),
            ("o3-mini", 200_000),
            ("anthropic/claude-sonnet-4-5-20250929", 200_000),
            ("claude-opus-5", 1_000_000),
            ("Meta-Llama/Llama-3.3-70B-Instruct", 131_072),
            ("models/gemini-2.5-pro", 1_048_576),
        ] {
            assert_eq!(well_known(model), Some(tokens), "{model}");
        }
        assert_eq!((well_known(""), well_known("another")), (None, None));
    }

    #[test]
    fn what_a_local_server_has_loaded_is_not_known_from_the_model() {
        let server = ServerPolicy::default();
        assert_eq!(limit(&server, "ollama", "llama3.1:8b"), (32_768, "default"));
        assert_eq!(limit(&server, "ollama", "llama3:8b"), (8192, "model"));
        assert_eq!(limit(&server, "lmstudio", "google/gemma-2-9b"), (8192, "model"));
    }

    #[test]
    fn the_table_names_nothing_twice() {
        let mut names: Vec<_> = WELL_KNOWN.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
