//! What a turn does about a request that the model does not take: a shorter answer is asked for, or the context is made smaller.

use super::turn::Turn;
use crate::context::Stage;
use crate::error::AppError;
use crate::llm::{ErrorClass, LlmError, answer_tokens, with_answer};
use crate::model::{Overflow, StoreError};
use crate::store::Store;

impl Turn {
    /// Changes what was refused, so that it may be taken. False: sending it again would not help.
    pub(super) async fn adapt(&mut self, error: &LlmError) -> Result<bool, AppError> {
        match error.verdict() {
            Some(ErrorClass::Overflow(stated)) => self.make_smaller(stated).await,
            Some(ErrorClass::LongAnswer { most }) => Ok(self.ask_for_less(most)),
            Some(ErrorClass::Throttled | ErrorClass::Refused | ErrorClass::Failed) | None => Ok(false),
        }
    }

    /// Asks for an answer of at most so many tokens; without a figure, of half as many as before.
    fn ask_for_less(&mut self, most: Option<u64>) -> bool {
        let params = self.options.params().as_str();
        let asked = answer_tokens(params);
        let fewer = most.unwrap_or(asked / 2);
        if fewer == 0 || (asked > 0 && fewer >= asked) {
            return false;
        }
        tracing::info!(id = %self.id, asked, fewer, "the model gives shorter answers than were asked for");
        let params = with_answer(self.provider, params, fewer);
        self.options = self.options.clone().with_params(params);
        true
    }

    /// Makes a context smaller that the model refused as too long: images and files go first, then it is compressed. Whether
    /// that helped.
    async fn make_smaller(&self, stated: Overflow) -> Result<bool, AppError> {
        let id = self.id;
        let note = |store: &Store| {
            let before = store.context_usage(id, Some(self.options.tools()))?;
            if stated.limit.is_some() {
                store.note_overflow(id, stated)?;
            }
            let policy = store.policy(id)?;
            let may = policy.enabled && policy.auto;
            // A task that does not run, or a rewrite that is going on: then the view is taken as it is.
            let shed = may && store.shed_all_media(id).is_ok_and(|generation| generation.is_some());
            // Without a figure, and with images or files, nobody knows whether it was tokens that were too many.
            if stated.limit.is_none() && !shed {
                store.note_overflow(id, stated)?;
            }
            Ok((before, shed, store.pressure(id)?))
        };
        let (before, shed, now) = self.with(note).await?;
        let (tokens, limit) = (before.pressure.tokens, now.limit);
        tracing::warn!(%id, tokens, ?stated, limit, shed, "the model refused the context as too long");
        if shed && now.stage != Stage::Emergency {
            return Ok(true);
        }
        let store = self.engine.store().bound(&self.binding);
        let smaller = Box::pin(self.engine.compressor.if_due(&store, id, true));
        self.engine.held(id, self.caller.lease_generation, smaller).await;
        let counted = |store: &Store| -> Result<u64, StoreError> {
            Ok(store.context_usage(id, Some(self.options.tools()))?.counted_tokens)
        };
        Ok(self.with(counted).await? < before.counted_tokens)
    }
}
