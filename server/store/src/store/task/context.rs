//! How the context of an open task is kept small: the policy that follows from its configuration, and what calls have shown
//! since it was opened.

use std::sync::Arc;

use super::compression_attempt::CompressionAttempt;
use super::trim::OutputScan;
use super::{Inner, Task};
use crate::context::{Asked, Policy, ServerPolicy, Settings};
use crate::log::Counters;
use crate::model::TaskId;
use crate::model::{Event, Overflow, Provider, Reported, StoreError, TaskConfig};
use crate::store::Store;

/// The least limit that a model is taken to have which refuses a context without a figure.
const LEAST_LIMIT: u64 = 512;
/// A view is looked through for media again when it has grown by this part of the budget.
const MEDIA_GROWTH: u64 = 10;

/// The policy of a task, and what is known of its context in memory only.
#[derive(Debug)]
pub(super) struct ContextPolicy {
    policy: Arc<Policy>,
    /// The model that was asked last. A task that is opened again knows it with the next request.
    model: Asked,
    /// The newest refusal of a context as too long.
    refusal: Option<Refusal>,
    tools: ToolTokens,
    pub(super) compression: CompressionAttempt,
    pub(super) outputs: OutputScan,
    /// Bytes of the view when it was last looked through for media.
    media_scanned_at: u64,
    /// Tokens of all pinned messages, once they were counted.
    pinned_tokens: Option<u64>,
}

/// What a refusal says of the view that was sent, until that is rewritten or accepted.
#[derive(Debug, Clone, Copy)]
struct Refusal {
    generation: u64,
    count: Reported,
}

/// The tools that are sent with each request, beside what the log says of the newest call.
#[derive(Debug, Clone, Copy, Default)]
struct ToolTokens {
    /// Their tokens, as counted; none: nothing was sent since the task was opened.
    tokens: Option<u64>,
    /// Whether the newest report of a call that had them does not count them: then they pass for tokens of the view, and
    /// have made the calibration larger.
    uncounted: bool,
}

impl ContextPolicy {
    /// Returns what follows from a configuration alone.
    pub(super) fn new(config: &TaskConfig, server: &ServerPolicy) -> Self {
        Self {
            policy: Arc::new(Policy::resolve(None, config, server)),
            model: Asked::default(),
            refusal: None,
            tools: ToolTokens::default(),
            compression: CompressionAttempt::default(),
            outputs: OutputScan::default(),
            media_scanned_at: 0,
            pinned_tokens: None,
        }
    }

    /// Returns the policy in force.
    pub(super) fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Returns the policy by another configuration of the task, or with settings of one call.
    pub(super) fn resolve(
        &self,
        call: Option<(&Settings, Option<u64>)>,
        config: &TaskConfig,
        server: &ServerPolicy,
    ) -> Policy {
        Policy::resolve_for(&self.model, call, config, server)
    }

    fn set_policy(&mut self, config: &TaskConfig, server: &ServerPolicy) {
        self.policy = Arc::new(self.resolve(None, config, server));
    }

    /// Follows a new configuration.
    pub(super) fn configure(&mut self, config: &TaskConfig, server: &ServerPolicy) {
        self.outputs.look_again();
        self.compression = CompressionAttempt::default();
        self.set_policy(config, server);
    }

    /// RecordLog which model is asked: its limit counts.
    fn ask(&mut self, provider: Provider, model: &str, config: &TaskConfig, server: &ServerPolicy) {
        if self.model.provider != Some(provider) || self.model.model != model {
            self.model = Asked { provider: Some(provider), model: model.to_owned(), most: None };
            self.refusal = None;
            self.set_policy(config, server);
        }
    }

    /// RecordLog that the model refused a context of so many calibrated and counted tokens as too long. A limit that it states
    /// is the limit; if that is more than the context has by our count, the count is wrong, and the context has at least one
    /// token more than the limit. Without a figure, the limit is a little below what was sent.
    fn refuse(&mut self, stated: Overflow, calibrated: u64, counted: u64, generation: u64) {
        let most = stated.limit.unwrap_or_else(|| (calibrated / 10 * 9).max(LEAST_LIMIT));
        let least = stated.limit.map_or(0, |limit| limit.saturating_add(1)).max(stated.sent.unwrap_or(0));
        if least > calibrated {
            self.refusal = Reported::new(least, counted).map(|count| Refusal { generation, count });
        }
        self.model.most = Some(most);
        // The last attempt was made by another count.
        self.compression = CompressionAttempt::default();
    }

    /// RecordLog the reported usage of a call. A limit below what the model has read is none.
    pub(super) fn report_usage(&mut self, usage: &Event, config: &TaskConfig, server: &ServerPolicy) {
        let Event::Usage { tools_tokens, .. } = usage else { return };
        self.tools.report(*tools_tokens);
        self.refusal = None;
        if self.model.most.is_some_and(|most| usage.input_tokens() > most) {
            self.model.most = None;
            self.set_policy(config, server);
        }
    }

    /// Returns the counters of the log with what a refusal has shown since, for a generation of the view.
    pub(super) fn tally(&self, tally: &Counters, generation: u64) -> Counters {
        let refusal = self.refusal.filter(|refusal| refusal.generation == generation);
        let reported = refusal.map(|refusal| refusal.count).or(tally.reported);
        Counters { reported, ..tally.clone() }
    }

    /// RecordLog the tokens of the tools of a request: they are sent with the next one too.
    pub(super) fn note_tools(&mut self, tokens: u64) {
        // Usage has said already whether these are counted.
        if self.tools.tokens != Some(tokens) {
            self.tools = ToolTokens { tokens: Some(tokens), uncounted: false };
        }
    }

    /// Returns the tokens of the tools beside those of the view; `logged` are those of the newest call in the log.
    pub(super) fn tools_tokens(&self, logged: u64) -> u64 {
        if self.tools.uncounted { 0 } else { self.tools.tokens.unwrap_or(logged) }
    }

    /// RecordLog that the view was looked through for media when it had so many bytes.
    pub(super) fn note_media_scan(&mut self, bytes: u64) {
        self.media_scanned_at = bytes;
    }

    /// Returns whether the view has hardly grown since it was looked through for media.
    pub(super) fn is_media_scanned(&self, bytes: u64, budget: u64) -> bool {
        let last = self.media_scanned_at;
        last > 0 && bytes >= last && bytes < last.saturating_add(budget / MEDIA_GROWTH)
    }

    /// Returns the tokens of all pinned messages, if they were counted.
    pub(super) fn pinned_tokens(&self) -> Option<u64> {
        self.pinned_tokens
    }

    /// RecordLog the tokens of all pinned messages; none: they have to be counted again.
    pub(super) fn set_pinned_tokens(&mut self, tokens: Option<u64>) {
        self.pinned_tokens = tokens;
    }
}

impl ToolTokens {
    fn report(&mut self, tokens: u64) {
        self.uncounted = tokens == 0 && self.tokens.is_some_and(|tokens| tokens > 0);
        if !self.uncounted {
            self.tokens = Some(tokens);
        }
    }
}

impl Task {
    fn server_policy(&self) -> &ServerPolicy {
        &self.env.options.compression
    }

    /// Returns the policy in force.
    pub(crate) fn policy(&self) -> Result<Arc<Policy>, StoreError> {
        let inner = self.lock_existing()?;
        Ok(Arc::clone(inner.context.policy()))
    }

    /// Returns the configuration that readers see.
    pub(super) fn visible_config<'a>(&'a self, inner: &'a Inner) -> &'a TaskConfig {
        inner.readers.config(inner.log.state().config.as_ref()).unwrap_or(&self.metadata.config)
    }

    /// Returns the policy by the configuration that readers see.
    pub(super) fn visible_policy(&self, inner: &Inner) -> Arc<Policy> {
        let (visible, newest) = (self.visible_config(inner), self.config(&inner.log));
        if std::ptr::eq(visible, newest) {
            return Arc::clone(inner.context.policy());
        }
        Arc::new(inner.context.resolve(None, visible, self.server_policy()))
    }
}

impl Store {
    /// The same for a call that says something of its own.
    pub fn policy_with(
        &self,
        id: TaskId,
        call: &Settings,
        target_tokens: Option<u64>,
    ) -> Result<Policy, StoreError> {
        let task = self.task(id)?;
        let inner = task.lock_existing()?;
        let config = task.config(&inner.log);
        Ok(inner.context.resolve(Some((call, target_tokens)), config, task.server_policy()))
    }

    /// Remembers who is asked, as the limit of that model counts; answers what holds.
    pub fn note_asked(&self, id: TaskId, provider: Provider, model: &str) -> Result<Arc<Policy>, StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        let Inner { context, log, .. } = &mut *inner;
        context.ask(provider, model, task.config(log), task.server_policy());
        Ok(Arc::clone(context.policy()))
    }

    /// Remembers that a model refused the context as too long, and the figures that it stated.
    pub fn note_overflow(&self, id: TaskId, stated: Overflow) -> Result<(), StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        task.ensure_view(&mut inner);
        let calibrated = task.pressure(&mut inner).tokens;
        let counted = inner.view_tokens().saturating_add(inner.tools_tokens());
        let Inner { context, log, .. } = &mut *inner;
        context.refuse(stated, calibrated, counted, log.state().view_generation());
        context.set_policy(task.config(log), task.server_policy());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TaskConfig {
        TaskConfig { context_length: Some(10_000), ..TaskConfig::default() }
    }

    fn context() -> ContextPolicy {
        ContextPolicy::new(&config(), &ServerPolicy::default())
    }

    fn usage(input_tokens: u64, tools_tokens: u64) -> Event {
        Event::Usage {
            input_tokens,
            output_tokens: 1,
            cache_creation_tokens: 0,
            cache_read_tokens: 0,
            counted_tokens: None,
            tools_tokens,
        }
    }

    fn refuse(context: &mut ContextPolicy, stated: Overflow, tokens: u64) {
        context.refuse(stated, tokens, tokens, 1);
        context.set_policy(&config(), &ServerPolicy::default());
    }

    #[test]
    fn a_refusal_lowers_the_limit_until_the_model_reads_more() {
        let (mut context, server) = (context(), ServerPolicy::default());
        assert_eq!(context.policy().limit, 10_000);
        refuse(&mut context, Overflow::default(), 5_000);
        assert_eq!(context.policy().limit, 4_500);
        context.report_usage(&usage(4_000, 0), &config(), &server);
        assert_eq!(context.policy().limit, 4_500);
        context.report_usage(&usage(5_000, 0), &config(), &server);
        assert_eq!(context.policy().limit, 10_000);
    }

    #[test]
    fn a_stated_limit_above_our_count_corrects_the_count_of_that_view_alone() {
        let (mut context, tally) = (context(), Counters::default());
        refuse(&mut context, Overflow { limit: Some(8_000), sent: Some(8_500) }, 6_000);
        assert_eq!(context.policy().limit, 8_000);
        assert_eq!(context.tally(&tally, 1).calibrated(6_000), 8_500);
        assert_eq!(context.tally(&tally, 2).calibrated(6_000), 6_000);
    }

    #[test]
    fn another_model_has_a_limit_of_its_own() {
        let (mut context, server) = (context(), ServerPolicy::default());
        context.ask(Provider::OpenAi, "small", &config(), &server);
        refuse(&mut context, Overflow { limit: Some(1_000), sent: None }, 5_000);
        context.ask(Provider::OpenAi, "small", &config(), &server);
        assert_eq!(context.policy().limit, 1_000);
        context.ask(Provider::OpenAi, "large", &config(), &server);
        assert_eq!(context.policy().limit, 10_000);
        assert_eq!(context.tally(&Counters::default(), 1).reported, None);
    }

    #[test]
    fn tools_count_unless_usage_does_not_report_them() {
        let (mut context, server) = (context(), ServerPolicy::default());
        assert_eq!(context.tools_tokens(30), 30);
        context.note_tools(50);
        assert_eq!(context.tools_tokens(30), 50);
        context.report_usage(&usage(100, 0), &config(), &server);
        context.note_tools(50);
        assert_eq!(context.tools_tokens(30), 0);
        context.report_usage(&usage(100, 50), &config(), &server);
        assert_eq!(context.tools_tokens(30), 50);
    }

    #[test]
    fn media_are_looked_for_again_when_the_view_has_grown_or_shrunk() {
        let mut context = context();
        assert!(!context.is_media_scanned(500, 1_000));
        context.note_media_scan(500);
        let scanned = [499, 500, 599, 600].map(|bytes| context.is_media_scanned(bytes, 1_000));
        assert_eq!(scanned, [false, true, true, false]);
    }
}
