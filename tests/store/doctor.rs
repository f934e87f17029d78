//! `contextstore doctor` from outside: what it finds, what it says, what it repairs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use contextstore_base::model::json::Json;
use contextstore_base::model::{
    Health, Literal, LiteralKind, NewMessage, Plan, Role, Segment, StoreError, SummaryRecord, TaskFilter,
    TaskOrder, ToolCall, ToolStatus,
};
use contextstore_store::store::{Append, NewRewrite, Started, Store, StoreOptions};

use test_support::store::{append, caller, start};

/// A data directory with a running, a paused and a completed task that have every kind of file.
struct Place {
    dir: tempfile::TempDir,
    running: Started,
    completed: Started,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let running = busy_task(&store);
        let paused = busy_task(&store);
        store.pause_task(paused.id, &caller(paused.lease_generation)).unwrap();
        let completed = busy_task(&store);
        let summary = Some("All done.".to_owned());
        store.complete_task(completed.id, summary, &caller(completed.lease_generation)).unwrap();
        store.close().unwrap();
        Self { dir, running, completed }
    }

    fn running(&self, file: &str) -> PathBuf {
        self.dir.path().join("running").join(self.running.id.to_string()).join(file)
    }

    fn completed(&self, file: &str) -> PathBuf {
        self.dir.path().join("completed").join(self.completed.id.to_string()).join(file)
    }

    /// Opens the running task, and closes everything in order.
    fn use_running(&self) {
        let store = open(self.dir.path());
        store.task_info(self.running.id).unwrap();
        store.close().unwrap();
    }

    fn doctor(&self, more: &[&str]) -> (i32, String) {
        doctor(self.dir.path(), more)
    }

    /// Finds a problem that names a file, repairs it, and finds nothing after.
    fn is_repaired(&self, about: &str) {
        let (code, said) = self.doctor(&[]);
        assert_eq!(code, 1, "{said}");
        assert!(
            said.lines().any(|line| line.starts_with("problem: ") && line.contains(about)),
            "{about}\n{said}"
        );
        assert!(said.contains("(--repair mends this without loss)"), "{said}");
        let (code, said) = self.doctor(&["--repair"]);
        assert_eq!(code, 0, "{said}");
        let (code, said) = self.doctor(&[]);
        assert_eq!(code, 0, "{said}");
        assert!(said.ends_with("nothing is wrong\n"), "{said}");
    }
}

fn options() -> StoreOptions {
    StoreOptions { ballast_bytes: 0, ..StoreOptions::default() }
}

fn open(dir: &Path) -> Store {
    Store::open(dir, options()).unwrap().0
}

fn doctor(dir: &Path, more: &[&str]) -> (i32, String) {
    let output: Output = Command::new(test_support::program("contextstore"))
        .arg("doctor")
        .args(more)
        .arg("--data-dir")
        .arg(dir)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

fn busy_task(store: &Store) -> Started {
    let task = start(store, None, "agent").unwrap();
    let by = caller(task.lease_generation);
    for number in 0..20 {
        append(store, &task, &format!("message {number} {}", "x".repeat(number * 300))).unwrap();
    }
    let odd = NewMessage::from_json(r#"{"role":"assistant","content":"hm","thinking":"…","reasoning":[1]}"#)
        .unwrap();
    store.append(task.id, &Append { message: odd, caller: by.clone() }).unwrap();
    let literal = Literal {
        role: Role::User,
        content: Json::text("[Summary of messages 1–10]"),
        kind: LiteralKind::Summary,
        tokens: 9,
        summary: None,
    };
    let record = SummaryRecord {
        id: 0,
        start_seq: 1,
        end_seq: 10,
        summary: "they talked".to_owned(),
        compressed_message_count: 10,
        original_tokens: 10,
        summary_tokens: 3,
        tokens_saved: 7,
        ratio: 0.3,
        strategy: "summarize".to_owned(),
        model: String::new(),
        timestamp: "2026-01-01T00:00:00Z".parse().unwrap(),
        sections: None,
    };
    let rewrite = NewRewrite {
        strategy: "summarize".to_owned(),
        base: 0,
        covers: 20,
        reason: "a test".to_owned(),
        segments: vec![Segment::Literal(literal), Segment::keep(11, 20)],
        summaries: vec![record],
    };
    assert_eq!(store.rewrite(task.id, &rewrite, &by).unwrap(), 1);
    append(store, &task, "after the summary").unwrap();
    let call = ToolCall {
        tool_name: "ls".to_owned(),
        arguments: Some(Json::parse(r#"{"path":"."}"#).unwrap()),
        result: Some(Json::text("a b c")),
        output_ref: None,
        status: ToolStatus::Success,
        error: None,
        duration_ms: Some(3),
        message_seq: None,
    };
    store.record_tool_call(task.id, &call, &by).unwrap();
    store
        .append_plan(task.id, &Plan { plan_type: "initial".to_owned(), plan_content: Json::text("go") }, &by)
        .unwrap();
    task
}

#[test]
fn a_healthy_directory_is_clean_and_untouched() {
    let place = Place::new();
    let before = fs::read(place.running("checkpoint.json")).unwrap();
    let (code, said) = place.doctor(&[]);
    assert_eq!((code, said.as_str()), (0, "3 tasks and 83 log lines checked: nothing is wrong\n"));
    assert_eq!(fs::read(place.running("checkpoint.json")).unwrap(), before);
    assert_eq!(place.doctor(&["--repair"]).0, 0);
}

#[test]
fn views_that_are_not_what_the_log_gives_are_made_again() {
    let place = Place::new();
    for file in ["current.jsonl", "current.extra.jsonl", "summaries.jsonl", "index"] {
        let path = place.running(file);
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        fs::write(&path, &bad).unwrap();
        place.is_repaired(file);
        assert_eq!(fs::read(&path).unwrap(), good, "{file}");
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        place.is_repaired(file);
        assert_eq!(fs::read(&path).unwrap(), good, "{file}");
    }
}

#[test]
fn a_checkpoint_that_lies_is_found() {
    let place = Place::new();
    let path = place.running("checkpoint.json");
    let text = fs::read_to_string(&path).unwrap().replace(r#""llm_calls":0"#, r#""llm_calls":7"#);
    let covered = &text[..text.find(r#","crc":""#).unwrap()];
    fs::write(&path, format!("{covered},\"crc\":\"{:08x}\"}}\n", crc32fast::hash(covered.as_bytes())))
        .unwrap();
    place.is_repaired("checkpoint.json");
    // One that cannot be read counts as none to a server, but something has happened to the disk.
    fs::write(&path, "nothing").unwrap();
    place.is_repaired("checkpoint.json");
}

#[test]
fn files_of_an_ended_task_are_made_again() {
    for file in ["task.json", "final_summary.txt"] {
        let place = Place::new();
        let good = fs::read(place.completed(file)).unwrap();
        fs::remove_file(place.completed(file)).unwrap();
        place.is_repaired(file);
        assert_eq!(fs::read(place.completed(file)).unwrap(), good, "{file}");
        fs::write(place.completed(file), "{}").unwrap();
        place.is_repaired(file);
        assert_eq!(fs::read(place.completed(file)).unwrap(), good, "{file}");
    }
}

#[test]
fn a_torn_tail_is_cut_and_kept() {
    let place = Place::new();
    let log = place.running("messages.jsonl");
    let good = fs::read(&log).unwrap();
    let mut torn = good.clone();
    torn.extend_from_slice(br#"{"seq":23,"role":"user","timest"#);
    fs::write(&log, torn).unwrap();
    place.is_repaired("messages.jsonl");
    assert_eq!(fs::read(&log).unwrap(), good);
    let (_, said) = place.doctor(&[]);
    assert!(said.contains("note: ") && said.contains(".cut."), "{said}");
}

#[test]
fn damage_of_what_was_acknowledged_is_set_apart_and_the_rest_is_fine() {
    let place = Place::new();
    let log = place.running("messages.jsonl");
    let mut bytes = fs::read(&log).unwrap();
    bytes[1000] ^= 1;
    let line = bytes[..1000].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&log, bytes).unwrap();
    let (code, said) = place.doctor(&[]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("damage: ") && said.contains("1 damaged task (--repair sets this apart)"),
        "{said}"
    );
    let (code, said) = place.doctor(&["--repair"]);
    // Somebody has to look at it, so it stays an alarm.
    assert_eq!(code, 1, "{said}");
    // The one place that is told is that of the line.
    let (_, again) = place.doctor(&[]);
    let told = format!("messages.jsonl: at byte {line}: the checksum does not match; it was acknowledged");
    assert!(again.contains(&told) && again.matches("byte").count() == 1, "{told}: {again}");
    assert!(said.contains("set apart: ") && said.contains("1 thing for your attention"), "{said}");
    assert!(!log.exists());
    // What lies before the damage can be read.
    let store = open(place.dir.path());
    assert!(store.message(place.running.id, 1).unwrap().contains("message 0"));
    assert!(test_support::store::view(&store, place.running.id, None).unwrap().contains("message 0"));
    assert!(matches!(append(&store, &place.running, "no"), Err(StoreError::Quarantined { .. })));
    store.delete_task(place.running.id, &caller(0)).unwrap();
    store.close().unwrap();
    assert_eq!(place.doctor(&[]).0, 0);
}

#[test]
fn a_half_done_move_is_finished() {
    let place = Place::new();
    let wrong = place.dir.path().join("running").join(place.completed.id.to_string());
    fs::rename(place.completed(""), wrong).unwrap();
    place.is_repaired("is completed, so it belongs into completed");
    assert!(place.completed("task.json").exists());
}

#[test]
fn a_catalog_that_is_missing_or_wrong_is_made_again() {
    let place = Place::new();
    fs::remove_file(place.dir.path().join("tasks.db")).unwrap();
    place.is_repaired("tasks.db");
    fs::write(place.dir.path().join("tasks.db"), "no database").unwrap();
    place.is_repaired("tasks.db");
    fs::remove_dir_all(place.running("")).unwrap();
    let (code, said) = place.doctor(&[]);
    assert_eq!(code, 1);
    assert!(said.contains("attention: ") && said.contains("which is nowhere"), "{said}");
    assert_eq!(place.doctor(&["--repair"]).0, 1);
    fs::remove_file(place.dir.path().join("tasks.db")).unwrap();
    assert_eq!(place.doctor(&["--repair"]).0, 0);
}

#[test]
fn leftovers_and_open_permissions_are_put_right() {
    let place = Place::new();
    fs::write(place.running("current.jsonl.next"), "x").unwrap();
    place.is_repaired("current.jsonl.next");
    fs::create_dir(place.dir.path().join(".tmp/x")).unwrap();
    place.is_repaired(".tmp/x");
    fs::set_permissions(place.running("messages.jsonl"), fs::Permissions::from_mode(0o644)).unwrap();
    place.is_repaired("can be read by others (mode 644)");
    fs::write(place.running("notes.txt"), "mine").unwrap();
    fs::set_permissions(place.running("notes.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    let (code, said) = place.doctor(&[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("it is left alone"), "{said}");
}

#[test]
fn the_same_id_twice_is_set_apart() {
    let place = Place::new();
    let twin = place.dir.path().join("paused").join(place.running.id.to_string());
    fs::create_dir(&twin).unwrap();
    for file in ["metadata.json", "messages.jsonl"] {
        fs::copy(place.running(file), twin.join(file)).unwrap();
    }
    let (code, said) = place.doctor(&[]);
    assert_eq!(code, 1);
    assert!(said.contains("the same id is in running and paused"), "{said}");
    let (_, said) = place.doctor(&["--repair"]);
    assert!(said.contains("set apart: "), "{said}");
    assert!(!twin.exists() && !place.running("").exists());
}

#[test]
fn a_directory_in_use_can_be_looked_at_but_not_repaired() {
    let place = Place::new();
    let store = open(place.dir.path());
    let task = start(&store, Some(place.running.id), "agent").unwrap();
    append(&store, &task, "meanwhile").unwrap();
    let (code, said) = place.doctor(&[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("process {} uses the directory", std::process::id())), "{said}");
    let (code, said) = place.doctor(&["--repair"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains(&format!("is in use by process {}", std::process::id())), "{said}");
    store.close().unwrap();
}

#[test]
fn a_link_in_place_of_a_view_is_one_problem_and_not_followed() {
    let place = Place::new();
    let elsewhere = place.dir.path().join(".elsewhere");
    fs::rename(place.running("current.jsonl"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.running("current.jsonl")).unwrap();
    place.is_repaired("current.jsonl");
    assert!(fs::symlink_metadata(place.running("current.jsonl")).unwrap().is_file());
    fs::remove_file(place.running("current.jsonl")).unwrap();
    place.is_repaired("it is missing");
}

#[test]
fn the_directories_of_others_are_not_touched() {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(home.path().join("project")).unwrap();
    fs::create_dir(home.path().join(".tmp")).unwrap();
    fs::write(home.path().join(".tmp/mine"), "x").unwrap();
    for more in [&[][..], &["--repair"]] {
        let (code, said) = doctor(home.path(), more);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("it is not a data directory"), "{said}");
    }
    let opened = Store::open(home.path(), options()).map(drop);
    assert!(matches!(opened, Err(StoreError::BadDataDir { .. })), "{opened:?}");
    assert_eq!(fs::metadata(home.path()).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    assert!(home.path().join(".tmp/mine").exists());
}

#[test]
fn what_is_not_there_is_said() {
    let (code, said) = doctor(Path::new("/nowhere/at/all"), &[]);
    assert_eq!(code, 2);
    assert!(said.contains("/nowhere/at/all cannot be used"), "{said}");
}

/// What a damaged log has lost may be in its views alone: a repair leaves them as they are.
#[test]
fn a_repair_keeps_the_last_copy_of_what_a_log_has_lost() {
    let place = Place::new();
    let log = place.running("messages.jsonl");
    let len = usize::try_from(fs::metadata(&log).unwrap().len()).unwrap();
    let views = ["current.jsonl", "current.extra.jsonl", "summaries.jsonl"];
    let kept = views.map(|view| fs::read(place.running(view)).unwrap());
    fs::write(&log, vec![0; len]).unwrap();
    // Something that a repair would make again, beside it.
    fs::remove_file(place.running("messages.idx")).unwrap_or_default();
    for _ in 0..2 {
        let (_, said) = place.doctor(&["--repair"]);
        assert!(said.contains("quarantine"), "{said}");
        let aside = place.dir.path().join("quarantine").join(place.running.id.to_string());
        for (view, bytes) in views.iter().zip(&kept) {
            assert!(fs::read(aside.join(view)).is_ok_and(|found| found == *bytes), "{view}\n{said}");
        }
    }
}

#[test]
fn a_damaged_checkpoint_is_found() {
    let place = Place::new();
    let mut bytes = fs::read(place.running("checkpoint.json")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(place.running("checkpoint.json"), bytes).unwrap();
    place.is_repaired("checkpoint.json");
}

/// Without its checksum, as older versions wrote it.
fn unseal(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let (text, _) = text.split_once(",\"crc\":").unwrap();
    fs::write(path, format!("{text}}}\n")).unwrap();
}

#[test]
fn damaged_metadata_is_restored_from_a_copy() {
    let place = Place::new();
    for path in [place.running("metadata.json"), place.completed("metadata.json")] {
        let whole = fs::read_to_string(&path).unwrap();
        let aside = path.with_file_name("metadata.json.damaged");
        // A value, a name, the checksum, all of it, and the file itself.
        let flipped = |from: &str, to: &str| Some(whole.replacen(from, to, 1));
        for damage in [
            flipped("\"hostname\":\"", "\"hostname\":\"x"),
            flipped("created_at", "creat%d_at"),
            flipped("\"crc\":\"", "\"csc\":\""),
            Some(String::new()),
            Some("\0".repeat(whole.len())),
            None,
        ] {
            match &damage {
                Some(damage) => fs::write(&path, damage).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            place.is_repaired("metadata.json");
            assert_eq!(fs::read_to_string(&path).unwrap(), whole, "{damage:?}");
            // What stood there is kept.
            assert_eq!(fs::read_to_string(&aside).ok(), damage);
            let _ = fs::remove_file(&aside);
        }
        // A task is restored when it is used, too.
        fs::write(&path, whole.replacen("\"user\":\"", "\"user\":\"x", 1)).unwrap();
        let store = open(place.dir.path());
        let id = if path.starts_with(place.dir.path().join("running")) {
            &place.running
        } else {
            &place.completed
        };
        store.task_info(id.id).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        store.close().unwrap();
        fs::remove_file(&aside).unwrap();
    }
}

#[test]
fn the_majority_decides_about_metadata_without_a_checksum() {
    let place = Place::new();
    let (running, completed) = (place.running("metadata.json"), place.completed("metadata.json"));
    for path in [&running, &completed] {
        unseal(path);
    }
    let (code, said) = place.doctor(&[]);
    assert_eq!(code, 0, "{said}");
    let whole = fs::read_to_string(&completed).unwrap();
    // Two copies against the file.
    fs::write(&completed, whole.replacen("\"user\":\"", "\"user\":\"x", 1)).unwrap();
    place.is_repaired("is not what its copies say");
    let restored = fs::read_to_string(&completed).unwrap();
    assert!(restored.starts_with(whole.trim_end().strip_suffix('}').unwrap()), "{restored}");
    fs::remove_file(completed.with_file_name("metadata.json.damaged")).unwrap();
    // One against one: nothing decides. Whoever opens the task replaces the catalog's copy, so that is kept beside the file.
    let whole = fs::read_to_string(&running).unwrap();
    let flipped = whole.replacen("\"user\":\"", "\"user\":\"x", 1);
    fs::write(&running, &flipped).unwrap();
    let copy = running.with_file_name("metadata.json.copy");
    for (more, about) in
        [(&[][..], "contradict each other"), (&["--repair"], "contradict"), (&[], "a copy that contradicted")]
    {
        let (code, said) = place.doctor(more);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("attention: ") && said.contains(about), "{said}");
        place.use_running();
        assert_eq!(fs::read_to_string(&running).unwrap(), flipped);
        let kept = fs::read_to_string(&copy).unwrap();
        assert!(kept.starts_with(whole.trim_end().strip_suffix('}').unwrap()), "{kept}");
    }
    fs::remove_file(&copy).unwrap();
    fs::write(&running, &whole).unwrap();
    place.use_running();
    fs::remove_file(&copy).unwrap();
    let (code, said) = place.doctor(&[]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_task_in_quarantine_can_be_shown_without_its_metadata() {
    let place = Place::new();
    for name in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
        let _ = fs::remove_file(place.dir.path().join(name));
    }
    fs::write(place.running("metadata.json"), "{").unwrap();
    let (code, said) = place.doctor(&[]);
    assert!(code == 1 && said.contains("and there is no copy of it"), "{said}");
    let (_, said) = place.doctor(&["--repair"]);
    assert!(said.contains("is in quarantine"), "{said}");
    let store = open(place.dir.path());
    let info = store.task_info(place.running.id).unwrap();
    assert!(info.last_seq > 0);
    let listed = store.list_tasks(&TaskFilter::default(), TaskOrder::default(), 100, None).unwrap();
    assert!(listed.rows.iter().any(|row| row.uuid == place.running.id));
}

#[test]
fn damage_that_a_reader_finds_sets_the_task_apart() {
    let place = Place::new();
    let log = place.running("messages.jsonl");
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&log, bytes).unwrap();
    // After an orderly stop nothing is read again, so nobody has noticed yet.
    let store = open(place.dir.path());
    let id = place.running.id;
    append(&store, &place.running, "still taken").unwrap();
    let mut lines = store.lines(id, 1, u64::MAX).unwrap();
    let found = loop {
        match lines.step(|_| ()) {
            Ok(Some(())) => {}
            other => break other,
        }
    };
    assert!(matches!(found, Err(StoreError::Damaged { .. })), "{found:?}");
    assert!(store.has_damage());
    store.set_apart_damaged();
    assert!(!store.has_damage());
    let refused = append(&store, &place.running, "not taken");
    assert!(matches!(refused, Err(StoreError::Quarantined { .. })), "{refused:?}");
    assert_eq!(store.task_info(id).unwrap().row.health, Health::Quarantined);
    assert!(place.dir.path().join("quarantine").join(id.to_string()).join("quarantine.json").exists());
}
