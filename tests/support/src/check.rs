//! What must hold of a data directory once it was opened again, whatever happened before.
//!
//! It knows the files by docs/FORMAT.md alone; views are compared by the oracle (`tests/oracle/check.py`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use contextstore_base::infra::fs::{Fs, Kind, Name, Open, StorePath};
use contextstore_base::model::{StoreError, TaskFilter, TaskId, TaskOrder, TaskRow};
use contextstore_store::store::Store;
use serde_json::Value;

use crate::steps::{Act, Client, Outcome, request_id, task_id};

/// The files that the oracle looks at.
pub const LOOKED_AT: [&str; 6] = [
    "messages.jsonl",
    "tools.jsonl",
    "planning.jsonl",
    "current.jsonl",
    "current.extra.jsonl",
    "summaries.jsonl",
];

const FOLDERS: [&str; 4] = ["running", "paused", "completed", "quarantine"];

/// The path of a file, from names.
pub fn path(names: &[&str]) -> StorePath {
    names.iter().fold(StorePath::ROOT, |path, name| path.join(Name::parse(name).unwrap()))
}

/// A file as it is; `None` if it is not there.
pub fn read(fs: &dyn Fs, path: &StorePath) -> Option<Vec<u8>> {
    let file = fs.open(path, Open::Read).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], done as u64).unwrap() {
            0 => break,
            read => done += read,
        }
    }
    Some(bytes)
}

/// The names in a directory.
pub fn names(fs: &dyn Fs, path: &StorePath) -> Vec<String> {
    let mut names = Vec::new();
    let _ = fs.list(path, &mut |entry| {
        names.push(entry.name.to_string());
        Ok(())
    });
    names.sort();
    names
}

/// The folders that a task is in.
pub fn folders_of(fs: &dyn Fs, id: TaskId) -> Vec<&'static str> {
    let is_there = |folder: &&str| {
        let stat = fs.stat(&path(&[folder, &id.to_string()])).unwrap();
        stat.is_some_and(|stat| stat.kind == Kind::Dir)
    };
    FOLDERS.into_iter().filter(is_there).collect()
}

/// Everything that is wrong with what a client finds. `spared`: tasks that are in quarantine for a reason.
pub fn check(store: &Store, fs: &dyn Fs, client: &Client, spared: &[usize]) -> Vec<String> {
    let mut wrong = Vec::new();
    for folder in [".tmp", ".trash"] {
        let left = names(fs, &path(&[folder]));
        if !left.is_empty() {
            wrong.push(format!("{folder} holds {left:?}"));
        }
    }
    if let Some(reason) = store.read_only() {
        wrong.push(format!("the store takes no writes: {reason}"));
    }
    for task in 0..client.leases.len() {
        if client.steps.iter().any(|step| step.task == task) && !spared.contains(&task) {
            let before = wrong.len();
            if let Err(error) = check_task(store, fs, client, task, &mut wrong) {
                wrong.push(format!("it cannot be read: {}", chain(&error)));
            }
            for problem in &mut wrong[before..] {
                *problem = format!("task {task}: {problem}");
            }
        }
    }
    wrong
}

/// An error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn check_task(
    store: &Store,
    fs: &dyn Fs,
    client: &Client,
    task: usize,
    wrong: &mut Vec<String>,
) -> Result<(), StoreError> {
    let id = task_id(task);
    let steps =
        || client.steps.iter().zip(&client.outcomes).enumerate().filter(|(_, (step, _))| step.task == task);
    let folders = folders_of(fs, id);
    let told = |wanted: fn(&Act) -> bool| {
        let outcomes = steps().filter(|(_, (step, _))| wanted(&step.act)).map(|(_, (_, outcome))| *outcome);
        outcomes.fold(Outcome::Untried, |most, outcome| match (most, outcome) {
            (Outcome::Acked(_), _) | (_, Outcome::Untried) => most,
            (_, outcome) => outcome,
        })
    };
    let started = told(|act| matches!(act, Act::Start | Act::Inherit | Act::Fork(_)));
    let deleted = told(|act| matches!(act, Act::Delete));
    match folders[..] {
        [] if !matches!(started, Outcome::Acked(_)) || deleted != Outcome::Untried => return Ok(()),
        [] => {
            wrong.push("it is gone".to_owned());
            return Ok(());
        }
        [_] if matches!(deleted, Outcome::Acked(_)) => {
            wrong.push(format!("it was removed and is in {folders:?}"))
        }
        [_] if started == Outcome::Untried => wrong.push("nobody started it".to_owned()),
        [_] => {}
        _ => wrong.push(format!("it is in {folders:?}")),
    }
    let dir = |file: &str| path(&[folders[0], &id.to_string(), file]);

    let log = Log::read(fs, &dir("messages.jsonl"), wrong);
    let tools = Log::read(fs, &dir("tools.jsonl"), wrong);
    let plans = Log::read(fs, &dir("planning.jsonl"), wrong);
    let mut messages = 0;
    for line in &log.lines {
        if line.value["event"].is_null() {
            messages += 1;
            if line.value["seq"] != messages {
                wrong.push(format!("message {messages} has seq {}", line.value["seq"]));
            }
        }
    }
    for log in [&log, &tools, &plans] {
        for (request, lines) in &log.requests {
            let known =
                steps().any(|(at, (_, outcome))| request_id(at) == *request && *outcome != Outcome::Untried);
            if !known {
                wrong.push(format!("nobody asked for {request}"));
            }
            if lines.len() > 1 {
                wrong.push(format!("{request} is there {} times", lines.len()));
            }
        }
    }
    if messages
        != log.requests.values().flatten().filter(|at| log.lines[**at].value["event"].is_null()).count()
            as u64
            + log.copied
    {
        wrong.push("there are messages that nobody sent".to_owned());
    }
    for (at, (step, outcome)) in steps() {
        let log = match step.act {
            Act::Tool(_) => &tools,
            Act::Plan(_) => &plans,
            Act::Reopen | Act::Look | Act::Delete => continue,
            _ => &log,
        };
        let line =
            log.requests.get(&request_id(at)).and_then(|lines| lines.first()).map(|at| &log.lines[*at]);
        match (line, outcome) {
            (Some(line), outcome) => {
                if let Some(problem) = differs(&step.act, &request_id(at), line, *outcome) {
                    wrong.push(format!("step {at}: {problem}: {}", line.text));
                }
            }
            (None, Outcome::Acked(_)) => {
                wrong.push(format!("step {at} was acknowledged and is lost: {:?}", step.act))
            }
            (None, Outcome::Tried | Outcome::Untried) => {}
        }
    }

    if let Some((from, rest)) = &log.forked {
        wrong.extend(check_fork(fs, from, rest));
        let outputs = |id: &str, folder: &str| names(fs, &path(&[folder, id, "outputs"]));
        let source = folders_of(fs, TaskId::parse(from).unwrap());
        if source.first().is_some_and(|folder| outputs(from, folder) != outputs(&id.to_string(), folders[0]))
        {
            wrong.push("its outputs are not those of the task it was forked from".to_owned());
        }
    }

    // A resume is told by its lease.
    let status = log.lines.iter().rev().find_map(|line| match line.value["event"].as_str() {
        Some("status") => line.value["status"].as_str(),
        Some("lease") if line.value["reason"] == "resume" => Some("running"),
        Some("forked") => Some("running"),
        _ => None,
    });
    let status = status.unwrap_or("running");
    let belongs = if status == "failed" { "completed" } else { status };
    if folders != [belongs] {
        wrong.push(format!("it is {status} and in {folders:?}"));
    }
    let info = store.task_info(id)?;
    if info.last_seq != messages || info.row.total_messages != messages {
        wrong.push(format!(
            "it has {messages} messages, not {} or {}",
            info.last_seq, info.row.total_messages
        ));
    }
    if info.row.status.as_str() != status || info.folder.name().as_str() != belongs {
        wrong.push(format!("it is {status}, and said to be {:?} in {:?}", info.row.status, info.folder));
    }
    let seen = crate::store::view(store, id, None)?;
    if Some(seen.as_bytes()) != read(fs, &dir("current.jsonl")).as_deref() {
        wrong.push("a reader is told other than what is in current.jsonl".to_owned());
    }
    if seen.lines().count() as u64 != info.view_messages {
        wrong.push(format!("the view has {} lines, not {}", seen.lines().count(), info.view_messages));
    }
    // Brings it into line, for the oracle.
    store.summaries(id)?;
    let summary = match status {
        "completed" => Some("all is well".to_owned()),
        "failed" => Some("not well".to_owned()),
        _ => None,
    };
    if store.final_summary(id)? != summary {
        wrong.push(format!("the final summary is not {summary:?}"));
    }
    let kept = read(fs, &dir("final_summary.txt"));
    if kept != summary.map(|text| (text + "\n").into_bytes()) {
        wrong.push(format!("final_summary.txt is {kept:?}"));
    }
    let left = names(fs, &path(&[folders[0], &id.to_string()]));
    if left.iter().any(|name| name.ends_with(".next") || name.ends_with(".tmp")) {
        wrong.push(format!("{left:?} are left"));
    }
    Ok(())
}

/// What was copied is what stands in the log it came from, to the end of its last message.
fn check_fork(fs: &dyn Fs, from: &str, copied: &[String]) -> Option<String> {
    let folder = *folders_of(fs, TaskId::parse(from).unwrap()).first()?;
    let source = String::from_utf8(read(fs, &path(&[folder, from, "messages.jsonl"]))?).unwrap_or_default();
    let there: Vec<&str> = source.lines().skip(1).take(copied.len()).collect();
    (there != *copied).then(|| format!("it was forked from something else: {copied:?}"))
}

struct Log {
    lines: Vec<LogLine>,
    /// The lines of each request.
    requests: BTreeMap<String, Vec<usize>>,
    /// Messages that came from another task.
    copied: u64,
    /// Which that is, and the lines that came of it but for the first.
    forked: Option<(String, Vec<String>)>,
}

struct LogLine {
    text: String,
    value: Value,
}

impl Log {
    fn read(fs: &dyn Fs, path: &StorePath, wrong: &mut Vec<String>) -> Self {
        let text = String::from_utf8(read(fs, path).unwrap_or_default()).unwrap_or_default();
        let mut log = Self { lines: Vec::new(), requests: BTreeMap::new(), copied: 0, forked: None };
        for line in text.lines() {
            match serde_json::from_str::<Value>(line) {
                Ok(value) => {
                    if value["event"] == "forked" {
                        log.copied = value["at_seq"].as_u64().unwrap_or_default();
                        log.requests.clear();
                        let copied = log.lines.iter().skip(1).map(|line| line.text.clone()).collect();
                        log.forked = Some((value["from"].as_str().unwrap_or_default().to_owned(), copied));
                    }
                    if value["seq"] == 1
                        && value["content"] == "you are a clerk"
                        && value["request_id"].is_null()
                    {
                        // It came with the task.
                        log.copied = 1;
                    }
                    if let Some(request) = value["request_id"].as_str() {
                        log.requests.entry(request.to_owned()).or_default().push(log.lines.len());
                    }
                    log.lines.push(LogLine { text: line.to_owned(), value });
                }
                Err(error) => wrong.push(format!("{path}: {error}: {line}")),
            }
        }
        log
    }
}

/// How a line is not what a step asked for, or not what its client was told.
fn differs(act: &Act, request_id: &str, line: &LogLine, outcome: Outcome) -> Option<String> {
    let has = |text: &str| line.text.contains(text);
    let (right, number) = match act {
        Act::Say(say) => {
            let body = line.text.split_once("\"durable_to\":").map_or("", |(_, rest)| rest);
            let body = body.trim_start_matches(|c: char| c.is_ascii_digit());
            let body = body.get(..body.len().saturating_sub(18)).unwrap_or_default();
            (line.value["role"] == say.role && body == say.body(request_id), "seq")
        }
        Act::Tool(name) => (
            has(&format!(
                ",\"tool_name\":\"{name}\",\"arguments\":{{\"n\":1e2}},\"result\":\"fine\",\"status\":\"success\""
            )),
            "seq",
        ),
        Act::Plan(text) => (has(&format!(",\"plan_type\":\"initial\",\"plan_content\":\"{text}\"")), "id"),
        Act::Start | Act::Inherit | Act::Fork(_) => (line.value["event"] == "lease", "generation"),
        Act::Usage(tokens) => (line.value["event"] == "usage" && line.value["input_tokens"] == *tokens, ""),
        Act::Config(model) => {
            (line.value["event"] == "config" && line.value["config"]["model"] == *model, "")
        }
        Act::Summarize(to, _) => {
            (has("\"strategy\":\"summarize\"") && line.value["covers"] == *to, "ordinal")
        }
        Act::Trim(to, _) => (has("\"strategy\":\"trim\"") && line.value["covers"] == *to, "ordinal"),
        Act::Undo => (has("\"strategy\":\"undo\""), "ordinal"),
        Act::Rewind(seq) => (has(&format!("\"reason\":\"back to message {seq}\"")), "ordinal"),
        Act::Pause => (line.value["status"] == "paused", ""),
        Act::Resume => (line.value["event"] == "lease" && line.value["reason"] == "resume", "generation"),
        Act::Complete => (line.value["status"] == "completed", ""),
        Act::Fail => (line.value["status"] == "failed" && line.value["error_message"] == "it broke", ""),
        Act::Delete | Act::Reopen | Act::Look => (false, ""),
    };
    match outcome {
        _ if !right => Some(format!("the log has something else than {act:?}")),
        Outcome::Acked(told) if !number.is_empty() && line.value[number] != told => {
            Some(format!("the client was told {told}"))
        }
        _ => None,
    }
}

/// All rows of the catalog, by id.
pub fn rows(store: &Store) -> Result<Vec<TaskRow>, StoreError> {
    let mut rows = store.list_tasks(&TaskFilter::default(), TaskOrder::default(), 100, None)?.rows;
    rows.sort_by_key(|row| row.uuid);
    Ok(rows)
}

/// Has the oracle check task directories; answers what it says of each that is wrong.
pub fn ask_oracle(dirs: &[impl AsRef<Path>]) -> Vec<String> {
    let script = crate::repository().join("tests/oracle/check.py");
    let mut oracle = Command::new("python3")
        .arg(script)
        .args(["--check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("python3 cannot be run ({error}); `make setup` installs what is missing")
        });
    let mut list = String::new();
    for dir in dirs {
        list.push_str(&format!("{}\n", dir.as_ref().display()));
    }
    let mut stdin = oracle.stdin.take().unwrap();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, list.as_bytes()));
    let output = oracle.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
    let last = lines.pop().unwrap_or_default();
    assert!(last.starts_with(&format!("{} checked", dirs.len())), "the oracle did not finish: {said}");
    lines
}
