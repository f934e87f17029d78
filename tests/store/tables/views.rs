//! Views that are missing, old or altered: they are made again out of the log, byte for byte.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use contextstore_base::model::TaskId;
use contextstore_store::store::layout::Folder;
use contextstore_store::store::{Started, Store, StoreOptions};

use super::{
    Place, Sim, at, busy_task, extra, messages, no_checkpoints, say, start_unsynced, summaries, summarize,
};
use test_support::sized;
use test_support::store::{append, start, view};

const CURRENT: &str = "current.jsonl";
const EXTRA: &str = "current.extra.jsonl";
const SUMMARIES: &str = "summaries.jsonl";
const CHECKPOINT: &str = "checkpoint.json";
const INDEX: &str = "index";

/// What a reader is told of a task, from every view it has.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    view: String,
    extra: String,
    summaries: String,
    messages: Vec<String>,
    tokens: u64,
    compressions: u64,
    plans: u64,
}

fn told(store: &Store, id: TaskId) -> Told {
    let info = store.task_info(id).unwrap();
    Told {
        view: view(store, id, None).unwrap(),
        extra: extra(store, id),
        summaries: summaries(store, id),
        messages: messages(store, id).unwrap(),
        tokens: info.view_tokens,
        compressions: info.tally.compressions,
        plans: info.plans,
    }
}

fn often() -> StoreOptions {
    StoreOptions { checkpoint_bytes: 1, ..no_checkpoints() }
}

/// The ways to spoil a file, each with a name.
fn spoils(whole: &[u8], older: &[u8]) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let mut altered = whole.to_vec();
    if let Some(byte) = altered.get_mut(whole.len() / 2) {
        *byte ^= 1;
    }
    vec![
        ("missing", None),
        ("empty", Some(Vec::new())),
        ("an older copy", Some(older.to_vec())),
        ("zeros", Some(vec![0; whole.len()])),
        ("altered", Some(altered)),
        ("cut short", Some(whole[..whole.len() - 1].to_vec())),
        ("cut in half", Some(whole[..whole.len() / 2].to_vec())),
        ("longer", Some([whole, b"{\"role\":\"user\",\"content\":\"forged\"}\n"].concat())),
        ("longer by a torn line", Some([whole, b"{\"role\":"].concat())),
        ("longer by zeros", Some([whole, &[0; 5000]].concat())),
        ("garbage", Some(b"\xff\xfe not what it was \x00\n".repeat(50))),
    ]
}

/// A task on a simulated disk whose views and checkpoint are all there, with older copies of them.
struct Spoiled {
    sim: Sim,
    task: Started,
    expected: Told,
    files: Vec<(&'static str, Vec<u8>, Vec<u8>)>,
}

impl Spoiled {
    fn new(turn: u64) -> Self {
        let mut sim = Sim::new();
        let (store, _) = sim.store_with(often());
        let task = busy_task(&store);
        let read = |name| sim.read(Folder::Running, task.id, name).unwrap_or_default();
        let names = [CURRENT, EXTRA, SUMMARIES, CHECKPOINT, INDEX];
        let older = names.map(read);
        say(&store, &task, r#"{"role":"user","content":"more","mood":"better"}"#);
        summarize(&store, &task, 1, 2);
        say(&store, &task, r#"{"role":"user","content":"and more","mood":"best"}"#);
        let expected = told(&store, task.id);
        let read = |name| sim.read(Folder::Running, task.id, name).unwrap_or_default();
        let files: Vec<_> =
            names.into_iter().zip(older).map(|(name, older)| (name, read(name), older)).collect();
        // The power fails, but everything had been written back by then: only the boot is another.
        drop(store);
        sim.crash(turn);
        let spoiled = Self { sim, task, expected, files };
        spoiled.restore();
        spoiled
    }

    fn restore(&self) {
        for (name, whole, _) in &self.files {
            self.sim.write(Folder::Running, self.task.id, name, whole);
        }
    }

    fn file(&self, name: &str) -> (&[u8], &[u8]) {
        let (_, whole, older) = self.files.iter().find(|(found, ..)| *found == name).unwrap();
        (whole, older)
    }

    /// Spoils one file and asserts that the next start tells the same, and goes on.
    fn check(self, name: &'static str, bytes: Option<&[u8]>, what: &str) {
        match bytes {
            Some(bytes) => self.sim.write(Folder::Running, self.task.id, name, bytes),
            None => self.sim.fs.remove(&at(Folder::Running, self.task.id, name)).unwrap(),
        }
        let store = self.sim.store();
        assert_eq!(told(&store, self.task.id), self.expected, "{name} {what}");
        let on_disk = |name| self.sim.read(Folder::Running, self.task.id, name).unwrap_or_default();
        assert_eq!(on_disk(CURRENT), self.expected.view.as_bytes(), "{name} {what}");
        assert_eq!(on_disk(EXTRA), self.expected.extra.as_bytes(), "{name} {what}");
        assert_eq!(on_disk(SUMMARIES), self.expected.summaries.as_bytes(), "{name} {what}");
        say(&store, &self.task, r#"{"role":"user","content":"on","mood":"new"}"#);
        let later = told(&store, self.task.id);
        assert_eq!(later.view, self.expected.view.clone() + "{\"role\":\"user\",\"content\":\"on\"}\n");
        assert!(
            later.extra.starts_with(&self.expected.extra) && later.extra.contains("new"),
            "{name} {what}"
        );
        store.close().unwrap();
        assert_eq!(told(&self.sim.store(), self.task.id), later, "{name} {what}");
    }
}

fn spoil_each(name: &'static str) {
    let (whole, older) = {
        let spoiled = Spoiled::new(0);
        let (whole, older) = spoiled.file(name);
        (whole.to_vec(), older.to_vec())
    };
    for (turn, (what, bytes)) in spoils(&whole, &older).into_iter().enumerate() {
        Spoiled::new(turn as u64).check(name, bytes.as_deref(), what);
    }
}

#[test]
fn a_spoiled_view_is_made_again_after_a_power_cut() {
    spoil_each(CURRENT);
}

#[test]
fn spoiled_extra_fields_are_made_again_after_a_power_cut() {
    spoil_each(EXTRA);
}

#[test]
fn spoiled_summaries_are_made_again() {
    spoil_each(SUMMARIES);
}

#[test]
fn a_spoiled_checkpoint_counts_as_none() {
    spoil_each(CHECKPOINT);
}

#[test]
fn views_without_a_checkpoint_are_made_again() {
    let spoiled = Spoiled::new(1);
    for name in [CURRENT, EXTRA, SUMMARIES] {
        let (whole, _) = spoiled.file(name);
        spoiled.sim.write(Folder::Running, spoiled.task.id, name, &vec![b' '; whole.len()]);
    }
    spoiled.check(CHECKPOINT, None, "with blank views");
}

#[test]
fn a_checkpoint_of_another_task_counts_as_none() {
    let sim = Spoiled::new(2);
    let other = Spoiled::new(3);
    let (whole, _) = other.file(CHECKPOINT);
    let whole = whole.to_vec();
    sim.check(CHECKPOINT, Some(&whole), "of another task");
}

#[test]
fn a_spoiled_index_is_made_again_or_passed_over() {
    // Long enough for several rows.
    let lines = 40;
    let long = "x".repeat(10_000);
    let build = || {
        let mut sim = Sim::new();
        let store = sim.store();
        let task = start_unsynced(&store);
        for number in 1..=lines {
            append(&store, &task, &format!("{number} {long}")).unwrap();
        }
        store.close().unwrap();
        let index = sim.read(Folder::Running, task.id, INDEX).unwrap();
        assert!(index.len() >= 5 * 62, "{} bytes", index.len());
        sim.crash(7);
        (sim, task, index)
    };
    let (_, _, index) = build();
    let mut holes = index.clone();
    holes[62..186].fill(0);
    let mut cases = spoils(&index, &index[..62]);
    cases.push(("with zeroed rows", Some(holes)));
    cases.push(("with rows in disorder", Some([&index[62..], &index[..62]].concat())));
    for (what, bytes) in cases {
        let (sim, task, _) = build();
        match bytes {
            Some(bytes) => sim.write(Folder::Running, task.id, INDEX, &bytes),
            None => sim.fs.remove(&at(Folder::Running, task.id, INDEX)).unwrap(),
        }
        let store = sim.store();
        for seq in 1..=lines {
            let found = store.message(task.id, seq).unwrap();
            assert!(found.contains(&format!("\"content\":\"{seq} x")), "index {what}, message {seq}");
        }
        let earlier = view(&store, task.id, Some(lines / 2)).unwrap();
        assert_eq!(earlier.lines().count() as u64, lines / 2, "index {what}");
        assert_eq!(append(&store, &task, "next").unwrap(), lines + 1, "index {what}");
        assert!(store.message(task.id, lines + 1).unwrap().contains("next"), "index {what}");
    }
}

#[test]
fn after_a_clean_stop_a_missing_short_or_long_view_is_put_right() {
    for name in [CURRENT, EXTRA] {
        for how in ["missing", "short", "long", "empty"] {
            let place = Place::new();
            let store = place.store();
            let task = busy_task(&store);
            let expected = told(&store, task.id);
            store.close().unwrap();
            let path = place.file(task.id, name);
            let whole = fs::read(&path).unwrap();
            match how {
                "missing" => fs::remove_file(&path).unwrap(),
                "short" => fs::write(&path, &whole[..whole.len() - 3]).unwrap(),
                "long" => fs::write(&path, [&whole[..], b"{}\n"].concat()).unwrap(),
                _ => fs::write(&path, b"").unwrap(),
            }
            let store = place.store();
            assert_eq!(told(&store, task.id), expected, "{name} {how}");
            assert_eq!(fs::read(&path).unwrap(), whole, "{name} {how}");
        }
    }
}

#[test]
fn a_view_made_again_after_a_clean_stop_is_not_taken_for_the_one_that_was_synced() {
    for seed in 0..40 {
        let mut sim = Sim::new();
        let store = sim.store();
        let task = busy_task(&store);
        let expected = told(&store, task.id);
        store.close().unwrap();
        sim.kill();
        sim.fs.remove(&at(Folder::Running, task.id, CURRENT)).unwrap();
        let store = sim.store();
        assert_eq!(told(&store, task.id), expected);
        drop(store);
        sim.crash(seed);
        let store = sim.store();
        assert_eq!(told(&store, task.id), expected, "seed {seed}");
    }
}

#[test]
fn a_view_left_by_an_unfinished_rewrite_is_not_taken_for_the_new_one() {
    // The event is in the log, but the old view is in place, with the checkpoint that goes with it.
    let mut sim = Sim::new();
    let store = sim.store();
    let task = busy_task(&store);
    store.close().unwrap();
    sim.kill();
    let store = sim.store();
    let before: Vec<_> =
        [CURRENT, EXTRA, CHECKPOINT].map(|name| (name, sim.read(Folder::Running, task.id, name))).into();
    summarize(&store, &task, 1, 4);
    let expected = told(&store, task.id);
    drop(store);
    sim.kill();
    for (name, bytes) in before {
        sim.write(Folder::Running, task.id, name, &bytes.unwrap());
    }
    assert_eq!(told(&sim.store(), task.id), expected);
}

#[test]
fn views_of_a_finished_task_are_made_again() {
    for name in [CURRENT, EXTRA, SUMMARIES, "final_summary.txt", "task.json", CHECKPOINT, INDEX] {
        let place = Place::new();
        let store = place.store();
        let task = busy_task(&store);
        let expected = told(&store, task.id);
        store
            .complete_task(task.id, Some("all done".to_owned()), &super::caller(task.lease_generation))
            .unwrap();
        let row = super::row(&store, task.id);
        store.close().unwrap();
        let path = place.task("completed", task.id).join(name);
        fs::remove_file(&path).unwrap();
        fs::remove_file(place.root().join("tasks.db")).unwrap();
        let store = place.store();
        assert_eq!(told(&store, task.id), expected, "{name}");
        assert_eq!(store.final_summary(task.id).unwrap().as_deref(), Some("all done"), "{name}");
        assert_eq!(super::row(&store, task.id), row, "{name}");
        let after = fs::read(place.task("completed", task.id).join("messages.jsonl"));
        assert!(after.is_ok(), "{name}");
    }
}

#[test]
fn a_pause_during_a_rewrite_leaves_no_unfinished_view_behind() {
    let place = Place::new();
    let store = place.store();
    let mut refused = 0;
    for round in 0..sized(12, 100) {
        let task = start(&store, None, "agent").unwrap();
        for _ in 0..64 {
            append(&store, &task, &"x".repeat(64 << 10)).unwrap();
        }
        let caller = super::caller(task.lease_generation);
        let rewound = thread::scope(|scope| {
            let rewinding = scope.spawn(|| store.rewind(task.id, 60, &caller));
            // The pause comes at another point of the rewrite each time.
            let next = place.task("running", task.id).join("current.jsonl.next");
            let end = Instant::now() + Duration::from_secs(60);
            while !rewinding.is_finished()
                && fs::metadata(&next).map_or(0, |file| file.len()) < round * (64 << 10)
            {
                assert!(Instant::now() < end, "the rewrite does not end");
            }
            store.pause_task(task.id, &caller).unwrap();
            rewinding.join().unwrap()
        });
        refused += u64::from(rewound.is_err());
        let left = fs::read_dir(place.task("paused", task.id)).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(!left.iter().any(|name| name.ends_with(".next")), "{left:?}");
    }
    assert!(refused > 0, "no pause came during a rewrite");
}
