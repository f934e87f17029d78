//! Pinned messages: how many there may be, and how large. They stay in every view, so there has to be room beside them, and
//! no rewrite takes one away that was pinned while it was worked out.

use std::collections::BTreeSet;

use crate::log::{Head, LogState};
use crate::model::{InvalidField, Rewrite, Role, Segment, StoreError};

use super::{Inner, Task, TaskLog};

/// The part of the limit that pinned messages may take.
const SHARE: u64 = 4;
/// The distance within which the other messages of a group are looked for.
const MOST_RESULTS: u64 = 4096;

/// The form in which a view has a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    Not,
    Smaller,
    Whole,
}

impl Presence {
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
        if Presence::of(inner.log.newest_rewrite()?.as_ref(), seq) == Presence::Not {
            return Err(StoreError::NotInView { id: self.id, seq });
        }
        Ok(())
    }

    /// Returns whether a rewrite has every message that was pinned since `known` as the view has it now.
    pub(super) fn keeps_new_pins(
        &self,
        inner: &Inner,
        known: &BTreeSet<u64>,
        rewrite: &Rewrite,
    ) -> Result<bool, StoreError> {
        let mut new = inner.log.state().pins.difference(known).copied().peekable();
        if new.peek().is_none() {
            return Ok(true);
        }
        let newest = inner.log.newest_rewrite()?;
        Ok(new.all(|seq| Presence::of(Some(rewrite), seq) >= Presence::of(newest.as_ref(), seq)))
    }

    /// Refuses one more pin that there is no room for; `tokens` are those of its group, as far as that is there.
    pub(super) fn check_pin(
        &self,
        inner: &mut Inner,
        field: &'static str,
        tokens: u64,
    ) -> Result<(), StoreError> {
        if inner.log.state().pins.len() >= LogState::MAX_PINS {
            let problem =
                format!("would be the task's {}th pin; unpin another first", LogState::MAX_PINS + 1);
            return Err(InvalidField::new(field, problem).into());
        }
        let pinned = match inner.context.pinned_tokens() {
            Some(pinned) => pinned,
            None => inner.log.pinned_tokens()?,
        };
        let (pinned, most) = (pinned.saturating_add(tokens), inner.context.policy().limit / SHARE);
        if pinned > most {
            let problem = format!(
                "would make {pinned} tokens that are pinned; at most {most} are allowed, a quarter of the context limit"
            );
            return Err(InvalidField::new(field, problem).into());
        }
        inner.context.set_pinned_tokens(Some(pinned));
        Ok(())
    }
}

impl TaskLog {
    /// Returns the tokens of all pinned messages with their groups. Reads them from the log.
    fn pinned_tokens(&self) -> Result<u64, StoreError> {
        let (mut all, mut counted) = (0_u64, 0);
        for seq in self.state().pins.iter().copied() {
            // Pins rise; one in a group that is counted already adds nothing.
            if seq > counted {
                let (tokens, last) = self.group_of(seq)?;
                all = all.saturating_add(tokens);
                counted = last;
            }
        }
        Ok(all)
    }

    /// Tokens of the group that a message belongs to; none if that is pinned already by another message of it.
    pub(super) fn group_tokens(&self, seq: u64) -> Result<u64, StoreError> {
        let (tokens, last) = self.group_of(seq)?;
        let first = self.first_of_group(seq)?;
        Ok(if self.state().pins.range(first..=last).next().is_some() { 0 } else { tokens })
    }

    /// Tokens of a message with the results around it that stay and go with it, and the last of them.
    fn group_of(&self, seq: u64) -> Result<(u64, u64), StoreError> {
        let first = self.first_of_group(seq)?;
        let source = self.source();
        let mut messages = source.messages(first, self.state().last_seq.min(seq + MOST_RESULTS));
        let (mut all, mut last, mut goes_on) = (0_u64, first, true);
        while goes_on
            && messages.step(|at, line| {
                let Head::Message { role, tokens, .. } = line.head else { return Ok(()) };
                goes_on = at <= seq || role == Role::Tool;
                if goes_on {
                    (all, last) = (all.saturating_add(tokens), at);
                }
                Ok(())
            })?
        {}
        Ok((all, last))
    }

    /// The first message of a group: results stand behind the call that they answer.
    fn first_of_group(&self, seq: u64) -> Result<u64, StoreError> {
        let mut first = seq;
        while first > 1 && seq - first < MOST_RESULTS && self.role_of(first)? == Some(Role::Tool) {
            first -= 1;
        }
        Ok(first)
    }

    fn role_of(&self, seq: u64) -> Result<Option<Role>, StoreError> {
        let mut found = None;
        self.source().messages(seq, seq).step(|_, line| {
            if let Head::Message { role, .. } = line.head {
                found = Some(role);
            }
            Ok(())
        })?;
        Ok(found)
    }
}
