//! Damage of the three logs: what was never acknowledged is cut off and saved, what was is never served wrong.

use std::fs;

use contextstore_base::model::{Health, StoreError, TaskId};
use contextstore_store::store::{Started, Store};

use super::{
    Place, busy_task, line_starts, messages, names, plan, record, row, start_unsynced, still_serves,
};
use test_support::store::{append, start, view};

#[test]
fn a_tail_torn_at_any_byte_is_cut_off_and_saved() {
    let place = Place::new();
    let store = place.store();
    let task = start(&store, None, "a").unwrap();
    for text in ["one", "two", "three is the last"] {
        append(&store, &task, text).unwrap();
    }
    drop(store);
    let whole = fs::read(place.file(task.id, "messages.jsonl")).unwrap();
    let starts = line_starts(&whole);
    let last = starts[starts.len() - 2];
    for cut in last..whole.len() {
        let torn = Place::new();
        copy_task(&place, &torn, task.id);
        fs::write(torn.file(task.id, "messages.jsonl"), &whole[..cut]).unwrap();
        let store = torn.store();
        let saved = torn.file(task.id, &format!("messages.jsonl.cut.{last}"));
        if cut == last {
            // Nothing of the line is there: nothing is cut.
            assert!(!saved.exists());
        } else {
            assert_eq!(fs::read(&saved).unwrap(), &whole[last..cut], "cut at {cut}");
        }
        assert_eq!(fs::read(torn.file(task.id, "messages.jsonl")).unwrap(), &whole[..last], "cut at {cut}");
        assert_eq!(messages(&store, task.id).unwrap().len(), 2, "cut at {cut}");
        assert_eq!(view(&store, task.id, None).unwrap().lines().count(), 2, "cut at {cut}");
        assert_eq!(append(&store, &task, "anew").unwrap(), 3, "cut at {cut}");
        assert_eq!(row(&store, task.id).health, Health::Ok);
    }
}

#[test]
fn a_second_cut_at_the_same_byte_does_not_overwrite_the_first() {
    let place = Place::new();
    let task = start(&place.store(), None, "a").unwrap();
    let path = place.file(task.id, "messages.jsonl");
    let whole = fs::read(&path).unwrap();
    for tail in ["first", "second"] {
        fs::write(&path, [&whole[..], tail.as_bytes()].concat()).unwrap();
        drop(place.store());
    }
    let saved = format!("messages.jsonl.cut.{}", whole.len());
    assert_eq!(fs::read(place.file(task.id, &saved)).unwrap(), b"first");
    assert_eq!(fs::read(place.file(task.id, &format!("{saved}.2"))).unwrap(), b"second");
}

#[test]
fn a_hole_in_a_batch_that_was_never_synced_is_cut_off_with_what_follows() {
    let place = Place::new();
    let store = place.store();
    let (task, other) = (start_unsynced(&store), start(&store, None, "b").unwrap());
    for text in ["one", "two", "lost", "whole", "whole too"] {
        append(&store, &task, text).unwrap();
    }
    drop(store);
    let path = place.file(task.id, "messages.jsonl");
    let mut log = fs::read(&path).unwrap();
    let starts = line_starts(&log);
    let (from, to) = (starts[starts.len() - 4], starts[starts.len() - 3]);
    log[from..to].fill(0);
    fs::write(&path, &log).unwrap();

    let store = place.store();
    assert_eq!(messages(&store, task.id).unwrap().len(), 2);
    assert_eq!(fs::read(place.file(task.id, &format!("messages.jsonl.cut.{from}"))).unwrap(), &log[from..]);
    assert_eq!(row(&store, task.id).health, Health::Ok);
    assert_eq!(append(&store, &task, "three").unwrap(), 3);
    still_serves(&store, &[&task, &other]);
}

#[test]
fn a_flipped_bit_in_acknowledged_messages_puts_that_task_into_quarantine() {
    let place = Place::new();
    let store = place.store();
    let (task, other) = (start(&store, None, "a").unwrap(), start(&store, None, "b").unwrap());
    for number in 0..6 {
        append(&store, &task, &format!("message {number}")).unwrap();
    }
    append(&store, &other, "healthy").unwrap();
    drop(store);
    let whole = fs::read(place.file(task.id, "messages.jsonl")).unwrap();
    let starts = line_starts(&whole);
    // The last line but one is known to be durable by the last one; the last one itself is not.
    let acknowledged = starts[starts.len() - 2];
    let newlines = starts[1..starts.len() - 1].iter().map(|start| start - 1);
    let sample: Vec<usize> = (0..acknowledged).step_by(17).chain(newlines).collect();
    for (turn, &byte) in sample.iter().enumerate() {
        let damaged = Place::new();
        copy_task(&place, &damaged, task.id);
        copy_task(&place, &damaged, other.id);
        let mut log = whole.clone();
        log[byte] ^= 1 << (turn % 8);
        fs::write(damaged.file(task.id, "messages.jsonl"), &log).unwrap();
        let line = starts.iter().filter(|start| **start <= byte).max().copied().unwrap();
        let store = damaged.store();
        quarantined(&damaged, &store, &task, "messages.jsonl", line, &format!("byte {byte}"));
        // Readable up to the damage: two events stand before the first message.
        let before = starts.iter().position(|start| *start == line).unwrap();
        let readable = messages(&store, task.id).unwrap();
        assert_eq!(readable.len(), before.saturating_sub(2), "byte {byte}");
        assert_eq!(view(&store, task.id, None).unwrap().lines().count(), readable.len(), "byte {byte}");
        assert_eq!(fs::read(damaged.task("quarantine", task.id).join("messages.jsonl")).unwrap(), log);
        still_serves(&store, &[&other]);
        drop(store);
        // The next start finds it there and is not stopped by it.
        let (store, _) = damaged.open();
        assert_eq!(row(&store, task.id).health, Health::Quarantined, "byte {byte}");
        still_serves(&store, &[&other]);
    }
}

#[test]
fn a_flipped_bit_in_acknowledged_records_puts_that_task_into_quarantine() {
    let place = Place::new();
    let store = place.store();
    let (task, other) = (start(&store, None, "a").unwrap(), start(&store, None, "b").unwrap());
    append(&store, &task, "hello").unwrap();
    for number in 0..4 {
        record(&store, &task, &format!("tool {number}"));
        plan(&store, &task, &format!("plan {number}"));
    }
    drop(store);
    for name in ["tools.jsonl", "planning.jsonl"] {
        let whole = fs::read(place.file(task.id, name)).unwrap();
        let starts = line_starts(&whole);
        let acknowledged = starts[starts.len() - 2];
        let newlines = starts[1..starts.len() - 1].iter().map(|start| start - 1);
        for (turn, byte) in (0..acknowledged).step_by(29).chain(newlines).enumerate() {
            let damaged = Place::new();
            copy_task(&place, &damaged, task.id);
            copy_task(&place, &damaged, other.id);
            let mut log = whole.clone();
            log[byte] ^= 1 << (turn % 8);
            fs::write(damaged.file(task.id, name), &log).unwrap();
            let line = starts.iter().filter(|start| **start <= byte).max().copied().unwrap();
            let store = damaged.store();
            quarantined(&damaged, &store, &task, name, line, &format!("{name} byte {byte}"));
            assert_eq!(messages(&store, task.id).unwrap().len(), 1);
            still_serves(&store, &[&other]);
        }
    }
}

#[test]
fn torn_tails_of_records_are_cut_off_and_saved() {
    for name in ["tools.jsonl", "planning.jsonl"] {
        let place = Place::new();
        let store = place.store();
        let task = start(&store, None, "a").unwrap();
        for number in 0..3 {
            record(&store, &task, &format!("tool {number}"));
            plan(&store, &task, &format!("plan {number}"));
        }
        drop(store);
        let whole = fs::read(place.file(task.id, name)).unwrap();
        let starts = line_starts(&whole);
        let last = starts[starts.len() - 2];
        for cut in (last..whole.len()).step_by(7) {
            let torn = Place::new();
            copy_task(&place, &torn, task.id);
            fs::write(torn.file(task.id, name), &whole[..cut]).unwrap();
            let store = torn.store();
            if cut > last {
                let saved = torn.file(task.id, &format!("{name}.cut.{last}"));
                assert_eq!(fs::read(saved).unwrap(), &whole[last..cut], "{name} cut at {cut}");
            }
            let next =
                if name == "tools.jsonl" { record(&store, &task, "t") } else { plan(&store, &task, "p") };
            assert_eq!(next, 3, "{name} cut at {cut}");
        }
    }
}

#[test]
fn a_log_shorter_than_the_checkpoint_knows_puts_that_task_into_quarantine() {
    for name in ["messages.jsonl", "tools.jsonl", "planning.jsonl"] {
        let place = Place::new();
        let store = place.store();
        let (task, other) = (busy_task(&store), start(&store, None, "b").unwrap());
        store.close().unwrap();
        let path = place.file(task.id, name);
        let whole = fs::read(&path).unwrap();
        let starts = line_starts(&whole);
        // A whole number of lines: only the checkpoint knows that one is gone.
        let kept = starts[starts.len() - 2];
        fs::write(&path, &whole[..kept]).unwrap();
        let store = place.store();
        assert!(matches!(append(&store, &task, "no"), Err(StoreError::Quarantined { .. })), "{name}");
        quarantined(&place, &store, &task, name, kept, name);
        still_serves(&store, &[&other]);
    }
}

#[test]
fn missing_truth_puts_that_task_into_quarantine() {
    for name in ["metadata.json", "messages.jsonl", "tools.jsonl"] {
        let place = Place::new();
        let store = place.store();
        let (task, other) = (busy_task(&store), start(&store, None, "b").unwrap());
        store.close().unwrap();
        if name == "metadata.json" {
            // The catalog has a copy of it.
            for name in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
                let _ = fs::remove_file(place.root().join(name));
            }
        }
        fs::remove_file(place.file(task.id, name)).unwrap();
        for _ in 0..2 {
            let store = place.store();
            assert!(append(&store, &task, "no").is_err(), "{name}");
            assert!(start(&store, Some(task.id), "c").is_err(), "{name}");
            assert_eq!(row(&store, task.id).health, Health::Quarantined, "{name}");
            still_serves(&store, &[&other]);
        }
        assert!(names(&place.task("quarantine", task.id)).contains(&"quarantine.json".to_owned()), "{name}");
    }
}

#[test]
fn damage_below_a_checkpoint_is_never_served() {
    let place = Place::new();
    let store = place.store();
    let task = start(&store, None, "a").unwrap();
    for number in 0..6 {
        append(&store, &task, &format!("message {number}")).unwrap();
    }
    store.close().unwrap();
    let path = place.file(task.id, "messages.jsonl");
    let mut log = fs::read(&path).unwrap();
    let middle = line_starts(&log)[4] + 100;
    log[middle] ^= 4;
    fs::write(&path, &log).unwrap();
    let store = place.store();
    assert!(matches!(messages(&store, task.id), Err(StoreError::Damaged { .. })));
    assert!(matches!(store.message(task.id, 3), Err(StoreError::Damaged { .. })));
    // The view is a file of its own, and that is whole.
    assert_eq!(view(&store, task.id, None).unwrap().lines().count(), 6);
}

/// Asserts that a task can only be read, and that its note says where the damage is.
fn quarantined(place: &Place, store: &Store, task: &Started, file: &str, offset: usize, what: &str) {
    assert!(matches!(append(store, task, "no"), Err(StoreError::Quarantined { .. })), "{what}");
    assert!(matches!(start(store, Some(task.id), "a"), Err(StoreError::Quarantined { .. })), "{what}");
    let dir = place.task("quarantine", task.id);
    let note = fs::read_to_string(dir.join("quarantine.json")).unwrap();
    let note: serde_json::Value = serde_json::from_str(&note).unwrap();
    assert_eq!(note["uuid"], task.id.to_string(), "{what}");
    assert_eq!(note["from"], "running", "{what}");
    assert_eq!(note["offset"], offset, "{what}: {note}");
    assert!(note["file"].as_str().unwrap().ends_with(file), "{what}: {note}");
    assert!(!place.task("running", task.id).exists(), "{what}");
    assert_eq!(row(store, task.id).health, Health::Quarantined, "{what}");
}

fn copy_task(from: &Place, to: &Place, id: TaskId) {
    let target = to.task("running", id);
    fs::create_dir_all(&target).unwrap();
    for name in names(&from.task("running", id)) {
        fs::copy(from.file(id, &name), target.join(name)).unwrap();
    }
}
