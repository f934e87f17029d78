//! A compression job: what is to be done, how far it is, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use super::agent::AGENT;
use super::replacement::Replacement;
use super::summary::EXTRACTIVE;
use super::view_analysis::ViewAnalysis;
use crate::context::{Policy, Pressure, Stage, Strategy};
use crate::model::{StoreError, TaskId};
use crate::store::{Caller, Compressed, Store};

/// A compression that is to be done.
#[derive(Debug, Clone)]
pub struct Job {
    /// The strategy.
    pub strategy: Strategy,
    /// The settings.
    pub policy: Arc<Policy>,
    /// The caller.
    pub caller: Caller,
    /// A hash of what the call asked for, by which a repeated call is known.
    pub asked: String,
    /// Whether the server compresses by itself: then it has to save enough.
    pub automatic: bool,
}

/// How far a compression is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionStep {
    /// The messages that go are read.
    Extracting {
        /// Messages that go.
        messages: u64,
        /// Tokens of the messages that go.
        tokens: u64,
    },
    /// A summary of them is written.
    Summarizing {
        /// Messages that go.
        messages: u64,
        /// Tokens of the messages that go.
        tokens: u64,
        /// Tokens of the summary so far.
        summary_tokens: u64,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// The new view takes the place of the old one.
    Publishing {
        /// Messages that go.
        messages: u64,
        /// Tokens of the messages that go.
        tokens: u64,
        /// Tokens of the summary so far.
        summary_tokens: u64,
    },
}

/// What a compression did.
#[derive(Debug, Clone, Default)]
pub struct CompressionOutcome {
    /// Empty if the view was rewritten.
    pub reason: &'static str,
    /// If the view was rewritten and has more tokens than the call asks for: by how many, and what they are.
    pub shortfall: String,
    /// The strategy.
    pub strategy: &'static str,
    /// Whether the view was over the limit.
    pub emergency: bool,
    /// Messages of the view before.
    pub messages_before: u64,
    /// Messages of the view now.
    pub messages_after: u64,
    /// Messages that left the view.
    pub messages_removed: u64,
    /// Tokens of the view before.
    pub tokens_before: u64,
    /// Tokens of the view now.
    pub tokens_after: u64,
    /// The number of the summary; 0: none.
    pub summary_id: u64,
    /// Who wrote the summary.
    pub summarizer: String,
    /// The model that wrote the summary.
    pub model: String,
    /// Why the built-in summariser wrote it instead of a model.
    pub fallback_reason: String,
    /// The generation of the view now.
    pub generation: u64,
    /// The time that it took.
    pub took: Duration,
}

impl CompressionOutcome {
    /// The reason of a repeated call.
    const DUPLICATE: &str = "duplicate";

    /// Returns the outcome of a compression that has not changed the view yet.
    pub(super) fn unchanged(analysis: &ViewAnalysis, job: &Job) -> Self {
        // With what stands for results that never came.
        let messages = analysis.outline.messages.max(analysis.selection.messages);
        Self {
            strategy: job.strategy.as_str(),
            emergency: analysis.is_emergency(),
            messages_before: messages,
            messages_after: messages,
            tokens_before: analysis.pressure.tokens,
            tokens_after: analysis.pressure.tokens,
            generation: analysis.outline.generation,
            ..Self::default()
        }
    }

    /// Takes over what a new view has.
    pub(super) fn record(
        &mut self,
        analysis: &ViewAnalysis,
        replacement: Replacement,
        compressed: &Compressed,
    ) {
        let selected =
            analysis.selection.ranges().iter().map(|places| places.end - places.start).sum::<u64>();
        let inserted = replacement.inserted_messages();
        self.messages_after = compressed.messages.unwrap_or(selected + inserted);
        self.messages_removed = (self.messages_before + inserted).saturating_sub(self.messages_after);
        self.tokens_after = analysis.outline.told(compressed.tokens);
        self.summary_id = compressed.summary_id;
        self.generation = compressed.generation;
        self.summarizer = replacement.written.by;
        self.model = replacement.written.model;
        self.fallback_reason = replacement.written.fallback.unwrap_or_default();
    }

    /// Says whether the view was rewritten, now or by the call that this one repeats.
    pub fn is_rewritten(&self) -> bool {
        self.reason.is_empty() || self.reason == Self::DUPLICATE
    }

    /// Returns the same with a summary that the agent wrote.
    pub fn by_agent(self, model: &str) -> Self {
        Self { summarizer: AGENT.to_owned(), model: model.to_owned(), ..self }
    }

    /// Returns the outcome of an earlier call with the same id, as far as the log knows; none if there was none that has rewritten
    /// the view. Blocks.
    pub fn before(
        store: &Store,
        id: TaskId,
        caller: &Caller,
        asked: &str,
    ) -> Result<Option<Self>, StoreError> {
        let Some(generation) = store.compressed_before(id, caller, asked)? else { return Ok(None) };
        let (told, policy) = (store.compression_report(id, generation)?, store.policy(id)?);
        let strategy = Strategy::ALL.map(Strategy::as_str).into_iter().find(|name| *name == told.strategy);
        let (summary_id, model) = told.summary.map_or((0, None), |made| (made.id, Some(made.model)));
        let provider = policy.provider.map_or("", |provider| provider.as_str());
        let (summarizer, model) = match model {
            Some(model) if model == EXTRACTIVE => (EXTRACTIVE, String::new()),
            Some(model) => (provider, model),
            None => ("", String::new()),
        };
        Ok(Some(Self {
            reason: Self::DUPLICATE,
            strategy: strategy.unwrap_or_default(),
            emergency: Pressure::of(told.tokens_before, &policy).stage == Stage::Emergency,
            messages_before: told.messages_before,
            messages_after: told.messages_after,
            messages_removed: told.messages_removed,
            tokens_before: told.tokens_before,
            tokens_after: told.tokens_after,
            summary_id,
            summarizer: summarizer.to_owned(),
            model,
            generation,
            ..Self::default()
        }))
    }
}
