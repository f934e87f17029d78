//! Start-up: what a crash may have left is put right before anybody is served.
//!
//! Everything is listed first and acted on afterwards, so that a task just moved is not taken for another.
//! Tasks that ended are not read: their rows come from the catalog, or from `task.json` if it has none.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::sync::Arc;

use uuid::Uuid;

use crate::infra::fs::{DirEntry, Kind, Name, StorePath};
use crate::model::{Health, Status, StoreError, TaskId, TaskRow};

use super::env::Env;
use super::files::{self, Sync};
use super::layout::{self, Folder};
use super::metadata;
use super::task::{OpenMode, Task};

const MAX_ROW_BYTES: u64 = 16 << 20;

/// Something that was put right, or could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// A file or directory that was only there while something was going on.
    Removed(String),
    /// A move that its log had decided.
    Moved(TaskId, Status),
    /// Metadata that was damaged and of which there was a copy.
    Restored(TaskId),
    /// A log that is damaged where it was durable.
    Quarantined(TaskId, String),
    /// A task that a newer version wrote.
    NewerFormat(TaskId, String),
    /// A task that the catalog knows and that is nowhere.
    Missing(TaskId),
    /// A row that the catalog did not have.
    Catalogued(TaskId),
    /// A task that could not be looked at; it is tried again when it is used.
    Failed(TaskId, String),
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed(path) => write!(f, "removed {path}, left by a crash"),
            Self::Moved(id, status) => write!(f, "moved {id} to where a {} task belongs", status.as_str()),
            Self::Restored(id) => write!(f, "restored the metadata of {id} from a copy"),
            Self::Quarantined(id, reason) => write!(f, "put {id} into quarantine: {reason}"),
            Self::NewerFormat(id, found) => write!(f, "left {id} alone: {found}"),
            Self::Missing(id) => write!(f, "{id} is in the catalog and nowhere else"),
            Self::Catalogued(id) => write!(f, "added {id} to the catalog"),
            Self::Failed(id, problem) => write!(f, "could not look at {id}: {problem}"),
        }
    }
}

/// Recovers a store whose lock is held. Changes nothing but the catalog if no writes are taken.
pub(crate) fn recover(env: &Arc<Env>) -> Result<Vec<Recovered>, StoreError> {
    let mut recovery = Recovery::new(env);
    recovery.sync_folders()?;
    recovery.empty(layout::TMP)?;
    recovery.finish_removals()?;
    let mut places: BTreeMap<TaskId, Vec<Folder>> = BTreeMap::new();
    for folder in [Folder::Running, Folder::Paused] {
        for id in recovery.tasks_in(folder)? {
            places.entry(id).or_default().push(folder);
        }
    }
    for (id, folders) in &mut places {
        for folder in [Folder::Completed, Folder::Quarantine] {
            if recovery.is_there(folder, *id)? {
                folders.push(folder);
            }
        }
    }
    for (id, folders) in places {
        match folders[..] {
            [folder] => recovery.live_task(id, folder)?,
            _ => recovery.twice(id, &folders)?,
        }
    }
    recovery.ended_tasks()?;
    recovery.quarantined_tasks()?;
    recovery.rows_without_task()?;
    Ok(recovery.done)
}

/// Empties `.tmp` and `.trash` of what a crash left there; part of every start.
pub(crate) fn sweep(env: &Arc<Env>) -> Result<Vec<Recovered>, StoreError> {
    let mut recovery = Recovery::new(env);
    recovery.sync_folders()?;
    recovery.empty(layout::TMP)?;
    recovery.finish_removals()?;
    Ok(recovery.done)
}

/// Puts a damaged task where it can be read but not written.
pub(crate) fn quarantine(
    env: &Arc<Env>,
    id: TaskId,
    folder: Folder,
    reason: &StoreError,
) -> Result<(), StoreError> {
    let fs = env.fs.as_ref();
    let from = folder.task(id);
    let (file, offset, problem) = if let StoreError::Damaged { path, offset, problem } = reason {
        (path.clone(), *offset, problem.clone())
    } else {
        (from.to_string(), 0, reason.to_string())
    };
    let note = serde_json::json!({
        "uuid": id,
        "found_at": env.clock.now(),
        "from": folder.name().as_str(),
        "file": file,
        "offset": offset,
        "problem": problem,
    });
    let noted =
        files::replace(fs, &from.join(layout::QUARANTINE_NOTE), format!("{note}\n").as_bytes(), Sync::No);
    if let Err(error) = noted {
        tracing::warn!(%id, %error, "the note of a quarantined task could not be written");
    }
    let mut name = Name::from(id.uuid());
    for number in 2.. {
        match files::move_durably(fs, &from, &Folder::Quarantine.path().join(name)) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                name = Name::from(id.uuid()).numbered(number);
            }
            Err(error) => return Err(StoreError::io(format!("moving {from} into quarantine"), error)),
        }
    }
    tracing::error!(%id, file, offset, problem, "a task was put into quarantine");
    catalogue_quarantined(env, id);
    Ok(())
}

fn catalogue_quarantined(env: &Arc<Env>, id: TaskId) {
    match Task::open(env, id, Folder::Quarantine, OpenMode::Look) {
        Ok(task) => env.catalog.put(TaskRow { health: Health::Quarantined, ..task.expected_row() }),
        Err(_) => {
            env.note_undone();
            env.catalog.set_health(id, Health::Quarantined);
        }
    }
}

/// The task that a directory is named after.
pub(crate) fn task_of(name: &Name) -> Option<TaskId> {
    let id = Uuid::try_parse(name.as_str()).ok()?;
    (id.hyphenated().to_string() == name.as_str()).then(|| TaskId::from(id))
}

struct Recovery<'a> {
    env: &'a Arc<Env>,
    writes: bool,
    /// The tasks in `completed`, once it was listed.
    ended: Option<HashSet<TaskId>>,
    done: Vec<Recovered>,
    /// Rows that wait to be written to the catalog.
    rows: usize,
}

/// Rows that may wait: a rebuild of a large catalog must not keep all of them in memory.
const MAX_ROWS: usize = 1024;

impl<'a> Recovery<'a> {
    fn new(env: &'a Arc<Env>) -> Self {
        Self { env, writes: env.read_only().is_none(), ended: None, done: Vec::new(), rows: 0 }
    }

    /// Syncs the folders: a process that was killed between a rename and its sync left a task that the next power cut would
    /// take back, with all that is written to it from now on.
    fn sync_folders(&self) -> Result<(), StoreError> {
        if !self.writes {
            return Ok(());
        }
        let folders = Folder::HEALTHY.into_iter().chain([Folder::Quarantine]).map(Folder::path);
        let others = [layout::TMP, layout::TRASH].map(|name| StorePath::ROOT.join(name));
        for dir in folders.chain(others).chain([StorePath::ROOT]) {
            let synced = self.env.fs.sync_dir(&dir);
            synced.map_err(|error| StoreError::io(format!("syncing {dir}"), error))?;
        }
        Ok(())
    }

    fn empty(&mut self, name: Name) -> Result<(), StoreError> {
        if !self.writes {
            return Ok(());
        }
        let dir = StorePath::ROOT.join(name);
        for name in self.names_in(&dir)? {
            let path = dir.join(name);
            match files::remove_tree(self.env.fs.as_ref(), &path) {
                Ok(()) => self.done.push(Recovered::Removed(path.to_string())),
                Err(error) => tracing::warn!(%path, %error, "could not be removed"),
            }
        }
        Ok(())
    }

    /// Empties the trash, behind the rows of the tasks in it: a crash may have come before these were gone.
    fn finish_removals(&mut self) -> Result<(), StoreError> {
        if !self.writes {
            return Ok(());
        }
        let trash = StorePath::ROOT.join(layout::TRASH);
        for id in self.names_in(&trash)?.iter().filter_map(task_of) {
            let mut again = false;
            for folder in Folder::HEALTHY.into_iter().chain([Folder::Quarantine]) {
                again |= self.is_there(folder, id)?;
            }
            if !again {
                self.env.catalog.remove(id);
            }
        }
        match self.env.catalog.flush() {
            Ok(()) => self.empty(layout::TRASH),
            Err(error) => {
                tracing::warn!(%error, "the trash is kept until the catalog can be written");
                Ok(())
            }
        }
    }

    /// Writes a row to the catalog. One that cannot be written now waits until it can.
    fn put_row(&mut self, row: TaskRow) {
        self.env.catalog.put(row);
        self.rows += 1;
        if self.rows.is_multiple_of(MAX_ROWS)
            && let Err(error) = self.env.catalog.flush()
        {
            tracing::debug!(%error, "rows wait for the catalog");
        }
    }

    fn names_in(&self, dir: &StorePath) -> Result<Vec<Name>, StoreError> {
        Ok(self.entries_in(dir)?.into_iter().map(|entry| entry.name).collect())
    }

    fn entries_in(&self, dir: &StorePath) -> Result<Vec<DirEntry>, StoreError> {
        match files::entries(self.env.fs.as_ref(), dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.writes => Ok(Vec::new()),
            listed => listed.map_err(|error| StoreError::io(format!("listing {dir}"), error)),
        }
    }

    /// The task directories of a folder. What else is in it is left alone.
    fn tasks_in(&self, folder: Folder) -> Result<Vec<TaskId>, StoreError> {
        let dirs = self.entries_in(&folder.path())?.into_iter().filter(|entry| entry.kind == Kind::Dir);
        Ok(dirs.filter_map(|entry| task_of(&entry.name)).collect())
    }

    fn is_there(&self, folder: Folder, id: TaskId) -> Result<bool, StoreError> {
        let path = folder.task(id);
        let stat =
            self.env.fs.stat(&path).map_err(|error| StoreError::io(format!("looking at {path}"), error))?;
        Ok(stat.is_some_and(|stat| stat.kind == Kind::Dir))
    }

    fn live_task(&mut self, id: TaskId, folder: Folder) -> Result<(), StoreError> {
        let restored = if self.writes { metadata::restore(self.env, folder, id) } else { Ok(false) };
        match restored {
            Ok(false) => {}
            Ok(true) => self.done.push(Recovered::Restored(id)),
            Err(error) => {
                tracing::error!(%id, %error, "a task could not be opened");
                self.env.note_undone();
                self.done.push(Recovered::Failed(id, error.to_string()));
                return Ok(());
            }
        }
        let mode = if self.writes { OpenMode::Write } else { OpenMode::Look };
        let settled = Task::open(self.env, id, folder, mode).and_then(|task| {
            if !self.writes {
                return Ok((task, false));
            }
            for path in task.sweep()? {
                self.done.push(Recovered::Removed(path.to_string()));
            }
            let moved = task.settle_after_crash()?;
            Ok((task, moved))
        });
        match settled {
            Ok((task, moved)) => {
                let row = task.expected_row();
                if moved {
                    self.done.push(Recovered::Moved(id, row.status));
                }
                if row.health == Health::NewerFormat {
                    self.done
                        .push(Recovered::NewerFormat(id, "it holds an event of a newer version".to_owned()));
                }
                self.put_row(row);
            }
            Err(error @ StoreError::Damaged { .. }) => {
                self.done.push(Recovered::Quarantined(id, error.to_string()));
                if self.writes {
                    quarantine(self.env, id, folder, &error)?;
                }
            }
            Err(StoreError::NewerFormat { found, .. }) => {
                if let Ok(task) = Task::open(self.env, id, folder, OpenMode::Look) {
                    self.put_row(task.expected_row());
                }
                self.done.push(Recovered::NewerFormat(id, found));
            }
            Err(error) => {
                tracing::error!(%id, %error, "a task could not be opened");
                self.env.note_undone();
                self.done.push(Recovered::Failed(id, error.to_string()));
            }
        }
        Ok(())
    }

    /// The same id in two folders is nothing this program does: neither can be trusted to be the task.
    fn twice(&mut self, id: TaskId, folders: &[Folder]) -> Result<(), StoreError> {
        let names: Vec<String> = folders.iter().map(|folder| folder.name().to_string()).collect();
        let problem = format!("the same id is in {}", names.join(" and "));
        self.done.push(Recovered::Quarantined(id, problem.clone()));
        if self.writes {
            // The next start looks into the first folders: should this one not come to the end, it finds the rest.
            for folder in folders.iter().rev().filter(|folder| **folder != Folder::Quarantine) {
                let path = folder.task(id).to_string();
                let reason = StoreError::Damaged { path, offset: 0, problem: problem.clone() };
                quarantine(self.env, id, *folder, &reason)?;
            }
        }
        Ok(())
    }

    /// Ended tasks that the catalog does not have, a few hundred at a time.
    fn ended_tasks(&mut self) -> Result<(), StoreError> {
        let mut batch = Vec::with_capacity(512);
        let mut listed = Vec::new();
        let mut ended = HashSet::new();
        let dir = Folder::Completed.path();
        let list = self.env.fs.list(&dir, &mut |entry| {
            if let Some(id) = task_of(&entry.name).filter(|_| entry.kind == Kind::Dir) {
                batch.push(id);
                ended.insert(id);
            }
            if batch.len() == batch.capacity() {
                listed.append(&mut self.unknown(&std::mem::replace(&mut batch, Vec::with_capacity(512))));
            }
            Ok(())
        });
        match list {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.writes => return Ok(()),
            list => list.map_err(|error| StoreError::io(format!("listing {dir}"), error))?,
        }
        listed.append(&mut self.unknown(&batch));
        self.ended = Some(ended);
        for id in listed {
            self.ended_task(id)?;
        }
        Ok(())
    }

    fn unknown(&self, ids: &[TaskId]) -> Vec<TaskId> {
        let known = self.env.catalog.known(ids).unwrap_or_default();
        ids.iter().copied().filter(|id| !known.contains(id)).collect()
    }

    /// Takes the row of an ended task from its `task.json`; only without one its log is read.
    fn ended_task(&mut self, id: TaskId) -> Result<(), StoreError> {
        match read_row(self.env, Folder::Completed, id) {
            Some(row) => self.put_row(row),
            None => self.live_task(id, Folder::Completed)?,
        }
        self.done.push(Recovered::Catalogued(id));
        Ok(())
    }

    fn quarantined_tasks(&mut self) -> Result<(), StoreError> {
        // All of them: a crash may have kept a row from following its task into quarantine.
        for id in self.tasks_in(Folder::Quarantine)? {
            catalogue_quarantined(self.env, id);
        }
        Ok(())
    }

    fn rows_without_task(&mut self) -> Result<(), StoreError> {
        let mut gone = Vec::new();
        if let Some(ended) = &self.ended {
            self.env.catalog.each_ended(&mut |id| {
                if !ended.contains(&id) {
                    gone.push(id);
                }
                Ok(())
            })?;
        }
        self.env.catalog.each_live(&mut |id, _| {
            let live = self.is_there(Folder::Running, id)? || self.is_there(Folder::Paused, id)?;
            if !live {
                gone.push(id);
            }
            Ok(())
        })?;
        for id in gone {
            if self.is_there(Folder::Completed, id)? {
                self.ended_task(id)?;
            } else if self.is_there(Folder::Quarantine, id)? {
                self.env.catalog.set_health(id, Health::Quarantined);
            } else {
                tracing::error!(%id, "the catalog knows a task that is nowhere");
                self.env.catalog.set_health(id, Health::Missing);
                self.done.push(Recovered::Missing(id));
            }
        }
        Ok(())
    }
}

/// The row in a task's `task.json`, if it is there and whole.
pub(crate) fn read_row(env: &Env, folder: Folder, id: TaskId) -> Option<TaskRow> {
    let path = folder.task(id).join(layout::TASK);
    let bytes = files::read_small(env.fs.as_ref(), &path, MAX_ROW_BYTES).ok()??;
    serde_json::from_slice::<TaskRow>(&bytes).ok().filter(|row| row.uuid == id)
}
