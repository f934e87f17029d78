//! Compares a store with the notes of all runs on it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use contextstore_base::model::{RequestId, Status, StoreError, TaskFilter, TaskId, TaskOrder, TaskRow};
use contextstore_store::log::{Head, Line};
use contextstore_store::store::layout::Folder;
use contextstore_store::store::{Append, Caller, LineReader, Recovered, Store, StoreOptions};

use super::VerifyArgs;
use super::acks::{Acks, Entry, Fate, Log, Notes};
use super::made::{self, Fields};

/// How many of a task's newest appends are sent again.
const RETRIED: usize = 3;
const FOLDERS: [&str; 4] = ["running", "paused", "completed", "quarantine"];
const VIEWS: [&str; 5] =
    ["current.jsonl", "current.extra.jsonl", "summaries.jsonl", "final_summary.txt", "task.json"];

#[derive(Debug)]
struct Check<'a> {
    dir: &'a Path,
    acks: Acks,
    store: Store,
    good: u64,
    bad: Vec<String>,
    /// Requests that were found in a log.
    found: HashSet<String>,
}

pub(crate) fn verify(args: &VerifyArgs) -> ExitCode {
    let acks = Acks::read(&args.acks).unwrap();
    let (store, recovered) = Store::open(&args.dir, options()).unwrap();
    let mut check = Check { dir: &args.dir, acks, store, good: 0, bad: Vec::new(), found: HashSet::new() };
    check.recovered(&recovered);
    let places = check.places();
    check.tasks(&places);
    check.rows(&places);
    check.leftovers();
    if let Some(oracle) = &args.oracle {
        check.oracle(oracle);
    }
    check.note(&args.acks, &places);
    let Check { store, good, mut bad, .. } = check;
    if args.rebuild {
        rebuild(&args.dir, store, &mut bad);
    } else if !args.unclean {
        store.close().unwrap();
    }
    for problem in &bad {
        println!("bad: {problem}");
    }
    println!("{good} acks verified, {} bad, {} tasks", bad.len(), places.len());
    std::process::exit(i32::from(!bad.is_empty()))
}

fn options() -> StoreOptions {
    StoreOptions { ballast_bytes: 1 << 20, ..StoreOptions::default() }
}

impl Check<'_> {
    fn bad(&mut self, task: TaskId, problem: impl Display) {
        self.bad.push(format!("{task}: {problem}"));
    }

    /// A crash is no reason for any of these.
    fn recovered(&mut self, recovered: &[Recovered]) {
        for what in recovered {
            match what {
                Recovered::Quarantined(..)
                | Recovered::NewerFormat(..)
                | Recovered::Failed(..)
                | Recovered::Restored(..)
                | Recovered::Missing(..) => {
                    self.bad.push(what.to_string());
                }
                Recovered::Removed(_) | Recovered::Moved(..) | Recovered::Catalogued(_) => {}
            }
        }
    }

    /// The folders of every task.
    fn places(&self) -> BTreeMap<TaskId, Vec<&'static str>> {
        let mut places: BTreeMap<TaskId, Vec<&'static str>> = BTreeMap::new();
        for folder in FOLDERS {
            for entry in fs::read_dir(self.dir.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                places.entry(TaskId::parse(&name).unwrap()).or_default().push(folder);
            }
        }
        places
    }

    fn tasks(&mut self, places: &BTreeMap<TaskId, Vec<&'static str>>) {
        let mut by_task: BTreeMap<TaskId, Vec<Entry>> = BTreeMap::new();
        for entry in &self.acks.entries {
            by_task.entry(entry.task).or_default().push(entry.clone());
        }
        for (id, entries) in &by_task {
            let id = *id;
            let deleted =
                entries.iter().find(|entry| entry.log == Log::Delete && entry.fate != Fate::Refused);
            let acked = |entry: &&Entry| matches!(entry.fate, Fate::Acked(_));
            let is_there = places.contains_key(&id);
            match deleted.map(|delete| delete.fate) {
                Some(Fate::Acked(_)) if is_there => self.bad(id, "was deleted and is there"),
                Some(Fate::Acked(_)) => self.good += 1,
                _ if is_there && self.acks.gone.contains(&id) => self.bad(id, "was gone and is back"),
                None if !is_there && entries.iter().any(|entry| acked(&entry)) => {
                    let lost = entries.iter().filter(acked).count();
                    self.bad(id, format!("is not there, with {lost} that were acknowledged"));
                }
                _ if is_there => {
                    if let Err(error) = self.task(id, entries, &places[&id]) {
                        self.bad(id, format!("cannot be read: {error}"));
                    }
                }
                _ => {}
            }
        }
        for id in places.keys().filter(|id| !by_task.contains_key(id)) {
            self.bad.push(format!("{id}: nobody started it"));
        }
    }

    fn task(&mut self, id: TaskId, entries: &[Entry], folders: &[&str]) -> Result<(), StoreError> {
        let info = self.store.task_info(id)?;
        let mut status = Status::Running;
        let mut leases = HashSet::new();
        let mut problems = Vec::new();

        for line in all(self.store.lines(id, 0, u64::MAX)?)? {
            let fields: Fields = serde_json::from_str(&line.text).unwrap();
            let number = |key: &str| fields[key].get().parse::<u64>().unwrap();
            let text = |key: &str| serde_json::from_str::<String>(fields[key].get()).unwrap();
            let (kind, print, told) = match line.event.as_deref() {
                None => ("message", made::print_of(&fields, made::MESSAGE), line.number),
                Some("lease") => {
                    leases.insert(number("generation"));
                    let resumed = text("reason") == "resume";
                    if resumed {
                        status = Status::Running;
                    }
                    (if resumed { "resume" } else { "start" }, made::print([]), number("generation"))
                }
                Some("status") => {
                    status = Status::parse(&text("status")).unwrap();
                    ("status", made::print_of(&fields, made::STATUS), 0)
                }
                Some("rewrite") => match text("strategy").as_str() {
                    "undo" => ("undo", made::print_of(&fields, &["strategy"]), number("ordinal")),
                    "rewind" => ("rewind", made::print_of(&fields, &["strategy"]), number("ordinal")),
                    _ => ("rewrite", made::print_of(&fields, made::REWRITE), number("ordinal")),
                },
                Some("config") => ("event:config", made::print_of(&fields, made::CONFIG), 0),
                Some("pin") => ("event:pin", made::print_of(&fields, made::PIN), 0),
                Some("usage") => ("event:usage", made::print_of(&fields, made::USAGE), 0),
                Some("started") => continue,
                Some(other) => {
                    problems.push(format!("nobody wrote an event {other}"));
                    continue;
                }
            };
            problems.extend(self.line(id, Log::Messages, (kind, print, told), &fields));
        }
        let records = [
            (Log::Tools, "tool", made::TOOL, self.store.tool_calls(id, 1, u64::MAX)?),
            (Log::Plans, "plan", made::PLAN, self.store.plans(id, 1, u64::MAX)?),
        ];
        for (log, kind, keys, reader) in records {
            for line in all(reader)? {
                let fields: Fields = serde_json::from_str(&line.text).unwrap();
                let print = made::print_of(&fields, keys);
                problems.extend(self.line(id, log, (kind, print, line.number), &fields));
            }
        }
        for entry in entries.iter().filter(|entry| entry.log != Log::Delete) {
            let Fate::Acked(told) = entry.fate else { continue };
            if !self.found.contains(&entry.request) {
                problems
                    .push(format!("{} {} was acknowledged as {told} and is lost", entry.kind, entry.request));
            } else if entry.kind == "resume" && !leases.contains(&told) {
                problems.push(format!("the lease {told} of {} is lost", entry.request));
            } else {
                self.good += 1;
            }
        }

        let folder = Folder::of(status).name().to_string();
        if folders != [folder.as_str()] || info.row.status != status || info.folder != Folder::of(status) {
            problems.push(format!("is {status:?} by its log, {:?} in {folders:?}", info.row.status));
        }
        let saw = self.acks.saw.get(&id).copied().unwrap_or(0);
        if info.log_bytes < saw {
            problems.push(format!("{saw} bytes of logs were read, {} are left", info.log_bytes));
        }
        let mut view = Vec::new();
        let mut reader = self.store.current(id, None)?;
        let mut chunk = Vec::new();
        while reader.read(&mut chunk, 64 << 10)? {
            view.extend_from_slice(&chunk);
        }
        let file = self.dir.join(&folder).join(id.to_string()).join("current.jsonl");
        if fs::read(file).unwrap_or_default() != view {
            problems.push("the view that is read is not the one on disk".to_owned());
        }
        let _ = self.store.summaries(id)?;
        problems.extend(self.retry(id, entries));
        for problem in problems {
            self.bad(id, problem);
        }
        Ok(())
    }

    /// Compares a line with the request that it says it comes from.
    fn line(
        &mut self,
        id: TaskId,
        log: Log,
        (kind, print, told): (&str, u32, u64),
        fields: &Fields,
    ) -> Option<String> {
        let Some(request) = fields.get("request_id") else {
            return Some(format!("nobody asked for a line of kind {kind}"));
        };
        let request: String = serde_json::from_str(request.get()).unwrap();
        let Some(entry) = self.acks.by_request.get(&request).map(|at| &self.acks.entries[*at]) else {
            return Some(format!("nobody made the request {request}"));
        };
        if !self.found.insert(request.clone()) {
            return Some(format!("{request} is there twice"));
        }
        let same = entry.task == id
            && entry.log == log
            && entry.kind.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            && entry.print == print;
        if !same {
            return Some(format!("{request} is not what was sent: {entry:?}, found {kind} {print}"));
        }
        match entry.fate {
            Fate::Refused => Some(format!("{request} was refused and is there")),
            Fate::Acked(number) if number != told && told != 0 => {
                Some(format!("{request} was acknowledged as {number} and is {told}"))
            }
            Fate::Acked(_) | Fate::Open => None,
        }
    }

    /// Sends the newest appends again: each must be known.
    fn retry(&self, id: TaskId, entries: &[Entry]) -> Vec<String> {
        let mut problems = Vec::new();
        let appends = entries.iter().rev().filter(|entry| entry.kind.starts_with("message:"));
        for Entry { request, kind, fate, .. } in appends.take(RETRIED) {
            let Fate::Acked(seq) = *fate else { continue };
            let caller = Caller { request_id: RequestId::parse(request).ok(), lease_generation: 0 };
            let append = Append { message: made::message(request, kind), caller };
            match self.store.append(id, &append) {
                Ok(outcome) if outcome.duplicate && outcome.seq == seq => {}
                other => problems.push(format!("{request} sent again, first told {seq}: {other:?}")),
            }
        }
        problems
    }

    /// The catalog has a row for each task, and it is the one that follows from its logs.
    fn rows(&mut self, places: &BTreeMap<TaskId, Vec<&'static str>>) {
        let mut rows = rows(&self.store);
        for id in places.keys() {
            match (rows.remove(id), self.store.task_info(*id)) {
                (Some(row), Ok(info)) if row == info.row => {}
                (None, _) => self.bad(*id, "is not in the catalog"),
                (Some(row), info) => {
                    let info = info.map(|info| info.row);
                    self.bad(*id, format!("the catalog has {row:?}, the log gives {info:?}"));
                }
            }
        }
        for (id, row) in rows {
            self.bad(id, format!("the catalog has it as {:?}, and it is nowhere", row.health));
        }
    }

    fn leftovers(&mut self) {
        for folder in [".tmp", ".trash"] {
            for entry in fs::read_dir(self.dir.join(folder)).unwrap() {
                self.bad.push(format!("left over: {}", entry.unwrap().path().display()));
            }
        }
        for path in task_dirs(self.dir) {
            for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
                let name = entry.file_name().into_string().unwrap();
                if name.ends_with(".next") || name.ends_with(".tmp") {
                    self.bad.push(format!("left over: {}", entry.path().display()));
                }
            }
        }
    }

    /// Has the logs and views on disk checked by the program that the format is defined by.
    fn oracle(&mut self, oracle: &Path) {
        let mut python = Command::new("python3");
        python.arg(oracle).args(["--check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = python.spawn().unwrap();
        let mut input = python.stdin.take().unwrap();
        for path in task_dirs(self.dir) {
            writeln!(input, "{}", path.display()).unwrap();
        }
        drop(input);
        let output = python.wait_with_output().unwrap();
        if !output.status.success() {
            self.bad.push(format!("the oracle says: {}", String::from_utf8_lossy(&output.stdout)));
        }
    }

    /// Writes down what was seen: it must stay so.
    fn note(&self, acks: &Path, places: &BTreeMap<TaskId, Vec<&'static str>>) {
        let notes = Notes::open(Some(acks));
        for id in places.keys() {
            if let Ok(info) = self.store.task_info(*id) {
                notes.line(&format!("saw {id} {}", info.log_bytes));
            }
        }
        let known: HashSet<TaskId> = self.acks.entries.iter().map(|entry| entry.task).collect();
        for id in known.iter().filter(|id| !places.contains_key(id) && !self.acks.gone.contains(id)) {
            notes.line(&format!("gone {id}"));
        }
    }
}

/// Takes away everything that follows from the logs, and sees whether the next start makes the same of it.
fn rebuild(dir: &Path, store: Store, bad: &mut Vec<String>) {
    let before = rows(&store);
    store.close().unwrap();
    let files = || -> HashMap<_, _> {
        let paths = task_dirs(dir).into_iter().flat_map(|task| VIEWS.map(|view| task.join(view)));
        paths.filter_map(|path| Some((path.clone(), fs::read(&path).ok()?))).collect()
    };
    let views = files();
    for name in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
        let _ = fs::remove_file(dir.join(name));
    }
    views.keys().for_each(|path| fs::remove_file(path).unwrap());
    let (store, recovered) = Store::open(dir, options()).unwrap();
    for what in &recovered {
        if !matches!(what, Recovered::Catalogued(_)) {
            bad.push(format!("without its views: {what}"));
        }
    }
    for id in before.keys() {
        let looked = store.current(*id, None).map(drop).and_then(|()| store.summaries(*id).map(drop));
        if let Err(error) = looked {
            bad.push(format!("{id}: without its views: {error}"));
        }
    }
    let after = rows(&store);
    for (id, row) in &before {
        if after.get(id) != Some(row) {
            bad.push(format!("{id}: the catalog had {row:?}, a new one has {:?}", after.get(id)));
        }
    }
    if after.len() != before.len() {
        bad.push(format!("the catalog had {} rows, a new one has {}", before.len(), after.len()));
    }
    store.close().unwrap();
    let made = files();
    for (path, bytes) in &views {
        if made.get(path) != Some(bytes) {
            bad.push(format!("{} was not made again as it was", path.display()));
        }
    }
}

fn rows(store: &Store) -> BTreeMap<TaskId, TaskRow> {
    let mut rows = BTreeMap::new();
    let mut token = None;
    loop {
        let order = TaskOrder::CreatedAscending;
        let page = store.list_tasks(&TaskFilter::default(), order, 100, token.as_deref()).unwrap();
        rows.extend(page.rows.into_iter().map(|row| (row.uuid, row)));
        token = page.next;
        if token.is_none() {
            return rows;
        }
    }
}

fn task_dirs(dir: &Path) -> Vec<std::path::PathBuf> {
    let folders = FOLDERS[..3].iter().flat_map(|folder| fs::read_dir(dir.join(folder)).unwrap());
    folders.map(|entry| entry.unwrap().path()).collect()
}

#[derive(Debug)]
struct Read {
    event: Option<String>,
    number: u64,
    text: String,
}

fn all(mut reader: LineReader) -> Result<Vec<Read>, StoreError> {
    let read = |line: &Line<'_>| {
        let (event, number) = match line.head {
            Head::Event { name, .. } => (Some(name.to_owned()), 0),
            Head::Message { seq, .. } => (None, seq),
            Head::Record { number, .. } => (None, number),
        };
        Read { event, number, text: line.text.to_owned() }
    };
    let mut lines = Vec::new();
    while let Some(line) = reader.step(read)? {
        lines.push(line);
    }
    Ok(lines)
}
