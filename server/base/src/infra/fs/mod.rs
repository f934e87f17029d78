//! The one door to the disk: every file of a data directory but `tasks.db` is reached through [`Fs`].
//!
//! Paths are relative to the data directory and made of [`Name`]s, so nothing a caller sends can name a
//! file. The real layer ([`disk`]) follows no symlink and makes files 0600 and directories 0700 whatever
//! the umask. With the feature `sim` there are two more layers for tests: one that forgets what was not
//! synced (`sim`), and one that fails or dies at a chosen call (`fault`).

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

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; made if it does not exist.
    Create,
    /// For reading and writing; made, or emptied if it exists.
    Truncate,
    /// For reading and writing; it must not exist.
    New,
}

/// What a directory entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symlink, socket, pipe or device.
    Other,
}

/// What is known of a path without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is; symlinks are not followed.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// Permission bits (`0o600`).
    pub mode: u32,
    /// The device it is on.
    pub device: u64,
    /// The user it belongs to.
    pub owner: u32,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub kind: Kind,
}

/// A tree of files. All paths are relative to its root.
pub trait Fs: Debug + Send + Sync {
    /// Opens a file; a new one is 0600.
    fn open(&self, path: &StorePath, how: Open) -> io::Result<Arc<dyn File>>;
    /// Makes a directory, 0700.
    fn create_dir(&self, path: &StorePath) -> io::Result<()>;
    /// Renames over whatever is there.
    fn rename(&self, from: &StorePath, to: &StorePath) -> io::Result<()>;
    /// Renames, failing with `AlreadyExists` if the target exists.
    fn rename_new(&self, from: &StorePath, to: &StorePath) -> io::Result<()>;
    /// Gives a file a second name, failing with `AlreadyExists` if that is taken, and with `Unsupported` where a file can
    /// have one name only.
    fn hard_link(&self, from: &StorePath, to: &StorePath) -> io::Result<()>;
    /// Removes a file or a symlink, never what it points to.
    fn remove_file(&self, path: &StorePath) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &StorePath) -> io::Result<()>;
    /// Visits the entries of a directory in no particular order. Entries whose names are not plain UTF-8
    /// are passed over.
    fn list(&self, path: &StorePath, visit: &mut dyn FnMut(Entry) -> io::Result<()>) -> io::Result<()>;
    /// What is at a path, or `None`. Symlinks are not followed.
    fn stat(&self, path: &StorePath) -> io::Result<Option<Stat>>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &StorePath) -> io::Result<()>;
    /// Sets the permissions of a file to 0600 or of a directory to 0700.
    fn make_private(&self, path: &StorePath) -> io::Result<()>;
    /// Bytes that can still be written.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Names the run of the operating system: what was written under the same id is still in its cache.
    fn boot_id(&self) -> String;
}

/// An open file. Positions are explicit, so one handle serves many readers.
#[expect(clippy::len_without_is_empty, reason = "a length that asks the disk is not a container's")]
pub trait File: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes; 0 only at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// The same if the bytes are in memory already; `None` if the disk would have to be waited for, or if that
    /// cannot be known.
    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let _ = (buf, offset);
        Ok(None)
    }
    /// Writes all of `buf`, or fails with any part of it written.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Sets the length.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Reserves real blocks for the first `len` bytes and sets the length.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Makes contents and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Takes over all contents of another file, sharing its blocks; false, and nothing has changed, if the file system
    /// cannot do that.
    fn share(&self, other: &dyn File) -> io::Result<bool> {
        let _ = other;
        Ok(false)
    }
    /// The descriptor, of a file that has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Takes the exclusive advisory lock, or answers false if another holder has it. It is released when
    /// the last handle is closed.
    fn try_lock(&self) -> io::Result<bool>;
}
