//! The table of damage: one test a row, for everything that a crash, a disk or a person may leave in a data
//! directory, and what the next start makes of it.

mod catalog;
mod folders;
mod logs;
mod privacy;
mod room;
mod views;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contextstore_base::infra::clock::ManualClock;
use contextstore_base::infra::fs::sim::SimFs;
use contextstore_base::infra::fs::{Name, StorePath};
use contextstore_base::model::json::Json;
use contextstore_base::model::{
    Durability, Literal, LiteralKind, NewMessage, Plan, Role, Segment, StoreError, SummaryRecord, TaskConfig,
    TaskFilter, TaskId, TaskKey, TaskOrder, TaskRow, ToolCall, ToolStatus,
};
use contextstore_store::store::layout::Folder;
use contextstore_store::store::{Append, NewRewrite, Recovered, StartTask, Started, Store, StoreOptions};
use tempfile::TempDir;

use test_support::store::{append, caller, ground, holder, start};

/// A data directory of this machine.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn open(&self) -> (Store, Vec<Recovered>) {
        Store::open(self.root(), no_checkpoints()).unwrap()
    }

    fn store(&self) -> Store {
        self.open().0
    }

    fn task(&self, folder: &str, id: TaskId) -> PathBuf {
        self.root().join(folder).join(id.to_string())
    }

    fn file(&self, id: TaskId, name: &str) -> PathBuf {
        self.task("running", id).join(name)
    }
}

/// A simulated disk with its catalog and its clock.
struct Sim {
    fs: Arc<SimFs>,
    catalog: TempDir,
    clock: Arc<ManualClock>,
}

impl Sim {
    fn new() -> Self {
        Self { fs: SimFs::new(), catalog: tempfile::tempdir().unwrap(), clock: ManualClock::shared() }
    }

    fn store(&self) -> Store {
        self.store_with(no_checkpoints()).0
    }

    fn store_with(&self, options: StoreOptions) -> (Store, Vec<Recovered>) {
        let fs = Arc::clone(&self.fs);
        Store::open_on(ground(fs, self.catalog.path(), &self.clock), options).unwrap()
    }

    /// The power fails: what was not synced may be gone, and the machine starts anew.
    fn crash(&mut self, seed: u64) {
        self.fs = self.fs.crash(seed);
    }

    /// The process dies; the machine runs on.
    fn kill(&mut self) {
        self.fs = self.fs.kill();
    }

    fn read(&self, folder: Folder, id: TaskId, name: &'static str) -> Option<Vec<u8>> {
        self.fs.read_file(&at(folder, id, name))
    }

    fn write(&self, folder: Folder, id: TaskId, name: &'static str, bytes: &[u8]) {
        self.fs.write_file(&at(folder, id, name), bytes).unwrap();
    }
}

fn at(folder: Folder, id: TaskId, name: &'static str) -> StorePath {
    folder.task(id).join(Name::fixed(name))
}

/// Options under which the log alone says what is durable, until a task is closed or rewritten.
fn no_checkpoints() -> StoreOptions {
    StoreOptions { checkpoint_bytes: u64::MAX, ballast_bytes: 0, ..StoreOptions::default() }
}

/// Starts a task whose appends are acknowledged without a sync.
fn start_unsynced(store: &Store) -> Started {
    let config = TaskConfig { durability: Some(Durability::Process), ..TaskConfig::default() };
    store
        .start_task(StartTask {
            id: None,
            key: TaskKey::default(),
            user: "u".to_owned(),
            config,
            holder: holder("a"),
            request_id: None,
        })
        .unwrap()
}

fn say(store: &Store, task: &Started, json: &str) -> u64 {
    let message = NewMessage::from_json(json).unwrap();
    let append = Append { message, caller: caller(task.lease_generation) };
    store.append(task.id, &append).unwrap().seq
}

fn record(store: &Store, task: &Started, tool: &str) -> u64 {
    let call = ToolCall {
        tool_name: tool.to_owned(),
        arguments: Some(Json::parse("{\"a\":1}").unwrap()),
        result: Some(Json::text("fine")),
        output_ref: None,
        status: ToolStatus::Success,
        error: None,
        duration_ms: Some(5),
        message_seq: None,
    };
    store.record_tool_call(task.id, &call, &caller(task.lease_generation)).unwrap().number
}

fn plan(store: &Store, task: &Started, text: &str) -> u64 {
    let plan = Plan { plan_type: "initial".to_owned(), plan_content: Json::text(text) };
    store.append_plan(task.id, &plan, &caller(task.lease_generation)).unwrap().number
}

/// Summarises the messages up to `covers`.
fn summarize(store: &Store, task: &Started, base: u64, covers: u64) -> u64 {
    let summary = Literal {
        role: Role::User,
        content: Json::text("what was said"),
        kind: LiteralKind::Summary,
        tokens: 3,
        summary: None,
    };
    let record = SummaryRecord {
        id: 0,
        start_seq: 1,
        end_seq: covers,
        summary: "what was said".to_owned(),
        compressed_message_count: covers,
        original_tokens: 3 * covers,
        summary_tokens: 3,
        tokens_saved: 3 * covers - 3,
        ratio: 0.5,
        strategy: "summarize".to_owned(),
        model: "m".to_owned(),
        timestamp: store.task_info(task.id).unwrap().row.created_at,
        sections: None,
    };
    let rewrite = NewRewrite {
        strategy: "summarize".to_owned(),
        base,
        covers,
        reason: "long".to_owned(),
        segments: vec![Segment::Literal(summary)],
        summaries: vec![record],
    };
    store.rewrite(task.id, &rewrite, &caller(task.lease_generation)).unwrap()
}

/// A task with something in every file: messages with fields of their own, calls, a summary, records, plans.
fn busy_task(store: &Store) -> Started {
    let task = start(store, None, "a").unwrap();
    append(store, &task, "begin").unwrap();
    append(store, &task, "and more").unwrap();
    summarize(store, &task, 0, 2);
    say(
        store,
        &task,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#,
    );
    say(store, &task, r#"{"role":"tool","content":"a b","tool_call_id":"c1","tool_name":"ls"}"#);
    say(store, &task, r#"{"role":"user","content":"go on","mood":"good","weight":12345678901234567890123}"#);
    record(store, &task, "ls");
    record(store, &task, "cat");
    plan(store, &task, "first this");
    plan(store, &task, "then that");
    task
}

/// All messages of the log, as text.
fn messages(store: &Store, id: TaskId) -> Result<Vec<String>, StoreError> {
    let mut reader = store.lines(id, 1, u64::MAX)?;
    let mut found = Vec::new();
    while let Some(line) = reader.step(|line| line.text.to_owned())? {
        if line.starts_with("{\"seq\":") {
            found.push(line);
        }
    }
    Ok(found)
}

fn extra(store: &Store, id: TaskId) -> String {
    store.current_extra(id).unwrap().map_or(String::new(), |(file, len)| {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        String::from_utf8(bytes).unwrap()
    })
}

fn summaries(store: &Store, id: TaskId) -> String {
    store.summaries(id).unwrap().map_or(String::new(), |(file, len)| {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        String::from_utf8(bytes).unwrap()
    })
}

fn rows(store: &Store) -> Vec<TaskRow> {
    store.list_tasks(&TaskFilter::default(), TaskOrder::CreatedAscending, 1000, None).unwrap().rows
}

fn row(store: &Store, id: TaskId) -> TaskRow {
    rows(store).into_iter().find(|row| row.uuid == id).unwrap()
}

/// What must be true of every store that opened for writing: new tasks can be made and old ones go on.
fn still_serves(store: &Store, others: &[&Started]) {
    let fresh = start(store, None, "fresh").unwrap();
    assert_eq!(append(store, &fresh, "hello").unwrap(), 1);
    for task in others {
        let before = store.task_info(task.id).unwrap().last_seq;
        assert_eq!(append(store, task, "goes on").unwrap(), before + 1);
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Where each line begins, and where the last one ends.
fn line_starts(log: &[u8]) -> Vec<usize> {
    let ends = log.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}
