//! Group commit: syncs are shared, and a failed one acknowledges nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use super::*;

/// A journal whose commits wait for a word from the test.
#[derive(Debug)]
struct Gate {
    commits: AtomicU64,
    fails: AtomicBool,
    open: Mutex<mpsc::Receiver<()>>,
}

/// The journal that a [`Commit`] owns, while the test keeps the gate.
#[derive(Debug)]
struct GatedJournal(Arc<Gate>);

/// Returns a group commit, its gate, and what opens the gate once.
fn gated() -> (Arc<Commit>, Arc<Gate>, mpsc::Sender<()>) {
    let (say, open) = mpsc::channel();
    let gate =
        Arc::new(Gate { commits: AtomicU64::new(0), fails: AtomicBool::new(false), open: Mutex::new(open) });
    let commit = Commit::new(GatedJournal(Arc::clone(&gate)), 0, Arc::default());
    (Arc::new(commit), gate, say)
}

impl Gate {
    fn wait_for_commit(&self, number: u64) {
        while self.commits.load(Ordering::SeqCst) < number {
            thread::yield_now();
        }
    }
}

impl Journal for GatedJournal {
    fn file(&self) -> &Arc<dyn File> {
        unreachable!("group commit reads nothing")
    }

    fn commit(&self, _: u64, _: u64) -> io::Result<()> {
        let Self(gate) = self;
        gate.commits.fetch_add(1, Ordering::SeqCst);
        gate.open.lock().unwrap().recv().unwrap();
        if gate.fails.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

fn waiters(commit: &Arc<Commit>, ends: std::ops::Range<u64>) -> Vec<thread::JoinHandle<bool>> {
    let wait = |end| {
        let commit = Arc::clone(commit);
        thread::spawn(move || commit.wait(end, Durability::Group).is_ok())
    };
    ends.map(wait).collect()
}

#[test]
fn everybody_who_wrote_meanwhile_shares_one_sync() {
    let (commit, gate, say) = gated();
    commit.wrote(1);
    let first = waiters(&commit, 1..2);
    gate.wait_for_commit(1);
    commit.wrote(9);
    let rest = waiters(&commit, 2..10);
    say.send(()).unwrap();
    gate.wait_for_commit(2);
    say.send(()).unwrap();
    assert!(first.into_iter().chain(rest).all(|waiter| waiter.join().unwrap()));
    assert_eq!(gate.commits.load(Ordering::SeqCst), 2);
    assert_eq!(commit.durable(), 9);
}

#[test]
fn a_line_written_during_a_sync_is_not_covered_by_it() {
    let (commit, gate, say) = gated();
    commit.wrote(1);
    let first = waiters(&commit, 1..2);
    gate.wait_for_commit(1);
    commit.wrote(2);
    say.send(()).unwrap();
    assert!(first.into_iter().all(|waiter| waiter.join().unwrap()));
    assert_eq!(commit.durable(), 1);
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let (commit, gate, say) = gated();
    gate.fails.store(true, Ordering::SeqCst);
    commit.wrote(3);
    let all = waiters(&commit, 1..4);
    gate.wait_for_commit(1);
    say.send(()).unwrap();
    assert!(all.into_iter().all(|waiter| !waiter.join().unwrap()));
    gate.fails.store(false, Ordering::SeqCst);
    assert!(commit.wait(1, Durability::Group).is_err());
    assert_eq!((gate.commits.load(Ordering::SeqCst), commit.durable()), (1, 0));
}

#[test]
fn a_sync_that_goes_through_after_a_failure_acknowledges_nobody() {
    let (commit, gate, say) = gated();
    commit.wrote(1);
    let first = waiters(&commit, 1..2);
    gate.wait_for_commit(1);
    commit.fail(&io::Error::other("cut off"));
    say.send(()).unwrap();
    assert!(first.into_iter().all(|waiter| !waiter.join().unwrap()));
}

async fn durable(commit: Arc<Commit>, end: u64) -> bool {
    loop {
        match std::future::poll_fn(|context| commit.poll(end, false, context)).await {
            Ok(CommitRole::Done) => return true,
            Ok(CommitRole::Leader) => tokio::task::block_in_place(|| commit.lead()),
            Ok(CommitRole::Follower) => unreachable!("a follower is pending"),
            Err(_) => return false,
        }
    }
}

#[test]
fn tasks_share_syncs_with_each_other_and_with_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (commit, gate, say) = gated();
    commit.wrote(1);
    let first = runtime.spawn(durable(Arc::clone(&commit), 1));
    gate.wait_for_commit(1);
    commit.wrote(9);
    let tasks: Vec<_> = (2..8).map(|end| runtime.spawn(durable(Arc::clone(&commit), end))).collect();
    let threads = waiters(&commit, 8..10);
    say.send(()).unwrap();
    gate.wait_for_commit(2);
    say.send(()).unwrap();
    assert!(runtime.block_on(first).unwrap());
    assert!(tasks.into_iter().all(|task| runtime.block_on(task).unwrap()));
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    assert_eq!((gate.commits.load(Ordering::SeqCst), commit.durable()), (2, 9));
}

#[test]
fn one_who_resigns_leaves_the_lead_to_another() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (commit, gate, say) = gated();
    commit.wrote(1);
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(commit.poll(1, false, &mut context), Poll::Ready(Ok(CommitRole::Leader))));
    let follower = runtime.spawn(durable(Arc::clone(&commit), 1));
    commit.resign();
    gate.wait_for_commit(1);
    say.send(()).unwrap();
    assert!(runtime.block_on(follower).unwrap());
    assert_eq!(commit.durable(), 1);
}

#[test]
fn a_failure_reaches_tasks_that_wait() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (commit, gate, say) = gated();
    gate.fails.store(true, Ordering::SeqCst);
    commit.wrote(3);
    let leader = runtime.spawn(durable(Arc::clone(&commit), 1));
    gate.wait_for_commit(1);
    let followers: Vec<_> = (2..4).map(|end| runtime.spawn(durable(Arc::clone(&commit), end))).collect();
    say.send(()).unwrap();
    assert!(!runtime.block_on(leader).unwrap());
    assert!(followers.into_iter().all(|task| !runtime.block_on(task).unwrap()));
    assert_eq!((gate.commits.load(Ordering::SeqCst), commit.durable()), (1, 0));
}
