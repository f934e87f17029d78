//! The reading commands from outside: on a directory, against a running server, and with bad input.

use std::fs;
use std::path::Path;
use std::process::Command;

use contextstore_base::model::{Holder, InstanceId, NewMessage, Role, TaskConfig, TaskId, TaskKey};
use contextstore_client::{Client, NewMessage as Message, v1};
use contextstore_store::store::{Append, Caller, StartTask, Started, Store, StoreOptions};
use serde_json::Value;

use test_support::server::TestServer;

const RUNNING: &str = "018f6b2e-5c1a-7d3e-9a41-000000000001";
const PAUSED: &str = "018f6b2e-5c1a-7d3e-9a41-000000000002";
const COMPLETED: &str = "018f6b2e-5c1a-7d3e-9a41-000000000003";
const FAILED: &str = "018f6b2e-5c1a-7d3e-9a41-000000000004";

/// What nobody should be able to do to a terminal.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;title\u{7}red\r\n\u{202e}back\u{9b}31m";

fn run(arguments: &[&str]) -> (i32, String, String) {
    TestServer::run(arguments, &[])
}

/// Runs a command that must succeed without a word of complaint.
fn said(arguments: &[&str]) -> String {
    let (code, out, complaint) = run(arguments);
    assert_eq!((code, complaint.as_str()), (0, ""), "{arguments:?}: {out}");
    out
}

fn jsonl(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn uuids(tasks: &[Value]) -> Vec<&str> {
    let mut uuids: Vec<_> = tasks.iter().map(|task| task["uuid"].as_str().unwrap()).collect();
    uuids.sort_unstable();
    uuids
}

/// A directory that no server uses, with a task of every status.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { ballast_bytes: 0, ..StoreOptions::default() };
        let store = Store::open(&dir.path().join("data"), options).unwrap().0;
        let tasks = [RUNNING, PAUSED, COMPLETED, FAILED].map(|id| start(&store, id));
        for (number, task) in tasks.iter().enumerate() {
            for _ in 0..=number {
                append(&store, task, NewMessage::text(Role::User, "hello"));
            }
        }
        let by = |task: &Started| Caller { request_id: None, lease_generation: task.lease_generation };
        let [running, paused, completed, failed] = &tasks;
        for number in 1..=11 {
            append(&store, running, NewMessage::text(Role::User, &format!("question {number}")));
        }
        append(&store, running, NewMessage::text(Role::Assistant, NASTY));
        store.pause_task(paused.id, &by(paused)).unwrap();
        store.complete_task(completed.id, Some(format!("All\ndone. {NASTY}")), &by(completed)).unwrap();
        store.fail_task(failed.id, format!("It broke. {NASTY}"), None, &by(failed)).unwrap();
        store.close().unwrap();
        Self { dir }
    }

    fn data(&self) -> String {
        self.dir.path().join("data").to_str().unwrap().to_owned()
    }

    fn tasks(&self, more: &[&str]) -> Vec<Value> {
        let data = self.data();
        let arguments = [&["tasks", "--output", "jsonl", "--data-dir", &data], more].concat();
        jsonl(&said(&arguments))
    }
}

fn start(store: &Store, id: &str) -> Started {
    let last = id.chars().last().unwrap();
    let start = StartTask {
        id: Some(TaskId::parse(id).unwrap()),
        key: TaskKey {
            task_source: "github".to_owned(),
            owner: "octo".to_owned(),
            repo: format!("repo-{last}"),
            task_type: if last < '3' { "issue" } else { "pull_request" }.to_owned(),
            task_id: format!("1{last}"),
        },
        user: if last == '4' { "bea" } else { "ann" }.to_owned(),
        config: TaskConfig { llm_provider: "anthropic".to_owned(), ..TaskConfig::default() },
        holder: Holder {
            instance_id: InstanceId::parse("agent").unwrap(),
            process_id: 7,
            hostname: "here".to_owned(),
        },
        request_id: None,
    };
    store.start_task(start).unwrap()
}

fn append(store: &Store, task: &Started, message: NewMessage) {
    let caller = Caller { request_id: None, lease_generation: task.lease_generation };
    store.append(task.id, &Append { message, caller }).unwrap();
}

#[test]
fn tasks_are_listed_from_a_directory() {
    let place = Place::new();
    let table = said(&["tasks", "--data-dir", &place.data()]);
    let lines: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let head =
        ["UUID", "STATUS", "SOURCE", "REPOSITORY", "TYPE", "ID", "USER", "MESSAGES", "TOKENS", "UPDATED"];
    assert_eq!(lines[0], head);
    let running = lines.iter().find(|line| line[0] == RUNNING).unwrap();
    assert_eq!(running[1..9], ["running", "github", "octo/repo-1", "issue", "11", "ann", "13", "0"]);
    assert_eq!(lines.len(), 5);
    let starts: Vec<_> = table.lines().map(|line| line.find("octo/").or(line.find("REPOSITORY"))).collect();
    assert!(starts.windows(2).all(|pair| pair[0] == pair[1]), "columns stand below each other:\n{table}");

    let all = place.tasks(&[]);
    assert_eq!(uuids(&all), [RUNNING, PAUSED, COMPLETED, FAILED]);
    let array: Value =
        serde_json::from_str(&said(&["tasks", "--output", "json", "--data-dir", &place.data()])).unwrap();
    assert_eq!(array, Value::from(all));
}

/// The same questions to a directory, and to a server that runs on it.
#[tokio::test(flavor = "multi_thread")]
async fn every_filter_filters_and_a_server_gives_the_same_answers() {
    let place = Place::new();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--status", "running"], &[RUNNING]),
        (&["--status", "paused,failed"], &[PAUSED, FAILED]),
        (&["--status", "paused", "--status", "completed"], &[PAUSED, COMPLETED]),
        (&["--source", "github"], &[RUNNING, PAUSED, COMPLETED, FAILED]),
        (&["--source", "gitlab"], &[]),
        (&["--owner", "octo", "--repo", "repo-2"], &[PAUSED]),
        (&["--owner", "other"], &[]),
        (&["--type", "pull_request"], &[COMPLETED, FAILED]),
        (&["--id", "13"], &[COMPLETED]),
        (&["--user", "bea"], &[FAILED]),
        (&["--user", "ann", "--type", "issue", "--status", "running"], &[RUNNING]),
    ];
    let data = place.data();
    let answers = || {
        let mut answers = Vec::new();
        for (flags, expected) in cases {
            let tasks = place.tasks(flags);
            assert_eq!(uuids(&tasks), *expected, "{flags:?}");
            answers.push(tasks);
        }
        assert_eq!(place.tasks(&["--limit", "3"]).len(), 3);
        assert_eq!(said(&["tasks", "--output", "json", "--user", "nobody", "--data-dir", &data]), "[]\n");
        let (code, table, hint) = run(&["tasks", "--limit", "2", "--data-dir", &data]);
        assert_eq!((code, table.lines().count()), (0, 3));
        assert_eq!(hint, "contextstore: there are more than 2 tasks; --limit shows more\n");
        let shown = [RUNNING, PAUSED, COMPLETED, FAILED].map(|id| said(&["show", id, "--data-dir", &data]));
        (answers, table, shown)
    };
    let offline = answers();
    let server = TestServer::start_on(place.dir.path()).await;
    assert_eq!(answers(), offline);
    drop(server);
}

#[test]
fn a_task_is_shown_from_a_directory() {
    let place = Place::new();
    let shown = said(&["show", RUNNING, "--data-dir", &place.data(), "--messages", "2"]);
    let lines: Vec<_> = shown.lines().collect();
    for expected in [
        &format!("task      {RUNNING}"),
        "key       github octo/repo-1 issue 11",
        "user      ann",
        "status    running",
        "model     anthropic",
        "log       13 messages, 0 summaries, 0 plans, 0 pinned, 0 compactions",
        "pressure  NORMAL (0.1 % of 200000 tokens, a guess)",
        "calls     0 of the LLM (0 tokens), 0 of tools (0 recorded, 0 successful)",
        "     12  user      question 11",
    ] {
        assert!(lines.contains(&expected), "{expected:?} is not in\n{shown}");
    }
    assert!(lines.iter().any(|line| line.starts_with("holder    process 7 on here since 20")), "{shown}");
    assert!(lines.iter().any(|line| line.ends_with(&format!(" in running/{RUNNING}"))), "{shown}");
    assert_eq!(lines[lines.len() - 3], "", "the messages stand apart:\n{shown}");
    assert!(
        lines[lines.len() - 1].starts_with("     13  assistant \\u{1b}[2J\\u{1b}]0;title\\u{7}red"),
        "{shown}"
    );

    let failed = said(&["show", FAILED, "--data-dir", &place.data()]);
    assert!(failed.contains("\nstatus    failed\n") && failed.contains("\nerror     It broke. "), "{failed}");
    assert!(failed.contains("\nholder    nobody\n") && failed.contains("\ncompleted 20"), "{failed}");
    let completed = said(&["show", COMPLETED, "--data-dir", &place.data(), "--messages", "0"]);
    assert!(completed.contains("\nsummary   All done. "), "{completed}");
    assert!(!completed.contains("user      hello"), "{completed}");
    for text in [&shown, &failed, &completed] {
        let odd: Vec<_> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert!(odd.is_empty() && !text.contains('\u{202e}'), "{odd:?} in {text:?}");
    }
}

#[test]
fn json_holds_the_messages_as_they_are() {
    let place = Place::new();
    let shown = said(&["show", RUNNING, "--output", "json", "--messages", "3", "--data-dir", &place.data()]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["task"]["uuid"], RUNNING);
    assert_eq!(shown["task"]["lease"]["hostname"], "here");
    assert_eq!(shown["task"]["pressure"]["stage"], "NORMAL");
    let log = place.dir.path().join("data/running").join(RUNNING).join("messages.jsonl");
    let lines = jsonl(&fs::read_to_string(log).unwrap());
    let messages: Vec<_> = lines.into_iter().filter(|line| line.get("seq").is_some()).collect();
    assert_eq!(shown["messages"], Value::from(messages[10..].to_vec()));
    assert_eq!(shown["messages"][2]["content"], NASTY);
}

#[test]
fn looking_leaves_a_directory_as_it_was() {
    let place = Place::new();
    let log = place.dir.path().join("data/running").join(RUNNING).join("messages.jsonl");
    let before = fs::read(&log).unwrap();
    place.tasks(&[]);
    said(&["show", RUNNING, "--data-dir", &place.data()]);
    assert_eq!(fs::read(&log).unwrap(), before);
    assert!(said(&["doctor", "--data-dir", &place.data()]).ends_with("nothing is wrong\n"));
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let place = Place::new();
    let data = place.data();
    let empty = tempfile::tempdir().unwrap();
    let nowhere = empty.path().join("gone");
    let cases: &[(&[&str], &str)] = &[
        (&["show", "018f6b2e-5c1a-7d3e-9a41-0000000000ff", "--data-dir", &data], "there is no task 018f6b2e"),
        (&["tasks", "--data-dir", nowhere.to_str().unwrap()], "cannot be used: No such file"),
        (&["tasks", "--data-dir", empty.path().to_str().unwrap()], "it is not a data directory"),
        (&["tasks", "--address", "unix:/gone.sock"], "no connection to unix:/gone.sock: No such file"),
        (
            &["tasks", "--address", "tcp:127.0.0.1:1", "--data-dir", &data],
            "no connection to tcp:127.0.0.1:1: Connection refused",
        ),
        (
            &["tasks", "--address", "tcp:127.0.0.1:1", "--token-file", "/gone"],
            "token_file has no token to read in /gone",
        ),
    ];
    for (arguments, problem) in cases {
        let (code, out, complaint) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {complaint}");
        assert!(
            complaint.starts_with("contextstore: ") && complaint.contains(problem),
            "{arguments:?}: {complaint}"
        );
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "looking made nothing");
}

#[test]
fn bad_arguments_name_the_flag() {
    let cases: &[(&[&str], &str)] = &[
        (&["show"], "<UUID>"),
        (&["show", "17"], "task_uuid is not a UUID like"),
        (&["show", RUNNING, "--messages", "many"], "--messages"),
        (&["show", RUNNING, "--output", "table"], "[possible values: text, json]"),
        (&["tasks", "--limit", "0"], "--limit"),
        (&["tasks", "--status", "gone"], "[possible values: running, paused, completed, failed]"),
        (&["tasks", "--user", ""], "--user"),
        (&["tasks", "--output", "xml"], "[possible values: table, json, jsonl]"),
        (&["tasks", "--address", "localhost:1"], "is none of unix:PATH, tcp:HOST:PORT and tls:HOST:PORT"),
        (&["health", "--address", "tcp:localhost:0"], "has a port that is not between 1 and 65535"),
        (&["health", "--timeout", "0"], "--timeout"),
    ];
    for (arguments, problem) in cases {
        let (code, out, complaint) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(complaint.contains(problem), "{arguments:?}: {complaint}");
    }
}

#[test]
fn a_directory_in_use_without_an_answer_can_be_looked_at() {
    let place = Place::new();
    let options = StoreOptions { ballast_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(Path::new(&place.data()), options).unwrap().0;
    let (code, out, complaint) = run(&["tasks", "--data-dir", &place.data()]);
    assert_eq!((code, complaint.as_str()), (0, ""), "{out}");
    store.close().unwrap();
}

#[test]
fn looking_at_a_directory_changes_nothing_in_it() {
    fn files(dir: &Path, found: &mut Vec<(String, u64, std::time::SystemTime)>) {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let stat = entry.metadata().unwrap();
            found.push((entry.path().display().to_string(), stat.len(), stat.modified().unwrap()));
            if stat.is_dir() {
                files(&entry.path(), found);
            }
        }
        found.sort();
    }
    let place = Place::new();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    files(Path::new(&place.data()), &mut before);
    let (code, out, _) = run(&["tasks", "--data-dir", &place.data(), "--output", "jsonl"]);
    assert_eq!(code, 0);
    for task in out.lines() {
        let task: serde_json::Value = serde_json::from_str(task).unwrap();
        let (code, ..) = run(&["show", "--data-dir", &place.data(), task["uuid"].as_str().unwrap()]);
        assert_eq!(code, 0, "{task}");
    }
    files(Path::new(&place.data()), &mut after);
    assert_eq!(before, after);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Place::new();
    let program = test_support::program("contextstore");
    let script = format!(
        "set -o pipefail; {} tasks --output jsonl --data-dir {} | true",
        program.display(),
        place.data()
    );
    assert!(Command::new("bash").args(["-c", &script]).status().unwrap().success());
}

#[test]
fn health_without_a_server_is_one_line_and_1() {
    let place = Place::new();
    let (code, out, complaint) = run(&["health", "--data-dir", &place.data()]);
    assert_eq!((code, complaint.as_str()), (1, ""));
    assert!(out.starts_with("NOT_SERVING: no connection to unix:"), "{out}");
    assert_eq!(out.lines().count(), 1);
}

/// A running server with a busy task in it, and the task.
async fn busy() -> (TestServer, Client, contextstore_client::Task) {
    let server = TestServer::start().await;
    let client = server.client().await;
    let task = client
        .start_task(contextstore_client::StartTask {
            key: v1::TaskKey { task_source: "gitlab".to_owned(), repo: "r".to_owned(), ..Default::default() },
            user: "ann".to_owned(),
            ..Default::default()
        })
        .await
        .unwrap();
    for number in 1..=4 {
        task.append(Message::user(format!("question {number}"))).await.unwrap();
    }
    task.append(Message::assistant(NASTY)).await.unwrap();
    task.append_plan("initial", r#"{"steps":[1,2]}"#).await.unwrap();
    (server, client, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_is_asked() {
    let (mut server, client, task) = busy().await;
    let data = server.data_dir();
    let data = data.to_str().unwrap();
    let address = server.tcp_address().to_owned();
    let token = server.data_dir().join("token");

    // The same over the socket and over TCP, by flags and by the environment.
    let arguments = ["show", task.uuid(), "--output", "json", "--messages", "2"];
    let shown = said(&[&arguments[..], &["--data-dir", data]].concat());
    let over_tcp =
        said(&[&arguments[..], &["--address", &address, "--token-file", token.to_str().unwrap()]].concat());
    assert_eq!(shown, over_tcp);
    let environment = [("CONTEXTSTORE_ADDRESS", Path::new(&address)), ("CONTEXTSTORE_TOKEN_FILE", &token)];
    assert_eq!(TestServer::run(&arguments, &environment), (0, shown.clone(), String::new()));
    assert_eq!(TestServer::run(&arguments, &[("CONTEXTSTORE_DATA_DIR", &server.data_dir())]).1, shown);

    let listed = said(&["tasks", "--output", "jsonl", "--data-dir", data]);
    assert_eq!(uuids(&jsonl(&listed)), [task.uuid()]);
    let text = said(&["show", task.uuid(), "--data-dir", data]);
    assert!(text.contains("log       5 messages, 0 summaries, 1 plans"), "{text}");
    assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");

    // Once it has stopped, the directory itself says the same.
    drop(client);
    assert!(server.terminate().await.success(), "{}", server.log());
    let same = |text: &str| -> Value {
        let mut value: Value = serde_json::from_str(text).unwrap();
        // A stop in order leaves a checkpoint behind.
        value["task"]["bytes_on_disk"] = Value::Null;
        value
    };
    assert_eq!(same(&said(&[&arguments[..], &["--data-dir", data]].concat())), same(&shown));
    assert_eq!(said(&["tasks", "--output", "jsonl", "--data-dir", data]), listed);
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_needs_the_token_and_health_does_not() {
    let server = TestServer::start().await;
    let address = server.tcp_address();
    let (code, out, complaint) = run(&["tasks", "--address", address]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(complaint.contains("token"), "{complaint}");
    let wrong = server.data_dir().join("LOCK");
    let (code, _, _) = run(&["tasks", "--address", address, "--token-file", wrong.to_str().unwrap()]);
    assert_eq!(code, 2);

    assert_eq!(said(&["health", "--address", address]), format!("SERVING: {address}\n"));
    let data = server.data_dir();
    let socket = server.socket();
    let over_socket = said(&["health", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(over_socket, format!("SERVING: unix:{}\n", socket.display()));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_come_in_pages_and_a_missing_one_is_named() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(client.start_task(Default::default()).await.unwrap().uuid().to_owned());
    }
    let data = server.data_dir();
    let data = data.to_str().unwrap();
    let listed = jsonl(&said(&["tasks", "--output", "jsonl", "--limit", "5", "--data-dir", data]));
    let newest: Vec<_> = made.iter().rev().take(5).collect();
    assert_eq!(listed.iter().map(|task| task["uuid"].as_str().unwrap()).collect::<Vec<_>>(), newest);
    let (code, _, complaint) = run(&["show", RUNNING, "--data-dir", data]);
    assert_eq!((code, complaint), (2, format!("contextstore: there is no task {RUNNING}\n")));
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_read_from_a_server_and_from_a_directory_alike() {
    let mut server = TestServer::start().await;
    let client = server.client().await;
    let task = client.start_task(contextstore_client::StartTask::default()).await.unwrap();
    let text: String = (1..=5000).map(|n| format!("line {n} {}\n", NASTY.replace('\n', ""))).collect();
    let put = contextstore_client::PutOutput { tool_name: "bash".to_owned(), ..Default::default() };
    let kept = task.outputs().put(put, text.clone()).await.unwrap().r#ref.unwrap();
    let (id, output) = (task.uuid().to_owned(), kept.id.clone());
    let data = server.data_dir();
    let data = data.to_str().unwrap();
    let mut told = Vec::new();
    for round in 0..2 {
        let at = ["--data-dir", data];
        let on = |more: &[&str]| said(&[&["output"], more, &at[..]].concat());
        let cat = on(&["cat", &id, &output, "--offset", "4998", "--limit", "1"]);
        assert!(cat.starts_with("  4999\tline 4999 ") && !cat.contains('\u{1b}'), "{cat:?}");
        assert_eq!(on(&["cat", &id, &output, "--raw"]), text);
        let found = on(&["grep", &id, "line (7|4000) ", "--ref", &output]);
        assert!(found.starts_with("7:line 7 "), "{found:?}");
        assert_eq!(found.lines().count(), 2, "{found:?}");
        let nothing = run(&["output", "grep", &id, "no such line", at[0], at[1]]);
        assert_eq!((nothing.0, nothing.1.as_str()), (1, ""), "{}", nothing.2);
        let stat: Value = serde_json::from_str(&on(&["stat", &id, &output, "--output", "json"])).unwrap();
        assert_eq!(stat["byte_size"], text.len() as u64);
        assert_eq!(stat["tool_name"], "bash");
        let list = on(&["ls", &id]);
        assert!(list.starts_with(&output) && list.contains("text/plain"), "{list}");
        told.push((cat, found, stat, list));
        if round == 0 {
            let dry = on(&["gc", "--dry-run", "--min-age", "0s"]);
            assert!(dry.starts_with("1 outputs (") && dry.contains("would be removed"), "{dry}");
            assert!(server.terminate().await.success());
        }
    }
    assert_eq!(told[0], told[1]);
    // What is not there, or is no ref.
    let (code, _, complaint) =
        run(&["output", "stat", &id, &format!("out-{}", "0".repeat(32)), "--data-dir", data]);
    assert!(code == 2 && complaint.contains("has no output"), "{complaint}");
    assert_eq!(run(&["output", "stat", &id, "../../token", "--data-dir", data]).0, 2);
}
