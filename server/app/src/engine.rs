//! The engine: runs use cases on one store, within the limits of the server.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use crate::chat::Chats;
use crate::compress::Compressor;
use crate::context::Pressure;
use crate::hooks::{HookEvent, HookTrigger, Hooks};
use crate::llm::Gateway;
use crate::model::{Json, StoreError, TaskId};
use crate::send;
use crate::store::{Binding, Due, Store, TaskInfo};

/// Calls that are in the store at once, each with a thread. The runtime has some more, so that calls that need no
/// disk, as those of health, are served whatever the disk does.
const AT_ONCE: usize = 256;

/// Runs use cases on one store.
pub struct Engine {
    store: RwLock<Store>,
    /// Asks models.
    pub gateway: Arc<Gateway>,
    /// Keeps views small.
    pub compressor: Arc<Compressor>,
    /// Reports events of tasks to others.
    pub hooks: Arc<Hooks>,
    /// The chats that are going on.
    pub chats: Chats,
    /// Most bytes of a message.
    pub(crate) message_bytes: usize,
    /// Places for calls that are in the store at once.
    places: Semaphore,
    stopping: watch::Receiver<bool>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// What an engine works with.
#[derive(Debug)]
pub struct Parts {
    /// The store.
    pub store: Store,
    /// Asks models.
    pub gateway: Arc<Gateway>,
    /// Keeps views small.
    pub compressor: Arc<Compressor>,
    /// Reports events of tasks to others.
    pub hooks: Arc<Hooks>,
    /// Most bytes of a message.
    pub message_bytes: usize,
    /// Becomes true when the server is stopping.
    pub stopping: watch::Receiver<bool>,
}

impl Engine {
    /// Returns an engine with nothing under way.
    pub fn new(parts: Parts) -> Arc<Self> {
        let Parts { store, gateway, compressor, hooks, message_bytes, stopping } = parts;
        Arc::new(Self {
            store: RwLock::new(store),
            gateway,
            compressor,
            hooks,
            chats: Chats::default(),
            message_bytes,
            places: Semaphore::new(AT_ONCE),
            stopping,
        })
    }

    /// The store as it is now.
    pub fn store(&self) -> Store {
        self.store.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another store in its place: the same directory, opened again.
    pub fn replace(&self, store: Store) {
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = store;
    }

    /// Does something with the store that may wait for the disk or for a lock.
    pub async fn with<T>(&self, act: impl FnOnce(&Store) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // It is never closed. Whoever has to wait takes no thread.
        let _place = self.places.acquire().await;
        let store = self.store();
        block_in_place(|| act(&store))
    }

    /// The same with one task only, even if it is deleted and another has its id.
    pub async fn with_bound<T>(
        &self,
        binding: &Binding,
        act: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with(|store| act(&store.bound(binding))).await
    }

    /// Makes a view smaller by what need not be in it, in the background. Should it fail, the view is as it was.
    pub fn tidy(&self, id: TaskId, due: Due) {
        if due == Due::default() {
            return;
        }
        let store = self.store();
        spawn_blocking(move || {
            if due.shedding {
                send::shed(&store, id, None);
            }
            if due.trimming {
                send::trim_if_due(&store, id);
            }
        });
    }

    /// Compresses a view in the background, if it is time to.
    pub fn keep_small(&self, id: TaskId, pressure: &Pressure) {
        self.compressor.if_time(&self.store(), id, pressure);
    }

    /// The same when something has ended that kept others from it.
    pub async fn look_again(&self, id: TaskId) {
        // A task that cannot be looked at is not compressed either.
        if let Ok(pressure) = self.with(|store| store.pressure(id)).await {
            self.keep_small(id, &pressure);
        }
    }

    /// Sees to it that a view can be sent: one that is over the limit is compressed first, as it would be refused.
    /// The tools that are sent with it count, and are remembered; the answer, of so many tokens, needs room too.
    pub async fn fit(&self, id: TaskId, tools: Option<&Json>, answer: u64) -> Result<(), StoreError> {
        let look = |store: &Store| {
            tools.map(|tools| store.note_tools(id, tools)).transpose()?;
            store.pressure(id)
        };
        let pressure = self.with(look).await?;
        // Many models take so much with their answer. One that asks for most of it is not worth the context.
        let answer = answer.min(pressure.limit / 4);
        // A compression that is about to end makes no other one due, but has to be waited for.
        let is_coming = pressure.due || self.compressor.is_running(id);
        if is_coming && pressure.tokens + answer > pressure.limit {
            self.compressor.if_due(&self.store(), id, true).await;
        } else {
            self.keep_small(id, &pressure);
        }
        Ok(())
    }

    /// Notifies the hooks of an event, and drops what an agent's compaction of an ended task still holds.
    pub async fn notify(&self, trigger: HookTrigger, id: TaskId) {
        self.compressor.left(&self.store(), id);
        if !self.hooks.wants(trigger) {
            return;
        }
        match self.with(|store| Ok((store.task_info(id)?, store.final_summary(id)?))).await {
            Ok((info, summary)) => {
                let summary = summary.as_deref();
                self.hooks.notify(HookEvent::new(trigger, &info.row, info.view_generation, summary));
            }
            Err(status) => {
                let (event, why) = (trigger.as_str(), crate::model::in_full(&status));
                tracing::warn!(%id, event, why, "the state of a task cannot be read, so its hooks get no event");
            }
        }
    }

    /// Returns what is known of a task.
    pub async fn info(&self, id: TaskId) -> Result<TaskInfo, StoreError> {
        self.with(|store| store.task_info(id)).await
    }

    /// Keeps a caller's lease while something is made for it.
    pub async fn held<T>(&self, id: TaskId, lease: u64, making: impl Future<Output = T>) -> T {
        let mut renewals = interval((self.lease_ttl() / 3).max(Duration::from_millis(10)));
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut making = std::pin::pin!(making);
        loop {
            tokio::select! {
                made = &mut making => return made,
                _ = renewals.tick() => {
                    if lease > 0 {
                        // Whether it is still the caller's is looked at in the end.
                        let _ = self.with(|store| store.renew_lease(id, lease)).await;
                    }
                }
            }
        }
    }

    /// Returns how long a lease lives.
    pub fn lease_ttl(&self) -> Duration {
        self.store().options().lease_ttl
    }

    /// Returns when the server is stopping.
    pub async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // A sender that is gone means the same.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}
