//! Contexts that are made smaller, taken back, forked and taken over through the Rust client, and its hooks.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use contextstore_client::{
    Client, Commit, Compress, Error, ErrorReason, Fork, HookErrors, Inherit, NewMessage, ReadCurrent,
    RetryPolicy, StartTask, Task, v1,
};
use futures_util::{TryStreamExt, stream};
use serde_json::Value;

use test_support::server::{DEADLINE, TestServer, eventually};

/// A conversation of 40 messages with something on each day, behind a system prompt.
async fn started(client: &Client) -> Task {
    let compression = v1::CompressionConfig { auto: Some(false), ..Default::default() };
    let config =
        v1::TaskConfig { context_length: Some(4000), compression: Some(compression), ..Default::default() };
    let system_message = "You keep a diary.".to_owned();
    let start = StartTask { config, system_message, ..Default::default() };
    let task = client.start_task(start).await.unwrap();
    let said = (0..40).map(|day| {
        let text = format!("Day {day}: see src/day_{day}.rs. {}", "It rained again. ".repeat(12));
        if day % 2 == 0 { NewMessage::user(text) } else { NewMessage::assistant(text) }
    });
    let said: Vec<_> = said.collect();
    let added = task.append_many(stream::iter(said)).await.unwrap();
    assert_eq!(added.try_collect::<Vec<_>>().await.unwrap().len(), 40);
    task
}

async fn view(task: &Task) -> Vec<String> {
    let current = task.current(ReadCurrent::default()).await.unwrap();
    let lines: Vec<Bytes> = current.lines().try_collect().await.unwrap();
    let content = |line: &Bytes| serde_json::from_slice::<Value>(line).unwrap()["content"].clone();
    lines.iter().map(|line| content(line).as_str().unwrap().to_owned()).collect()
}

fn reason<T>(answer: Result<T, Error>) -> Option<ErrorReason> {
    answer.err().and_then(|error| error.reason())
}

// features: compress, undo
#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_compressed_and_taken_back() {
    let server = TestServer::start().await;
    for client in [server.client().await, server.tcp_client().await] {
        let task = started(&client).await;
        let before = view(&task).await;
        assert_eq!((before.len(), before[0].as_str()), (41, "You keep a diary."));
        let mut stages = Vec::new();
        let named = task.with_request_id("night-1");
        let done = named
            .compress_with(Compress::default(), |progress| stages.push(progress.stage().name()))
            .await
            .unwrap();
        assert_eq!(stages, ["extracting", "summarizing", "publishing"]);
        assert!(done.compressed && done.summary_author().name() == "extractive", "{done:?}");
        assert_eq!(done.messages_after, view(&task).await.len() as u64);
        let again = named.compress(Compress::default()).await.unwrap();
        assert_eq!((again.compressed, again.duplicate), (true, true));
        assert_eq!((again.summary_id, again.tokens_after), (done.summary_id, done.tokens_after));
        assert_eq!(task.undo_compaction().await.unwrap().generation, 2);
        assert_eq!(view(&task).await, before);
        assert_eq!(reason(task.undo_compaction().await), Some(ErrorReason::NothingToUndo));

        let window = Some(v1::WindowConfig { messages: Some(4), tokens: None });
        let how = Compress { strategy: v1::CompressionStrategy::Window, window, ..Default::default() };
        assert!(task.compress(how).await.unwrap().messages_after <= 6);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_messages_at_once_are_compressed_without_being_asked() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let compression = Some(v1::CompressionConfig { auto: Some(true), ..Default::default() });
    let config = v1::TaskConfig { context_length: Some(3000), compression, ..Default::default() };
    let task = client.start_task(StartTask { config, ..Default::default() }).await.unwrap();
    // All of them are written before the first is durable.
    let said: Vec<_> =
        (0..36).map(|day| NewMessage::user(format!("{day} {}", "It rained. ".repeat(24)))).collect();
    let added = task.append_many(stream::iter(said)).await.unwrap();
    assert_eq!(added.try_collect::<Vec<_>>().await.unwrap().len(), 36);
    let compressed = || async {
        let now = task.get().await.unwrap();
        (now.task.unwrap().view_generation > 0).then_some(now.pressure.unwrap())
    };
    assert!(!eventually(DEADLINE, compressed).await.should_compress);
}

// feature: agent-compaction
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_summarises_by_itself() {
    let server = TestServer::start().await;
    let client = server.builder().retry(RetryPolicy::none()).connect().await.unwrap();
    let task = started(&client).await;
    let mut compaction = task.begin_compaction(Compress::default()).await.unwrap();
    assert!(compaction.begun().summary_tokens > 0 && !compaction.begun().prompt.is_empty());
    let mut told = Vec::new();
    while let Some(line) = compaction.next_message().await.unwrap() {
        told.push(serde_json::from_slice::<Value>(&line).unwrap());
    }
    assert_eq!(told.len() as u64, compaction.begun().messages);
    assert_eq!(told[0]["seq"], 2);
    assert_eq!(reason(compaction.commit("").await), Some(ErrorReason::SummaryRefused));
    let commit = Commit {
        keep_seqs: vec![3],
        model: "me".to_owned(),
        ..Commit::from("It rained for weeks, and the roof leaked.")
    };
    let done = compaction.commit(commit).await.unwrap();
    assert_eq!((done.summary_author().name(), done.model.as_str()), ("agent", "me"));
    compaction.abort().await.unwrap();
    let seen = view(&task).await;
    assert!(
        seen.iter().any(|text| text.contains("the roof leaked.")) && seen[1].starts_with("Day 1:"),
        "{seen:?}"
    );
    task.undo_compaction().await.unwrap();

    // One that is given up, and one that is forgotten, stand in nobody's way.
    task.begin_compaction(Compress::default()).await.unwrap().abort().await.unwrap();
    drop(task.begin_compaction(Compress::default()).await.unwrap());
    let compressed = || async { task.compress(Compress::default()).await.ok() };
    assert!(eventually(DEADLINE, compressed).await.compressed);
}

// features: fork, inheritance
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_forked_and_taken_over() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let task = started(&client).await;
    let fork = task.fork(Fork { at_seq: 3, ..Default::default() }).await.unwrap();
    assert!(fork.is_new() && fork.uuid() != task.uuid());
    assert_eq!(fork.append(NewMessage::user("Elsewhere.")).await.unwrap().seq, 4);
    assert_eq!((view(&fork).await.len(), view(&task).await.len()), (4, 41));
    let late = Fork { at_seq: 99, ..Default::default() };
    assert_eq!(reason(task.fork(late).await), Some(ErrorReason::MessageNotFound));

    let key = v1::TaskKey {
        task_source: "github".to_owned(),
        owner: "octo".to_owned(),
        repo: "hello".to_owned(),
        task_type: "issue".to_owned(),
        task_id: "7".to_owned(),
    };
    let start = || StartTask { key: key.clone(), user: "ada".to_owned(), ..Default::default() };
    let first = client.start_task(start()).await.unwrap();
    assert_eq!((first.inherited_from(), first.inheritance_comment()), ("", ""));
    first.append(NewMessage::user("Fix it.")).await.unwrap();
    assert_eq!(reason(client.inheritance_context(first.uuid(), 0).await), Some(ErrorReason::WrongStatus));
    first.complete("The parser was fixed.").await.unwrap();
    let found = client.previous_contexts(key.clone(), "ada", 0).await.unwrap();
    assert_eq!(found.iter().map(|context| context.task_uuid.as_str()).collect::<Vec<_>>(), [first.uuid()]);
    let context = client.inheritance_context(first.uuid(), 0).await.unwrap();
    assert!(context.text.contains("The parser was fixed.") && !context.truncated, "{context:?}");

    let second = client.start_task(start()).await.unwrap();
    assert_eq!(second.inherited_from(), first.uuid());
    assert!(second.inheritance_comment().contains(first.uuid()), "{}", second.inheritance_comment());
    assert!(view(&second).await.concat().contains("The parser was fixed."));
    let never = StartTask { inherit: Inherit::Never, ..start() };
    assert_eq!(client.start_task(never).await.unwrap().inherited_from(), "");
}

// feature: hooks
#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_before_the_task_ends() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let task = client.start_task(StartTask::default()).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for name in ["first", "second", "first"] {
        let note = |seen: &Arc<Mutex<Vec<String>>>| {
            let seen = Arc::clone(seen);
            move |ending: contextstore_client::Ending| {
                let seen = Arc::clone(&seen);
                async move {
                    let now = ending.task.get().await?.task.unwrap_or_default().status().name();
                    let said = format!("{name} {} {now} {}", ending.status, ending.error_message);
                    seen.lock().unwrap().push(said.trim_end().to_owned());
                    Ok(())
                }
            }
        };
        task.on_stop(name, note(&seen));
        task.on_complete(name, note(&seen));
    }
    let taken = || std::mem::take(&mut *seen.lock().unwrap());
    task.pause().await.unwrap();
    assert_eq!(taken(), ["first paused running", "second paused running"]);
    task.resume().await.unwrap();

    task.on_complete("first", |_| async { Err("broken".into()) });
    task.set_hook_errors(HookErrors::Stop);
    let stopped = task.complete("").await.unwrap_err();
    assert_eq!(stopped.to_string(), "the hook first failed, so the task was not completed: broken");
    assert!(taken().is_empty() && !stopped.is_transient());
    assert_eq!(task.get().await.unwrap().task.unwrap().status().name(), "running");
    task.set_hook_errors(HookErrors::Continue);
    assert_eq!(task.complete("").await.unwrap().status().name(), "completed");
    assert_eq!(taken(), ["second completed running"]);
    let failures: Vec<_> = task.hook_failures().iter().map(|failure| failure.name.clone()).collect();
    assert_eq!(failures, ["first"]);

    let other = client.start_task(StartTask::default()).await.unwrap();
    other.on_stop("slow", |_| async {
        tokio::task::yield_now().await;
        Ok(())
    });
    assert_eq!(other.fail("no luck", "").await.unwrap().error_message, "no luck");
}
