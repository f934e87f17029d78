//! Pinned messages: how many there may be, and how large. They stay in every view, so there has to be room beside them.

use crate::log::{Head, LogState};
use crate::model::{InvalidField, StoreError};

use super::{Inner, Task};

/// What they may take, as a part of the limit.
const SHARE: u64 = 4;

impl Task {
    /// Refuses one more pin that there is no room for; `tokens` are those of its message.
    pub(super) fn check_pin(
        &self,
        inner: &mut Inner,
        field: &'static str,
        tokens: u64,
    ) -> Result<(), StoreError> {
        if inner.state.pins.len() >= LogState::MAX_PINS {
            let problem =
                format!("would be the task's {}th pin; unpin another first", LogState::MAX_PINS + 1);
            return Err(InvalidField::new(field, problem).into());
        }
        let (pinned, most) = (inner.pinned_tokens()?.saturating_add(tokens), inner.policy.limit / SHARE);
        if pinned > most {
            let problem = format!(
                "would make {pinned} tokens that are pinned; at most {most} are allowed, a quarter of the context limit"
            );
            return Err(InvalidField::new(field, problem).into());
        }
        inner.pinned_tokens = Some(pinned);
        Ok(())
    }
}

impl Inner {
    /// Tokens of all pinned messages. They are read once, when they are first asked for.
    fn pinned_tokens(&mut self) -> Result<u64, StoreError> {
        if let Some(tokens) = self.pinned_tokens {
            return Ok(tokens);
        }
        let seqs: Vec<u64> = self.state.pins.iter().copied().collect();
        let mut all = 0_u64;
        for seq in seqs {
            all = all.saturating_add(self.tokens_of(seq)?);
        }
        Ok(all)
    }

    /// Tokens of a message.
    pub(super) fn tokens_of(&self, seq: u64) -> Result<u64, StoreError> {
        let mut found = 0;
        self.source_to(self.log.len()).messages(seq, seq).step(|_, line| {
            if let Head::Message { tokens, .. } = line.head {
                found = tokens;
            }
            Ok(())
        })?;
        Ok(found)
    }
}
