//! Sockets of this machine, and the limits of the process.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{Mode, unlink};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

/// Listens on a Unix socket that only this user may connect to. Removes the socket of a dead process first.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let bind = || {
        // The socket is private from the moment of its creation; the process creates no other file meanwhile.
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

/// Removes a socket of this process.
pub fn remove_socket(path: &Path) {
    if let Err(error) = unlink(path) {
        tracing::debug!(path = %path.display(), %error, "the socket could not be removed");
    }
}

/// Returns the user id of the process.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Raises the limit of open files to its maximum, and returns the new limit.
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
