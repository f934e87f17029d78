//! Group commit, leader and followers: one caller syncs for everybody who has written meanwhile.
//!
//! A follower waits in its thread ([`Commit::wait`]) or as a task ([`Commit::poll`]); a leader syncs in its thread.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::signal::Signal;
use crate::infra::fs::File;
use crate::model::Durability;

/// How far a log is written and how far it is durable.
#[derive(Debug)]
pub struct Commit {
    written: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    /// Told when there is more for readers.
    signal: Arc<Signal>,
}

#[derive(Debug)]
struct State {
    durable: u64,
    leading: bool,
    /// How long the last sync took.
    last_sync: Option<Duration>,
    failed: Option<Failure>,
    /// Tasks that wait for the leader.
    followers: Vec<Waker>,
}

/// What one who waits is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It is durable.
    Done,
    /// Sync, for all: [`Commit::lead`] has to follow.
    Lead,
    /// Somebody else does.
    Follow,
}

/// What one who polls is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is durable.
    Done,
    /// Call [`Commit::lead`] where blocking is allowed, then poll again; or [`Commit::resign`].
    Lead,
}

/// An `io::Error` that can be told to everybody who waits.
#[derive(Debug, Clone)]
struct Failure {
    kind: io::ErrorKind,
    code: Option<i32>,
    text: String,
}

impl Commit {
    /// A log of which the first `durable` bytes are synced.
    pub fn new(durable: u64, signal: Arc<Signal>) -> Self {
        let state = State { durable, leading: false, last_sync: None, failed: None, followers: Vec::new() };
        Self { written: AtomicU64::new(durable), state: Mutex::new(state), changed: Condvar::new(), signal }
    }

    /// How much is known to be synced.
    pub fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// How much a reader may see: what no crash can take back that this durability guards against.
    pub fn visible(&self, durability: Durability) -> u64 {
        match durability {
            Durability::Process => self.written.load(Ordering::Acquire),
            Durability::Group | Durability::Each => self.durable(),
        }
    }

    /// Says that the log was written up to `to`.
    pub fn wrote(&self, to: u64) {
        self.written.store(to, Ordering::Release);
    }

    /// Fails if a sync has failed before: nothing may be written behind a hole.
    pub fn check(&self) -> io::Result<()> {
        self.lock().failed.as_ref().map_or(Ok(()), |failure| Err(failure.to_error()))
    }

    /// Tells readers that there may be more to see.
    pub fn announce(&self) {
        self.signal.notify();
    }

    /// Lets everybody who waits fail: what is not durable yet is about to be cut off.
    pub fn fail(&self, error: &io::Error) {
        let mut state = self.lock();
        state.failed.get_or_insert_with(|| Failure::from(error));
        self.wake(state);
    }

    /// Returns when the log is durable up to `to`, syncing it if nobody else does. A failed sync is never
    /// tried again: the kernel may have marked the pages clean.
    pub fn wait(&self, to: u64, durability: Durability, file: &dyn File) -> io::Result<()> {
        let mut alone = durability == Durability::Each;
        let mut state = self.lock();
        loop {
            match self.turn(&mut state, to, alone)? {
                Turn::Done => return Ok(()),
                Turn::Follow => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Turn::Lead => {
                    drop(state);
                    self.lead(file);
                    alone = false;
                    state = self.lock();
                }
            }
        }
    }

    /// The same for a task. One that `alone` is true for wants a sync of its own, whatever is durable.
    pub fn poll(&self, to: u64, alone: bool, context: &mut Context<'_>) -> Poll<io::Result<Step>> {
        let mut state = self.lock();
        match self.turn(&mut state, to, alone) {
            Ok(Turn::Done) => Poll::Ready(Ok(Step::Done)),
            Ok(Turn::Lead) => Poll::Ready(Ok(Step::Lead)),
            Ok(Turn::Follow) => {
                state.followers.push(context.waker().clone());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// How long the last sync took, if there was one.
    pub fn last_sync(&self) -> Option<Duration> {
        self.lock().last_sync
    }

    /// Syncs, after a [`Step::Lead`]. Blocks.
    pub fn lead(&self, file: &dyn File) {
        let target = self.written.load(Ordering::Acquire);
        let began = Instant::now();
        let synced = file.sync_data();
        let took = began.elapsed();
        let mut state = self.lock();
        state.last_sync = Some(took);
        state.leading = false;
        match synced {
            // After a failure the log is cut back to what was durable then.
            Ok(()) if state.failed.is_none() => state.durable = state.durable.max(target),
            Ok(()) => {}
            Err(error) => {
                state.failed.get_or_insert_with(|| Failure::from(&error));
            }
        }
        self.wake(state);
        self.announce();
    }

    /// Gives up the lead after a [`Step::Lead`] without having synced: somebody else takes it.
    pub fn resign(&self) {
        let mut state = self.lock();
        state.leading = false;
        self.wake(state);
    }

    fn turn(&self, state: &mut State, to: u64, alone: bool) -> io::Result<Turn> {
        if to > self.written.load(Ordering::Acquire) {
            // No sync would ever get there.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more is waited for than was written"));
        }
        if state.durable >= to && !alone {
            return Ok(Turn::Done);
        }
        if let Some(failure) = &state.failed {
            return Err(failure.to_error());
        }
        if state.leading {
            return Ok(Turn::Follow);
        }
        state.leading = true;
        Ok(Turn::Lead)
    }

    /// Everybody looks again; the first of those who are not done leads.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let followers = std::mem::take(&mut state.followers);
        drop(state);
        self.changed.notify_all();
        followers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        Self { kind: error.kind(), code: error.raw_os_error(), text: error.to_string() }
    }
}

impl Failure {
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
