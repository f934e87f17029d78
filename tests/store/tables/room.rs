//! A disk that takes no writes when the store starts: everything can be read, and nothing is written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use contextstore_base::infra::fs::fault::{Errno, Fault, FaultFs};
use contextstore_base::infra::fs::{Fs, Name, StorePath};
use contextstore_base::model::{Health, RequestId, Role, StoreError, TaskId};
use contextstore_store::store::layout::Folder;
use contextstore_store::store::{Append, Caller, Started, Store, StoreOptions};

use super::{Place, Sim, busy_task, line_starts, messages, names, no_checkpoints, rows, still_serves};
use test_support::store::{append, caller, ground, message, start, view};

const MIB: u64 = 1 << 20;

/// What can be read of a task.
fn seen(store: &Store, id: TaskId) -> (String, Vec<String>, String) {
    (view(store, id, None).unwrap(), messages(store, id).unwrap(), view(store, id, Some(3)).unwrap())
}

fn refused(result: Result<(), StoreError>) {
    let error = result.unwrap_err();
    assert_eq!(error.reason(), "ERROR_REASON_READ_ONLY", "{error:?}");
}

/// Every kind of write is refused, and none of them for another reason.
fn refuses_writes(store: &Store, task: &Started) {
    refuses_what_takes_room(store, task);
    refused(store.delete_task(task.id, &caller(1)));
    refused(store.collect_garbage(None, Duration::ZERO, false).map(drop));
}

/// The same of those that do not free room.
fn refuses_what_takes_room(store: &Store, task: &Started) {
    assert!(store.read_only().is_some());
    refused(append(store, task, "no").map(drop));
    refused(start(store, None, "b").map(drop));
    refused(start(store, Some(task.id), "a").map(drop));
    refused(store.pause_task(task.id, &caller(1)));
    refused(store.complete_task(task.id, None, &caller(1)));
    refused(store.undo(task.id, &caller(1)).map(drop));
    refused(store.rewind(task.id, 1, &caller(1)).map(drop));
}

/// The bytes of all files, by the sum of their lengths.
fn used(fs: &dyn Fs, dir: &StorePath) -> u64 {
    let mut names: Vec<Name> = Vec::new();
    fs.list(dir, &mut |entry| {
        names.push(entry.name);
        Ok(())
    })
    .unwrap();
    names
        .into_iter()
        .map(|name| {
            let path = dir.join(name);
            let stat = fs.stat(&path).unwrap().unwrap();
            if stat.kind == contextstore_base::infra::fs::Kind::Dir { used(fs, &path) } else { stat.len }
        })
        .sum()
}

#[test]
fn a_full_disk_at_the_start_leaves_everything_readable() {
    // With views that are there, missing and old: a reader is told the same.
    for views in ["there", "missing", "old"] {
        for clean in [true, false] {
            let mut sim = Sim::new();
            let store = sim.store();
            let task = busy_task(&store);
            let old = sim.read(Folder::Running, task.id, "current.jsonl").unwrap();
            append(&store, &task, "the last").unwrap();
            let (expected, listed) = (seen(&store, task.id), rows(&store));
            if clean {
                store.close().unwrap()
            } else {
                drop(store)
            }
            sim.kill();
            match views {
                "missing" => sim.fs.remove(&super::at(Folder::Running, task.id, "current.jsonl")).unwrap(),
                "old" => sim.write(Folder::Running, task.id, "current.jsonl", &old),
                _ => {}
            }
            let full = used(sim.fs.as_ref(), &StorePath::ROOT);
            sim.fs.set_capacity(Some(full));
            let store = sim.store();
            let what = format!("views {views}, clean {clean}");
            assert_eq!(seen(&store, task.id), expected, "{what}");
            assert_eq!(rows(&store), listed, "{what}");
            refuses_writes(&store, &task);
            assert_eq!(store.task_info(task.id).unwrap().last_seq, 6, "{what}");
            store.close().unwrap();
            sim.kill();
            // Room again: it goes on as if nothing had been.
            sim.fs.set_capacity(None);
            let store = sim.store();
            assert!(store.read_only().is_none(), "{what}");
            assert_eq!(seen(&store, task.id), expected, "{what}");
            still_serves(&store, &[&task]);
        }
    }
}

#[test]
fn a_read_only_disk_at_the_start_leaves_everything_readable() {
    let mut sim = Sim::new();
    let store = sim.store();
    let task = busy_task(&store);
    let expected = seen(&store, task.id);
    // A catalog that cannot be written is shown as it was last committed.
    assert_eq!(rows(&store).len(), 1);
    drop(store);
    sim.kill();
    // A torn tail cannot be cut off here, but it is not shown either.
    let whole = sim.read(Folder::Running, task.id, "messages.jsonl").unwrap();
    sim.write(Folder::Running, task.id, "messages.jsonl", &[&whole[..], b"{\"seq\":6,\"ro"].concat());
    sim.fs.set_read_only(true);
    let store = sim.store();
    assert_eq!(seen(&store, task.id), expected);
    assert_eq!(rows(&store).len(), 1);
    refuses_writes(&store, &task);
    drop(store);
    sim.fs.set_read_only(false);
    sim.kill();
    let store = sim.store();
    assert_eq!(seen(&store, task.id), expected);
    still_serves(&store, &[&task]);
}

#[test]
fn damage_on_a_read_only_disk_is_shown_up_to_where_it_is() {
    let mut sim = Sim::new();
    let store = sim.store();
    let task = busy_task(&store);
    drop(store);
    sim.kill();
    let mut log = sim.read(Folder::Running, task.id, "messages.jsonl").unwrap();
    let second = line_starts(&log)[3];
    log[second + 20] ^= 1;
    sim.write(Folder::Running, task.id, "messages.jsonl", &log);
    sim.fs.remove(&super::at(Folder::Running, task.id, "checkpoint.json")).unwrap();
    sim.fs.set_read_only(true);
    let store = sim.store();
    assert_eq!(messages(&store, task.id).unwrap().len(), 1);
    assert_eq!(store.task_info(task.id).unwrap().row.health, Health::Quarantined);
    refuses_writes(&store, &task);
    assert_eq!(sim.read(Folder::Running, task.id, "messages.jsonl").unwrap(), log);
}

#[test]
fn a_directory_that_never_was_used_can_be_read_only() {
    let sim = Sim::new();
    sim.fs.set_read_only(true);
    let store = sim.store();
    assert!(store.read_only().is_some());
    assert_eq!(rows(&store).len(), 0);
    assert!(matches!(view(&store, TaskId::new(), None), Err(StoreError::TaskNotFound { .. })));
    assert!(matches!(start(&store, None, "a"), Err(StoreError::ReadOnly { .. })));
}

#[test]
fn the_ballast_lets_recovery_write_on_a_full_disk() {
    let options = || StoreOptions { ballast_bytes: MIB, ..no_checkpoints() };
    let mut sim = Sim::new();
    let (store, _) = sim.store_with(options());
    let (task, done) = (busy_task(&store), busy_task(&store));
    store.complete_task(done.id, Some("done".to_owned()), &caller(1)).unwrap();
    let expected = (seen(&store, task.id), seen(&store, done.id));
    drop(store);
    sim.kill();
    let ballast = StorePath::ROOT.join(Name::fixed("ballast"));
    assert_eq!(sim.fs.stat(&ballast).unwrap().unwrap().len, MIB);
    // A torn tail to cut off, and a move to finish.
    let whole = sim.read(Folder::Running, task.id, "messages.jsonl").unwrap();
    sim.write(Folder::Running, task.id, "messages.jsonl", &[&whole[..], b"{\"seq\":6,\"ro"].concat());
    sim.fs.rename(&Folder::Completed.task(done.id), &Folder::Running.task(done.id)).unwrap();
    sim.fs.set_capacity(Some(used(sim.fs.as_ref(), &StorePath::ROOT)));

    let (store, recovered) = sim.store_with(options());
    assert!(recovered.iter().any(|found| found.to_string().contains("moved")), "{recovered:?}");
    assert_eq!(sim.read(Folder::Running, task.id, "messages.jsonl").unwrap(), whole);
    assert!(sim.read(Folder::Completed, done.id, "task.json").is_some());
    assert!(sim.fs.stat(&ballast).unwrap().is_none());
    assert_eq!((seen(&store, task.id), seen(&store, done.id)), expected);
    refuses_what_takes_room(&store, &task);
    // Whoever owns it can make room.
    let before = used(sim.fs.as_ref(), &StorePath::ROOT);
    store.collect_garbage(None, Duration::ZERO, false).unwrap();
    store.delete_task(done.id, &caller(1)).unwrap();
    assert!(used(sim.fs.as_ref(), &StorePath::ROOT) < before);
    assert!(matches!(view(&store, done.id, None), Err(StoreError::TaskNotFound { .. })));
    drop(store);
    sim.kill();
    // With room again it is set aside anew.
    sim.fs.set_capacity(None);
    let (store, _) = sim.store_with(options());
    assert_eq!(sim.fs.stat(&ballast).unwrap().unwrap().len, MIB);
    still_serves(&store, &[&task]);
}

/// Nothing is left of a deleted task, and of one that could not be started, while the disk is full.
#[test]
fn deleting_frees_room_at_once_on_a_full_disk() {
    let sim = Sim::new();
    let store = sim.store();
    let tasks: Vec<Started> = (0..3).map(|_| busy_task(&store)).collect();
    let disk = || used(sim.fs.as_ref(), &StorePath::ROOT);
    sim.fs.set_capacity(Some(disk()));
    for _ in 0..5 {
        assert_eq!(start(&store, None, "b").unwrap_err().reason(), "ERROR_REASON_DISK_FULL");
    }
    let inside = |name: Name| {
        let mut count = 0;
        sim.fs
            .list(&StorePath::ROOT.join(name), &mut |_| {
                count += 1;
                Ok(())
            })
            .unwrap();
        count
    };
    assert_eq!(inside(Name::fixed(".tmp")), 0);
    for task in &tasks[..2] {
        let (before, folder) = (disk(), Folder::Running.task(task.id));
        let size = used(sim.fs.as_ref(), &folder);
        store.delete_task(task.id, &caller(1)).unwrap();
        assert!(disk() <= before - size + 64, "{} of {size} bytes were freed", before - disk());
    }
    assert_eq!(inside(Name::fixed(".trash")), 0);
    append(&store, &tasks[2], "there is room again").unwrap();
}

#[test]
fn a_disk_that_fills_up_takes_nothing_back() {
    let sim = Sim::new();
    let store = sim.store();
    let task = busy_task(&store);
    let used = used(sim.fs.as_ref(), &StorePath::ROOT);
    sim.fs.set_capacity(Some(used + 2000));
    let long = "x".repeat(300);
    let mut last = 5;
    let error = loop {
        match append(&store, &task, &long) {
            Ok(seq) => last = seq,
            Err(error) => break error,
        }
        assert!(last < 100, "the disk never filled up");
    };
    assert!(matches!(error, StoreError::DiskFull { .. } | StoreError::WriteFailed { .. }), "{error:?}");
    assert_eq!(messages(&store, task.id).unwrap().len() as u64, last);
    assert_eq!(view(&store, task.id, None).unwrap().matches(&long).count() as u64, last - 5);
    sim.fs.set_capacity(None);
    assert_eq!(append(&store, &task, "room again").unwrap(), last + 1);
    let fs = Arc::clone(&sim.fs).kill();
    drop(store);
    let (store, _) = Store::open_on(ground(fs, sim.catalog.path(), &sim.clock), no_checkpoints()).unwrap();
    assert_eq!(messages(&store, task.id).unwrap().len() as u64, last + 1);
}

/// A small file system of its own, unmounted when it is dropped; `None` where that is not allowed.
struct Mount {
    place: Place,
}

impl Mount {
    fn new(size: &str) -> Option<Self> {
        let place = Place::new();
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            return None;
        }
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"])
            .arg(place.root())
            .output();
        done.is_ok_and(|done| done.status.success()).then(|| Self { place })
    }

    fn remount(&self, options: &str) -> bool {
        let done =
            Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(self.place.root()).status();
        done.is_ok_and(|done| done.success())
    }

    fn root(&self) -> &Path {
        self.place.root()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.root()).status();
    }
}

/// Writes zeros until nothing more fits.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(path).unwrap();
    for size in [65536, 4096, 512, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

#[test]
fn a_full_file_system_of_this_machine_leaves_everything_readable() {
    let Some(mount) = Mount::new("8m") else { return };
    for clean in [true, false] {
        let store = mount.place.store();
        let task = busy_task(&store);
        let (expected, listed) = (seen(&store, task.id), rows(&store));
        if clean {
            store.close().unwrap()
        } else {
            drop(store)
        }
        let filler = mount.root().join("filler");
        fill(&filler);
        let before = names(&mount.place.task("running", task.id));
        let store = mount.place.store();
        assert_eq!(seen(&store, task.id), expected);
        assert_eq!(rows(&store), listed);
        refuses_writes(&store, &task);
        drop(store);
        assert_eq!(names(&mount.place.task("running", task.id)), before);
        fs::remove_file(filler).unwrap();
        still_serves(&mount.place.store(), &[&task]);
    }
}

#[test]
fn a_read_only_file_system_of_this_machine_leaves_everything_readable() {
    let Some(mount) = Mount::new("8m") else { return };
    for clean in [true, false] {
        let store = mount.place.store();
        let task = busy_task(&store);
        let (expected, listed) = (seen(&store, task.id), rows(&store));
        if clean {
            store.close().unwrap()
        } else {
            drop(store)
        }
        if !mount.remount("ro") {
            return;
        }
        let store = mount.place.store();
        assert_eq!(seen(&store, task.id), expected);
        assert_eq!(rows(&store), listed);
        refuses_writes(&store, &task);
        store.close().unwrap();
        assert!(mount.remount("rw"));
        still_serves(&mount.place.store(), &[&task]);
    }
}

#[test]
fn open_files_are_bounded() {
    // Alone in a process, so that nobody else's files are counted.
    if std::env::var_os(COUNT).is_none() {
        let done = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tables::room::open_files_are_bounded", "--nocapture"])
            .env(COUNT, "1")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let place = Place::new();
    let options = || StoreOptions { max_open_tasks: 16, ..no_checkpoints() };
    let before = open();
    // Each task takes up to seven, and SQLite a few.
    let bound = before + 16 * 7 + 16;
    let (store, _) = Store::open(place.root(), options()).unwrap();
    let tasks: Vec<Started> = (0..300)
        .map(|_| {
            let task = start(&store, None, "a").unwrap();
            append(&store, &task, "hello").unwrap();
            assert!(open() <= bound, "{} open, {bound} expected", open());
            task
        })
        .collect();
    for (turn, task) in tasks.iter().enumerate() {
        assert_eq!(append(&store, task, "again").unwrap(), 2);
        if turn % 50 == 0 {
            super::record(&store, task, "ls");
            super::plan(&store, task, "p");
            view(&store, task.id, None).unwrap();
            store.complete_task(task.id, None, &caller(1)).unwrap();
        }
        assert!(open() <= bound, "{} open, {bound} expected", open());
        assert!(store.open_tasks() <= 16);
    }
    drop(store);
    let (store, _) = Store::open(place.root(), options()).unwrap();
    assert!(open() <= bound, "{} open after a start, {bound} expected", open());
    std::thread::scope(|scope| {
        for part in tasks.chunks(75) {
            let store = store.clone();
            scope.spawn(move || {
                for task in part {
                    assert_eq!(view(&store, task.id, None).unwrap().lines().count(), 2);
                }
            });
        }
    });
    assert!(open() <= bound, "{} open, {bound} expected", open());
    drop(store);
    assert_eq!(open(), before);
}

const COUNT: &str = "CONTEXTSTORE_TEST_COUNT";

/// An agent that is told of an empty context goes on until its model refuses.
#[test]
fn how_full_the_context_is_is_told_without_a_view() {
    let ask = |n: u32| Append {
        message: message(Role::User, "words"),
        caller: Caller { request_id: RequestId::parse(&format!("r{n}")).ok(), lease_generation: 1 },
    };
    let sim = Sim::new();
    let disk = FaultFs::new(Arc::clone(&sim.fs) as Arc<dyn Fs>);
    let on = |fs: Arc<dyn Fs>| {
        Store::open_on(ground(fs, sim.catalog.path(), &sim.clock), no_checkpoints()).unwrap().0
    };
    let store = on(Arc::clone(&disk) as Arc<dyn Fs>);
    let task = start(&store, None, "a").unwrap();
    let each = store.append(task.id, &ask(1)).unwrap().tokens;
    assert!(each > 0);
    // The view cannot be written.
    disk.reset_counts();
    disk.arm(1, Fault::Error(Errno::IO));
    let told = store.append(task.id, &ask(2)).unwrap();
    assert!(disk.fired()[0].contains("current.jsonl"), "{:?}", disk.fired());
    assert_eq!(told.pressure.tokens, 2 * each);
    store.append(task.id, &ask(3)).unwrap();
    assert_eq!(store.pressure(task.id).unwrap().tokens, 3 * each);
    drop(store);

    // Nothing can be written, and there is no view.
    sim.fs.remove(&super::at(Folder::Running, task.id, "current.jsonl")).unwrap();
    sim.fs.set_capacity(Some(used(sim.fs.as_ref(), &StorePath::ROOT)));
    let store = on(Arc::clone(&sim.fs) as Arc<dyn Fs>);
    assert!(store.read_only().is_some());
    assert_eq!(store.append(task.id, &ask(3)).unwrap().pressure.tokens, 3 * each);
    assert_eq!(store.pressure(task.id).unwrap().tokens, 3 * each);
    assert_eq!(store.task_info(task.id).unwrap().pressure.tokens, 3 * each);
}

#[test]
fn a_task_that_is_removed_makes_room_at_once() {
    let sim = Sim::new();
    let (store, _) = sim.store_with(StoreOptions { max_store_bytes: 20_000, ..no_checkpoints() });
    let full = start(&store, None, "a").unwrap();
    let refused = loop {
        if let Err(error) = append(&store, &full, &"x".repeat(1000)) {
            break error;
        }
    };
    assert_eq!(refused.reason(), "ERROR_REASON_QUOTA_EXCEEDED", "{refused:?}");
    store.delete_task(full.id, &caller(1)).unwrap();
    let next = start(&store, None, "a").unwrap();
    // It counts twice: in the log and in the view.
    assert_eq!(append(&store, &next, &"x".repeat(8_000)).unwrap(), 1);
}
