//! Compresses views: whether it is time, a new view in the place of the old one, and reports from the log.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Instant;

use crate::context::{Policy, Pressure, Stage};
use crate::log::{Digest, Fold, FoundRewrite, LogSource};
use crate::model::TaskId;
use crate::model::{Durability, Rewrite, Segment, Status, StoreError, SummaryRecord};
use crate::store::Store;

use super::interrupted::ASKED_AGAIN;
use super::outline::{Part, assemble};
use super::{Caller, Inner, NewRewrite, Task};
use crate::context::CompressionAttempt;

/// A view that a strategy has worked out.
#[derive(Debug, Clone)]
pub struct NewView {
    /// The strategy.
    pub strategy: String,
    /// The generation of the outline it was worked out on.
    pub base: u64,
    /// Messages of that outline.
    pub seen: u64,
    /// The last message of the log then.
    pub last_seq: u64,
    /// Tokens of all messages of the log then.
    pub message_tokens: u64,
    /// Messages that were pinned then.
    pub pins: BTreeSet<u64>,
    /// The last message it speaks for; the end of a closed group.
    pub covers: u64,
    /// Why.
    pub reason: String,
    /// What the view is to consist of, and the messages behind `covers`.
    pub parts: Vec<Part>,
    /// Records of its summaries, in the order of the literals of that kind. The store gives the ids.
    pub summaries: Vec<SummaryRecord>,
}

/// The outcome of a compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressed {
    /// The generation of the new view.
    pub generation: u64,
    /// The newest summary in it that is new; 0: none.
    pub summary_id: u64,
    /// Tokens of the new view, as counted, without those of messages that the outline did not have.
    pub tokens: u64,
    /// Messages of the new view without those, with what stands for results that never came; none if the view could not
    /// be put in place.
    pub messages: Option<u64>,
}

/// The result of a compression by the log, with messages that were appended while it ran.
#[derive(Debug, Clone, PartialEq)]
pub struct CompressionReport {
    /// The strategy.
    pub strategy: String,
    /// Messages in the view before.
    pub messages_before: u64,
    /// Messages in the view after it.
    pub messages_after: u64,
    /// Messages that were removed.
    pub messages_removed: u64,
    /// Tokens of the view before, by the present calibration.
    pub tokens_before: u64,
    /// Tokens of the view after it.
    pub tokens_after: u64,
    /// The newest summary that it made.
    pub summary: Option<SummaryRecord>,
}

impl Task {
    /// Puts a new view in the place of the old one, if that was only trimmed since and nothing was pinned that it has not.
    /// `digest` is of what the caller asked.
    pub(crate) fn compress(
        &self,
        new: &NewView,
        caller: &Caller,
        digest: Digest,
    ) -> Result<Compressed, StoreError> {
        let summary_id = Cell::new(0);
        let generation = self.run_rewrite(caller, digest, Some(&new.pins), |task, inner| {
            let newest = task.only_trimmed_since(inner, new.base)?;
            let (segments, covers) =
                assemble(&new.parts, (new.seen, new.covers), newest.as_ref(), inner.log.state().last_seq);
            let made = new.summaries.len() as u64;
            summary_id.set(if made > 0 { inner.log.state().tally.summaries + made } else { 0 });
            let rewrite = NewRewrite {
                strategy: new.strategy.clone(),
                base: inner.log.state().view_generation(),
                covers,
                reason: new.reason.clone(),
                segments,
                summaries: new.summaries.clone(),
            };
            task.plan_settled(inner, &rewrite)
        })?;
        let mut inner = self.lock();
        inner.note_view(new.message_tokens);
        let meanwhile = inner.log.state().tally.message_tokens.saturating_sub(new.message_tokens);
        let tokens = inner.view_tokens().saturating_sub(meanwhile);
        let came = inner.log.state().last_seq.saturating_sub(new.last_seq);
        let messages = inner.view.state().map(|view| view.lines.saturating_sub(came));
        Ok(Compressed { generation, summary_id: summary_id.get(), tokens, messages })
    }

    /// The newest rewrite, if everything since `base` was a trim: then messages stand where they stood.
    fn only_trimmed_since(&self, inner: &Inner, base: u64) -> Result<Option<Rewrite>, StoreError> {
        let newest = inner.log.state().view_generation();
        let source = inner.log.source();
        for ordinal in base + 1..=newest {
            let between = source.rewrite(ordinal)?;
            if between.strategy != "trim" || between.reason == ASKED_AGAIN {
                return Err(StoreError::StaleView { id: self.id, given: base, newest });
            }
        }
        inner.log.newest_rewrite()
    }

    /// Remembers that there was a try, so that the next one waits until there is something new. `seen` are the tokens of
    /// all messages that it knew of. One by other settings than the task has says nothing of the next one, which is by
    /// those.
    pub(crate) fn note_try(&self, policy: &Policy, seen: u64, over: bool) {
        let mut inner = self.lock();
        if **inner.context.policy() != *policy {
            return;
        }
        let compressed_at = inner.log.compressed_at();
        let is_over = over || self.pressure(&mut inner).stage == Stage::Emergency;
        let over_limit = is_over.then_some(policy.limit);
        inner.context.compression = CompressionAttempt::useless(seen, compressed_at, over, over_limit);
    }

    /// Remembers that a compression was taken back: the next one waits for more, unless the view is over the limit.
    pub(super) fn note_undo(&self) {
        let mut inner = self.lock();
        let seen = inner.log.state().tally.message_tokens;
        inner.note_view(seen);
    }

    /// Remembers that a try failed: the next one waits for more to come, or for a while.
    pub(crate) fn note_failure(&self) {
        let mut inner = self.lock();
        let (log, limit) = (inner.log_tokens(), inner.context.policy().limit);
        inner.context.compression.fail(log, limit, Instant::now());
    }

    /// Returns how full a context of so many tokens is, and whether it is to be compressed.
    pub(super) fn whole_pressure(&self, inner: &Inner, tokens: u64, policy: &Policy) -> Pressure {
        let mut pressure = Pressure::of(tokens, policy);
        pressure.over = inner.context.compression.is_over() && pressure.should_compress;
        pressure.due = self.is_compression_due(inner, policy, &pressure);
        let breakers = &self.env.options.breakers;
        pressure.breaker_open =
            policy.breaker().map(|(provider, model)| breakers.is_open(provider, model, Instant::now()));
        pressure
    }

    /// `task_source` of its key.
    pub(crate) fn source(&self) -> std::sync::Arc<str> {
        std::sync::Arc::clone(&self.source)
    }

    /// Returns the generation that an earlier call with the same id has made, if there was one.
    pub(crate) fn compressed_before(
        &self,
        caller: &Caller,
        digest: Digest,
    ) -> Result<Option<u64>, StoreError> {
        let inner = self.lock();
        let Some((generation, end)) = self.seen_before(&inner, caller.request_id.as_ref(), digest)? else {
            return Ok(None);
        };
        drop(inner);
        self.wait_durable(end, Durability::Group).map(|()| Some(generation))
    }

    /// Returns whether it is time to compress without being asked.
    fn is_compression_due(&self, inner: &Inner, policy: &Policy, pressure: &Pressure) -> bool {
        let asked_for = policy.enabled && policy.auto && pressure.should_compress;
        if !asked_for || inner.log.state().status != Status::Running || inner.rewriting {
            return false;
        }
        inner.context.compression.is_next_due(policy, pressure, inner.log_tokens(), Instant::now())
    }
}

/// Counts the messages and tokens of a view up to a message of the log.
fn count(source: &LogSource, rewrite: Option<Rewrite>, last_seq: u64) -> Result<(u64, u64), StoreError> {
    let mut fold = Fold::new(source.clone(), rewrite, last_seq);
    let (mut lines, mut extra) = (Vec::new(), Vec::new());
    while fold.step(&mut lines, &mut extra)? {
        lines.clear();
        extra.clear();
    }
    Ok((fold.state().lines, fold.state().tokens))
}

/// Returns the newest summary that a rewrite has made.
fn newest_summary(rewrite: &Rewrite) -> Result<Option<SummaryRecord>, StoreError> {
    let mut made = rewrite.segments.iter().rev().filter_map(|segment| match segment {
        Segment::Literal(literal) => literal.summary.as_ref(),
        Segment::Keep { .. } | Segment::Replace { .. } | Segment::Earlier { .. } => None,
    });
    let parsed = made.next().map(|record| serde_json::from_str(record.as_str())).transpose();
    parsed.map_err(|error| StoreError::io("a summary", error.into()))
}

impl Store {
    /// Returns whether it is time to compress a view without being asked, with what is not durable yet.
    pub fn is_compression_due(&self, id: TaskId) -> Result<bool, StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        task.ensure_view(&mut inner);
        Ok(task.pressure(&mut inner).due)
    }

    /// The lease of whoever works on a task; 0: nobody does.
    pub fn lease(&self, id: TaskId) -> Result<u64, StoreError> {
        let task = self.task(id)?;
        let inner = task.lock_existing()?;
        Ok(inner.log.state().lease.as_ref().map_or(0, |lease| lease.generation))
    }

    /// Reads from the log what the rewrite has done that made a generation of the view.
    pub fn compression_report(&self, id: TaskId, generation: u64) -> Result<CompressionReport, StoreError> {
        let task = self.task(id)?;
        let (source, calibration, tools) = {
            let inner = task.lock_existing()?;
            (inner.log.source(), inner.log.state().tally.calibration, inner.tools_tokens())
        };
        let FoundRewrite { rewrite, after: last_seq, .. } = source.find_rewrite(generation)?;
        let base = if rewrite.base > 0 { Some(source.rewrite(rewrite.base)?) } else { None };
        let new = rewrite.segments.iter().filter(|segment| matches!(segment, Segment::Literal(_))).count();
        let calibrated = |counted: u64| calibration.apply(counted.saturating_add(tools));
        let (strategy, summary) = (rewrite.strategy.clone(), newest_summary(&rewrite)?);
        let (messages_before, tokens_before) = count(&source, base, last_seq)?;
        let (messages_after, tokens_after) = count(&source, Some(rewrite), last_seq)?;
        Ok(CompressionReport {
            strategy,
            messages_before,
            messages_after,
            messages_removed: (messages_before + new as u64).saturating_sub(messages_after),
            summary,
            tokens_before: calibrated(tokens_before),
            tokens_after: calibrated(tokens_after),
        })
    }

    /// Refuses a caller that could not compress a view, before anything is done for it.
    pub fn may_compress(&self, id: TaskId, caller: &Caller) -> Result<(), StoreError> {
        let task = self.task(id)?;
        let inner = task.lock();
        task.check_writable(&inner)?;
        task.check_running(&inner, "compress it")?;
        task.admit(&inner, caller.lease_generation)
    }

    /// Refuses a caller that does not work on a task and so has nothing to give up, whatever has become of the task.
    pub fn may_give_up(&self, id: TaskId, caller: &Caller) -> Result<(), StoreError> {
        let task = self.task(id)?;
        let inner = task.lock_existing()?;
        task.admit(&inner, caller.lease_generation)
    }
}
