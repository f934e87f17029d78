//! `summarize`: the last messages stay, a summary stands for all others.

use super::tail::Tail;
use super::{Choice, Choose, Gone, Group};
use crate::context::Policy;

pub(super) struct Summarize {
    keep: u64,
    tail: Tail,
}

impl Summarize {
    pub(super) fn new(policy: &Policy) -> Self {
        Self { keep: policy.keep_recent_messages, tail: Tail::default() }
    }
}

impl Choose for Summarize {
    fn look(&mut self, group: &Group) {
        // Rounded outwards: a group stays if one of its messages has to.
        let keep = self.keep;
        self.tail.push(group, |messages, _| messages >= keep);
    }

    fn choose(self: Box<Self>, _: u64) -> Choice {
        let keep = if self.keep == 0 { Vec::new() } else { self.tail.places(0) };
        Choice { keep, gone: Gone::Summary }
    }
}
