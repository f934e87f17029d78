//! The real file system.
//!
//! The root is opened once and everything is reached from that descriptor, so renaming a directory above it changes
//! nothing. No symlink is followed below the root: `openat2` refuses them in the kernel, and where it is missing the
//! path is walked one name at a time. A path opened as a file must be a regular file. The root itself may be reached
//! through symlinks, because the operator chose it.

#![expect(clippy::disallowed_methods, reason = "this layer replaces the disallowed methods")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags,
};
use rustix::io::{Errno, retry_on_intr};
use uuid::Uuid;

use super::{DirEntry, File, Fs, Kind, Name, Open, Stat, StorePath};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const DIR_MODE: Mode = Mode::from_raw_mode(0o700);
const MODE_BITS: u32 = 0o7777;

/// Flags of a directory used only to reach names in it; needs no permission to read it.
const PARENT: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags of a directory to list or sync.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags of a file to open. Without `NONBLOCK`, a pipe planted in place of a file would block the open.
const ANY_FILE: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Retries of an open that raced with a rename or a removal.
const TRIES: usize = 100;

/// The files below one directory of this machine.
#[derive(Debug)]
pub struct DiskFs {
    root: OwnedFd,
    boot_id: String,
    /// True if `openat2` is available; old kernels lack it and some sandboxes forbid it.
    openat2: bool,
    /// An unnamed file for [`check_alive`] after a sync of a directory; `None` if the file system has no such files.
    probe: Option<OwnedFd>,
}

impl DiskFs {
    /// Creates the root directory, 0700, and missing directories above it. An existing root is left unchanged. Its
    /// entry is durable on return.
    pub fn create(root: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            root.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()).collect();
        for dir in missing.iter().rev() {
            match std::fs::DirBuilder::new().mode(0o700).create(dir) {
                Ok(()) => std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
                Err(error) => return Err(error),
            }
            sync_entry(dir)?;
        }
        // An earlier run may have crashed between the creation and the sync.
        match sync_entry(root) {
            Err(error) if missing.is_empty() && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            result => result,
        }
    }

    /// Opens the tree below an existing directory.
    pub fn open(root: &Path) -> io::Result<Arc<dyn Fs>> {
        let root = retry_on_intr(|| rustix::fs::open(root, DIRECTORY, Mode::empty()))?;
        let openat2 = match openat2(root.as_fd(), ".", PARENT, Mode::empty()) {
            Ok(_) => true,
            // A sandbox that does not know the call returns PERM.
            Err(Errno::NOSYS | Errno::PERM) => false,
            Err(errno) => return Err(errno.into()),
        };
        let unnamed = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let probe = retry_on_intr(|| rustix::fs::openat(&root, ".", unnamed, FILE_MODE)).ok();
        Ok(Arc::new(Self { root, boot_id: boot_id(), openat2, probe }))
    }

    fn open_at(&self, path: &StorePath, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let names = checked(path)?;
        if self.openat2 {
            let text = if names.is_empty() { ".".to_owned() } else { path.to_string() };
            return Ok(openat2(self.root.as_fd(), &text, flags, mode)?);
        }
        let Some((last, parents)) = names.split_last() else {
            return Ok(retry_on_intr(|| rustix::fs::openat(&self.root, ".", flags, mode))?);
        };
        let mut parent: Option<OwnedFd> = None;
        for name in parents {
            let from = parent.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
            parent = Some(openat(from, name, PARENT, Mode::empty())?);
        }
        let from = parent.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
        Ok(openat(from, last, flags, mode)?)
    }

    /// Returns the directory that contains a path, and the last name of the path.
    fn parent<'a>(&self, path: &'a StorePath) -> io::Result<(Parent<'_>, &'a str)> {
        checked(path)?;
        let Some((parent, name)) = path.split() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the root cannot be changed"));
        };
        let parent = if parent.names().is_empty() {
            Parent::Root(self.root.as_fd())
        } else {
            Parent::Below(self.open_at(&parent, PARENT, Mode::empty())?)
        };
        Ok((parent, name.as_str()))
    }

    fn open_existing(&self, path: &StorePath, access: OFlags) -> io::Result<DiskFile> {
        let fd = self.open_at(path, access | ANY_FILE, Mode::empty())?;
        match kind_of(FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode)) {
            Kind::File => Ok(DiskFile { fd }),
            Kind::Dir => Err(Errno::ISDIR.into()),
            Kind::Other => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        }
    }

    fn open_new(&self, path: &StorePath) -> io::Result<DiskFile> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | ANY_FILE;
        let fd = self.open_at(path, flags, FILE_MODE)?;
        // The umask may have removed bits of the owner.
        retry_on_intr(|| rustix::fs::fchmod(&fd, FILE_MODE))?;
        Ok(DiskFile { fd })
    }

    fn open_or_make(&self, path: &StorePath) -> io::Result<DiskFile> {
        for _ in 1..TRIES {
            match self.open_existing(path, OFlags::RDWR) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => return result,
            }
            match self.open_new(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => return result,
            }
        }
        self.open_existing(path, OFlags::RDWR)
    }
}

impl Fs for DiskFs {
    fn open(&self, path: &StorePath, how: Open) -> io::Result<Arc<dyn File>> {
        let file = match how {
            Open::Read => self.open_existing(path, OFlags::RDONLY)?,
            Open::Write => self.open_existing(path, OFlags::RDWR)?,
            Open::Create => self.open_or_make(path)?,
            Open::New => self.open_new(path)?,
            Open::Truncate => {
                let file = self.open_or_make(path)?;
                file.truncate(0)?;
                file
            }
        };
        Ok(Arc::new(file))
    }

    fn create_dir(&self, path: &StorePath) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        retry_on_intr(|| rustix::fs::mkdirat(&parent, name, DIR_MODE))?;
        make_private(parent.as_fd(), name)
    }

    fn rename(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        let (from_dir, from) = self.parent(from)?;
        let (to_dir, to) = self.parent(to)?;
        Ok(retry_on_intr(|| rustix::fs::renameat(&from_dir, from, &to_dir, to))?)
    }

    fn rename_new(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        let (from_dir, from) = self.parent(from)?;
        let (to_dir, to) = self.parent(to)?;
        let renamed =
            retry_on_intr(|| rustix::fs::renameat_with(&from_dir, from, &to_dir, to, RenameFlags::NOREPLACE));
        match renamed {
            // Not every file system supports the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rename_after_check(from_dir.as_fd(), from, to_dir.as_fd(), to)
            }
            result => Ok(result?),
        }
    }

    fn hard_link(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        let (from_dir, from) = self.parent(from)?;
        let (to_dir, to) = self.parent(to)?;
        match retry_on_intr(|| rustix::fs::linkat(&from_dir, from, &to_dir, to, AtFlags::empty())) {
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            result => Ok(result?),
        }
    }

    fn remove_file(&self, path: &StorePath) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(retry_on_intr(|| rustix::fs::unlinkat(&parent, name, AtFlags::empty()))?)
    }

    fn remove_dir(&self, path: &StorePath) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(retry_on_intr(|| rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR))?)
    }

    fn list(&self, path: &StorePath, visit: &mut dyn FnMut(DirEntry) -> io::Result<()>) -> io::Result<()> {
        let dir = self.open_at(path, DIRECTORY, Mode::empty())?;
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().ok().and_then(Name::parse) else { continue };
            // Some file systems omit the type in the listing.
            let kind = if entry.file_type() == FileType::Unknown {
                match rustix::fs::statat(&dir, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => kind_of(FileType::from_raw_mode(stat.st_mode)),
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(errno.into()),
                }
            } else {
                kind_of(entry.file_type())
            };
            visit(DirEntry { name, kind })?;
        }
        Ok(())
    }

    fn stat(&self, path: &StorePath) -> io::Result<Option<Stat>> {
        let found = if path.names().is_empty() {
            rustix::fs::fstat(&self.root)
        } else {
            match self.parent(path) {
                Ok((parent, name)) => rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        };
        match found {
            Ok(stat) => Ok(Some(Stat {
                kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
                len: length(&stat)?,
                mode: stat.st_mode & MODE_BITS,
                device: stat.st_dev,
                owner: stat.st_uid,
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync_dir(&self, path: &StorePath) -> io::Result<()> {
        let dir = self.open_at(path, DIRECTORY, Mode::empty())?;
        retry_on_intr(|| rustix::fs::fsync(&dir))?;
        self.probe.as_ref().map_or(Ok(()), |probe| check_alive(probe.as_fd()))
    }

    fn make_private(&self, path: &StorePath) -> io::Result<()> {
        if path.names().is_empty() {
            return Ok(retry_on_intr(|| rustix::fs::fchmod(&self.root, DIR_MODE))?);
        }
        let (parent, name) = self.parent(path)?;
        make_private(parent.as_fd(), name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = retry_on_intr(|| rustix::fs::fstatvfs(&self.root))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn boot_id(&self) -> String {
        self.boot_id.clone()
    }
}

#[derive(Debug)]
struct DiskFile {
    fd: OwnedFd,
}

impl File for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::pread(&self.fd, &mut *buf, offset))?)
    }

    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        use rustix::io::{Errno, ReadWriteFlags};
        let mut buf = [io::IoSliceMut::new(buf)];
        match rustix::io::preadv2(&self.fd, &mut buf, offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(Some(read)),
            // The data is not in memory, or the file system does not know.
            Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn write_all_at(&self, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            let written = retry_on_intr(|| rustix::io::pwrite(&self.fd, buf, offset))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            buf = buf.get(written..).unwrap_or_default();
            offset = offset.saturating_add(written as u64);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::ftruncate(&self.fd, len))?)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        // `fallocate` rejects a length of zero.
        if len > 0 {
            match retry_on_intr(|| rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, len)) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.fill(len)?,
                result => result?,
            }
        }
        // `fallocate` never shortens a file.
        if self.len()? == len { Ok(()) } else { self.truncate(len) }
    }

    fn sync_data(&self) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::fdatasync(&self.fd))?;
        check_alive(self.fd.as_fd())
    }

    fn len(&self) -> io::Result<u64> {
        length(&rustix::fs::fstat(&self.fd)?)
    }

    fn share(&self, other: &dyn File) -> io::Result<bool> {
        let Some(other) = other.descriptor() else { return Ok(false) };
        match retry_on_intr(|| rustix::fs::ioctl_ficlone(&self.fd, other)) {
            Ok(()) => Ok(true),
            Err(error @ (Errno::IO | Errno::NOSPC | Errno::DQUOT | Errno::ROFS)) => Err(error.into()),
            // Whatever prevented sharing, the caller can copy the bytes.
            Err(_) => Ok(false),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn try_lock(&self) -> io::Result<bool> {
        match retry_on_intr(|| rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl DiskFile {
    /// Writes zeros from the end up to `len`, for file systems that cannot reserve blocks.
    fn fill(&self, len: u64) -> io::Result<()> {
        let zeros = [0_u8; 64 * 1024];
        let mut at = self.len()?;
        while at < len {
            let part = usize::try_from(len - at).unwrap_or(usize::MAX).min(zeros.len());
            self.write_all_at(zeros.get(..part).unwrap_or_default(), at)?;
            at += part as u64;
        }
        Ok(())
    }
}

/// The directory that a name is resolved in.
enum Parent<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(fd) => *fd,
            Self::Below(fd) => fd.as_fd(),
        }
    }
}

/// Validates the names of a path. Names fixed in the program were never parsed, and the last name of a path does not
/// always pass through `openat2`.
fn checked(path: &StorePath) -> io::Result<&[Name]> {
    let names = path.names();
    if names.iter().all(|name| Name::parse(name.as_str()).is_some()) {
        return Ok(names);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain name"))
}

fn openat2(root: BorrowedFd<'_>, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 1..TRIES {
        // AGAIN: a concurrent rename on the machine, after which the kernel cannot guarantee the path.
        match rustix::fs::openat2(root, path, flags, mode, resolve) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            result => return result,
        }
    }
    rustix::fs::openat2(root, path, flags, mode, resolve)
}

fn openat(parent: BorrowedFd<'_>, name: &Name, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat(parent, name.as_str(), flags | OFlags::NOFOLLOW, mode))
}

fn make_private(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // The descriptor makes sure that the checked entry is the changed one.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = retry_on_intr(|| rustix::fs::openat(parent, name, flags, Mode::empty()))?;
    let stat = rustix::fs::fstat(&fd)?;
    let wanted = match kind_of(FileType::from_raw_mode(stat.st_mode)) {
        Kind::File => FILE_MODE,
        Kind::Dir => DIR_MODE,
        Kind::Other => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a directory"));
        }
    };
    if stat.st_mode & MODE_BITS == wanted.as_raw_mode() {
        return Ok(());
    }
    // `fchmod` rejects such a descriptor, and a file without the read bit cannot be opened in another way.
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    Ok(retry_on_intr(|| rustix::fs::chmod(&path, wanted))?)
}

/// Renames if the target does not exist. The check and the rename do not race: the data directory has one owner.
fn rename_after_check(
    from_dir: BorrowedFd<'_>,
    from: &str,
    to_dir: BorrowedFd<'_>,
    to: &str,
) -> io::Result<()> {
    match rustix::fs::statat(to_dir, to, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(retry_on_intr(|| rustix::fs::renameat(from_dir, from, to_dir, to))?),
        Err(errno) => Err(errno.into()),
        Ok(_) => Err(Errno::EXIST.into()),
    }
}

/// Returns an error if the file system has stopped, although a sync has just succeeded.
///
/// When ext4 aborts its journal, or XFS shuts down, a sync that waits for a transaction can return 0 although the
/// transaction was dropped. Reserving an already reserved byte changes nothing, but has to begin a transaction, which
/// such a file system refuses. It takes a few microseconds.
fn check_alive(fd: BorrowedFd<'_>) -> io::Result<()> {
    match retry_on_intr(|| rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, 0, 1)) {
        Err(error @ (Errno::IO | Errno::ROFS | Errno::UCLEAN | Errno::SHUTDOWN | Errno::NODEV)) => {
            Err(error.into())
        }
        // The file system may lack support for reservations.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes the entry of a directory in its parent durable.
fn sync_entry(dir: &Path) -> io::Result<()> {
    let above = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => return Ok(()),
    };
    std::fs::File::open(above)?.sync_all()
}

fn kind_of(file_type: FileType) -> Kind {
    if file_type.is_file() {
        Kind::File
    } else if file_type.is_dir() {
        Kind::Dir
    } else {
        Kind::Other
    }
}

fn length(stat: &rustix::fs::Stat) -> io::Result<u64> {
    u64::try_from(stat.st_size).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn boot_id() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match read.trim() {
        // An unknown boot is never the same as an earlier one, so no cache is trusted.
        "" => Uuid::now_v7().to_string(),
        id => id.to_owned(),
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
