//! Leases: they say who may write to a task. The log knows holders and generations; this file knows how long they live.
//!
//! Renewals stay in memory, on a monotonic clock: a wall clock that jumps changes nothing. A server that was
//! restarted knows of no renewals and grants every lease one fresh time-to-live.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::log::Lease;
use crate::model::{StoreError, TaskId};

#[derive(Debug)]
pub(crate) struct Leases {
    time_to_live: Duration,
    started: Duration,
    renewed: Mutex<HashMap<TaskId, Duration>>,
}

impl Leases {
    pub(crate) fn new(time_to_live: Duration, now: Duration) -> Self {
        Self { time_to_live, started: now, renewed: Mutex::default() }
    }

    pub(crate) fn time_to_live(&self) -> Duration {
        self.time_to_live
    }

    /// Gives the holder another time-to-live from now on.
    pub(crate) fn renew(&self, id: TaskId, now: Duration) {
        self.lock().insert(id, now);
    }

    pub(crate) fn forget(&self, id: TaskId) {
        self.lock().remove(&id);
    }

    /// Returns how long ago the lease was renewed.
    pub(crate) fn age(&self, id: TaskId, now: Duration) -> Duration {
        let renewed = self.lock().get(&id).copied().unwrap_or(self.started);
        now.saturating_sub(renewed)
    }

    pub(crate) fn is_live(&self, id: TaskId, now: Duration) -> bool {
        self.age(id, now) < self.time_to_live
    }

    /// Lets a caller write, or says who holds the task. Generation 0 means: no lease of mine. The last one who held
    /// a task that nobody holds may go on with what it may still do, such as completing a paused task.
    pub(crate) fn admit(
        &self,
        id: TaskId,
        lease: Option<&Lease>,
        newest: u64,
        given: u64,
        now: Duration,
    ) -> Result<(), StoreError> {
        match lease {
            Some(lease) if given == lease.generation => {
                self.renew(id, now);
                Ok(())
            }
            Some(lease) if given == 0 && self.is_live(id, now) => {
                Err(StoreError::LeaseHeld { id, holder: lease.holder.clone(), generation: lease.generation })
            }
            _ if given == 0 => Ok(()),
            None if given == newest => Ok(()),
            _ => Err(StoreError::StaleLease { id, given, newest }),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, Duration>> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
