//! Keeping contexts small: when a view is compressed, what is asked of whom for it, and what becomes of the answers.
//!
//! [`Compressor`] knows what is under way: one compression of a task at a time, a few in the background at once. What
//! stays of a view is worked out by a strategy ([`plan`]); what goes is set apart on disk ([`apart`]) and summarised
//! ([`summarize`]) by a model ([`ask`]) or by the built-in summariser; the store puts the new view in its place.

mod agent;
mod apart;
mod ask;
mod final_summary;
mod flatten;
mod gate;
mod layout;
mod looked;
mod made;
mod material;
mod plan;
pub(crate) mod prompt;
mod reply;
mod run;
mod shorten;
mod squeeze;
mod summarize;
#[cfg(test)]
mod testing;
mod words;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedMutexGuard, Semaphore, watch};
use tokio::task::block_in_place;
use tokio::time::timeout;

pub(crate) use agent::Told;
pub(crate) use agent::{Begun, Commit};
pub(crate) use material::Material;
pub(crate) use run::{Done, Order, Step};

use crate::context::{Breakers, LimitSource, Strategy};
use crate::hooks::{self, Happened, Hooks};
use crate::infra::metrics;
use crate::llm::Gateway;
use crate::model::{Provider, StoreError, TaskId};
use crate::store::{Caller, Store};
use summarize::Asker;

/// How long to wait for a compression that somebody else began.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long compressions that are cut off have to clean up.
const CLEANING: Duration = Duration::from_secs(10);

/// How compressions are run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompressorConfig {
    /// In the background at once.
    pub(crate) at_once: usize,
    /// How long an agent may take for a summary.
    pub(crate) agent_ttl: Duration,
}

/// What is done about contexts that grow.
pub(crate) struct Compressor {
    gateway: Arc<Gateway>,
    breakers: Arc<Breakers>,
    hooks: Arc<Hooks>,
    agent_ttl: Duration,
    /// Places for compressions that nobody asked for.
    places: Semaphore,
    under_way: Mutex<HashMap<TaskId, UnderWay>>,
    /// Tasks that are being ended.
    ending: Mutex<HashMap<TaskId, Weak<TurnLock>>>,
    /// Compressions that go on, and whether they are to end.
    going: watch::Sender<usize>,
    cut: watch::Sender<bool>,
    /// The same for what does not wait.
    stop: Arc<AtomicBool>,
}

/// Held while a task is being ended.
type TurnLock = tokio::sync::Mutex<()>;

/// What is done about a task.
enum UnderWay {
    /// A compression.
    Running,
    /// An agent was told what to summarise.
    Begun(Box<Begun>),
}

impl Compressor {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        breakers: Arc<Breakers>,
        hooks: Arc<Hooks>,
        config: CompressorConfig,
    ) -> Arc<Self> {
        Arc::new(Self {
            gateway,
            breakers,
            hooks,
            agent_ttl: config.agent_ttl,
            places: Semaphore::new(config.at_once),
            under_way: Mutex::default(),
            ending: Mutex::default(),
            going: watch::Sender::new(0),
            cut: watch::Sender::new(false),
            stop: Arc::default(),
        })
    }

    /// Compresses a view in the background, if it is still time to when its turn comes.
    pub(crate) fn soon(self: &Arc<Self>, store: &Store, id: TaskId) {
        let Some(place) = self.begin(id) else { return };
        let (compressor, store) = (Arc::clone(self), store.clone());
        tokio::spawn(async move {
            let _place = place;
            let Ok(_turn) = compressor.places.acquire().await else { return };
            compressor.by_itself(&store, id).await;
        });
    }

    /// Compresses a view if it is time to, and returns when that is done, be it by somebody else. Should it fail or take too
    /// long, the view is as it was.
    pub(crate) async fn if_due(self: &Arc<Self>, store: &Store, id: TaskId) {
        if let Some(_place) = self.begin(id) {
            return self.by_itself(store, id).await;
        }
        let mut going = self.going.subscribe();
        let over = async {
            while matches!(self.lock().get(&id), Some(UnderWay::Running)) {
                // One that ends says so.
                if going.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(PATIENCE, over).await;
    }

    /// Forgets what agents did not bring in time.
    pub(crate) fn sweep(&self) {
        let mut late = Vec::new();
        let mut under_way = self.lock();
        let ids: Vec<TaskId> = under_way
            .iter()
            .filter(|(_, what)| matches!(what, UnderWay::Begun(begun) if begun.is_expired()))
            .map(|(id, _)| *id)
            .collect();
        late.extend(ids.into_iter().filter_map(|id| under_way.remove(&id)));
        drop(under_way);
        if !late.is_empty() {
            // Their files go with them.
            tokio::task::spawn_blocking(move || drop(late));
        }
    }

    async fn by_itself(&self, store: &Store, id: TaskId) {
        let ordered = block_in_place(|| -> Result<Option<Order>, StoreError> {
            // Many messages at once are due before they are durable, and only what is durable is compressed: a try that
            // saw little of it would be the last until more comes.
            store.handle(id)?.settle()?;
            if !store.is_compression_due(id)? {
                return Ok(None);
            }
            let policy = store.policy(id)?;
            if policy.strategy == Strategy::Compact && policy.limit_source == LimitSource::Default {
                tracing::warn!(%id, "the limit of the model is not known, and `compact` does not guess");
                store.note_try(id, false)?;
                return Ok(None);
            }
            let lease_generation = store.outline(id)?.lease;
            let caller = Caller { request_id: None, lease_generation };
            Ok(Some(Order {
                strategy: policy.strategy,
                policy,
                caller,
                asked: String::new(),
                automatic: true,
            }))
        });
        match ordered {
            Ok(Some(order)) => {
                let _ = self.run(store, id, &order, &|_| ()).await;
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%id, %error, "a view was not compressed"),
        }
    }

    /// Compresses a view now. Only one at a time of a task.
    pub(crate) async fn now(
        self: &Arc<Self>,
        store: &Store,
        id: TaskId,
        order: &Order,
        progress: &(dyn Fn(Step) + Sync),
    ) -> Result<Done, StoreError> {
        let _place = self.begin(id).ok_or(StoreError::RewriteInFlight { id })?;
        self.run(store, id, order, progress).await
    }

    async fn run(
        &self,
        store: &Store,
        id: TaskId,
        order: &Order,
        progress: &(dyn Fn(Step) + Sync),
    ) -> Result<Done, StoreError> {
        let asker = Asker { gateway: &self.gateway, breakers: &self.breakers, store, stop: &self.stop };
        let began = Instant::now();
        let done = tokio::select! {
            done = run::run(&asker, id, order, progress) => done,
            () = self.stopped() => Err(StoreError::io("compressing a view", std::io::ErrorKind::Interrupted.into())),
        };
        self.note(store, id, order, began.elapsed(), &done);
        done
    }

    fn note(
        &self,
        store: &Store,
        id: TaskId,
        order: &Order,
        took: Duration,
        done: &Result<Done, StoreError>,
    ) {
        let strategy = order.strategy.as_str();
        match done {
            Ok(done) if done.reason.is_empty() => {
                metrics::compressed(strategy, took);
                if done.summary_id > 0 {
                    metrics::summary_made(&store.source_of(id));
                }
                if !done.fallback_reason.is_empty() {
                    metrics::compression_failed("summarizer");
                }
                tracing::info!(
                    %id, strategy, automatic = order.automatic, emergency = done.emergency,
                    tokens_before = done.tokens_before, tokens_after = done.tokens_after,
                    messages_removed = done.messages_removed, summarizer = done.summarizer,
                    "a view was compressed"
                );
                self.tell(store, id, order, done);
            }
            Ok(done) => tracing::debug!(%id, strategy, reason = done.reason, "a view was not compressed"),
            // Somebody came in between, or the call was refused: nothing failed.
            Err(StoreError::StaleView { .. } | StoreError::RewriteInFlight { .. }) => {
                tracing::debug!(%id, strategy, "a view was changed while it was being compressed");
            }
            Err(error) => {
                metrics::compression_failed("store");
                tracing::warn!(%id, strategy, %error, "a view could not be compressed");
            }
        }
    }

    /// Tells others that a view was compressed.
    fn tell(&self, store: &Store, id: TaskId, order: &Order, done: &Done) {
        if !self.hooks.wants(Happened::Compressed) {
            return;
        }
        let compression = hooks::Compression {
            strategy: order.strategy.as_str(),
            automatic: order.automatic,
            emergency: done.emergency,
            messages_before: done.messages_before,
            messages_after: done.messages_after,
            tokens_before: done.tokens_before,
            tokens_after: done.tokens_after,
            summary_id: done.summary_id,
            summarizer: &done.summarizer,
            model: &done.model,
        };
        match block_in_place(|| store.task_info(id)) {
            Ok(info) => {
                self.hooks.tell(hooks::Event::compressed(&info.row, info.view_generation, &compression))
            }
            Err(error) => tracing::warn!(%id, %error, "nobody is told that a view was compressed"),
        }
    }

    /// The summary of a task that ends; none if there is nothing to say, or none could be made: no task fails to end for
    /// that. A model is asked only if it may be, and not while the server stops.
    pub(crate) async fn final_summary(
        self: &Arc<Self>,
        store: &Store,
        id: TaskId,
        may_ask: bool,
    ) -> Option<String> {
        self.going.send_modify(|going| *going += 1);
        let _going = Going(Arc::clone(self));
        let asker = Asker { gateway: &self.gateway, breakers: &self.breakers, store, stop: &self.stop };
        let may_ask = may_ask && !*self.cut.borrow();
        let made = tokio::select! {
            made = final_summary::make(&asker, id, may_ask) => made,
            () = self.stopped(), if may_ask => final_summary::make(&asker, id, false).await,
        };
        made.unwrap_or_else(|error| {
            tracing::warn!(%id, %error, "a task ends without a final summary");
            None
        })
    }

    /// Waits until nobody else ends the task.
    pub(crate) async fn turn_to_end(&self, id: TaskId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
            ending.retain(|_, lock| lock.strong_count() > 0);
            ending.get(&id).and_then(Weak::upgrade).unwrap_or_else(|| {
                let lock = Arc::new(TurnLock::default());
                ending.insert(id, Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }

    /// Marks a task as being compressed, for as long as the answer lives; none if it is already.
    fn begin(self: &Arc<Self>, id: TaskId) -> Option<Place> {
        let mut under_way = self.lock();
        match under_way.get(&id) {
            Some(UnderWay::Begun(begun)) if !begun.is_expired() => return None,
            Some(UnderWay::Running) => return None,
            Some(UnderWay::Begun(_)) | None => {}
        }
        if *self.cut.borrow() {
            return None;
        }
        let expired = under_way.insert(id, UnderWay::Running);
        drop(under_way);
        drop(expired);
        Some(self.place(id))
    }

    fn place(self: &Arc<Self>, id: TaskId) -> Place {
        self.going.send_modify(|going| *going += 1);
        Place { compressor: Arc::clone(self), id }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Providers that are not asked now, as they failed too often.
    pub(crate) fn open_breakers(&self) -> Vec<Provider> {
        self.breakers.open(Instant::now())
    }

    /// Cuts off what goes on, and returns when it has cleaned up.
    pub(crate) async fn end_all(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.cut.send_replace(true);
        self.lock().retain(|_, under_way| matches!(under_way, UnderWay::Running));
        let mut going = self.going.subscribe();
        if timeout(CLEANING, going.wait_for(|going| *going == 0)).await.is_err() {
            tracing::error!("some compressions did not end in time");
        }
    }

    async fn stopped(&self) {
        let mut cut = self.cut.subscribe();
        // A sender that is gone means the same.
        let _ = cut.wait_for(|cut| *cut).await;
    }
}

/// Something that has to end before the server does.
struct Going(Arc<Compressor>);

impl Drop for Going {
    fn drop(&mut self) {
        self.0.going.send_modify(|going| *going -= 1);
    }
}

/// A compression that goes on.
struct Place {
    compressor: Arc<Compressor>,
    id: TaskId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.compressor.lock();
        if matches!(under_way.get(&self.id), Some(UnderWay::Running)) {
            under_way.remove(&self.id);
        }
        drop(under_way);
        self.compressor.going.send_modify(|going| *going -= 1);
    }
}
