//! Group commit: syncs are shared, and a failed one acknowledges nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use super::*;

/// A file whose syncs wait for a word from the test.
#[derive(Debug)]
struct Gate {
    syncs: AtomicU64,
    fails: AtomicBool,
    open: Mutex<mpsc::Receiver<()>>,
}

impl Gate {
    fn new() -> (Arc<Self>, mpsc::Sender<()>) {
        let (say, open) = mpsc::channel();
        let gate = Self { syncs: AtomicU64::new(0), fails: AtomicBool::new(false), open: Mutex::new(open) };
        (Arc::new(gate), say)
    }

    fn wait_for_sync(&self, number: u64) {
        while self.syncs.load(Ordering::SeqCst) < number {
            thread::yield_now();
        }
    }
}

impl File for Gate {
    fn sync_data(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        self.open.lock().unwrap().recv().unwrap();
        if self.fails.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }
}

fn waiters(
    commit: &Arc<Commit>,
    file: &Arc<Gate>,
    ends: std::ops::Range<u64>,
) -> Vec<thread::JoinHandle<bool>> {
    let wait = |end| {
        let (commit, file) = (Arc::clone(commit), Arc::clone(file));
        thread::spawn(move || commit.wait(end, Durability::Group, file.as_ref()).is_ok())
    };
    ends.map(wait).collect()
}

#[test]
fn everybody_who_wrote_meanwhile_shares_one_sync() {
    let commit = Arc::new(Commit::new(0, Arc::default()));
    let (file, say) = Gate::new();
    commit.wrote(1);
    let first = waiters(&commit, &file, 1..2);
    file.wait_for_sync(1);
    commit.wrote(9);
    let rest = waiters(&commit, &file, 2..10);
    say.send(()).unwrap();
    file.wait_for_sync(2);
    say.send(()).unwrap();
    assert!(first.into_iter().chain(rest).all(|waiter| waiter.join().unwrap()));
    assert_eq!(file.syncs.load(Ordering::SeqCst), 2);
    assert_eq!(commit.durable(), 9);
}

#[test]
fn a_line_written_during_a_sync_is_not_covered_by_it() {
    let commit = Arc::new(Commit::new(0, Arc::default()));
    let (file, say) = Gate::new();
    commit.wrote(1);
    let first = waiters(&commit, &file, 1..2);
    file.wait_for_sync(1);
    commit.wrote(2);
    say.send(()).unwrap();
    assert!(first.into_iter().all(|waiter| waiter.join().unwrap()));
    assert_eq!(commit.durable(), 1);
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let commit = Arc::new(Commit::new(0, Arc::default()));
    let (file, say) = Gate::new();
    file.fails.store(true, Ordering::SeqCst);
    commit.wrote(3);
    let all = waiters(&commit, &file, 1..4);
    file.wait_for_sync(1);
    say.send(()).unwrap();
    assert!(all.into_iter().all(|waiter| !waiter.join().unwrap()));
    file.fails.store(false, Ordering::SeqCst);
    assert!(commit.wait(1, Durability::Group, file.as_ref()).is_err());
    assert_eq!((file.syncs.load(Ordering::SeqCst), commit.durable()), (1, 0));
}

#[test]
fn a_sync_that_goes_through_after_a_failure_acknowledges_nobody() {
    let commit = Arc::new(Commit::new(0, Arc::default()));
    let (file, say) = Gate::new();
    commit.wrote(1);
    let first = waiters(&commit, &file, 1..2);
    file.wait_for_sync(1);
    commit.fail(&io::Error::other("cut off"));
    say.send(()).unwrap();
    assert!(first.into_iter().all(|waiter| !waiter.join().unwrap()));
}

async fn durable(commit: Arc<Commit>, file: Arc<Gate>, end: u64) -> bool {
    loop {
        match std::future::poll_fn(|context| commit.poll(end, false, context)).await {
            Ok(Step::Done) => return true,
            Ok(Step::Lead) => tokio::task::block_in_place(|| commit.lead(file.as_ref())),
            Err(_) => return false,
        }
    }
}

#[test]
fn tasks_share_syncs_with_each_other_and_with_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let commit = Arc::new(Commit::new(0, Arc::default()));
    let (file, say) = Gate::new();
    commit.wrote(1);
    let first = runtime.spawn(durable(Arc::clone(&commit), Arc::clone(&file), 1));
    file.wait_for_sync(1);
    commit.wrote(9);
    let tasks: Vec<_> =
        (2..8).map(|end| runtime.spawn(durable(Arc::clone(&commit), Arc::clone(&file), end))).collect();
    let threads = waiters(&commit, &file, 8..10);
    say.send(()).unwrap();
    file.wait_for_sync(2);
    say.send(()).unwrap();
    assert!(runtime.block_on(first).unwrap());
    assert!(tasks.into_iter().all(|task| runtime.block_on(task).unwrap()));
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    assert_eq!((file.syncs.load(Ordering::SeqCst), commit.durable()), (2, 9));
}

#[test]
fn one_who_resigns_leaves_the_lead_to_another() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let commit = Arc::new(Commit::new(0, Arc::default()));
    let (file, say) = Gate::new();
    commit.wrote(1);
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(commit.poll(1, false, &mut context), Poll::Ready(Ok(Step::Lead))));
    let follower = runtime.spawn(durable(Arc::clone(&commit), Arc::clone(&file), 1));
    commit.resign();
    file.wait_for_sync(1);
    say.send(()).unwrap();
    assert!(runtime.block_on(follower).unwrap());
    assert_eq!(commit.durable(), 1);
}

#[test]
fn a_failure_reaches_tasks_that_wait() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let commit = Arc::new(Commit::new(0, Arc::default()));
    let (file, say) = Gate::new();
    file.fails.store(true, Ordering::SeqCst);
    commit.wrote(3);
    let leader = runtime.spawn(durable(Arc::clone(&commit), Arc::clone(&file), 1));
    file.wait_for_sync(1);
    let followers: Vec<_> =
        (2..4).map(|end| runtime.spawn(durable(Arc::clone(&commit), Arc::clone(&file), end))).collect();
    say.send(()).unwrap();
    assert!(!runtime.block_on(leader).unwrap());
    assert!(followers.into_iter().all(|task| !runtime.block_on(task).unwrap()));
    assert_eq!((file.syncs.load(Ordering::SeqCst), commit.durable()), (1, 0));
}
