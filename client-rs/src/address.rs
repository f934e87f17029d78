//! Where a server is: a socket, or a port with or without TLS.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// A Unix socket: `unix:/path`. The path is taken as it is: no character in it stands for another.
    Unix(PathBuf),
    /// A TCP port: `tcp:127.0.0.1:7600`, `tcp:[::1]:7600`, `tcp:localhost:7600`. Nothing is encrypted.
    Tcp {
        /// A name or an IP address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A TCP port behind TLS: `tls:store.example.org:7600`.
    Tls {
        /// A name or an IP address.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// Whether what is sent there stays on this machine.
    pub(crate) fn is_here(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } | Self::Tls { host, .. } => {
                let bare = host.trim_start_matches('[').trim_end_matches(']');
                host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        }
    }
}

impl Address {
    /// Whether somebody who asks for the other one comes here: a name of this machine stands for its addresses.
    pub(crate) fn is_at(&self, asked: &Self) -> bool {
        let (Self::Tcp { host, port }, Self::Tcp { host: name, port: asked_port }) = (self, asked) else {
            return self == asked;
        };
        port == asked_port && (host == name || name == "localhost" && self.is_here())
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |problem: &str| Error::config("address", format!("`{text}` {problem}"));
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(bad("names no socket")) } else { Ok(Self::Unix(path.into())) };
        }
        let (tls, rest) = match (text.strip_prefix("tcp:"), text.strip_prefix("tls:")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(bad("is none of unix:PATH, tcp:HOST:PORT and tls:HOST:PORT")),
        };
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| bad("has no port"))?;
        let port = port.parse().map_err(|_| bad("has a port that is not between 1 and 65535"))?;
        // One that asks the system for a port is for servers.
        if port == 0 {
            return Err(bad("has a port that is not between 1 and 65535"));
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let known = bare.is_some_and(|bare| bare.parse::<std::net::Ipv6Addr>().is_ok());
        let name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if !known && (host.is_empty() || !host.chars().all(name)) {
            return Err(bad("has a host that is neither a name nor an IP address (IPv6 in brackets)"));
        }
        let host = host.to_owned();
        Ok(if tls { Self::Tls { host, port } } else { Self::Tcp { host, port } })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
            Self::Tls { host, port } => write!(f, "tls:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        text.parse::<Address>().map(|address| address.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_sockets_and_ports() {
        for fine in [
            "unix:/a/b.sock",
            "unix:b.sock",
            "tcp:127.0.0.1:1",
            "tcp:[::1]:65535",
            "tcp:local-host:80",
            "tls:store.example.org:1",
        ] {
            assert_eq!(parse(fine).as_deref(), Ok(fine));
        }
        for odd in ["unix:/a b%41,c#d?e=f%", "unix:///a/ü", "unix:./a\nb", "unix: "] {
            let Ok(Address::Unix(path)) = odd.parse() else { panic!("{odd}") };
            assert_eq!(path.to_str(), odd.strip_prefix("unix:"));
        }
    }

    #[test]
    fn what_is_no_address_is_named() {
        let cases = [
            ("", "is none of unix:PATH, tcp:HOST:PORT and tls:HOST:PORT"),
            ("http://localhost:80", "is none of"),
            ("127.0.0.1:80", "is none of"),
            ("unix:", "names no socket"),
            ("tcp:localhost", "has no port"),
            ("tcp:localhost:", "between 1 and 65535"),
            ("tcp:localhost:0", "between 1 and 65535"),
            ("tcp:localhost:65536", "between 1 and 65535"),
            ("tcp::80", "neither a name nor an IP address"),
            ("tcp:::1:80", "neither a name nor an IP address"),
            ("tcp:a/b:80", "neither a name nor an IP address"),
            ("tcp:user@host:80", "neither a name nor an IP address"),
        ];
        for (text, problem) in cases {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with("address `") && said.contains(problem), "{text}: {said}");
        }
    }
}
