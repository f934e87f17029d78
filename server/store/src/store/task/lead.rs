//! System messages of a task that took something over: what was taken over stands behind them, also if they come later.
//!
//! A rewrite right behind such a message puts it in front. Should a crash come between the two, the next append does.

use crate::log::Head;
use crate::model::{Event, Rewrite, Role, Segment, StoreError};

use super::{Inner, Task};

/// Whether messages of a role stand in front.
pub(super) fn leads(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

impl Task {
    /// Sees that system messages at the beginning stand in front of what was taken over; answers the end of the rewrite,
    /// if there was one. It need not be durable yet.
    pub(super) fn put_in_front(&self, inner: &mut Inner) -> Result<Option<u64>, StoreError> {
        if !inner.may_lead {
            return Ok(None);
        }
        let newest = inner.log.newest_rewrite()?.filter(|newest| newest.strategy == Rewrite::INHERIT);
        let Some(newest) = newest else {
            inner.may_lead = false;
            return Ok(None);
        };
        let (covers, last) = (newest.covers, inner.log.state().last_seq);
        let (mut end, mut seen) = (covers, covers);
        let mut messages = inner.log.source().messages(covers + 1, last);
        while end == seen
            && messages.step(|seq, line| {
                seen = seq;
                if matches!(line.head, Head::Message { role, .. } if leads(role)) {
                    end = seq;
                }
                Ok(())
            })?
        {}
        inner.may_lead = end == last;
        if end == covers {
            return Ok(None);
        }
        let behind = newest.segments_by_reference().into_iter();
        let behind = behind.filter(|segment| !matches!(segment, Segment::Keep { .. }));
        let rewrite = Rewrite {
            ordinal: newest.ordinal + 1,
            strategy: Rewrite::INHERIT.to_owned(),
            base: newest.ordinal,
            parent: None,
            covers: end,
            reason: "behind the system prompt".to_owned(),
            segments: std::iter::once(Segment::keep(1, end)).chain(behind).collect(),
        };
        let end = self.write_event(inner, &Event::Rewrite(rewrite), None)?;
        // It is made again when it is next looked at.
        inner.view.discard();
        Ok(Some(end))
    }
}
