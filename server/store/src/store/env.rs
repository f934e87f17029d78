//! The environment that all tasks of a store share: the disk, the clock, leases, the catalog, and whether writes are taken.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::catalog::Catalog;
use crate::context::{BreakerConfig, Breakers, ServerPolicy};
use crate::infra::clock::Clock;
use crate::infra::fs::{Fs, Name, Open, StorePath};
use crate::infra::in_place::InPlace;
use crate::log::{DamageNotes, Signal};
use crate::mask::Masker;
use crate::model::{Durability, StoreError, TaskId, TokenCounter};

use super::files;
use super::layout::{self, Folder};
use super::lease::Leases;

/// Syncs at once, over all tasks. Each takes a thread.
const SYNCS: usize = 64;

/// The options of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// How far a record must have come before it is acknowledged, unless its task says otherwise.
    pub durability: Durability,
    /// How long a lease lives without being renewed.
    pub lease_ttl: Duration,
    /// Tasks kept open at once. Each takes up to seven file handles; those in use are never closed.
    pub max_open_tasks: usize,
    /// Largest message, in bytes of its line's body.
    pub max_message_bytes: usize,
    /// A checkpoint is written when the log has grown by this much.
    pub checkpoint_bytes: u64,
    /// Room set aside so that recovery can write on a full disk; 0: none.
    pub ballast_bytes: u64,
    /// How long SQLite waits for another process, each time.
    pub catalog_busy_timeout: Duration,
    /// How often a busy catalog is tried again.
    pub catalog_retries: u32,
    /// Bytes that the logs and the view of one task may take; 0: no limit.
    pub max_task_bytes: u64,
    /// Bytes that all tasks together may take; 0: no limit.
    pub max_store_bytes: u64,
    /// How contexts are kept small, for tasks that say nothing else.
    pub compression: ServerPolicy,
    /// How tokens are counted, for tasks that say nothing else.
    pub token_counter: TokenCounter,
    /// Models that summarise and fail.
    pub breakers: Arc<Breakers>,
    /// Replaces secrets in all that is first written.
    pub masker: Masker,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Group,
            lease_ttl: Duration::from_secs(30),
            max_open_tasks: 128,
            max_message_bytes: 16 << 20,
            checkpoint_bytes: 8 << 20,
            ballast_bytes: 16 << 20,
            catalog_busy_timeout: Duration::from_secs(30),
            catalog_retries: 3,
            max_task_bytes: 0,
            max_store_bytes: 0,
            compression: ServerPolicy::default(),
            token_counter: TokenCounter::default(),
            breakers: Arc::new(Breakers::new(BreakerConfig::default())),
            masker: Masker::standard(),
        }
    }
}

/// Shared by the store and its tasks.
pub(crate) struct Env {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: StoreOptions,
    pub(crate) leases: Leases,
    pub(crate) catalog: Catalog,
    pub(crate) boot_id: String,
    pub(crate) in_place: InPlace,
    /// Places for those who sync, over all tasks.
    pub(crate) syncs: Semaphore,
    /// Damage that readers have found.
    pub(crate) damage: Arc<DamageNotes>,
    read_only: Mutex<Option<String>>,
    /// Whether only room is missing: what frees some is done.
    may_free: AtomicBool,
    /// Deleted tasks whose directory is still in the trash, because their row may be in the catalog. Where the move into the
    /// trash could not be synced, with the folder that it came from.
    pub(super) trash: Mutex<HashMap<TaskId, Option<Folder>>>,
    failed: Mutex<HashSet<TaskId>>,
    dirty: Mutex<HashSet<TaskId>>,
    signals: Mutex<HashMap<TaskId, Weak<Signal>>>,
    /// Who is to know when a task is deleted.
    pub(super) deletions: Mutex<HashMap<TaskId, Weak<watch::Sender<bool>>>>,
    /// The highest lease that any deleted task had: no later task has it, nor one below.
    lease_floor: Mutex<Floor>,
    unsynced: Mutex<bool>,
    /// Files that outputs are being written to, over all tasks.
    puts: Mutex<HashSet<Name>>,
    /// Bytes of all tasks: as last measured, and what was written since.
    used: AtomicU64,
    /// Something was put off to the next start, which must not take this stop for an orderly one.
    undone: AtomicBool,
}

impl Env {
    pub(crate) fn new(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
        catalog: Catalog,
        read_only: Option<String>,
    ) -> Self {
        let leases = Leases::new(options.lease_ttl, clock.monotonic());
        let lease_floor = Floor::read(fs.as_ref());
        Self {
            boot_id: fs.boot_id(),
            in_place: InPlace::default(),
            syncs: Semaphore::new(SYNCS),
            damage: Arc::default(),
            fs,
            clock,
            options,
            leases,
            catalog,
            read_only: Mutex::new(read_only),
            may_free: AtomicBool::new(false),
            trash: Mutex::default(),
            failed: Mutex::default(),
            dirty: Mutex::default(),
            signals: Mutex::default(),
            deletions: Mutex::default(),
            lease_floor: Mutex::new(lease_floor),
            unsynced: Mutex::default(),
            puts: Mutex::default(),
            used: AtomicU64::new(0),
            undone: AtomicBool::new(false),
        }
    }

    /// Returns why no writes are taken, if that is so.
    pub(crate) fn read_only(&self) -> Option<String> {
        lock(&self.read_only).clone()
    }

    pub(crate) fn set_read_only(&self, reason: String) {
        lock(&self.read_only).get_or_insert(reason);
    }

    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        self.read_only().map_or(Ok(()), |reason| Err(StoreError::ReadOnly { reason }))
    }

    /// Takes no writes from now on but those that free room.
    pub(crate) fn set_full(&self, reason: String) {
        self.may_free.store(true, Ordering::Relaxed);
        self.set_read_only(reason);
    }

    /// Refuses what changes the directory, but not what frees room where that is all that is missing.
    pub(crate) fn check_may_free(&self) -> Result<(), StoreError> {
        if self.may_free.load(Ordering::Relaxed) { Ok(()) } else { self.check_writable() }
    }

    /// Refuses what would make the store larger than it may be, and counts what would not.
    pub(crate) fn check_quota(&self, more: u64) -> Result<(), StoreError> {
        let limit = self.options.max_store_bytes;
        if limit == 0 {
            return Ok(());
        }
        let used = self.used.load(Ordering::Relaxed);
        if used.saturating_add(more) > limit {
            return Err(StoreError::QuotaExceeded { quota: "limits.store_bytes", used, limit });
        }
        self.used.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses what would make the store larger than it may be, and counts nothing yet.
    pub(crate) fn check_room(&self, more: u64) -> Result<(), StoreError> {
        let (used, limit) = (self.used.load(Ordering::Relaxed), self.options.max_store_bytes);
        if limit > 0 && used.saturating_add(more) > limit {
            return Err(StoreError::QuotaExceeded { quota: "limits.store_bytes", used, limit });
        }
        Ok(())
    }

    /// A file is being written that nobody is to take for what a crash has left.
    pub(crate) fn begin_put(&self, name: &Name) {
        lock(&self.puts).insert(name.clone());
    }

    pub(crate) fn end_put(&self, name: &Name) {
        lock(&self.puts).remove(name);
    }

    pub(crate) fn is_being_put(&self, name: &Name) -> bool {
        lock(&self.puts).contains(name)
    }

    /// Takes note of how much all tasks take.
    pub(crate) fn note_used(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
    }

    /// Takes note that something was removed.
    pub(crate) fn note_removed(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Takes note that a task could not be written. One bad file can be bad luck; two are a bad disk.
    pub(crate) fn note_failed(&self, id: TaskId, path: &StorePath, error: &io::Error) {
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let mut failed = lock(&self.failed);
        if !full {
            failed.insert(id);
        }
        self.note_undone();
        // Its row may count what was taken back.
        self.note_dirty(id);
        tracing::error!(%id, %path, %error, "a log could not be written; what was not durable was taken back");
        if failed.len() >= 2 {
            let reason = format!("{} tasks could not be written, last {id}: {error}", failed.len());
            tracing::error!(reason, "no more writes are taken");
            self.set_read_only(reason);
        }
    }

    /// Takes note that a new task is in its folder, but that the folder could not be synced.
    pub(crate) fn note_unsynced(&self) {
        *lock(&self.unsynced) = true;
    }

    /// Sees that no power cut takes back a task that was made: what is written to it hangs on its name.
    pub(crate) fn sync_new_tasks(&self) -> Result<(), StoreError> {
        // Held over the sync, so that nobody passes before it is done.
        let mut unsynced = lock(&self.unsynced);
        if *unsynced {
            let path = Folder::Running.path();
            self.fs.sync_dir(&path).map_err(|error| StoreError::io(format!("syncing {path}"), error))?;
            *unsynced = false;
        }
        Ok(())
    }

    /// The highest lease that any deleted task had.
    pub(crate) fn lease_floor(&self) -> u64 {
        lock(&self.lease_floor).lease
    }

    /// Sees that no later task is given a lease that a task had which is about to be deleted: whoever has that lease could
    /// write to a task with the same id.
    pub(crate) fn raise_lease_floor(&self, lease: u64) -> io::Result<()> {
        let mut floor = lock(&self.lease_floor);
        floor.lease = floor.lease.max(lease);
        if floor.written != Some(floor.lease) {
            let path = floor_path();
            let is_new = self.fs.stat(&path)?.is_none();
            // In place, and always as long: it takes no room but the first time.
            let file = self.fs.open(&path, Open::Create)?;
            file.write_all_at(format!("{:020}\n", floor.lease).as_bytes(), 0)?;
            file.sync_data()?;
            if is_new {
                self.fs.sync_dir(&StorePath::ROOT)?;
            }
            floor.written = Some(floor.lease);
        }
        Ok(())
    }

    /// Takes note that something is left to the next start.
    pub(crate) fn note_undone(&self) {
        self.undone.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_undone(&self) -> bool {
        self.undone.load(Ordering::Relaxed)
    }

    /// The signal of a task. It outlives the task's handles, as long as somebody follows the task.
    pub(crate) fn signal(&self, id: TaskId) -> Arc<Signal> {
        let mut signals = lock(&self.signals);
        if let Some(signal) = signals.get(&id).and_then(Weak::upgrade) {
            return signal;
        }
        // Only what is in use stays: at most twice as much as was in use when it was last looked through.
        if signals.len() == signals.capacity() {
            signals.retain(|_, signal| signal.strong_count() > 0);
        }
        let signal = Arc::new(Signal::default());
        signals.insert(id, Arc::downgrade(&signal));
        signal
    }

    /// Takes note that a task's row in the catalog is behind.
    pub(crate) fn note_dirty(&self, id: TaskId) {
        lock(&self.dirty).insert(id);
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !lock(&self.dirty).is_empty()
    }

    pub(crate) fn take_dirty(&self) -> HashSet<TaskId> {
        std::mem::take(&mut lock(&self.dirty))
    }
}

fn floor_path() -> StorePath {
    StorePath::ROOT.join(layout::LEASE_FLOOR)
}

/// The highest lease that any deleted task had, and the content of the file.
#[derive(Debug, Clone, Copy)]
struct Floor {
    lease: u64,
    written: Option<u64>,
}

impl Floor {
    /// A file that cannot be read is as good as none: then only the tasks that this server deletes are protected.
    fn read(fs: &dyn Fs) -> Self {
        let read = files::read_small(fs, &floor_path(), 64).ok().flatten();
        let written = read.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok());
        Self { lease: written.unwrap_or(0), written }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("fs", &self.fs).field("options", &self.options).finish_non_exhaustive()
    }
}

/// Locks a mutex whether or not another thread has panicked with it: what it guards is kept consistent by
/// order of writing, not by unwinding.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
