//! Where the server is and how to talk to it: addresses, tokens, the environment, the channel.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::Endpoint;
use tonic::{Request, Status};
use tower::service_fn;

use crate::{Client, Error, RetryPolicy};

/// Names in a data directory.
const SOCKET: &str = "contextstore.sock";
const TOKEN: &str = "token";
const ADDRESSES: &str = "addresses";
/// The server's data directory if nothing says otherwise.
const DATA_DIR: &str = "contexts";
/// A token or a list of addresses that is longer is some other file.
const MAX_FILE_BYTES: u64 = 4096;

/// Measured: the size of frames is what makes large reads fast; the windows keep them from starving.
const FRAME_BYTES: u32 = 256 << 10;
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// A Unix socket: `unix:/path`.
    Unix(PathBuf),
    /// A TCP port: `tcp:127.0.0.1:7600`, `tcp:[::1]:7600`, `tcp:localhost:7600`. Nothing is encrypted.
    Tcp {
        /// A name or an IP address.
        host: String,
        /// The port.
        port: u16,
    },
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |problem: &str| Error::config("address", format!("`{text}` {problem}"));
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(bad("names no socket")) } else { Ok(Self::Unix(path.into())) };
        }
        let Some(rest) = text.strip_prefix("tcp:") else {
            return Err(bad("is neither unix:PATH nor tcp:HOST:PORT"));
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
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

/// Makes a [`Client`].
///
/// ```no_run
/// # async fn example() -> Result<(), contextstore_client::Error> {
/// use std::time::Duration;
///
/// let client = contextstore_client::Client::builder()
///     .address("tcp:127.0.0.1:7600")
///     .token_file("/run/agent/token")
///     .timeout(Duration::from_secs(5))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Builder {
    address: Option<String>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    data_dir: Option<PathBuf>,
    timeout: Option<Duration>,
    retry: RetryPolicy,
}

impl Builder {
    /// Where the server listens: `unix:PATH` or `tcp:HOST:PORT`. Without it: where that of the data directory does.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// The token for calls over TCP.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// A file with the token for calls over TCP; read once, when the client is made.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// The server's data directory, if it is on this machine. The server is at its `contextstore.sock`; or else
    /// where its `addresses` say, at the first socket, or without one at the first port with its `token`. Without a
    /// directory, `contexts`, as for the server.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// How long a call may take in all, with its repetitions; and how long a stream may be silent that should
    /// not be. Without one: 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How calls that are safe to repeat are repeated.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Takes what the environment says: `CONTEXTSTORE_ADDRESS`, `CONTEXTSTORE_TOKEN`,
    /// `CONTEXTSTORE_TOKEN_FILE`, `CONTEXTSTORE_DATA_DIR`. What is not set, or empty, changes nothing.
    pub fn env(self) -> Self {
        self.vars(|name| std::env::var_os(name))
    }

    fn vars(mut self, var: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let var = |name| var(name).filter(|value| !value.is_empty());
        // What is not Unicode is refused as an address or a token all the same.
        let text = |name| var(name).map(|value| value.to_string_lossy().into_owned());
        self.address = text("CONTEXTSTORE_ADDRESS").or(self.address);
        self.token = text("CONTEXTSTORE_TOKEN").or(self.token);
        self.token_file = var("CONTEXTSTORE_TOKEN_FILE").map(PathBuf::from).or(self.token_file);
        self.data_dir = var("CONTEXTSTORE_DATA_DIR").map(PathBuf::from).or(self.data_dir);
        self
    }

    /// Makes the client and connects it. Fails if nobody listens; see [`Builder::connect_lazy`].
    pub async fn connect(self) -> Result<Client, Error> {
        let settings = self.settings()?;
        let endpoint = settings.endpoint()?;
        let connected = match &settings.address {
            Address::Unix(path) => endpoint.connect_with_connector(unix_connector(path)).await,
            Address::Tcp { .. } => endpoint.connect().await,
        };
        let channel = connected.map_err(|error| Error::Connection {
            address: settings.address.to_string(),
            status: Status::from_error(Box::new(error)),
        })?;
        Ok(Client::new(channel, settings))
    }

    /// Makes the client, which connects when it is first used. Must be called within a tokio runtime. For a
    /// server that is started at the same time, follow it with [`Client::wait_until_ready`].
    pub fn connect_lazy(self) -> Result<Client, Error> {
        let settings = self.settings()?;
        let endpoint = settings.endpoint()?;
        let channel = match &settings.address {
            Address::Unix(path) => endpoint.connect_with_connector_lazy(unix_connector(path)),
            Address::Tcp { .. } => endpoint.connect_lazy(),
        };
        Ok(Client::new(channel, settings))
    }

    fn settings(self) -> Result<Settings, Error> {
        let timeout = self.timeout.unwrap_or(Duration::from_secs(30));
        if timeout.is_zero() {
            return Err(Error::config("timeout", "must be more than 0"));
        }
        if self.retry.attempts == 0 {
            return Err(Error::config("retry.attempts", "must be at least 1"));
        }
        let (address, data_dir) = match (&self.address, self.data_dir) {
            (Some(address), data_dir) => (address.parse()?, data_dir),
            (None, data_dir) => {
                let data_dir = data_dir.unwrap_or_else(|| DATA_DIR.into());
                (find_server(&data_dir)?, Some(data_dir))
            }
        };
        // The socket asks for no token; over TCP one that is on this machine is found by itself.
        let found = data_dir.filter(|_| matches!(address, Address::Tcp { .. })).map(|dir| dir.join(TOKEN));
        let token = match (self.token, self.token_file, found) {
            (Some(token), _, _) => Some(token),
            (None, Some(file), _) => Some(read_token("token_file", &file)?),
            (None, None, Some(file)) => Some(read_token("data_dir", &file)?),
            (None, None, None) => None,
        };
        let auth = Auth { header: token.as_deref().map(bearer).transpose()? };
        Ok(Settings { address, auth, timeout, retry: self.retry })
    }
}

impl fmt::Debug for Builder {
    /// Without the token: it is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("address", &self.address)
            .field("token_file", &self.token_file)
            .field("data_dir", &self.data_dir)
            .field("timeout", &self.timeout)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// What a client was made with.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) auth: Auth,
    pub(crate) timeout: Duration,
    pub(crate) retry: RetryPolicy,
}

impl Settings {
    fn endpoint(&self) -> Result<Endpoint, Error> {
        // Over a socket the authority is a mere word, and a path would not be a valid one.
        let uri = match &self.address {
            Address::Unix(_) => "http://localhost".to_owned(),
            Address::Tcp { host, port } => format!("http://{host}:{port}"),
        };
        let bad = |error: tonic::transport::Error| Error::config("address", error.to_string());
        let endpoint = Endpoint::from_shared(uri).map_err(bad)?;
        let endpoint =
            endpoint.user_agent(concat!("contextstore-rust/", env!("CARGO_PKG_VERSION"))).map_err(bad)?;
        Ok(endpoint
            .connect_timeout(self.timeout)
            .tcp_nodelay(true)
            .max_frame_size(FRAME_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES))
    }
}

fn unix_connector(
    path: &Path,
) -> impl tower::Service<
    http::Uri,
    Response = TokioIo<UnixStream>,
    Error = std::io::Error,
    Future: Send + Unpin + 'static,
> + Send
+ 'static {
    let path = path.to_owned();
    service_fn(move |_| {
        let path = path.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    })
}

/// Adds the token to every call.
#[derive(Clone, Default)]
pub struct Auth {
    header: Option<MetadataValue<Ascii>>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("has_token", &self.header.is_some()).finish()
    }
}

impl Interceptor for Auth {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(header) = &self.header {
            request.metadata_mut().insert("authorization", header.clone());
        }
        Ok(request)
    }
}

fn bearer(token: &str) -> Result<MetadataValue<Ascii>, Error> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::config("token", "is empty or has characters other than visible ASCII"));
    }
    let header = MetadataValue::try_from(format!("Bearer {token}"));
    let mut header = header.map_err(|error| Error::config("token", error.to_string()))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Where the server of a data directory is: at its usual socket, also if it is not there yet, unless a server that
/// does not listen there has written down where it does.
#[expect(clippy::disallowed_methods, reason = "whether it can be used is seen when it is connected to")]
fn find_server(data_dir: &Path) -> Result<Address, Error> {
    let socket = data_dir.join(SOCKET);
    if !socket.exists()
        && let Ok(listed) = read_small(&data_dir.join(ADDRESSES))
    {
        let first = |kind| listed.lines().find(|line| line.starts_with(kind));
        if let Some(address) = first("unix:").or_else(|| first("tcp:")) {
            return address.parse();
        }
    }
    Ok(Address::Unix(socket))
}

fn read_token(setting: &'static str, path: &Path) -> Result<String, Error> {
    let text = read_small(path).map_err(|error| {
        Error::config(setting, format!("has no token to read in {}: {error}", path.display()))
    })?;
    Ok(text.trim_end().to_owned())
}

/// A small file of text.
#[expect(clippy::disallowed_methods, reason = "the user names the file, and what is read is bounded")]
pub(crate) fn read_small(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::ffi::OsString;

    fn parse(text: &str) -> Result<String, String> {
        text.parse::<Address>().map(|address| address.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_sockets_and_ports() {
        for fine in
            ["unix:/a/b.sock", "unix:b.sock", "tcp:127.0.0.1:1", "tcp:[::1]:65535", "tcp:local-host:80"]
        {
            assert_eq!(parse(fine).as_deref(), Ok(fine));
        }
        assert_eq!(parse("unix:///a b").as_deref(), Ok("unix:/a b"));
    }

    #[test]
    fn what_is_no_address_is_named() {
        let cases = [
            ("", "is neither unix:PATH nor tcp:HOST:PORT"),
            ("http://localhost:80", "is neither"),
            ("127.0.0.1:80", "is neither"),
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

    #[test]
    fn the_environment_fills_in_and_empty_is_unset() {
        let var = |name: &str| match name {
            "CONTEXTSTORE_DATA_DIR" => Some(OsString::from("/data")),
            "CONTEXTSTORE_TOKEN" => Some(OsString::new()),
            _ => None,
        };
        let settings = Builder::default().vars(var).settings().unwrap();
        assert_eq!(settings.address, Address::Unix("/data/contextstore.sock".into()));
        assert!(settings.auth.header.is_none());
        let settings = Builder::default().vars(|_| None).settings().unwrap();
        assert_eq!(settings.address, Address::Unix("contexts/contextstore.sock".into()));
    }

    #[test]
    fn the_token_comes_from_where_it_is_said_to_be() {
        let dir = std::env::temp_dir().join(format!("contextstore-client-{}", std::process::id()));
        let tcp = || Builder::default().address("tcp:127.0.0.1:9");
        let missing = tcp().data_dir(&dir).settings().unwrap_err().to_string();
        assert!(missing.starts_with("data_dir has no token to read in "), "{missing}");
        let missing = tcp().token_file(dir.join("x")).settings().unwrap_err().to_string();
        assert!(missing.starts_with("token_file has no token to read in "), "{missing}");

        let bearer = |builder: Builder| builder.settings().map(|settings| settings.auth.header);
        assert!(bearer(tcp()).unwrap().is_none());
        assert_eq!(bearer(tcp().token("abc").token_file("/gone")).unwrap().unwrap(), "Bearer abc");
        for bad in ["", "a b", "a\nb", "ä"] {
            assert!(tcp().token(bad).settings().unwrap_err().to_string().starts_with("token is"), "{bad}");
        }
        assert!(!format!("{:?}", tcp().token("abc")).contains("abc"));
        assert!(!format!("{:?}", tcp().token("abc").settings().unwrap()).contains("abc"));
    }

    #[test]
    fn settings_that_do_nothing_are_refused() {
        let said = |builder: Builder| builder.settings().unwrap_err().to_string();
        assert_eq!(said(Builder::default().timeout(Duration::ZERO)), "timeout must be more than 0");
        let retry = RetryPolicy { attempts: 0, ..RetryPolicy::default() };
        assert_eq!(said(Builder::default().retry(retry)), "retry.attempts must be at least 1");
    }
}
