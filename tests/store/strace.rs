//! The write protocol from outside: the order of system calls, and calls that fail or are the last, by strace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use contextstore_base::model::StoreError;
use contextstore_store::store::{Ground, Store};
use tempfile::TempDir;

use test_support::check::{ask_oracle, chain, check, folders_of, rows};
use test_support::steps::{Act, Client, Outcome, Step, request_id, say, task_id};

/// The calls that change something.
const CALLS: [&str; 9] = [
    "pwrite64",
    "fdatasync",
    "fsync",
    "renameat",
    "renameat2",
    "ftruncate",
    "openat2",
    "mkdirat",
    "unlinkat",
];
/// Points of each call that are tried, of each of the two kinds: failures and deaths.
const ERRORS: usize = 5;
const DEATHS: usize = 3;

/// A program that was watched.
struct Watched {
    dir: TempDir,
    /// What the main thread called, in order.
    trace: Vec<String>,
    client: Client,
    /// It came to its end.
    ended: bool,
    killed: bool,
}

/// Runs the story under strace.
fn watch(sabotage: Option<&str>, inject: Option<&str>) -> Watched {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-y", "-s", "16384", "-e", "signal=none", "-o"]).arg(&trace);
    strace.args(["-e", &format!("trace=write,{}", CALLS.join(","))]);
    if let Some(inject) = inject {
        strace.args(["-e", &format!("inject={inject}")]);
    }
    strace.arg(test_support::program("scenario")).arg(dir.path().join("data")).args(sabotage);
    let output = strace.output().unwrap_or_else(|error| {
        panic!("strace cannot be run ({error}); `make setup` installs what is missing")
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = fs::read_to_string(&trace).unwrap();
    assert!(!text.is_empty(), "strace wrote nothing: {errors}");

    // The first line is the main thread's; SQLite has a thread of its own.
    let main = text.split(' ').next().unwrap().to_owned();
    let of_main = |line: &str| line.strip_prefix(&main).map(|line| line.trim_start().to_owned());
    let mut client = Client::new(test_support::story::steps());
    let said = String::from_utf8(output.stdout).unwrap();
    let mut ended = false;
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["try", at] => client.outcomes[at.parse::<usize>().unwrap()] = Outcome::Tried,
            ["ack", at, told] => client.note(at.parse().unwrap(), told.parse().unwrap()),
            ["end"] => ended = true,
            _ => {}
        }
    }
    let killed = output.status.signal() == Some(9);
    assert!(ended || killed, "the program stopped: {said}{errors}");
    Watched { dir, trace: text.lines().filter_map(of_main).collect(), client, ended, killed }
}

/// Opens a store. Other tests start programs, which hold every open file of this one until they are running.
fn open(data: &Path) -> Result<Store, StoreError> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match Store::open(data, test_support::store::options()) {
            Err(StoreError::Locked { .. }) if Instant::now() < deadline => thread::yield_now(),
            opened => return opened.map(|(store, _)| store),
        }
    }
}

/// What is wrong with a directory that a program left behind.
fn verify(watched: Watched) -> Vec<String> {
    let Watched { dir, mut client, .. } = watched;
    let data = dir.path().join("data");
    let store = match open(&data) {
        Ok(store) => store,
        Err(error) => return vec![format!("it does not open: {}", chain(&error))],
    };
    let disk = Arc::clone(&Ground::disk(&data).unwrap().fs);
    let mut wrong = check(&store, disk.as_ref(), &client, &[]);
    let ask = |wrong: &mut Vec<String>| {
        let dirs: Vec<PathBuf> = (0..2).flat_map(|task| task_dirs(&data, disk.as_ref(), task)).collect();
        wrong.extend(ask_oracle(&dirs));
    };
    ask(&mut wrong);
    for at in 0..client.steps.len() {
        if client.outcomes[at] != Outcome::Tried {
            continue;
        }
        if matches!(client.steps[at].act, Act::Reopen) {
            client.note(at, 0);
        } else if let Err(error) = client.take(&store, at) {
            wrong.push(format!("step {at} cannot be tried again: {}", chain(&error)));
        }
    }
    for task in 0..client.leases.len() {
        if client.leases[task] > 0 {
            client.steps.push(Step { task, act: say("user", "and so on") });
            client.outcomes.push(Outcome::Untried);
            if let Err(error) = client.take(&store, client.steps.len() - 1) {
                wrong.push(format!("task {task} does not go on: {}", chain(&error)));
            }
        }
    }
    let later = check(&store, disk.as_ref(), &client, &[]);
    wrong.extend(later.into_iter().map(|problem| format!("later, {problem}")));
    ask(&mut wrong);
    let before = rows(&store).unwrap();
    store.close().unwrap();
    for file in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
        let _ = fs::remove_file(data.join(file));
    }
    if rows(&open(&data).unwrap()).unwrap() != before {
        wrong.push("without tasks.db the list is another".to_owned());
    }
    wrong
}

fn task_dirs(data: &Path, disk: &dyn contextstore_base::infra::fs::Fs, task: usize) -> Vec<PathBuf> {
    let id = task_id(task);
    folders_of(disk, id).iter().map(|folder| data.join(folder).join(id.to_string())).collect()
}

fn call_of(line: &str) -> &str {
    line.split('(').next().unwrap_or_default()
}

/// Whether a call is about a task's files.
fn is_about_a_task(line: &str) -> bool {
    (0..2).any(|task| line.contains(&task_id(task).to_string()))
}

/// For each call the ordinals, counted from 1, of those that are about a task's files.
fn points(trace: &[String]) -> BTreeMap<&'static str, Vec<usize>> {
    let of = |call: &'static str| {
        let same = trace.iter().filter(|line| call_of(line) == call);
        let about = same.zip(1..).filter(|(line, _)| is_about_a_task(line));
        (call, about.map(|(_, ordinal)| ordinal).collect())
    };
    CALLS.into_iter().map(of).collect()
}

/// Some of them, from the first to the last.
fn sample(ordinals: &[usize], most: usize) -> Vec<usize> {
    let count = ordinals.len().min(most);
    (0..count).map(|at| ordinals[at * (ordinals.len() - 1) / (count - 1).max(1)]).collect()
}

/// Disturbs the story at the points, and fails with all that is wrong afterwards.
fn disturb(name: &str, most: usize, fault: impl Fn(usize, usize) -> String) {
    let undisturbed = watch(None, None);
    assert!(undisturbed.ended);
    let (mut runs, mut hits, mut wrong) = (0, 0, Vec::new());
    for (number, (call, ordinals)) in points(&undisturbed.trace).into_iter().enumerate() {
        assert!(!ordinals.is_empty(), "no {call} is about a task");
        for (at, ordinal) in sample(&ordinals, most).into_iter().enumerate() {
            let inject = format!("{call}:{}:when={ordinal}", fault(number, at));
            let watched = watch(None, Some(&inject));
            let mut of_call = watched.trace.iter().filter(|line| call_of(line) == call);
            let hit = if watched.killed {
                of_call.next_back()
            } else {
                of_call.find(|line| line.contains("INJECTED"))
            };
            runs += 1;
            hits += usize::from(hit.is_some_and(|line| is_about_a_task(line)));
            wrong.extend(verify(watched).into_iter().map(|problem| format!("{inject}: {problem}")));
        }
    }
    println!("{name}: {runs} runs, {hits} of them hit a task's file");
    assert!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(runs >= CALLS.len() * 2 && hits * 10 >= runs * 9, "only {hits} of {runs} runs hit a task's file");
}

#[test]
fn a_call_that_fails_loses_nothing() {
    disturb("failures", ERRORS, |call, at| {
        let errno = if (call + at).is_multiple_of(2) { "EIO" } else { "ENOSPC" };
        format!("error={errno}")
    });
}

#[test]
fn a_call_that_is_the_last_loses_nothing() {
    disturb("deaths", DEATHS, |_, _| "signal=KILL".to_owned());
}

/// What is wrong with the order of calls: every record is written, then synced, then acknowledged; the view of
/// a rewrite is put in place after its event was synced.
fn order(trace: &[String], steps: &[Step]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut step = 0;
    let mut written = false;
    // Logs that have unsynced lines, by name and task.
    let mut unsynced: Vec<String> = Vec::new();
    for line in trace {
        let log = log_of(line);
        match (call_of(line), log) {
            ("write", _) if line.contains("\"try ") => {
                step = number_after(line, "\"try ");
                written = false;
            }
            ("write", _) if line.contains("\"ack ") => {
                let writes = !matches!(steps[step].act, Act::Reopen | Act::Delete | Act::Look);
                if writes && !written {
                    wrong.push(format!("step {step} is acknowledged and was not written"));
                }
                if !unsynced.is_empty() {
                    wrong.push(format!("step {step} is acknowledged and {unsynced:?} are not synced"));
                }
            }
            ("pwrite64", Some(log)) => {
                written |= line.contains(&format!("\\\"request_id\\\":\\\"{}\\\"", request_id(step)));
                if !unsynced.contains(&log) {
                    unsynced.push(log);
                }
            }
            ("fdatasync", Some(log)) => unsynced.retain(|other| *other != log),
            ("renameat", _) if line.contains("\"current.jsonl.next\"") => {
                let rewrites = matches!(
                    steps[step].act,
                    Act::Summarize(..) | Act::Trim(..) | Act::Undo | Act::Rewind(_)
                );
                if rewrites && (!written || !unsynced.is_empty()) {
                    wrong.push(format!("the view of step {step} is put in place before its event is synced"));
                }
            }
            _ => {}
        }
    }
    wrong
}

/// The log that a call is about; its folder may change.
fn log_of(line: &str) -> Option<String> {
    let path = line.split_once('<')?.1.split_once('>')?.0;
    let (dir, file) = path.rsplit_once('/')?;
    let is_log = ["messages.jsonl", "tools.jsonl", "planning.jsonl"].contains(&file);
    is_log.then(|| format!("{}/{file}", dir.rsplit('/').next().unwrap_or_default()))
}

fn number_after(line: &str, start: &str) -> usize {
    let rest = line.split_once(start).unwrap().1;
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().unwrap()
}

#[test]
fn records_are_synced_before_they_are_acknowledged_and_views_follow() {
    let watched = watch(None, None);
    assert_eq!(order(&watched.trace, &watched.client.steps), Vec::<String>::new());
    let acks =
        watched.trace.iter().filter(|line| call_of(line) == "write" && line.contains("\"ack ")).count();
    assert_eq!(acks, watched.client.steps.len(), "every acknowledgement is in the trace");
    assert_eq!(verify(watched), Vec::<String>::new());
}

#[test]
fn a_sync_left_out_is_noticed() {
    let watched = watch(Some("skip-sync"), None);
    let wrong = order(&watched.trace, &watched.client.steps);
    println!("skip-sync: {} acknowledgements before a sync", wrong.len());
    assert!(wrong.len() >= 10 && wrong[0].contains("are not synced"), "{wrong:?}");
}

#[test]
fn an_event_after_its_rename_is_noticed() {
    let watched = watch(Some("rename-first"), None);
    let wrong = order(&watched.trace, &watched.client.steps);
    println!("rename-first: {wrong:?}");
    assert!(wrong.iter().any(|problem| problem.contains("before its event is synced")), "{wrong:?}");

    // And by its result, if the program dies before the event of the first rewrite.
    let rewrite =
        watched.client.steps.iter().position(|step| matches!(step.act, Act::Summarize(..))).unwrap();
    let event = format!("\\\"request_id\\\":\\\"{}\\\"", request_id(rewrite));
    let writes = watched.trace.iter().filter(|line| call_of(line) == "pwrite64");
    let ordinal = writes.zip(1..).find(|(line, _)| line.contains(&event)).unwrap().1;
    let inject = format!("pwrite64:signal=KILL:when={ordinal}");
    let wrong = verify(watch(Some("rename-first"), Some(&inject)));
    println!("rename-first, killed before the event: {wrong:?}");
    assert!(wrong.iter().any(|problem| problem.contains("current.jsonl: line")), "{wrong:?}");
    assert_eq!(verify(watch(None, Some(&inject))), Vec::<String>::new());
}
