//! `tasks.db`: the catalog, a view of the tasks that can be deleted and rebuilt.
//!
//! Truth is in the task directories. So nothing here is on the path of a write: changes are queued, and one
//! thread commits them; a file that is damaged is set aside and the caller fills a new one.
//! The only module that knows SQLite.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use uuid::Uuid;

use crate::model::{Health, Page, Status, StoreError, TaskFilter, TaskId, TaskKey, TaskOrder, TaskRow};
use error::{Failure, kind, store_error};
use page::Position;
use writer::{BUSY_SLICE, Change, Queue, Writer};

mod error;
mod open;
mod page;
mod queries;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

/// The longest time that a read waits for rows that were queued before it. Past that it answers from what is committed: a
/// listing must work while the disk is full, or nobody could find what to remove.
const READ_WAIT: Duration = Duration::from_secs(5);

/// The waiting times of a catalog.
#[derive(Debug, Clone)]
pub struct CatalogOptions {
    /// How long one attempt waits for another process's lock.
    pub busy_timeout: Duration,
    /// Further attempts before a commit is put off to the next round.
    pub retries: u32,
    /// How long a change may stay in memory.
    pub flush_every: Duration,
}

impl Default for CatalogOptions {
    fn default() -> Self {
        Self { busy_timeout: Duration::from_secs(30), retries: 3, flush_every: Duration::from_millis(500) }
    }
}

/// The result of [`Catalog::open`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// A catalog. If it was not closed in order, rows may be missing or old.
    Existing {
        /// Whether it was closed in order.
        clean: bool,
    },
    /// Nothing: it is empty.
    Created,
    /// A file that could not be used: the catalog is empty.
    Replaced {
        /// The old file's new name; its WAL is beside it.
        set_aside: PathBuf,
    },
}

/// A connection that can be closed under its users.
type Db = Arc<Mutex<Option<Connection>>>;

/// A handle on the catalog. Clones share it; all calls but those that queue may block.
///
/// When the last clone is dropped without [`Catalog::close`], what is queued is lost, as in a crash.
#[derive(Clone)]
pub struct Catalog {
    inner: Arc<Inner>,
}

struct Inner {
    /// `None` for a catalog in memory.
    path: Option<PathBuf>,
    reader: Db,
    /// `None` for a catalog that is only read.
    writing: Option<Writing>,
    /// The names of this run and of the one before.
    runs: (String, Option<String>),
}

struct Writing {
    queue: Arc<Queue>,
    /// In memory this is the reader's connection, as the rows are in it.
    db: Db,
    thread: Mutex<Option<JoinHandle<()>>>,
    options: CatalogOptions,
}

impl Catalog {
    /// Most rows of one page.
    pub const MAX_PAGE_SIZE: usize = 1000;
    /// Bytes of text at which a page ends early: error messages can be long, and gRPC clients take 4 MiB at once.
    const PAGE_BYTES: usize = 2 << 20;

    /// Opens the catalog at `path`, and makes it if there is none that can be used. The directory must exist.
    ///
    /// A lock of another process, a full or a read-only disk are errors, not damage: the file stays.
    pub fn open(path: &Path, options: CatalogOptions) -> Result<(Self, Opened), StoreError> {
        let (conn, path, opened) = open::open(path, options.busy_timeout)?;
        let reader = open::open_reader(&path, options.busy_timeout)?;
        conn.busy_timeout(options.busy_timeout.min(BUSY_SLICE)).map_err(store_error)?;
        let run = Uuid::now_v7().to_string();
        let last = schema::run(&conn).map_err(store_error)?;
        schema::set_run(&conn, &run).map_err(store_error)?;
        let catalog = Self::start(Some(path), share(reader), share(conn), options, (run, last))?;
        Ok((catalog, opened))
    }

    /// Opens the catalog at `path` to read it as it is; changes are ignored. `None` if there is none that can
    /// be read.
    ///
    /// Where SQLite cannot use the WAL (a read-only directory after a crash), rows may be older.
    pub fn open_read_only(path: &Path) -> Result<Option<Self>, StoreError> {
        let opened = open::open_read_only(path, CatalogOptions::default().busy_timeout)?;
        Ok(opened.map(|(conn, path)| {
            let runs = (String::new(), None);
            let inner = Inner { path: Some(path), reader: share(conn), writing: None, runs };
            Self { inner: Arc::new(inner) }
        }))
    }

    /// Returns whether somebody used the catalog at `path` and was killed, or uses it now: reading it takes files beside
    /// it.
    pub fn was_in_use(path: &Path) -> bool {
        open::has_beside(path).unwrap_or(true)
    }

    /// An empty catalog that is on no disk, for when the disk takes no writes.
    pub fn in_memory() -> Result<Self, StoreError> {
        let db = share(open::open_in_memory()?);
        Self::start(None, Arc::clone(&db), db, CatalogOptions::default(), (String::new(), None))
    }

    fn start(
        path: Option<PathBuf>,
        reader: Db,
        db: Db,
        options: CatalogOptions,
        runs: (String, Option<String>),
    ) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::default());
        let writer = Writer { queue: Arc::clone(&queue), db: Arc::clone(&db), options: options.clone() };
        let thread = thread::Builder::new()
            .name("catalog-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::io("starting the catalog's thread", error))?;
        let writing = Writing { queue, db, thread: Mutex::new(Some(thread)), options };
        Ok(Self { inner: Arc::new(Inner { path, reader, writing: Some(writing), runs }) })
    }

    /// Names this use of the file; empty where nothing is written to one.
    pub fn run(&self) -> &str {
        &self.inner.runs.0
    }

    /// The name of the use before this one, as the file has it. Who wrote it down elsewhere can tell an old
    /// copy of the file from the one that was closed last.
    pub fn last_run(&self) -> Option<&str> {
        self.inner.runs.1.as_deref()
    }

    /// Queues a row, new or changed. Never waits for the disk.
    pub fn put(&self, row: TaskRow) {
        self.push(row.uuid, Change::Put(Arc::new(row)));
    }

    /// Queues the removal of a row.
    pub fn remove(&self, id: TaskId) {
        self.push(id, Change::Remove);
    }

    /// Queues a change of a row's health; nothing happens if there is no such row by then.
    pub fn set_health(&self, id: TaskId, health: Health) {
        self.push(id, Change::Health(health));
    }

    fn push(&self, id: TaskId, change: Change) {
        if let Some(writing) = &self.inner.writing {
            writing.queue.push(id, change, writing.options.flush_every);
        }
    }

    /// Returns when everything queued before is committed. After an error it is still queued.
    pub fn flush(&self) -> Result<(), StoreError> {
        match &self.inner.writing {
            Some(writing) => Ok(writing.queue.flush(None)?),
            None => Ok(()),
        }
    }

    /// Commits what is queued, marks the file as closed in order, and closes it. Later changes are ignored,
    /// later reads fail.
    pub fn close(&self) -> Result<(), StoreError> {
        let Some(writing) = &self.inner.writing else {
            drop(take(&self.inner.reader));
            return Ok(());
        };
        if !writing.queue.close() {
            return Ok(());
        }
        let flushed = writing.queue.flush(None);
        writing.join();
        // In memory this would be the writer's.
        if self.inner.path.is_some() {
            drop(take(&self.inner.reader));
        }
        let conn = take(&writing.db);
        flushed?;
        match (conn, &self.inner.path) {
            (Some(conn), Some(_)) if !writing.queue.is_damaged() => {
                finish(&conn, writing.options.busy_timeout).map_err(store_error)
            }
            _ => Ok(()),
        }
    }

    /// One row.
    pub fn get(&self, id: TaskId) -> Result<Option<TaskRow>, StoreError> {
        // The queue first: what is no longer in it is committed by then.
        let queued = self.inner.writing.as_ref().and_then(|writing| writing.queue.queued(id));
        let health = match queued {
            Some(Change::Put(row)) => return Ok(Some(Arc::unwrap_or_clone(row))),
            Some(Change::Remove) => return Ok(None),
            Some(Change::Health(health)) => Some(health),
            None => None,
        };
        let row = self.read(|conn| queries::get(conn, id))?;
        Ok(row.map(|row| TaskRow { health: health.unwrap_or(row.health), ..row }))
    }

    /// One page of the rows that match, at most [`Self::MAX_PAGE_SIZE`] of them; fewer than asked for if they are
    /// large, but at least one.
    pub fn list(
        &self,
        filter: &TaskFilter,
        order: TaskOrder,
        page_size: usize,
        page_token: Option<&str>,
    ) -> Result<Page, StoreError> {
        let after = page_token.map(|token| Position::parse(token, order)).transpose()?;
        let page_size = page_size.clamp(1, Self::MAX_PAGE_SIZE);
        self.settle();
        let size = (page_size, Self::PAGE_BYTES);
        let (rows, more) = self.read(|conn| queries::list(conn, filter, order, after, size))?;
        let last = rows.last().filter(|_| more);
        let next = last.map(|row| Position { at: sort_value(row, order), id: row.uuid }.token(order));
        Ok(Page { rows, next })
    }

    /// The newest tasks that ended and have the same source (or none), type, id, repository and user.
    pub fn previous(&self, key: &TaskKey, user: &str, limit: usize) -> Result<Vec<TaskRow>, StoreError> {
        self.settle();
        self.read(|conn| queries::previous(conn, key, user, limit.clamp(1, Self::MAX_PAGE_SIZE)))
    }

    /// Returns which of the ids have a row that does not call them missing.
    pub fn known(&self, ids: &[TaskId]) -> Result<HashSet<TaskId>, StoreError> {
        let queued = self.inner.writing.as_ref().map(|writing| writing.queue.queued_of(ids));
        let mut known = self.read(|conn| queries::known(conn, ids))?;
        for (id, change) in queued.into_iter().flatten() {
            match change {
                Change::Put(_) => known.insert(id),
                Change::Remove => known.remove(&id),
                Change::Health(_) => continue,
            };
        }
        Ok(known)
    }

    /// Visits the tasks that are running or paused and healthy, until a visit fails. A visit may use the
    /// catalog.
    pub fn each_live(
        &self,
        visit: &mut dyn FnMut(TaskId, Status) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.settle();
        let live = self.read(queries::live)?;
        live.into_iter().try_for_each(|(id, status)| visit(id, status))
    }

    /// Visits the tasks that have ended and are healthy, until a visit fails. A visit may use the catalog.
    pub fn each_ended(
        &self,
        visit: &mut dyn FnMut(TaskId) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.settle();
        self.read(queries::ended)?.into_iter().try_for_each(visit)
    }

    /// Returns how many rows there are.
    pub fn count(&self) -> Result<u64, StoreError> {
        self.settle();
        self.read(queries::count)
    }

    /// Bytes on disk, with the WAL; 0 in memory.
    pub fn db_bytes(&self) -> Result<u64, StoreError> {
        let Some(path) = &self.inner.path else { return Ok(0) };
        open::with_beside(path).iter().try_fold(0, |sum, file| Ok(sum + open::size(file)?.unwrap_or(0)))
    }

    /// Commits what is queued before a read; if that cannot be done, the read goes on without it.
    fn settle(&self) {
        let Some(writing) = &self.inner.writing else { return };
        if let Err(Failure { problem, .. }) = writing.queue.flush(Some(READ_WAIT)) {
            tracing::warn!(problem, "a listing leaves out what is not committed");
        }
    }

    fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let reader = self.inner.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(conn) = reader.as_ref() else {
            return Err(Failure::other("it is closed").into());
        };
        query(conn).map_err(|error| {
            if let Some(writing) = &self.inner.writing {
                writing.queue.note(kind(&error));
            }
            store_error(error)
        })
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("path", &self.inner.path)
            .field("read_only", &self.inner.writing.is_none())
            .finish_non_exhaustive()
    }
}

impl Writing {
    /// Stops the thread and waits for it.
    fn join(&self) {
        self.queue.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the catalog's thread panicked");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(writing) = &self.writing {
            writing.join();
            // The writer last: only it can fold the WAL into the file.
            drop(take(&self.reader));
        }
    }
}

/// Marks a file as closed in order, and leaves nothing in its WAL.
fn finish(conn: &Connection, busy: Duration) -> rusqlite::Result<()> {
    conn.busy_timeout(busy)?;
    schema::set_clean(conn, true)?;
    // Whether all of it could be moved does not matter: the WAL is as durable as the file.
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn sort_value(row: &TaskRow, order: TaskOrder) -> chrono::DateTime<chrono::Utc> {
    match order {
        TaskOrder::CreatedDescending | TaskOrder::CreatedAscending => row.created_at,
        TaskOrder::UpdatedDescending | TaskOrder::UpdatedAscending => row.updated_at,
    }
}

fn share(conn: Connection) -> Db {
    Arc::new(Mutex::new(Some(conn)))
}

fn take(db: &Db) -> Option<Connection> {
    db.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
