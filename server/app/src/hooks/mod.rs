//! Hooks: run programs and post to addresses when something happens to a task.
//!
//! Callers never wait for a hook. [`Hooks::notify`] puts an event into a bounded queue. The events of one task are
//! delivered in order; tasks do not wait for each other. Events are kept in memory only, so a killed server loses
//! those that it has not delivered.

mod event;
mod post;
mod run;
mod settings;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

pub use event::{CompressionReport, HookEvent, HookTrigger};

use crate::infra::metrics;
use crate::model::TaskId;
use post::Post;
pub use settings::{HookSettings, HookTarget};

/// Hooks that run at the same time.
const AT_ONCE: usize = 8;
/// Pause before the first retry; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Time that interrupted hooks have to clean up.
const CLEANING: Duration = Duration::from_secs(2);

/// The configured hooks and the queue of their events.
pub struct Hooks {
    targets: [Vec<Action>; HookTrigger::ALL.len()],
    timeout: Duration,
    retries: u32,
    most: usize,
    /// Events by task, in order. Every task in the map has a worker.
    queues: Mutex<HashMap<TaskId, VecDeque<HookEvent>>>,
    /// Number of events that are not delivered yet.
    waiting: watch::Sender<usize>,
    places: Semaphore,
    cut: watch::Sender<bool>,
}

enum Action {
    Run(Vec<String>),
    Post(Post),
}

/// The error of one try.
struct FailedTry {
    why: String,
    /// True if a retry can succeed.
    may_pass: bool,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

impl Hooks {
    /// Returns the hooks of the settings.
    pub fn new(config: &HookSettings) -> Arc<Self> {
        let of = |trigger| match trigger {
            HookTrigger::Started => &config.started,
            HookTrigger::Resumed => &config.resumed,
            HookTrigger::Paused => &config.paused,
            HookTrigger::Completed => &config.completed,
            HookTrigger::Failed => &config.failed,
            HookTrigger::Compressed => &config.compressed,
        };
        Arc::new(Self {
            targets: HookTrigger::ALL.map(|trigger| targets(of(trigger))),
            timeout: config.timeout,
            retries: config.retries,
            most: config.queue,
            queues: Mutex::default(),
            waiting: watch::Sender::new(0),
            places: Semaphore::new(AT_ONCE),
            cut: watch::Sender::new(false),
        })
    }

    /// Returns true if a hook is configured for this event.
    pub fn wants(&self, trigger: HookTrigger) -> bool {
        !self.targets[trigger as usize].is_empty()
    }

    /// Queues an event whose cause is durable. Never waits.
    pub fn notify(self: &Arc<Self>, event: HookEvent) {
        if !self.wants(event.trigger) {
            return;
        }
        let id = event.id;
        let mut queues = self.lock();
        if *self.cut.borrow() || *self.waiting.borrow() >= self.most {
            drop(queues);
            return self.drop_all([event].into(), "hooks.queue is full, or the server stops");
        }
        self.note_waiting(|waiting| *waiting += 1);
        let queue = queues.get_mut(&id);
        if let Some(queue) = queue {
            queue.push_back(event);
            return;
        }
        queues.insert(id, [event].into());
        drop(queues);
        let hooks = Arc::clone(self);
        tokio::spawn(async move {
            let mut cut = hooks.cut.subscribe();
            tokio::select! {
                () = hooks.work(id) => {}
                // A dropped sender means the same.
                _ = cut.wait_for(|cut| *cut) => hooks.give_up(id),
            }
        });
    }

    /// Delivers the queued events of a task.
    async fn work(&self, id: TaskId) {
        loop {
            let next = {
                let mut queues = self.lock();
                let next = queues.get(&id).and_then(|queue| queue.front().cloned());
                if next.is_none() {
                    queues.remove(&id);
                }
                next
            };
            let Some(event) = next else { return };
            for target in &self.targets[event.trigger as usize] {
                self.deliver(target, &event).await;
            }
            let mut queues = self.lock();
            queues.get_mut(&id).and_then(VecDeque::pop_front);
            drop(queues);
            self.note_waiting(|waiting| *waiting -= 1);
        }
    }

    async fn deliver(&self, target: &Action, event: &HookEvent) {
        let (id, name) = (event.id, event.trigger.as_str());
        let mut pause = FIRST_PAUSE;
        for left in (0..=self.retries).rev() {
            let failed = match self.attempt(target, event).await {
                Ok(()) => return metrics::hook_ended(name, "ok"),
                Err(failed) => failed,
            };
            let FailedTry { why, may_pass } = failed;
            if left == 0 || !may_pass {
                metrics::hook_ended(name, "failed");
                tracing::error!(%id, event = name, hook = target.name(), why, "a hook failed and is given up");
                return;
            }
            tracing::warn!(%id, event = name, hook = target.name(), why, ?pause, "a hook failed and is tried again");
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self, target: &Action, event: &HookEvent) -> Result<(), FailedTry> {
        // The semaphore is never closed.
        let _place = self.places.acquire().await;
        match target {
            Action::Run(command) => run::run(command, event.body.as_bytes(), self.timeout).await,
            Action::Post(post) => post.send(event, self.timeout).await,
        }
    }

    /// Drops the remaining events of a task.
    fn give_up(&self, id: TaskId) {
        let left = self.lock().remove(&id).unwrap_or_default();
        let count = left.len();
        self.drop_all(left, "the server stops");
        self.note_waiting(|waiting| *waiting -= count);
    }

    fn drop_all(&self, events: VecDeque<HookEvent>, why: &str) {
        for event in events {
            metrics::hook_ended(event.trigger.as_str(), "dropped");
            tracing::warn!(id = %event.id, event = event.trigger.as_str(), why, "an event for the hooks was dropped");
        }
    }

    /// Waits up to `limit` for the hooks to end, then interrupts the rest.
    pub async fn end(&self, limit: Duration) {
        let mut waiting = self.waiting.subscribe();
        let _ = timeout(limit, waiting.wait_for(|waiting| *waiting == 0)).await;
        {
            // Later calls see the flag, because they take the same lock.
            let _queues = self.lock();
            self.cut.send_replace(true);
        }
        if timeout(CLEANING, waiting.wait_for(|waiting| *waiting == 0)).await.is_err() {
            tracing::error!("some hooks did not end in time");
        }
    }

    fn note_waiting(&self, change: impl FnOnce(&mut usize)) {
        self.waiting.send_modify(change);
        metrics::set_hooks_waiting(*self.waiting.borrow());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, VecDeque<HookEvent>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Action {
    /// Returns a name for the log. It leaves out the path of an address, which can hold a secret.
    fn name(&self) -> &str {
        match self {
            Self::Run(command) => command.first().map_or("", String::as_str),
            Self::Post(post) => post.host(),
        }
    }
}

fn targets(config: &HookTarget) -> Vec<Action> {
    let run = (!config.command.is_empty()).then(|| Action::Run(config.command.clone()));
    let post = config.url.as_deref().map(|url| Action::Post(Post::new(url)));
    run.into_iter().chain(post).collect()
}
