//! The only access to the disk: every file of a data directory except `tasks.db` is reached through [`Fs`].
//!
//! Paths are relative to the data directory and consist of [`Name`]s, so no value from a caller can name a file. The
//! real layer ([`disk`]) follows no symlink and creates files 0600 and directories 0700 whatever the umask. With the
//! feature `sim` there are two more layers for tests: one that forgets what was not synced (`sim`), and one that
//! fails or dies at a chosen call (`fault`).

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

#[cfg(test)]
mod conformance;
pub mod disk;
#[cfg(feature = "sim")]
pub mod fault;
mod path;
#[cfg(feature = "sim")]
pub mod sim;

pub use path::{Name, StorePath};

/// The mode of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; created if it does not exist.
    Create,
    /// For reading and writing; created, or emptied if it exists.
    Truncate,
    /// For reading and writing; it must not exist.
    New,
}

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symlink, socket, pipe or device.
    Other,
}

/// The attributes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The type of the entry; symlinks are not followed.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// Permission bits (`0o600`).
    pub mode: u32,
    /// The device of the entry.
    pub device: u64,
    /// The user id of the owner.
    pub owner: u32,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name of the entry.
    pub name: Name,
    /// The type of the entry.
    pub kind: Kind,
}

/// Turns the error of a file that does not exist into `None`.
pub fn optional<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A tree of files. All paths are relative to its root.
pub trait Fs: Debug + Send + Sync {
    /// Opens a file; a new one is 0600.
    fn open(&self, path: &StorePath, how: Open) -> io::Result<Arc<dyn File>>;
    /// Creates a directory, 0700.
    fn create_dir(&self, path: &StorePath) -> io::Result<()>;
    /// Renames, replacing an existing target.
    fn rename(&self, from: &StorePath, to: &StorePath) -> io::Result<()>;
    /// Renames; fails with `AlreadyExists` if the target exists.
    fn rename_new(&self, from: &StorePath, to: &StorePath) -> io::Result<()>;
    /// Adds a second name to a file. Fails with `AlreadyExists` if the name is taken, and with `Unsupported` where a
    /// file can have one name only.
    fn hard_link(&self, from: &StorePath, to: &StorePath) -> io::Result<()>;
    /// Removes a file or a symlink, never the target of the link.
    fn remove_file(&self, path: &StorePath) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &StorePath) -> io::Result<()>;
    /// Visits the entries of a directory in no particular order. Skips entries whose names are not plain UTF-8.
    fn list(&self, path: &StorePath, visit: &mut dyn FnMut(DirEntry) -> io::Result<()>) -> io::Result<()>;
    /// Returns the attributes of a path, or `None`. Symlinks are not followed.
    fn stat(&self, path: &StorePath) -> io::Result<Option<Stat>>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &StorePath) -> io::Result<()>;
    /// Sets the permissions of a file to 0600 or of a directory to 0700.
    fn make_private(&self, path: &StorePath) -> io::Result<()>;
    /// Returns the free bytes.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Returns the id of this boot of the operating system: data written under the same id is still in its cache.
    fn boot_id(&self) -> String;
}

/// An open file. Positions are explicit, so one handle serves many readers.
#[expect(clippy::len_without_is_empty, reason = "a file is not a container, and its length needs the disk")]
pub trait File: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes; returns 0 only at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Reads like [`Self::read_at`] if the bytes are in memory already; returns `None` if the disk would block, or if
    /// that cannot be known.
    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let _ = (buf, offset);
        Ok(None)
    }
    /// Writes all of `buf`; on an error, any part of it may be written.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Sets the length.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Allocates blocks for the first `len` bytes and sets the length.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Makes contents and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Replaces the contents by those of another file, sharing its blocks. Returns false, without a change, if the
    /// file system does not support it.
    fn share(&self, other: &dyn File) -> io::Result<bool> {
        let _ = other;
        Ok(false)
    }
    /// Returns the descriptor, if the file has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Takes the exclusive advisory lock, or returns false if another holder has it. It is released when the last
    /// handle is closed.
    fn try_lock(&self) -> io::Result<bool>;
}
