//! Sorts failures of SQLite: some pass by themselves, some say that the file is damaged.

use std::io;

use rusqlite::{ErrorCode, ffi};

use crate::model::StoreError;

/// The remedy for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Someone else holds the lock: try again.
    Busy,
    /// No space: keep what is to be written until there is some.
    Full,
    /// The disk or the file takes no writes.
    ReadOnly,
    /// The file does not hold what was written to it.
    Corrupt,
    /// One row cannot be stored, whatever is tried; others can.
    Row,
    /// Anything else: the disk failed, memory ran out.
    Other,
}

/// Sorts a failure.
pub(super) fn kind(error: &rusqlite::Error) -> Kind {
    // A value that cannot be read back is damage: the columns are typed and only `queries` writes them.
    if matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
    ) {
        return Kind::Corrupt;
    }
    if matches!(error, rusqlite::Error::ToSqlConversionFailure(_)) {
        return Kind::Row;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Kind::Busy,
        Some(ErrorCode::DiskFull) => Kind::Full,
        Some(ErrorCode::ReadOnly) => Kind::ReadOnly,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Kind::Corrupt,
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => Kind::Row,
        _ => Kind::Other,
    }
}

/// Returns whether a failure of the fixed statements that look a file over means that the file is not a catalog.
///
/// They are right for every catalog, so a plain `SQLITE_ERROR` comes from the file: a format this SQLite does not know, a
/// table that is not there. The same holds for "read-only" once the file and its directory are known to be writable: the
/// header then asks for a newer SQLite.
pub(super) fn is_unusable(error: &rusqlite::Error) -> bool {
    let plain = |code| error.sqlite_error().is_some_and(|found| found.extended_code == code);
    kind(error) == Kind::Corrupt || plain(ffi::SQLITE_ERROR) || plain(ffi::SQLITE_READONLY)
}

/// A failure that can be told to many callers.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) problem: String,
}

impl Failure {
    /// For what is not a failure of SQLite.
    pub(super) fn other(problem: impl Into<String>) -> Self {
        Self { kind: Kind::Other, problem: problem.into() }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self { kind: kind(&error), problem: error.to_string() }
    }
}

impl From<Failure> for StoreError {
    fn from(Failure { kind, problem }: Failure) -> Self {
        match kind {
            Kind::Full => Self::DiskFull { source: io::Error::new(io::ErrorKind::StorageFull, problem) },
            Kind::ReadOnly => Self::ReadOnly { reason: format!("the catalog: {problem}") },
            Kind::Busy | Kind::Corrupt | Kind::Row | Kind::Other => Self::Catalog { problem },
        }
    }
}

/// The store's error for a failure of SQLite.
pub(super) fn store_error(error: rusqlite::Error) -> StoreError {
    Failure::from(error).into()
}
