//! Lines that are written but need not be durable yet: their callers wait here, in a thread or as a task.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::context::is_ready;
use crate::log::{Commit, CommitRole};
use crate::model::{Durability, StoreError, TaskId};

use super::{Append, AppendOutcome, Task};
use crate::store::env::Env;

/// A message that was written. Its outcome is only true once it is durable.
#[derive(Debug)]
#[must_use = "it is not acknowledged until it is durable"]
pub struct Pending {
    outcome: AppendOutcome,
    ticket: Ticket,
    /// What is worth a try now.
    pub due: Due,
}

/// Background work that an appended message makes worth a try.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Due {
    /// The view is too large for a request, and `Store::shed_media` may help.
    pub shedding: bool,
    /// Outputs have passed their budget, and `Store::trim_if_due` may help.
    pub trimming: bool,
}

impl Pending {
    /// Returns how full the context is with it.
    pub fn pressure(&self) -> &crate::context::Pressure {
        &self.outcome.pressure
    }

    pub(super) fn new(outcome: AppendOutcome, ticket: Ticket, due: Due) -> Self {
        Self { outcome, ticket, due }
    }

    /// Waits, blocking the thread.
    pub fn wait(self) -> Result<AppendOutcome, StoreError> {
        self.ticket.wait().map(|()| self.outcome)
    }

    /// Returns whether there is nothing to wait for.
    pub fn is_durable(&self) -> bool {
        match self.ticket.durability {
            Durability::Process => true,
            Durability::Group => self.ticket.commit.durable() >= self.ticket.end,
            // It has a sync of its own, whoever synced before.
            Durability::Each => false,
        }
    }

    /// Waits as a task of a multi-threaded runtime.
    pub async fn durable(self) -> Result<AppendOutcome, StoreError> {
        self.ticket.durable().await.map(|()| self.outcome)
    }
}

/// An open task, to append to. When a write or a sync has failed, everything later fails too: what was taken
/// back must not be followed by what came behind it.
#[derive(Debug, Clone)]
pub struct TaskHandle {
    task: Arc<Task>,
}

impl TaskHandle {
    pub(crate) fn new(task: Arc<Task>) -> Self {
        Self { task }
    }

    /// The task.
    pub fn id(&self) -> TaskId {
        self.task.id
    }

    /// Returns when everything that was written to the task is durable, by the task's measure.
    pub fn settle(&self) -> Result<(), StoreError> {
        let (end, durability) = self.task.written();
        self.task.wait_durable(end, durability)
    }

    /// Writes a message; it is acknowledged when it is durable.
    pub fn append(&self, append: &Append) -> Result<Pending, StoreError> {
        let prepared = self.task.prepare(append)?;
        self.task.append(&prepared)
    }

    /// The same if it can be done at once; none if it would have to wait for a lock, make a view
    /// or load a counter.
    pub fn try_append(&self, append: &Append) -> Option<Result<Pending, StoreError>> {
        if !is_ready(self.task.counter.get()) {
            return None;
        }
        match self.task.prepare(append) {
            Ok(prepared) => self.task.try_append(&prepared),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Stands for everything up to an end of the log.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) task: Arc<Task>,
    pub(super) commit: Arc<Commit>,
    pub(super) end: u64,
    pub(super) durability: Durability,
    /// Whether a checkpoint is due: it syncs, so it is not written on the way.
    pub(super) checkpoint: bool,
    pub(super) settled: bool,
}

impl Ticket {
    fn wait(mut self) -> Result<(), StoreError> {
        self.settle_blocking()
    }

    fn settle_blocking(&mut self) -> Result<(), StoreError> {
        self.settled = true;
        if self.durability != Durability::Process {
            let waited = self.commit.wait(self.end, self.durability);
            waited.map_err(|error| self.task.failed_to_sync(error))?;
        }
        if self.checkpoint {
            self.task.checkpoint_now();
        }
        Ok(())
    }

    async fn durable(mut self) -> Result<(), StoreError> {
        if self.durability != Durability::Process {
            let alone = self.durability == Durability::Each;
            let synced = synced(&self.task.env, &self.commit, self.end, alone).await;
            if let Err(error) = synced {
                self.settled = true;
                return Err(block_in_place(|| self.task.failed_to_sync(error)));
            }
        }
        self.settled = true;
        if self.checkpoint {
            block_in_place(|| self.task.checkpoint_now());
        }
        Ok(())
    }
}

/// Returns when a log is synced up to an end, as a task of a multi-threaded runtime.
async fn synced(env: &Env, commit: &Commit, end: u64, mut alone: bool) -> io::Result<()> {
    loop {
        match poll_fn(|context| commit.poll(end, alone, context)).await? {
            CommitRole::Done => return Ok(()),
            CommitRole::Follower => {}
            CommitRole::Leader => {
                let leader = Leader { commit, has_led: false };
                // A thread waits for each: more of them at once make the disk no faster.
                let _place = env.syncs.acquire().await;
                env.in_place.wait(commit.last_commit(), || leader.lead());
                alone = false;
            }
        }
    }
}

/// One who is to sync. It resigns if its call is cancelled before.
struct Leader<'a> {
    commit: &'a Commit,
    has_led: bool,
}

impl Leader<'_> {
    fn lead(mut self) {
        self.has_led = true;
        self.commit.lead();
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if !self.has_led {
            self.commit.resign();
        }
    }
}

impl Drop for Ticket {
    /// A call that was cancelled has written all the same: what it wrote must not stay half-way, neither
    /// durable nor visible, until the next one comes.
    fn drop(&mut self) {
        if self.settled || self.durability == Durability::Process {
            return;
        }
        let (commit, task) = (Arc::clone(&self.commit), Arc::clone(&self.task));
        let end = self.end;
        match Handle::try_current() {
            // As a task, since there may be a thousand of them: most only wait for the one that syncs.
            Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
                drop(runtime.spawn(async move {
                    if let Err(error) = synced(&task.env, &commit, end, false).await {
                        block_in_place(|| task.failed_to_sync(error));
                    }
                }));
            }
            _ => {
                if let Err(error) = commit.wait(end, Durability::Group) {
                    task.failed_to_sync(error);
                }
            }
        }
    }
}
