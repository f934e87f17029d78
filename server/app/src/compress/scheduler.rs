//! What is done about each task that is to be made smaller, and who may take it over from whom.
//!
//! | state | means | gives way to |
//! | --- | --- | --- |
//! | `Queued` | nobody asked; waits for its turn | whoever does not want to wait |
//! | `Running` | a compression goes on | nobody; in an emergency it is told to do without a model |
//! | `Begun` | an agent was told what to summarise | an emergency, whoever asks for one more, another holder of the task, the end of its time |
//! | `Committing` | the agent's summary is put in its place | nobody |

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::Compressor;
use super::agent::PendingCompaction;
use crate::model::TaskId;

/// What is done about a task.
pub(super) enum Activity {
    Queued,
    Running(Urgency),
    Begun(Box<PendingCompaction>),
    /// With its token.
    Committing(String),
}

/// Says that there is no time to wait for a model any more.
#[derive(Clone)]
pub(super) struct Urgency(Arc<watch::Sender<bool>>);

impl Default for Urgency {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Urgency {
    pub(super) fn up(&self) {
        self.0.send_replace(true);
    }

    async fn said(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|said| *said).await;
    }
}

/// A turn among those who compress. It is left while a model is waited for, so that a slow one holds up nobody who needs
/// none.
pub(super) struct WorkPermit {
    queue: WorkQueue,
    held: Mutex<Option<OwnedSemaphorePermit>>,
    hurry: Urgency,
}

/// Why a model was not asked, or not waited for.
#[derive(Debug, Clone, Copy)]
pub(super) enum NotAsked {
    /// There is no time any more.
    Urgency,
    /// Too many others are asking.
    Crowded,
}

/// How many do what at once.
#[derive(Clone)]
pub(super) struct WorkQueue {
    /// Reading and writing views.
    working: Arc<Semaphore>,
    /// Waiting for models. They take memory, and providers do not like to be asked by everybody at once.
    asking: Arc<Semaphore>,
}

/// How many more may wait for a model than may work.
const ASKING: usize = 4;

impl WorkQueue {
    pub(super) fn new(at_once: usize) -> Self {
        let of = |places| Arc::new(Semaphore::new(places));
        Self { working: of(at_once), asking: of(at_once * ASKING) }
    }

    /// A turn, when one is free.
    pub(super) async fn turn(&self) -> WorkPermit {
        WorkPermit { held: Mutex::new(self.work().await), queue: self.clone(), hurry: Urgency::default() }
    }

    async fn work(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.working).acquire_owned().await.ok()
    }
}

impl WorkPermit {
    /// For a compression that can be told to hurry.
    pub(super) fn of(self, place: &ActiveGuard) -> Self {
        Self { hurry: place.hurry.clone(), ..self }
    }

    /// Waits for a model, while others have the turn: at most so long for a place among those who ask.
    pub(super) async fn aside<T>(
        &self,
        wait: Duration,
        asking: impl Future<Output = T>,
    ) -> Result<T, NotAsked> {
        drop(self.held().take());
        let answer = self.in_time(async {
            let _asking = timeout(wait, self.queue.asking.acquire()).await.map_err(|_| NotAsked::Crowded)?;
            Ok(asking.await)
        });
        let answer = answer.await.unwrap_or(Err(NotAsked::Urgency));
        let again = self.in_time(self.queue.work()).await.flatten();
        *self.held() = again;
        answer
    }

    async fn in_time<T>(&self, waited_for: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.hurry.said() => None,
            came = waited_for => Some(came),
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A compression that goes on. When it is dropped, the next may begin.
pub(super) struct ActiveGuard {
    compressor: Arc<Compressor>,
    id: TaskId,
    hurry: Urgency,
}

impl Compressor {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Activity>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a task into the queue; false if it is there, or something else is done about it. If that waits for a model and
    /// it is urgent, it is told not to. `lease` is that of whoever works on the task now.
    pub(super) fn enqueue(&self, id: TaskId, urgent: bool, lease: Option<u64>) -> bool {
        if *self.cut.borrow() {
            return false;
        }
        let mut under_way = self.lock();
        match under_way.get(&id) {
            Some(Activity::Running(hurry)) if urgent => hurry.up(),
            Some(Activity::Begun(begun)) if begun.gives_way(urgent, lease) => {
                let given_up = under_way.insert(id, Activity::Queued);
                drop(under_way);
                // Its files go with it.
                tokio::task::spawn_blocking(move || drop(given_up));
                return true;
            }
            Some(Activity::Queued | Activity::Running(_) | Activity::Begun(_) | Activity::Committing(_)) => {}
            None => {
                under_way.insert(id, Activity::Queued);
                return true;
            }
        }
        false
    }

    /// Begins with a task whose turn has come, unless somebody took it over.
    pub(super) fn turn_came(self: &Arc<Self>, id: TaskId) -> Option<ActiveGuard> {
        let is_queued = matches!(self.lock().get(&id), Some(Activity::Queued));
        if is_queued { self.begin(id, false, None) } else { None }
    }

    /// Marks a task as being compressed, for as long as the answer lives; none if it is already. An agent is not waited for
    /// if it is urgent, or was asked for by whoever works on the task. Blocks.
    pub(super) fn begin(
        self: &Arc<Self>,
        id: TaskId,
        urgent: bool,
        lease: Option<u64>,
    ) -> Option<ActiveGuard> {
        let mut under_way = self.lock();
        match under_way.get(&id) {
            None | Some(Activity::Queued) => {}
            Some(Activity::Begun(begun)) if begun.gives_way(urgent, lease) => {}
            Some(Activity::Begun(_) | Activity::Running(_) | Activity::Committing(_)) => {
                return None;
            }
        }
        if *self.cut.borrow() {
            under_way.remove(&id);
            return None;
        }
        let hurry = Urgency::default();
        let given_up = under_way.insert(id, Activity::Running(hurry.clone()));
        drop(under_way);
        drop(given_up);
        Some(self.place(id, hurry))
    }

    /// Waits for a place, be it for one who compresses the same view to end; none if there is no waiting for it.
    pub(super) async fn wait_to_begin(
        self: &Arc<Self>,
        id: TaskId,
        urgent: bool,
        lease: Option<u64>,
    ) -> Option<ActiveGuard> {
        let mut going = self.going.subscribe();
        loop {
            if let Some(place) = tokio::task::block_in_place(|| self.begin(id, urgent, lease)) {
                return Some(place);
            }
            match self.lock().get(&id) {
                Some(Activity::Running(hurry)) if urgent => hurry.up(),
                Some(Activity::Running(_) | Activity::Committing(_)) => {}
                // An agent takes its time.
                Some(Activity::Begun(_)) => return None,
                None | Some(Activity::Queued) if *self.cut.borrow() => return None,
                None | Some(Activity::Queued) => continue,
            }
            // One that ends says so.
            going.changed().await.ok()?;
        }
    }

    pub(super) fn place(self: &Arc<Self>, id: TaskId, hurry: Urgency) -> ActiveGuard {
        self.going.send_modify(|going| *going += 1);
        ActiveGuard { compressor: Arc::clone(self), id, hurry }
    }
}

impl Drop for ActiveGuard {
    fn drop(&mut self) {
        let mut under_way = self.compressor.lock();
        if matches!(under_way.get(&self.id), Some(Activity::Running(_) | Activity::Committing(_))) {
            under_way.remove(&self.id);
        }
        drop(under_way);
        self.compressor.going.send_modify(|going| *going -= 1);
    }
}
