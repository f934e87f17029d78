//! What readers are told of a task: everything up to the newest line that no crash can take back.

use std::collections::{BTreeSet, VecDeque};

use chrono::{DateTime, Utc};

use super::row::count_view;
use super::view::View;
use super::{Inner, Task};
use crate::log::{Commit, Fold, Tally};
use crate::model::{Durability, Event, TaskConfig};

/// Where a task stood after a line of its log.
#[derive(Debug, Clone, Default)]
pub(super) struct Mark {
    pub(super) log_end: u64,
    pub(super) last_seq: u64,
    pub(super) view_len: u64,
    pub(super) extra_len: u64,
    pub(super) view_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) view_lines: u64,
    pub(super) tally: Tally,
    pub(super) updated_at: Option<DateTime<Utc>>,
    /// What the line changed and is too large to be copied for each: how it was before.
    before: Option<Before>,
}

#[derive(Debug, Clone)]
pub(super) enum Before {
    Pin { seq: u64, pinned: bool },
    Config(Option<Box<TaskConfig>>),
}

/// Where `tools.jsonl` or `planning.jsonl` stood after a line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordsMark {
    pub(super) end: u64,
    pub(super) last: u64,
    pub(super) successes: u64,
}

/// Takes the marks off a queue that readers may see; answers the newest of them.
pub(super) fn take_visible<M>(
    pending: &mut VecDeque<M>,
    end: impl Fn(&M) -> u64,
    commit: &Commit,
    durability: Durability,
) -> Option<M> {
    let visible = commit.visible(durability);
    let mut newest = None;
    while pending.front().is_some_and(|mark| end(mark) <= visible) {
        newest = pending.pop_front();
    }
    newest
}

impl Inner {
    /// Moves the marks of what readers may see.
    pub(super) fn advance(&mut self, durability: Durability) {
        let newest = take_visible(&mut self.pending, |mark| mark.log_end, self.log.commit(), durability);
        if let Some(mark) = newest {
            self.shown = mark;
        }
        self.tools.advance(durability);
        self.plans.advance(durability);
    }

    /// Whether there are lines that readers do not see yet.
    pub(super) fn is_ahead(&self) -> bool {
        !self.pending.is_empty() || self.tools.is_ahead() || self.plans.is_ahead()
    }

    /// The mark of everything written.
    pub(super) fn mark(&self) -> Mark {
        let view = self.view.as_ref().map(View::state);
        Mark {
            log_end: self.log.len(),
            last_seq: self.log.state().last_seq,
            view_len: view.map_or(0, |view| view.len),
            extra_len: view.map_or(0, |view| view.extra_len),
            view_tokens: view.map_or(self.tokens.unwrap_or(0), |view| view.tokens),
            output_tokens: view.map_or(0, |view| view.output_tokens),
            view_lines: view.map_or(0, |view| view.lines),
            tally: self.log.state().tally.clone(),
            updated_at: self.log.state().updated_at,
            before: None,
        }
    }

    /// Tokens of the view; counted where there is none.
    pub(super) fn view_tokens(&mut self) -> u64 {
        if let Some(view) = &self.view {
            return view.state().tokens;
        }
        if let Some(known) = self.tokens {
            return known;
        }
        let counted = self.log.newest_rewrite().and_then(|rewrite| {
            let source = self.log.source();
            count_view(Fold::new(source, rewrite, self.log.state().last_seq))
        });
        // Of a damaged log it is known only that they are no more than this.
        let tokens = counted.map_or(self.log.state().tally.message_tokens, |view| view.tokens);
        self.tokens = Some(tokens);
        if self.pending.is_empty() {
            self.shown.view_tokens = tokens;
        }
        tokens
    }

    pub(super) fn note_written(&mut self, durability: Durability) {
        let mark = self.mark();
        self.pending.push_back(mark);
        self.changed = true;
        // Nobody may read for long; what is durable need not be remembered.
        self.advance(durability);
    }

    /// What an event is about to change, for [`Self::note_before`].
    pub(super) fn before(&self, event: &Event) -> Option<Before> {
        match event {
            Event::Pin { seq, .. } => {
                Some(Before::Pin { seq: *seq, pinned: self.log.state().pins.contains(seq) })
            }
            Event::Config { .. } => Some(Before::Config(self.log.state().config.clone().map(Box::new))),
            Event::Started { .. }
            | Event::Lease { .. }
            | Event::Rewrite(_)
            | Event::Status { .. }
            | Event::Usage { .. }
            | Event::Statistics { .. }
            | Event::Forked { .. }
            | Event::Erased { .. } => None,
        }
    }

    /// Keeps how things were before the line that ends at `end`, as long as readers do not see it.
    pub(super) fn note_before(&mut self, end: u64, before: Option<Before>) {
        if let Some(mark) = self.pending.back_mut().filter(|mark| mark.log_end == end) {
            mark.before = before;
        }
    }

    /// The pinned messages that readers are told.
    pub(super) fn shown_pins(&self) -> BTreeSet<u64> {
        let mut pins = self.log.state().pins.clone();
        for mark in self.pending.iter().rev() {
            match mark.before {
                Some(Before::Pin { seq, pinned: true }) => pins.insert(seq),
                Some(Before::Pin { seq, pinned: false }) => pins.remove(&seq),
                Some(Before::Config(_)) | None => false,
            };
        }
        pins
    }

    /// Whether readers are told that a message is pinned.
    pub(super) fn is_shown_pinned(&self, wanted: u64) -> bool {
        let before = self.pending.iter().find_map(|mark| match mark.before {
            Some(Before::Pin { seq, pinned }) if seq == wanted => Some(pinned),
            _ => None,
        });
        before.unwrap_or_else(|| self.log.state().pins.contains(&wanted))
    }
}

impl Task {
    /// The configuration that readers are told.
    pub(super) fn shown_config<'a>(&'a self, inner: &'a Inner) -> &'a TaskConfig {
        let before = inner.pending.iter().find_map(|mark| match &mark.before {
            Some(Before::Config(config)) => Some(config.as_deref()),
            _ => None,
        });
        before.unwrap_or(inner.log.state().config.as_ref()).unwrap_or(&self.metadata.config)
    }
}
