//! What readers are told of a task, across its logs and its view.

use super::row::count_view;
use super::visibility::LogSnapshot;
use super::{Inner, Task};
use crate::log::Fold;
use crate::model::{Durability, TaskConfig};

impl Inner {
    /// Shows readers every line that is safe by now.
    pub(super) fn advance(&mut self, durability: Durability) {
        self.readers.advance(self.log.commit(), durability);
        self.tools.advance(durability);
        self.plans.advance(durability);
    }

    /// Returns whether there are lines that readers do not see yet.
    pub(super) fn is_ahead(&self) -> bool {
        self.readers.is_behind() || self.tools.is_ahead() || self.plans.is_ahead()
    }

    /// Returns how the task stands with all lines that are written.
    fn snapshot(&self) -> LogSnapshot {
        let (state, view) = (self.log.state(), self.view.state());
        LogSnapshot {
            log_end: self.log.len(),
            last_seq: state.last_seq,
            view_len: view.map_or(0, |view| view.len),
            extra_len: view.map_or(0, |view| view.extra_len),
            view_tokens: self.view.tokens().unwrap_or(0),
            output_tokens: view.map_or(0, |view| view.output_tokens),
            view_lines: view.map_or(0, |view| view.lines),
            tally: state.tally.clone(),
            updated_at: state.updated_at,
            former: None,
        }
    }

    /// Shows readers the task as it is: every line is durable.
    pub(super) fn show_all(&mut self) {
        self.readers.show_all(self.snapshot());
    }

    /// Returns the tokens of the view; counts them where there is none.
    pub(super) fn view_tokens(&mut self) -> u64 {
        if let Some(known) = self.view.tokens() {
            return known;
        }
        let counted = self
            .log
            .newest_rewrite()
            .and_then(|rewrite| count_view(Fold::new(self.log.source(), rewrite, self.log.state().last_seq)));
        // Of a damaged log it is known only that they are no more than this.
        let tokens = counted.map_or(self.log.state().tally.message_tokens, |view| view.tokens);
        self.view.note_tokens(tokens);
        self.readers.note_view_tokens(tokens);
        tokens
    }

    pub(super) fn note_written(&mut self, durability: Durability) {
        self.readers.push(self.snapshot());
        self.changed = true;
        // Nobody may read for long; what is durable need not be remembered.
        self.advance(durability);
    }
}

impl Task {
    /// The configuration that readers are told.
    pub(super) fn visible_config<'a>(&'a self, inner: &'a Inner) -> &'a TaskConfig {
        inner.readers.config(inner.log.state().config.as_ref()).unwrap_or(&self.metadata.config)
    }
}
