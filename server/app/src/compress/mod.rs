//! Compression: when a view is compressed, who writes the summary, and what takes the place of what goes.
//!
//! [`Compressor`] runs one compression of a task at a time, and a few in the background at once ([`scheduler`]). A compression
//! ([`compression`]) takes these steps: a strategy selects what stays ([`view_analysis`], [`selection`]); what goes is set apart on
//! disk ([`partition`]); what stays is made smaller if it has to be ([`budget`], [`shrink`]); a model ([`model_call`]) or the
//! built-in summariser writes a summary ([`summary`]); and the store puts the new view ([`replacement`]) in its place.

mod agent;
mod budget;
mod compression;
mod excerpt;
mod final_summary;
mod job;
mod literals;
mod message_file;
mod model_call;
mod partition;
mod plan_note;
mod preface;
pub mod prompt;
mod quality_gate;
mod replacement;
mod reply;
mod scheduler;
mod selection;
mod shrink;
mod summary;
#[cfg(test)]
mod testing;
mod transcript;
mod view_analysis;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedMutexGuard, watch};
use tokio::task::block_in_place;
use tokio::time::timeout;

pub use agent::{CompactionCommit, CompactionOffer};
pub use job::{CompressionOutcome, CompressionStep, Job};
pub use message_file::MessageFile;

use crate::context::{Breakers, LimitSource, Pressure, Stage, Strategy};
use crate::hooks::{self, HookTrigger, Hooks};
use crate::infra::metrics;
use crate::llm::Gateway;
use crate::model::{Provider, StoreError, TaskId};
use crate::store::{Caller, Store};
use scheduler::{Activity, WorkPermit, WorkQueue};
use summary::SummaryWriter;

/// How long to wait for a compression that somebody else began.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many more may work at once that somebody waits for.
const WAITED_FOR: usize = 4;
/// How often a view is compressed in a row, if so much comes meanwhile.
const ROUNDS: u32 = 3;
/// How long compressions that are cut off have to clean up.
const CLEANING: Duration = Duration::from_secs(10);

/// How compressions are run.
#[derive(Debug, Clone, Copy)]
pub struct CompressorConfig {
    /// In the background at once.
    pub at_once: usize,
    /// How long an agent may take for a summary.
    pub agent_ttl: Duration,
}

/// What is done about contexts that grow.
pub struct Compressor {
    gateway: Arc<Gateway>,
    breakers: Arc<Breakers>,
    hooks: Arc<Hooks>,
    agent_ttl: Duration,
    /// Compressions that nobody asked for, and that nobody waits for.
    queue: WorkQueue,
    /// What somebody waits for: more at once, and not behind the others.
    waited_for: WorkQueue,
    under_way: Mutex<HashMap<TaskId, Activity>>,
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

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Compressor {
    /// Returns a compressor with nothing under way.
    pub fn new(
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
            queue: WorkQueue::new(config.at_once),
            waited_for: WorkQueue::new(config.at_once * WAITED_FOR),
            under_way: Mutex::default(),
            ending: Mutex::default(),
            going: watch::Sender::new(0),
            cut: watch::Sender::new(false),
            stop: Arc::default(),
        })
    }

    /// Compresses a view in the background, if it is still time to when its turn comes. If it is urgent, nobody waits for a
    /// model or an agent any more.
    fn soon(self: &Arc<Self>, store: &Store, id: TaskId, urgent: bool) {
        if !self.enqueue(id, urgent, self.lease_if_begun(store, id)) {
            return;
        }
        let (compressor, store) = (Arc::clone(self), store.clone());
        tokio::spawn(async move {
            let turn = compressor.queue.turn().await;
            if let Some(place) = compressor.turn_came(id) {
                compressor.by_itself(&store, id, &turn.of(&place)).await;
            }
        });
    }

    /// Compresses a view if it is time to, and returns when that is done, be it by somebody else. Should it fail or take too
    /// long, the view is as it was.
    pub async fn if_due(self: &Arc<Self>, store: &Store, id: TaskId, urgent: bool) {
        let lease = self.lease_if_begun(store, id);
        let begin = async {
            let place = self.wait_to_begin(id, urgent, lease).await?;
            Some((self.waited_for.turn().await.of(&place), place))
        };
        if let Ok(Some((turn, _place))) = timeout(PATIENCE, begin).await {
            self.by_itself(store, id, &turn).await;
        }
    }

    /// The lease of whoever works on a task now, where an agent of an earlier one may have begun something.
    fn lease_if_begun(&self, store: &Store, id: TaskId) -> Option<u64> {
        let has_begun = matches!(self.lock().get(&id), Some(Activity::Begun(_)));
        if has_begun { block_in_place(|| store.lease(id)).ok() } else { None }
    }

    /// Forgets what agents did not bring in time, and does what had to wait for it.
    pub fn sweep(self: &Arc<Self>, store: &Store) {
        let is_late = |(_, what): &(&TaskId, &Activity)| matches!(what, Activity::Begun(begun) if begun.gives_way(false, None));
        let late: Vec<TaskId> = self.lock().iter().filter(is_late).map(|(id, _)| *id).collect();
        if late.is_empty() {
            return;
        }
        let (compressor, store) = (Arc::clone(self), store.clone());
        tokio::task::spawn_blocking(move || {
            for id in late {
                compressor.give_up(id, None);
                // One that cannot be opened is not compressed either.
                if let Ok(pressure) = store.pressure(id) {
                    compressor.if_time(&store, id, &pressure);
                }
            }
        });
    }

    /// Says whether a view of the task is being compressed now.
    pub fn is_running(&self, id: TaskId) -> bool {
        matches!(self.lock().get(&id), Some(Activity::Running(_) | Activity::Committing(_)))
    }

    /// Compresses a view in the background, if it is time to.
    pub fn if_time(self: &Arc<Self>, store: &Store, id: TaskId, pressure: &Pressure) {
        if pressure.due {
            self.soon(store, id, pressure.stage == Stage::Emergency);
        }
    }

    /// Forgets what an agent was to bring that does not work on the task any more.
    pub fn left(&self, store: &Store, id: TaskId) {
        if let Some(lease) = self.lease_if_begun(store, id) {
            block_in_place(|| self.give_up(id, Some(lease)));
        }
    }

    /// Forgets what an agent was to bring for a task that was deleted, but not for its successor. Blocks.
    pub fn deleted(&self, id: TaskId) {
        let mut under_way = self.lock();
        let is_left = matches!(under_way.get(&id), Some(Activity::Begun(begun)) if begun.is_deleted());
        let given_up = if is_left { under_way.remove(&id) } else { None };
        drop(under_way);
        drop(given_up);
    }

    /// Forgets what an agent was to bring, unless whoever has the lease began it. Blocks.
    fn give_up(&self, id: TaskId, lease: Option<u64>) {
        let mut under_way = self.lock();
        let is_over =
            matches!(under_way.get(&id), Some(Activity::Begun(begun)) if begun.gives_way(false, lease));
        let given_up = if is_over { under_way.remove(&id) } else { None };
        drop(under_way);
        // Its files go with it.
        drop(given_up);
    }

    /// Compresses a view as often as it is time to: it may be again by what came meanwhile.
    async fn by_itself(&self, store: &Store, id: TaskId, turn: &WorkPermit) {
        // One that is not there is not compressed.
        let Ok(binding) = block_in_place(|| store.bind(id)) else { return };
        let store = &store.bound(&binding);
        for _ in 0..ROUNDS {
            let job = match block_in_place(|| due_job(store, id)) {
                Ok(Some(job)) => job,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%id, %error, "a view was not compressed");
                    return;
                }
            };
            match self.run(store, id, &job, turn, &|_| ()).await {
                Ok(done) if done.reason.is_empty() => {}
                Err(StoreError::StaleView { .. }) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Compresses a view now. Only one at a time of a task; what an agent was to bring is given up, as whoever asks works on
    /// the task now.
    pub async fn now(
        self: &Arc<Self>,
        store: &Store,
        id: TaskId,
        job: &Job,
        progress: &(dyn Fn(CompressionStep) + Sync),
    ) -> Result<CompressionOutcome, StoreError> {
        let begun = block_in_place(|| self.begin(id, true, None));
        let place = begun.ok_or(StoreError::RewriteInFlight { id })?;
        let store = &store.bound(&block_in_place(|| store.bind(id))?);
        let turn = self.waited_for.turn().await.of(&place);
        self.run(store, id, job, &turn, progress).await
    }

    async fn run(
        &self,
        store: &Store,
        id: TaskId,
        job: &Job,
        turn: &WorkPermit,
        progress: &(dyn Fn(CompressionStep) + Sync),
    ) -> Result<CompressionOutcome, StoreError> {
        let writer = self.writer(store, turn);
        let began = Instant::now();
        let done = tokio::select! {
            done = Box::pin(compression::run(&writer, id, job, progress)) => done,
            () = store.deleted() => Err(StoreError::TaskNotFound { id }),
            () = self.stopped() => Err(StoreError::io("compressing a view", std::io::ErrorKind::Interrupted.into())),
        };
        self.note(store, id, job, began.elapsed(), &done);
        done
    }

    fn writer<'a>(&'a self, store: &'a Store, turn: &'a WorkPermit) -> SummaryWriter<'a> {
        SummaryWriter { gateway: &self.gateway, breakers: &self.breakers, store, stop: &self.stop, turn }
    }

    fn note(
        &self,
        store: &Store,
        id: TaskId,
        job: &Job,
        took: Duration,
        done: &Result<CompressionOutcome, StoreError>,
    ) {
        let strategy = job.strategy.as_str();
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
                    %id, strategy, automatic = job.automatic, emergency = done.emergency,
                    tokens_before = done.tokens_before, tokens_after = done.tokens_after,
                    messages_removed = done.messages_removed, summarizer = done.summarizer,
                    "a view was compressed"
                );
                self.tell(store, id, job, done);
            }
            Ok(done) => tracing::debug!(%id, strategy, reason = done.reason, "a view was not compressed"),
            // Somebody came in between, or the call was refused: nothing failed.
            Err(
                StoreError::StaleView { .. }
                | StoreError::RewriteInFlight { .. }
                | StoreError::TaskNotFound { .. },
            ) => {
                tracing::debug!(%id, strategy, "a view was changed while it was being compressed");
            }
            Err(error) => {
                metrics::compression_failed("store");
                tracing::warn!(%id, strategy, %error, "a view could not be compressed");
                if job.automatic {
                    // A task that cannot be opened is not compressed either.
                    let _ = block_in_place(|| store.note_failure(id));
                }
            }
        }
    }

    /// Tells others that a view was compressed.
    fn tell(&self, store: &Store, id: TaskId, job: &Job, done: &CompressionOutcome) {
        if !self.hooks.wants(HookTrigger::Compressed) {
            return;
        }
        let compression = hooks::CompressionReport {
            strategy: job.strategy.as_str(),
            automatic: job.automatic,
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
                self.hooks.notify(hooks::HookEvent::compressed(&info.row, info.view_generation, &compression))
            }
            Err(error) => tracing::warn!(%id, %error, "nobody is told that a view was compressed"),
        }
    }

    /// The summary of a task that ends; none if there is nothing to say, or none could be made: no task fails to end for
    /// that. A model is asked only if it may be, and not while the server stops.
    pub async fn final_summary(self: &Arc<Self>, store: &Store, id: TaskId, may_ask: bool) -> Option<String> {
        self.going.send_modify(|going| *going += 1);
        let _going = Going(Arc::clone(self));
        let turn = self.waited_for.turn().await;
        let writer = self.writer(store, &turn);
        let may_ask = may_ask && !*self.cut.borrow();
        let made = tokio::select! {
            made = final_summary::make(&writer, id, may_ask) => made,
            () = store.deleted() => Err(StoreError::TaskNotFound { id }),
            () = self.stopped(), if may_ask => final_summary::make(&writer, id, false).await,
        };
        made.unwrap_or_else(|error| {
            tracing::warn!(%id, %error, "a task ends without a final summary");
            None
        })
    }

    /// Waits until nobody else ends the task.
    pub async fn turn_to_end(&self, id: TaskId) -> OwnedMutexGuard<()> {
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

    /// Providers that are not asked now, as they failed too often.
    pub fn open_breakers(&self) -> Vec<Provider> {
        self.breakers.open(Instant::now())
    }

    /// Cuts off what goes on, and returns when it has cleaned up.
    pub async fn end_all(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.cut.send_replace(true);
        self.lock().retain(|_, what| matches!(what, Activity::Running(_) | Activity::Committing(_)));
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

/// What is to be done about a view without being asked; none if it is not time. Blocks.
fn due_job(store: &Store, id: TaskId) -> Result<Option<Job>, StoreError> {
    // Many messages at once are due before they are durable, and only what is durable is compressed: a try that
    // saw little of it would be the last until more comes.
    store.handle(id)?.settle()?;
    if !store.is_compression_due(id)? {
        return Ok(None);
    }
    let policy = store.policy(id)?;
    let mut strategy = policy.strategy;
    if strategy == Strategy::Compact && policy.limit_source == LimitSource::Default {
        // It does not guess; but a context that nobody keeps small would outgrow its model for certain.
        tracing::warn!(%id, "the limit of the model is not known: `summarize` takes the place of `compact`");
        strategy = Strategy::Summarize;
    }
    let caller = Caller { request_id: None, lease_generation: store.lease(id)? };
    Ok(Some(Job { strategy, policy, caller, asked: String::new(), automatic: true }))
}
