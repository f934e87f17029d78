//! Short blocking waits for the disk directly on a worker of the runtime.
//!
//! `block_in_place` first moves the worker's other tasks to another thread, which takes longer than a quick sync. So
//! one worker at a time may block without that, if the wait is expected to be short. If the wait turns out long, a
//! monitor thread wakes the idle workers, which take over the tasks of the blocked worker, except the task that the
//! blocked worker woke last: the runtime reserves that one for it. So do not wait here right after waking a task.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// A wait is expected to be short if the last one took less than this.
const SHORT_WAIT: Duration = Duration::from_millis(1);
/// Interval of the monitor's checks. A wait that spans two checks is long.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Checks without a wait after which the monitor parks.
const IDLE_CHECKS: u32 = 20;
/// Pause after two concurrent waits. Concurrent waits mean that the worker has other tasks, so none blocks in place
/// meanwhile.
const CONTENTION_PAUSE: Duration = Duration::from_millis(20);

/// The one slot for a wait that blocks a worker in place.
#[derive(Debug)]
pub struct InPlace {
    monitor: Arc<WaitMonitor>,
    /// The monitor thread; `None` where there is no other worker to wake.
    thread: OnceLock<Option<Thread>>,
}

#[derive(Debug)]
struct WaitMonitor {
    zero: Instant,
    /// Start of the current wait, in microseconds since `zero`; 0 without a wait.
    began: AtomicU64,
    /// End of the pause after concurrent waits.
    paused_until: AtomicU64,
    parked: AtomicBool,
    stopped: AtomicBool,
}

impl Default for InPlace {
    fn default() -> Self {
        let monitor = WaitMonitor {
            zero: Instant::now(),
            began: AtomicU64::new(0),
            paused_until: AtomicU64::new(0),
            parked: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        };
        Self { monitor: Arc::new(monitor), thread: OnceLock::new() }
    }
}

impl InPlace {
    /// Runs `act`, which took `last` the previous time, in a task of a multi-threaded runtime.
    pub fn wait<T>(&self, last: Option<Duration>, act: impl FnOnce() -> T) -> T {
        let short = last.is_some_and(|last| last < SHORT_WAIT);
        match short.then(|| self.enter()).flatten() {
            Some(_wait) => act(),
            None => block_in_place(act),
        }
    }

    fn enter(&self) -> Option<Wait<'_>> {
        let monitor = &*self.monitor;
        let now = monitor.now();
        if now < monitor.paused_until.load(Ordering::Relaxed) {
            return None;
        }
        let thread = self.thread.get_or_init(|| start_monitor(&self.monitor)).as_ref()?;
        if monitor.began.compare_exchange(0, now, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            monitor.paused_until.store(now + micros(CONTENTION_PAUSE), Ordering::Relaxed);
            return None;
        }
        if monitor.parked.swap(false, Ordering::SeqCst) {
            thread.unpark();
        }
        Some(Wait { monitor })
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        self.monitor.stopped.store(true, Ordering::SeqCst);
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The current wait; ends when dropped.
struct Wait<'a> {
    monitor: &'a WaitMonitor,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.monitor.began.store(0, Ordering::SeqCst);
    }
}

impl WaitMonitor {
    fn now(&self) -> u64 {
        micros(self.zero.elapsed()).max(1)
    }

    /// Watches for long waits and then wakes a worker by spawning an empty task; the worker then finds the tasks of
    /// the blocked one.
    fn watch(&self, runtime: &Handle) {
        let (mut seen, mut idle) = (0, 0);
        while !self.stopped.load(Ordering::SeqCst) {
            let began = self.began.load(Ordering::SeqCst);
            // Two different waits count too: many short waits in a row delay tasks as much as a long one.
            if began != 0 && seen != 0 {
                drop(runtime.spawn(async {}));
            }
            idle = if began == seen && began == 0 { idle + 1 } else { 0 };
            seen = began;
            if idle < IDLE_CHECKS {
                thread::park_timeout(CHECK_INTERVAL);
                continue;
            }
            self.parked.store(true, Ordering::SeqCst);
            // A wait that began since may have missed the flag.
            if self.began.load(Ordering::SeqCst) == 0 && !self.stopped.load(Ordering::SeqCst) {
                thread::park();
            }
            self.parked.store(false, Ordering::SeqCst);
            idle = 0;
        }
    }
}

/// Starts the monitor thread if there is more than one worker.
fn start_monitor(monitor: &Arc<WaitMonitor>) -> Option<Thread> {
    let runtime = Handle::current();
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread || runtime.metrics().num_workers() < 2 {
        return None;
    }
    let monitor = Arc::clone(monitor);
    let started = thread::Builder::new().name("sync-watch".to_owned()).spawn(move || monitor.watch(&runtime));
    let started = started
        .inspect_err(|error| tracing::warn!(%error, "cannot start the monitor thread: syncs are slower"));
    started.ok().map(|thread| thread.thread().clone())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::{Builder, Runtime};
    use tokio::time::sleep;

    use super::*;

    const SHORTLY: Option<Duration> = Some(Duration::from_micros(100));

    fn runtime(workers: usize) -> Runtime {
        Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
    }

    #[test]
    fn a_long_wait_does_not_delay_other_tasks() {
        let runtime = runtime(2);
        for _ in 0..20 {
            let places = Arc::new(InPlace::default());
            let (say, heard) = mpsc::channel::<()>();
            let (begin, begun) = mpsc::channel();
            // A timer needs a worker that drives it: here the one that then blocks.
            let stuck = runtime.spawn(async move {
                sleep(Duration::from_millis(2)).await;
                places.wait(SHORTLY, || {
                    begin.send(()).unwrap();
                    heard.recv().unwrap();
                });
            });
            let (serve, served) = mpsc::channel();
            let other = runtime.spawn(async move {
                sleep(Duration::from_millis(4)).await;
                serve.send(()).unwrap();
            });
            begun.recv().unwrap();
            served.recv_timeout(Duration::from_secs(20)).unwrap();
            say.send(()).unwrap();
            runtime.block_on(async { (stuck.await.unwrap(), other.await.unwrap()) });
        }
    }

    #[test]
    fn concurrent_waits_do_not_block_in_place() {
        let runtime = runtime(2);
        let places = Arc::new(InPlace::default());
        let _inside = runtime.enter();
        let place = places.enter().unwrap();
        assert!(places.enter().is_none());
        drop(place);
        // The pause after concurrent waits is running.
        assert!(places.enter().is_none());
        let end = Instant::now() + Duration::from_secs(20);
        while places.enter().is_none() {
            assert!(Instant::now() < end, "the crowd stays for ever");
            thread::yield_now();
        }
    }

    #[test]
    fn the_only_worker_never_blocks_in_place() {
        let runtime = runtime(1);
        let _inside = runtime.enter();
        assert!(InPlace::default().enter().is_none());
    }

    #[test]
    fn long_waits_do_not_block_in_place() {
        let runtime = runtime(2);
        let places = Arc::new(InPlace::default());
        let run =
            |last: Option<Duration>| {
                let places = Arc::clone(&places);
                runtime.block_on(runtime.spawn(async move {
                    places.wait(last, || places.monitor.began.load(Ordering::SeqCst) != 0)
                }))
            };
        assert!(!run(None).unwrap());
        assert!(!run(Some(Duration::from_millis(2))).unwrap());
        assert!(run(SHORTLY).unwrap());
    }
}
