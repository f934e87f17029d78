//! Opening a data directory: the lock, the folders, the catalog, and whether the disk takes writes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::{Catalog, CatalogOptions, Opened};
use crate::infra::clock::{Clock, SystemClock};
use crate::infra::fs::disk::DiskFs;
use crate::infra::fs::{File, Fs, Kind, Name, Open, StorePath, optional};
use crate::log::MAX_LINE_BYTES;
use crate::model::{InvalidField, StoreError};

use super::env::{Env, StoreOptions};
use super::files;
use super::handles::Handles;
use super::layout::{self, Folder};
use super::recover::{self, Recovered};
use super::{Shared, Store};

/// The number of tries for a lock that is held, and the pause between them.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Room that a directory must have to be written to again.
const MIN_FREE_BYTES: u64 = 1 << 20;

/// Room that a start needs for the catalog and for recovery: less is none. SQLite maps a file of its own into memory,
/// and a process that touches a page of it for which there is no block is killed.
const START_BYTES: usize = 256 << 10;

/// The reason why nothing is written, for a disk without room.
const FULL: &str = "the disk was full at the start";

/// The disk and the clock of a store. [`Store::open`] takes the machine's; tests bring their own.
#[derive(Debug)]
pub struct Ground {
    /// The data directory.
    pub fs: Arc<dyn Fs>,
    /// What to call it in messages.
    pub name: String,
    /// Where `tasks.db` is.
    pub catalog: PathBuf,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// The extent of the checks at start-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// After an orderly stop, next to nothing.
    AsNeeded,
    /// Every live task.
    Everywhere,
}

impl Ground {
    /// A directory of this machine, made if it is not there.
    pub fn disk(dir: &Path) -> Result<Self, StoreError> {
        DiskFs::create(dir).map_err(|error| unusable(dir, &error))?;
        Self::existing(dir)
    }

    /// A directory of this machine that must be there.
    pub fn existing(dir: &Path) -> Result<Self, StoreError> {
        let unusable = |error: io::Error| unusable(dir, &error);
        let dir = dir.canonicalize().map_err(unusable)?;
        Ok(Self {
            fs: DiskFs::open(&dir).map_err(unusable)?,
            name: dir.display().to_string(),
            catalog: dir.join("tasks.db"),
            clock: SystemClock::shared(),
        })
    }
}

fn unusable(dir: &Path, error: &io::Error) -> StoreError {
    StoreError::BadDataDir { path: dir.display().to_string(), problem: error.to_string() }
}

impl Store {
    /// Opens a data directory: takes its lock, recovers what a crash left, and answers what that was.
    pub fn open(dir: &Path, options: StoreOptions) -> Result<(Self, Vec<Recovered>), StoreError> {
        Self::open_on(Ground::disk(dir)?, options)
    }

    /// The same on any ground.
    pub fn open_on(ground: Ground, options: StoreOptions) -> Result<(Self, Vec<Recovered>), StoreError> {
        Self::open_with(ground, options, Look::AsNeeded)
    }

    /// The same, looking at every live task even if the last stop was orderly.
    pub(crate) fn open_with(
        ground: Ground,
        options: StoreOptions,
        look: Look,
    ) -> Result<(Self, Vec<Recovered>), StoreError> {
        Self::open_holding(None, ground, options, look)
    }

    /// Opens a directory only to look: nothing in it is changed or made, and no lock is needed. What a process writes
    /// there meanwhile may or may not be seen.
    pub fn open_to_read(ground: Ground) -> Result<Self, StoreError> {
        let Ground { fs, name, clock, .. } = ground;
        check_ours(fs.as_ref(), &name)?;
        // Even a reader of SQLite makes files; the directories know everything that the catalog knows.
        let catalog = Catalog::in_memory()?;
        let reason = "it was opened to be looked at".to_owned();
        let options = StoreOptions::default();
        let most = options.max_open_tasks;
        let env = Arc::new(Env::new(fs, clock, options, catalog, Some(reason)));
        recover::recover(&env)?;
        let shared = Shared { env, handles: Handles::new(most), lock: None, heals_with: None };
        Ok(Self { shared: Arc::new(shared), binding: None })
    }

    /// Returns whether the directory took no writes when it was opened, but might now: it is worth to open it again.
    pub fn may_be_healed(&self) -> bool {
        let env = &self.shared.env;
        let Some(enough) = self.shared.heals_with else { return false };
        let path = StorePath::ROOT.join(layout::TMP).join(uuid::Uuid::now_v7());
        let room = env.fs.free_bytes().is_ok_and(|free| free >= enough);
        // A disk that has room may be mounted read-only.
        room && env.fs.create_dir(&path).and_then(|()| env.fs.remove_dir(&path)).is_ok()
    }

    /// Opens a directory that took no writes again, under the same lock. This store can still be read; when nobody
    /// uses it any more it is to be [retired](Self::retire).
    pub fn open_again(&self, ground: Ground) -> Result<(Self, Vec<Recovered>), StoreError> {
        // Rows that waited for room must not come behind newer ones.
        if let Err(error) = self.shared.env.catalog.flush() {
            tracing::warn!(%error, "the catalog could not be written before");
        }
        let lock = self.shared.lock.clone();
        let opened = Self::open_holding(lock, ground, self.shared.env.options.clone(), Look::Everywhere)?;
        // What could not be written down while the disk took no writes holds all the same.
        if let Err(error) = opened.0.shared.env.raise_lease_floor(self.lease_floor()) {
            tracing::warn!(%error, "the lease of a deleted task could not be written down");
        }
        Ok(opened)
    }

    /// Closes every task of a store that another one has taken the place of.
    pub fn retire(&self) {
        self.shared.handles.close_all();
    }

    fn open_holding(
        held: Option<Arc<dyn File>>,
        ground: Ground,
        options: StoreOptions,
        look: Look,
    ) -> Result<(Self, Vec<Recovered>), StoreError> {
        let Ground { fs, name, catalog, clock } = ground;
        let most = MAX_LINE_BYTES - (1 << 20);
        if options.max_message_bytes > most {
            return Err(InvalidField::new("limits.message_bytes", format!("must be at most {most}")).into());
        }
        check_ours(fs.as_ref(), &name)?;
        let last_run = last_run(fs.as_ref());
        let mut lock = match held {
            Some(lock) => Some(lock),
            None => take_lock(fs.as_ref(), &name)?,
        };
        let mut read_only = prepare(fs.as_ref(), &name)?;
        let mut full = None;
        if let Some(reason) = &read_only
            && free_ballast(fs.as_ref())
            && prepare(fs.as_ref(), &name)?.is_none()
        {
            // Recovery can write now, but there is no room for more.
            full = Some(reason.clone());
            read_only = None;
        }
        if lock.is_none() && read_only.is_none() {
            lock = take_lock(fs.as_ref(), &name)?;
        }
        let (catalog, clean) = match read_only.as_deref() {
            None => {
                let (catalog, clean) = open_catalog(&catalog, &options)?;
                if let Some(lock) = &lock {
                    note_run(lock.as_ref(), catalog.run());
                }
                // An old copy may have been closed in order too, but not by the last run.
                let newest = last_run.is_some() && last_run.as_deref() == catalog.last_run();
                (catalog, clean && newest)
            }
            // What it would have to make to read a catalog that was in use has no room; the directories know the same.
            Some(FULL) if Catalog::was_in_use(&catalog) => (Catalog::in_memory()?, false),
            Some(_) => (Catalog::open_read_only(&catalog)?.map_or_else(Catalog::in_memory, Ok)?, false),
        };
        if read_only.is_none() && full.is_none() {
            set_ballast(fs.as_ref(), options.ballast_bytes);
        }
        let most = options.max_open_tasks;
        let heals_with = match (&read_only, &full) {
            (None, None) => None,
            (Some(_), None) => Some(MIN_FREE_BYTES),
            // The room that recovery was given is none that somebody has made.
            (_, Some(_)) => Some(MIN_FREE_BYTES.saturating_add(options.ballast_bytes)),
        };
        let writable = read_only.is_none();
        let env = Arc::new(Env::new(fs, clock, options, catalog, read_only));
        if writable && let Err(error) = env.raise_lease_floor(0) {
            tracing::warn!(%error, "the file lease_floor could not be created; deletes will try again");
        }
        let recovered =
            if clean && look == Look::AsNeeded { recover::sweep(&env)? } else { recover::recover(&env)? };
        for what in &recovered {
            tracing::info!("{what}");
        }
        if let Some(reason) = full {
            env.set_full(reason);
        }
        let shared = Shared { env, handles: Handles::new(most), lock, heals_with };
        Ok((Self { shared: Arc::new(shared), binding: None }, recovered))
    }
}

/// Takes the lock of the directory and writes down who has it. On a read-only disk there may be none.
fn take_lock(fs: &dyn Fs, name: &str) -> Result<Option<Arc<dyn File>>, StoreError> {
    let path = StorePath::ROOT.join(layout::LOCK);
    let failed = |error| StoreError::io(format!("locking {name}"), error);
    let file =
        match fs.open(&path, Open::Create).or_else(|error| fs.open(&path, Open::Read).map_err(|_| error)) {
            Ok(file) => file,
            Err(error) if takes_no_writes(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
    let mut tries = 0;
    while !file.try_lock().map_err(failed)? {
        // A process that is just ending, or a child between fork and exec, has it for a moment only.
        if tries == LOCK_TRIES {
            return Err(StoreError::Locked { path: name.to_owned(), pid: holder(fs)? });
        }
        tries += 1;
        std::thread::sleep(LOCK_PAUSE);
    }
    // Clients send their token to the addresses of whoever has the lock. Those of an earlier server may be somebody else's now.
    if let Err(error) = files::remove_if_there(fs, &StorePath::ROOT.join(layout::ADDRESSES)) {
        tracing::warn!(%error, "the addresses of an earlier server could not be removed");
    }
    let pid = format!("{}\n", std::process::id());
    let noted = file.truncate(0).and_then(|()| file.write_all_at(pid.as_bytes(), 0));
    if let Err(error) = noted {
        // On a read-only disk the lock is taken all the same; only who holds it cannot be told.
        tracing::warn!(%error, "the process id could not be written to LOCK");
    }
    Ok(Some(file))
}

/// The process that has the lock of the directory, if one has. Changes nothing.
pub(crate) fn lock_holder(fs: &dyn Fs, name: &str) -> Result<Option<String>, StoreError> {
    let path = StorePath::ROOT.join(layout::LOCK);
    let failed = |error| StoreError::io(format!("looking at the lock of {name}"), error);
    let Some(file) = optional(fs.open(&path, Open::Read)).map_err(failed)? else { return Ok(None) };
    if file.try_lock().map_err(failed)? { Ok(None) } else { holder(fs).map(Some) }
}

fn holder(fs: &dyn Fs) -> Result<String, StoreError> {
    let noted = files::read_small(fs, &StorePath::ROOT.join(layout::LOCK), 64)?.unwrap_or_default();
    let noted = String::from_utf8_lossy(&noted);
    let pid = noted.lines().next().map(str::trim).filter(|pid| !pid.is_empty());
    Ok(pid.unwrap_or("(unknown)").to_owned())
}

/// The run that used the directory last, as it wrote it down; none if it never opened the catalog.
fn last_run(fs: &dyn Fs) -> Option<String> {
    let held = files::read_small(fs, &StorePath::ROOT.join(layout::LOCK), 64).ok()??;
    let held = String::from_utf8(held).ok()?;
    held.lines().nth(1).map(str::to_owned)
}

/// Writes down which run of the catalog goes with the directory. Without it the next start looks at everything.
fn note_run(lock: &dyn File, run: &str) {
    let note = format!("{}\n{run}\n", std::process::id());
    if let Err(error) = lock.write_all_at(note.as_bytes(), 0) {
        tracing::warn!(%error, "the next start will look at every task");
    }
}

/// Returns whether a directory is one of ours: only then anything in it may be changed.
pub(crate) fn is_data_dir(fs: &dyn Fs) -> Result<bool, StoreError> {
    let mut found = false;
    for folder in Folder::HEALTHY {
        let stat = fs.stat(&folder.path());
        let stat = stat.map_err(|error| StoreError::io(format!("looking at {}", folder.path()), error))?;
        found |= stat.is_some_and(|stat| stat.kind == Kind::Dir);
    }
    Ok(found)
}

/// Returns whether a name at the top of a data directory is ours.
pub(crate) fn is_known_at_top(name: &Name) -> bool {
    let folders = [Folder::Running, Folder::Paused, Folder::Completed, Folder::Quarantine].map(Folder::name);
    let others = [
        layout::TMP,
        layout::TRASH,
        layout::ARCHIVED,
        layout::LOCK,
        layout::BALLAST,
        layout::LEASE_FLOOR,
        layout::TOKEN,
        layout::ADDRESSES,
    ];
    let files = ["contextstore.sock", "audit.jsonl", "server.log"];
    folders.contains(name)
        || others.contains(name)
        || files.contains(&name.as_str())
        || name.as_str().starts_with("tasks.db")
}

/// Refuses a directory that is somebody else's: it would be made private and filled.
fn check_ours(fs: &dyn Fs, name: &str) -> Result<(), StoreError> {
    let mut foreign = None;
    if !is_data_dir(fs)? {
        let listed = fs.list(&StorePath::ROOT, &mut |entry| {
            // A volume of its own may have a few things that belong to nobody.
            let harmless = entry.name.as_str().starts_with('.') || entry.name.as_str() == "lost+found";
            if !harmless && !is_known_at_top(&entry.name) {
                foreign = Some(entry.name);
            }
            Ok(())
        });
        listed.map_err(|error| StoreError::io(format!("listing {name}"), error))?;
    }
    match foreign {
        None => Ok(()),
        Some(entry) => Err(StoreError::BadDataDir {
            path: name.to_owned(),
            problem: format!("it is not a data directory and not empty (there is {entry})"),
        }),
    }
}

/// Sees that the folders are there, private, on one file system, and that they can be written. Answers why
/// not, if the disk is full or read-only.
fn prepare(fs: &dyn Fs, name: &str) -> Result<Option<String>, StoreError> {
    let bad = |path: &StorePath, problem: &str| StoreError::BadDataDir {
        path: format!("{name}/{path}"),
        problem: problem.to_owned(),
    };
    let failed = |path: &StorePath, error| StoreError::io(format!("preparing {name}/{path}"), error);
    let root = fs.stat(&StorePath::ROOT).map_err(|error| failed(&StorePath::ROOT, error))?;
    let device = root.map(|stat| stat.device);
    if let Err(error) = fs.make_private(&StorePath::ROOT) {
        // A volume's root can belong to somebody else; what is in it is private all the same.
        tracing::warn!(%error, "the data directory could not be made private");
    }
    let folders = Folder::HEALTHY.map(Folder::name).into_iter();
    let mut made = false;
    for folder in folders.chain([Folder::Quarantine.name(), layout::TMP, layout::TRASH, layout::ARCHIVED]) {
        let path = StorePath::ROOT.join(folder);
        match fs.stat(&path).map_err(|error| failed(&path, error))? {
            Some(stat) if stat.kind != Kind::Dir => return Err(bad(&path, "it is not a directory")),
            Some(stat) if Some(stat.device) != device => {
                return Err(bad(&path, "it is on another file system, and tasks move by rename"));
            }
            Some(stat) if stat.mode != 0o700 => {
                if let Err(error) = fs.make_private(&path) {
                    tracing::warn!(%path, %error, "others can look into a folder");
                }
            }
            Some(_) => {}
            None => match fs.create_dir(&path) {
                Ok(()) => made = true,
                Err(error) if takes_no_writes(&error) => return Ok(Some(why(&error))),
                Err(error) => return Err(failed(&path, error)),
            },
        }
    }
    let probe = StorePath::ROOT.join(layout::TMP).join(layout::PROBE);
    let written = if made { fs.sync_dir(&StorePath::ROOT) } else { Ok(()) }.and_then(|()| {
        let file = fs.open(&probe, Open::Truncate)?;
        file.write_all_at(&vec![b'.'; START_BYTES], 0)?;
        file.sync_data()?;
        fs.remove_file(&probe)
    });
    match written {
        Ok(()) => Ok(None),
        Err(error) if takes_no_writes(&error) => {
            // Start-up removes it once there is room.
            let _ = fs.remove_file(&probe);
            Ok(Some(why(&error)))
        }
        Err(error) => Err(failed(&probe, error)),
    }
}

fn takes_no_writes(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

fn why(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
        "the file system is mounted read-only".to_owned()
    } else {
        FULL.to_owned()
    }
}

fn free_ballast(fs: &dyn Fs) -> bool {
    fs.remove_file(&StorePath::ROOT.join(layout::BALLAST)).is_ok()
}

/// Sets room aside, if there is much more than that.
fn set_ballast(fs: &dyn Fs, bytes: u64) {
    let path = StorePath::ROOT.join(layout::BALLAST);
    let there = fs.stat(&path).ok().flatten().is_some_and(|stat| stat.len == bytes);
    let plenty = fs.free_bytes().is_ok_and(|free| free > bytes.saturating_mul(8));
    if bytes == 0 || there || !plenty {
        return;
    }
    let set = fs.open(&path, Open::Create).and_then(|file| file.allocate(bytes));
    if let Err(error) = set {
        tracing::warn!(%error, "no room could be set aside for recovery");
        let _ = fs.remove_file(&path);
    }
}

fn open_catalog(path: &Path, options: &StoreOptions) -> Result<(Catalog, bool), StoreError> {
    let options = CatalogOptions {
        busy_timeout: options.catalog_busy_timeout,
        retries: options.catalog_retries,
        ..CatalogOptions::default()
    };
    let (catalog, opened) = Catalog::open(path, options)?;
    if let Opened::Replaced { set_aside } = &opened {
        tracing::error!(set_aside = %set_aside.display(), "the catalog was damaged; it is made again");
    }
    Ok((catalog, opened == Opened::Existing { clean: true }))
}
