//! Appending: messages and events, written under the lock, acknowledged when durable.

use std::borrow::Cow;
use std::sync::Arc;

use crate::context::{Pressure, count_tokens};
use crate::log::{Digest, Head};
use crate::mask::MaskCounts;
use crate::model::TaskId;
use crate::model::{
    Durability, Event, NewMessage, RequestId, Rewrite, Role, Segment, Status, StoreError, TaskConfig,
};
use crate::store::Store;

use super::ticket::{Due, Pending, Ticket};
use super::visibility::Former;
use super::{Caller, Inner, Task};
use crate::context::CompressionAttempt;
use crate::log::message_body;
use crate::store::masking;

/// A message to append.
#[derive(Debug, Clone)]
pub struct Append {
    /// The message.
    pub message: NewMessage,
    /// Who asks.
    pub caller: Caller,
}

/// The outcome of an append.
#[derive(Debug, Clone, PartialEq)]
pub struct AppendOutcome {
    /// The message's number.
    pub seq: u64,
    /// Its tokens.
    pub tokens: u64,
    /// Whether a call with the same id had appended it before.
    pub duplicate: bool,
    /// How full the context is with it.
    pub pressure: Pressure,
    /// The generation of the view.
    pub view_generation: u64,
    /// `task_source` of the task's key.
    pub source: Arc<str>,
    /// What was masked in it.
    pub masked: MaskCounts,
}

/// An append with all that can be done before the task's lock is taken.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    caller: &'a Caller,
    /// With secrets replaced.
    message: Cow<'a, NewMessage>,
    masked: MaskCounts,
    /// As the task's counter counts them.
    tokens: u64,
    body: String,
    digest: Digest,
}

impl Task {
    /// Masks a message, makes its body, checks its size and counts its tokens.
    pub(crate) fn prepare<'a>(&self, append: &'a Append) -> Result<Prepared<'a>, StoreError> {
        let Append { message, caller } = append;
        let mut masked = MaskCounts::default();
        let message = masking::message(&self.env.options.masker, message, &mut masked);
        let body = message_body(&message, caller.request_id.as_ref());
        let limit = self.env.options.max_message_bytes;
        if body.len() > limit {
            return Err(StoreError::TooLarge { size: body.len(), limit });
        }
        let digest = Digest::of(&[message.role.as_str(), &body]);
        let tokens = count_tokens(self.counter.get(), &message);
        Ok(Prepared { caller, message, masked, tokens, body, digest })
    }

    /// Writes a message; it is acknowledged when it is durable.
    pub(crate) fn append(self: &Arc<Self>, prepared: &Prepared<'_>) -> Result<Pending, StoreError> {
        let mut inner = self.lock();
        self.append_locked(&mut inner, prepared)
    }

    /// Writes messages one behind the other; without any, only looks whether the caller could.
    pub(crate) fn append_all(
        self: &Arc<Self>,
        all: &[Prepared<'_>],
        caller: &Caller,
    ) -> Result<Vec<Pending>, StoreError> {
        let mut inner = self.lock();
        if all.is_empty() {
            self.check_writable(&inner)?;
            self.check_running(&inner, "append to it")?;
            self.admit(&inner, caller.lease_generation)?;
        }
        // One that was used for something else refuses all of them.
        for Prepared { caller, digest, .. } in all {
            self.seen_before(&inner, caller.request_id.as_ref(), *digest)?;
        }
        all.iter().map(|prepared| self.append_locked(&mut inner, prepared)).collect()
    }

    /// Returns the message of an earlier call with this id, once it is durable.
    pub(crate) fn remembered(&self, request_id: &RequestId) -> Result<Option<u64>, StoreError> {
        let inner = self.lock();
        let seen =
            inner.log.state().requests.get(request_id).filter(|seen| seen.end <= inner.log.len()).cloned();
        let durability = inner.log.durability();
        drop(inner);
        let Some(seen) = seen else { return Ok(None) };
        self.wait_durable(seen.end, durability).map(|()| Some(seen.outcome))
    }

    /// The same if it can be done at once: nobody has the lock, and the view is there. Never blocks.
    pub(crate) fn try_append(
        self: &Arc<Self>,
        prepared: &Prepared<'_>,
    ) -> Option<Result<Pending, StoreError>> {
        let mut inner = self.inner.try_lock().ok()?;
        let ready =
            inner.view.is_open() && inner.read_only.is_none() && !inner.deleted && !inner.log.is_broken();
        // That may have to be read.
        let ready = ready && !inner.expects_system_message;
        ready.then(|| self.append_locked(&mut inner, prepared))
    }

    fn append_locked(
        self: &Arc<Self>,
        inner: &mut Inner,
        prepared: &Prepared<'_>,
    ) -> Result<Pending, StoreError> {
        let Prepared { caller, message, tokens, body, digest, .. } = prepared;
        let tokens = *tokens;
        if let Some((seq, end)) = self.seen_before(inner, caller.request_id.as_ref(), *digest)? {
            self.ensure_view(inner);
            return self.pending(inner, prepared, seq, end, true);
        }
        self.check_writable(inner)?;
        self.check_running(inner, "append to it")?;
        self.admit(inner, caller.lease_generation)?;
        if message.pinned {
            self.check_pin(inner, "pinned", tokens)?;
        }
        self.move_inherited_back(inner)?;
        self.ensure_view(inner);
        // That may have found the log damaged.
        self.check_writable(inner)?;
        self.check_quota(inner, 2 * body.len())?;
        // Without a view they are counted on from here.
        inner.view_tokens();
        let (seq, role) = (inner.log.state().last_seq + 1, message.role);
        let mut end = inner.write_line(self, Head::Message { seq, role, tokens }, body)?;
        if message.pinned {
            inner.readers.note_former(end, Some(Former::Pin { seq, pinned: false }));
        }
        match self.move_inherited_back(inner) {
            Ok(moved) => end = moved.unwrap_or(end),
            // The message is there; the next one tries again.
            Err(error) => {
                tracing::warn!(id = %self.id, %error, "a system message stands behind what was taken over")
            }
        }
        self.mark_dirty(inner);
        self.pending(inner, prepared, seq, end, false)
    }

    fn pending(
        self: &Arc<Self>,
        inner: &mut Inner,
        prepared: &Prepared<'_>,
        seq: u64,
        end: u64,
        duplicate: bool,
    ) -> Result<Pending, StoreError> {
        let durability = inner.log.durability();
        if durability == Durability::Process {
            inner.log.keep(end).map_err(|error| self.give_up(inner, error))?;
        }
        let outcome = AppendOutcome {
            seq,
            tokens: prepared.tokens,
            duplicate,
            pressure: self.pressure(inner),
            view_generation: inner.log.state().view_generation(),
            source: Arc::clone(&self.source),
            masked: prepared.masked.clone(),
        };
        if !duplicate {
            masking::count(&prepared.masked);
        }
        let ticket = Ticket {
            task: Arc::clone(self),
            commit: Arc::clone(inner.log.commit()),
            end,
            durability,
            checkpoint: self.is_checkpoint_due(inner),
            settled: false,
        };
        let message = &prepared.message;
        let due = Due {
            shedding: !duplicate && self.is_shedding_due(inner, message),
            trimming: !duplicate && self.is_trimming_due_by(inner, message),
        };
        Ok(Pending::new(outcome, ticket, due))
    }

    /// Appends an event that a caller asked for; answers what it was told before if it is a retry.
    pub(crate) fn append_event(&self, event: &Event, caller: &Caller) -> Result<(), StoreError> {
        self.append_event_of(event, Some(caller))
    }

    /// Appends an event; without a caller it is the server's own, which needs no lease and renews none.
    fn append_event_of(&self, event: &Event, caller: Option<&Caller>) -> Result<(), StoreError> {
        let request_id = caller.and_then(|caller| caller.request_id.as_ref());
        let event = &*self.env.masked(|masker, found| masking::event(masker, event, found))?;
        let body = event.body().map_err(|error| StoreError::io("writing an event", error.into()))?;
        let digest = Digest::of(&[event.name(), &body]);
        let mut inner = self.lock();
        let mut durability = inner.log.durability();
        let seen = self.seen_before(&inner, request_id, digest)?;
        let end = match seen {
            Some((_, end)) => end,
            None => {
                self.check_writable(&inner)?;
                self.check_running(&inner, "change it")?;
                if let Some(caller) = caller {
                    self.admit(&inner, caller.lease_generation)?;
                }
                self.check_quota(&inner, body.len())?;
                self.check_event(&mut inner, event)?;
                if let (Event::Config { config }, Durability::Process) = (event, durability) {
                    self.raise_durability(&mut inner, config)?;
                }
                let request = request_id.map(|id| (id, digest));
                let event = self.with_counts(&mut inner, event);
                let end = self.write_event(&mut inner, &event, request)?;
                self.mark_dirty(&mut inner);
                self.checkpoint_if_due(&mut inner);
                if durability == Durability::Process {
                    // A configuration that asks for more has it from its own line on, and readers see no further.
                    durability = inner.log.durability();
                }
                end
            }
        };
        drop(inner);
        self.wait_durable(end, durability)
    }

    /// Before a configuration asks for more than the one before: what records were acknowledged without a
    /// sync become durable, as readers will see no further.
    fn raise_durability(&self, inner: &mut Inner, config: &TaskConfig) -> Result<(), StoreError> {
        if config.durability.unwrap_or(self.env.options.durability) == Durability::Process {
            return Ok(());
        }
        let synced = inner.tools.sync().and_then(|()| inner.plans.sync());
        synced.map_err(|error| self.give_up(inner, error))
    }

    /// Usage goes into the log with what was counted: what the model was sent, so not what it answered.
    fn with_counts(&self, inner: &mut Inner, event: &Event) -> Event {
        let mut event = event.clone();
        if let Event::Usage { counted_tokens: counted_tokens @ None, .. } = &mut event {
            self.ensure_view(inner);
            *counted_tokens = Some(inner.view_tokens().saturating_sub(inner.log.state().answer_tokens));
        }
        event
    }

    fn check_event(&self, inner: &mut Inner, event: &Event) -> Result<(), StoreError> {
        let Event::Pin { seq, pinned } = event else { return Ok(()) };
        if *seq == 0 || *seq > inner.log.state().last_seq {
            let last = inner.log.state().last_seq;
            return Err(StoreError::MessageNotFound { id: self.id, seq: *seq, last });
        }
        if !*pinned {
            inner.context.set_pinned_tokens(None);
            inner.context.outputs.look_again();
            // What had to stay may go now.
            inner.context.compression = CompressionAttempt::default();
            return Ok(());
        }
        if inner.log.state().pins.contains(seq) {
            return Ok(());
        }
        self.check_in_view(inner, *seq)?;
        let tokens = inner.log.group_tokens(*seq)?;
        self.check_pin(inner, "seq", tokens)
    }

    pub(super) fn check_running(&self, inner: &Inner, action: &'static str) -> Result<(), StoreError> {
        let status = inner.log.state().status;
        if status == Status::Running {
            Ok(())
        } else {
            Err(StoreError::WrongStatus { id: self.id, status, action })
        }
    }

    /// Moves inherited messages behind the system messages that a task begins with, also if these come later; returns the end
    /// of the rewrite, if there was one. Should a crash come between the message and the rewrite, the next append does it.
    pub(super) fn move_inherited_back(&self, inner: &mut Inner) -> Result<Option<u64>, StoreError> {
        if !inner.expects_system_message {
            return Ok(None);
        }
        let newest = inner.log.newest_rewrite()?.filter(|newest| newest.strategy == Rewrite::INHERIT);
        let Some(newest) = newest else {
            inner.expects_system_message = false;
            return Ok(None);
        };
        let (covers, last) = (newest.covers, inner.log.state().last_seq);
        let (mut end, mut seen) = (covers, covers);
        let mut messages = inner.log.source().messages(covers + 1, last);
        while end == seen
            && messages.step(|seq, line| {
                seen = seq;
                if matches!(line.head, Head::Message { role: Role::System | Role::Developer, .. }) {
                    end = seq;
                }
                Ok(())
            })?
        {}
        inner.expects_system_message = end == last;
        if end == covers {
            return Ok(None);
        }
        let behind = newest.segments_by_reference().into_iter();
        let behind = behind.filter(|segment| !matches!(segment, Segment::Keep { .. }));
        let rewrite = Rewrite {
            ordinal: newest.ordinal + 1,
            strategy: Rewrite::INHERIT.to_owned(),
            base: newest.ordinal,
            parent: None,
            covers: end,
            reason: "behind the system prompt".to_owned(),
            segments: std::iter::once(Segment::keep(1, end)).chain(behind).collect(),
        };
        let end = self.write_event(inner, &Event::Rewrite(rewrite), None)?;
        // It is made again when it is next looked at.
        inner.view.discard();
        Ok(Some(end))
    }
}

impl Store {
    /// Adds to the counters what summaries by a model cost. Nobody's lease is asked for, as the server has spent it already.
    pub fn note_cost(&self, id: TaskId, llm_calls: u64, tokens: u64) -> Result<(), StoreError> {
        let task = self.task(id)?;
        task.append_event_of(&Event::Statistics { llm_calls, tool_calls: 0, tokens, compressions: 0 }, None)
    }
}
