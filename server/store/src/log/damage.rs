//! Damage that readers have found in logs. Whoever keeps the logs looks again, and sets these tasks apart.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{StoreError, TaskId};

/// Tasks whose logs may be damaged: a log that is just being cut back looks so too.
#[derive(Debug, Default)]
pub struct DamageNotes {
    any: AtomicBool,
    found: Mutex<BTreeSet<TaskId>>,
}

impl DamageNotes {
    /// Returns whether nothing was found.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Tasks whose logs may be damaged.
    pub fn tasks(&self) -> Vec<TaskId> {
        self.lock().iter().copied().collect()
    }

    /// The task was looked at.
    pub fn forget(&self, id: TaskId) {
        let mut found = self.lock();
        found.remove(&id);
        self.any.store(!found.is_empty(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<TaskId>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle with which readers of one task note damage.
#[derive(Debug, Clone)]
pub struct DamageNote(Arc<NoteTarget>);

#[derive(Debug)]
struct NoteTarget {
    notes: Arc<DamageNotes>,
    id: TaskId,
    /// The task was deleted: another may have its id by now.
    closed: AtomicBool,
}

impl DamageNote {
    /// For readers of a task.
    pub fn new(notes: &Arc<DamageNotes>, id: TaskId) -> Self {
        Self(Arc::new(NoteTarget { notes: Arc::clone(notes), id, closed: AtomicBool::new(false) }))
    }

    /// Takes no more notes, and forgets those there are.
    pub fn close(&self) {
        let NoteTarget { notes, id, closed } = &*self.0;
        let mut found = notes.lock();
        closed.store(true, Ordering::Release);
        found.remove(id);
        notes.any.store(!found.is_empty(), Ordering::Release);
    }

    /// Notes damage; answers it as an error.
    pub fn found(&self, path: &str, offset: u64, problem: String) -> StoreError {
        let NoteTarget { notes, id, closed } = &*self.0;
        let mut found = notes.lock();
        if !closed.load(Ordering::Acquire) {
            found.insert(*id);
            notes.any.store(true, Ordering::Release);
        }
        drop(found);
        StoreError::Damaged { path: path.to_owned(), offset, problem }
    }
}
