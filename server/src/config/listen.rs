//! Addresses of the service: `unix:PATH`, `tcp:HOST:PORT`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest socket path: Linux has 108 bytes, including the terminating zero.
pub const MAX_SOCKET_PATH: usize = 107;

/// An address of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// A loopback address. Port 0 picks a free port.
    Tcp(SocketAddr),
}

/// The reason why an address is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadListen {
    /// The prefix is missing.
    #[error("must be unix:PATH or tcp:HOST:PORT")]
    Syntax,
    /// The host or the port is missing.
    #[error(
        "must have a host and a port: an IP address or localhost, such as 127.0.0.1:50551 or [::1]:50551"
    )]
    HostPort,
    /// The address is not a loopback address.
    #[error("{0} needs TLS, which this version does not have; listen on loopback (127.0.0.1, [::1])")]
    NotLoopback(SocketAddr),
    /// The path is too long for a socket.
    #[error(
        "is too long: the socket's path {} has {} bytes, and the system takes at most {MAX_SOCKET_PATH}",
        .0.display(),
        .0.as_os_str().len()
    )]
    PathTooLong(PathBuf),
    /// The path is empty or holds a zero byte.
    #[error("must have a path after unix:, without zero bytes")]
    Path,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl FromStr for Listen {
    type Err = BadListen;

    fn from_str(text: &str) -> Result<Self, BadListen> {
        let listen = if let Some(path) = text.strip_prefix("unix:") {
            Self::Unix(path.into())
        } else if let Some(address) = text.strip_prefix("tcp:") {
            Self::Tcp(loopback(address)?)
        } else {
            return Err(BadListen::Syntax);
        };
        listen.check()?;
        Ok(listen)
    }
}

impl Listen {
    /// Checks that the server is allowed to listen on the address.
    pub(super) fn check(&self) -> Result<(), BadListen> {
        match self {
            Self::Unix(path) => socket_path(path),
            Self::Tcp(address) if address.ip().is_loopback() => Ok(()),
            Self::Tcp(address) => Err(BadListen::NotLoopback(*address)),
        }
    }
}

fn socket_path(path: &Path) -> Result<(), BadListen> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(BadListen::Path);
    }
    if bytes.len() > MAX_SOCKET_PATH {
        return Err(BadListen::PathTooLong(path.to_owned()));
    }
    Ok(())
}

/// Parses `HOST:PORT`. Only `localhost` is resolved.
pub fn loopback(text: &str) -> Result<SocketAddr, BadListen> {
    let address = match text.strip_prefix("localhost:") {
        Some(port) => port.parse().map(|port| (IpAddr::from(Ipv4Addr::LOCALHOST), port).into()).ok(),
        None => text.parse::<SocketAddr>().ok(),
    };
    let address = address.ok_or(BadListen::HostPort)?;
    if address.ip().is_loopback() { Ok(address) } else { Err(BadListen::NotLoopback(address)) }
}
