//! The queue of changes, and the one thread that commits it. Callers only ever wait for the queue's lock.
//!
//! An entry stays in the queue until the transaction that holds it is committed, so a failed round loses
//! nothing, and "the queue is empty" means "everything is in the file". Rounds are numbered: a flush waits for
//! the first one that begins after it, as that one takes everything that was queued before.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::error::{Failure, Kind, kind};
use super::{CatalogOptions, Db, queries};
use crate::model::{Health, TaskId, TaskRow};

/// The time that SQLite itself waits for a lock in one go: a store that stops is not held up for longer.
pub(super) const BUSY_SLICE: Duration = Duration::from_millis(100);
/// The pause after the first attempt that found the file locked; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest time between two rounds while they fail.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A queue this long is committed at once, so that a rebuild does not keep all its rows in memory.
const LONG_QUEUE: usize = 1024;

/// A change of a task's row.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Put(Arc<TaskRow>),
    Remove,
    /// Only this column, and only if there is a row.
    Health(Health),
}

#[derive(Debug, Clone)]
struct Entry {
    change: Change,
    /// Tells an entry that was committed from one that was changed meanwhile.
    version: u64,
}

type Batch = Vec<(TaskId, Entry)>;

/// The queue that the callers and the thread share.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<WriterState>,
    /// Tells the thread that there is something to do.
    work: Condvar,
    /// Tells those who flush that a round ended.
    done: Condvar,
    /// Damage was seen, so the file must not be marked as clean.
    damaged: AtomicBool,
}

#[derive(Debug, Default)]
struct WriterState {
    entries: HashMap<TaskId, Entry>,
    version: u64,
    /// When a round begins without being asked for.
    due: Option<Instant>,
    /// The newest round that was asked for, begun, ended, and ended well.
    asked: u64,
    begun: u64,
    ended: u64,
    good: u64,
    /// Why the last round failed, and how many have in a row.
    failure: Option<Failure>,
    failures: u32,
    /// Nothing more is accepted.
    closed: bool,
    /// The thread is to stop.
    stop: bool,
    /// The thread has stopped.
    gone: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a change. One that only concerns the health is merged into what is queued already.
    pub(super) fn push(&self, id: TaskId, change: Change, flush_every: Duration) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let change = match (change, state.entries.get(&id).map(|entry| &entry.change)) {
            (Change::Health(_), Some(Change::Remove)) => return,
            (Change::Health(health), Some(Change::Put(row))) => {
                let mut row = Arc::clone(row);
                Arc::make_mut(&mut row).health = health;
                Change::Put(row)
            }
            (change, _) => change,
        };
        state.version += 1;
        let version = state.version;
        state.entries.insert(id, Entry { change, version });
        // A failing round has set a later time, which stays.
        let idle = state.due.is_none();
        if idle {
            state.due = Some(Instant::now() + flush_every);
        }
        if idle || state.entries.len() == LONG_QUEUE {
            self.work.notify_one();
        }
    }

    /// Returns what is queued for a task. What is not queued any more can be read from the file.
    pub(super) fn queued(&self, id: TaskId) -> Option<Change> {
        self.lock().entries.get(&id).map(|entry| entry.change.clone())
    }

    /// Returns what is queued for some tasks, at one moment.
    pub(super) fn queued_of(&self, ids: &[TaskId]) -> HashMap<TaskId, Change> {
        let state = self.lock();
        let queued = |id: &TaskId| state.entries.get(id).map(|entry| (*id, entry.change.clone()));
        ids.iter().filter_map(queued).collect()
    }

    /// Waits until everything queued so far is committed.
    pub(super) fn flush(&self, longest: Option<Duration>) -> Result<(), Failure> {
        let deadline = longest.map(|longest| Instant::now() + longest);
        let mut state = self.lock();
        if state.entries.is_empty() {
            return Ok(());
        }
        let wanted = state.begun + 1;
        state.asked = state.asked.max(wanted);
        self.work.notify_one();
        loop {
            if state.good >= wanted {
                return Ok(());
            }
            if state.ended >= wanted {
                let unknown = || Failure::other("the queue was not committed");
                return Err(state.failure.clone().unwrap_or_else(unknown));
            }
            if state.gone {
                return Err(Failure::other("the catalog's writer has stopped"));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return Err(Failure::other("the queue was not committed in time")),
                Some(left) => wait(&self.done, state, left),
                None => self.done.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Accepts nothing more. Answers whether it did before.
    pub(super) fn close(&self) -> bool {
        !std::mem::replace(&mut self.lock().closed, true)
    }

    /// Tells the thread to stop, whatever is queued.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.stop = true;
        self.work.notify_all();
    }

    /// Remembers a failure that says the file is damaged.
    pub(super) fn note(&self, kind: Kind) {
        if kind == Kind::Corrupt {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Returns how many tasks have something queued.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Returns whether a round has begun and not ended.
    #[cfg(test)]
    pub(super) fn is_committing(&self) -> bool {
        let state = self.lock();
        state.begun > state.ended
    }

    /// Waits for the next round and takes what it is to commit; `None` when the thread is to stop.
    fn begin(&self) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            let now = Instant::now();
            let long = state.entries.len() >= LONG_QUEUE && state.failures == 0;
            if long || state.asked > state.begun || state.due.is_some_and(|due| due <= now) {
                state.begun += 1;
                state.due = None;
                return Some(state.entries.iter().map(|(id, entry)| (*id, entry.clone())).collect());
            }
            state = match state.due {
                Some(due) => wait(&self.work, state, due - now),
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Ends a round: forgets what was committed, or sets the time of the next attempt.
    fn end(&self, batch: &Batch, outcome: Result<(), Failure>, flush_every: Duration) {
        let mut state = self.lock();
        state.ended = state.begun;
        match outcome {
            Ok(()) => {
                for (id, entry) in batch {
                    if state.entries.get(id).is_some_and(|queued| queued.version == entry.version) {
                        state.entries.remove(id);
                    }
                }
                if state.failures > 0 {
                    tracing::info!(rounds = state.failures, "the catalog is written again");
                }
                state.good = state.ended;
                state.failure = None;
                state.failures = 0;
                if state.entries.is_empty() {
                    state.due = None;
                } else if state.due.is_none() {
                    state.due = Some(Instant::now() + flush_every);
                }
            }
            Err(failure) => {
                // A full disk may stay full for hours: said once, not twice a second.
                if state.failures == 0 {
                    let queued = state.entries.len();
                    tracing::warn!(problem = failure.problem, queued, "the catalog is not written for now");
                }
                self.note(failure.kind);
                let wait = flush_every.saturating_mul(1 << state.failures.min(16)).min(LONGEST_WAIT);
                state.due = Some(Instant::now() + wait);
                state.failures += 1;
                state.failure = Some(failure);
            }
        }
        self.done.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.lock().stop
    }

    /// Waits; answers false, and at once, when the thread is to stop.
    fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut state = self.lock();
        while !state.stop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = wait(&self.work, state, left);
        }
        false
    }
}

fn wait<'a>(
    on: &Condvar,
    state: MutexGuard<'a, WriterState>,
    longest: Duration,
) -> MutexGuard<'a, WriterState> {
    on.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner).0
}

/// The thread's side.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) queue: Arc<Queue>,
    pub(super) db: Db,
    pub(super) options: CatalogOptions,
}

impl Writer {
    /// Commits until told to stop. A round that panics is one that failed: it is tried again.
    pub(super) fn run(self) {
        let _gone = Gone(&self.queue);
        while let Some(batch) = self.queue.begin() {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.commit(&batch)));
            let outcome = outcome.unwrap_or_else(|_| Err(Failure::other("the catalog's writer panicked")));
            self.queue.end(&batch, outcome, self.options.flush_every);
        }
    }

    fn commit(&self, batch: &Batch) -> Result<(), Failure> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            match self.attempt(batch) {
                Err(failure) if failure.kind == Kind::Busy && attempt <= self.options.retries => {
                    tracing::warn!(attempt, "another process holds the catalog's lock");
                    if !self.queue.pause(pause) {
                        return Err(failure);
                    }
                    pause = pause.saturating_mul(2).min(LONGEST_WAIT);
                }
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// Waits for the lock up to the busy timeout, in slices.
    fn attempt(&self, batch: &Batch) -> Result<(), Failure> {
        let deadline = Instant::now() + self.options.busy_timeout;
        let mut db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(conn) = db.as_mut() else { return Err(Failure::other("the catalog is closed")) };
        loop {
            match write(conn, batch) {
                Err(error)
                    if kind(&error) == Kind::Busy
                        && Instant::now() < deadline
                        && !self.queue.is_stopping() => {}
                outcome => return Ok(outcome?),
            }
        }
    }
}

/// Writes a batch in one transaction. Removals survive a power cut: no start-up could tell that one is missing.
fn write(conn: &mut Connection, batch: &Batch) -> rusqlite::Result<()> {
    if !batch.iter().any(|(_, entry)| matches!(entry.change, Change::Remove)) {
        return write_all(conn, batch);
    }
    conn.pragma_update(None, "synchronous", "FULL")?;
    let written = write_all(conn, batch);
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    written
}

fn write_all(conn: &mut Connection, batch: &Batch) -> rusqlite::Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (id, entry) in batch {
        let written = match &entry.change {
            Change::Put(row) => queries::put(&transaction, row),
            Change::Remove => queries::remove(&transaction, *id),
            Change::Health(health) => queries::set_health(&transaction, *id, *health),
        };
        match written {
            // It would fail again in every round, and all other rows with it.
            Err(error) if kind(&error) == Kind::Row => {
                tracing::error!(task = %id, %error, "a task's row cannot be stored and is left out");
            }
            written => written?,
        }
    }
    transaction.commit()
}

/// Lets those who flush go when the thread ends, also by a panic.
struct Gone<'a>(&'a Queue);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.lock().gone = true;
        self.0.done.notify_all();
    }
}
