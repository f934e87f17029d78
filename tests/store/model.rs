//! Random sequences of operations, crashes and restarts, against a model in memory that is too simple to be
//! wrong. `CONTEXTSTORE_SEED=n` repeats one sequence, `CONTEXTSTORE_CASES=n` sets how many there are.

mod calls;
mod expect;
mod jitter;
mod look;
mod ops;
mod restart;
mod task;
mod threads;
mod words;
mod world;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use contextstore_base::infra::clock::ManualClock;
use contextstore_base::infra::fs::sim::SimFs;
use contextstore_base::model::{RequestId, Role, StoreError};
use contextstore_store::store::layout::Folder;
use contextstore_store::store::{Append, Caller, Store};
use test_support::{number, sized};
use world::{Stop, World, scratch};

const SHARDS: u64 = 4;
/// Sequences whose disks the oracle looks at together.
const BATCH: usize = 100;

/// Returns how many sequences one run has, over all shards.
fn cases() -> u64 {
    number("CONTEXTSTORE_CASES").unwrap_or(sized(160, 12_000))
}

/// Says something if a panic comes while it is held.
struct Said(String);

impl Drop for Said {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "what is needed to see it again")]
            {
                eprintln!("{}", self.0);
            }
        }
    }
}

/// One sequence; its disk is left in `to`. Answers the directories of its tasks.
fn run(seed: u64, to: &Path) -> Vec<PathBuf> {
    let mut world = World::new(seed);
    let steps = world.rng.u32(15..40);
    let mut done = Vec::new();
    for step in 0..steps {
        world.step(&mut done);
        if step == steps / 2 && world.crashes == 0 {
            let stop = if world.rng.bool() { Stop::PowerCut } else { Stop::Kill };
            world.restart(stop);
            world.look_at_everything();
        }
    }
    world.end(to)
}

/// Lets the oracle look at the tasks in some directories.
fn ask_oracle(tasks: &[PathBuf]) {
    let oracle = test_support::repository().join("tests/oracle/check.py");
    let mut python = Command::new("python3")
        .arg(oracle)
        .args(["--check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let list: String = tasks.iter().map(|task| format!("{}\n", task.display())).collect();
    python.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "the oracle disagrees; sequences are named by their seeds:\n{said}");
    assert!(said.contains(&format!("{} checked, 0 wrong", tasks.len())), "{said}");
}

/// Runs the sequences of one shard.
fn shard(shard: u64) {
    let seeds: Vec<u64> = match number("CONTEXTSTORE_SEED") {
        Some(seed) if seed % SHARDS == shard => vec![seed],
        Some(_) => vec![],
        None => (0..cases()).filter(|n| n % SHARDS == shard).collect(),
    };
    for batch in seeds.chunks(BATCH) {
        let place = scratch();
        let tasks: Vec<PathBuf> =
            batch.iter().flat_map(|seed| run(*seed, &place.path().join(seed.to_string()))).collect();
        ask_oracle(&tasks);
    }
}

#[test]
fn random_sequences_keep_every_promise_0() {
    shard(0);
}

#[test]
fn random_sequences_keep_every_promise_1() {
    shard(1);
}

#[test]
fn random_sequences_keep_every_promise_2() {
    shard(2);
}

#[test]
fn random_sequences_keep_every_promise_3() {
    shard(3);
}

#[test]
fn the_last_1024_requests_are_remembered_through_a_crash() {
    let (sim, catalog, clock) = (SimFs::new(), scratch(), ManualClock::shared());
    let open = |sim: &Arc<SimFs>| {
        let ground = test_support::store::ground(Arc::clone(sim) as _, catalog.path(), &clock);
        Store::open_on(ground, test_support::store::options()).unwrap().0
    };
    let store = open(&sim);
    let task = test_support::store::start(&store, None, "a").unwrap();
    let append = |store: &Store, number: u64, words: &str| {
        let request_id = Some(RequestId::parse(&format!("r{number}")).unwrap());
        let caller = Caller { request_id, lease_generation: task.lease_generation };
        let message = test_support::store::message(Role::User, words);
        store.append(task.id, &Append { message, caller })
    };
    for number in 1..=1100 {
        append(&store, number, "hi").unwrap();
    }
    drop(store);
    let store = open(&sim.crash(7));
    for number in (1100 - 1023)..=1100 {
        let told = append(&store, number, "hi").unwrap();
        assert_eq!((told.seq, told.duplicate), (number, true));
        let other = append(&store, number, "ho");
        assert!(matches!(other, Err(StoreError::RequestIdReused { .. })), "{other:?}");
    }
    assert_eq!(store.task_info(task.id).unwrap().last_seq, 1100);
}

impl World {
    /// Ends a sequence: everything is as the model has it, also without the catalog, and stands on disk.
    fn end(mut self, to: &Path) -> Vec<PathBuf> {
        self.look_at_everything();
        self.restart(Stop::Close);
        self.look_at_everything();
        self.close_all();
        for name in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
            let _ = std::fs::remove_file(self.catalog.path().join(name));
        }
        self.open();
        self.check_rows();
        self.look_at_everything();
        self.close_all();
        for id in self.tasks.keys() {
            self.check_files(*id);
        }
        self.sim.export(to).unwrap();
        let place = |id| to.join(Folder::name(self.folder(id).unwrap()).as_str()).join(id.to_string());
        self.tasks.keys().map(|id| place(*id)).collect()
    }
}
