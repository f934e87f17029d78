//! The fold: from a log to its view, message by message, in bounded memory.

use super::index::Index;
use super::line::Line;
use super::source::LogSource;
use super::view::ViewState;
use super::walk::{ViewWalk, see};
use crate::model::{Rewrite, StoreError};

/// A fold under way. Each step shows one more message.
#[derive(Debug)]
pub struct Fold {
    walk: ViewWalk,
    state: ViewState,
}

impl Fold {
    /// The view that a rewrite gives, followed by the messages up to `to`.
    pub fn new(source: LogSource, rewrite: Option<Rewrite>, to: u64) -> Self {
        Self { walk: ViewWalk::new(source, rewrite, to), state: ViewState::default() }
    }

    /// Goes on after a view that stands, with messages `from` to `to`.
    pub fn resume(source: LogSource, state: ViewState, from: u64, to: u64) -> Self {
        Self { walk: ViewWalk::behind(source, from, to), state }
    }

    /// Shows messages that were written since, up to `end` of the log and message `to`.
    pub fn extend(&mut self, end: u64, index: Option<Index>, to: u64) {
        self.walk.extend(end, index, to);
    }

    /// Returns where the view stands.
    pub fn state(&self) -> &ViewState {
        &self.state
    }

    /// Adds the lines of one more message to the buffers; false when there is none.
    pub fn step(&mut self, view: &mut Vec<u8>, extra: &mut Vec<u8>) -> Result<bool, StoreError> {
        let state = &mut self.state;
        self.walk.step(|seen| state.push(&seen.shown, view, extra))
    }
}

/// Shows a message of the log.
pub(crate) fn show(
    state: &mut ViewState,
    seq: u64,
    line: &Line<'_>,
    view: &mut Vec<u8>,
    extra: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    see(seq, line, None, None, &mut |seen| state.push(&seen.shown, view, extra))
}
