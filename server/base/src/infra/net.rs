//! Sockets of this machine, and the process's own limits.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{Mode, unlink};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

/// Listens on a Unix socket that only this user may connect to. A socket that a dead process left is removed.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let bind = || {
        // The socket is private from its first moment on; nothing else makes files while this runs.
        let before = umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        umask(before);
        bound
    };
    match bind() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if UnixStream::connect(path).is_ok() {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
            }
            let found = rustix::fs::lstat(path)?;
            if rustix::fs::FileType::from_raw_mode(found.st_mode) != rustix::fs::FileType::Socket {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "a file that is no socket is there",
                ));
            }
            unlink(path)?;
            bind()
        }
        bound => bound,
    }
}

/// Removes a socket of ours.
pub fn remove_socket(path: &Path) {
    if let Err(error) = unlink(path) {
        tracing::debug!(path = %path.display(), %error, "the socket could not be removed");
    }
}

/// The user this process runs as.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Raises the limit of open files as far as it goes; answers what it is then.
pub fn raise_open_files() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        if let Err(error) = raised {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
