//! Short waits for the disk on a worker of the runtime itself.
//!
//! `block_in_place` hands the worker's other work to another thread first, which takes longer than a quick sync. So
//! one worker at a time may wait where it stands, if the wait is known to be short. Should it turn out not to be,
//! the workers that sleep are woken, and serve everybody else, but for the task that the one who waits has woken last:
//! the runtime keeps that for it. So nobody should wait here right after waking another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// What was shorter than this the last time is held to be short.
const SHORT: Duration = Duration::from_millis(1);
/// A wait that was seen by two looks at it has turned out long.
const LOOK: Duration = Duration::from_millis(5);
/// So many looks at nothing, and nobody looks until there is something.
const IDLE_LOOKS: u32 = 20;
/// When two want to wait at once there is other work to do: for so long nobody waits where it stands.
const CROWDED: Duration = Duration::from_millis(20);

/// Who waits where it stands.
#[derive(Debug)]
pub struct InPlace {
    state: Arc<State>,
    /// The thread that looks; none where there is no other worker to wake.
    watch: OnceLock<Option<Thread>>,
}

#[derive(Debug)]
struct State {
    zero: Instant,
    /// When the wait that goes on began, in microseconds since `zero`; 0: there is none.
    began: AtomicU64,
    /// Until when nobody is to wait.
    crowded: AtomicU64,
    asleep: AtomicBool,
    over: AtomicBool,
}

impl Default for InPlace {
    fn default() -> Self {
        let state = State {
            zero: Instant::now(),
            began: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            over: AtomicBool::new(false),
        };
        Self { state: Arc::new(state), watch: OnceLock::new() }
    }
}

impl InPlace {
    /// Does what took so long the last time, as a task of a multi-threaded runtime.
    pub fn wait<T>(&self, last: Option<Duration>, act: impl FnOnce() -> T) -> T {
        let short = last.is_some_and(|last| last < SHORT);
        match short.then(|| self.enter()).flatten() {
            Some(_place) => act(),
            None => block_in_place(act),
        }
    }

    fn enter(&self) -> Option<Place<'_>> {
        let state = &*self.state;
        let now = state.now();
        if now < state.crowded.load(Ordering::Relaxed) {
            return None;
        }
        let watch = self.watch.get_or_init(|| watch(&self.state)).as_ref()?;
        if state.began.compare_exchange(0, now, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            state.crowded.store(now + micros(CROWDED), Ordering::Relaxed);
            return None;
        }
        if state.asleep.swap(false, Ordering::SeqCst) {
            watch.unpark();
        }
        Some(Place { state })
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        if let Some(Some(watch)) = self.watch.get() {
            watch.unpark();
        }
    }
}

/// The wait that goes on.
struct Place<'a> {
    state: &'a State,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.state.began.store(0, Ordering::SeqCst);
    }
}

impl State {
    fn now(&self) -> u64 {
        micros(self.zero.elapsed()).max(1)
    }

    /// Looks whether a wait takes long, and then has a worker woken: what it is woken for is nothing, but then it
    /// finds what the one that waits has left.
    fn look(&self, runtime: &Handle) {
        let (mut seen, mut idle) = (0, 0);
        while !self.over.load(Ordering::SeqCst) {
            let began = self.began.load(Ordering::SeqCst);
            // Not only if it is the same one: many short waits in a row are a long one.
            if began != 0 && seen != 0 {
                drop(runtime.spawn(async {}));
            }
            idle = if began == seen && began == 0 { idle + 1 } else { 0 };
            seen = began;
            if idle < IDLE_LOOKS {
                thread::park_timeout(LOOK);
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            // Whoever began since may not have seen it.
            if self.began.load(Ordering::SeqCst) == 0 && !self.over.load(Ordering::SeqCst) {
                thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
            idle = 0;
        }
    }
}

/// Starts the thread that looks, if there is more than one worker.
fn watch(state: &Arc<State>) -> Option<Thread> {
    let runtime = Handle::current();
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread || runtime.metrics().num_workers() < 2 {
        return None;
    }
    let state = Arc::clone(state);
    let look = thread::Builder::new().name("sync-watch".to_owned()).spawn(move || state.look(&runtime));
    let look = look.inspect_err(|error| tracing::warn!(%error, "no thread to watch syncs: they are slower"));
    look.ok().map(|look| look.thread().clone())
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
    fn a_wait_that_turns_out_long_holds_nobody_up() {
        let runtime = runtime(2);
        for _ in 0..20 {
            let places = Arc::new(InPlace::default());
            let (say, heard) = mpsc::channel::<()>();
            let (begin, begun) = mpsc::channel();
            // What wakes by a timer needs a worker that looks at the clock: here the one that then waits.
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
    fn two_do_not_wait_at_once() {
        let runtime = runtime(2);
        let places = Arc::new(InPlace::default());
        let _inside = runtime.enter();
        let place = places.enter().unwrap();
        assert!(places.enter().is_none());
        drop(place);
        // There was a crowd just now.
        assert!(places.enter().is_none());
        let end = Instant::now() + Duration::from_secs(20);
        while places.enter().is_none() {
            assert!(Instant::now() < end, "the crowd stays for ever");
            thread::yield_now();
        }
    }

    #[test]
    fn the_only_worker_never_waits() {
        let runtime = runtime(1);
        let _inside = runtime.enter();
        assert!(InPlace::default().enter().is_none());
    }

    #[test]
    fn what_took_long_goes_elsewhere() {
        let runtime = runtime(2);
        let places = Arc::new(InPlace::default());
        let run =
            |last: Option<Duration>| {
                let places = Arc::clone(&places);
                runtime.block_on(runtime.spawn(async move {
                    places.wait(last, || places.state.began.load(Ordering::SeqCst) != 0)
                }))
            };
        assert!(!run(None).unwrap());
        assert!(!run(Some(Duration::from_millis(2))).unwrap());
        assert!(run(SHORTLY).unwrap());
    }
}
