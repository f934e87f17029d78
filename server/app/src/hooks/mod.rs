//! Telling others what happens to tasks: programs that are run, and addresses that are posted to.
//!
//! Nobody waits for a hook. [`Hooks::tell`] puts an event into a queue that has an end; what happens to one task is told
//! in order, one after the other, and different tasks do not wait for each other. Events are in memory only: a server
//! that is killed does not tell what it had not told yet.

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

pub use event::{Compression, Event, Happened};

use crate::infra::metrics;
use crate::model::TaskId;
use post::Post;
pub use settings::{HookSettings, HookTarget};

/// Hooks that are tried at once.
const AT_ONCE: usize = 8;
/// The pause after the first try that failed; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long what is cut off has to clean up.
const CLEANING: Duration = Duration::from_secs(2);

/// Who is told what, and what waits to be told.
pub struct Hooks {
    targets: [Vec<Target>; Happened::ALL.len()],
    timeout: Duration,
    retries: u32,
    most: usize,
    /// Events by task, in order. A task that is here has somebody who works on it.
    queues: Mutex<HashMap<TaskId, VecDeque<Event>>>,
    /// Events that are not done.
    waiting: watch::Sender<usize>,
    places: Semaphore,
    cut: watch::Sender<bool>,
}

enum Target {
    Run(Vec<String>),
    Post(Post),
}

/// Why a try failed.
struct Failed {
    why: String,
    /// Whether another try may do better.
    may_pass: bool,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

impl Hooks {
    /// Returns the hooks that the settings name.
    pub fn new(config: &HookSettings) -> Arc<Self> {
        let of = |happened| match happened {
            Happened::Started => &config.started,
            Happened::Resumed => &config.resumed,
            Happened::Paused => &config.paused,
            Happened::Completed => &config.completed,
            Happened::Failed => &config.failed,
            Happened::Compressed => &config.compressed,
        };
        Arc::new(Self {
            targets: Happened::ALL.map(|happened| targets(of(happened))),
            timeout: config.timeout,
            retries: config.retries,
            most: config.queue,
            queues: Mutex::default(),
            waiting: watch::Sender::new(0),
            places: Semaphore::new(AT_ONCE),
            cut: watch::Sender::new(false),
        })
    }

    /// Whether anybody is told of it: then it is worth an [`Event`].
    pub fn wants(&self, happened: Happened) -> bool {
        !self.targets[happened as usize].is_empty()
    }

    /// Tells of something that has happened, and is on disk. Does not wait.
    pub fn tell(self: &Arc<Self>, event: Event) {
        if !self.wants(event.happened) {
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
                // A sender that is gone means the same.
                _ = cut.wait_for(|cut| *cut) => hooks.give_up(id),
            }
        });
    }

    /// Tells everything that there is of a task.
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
            for target in &self.targets[event.happened as usize] {
                self.deliver(target, &event).await;
            }
            let mut queues = self.lock();
            queues.get_mut(&id).and_then(VecDeque::pop_front);
            drop(queues);
            self.note_waiting(|waiting| *waiting -= 1);
        }
    }

    async fn deliver(&self, target: &Target, event: &Event) {
        let (id, name) = (event.id, event.happened.as_str());
        let mut pause = FIRST_PAUSE;
        for left in (0..=self.retries).rev() {
            let failed = match self.attempt(target, event).await {
                Ok(()) => return metrics::hook_ended(name, "ok"),
                Err(failed) => failed,
            };
            let Failed { why, may_pass } = failed;
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

    async fn attempt(&self, target: &Target, event: &Event) -> Result<(), Failed> {
        // It is never closed.
        let _place = self.places.acquire().await;
        match target {
            Target::Run(command) => run::run(command, event.body.as_bytes(), self.timeout).await,
            Target::Post(post) => post.send(event, self.timeout).await,
        }
    }

    /// Drops what is left of a task.
    fn give_up(&self, id: TaskId) {
        let left = self.lock().remove(&id).unwrap_or_default();
        let count = left.len();
        self.drop_all(left, "the server stops");
        self.note_waiting(|waiting| *waiting -= count);
    }

    fn drop_all(&self, events: VecDeque<Event>, why: &str) {
        for event in events {
            metrics::hook_ended(event.happened.as_str(), "dropped");
            tracing::warn!(id = %event.id, event = event.happened.as_str(), why, "an event is told to nobody");
        }
    }

    /// Lets hooks end for so long, and cuts off what is left.
    pub async fn end(&self, limit: Duration) {
        let mut waiting = self.waiting.subscribe();
        let _ = timeout(limit, waiting.wait_for(|waiting| *waiting == 0)).await;
        {
            // Under the lock: whoever comes later sees it.
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

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, VecDeque<Event>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target {
    /// For the log: an address may hold a secret.
    fn name(&self) -> &str {
        match self {
            Self::Run(command) => command.first().map_or("", String::as_str),
            Self::Post(post) => post.host(),
        }
    }
}

fn targets(config: &HookTarget) -> Vec<Target> {
    let run = (!config.command.is_empty()).then(|| Target::Run(config.command.clone()));
    let post = config.url.as_deref().map(|url| Target::Post(Post::new(url)));
    run.into_iter().chain(post).collect()
}
