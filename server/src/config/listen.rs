//! Addresses to listen on, as they are written: `unix:PATH`, `tcp:HOST:PORT`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes that the path of a socket may have: Linux keeps it in 108, with a zero at the end.
pub const MAX_SOCKET_PATH: usize = 107;

/// An address of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// A loopback address; port 0 is any free one.
    Tcp(SocketAddr),
}

/// Why an address is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadListen {
    /// Neither kind.
    #[error("must be unix:PATH or tcp:HOST:PORT")]
    Syntax,
    /// No host and port.
    #[error(
        "must have a host and a port: an IP address or localhost, such as 127.0.0.1:50551 or [::1]:50551"
    )]
    HostPort,
    /// Others could reach it.
    #[error("{0} needs TLS, which this version does not have; listen on loopback (127.0.0.1, [::1])")]
    NotLoopback(SocketAddr),
    /// The system would refuse it.
    #[error(
        "is too long: the socket's path {} has {} bytes, and the system takes at most {MAX_SOCKET_PATH}",
        .0.display(),
        .0.as_os_str().len()
    )]
    PathTooLong(PathBuf),
    /// Nothing, or what no path can hold.
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
    /// Whether the server may listen there.
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

/// Reads `HOST:PORT`. No name but localhost is looked up.
pub fn loopback(text: &str) -> Result<SocketAddr, BadListen> {
    let address = match text.strip_prefix("localhost:") {
        Some(port) => port.parse().map(|port| (IpAddr::from(Ipv4Addr::LOCALHOST), port).into()).ok(),
        None => text.parse::<SocketAddr>().ok(),
    };
    let address = address.ok_or(BadListen::HostPort)?;
    if address.ip().is_loopback() { Ok(address) } else { Err(BadListen::NotLoopback(address)) }
}
