//! How the context of an open task is kept small: the policy that follows from its configuration, and what calls have shown
//! since it was opened.

use std::sync::Arc;

use super::{Asked, CompressionAttempt, OutputPolicy, Policy, ServerPolicy, Settings};
use crate::model::{Calibration, Event, Overflow, Provider, Reported, TaskConfig};

/// The least limit that a model is taken to have which refuses a context without a figure.
const LEAST_LIMIT: u64 = 512;
/// A view is looked through for media again when it has grown by this part of the budget.
const MEDIA_GROWTH: u64 = 10;

/// The policy of a task, and what is known of its context in memory only.
#[derive(Debug)]
pub struct ContextPolicy {
    policy: Arc<Policy>,
    /// The model that was asked last. A task that is opened again knows it with the next request.
    model: Asked,
    /// The newest refusal of a context as too long.
    refusal: Option<Refusal>,
    tools: ToolTokens,
    /// The last attempt to compress the view.
    pub compression: CompressionAttempt,
    /// The last scan for outputs to trim.
    pub outputs: OutputScan,
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
    pub fn new(config: &TaskConfig, server: &ServerPolicy) -> Self {
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
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Returns the policy by another configuration of the task, or with settings of one call.
    pub fn resolve(
        &self,
        call: Option<(&Settings, Option<u64>)>,
        config: &TaskConfig,
        server: &ServerPolicy,
    ) -> Policy {
        Policy::resolve_for(&self.model, call, config, server)
    }

    /// Resolves the policy anew.
    pub fn set_policy(&mut self, config: &TaskConfig, server: &ServerPolicy) {
        self.policy = Arc::new(self.resolve(None, config, server));
    }

    /// Follows a new configuration.
    pub fn configure(&mut self, config: &TaskConfig, server: &ServerPolicy) {
        self.outputs.look_again();
        self.compression = CompressionAttempt::default();
        self.set_policy(config, server);
    }

    /// Records which model is asked: its limit counts.
    pub fn ask(&mut self, provider: Provider, model: &str, config: &TaskConfig, server: &ServerPolicy) {
        if self.model.provider != Some(provider) || self.model.model != model {
            self.model = Asked { provider: Some(provider), model: model.to_owned(), most: None };
            self.refusal = None;
            self.set_policy(config, server);
        }
    }

    /// Records that the model refused a context of so many calibrated and counted tokens as too long. A limit that it states
    /// is the limit; if that is more than the context has by our count, the count is wrong, and the context has at least one
    /// token more than the limit. Without a figure, the limit is a little below what was sent.
    pub fn refuse(&mut self, stated: Overflow, calibrated: u64, counted: u64, generation: u64) {
        let most = stated.limit.unwrap_or_else(|| (calibrated / 10 * 9).max(LEAST_LIMIT));
        let least = stated.limit.map_or(0, |limit| limit.saturating_add(1)).max(stated.sent.unwrap_or(0));
        if least > calibrated {
            self.refusal = Reported::new(least, counted).map(|count| Refusal { generation, count });
        }
        self.model.most = Some(most);
        // The last attempt was made by another count.
        self.compression = CompressionAttempt::default();
    }

    /// Records the reported usage of a call. A limit below what the model has read is none.
    pub fn report_usage(&mut self, usage: &Event, config: &TaskConfig, server: &ServerPolicy) {
        let Event::Usage { tools_tokens, .. } = usage else { return };
        self.tools.report(*tools_tokens);
        self.refusal = None;
        if self.model.most.is_some_and(|most| usage.input_tokens() > most) {
            self.model.most = None;
            self.set_policy(config, server);
        }
    }

    /// Returns what a refusal has shown of a generation of the view, if there was one.
    pub fn reported(&self, generation: u64) -> Option<Reported> {
        let refusal = self.refusal.filter(|refusal| refusal.generation == generation);
        refusal.map(|refusal| refusal.count)
    }

    /// Records the tokens of the tools of a request: they are sent with the next one too.
    pub fn note_tools(&mut self, tokens: u64) {
        // Usage has said already whether these are counted.
        if self.tools.tokens != Some(tokens) {
            self.tools = ToolTokens { tokens: Some(tokens), uncounted: false };
        }
    }

    /// Returns the tokens of the tools beside those of the view; `logged` are those of the newest call in the log.
    pub fn tools_tokens(&self, logged: u64) -> u64 {
        if self.tools.uncounted { 0 } else { self.tools.tokens.unwrap_or(logged) }
    }

    /// Records that the view was looked through for media when it had so many bytes.
    pub fn note_media_scan(&mut self, bytes: u64) {
        self.media_scanned_at = bytes;
    }

    /// Returns whether the view has hardly grown since it was looked through for media.
    pub fn is_media_scanned(&self, bytes: u64, budget: u64) -> bool {
        let last = self.media_scanned_at;
        last > 0 && bytes >= last && bytes < last.saturating_add(budget / MEDIA_GROWTH)
    }

    /// Returns the tokens of all pinned messages, if they were counted.
    pub fn pinned_tokens(&self) -> Option<u64> {
        self.pinned_tokens
    }

    /// Records the tokens of all pinned messages; none: they have to be counted again.
    pub fn set_pinned_tokens(&mut self, tokens: Option<u64>) {
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

/// The last scan of the view for outputs to trim. It is not kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutputScan {
    /// The last message of a model that was appended since the task was opened; outputs before it are answered.
    answer: u64,
    /// The last message when nothing more could be trimmed; none: there may be outputs to trim.
    exhausted: Option<u64>,
    /// Tokens of outputs that stay, as counted.
    kept: u64,
}

impl OutputScan {
    /// Records a message of the model.
    pub fn note_answer(&mut self, seq: u64) {
        self.answer = seq;
    }

    /// Records a scan: the last message if nothing more can be trimmed, and the tokens of outputs that stay.
    pub fn note_scan(&mut self, exhausted: Option<u64>, kept: u64) {
        (self.exhausted, self.kept) = (exhausted, kept);
    }

    /// Forgets what the last scan has found: there may be more to trim.
    pub fn look_again(&mut self) {
        (self.exhausted, self.kept) = (None, 0);
    }

    /// Returns whether a scan may find outputs to trim that save enough: those of the view have so many tokens.
    pub fn is_due(&self, policy: &OutputPolicy, tokens: u64, calibration: Calibration) -> bool {
        policy.enabled
            && calibration.apply(tokens) > policy.budget_tokens
            && calibration.apply(tokens.saturating_sub(self.kept)) >= policy.worth()
            && self.exhausted.is_none_or(|last_seq| self.answer > last_seq)
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
        let mut context = context();
        refuse(&mut context, Overflow { limit: Some(8_000), sent: Some(8_500) }, 6_000);
        assert_eq!(context.policy().limit, 8_000);
        let reported = context.reported(1).unwrap();
        assert_eq!(reported.apply(6_000, Calibration::default()), 8_500);
        assert_eq!(context.reported(2), None);
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
        assert_eq!(context.reported(1), None);
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

    #[test]
    fn a_scan_is_due_when_outputs_that_may_go_pass_their_budget() {
        let server = Policy::resolve(None, &TaskConfig::default(), &ServerPolicy::default());
        let policy = OutputPolicy { enabled: true, budget_tokens: 1_000, ..server.outputs };
        let is_due = |scan: &OutputScan, tokens| scan.is_due(&policy, tokens, Calibration::default());
        let mut scan = OutputScan::default();
        assert_eq!([1_000, 1_001].map(|tokens| is_due(&scan, tokens)), [false, true]);
        scan.note_scan(Some(7), 950);
        scan.note_answer(7);
        assert!(!is_due(&scan, 2_000), "nothing was answered since");
        scan.note_answer(8);
        assert_eq!([1_049, 1_050].map(|tokens| is_due(&scan, tokens)), [false, true]);
        scan.look_again();
        assert!(is_due(&scan, 1_001));
    }
}
