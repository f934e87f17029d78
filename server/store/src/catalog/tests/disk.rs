//! The file: made private, found damaged, closed in order, only read.

use std::fs::{self, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;

use rusqlite::params;
use rustix::fs::Mode as Umask;

use super::*;
use crate::model::{StoreError, TaskFilter, TaskOrder};

/// Nobody: a user that permissions apply to.
const NOBODY: u32 = 65534;

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Opens, expects a new and empty catalog that works, and answers where the old one is.
fn replaced(place: &Place) -> PathBuf {
    let (catalog, opened) = place.open();
    let Opened::Replaced { set_aside } = opened else { panic!("{opened:?}") };
    assert_eq!(catalog.count().unwrap(), 0);
    catalog.put(row(0));
    assert_eq!(catalog.count().unwrap(), 1);
    assert!(set_aside.to_str().unwrap().contains("/tasks.db.corrupt-20"), "{}", set_aside.display());
    set_aside
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn clean_is_set_by_close_alone() {
    let place = Place::new();
    let clean = || {
        let sql = "SELECT value FROM meta WHERE key = 'clean'";
        outsider(&place.db()).query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
    };
    let (catalog, opened) = place.open();
    assert_eq!(opened, Opened::Created);
    let task = row(0);
    catalog.put(task.clone());
    catalog.close().unwrap();
    assert_eq!(place.names(), ["tasks.db"], "something is left in the WAL");
    assert_eq!(clean(), "1");
    // A closed catalog is closed for every clone, and closing again does no harm.
    catalog.put(row(1));
    catalog.close().unwrap();
    assert!(catalog.count().is_err());
    drop(catalog);

    let (catalog, opened) = place.open();
    assert_eq!(opened, Opened::Existing { clean: true });
    assert_eq!(clean(), "0");
    assert_eq!(catalog.get(task.uuid).unwrap(), Some(task));
    assert_eq!(catalog.count().unwrap(), 1);
    drop(catalog);
    let (catalog, opened) = place.open();
    assert_eq!(opened, Opened::Existing { clean: false });
    catalog.close().unwrap();
    assert_eq!(place.open().1, Opened::Existing { clean: true });
}

#[test]
fn a_queue_that_cannot_be_committed_leaves_the_file_unclean() {
    let place = Place::with_rows(1);
    let (catalog, _) = place.open();
    limit_pages(&catalog, 1);
    (0..200).for_each(|n| catalog.put(row(n)));
    assert!(matches!(catalog.close(), Err(StoreError::DiskFull { .. })));
    drop(catalog);
    assert_eq!(place.open().1, Opened::Existing { clean: false });
}

#[test]
fn a_crash_leaves_what_was_committed() {
    let place = Place::new();
    let (catalog, _) = place.open();
    let task = row(0);
    catalog.put(task.clone());
    catalog.flush().unwrap();
    let copy = Place::new();
    for name in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
        fs::copy(place.dir.path().join(name), copy.dir.path().join(name)).unwrap();
    }
    let (catalog, opened) = copy.open();
    assert_eq!(opened, Opened::Existing { clean: false });
    assert_eq!(catalog.get(task.uuid).unwrap(), Some(task));
}

#[test]
fn files_are_private_whatever_the_umask() {
    let place = Place::new();
    let test = "disk::files_are_private_whatever_the_umask";
    let Some(dir) = in_child(test, &place, |_| {}) else { return };
    for (n, umask) in [0, 0o277, 0o777].into_iter().enumerate() {
        let db = dir.join(format!("{n}.db"));
        rustix::process::umask(Umask::from_raw_mode(umask));
        let (catalog, _) = Catalog::open(&db, patient()).unwrap();
        catalog.put(row(0));
        catalog.flush().unwrap();
        let files = ["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{}{end}", db.display())));
        files.iter().for_each(|file| assert_eq!(mode(file), 0o600, "{}", file.display()));
        // Made private again, should someone have opened them up.
        std::mem::forget(catalog);
        files.iter().for_each(|file| fs::set_permissions(file, Permissions::from_mode(0o666)).unwrap());
        let (_catalog, opened) = Catalog::open(&db, patient()).unwrap();
        assert_eq!(opened, Opened::Existing { clean: false });
        files.iter().for_each(|file| assert_eq!(mode(file), 0o600, "{}", file.display()));
    }
}

#[test]
fn symlinks_are_refused() {
    for end in ["", "-wal", "-shm", "-journal"] {
        let (place, elsewhere) = (Place::new(), Place::with_rows(1));
        let link = place.dir.path().join(format!("tasks.db{end}"));
        symlink(elsewhere.db(), &link).unwrap();
        let before = fs::read(elsewhere.db()).unwrap();
        let refused = |error: StoreError| {
            let StoreError::BadDataDir { path, problem } = error else { panic!("{error}") };
            assert!(path.ends_with(&format!("tasks.db{end}")) && problem.contains("symbolic link"));
        };
        refused(Catalog::open(&place.db(), patient()).unwrap_err());
        refused(Catalog::open_read_only(&place.db()).unwrap_err());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(elsewhere.db()).unwrap(), before);
        // One that leads nowhere, and what is no file at all.
        fs::remove_file(&link).unwrap();
        symlink(elsewhere.dir.path().join("new.db"), &link).unwrap();
        refused(Catalog::open(&place.db(), patient()).unwrap_err());
        assert_eq!(elsewhere.names(), ["tasks.db"]);
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        assert!(matches!(Catalog::open(&place.db(), patient()), Err(StoreError::BadDataDir { .. })));
    }
    // SQLite itself refuses, too, should the link come later than the look.
    let (place, elsewhere) = (Place::new(), Place::with_rows(1));
    symlink(elsewhere.db(), place.db()).unwrap();
    assert!(open_connection(&place.db(), Mode::Write, NEVER).is_err());
}

#[test]
fn a_directory_may_be_reached_by_a_symlink() {
    let (place, other) = (Place::with_rows(1), Place::new());
    let link = other.dir.path().join("a ? # % é link");
    symlink(place.dir.path(), &link).unwrap();
    let db = link.join("tasks.db");
    let (catalog, _) = Catalog::open(&db, patient()).unwrap();
    assert_eq!(catalog.count().unwrap(), 1);
    assert!(catalog.db_bytes().unwrap() > 4096);
    catalog.close().unwrap();
    assert_eq!(Catalog::open_read_only(&db).unwrap().unwrap().count().unwrap(), 1);
}

#[test]
fn garbage_is_set_aside_with_what_is_beside_it() {
    let place = Place::new();
    for end in ["", "-wal", "-shm"] {
        fs::write(place.dir.path().join(format!("tasks.db{end}")), [b'x'; 5000]).unwrap();
    }
    let aside = replaced(&place);
    for end in ["", "-wal"] {
        let path = format!("{}{end}", aside.display());
        assert_eq!(fs::read(&path).ok().as_deref(), Some([b'x'; 5000].as_slice()), "{path}");
    }
    // SQLite makes the index of the WAL anew whenever it opens one.
    assert!(fs::metadata(format!("{}-shm", aside.display())).is_ok());
    assert_eq!(mode(&place.db()), 0o600);
    // A second one in the same second gets another name.
    for n in 0..3 {
        fs::write(place.db(), [b'y'; 5000]).unwrap();
        assert_eq!(fs::read(replaced(&place)).unwrap(), [b'y'; 5000]);
        let names = place.names();
        let aside = names.iter().filter(|name| name.contains("corrupt") && !name.ends_with(['l', 'm']));
        assert_eq!(aside.count(), n + 2, "{names:?}");
    }
}

#[test]
fn damage_anywhere_is_found_or_harmless() {
    let whole = Place::with_rows(60);
    let bytes = fs::read(whole.db()).unwrap();
    let pages = u64::try_from(bytes.len() / 4096).unwrap();
    assert!(pages > 10);
    let damaged = |damage: &dyn Fn(&Path)| {
        let place = Place::new();
        fs::write(place.db(), &bytes).unwrap();
        damage(&place.db());
        place
    };
    for page in 0..pages {
        replaced(&damaged(&|db| overwrite(db, page * 4096, &[0; 4096])));
        if page > 0 {
            replaced(&damaged(&|db| {
                fs::OpenOptions::new().write(true).open(db).unwrap().set_len(page * 4096).unwrap()
            }));
        }
    }
    for len in [1, 50, 100, 4095, 5000] {
        replaced(&damaged(&|db| fs::OpenOptions::new().write(true).open(db).unwrap().set_len(len).unwrap()));
    }
    // The header: some bytes do not matter, but none makes a file that cannot be opened for good.
    for (at, byte) in bytes.iter().enumerate().take(100) {
        for value in [0xff, byte ^ 1] {
            let place = damaged(&|db| overwrite(db, u64::try_from(at).unwrap(), &[value]));
            let (catalog, opened) = place.open();
            catalog.put(row(100));
            let rows = if matches!(opened, Opened::Existing { .. }) { 61 } else { 1 };
            assert_eq!(catalog.count().unwrap(), rows, "byte {at}: {opened:?}");
        }
    }
}

#[test]
fn a_value_that_cannot_be_read_is_damage() {
    for (column, value) in [("metadata", "{"), ("created_at", "yesterday"), ("uuid", "nobody")] {
        let place = Place::with_rows(2);
        let sql = format!("UPDATE tasks SET {column} = ?1 WHERE rowid = 1");
        outsider(&place.db()).execute(&sql, params![value]).unwrap();
        replaced(&place);
    }
}

#[test]
fn damage_seen_while_running_keeps_the_file_from_being_called_clean() {
    let place = Place::with_rows(2);
    let (catalog, _) = place.open();
    outsider(&place.db()).execute("UPDATE tasks SET metadata = '{' WHERE rowid = 1", []).unwrap();
    let listed = catalog.list(&TaskFilter::default(), TaskOrder::default(), 10, None);
    assert!(matches!(listed, Err(StoreError::Catalog { .. })));
    catalog.close().unwrap();
    replaced(&place);
}

#[test]
fn an_empty_file_is_a_new_catalog() {
    let place = Place::new();
    fs::write(place.db(), "").unwrap();
    let (catalog, opened) = place.open();
    assert_eq!(opened, Opened::Created);
    assert_eq!(catalog.count().unwrap(), 0);
    assert_eq!(mode(&place.db()), 0o600);
}

#[test]
fn an_old_wal_is_not_replayed_into_a_new_file() {
    for empty in [false, true] {
        let running = Place::new();
        let (catalog, _) = running.open();
        catalog.put(row(0));
        catalog.flush().unwrap();
        let place = Place::new();
        fs::copy(running.dir.path().join("tasks.db-wal"), place.dir.path().join("tasks.db-wal")).unwrap();
        if empty {
            fs::write(place.db(), "").unwrap();
        }
        let aside = replaced(&place);
        assert!(fs::metadata(format!("{}-wal", aside.display())).unwrap().len() > 0);
    }
}

#[test]
fn other_schemas_are_set_aside() {
    let changes = [
        "PRAGMA user_version = 2",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = -1",
        "ALTER TABLE tasks DROP COLUMN model",
        "ALTER TABLE tasks ADD COLUMN colour TEXT",
        "DROP TABLE meta",
        "DROP TABLE tasks",
        "DROP INDEX idx_tasks_inheritance",
        "ALTER TABLE tasks RENAME TO others",
    ];
    for change in changes {
        let place = Place::with_rows(1);
        outsider(&place.db()).execute_batch(change).unwrap();
        assert!(Catalog::open_read_only(&place.db()).unwrap().is_none(), "{change}");
        let aside = replaced(&place);
        // Nothing was done to it.
        let now: i64 =
            outsider(&aside).query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert!(now > 0, "{change}");
    }
}

#[test]
fn a_lock_is_not_damage() {
    let place = Place::with_rows(1);
    let other = outsider(&place.db());
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let options = CatalogOptions { busy_timeout: Duration::from_millis(10), ..patient() };
    let error = Catalog::open(&place.db(), options).unwrap_err();
    assert!(matches!(error, StoreError::Catalog { .. }), "{error}");
    drop(other);
    assert_eq!(place.names(), ["tasks.db"]);
    assert_eq!(place.open().1, Opened::Existing { clean: false });
}

#[test]
fn reading_only_changes_nothing() {
    let place = Place::new();
    assert!(Catalog::open_read_only(&place.db()).unwrap().is_none());
    assert!(Catalog::open_read_only(Path::new("/no/such/directory/tasks.db")).unwrap().is_none());
    fs::write(place.db(), [b'x'; 5000]).unwrap();
    assert!(Catalog::open_read_only(&place.db()).unwrap().is_none());
    assert_eq!(place.names(), ["tasks.db"]);
    fs::remove_file(place.db()).unwrap();

    let (running, _) = place.open();
    let task = row(0);
    running.put(task.clone());
    running.flush().unwrap();
    // Beside a running server, the WAL is read.
    let beside = Catalog::open_read_only(&place.db()).unwrap().unwrap();
    assert_eq!(beside.get(task.uuid).unwrap(), Some(task.clone()));
    drop(beside);
    running.close().unwrap();

    let before = fs::read(place.db()).unwrap();
    let catalog = Catalog::open_read_only(&place.db()).unwrap().unwrap();
    catalog.put(row(1));
    catalog.remove(task.uuid);
    catalog.set_health(task.uuid, Health::Missing);
    catalog.flush().unwrap();
    assert_eq!(catalog.count().unwrap(), 1);
    assert_eq!(catalog.get(task.uuid).unwrap(), Some(task));
    assert_eq!(place.names(), ["tasks.db"]);
    catalog.close().unwrap();
    assert_eq!(fs::read(place.db()).unwrap(), before);
    assert_eq!(place.open().1, Opened::Existing { clean: true });
}

#[test]
fn a_read_only_directory_can_still_be_read() {
    let place = Place::with_rows(3);
    let test = "disk::a_read_only_directory_can_still_be_read";
    let root = rustix::process::geteuid().is_root() && std::env::var_os(CHILD_DIR).is_none();
    if root {
        fs::create_dir(place.dir.path().join("empty")).unwrap();
        for file in [place.dir.path(), &place.dir.path().join("empty"), &place.db()] {
            chown(file, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let as_nobody = |child: &mut Command| {
        if root {
            child.uid(NOBODY).gid(NOBODY);
        }
    };
    let Some(dir) = in_child(test, &place, as_nobody) else { return };
    let db = dir.join("tasks.db");
    let permit = |mode| fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
    let refused = |path: &Path| {
        let error = Catalog::open(path, patient()).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    };
    let count = || Catalog::open_read_only(&db).unwrap().unwrap().count().unwrap();
    permit(0o500);
    refused(&db);
    refused(&dir.join("other.db"));
    assert_eq!(count(), 3);
    // After a crash the WAL is there and cannot be used: what is in the file is better than nothing.
    permit(0o700);
    let (catalog, _) = Catalog::open(&db, patient()).unwrap();
    catalog.put(row(4));
    catalog.flush().unwrap();
    let wal = fs::read(dir.join("tasks.db-wal")).unwrap();
    let main = fs::read(&db).unwrap();
    drop(catalog);
    fs::write(&db, main).unwrap();
    fs::write(dir.join("tasks.db-wal"), wal).unwrap();
    permit(0o500);
    assert!(count() >= 3);
    // A file that cannot be written, and one that cannot be read.
    permit(0o700);
    fs::set_permissions(&db, Permissions::from_mode(0o400)).unwrap();
    refused(&db);
    fs::set_permissions(&db, Permissions::from_mode(0o000)).unwrap();
    assert!(Catalog::open_read_only(&db).unwrap().is_none());
}

#[test]
fn a_catalog_in_memory_works_like_one_on_disk() {
    let catalog = Catalog::in_memory().unwrap();
    let task = row(0);
    catalog.put(task.clone());
    assert_eq!(catalog.count().unwrap(), 1);
    assert_eq!(catalog.get(task.uuid).unwrap(), Some(task));
    assert_eq!(catalog.db_bytes().unwrap(), 0);
    assert!(format!("{catalog:?}").contains("Catalog"));
    catalog.close().unwrap();
    assert!(catalog.count().is_err());
}
