//! From a path to a catalog that can be trusted: private files, no symlinks, and a damaged file set aside.

#![expect(clippy::disallowed_methods, reason = "SQLite's files are the catalog's own; this is their door")]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags, ffi};
use rustix::fs::{Access, OFlags, access};

use super::Opened;
use super::error::{Kind, is_unusable, kind, store_error};
use super::schema::{self, Found};
use super::{lossy, queries};
use crate::infra::clock::SystemClock;
use crate::model::StoreError;

/// The endings of files that SQLite keeps beside a database. The first journal of a file is a rollback one: WAL comes later.
pub(super) const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

const PRIVATE: u32 = 0o600;

/// The access with which a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Write,
    Read,
    /// Reads the file alone: no lock, no WAL, nothing made beside it.
    Immutable,
    Memory,
}

/// The one place where SQLite opens a file.
pub(super) fn open_connection(path: &Path, mode: Mode, busy: Duration) -> rusqlite::Result<Connection> {
    let common = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = match mode {
        Mode::Write => Connection::open_with_flags(path, common | OpenFlags::SQLITE_OPEN_READ_WRITE),
        Mode::Read => Connection::open_with_flags(path, common | OpenFlags::SQLITE_OPEN_READ_ONLY),
        Mode::Immutable => {
            let flags = common | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(immutable_uri(path), flags)
        }
        Mode::Memory => Connection::open_in_memory(),
    }?;
    conn.busy_timeout(busy)?;
    conn.pragma_update(None, "foreign_keys", false)?;
    Ok(conn)
}

fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}

/// Opens a catalog for writing; makes it if there is none or none that can be used.
pub(super) fn open(path: &Path, busy: Duration) -> Result<(Connection, PathBuf, Opened), StoreError> {
    let path = resolve(path)?;
    let found = look(&path)?;
    writable(&path, found.is_some())?;
    // An old WAL would be replayed into a new file, and make a mix of both.
    let leftovers = found.is_none_or(|bytes| bytes == 0) && has_beside(&path)?;
    if leftovers {
        let set_aside = set_aside(&path, "only what SQLite keeps beside it was found")?;
        return Ok((create(&path, busy)?, path, Opened::Replaced { set_aside }));
    }
    if found.is_none() {
        return Ok((create(&path, busy)?, path, Opened::Created));
    }
    for file in with_beside(&path) {
        make_private(&file)?;
    }
    let prepared = match found {
        // SQLite takes a file of one byte for an empty one, and would write over it.
        Some(1) => Err(Refused::unusable("it is too short")),
        _ => prepare(&path, busy),
    };
    match prepared {
        Ok((conn, opened)) => Ok((conn, path, opened)),
        Err(Refused::Busy(error) | Refused::Failed(error)) => Err(error),
        Err(Refused::Unusable(problem)) => {
            let set_aside = set_aside(&path, &problem)?;
            Ok((create(&path, busy)?, path, Opened::Replaced { set_aside }))
        }
    }
}

/// Opens a catalog that can be read as it is, and nothing else; `None` if there is none.
pub(super) fn open_read_only(
    path: &Path,
    busy: Duration,
) -> Result<Option<(Connection, PathBuf)>, StoreError> {
    // A directory that is not there or cannot be entered has no catalog.
    let Ok(path) = resolve(path) else { return Ok(None) };
    match look(&path) {
        Ok(Some(_)) => {}
        Err(error @ StoreError::BadDataDir { .. }) => return Err(error),
        Ok(None) | Err(_) => return Ok(None),
    }
    // With nothing beside it the file is complete, and SQLite would make a WAL only to read it.
    let mut opened = if has_beside(&path)? {
        look_over(&path, Mode::Read, busy)
    } else {
        look_over(&path, Mode::Immutable, busy)
    };
    if opened.is_err() && writable(&path, false).is_err() {
        // Reading a WAL takes files that cannot be made here.
        opened = look_over(&path, Mode::Immutable, busy);
    }
    match opened {
        Ok(conn) => Ok(Some((conn, path))),
        Err(Refused::Busy(error)) => Err(error),
        Err(refused) => {
            tracing::warn!(path = %path.display(), problem = %refused, "the catalog cannot be read");
            Ok(None)
        }
    }
}

fn look_over(path: &Path, mode: Mode, busy: Duration) -> Result<Connection, Refused> {
    let conn = open_connection(path, mode, busy)?;
    match schema::find(&conn)? {
        Found::Catalog if schema::is_current(&conn)? => check(&conn).map(|_| conn),
        Found::Catalog | Found::Nothing => Err(Refused::unusable("its tables are not a catalog's")),
        Found::Foreign(problem) => Err(Refused::Unusable(problem)),
    }
}

/// An empty catalog in memory.
pub(super) fn open_in_memory() -> Result<Connection, StoreError> {
    let mut conn = open_connection(Path::new(""), Mode::Memory, Duration::ZERO).map_err(store_error)?;
    schema::migrate(&mut conn).map_err(|error| Refused::from(error).into_error())?;
    Ok(conn)
}

/// The reason why a file is not used as a catalog.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{0}")]
    Unusable(String),
    #[error("{0}")]
    Busy(StoreError),
    #[error("{0}")]
    Failed(StoreError),
}

impl Refused {
    fn unusable(problem: &str) -> Self {
        Self::Unusable(problem.to_owned())
    }

    fn into_error(self) -> StoreError {
        match self {
            Self::Unusable(problem) => StoreError::Catalog { problem },
            Self::Busy(error) | Self::Failed(error) => error,
        }
    }
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        match kind(&error) {
            _ if is_unusable(&error) => Self::Unusable(error.to_string()),
            Kind::Busy => Self::Busy(store_error(error)),
            Kind::Full | Kind::ReadOnly | Kind::Corrupt | Kind::Row | Kind::Other => {
                Self::Failed(store_error(error))
            }
        }
    }
}

impl From<rusqlite_migration::Error> for Refused {
    fn from(error: rusqlite_migration::Error) -> Self {
        if let rusqlite_migration::Error::RusqliteError { err, .. } = error {
            return err.into();
        }
        Self::Unusable(error.to_string())
    }
}

/// Makes an empty catalog where there is no file.
fn create(path: &Path, busy: Duration) -> Result<Connection, StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(PRIVATE).custom_flags(no_follow());
    let file = options.open(path).map_err(|error| io_error("making", path, error))?;
    // The umask may have taken bits away; SQLite gives its other files the same permissions.
    file.set_permissions(Permissions::from_mode(PRIVATE))
        .map_err(|error| io_error("making private", path, error))?;
    drop(file);
    prepare(path, busy).map(|(conn, _)| conn).map_err(Refused::into_error)
}

/// Opens a file that is there, looks it over, and brings it up to date.
fn prepare(path: &Path, busy: Duration) -> Result<(Connection, Opened), Refused> {
    let mut conn = open_connection(path, Mode::Write, busy).map_err(|error| match error.sqlite_error() {
        Some(found) if found.extended_code == ffi::SQLITE_CANTOPEN_SYMLINK => {
            Refused::Failed(bad(path, "is a symbolic link"))
        }
        _ => error.into(),
    })?;
    // If the file turns out to be unusable, it is set aside as it was found, with its WAL.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let found = schema::find(&conn)?;
    if let Found::Foreign(problem) = found {
        return Err(Refused::Unusable(problem));
    }
    if conn.is_readonly(MAIN_DB)? {
        // The system allows writes, so it is the header that forbids them.
        return Err(Refused::unusable("its header asks for a newer SQLite"));
    }
    let journal: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if journal != "wal" {
        tracing::warn!(path = %path.display(), journal, "the file system allows no WAL: listings may wait");
    }
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    schema::migrate(&mut conn)?;
    if !schema::is_current(&conn)? {
        return Err(Refused::unusable("its columns are not a catalog's"));
    }
    let clean = check(&conn)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    if clean {
        schema::set_clean(&conn, false)?;
    }
    let opened = if found == Found::Nothing { Opened::Created } else { Opened::Existing { clean } };
    Ok((conn, opened))
}

/// Reads all of a file that was not closed in order. Answers whether it was.
fn check(conn: &Connection) -> Result<bool, Refused> {
    let clean = schema::is_clean(conn)?;
    if !clean {
        if let Some(problem) = schema::quick_check(conn)? {
            return Err(Refused::Unusable(problem));
        }
        queries::read_all(conn)?;
    }
    Ok(clean)
}

/// Renames a database and what is beside it, so that a new one can be made. The one place that renames.
fn set_aside(path: &Path, problem: &str) -> Result<PathBuf, StoreError> {
    let stamp = SystemClock::shared().now().format("%Y%m%dT%H%M%SZ").to_string();
    let mut target = sibling(path, &format!(".corrupt-{stamp}"));
    let mut n = 0;
    while taken(&target)? {
        n += 1;
        target = sibling(path, &format!(".corrupt-{stamp}.{n}"));
    }
    tracing::warn!(path = %path.display(), set_aside = %target.display(), problem, "the catalog is replaced");
    // The database first: if the power fails in between, what is left has no database, and is set aside
    // when next opened. The other way round an old database could pass as whole.
    for (from, to) in with_beside(path).into_iter().zip(with_beside(&target)) {
        match fs::rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("setting aside", &from, error));
            }
            _ => {}
        }
    }
    let dir = path.parent().unwrap_or(Path::new("/"));
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| io_error("syncing", dir, error))?;
    Ok(target)
}

fn taken(target: &Path) -> Result<bool, StoreError> {
    for file in with_beside(target) {
        if size(&file)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The path with its directory's symlinks resolved: the directory may be reached by one, the file may not
/// be one, and SQLite cannot tell the two apart.
fn resolve(path: &Path) -> Result<PathBuf, StoreError> {
    let Some(name) = path.file_name() else { return Err(bad(path, "is not a file's name")) };
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let dir = fs::canonicalize(dir).map_err(|error| io_error("opening", dir, error))?;
    Ok(dir.join(name))
}

/// The size of the database, or `None`. Anything that is not a plain file is refused.
fn look(path: &Path) -> Result<Option<u64>, StoreError> {
    for file in with_beside(path) {
        match fs::symlink_metadata(&file) {
            Ok(found) if found.is_symlink() => return Err(bad(&file, "is a symbolic link")),
            Ok(found) if !found.is_file() => return Err(bad(&file, "is not a plain file")),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("looking at", &file, error));
            }
            _ => {}
        }
    }
    size(path)
}

/// The size of what is at a path, symlinks not followed.
pub(super) fn size(path: &Path) -> Result<Option<u64>, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("looking at", path, error)),
    }
}

pub(super) fn has_beside(path: &Path) -> Result<bool, StoreError> {
    for file in with_beside(path).iter().skip(1) {
        if size(file)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Fails if the file or its directory takes no writes. SQLite would open such a file all the same, and fail
/// later in ways that look like damage.
fn writable(path: &Path, exists: bool) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let files = if exists { vec![dir, path] } else { vec![dir] };
    for file in files {
        if let Err(error) = access(file, Access::WRITE_OK) {
            let reason = format!("{} cannot be written: {error}", lossy(file));
            return Err(StoreError::ReadOnly { reason });
        }
    }
    Ok(())
}

/// Makes a file 0600 that others could read. A file that is private already is not touched: opening and
/// closing it would drop the locks that SQLite holds on it in this process.
fn make_private(path: &Path) -> Result<(), StoreError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.mode() & 0o7777 == PRIVATE => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(no_follow());
    let made = options.open(path).and_then(|file| file.set_permissions(Permissions::from_mode(PRIVATE)));
    made.map_err(|error| io_error("making private", path, error))
}

fn no_follow() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

pub(super) fn with_beside(path: &Path) -> Vec<PathBuf> {
    std::iter::once("").chain(BESIDE).map(|end| sibling(path, end)).collect()
}

fn sibling(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().as_bytes().to_vec();
    name.extend_from_slice(end.as_bytes());
    PathBuf::from(OsString::from_vec(name))
}

fn io_error(action: &str, path: &Path, error: io::Error) -> StoreError {
    StoreError::io(format!("{action} {}", lossy(path)), error)
}

fn bad(path: &Path, problem: &str) -> StoreError {
    StoreError::BadDataDir { path: lossy(path), problem: problem.to_owned() }
}

/// A connection that only reads, beside the one that writes.
pub(super) fn open_reader(path: &Path, busy: Duration) -> Result<Connection, StoreError> {
    open_connection(path, Mode::Read, busy).map_err(store_error)
}
