//! The open tasks: one handle each, and not too many of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::model::{StoreError, TaskId};

use super::env::lock;
use super::task::Task;

/// Handles by task. Tasks that nobody uses are closed, the longest unused first.
#[derive(Debug)]
pub(crate) struct Handles {
    slots: Mutex<HashMap<TaskId, Arc<Slot>>>,
    uses: AtomicU64,
    most: usize,
    closed: AtomicBool,
}

/// Somebody else has it just now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busy;

/// The place of one task's handle. Whoever holds its lock may open or close the task.
#[derive(Debug, Default)]
struct Slot {
    task: Mutex<Option<Arc<Task>>>,
    used: AtomicU64,
}

impl Handles {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            slots: Mutex::default(),
            uses: AtomicU64::new(0),
            most: most.max(1),
            closed: AtomicBool::new(false),
        }
    }

    /// The task's handle; `open` is called if there is none, and no other thread opens the same task then.
    pub(crate) fn get(
        &self,
        id: TaskId,
        open: impl FnOnce() -> Result<Arc<Task>, StoreError>,
    ) -> Result<Arc<Task>, StoreError> {
        let slot = self.slot(id)?;
        slot.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let found = {
            let mut place = lock(&slot.task);
            match &*place {
                Some(task) if !task.is_spent() => Ok(Arc::clone(task)),
                _ => {
                    // A spent handle must be gone before the files are opened again.
                    *place = None;
                    open().inspect(|task| *place = Some(Arc::clone(task)))
                }
            }
        };
        if found.is_err() {
            self.forget(id, &slot);
        }
        drop(slot);
        self.close_unused();
        found
    }

    /// The task's handle if the task is open and nobody is about to change that. Never blocks for long.
    pub(crate) fn try_get(&self, id: TaskId) -> Option<Arc<Task>> {
        let slot = lock(&self.slots).get(&id).map(Arc::clone)?;
        slot.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot.task.try_lock().ok()?.clone()
    }

    /// Runs `act` while nobody can open the task, with its handle if it is open. The handle stays unless it
    /// is spent: others may have hold of it, and there must never be two that write.
    pub(crate) fn exclusively<T>(
        &self,
        id: TaskId,
        act: impl FnOnce(Option<&Arc<Task>>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let slot = self.slot(id)?;
        let done = {
            let mut place = lock(&slot.task);
            let done = act(place.as_ref());
            place.take_if(|task| task.is_spent());
            done
        };
        self.forget(id, &slot);
        done
    }

    /// The handle if the task is open; an error if it is being opened or closed.
    pub(crate) fn peek(&self, id: TaskId) -> Result<Option<Arc<Task>>, Busy> {
        let Some(slot) = lock(&self.slots).get(&id).map(Arc::clone) else { return Ok(None) };
        let place = slot.task.try_lock().map_err(|_| Busy)?;
        Ok(place.clone())
    }

    /// Returns how many tasks are open.
    pub(crate) fn open_count(&self) -> usize {
        let slots: Vec<Arc<Slot>> = lock(&self.slots).values().map(Arc::clone).collect();
        // One that is locked is being opened or closed.
        slots.iter().filter(|slot| slot.task.try_lock().map_or(true, |task| task.is_some())).count()
    }

    fn slot(&self, id: TaskId) -> Result<Arc<Slot>, StoreError> {
        let mut slots = lock(&self.slots);
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::ReadOnly { reason: "the store is closed".to_owned() });
        }
        Ok(Arc::clone(slots.entry(id).or_default()))
    }

    /// Closes every task, for good.
    pub(crate) fn close_all(&self) {
        let slots: Vec<Arc<Slot>> = {
            let mut slots = lock(&self.slots);
            self.closed.store(true, Ordering::Release);
            slots.drain().map(|(_, slot)| slot).collect()
        };
        for slot in slots {
            // Whoever still has the handle must not write after it was closed.
            if let Some(task) = lock(&slot.task).take() {
                task.retire();
            }
        }
    }

    fn close_unused(&self) {
        loop {
            let slots = lock(&self.slots);
            if slots.len() <= self.most {
                return;
            }
            let Some((id, slot)) = Self::longest_unused(&slots) else { return };
            let mut place = lock(&slot.task);
            drop(slots);
            if let Some(task) = place.take() {
                task.close();
            }
            drop(place);
            self.forget(id, &slot);
        }
    }

    /// The slot that was used longest ago, of those whose task nobody holds.
    fn longest_unused(slots: &MutexGuard<'_, HashMap<TaskId, Arc<Slot>>>) -> Option<(TaskId, Arc<Slot>)> {
        let idle = slots.iter().filter(|(_, slot)| {
            // Nobody waits for the slot, and nobody has the task: both can only change under the map's lock.
            Arc::strong_count(slot) == 1
                && slot
                    .task
                    .try_lock()
                    .is_ok_and(|place| place.as_ref().is_none_or(|task| Arc::strong_count(task) == 1))
        });
        idle.min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed))
            .map(|(id, slot)| (*id, Arc::clone(slot)))
    }

    /// Removes an empty slot that nobody else has hold of.
    fn forget(&self, id: TaskId, slot: &Arc<Slot>) {
        let mut slots = lock(&self.slots);
        if Arc::strong_count(slot) == 2 && lock(&slot.task).is_none() {
            slots.remove(&id);
        }
    }
}
