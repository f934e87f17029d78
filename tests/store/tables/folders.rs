//! What stands in the folders: leftovers, moves half done, the same task twice, things that are not ours.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use contextstore_base::infra::fs::sim::SimFs;
use contextstore_base::model::{Health, Status, StoreError, TaskId};
use contextstore_store::store::layout::Folder;
use contextstore_store::store::{Recovered, Store};

use super::{Place, Sim, busy_task, messages, names, no_checkpoints, row, rows, still_serves};
use test_support::store::{append, caller, start, view};

#[test]
fn leftovers_of_a_crash_are_removed() {
    let place = Place::new();
    let store = place.store();
    let task = busy_task(&store);
    let expected = view(&store, task.id, None).unwrap();
    drop(store);
    let half_made = TaskId::new().to_string();
    fs::create_dir_all(place.root().join(".tmp").join(&half_made)).unwrap();
    fs::write(place.root().join(".tmp").join(half_made).join("metadata.json"), "{").unwrap();
    fs::write(place.root().join(".tmp/probe"), "x").unwrap();
    fs::create_dir_all(place.root().join(".trash/x/outputs/deep")).unwrap();
    fs::write(place.root().join(".trash/x/messages.jsonl"), "x").unwrap();
    let transient = [
        "current.jsonl.next",
        "current.extra.jsonl.next",
        "checkpoint.json.next",
        "summaries.jsonl.next",
        "request.json",
        "to_summarize.jsonl",
        "unsummarized.jsonl",
        "x.tmp",
    ];
    for name in transient {
        fs::write(place.file(task.id, name), "left over").unwrap();
    }
    let (store, recovered) = place.open();
    assert_eq!(names(&place.root().join(".tmp")), [""; 0]);
    assert_eq!(names(&place.root().join(".trash")), [""; 0]);
    for name in transient {
        assert!(!place.file(task.id, name).exists(), "{name}");
        let path = format!("running/{}/{name}", task.id);
        assert!(recovered.contains(&Recovered::Removed(path)), "{name}");
    }
    assert_eq!(view(&store, task.id, None).unwrap(), expected);
    still_serves(&store, &[&task]);
}

#[test]
fn leftovers_are_removed_after_an_orderly_stop_too() {
    let place = Place::new();
    place.store().close().unwrap();
    fs::write(place.root().join(".tmp/x"), "x").unwrap();
    fs::write(place.root().join(".trash/x"), "x").unwrap();
    let store = place.store();
    assert_eq!(names(&place.root().join(".tmp")), [""; 0]);
    assert_eq!(names(&place.root().join(".trash")), [""; 0]);
    still_serves(&store, &[]);
}

#[test]
fn files_that_are_not_ours_are_left_alone() {
    let place = Place::new();
    let store = place.store();
    let task = busy_task(&store);
    drop(store);
    let mine = [
        place.root().join("notes.txt"),
        place.root().join("running/README"),
        place.root().join("completed/notes.txt"),
        place.root().join("running").join(TaskId::new().to_string()),
        place.root().join("completed").join(TaskId::new().to_string()),
        place.root().join("quarantine/what"),
        place.root().join("archived/old.tar.zst"),
        place.file(task.id, "my notes.md"),
        place.file(task.id, "messages.jsonl.bak"),
    ];
    for path in &mine {
        fs::write(path, "mine").unwrap();
    }
    let folder = place.root().join("running/not-a-task");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("request.json"), "mine").unwrap();
    for clean in [false, true] {
        let store = place.store();
        still_serves(&store, &[&task]);
        for path in mine.iter().chain([&folder.join("request.json")]) {
            assert_eq!(fs::read(path).unwrap(), b"mine", "{}", path.display());
        }
        if clean {
            store.close().unwrap();
        }
    }
}

#[test]
fn a_move_that_the_log_has_decided_is_finished() {
    for (status, folder) in [
        (Status::Paused, "paused"),
        (Status::Completed, "completed"),
        (Status::Failed, "completed"),
        (Status::Running, "running"),
    ] {
        let place = Place::new();
        let store = place.store();
        let task = busy_task(&store);
        let from = match status {
            Status::Paused => "running",
            Status::Completed => {
                store.complete_task(task.id, Some("done".to_owned()), &caller(1)).unwrap();
                "running"
            }
            Status::Failed => {
                store.fail_task(task.id, "broken".to_owned(), None, &caller(1)).unwrap();
                "running"
            }
            Status::Running => {
                store.pause_task(task.id, &caller(1)).unwrap();
                store
                    .resume_task(task.id, super::holder("b"), &contextstore_store::store::Caller::default())
                    .unwrap();
                "paused"
            }
        };
        if status == Status::Paused {
            store.pause_task(task.id, &caller(1)).unwrap();
        }
        let expected = (rows(&store), view(&store, task.id, None).unwrap());
        drop(store);
        // As it was before the rename: none of what a finished task has is there yet.
        fs::rename(place.task(folder, task.id), place.task(from, task.id)).unwrap();
        for name in ["task.json", "final_summary.txt"] {
            let _ = fs::remove_file(place.task(from, task.id).join(name));
        }
        let (store, recovered) = place.open();
        assert!(recovered.contains(&Recovered::Moved(task.id, status)), "{status:?}: {recovered:?}");
        assert!(!place.task(from, task.id).exists(), "{status:?}");
        assert_eq!((rows(&store), view(&store, task.id, None).unwrap()), expected, "{status:?}");
        let ended = status.is_final();
        assert_eq!(place.task(folder, task.id).join("task.json").exists(), ended, "{status:?}");
        let summary = fs::read_to_string(place.task(folder, task.id).join("final_summary.txt")).ok();
        assert_eq!(summary.as_deref(), (status == Status::Completed).then_some("done\n"), "{status:?}");
    }
}

#[test]
fn the_same_id_in_two_folders_is_refused_and_both_are_kept() {
    let pairs = [("running", "completed"), ("running", "paused"), ("paused", "completed")];
    for (first, second) in pairs {
        // In one case the log of one says that it belongs where the other is: a move half done must not win.
        for decided in [false, true] {
            let place = Place::new();
            let store = place.store();
            let (task, other) = (busy_task(&store), start(&store, None, "b").unwrap());
            if decided {
                store.complete_task(task.id, None, &caller(1)).unwrap();
            }
            drop(store);
            let at = if decided { "completed" } else { "running" };
            let whole = fs::read(place.task(at, task.id).join("messages.jsonl")).unwrap();
            let aside = place.root().join("aside");
            fs::rename(place.task(at, task.id), &aside).unwrap();
            for folder in [first, second] {
                let target = place.task(folder, task.id);
                fs::create_dir(&target).unwrap();
                for name in names(&aside) {
                    fs::copy(aside.join(&name), target.join(name)).unwrap();
                }
            }
            let (store, recovered) = place.open();
            let what = format!("{first} and {second}, {decided}: {recovered:?}");
            assert!(
                recovered
                    .iter()
                    .any(|found| matches!(found, Recovered::Quarantined(id, _) if *id == task.id))
            );
            assert!(
                matches!(start(&store, Some(task.id), "a"), Err(StoreError::Quarantined { .. })),
                "{what}"
            );
            assert!(matches!(append(&store, &task, "no"), Err(StoreError::Quarantined { .. })), "{what}");
            assert!(matches!(store.undo(task.id, &caller(1)), Err(StoreError::Quarantined { .. })), "{what}");
            let paused = store.pause_task(task.id, &caller(1));
            assert!(matches!(paused, Err(StoreError::Quarantined { .. })), "{what}: {paused:?}");
            assert!(store.read_only().is_none(), "{what}");
            assert_eq!(messages(&store, task.id).unwrap().len(), 5, "{what}");
            for name in [task.id.to_string(), format!("{}.2", task.id)] {
                let dir = place.root().join("quarantine").join(name);
                assert_eq!(fs::read(dir.join("messages.jsonl")).unwrap(), whole, "{what}");
                let note = fs::read_to_string(dir.join("quarantine.json")).unwrap();
                assert!(note.contains("the same id is in"), "{note}");
            }
            for folder in [first, second] {
                assert!(!place.task(folder, task.id).exists(), "{what}");
            }
            assert_eq!(row(&store, task.id).health, Health::Quarantined, "{what}");
            still_serves(&store, &[&other]);
        }
    }
}

#[test]
fn a_second_server_is_told_who_holds_the_directory() {
    let place = Place::new();
    let store = place.store();
    let task = busy_task(&store);
    let refused = Store::open(place.root(), no_checkpoints());
    let Err(StoreError::Locked { pid, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(pid, std::process::id().to_string());
    // The refused one has changed nothing.
    assert_eq!(append(&store, &task, "goes on").unwrap(), 6);
    drop(store);
    still_serves(&place.store(), &[&task]);
}

#[test]
fn whoever_takes_the_lock_removes_the_addresses_of_an_earlier_server() {
    let place = Place::new();
    place.store().close().unwrap();
    let addresses = place.root().join("addresses");
    fs::write(&addresses, "tcp:127.0.0.1:50551\n").unwrap();
    let _store = place.store();
    assert!(!addresses.exists());
}

#[test]
fn the_lock_of_a_killed_process_is_free() {
    if std::env::var_os(HOLD).is_some() {
        return hold();
    }
    let place = Place::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tables::folders::the_lock_of_a_killed_process_is_free", "--nocapture"])
        .env(HOLD, place.root())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let ready = place.root().join("ready");
    while !ready.exists() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "the child holds no lock");
        std::thread::yield_now();
    }
    let refused = Store::open(place.root(), no_checkpoints());
    let Err(StoreError::Locked { pid, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(pid, child.id().to_string());
    child.kill().unwrap();
    child.wait().unwrap();
    still_serves(&place.store(), &[]);
}

const HOLD: &str = "CONTEXTSTORE_TEST_HOLD";

/// Runs in the child: holds the lock until it is killed.
fn hold() {
    let dir = std::env::var_os(HOLD).unwrap();
    let _store = Store::open(dir.as_ref(), no_checkpoints()).unwrap();
    fs::write(std::path::Path::new(&dir).join("ready"), "").unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_symlink_in_place_of_a_folder_is_refused() {
    for name in [".tmp", ".trash", "running", "paused", "completed", "quarantine"] {
        let (place, elsewhere) = (Place::new(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("precious"), "keep").unwrap();
        place.store().close().unwrap();
        fs::remove_dir(place.root().join(name)).unwrap();
        symlink(elsewhere.path(), place.root().join(name)).unwrap();
        let refused = Store::open(place.root(), no_checkpoints());
        assert!(matches!(refused, Err(StoreError::BadDataDir { .. })), "{name}: {refused:?}");
        assert_eq!(names(elsewhere.path()), ["precious"], "{name}");
    }
}

#[test]
fn a_symlink_in_place_of_a_task_is_not_followed() {
    for folder in ["running", "paused", "completed", "quarantine"] {
        let (place, elsewhere) = (Place::new(), Place::new());
        let store = elsewhere.store();
        let task = busy_task(&store);
        store.close().unwrap();
        let target = elsewhere.task("running", task.id);
        let before = contents(&target);
        fs::write(target.join("request.json"), "left").unwrap();
        let own = busy_task(&place.store());
        symlink(&target, place.task(folder, task.id)).unwrap();
        let (store, _) = place.open();
        assert!(matches!(append(&store, &task, "no"), Err(StoreError::TaskNotFound { .. })), "{folder}");
        assert!(matches!(view(&store, task.id, None), Err(StoreError::TaskNotFound { .. })), "{folder}");
        let started = start(&store, Some(task.id), "a");
        match (folder, started) {
            ("running", Err(StoreError::TaskExists { .. })) => {}
            // Elsewhere the id is free, and the new task has nothing to do with the link.
            (_, Ok(started)) => assert!(started.created, "{folder}"),
            (_, other) => panic!("{folder}: {other:?}"),
        }
        assert_eq!(rows(&store).iter().filter(|row| row.health != Health::Ok).count(), 0, "{folder}");
        still_serves(&store, &[&own]);
        store.close().unwrap();
        fs::remove_file(target.join("request.json")).unwrap();
        assert_eq!(contents(&target), before, "{folder}");
    }
}

#[test]
fn a_symlink_in_place_of_a_file_is_not_followed() {
    let files = [
        "metadata.json",
        "messages.jsonl",
        "tools.jsonl",
        "current.jsonl",
        "current.extra.jsonl",
        "index",
        "checkpoint.json",
        "summaries.jsonl",
    ];
    for name in files {
        for clean in [true, false] {
            let (place, elsewhere) = (Place::new(), tempfile::tempdir().unwrap());
            let store = place.store();
            let (task, other) = (busy_task(&store), busy_task(&store));
            let expected = view(&store, task.id, None).unwrap();
            if clean {
                store.close().unwrap()
            } else {
                drop(store)
            }
            // What is behind the link would do, if it were followed.
            let target = elsewhere.path().join("target");
            let path = place.file(task.id, name);
            if path.exists() {
                fs::rename(&path, &target).unwrap();
            } else {
                fs::write(&target, "").unwrap();
            }
            symlink(&target, &path).unwrap();
            let before = fs::read(&target).unwrap();
            let (store, _) = place.open();
            let what = format!("{name}, clean {clean}");
            let truth = ["metadata.json", "messages.jsonl", "tools.jsonl"].contains(&name);
            still_serves(&store, &[&other]);
            match append(&store, &task, "more") {
                Ok(seq) => {
                    assert_eq!(seq, 6, "{what}");
                    let more = "{\"role\":\"user\",\"content\":\"more\"}\n";
                    assert_eq!(view(&store, task.id, None).unwrap(), format!("{expected}{more}"), "{what}");
                    assert!(!truth, "{what}");
                }
                // These are opened with the task, and it is refused with them.
                Err(_) => assert!(truth || ["index", "checkpoint.json"].contains(&name), "{what}"),
            }
            let _ = store.complete_task(task.id, None, &caller(1));
            let _ = store.close();
            assert_eq!(fs::read(&target).unwrap(), before, "{what}");
        }
    }
}

#[test]
fn a_symlink_left_in_the_trash_is_removed_and_its_target_stays() {
    let (place, elsewhere) = (Place::new(), tempfile::tempdir().unwrap());
    fs::write(elsewhere.path().join("precious"), "keep").unwrap();
    drop(place.store());
    symlink(elsewhere.path(), place.root().join(".trash/x")).unwrap();
    symlink(elsewhere.path().join("precious"), place.root().join(".tmp/y")).unwrap();
    still_serves(&place.store(), &[]);
    assert_eq!(names(&place.root().join(".trash")), [""; 0]);
    assert_eq!(names(&place.root().join(".tmp")), [""; 0]);
    assert_eq!(fs::read(elsewhere.path().join("precious")).unwrap(), b"keep");
}

#[test]
fn an_empty_task_directory_does_not_stop_the_rest() {
    let place = Place::new();
    let task = busy_task(&place.store());
    let empty = TaskId::new();
    for folder in ["running", "paused", "completed"] {
        fs::create_dir(place.task(folder, TaskId::new())).unwrap();
    }
    fs::create_dir(place.task("running", empty)).unwrap();
    let store = place.store();
    assert!(
        append(
            &store,
            &super::Started { id: empty, lease_generation: 1, created: true, inherited_from: None },
            "no"
        )
        .is_err()
    );
    still_serves(&store, &[&task]);
    drop(store);
    still_serves(&place.store(), &[&task]);
}

#[test]
fn a_directory_where_a_file_should_be_does_not_stop_the_rest() {
    for name in [
        "metadata.json",
        "messages.jsonl",
        "current.jsonl",
        "checkpoint.json",
        "index",
        "request.json",
        "current.jsonl.next",
    ] {
        let place = Place::new();
        let store = place.store();
        let (task, other) = (busy_task(&store), busy_task(&store));
        drop(store);
        let path = place.file(task.id, name);
        let _ = fs::remove_file(&path);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "mine").unwrap();
        let store = place.store();
        still_serves(&store, &[&other]);
        // Whatever can be said of this one: no panic, and nothing inside is touched.
        let _ = append(&store, &task, "maybe");
        let _ = view(&store, task.id, None);
        drop(store);
        let moved = place.task("quarantine", task.id).join(name);
        let inside = if moved.exists() { moved } else { path }.join("inside");
        assert_eq!(fs::read(inside).unwrap(), b"mine", "{name}");
    }
}

fn contents(dir: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    names(dir).into_iter().map(|name| (name.clone(), fs::read(dir.join(name)).unwrap())).collect()
}

#[test]
fn the_names_of_a_new_task_survive_a_power_cut_at_once() {
    for seed in 0..10 {
        let mut sim = Sim::new();
        let store = sim.store();
        let task = start(&store, None, "a").unwrap();
        assert_eq!(append(&store, &task, "hello").unwrap(), 1);
        drop(store);
        sim.crash(seed);
        let fs: &SimFs = &sim.fs;
        assert!(
            fs.read_file(&super::at(Folder::Running, task.id, "messages.jsonl")).is_some(),
            "seed {seed}"
        );
        assert_eq!(append(&sim.store(), &task, "again").unwrap(), 2, "seed {seed}");
    }
}
