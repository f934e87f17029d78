//! `compact`: the last turns stay; what is to be retained and a summary stand for all others.

use std::collections::VecDeque;
use std::ops::Range;

use super::tail::{Tail, join};
use super::{Choice, Choose, Gone, Group, Staying, Whole};
use crate::context::Policy;

pub(super) struct Compact {
    turns: usize,
    /// Tokens that the view is to have.
    goal: u64,
    /// The user messages that the last turns begin with.
    starts: VecDeque<Range<u64>>,
    /// The place behind the last message that is not in the log.
    behind: u64,
    tail: Tail,
}

impl Compact {
    pub(super) fn new(policy: &Policy, whole: Whole) -> Self {
        let turns = usize::try_from(policy.retain_last_turns).unwrap_or(usize::MAX);
        Self { turns, goal: whole.goal, starts: VecDeque::new(), behind: 0, tail: Tail::default() }
    }
}

impl Choose for Compact {
    fn look(&mut self, group: &Group) {
        if group.starts_turn() {
            self.starts.push_back(group.places());
            if self.starts.len() > self.turns {
                self.starts.pop_front();
            }
        }
        if group.kind.is_some() {
            self.behind = group.places().end;
        }
        self.tail.push(group, |_, _| false);
        self.tail.cut(self.goal / 2);
    }

    fn choose(mut self: Box<Self>, staying: &Staying) -> Choice {
        self.tail.keep(staying);
        // Half of the room is for turns, the other one for the summary and what is retained.
        self.tail.cut(self.goal.saturating_sub(staying.tokens) / 2);
        let mut keep = Vec::new();
        if let Some(start) = self.starts.front() {
            let first = self.tail.first().unwrap_or(u64::MAX);
            // Turns that are too long are cut at groups, but what the user asked stays.
            for asked in self.starts.iter().filter(|asked| asked.start < first) {
                join(&mut keep, asked.clone());
            }
            for places in self.tail.places(start.start) {
                join(&mut keep, places);
            }
        } else if self.turns > 0 {
            // The turn began with what was summarised before.
            keep = self.tail.places(self.behind);
        } else {
            keep.extend(staying.current_request.as_ref().map(Group::places));
        }
        Choice { keep, gone: Gone::Summary }
    }
}
