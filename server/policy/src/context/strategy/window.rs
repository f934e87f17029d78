//! `window`: the last messages or tokens stay, the others go.

use super::tail::Tail;
use super::{Choice, Choose, Gone, Group, NOTE, Staying, Whole};
use crate::context::Policy;

pub(super) struct Window {
    messages: Option<u64>,
    tokens: u64,
    tail: Tail,
}

impl Window {
    pub(super) fn new(policy: &Policy, whole: Whole) -> Self {
        // The goal has room for tools, and is in tokens as they are counted.
        let tokens = match (policy.target_tokens, policy.window_tokens, policy.window_messages) {
            (Some(target), own, _) => own.map_or(target, |own| own.min(target)),
            (None, Some(own), _) => own,
            (None, None, Some(_)) => whole.goal,
            (None, None, None) => policy.limit / 2,
        }
        .min(whole.goal);
        Self { messages: policy.window_messages, tokens, tail: Tail::default() }
    }
}

impl Choose for Window {
    fn look(&mut self, group: &Group) {
        let (messages, tokens) = (self.messages, self.tokens);
        let whole = self.tail.first().is_none();
        self.tail.push(group, |left, _| messages.is_some_and(|most| left >= most));
        if !whole {
            self.tail.cut(tokens);
        }
    }

    fn choose(mut self: Box<Self>, staying: &Staying) -> Choice {
        self.tail.keep(staying);
        // What has to stay stands in the same window, and so does the note that says what is missing.
        self.tail.cut(self.tokens.saturating_sub(staying.tokens + NOTE));
        Choice { keep: self.tail.all(), gone: Gone::Note }
    }
}
