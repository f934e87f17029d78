//! `summarize`: the last messages stay, a summary stands for all others.

use super::tail::Tail;
use super::{Choice, Choose, Gone, Group, Staying, Whole};
use crate::context::Policy;

/// Tokens that a summary has to have, at least.
const SUMMARY: u64 = 84;

pub(super) struct Summarize {
    keep: u64,
    goal: u64,
    tail: Tail,
}

impl Summarize {
    pub(super) fn new(policy: &Policy, whole: Whole) -> Self {
        Self { keep: policy.keep_recent_messages, goal: whole.goal, tail: Tail::default() }
    }
}

impl Choose for Summarize {
    fn look(&mut self, group: &Group) {
        // Rounded outwards: a group stays if one of its messages has to.
        let keep = self.keep;
        self.tail.push(group, |messages, _| messages >= keep);
    }

    fn choose(mut self: Box<Self>, staying: &Staying) -> Choice {
        self.tail.keep(staying);
        // Of messages that would not fit even if they were cut, only the newest stay.
        let room = self.goal.saturating_sub(staying.tokens).saturating_sub(SUMMARY.max(self.goal / 5));
        if self.keep == 0 {
            self.tail.clear();
        }
        self.tail.cut_hard(room);
        Choice { keep: self.tail.all(), gone: Gone::Summary }
    }
}
