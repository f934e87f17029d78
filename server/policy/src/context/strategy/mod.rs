//! Strategies: which groups of a view stay, and what becomes of the others. Pure: groups in, a choice out.
//!
//! A group is atomic: an assistant message that calls tools, with all their results; any other message is one by itself. A
//! strategy looks at the groups in order, once, and holds no more than what it may keep. What has to stay (system prompt,
//! pinned messages, inherited context, calls that wait for results) is marked before, and no strategy is asked about it.
//! The last message of the user stays with every strategy.

mod compact;
mod prune;
mod summarize;
mod tail;
mod window;

use std::ops::Range;

use super::{Policy, Strategy};
use crate::model::{LiteralKind, Role};
pub use prune::{Keywords, NOTE, Rank};

/// Messages of a view that stay or go together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// Its first message, by its place in the view from 0.
    pub first: u64,
    /// How many messages it has.
    pub messages: u64,
    /// Their tokens.
    pub tokens: u64,
    /// The same if all that can be made smaller is made as small as can be.
    pub least: u64,
    /// Who speaks first.
    pub role: Role,
    /// What it is, if it is not in the log.
    pub kind: Option<LiteralKind>,
    /// How much its content counts, from 0 to 1; only `prune` wants to know.
    pub content: f64,
}

impl Group {
    /// Its messages.
    pub fn places(&self) -> Range<u64> {
        self.first..self.first + self.messages
    }

    /// Whether a turn begins with it.
    fn starts_turn(&self) -> bool {
        self.role == Role::User && self.kind.is_none()
    }
}

/// What is known of a view before it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Whole {
    /// Messages of the view.
    pub messages: u64,
    /// Tokens that the view is to have afterwards.
    pub goal: u64,
}

/// What becomes of groups that go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// One summary stands for all of them.
    Summary,
    /// A note says how many there were.
    Note,
    /// A note or a summary stands in each place where some are missing.
    Gaps,
}

/// What stays of a view, beside what has to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Messages that stay: places in the view, rising, apart.
    pub keep: Vec<Range<u64>>,
    /// What becomes of the others.
    pub gone: Gone,
}

/// What stays whatever a strategy chooses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Staying {
    /// Tokens of the groups that no strategy is asked about.
    pub tokens: u64,
    /// The last message of the user, unless it is one of these groups.
    pub current_request: Option<Group>,
    /// Whether calls that wait for results are among these groups: then they are the newest group, which stays.
    pub has_open_calls: bool,
}

/// A way to choose.
pub trait Choose: Send {
    /// Takes the next group that may go.
    fn look(&mut self, group: &Group);

    /// Returns the choice after the last group.
    fn choose(self: Box<Self>, staying: &Staying) -> Choice;
}

/// The chooser of a strategy.
pub fn chooser(policy: &Policy, strategy: Strategy, whole: Whole) -> Box<dyn Choose> {
    match strategy {
        Strategy::Summarize => Box::new(summarize::Summarize::new(policy, whole)),
        Strategy::Compact => Box::new(compact::Compact::new(policy, whole)),
        Strategy::Prune => Box::new(prune::Prune::new(policy, whole)),
        Strategy::Window => Box::new(window::Window::new(policy, whole)),
    }
}

#[cfg(test)]
mod tests;
