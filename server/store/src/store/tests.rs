//! What only one who still has a handle can see.

use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::model::{Holder, InstanceId, TaskConfig, TaskKey};

fn start(store: &Store) -> Started {
    let holder =
        Holder { instance_id: InstanceId::parse("a").unwrap(), process_id: 7, hostname: "here".to_owned() };
    store
        .start_task(StartTask {
            id: None,
            key: TaskKey::default(),
            user: String::new(),
            config: TaskConfig::default(),
            holder,
            request_id: None,
        })
        .unwrap()
}

fn caller() -> Caller {
    Caller { request_id: None, lease_generation: 1 }
}

#[test]
fn a_lease_of_a_removed_task_is_not_renewed() {
    let place = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(place.path(), StoreOptions::default()).unwrap();
    let id = start(&store).id;
    let task = store.task(id).unwrap();
    store.delete_task(id, &caller()).unwrap();
    let (clock, leases) = (&store.shared.env.clock, &store.shared.env.leases);
    let deadline = Instant::now() + Duration::from_secs(60);
    let age = leases.age(id, clock.monotonic());
    assert!(matches!(task.renew_lease(1), Err(StoreError::TaskNotFound { .. })));
    // Nothing is remembered of it: it grows older from the start of the server on, as one that was never renewed.
    while leases.age(id, clock.monotonic()) <= age {
        assert!(Instant::now() < deadline, "the lease was renewed");
        thread::yield_now();
    }
}
