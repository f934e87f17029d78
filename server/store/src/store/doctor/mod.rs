//! Checks a data directory against every promise of `docs/FORMAT.md`, and repairs what loses nothing.
//!
//! Looking changes nothing and needs no lock. Repairing takes the lock, does what start-up does, and makes
//! views again that are not what their logs say.

mod outputs;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::infra::fs::{DirEntry, Kind, Name, StorePath, optional};
use crate::model::{Health, Status, StoreError, TaskFilter, TaskId, TaskOrder, TaskRow};

use super::env::{Env, StoreOptions};
use super::layout::{self, Folder};
use super::open::{Ground, Look, is_data_dir, is_known_at_top, lock_holder};
use super::recover::task_of;
use super::{Store, files};

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The task, if it is about one.
    pub task: Option<TaskId>,
    /// The file or directory.
    pub path: String,
    /// Where in the file, if it is damage of a log.
    pub offset: u64,
    /// What is wrong, in plain words.
    pub problem: String,
    /// What can be done about it.
    pub cure: Cure,
}

/// The remedy for a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cure {
    /// A repair loses nothing.
    Repair,
    /// A repair makes this path private.
    MakePrivate(StorePath),
    /// The task can only be set apart: what was acknowledged is damaged.
    Quarantine,
    /// Only a person can decide.
    Attention,
    /// It is to be known, not repaired.
    None,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.cure {
            Cure::Repair | Cure::MakePrivate(_) => "problem",
            Cure::Quarantine => "damage",
            Cure::Attention => "attention",
            Cure::None => "note",
        };
        write!(f, "{word}: {}: ", self.path)?;
        if self.offset > 0 {
            write!(f, "at byte {}: ", self.offset)?;
        }
        f.write_str(&self.problem)
    }
}

/// The extent of an examination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    /// Tasks.
    pub tasks: u64,
    /// Lines of their logs.
    pub lines: u64,
    /// Findings that a repair would mend.
    pub problems: u64,
    /// Findings of damage that cannot be mended.
    pub damaged: u64,
    /// Findings that only a person can decide about.
    pub attention: u64,
    /// The process that uses the directory, if one does.
    pub in_use_by: Option<String>,
}

impl Examined {
    /// Returns whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems == 0 && self.damaged == 0 && self.attention == 0
    }
}

/// Looks at everything and hands over each finding as it is found.
pub fn examine(ground: Ground, found: &mut dyn FnMut(Finding)) -> Result<Examined, StoreError> {
    if !is_data_dir(ground.fs.as_ref())? {
        let problem = "it is not a data directory".to_owned();
        return Err(StoreError::BadDataDir { path: ground.name, problem });
    }
    let in_use_by = lock_holder(ground.fs.as_ref(), &ground.name)?;
    let catalog = Catalog::open_read_only(&ground.catalog)?;
    let has_catalog = catalog.is_some();
    let catalog = catalog.map_or_else(Catalog::in_memory, Ok)?;
    let read_only = Some("it is being examined".to_owned());
    let env = Arc::new(Env::new(ground.fs, ground.clock, StoreOptions::default(), catalog, read_only));
    let mut doctor = Doctor { env, found, seen: Examined { in_use_by, ..Examined::default() }, has_catalog };
    doctor.run()?;
    Ok(doctor.seen)
}

/// Repairs what can be repaired: answers the findings that are gone now, and hands over what is still wrong.
pub fn repair(
    ground: impl Fn() -> Result<Ground, StoreError>,
    found: &mut dyn FnMut(Finding),
) -> Result<(Vec<Finding>, Examined), StoreError> {
    let mut mended = Vec::new();
    examine(ground()?, &mut |finding| {
        if matches!(finding.cure, Cure::Repair | Cure::MakePrivate(_) | Cure::Quarantine) {
            mended.push(finding);
        }
    })?;
    let fs = Arc::clone(&ground()?.fs);
    let (store, _) = Store::open_with(ground()?, StoreOptions::default(), Look::Everywhere)?;
    if let Some(reason) = store.read_only() {
        return Err(StoreError::ReadOnly { reason });
    }
    let mut sick = BTreeSet::new();
    for finding in &mended {
        match (&finding.cure, finding.task) {
            (Cure::MakePrivate(path), _) => {
                // Start-up may have moved or removed it; what is left is found again.
                if let Err(error) = fs.make_private(path) {
                    tracing::warn!(%path, %error, "could not be made private");
                }
            }
            (Cure::Quarantine, Some(id)) => {
                // Start-up looks only behind the checkpoint; the damage may be before it.
                let Finding { path, offset, problem, .. } = finding.clone();
                store.quarantine(id, &StoreError::Damaged { path, offset, problem }, || true)?;
            }
            (Cure::Repair, Some(id)) => {
                sick.insert(id);
            }
            (Cure::Repair | Cure::Quarantine | Cure::Attention | Cure::None, _) => {}
        }
    }
    for id in sick {
        match store.rebuild_views(id) {
            Ok(()) | Err(StoreError::TaskNotFound { .. } | StoreError::Quarantined { .. }) => {}
            Err(error) => tracing::error!(%id, %error, "a task could not be repaired"),
        }
    }
    store.close()?;
    let mut left = Vec::new();
    let examined = examine(ground()?, &mut |finding| {
        left.push((finding.path.clone(), finding.problem.clone()));
        found(finding);
    })?;
    mended.retain(|finding| {
        !left.iter().any(|(path, problem)| *path == finding.path && *problem == finding.problem)
    });
    Ok((mended, examined))
}

/// Returns whether others than the owner could read it.
fn is_open(kind: Kind, mode: u32) -> bool {
    kind != Kind::Other && mode & 0o077 != 0
}

struct Doctor<'a> {
    env: Arc<Env>,
    found: &'a mut dyn FnMut(Finding),
    seen: Examined,
    has_catalog: bool,
}

impl Doctor<'_> {
    fn run(&mut self) -> Result<(), StoreError> {
        self.top_level()?;
        let mut places: BTreeMap<TaskId, Vec<Folder>> = BTreeMap::new();
        for folder in Folder::HEALTHY {
            for entry in self.entries(&folder.path())? {
                match task_of(&entry.name).filter(|_| entry.kind == Kind::Dir) {
                    Some(id) => places.entry(id).or_default().push(folder),
                    None => {
                        self.note(None, &folder.path().join(entry.name), "is not a task; it is left alone")
                    }
                }
            }
        }
        if !self.has_catalog && !places.is_empty() {
            let problem = "is missing or cannot be read";
            self.tell(None, "tasks.db".to_owned(), problem, Cure::Repair);
        }
        for (id, folders) in &places {
            if let [folder] = folders[..] {
                if let Err(error) = self.task(*id, folder) {
                    let path = folder.task(*id).to_string();
                    self.tell(Some(*id), path, &format!("could not be looked at: {error}"), Cure::Attention);
                }
            } else {
                let names: Vec<String> = folders.iter().map(|folder| folder.name().to_string()).collect();
                let problem = format!("the same id is in {}", names.join(" and "));
                self.tell(Some(*id), id.to_string(), &problem, Cure::Quarantine);
            }
        }
        self.quarantine()?;
        self.rows(&places)
    }

    fn top_level(&mut self) -> Result<(), StoreError> {
        self.permissions(None, &StorePath::ROOT)?;
        for entry in self.entries(&StorePath::ROOT)? {
            let path = StorePath::ROOT.join(entry.name.clone());
            if !is_known_at_top(&entry.name) {
                self.note(None, &path, "is nothing that belongs here; it is left alone");
                continue;
            }
            self.permissions(None, &path)?;
            if entry.kind == Kind::Other && entry.name.as_str() != "contextstore.sock" {
                self.note(None, &path, "is neither a file nor a directory");
            }
        }
        // A server that runs has things in there all the time.
        if self.seen.in_use_by.is_none() {
            let dir = StorePath::ROOT.join(layout::TMP);
            for entry in self.entries(&dir)? {
                self.problem(None, &dir.join(entry.name), "was left by a crash");
            }
            let dir = StorePath::ROOT.join(layout::TRASH);
            for entry in self.entries(&dir)? {
                self.note(None, &dir.join(entry.name), "is of a deleted task; the next start removes it");
            }
        }
        Ok(())
    }

    fn quarantine(&mut self) -> Result<(), StoreError> {
        for entry in self.entries(&Folder::Quarantine.path())? {
            let path = Folder::Quarantine.path().join(entry.name.clone());
            let note = files::read_small(self.env.fs.as_ref(), &path.join(layout::QUARANTINE_NOTE), 1 << 16);
            let why = note.ok().flatten().and_then(|bytes| {
                let note: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
                let (file, problem) = (note["file"].as_str()?, note["problem"].as_str()?);
                Some(match note["offset"].as_u64()? {
                    0 => format!("{file}: {problem}"),
                    offset => format!("{file}: at byte {offset}: {problem}"),
                })
            });
            let why = why.unwrap_or_else(|| "nothing says why".to_owned());
            let problem = format!("is in quarantine ({why}); it can be read, and is yours to move or remove");
            self.tell(task_of(&entry.name), path.to_string(), &problem, Cure::Attention);
        }
        Ok(())
    }

    /// Rows of the catalog that have no task.
    fn rows(&mut self, places: &BTreeMap<TaskId, Vec<Folder>>) -> Result<(), StoreError> {
        let mut token = None;
        loop {
            let page = self.env.catalog.list(
                &TaskFilter::default(),
                TaskOrder::default(),
                Catalog::MAX_PAGE_SIZE,
                token.as_deref(),
            )?;
            for row in page.rows {
                if row.health != Health::Quarantined && !places.contains_key(&row.uuid) {
                    let problem = format!(
                        "the catalog has a row of {}, which is nowhere; if that is right, remove tasks.db, which is made again",
                        row.uuid
                    );
                    self.tell(None, "tasks.db".to_owned(), &problem, Cure::Attention);
                }
            }
            token = page.next;
            if token.is_none() {
                return Ok(());
            }
        }
    }

    /// Compares a task's row. A server writes its rows a little later, so they are then not looked at.
    fn row(&mut self, id: TaskId, expected: &TaskRow) -> Result<(), StoreError> {
        if !self.has_catalog || self.seen.in_use_by.is_some() {
            return Ok(());
        }
        let problem = match self.env.catalog.get(id)? {
            None => format!("the catalog has no row of {id}"),
            Some(row) if row == *expected => return Ok(()),
            Some(row) => format!("the catalog's row of {id} differs: {}", difference(&row, expected)),
        };
        self.tell(Some(id), "tasks.db".to_owned(), &problem, Cure::Repair);
        Ok(())
    }

    fn entries(&self, dir: &StorePath) -> Result<Vec<DirEntry>, StoreError> {
        let listed = optional(files::entries(self.env.fs.as_ref(), dir));
        let mut entries =
            listed.map_err(|error| StoreError::io(format!("listing {dir}"), error))?.unwrap_or_default();
        entries.sort_by(|a: &DirEntry, b: &DirEntry| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn permissions(&mut self, task: Option<TaskId>, path: &StorePath) -> Result<(), StoreError> {
        let stat =
            self.env.fs.stat(path).map_err(|error| StoreError::io(format!("looking at {path}"), error))?;
        if let Some(stat) = stat
            && is_open(stat.kind, stat.mode)
        {
            let problem = format!("can be read by others (mode {:o})", stat.mode);
            self.tell(task, path.to_string(), &problem, Cure::MakePrivate(path.clone()));
        }
        Ok(())
    }

    fn problem(&mut self, task: Option<TaskId>, path: &StorePath, problem: &str) {
        self.tell(task, path.to_string(), problem, Cure::Repair);
    }

    fn note(&mut self, task: Option<TaskId>, path: &StorePath, problem: &str) {
        self.tell(task, path.to_string(), problem, Cure::None);
    }

    fn tell(&mut self, task: Option<TaskId>, path: String, problem: &str, cure: Cure) {
        match cure {
            Cure::Repair | Cure::MakePrivate(_) => self.seen.problems += 1,
            Cure::Quarantine => self.seen.damaged += 1,
            Cure::Attention => self.seen.attention += 1,
            Cure::None => {}
        }
        (self.found)(Finding { task, path, offset: 0, problem: problem.to_owned(), cure });
    }

    /// A log is damaged where it was durable.
    fn damage(&mut self, task: TaskId, path: &StorePath, offset: u64, problem: &str) {
        self.seen.damaged += 1;
        let (path, problem) = (path.to_string(), problem.to_owned());
        (self.found)(Finding { task: Some(task), path, offset, problem, cure: Cure::Quarantine });
    }
}

/// The fields in which two rows differ.
fn difference(found: &TaskRow, expected: &TaskRow) -> String {
    let fields = |row: &TaskRow| serde_json::to_value(row).unwrap_or_default();
    let (found, expected) = (fields(found), fields(expected));
    let names =
        expected.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let differ = names.iter().filter(|name| found[name.as_str()] != expected[name.as_str()]);
    let differ: Vec<String> = differ
        .map(|name| format!("{name} is {}, not {}", found[name.as_str()], expected[name.as_str()]))
        .collect();
    differ.join("; ")
}

/// Returns where a task of a status is to be, for messages.
fn belongs(status: Status) -> Name {
    Folder::of(status).name()
}
