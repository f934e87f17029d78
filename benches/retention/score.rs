//! How much of what was planted a view still has.

use super::door;
use super::session::{Session, text_of};
use super::state::State;

/// How a session is made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `summarize`, by the built-in summariser.
    Summarize,
    Prune,
    Window,
    /// Without a server: the newest messages that have room.
    DropOldest,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Summarize, Self::Prune, Self::Window, Self::DropOldest];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Summarize => "summarize",
            Self::Prune => "prune",
            Self::Window => "window",
            Self::DropOldest => "drop the oldest",
        }
    }
}

/// What one way makes of the sessions of one generator at one share.
pub(crate) struct Result {
    pub(crate) generator: &'static str,
    pub(crate) percent: u64,
    pub(crate) way: Way,
    /// Facts that hold, and those of them that are kept less the withdrawn ones that are still believed.
    pub(crate) planted: i32,
    pub(crate) kept: i32,
    /// The largest view, as a share of its session in percent.
    pub(crate) largest: f64,
    /// What was lost, contradicted or is stale.
    pub(crate) wrong: Vec<String>,
}

impl Result {
    pub(crate) fn new(generator: &'static str, percent: u64, way: Way) -> Self {
        Self { generator, percent, way, planted: 0, kept: 0, largest: 0.0, wrong: Vec::new() }
    }

    /// The share of the facts that is kept, in percent.
    pub(crate) fn share(&self) -> f64 {
        100.0 * f64::from(self.kept) / f64::from(self.planted.max(1))
    }

    /// Looks for the facts of a session of so many tokens in its view.
    pub(crate) fn add(&mut self, session: &Session, view: &[String], tokens: u64) {
        let text = text_of(view);
        self.largest = self.largest.max(100.0 * door::tokens(view) as f64 / tokens as f64);
        for fact in &session.facts {
            let state = State::of(fact, &session.facts, &text);
            self.planted += i32::from(fact.holds());
            self.kept += i32::from(state == State::Kept) - i32::from(state == State::Stale);
            if !matches!(state, State::Kept | State::Harmless) {
                let kind = fact.kind.as_str();
                self.wrong.push(format!("{}: {state:?}: {} ({kind})", session.name, fact.probe));
            }
        }
    }
}
