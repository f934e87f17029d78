//! Changes of status: an event in the log is the commit; files, folder and catalog follow.

use std::sync::MutexGuard;

use crate::infra::fs::StorePath;
use crate::log::Digest;
use crate::model::{Durability, Event, Holder, LeaseReason, Status, StoreError};

use super::{Caller, Inner, Task};
use crate::store::env::lock;
use crate::store::files::{self, Sync};
use crate::store::layout::{self, Folder};
use crate::store::masking;

/// A change of a task's status.
#[derive(Debug, Clone)]
pub(crate) enum StatusChange {
    /// Put it aside.
    Pause,
    /// Go on with a paused one, for a new holder.
    Resume { holder: Holder },
    /// It ended well. `made` is a summary that stands in for one that was not given.
    Complete { final_summary: Option<String>, made: Option<String> },
    /// It ended badly. The same.
    Fail { error_message: String, final_summary: Option<String>, made: Option<String> },
}

impl StatusChange {
    fn status(&self) -> Status {
        match self {
            Self::Pause => Status::Paused,
            Self::Resume { .. } => Status::Running,
            Self::Complete { .. } => Status::Completed,
            Self::Fail { .. } => Status::Failed,
        }
    }

    fn allowed(&self, from: Status) -> Result<(), &'static str> {
        match (self, from) {
            (Self::Pause, Status::Running)
            | (Self::Resume { .. }, Status::Paused)
            | (Self::Complete { .. } | Self::Fail { .. }, Status::Running | Status::Paused) => Ok(()),
            (Self::Pause, _) => Err("pause it"),
            (Self::Resume { .. }, _) => Err("resume it"),
            (Self::Complete { .. }, _) => Err("complete it"),
            (Self::Fail { .. }, _) => Err("fail it"),
        }
    }

    fn digest(&self) -> Digest {
        match self {
            Self::Pause => Digest::of(&["pause"]),
            Self::Resume { holder } => Digest::of(&["resume", holder.instance_id.as_str()]),
            // Of what was asked for.
            Self::Complete { final_summary, .. } => {
                Digest::of(&["complete", final_summary.as_deref().unwrap_or_default()])
            }
            Self::Fail { error_message, final_summary, .. } => {
                Digest::of(&["fail", error_message, final_summary.as_deref().unwrap_or_default()])
            }
        }
    }
}

/// More leases than a task has that was damaged before they were read.
const UNKNOWN_LEASES: u64 = 1 << 20;

impl Task {
    /// Changes the status. A resume answers the lease generation it was given, also when it is repeated.
    pub(crate) fn change_status(&self, change: &StatusChange, caller: &Caller) -> Result<u64, StoreError> {
        let change = &self.env.masked(|masker, found| masking::change(masker, change, found));
        let digest = change.digest();
        let mut inner = self.lock();
        if let Some((outcome, end)) = self.seen_before(&inner, caller.request_id.as_ref(), digest)? {
            drop(inner);
            self.wait_durable(end, Durability::Group)?;
            self.settle(&mut self.lock());
            return Ok(outcome);
        }
        self.check_change(&inner, change, caller)?;
        let request = caller.request_id.as_ref().map(|id| (id, digest));
        let (error_message, final_summary) = match change {
            // One line does both: the lease says that the task runs again, and for whom.
            StatusChange::Resume { holder } => {
                self.write_lease(&mut inner, holder, LeaseReason::Resume, request)?;
                return self.changed(inner);
            }
            StatusChange::Pause => (None, None),
            StatusChange::Complete { final_summary, made } => {
                (None, final_summary.as_ref().or(made.as_ref()).cloned())
            }
            StatusChange::Fail { error_message, final_summary, made } => {
                (Some(error_message.clone()), final_summary.as_ref().or(made.as_ref()).cloned())
            }
        };
        let event = Event::Status { status: change.status(), error_message, final_summary };
        self.write_event(&mut inner, &event, request)?;
        self.changed(inner)
    }

    /// Returns whether a call with the same id was carried out. If not, it is refused if it could not be now.
    pub(crate) fn changed_before(&self, change: &StatusChange, caller: &Caller) -> Result<bool, StoreError> {
        let change = &self.env.masked(|masker, found| masking::change(masker, change, found));
        let inner = self.lock();
        let Some((_, end)) = self.seen_before(&inner, caller.request_id.as_ref(), change.digest())? else {
            return self.check_change(&inner, change, caller).map(|()| false);
        };
        drop(inner);
        self.wait_durable(end, Durability::Group)?;
        self.settle(&mut self.lock());
        Ok(true)
    }

    fn check_change(&self, inner: &Inner, change: &StatusChange, caller: &Caller) -> Result<(), StoreError> {
        self.check_writable(inner)?;
        let (id, status) = (self.id, inner.log.state().status);
        change.allowed(status).map_err(|action| StoreError::WrongStatus { id, status, action })?;
        match change {
            // Nobody holds a paused task.
            StatusChange::Resume { .. } => self.check_had(inner, caller.lease_generation),
            StatusChange::Pause | StatusChange::Complete { .. } | StatusChange::Fail { .. } => {
                self.admit(inner, caller.lease_generation)
            }
        }
    }

    /// The event of a change is written: makes it durable and does what follows from it.
    fn changed(&self, mut inner: MutexGuard<'_, Inner>) -> Result<u64, StoreError> {
        self.sync(&mut inner)?;
        if inner.log.state().lease.is_none() {
            self.env.leases.forget(self.id);
        }
        self.settle(&mut inner);
        Ok(inner.log.state().lease_generation)
    }

    /// Refuses one who had a lease before, if there was another since.
    fn check_had(&self, inner: &Inner, had: u64) -> Result<(), StoreError> {
        let newest = inner.log.state().lease_generation;
        if had == 0 || had == newest {
            return Ok(());
        }
        Err(StoreError::StaleLease { id: self.id, given: had, newest })
    }

    /// Gives a running task to a holder: the same instance again, or another if the lease has expired.
    pub(crate) fn take_lease(
        &self,
        holder: &Holder,
        had: u64,
        request: Option<(&crate::model::RequestId, Digest)>,
    ) -> Result<u64, StoreError> {
        let mut inner = self.lock();
        if let Some((request_id, digest)) = request
            && let Some((generation, end)) = self.seen_before(&inner, Some(request_id), digest)?
        {
            drop(inner);
            self.wait_durable(end, Durability::Group)?;
            return Ok(generation);
        }
        self.check_writable(&inner)?;
        if inner.log.state().status != Status::Running {
            return Err(StoreError::TaskExists { id: self.id });
        }
        self.check_had(&inner, had)?;
        let now = self.env.clock.monotonic();
        let reason = match &inner.log.state().lease {
            Some(lease) if lease.holder.instance_id == holder.instance_id => LeaseReason::Restart,
            Some(lease) if self.env.leases.is_live(self.id, now) => {
                return Err(StoreError::LeaseHeld {
                    id: self.id,
                    holder: lease.holder.clone(),
                    generation: lease.generation,
                });
            }
            Some(_) | None => LeaseReason::Takeover,
        };
        self.write_lease(&mut inner, holder, reason, request)?;
        self.sync(&mut inner)?;
        self.mark_dirty(&mut inner);
        Ok(inner.log.state().lease_generation)
    }

    /// Keeps a lease alive.
    pub(crate) fn renew_lease(&self, generation: u64) -> Result<(), StoreError> {
        let inner = self.lock_existing()?;
        self.check_running(&inner, "renew its lease")?;
        match &inner.log.state().lease {
            Some(lease) if lease.generation == generation => {
                self.env.leases.renew(self.id, self.env.clock.monotonic());
                Ok(())
            }
            _ => Err(StoreError::StaleLease {
                id: self.id,
                given: generation,
                newest: inner.log.state().lease_generation,
            }),
        }
    }

    fn write_lease(
        &self,
        inner: &mut Inner,
        holder: &Holder,
        reason: LeaseReason,
        request: Option<(&crate::model::RequestId, Digest)>,
    ) -> Result<(), StoreError> {
        let generation = inner.log.state().lease_generation + 1;
        let event = Event::Lease { generation, holder: holder.clone(), reason };
        self.write_event(inner, &event, request)?;
        self.env.leases.renew(self.id, self.env.clock.monotonic());
        Ok(())
    }

    /// Removes the task: out of its folder, which is the commit, then its row, then for good.
    pub(crate) fn delete(&self, caller: &Caller) -> Result<(), StoreError> {
        let mut inner = self.lock_existing()?;
        self.env.check_may_free()?;
        // Nobody can hold a task in quarantine.
        if inner.log.folder() != Folder::Quarantine {
            self.admit(&inner, caller.lease_generation)?;
        }
        // Of a damaged log not all leases are known.
        let unknown = if inner.log.folder() == Folder::Quarantine { UNKNOWN_LEASES } else { 0 };
        // The file is there since the store was opened, so that a full disk does not prevent this.
        self.env
            .raise_lease_floor(inner.log.state().lease_generation + unknown)
            .map_err(|error| StoreError::io("writing lease_floor", error))?;
        let fs = self.env.fs.as_ref();
        let from = inner.log.dir();
        // Named after the task, so that the next start knows whose row has to go.
        let trash = StorePath::ROOT.join(layout::TRASH).join(self.id.uuid());
        let failed = |error| StoreError::io(format!("removing {from}"), error);
        // Held, so that nobody empties the trash of it before it is there for good.
        let mut emptied = lock(&self.env.trash);
        files::remove_tree(fs, &trash).and_then(|()| fs.rename_new(&from, &trash)).map_err(failed)?;
        // Whoever still has this handle would write to files that are going.
        inner.deleted = true;
        inner.log.notes().close();
        self.env.leases.forget(self.id);
        self.env.note_deleted(self.id);
        self.env.catalog.remove(self.id);
        self.signal.notify();
        if self.env.options.max_store_bytes > 0 {
            // There is room for others at once, not only when all is measured again.
            self.env.note_removed(files::tree_bytes(fs, &trash).unwrap_or(0));
        }
        if let Err(error) = fs.sync_dir(&trash.parent()).and_then(|()| fs.sync_dir(&from.parent())) {
            // The task is gone for now, and a power cut may bring it back, so it stays whole until a sync succeeds.
            emptied.insert(self.id, Some(inner.log.folder()));
            return Err(failed(error));
        }
        // There is room at once, on a full disk too. The empty directory stays until the row is gone.
        if let Err(error) = files::empty_dir(fs, &trash) {
            tracing::warn!(id = %self.id, %error, "what is left of a deleted task is removed later");
        }
        emptied.insert(self.id, None);
        drop(emptied);
        drop(inner);
        if let Err(error) = self.env.empty_trash() {
            tracing::warn!(id = %self.id, %error, "the row of a deleted task is removed later");
        }
        Ok(())
    }

    /// Does what the log says is to be: files of an ended task, the right folder, the catalog's row. What
    /// fails here is done by the next start; the change itself is in the log.
    pub(super) fn settle(&self, inner: &mut Inner) {
        if let Err(error) = self.check_writable(inner).and_then(|()| self.try_settle(inner)) {
            tracing::warn!(id = %self.id, %error, "the task could not be moved yet");
            self.env.note_undone();
        }
        self.refresh_row(inner);
    }

    pub(super) fn try_settle(&self, inner: &mut Inner) -> Result<(), StoreError> {
        let target = Folder::of(inner.log.state().status);
        if inner.log.folder() == target || inner.log.folder() == Folder::Quarantine {
            return Ok(());
        }
        self.write_final_views(inner)?;
        self.checkpoint(inner, true)?;
        let fs = self.env.fs.as_ref();
        let (from, to) = (inner.log.dir(), target.task(self.id));
        fs.sync_dir(&from)
            .and_then(|()| fs.rename_new(&from, &to))
            .map_err(|error| StoreError::io(format!("moving {from} to {to}"), error))?;
        inner.log.move_to(target);
        fs.sync_dir(&to.parent())
            .and_then(|()| fs.sync_dir(&from.parent()))
            .map_err(|error| StoreError::io(format!("moving {from} to {to}"), error))
    }

    /// Removes files that are only there while something is going on; answers which. A task that can only be
    /// read stays as it is.
    pub(crate) fn sweep(&self) -> Result<Vec<StorePath>, StoreError> {
        let inner = self.lock();
        let mut found = Vec::new();
        if inner.read_only.is_some() {
            return Ok(found);
        }
        let dir = inner.log.dir();
        let listed = self.env.fs.list(&dir, &mut |entry| {
            if layout::is_transient(&entry.name) {
                found.push(dir.join(entry.name));
            }
            Ok(())
        });
        listed.map_err(|error| StoreError::io(format!("listing {dir}"), error))?;
        self.sweep_puts(&inner, &mut found)?;
        for path in &found {
            let removed = self.env.fs.remove_file(path);
            removed.map_err(|error| StoreError::io(format!("removing {path}"), error))?;
        }
        Ok(found)
    }

    /// Does what an earlier change of status could not do, such as moving the directory.
    pub(crate) fn finish(&self) {
        let mut inner = self.lock();
        if inner.read_only.is_none() && inner.log.folder() != Folder::of(inner.log.state().status) {
            self.settle(&mut inner);
        }
    }

    /// Makes every view that is not there.
    pub(crate) fn rebuild(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        self.check_writable(&inner)?;
        self.restore_view(&mut inner)?;
        self.ensure_summaries(&inner)?;
        self.write_final_views(&mut inner)?;
        self.checkpoint(&mut inner, true)?;
        self.refresh_row(&mut inner);
        Ok(())
    }

    /// Writes the views that only a task that ended has.
    fn write_final_views(&self, inner: &mut Inner) -> Result<(), StoreError> {
        if !inner.log.state().status.is_final() {
            return Ok(());
        }
        self.write_final_summary(inner)?;
        self.ensure_summaries(inner)?;
        self.write_row(inner)
    }

    /// Finishes at start-up what a crash left undone; answers whether there was anything.
    pub(crate) fn settle_after_crash(&self) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        let moved = inner.log.folder() != Folder::of(inner.log.state().status);
        if inner.read_only.is_none() {
            if moved {
                self.try_settle(&mut inner)?;
            } else {
                // An ended task is only looked at if its row is missing.
                self.write_final_views(&mut inner)?;
            }
            // The next start then reads no more of the log than was written after this one.
            if !moved && inner.log.since_checkpoint() > 0 {
                // A summary may be in the log and not there yet.
                self.ensure_summaries(&inner)?;
                self.checkpoint(&mut inner, false)?;
            }
        }
        self.refresh_row(&mut inner);
        Ok(moved)
    }

    /// The final summary, read from the line of the status event.
    pub(crate) fn final_summary(&self) -> Result<Option<String>, StoreError> {
        self.lock().log.final_summary()
    }

    fn write_final_summary(&self, inner: &Inner) -> Result<(), StoreError> {
        let fs = self.env.fs.as_ref();
        let path = inner.log.path(layout::FINAL_SUMMARY);
        match inner.log.final_summary()? {
            Some(text) => files::replace(fs, &path, format!("{text}\n").as_bytes(), Sync::Contents),
            None => files::remove_if_there(fs, &path)
                .map_err(|error| StoreError::io(format!("removing {path}"), error)),
        }
    }
}
