//! Pinned messages: how many there may be, and how large. They stay in every view, so there has to be room beside them, and
//! no rewrite takes one away that was pinned while it was worked out.

use std::collections::BTreeSet;

use crate::log::{Head, LogState};
use crate::model::{InvalidField, Rewrite, Segment, StoreError};

use super::{Inner, Task};

/// What they may take, as a part of the limit.
const SHARE: u64 = 4;

/// How a view has a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    Not,
    Smaller,
    Whole,
}

impl Has {
    fn of(rewrite: Option<&Rewrite>, seq: u64) -> Self {
        let Some(rewrite) = rewrite.filter(|rewrite| seq <= rewrite.covers) else { return Self::Whole };
        let has = |segment: &Segment| match segment {
            Segment::Keep { from, to, trim_except } if (*from..=*to).contains(&seq) => {
                let whole = trim_except.as_ref().is_none_or(|except| except.contains(&seq));
                if whole { Self::Whole } else { Self::Smaller }
            }
            Segment::Replace { seq: own, .. } if *own == seq => Self::Smaller,
            Segment::Keep { .. }
            | Segment::Replace { .. }
            | Segment::Literal(_)
            | Segment::Earlier { .. } => Self::Not,
        };
        rewrite.segments.iter().map(has).max().unwrap_or(Self::Not)
    }
}

impl Task {
    /// Refuses to pin a message that is not in the view: a pin keeps what is there, and brings nothing back.
    pub(super) fn check_in_view(&self, inner: &Inner, seq: u64) -> Result<(), StoreError> {
        if Has::of(inner.newest_rewrite()?.as_ref(), seq) == Has::Not {
            return Err(StoreError::NotInView { id: self.id, seq });
        }
        Ok(())
    }

    /// Whether a rewrite has every message that was pinned since `known` as the view has it now.
    pub(super) fn keeps_new_pins(
        &self,
        inner: &Inner,
        known: &BTreeSet<u64>,
        rewrite: &Rewrite,
    ) -> Result<bool, StoreError> {
        let mut new = inner.state.pins.difference(known).copied().peekable();
        if new.peek().is_none() {
            return Ok(true);
        }
        let newest = inner.newest_rewrite()?;
        Ok(new.all(|seq| Has::of(Some(rewrite), seq) >= Has::of(newest.as_ref(), seq)))
    }

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
