//! The parts of an open task behind its lock, and what concerns several of them: a line that is written, and what readers see.

use std::io;

use super::log::TaskLog;
use super::records::RecordLog;
use super::task_info::count_view;
use super::view::TaskView;
use super::visibility::{LogSnapshot, Visibility};
use super::{ReadOnly, Task};
use crate::context::ContextPolicy;
use crate::context::{CompressionAttempt, LogTokens};
use crate::log::{Appended, Counters, Fold, Head, LogKind, LogSource};
use crate::model::{Role, StoreError};

/// The parts of an open task, behind its lock.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) log: TaskLog,
    pub(super) tools: RecordLog,
    pub(super) plans: RecordLog,
    pub(super) view: TaskView,
    pub(super) readers: Visibility<LogSnapshot>,
    pub(super) rewriting: bool,
    pub(super) context: ContextPolicy,
    /// Whether a system message may still come, which stands in front of inherited messages.
    pub(super) expects_system_message: bool,
    /// Why nothing can be written, if that is so.
    pub(super) read_only: Option<ReadOnly>,
    pub(super) deleted: bool,
    /// The catalog's row is behind.
    pub(super) dirty: bool,
    /// The last checkpoint does not say how things are.
    pub(super) changed: bool,
}

impl Inner {
    /// Returns the parts of a task whose lines are all durable, with a view that is not open yet.
    pub(super) fn new(
        log: TaskLog,
        tools: RecordLog,
        plans: RecordLog,
        view: TaskView,
        context: ContextPolicy,
        expects_system_message: bool,
        read_only: Option<ReadOnly>,
    ) -> Self {
        let changed = log.since_checkpoint() > 0;
        let readers = Visibility::default();
        let mut inner = Self {
            log,
            tools,
            plans,
            view,
            readers,
            rewriting: false,
            context,
            expects_system_message,
            read_only,
            deleted: false,
            dirty: false,
            changed,
        };
        inner.show_all();
        inner
    }

    /// Shows readers every line that is safe by now.
    pub(super) fn advance(&mut self) {
        let durability = self.log.durability();
        self.readers.advance(self.log.commit(), durability);
        self.tools.advance(durability);
        self.plans.advance(durability);
    }

    /// Returns whether there are lines that readers do not see yet.
    pub(super) fn is_ahead(&self) -> bool {
        self.readers.is_behind() || self.tools.is_ahead() || self.plans.is_ahead()
    }

    /// Returns how the task stands with all lines that are written.
    pub(super) fn snapshot(&self) -> LogSnapshot {
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

    pub(super) fn note_written(&mut self) {
        self.readers.push(self.snapshot());
        self.changed = true;
        // Nobody may read for long; what is durable need not be remembered.
        self.advance();
    }

    /// Returns the log up to the newest line that readers may see.
    pub(super) fn visible_source(&mut self) -> LogSource {
        self.advance();
        self.log.source_to(self.readers.snapshot().log_end)
    }

    /// Writes an event with a body that is ready; answers the end of its line.
    pub(super) fn write_event(
        &mut self,
        task: &Task,
        name: &'static str,
        body: &str,
    ) -> Result<u64, StoreError> {
        let after = self.log.state().last_seq;
        self.write_line(task, Head::Event { name, after }, body)
    }

    /// Writes a line and takes it into state, index and view. After an error nothing has changed.
    pub(super) fn write_line(&mut self, task: &Task, head: Head<'_>, body: &str) -> Result<u64, StoreError> {
        let now = task.env.clock.now();
        let appended = self.log.append(head, now, body).map_err(|error| self.not_written(task, error))?;
        self.take(task, &appended)
    }

    pub(super) fn not_written(&mut self, task: &Task, error: io::Error) -> StoreError {
        if self.log.is_broken() {
            task.give_up(self, error)
        } else {
            StoreError::io("appending to messages.jsonl", error)
        }
    }

    /// Takes a line that was written into state, index and view; answers its end.
    pub(super) fn take(&mut self, task: &Task, appended: &Appended) -> Result<u64, StoreError> {
        let line = self.log.apply(appended).map_err(|error| {
            // The disk is not to blame.
            self.read_only = Some(ReadOnly::Failed);
            tracing::error!(id = %task.id, %error, "a line that does not fit the log was taken back");
            StoreError::WriteFailed { id: task.id, source: error }
        })?;
        let head = line.head;
        if matches!(head, Head::Event { name: "config", .. }) {
            let config = task.config(&self.log);
            task.counter.set(task.counter_of(config));
            let durability = task.durability_of(config);
            self.context.configure(config, &task.env.options.compression);
            self.log.set_durability(durability);
        }
        if let Head::Message { seq, role, .. } = head {
            if role == Role::Assistant {
                self.context.outputs.note_answer(seq);
            }
            let (fs, boot_id) = (task.env.fs.as_ref(), &task.env.boot_id);
            let generation = self.log.state().view_generation();
            if let Err(error) = self.view.append(fs, &self.log.dir(), boot_id, generation, &line) {
                tracing::warn!(id = %task.id, %error, "the view could not be written; it will be brought up to date");
            }
        }
        self.note_written();
        Ok(appended.end)
    }

    /// Takes no more writes: the log is damaged where it was durable.
    pub(super) fn freeze(&mut self, reason: String) {
        self.read_only.get_or_insert(ReadOnly::Quarantined(reason));
    }

    pub(super) fn records(&mut self, kind: LogKind) -> &mut RecordLog {
        if kind == LogKind::Plans { &mut self.plans } else { &mut self.tools }
    }

    /// Tokens of the tools that are sent beside the view, as counted.
    pub(super) fn tools_tokens(&self) -> u64 {
        self.context.tools_tokens(self.log.state().tally.tools_tokens)
    }

    /// Returns the counters, with what calls have shown since.
    pub(super) fn tally(&self) -> Counters {
        self.with_refusal(&self.log.state().tally)
    }

    /// Returns the same as readers see them.
    pub(super) fn visible_tally(&self) -> Counters {
        self.with_refusal(&self.readers.snapshot().tally)
    }

    fn with_refusal(&self, tally: &Counters) -> Counters {
        let reported = self.context.reported(self.log.state().view_generation()).or(tally.reported);
        Counters { reported, ..tally.clone() }
    }

    pub(super) fn log_tokens(&self) -> LogTokens {
        let now = self.log.state().tally.message_tokens;
        LogTokens { now, compressed_at: self.log.compressed_at() }
    }

    /// Records that there is a new view, made out of messages of `seen` tokens.
    pub(super) fn note_view(&mut self, seen: u64) {
        self.context.compression = CompressionAttempt::succeeded(seen, self.log.compressed_at());
    }
}
