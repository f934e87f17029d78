//! The commands that change a task from outside: compress, undo, fork; and what `show` tells of that.

use contextstore_client::{Client, Compress, Inherit, NewMessage, StartTask, Task, v1};
use futures_util::{TryStreamExt, stream};
use serde_json::Value;

use test_support::server::TestServer;

fn run(server: &TestServer, arguments: &[&str]) -> (i32, String, String) {
    let data = server.data_dir().to_str().unwrap().to_owned();
    TestServer::run(&[arguments, &["--data-dir", &data]].concat(), &[])
}

fn said(server: &TestServer, arguments: &[&str]) -> String {
    let (code, out, complaint) = run(server, arguments);
    assert_eq!(code, 0, "{arguments:?}: {complaint}");
    out
}

/// A task with 40 messages that somebody works on.
async fn started(client: &Client) -> Task {
    let compression = v1::CompressionConfig { auto: Some(false), ..Default::default() };
    let config =
        v1::TaskConfig { context_length: Some(4000), compression: Some(compression), ..Default::default() };
    let key = v1::TaskKey { task_type: "issue".to_owned(), task_id: "7".to_owned(), ..Default::default() };
    let task = client.start_task(StartTask { config, key, ..Default::default() }).await.unwrap();
    let said: Vec<_> = (0..40)
        .map(|day| NewMessage::user(format!("Day {day}: {}", "It rained again. ".repeat(12))))
        .collect();
    let added = task.append_many(stream::iter(said)).await.unwrap();
    assert_eq!(added.try_collect::<Vec<_>>().await.unwrap().len(), 40);
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_compresses_and_takes_it_back_while_an_agent_works() {
    let server = TestServer::start().await;
    let task = started(&server.client().await).await;
    let (code, out, told) = run(&server, &["compress", task.uuid()]);
    assert_eq!(code, 0, "{told}");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0], "did       summarize by extractive, summary 1");
    assert!(lines[1].starts_with("messages  40 → 6 (35 went)"), "{out}");
    assert!(lines[2].starts_with("tokens    ") && lines[3].starts_with("pressure  NORMAL ("), "{out}");
    let stages: Vec<_> = told.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(stages, ["extracting", "summarizing", "publishing"]);

    let shown = said(&server, &["show", task.uuid(), "--messages", "0"]);
    assert!(shown.contains("\nlatest    summary 1 of 1–35 ("), "{shown}");
    assert!(!shown.contains("\nbreaker") && !shown.contains("\ninherited"), "{shown}");
    let shown: Value =
        serde_json::from_str(&said(&server, &["show", task.uuid(), "--output", "json"])).unwrap();
    assert_eq!(shown["task"]["latest_summary"]["end_seq"], 35);
    assert_eq!(shown["task"]["pressure"]["incompressible"], false);

    assert_eq!(
        said(&server, &["compress", task.uuid()]),
        "nothing was compressed: there are too few messages that may go\n"
    );
    let undone = said(&server, &["undo", task.uuid()]);
    assert!(undone.starts_with("undone    generation 2\npressure  NORMAL (57"), "{undone}");
    let (code, _, complaint) = run(&server, &["undo", task.uuid()]);
    assert_eq!(code, 2);
    assert!(complaint.starts_with("contextstore: "), "{complaint}");

    let flags = ["--strategy", "window", "--target-tokens", "900", "--output", "json"];
    let done: Value =
        serde_json::from_str(&said(&server, &[&["compress", task.uuid()], &flags[..]].concat())).unwrap();
    assert_eq!((&done["compressed"], &done["strategy"]), (&true.into(), &"window".into()));
    let undone: Value =
        serde_json::from_str(&said(&server, &["undo", task.uuid(), "--output", "json"])).unwrap();
    assert_eq!(undone["generation"], 4);
    // What is to be otherwise this time.
    for (flags, strategy, kept) in [
        (&["--set", "compression.keep_recent_messages=12"][..], "summarize", 13),
        (&["--strategy", "window", "--set", "window.messages=7", "--set", "window.tokens=9000"], "window", 8),
        (&["--strategy", "prune", "--set", "prune.target=0.01", "--set", "prune.weights.role=0"], "prune", 4),
    ] {
        let flags = [&["compress", task.uuid(), "--output", "json"], flags].concat();
        let done: Value = serde_json::from_str(&said(&server, &flags)).unwrap();
        assert_eq!((&done["strategy"], &done["messages_after"]), (&strategy.into(), &kept.into()), "{done}");
        said(&server, &["undo", task.uuid()]);
    }
    for (set, why) in [
        ("prune.target", "KEY=VALUE"),
        ("prune.keywords=x", "prune.keywords"),
        ("keep_recent_messages=3", "keep_recent_messages"),
        ("window.messages=many", "invalid digit"),
        ("compression.structured=yes", "true"),
        ("prune.target=7", "prune.target"),
    ] {
        let (code, out, complaint) = run(&server, &["compress", task.uuid(), "--set", set]);
        assert_eq!((code, out.as_str()), (2, ""), "{set}: {complaint}");
        assert!(complaint.contains(why), "{set}: {complaint}");
    }
    // The agent has noticed nothing.
    assert_eq!(task.append(NewMessage::user("On.")).await.unwrap().seq, 41);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_can_be_taken_up() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let task = started(&client).await;
    task.compress(Compress::default()).await.unwrap();
    let uuid = said(&server, &["fork", task.uuid(), "--at", "3"]).trim_end().to_owned();
    let fork = client.resume_task(&uuid).await.unwrap();
    assert_eq!(fork.append(NewMessage::user("Elsewhere.")).await.unwrap().seq, 4);
    let made: Value =
        serde_json::from_str(&said(&server, &["fork", task.uuid(), "--output", "json"])).unwrap();
    assert_eq!((&made["status"], &made["last_seq"]), (&"paused".into(), &40.into()));
    let (code, out, complaint) = run(&server, &["fork", task.uuid(), "--at", "99"]);
    assert_eq!((code, out.as_str()), (2, ""), "{complaint}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_over_is_shown_by_a_server_and_from_a_directory() {
    let mut server = TestServer::start().await;
    let client = server.client().await;
    let first = started(&client).await;
    first.complete("The roof was mended.").await.unwrap();
    let inherit = Inherit::From(first.uuid().to_owned());
    let second = client.start_task(StartTask { inherit, ..Default::default() }).await.unwrap();
    let expected = format!("\ninherited from {}\n", first.uuid());
    let online = said(&server, &["show", second.uuid()]);
    assert!(online.contains(&expected), "{online}");
    server.kill();
    assert!(said(&server, &["show", second.uuid()]).contains(&expected));

    // Changing needs a server.
    for command in ["compress", "undo", "fork"] {
        let (code, _, complaint) = run(&server, &[command, second.uuid()]);
        assert_eq!(code, 2, "{command}");
        assert!(complaint.contains("no connection to unix:"), "{complaint}");
    }
}

#[test]
fn bad_arguments_name_the_flag() {
    let uuid = "018f6b2e-5c1a-7d3e-9a41-000000000001";
    let cases: &[(&[&str], &str)] = &[
        (&["compress"], "<UUID>"),
        (&["compress", uuid, "--strategy", "shrink"], "[possible values: summarize, compact, prune, window]"),
        (&["compress", uuid, "--target-tokens", "0"], "--target-tokens"),
        (&["undo", "17"], "task_uuid is not a UUID like"),
        (&["fork", uuid, "--at", "0"], "--at"),
    ];
    for (arguments, problem) in cases {
        let (code, out, complaint) = TestServer::run(arguments, &[]);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(complaint.contains(problem), "{arguments:?}: {complaint}");
    }
}
