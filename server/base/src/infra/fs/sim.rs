//! A file system in memory that forgets what was not synced.
//!
//! It forgets as much as POSIX allows, and more than any one real file system: each unsynced page survives or not on
//! its own, the length may run ahead of the pages, and of the changes to each directory any prefix survives. Syncing
//! a file does not save its name. Two things are not simulated: an older version of a page that was written twice
//! since the last sync, and a torn page.
//!
//! [`SimFs::crash`] and [`SimFs::kill`] return a new file system and leave the old one dead, so that a leftover
//! thread cannot write to the new one.

#![expect(clippy::disallowed_methods, reason = "exports to a directory of a test")]

mod file;
mod pages;
mod tree;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use rustix::io::Errno;

use super::super::net::user_id;
use super::{DirEntry, File, Fs, Kind, Open, Stat, StorePath};
use file::SimFile;
use pages::Pages;
use tree::{DirNode, FileNode, Node, SimTree};

/// Free bytes of a disk without a set capacity.
const PLENTY: u64 = 1 << 40;

/// A simulated disk and the boot of the operating system that uses it.
pub struct SimFs {
    shared: Arc<SimState>,
}

/// The state that the file system and its handles share.
struct SimState {
    /// `None` after death.
    live: Mutex<Option<LiveDisk>>,
}

struct LiveDisk {
    tree: SimTree,
    boot: u64,
    capacity: Option<u64>,
    read_only: bool,
    failing_syncs: u64,
    next_handle: u64,
    /// The handle that holds the lock, by file.
    locks: HashMap<u64, u64>,
}

impl SimFs {
    /// Creates an empty disk without a set capacity.
    pub fn new() -> Arc<Self> {
        Self::with(LiveDisk {
            tree: SimTree::new(),
            boot: 1,
            capacity: None,
            read_only: false,
            failing_syncs: 0,
            next_handle: 0,
            locks: HashMap::new(),
        })
    }

    fn with(live: LiveDisk) -> Arc<Self> {
        Arc::new(Self { shared: Arc::new(SimState { live: Mutex::new(Some(live)) }) })
    }

    /// Simulates a power cut: returns what survived, under a new boot id, and leaves this one dead. The same seed and
    /// state give the same result.
    ///
    /// # Panics
    /// If this one is dead already: the test has lost track of its disk.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Arc<Self> {
        Self::with(self.die().survivor(seed))
    }

    /// Returns the result of [`Self::crash`] and leaves this one alive, so that tests can try many seeds at one
    /// moment.
    ///
    /// # Panics
    /// If this one is dead.
    #[must_use]
    pub fn crashed_copy(&self, seed: u64) -> Arc<Self> {
        let live = self.shared.locked();
        let Some(live) = live.as_ref() else { panic!("this simulated disk is dead") };
        Self::with(live.survivor(seed))
    }

    /// Simulates the death of the process: returns a file system with everything written, synced or not, under the
    /// same boot id and without locks, and leaves this one dead.
    ///
    /// # Panics
    /// If this one is dead already.
    #[must_use]
    pub fn kill(&self) -> Arc<Self> {
        let mut live = self.die();
        live.locks.clear();
        Self::with(live)
    }

    fn die(&self) -> LiveDisk {
        let Some(live) = self.shared.locked().take() else { panic!("this simulated disk is dead") };
        live
    }

    /// Sets the capacity in bytes of files; writes beyond it fail with `StorageFull`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.configure(|live| live.capacity = bytes);
    }

    /// Makes every change fail with `ReadOnlyFilesystem`, or allows changes again.
    pub fn set_read_only(&self, read_only: bool) {
        self.shared.configure(|live| live.read_only = read_only);
    }

    /// Makes the next `sync_data` fail with EIO as on Linux: the unsynced pages of that file stay readable, but later
    /// syncs skip them unless they are written again.
    pub fn fail_next_sync(&self) {
        self.shared.configure(|live| live.failing_syncs += 1);
    }

    /// Returns the contents of a file as a process would read them; `None` if it does not exist.
    pub fn read_file(&self, path: &StorePath) -> Option<Vec<u8>> {
        self.shared.with(|live| Ok(live.file(path)?.pages().data().to_vec())).ok()
    }

    /// Writes a durable file, and creates its directories. Other pending changes of these directories become durable
    /// too. Ignores the capacity and the read-only state.
    pub fn write_file(&self, path: &StorePath, bytes: &[u8]) -> io::Result<()> {
        self.shared.with(|live| {
            let mut dir = StorePath::ROOT;
            for name in path.parent().names() {
                dir = dir.join(name.clone());
                if live.tree.get(&dir)?.is_none() {
                    live.tree.add_dir(&dir)?;
                }
            }
            let file = match live.tree.get(path)? {
                None => live.tree.add_file(path)?,
                Some(_) => live.file(path)?,
            };
            *file.pages() = Pages::durable(bytes.to_vec());
            live.sync_up(path)
        })
    }

    /// Removes a file or a whole directory durably; a missing one is no error. Other pending changes of the
    /// directories above become durable too.
    pub fn remove(&self, path: &StorePath) -> io::Result<()> {
        self.shared.with(|live| match live.tree.detach(path) {
            Ok(()) => live.sync_up(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        })
    }

    /// Writes the tree to a real directory, to inspect it after a failed test.
    pub fn export(&self, to: &Path) -> io::Result<()> {
        self.shared.with(|live| export(&*live.tree.dir(&StorePath::ROOT)?, to))
    }
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFs").finish_non_exhaustive()
    }
}

impl SimState {
    fn locked(&self) -> MutexGuard<'_, Option<LiveDisk>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one call under the lock, so that no call is half done when the file system dies.
    fn with<T>(&self, call: impl FnOnce(&mut LiveDisk) -> io::Result<T>) -> io::Result<T> {
        call(self.locked().as_mut().ok_or_else(|| io::Error::other("dead"))?)
    }

    fn configure(&self, set: impl FnOnce(&mut LiveDisk)) {
        if let Some(live) = self.locked().as_mut() {
            set(live);
        }
    }
}

impl LiveDisk {
    fn survivor(&self, seed: u64) -> Self {
        Self {
            tree: self.tree.survivor(&mut Rng::with_seed(seed)),
            boot: self.boot + 1,
            capacity: self.capacity,
            read_only: self.read_only,
            failing_syncs: 0,
            next_handle: 0,
            locks: HashMap::new(),
        }
    }

    fn free(&self) -> u64 {
        let Some(capacity) = self.capacity else { return PLENTY };
        capacity.saturating_sub(self.tree.size())
    }

    fn writable(&self) -> io::Result<()> {
        if self.read_only { Err(Errno::ROFS.into()) } else { Ok(()) }
    }

    fn file(&self, path: &StorePath) -> io::Result<Arc<FileNode>> {
        match self.tree.get(path)? {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn open(&mut self, path: &StorePath, how: Open) -> io::Result<Arc<FileNode>> {
        let found = self.file(path);
        let missing = matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound);
        match how {
            Open::Read => return found,
            Open::Write if missing => return found,
            Open::New if self.tree.get(path)?.is_some() => return Err(Errno::EXIST.into()),
            Open::Write | Open::Create | Open::Truncate | Open::New => self.writable()?,
        }
        let file = if missing { self.tree.add_file(path)? } else { found? };
        if how == Open::Truncate {
            file.pages().resize(0);
        }
        Ok(file)
    }

    /// Syncs the directories from that of a path up to the root.
    fn sync_up(&mut self, path: &StorePath) -> io::Result<()> {
        let mut dir = path.clone();
        while let Some((parent, _)) = dir.split() {
            self.tree.sync(&*self.tree.dir(&parent)?);
            dir = parent;
        }
        Ok(())
    }
}

impl Fs for SimFs {
    fn open(&self, path: &StorePath, how: Open) -> io::Result<Arc<dyn File>> {
        let (file, handle) = self.shared.with(|live| {
            let file = live.open(path, how)?;
            live.next_handle += 1;
            Ok((file, live.next_handle))
        })?;
        let writable = how != Open::Read;
        Ok(Arc::new(SimFile { shared: Arc::clone(&self.shared), file, handle, writable }))
    }

    fn create_dir(&self, path: &StorePath) -> io::Result<()> {
        self.shared.with(|live| {
            live.writable()?;
            live.tree.add_dir(path)
        })
    }

    fn rename(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.shared.with(|live| {
            live.writable()?;
            live.tree.rename(from, to, true)
        })
    }

    fn rename_new(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.shared.with(|live| {
            live.writable()?;
            live.tree.rename(from, to, false)
        })
    }

    fn hard_link(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.shared.with(|live| {
            live.writable()?;
            let file = live.file(from)?;
            live.tree.link(file, to)
        })
    }

    fn remove_file(&self, path: &StorePath) -> io::Result<()> {
        self.shared.with(|live| {
            live.writable()?;
            if !path.names().is_empty() {
                live.file(path)?;
            }
            live.tree.detach(path)
        })
    }

    fn remove_dir(&self, path: &StorePath) -> io::Result<()> {
        self.shared.with(|live| {
            live.writable()?;
            if !path.names().is_empty() && !live.tree.dir(path)?.live().is_empty() {
                return Err(Errno::NOTEMPTY.into());
            }
            live.tree.detach(path)
        })
    }

    fn list(&self, path: &StorePath, visit: &mut dyn FnMut(DirEntry) -> io::Result<()>) -> io::Result<()> {
        let entries: Vec<DirEntry> = self.shared.with(|live| {
            let dir = live.tree.dir(path)?;
            let entries = dir.live();
            Ok(entries
                .iter()
                .map(|(name, node)| DirEntry { name: name.clone(), kind: node.kind() })
                .collect())
        })?;
        // Visits without the lock, because the visitor may call back.
        entries.into_iter().try_for_each(visit)
    }

    fn stat(&self, path: &StorePath) -> io::Result<Option<Stat>> {
        let found = self.shared.with(|live| {
            Ok(live.tree.get(path)?.map(|node| match node {
                Node::File(file) => (Kind::File, file.pages().len() as u64, 0o600),
                Node::Dir(_) => (Kind::Dir, 4096, 0o700),
            }))
        });
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => {
                Ok(found?.map(|(kind, len, mode)| Stat { kind, len, mode, device: 1, owner: user_id() }))
            }
        }
    }

    fn sync_dir(&self, path: &StorePath) -> io::Result<()> {
        self.shared.with(|live| {
            let dir = live.tree.dir(path)?;
            if live.tree.is_dirty(&dir) {
                live.writable()?;
                live.tree.sync(&dir);
            }
            Ok(())
        })
    }

    fn make_private(&self, path: &StorePath) -> io::Result<()> {
        self.shared.with(|live| Ok(live.tree.get(path)?.map(drop).ok_or(Errno::NOENT)?))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.shared.with(|live| Ok(live.free()))
    }

    fn boot_id(&self) -> String {
        self.shared.locked().as_ref().map_or_else(String::new, |live| format!("sim-boot-{}", live.boot))
    }
}

fn export(dir: &DirNode, to: &Path) -> io::Result<()> {
    if !to.is_dir() {
        std::fs::DirBuilder::new().mode(0o700).create(to)?;
    }
    for (name, node) in dir.live().iter() {
        let to = to.join(name.as_str());
        match node {
            Node::Dir(dir) => export(dir, &to)?,
            Node::File(file) => {
                let mut options = std::fs::File::options();
                options.write(true).create(true).truncate(true).mode(0o600);
                options.open(&to)?.write_all(file.pages().data())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;
