//! Adapts a request that the model refused: asks for a shorter answer, or makes the context smaller.

use super::turn::ChatTurn;
use crate::context::Stage;
use crate::error::AppError;
use crate::llm::{ErrorClass, LlmError, answer_tokens, with_answer};
use crate::model::{Overflow, StoreError};
use crate::store::Store;

impl ChatTurn {
    /// Changes the refused request. Returns false if sending it again would not help.
    pub(super) async fn adapt(&mut self, error: &LlmError) -> Result<bool, AppError> {
        match error.class() {
            Some(ErrorClass::Overflow(stated)) => self.make_smaller(stated).await,
            Some(ErrorClass::LongAnswer { most }) => Ok(self.ask_for_less(most)),
            Some(ErrorClass::Throttled | ErrorClass::Refused | ErrorClass::Failed) | None => Ok(false),
        }
    }

    /// Limits the answer to `most` tokens, or to half of the earlier limit if the error states none.
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

    /// Makes a context smaller that the model refused as too long: first without images and files, then by
    /// compression. Returns true if that helped.
    async fn make_smaller(&self, stated: Overflow) -> Result<bool, AppError> {
        let id = self.id;
        let note = |store: &Store| {
            let before = store.context_usage(id, Some(self.options.tools()))?;
            if stated.limit.is_some() {
                store.note_overflow(id, stated)?;
            }
            let policy = store.policy(id)?;
            let may = policy.enabled && policy.auto;
            // The task is not active, or another rewrite is running: the view stays as it is.
            let shed = may && store.shed_all_media(id).is_ok_and(|generation| generation.is_some());
            // If the context has images or files and the error states no numbers, the reason need not be the tokens.
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
