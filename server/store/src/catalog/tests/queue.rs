//! The queue: what is merged, what waits, what survives locks and full disks.

use std::sync::Arc;
use std::thread;

use super::*;
use crate::catalog::writer::Queue;
use crate::model::{StoreError, TaskFilter, TaskOrder};

fn queue(catalog: &Catalog) -> &Queue {
    &catalog.inner.writing.as_ref().unwrap().queue
}

/// Takes the lock that only one writer can have.
fn hold(path: &Path) -> Connection {
    let conn = outsider(path);
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    conn
}

fn release(conn: &Connection) {
    conn.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn the_queue_holds_one_entry_a_task() {
    let place = Place::new();
    let (catalog, _) = place.open();
    let (first, second) = (row(0), row(1));
    for n in 0..100 {
        catalog.put(TaskRow { total_messages: n, ..first.clone() });
        catalog.put(second.clone());
    }
    catalog.remove(second.uuid);
    assert_eq!(queue(&catalog).len(), 2);
    assert_eq!(committed(&place.db()), 0);
    // Seen before it is committed.
    assert_eq!(catalog.get(first.uuid).unwrap().unwrap().total_messages, 99);
    assert_eq!(catalog.get(second.uuid).unwrap(), None);
    catalog.flush().unwrap();
    assert_eq!(queue(&catalog).len(), 0);
    assert_eq!(committed(&place.db()), 1);
    assert_eq!(catalog.get(first.uuid).unwrap().unwrap().total_messages, 99);
    catalog.put(second.clone());
    catalog.flush().unwrap();
    catalog.remove(second.uuid);
    assert_eq!(catalog.get(second.uuid).unwrap(), None);
    assert_eq!(catalog.count().unwrap(), 1);
}

#[test]
fn health_is_merged_into_what_is_queued() {
    let place = Place::new();
    let (catalog, _) = place.open();
    let task = row(0);
    let health = |flush: bool| {
        if flush {
            catalog.flush().unwrap();
        }
        catalog.get(task.uuid).unwrap().map(|row| row.health)
    };
    // No row, then or now.
    catalog.set_health(task.uuid, Health::Missing);
    assert_eq!((health(false), health(true)), (None, None));
    // Into a queued row, with the rest of it.
    catalog.put(task.clone());
    catalog.set_health(task.uuid, Health::Missing);
    let expected = TaskRow { health: Health::Missing, ..task.clone() };
    assert_eq!(catalog.get(task.uuid).unwrap(), Some(expected.clone()));
    catalog.flush().unwrap();
    assert_eq!(catalog.get(task.uuid).unwrap(), Some(expected));
    // Alone, the newest wins, and other columns stay.
    catalog.set_health(task.uuid, Health::Ok);
    catalog.set_health(task.uuid, Health::Quarantined);
    assert_eq!((health(false), health(true)), (Some(Health::Quarantined), Some(Health::Quarantined)));
    let quarantined = TaskRow { health: Health::Quarantined, ..task.clone() };
    assert_eq!(catalog.get(task.uuid).unwrap(), Some(quarantined));
    // A later row has its own.
    catalog.set_health(task.uuid, Health::Missing);
    catalog.put(task.clone());
    assert_eq!((health(false), health(true)), (Some(Health::Ok), Some(Health::Ok)));
    // A removed row stays removed.
    catalog.remove(task.uuid);
    catalog.set_health(task.uuid, Health::Missing);
    assert_eq!((health(false), health(true)), (None, None));
    assert_eq!(committed(&place.db()), 0);
}

#[test]
fn reads_see_what_was_put_before() {
    let place = Place::new();
    let (catalog, _) = place.open();
    for n in 1..=20 {
        let row = row(n);
        catalog.put(row.clone());
        assert_eq!(catalog.count().unwrap(), u64::try_from(n).unwrap());
        let page = catalog.list(&TaskFilter::default(), TaskOrder::default(), 1, None).unwrap();
        assert_eq!(page.rows, [row]);
    }
}

#[test]
fn the_queue_is_committed_without_being_asked() {
    let place = Place::new();
    let options = CatalogOptions { flush_every: Duration::from_millis(5), ..patient() };
    let (catalog, _) = Catalog::open(&place.db(), options).unwrap();
    for n in 1..=3 {
        catalog.put(row(0));
        eventually("the commit", || committed(&place.db()) == n && queue(&catalog).len() == 0);
    }
}

#[test]
fn a_long_queue_is_committed_at_once() {
    let place = Place::new();
    let (catalog, _) = place.open();
    (0..1024).for_each(|n| catalog.put(row(n)));
    eventually("the commit", || committed(&place.db()) == 1024);
}

#[test]
fn many_threads_lose_nothing() {
    let place = Place::new();
    let options = CatalogOptions { flush_every: Duration::from_millis(1), ..patient() };
    let (catalog, _) = Catalog::open(&place.db(), options).unwrap();
    let shared = row(0);
    thread::scope(|scope| {
        for n in 0..4 {
            let (catalog, shared) = (catalog.clone(), &shared);
            scope.spawn(move || {
                for m in 0..100 {
                    let own = row(n);
                    catalog.put(own.clone());
                    catalog.put(TaskRow { total_messages: m, ..shared.clone() });
                    catalog.set_health(shared.uuid, Health::Missing);
                    catalog.set_health(own.uuid, Health::Quarantined);
                    if m % 10 == 3 {
                        catalog.flush().unwrap();
                    }
                    let expected = Some(TaskRow { health: Health::Quarantined, ..own.clone() });
                    assert_eq!(catalog.get(own.uuid).unwrap(), expected);
                    assert!(catalog.known(&[own.uuid]).unwrap().contains(&own.uuid));
                }
            });
        }
    });
    catalog.flush().unwrap();
    assert_eq!(committed(&place.db()), 401);
    assert_eq!(catalog.get(shared.uuid).unwrap().unwrap().total_messages, 99);
}

#[test]
fn a_lock_of_another_process_holds_up_neither_put_nor_get() {
    let place = Place::new();
    let options = CatalogOptions { flush_every: Duration::from_millis(1), ..CatalogOptions::default() };
    let busy_timeout = options.busy_timeout;
    let (catalog, _) = Catalog::open(&place.db(), options).unwrap();
    let other = hold(&place.db());
    let start = Instant::now();
    let rows: Vec<_> = (0..1500).map(row).collect();
    for row in &rows {
        catalog.put(row.clone());
        assert_eq!(catalog.get(row.uuid).unwrap().as_ref(), Some(row));
    }
    catalog.set_health(rows[0].uuid, Health::Missing);
    catalog.remove(rows[1].uuid);
    assert!(start.elapsed() < busy_timeout, "something waited for the lock");
    assert_eq!(committed(&place.db()), 0);
    release(&other);
    eventually("the commit", || committed(&place.db()) == 1499);
    catalog.flush().unwrap();
    assert_eq!(catalog.get(rows[0].uuid).unwrap().unwrap().health, Health::Missing);
}

#[test]
fn a_commit_waits_for_the_lock_and_tries_again() {
    let waits = [
        // By waiting, by trying again, and in a later round.
        CatalogOptions { busy_timeout: Duration::from_secs(30), retries: 0, flush_every: NEVER },
        CatalogOptions { busy_timeout: Duration::ZERO, retries: 5, flush_every: NEVER },
    ];
    for options in waits {
        let place = Place::new();
        let (catalog, _) = Catalog::open(&place.db(), options).unwrap();
        let other = hold(&place.db());
        catalog.put(row(0));
        let flush = thread::spawn({
            let catalog = catalog.clone();
            move || catalog.flush()
        });
        // Long enough for an attempt that neither waits nor is repeated to have failed.
        let start = Instant::now();
        eventually("the time", || start.elapsed() > Duration::from_millis(150));
        assert!(!flush.is_finished());
        release(&other);
        flush.join().unwrap().unwrap();
        assert_eq!(committed(&place.db()), 1);
    }
}

#[test]
fn what_cannot_be_committed_stays_for_the_next_round() {
    let place = Place::new();
    let options = CatalogOptions {
        busy_timeout: Duration::from_millis(20),
        retries: 0,
        flush_every: Duration::from_millis(5),
    };
    let (catalog, _) = Catalog::open(&place.db(), options).unwrap();
    let other = hold(&place.db());
    let task = row(0);
    catalog.put(task.clone());
    assert!(matches!(catalog.flush(), Err(StoreError::Catalog { .. })));
    assert_eq!(queue(&catalog).len(), 1);
    // Listings go on with what is committed.
    assert_eq!(catalog.count().unwrap(), 0);
    assert_eq!(catalog.get(task.uuid).unwrap(), Some(task));
    release(&other);
    eventually("the next round", || committed(&place.db()) == 1);
    catalog.flush().unwrap();
}

#[test]
fn a_full_disk_keeps_the_queue_and_the_listings() {
    let place = Place::with_rows(3);
    let (catalog, _) = place.open();
    limit_pages(&catalog, 1);
    (0..200).for_each(|n| catalog.put(row(n)));
    assert!(matches!(catalog.flush(), Err(StoreError::DiskFull { .. })));
    assert_eq!(queue(&catalog).len(), 200);
    assert_eq!(catalog.count().unwrap(), 3);
    limit_pages(&catalog, 100_000);
    catalog.flush().unwrap();
    assert_eq!(catalog.count().unwrap(), 203);
    catalog.close().unwrap();
    assert_eq!(place.open().1, Opened::Existing { clean: true });
}

#[test]
fn dropping_the_last_handle_stops_the_thread_and_loses_the_queue() {
    let place = Place::new();
    let options = CatalogOptions { flush_every: Duration::from_millis(1), ..CatalogOptions::default() };
    let (catalog, _) = Catalog::open(&place.db(), options).unwrap();
    let thread = Arc::downgrade(&catalog.inner.writing.as_ref().unwrap().queue);
    // In the middle of a commit that waits for a lock.
    let other = hold(&place.db());
    let clone = catalog.clone();
    catalog.put(row(0));
    eventually("a commit", || queue(&catalog).is_committing());
    drop(catalog);
    assert!(thread.upgrade().is_some());
    let start = Instant::now();
    drop(clone);
    assert!(start.elapsed() < Duration::from_secs(15), "the thread waited for the lock");
    assert!(thread.upgrade().is_none());
    release(&other);
    drop(other);
    assert_eq!(place.open().1, Opened::Existing { clean: false });
    assert_eq!(committed(&place.db()), 0);
}
