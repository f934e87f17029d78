//! A catalog that is missing, damaged or old: a listing tells what the directories say.

use std::fs;
use std::path::PathBuf;

use contextstore_base::model::{Health, Status, StoreError, TaskFilter, TaskId, TaskOrder, TaskRow};
use contextstore_store::store::{Recovered, Started, Store};

use super::{Place, busy_task, names, rows, still_serves};
use test_support::store::{append, caller, start};

/// A running, a paused, a completed and a failed task.
fn some_tasks(store: &Store) -> [Started; 4] {
    let running = busy_task(store);
    let paused = busy_task(store);
    store.pause_task(paused.id, &caller(1)).unwrap();
    let completed = busy_task(store);
    store.complete_task(completed.id, Some("well".to_owned()), &caller(1)).unwrap();
    let failed = start(store, None, "a").unwrap();
    store.fail_task(failed.id, "no luck".to_owned(), None, &caller(1)).unwrap();
    [running, paused, completed, failed]
}

fn database(place: &Place) -> PathBuf {
    place.root().join("tasks.db")
}

/// The database with what SQLite keeps beside it, as it is on disk now.
fn snapshot(place: &Place) -> Vec<(String, Vec<u8>)> {
    let found = names(place.root()).into_iter().filter(|name| name.starts_with("tasks.db"));
    found.map(|name| (name.clone(), fs::read(place.root().join(name)).unwrap())).collect()
}

fn put_back(place: &Place, snapshot: &[(String, Vec<u8>)]) {
    for name in names(place.root()).into_iter().filter(|name| name.starts_with("tasks.db")) {
        fs::remove_file(place.root().join(name)).unwrap();
    }
    for (name, bytes) in snapshot {
        fs::write(place.root().join(name), bytes).unwrap();
    }
}

fn set_aside(place: &Place) -> usize {
    let beside = |name: &str| ["-wal", "-shm", "-journal"].iter().any(|end| name.ends_with(end));
    names(place.root()).iter().filter(|name| name.starts_with("tasks.db.corrupt-") && !beside(name)).count()
}

#[test]
fn a_missing_catalog_is_made_again() {
    let place = Place::new();
    let store = place.store();
    some_tasks(&store);
    let expected = rows(&store);
    assert_eq!(expected.len(), 4);
    drop(store);
    for clean in [true, false] {
        place.store_after(clean);
        put_back(&place, &[]);
        let store = place.store();
        assert_eq!(rows(&store), expected, "after a clean stop: {clean}");
        assert_eq!(set_aside(&place), 0);
    }
}

impl Place {
    /// Opens the directory once more and stops, in order or not; the store is gone when this returns.
    fn store_after(&self, clean: bool) {
        let store = self.store();
        if clean {
            store.close().unwrap();
        }
    }
}

#[test]
fn a_damaged_catalog_is_set_aside_and_made_again() {
    type Spoil = fn(&[u8]) -> Vec<u8>;
    let spoil: [(&str, Spoil); 6] = [
        ("garbage", |_| b"this is no database\n".repeat(500)),
        ("one byte", |_| b"S".to_vec()),
        ("zeros", |_| vec![0; 8192]),
        ("a zeroed header", |whole| [&[0; 100], &whole[100..]].concat()),
        ("damaged pages", |whole| [&whole[..4096], &vec![0x5a; whole.len() - 4096]].concat()),
        ("cut in half", |whole| whole[..whole.len() / 2].to_vec()),
    ];
    for (what, spoil) in spoil {
        let place = Place::new();
        let store = place.store();
        some_tasks(&store);
        let expected = rows(&store);
        drop(store);
        // Not closed in order, and with everything in the one file.
        let bytes = spoil(&fs::read(database(&place)).unwrap());
        put_back(&place, &[("tasks.db".to_owned(), bytes.clone())]);
        let store = place.store();
        assert_eq!(rows(&store), expected, "{what}");
        assert_eq!(set_aside(&place), 1, "{what}: {:?}", names(place.root()));
        let kept =
            names(place.root()).into_iter().find(|name| name.starts_with("tasks.db.corrupt-")).unwrap();
        assert_eq!(fs::read(place.root().join(kept)).unwrap(), bytes, "{what}");
        store.close().unwrap();
        assert_eq!(rows(&place.store()), expected, "{what}");
    }
}

#[test]
fn pages_damaged_after_an_orderly_stop_are_found_at_the_latest_by_the_start_after() {
    let place = Place::new();
    let store = place.store();
    some_tasks(&store);
    let expected = rows(&store);
    store.close().unwrap();
    let mut bytes = fs::read(database(&place)).unwrap();
    bytes[8192..].fill(0x5a);
    fs::write(database(&place), &bytes).unwrap();
    let store = place.store();
    let listed = store.list_tasks(&TaskFilter::default(), TaskOrder::CreatedAscending, 100, None);
    assert!(listed.is_err() || listed.is_ok_and(|page| page.rows == expected));
    let _ = store.close();
    assert_eq!(rows(&place.store()), expected);
    assert_eq!(set_aside(&place), 1);
}

#[test]
fn an_empty_catalog_file_is_filled() {
    let place = Place::new();
    let store = place.store();
    some_tasks(&store);
    let expected = rows(&store);
    drop(store);
    put_back(&place, &[("tasks.db".to_owned(), Vec::new())]);
    assert_eq!(rows(&place.store()), expected);
}

#[test]
fn only_a_wal_left_of_a_catalog_is_set_aside() {
    let place = Place::new();
    let store = place.store();
    some_tasks(&store);
    let expected = rows(&store);
    let beside: Vec<_> = snapshot(&place).into_iter().filter(|(name, _)| name != "tasks.db").collect();
    assert!(beside.iter().any(|(name, bytes)| name == "tasks.db-wal" && !bytes.is_empty()));
    drop(store);
    put_back(&place, &beside);
    assert_eq!(rows(&place.store()), expected);
}

#[test]
fn an_old_copy_of_the_catalog_is_brought_up_to_date() {
    // Copies from every kind of moment: while it was used, with its WAL, and after an orderly stop.
    for when in ["in use", "in use, without its WAL", "closed"] {
        let place = Place::new();
        let store = place.store();
        let [running, paused, ..] = some_tasks(&store);
        let gone = start(&store, None, "a").unwrap();
        rows(&store);
        let mut old = snapshot(&place);
        match when {
            "in use" => drop(store),
            "closed" => {
                store.close().unwrap();
                old = snapshot(&place);
            }
            _ => {
                old.retain(|(name, _)| name == "tasks.db");
                drop(store);
            }
        }
        let store = place.store();
        append(&store, &running, "one more").unwrap();
        store.complete_task(running.id, None, &caller(1)).unwrap();
        store.fail_task(paused.id, "late".to_owned(), None, &caller(0)).unwrap();
        store.delete_task(gone.id, &caller(1)).unwrap();
        let fresh = busy_task(&store);
        let expected = rows(&store);
        assert_eq!(expected.len(), 5);
        drop(store);
        put_back(&place, &old);
        let (store, recovered) = place.open();
        let mut found = rows(&store);
        // Nobody can tell a task that was deleted from one that was lost: its row stays and says so.
        if let Some(at) = found.iter().position(|row| row.uuid == gone.id) {
            assert_eq!(found.remove(at).health, Health::Missing, "{when}");
            assert!(recovered.contains(&Recovered::Missing(gone.id)), "{when}");
        }
        assert_eq!(found, expected, "{when}");
        still_serves(&store, &[&fresh]);
    }
}

#[test]
fn a_row_without_a_directory_is_kept_and_says_so() {
    let place = Place::new();
    let store = place.store();
    let lost = some_tasks(&store);
    drop(store);
    rows(&place.store());
    for (task, folder) in lost.iter().zip(["running", "paused", "completed", "completed"]) {
        fs::remove_dir_all(place.task(folder, task.id)).unwrap();
    }
    for _ in 0..2 {
        let (store, _) = place.open();
        let found = rows(&store);
        assert_eq!(found.len(), 4);
        for row in &found {
            assert_eq!(row.health, Health::Missing, "{:?}", row.status);
        }
        for task in &lost {
            assert!(matches!(append(&store, task, "no"), Err(StoreError::TaskNotFound { .. })));
        }
        still_serves(&store, &[]);
        for row in rows(&store).iter().filter(|row| row.health == Health::Ok) {
            store.delete_task(row.uuid, &caller(store.lease(row.uuid).unwrap())).unwrap();
        }
    }
}

#[test]
fn a_task_that_was_deleted_is_not_listed_after_a_kill() {
    let place = Place::new();
    let store = place.store();
    let [running, _, completed, _] = some_tasks(&store);
    rows(&store);
    store.delete_task(running.id, &caller(1)).unwrap();
    store.delete_task(completed.id, &caller(0)).unwrap();
    drop(store);
    let store = place.store();
    let left: Vec<Status> = rows(&store).iter().map(|row| row.status).collect();
    assert_eq!(left, [Status::Paused, Status::Failed]);
}

#[test]
fn rows_of_tasks_that_went_on_after_the_last_commit_are_brought_up_to_date() {
    let place = Place::new();
    let store = place.store();
    let task = start(&store, None, "a").unwrap();
    rows(&store);
    for _ in 0..20 {
        append(&store, &task, "not in the catalog yet").unwrap();
    }
    drop(store);
    assert_eq!(listed(&place.store(), task.id).total_messages, 20);
}

fn listed(store: &Store, id: TaskId) -> TaskRow {
    let all = store.list_tasks(&TaskFilter::default(), TaskOrder::default(), 100, None).unwrap().rows;
    all.into_iter().find(|row| row.uuid == id).unwrap()
}
