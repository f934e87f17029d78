//! What the tests of the store share: grounds to stand on, callers, and looking at what is there.

use std::path::Path;
use std::sync::Arc;

use contextstore_base::infra::clock::{Clock, ManualClock};
use contextstore_base::infra::fs::Fs;
use contextstore_base::model::{
    Holder, InstanceId, NewMessage, Role, StoreError, TaskConfig, TaskId, TaskKey,
};
use contextstore_store::store::{Append, Caller, Ground, StartTask, Started, Store, StoreOptions};

/// Options for small stores: checkpoints come soon, nothing is set aside.
pub fn options() -> StoreOptions {
    StoreOptions { checkpoint_bytes: 4096, ballast_bytes: 0, ..StoreOptions::default() }
}

/// A ground over any file layer, with its catalog in a directory of its own.
pub fn ground(fs: Arc<dyn Fs>, catalog_dir: &Path, clock: &Arc<ManualClock>) -> Ground {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    Ground { fs, name: "test".to_owned(), catalog: catalog_dir.join("tasks.db"), clock }
}

pub fn holder(instance: &str) -> Holder {
    Holder { instance_id: InstanceId::parse(instance).unwrap(), process_id: 7, hostname: "here".to_owned() }
}

pub fn start(store: &Store, id: Option<TaskId>, instance: &str) -> Result<Started, StoreError> {
    store.start_task(StartTask {
        id,
        key: TaskKey {
            task_source: "github".to_owned(),
            owner: "o".to_owned(),
            repo: "r".to_owned(),
            task_type: "issue".to_owned(),
            task_id: "1".to_owned(),
        },
        user: "u".to_owned(),
        config: TaskConfig::default(),
        holder: holder(instance),
        request_id: None,
    })
}

pub fn caller(lease_generation: u64) -> Caller {
    Caller { request_id: None, lease_generation }
}

pub fn message(role: Role, text: &str) -> NewMessage {
    NewMessage::text(role, text)
}

pub fn append(store: &Store, task: &Started, text: &str) -> Result<u64, StoreError> {
    let append = Append { message: message(Role::User, text), caller: caller(task.lease_generation) };
    store.append(task.id, &append).map(|outcome| outcome.seq)
}

/// The whole view, as a reader gets it.
pub fn view(store: &Store, id: TaskId, as_of: Option<u64>) -> Result<String, StoreError> {
    let mut reader = store.current(id, as_of)?;
    let (mut all, mut chunk) = (Vec::new(), Vec::new());
    while reader.read(&mut chunk, 1000)? {
        all.extend_from_slice(&chunk);
    }
    assert_eq!(all.len() as u64, reader.total_bytes);
    Ok(String::from_utf8(all).unwrap())
}
