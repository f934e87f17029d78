//! How the context of a task is kept small: what the call, the task and the server say, put together.
//!
//! Of the three the nearest wins: the call, then the task, then the server. When it is time is one question that can be
//! answered in several forms (`token_threshold`, `threshold`, `complexity`, `preset`, the strategy's own share, in this
//! order): the nearest that answers it in any form wins over all that are farther; only a strategy that a call names gives
//! way to what its task says in another form.

use std::sync::Arc;
use std::time::Duration;

use super::{
    Complexity, LEAST_INHERITED_TOKENS, LimitSource, OutputPolicy, OutputsSettings, Preset, Rank, Settings,
    Strategy, Summarizer,
};
use crate::model::{Provider, TaskConfig};

/// How `prune` scores, as only the server says it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scoring {
    /// What groups are ordered by.
    pub rank: Rank,
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
    /// Tokens that this model takes.
    pub summarizer_window: u64,
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
    /// Most tokens of a summary; none: a third of what it stands for, at most a tenth of the limit or 4000 tokens, whichever
    /// is more.
    pub summary_tokens: Option<u64>,
    /// How long a model may take for one summary.
    pub summary_timeout: Duration,
    /// The share of the limit that `prune` leaves.
    pub prune_target: f64,
    /// What recency, role and content count with `prune`.
    pub prune_weights: [f64; 3],
    /// How it scores.
    pub scoring: Arc<Scoring>,
    /// Messages that `window` keeps.
    pub window_messages: Option<u64>,
    /// Tokens that `window` keeps.
    pub window_tokens: Option<u64>,
    /// Whether a task takes over from an earlier one.
    pub inherits: bool,
    /// Most tokens of what it takes over: as is said, but no more than a quarter of the limit.
    pub max_inherited_tokens: u64,
    /// Bytes that a request to a provider may have; 0: no limit.
    pub max_request_bytes: u64,
    /// Tokens that the view is to have afterwards, if a call says so.
    pub target_tokens: Option<u64>,
    /// How the outputs of tools are shown.
    pub outputs: OutputPolicy,
}

/// Who was asked last, and what came of it: the task's configuration need not say it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// The provider; none: nobody was asked yet.
    pub provider: Option<Provider>,
    /// The model; empty: the provider's.
    pub model: String,
    /// Tokens that it takes at most, if it has refused more.
    pub most: Option<u64>,
}

/// What the server says, for tasks that say nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerPolicy {
    /// What tasks and calls can say too.
    pub settings: Settings,
    /// How `prune` scores.
    pub scoring: Arc<Scoring>,
    /// How long a model may take for one summary.
    pub summary_timeout: Duration,
    /// Who is asked for tasks that do not say; none: nobody.
    pub provider: Option<Provider>,
    /// Tokens that the models of a provider take, by its place in [`Provider::ALL`].
    pub context_lengths: [Option<u64>; 5],
    /// The models that they are asked for if a task names none, likewise.
    pub provider_models: [Option<String>; 5],
    /// Tokens that models take, by name, or by the start of a name and `*`.
    pub models: Vec<(String, u64)>,
}

impl Default for ServerPolicy {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            scoring: Arc::default(),
            summary_timeout: Duration::from_secs(120),
            provider: None,
            context_lengths: [None; 5],
            provider_models: [const { None }; 5],
            models: Vec::new(),
        }
    }
}

impl Default for Scoring {
    fn default() -> Self {
        Self {
            rank: Rank::default(),
            roles: [1.0, 0.5, 0.5, 0.3, 0.5],
            keywords: Self::KEYWORDS.map(str::to_owned).to_vec(),
            short_length: 20,
            short_penalty: 0.7,
            min_gap_for_summary: 5,
            gap_message_chars: 200,
            gap_max_tokens: 150,
            gap_temperature: 0.3,
        }
    }
}

impl Scoring {
    /// Words that make a message count more, if nothing else is configured.
    pub const KEYWORDS: [&str; 19] = [
        "error",
        "success",
        "plan",
        "task",
        "duck_call",
        "approval",
        "denied",
        "completed",
        "failed",
        "warning",
        "エラー",
        "成功",
        "計画",
        "タスク",
        "承認",
        "拒否",
        "完了",
        "失敗",
        "警告",
    ];
}

impl Policy {
    /// Tokens that a compression has to save, however early it is due.
    const LEAST_WORTH: u64 = 500;

    /// What holds for a task, and for one call of it if that says anything. `target_tokens` is the call's.
    pub fn resolve(
        call: Option<(&Settings, Option<u64>)>,
        config: &TaskConfig,
        server: &ServerPolicy,
    ) -> Self {
        Self::resolve_for(&Asked::default(), call, config, server)
    }

    /// The same where somebody was asked.
    pub fn resolve_for(
        asked: &Asked,
        call: Option<(&Settings, Option<u64>)>,
        config: &TaskConfig,
        server: &ServerPolicy,
    ) -> Self {
        let task = Settings::of(config);
        let sources: Vec<&Settings> =
            call.map(|(call, _)| call).into_iter().chain([&task, &server.settings]).collect();
        let said = Said { asked, sources: &sources, config, server };
        let (limit, limit_source) = said.limit();
        let strategy = said.first(strategy).unwrap_or_default();
        let (summarizer, provider) = said.who();
        Self {
            enabled: said.first(|said| said.compression.enabled).unwrap_or(true),
            auto: said.first(|said| said.compression.auto).unwrap_or(true),
            strategy,
            limit,
            limit_source,
            threshold_tokens: said.threshold_tokens(strategy, limit),
            keep_recent_messages: said.first(|said| said.compression.keep_recent_messages).unwrap_or(5),
            min_messages: said.first(|said| said.compression.min_messages).unwrap_or(5),
            summarizer,
            provider,
            summarizer_window: said.window_of(provider, said.model(provider).as_deref()),
            model: said.model(provider),
            summary_prompt: said.first(|said| said.compression.summary_prompt.clone()),
            final_summary_prompt: said.first(|said| said.compression.final_summary_prompt.clone()),
            summary_directives: said
                .first(|said| said.compression.summary_directives.clone())
                .unwrap_or_default(),
            retain_prompt: said.first(|said| said.compression.retain_prompt.clone()),
            retain_directives: said
                .first(|said| said.compression.retain_directives.clone())
                .unwrap_or_default(),
            retain_last_turns: said.first(|said| said.compression.retain_last_turns).unwrap_or(1),
            structured: said.first(|said| said.compression.structured).unwrap_or(false),
            keep_plan: said.first(|said| said.compression.keep_plan).unwrap_or(false),
            summary_tokens: said.first(|said| said.compression.summary_tokens),
            summary_timeout: server.summary_timeout,
            prune_target: said.prune_target(),
            prune_weights: [
                said.first(|said| said.prune.recency_weight).unwrap_or(0.3),
                said.first(|said| said.prune.role_weight).unwrap_or(0.3),
                said.first(|said| said.prune.content_weight).unwrap_or(0.4),
            ],
            scoring: Arc::clone(&server.scoring),
            window_messages: said.first(|said| said.window.messages),
            window_tokens: said.first(|said| said.window.tokens),
            inherits: said.first(|said| said.inheritance.enabled).unwrap_or(true),
            max_inherited_tokens: said.max_inherited_tokens(limit),
            max_request_bytes: said.first(|said| said.compression.max_request_bytes).unwrap_or(0),
            target_tokens: call.and_then(|(_, target)| target),
            outputs: OutputPolicy::resolve(&said.outputs(), limit),
        }
    }

    /// Returns how far below the threshold a compression takes the view: a tenth of the limit, less where the threshold is
    /// far below the limit.
    fn step(&self) -> u64 {
        (self.limit / 10).min(self.threshold_tokens / 5)
    }

    /// Returns the tokens that an automatic compression has to save, and that have to come since the last one: a step, but
    /// no less than `LEAST_WORTH`, as else a threshold that every view passes would have each message compressed.
    pub fn worth(&self) -> u64 {
        self.step().max(Self::LEAST_WORTH).min(self.limit / 10)
    }

    /// Returns the tokens that a view is to have after a compression by a strategy: those that the call names, else a step
    /// below the threshold, and with `prune` no more than its share of the limit.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a number of tokens"
    )]
    pub fn goal(&self, strategy: Strategy) -> u64 {
        if let Some(target) = self.target_tokens {
            return target;
        }
        let below = self.threshold_tokens - self.step();
        match strategy {
            Strategy::Summarize | Strategy::Compact | Strategy::Window => below,
            Strategy::Prune => ((self.limit as f64 * self.prune_target) as u64).min(below),
        }
    }

    /// The model that summarises, as its breaker knows it.
    pub fn breaker(&self) -> Option<(Provider, &str)> {
        let provider = self.provider.filter(|_| self.summarizer != Summarizer::Extractive)?;
        Some((provider, self.model.as_deref().unwrap_or_default()))
    }

    /// The bytes that a request may have; none: no limit.
    pub fn request_budget(&self) -> Option<u64> {
        Some(self.max_request_bytes).filter(|bytes| *bytes > 0)
    }
}

/// Everybody who says something, the nearest first.
struct Said<'a> {
    asked: &'a Asked,
    sources: &'a [&'a Settings],
    config: &'a TaskConfig,
    server: &'a ServerPolicy,
}

impl Said<'_> {
    fn first<T>(&self, get: impl Fn(&Settings) -> Option<T>) -> Option<T> {
        self.sources.iter().find_map(|said| get(said))
    }

    fn outputs(&self) -> Vec<&OutputsSettings> {
        self.sources.iter().map(|said| &said.outputs).collect()
    }

    fn threshold_tokens(&self, strategy: Strategy, limit: u64) -> u64 {
        let share = |share: f64| least_tokens(share, limit);
        let said = |said: &&Settings| {
            let compression = &said.compression;
            let fixed = compression.token_threshold.filter(|tokens| *tokens > 0);
            let complexity = || compression.complexity.as_deref().and_then(Complexity::parse);
            fixed
                .or_else(|| compression.threshold.filter(is_share).map(share))
                .or_else(|| complexity().map(|complexity| share(complexity.threshold())))
                .or_else(|| preset(said).map(|preset| share(preset.values().1)))
        };
        let own = |said: &&Settings| self::strategy(said).map(|own| share(own.threshold()));
        // The server is the last of them. A call that names a strategy does not take back what its task says.
        let (near, far) = self.sources.split_at(self.sources.len().saturating_sub(1));
        let due = [near, far]
            .into_iter()
            .find_map(|sources| sources.iter().find_map(said).or_else(|| sources.iter().find_map(own)));
        // Over the limit the model refuses, whatever is configured.
        due.unwrap_or_else(|| least_tokens(strategy.threshold(), limit)).min(limit)
    }

    fn prune_target(&self) -> f64 {
        let target = self.first(|said| {
            said.prune.target.filter(is_share).or_else(|| preset(said).map(|preset| preset.values().2))
        });
        target.unwrap_or(0.7)
    }

    /// What was taken over stays in the view for good, so there has to be room beside it.
    fn max_inherited_tokens(&self, limit: u64) -> u64 {
        const SHARE: u64 = 4;
        let said = self.first(|said| said.inheritance.max_summary_tokens).unwrap_or(4000);
        said.min(limit / SHARE).max(LEAST_INHERITED_TOKENS)
    }

    /// What the model takes. What it has refused counts more than what is configured or known.
    fn limit(&self) -> (u64, LimitSource) {
        let usual = self.usual_limit();
        let refused = self.asked.most.filter(|most| *most < usual.0);
        refused.map_or(usual, |most| (most, LimitSource::Provider))
    }

    /// A preset takes the place of a guess, never of a limit that is known.
    fn usual_limit(&self) -> (u64, LimitSource) {
        if let Some(limit) = self.config.context_length.filter(|limit| *limit > 0) {
            return (limit, LimitSource::Task);
        }
        let known = self.known_limit();
        let Some(preset) = self.first(preset) else { return known };
        if known.1 != LimitSource::Default {
            return known;
        }
        let limit = preset.values().0;
        let others = &self.sources[..self.sources.len() - 1];
        let is_servers = others.iter().all(|said| self::preset(said).is_none());
        (limit, if is_servers { LimitSource::Server } else { LimitSource::Task })
    }

    /// What is known of the model that the task names; of the one that was asked, if that takes less or the task names none.
    fn known_limit(&self) -> (u64, LimitSource) {
        let own = self.server.limit(self.config);
        let Some(provider) = self.asked.provider else { return own };
        let model = Some(self.asked.model.as_str()).filter(|model| !model.is_empty());
        let other = self.server.limit_of(Some(provider), model);
        let names_none = self.config.llm_provider.is_empty() && self.config.model.is_empty();
        if names_none || other.0 < own.0 { other } else { own }
    }

    /// The provider that the task names.
    fn named(&self) -> Option<Provider> {
        Provider::parse(&self.config.llm_provider)
    }

    /// Who summarises. A task that names its own provider does not by that ask the server to talk to it: that is up to
    /// who configures the server, or to a task that asks for `llm`.
    fn who(&self) -> (Summarizer, Option<Provider>) {
        let word = self.first(|said| said.compression.summarizer.as_deref().and_then(Summarizer::parse));
        let summarizer = word.unwrap_or_default();
        let named = self.first(|said| said.compression.provider.as_deref().and_then(Provider::parse));
        let allowed = self.server.provider.is_some() || summarizer == Summarizer::Llm;
        let own = self.named().filter(|_| allowed);
        (summarizer, named.or(own).or(self.server.provider))
    }

    /// What the model that summarises takes: the task's limit, if it is the task's own model.
    fn window_of(&self, provider: Option<Provider>, model: Option<&str>) -> u64 {
        let own = self.named().or(self.server.provider) == provider
            && model.is_none_or(|model| model == self.config.model);
        if own {
            return self.limit().0;
        }
        let other = TaskConfig {
            llm_provider: provider.map_or_else(String::new, |provider| provider.as_str().to_owned()),
            model: model.unwrap_or_default().to_owned(),
            ..TaskConfig::default()
        };
        self.server.limit(&other).0
    }

    /// The model that summarises: what is said with the provider, or nearer than it; the task's own, if it is the
    /// same provider's.
    fn model(&self, provider: Option<Provider>) -> Option<String> {
        for said in self.sources {
            if let Some(model) = said.compression.model.as_ref() {
                return Some(model.clone());
            }
            if said.compression.provider.is_some() {
                break;
            }
        }
        let of_task = if self.config.llm_provider.is_empty() { self.server.provider } else { self.named() };
        let own = provider.is_some() && of_task == provider && !self.config.model.is_empty();
        own.then(|| self.config.model.clone())
    }
}

fn strategy(said: &Settings) -> Option<Strategy> {
    said.compression.strategy.as_deref().and_then(|word| Strategy::parse(word).ok())
}

fn preset(said: &Settings) -> Option<Preset> {
    said.compression.preset.as_deref().and_then(Preset::parse)
}

fn is_share(share: &f64) -> bool {
    *share > 0.0 && *share <= 1.0
}

/// The fewest tokens that are at least this share of a limit.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share needs no more digits than an f64 has, and is positive"
)]
fn least_tokens(share: f64, limit: u64) -> u64 {
    let tokens = (share * limit as f64).ceil() as u64;
    let is_one_too_many = tokens > 0 && (tokens - 1) as f64 / limit as f64 >= share;
    tokens - u64::from(is_one_too_many)
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
