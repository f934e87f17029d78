//! An open simulated file. Every call runs under the lock of its file system, and fails once that is dead.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use super::tree::FileNode;
use super::{LiveDisk, SimState};
use crate::infra::fs::File;

/// An open simulated file.
pub(super) struct SimFile {
    pub(super) shared: Arc<SimState>,
    pub(super) file: Arc<FileNode>,
    pub(super) handle: u64,
    pub(super) writable: bool,
}

impl SimFile {
    /// Changes the contents, if both the handle and the disk are writable.
    fn change<T>(&self, call: impl FnOnce(&LiveDisk, &FileNode) -> io::Result<T>) -> io::Result<T> {
        self.shared.with(|live| {
            if !self.writable {
                return Err(Errno::BADF.into());
            }
            live.writable()?;
            call(live, &self.file)
        })
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        self.change(|live, file| {
            let free = live.free();
            let mut pages = file.pages();
            if len.saturating_sub(pages.len() as u64) > free {
                return Err(Errno::NOSPC.into());
            }
            pages.resize(usize::try_from(len).map_err(|_| Errno::FBIG)?);
            Ok(())
        })
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.shared.with(|_| {
            let pages = self.file.pages();
            let rest = usize::try_from(offset).ok().and_then(|at| pages.data().get(at..)).unwrap_or_default();
            let read = rest.len().min(buf.len());
            buf[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        })
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.change(|live, file| {
            let free = live.free();
            let mut pages = file.pages();
            // As on a real disk, the part that fits is written before the rest fails.
            let room = (pages.len() as u64).saturating_add(free).saturating_sub(offset);
            let fits = usize::try_from(room).unwrap_or(usize::MAX).min(buf.len());
            if fits > 0 {
                pages.write(&buf[..fits], usize::try_from(offset).map_err(|_| Errno::FBIG)?);
            }
            if fits < buf.len() { Err(Errno::NOSPC.into()) } else { Ok(()) }
        })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.resize(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.resize(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.shared.with(|live| {
            let mut pages = self.file.pages();
            if live.failing_syncs > 0 {
                live.failing_syncs -= 1;
                pages.fail_sync();
                return Err(Errno::IO.into());
            }
            if pages.is_dirty() {
                live.writable()?;
                pages.sync();
            }
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.shared.with(|_| Ok(self.file.pages().len() as u64))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.shared.with(|live| Ok(*live.locks.entry(self.file.id).or_insert(self.handle) == self.handle))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.shared.configure(|live| {
            if live.locks.get(&self.file.id) == Some(&self.handle) {
                live.locks.remove(&self.file.id);
            }
        });
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile").field("handle", &self.handle).finish_non_exhaustive()
    }
}
