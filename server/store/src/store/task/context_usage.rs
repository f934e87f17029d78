//! Counts a task's tokens: its counter, and how full its context is by it.

use std::sync::atomic::{AtomicU8, Ordering};

use super::Task;
use super::task_info::count_view;
use crate::context::{Pressure, count_json};
use crate::log::Fold;
use crate::model::json::items;
use crate::model::{Calibration, Durability, Json, StoreError, TaskConfig, TokenCounter};
use crate::store::env::Env;

/// The counter in force. Messages are counted before the task's lock is taken.
#[derive(Debug)]
pub(super) struct CounterCell(AtomicU8);

impl CounterCell {
    pub(super) fn new(counter: TokenCounter) -> Self {
        Self(AtomicU8::new(counter as u8))
    }

    pub(super) fn get(&self) -> TokenCounter {
        let number = self.0.load(Ordering::Relaxed);
        let found = TokenCounter::ALL.into_iter().find(|counter| *counter as u8 == number);
        found.unwrap_or_default()
    }

    pub(super) fn set(&self, counter: TokenCounter) {
        self.0.store(counter as u8, Ordering::Relaxed);
    }
}

impl Task {
    /// Returns what counts the tokens of the task.
    pub(crate) fn token_counter(&self) -> TokenCounter {
        self.counter.get()
    }
}

/// The counter that a configuration asks for, or the server's.
pub(super) fn chosen(env: &Env, config: &TaskConfig) -> TokenCounter {
    TokenCounter::of(config).unwrap_or(env.options.token_counter)
}

/// The usage of a context, and how it is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextUsage {
    /// With the tools.
    pub pressure: Pressure,
    /// Messages of the view.
    pub messages: u64,
    /// Tokens of the view, before they are calibrated.
    pub counted_tokens: u64,
    /// Tokens of the tools, before they are calibrated.
    pub tools_tokens: u64,
    /// Those tokens of the view that are outputs of tools, without the trimmed ones.
    pub output_tokens: u64,
    /// What counted them.
    pub counter: TokenCounter,
    /// What counts are multiplied by.
    pub calibration: Calibration,
    /// Bytes of the view.
    pub view_bytes: u64,
}

impl Task {
    /// Remembers the tools of a request: they are sent with the next one too.
    pub(crate) fn note_tools(&self, tools: &Json) -> Result<(), StoreError> {
        let tokens = if items(tools.as_str()).is_empty() { 0 } else { count_json(self.counter.get(), tools) };
        let mut inner = self.lock_existing()?;
        inner.context.note_tools(tokens);
        Ok(())
    }

    pub(super) fn durability_of(&self, config: &TaskConfig) -> Durability {
        config.durability.unwrap_or(self.env.options.durability)
    }

    pub(super) fn counter_of(&self, config: &TaskConfig) -> TokenCounter {
        chosen(&self.env, config)
    }

    /// Returns how full the context is, with tools that are sent beside it: those that are given, else those of the last
    /// request.
    pub(crate) fn context_usage(&self, tools: Option<&Json>) -> Result<ContextUsage, StoreError> {
        let mut inner = self.lock_existing()?;
        self.ensure_view(&mut inner);
        inner.advance();
        let (counter, policy) = (self.counter_of(self.visible_config(&inner)), self.visible_policy(&inner));
        let tally = inner.visible_tally();
        let sent = inner.context.tools_tokens(tally.tools_tokens);
        let (mut counted_tokens, mut messages, mut view_bytes) = (
            inner.readers.snapshot().view_tokens,
            inner.readers.snapshot().view_lines,
            inner.readers.snapshot().view_len,
        );
        let mut output_tokens = inner.readers.snapshot().output_tokens;
        let mut unseen = None;
        if !inner.view.is_open() {
            unseen = Some((
                inner.visible_source(),
                inner.log.state().rewrite.clone(),
                inner.readers.snapshot().last_seq,
            ));
        }
        drop(inner);
        if let Some((source, rewrite, last_seq)) = unseen {
            // Where nothing can be written there may be no view; what it would be is counted.
            let rewrite = source.marked_rewrite(rewrite.as_ref())?;
            let view = count_view(Fold::new(source, rewrite, last_seq))?;
            (counted_tokens, messages, view_bytes) = (view.tokens, view.lines, view.len);
            output_tokens = view.output_tokens;
        }
        let tools_tokens = tools.map_or(sent, |tools| count_json(counter, tools));
        let tokens = tally.calibrated(counted_tokens.saturating_add(tools_tokens));
        let pressure = self.whole_pressure(&self.lock(), tokens, &policy);
        Ok(ContextUsage {
            pressure,
            messages,
            counted_tokens,
            tools_tokens,
            output_tokens,
            counter,
            calibration: tally.calibration,
            view_bytes,
        })
    }
}
