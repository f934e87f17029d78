//! What a call that is repeated is told: what the first one did, as far as the log knows.

use super::agent::AGENT;
use super::compression::CompressionOutcome;
use super::summary::EXTRACTIVE;
use crate::context::{Pressure, Stage, Strategy};
use crate::model::{StoreError, TaskId};
use crate::store::{Caller, Store};

impl CompressionOutcome {
    /// Says that the view was rewritten before.
    const DUPLICATE: &str = "duplicate";

    /// Whether the view was rewritten, now or by the call that this one repeats.
    pub fn is_rewritten(&self) -> bool {
        self.reason.is_empty() || self.reason == Self::DUPLICATE
    }

    /// The same with a summary that the agent has brought.
    pub fn by_agent(self, model: &str) -> Self {
        Self { summarizer: AGENT.to_owned(), model: model.to_owned(), ..self }
    }

    /// What a call with the same id has done; none if there was none that has rewritten the view. Blocks.
    pub fn before(
        store: &Store,
        id: TaskId,
        caller: &Caller,
        asked: &str,
    ) -> Result<Option<Self>, StoreError> {
        let Some(generation) = store.compressed_before(id, caller, asked)? else { return Ok(None) };
        let (told, policy) = (store.retell(id, generation)?, store.policy(id)?);
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
