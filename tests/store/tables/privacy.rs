//! Only the owner can read what is in a data directory, whatever the umask.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use contextstore_store::store::{Store, StoreOptions};

use super::{Place, busy_task, no_checkpoints, rows};
use test_support::store::{append, caller, start, view};

const DIR: &str = "CONTEXTSTORE_TEST_DIR";

#[test]
fn everything_is_private_under_any_umask() {
    if let Some(dir) = std::env::var_os(DIR) {
        return live(dir.as_ref());
    }
    for umask in ["000", "022", "077", "777"] {
        let place = Place::new();
        let dir = place.root().join("a/contexts");
        let done = Command::new("sh")
            .args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "tables::privacy::everything_is_private_under_any_umask", "--nocapture"])
            .env(DIR, &dir)
            // The test's own temporary files are not what is looked at.
            .output()
            .unwrap();
        assert!(done.status.success(), "umask {umask}: {}", String::from_utf8_lossy(&done.stderr));
        let mut seen = Vec::new();
        look(&dir, &mut seen);
        let names: Vec<&str> = seen.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
        for name in [
            "LOCK",
            "tasks.db",
            "ballast",
            "metadata.json",
            "messages.jsonl",
            "current.jsonl",
            "current.extra.jsonl",
            "tools.jsonl",
            "planning.jsonl",
            "summaries.jsonl",
            "task.json",
            "final_summary.txt",
            "checkpoint.json",
            "index",
            "quarantine.json",
            "running",
            "quarantine",
        ] {
            assert!(names.contains(&name), "umask {umask}: no {name}");
        }
        assert!(names.iter().any(|name| name.contains(".cut.")), "umask {umask}: {names:?}");
        assert!(names.iter().any(|name| name.contains(".corrupt-")), "umask {umask}: {names:?}");
    }
}

/// Asserts the permissions of everything below a directory, and of itself.
fn look(path: &Path, seen: &mut Vec<String>) {
    let found = fs::symlink_metadata(path).unwrap();
    let mode = found.permissions().mode() & 0o7777;
    let wanted = if found.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(mode, wanted, "{}: {mode:o}", path.display());
    seen.push(path.display().to_string());
    if found.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            look(&entry.unwrap().path(), seen);
        }
    }
}

/// Runs in the child: makes every kind of file there is.
fn live(dir: &Path) {
    let options = || StoreOptions { ballast_bytes: 4096, ..no_checkpoints() };
    let (store, _) = Store::open(dir, options()).unwrap();
    let (torn, damaged, done) = (busy_task(&store), busy_task(&store), busy_task(&store));
    let paused = busy_task(&store);
    store.pause_task(paused.id, &caller(1)).unwrap();
    store.complete_task(done.id, Some("well".to_owned()), &caller(1)).unwrap();
    drop(store);
    let log = |id: contextstore_base::model::TaskId| {
        dir.join("running").join(id.to_string()).join("messages.jsonl")
    };
    let whole = fs::read(log(torn.id)).unwrap();
    fs::write(log(torn.id), [&whole[..], b"{\"seq"].concat()).unwrap();
    let mut bytes = fs::read(log(damaged.id)).unwrap();
    bytes[300] ^= 1;
    fs::write(log(damaged.id), bytes).unwrap();
    fs::remove_file(log(damaged.id).with_file_name("checkpoint.json")).unwrap();
    for name in ["tasks.db-wal", "tasks.db-shm"] {
        let _ = fs::remove_file(dir.join(name));
    }
    fs::write(dir.join("tasks.db"), b"no database at all\n".repeat(100)).unwrap();
    let (store, _) = Store::open(dir, options()).unwrap();
    assert_eq!(rows(&store).len(), 4);
    append(&store, &torn, "on").unwrap();
    view(&store, torn.id, Some(1)).unwrap();
    let deleted = start(&store, None, "a").unwrap();
    store.delete_task(deleted.id, &caller(1)).unwrap();
    // Not closed: what SQLite keeps beside its file stays too.
    rows(&store);
    std::mem::forget(store);
}

#[test]
fn folders_that_others_can_read_are_made_private() {
    let place = Place::new();
    place.store().close().unwrap();
    for folder in ["running", "completed", ".tmp"] {
        fs::set_permissions(place.root().join(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
    drop(place.store());
    for folder in ["running", "completed", ".tmp"] {
        let mode = fs::metadata(place.root().join(folder)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{folder}");
    }
}
