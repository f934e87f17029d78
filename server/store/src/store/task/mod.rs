//! One open task: its logs, their state, and its view.
//!
//! A task's lock is held while a line is written, and not while callers wait for it to become durable. It is
//! held over a sync only where that is part of a protocol: rewrites, changes of status, checkpoints, and a view
//! that is made again.

mod append;
mod collect;
mod compress;
mod context;
mod context_usage;
mod create;
mod follow;
mod fork;
mod inner;
mod interrupted;
mod lifecycle;
mod log;
mod media;
mod message_output;
mod open;
mod outline;
mod outputs;
mod pins;
mod read;
mod records;
mod request;
mod rewrite;
mod snapshot;
mod summaries;
mod task_info;
mod ticket;
mod trim;
mod view;
mod view_files;
mod visibility;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::context::Pressure;
use crate::log::{Digest, Signal};
use crate::model::{Durability, Event, Metadata, RequestId, StoreError, TaskConfig, TaskId};

use super::checkpoint::{Checkpoint, RecordMark};
use super::env::Env;
use super::layout::{self, Folder};
use super::masking;
use context_usage::CounterCell;
use inner::Inner;
use log::TaskLog;
use records::RecordLog;
use view::TaskView;
use visibility::Former;

pub use append::{Append, AppendOutcome};
pub use collect::Collected;
pub use compress::{Compressed, CompressionReport, NewView};
pub use context_usage::ContextUsage;
pub(crate) use create::{First, create};
pub use follow::{LogEnds, Subscription};
pub(crate) use fork::Fork;
pub(crate) use lifecycle::StatusChange;
pub(crate) use open::OpenMode;
pub use outline::{Outline, Part};
pub use outputs::Output;
use outputs::TaskOutputs;
pub(crate) use outputs::{PutFiles, bad_output};
pub use read::{CurrentReader, FilePart, LineReader};
pub use records::Recorded;
pub use request::RequestFile;
pub use rewrite::NewRewrite;
pub use snapshot::{ViewLines, ViewSnapshot};
pub use summaries::SummaryLines;
pub use task_info::TaskInfo;
pub(crate) use task_info::build_row;
pub use ticket::{Due, Pending, TaskHandle};
pub use trim::{ProtectedOutputs, TrimOutcome};
pub(crate) use view::remove_views;
pub(crate) use view_files::crc_of;

/// The caller of a change, and the id of the call.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Names the call, so that a retry changes nothing.
    pub request_id: Option<RequestId>,
    /// The caller's lease; 0: none.
    pub lease_generation: u64,
}

/// A task with its files open.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    env: Arc<Env>,
    metadata: Metadata,
    /// `task_source` of its key, for those who count.
    source: Arc<str>,
    signal: Arc<Signal>,
    counter: CounterCell,
    outputs: TaskOutputs,
    inner: Mutex<Inner>,
}

/// The reason why a task takes no writes.
#[derive(Debug, Clone)]
enum ReadOnly {
    Quarantined(String),
    NewerFormat(String),
    /// A write failed; the task has to be opened again.
    Failed,
    /// There was no room to open it for writing; each call tries again.
    Full,
}

impl Task {
    /// Locks the task. If a thread panicked with the lock, nobody knows how far it came: the handle takes no more writes, and
    /// the next call opens the task again from its files.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| {
            self.inner.clear_poison();
            let mut inner = poisoned.into_inner();
            inner.read_only = Some(ReadOnly::Failed);
            tracing::error!(id = %self.id, "a call panicked in the task: it is opened again");
            inner
        })
    }

    /// The lease that it began with: no other task with the same id did.
    pub(crate) fn first_lease(&self) -> u64 {
        self.lock().log.state().first_lease
    }

    fn config<'a>(&'a self, log: &'a TaskLog) -> &'a TaskConfig {
        log.state().config.as_ref().unwrap_or(&self.metadata.config)
    }

    /// Returns whether a handle is of no more use: a write failed, or the task is gone. Once this was answered with yes,
    /// the handle does not touch the task's files any more, so that they can be opened again.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent_locked(&mut self.lock())
    }

    fn is_spent_locked(&self, inner: &mut Inner) -> bool {
        if inner.log.is_broken() || inner.tools.is_broken() || inner.plans.is_broken() {
            self.give_up(inner, io::Error::other("an earlier write failed"));
        }
        inner.deleted || matches!(inner.read_only, Some(ReadOnly::Failed | ReadOnly::Full))
    }

    /// Takes no writes, for want of room: the handle is good for the calls that have it, and no others.
    pub(crate) fn wait_for_room(&self) {
        self.lock().read_only.get_or_insert(ReadOnly::Full);
    }

    /// Locks the task; fails if it was deleted since the caller found it.
    fn lock_existing(&self) -> Result<MutexGuard<'_, Inner>, StoreError> {
        let inner = self.lock();
        self.check_there(&inner).map(|()| inner)
    }

    /// Refuses calls on a task that was removed since the caller found it.
    fn check_there(&self, inner: &Inner) -> Result<(), StoreError> {
        if inner.deleted { Err(StoreError::TaskNotFound { id: self.id }) } else { Ok(()) }
    }

    /// Refuses calls that nobody could make now, whatever their lease.
    fn check_writable(&self, inner: &Inner) -> Result<(), StoreError> {
        let id = self.id;
        self.check_there(inner)?;
        self.env.check_writable()?;
        match &inner.read_only {
            None => Ok(()),
            Some(ReadOnly::Quarantined(reason)) => {
                Err(StoreError::Quarantined { id, reason: reason.clone() })
            }
            Some(ReadOnly::NewerFormat(found)) => Err(StoreError::NewerFormat { id, found: found.clone() }),
            Some(ReadOnly::Failed) => {
                Err(StoreError::WriteFailed { id, source: io::Error::other("an earlier write failed") })
            }
            Some(ReadOnly::Full) => Err(StoreError::DiskFull { source: io::ErrorKind::StorageFull.into() }),
        }
    }

    /// Refuses to remove files of a task, but not for want of room.
    fn check_may_free(&self, inner: &Inner) -> Result<(), StoreError> {
        match &inner.read_only {
            None | Some(ReadOnly::Full) => self.check_there(inner).and_then(|()| self.env.check_may_free()),
            Some(_) => self.check_writable(inner),
        }
    }

    fn admit(&self, inner: &Inner, generation: u64) -> Result<(), StoreError> {
        let state = &inner.log.state();
        let now = self.env.clock.monotonic();
        self.env.leases.admit(self.id, state.lease.as_ref(), state.lease_generation, generation, now)
    }

    /// Returns the outcome of an earlier call with the same id, if there was one, and the length up to which the log must be
    /// durable before it is acknowledged again.
    fn seen_before(
        &self,
        inner: &Inner,
        request_id: Option<&RequestId>,
        digest: Digest,
    ) -> Result<Option<(u64, u64)>, StoreError> {
        let Some((id, seen)) = request_id.and_then(|id| Some((id, inner.log.state().requests.get(id)?)))
        else {
            return Ok(None);
        };
        if seen.digest != digest {
            return Err(StoreError::RequestIdReused { request_id: id.to_string() });
        }
        if seen.end > inner.log.len() {
            // The checkpoint remembers it, but the log is damaged before it: it cannot be told again.
            self.check_writable(inner)?;
            return Ok(None);
        }
        Ok(Some((seen.outcome, seen.end)))
    }

    /// Writes an event and takes it into the state. It need not be durable yet.
    fn write_event(
        &self,
        inner: &mut Inner,
        event: &Event,
        request: Option<(&RequestId, Digest)>,
    ) -> Result<u64, StoreError> {
        let failed = |error: serde_json::Error| StoreError::io("writing an event", error.into());
        // Whatever way it came: nothing is written that was not masked.
        let event = &*self.env.masked(|masker, found| masking::event(masker, event, found))?;
        let mut body = event.body().map_err(failed)?;
        if let Some((request_id, digest)) = request {
            let digest = digest.to_hex();
            body.push_str(&format!(",\"request_id\":\"{request_id}\",\"request_digest\":\"{digest}\""));
        }
        let former = Former::of(event, inner.log.state());
        let end = inner.write_event(self, event.name(), &body)?;
        inner.readers.note_former(end, former);
        if let Event::Usage { .. } = event {
            let config = self.config(&inner.log);
            inner.context.report_usage(event, config, &self.env.options.compression);
        }
        Ok(end)
    }

    /// Returns how far the log is written, and how far that has to come. A sync that somebody else makes will do.
    fn written(&self) -> (u64, Durability) {
        let inner = self.lock();
        let durability = match inner.log.durability() {
            Durability::Process => Durability::Process,
            Durability::Group | Durability::Each => Durability::Group,
        };
        (inner.log.len(), durability)
    }

    /// Returns when the log is durable up to `end`. If it never will be, the handle is spent.
    fn wait_durable(&self, end: u64, durability: Durability) -> Result<(), StoreError> {
        if durability == Durability::Process {
            let mut inner = self.lock();
            return inner.log.keep(end).map_err(|error| self.give_up(&mut inner, error));
        }
        let commit = Arc::clone(self.lock().log.commit());
        commit.wait(end, durability).map_err(|error| self.give_up(&mut self.lock(), error))
    }

    /// Makes everything written durable, under the lock.
    fn sync(&self, inner: &mut Inner) -> Result<(), StoreError> {
        inner.log.sync().map_err(|error| self.give_up(inner, error))
    }

    /// A log is broken: takes back what is not durable of it and spends the handle, once and for all. Opening
    /// the task again reads what is really there.
    #[expect(clippy::wildcard_enum_match_arm, reason = "kinds of I/O errors are not ours to list")]
    fn give_up(&self, inner: &mut Inner, error: io::Error) -> StoreError {
        if !matches!(inner.read_only, Some(ReadOnly::Failed)) {
            inner.read_only = Some(ReadOnly::Failed);
            inner.log.cut_back_if_broken(&error);
            for log in inner.tools.writer.iter_mut().chain(inner.plans.writer.iter_mut()) {
                if log.is_broken() {
                    log.cut_back(&error);
                }
            }
            self.env.note_failed(self.id, &inner.log.dir(), &error);
        }
        // Some file systems find room only when they write back.
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::DiskFull { source: error }
            }
            _ => StoreError::WriteFailed { id: self.id, source: error },
        }
    }

    fn mark_dirty(&self, inner: &mut Inner) {
        if !inner.dirty {
            inner.dirty = true;
            self.env.note_dirty(self.id);
        }
    }

    /// A sync failed for one who waited.
    fn failed_to_sync(&self, error: io::Error) -> StoreError {
        self.give_up(&mut self.lock(), error)
    }

    /// Returns how full the context is.
    fn pressure(&self, inner: &mut Inner) -> Pressure {
        let tokens = inner.view_tokens().saturating_add(inner.tools_tokens());
        self.whole_pressure(inner, inner.tally().calibrated(tokens), inner.context.policy())
    }

    /// Refuses what would make the task or the store larger than it may be. What is in the view is there twice.
    fn check_quota(&self, inner: &Inner, more: usize) -> Result<(), StoreError> {
        self.check_task_room(inner, more as u64)?;
        self.env.check_quota(more as u64)
    }

    /// Refuses what would make the task larger than it may be.
    fn check_task_room(&self, inner: &Inner, more: u64) -> Result<(), StoreError> {
        let limit = self.env.options.max_task_bytes;
        if limit == 0 {
            return Ok(());
        }
        let view = inner.view.bytes();
        let used = inner.log.len() + inner.tools.len() + inner.plans.len() + view;
        let used = used.saturating_add(self.outputs_bytes(inner)?);
        if used.saturating_add(more) > limit {
            return Err(StoreError::QuotaExceeded { quota: "limits.task_bytes", used, limit });
        }
        Ok(())
    }

    /// Returns whether the log has grown enough since the last checkpoint.
    fn is_checkpoint_due(&self, inner: &Inner) -> bool {
        inner.log.since_checkpoint() >= self.env.options.checkpoint_bytes
    }

    /// Writes a checkpoint that was due when somebody looked.
    fn checkpoint_now(&self) {
        let mut inner = self.lock();
        if inner.read_only.is_none() && !inner.deleted {
            self.checkpoint_if_due(&mut inner);
        }
    }

    /// Writes a checkpoint if the log has grown enough since the last. Never fails the call it comes with.
    fn checkpoint_if_due(&self, inner: &mut Inner) {
        if !self.is_checkpoint_due(inner) {
            return;
        }
        if let Err(error) = self.checkpoint(inner, false) {
            tracing::warn!(id = %self.id, %error, "a checkpoint could not be written");
        }
    }

    /// Makes the log durable and writes a checkpoint of it. A clean one also syncs the view.
    fn checkpoint(&self, inner: &mut Inner, clean: bool) -> Result<(), StoreError> {
        self.sync(inner)?;
        let failed = |what: &'static str| move |error| StoreError::io(what, error);
        let index_rows = inner.log.flush_index(clean)?;
        let mut checkpoint = Checkpoint::new(inner.log.len(), index_rows, inner.log.state().clone());
        checkpoint.clean = clean;
        checkpoint.boot_id.clone_from(&self.env.boot_id);
        let view = inner.view.checkpoint(&self.env.boot_id, inner.log.state(), clean);
        checkpoint.view = view.map_err(failed("syncing the view"))?;
        let mark = |records: &mut RecordLog| -> Result<RecordMark, StoreError> {
            records.sync().map_err(failed("syncing records"))?;
            Ok(RecordMark { len: records.len(), state: records.state.clone() })
        };
        checkpoint.tools = mark(&mut inner.tools)?;
        checkpoint.plans = mark(&mut inner.plans)?;
        checkpoint.write(self.env.fs.as_ref(), &inner.log.path(layout::CHECKPOINT))?;
        inner.changed = !clean;
        inner.log.note_checkpoint(checkpoint.log_len);
        Ok(())
    }

    /// Closes the task for everybody who has this handle: it is spent.
    pub(crate) fn retire(&self) {
        let mut inner = self.lock();
        self.close_locked(&mut inner);
        // Under the same lock: nobody may write in between.
        inner.read_only.get_or_insert(ReadOnly::Failed);
    }

    /// Closes the task in an orderly way, so that opening it again reads no more than its checkpoint.
    pub(crate) fn close(&self) {
        self.close_locked(&mut self.lock());
    }

    fn close_locked(&self, inner: &mut Inner) {
        let settled = inner.log.folder() == Folder::of(inner.log.state().status);
        let unused = !inner.changed && !inner.dirty && settled;
        if unused || inner.deleted || inner.read_only.is_some() || self.env.read_only().is_some() {
            return;
        }
        let closed = self.sync(inner).and_then(|()| {
            self.try_settle(inner)?;
            self.checkpoint(inner, true)?;
            let dir = inner.log.dir();
            self.env.fs.sync_dir(&dir).map_err(|error| StoreError::io(format!("syncing {dir}"), error))
        });
        if let Err(error) = closed {
            tracing::warn!(id = %self.id, %error, "a task could not be closed cleanly");
            self.env.note_undone();
        }
        self.refresh_row(inner);
    }
}
