//! Many tasks and long logs: what is not needed is not read, and memory does not grow with what is on disk.
//!
//! `make test-long` takes the full sizes: a hundred thousand tasks, ten million messages.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use contextstore_base::infra::clock::SystemClock;
use contextstore_base::infra::fs::disk::DiskFs;
use contextstore_base::infra::fs::fault::FaultFs;
use contextstore_base::model::{
    Durability, Metadata, Segment, Status, TaskConfig, TaskFilter, TaskId, TaskOrder, TaskRow,
};
use contextstore_store::log::{Head, seal};
use contextstore_store::store::{Ground, LineReader, NewRewrite, Recovered, Started, Store, StoreOptions};
use tempfile::TempDir;

use test_support::sized;
use test_support::store::{append, caller, start, view};

const MIB: u64 = 1 << 20;
const CHILD: &str = "CONTEXTSTORE_TEST_CHILD";

fn place() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options() -> StoreOptions {
    StoreOptions { ballast_bytes: 0, ..StoreOptions::default() }
}

/// Opens a store whose reading is counted.
fn counted(dir: &Path) -> (Arc<FaultFs>, Store, Vec<Recovered>) {
    let disk = Ground::disk(dir).unwrap();
    let fs = FaultFs::new(DiskFs::open(dir).unwrap());
    fs.record(true);
    let ground = Ground { fs: Arc::clone(&fs) as _, clock: SystemClock::shared(), ..disk };
    let (store, recovered) = Store::open_on(ground, options()).unwrap();
    fs.record(false);
    (fs, store, recovered)
}

/// The paths that were opened while calls were recorded, below a folder.
fn opened<'a>(trace: &'a [String], folder: &str) -> Vec<&'a str> {
    let paths = trace.iter().filter_map(|line| line.split_once(": open ").map(|(_, path)| path));
    paths.filter(|path| path.starts_with(folder)).collect()
}

fn metadata(id: TaskId, row: &TaskRow) -> Metadata {
    Metadata {
        format_version: 1,
        uuid: id,
        task_key: row.key.clone(),
        repository: row.repository.clone(),
        user: row.user.clone(),
        created_at: row.created_at,
        process_id: 7,
        hostname: "here".to_owned(),
        config: TaskConfig::default(),
        inherited_from: None,
    }
}

/// A row as a store makes it.
fn template() -> TaskRow {
    let place = place();
    let (store, _) = Store::open(place.path(), options()).unwrap();
    let task = start(&store, None, "a").unwrap();
    append(&store, &task, "hello").unwrap();
    store.complete_task(task.id, None, &caller(1)).unwrap();
    store.task_info(task.id).unwrap().row
}

/// Writes a log of a running task with `messages` messages that were all synced one by one. Answers its length.
fn write_log(path: &Path, id: TaskId, messages: u64, text: &str) -> u64 {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let time = "2026-01-01T00:00:00.000000Z";
    let mut offset = 0;
    let mut put = |line: String| {
        let mut line = line.into_bytes();
        seal(&mut line);
        file.write_all(&line).unwrap();
        offset += line.len() as u64;
        offset
    };
    let mut end = put(format!(
        "{{\"event\":\"started\",\"after\":0,\"timestamp\":\"{time}\",\"durable_to\":0,\"uuid\":\"{id}\",\"format_version\":1"
    ));
    end = put(format!(
        "{{\"event\":\"lease\",\"after\":0,\"timestamp\":\"{time}\",\"durable_to\":{end},\"generation\":1,\"holder\":\
         {{\"instance_id\":\"a\",\"process_id\":7,\"hostname\":\"here\"}},\"reason\":\"start\""
    ));
    for seq in 1..=messages {
        end = put(format!(
            "{{\"seq\":{seq},\"role\":\"user\",\"timestamp\":\"{time}\",\"tokens\":9,\"durable_to\":{end},\"content\":\"{seq} {text}\""
        ));
    }
    file.into_inner().unwrap().sync_all().unwrap();
    end
}

/// Makes the directory of a running task, with nothing in it but the truth.
fn running_task(dir: &Path, row: &TaskRow, messages: u64, text: &str) -> (Started, u64) {
    let id = TaskId::new();
    let task = dir.join("running").join(id.to_string());
    fs::create_dir_all(&task).unwrap();
    fs::write(task.join("metadata.json"), serde_json::to_vec(&metadata(id, row)).unwrap()).unwrap();
    let bytes = write_log(&task.join("messages.jsonl"), id, messages, text);
    (Started { id, lease_generation: 1, created: false, inherited_from: None }, bytes)
}

fn count_listed(store: &Store, statuses: Vec<Status>) -> u64 {
    let filter = TaskFilter { statuses, ..TaskFilter::default() };
    let (mut count, mut token) = (0, None);
    loop {
        let page = store.list_tasks(&filter, TaskOrder::CreatedAscending, 1000, token.as_deref()).unwrap();
        count += page.rows.len() as u64;
        token = page.next;
        if token.is_none() {
            return count;
        }
    }
}

#[test]
fn finished_tasks_are_not_read() {
    let count = sized(2_000, 100_000);
    let (place, row) = (place(), template());
    let completed = place.path().join("completed");
    fs::create_dir(&completed).unwrap();
    let began = Instant::now();
    for _ in 0..count {
        let id = TaskId::new();
        let dir = completed.join(id.to_string());
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("metadata.json"), serde_json::to_vec(&metadata(id, &row)).unwrap()).unwrap();
        // Whoever read these would put the task into quarantine.
        fs::write(dir.join("messages.jsonl"), "no log at all\n").unwrap();
        let row = TaskRow { uuid: id, ..row.clone() };
        fs::write(dir.join("task.json"), serde_json::to_vec(&row).unwrap()).unwrap();
    }
    println!("{count} finished tasks, made in {:?}", began.elapsed());

    let began = Instant::now();
    let (fs, store, recovered) = counted(place.path());
    println!("catalog rebuilt in {:?}", began.elapsed());
    let trace = fs.trace();
    let paths = opened(&trace, "completed/");
    assert_eq!(paths.len() as u64, count);
    assert!(paths.iter().all(|path| path.ends_with("/task.json")), "something else was opened");
    let catalogued = recovered.iter().filter(|found| matches!(found, Recovered::Catalogued(_))).count();
    assert_eq!(catalogued as u64, count);
    assert_eq!(count_listed(&store, vec![Status::Completed]), count);
    store.close().unwrap();

    for clean in [true, false] {
        let began = Instant::now();
        let (fs, store, recovered) = counted(place.path());
        println!(
            "opened in {:?} after a stop that was {}",
            began.elapsed(),
            if clean { "clean" } else { "not" }
        );
        assert_eq!(opened(&fs.trace(), "completed/"), [""; 0]);
        assert_eq!(recovered, []);
        assert!(fs.bytes_read() < 4096, "{} bytes were read", fs.bytes_read());
        let task = start(&store, None, "a").unwrap();
        assert_eq!(append(&store, &task, "hello").unwrap(), 1);
        assert_eq!(count_listed(&store, vec![Status::Completed]), count);
        store.delete_task(task.id, &caller(task.lease_generation)).unwrap();
        // The second time round it was not closed.
        drop(store);
    }
}

/// What the process has used of memory, in bytes: now, and at most.
fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let of = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// Runs in a process of its own, so that the memory it takes is the store's alone.
fn read_it_all(dir: &Path) {
    let before = memory().1;
    let began = Instant::now();
    let (store, recovered) = Store::open(dir, options()).unwrap();
    let opened = memory().1 - before;
    println!("scanned without a checkpoint in {:?}: memory grew by {} KiB", began.elapsed(), opened >> 10);
    assert!(recovered.iter().all(|found| !matches!(found, Recovered::Quarantined(..))), "{recovered:?}");
    assert!(opened <= 32 * MIB, "opening took {opened} bytes");

    let page = store.list_tasks(&TaskFilter::default(), TaskOrder::default(), 10, None).unwrap();
    let id = page.rows[0].uuid;
    let began = Instant::now();
    let mut reader = store.current(id, None).unwrap();
    let (mut chunk, mut bytes, mut lines) = (Vec::new(), 0, 0);
    while reader.read(&mut chunk, 256 << 10).unwrap() {
        bytes += chunk.len();
        lines += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    let folded = memory().1 - before;
    println!(
        "view of {lines} messages, {} MiB, folded and read in {:?}: {} KiB",
        bytes >> 20,
        began.elapsed(),
        folded >> 10
    );
    assert_eq!(lines, page.rows[0].total_messages);
    assert!(folded <= 32 * MIB, "folding took {folded} bytes");

    let began = Instant::now();
    let earlier = page.rows[0].total_messages - 1;
    let mut reader = store.current(id, Some(earlier)).unwrap();
    while reader.read(&mut chunk, 256 << 10).unwrap() {}
    let as_of = memory().1 - before;
    println!("view as of an earlier message in {:?}: {} KiB", began.elapsed(), as_of >> 10);
    assert!(as_of <= 32 * MIB, "folding an earlier view took {as_of} bytes");
    store.close().unwrap();
}

#[test]
fn a_long_log_is_scanned_in_little_memory_and_searched_without_a_scan() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return read_it_all(dir.as_ref());
    }
    let count = sized(50_000, 10_000_000);
    let (place, row) = (place(), template());
    let began = Instant::now();
    let (task, bytes) = running_task(place.path(), &row, count, "and some more words");
    println!("a log of {count} messages, {} MiB, written in {:?}", bytes >> 20, began.elapsed());
    let done = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "large::a_long_log_is_scanned_in_little_memory_and_searched_without_a_scan",
            "--nocapture",
        ])
        .env(CHILD, place.path())
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&done.stdout));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let (fs, store, _) = counted(place.path());
    let cost = |what: &str, range: u64| {
        let read = fs.bytes_read();
        println!("{what}: {} KiB read", read >> 10);
        assert!(read < MIB + 2 * range, "{what} read {read} bytes");
        fs.reset_counts();
    };
    let line = bytes / count + 64;
    assert_eq!(append(&store, &task, "the next").unwrap(), count + 1);
    cost("opening and appending", 0);

    let seqs = |mut reader: LineReader| {
        let mut seqs = Vec::new();
        while let Some(seq) = reader
            .step(|line| match line.head {
                Head::Message { seq, .. } => seq,
                Head::Event { .. } | Head::Record { .. } => 0,
            })
            .unwrap()
        {
            seqs.push(seq);
        }
        seqs
    };
    let last = store.last_messages(task.id, 1000).unwrap();
    assert_eq!(seqs(last), (count - 998..=count + 1).collect::<Vec<_>>());
    cost("the last 1 000 messages", 1000 * line);

    let middle = count / 2;
    let range = store.lines(task.id, middle, middle + 999).unwrap();
    assert_eq!(seqs(range), (middle..=middle + 999).collect::<Vec<_>>());
    cost("1 000 messages in the middle", 1000 * line);

    for seq in [1, 2, middle, count - 1, count + 1] {
        let found = store.message(task.id, seq).unwrap();
        assert!(found.starts_with(&format!("{{\"seq\":{seq},")), "{found}");
        cost(&format!("message {seq}"), 0);
    }

    let rewrite = NewRewrite {
        strategy: "window".to_owned(),
        base: 0,
        covers: count,
        reason: "long".to_owned(),
        segments: vec![Segment::keep(1, 1), Segment::keep(middle, middle + 999)],
        summaries: Vec::new(),
    };
    let began = Instant::now();
    assert_eq!(store.rewrite(task.id, &rewrite, &caller(1)).unwrap(), 1);
    println!("rewritten in {:?}", began.elapsed());
    cost("a rewrite that keeps 1 000 messages in the middle", 1000 * line);
    let view = view(&store, task.id, None).unwrap();
    assert_eq!(view.lines().count(), 1002);
    assert!(view.contains(&format!("\"content\":\"{middle} and")));
    cost("its view", view.len() as u64);

    assert_eq!(store.undo(task.id, &caller(1)).unwrap(), 2);
    assert_eq!(store.current(task.id, None).unwrap().last_seq, count + 1);
}

#[test]
fn many_running_tasks_are_reopened_after_an_unclean_stop() {
    let (tasks, messages) = (1000, sized(20, 10_000));
    let (place, row) = (place(), template());
    let mut bytes = 0;
    let tasks: Vec<Started> = (0..tasks)
        .map(|_| {
            let (task, length) = running_task(place.path(), &row, messages, &"word ".repeat(3));
            bytes += length;
            task
        })
        .collect();
    let began = Instant::now();
    let (fs, store, recovered) = counted(place.path());
    println!("{} running tasks, {} MiB, scanned in {:?}", tasks.len(), bytes >> 20, began.elapsed());
    assert_eq!(recovered, []);
    assert_eq!(count_listed(&store, vec![Status::Running]), tasks.len() as u64);
    // Views are looked at when their task is used, not before.
    let views = |trace: &[String]| trace.iter().filter(|line| line.contains("current.")).count();
    assert_eq!(views(&fs.trace()), 0);
    for task in tasks.iter().step_by(100) {
        assert_eq!(append(&store, task, "more").unwrap(), messages + 1);
    }
    drop(store);

    let began = Instant::now();
    let (fs, store, recovered) = counted(place.path());
    println!("opened again after a kill in {:?}, {} KiB read", began.elapsed(), fs.bytes_read() >> 10);
    assert_eq!(recovered, []);
    assert_eq!(views(&fs.trace()), 0);
    assert!(fs.bytes_read() < 16 * MIB, "{} bytes were read", fs.bytes_read());
    for (turn, task) in tasks.iter().enumerate() {
        let expected = messages + 1 + u64::from(turn % 100 == 0);
        if turn % 50 == 0 {
            assert_eq!(append(&store, task, "again").unwrap(), expected);
        }
    }
    let began = Instant::now();
    store.close().unwrap();
    println!("closed in {:?}", began.elapsed());
    let began = Instant::now();
    let (fs, _store, _) = counted(place.path());
    println!("opened after a clean stop in {:?}, {} bytes read", began.elapsed(), fs.bytes_read());
    assert_eq!(opened(&fs.trace(), "running/"), [""; 0]);
}

#[test]
fn appending_takes_no_memory_that_grows_with_the_log() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return append_much(dir.as_ref());
    }
    let place = place();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "large::appending_takes_no_memory_that_grows_with_the_log", "--nocapture"])
        .env(CHILD, place.path())
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&done.stdout));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Runs in a process of its own: appends, and nobody reads.
fn append_much(dir: &Path) {
    let options = StoreOptions { durability: Durability::Process, ..options() };
    let (store, _) = Store::open(dir, options).unwrap();
    let task = start(&store, None, "a").unwrap();
    let count = sized(25_000, 2_000_000);
    let warm = count / 10;
    for _ in 0..warm {
        append(&store, &task, "a few words").unwrap();
    }
    let before = memory().0;
    for _ in warm..count {
        append(&store, &task, "a few words").unwrap();
    }
    let grown = memory().0.saturating_sub(before);
    println!("{count} appends: memory grew by {} KiB", grown >> 10);
    assert!(grown <= 2 * MIB, "memory grew by {grown} bytes");
}
