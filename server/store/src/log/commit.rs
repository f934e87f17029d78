//! Group commit with a leader and followers: one caller commits the journal for everybody who has written meanwhile.
//!
//! A follower waits in its thread ([`Commit::wait`]) or as a task ([`Commit::poll`]); a leader commits in its thread. What
//! makes the lines durable is a [`Journal`]: a log is written to and read from a local file, whatever its journal is. A second
//! journal ships the same bytes elsewhere; `journal_tests.rs` says what each of them has to keep.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::signal::Signal;
use crate::infra::fs::File;
use crate::model::Durability;

/// Makes the lines of one log durable.
pub trait Journal: Debug + Send + Sync {
    /// Returns the local file of the log.
    fn file(&self) -> &Arc<dyn File>;

    /// Makes the bytes `from..to` of the local file durable; everything before `from` is. Blocks. After an error it is
    /// unknown which of these bytes survive a crash, and the log commits nothing more.
    fn commit(&self, from: u64, to: u64) -> io::Result<()>;
}

/// The journal of a log that stands in its local file alone.
#[derive(Debug)]
pub struct LocalJournal(Arc<dyn File>);

impl LocalJournal {
    /// Returns the journal of a file.
    pub fn new(file: Arc<dyn File>) -> Self {
        Self(file)
    }
}

impl Journal for LocalJournal {
    fn file(&self) -> &Arc<dyn File> {
        &self.0
    }

    fn commit(&self, _from: u64, _to: u64) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// The group commit of a log: it knows how far the log is written and how far it is durable.
#[derive(Debug)]
pub struct Commit {
    journal: Box<dyn Journal>,
    written: AtomicU64,
    state: Mutex<CommitState>,
    changed: Condvar,
    /// Wakes readers when there is more for them.
    signal: Arc<Signal>,
}

#[derive(Debug)]
struct CommitState {
    durable: u64,
    leading: bool,
    /// How long the last commit took.
    last_commit: Option<Duration>,
    failed: Option<CommitFailure>,
    /// Tasks that wait for the leader.
    followers: Vec<Waker>,
}

/// The part of a caller in a group commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitRole {
    /// Nothing is left to do: the caller's bytes are durable.
    Done,
    /// The caller commits for all: it calls [`Commit::lead`] where blocking is allowed, then asks again; or [`Commit::resign`].
    Leader,
    /// The caller waits for the leader. [`Commit::poll`] is pending then.
    Follower,
}

/// An `io::Error` that every waiting caller gets a copy of.
#[derive(Debug, Clone)]
struct CommitFailure {
    kind: io::ErrorKind,
    code: Option<i32>,
    text: String,
}

impl Commit {
    /// Returns the group commit of a journal whose first `durable` bytes are durable.
    pub fn new(journal: impl Journal + 'static, durable: u64, signal: Arc<Signal>) -> Self {
        let state =
            CommitState { durable, leading: false, last_commit: None, failed: None, followers: Vec::new() };
        Self {
            journal: Box::new(journal),
            written: AtomicU64::new(durable),
            state: Mutex::new(state),
            changed: Condvar::new(),
            signal,
        }
    }

    /// Returns the local file of the log.
    pub fn file(&self) -> &Arc<dyn File> {
        self.journal.file()
    }

    /// Returns how many bytes are known to be durable.
    pub fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// Returns how many bytes readers may see: those that no crash takes back which this durability guards against.
    pub fn visible(&self, durability: Durability) -> u64 {
        match durability {
            Durability::Process => self.written.load(Ordering::Acquire),
            Durability::Group | Durability::Each => self.durable(),
        }
    }

    /// Records that the log was written up to `to`.
    pub fn wrote(&self, to: u64) {
        self.written.store(to, Ordering::Release);
    }

    /// Fails if a commit has failed before: nothing may be written behind a hole.
    pub fn check(&self) -> io::Result<()> {
        self.lock().failed.as_ref().map_or(Ok(()), |failure| Err(failure.to_error()))
    }

    /// Wakes readers, as there may be more to see.
    pub fn announce(&self) {
        self.signal.notify();
    }

    /// Fails every waiting caller: bytes that are not durable yet are about to be cut off.
    pub fn fail(&self, error: &io::Error) {
        let mut state = self.lock();
        state.failed.get_or_insert_with(|| CommitFailure::from(error));
        self.wake(state);
    }

    /// Returns when the log is durable up to `to`, and commits it if nobody else does. A failed commit is never
    /// tried again: the kernel may have marked the pages clean.
    pub fn wait(&self, to: u64, durability: Durability) -> io::Result<()> {
        let mut alone = durability == Durability::Each;
        let mut state = self.lock();
        loop {
            match self.role(&mut state, to, alone)? {
                CommitRole::Done => return Ok(()),
                CommitRole::Follower => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                CommitRole::Leader => {
                    drop(state);
                    self.lead();
                    alone = false;
                    state = self.lock();
                }
            }
        }
    }

    /// Does the same for a task; pending while it follows. If `alone`, the caller wants a commit of its own, whatever is
    /// durable.
    pub fn poll(&self, to: u64, alone: bool, context: &mut Context<'_>) -> Poll<io::Result<CommitRole>> {
        let mut state = self.lock();
        let role = self.role(&mut state, to, alone);
        if let Ok(CommitRole::Follower) = role {
            state.followers.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(role)
    }

    /// Returns how long the last commit took, if there was one.
    pub fn last_commit(&self) -> Option<Duration> {
        self.lock().last_commit
    }

    /// Commits everything that is written, as the leader. Blocks.
    pub fn lead(&self) {
        let (durable, target) = (self.durable(), self.written.load(Ordering::Acquire));
        let began = Instant::now();
        let committed = self.journal.commit(durable, target);
        let took = began.elapsed();
        let mut state = self.lock();
        state.last_commit = Some(took);
        state.leading = false;
        match committed {
            // After a failure the log is cut back to what was durable then.
            Ok(()) if state.failed.is_none() => state.durable = state.durable.max(target),
            Ok(()) => {}
            Err(error) => {
                state.failed.get_or_insert_with(|| CommitFailure::from(&error));
            }
        }
        self.wake(state);
        self.announce();
    }

    /// Gives up the lead without a commit: another caller takes it.
    pub fn resign(&self) {
        let mut state = self.lock();
        state.leading = false;
        self.wake(state);
    }

    fn role(&self, state: &mut CommitState, to: u64, alone: bool) -> io::Result<CommitRole> {
        if to > self.written.load(Ordering::Acquire) {
            // No commit would ever get there.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more is waited for than was written"));
        }
        if state.durable >= to && !alone {
            return Ok(CommitRole::Done);
        }
        if let Some(failure) = &state.failed {
            return Err(failure.to_error());
        }
        if state.leading {
            return Ok(CommitRole::Follower);
        }
        state.leading = true;
        Ok(CommitRole::Leader)
    }

    /// Wakes every waiting caller; the first that is not done leads.
    fn wake(&self, mut state: MutexGuard<'_, CommitState>) {
        let followers = std::mem::take(&mut state.followers);
        drop(state);
        self.changed.notify_all();
        followers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, CommitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&io::Error> for CommitFailure {
    fn from(error: &io::Error) -> Self {
        Self { kind: error.kind(), code: error.raw_os_error(), text: error.to_string() }
    }
}

impl CommitFailure {
    fn to_error(&self) -> io::Error {
        match self.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.kind, self.text.clone()),
        }
    }
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "journal_tests.rs"]
mod conformance;
