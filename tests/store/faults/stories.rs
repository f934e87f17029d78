//! The stories that are swept: one for every change that can be made to a data directory.

use contextstore_base::infra::fs::sim::SimFs;

use super::sweep::{Between, Story};
use test_support::check::{folders_of, names, path, read};
use test_support::steps::{Act, Say, Step, on, on_second, on_third, say, task_id};

const TWO_CALLS: &str = r#"[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"cat","arguments":"{}"}}]"#;

fn calls() -> Act {
    Act::Say(Say {
        role: "assistant",
        content: "null".to_owned(),
        tool_calls: Some(TWO_CALLS),
        ..Say::default()
    })
}

fn result(id: &'static str) -> Act {
    let content = format!("\"{}\"", "a line of output\\n".repeat(8));
    Act::Say(Say { role: "tool", content, tool_call_id: Some(id), ..Say::default() })
}

fn with_extra(extra: &'static str) -> Act {
    Act::Say(Say { role: "user", content: "\"more\"".to_owned(), extra: Some(extra), ..Say::default() })
}

/// A conversation: 1 system, 2 user, 3 calls, 4 and 5 results, 6 user, 7 with a field OpenAI does not know.
fn talk() -> Vec<Step> {
    let acts = [
        Act::Start,
        say("system", "you are a clerk"),
        say("user", "look around"),
        calls(),
        result("\"c1\""),
        result("\"c2\""),
        say("user", "and now?"),
        with_extra(r#""mood":{"n":1e2}"#),
    ];
    acts.into_iter().map(on).collect()
}

fn short_talk() -> Vec<Step> {
    [Act::Start, say("system", "you are a clerk"), say("user", "hello")].into_iter().map(on).collect()
}

/// A story of the first task.
fn story(name: &'static str, before: Vec<Step>, between: Between, swept: &[Act]) -> Story {
    Story { name, before, between, swept: swept.iter().cloned().map(on).collect(), quarantined: &[] }
}

pub(crate) fn create() -> Story {
    let mut story = story("create", Vec::new(), Between::GoOn, &[Act::Start, say("user", "hello")]);
    story.swept.extend([on_second(Act::Start), on_second(say("user", "me too"))]);
    story
}

/// Appends of every kind, far enough for checkpoints.
pub(crate) fn append() -> Story {
    let mut swept: Vec<Act> = talk().into_iter().skip(1).map(|step| step.act).collect();
    swept.extend([Act::Usage(7), Act::Config("large"), say("assistant", "done"), Act::Look]);
    story("append", vec![on(Act::Start)], Between::GoOn, &swept)
}

/// Appends to a task that has to be opened first.
pub(crate) fn append_cold() -> Story {
    story(
        "append to a closed task",
        talk(),
        Between::Close,
        &[say("user", "again"), say("user", "and again")],
    )
}

pub(crate) fn records() -> Story {
    let swept = [
        Act::Tool("ls"),
        Act::Tool("cat"),
        Act::Plan("first this"),
        Act::Plan("then that"),
        say("user", "go on"),
        Act::Look,
    ];
    story("records", short_talk(), Between::GoOn, &swept)
}

pub(crate) fn rewrite() -> Story {
    let swept = [Act::Summarize(5, 0), say("user", "after it"), Act::Trim(7, 1), Act::Look];
    let mut before = talk();
    before.push(on(Act::Reopen));
    // What was said before the stop is in a view that is known to be synced.
    before.push(on(say("user", "once more")));
    story("rewrite", before, Between::GoOn, &swept)
}

pub(crate) fn undo() -> Story {
    let mut before = talk();
    before.extend([on(Act::Summarize(5, 0)), on(Act::Summarize(6, 1))]);
    let swept = [Act::Undo, say("user", "back"), Act::Rewind(4), say("user", "further back"), Act::Look];
    story("undo and rewind", before, Between::GoOn, &swept)
}

pub(crate) fn pause() -> Story {
    story("pause", talk(), Between::GoOn, &[Act::Pause, Act::Look])
}

pub(crate) fn resume() -> Story {
    let mut before = talk();
    before.push(on(Act::Pause));
    story("resume", before, Between::GoOn, &[Act::Resume, say("user", "here again")])
}

pub(crate) fn complete() -> Story {
    let mut before = talk();
    before.push(on(Act::Summarize(5, 0)));
    story("complete", before, Between::GoOn, &[Act::Complete, Act::Look])
}

pub(crate) fn fail() -> Story {
    let mut before = short_talk();
    before.push(on(Act::Pause));
    story("fail", before, Between::GoOn, &[Act::Fail])
}

pub(crate) fn delete() -> Story {
    let mut story = story("delete", talk(), Between::GoOn, &[Act::Delete]);
    story.before.extend([on_second(Act::Start), on_second(say("user", "I stay"))]);
    story.swept.push(on_second(say("user", "still here")));
    story
}

/// A task that takes over from one that has ended, and gets another system message.
pub(crate) fn inherit() -> Story {
    let mut before = short_talk();
    before.extend([Act::Plan("first this"), Act::Complete].into_iter().map(on));
    let swept = vec![
        on_second(Act::Inherit),
        on_second(say("system", "and a friendly one")),
        on_second(say("user", "go on")),
        on_second(Act::Look),
    ];
    Story { name: "inherit", before, between: Between::GoOn, swept, quarantined: &[] }
}

/// Forks of a task that has ended, with everything a task can have.
pub(crate) fn fork() -> Story {
    let mut before = talk();
    let more = [Act::Tool("ls"), Act::Plan("first this"), Act::Summarize(5, 0), Act::Complete];
    before.extend(more.into_iter().map(on));
    let swept = vec![on_second(Act::Fork(4)), on_second(say("user", "another way")), on_third(Act::Fork(0))];
    let between = Between::Die(|disk| {
        let [folder, id] = dir_of(disk, 0);
        disk.write_file(&path(&[&folder, &id, "outputs", "o1"]), b"all of it").unwrap();
    });
    Story { name: "fork", before, between, swept, quarantined: &[] }
}

pub(crate) fn reopen() -> Story {
    let mut story =
        story("close and open", talk(), Between::GoOn, &[Act::Reopen, say("user", "good morning")]);
    story.before.extend([on_second(Act::Start), on_second(say("user", "x")), on_second(Act::Complete)]);
    story
}

fn dir_of(disk: &SimFs, task: usize) -> [String; 2] {
    let id = task_id(task);
    [folders_of(disk, id)[0].to_owned(), id.to_string()]
}

fn file(disk: &SimFs, task: usize, name: &str) -> Vec<u8> {
    let [folder, id] = dir_of(disk, task);
    read(disk, &path(&[&folder, &id, name])).unwrap()
}

fn put(disk: &SimFs, task: usize, name: &str, bytes: &[u8]) {
    let [folder, id] = dir_of(disk, task);
    disk.write_file(&path(&[&folder, &id, name]), bytes).unwrap();
}

/// Torn tails, files of things that were going on, views that are gone or wrong.
pub(crate) fn recover() -> Story {
    let mut before = talk();
    before.extend([on(Act::Tool("ls")), on_second(Act::Start), on_second(say("user", "I am well"))]);
    let leave = Between::Die(|disk| {
        for name in ["messages.jsonl", "tools.jsonl"] {
            let log = [&file(disk, 0, name)[..], b"{\"seq\":8,\"role\":\"us"].concat();
            put(disk, 0, name, &log);
        }
        for name in ["current.jsonl.next", "current.extra.jsonl.next", "request.json", "checkpoint.json.next"]
        {
            put(disk, 0, name, b"{");
        }
        let [folder, id] = dir_of(disk, 0);
        for top in [".tmp", ".trash"] {
            disk.write_file(&path(&[top, &id, "messages.jsonl"]), b"{").unwrap();
        }
        disk.write_file(&path(&[".tmp", "probe"]), b".").unwrap();
        for name in ["current.jsonl", "index"] {
            disk.remove(&path(&[&folder, &id, name])).unwrap();
        }
        put(disk, 1, "current.jsonl", b"");
        put(disk, 1, "checkpoint.json", b"{}\n");
    });
    let mut story = story("recover", before, leave, &[say("user", "go on"), Act::Look]);
    story.swept.push(on_second(say("user", "so am I")));
    story
}

/// Moves a task's files to another folder, as if the rename had been the other way round.
fn move_to(disk: &SimFs, task: usize, folder: &str, keep: bool) {
    let [from, id] = dir_of(disk, task);
    for name in names(disk, &path(&[&from, &id])) {
        let bytes = read(disk, &path(&[&from, &id, &name])).unwrap();
        disk.write_file(&path(&[folder, &id, &name]), &bytes).unwrap();
    }
    if !keep {
        disk.remove(&path(&[&from, &id])).unwrap();
    }
}

/// The log says completed and paused, the folders do not.
pub(crate) fn recover_moves() -> Story {
    let mut before = talk();
    before.extend([on(Act::Summarize(5, 0)), on(Act::Complete)]);
    before.extend([on_second(Act::Start), on_second(say("user", "me too")), on_second(Act::Pause)]);
    let leave = Between::Die(|disk| {
        move_to(disk, 0, "running", false);
        let [folder, id] = dir_of(disk, 0);
        for name in ["task.json", "final_summary.txt", "summaries.jsonl", "checkpoint.json"] {
            disk.remove(&path(&[&folder, &id, name])).unwrap();
        }
        move_to(disk, 1, "running", false);
    });
    let mut story = story("recover moves", before, leave, &[Act::Look]);
    story.swept.extend([on_second(Act::Resume), on_second(say("user", "go on"))]);
    story
}

/// One task is damaged where it was durable, another is in two folders; a third is well.
pub(crate) fn recover_damage() -> Story {
    let mut before = talk();
    for act in [Act::Start, say("user", "me too")] {
        before.extend([on_second(act.clone()), on_third(act)]);
    }
    let leave = Between::Die(|disk| {
        let mut log = file(disk, 0, "messages.jsonl");
        let middle = log.len() / 2;
        log[middle] ^= 1;
        put(disk, 0, "messages.jsonl", &log);
        // What a checkpoint covers is only read when it is asked for.
        put(disk, 0, "checkpoint.json", b"{}\n");
        move_to(disk, 1, "completed", true);
    });
    let mut story = story("recover beside damage", before, leave, &[]);
    story.swept = vec![on_third(say("user", "I go on"))];
    story.quarantined = &[0, 1];
    story
}
