//! Answers that were interrupted: when they are asked for again, the pieces of the first tries leave the view. The log keeps
//! them.

use std::collections::BTreeSet;

use crate::log::Head;
use crate::model::TaskId;
use crate::model::json::field;
use crate::model::{Rewrite, Role, Segment, StoreError};
use crate::store::Store;

use super::outline::push;
use super::{Caller, NewRewrite};

/// Messages that are looked through for pieces, where a call has none of its own.
const NEWEST: u64 = 100;
/// The reason of the rewrite that takes them out.
pub(super) const ASKED_AGAIN: &str = "an interrupted answer is asked for again";

impl super::Outline {
    /// Returns the messages of the model behind message `after` whose request ids begin with `prefix`.
    fn pieces(&self, prefix: &str, after: u64) -> Result<BTreeSet<u64>, StoreError> {
        let mut pieces = BTreeSet::new();
        let mut messages = self.source.messages(after + 1, self.last_seq);
        while messages.step(|seq, line| {
            let is_piece = matches!(line.head, Head::Message { role: Role::Assistant, .. })
                && field(line.text, "request_id").is_some_and(|id| id[1..].starts_with(prefix));
            if is_piece {
                pieces.insert(seq);
            }
            Ok(())
        })? {}
        Ok(pieces)
    }
}

/// Adds a segment without some messages. Returns whether it had any of them.
fn without(segment: Segment, gone: &BTreeSet<u64>, segments: &mut Vec<Segment>) -> bool {
    match segment {
        Segment::Keep { from, to, trim_except } => {
            let within: Vec<u64> = gone.range(from..=to).copied().collect();
            let mut next = from;
            for end in within.iter().copied().chain([to + 1]) {
                if next < end {
                    let kept = |except: &Vec<u64>| {
                        except.iter().copied().filter(|seq| (next..end).contains(seq)).collect()
                    };
                    let trim_except = trim_except.as_ref().map(kept);
                    push(segments, Segment::Keep { from: next, to: end - 1, trim_except });
                }
                next = end + 1;
            }
            !within.is_empty()
        }
        Segment::Replace { seq, .. } if gone.contains(&seq) => true,
        Segment::Replace { .. } | Segment::Literal(_) | Segment::Earlier { .. } => {
            segments.push(segment);
            false
        }
    }
}

impl Store {
    /// Takes the pieces of an interrupted answer out of a view, before it is asked for again. Returns whether there were any.
    pub fn drop_pieces(
        &self,
        id: TaskId,
        prefix: &str,
        after: Option<u64>,
        caller: &Caller,
    ) -> Result<bool, StoreError> {
        let task = self.task(id)?;
        let last = {
            let inner = task.lock_existing()?;
            inner.log.state().last_seq
        };
        let after = after.unwrap_or_else(|| last.saturating_sub(NEWEST));
        if after >= last {
            return Ok(false);
        }
        let look = task.outline()?;
        let pieces = look.pieces(prefix, after)?;
        let Some(last) = pieces.last() else { return Ok(false) };
        let covers = look.covered().max(*last);
        let mut all = look.newest.as_ref().map_or_else(Vec::new, Rewrite::segments_by_reference);
        if covers > look.covered() {
            all.push(Segment::keep(look.covered() + 1, covers));
        }
        let mut segments = Vec::new();
        let mut dropped = false;
        for segment in all {
            dropped |= without(segment, &pieces, &mut segments);
        }
        if !dropped {
            return Ok(false);
        }
        let rewrite = NewRewrite {
            strategy: "trim".to_owned(),
            base: look.generation,
            covers,
            reason: ASKED_AGAIN.to_owned(),
            segments,
            summaries: Vec::new(),
        };
        let caller = Caller { request_id: None, lease_generation: caller.lease_generation };
        task.rewrite(&rewrite, &caller).map(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_leave_a_segment_and_the_rest_of_it_stays() {
        let gone = BTreeSet::from([2, 3, 7]);
        let mut segments = Vec::new();
        let trimmed = Segment::Keep { from: 1, to: 8, trim_except: Some(vec![1, 3, 8]) };
        assert!(without(trimmed, &gone, &mut segments));
        let keep = |from, to, except: &[u64]| Segment::Keep { from, to, trim_except: Some(except.to_vec()) };
        assert_eq!(segments, [keep(1, 1, &[1]), keep(4, 6, &[]), keep(8, 8, &[8])]);
        assert!(!without(Segment::keep(9, 12), &gone, &mut segments));
        assert_eq!(segments.last(), Some(&Segment::keep(9, 12)));
    }
}
