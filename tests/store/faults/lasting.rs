//! Faults that last, and syncs that fail the way a kernel lets them fail.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use contextstore_base::infra::clock::ManualClock;
use contextstore_base::infra::fs::fault::Errno;
use contextstore_base::infra::fs::sim::SimFs;
use contextstore_base::infra::fs::{DirEntry, File, Fs, Open, Stat, StorePath};
use contextstore_base::model::json::Json;
use contextstore_base::model::{
    Durability, Event, NewMessage, Plan, Role, StoreError, TaskConfig, ToolCall, ToolStatus,
};
use contextstore_store::store::{Append, Caller, Started, Store, TaskInfo};

use super::stories;
use super::sweep::{Report, options, place, sweep_lasting};
use test_support::check::{chain, check, path, read};
use test_support::steps::{Act, Client, Outcome, on, say, task_id};
use test_support::store::{append, ground, start, view};

fn hold(name: &str, report: &Report) {
    println!("{name}: {} calls, {} runs", report.calls, report.runs);
    assert!(report.wrong.is_empty(), "{} things are wrong:\n{}", report.wrong.len(), report.wrong.join("\n"));
}

#[test]
fn a_disk_that_stays_broken_and_is_mended_loses_nothing() {
    hold("EIO that lasts", &sweep_lasting(&stories::append(), Errno::IO));
    hold("EIO that lasts, rewriting", &sweep_lasting(&stories::rewrite(), Errno::IO));
}

#[test]
fn a_disk_that_stays_broken_while_tasks_move_loses_nothing() {
    hold("EIO that lasts, completing", &sweep_lasting(&stories::complete(), Errno::IO));
    hold("EIO that lasts, pausing", &sweep_lasting(&stories::pause(), Errno::IO));
    hold("EIO that lasts, resuming", &sweep_lasting(&stories::resume(), Errno::IO));
}

/// A disk is full after every number of bytes: calls fail with that, reads go on, and once there is room the
/// same store takes the same calls.
#[test]
fn a_full_disk_heals_without_opening_again() {
    let story = stories::rewrite();
    let steps = [&story.before[..], &story.swept[..]].concat();
    let mut refused = 0;
    for room in (0..4000).step_by(61) {
        let (sim, catalog, clock) = (SimFs::new(), place(), ManualClock::shared());
        let disk: Arc<dyn Fs> = Arc::clone(&sim) as Arc<dyn Fs>;
        let (store, _) =
            Store::open_on(ground(Arc::clone(&disk), catalog.path(), &clock), options()).unwrap();
        let mut client =
            Client::new(steps.iter().filter(|step| !matches!(step.act, Act::Reopen)).cloned().collect());
        let first = client.steps.len() - story.swept.len() - 1;
        for at in 0..first {
            client.take(&store, at).unwrap();
        }
        sim.set_capacity(Some(1 << 30));
        let used = (1 << 30) - sim.free_bytes().unwrap();
        sim.set_capacity(Some(used + room));
        for at in first..client.steps.len() {
            let before = view(&store, task_id(0), None).unwrap();
            match client.take(&store, at) {
                Ok(()) => {}
                Err(StoreError::DiskFull { .. }) => {
                    refused += 1;
                    assert_eq!(
                        view(&store, task_id(0), None).unwrap(),
                        before,
                        "step {at} with {room} bytes"
                    );
                }
                // What builds on a step that was refused is refused too.
                Err(StoreError::StaleView { .. } | StoreError::Invalid(_)) => {}
                Err(error) => panic!("step {at} with {room} bytes: {}", chain(&error)),
            }
        }
        sim.set_capacity(None);
        assert_eq!(store.read_only(), None);
        for at in first..client.steps.len() {
            if client.outcomes[at] == Outcome::Tried {
                client.take(&store, at).unwrap_or_else(|error| panic!("step {at}: {}", chain(&error)));
            }
        }
        assert_eq!(check(&store, disk.as_ref(), &client, &[]), Vec::<String>::new(), "{room} bytes");
        drop(store);
        let cut = sim.crashed_copy(room);
        let (store, _) =
            Store::open_on(ground(Arc::clone(&cut) as Arc<dyn Fs>, place().path(), &clock), options())
                .unwrap();
        assert_eq!(
            check(&store, cut.as_ref(), &client, &[]),
            Vec::<String>::new(),
            "{room} bytes, power cut"
        );
    }
    assert!(refused > 50, "{refused}");
}

/// Holds syncs of the logs back until it is opened.
#[derive(Debug)]
struct GateFs {
    inner: Arc<dyn Fs>,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    closed: Mutex<bool>,
    moved: Condvar,
    waited_at: AtomicBool,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.moved.notify_all();
    }

    fn pass(&self) {
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            self.waited_at.store(true, Ordering::SeqCst);
            closed = self.moved.wait(closed).unwrap();
        }
    }
}

#[derive(Debug)]
struct GateFile {
    inner: Arc<dyn File>,
    gate: Option<Arc<Gate>>,
}

impl Fs for GateFs {
    fn open(&self, path: &StorePath, how: Open) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, how)?;
        const LOGS: [&str; 3] = ["messages.jsonl", "tools.jsonl", "planning.jsonl"];
        let is_log = path.names().last().is_some_and(|name| LOGS.contains(&name.as_str()));
        Ok(Arc::new(GateFile { inner, gate: is_log.then(|| Arc::clone(&self.gate)) }))
    }

    fn create_dir(&self, path: &StorePath) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn rename(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.inner.rename_new(from, to)
    }

    fn hard_link(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn remove_file(&self, path: &StorePath) -> io::Result<()> {
        self.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &StorePath) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, path: &StorePath, visit: &mut dyn FnMut(DirEntry) -> io::Result<()>) -> io::Result<()> {
        self.inner.list(path, visit)
    }

    fn stat(&self, path: &StorePath) -> io::Result<Option<Stat>> {
        self.inner.stat(path)
    }

    fn sync_dir(&self, path: &StorePath) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn make_private(&self, path: &StorePath) -> io::Result<()> {
        self.inner.make_private(path)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }

    fn boot_id(&self) -> String {
        self.inner.boot_id()
    }
}

impl File for GateFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_all_at(buf, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.gate.iter().for_each(|gate| gate.pass());
        self.inner.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "not in a minute: {what}");
        thread::yield_now();
    }
}

/// One sync fails under five appends: none of them is acknowledged, nothing of them is left, and the same
/// requests go through afterwards.
#[test]
fn a_failed_sync_takes_its_whole_batch_back() {
    let (sim, catalog, clock) = (SimFs::new(), place(), ManualClock::shared());
    let gate = Arc::new(Gate::default());
    let disk: Arc<dyn Fs> =
        Arc::new(GateFs { inner: Arc::clone(&sim) as Arc<dyn Fs>, gate: Arc::clone(&gate) });
    let big = contextstore_store::store::StoreOptions { checkpoint_bytes: 1 << 20, ..options() };
    let (store, _) = Store::open_on(ground(disk, catalog.path(), &clock), big).unwrap();
    let mut acts = vec![Act::Start, say("system", "before"), say("user", "all of it")];
    acts.extend((0..5).map(|n| say("user", &format!("in the batch, {n}"))));
    let mut client = Client::new(acts.into_iter().map(on).collect());
    for at in 0..3 {
        client.take(&store, at).unwrap();
    }
    let id = task_id(0);
    let log = path(&["running", &id.to_string(), "messages.jsonl"]);
    let lines = || read(sim.as_ref(), &log).unwrap().iter().filter(|byte| **byte == b'\n').count();
    let before = (lines(), view(&store, id, None).unwrap(), store.task_info(id).unwrap().row);

    gate.set(true);
    sim.fail_next_sync();
    let failed: Vec<StoreError> = thread::scope(|scope| {
        let batch: Vec<_> = (3..8)
            .map(|at| {
                let (mut client, store) = (client.clone(), store.clone());
                scope.spawn(move || client.take(&store, at).unwrap_err())
            })
            .collect();
        until("five lines are written", || lines() == before.0 + 5);
        until("one of them waits for the disk", || gate.waited_at.load(Ordering::SeqCst));
        // Nothing of it may be seen yet.
        assert_eq!(view(&store, id, None).unwrap(), before.1);
        gate.set(false);
        batch.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failed.iter().all(|error| matches!(error, StoreError::WriteFailed { .. })), "{failed:?}");

    assert_eq!(view(&store, id, None).unwrap(), before.1);
    let info = store.task_info(id).unwrap();
    assert_eq!((lines(), &info.row), (before.0, &before.2));
    assert_eq!(test_support::check::rows(&store).unwrap(), [before.2]);
    assert_eq!(store.read_only(), None);
    for at in (3..8).rev() {
        client.take(&store, at).unwrap();
    }
    assert_eq!(client.outcomes[7], Outcome::Acked(3), "numbers are given again");
    assert_eq!(check(&store, sim.as_ref(), &client, &[]), Vec::<String>::new());
    for seed in 0..20 {
        let cut = sim.crashed_copy(seed);
        let (store, _) =
            Store::open_on(ground(Arc::clone(&cut) as Arc<dyn Fs>, place().path(), &clock), options())
                .unwrap();
        assert_eq!(check(&store, cut.as_ref(), &client, &[]), Vec::<String>::new(), "power cut {seed}");
    }
}

/// Whatever waits for its sync: readers are told how things were before it, and afterwards how they are.
#[test]
fn nothing_is_told_of_what_is_not_durable_yet() {
    let (sim, catalog, clock) = (SimFs::new(), place(), ManualClock::shared());
    let gate = Arc::new(Gate::default());
    let disk: Arc<dyn Fs> =
        Arc::new(GateFs { inner: Arc::clone(&sim) as Arc<dyn Fs>, gate: Arc::clone(&gate) });
    let big = contextstore_store::store::StoreOptions { checkpoint_bytes: 1 << 20, ..options() };
    let (store, _) = Store::open_on(ground(disk, catalog.path(), &clock), big).unwrap();
    let task = start(&store, None, "a").unwrap();
    let caller = test_support::store::caller(task.lease_generation);
    let (pin, unpin) = (Event::Pin { seq: 1, pinned: true }, Event::Pin { seq: 2, pinned: false });
    let statistics = Event::Statistics { llm_calls: 1, tool_calls: 1, tokens: 1, compressions: 1 };
    let call = ToolCall {
        tool_name: "ls".to_owned(),
        arguments: None,
        result: None,
        output_ref: None,
        status: ToolStatus::Success,
        error: None,
        duration_ms: None,
        message_seq: None,
    };
    let plan = Plan { plan_type: "initial".to_owned(), plan_content: Json::text("go") };
    let config = TaskConfig { model: "m".to_owned(), context_length: Some(9), ..TaskConfig::default() };
    let say = |pinned: bool| {
        let message = NewMessage { pinned, ..test_support::store::message(Role::User, "words") };
        store.append(task.id, &Append { message, caller: caller.clone() }).map(drop)
    };
    say(false).unwrap();
    say(true).unwrap();

    let told = || {
        let info = store.task_info(task.id).unwrap();
        let pinned = [1, 2, 3].map(|seq| store.is_pinned(task.id, seq).unwrap());
        assert_eq!(info.pins, (1..4).filter(|seq| pinned[*seq as usize - 1]).collect::<Vec<_>>());
        let rows = test_support::check::rows(&store).unwrap();
        assert_eq!([&info.row], [&rows[0]]);
        // A lease is renewed in memory, and files grow before they are synced.
        format!("{:?}", TaskInfo { disk_bytes: 0, lease: None, ..info })
    };
    type Act<'a> = &'a (dyn Fn() -> Result<(), StoreError> + Sync);
    let calls: [(&str, &str, Act<'_>); 7] = [
        ("messages.jsonl", "a message", &|| say(true)),
        ("messages.jsonl", "a pin", &|| store.append_event(task.id, &pin, &caller)),
        ("messages.jsonl", "a pin that goes", &|| store.append_event(task.id, &unpin, &caller)),
        ("messages.jsonl", "counters", &|| store.append_event(task.id, &statistics, &caller)),
        ("messages.jsonl", "a configuration", &|| store.update_config(task.id, config.clone(), &caller)),
        ("tools.jsonl", "a tool call", &|| store.record_tool_call(task.id, &call, &caller).map(drop)),
        ("planning.jsonl", "a plan", &|| store.append_plan(task.id, &plan, &caller).map(drop)),
    ];
    for (file, what, act) in calls {
        clock.advance(Duration::from_secs(1));
        let log = path(&["running", &task.id.to_string(), file]);
        let len = || read(sim.as_ref(), &log).map_or(0, |bytes| bytes.len());
        let (before, written) = (told(), len());
        gate.set(true);
        thread::scope(|scope| {
            let acted = scope.spawn(act);
            until("the line is written", || len() > written);
            let meanwhile = told();
            gate.set(false);
            acted.join().unwrap().unwrap();
            assert_eq!(meanwhile, before, "{what}");
        });
        assert_ne!(told(), before, "{what}");
    }
}

/// A failed sync leaves the kernel with pages that it calls clean: they are written again, or a power cut
/// after the next acknowledgement would take them away.
#[test]
fn what_a_failed_sync_left_is_written_again() {
    for cut_fails in [false, true] {
        let (sim, catalog, clock) = (SimFs::new(), place(), ManualClock::shared());
        let disk = contextstore_base::infra::fs::fault::FaultFs::new(Arc::clone(&sim) as Arc<dyn Fs>);
        let (store, _) =
            Store::open_on(ground(Arc::clone(&disk) as Arc<dyn Fs>, catalog.path(), &clock), options())
                .unwrap();
        let acts = [Act::Start, say("user", "one"), say("user", "two"), say("user", "three")];
        let mut client = Client::new(acts.into_iter().map(on).collect());
        client.take(&store, 0).unwrap();
        client.take(&store, 1).unwrap();
        sim.fail_next_sync();
        if cut_fails {
            // Then the line stays, and is found when the task is opened again: append, view, sync, truncate.
            disk.reset_counts();
            disk.arm(3, contextstore_base::infra::fs::fault::Fault::Error(Errno::IO));
        }
        client.take(&store, 2).unwrap_err();
        assert_eq!(disk.fired().len(), usize::from(cut_fails), "{:?}", disk.fired());
        for at in [2, 3] {
            client.take(&store, at).unwrap();
        }
        for seed in 0..30 {
            let cut = sim.crashed_copy(seed);
            let (store, _) =
                Store::open_on(ground(Arc::clone(&cut) as Arc<dyn Fs>, place().path(), &clock), options())
                    .unwrap();
            assert_eq!(check(&store, cut.as_ref(), &client, &[]), Vec::<String>::new(), "power cut {seed}");
        }
    }
}

/// Some file systems find room only when they write back. It is told as what it is, whichever call finds it.
#[test]
fn a_disk_that_is_full_at_the_sync_is_told_as_full() {
    use contextstore_base::infra::fs::fault::{Fault, FaultFs};
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        let (sim, catalog, clock) = (SimFs::new(), place(), ManualClock::shared());
        let disk = FaultFs::new(Arc::clone(&sim) as Arc<dyn Fs>);
        let (store, _) =
            Store::open_on(ground(Arc::clone(&disk) as Arc<dyn Fs>, catalog.path(), &clock), options())
                .unwrap();
        let task = start(&store, None, "a").unwrap();
        append(&store, &task, "kept").unwrap();
        disk.reset_counts();
        disk.arm(2, Fault::Error(errno));
        let error = append(&store, &task, "lost").unwrap_err();
        assert!(disk.fired()[0].contains("sync"), "{:?}", disk.fired());
        assert!(matches!(error, StoreError::DiskFull { .. }), "{}", chain(&error));
        assert_eq!(view(&store, task.id, None).unwrap().lines().count(), 1);
        assert_eq!(append(&store, &task, "again").unwrap(), 2);
    }
}

#[test]
fn a_second_task_that_fails_makes_the_store_read_only() {
    let (sim, catalog, clock) = (SimFs::new(), place(), ManualClock::shared());
    let disk = || Arc::clone(&sim) as Arc<dyn Fs>;
    let (store, _) = Store::open_on(ground(disk(), catalog.path(), &clock), options()).unwrap();
    let tasks: Vec<Started> = (0..3).map(|_| start(&store, None, "a").unwrap()).collect();
    for task in &tasks {
        append(&store, task, "kept").unwrap();
    }
    for (at, task) in tasks[..2].iter().enumerate() {
        assert_eq!(store.read_only(), None, "after {at}");
        sim.fail_next_sync();
        assert!(matches!(append(&store, task, "lost").unwrap_err(), StoreError::WriteFailed { .. }));
    }
    assert!(store.read_only().is_some());
    let caller = |task: &Started| Caller { request_id: None, lease_generation: task.lease_generation };
    let refused = [
        append(&store, &tasks[2], "no").unwrap_err(),
        start(&store, None, "a").unwrap_err(),
        store.pause_task(tasks[2].id, &caller(&tasks[2])).unwrap_err(),
        store.rewind(tasks[0].id, 0, &caller(&tasks[0])).unwrap_err(),
        store.delete_task(tasks[1].id, &caller(&tasks[1])).unwrap_err(),
    ];
    assert!(refused.iter().all(|error| error.reason() == "ERROR_REASON_READ_ONLY"), "{refused:?}");
    for task in &tasks {
        assert_eq!(view(&store, task.id, None).unwrap(), "{\"role\":\"user\",\"content\":\"kept\"}\n");
        assert!(store.message(task.id, 1).unwrap().contains("kept"));
        assert_eq!(store.task_info(task.id).unwrap().last_seq, 1);
    }
    assert!(test_support::check::rows(&store).unwrap().iter().all(|row| row.total_messages == 1));
    store.close().unwrap();
    let (store, _) = Store::open_on(ground(disk(), catalog.path(), &clock), options()).unwrap();
    for task in &tasks {
        assert_eq!(append(&store, task, "again").unwrap(), 2);
    }
}

/// What was acknowledged without a sync is not given up because one fails.
#[test]
fn a_failed_sync_keeps_what_was_acknowledged_without_one() {
    let (sim, catalog, clock) = (SimFs::new(), place(), ManualClock::shared());
    let disk = Arc::clone(&sim) as Arc<dyn Fs>;
    let (store, _) = Store::open_on(ground(disk, catalog.path(), &clock), options()).unwrap();
    let task = start(&store, None, "a").unwrap();
    let caller = test_support::store::caller(task.lease_generation);
    let config = TaskConfig { durability: Some(Durability::Process), ..TaskConfig::default() };
    store.update_config(task.id, config, &caller).unwrap();
    for text in ["one", "two"] {
        let message = test_support::store::message(Role::User, text);
        store.append(task.id, &Append { message, caller: caller.clone() }).unwrap();
    }
    sim.fail_next_sync();
    store.pause_task(task.id, &caller).unwrap_err();
    assert_eq!(view(&store, task.id, None).unwrap().lines().count(), 2);
    assert_eq!(append(&store, &task, "three").unwrap(), 3);
}
