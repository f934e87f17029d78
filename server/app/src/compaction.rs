//! Compressions that a caller asks for: on demand, and by the agent itself.

use std::sync::Arc;

use crate::Engine;
use crate::compress::{CompactionCommit, CompactionOffer, CompressionOutcome, CompressionStep, Job};
use crate::context::{LimitSource, Policy, Pressure, Settings, Strategy};
use crate::error::AppError;
use crate::model::{InvalidField, StoreError, TaskId};
use crate::store::{Caller, Store};

/// A compression that has ended, and how full the context is now.
#[derive(Debug)]
pub struct Finished {
    /// What was done.
    pub done: CompressionOutcome,
    /// How full the context is now.
    pub pressure: Pressure,
}

/// What a call of Compress leads to.
#[derive(Debug)]
pub enum Found {
    /// An earlier call with the same id did it.
    Finished(Box<Finished>),
    /// It is to be done.
    Job(Job),
}

/// The settings of a call.
#[derive(Debug)]
pub struct Request {
    /// The task.
    pub id: TaskId,
    /// The settings that the call overrides.
    pub settings: Settings,
    /// The tokens that the view may have afterwards.
    pub target: Option<u64>,
    /// The caller.
    pub caller: Caller,
    /// A hash of what was asked, to recognise a repeated call.
    pub asked: String,
}

impl Engine {
    /// Looks for the outcome of an earlier call; without one, checks the call.
    pub async fn find_compression(&self, request: Request) -> Result<Found, AppError> {
        let Request { id, settings, target, caller, asked } = request;
        let find = |store: &Store| {
            if let Some(done) = CompressionOutcome::before(store, id, &caller, &asked)? {
                return Ok(Err(done));
            }
            store.may_compress(id, &caller)?;
            Ok(Ok(store.policy_with(id, &settings, target)?))
        };
        match self.with(find).await? {
            Err(done) => Ok(Found::Finished(Box::new(self.finished(id, done).await?))),
            Ok(policy) => {
                let strategy = policy.strategy;
                Ok(Found::Job(order(id, policy, strategy, caller, asked)?))
            }
        }
    }

    /// Compresses, and reports each step.
    pub async fn compress(
        &self,
        id: TaskId,
        order: &Job,
        report: &(dyn Fn(CompressionStep) + Send + Sync),
    ) -> Result<Finished, AppError> {
        match self.compressor.now(&self.store(), id, order, report).await {
            Ok(done) => self.finished(id, done).await,
            Err(error) => {
                self.look_again(id).await;
                Err(refused(error))
            }
        }
    }

    /// Sets apart what the agent is to summarise.
    pub async fn begin_compaction(&self, request: Request) -> Result<CompactionOffer, AppError> {
        let Request { id, settings, target, caller, asked } = request;
        let begin = |store: &Store| {
            store.may_compress(id, &caller)?;
            let policy = store.policy_with(id, &settings, target)?;
            // The other strategies make no summary.
            let own = match policy.strategy {
                Strategy::Compact => Strategy::Compact,
                Strategy::Summarize | Strategy::Prune | Strategy::Window => Strategy::Summarize,
            };
            let order = order(id, policy, own, caller, asked)?;
            self.compressor.begin_for_agent(store, id, order)
        };
        Ok(self.with(begin).await?)
    }

    /// Puts an agent's summary in its place. Goes on if the caller goes away, so that a retry finds it done.
    pub async fn commit_compaction(
        self: &Arc<Self>,
        id: TaskId,
        commit: CompactionCommit,
    ) -> Result<Finished, AppError> {
        let engine = Arc::clone(self);
        let committing = tokio::spawn(async move {
            match engine.commit_once(id, &commit).await {
                Ok(done) => engine.finished(id, done).await,
                Err(error) => {
                    engine.look_again(id).await;
                    Err(error)
                }
            }
        });
        committing.await.map_err(|error| AppError::Internal(format!("taking a summary: {error}")))?
    }

    /// Puts an agent's summary in its place, unless that was done before; a call that comes while it is done waits.
    async fn commit_once(
        &self,
        id: TaskId,
        commit: &CompactionCommit,
    ) -> Result<CompressionOutcome, AppError> {
        let find = |store: &Store| match CompressionOutcome::before(store, id, &commit.caller, &commit.asked)?
        {
            Some(done) => Ok(Some(done.by_agent(&commit.model))),
            None => store.may_compress(id, &commit.caller).map(|()| None),
        };
        loop {
            if let Some(done) = self.with(find).await? {
                return Ok(done);
            }
            let done = self.compressor.commit_for_agent(&self.store(), id, commit).await;
            if let Some(done) = done.map_err(refused)? {
                return Ok(done);
            }
        }
    }

    /// Gives a compaction by the agent up.
    pub async fn abort_compaction(&self, id: TaskId, token: &str, caller: &Caller) -> Result<(), AppError> {
        self.with(|store| store.may_give_up(id, caller)).await?;
        self.compressor.abort_for_agent(id, token).await?;
        self.look_again(id).await;
        Ok(())
    }

    /// Returns how full the context is now; what came meanwhile may be enough for the next compression.
    async fn finished(&self, id: TaskId, done: CompressionOutcome) -> Result<Finished, AppError> {
        let pressure = self.with(|store| store.pressure(id)).await?;
        self.keep_small(id, &pressure);
        Ok(Finished { done, pressure })
    }
}

/// Why nothing came of it. A view that cannot be written down is nothing that the caller has asked for.
fn refused(error: StoreError) -> AppError {
    if let StoreError::Invalid(InvalidField { field, problem }) = &error
        && field == "segments"
    {
        return AppError::Internal(format!("the parts of the new view {problem}"));
    }
    error.into()
}

fn order(
    id: TaskId,
    policy: Policy,
    strategy: Strategy,
    caller: Caller,
    asked: String,
) -> Result<Job, StoreError> {
    if strategy == Strategy::Compact
        && policy.limit_source == LimitSource::Default
        && policy.target_tokens.is_none()
    {
        return Err(StoreError::LimitUnknown { id });
    }
    Ok(Job { strategy, policy: Arc::new(policy), caller, asked, automatic: false })
}
