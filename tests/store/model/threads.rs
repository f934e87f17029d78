//! Many callers at once, while the power fails and syncs fail: what was acknowledged before stays.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use contextstore_base::infra::clock::ManualClock;
use contextstore_base::infra::fs::Fs;
use contextstore_base::infra::fs::sim::SimFs;
use contextstore_base::model::{Event, Role, Segment, StoreError, TaskId, ToolCall, ToolStatus};
use contextstore_store::store::layout::Folder;
use contextstore_store::store::{Append, Caller, NewRewrite, Started, Store, StoreOptions};
use fastrand::Rng;

use super::jitter::JitterFs;
use super::world::scratch;
use test_support::store as support;

/// What was acknowledged: the words of a message or record by task, log and number.
type Told = BTreeMap<(TaskId, &'static str, u64), String>;

struct Crowd {
    store: Store,
    tasks: Vec<Started>,
    told: Mutex<Told>,
    /// The last message of each task that was acknowledged.
    newest: Vec<AtomicU64>,
    sim: Arc<SimFs>,
    copies: Mutex<Vec<Copy>>,
    working: AtomicUsize,
}

/// What a power cut would have left: what was acknowledged before, the last message of each task that a reader
/// had seen, and the disk.
type Copy = (Told, BTreeMap<TaskId, u64>, Arc<SimFs>);

/// Tells the others that a writer is done, also when it panics.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

const WRITERS: usize = 4;
const CALLS: usize = 40;

fn open(fs: Arc<dyn Fs>, catalog: &std::path::Path, checkpoint_bytes: u64) -> Store {
    let ground = support::ground(fs, catalog, &ManualClock::shared());
    // Room for one task only, so that the others are closed and opened again all the time.
    let options = StoreOptions { max_open_tasks: 1, checkpoint_bytes, ..support::options() };
    Store::open_on(ground, options).unwrap().0
}

impl Crowd {
    fn tell(&self, id: TaskId, log: &'static str, number: u64, words: &str) {
        let before = self.told.lock().unwrap().insert((id, log, number), words.to_owned());
        assert!(before.is_none_or(|before| before == words), "{log} {number} was acknowledged twice");
    }

    /// Keeps what a power cut would leave at this moment.
    fn cut(&self, seen: BTreeMap<TaskId, u64>, seed: u64) {
        let told = self.told.lock().unwrap().clone();
        let copy = self.sim.crashed_copy(seed);
        self.copies.lock().unwrap().push((told, seen, copy));
    }

    fn write(&self, writer: usize, seed: u64) {
        let _done = Done(&self.working);
        let mut rng = Rng::with_seed(seed);
        for call in 0..CALLS {
            let place = rng.usize(..self.tasks.len());
            let (kind, words) = (rng.u32(..10), format!("w{writer}-{call}."));
            // What fails may be tried again; it is let through when the task was opened anew.
            let told = (0..10_000).any(|_| {
                let told = self.call(place, kind, &words);
                told.is_err().then(thread::yield_now);
                told.is_ok()
            });
            assert!(told, "the task can no longer be written");
        }
    }

    fn call(&self, place: usize, kind: u32, words: &str) -> Result<(), StoreError> {
        let task = &self.tasks[place];
        let caller = support::caller(task.lease_generation);
        match kind {
            0 => {
                let tool = ToolCall {
                    tool_name: words.to_owned(),
                    arguments: None,
                    result: None,
                    output_ref: None,
                    status: ToolStatus::Success,
                    error: None,
                    duration_ms: None,
                    message_seq: None,
                };
                let told = self.store.record_tool_call(task.id, &tool, &caller)?;
                self.tell(task.id, "tools", told.number, words);
            }
            1 => {
                let usage = Event::Statistics { llm_calls: 1, tool_calls: 0, tokens: 0, compressions: 0 };
                self.store.append_event(task.id, &usage, &caller)?;
            }
            _ => {
                let message = support::message(Role::User, words);
                let told = self.store.append(task.id, &Append { message, caller })?;
                self.tell(task.id, "messages", told.seq, words);
                self.newest[place].fetch_max(told.seq, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Gets in the way of the writers until they are done: reads, rewrites that keep everything, calls that
    /// are refused.
    fn meddle(&self, seed: u64) {
        let mut rng = Rng::with_seed(seed);
        while self.working.load(Ordering::SeqCst) > 0 {
            let place = rng.usize(..self.tasks.len());
            let task = &self.tasks[place];
            let caller = support::caller(task.lease_generation);
            match rng.u32(..6) {
                0 => {
                    let stale = support::caller(task.lease_generation + 1);
                    let refused = self.store.delete_task(task.id, &stale);
                    assert!(
                        matches!(
                            refused,
                            Err(StoreError::StaleLease { .. }
                                | StoreError::Io { .. }
                                | StoreError::WriteFailed { .. })
                        ),
                        "{refused:?}"
                    );
                }
                1 => drop(self.rewrite(task, &caller)),
                2 => drop(self.store.undo(task.id, &caller)),
                _ => self.read(place, rng.u32(..20) == 0, rng.u64(..)),
            }
        }
    }

    fn rewrite(&self, task: &Started, caller: &Caller) -> Result<(), StoreError> {
        let info = self.store.task_info(task.id)?;
        let rewrite = NewRewrite {
            strategy: "compact".to_owned(),
            base: info.view_generation,
            covers: info.last_seq,
            reason: String::new(),
            segments: if info.last_seq == 0 { vec![] } else { vec![Segment::keep(1, info.last_seq)] },
            summaries: vec![],
        };
        self.store.rewrite(task.id, &rewrite, caller).map(drop)
    }

    /// A reader sees whole messages in their order, and all that were acknowledged before it came.
    fn read(&self, place: usize, cut: bool, seed: u64) {
        let id = self.tasks[place].id;
        let newest = self.newest[place].load(Ordering::SeqCst);
        let Ok(mut reader) = self.store.current(id, None) else { return };
        if cut {
            self.cut(BTreeMap::from([(id, reader.last_seq)]), seed);
        }
        let (mut all, mut chunk) = (Vec::new(), Vec::new());
        loop {
            match reader.read(&mut chunk, 700) {
                Ok(true) => all.extend_from_slice(&chunk),
                Ok(false) => break,
                Err(_) => return,
            }
        }
        let all = String::from_utf8(all).unwrap();
        let lines: Vec<&str> = all.split_terminator('\n').collect();
        assert_eq!(lines.len() as u64, reader.last_seq, "lines of a view of {} messages", reader.last_seq);
        assert!(reader.last_seq >= newest, "message {newest} was acknowledged; {} are seen", reader.last_seq);
        let told = self.told.lock().unwrap();
        for (line, seq) in lines.iter().zip(1..) {
            assert!(line.starts_with("{\"role\":\"user\"") && line.ends_with(".\"}"), "{line}");
            if let Some(words) = told.get(&(id, "messages", seq)) {
                assert!(line.contains(words), "message {seq} is {line}, not {words}");
            }
        }
    }
}

/// Looks whether everything that was acknowledged is there.
fn check(store: &Store, told: &Told) {
    for ((id, log, number), words) in told {
        let line = match *log {
            "messages" => store.message(*id, *number).unwrap(),
            _ => {
                let mut records = store.tool_calls(*id, *number, *number).unwrap();
                let found = records.step(|line| line.text.to_owned()).unwrap();
                found.unwrap_or_else(|| panic!("record {number} is lost"))
            }
        };
        assert!(line.contains(words), "{log} {number} is {line}, not {words}");
    }
}

/// One crowd; the disks that it leaves behind go to `to`. Answers the directories of their tasks.
fn run(seed: u64, failures: bool, to: &std::path::Path) -> Vec<PathBuf> {
    let mut rng = Rng::with_seed(seed);
    let sim = SimFs::new();
    let catalog = scratch();
    let checkpoint_bytes = [1, 2000, 1 << 20][rng.usize(..3)];
    let slow = JitterFs::new(Arc::clone(&sim) as _, rng.u64(..));
    let store = open(slow, catalog.path(), checkpoint_bytes);
    // Two tasks that cannot be written would stop the store for good.
    let tasks: Vec<Started> =
        (0..if failures { 1 } else { 2 }).map(|_| support::start(&store, None, "a").unwrap()).collect();
    let newest = tasks.iter().map(|_| AtomicU64::new(0)).collect();
    let working = AtomicUsize::new(WRITERS);
    let (told, copies) = (Mutex::default(), Mutex::default());
    let crowd = Crowd { store, tasks, told, newest, sim, copies, working };
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let seed = rng.u64(..);
            let crowd = &crowd;
            scope.spawn(move || crowd.write(writer, seed));
        }
        let (seed, meddler) = (rng.u64(..), &crowd);
        scope.spawn(move || meddler.meddle(seed));
        let (mut copy_at, mut fail_at) = (rng.usize(..60), rng.usize(..10));
        while crowd.working.load(Ordering::SeqCst) > 0 {
            let told = crowd.told.lock().unwrap().len();
            if told >= copy_at {
                copy_at = told + rng.usize(1..60);
                crowd.cut(BTreeMap::new(), rng.u64(..));
            } else if failures && told >= fail_at {
                fail_at = told + rng.usize(1..15);
                crowd.sim.fail_next_sync();
            }
            thread::yield_now();
        }
    });
    let Crowd { store, tasks, told, sim, copies, .. } = crowd;
    let (told, mut copies) = (told.into_inner().unwrap(), copies.into_inner().unwrap());
    assert!(!told.is_empty());
    // Failures that were asked for too late hit the first calls that open the task again.
    let opened = (0..100).any(|_| store.task_info(tasks[0].id).is_ok());
    assert!(opened);
    check(&store, &told);
    drop(store);
    copies.push((told, BTreeMap::new(), sim.crash(rng.u64(..))));
    let mut places = Vec::new();
    for (number, (told, seen, copy)) in copies.into_iter().enumerate() {
        let catalog = scratch();
        let store = open(Arc::clone(&copy) as _, catalog.path(), checkpoint_bytes);
        check(&store, &told);
        for task in &tasks {
            let last_seq = store.current(task.id, None).unwrap().last_seq;
            let seen = seen.get(&task.id).copied().unwrap_or_default();
            assert!(last_seq >= seen, "message {seen} was seen, and {last_seq} are left");
        }
        store.close().unwrap();
        let to = to.join(format!("{seed}-{number}"));
        copy.export(&to).unwrap();
        places.extend(
            tasks.iter().map(|task| to.join(Folder::Running.name().as_str()).join(task.id.to_string())),
        );
    }
    places
}

fn crowds(failures: bool) {
    let place = scratch();
    let seeds = match super::number("CONTEXTSTORE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..super::cases() / 20,
    };
    let tasks: Vec<PathBuf> = seeds
        .flat_map(|seed| {
            let said = super::Said(format!("CONTEXTSTORE_SEED={seed}, but threads differ from run to run"));
            let tasks = run(seed, failures, place.path());
            drop(said);
            tasks
        })
        .collect();
    super::ask_oracle(&tasks);
}

#[test]
fn what_a_crowd_was_told_survives_a_power_cut_at_any_moment() {
    crowds(false);
}

#[test]
fn what_a_crowd_was_told_survives_failing_syncs() {
    crowds(true);
}
