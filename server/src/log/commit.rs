//! Group commit, leader and followers: one caller syncs for everybody who has written meanwhile.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::infra::fs::File;
use crate::model::Durability;

/// How far a log is written and how far it is durable.
#[derive(Debug)]
pub struct Commit {
    written: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    durable: u64,
    leading: bool,
    failed: Option<Failure>,
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
    pub fn new(durable: u64) -> Self {
        Self {
            written: AtomicU64::new(durable),
            state: Mutex::new(State { durable, leading: false, failed: None }),
            changed: Condvar::new(),
        }
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

    /// Lets everybody who waits fail: what is not durable yet is about to be cut off.
    pub fn fail(&self, error: &io::Error) {
        self.lock().failed.get_or_insert_with(|| Failure::from(error));
        self.changed.notify_all();
    }

    /// Returns when the log is durable up to `to`, syncing it if nobody else does. A failed sync is never
    /// tried again: the kernel may have marked the pages clean.
    pub fn wait(&self, to: u64, durability: Durability, file: &dyn File) -> io::Result<()> {
        if to > self.written.load(Ordering::Acquire) {
            // No sync would ever get there.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more is waited for than was written"));
        }
        let mut alone = durability == Durability::Each;
        let mut state = self.lock();
        loop {
            if state.durable >= to && !alone {
                return Ok(());
            }
            if let Some(failure) = &state.failed {
                return Err(failure.to_error());
            }
            if state.leading {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.leading = true;
            drop(state);
            let target = self.written.load(Ordering::Acquire);
            let synced = file.sync_data();
            state = self.lock();
            state.leading = false;
            match synced {
                // After a failure the log is cut back to what was durable then.
                Ok(()) if state.failed.is_none() => state.durable = state.durable.max(target),
                Ok(()) => {}
                Err(error) => {
                    state.failed.get_or_insert_with(|| Failure::from(&error));
                }
            }
            self.changed.notify_all();
            alone = false;
        }
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
